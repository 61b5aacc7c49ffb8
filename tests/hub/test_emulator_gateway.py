"""The gateway: what it does as S3 does, and what not."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from tests.hub.clients import BUCKET, s3, send
from tests.hub.emulator import Fault, HubEmulator

_AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=HFAKALICE/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
)
_PATH = "/s3/alice/weights/x"


def _code(call: Any, **arguments: Any) -> str:
    with pytest.raises(ClientError) as refused:
        call(Bucket="weights", **arguments)
    return str(refused.value.response["Error"]["Code"])


def test_conditions_of_a_put(hub: HubEmulator) -> None:
    client = s3(hub)
    assert _code(client.put_object, Key="x", Body=b"", IfMatch='"none"') == "NoSuchKey"
    first = client.put_object(Bucket="weights", Key="x", Body=b"1", IfNoneMatch="*")["ETag"]
    assert _code(client.put_object, Key="x", Body=b"2", IfNoneMatch="*") == "PreconditionFailed"
    second = client.put_object(Bucket="weights", Key="x", Body=b"2", IfMatch=first)["ETag"]
    assert _code(client.put_object, Key="x", Body=b"3", IfMatch=first) == "PreconditionFailed"
    assert client.head_object(Bucket="weights", Key="x")["ETag"] == second != first
    assert client.get_object(Bucket="weights", Key="x", IfMatch=first)["Body"].read() == b"2"  # not looked at
    hub.before("^PUT", lambda asked: hub.write(BUCKET, "x", b"of another"))
    assert _code(client.put_object, Key="x", Body=b"3", IfMatch=second) == "PreconditionFailed"
    assert hub.read(BUCKET, "x") == b"of another"


def test_an_upload_in_parts_has_no_conditions(hub: HubEmulator) -> None:
    client = s3(hub)
    hub.write(BUCKET, "x", b"there")
    upload = client.create_multipart_upload(Bucket="weights", Key="x", ContentType="a/b")["UploadId"]
    told = []
    for number, data in ((1, b"one "), (2, b"two")):
        answer = client.upload_part(Bucket="weights", Key="x", UploadId=upload, PartNumber=number, Body=data)
        assert answer["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
        told.append({"PartNumber": number, "ETag": answer["ETag"]})
    assert hub.read(BUCKET, "x") == b"there"
    assert [found["Key"] for found in client.list_multipart_uploads(Bucket="weights")["Uploads"]] == ["x"]
    complete = {"Key": "x", "UploadId": upload, "IfNoneMatch": "*"}
    wrong = {"Parts": [{"PartNumber": 1, "ETag": '"wrong"'}]}
    assert _code(client.complete_multipart_upload, **complete, MultipartUpload=wrong) == "InvalidPart"
    client.complete_multipart_upload(Bucket="weights", **complete, MultipartUpload={"Parts": told})
    assert hub.read(BUCKET, "x") == b"one two"
    assert client.head_object(Bucket="weights", Key="x")["ContentType"] == "a/b"
    aborted = client.create_multipart_upload(Bucket="weights", Key="y")["UploadId"]
    client.abort_multipart_upload(Bucket="weights", Key="y", UploadId=aborted)
    assert _code(client.upload_part, Key="y", UploadId=aborted, PartNumber=1, Body=b"") == "NoSuchUpload"
    source = {"Bucket": "weights", "Key": "x"}
    kept = client.create_multipart_upload(Bucket="weights", Key="y")["UploadId"]
    copy = {"Key": "y", "UploadId": kept, "PartNumber": 1, "CopySource": source}
    assert _code(client.upload_part_copy, **copy) == "NotImplemented"


def test_copies_within_a_namespace(hub: HubEmulator) -> None:
    client = s3(hub)
    hub.create("alice/other")
    hub.write("alice/other", "a b", b"1")
    source = {"Bucket": "other", "Key": "a b"}
    etag = client.head_object(**source)["ETag"]
    assert _code(client.copy_object, Key="x", CopySource=source, CopySourceIfMatch='"no"') == "PreconditionFailed"
    assert _code(client.copy_object, Key="x", CopySource=source, CopySourceIfNoneMatch=etag) == "PreconditionFailed"
    client.copy_object(Bucket="weights", Key="x", CopySource=source, CopySourceIfMatch=etag)
    assert hub.read(BUCKET, "x") == b"1"
    assert _code(client.copy_object, Key="x", CopySource={"Bucket": "none", "Key": "x"}) == "NoSuchBucket"
    assert _code(client.copy_object, Key="x", CopySource={"Bucket": "other", "Key": "x"}) == "NoSuchKey"


def test_what_is_not_kept_or_not_there(hub: HubEmulator) -> None:
    client = s3(hub)
    client.put_object(Bucket="weights", Key="x", Body=b"0123", Metadata={"writer": "me"})
    assert client.head_object(Bucket="weights", Key="x")["Metadata"] == {}
    assert client.get_object(Bucket="weights", Key="x", Range="bytes=1-2")["Body"].read() == b"12"
    assert _code(client.get_object, Key="x", Range="bytes=4-") == "InvalidRange"
    assert _code(client.get_object, Key="none") == "NoSuchKey"
    assert _code(client.list_objects) == "NotImplemented"
    assert _code(client.list_objects_v2, Delimiter="-") == "NotImplemented"
    for unfit in ("a//b", "a/", "./a", "a/../b", "a\\b"):
        assert _code(client.put_object, Key=unfit, Body=b"") == "InvalidRequest"
    client.delete_object(Bucket="weights", Key="none")
    client.delete_objects(Bucket="weights", Delete={"Objects": [{"Key": "x"}, {"Key": "none"}]})
    assert hub.paths(BUCKET) == []
    client.head_bucket(Bucket="weights")


def test_who_may_use_it(hub: HubEmulator) -> None:
    hub.create("alice/private", private=True)
    hub.write("alice/private", "x", b"")
    hub.write(BUCKET, "x", b"")

    def code(access_key: str, bucket: str, method: str = "get_object") -> str | None:
        try:
            getattr(s3(hub, access_key), method)(Bucket=bucket, Key="x")
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return None

    assert code("HFAKNOBODY", "weights") == code("HFAKALICE_EXPIRED", "weights") == "InvalidAccessKeyId"
    assert code("HFAKCAROL", "private") == code("HFAKALICE", "none") == "NoSuchBucket"
    assert code("HFAKCAROL", "weights", "put_object") == code("HFAKALICE_READS", "weights", "put_object")
    assert code("HFAKALICE_READS", "private", "delete_object") == "AccessDenied"
    assert code("HFAKCAROL", "weights") is code("HFAKALICE_READS", "private") is None
    assert send(hub, "GET", _PATH).status == 403


def test_framing_that_it_does_not_take(hub: HubEmulator, monkeypatch: pytest.MonkeyPatch) -> None:
    framed = {"Authorization": _AUTHORIZATION, "Content-Encoding": "aws-chunked", "x_amz_decoded_content_length": "1"}
    assert send(hub, "PUT", _PATH, b"1\r\n2\r\n0\r\n\r\n", **framed).status == 501
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_supported")
    assert _code(s3(hub).put_object, Key="x", Body=b"1") == "NotImplemented"
    with HubEmulator(refuse_checksums=False) as lenient:
        lenient.create(BUCKET)
        s3(lenient).put_object(Bucket="weights", Key="x", Body=b"1")
        assert lenient.read(BUCKET, "x") == b"1"
    assert hub.paths(BUCKET) == []


def test_some_clients_are_sent_elsewhere_for_bytes(hub: HubEmulator) -> None:
    hub.write(BUCKET, "x", b"1")
    for agent, status in (("Boto3/1 Botocore/1", 200), ("aws-sdk-rust/1", 200), ("rclone/1", 302)):
        assert send(hub, "GET", _PATH, Authorization=_AUTHORIZATION, User_Agent=agent).status == status


def test_faults_are_told_as_s3_does(hub: HubEmulator) -> None:
    client = s3(hub)
    hub.fault(Fault(match="^PUT /s3/", status=409), Fault(match="^PUT /s3/", status=503, do_it=True))
    assert _code(client.put_object, Key="x", Body=b"1") == "ConditionalRequestConflict"
    assert hub.paths(BUCKET) == []
    assert _code(client.put_object, Key="x", Body=b"1") == "SlowDown"
    assert hub.paths(BUCKET) == ["x"]

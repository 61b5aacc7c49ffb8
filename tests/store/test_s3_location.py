from __future__ import annotations

import pytest

from deltawire.errors import InvalidArgumentError
from deltawire.store.s3_client import S3Failure
from deltawire.store.s3_location import s3_location


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


def test_a_plain_url_is_amazons() -> None:
    location = s3_location("s3://my-bucket/some/prefix/")
    assert (location.bucket, location.prefix) == ("my-bucket", "some/prefix/")
    assert (location.endpoint_url, location.region, location.profile) == (None, None, None)
    assert location.addressing_style == "auto"
    assert not location.anon


def test_a_bucket_needs_no_prefix() -> None:
    assert s3_location("s3://my-bucket").prefix == s3_location("s3://my-bucket/").prefix == ""


def test_the_query_says_where() -> None:
    location = s3_location(
        "s3://b.c/x?endpoint_url=https://s3.example/ns&region=eu&profile=p&addressing_style=virtual&anon=true"
    )
    assert location.endpoint_url == "https://s3.example/ns"
    assert (location.region, location.profile) == ("eu", "p")
    assert location.addressing_style == "virtual"
    assert location.anon


def test_the_environment_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://general:1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "r1")
    assert s3_location("s3://bucket").endpoint_url == "http://general:1"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://special:1")
    monkeypatch.setenv("AWS_REGION", "r2")
    location = s3_location("s3://bucket")
    assert (location.endpoint_url, location.region) == ("http://special:1", "r2")
    assert location.addressing_style == "path"
    assert s3_location("s3://bucket?endpoint_url=http://own:1").endpoint_url == "http://own:1"


def test_the_gateway_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")  # Amazon's; the gateway has one of its own
    location = s3_location("s3://weights/run?endpoint_url=https://s3.hf.co/alice")
    assert (location.hub_namespace, location.region, location.addressing_style) == ("alice", "us-east-1", "path")
    assert s3_location("s3://weights/run?endpoint_url=https://S3.hf.co/alice/&region=x").region == "x"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://s3.hf.co/alice/")
    assert (s3_location("s3://weights").hub_namespace, s3_location("s3://weights").region) == ("alice", "us-east-1")
    for other in ("https://s3.example/alice", "https://xs3.hf.co/alice", "https://example/s3.hf.co"):
        location = s3_location(f"s3://weights?endpoint_url={other}")
        assert (location.hub_namespace, location.region) == (None, "eu-west-1")


@pytest.mark.parametrize(
    ("endpoint", "status", "code", "words"),
    [
        ("https://s3.hf.co/alice", 403, "InvalidAccessKeyId", ("keys of its own", "HFAK...", "/settings/tokens")),
        ("https://s3.hf.co/alice", 404, "NoSuchBucket", ("hf buckets create alice/weights",)),
        ("https://s3.hf.co", 404, "NoSuchBucket", ("https://s3.hf.co/NAMESPACE",)),
        ("https://s3.example", 403, "InvalidAccessKeyId", ("the bucket's policy",)),
        ("https://s3.example", 404, "NoSuchBucket", ("create the bucket",)),
    ],
)
def test_what_to_do_about_a_refusal(endpoint: str, status: int, code: str, words: tuple[str, ...]) -> None:
    refusal = OSError("no")
    refusal.response = {"ResponseMetadata": {"HTTPStatusCode": status}, "Error": {"Code": code}}  # type: ignore[attr-defined]
    location = s3_location(f"s3://weights/run?endpoint_url={endpoint}")
    error = S3Failure(refusal).as_error("stream.json", location)
    assert error.code == ("store_denied" if status == 403 else "store_unavailable")
    for word in words:
        assert word in error.hint


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3:///x",
        "s3://b",
        "s3://bucket#x",
        "s3://bu cket/x",
        "s3://bucket/a//b",
        "s3://bucket/../x",
        "s3://bucket/a%20b",
        "s3://bucket?secret=1",
        "s3://bucket?region=a&region=b",
        "s3://bucket?addressing_style=odd",
        "s3://bucket?endpoint_url=ftp://x",
        "s3://bucket?endpoint_url=http://",
        "s3://[bucket/x",
        "s3://bucket?endpoint_url=http://[host",
    ],
)
def test_unusable_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidArgumentError):
        s3_location(url)


@pytest.mark.parametrize("url", ["s3://AKIA:hush@bucket/x", "s3://bucket?endpoint_url=http://me:hush@host"])
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        s3_location(url)
    assert "hush" not in str(caught.value)

"""The emulator against real clients: what one writes by one face, all others read by any."""

from __future__ import annotations

import os
import random
import re
import struct
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from huggingface_hub import HfFileSystem
from huggingface_hub._buckets import BucketFile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from s3fs import S3FileSystem

from tests.hub.clients import BUCKET, api, s3, send, xet_read
from tests.hub.emulator import HubEmulator


def _files(seed: int) -> dict[str, bytes]:
    numbers = random.Random(seed)
    return {
        "empty": b"",
        "one": b"x",
        "random": numbers.randbytes(3_000_001),
        "zeros": bytes(2_500_000),
        "text": b"the same again " * 100_000,
        "floats": struct.pack("<500000f", *(numbers.gauss(0, 0.02) for _ in range(500_000))),
        "deep/er/é #?%.bin": numbers.randbytes(70_000),
    }


def test_what_the_hub_client_writes_all_read(hub: HubEmulator, tmp_path: Path) -> None:
    files = _files(1)
    client = api(hub)
    client.batch_bucket_files(BUCKET, add=[(data, path) for path, data in files.items()])
    hub_files = HfFileSystem(endpoint=hub.endpoint, token="hf_alice", skip_instance_cache=True)
    s3_client = s3(hub)
    client.download_bucket_files(BUCKET, [(path, tmp_path / str(at)) for at, path in enumerate(files)])
    for at, (path, data) in enumerate(files.items()):
        assert hub.read(BUCKET, path) == data
        assert hub_files.cat_file(f"buckets/{BUCKET}/{path}") == data
        assert (tmp_path / str(at)).read_bytes() == data
        assert s3_client.get_object(Bucket="weights", Key=path)["Body"].read() == data
        if data:
            begin, end = len(data) // 3, len(data) // 3 * 2 + 1
            assert xet_read(hub, path, begin, end) == data[begin:end]
    counts = hub.log.counts()
    assert set(counts) == {"api", "resolve", "cas", "bytes", "s3"}
    assert counts["s3"] == len(files)


def test_what_s3_writes_all_read(hub: HubEmulator, tmp_path: Path) -> None:
    files = _files(2)
    writer = S3FileSystem(
        key="HFAKALICE", secret="any", endpoint_url=hub.s3_endpoint("alice"), skip_instance_cache=True
    )
    for path, data in files.items():
        writer.pipe_file(f"weights/{path}", data)
    client = api(hub)
    client.download_bucket_files(BUCKET, [(path, tmp_path / str(at)) for at, path in enumerate(files)])
    for at, (path, data) in enumerate(files.items()):
        assert hub.read(BUCKET, path) == data
        assert (tmp_path / str(at)).read_bytes() == data
        assert writer.cat_file(f"weights/{path}") == data
        if data:
            assert writer.cat_file(f"weights/{path}", start=0, end=10) == data[:10]
            begin, end = len(data) // 3, len(data) // 3 * 2 + 1
            assert xet_read(hub, path, begin, end) == data[begin:end]
    assert sorted(writer.find("weights")) == [f"weights/{path}" for path in hub.paths(BUCKET)]


_PATHS = st.sampled_from(["a", "a.b", "a/b", "a/c/d", "b"])
_DATA = st.binary(max_size=40)
_STEPS = st.one_of(
    st.tuples(st.just("hub"), _PATHS, _DATA),
    st.tuples(st.just("s3"), _PATHS, _DATA),
    st.tuples(st.just("outside"), _PATHS, _DATA),
    st.tuples(st.just("create"), _PATHS, _DATA),
    st.tuples(st.just("hub copy"), _PATHS, _PATHS),
    st.tuples(st.just("s3 copy"), _PATHS, _PATHS),
    st.tuples(st.sampled_from(["hub delete", "s3 delete"]), _PATHS, st.none()),
)


@given(steps=st.lists(_STEPS, max_size=8))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_all_faces_show_one_bucket(hub: HubEmulator, steps: list[tuple[str, str, bytes | str | None]]) -> None:
    """A dictionary is the model."""
    hub_client, s3_client = api(hub), s3(hub)
    for path in hub.paths(BUCKET):
        hub.delete(BUCKET, path)
    model: dict[str, bytes] = {}
    for verb, path, what in steps:
        if isinstance(what, bytes):
            if verb == "hub":
                hub_client.batch_bucket_files(BUCKET, add=[(what, path)])
            elif verb == "s3":
                s3_client.put_object(Bucket="weights", Key=path, Body=what)
            elif verb == "outside":
                hub.write(BUCKET, path, what)
            elif path in model:
                with pytest.raises(s3_client.exceptions.ClientError, match="PreconditionFailed"):
                    s3_client.put_object(Bucket="weights", Key=path, Body=what, IfNoneMatch="*")
                continue
            else:
                s3_client.put_object(Bucket="weights", Key=path, Body=what, IfNoneMatch="*")
            model[path] = what
        elif what is None:
            if verb == "s3 delete":
                s3_client.delete_object(Bucket="weights", Key=path)
            elif path in model:
                hub_client.batch_bucket_files(BUCKET, delete=[path])
            model.pop(path, None)
        elif what in model:
            if verb == "hub copy":
                (found,) = hub_client.get_bucket_paths_info(BUCKET, [what])
                hub_client.batch_bucket_files(BUCKET, copy=[("bucket", BUCKET, found.xet_hash, path)])
            else:
                s3_client.copy_object(Bucket="weights", Key=path, CopySource={"Bucket": "weights", "Key": what})
            model[path] = model[what]
    assert {path: hub.read(BUCKET, path) for path in hub.paths(BUCKET)} == model
    listed = {found.path: found.size for found in hub_client.list_bucket_tree(BUCKET) if isinstance(found, BucketFile)}
    objects = s3_client.list_objects_v2(Bucket="weights").get("Contents", [])
    assert listed == {found["Key"]: found["Size"] for found in objects}
    assert listed == {path: len(data) for path, data in model.items()}
    info = hub_client.bucket_info(BUCKET)
    assert (info.total_files, info.size) == (len(model), sum(map(len, model.values())))


def _fit(path: str) -> bool:
    return not (path.startswith(("/", "./")) or path.endswith(("/", "..")) or "//" in path or "../" in path)


@given(
    paths=st.sets(st.text("ab/.", min_size=1, max_size=6).filter(_fit), max_size=12),
    prefix=st.text("ab/", max_size=2),
    size=st.integers(1, 5),
)
@settings(max_examples=25, deadline=None)
def test_pages_of_listings(paths: set[str], prefix: str, size: int) -> None:
    """However small pages are, all is listed once; both faces list directories."""
    with HubEmulator(page_size=size) as hub:
        hub.create(BUCKET)
        for path in paths:
            hub.write(BUCKET, path, b"")
        found = [entry.path for entry in api(hub).list_bucket_tree(BUCKET, prefix or None, recursive=True)]
        assert found == sorted(path for path in paths if path.startswith(prefix))
        top = {entry.path.removesuffix("/") for entry in api(hub).list_bucket_tree(BUCKET, recursive=False)}
        assert top == {path.partition("/")[0] for path in paths}
        pages = list(s3(hub).get_paginator("list_objects_v2").paginate(Bucket="weights", Prefix=prefix, Delimiter="/"))
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
        directories = [entry["Prefix"] for page in pages for entry in page.get("CommonPrefixes", [])]
        below = [path for path in sorted(paths) if path.startswith(prefix)]
        assert keys == [path for path in below if "/" not in path[len(prefix) :]]
        assert directories == sorted(
            {path[: path.index("/", len(prefix)) + 1] for path in below if "/" in path[len(prefix) :]}
        )


def test_many_small_files_in_one_batch(hub: HubEmulator) -> None:
    files = {f"layer/{at:04}": at.to_bytes(2, "little") * 20 for at in range(400)}
    api(hub).batch_bucket_files(BUCKET, add=[(data, path) for path, data in files.items()])
    assert {path: hub.read(BUCKET, path) for path in hub.paths(BUCKET)} == files
    assert sum(noted.path.endswith("/batch") for noted in hub.log.all()) == 1


_UPLOAD = """
import random, sys
from huggingface_hub import batch_bucket_files
data = random.Random(3).randbytes(4_000_000)
batch_bucket_files("alice/weights", add=[(data, sys.argv[1])])
"""


def _uploader(hub: HubEmulator, path: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _UPLOAD, path], env={**os.environ, **hub.environment()}, stderr=subprocess.DEVNULL
    )


def _xorb_bytes(hub: HubEmulator) -> int:
    return sum(noted.received for noted in hub.log.all() if "/v1/xorbs/" in noted.path)


def test_content_is_sent_once_by_a_client_and_found_by_another(hub: HubEmulator) -> None:
    data = random.Random(3).randbytes(4_000_000)
    client = api(hub)
    client.batch_bucket_files(BUCKET, add=[(data, "first")])
    assert _xorb_bytes(hub) >= len(data)
    hub.log.clear()
    client.batch_bucket_files(BUCKET, add=[(data[:2_000_000] + b"inserted" + data[2_000_000:], "second")])
    assert 0 < _xorb_bytes(hub) < 400_000
    hub.log.clear()
    assert _uploader(hub, "third").wait(60) == 0
    found = [noted for noted in hub.log.all() if "/v1/chunks/" in noted.path and noted.status == 200]
    assert found, "the other client has a cache of its own, and asks for the first chunk of the file"
    assert hub.read(BUCKET, "third") == data


def test_several_processes_write_at_once(hub: HubEmulator) -> None:
    running = [_uploader(hub, f"from-{at}") for at in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    data = random.Random(3).randbytes(4_000_000)
    assert all(hub.read(BUCKET, path) == data for path in ("from-0", "from-1", "from-2"))


def test_content_without_a_name_is_forgotten_when_it_is_collected(hub: HubEmulator) -> None:
    client = api(hub)
    client.batch_bucket_files(BUCKET, add=[(b"kept", "kept"), (b"gone", "gone")])
    (gone,) = client.get_bucket_paths_info(BUCKET, ["gone"])
    client.batch_bucket_files(BUCKET, delete=["gone"])
    client.batch_bucket_files(BUCKET, copy=[("bucket", BUCKET, gone.xet_hash, "again")])
    assert hub.read(BUCKET, "again") == b"gone"
    hub.delete(BUCKET, "again")
    hub.collect()
    with pytest.raises(Exception, match="Xet hash not found"):
        client.batch_bucket_files(BUCKET, copy=[("bucket", BUCKET, gone.xet_hash, "again")])
    assert hub.read(BUCKET, "kept") == b"kept"


def test_bytes_are_served_elsewhere_and_to_nobody_with_a_token(hub: HubEmulator) -> None:
    hub.write(BUCKET, "x", b"0123456789")
    found = send(hub, "GET", f"/buckets/{BUCKET}/resolve/x")
    assert found.status == 302
    assert found.headers["location"].startswith("http://localhost:")
    with urllib.request.urlopen(
        urllib.request.Request(found.headers["location"], headers={"Range": "bytes=-3"})
    ) as answer:
        assert (answer.status, answer.read(), answer.headers["Content-Range"]) == (206, b"789", "bytes 7-9/10")
    path = found.headers["location"].partition(f":{hub.port}")[2]
    assert send(hub, "GET", path, Authorization="Bearer hf_alice").status == 400
    assert send(hub, "GET", path, Range="bytes=10-").status == 416


def test_as_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "tests.hub.emulator", "--bucket", BUCKET]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        endpoint = process.stdout.readline().strip()

        def post(route: str, body: bytes = b"") -> None:
            with urllib.request.urlopen(f"{endpoint}/_emulator/{route}", data=body) as answer:
                assert answer.status == 200

        try:
            url = f"{endpoint}/api/buckets/{BUCKET}"
            post("fault", b'{"match": "GET .*weights$", "status": 503, "times": 1}')
            with pytest.raises(urllib.error.HTTPError, match="503"):
                urllib.request.urlopen(url)
            with urllib.request.urlopen(url) as answer:
                assert answer.status == 200
            with urllib.request.urlopen(f"{endpoint}/_emulator/counts") as answer:
                assert answer.read() == b'{"api": 2}'
            with pytest.raises(urllib.error.HTTPError, match="400"):
                post("fault", b'{"times": "often"}')
        finally:
            process.terminate()
        assert process.wait(10) == 0


def test_the_example_in_its_readme_runs() -> None:
    text = (Path(__file__).parent / "emulator" / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})

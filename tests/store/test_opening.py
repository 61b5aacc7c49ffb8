from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deltawire.errors import InvalidArgumentError, MissingDependencyError
from deltawire.store import FsspecStore, LocalStore, MemoryStore, S3Store, Store, open_store
from deltawire.store import opening as opening_module


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("memory://bucket/prefix", MemoryStore),
        ("s3://bucket/prefix", S3Store),
        ("s3a://bucket/prefix", S3Store),
        ("S3://bucket/prefix", S3Store),
        ("local:///somewhere", FsspecStore),
        ("relative/path", LocalStore),
        ("/absolute/path", LocalStore),
        ("file:///absolute/path", LocalStore),
        (Path("/absolute/path"), LocalStore),
    ],
)
def test_a_url_chooses_the_binding(url: str | Path, kind: type[Store]) -> None:
    assert type(open_store(url)) is kind


def test_paths_and_file_urls_are_the_same_place(tmp_path: Path) -> None:
    folder = tmp_path / "with space & ünïcode"
    open_store(folder).put("x", b"1", mode="create")
    for url in (str(folder), open_store(folder).url, f"file://localhost{folder}"):
        assert open_store(url).get("x", max_bytes=1).data == b"1"


def test_a_store_opens_again_from_its_url(tmp_path: Path) -> None:
    for url in (str(tmp_path), "memory://again/x", "s3://bucket/x?region=eu-west-1", f"local://{tmp_path}"):
        store = open_store(url)
        assert open_store(store.url).url == store.url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nothing-knows-this://x",
        "simplecache::s3://bucket/x",
        "simplecache::/x",
        "file://elsewhere/x",
        "file:///x?y=z",
        "memory://",
        "s3://",
        "s3:///key",
        "s3://[x",
        "s3://bucket/x?endpoint_url=http://[x",
        "s3://bucket/x?endpoint_url=http://x:y",
        "file://[x",
        "hf://[x",
        "hf://buckets/a/b?endpoint=http://[x",
        "hf://buckets/a/b?endpoint=http://x:99999",
        "hf://buckets/a/b?endpoint=http://x%23y",
    ],
)
def test_what_cannot_be_opened_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgumentError):
        open_store(url)


def test_a_scheme_whose_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(MissingDependencyError):
        opening_module.open_store("gs://bucket/x")


def test_importing_the_package_loads_no_client() -> None:
    _in_a_fresh_interpreter(
        "import sys, deltawire.store\n"
        "from deltawire.store import MemoryStore, open_store\n"
        "assert open_store('memory://x') and open_store('/x')\n"
        "loaded = {'fsspec', 's3fs', 'botocore', 'aiohttp'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )


def test_s3_without_its_package_says_what_to_install() -> None:
    _in_a_fresh_interpreter(
        "import sys\n"
        "sys.modules['s3fs'] = None\n"
        "from deltawire.errors import MissingDependencyError\n"
        "from deltawire.store import open_store\n"
        "try:\n"
        "    open_store('s3://bucket/x')\n"
        "except MissingDependencyError as error:\n"
        "    assert 'deltawire[s3]' in str(error)\n"
        "else:\n"
        "    raise SystemExit('opened')\n"
    )


def _in_a_fresh_interpreter(program: str) -> None:
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 0, finished.stderr

"""Every object of a stream cut, flipped, exchanged and removed: an error of ours, and a target as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltawire.errors import CODES
from deltawire.format import keys
from tests.hostile.stream import KINDS, NEWEST, Case, Stream, honest, survive

KEYS = sorted(honest().objects)
FOLDER = "hostile"
any_key = st.sampled_from(range(len(KEYS))).map(KEYS.__getitem__)
kinds = st.sampled_from(KINDS[:3])
held = st.sampled_from([None, 0, 1, NEWEST - 1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp(FOLDER)


def kind_of(key: str) -> str:
    return key.split("/", maxsplit=1)[0] + "/" + key.rsplit("/", 1)[-1].split(".", 1)[-1]


# One of each kind of object for the slow target.
SOME_KEYS = sorted({kind_of(key): key for key in KEYS}.values())


def test_the_honest_stream_is_followed(folder: Path) -> None:
    for kind in KINDS:
        for start in (None, 0, NEWEST - 1):
            assert survive(honest(), kind, start, folder) is None


@pytest.mark.parametrize("key", KEYS, ids=KEYS.index)
def test_truncated(key: str, folder: Path) -> None:
    whole = honest().objects[key]
    cuts = {0, 1, 7, 8, 9, len(whole) // 3, len(whole) // 2, len(whole) - 8, len(whole) - 1}
    for number, cut in enumerate(sorted(cut for cut in cuts if 0 <= cut < len(whole))):
        stream = honest().damaged(key, whole[:cut])
        survive(stream, KINDS[number % 3], (None, 0, 2)[number % 3], folder)


@pytest.mark.parametrize("key", KEYS, ids=KEYS.index)
def test_removed(key: str, folder: Path) -> None:
    for number, start in enumerate((None, 0, 1, 2)):
        survive(honest().damaged(key, None), KINDS[number % 3], start, folder)


@pytest.mark.parametrize("key", KEYS, ids=KEYS.index)
def test_longer(key: str, folder: Path) -> None:
    for number, more in enumerate((b" ", b"\0" * 8, honest().objects[key])):
        survive(honest().damaged(key, honest().objects[key] + more), KINDS[number], (None, 0, 2)[number], folder)


@settings(max_examples=250)
@given(key=any_key, kind=kinds, start=held, data=st.data())
def test_flipped(folder: Path, key: str, kind: str, start: int | None, data: st.DataObject) -> None:
    stored = bytearray(honest().objects[key])
    for _ in range(data.draw(st.integers(1, 3))):
        stored[data.draw(st.integers(0, len(stored) - 1))] ^= data.draw(st.integers(1, 255))
    survive(honest().damaged(key, bytes(stored)), kind, start, folder)


@settings(max_examples=150)
@given(key=any_key, other=any_key, kind=kinds, start=held)
def test_exchanged(folder: Path, key: str, other: str, kind: str, start: int | None) -> None:
    survive(honest().damaged(key, honest().objects[other]), kind, start, folder)


@settings(max_examples=25)
@given(key=st.sampled_from(SOME_KEYS), start=held, data=st.data())
def test_directories(folder: Path, key: str, start: int | None, data: st.DataObject) -> None:
    stored = bytearray(honest().objects[key])
    how = data.draw(st.sampled_from(("cut", "flip", "remove")))
    if how == "flip":
        stored[data.draw(st.integers(0, len(stored) - 1))] ^= data.draw(st.integers(1, 255))
    elif how == "cut":
        del stored[data.draw(st.integers(0, len(stored) - 1)) :]
    survive(honest().damaged(key, None if how == "remove" else bytes(stored)), "directory", start, folder)


def part_of(version: int) -> str:
    return str(honest().record(keys.version_key(version))["delta"]["parts"][0]["key"])


def shard_of(version: int) -> str:
    return str(honest().record(keys.version_key(version))["snapshot"]["shards"][0]["key"])


def flip(key: str, at: int) -> Stream:
    data = bytearray(honest().objects[key])
    data[at] ^= 1
    return honest().damaged(key, bytes(data))


PART = part_of(NEWEST)
BATCH = honest().record(keys.version_key(NEWEST))["delta"]["parts"][0]["batches"][0]


@pytest.mark.parametrize(
    ("stream", "start", "code"),
    [
        (honest().damaged(keys.STREAM, None), None, "stream_not_found"),
        (honest().damaged(keys.STREAM, b"{"), None, "malformed_record"),
        (honest().damaged(keys.HEAD, None), None, None),
        (honest().damaged(keys.HEAD, b"{"), None, None),
        (honest().damaged(keys.HEAD, b"\xff" * 100), None, None),
        (honest().damaged(keys.version_key(2), None), 1, None),  # to this reader nothing new is there
        (honest().damaged(keys.version_key(2), None), None, "path_lost"),
        (honest().damaged(keys.version_key(2), b"{}"), 1, "malformed_record"),
        (honest().damaged(keys.version_key(2), honest().objects[keys.version_key(1)]), 1, "broken_chain"),
        (honest().damaged(keys.anchor_key(2), None), None, None),  # the snapshot and all deltas lead there too
        (honest().damaged(keys.anchor_key(2), b"{}"), None, None),
        (honest().damaged(PART, None), 2, "missing_object"),
        (honest().damaged(PART, honest().objects[PART][:-1]), 2, None),  # the footer is not needed
        (honest().damaged(PART, honest().objects[PART][: BATCH["offset"] + BATCH["bytes"] - 1]), 2, "size_mismatch"),
        (flip(PART, BATCH["offset"] + 20), 2, "digest_mismatch"),
        (honest().damaged(PART, honest().objects[part_of(1)]), 2, None),
        (flip(shard_of(0), 20), None, None),  # an anchor is taken instead
        (
            flip(str(honest().record(keys.anchor_key(2))["snapshot"]["shards"][0]["key"]), 20),
            None,
            None,
        ),  # or the other
    ],
)
def test_codes(stream: Stream, start: int | None, code: str | None, folder: Path) -> None:
    found = survive(stream, "own", start, folder)
    if code is not None or found is None:
        assert found == code
    else:
        assert found in CODES


def test_a_version_that_is_there_alone(folder: Path) -> None:
    # Only the newest record and nothing it follows from.
    kept = {keys.STREAM, keys.version_key(NEWEST)}
    stream = Stream({key: data for key, data in honest().objects.items() if key in kept})
    for start, expected in ((None, "path_lost"), (0, None), (2, "missing_object")):  # to the second nothing is new
        assert Case("own", start, folder).follow(stream.store()) == expected

"""Verification finds every kind of planted damage, says where, and invents none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from deltawire import AnchorPolicy, Publisher
from deltawire.errors import DeadlineExceededError, StreamNotFoundError
from deltawire.inspecting.verification import Verified, verify_stream
from deltawire.store import open_store
from tests.checkpoints import write_steps

VERSIONS = 7
ANCHOR = 3


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream of seven versions with an anchor of version 3; the last version is a rebase."""
    folder = tmp_path_factory.mktemp("verification")
    paths = write_steps(folder, VERSIONS - 1)
    stream = folder / "stream"
    with Publisher(stream, anchors=AnchorPolicy(every=ANCHOR, outweigh=None)) as publisher:
        for path in paths:
            publisher.publish(path)
            publisher.wait_for_anchor()
        (paths[0] / "extra.safetensors").write_bytes(
            _shard(b'{"z":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}', b"ab")
        )
        publisher.publish(paths[0])
    assert sorted(path.stem for path in (stream / "anchors").glob("*.json")) == [f"{ANCHOR:020}"]
    return stream


def _shard(header: bytes, data: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header + data


@pytest.fixture
def stream(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "stream"))


def verify(stream: Path, *, deep: bool = False) -> Verified:
    return verify_stream(open_store(stream), deep=deep)


def codes(result: Verified) -> set[str]:
    """Code and kind of object of each finding."""
    return {f"{finding.code} {finding.key.split('/')[0]}" for finding in result.findings}


def version_path(stream: Path, number: int) -> Path:
    return stream / f"versions/{number:020}.json"


def part_path(stream: Path, number: int) -> Path:
    key: str = json.loads(version_path(stream, number).read_bytes())["delta"]["parts"][0]["key"]
    return stream / key


def anchor_path(stream: Path) -> Path:
    return stream / f"anchors/{ANCHOR:020}.json"


def anchor_record(stream: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(anchor_path(stream).read_bytes())
    return found


def shard_path(stream: Path) -> Path:
    return stream / str(anchor_record(stream)["snapshot"]["shards"][0]["key"])


def update(path: Path, **members: object) -> None:
    """Give a record other members."""
    path.write_text(json.dumps(json.loads(path.read_bytes()) | members))


def move(path: Path, to: Path) -> None:
    path.replace(to)


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def flip(path: Path, place: int = -100) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)


@pytest.mark.parametrize("deep", [False, True])
def test_a_sound_stream_has_no_findings(stream: Path, deep: bool) -> None:
    result = verify(stream, deep=deep)
    assert result.findings == []
    assert result.notes == []
    assert (result.versions, result.anchors) == (VERSIONS, 1)
    assert result.states == (VERSIONS + 1 if deep else 0)
    # five parts; the index and shards of three snapshots with a config each, and the config that a delta changed
    assert result.objects == 5 + 3 * 3 + 1
    assert result.bytes > 3 * 8000


Damage = Callable[[Path], object]
ZERO = "sha256:" + "0" * 64

DAMAGE: dict[str, tuple[Damage, str]] = {
    "truncated part": (lambda s: shorten(part_path(s, 2)), "size_mismatch data"),
    "longer part": (lambda s: lengthen(part_path(s, 2)), "size_mismatch data"),
    "flipped bit in a part": (lambda s: flip(part_path(s, 2)), "digest_mismatch data"),
    "flipped bit in a batch": (lambda s: flip(part_path(s, 2), 1100), "digest_mismatch data"),
    "missing part": (lambda s: part_path(s, 4).unlink(), "missing_object data"),
    "flipped bit in a shard": (lambda s: flip(shard_path(s)), "digest_mismatch data"),
    "flipped bit in a shard's header": (lambda s: flip(shard_path(s), 30), "digest_mismatch data"),
    "missing shard": (lambda s: shard_path(s).unlink(), "missing_object data"),
    "missing index": (lambda s: next((s / "data").rglob("*.index.json")).unlink(), "missing_object data"),
    "flipped bit in a file": (lambda s: flip(next(s.glob("data/*/files/*")), 3), "digest_mismatch data"),
    "flipped bit in a table": (lambda s: flip(next(s.glob("data/*/tensors/table.json"))), "digest_mismatch data"),
    "missing table": (lambda s: next(s.glob("data/*/tensors/table.json")).unlink(), "missing_object data"),
    "missing version": (lambda s: version_path(s, 2).unlink(), "missing_object versions"),
    "edited record": (lambda s: update(version_path(s, 2), metadata={"a": 1}), "broken_chain versions"),
    "edited state digest": (lambda s: update(version_path(s, 5), state_digest="0" * 16), "broken_chain versions"),
    "record in another's place": (lambda s: move(version_path(s, 1), version_path(s, 2)), "broken_chain versions"),
    "no JSON": (lambda s: version_path(s, 2).write_text("{"), "malformed_record versions"),
    "no record": (lambda s: version_path(s, 2).write_text("{}"), "malformed_record versions"),
    "record of another stream": (lambda s: update(version_path(s, 6), stream_id=OTHER), "wrong_stream versions"),
    "later protocol": (lambda s: update(version_path(s, 6), protocol_version="7.0"), "unsupported_protocol versions"),
    "anchor of another record": (lambda s: update(anchor_path(s), version_digest=ZERO), "broken_chain anchors"),
    "anchor of nothing": (lambda s: move(anchor_path(s), s / f"anchors/{77:020}.json"), "broken_chain anchors"),
    "broken anchor record": (lambda s: anchor_path(s).write_text("[]"), "malformed_record anchors"),
    "broken stream record": (lambda s: (s / "stream.json").write_text("{}"), "malformed_record stream.json"),
}
OTHER = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize("name", DAMAGE)
def test_planted_damage_is_found(stream: Path, name: str) -> None:
    damage, expected = DAMAGE[name]
    damage(stream)
    assert expected in codes(verify(stream))
    assert expected in codes(verify(stream, deep=True))


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_damage_to_a_part_is_found_once_and_only_there(stream: Path, number: int) -> None:
    part = part_path(stream, number)
    flip(part)
    [finding] = verify(stream).findings
    assert (finding.code, finding.key) == ("digest_mismatch", str(part.relative_to(stream)))


def test_deep_names_the_versions_that_cannot_be_rebuilt(stream: Path) -> None:
    part_path(stream, 1).unlink()
    result = verify(stream, deep=True)
    assert [finding.key for finding in result.findings][1:] == [f"versions/{1:020}.json"]
    # 1 and 2 are out of reach; the replay begins again at the anchor of 3
    assert result.states == VERSIONS + 1 - 2


def test_versions_without_a_way_are_reported_together(stream: Path) -> None:
    version_path(stream, 0).unlink()
    lost = [finding for finding in verify(stream).findings if finding.code == "path_lost"]
    assert [(finding.key, finding.message.rsplit(" leads to ")[1]) for finding in lost] == [
        (f"versions/{1:020}.json", "versions 1 to 2")
    ]


def test_only_deep_sees_a_shard_that_lies_in_agreement_with_its_record(stream: Path) -> None:
    path = shard_path(stream)
    flip(path, -3)
    record = anchor_record(stream)
    record["snapshot"]["shards"][0]["digest"] = "sha256:" + sha256(path.read_bytes()).hexdigest()
    anchor_path(stream).write_text(json.dumps(record))
    assert verify(stream).sound
    assert codes(verify(stream, deep=True)) == {"state_mismatch anchors"}


@pytest.mark.parametrize(
    ("damage", "note"),
    [
        (lambda s: (s / "head.json").write_text("{"), "of no use"),
        (lambda s: update(s / "head.json", version=1), "stale"),
        (lambda s: (s / "leases/writer.json").write_bytes(b"{}"), "keeps every producer out"),
        (lambda s: (s / "data/stray").mkdir() or (s / "data/stray/part-00000.arrow").write_bytes(b"123"), "1 object"),
    ],
)
def test_what_breaks_nothing_is_a_note(stream: Path, damage: Callable[[Path], object], note: str) -> None:
    damage(stream)
    result = verify(stream)
    assert result.sound
    [found] = result.notes
    assert note in found


def test_a_missing_hint_is_not_even_a_note(stream: Path) -> None:
    (stream / "head.json").unlink()
    assert verify(stream).notes == []


def test_no_stream(tmp_path: Path) -> None:
    with pytest.raises(StreamNotFoundError):
        verify(tmp_path)


def test_deadline(stream: Path) -> None:
    with pytest.raises(DeadlineExceededError):
        verify_stream(open_store(stream), timeout=0)


def test_progress_counts_every_byte(stream: Path) -> None:
    seen: list[int] = []
    result = verify_stream(open_store(stream), advance=seen.append)
    assert sum(seen) == result.bytes

"""Patch files: what leads from one checkpoint to another, and what must never happen on the way."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltawire.errors import (
    DeltawireError,
    InvalidStateError,
    MalformedRecordError,
    MalformedRowError,
    MissingObjectError,
    SizeMismatchError,
    TargetMismatchError,
    UnsupportedFeatureError,
    UnsupportedProtocolError,
    WrongBaseError,
)
from deltawire.patches.applying import apply_patch
from deltawire.patches.comparing import compare
from deltawire.patches.writing import write_patch
from tests.checkpoints import read_checkpoint, read_shard, steps, write_shard, write_steps

WIDTHS = {"BF16": 2, "F16": 2, "F32": 4, "F64": 8, "F8_E4M3": 1, "F8_E8M0": 1, "BOOL": 1, "I64": 8, "U16": 2, "C64": 8}
# -0.0, infinities and NaN payloads of each width: patterns, not numbers
SPECIAL = {
    1: [0x00, 0x80, 0x7F, 0xFF],
    2: [0x0000, 0x8000, 0x7F80, 0x7FC1, 0xFFFF],
    4: [0x00000000, 0x80000000, 0x7FC00001, 0xFFFFFFFF],
    8: [0, 1 << 63, 0x7FF8000000000001, (1 << 64) - 1],
}


@st.composite
def pairs(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two states with the same tensors, of which some elements differ, often by special patterns."""
    old: dict[str, Any] = {}
    new: dict[str, Any] = {}
    for index in range(draw(st.integers(1, 4))):
        dtype = draw(st.sampled_from(sorted(WIDTHS)))
        width = WIDTHS[dtype]
        shape = draw(st.sampled_from([(), (0,), (1,), (7,), (3, 5), (2, 3, 40)]))
        count = int(np.prod(shape, dtype=int))
        elements = st.one_of(st.sampled_from(SPECIAL[width]), st.integers(0, (1 << 8 * width) - 1))
        before = [draw(elements) for _ in range(min(count, 8))] * (count // 8 + 1)
        after = list(before[:count])
        for place in draw(st.lists(st.integers(0, max(count - 1, 0)), max_size=6)):
            if count:
                after[place] = draw(elements)
        for state, values in ((old, before[:count]), (new, after)):
            data = np.array(values, f"<u{width}").tobytes()
            state[f"tensor.{index}"] = (dtype, shape, data)
    return old, new


def count_different(width: int, old: bytes, new: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(old, f"<u{width}") != np.frombuffer(new, f"<u{width}")))


@given(pairs())
@settings(max_examples=40, deadline=None)
def test_round_trip(states: tuple[dict[str, Any], dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, state in zip((folder / "a.safetensors", folder / "b.safetensors"), states, strict=True):
            write_shard(path, state)
        written = write_patch(folder / "a.safetensors", folder / "b.safetensors", folder / "p")
        apply_patch(folder / "a.safetensors", folder / "p", folder / "out")
        assert read_shard(folder / "out" / "a.safetensors") == states[1]
        changed = {
            name: count_different(WIDTHS[dtype], old, states[1][name][2]) for name, (dtype, _, old) in states[0].items()
        }
        assert {c.name: c.changed for c in written.comparison.changes} == {n: c for n, c in changed.items() if c}
        assert compare(folder / "a.safetensors", folder / "b.safetensors").changes == written.comparison.changes


@pytest.fixture
def ab(tmp_path: Path) -> tuple[Path, Path]:
    """Two checkpoint directories that differ in elements and in config.json."""
    paths = write_steps(tmp_path, 3)
    return paths[0], paths[2]


def test_same_checkpoints_make_the_same_bytes(ab: tuple[Path, Path], tmp_path: Path) -> None:
    write_patch(*ab, tmp_path / "p1")
    write_patch(*ab, tmp_path / "p2")
    assert (tmp_path / "p1").read_bytes() == (tmp_path / "p2").read_bytes()


def test_patch_is_small_and_has_the_documented_members(ab: tuple[Path, Path], tmp_path: Path) -> None:
    written = write_patch(*ab, tmp_path / "p", metadata={"step": 2})
    with zipfile.ZipFile(tmp_path / "p") as file:
        assert file.namelist() == ["part-00000.arrow", "tensors.json", "files/config.json", "patch.json"]
        assert all(info.compress_type == zipfile.ZIP_STORED for info in file.infolist())
        record = json.loads(file.read("patch.json"))
    assert record["kind"] == "patch"
    assert record["metadata"] == {"step": 2}
    assert written.bytes == (tmp_path / "p").stat().st_size < 8000


def test_no_difference_still_makes_a_patch(ab: tuple[Path, Path], tmp_path: Path) -> None:
    written = write_patch(ab[0], ab[0], tmp_path / "p")
    assert written.comparison.same
    apply_patch(ab[0], tmp_path / "p", tmp_path / "out")
    assert read_checkpoint(tmp_path / "out") == read_checkpoint(ab[0])


def test_files_follow(ab: tuple[Path, Path], tmp_path: Path) -> None:
    a, b = ab
    (a / "merges.txt").write_text("only in a")
    (b / "vocab.json").write_text("{}")
    (a / "tokenizer.json").write_text("{}")
    (b / "tokenizer.json").write_text("{}")
    write_patch(a, b, tmp_path / "p")
    done = apply_patch(a, tmp_path / "p", tmp_path / "out")
    assert done.files == ("config.json", "model.safetensors", "tokenizer.json", "vocab.json")
    for name in ("config.json", "tokenizer.json", "vocab.json"):
        assert (tmp_path / "out" / name).read_bytes() == (b / name).read_bytes()
    with zipfile.ZipFile(tmp_path / "p") as file:
        assert "files/tokenizer.json" not in file.namelist()


def test_shards_keep_their_names_and_lose_stale_digests(tmp_path: Path) -> None:
    old, new = steps(2)
    a, b = tmp_path / "a", tmp_path / "b"
    a.mkdir()
    names = list(old)
    shards = {"one.safetensors": names[:1], "two.safetensors": names[1:]}
    for file, held in shards.items():
        metadata = {"format": "pt", "deltawire.digests": json.dumps(dict.fromkeys(held, "0" * 16))}
        write_shard(a / file, {name: old[name] for name in held}, metadata)
    index = {"weight_map": {name: file for file, held in shards.items() for name in held}}
    (a / "model.safetensors.index.json").write_text(json.dumps(index))
    (a / "other.safetensors").write_bytes(b"named by no index")
    b.mkdir()
    write_shard(b / "model.safetensors", dict(reversed(new.items())))
    write_patch(a, b, tmp_path / "p")
    done = apply_patch(a, tmp_path / "p", tmp_path / "out")
    assert done.files == ("model.safetensors.index.json", "one.safetensors", "two.safetensors")
    assert read_checkpoint(tmp_path / "out") == new
    for file in shards:
        raw = (tmp_path / "out" / file).read_bytes()
        assert b"deltawire.digests" not in raw
        assert b'"format":"pt"' in raw


def test_other_tensors_are_shown_and_refused(tmp_path: Path) -> None:
    state = steps(1)[0]
    other = dict(state)
    other["layers.0.norm"] = ("F32", (8, 8), state["layers.0.norm"][2])
    other["new"] = ("U8", (3,), b"abc")
    del other["positions"]
    write_shard(tmp_path / "a.safetensors", state)
    write_shard(tmp_path / "b.safetensors", other)
    found = compare(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    assert [item.name for item in found.added] == ["new"]
    assert [item.name for item in found.removed] == ["positions"]
    assert [(item.name, item.old_shape, item.new_shape) for item in found.retyped] == [("layers.0.norm", (64,), (8, 8))]
    assert found.tensors == 1
    assert not found.same
    with pytest.raises(InvalidStateError, match="'new'"):
        write_patch(tmp_path / "a.safetensors", tmp_path / "b.safetensors", tmp_path / "p")
    assert not (tmp_path / "p").exists()


@pytest.fixture
def patch(ab: tuple[Path, Path], tmp_path: Path) -> Path:
    write_patch(*ab, tmp_path / "p")
    return tmp_path / "p"


def refused(a: Path, patch: Path, kind: type[DeltawireError], match: str | None = None) -> None:
    """Applying must fail with this error, and leave nothing behind."""
    before = sorted(a.parent.iterdir())
    with pytest.raises(kind, match=match) as caught:
        apply_patch(a, patch, a.parent / "made" / "out")
    assert type(caught.value) is kind
    assert sorted(a.parent.iterdir()) == before


@pytest.mark.parametrize("name", ["layers.0.weight", "layers.0.norm", "positions"])
def test_wrong_base(ab: tuple[Path, Path], patch: Path, name: str) -> None:
    state = read_checkpoint(ab[0])
    dtype, shape, data = state[name]
    state[name] = (dtype, shape, data[:-1] + bytes([data[-1] ^ 1]))
    write_shard(ab[0] / "model.safetensors", state)
    refused(ab[0], patch, WrongBaseError)


def test_wrong_tensors(ab: tuple[Path, Path], patch: Path) -> None:
    state = read_checkpoint(ab[0])
    write_shard(ab[0] / "model.safetensors", {name: state[name] for name in list(state)[:2]})
    refused(ab[0], patch, WrongBaseError, "positions")


def test_target_that_is_there_is_left_alone(ab: tuple[Path, Path], patch: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("x")
    with pytest.raises(TargetMismatchError):
        apply_patch(ab[0], patch, out)
    assert [path.name for path in out.iterdir()] == ["mine"]


def rewrite(patch: Path, edit: Callable[[dict[str, bytes]], None], **how: Any) -> None:
    """Write a patch again after a change to its members."""
    with zipfile.ZipFile(patch) as file:
        members = {name: file.read(name) for name in file.namelist()}
    edit(members)
    with zipfile.ZipFile(patch, "w", **how) as file:
        for name, data in members.items():
            file.writestr(name, data)


def edit_record(patch: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    def change(members: dict[str, bytes]) -> None:
        record = json.loads(members["patch.json"])
        edit(record)
        members["patch.json"] = json.dumps(record).encode()

    rewrite(patch, change)


def test_unknown_members_are_ignored(ab: tuple[Path, Path], patch: Path, tmp_path: Path) -> None:
    rewrite(patch, lambda members: members.update({"../../evil": b"x", "notes.txt": b"y"}))
    edit_record(patch, lambda record: record.update(later={"x": 1}))
    apply_patch(ab[0], patch, tmp_path / "out")
    assert read_checkpoint(tmp_path / "out") == read_checkpoint(ab[1])
    assert not (tmp_path.parent / "evil").exists()


@pytest.mark.parametrize(
    ("edit", "kind"),
    [
        (lambda r: r["delta"]["parts"][0].update(key="../part-00000.arrow"), MalformedRecordError),
        (lambda r: r["delta"]["parts"][0].update(key="part-0.arrow"), MalformedRecordError),
        (lambda r: r["files"][0].update(key="files/../../evil"), MalformedRecordError),
        (lambda r: r["files"][0].update(name="../evil", key="files/../evil"), MalformedRecordError),
        (lambda r: r["files"][0].update(name="x.safetensors", key="files/x.safetensors"), MalformedRecordError),
        (lambda r: r.update(removed_files=["../config.json"]), MalformedRecordError),
        (lambda r: r.update(removed_files=["config.json"]), MalformedRecordError),
        (lambda r: r["tensors"].update(key="patch.json"), MalformedRecordError),
        (lambda r: r.update(state_digest="0" * 16), MalformedRecordError),
        (lambda r: r.update(base_digest=None), MalformedRecordError),
        (lambda r: r.update(kind="version"), MalformedRecordError),
        (lambda r: r.update(protocol="other"), UnsupportedProtocolError),
        (lambda r: r.update(protocol_version="9.0"), UnsupportedProtocolError),
        (lambda r: r.update(reader_features=["quantum"]), UnsupportedFeatureError),
        (lambda r: r["delta"]["parts"][0].update(bytes=10**15), SizeMismatchError),
        (lambda r: r["files"][0].update(bytes=1), SizeMismatchError),
        (lambda r: r["delta"]["parts"][0].update(key="part-00001.arrow"), MissingObjectError),
    ],
)
def test_lying_records(ab: tuple[Path, Path], patch: Path, edit: Any, kind: type[DeltawireError]) -> None:
    edit_record(patch, edit)
    refused(ab[0], patch, kind)


def test_base_that_the_record_only_claims(ab: tuple[Path, Path], patch: Path) -> None:
    def shift(record: dict[str, Any]) -> None:
        for member in ("base_digest", "state_digest"):
            record[member] = f"{(int(record[member], 16) + 1) % (1 << 64):016x}"

    edit_record(patch, shift)
    refused(ab[0], patch, WrongBaseError)


def test_compressed_members_are_refused(ab: tuple[Path, Path], patch: Path) -> None:
    rewrite(patch, lambda members: None, compression=zipfile.ZIP_DEFLATED)
    refused(ab[0], patch, MalformedRecordError, "compressed")


def test_two_members_of_one_name_are_refused(ab: tuple[Path, Path], patch: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(patch, "a") as file:
        file.writestr("patch.json", b"{}")
    refused(ab[0], patch, MalformedRecordError, "two members")


def test_a_table_with_aliases_is_refused(ab: tuple[Path, Path], patch: Path) -> None:
    def alias(members: dict[str, bytes]) -> None:
        table = json.loads(members["tensors.json"])
        table["aliases"] = [{"name": "tied", "target": "positions"}]
        members["tensors.json"] = json.dumps(table).encode()
        record = json.loads(members["patch.json"])
        digest = "sha256:" + sha256(members["tensors.json"]).hexdigest()
        record["tensors"].update(bytes=len(members["tensors.json"]), digest=digest)
        members["patch.json"] = json.dumps(record).encode()

    rewrite(patch, alias)
    refused(ab[0], patch, MalformedRecordError, "aliases")


def test_rows_that_cover_an_element_twice_are_refused(ab: tuple[Path, Path], patch: Path) -> None:
    def twice(members: dict[str, bytes]) -> None:
        record = json.loads(members["patch.json"])
        delta = record["delta"]
        part = dict(delta["parts"][0], key="part-00001.arrow")
        members["part-00001.arrow"] = members["part-00000.arrow"]
        delta["parts"].append(part)
        delta["changed_elements"] *= 2
        change = int(delta["digest_after"], 16) - int(delta["digest_before"], 16)
        delta["digest_after"] = f"{(int(delta['digest_after'], 16) + change) % (1 << 64):016x}"
        record["state_digest"] = f"{(int(record['state_digest'], 16) + change) % (1 << 64):016x}"
        members["patch.json"] = json.dumps(record).encode()

    rewrite(patch, twice)
    refused(ab[0], patch, MalformedRowError)


@pytest.mark.parametrize("flip", [0x01, 0xFF])
def test_every_byte_of_the_directory_may_lie(ab: tuple[Path, Path], patch: Path, tmp_path: Path, flip: int) -> None:
    raw = patch.read_bytes()
    for place in range(len(raw) - 300, len(raw)):
        damaged = bytearray(raw)
        damaged[place] ^= flip
        patch.write_bytes(damaged)
        with suppress(DeltawireError):
            apply_patch(ab[0], patch, tmp_path / f"out-{place}")
            assert read_checkpoint(tmp_path / f"out-{place}") == read_checkpoint(ab[1])


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_damage_is_an_error_or_does_no_harm(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        old, new = steps(2)
        write_shard(folder / "a.safetensors", old)
        write_shard(folder / "b.safetensors", new)
        write_patch(folder / "a.safetensors", folder / "b.safetensors", folder / "p")
        raw = bytearray((folder / "p").read_bytes())
        if data.draw(st.booleans()):
            del raw[data.draw(st.integers(0, len(raw) - 1)) :]
        else:
            for place in data.draw(st.lists(st.integers(0, len(raw) - 1), min_size=1, max_size=3)):
                raw[place] ^= data.draw(st.integers(1, 255))
        (folder / "p").write_bytes(raw)
        before = sorted(folder.iterdir())
        try:
            apply_patch(folder / "a.safetensors", folder / "p", folder / "out")
        except DeltawireError:
            assert sorted(folder.iterdir()) == before
        else:  # a byte that means nothing, such as a member's date
            assert read_shard(folder / "out" / "a.safetensors") == new

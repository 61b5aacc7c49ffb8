"""fsck, for operators and for programs."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from tests.cli.conftest import STEPS, Run

FOLDER = f"data/{STEPS:020}-{uuid.uuid4()}"


def part(stream: Path, number: int) -> str:
    found: str = json.loads((stream / f"versions/{number:020}.json").read_bytes())["delta"]["parts"][0]["key"]
    return found


def test_a_clean_stream(run: Run, published: Path) -> None:
    ran = run("fsck", published)
    assert (ran.status, ran.err) == (0, "")
    first, newest, looked = ran.out.splitlines()
    assert first == f"{published} is clean"
    assert newest.startswith("newest     version 3 can be read: the anchor of version 2, 1 delta (")
    assert looked.startswith("looked at  4 versions, ")
    document = run("fsck", published, "--deep", "--json").json
    assert (document["clean"], document["deep"], document["states"]) == (True, True, STEPS + 1)
    assert (document["newest"], document["newest_readable"], document["unreadable"]) == (3, True, [])
    assert [(step["kind"], step["base"], step["version"]) for step in document["way"]] == [
        ("anchor", None, 2),
        ("delta", 2, 3),
    ]
    assert document["findings"] == document["notes"] == []


def test_damage_ends_with_1_and_with_advice(run: Run, stream: Path) -> None:
    keys = [part(stream, 1), part(stream, 3)]
    for key in keys:
        (stream / key).unlink()
    ran = run("fsck", stream)
    assert (ran.status, ran.err) == (1, "")
    assert ran.out.splitlines()[:3] == [
        f"{stream} is damaged: 2 unreachable, 2 missing",
        "newest        version 3 CANNOT BE READ",
        "not readable  versions 1, 3",
    ]
    assert (
        "-> leave it if nobody needs version 1: readers that come from before go over the anchor of version 2"
        in ran.out
    )
    assert "@2 DST'" in ran.out
    assert all(
        f"  {key}\n      missing_object (DSC-1): is named by a record, but is not there\n" in ran.out for key in keys
    )
    ran = run("fsck", stream, "--json")
    assert ran.status == 1
    assert ran.json["unreadable"] == [[1, 1], [3, 3]]
    assert [finding["class"] for finding in ran.json["findings"]] == ["unreachable"] * 2 + ["missing"] * 2
    assert {"class", "code", "key", "requirement", "message", "advice"} == set(ran.json["findings"][0])


def test_what_breaks_nothing(run: Run, stream: Path) -> None:
    (stream / FOLDER).mkdir()
    (stream / FOLDER / "part-00000.arrow").write_bytes(b"12345")
    (stream / "notes.txt").write_text("hello")
    (stream / "head.json").write_text("{")
    ran = run("fsck", stream)
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert lines[0].endswith(" is clean")
    assert "under way (1, 5 B; breaks nothing)" in lines
    assert "unknown key (1, 5 B; breaks nothing)" in lines
    assert "head (1; breaks nothing)" in lines
    assert any(line.split()[:3] == ["1", "5", "B"] and line.endswith(f" {FOLDER}/") for line in lines)
    notes = {note["class"]: note for note in run("fsck", stream, "--json").json["notes"]}
    assert set(notes) == {"under_way", "unknown_key", "head"}
    assert notes["under_way"]["key"] == f"{FOLDER}/part-00000.arrow"
    assert notes["under_way"]["bytes"] == 5
    assert notes["under_way"]["modified_at"].endswith("+00:00")
    assert notes["head"]["code"] == "malformed_record"


def test_long_lists_are_cut_for_people_only(run: Run, stream: Path) -> None:
    for number in range(25):
        (stream / f"stray-{number:02}.txt").write_text("x")
    out = run("fsck", stream).out
    assert "  ... and 15 more; --json lists all" in out.splitlines()
    assert "stray-09.txt" in out
    assert "stray-10.txt" not in out
    assert len(run("fsck", stream, "--json").json["notes"]) == 25


def test_a_stream_that_nobody_can_read(run: Run, stream: Path) -> None:
    (stream / "retention.json").write_text("{}")
    ran = run("fsck", stream)
    assert ran.status == 1
    assert "NO VERSION CAN BE READ: retention.json keeps every reader out" in ran.out
    (stream / "retention.json").unlink()
    (stream / "stream.json").unlink()
    ran = run("fsck", stream)
    assert ran.status == 1
    assert "there is no stream.json, but 4 version records" in ran.out
    assert run("verify", stream).status == 3


def test_no_stream(run: Run, tmp_path: Path) -> None:
    assert run("fsck", tmp_path / "none").status == 3

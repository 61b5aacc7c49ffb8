"""``deltawire maintain`` and ``deltawire pins``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from deltawire import Follower
from deltawire.cli import quantities
from deltawire.format import keys
from deltawire.store import LocalStore
from tests.cli.conftest import Run


def test_a_pass(run: Run, stream: Path) -> None:
    said = run("maintain", stream, "--dry-run", "--keep-last", "1", "--json").json
    assert (said["dry_run"], said["versions"], said["boundary"], said["newest"]) == (True, [[0, 1]], 2, 3)
    assert "would go" in run("maintain", stream, "--dry-run", "--keep-last", "1").out
    assert not (stream / "retention.json").exists()
    done = run("maintain", stream, "--once", "--keep-last", "1", "--json").json
    assert {name: done[name] for name in done if name not in {"dry_run", "seconds", "waited_seconds"}} == {
        name: said[name] for name in said if name not in {"dry_run", "seconds", "waited_seconds"}
    }
    assert run("verify", stream, "--deep").status == 0
    assert sorted(path.name for path in (stream / "versions").glob("*.json")) == [f"{n:020d}.json" for n in (2, 3)]
    run("maintain", stream, "--once")  # what was read to verify it was pinned for a while
    again = run("maintain", stream, "--once", "--keep-last", "1")
    assert "versions 2 to 3" in again.out
    assert "nothing to collect" in again.out


def test_every_so_many_stay(run: Run, stream: Path) -> None:
    done = run("maintain", stream, "--once", "--keep-last", "1", "--keep-every", "2", "--json").json
    assert (done["boundary"], done["kept"], done["versions"]) == (2, [[0, 0]], [[1, 1]])


@pytest.mark.parametrize(
    ("options", "boundary"),
    [
        ((), 0),
        (("--keep-for", "7d"), 0),
        (("--max-bytes", "1TB"), 0),
        (("--max-bytes", "1kB"), 2),
        (("--keep-for", "7d", "--max-bytes", "1"), 2),
    ],
)
def test_policies(run: Run, stream: Path, options: tuple[str, ...], boundary: int) -> None:
    assert run("maintain", stream, "--dry-run", *options, "--json").json["boundary"] == boundary


@pytest.mark.parametrize(
    "options",
    [
        ("--keep-last", "0"),
        ("--keep-every", "2"),
        ("--keep-for", "soon"),
        ("--max-bytes", "a lot"),
        ("--interval", "-1"),
    ],
)
def test_options_that_make_no_sense(run: Run, stream: Path, options: tuple[str, ...]) -> None:
    assert run("maintain", stream, "--once", *options).status == 2


def test_no_stream(run: Run, tmp_path: Path) -> None:
    assert run("maintain", tmp_path / "s", "--once").status == 3
    assert run("maintain", tmp_path / "s").status == 3
    assert run("pins", tmp_path / "s").status == 3


def test_pins(run: Run, stream: Path) -> None:
    assert run("pins", stream, "--json").json["pins"] == []
    assert "nobody" in run("pins", stream).out
    with Follower(stream, holder="engine \x1b[31mone", pin_ttl=90) as follower:
        follower.poll(to=1)
        (found,) = run("pins", stream, "--json").json["pins"]
        assert (found["holder"], found["first"], found["last"]) == ("engine \x1b[31mone", 0, None)
        assert (found["ttl_seconds"], found["released"], found["error"]) == (90.0, False, None)
        assert found["acquired_at"] <= found["renewed_at"]
        kept = (stream / keys.pin_key(found["id"])).read_bytes()
        text = run("pins", stream).out
        assert "engine \\x1b[31mone" in text
        assert "90 s" in text
        held = run("maintain", stream, "--dry-run", "--keep-last", "1")
        assert "held back" in held.out
        assert "engine" in held.out
    assert run("pins", stream, "--json").json["pins"] == []
    pin = stream / keys.pin_key(found["id"])
    pin.parent.mkdir(exist_ok=True)
    pin.write_bytes(kept.replace(b'"released":false', b'"released":true'))
    assert run("pins", stream, "--json").json["pins"][0]["released"] is True
    assert "released" in run("pins", stream).out
    LocalStore(stream).put("leases/readers/5a0f6a52-8c1f-4f4e-9f0e-9a1f3f8b2c77.json", b"?", mode="overwrite")
    found = next(pin for pin in run("pins", stream, "--json").json["pins"] if pin["error"])
    assert (found["error"], found["first"]) == ("malformed_record", None)
    assert "unreadable" in run("pins", stream).out


def test_a_pin_that_cannot_be_written_is_told_once(run: Run, stream: Path, tmp_path: Path) -> None:
    (stream / "leases").mkdir(exist_ok=True)
    (stream / "leases" / "readers").write_text("in the way")
    told = run("follow", stream, tmp_path / "a", "--until", "3", "--every-version")
    assert (told.status, told.err.count("not kept from being collected")) == (0, 1)
    silent = run("follow", stream, tmp_path / "b", "--once", "--no-pin")
    assert (silent.status, silent.err) == (0, "")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_runs_until_it_is_told_to_stop(stream: Path, how: signal.Signals) -> None:
    command = [
        sys.executable,
        "-m",
        "deltawire",
        "maintain",
        str(stream),
        "--keep-last",
        "1",
        "--interval",
        "0.05",
        "--json",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stdout is not None
        try:
            first, second = (json.loads(process.stdout.readline()) for _ in range(2))
            process.send_signal(how)
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert (first["versions"], second["versions"]) == ([[0, 1]], [])


def test_a_store_that_fails_is_tried_again(stream: Path) -> None:
    """The stream's folder cannot be listed for a while."""
    from deltawire.maintaining.maintainer import Maintainer  # noqa: PLC0415
    from tests.faults.faulty_store import Fault, FaultyStore  # noqa: PLC0415

    store = FaultyStore(LocalStore(stream), {5: Fault.UNAVAILABLE})
    maintainer: Maintainer[None] = Maintainer(store, sleep=lambda _: None)
    with maintainer:
        passes = maintainer.run(interval=0)
        failed, done = next(passes), next(passes)
        assert failed.error is not None
        assert done.collected is not None
        maintainer.stop()
        assert next(passes, None) is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5s", 1.5), ("15m", 900), ("12 h", 43200), ("7D", 604800), ("2w", 1209600)]
)
def test_durations(text: str, seconds: float) -> None:
    assert quantities.duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "count"),
    [("0", 0), ("1500", 1500), ("1.5kB", 1500), ("500GB", 5 * 10**11), ("2TiB", 2 << 40), ("3 M", 3 * 10**6)],
)
def test_sizes(text: str, count: int) -> None:
    assert quantities.size(text) == count


@pytest.mark.parametrize("text", ["", "-1", "1y", "x", "1e3", "GB", "1ib"])
def test_what_is_no_quantity(text: str) -> None:
    for parse in (quantities.duration, quantities.size):
        with pytest.raises(typer.BadParameter):
            parse(text)

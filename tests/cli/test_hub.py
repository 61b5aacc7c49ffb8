"""The commands on buckets of the Hugging Face Hub: by its API, and by its S3 gateway. Against an emulator."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import close_session

from deltawire.cli import following
from deltawire.errors import DeadlineExceededError, StoreUnavailableError
from deltawire.store.hub_location import hub_location
from tests.checkpoints import read_checkpoint
from tests.cli.conftest import STEPS, Run
from tests.cli.test_errors import LINE
from tests.cli.test_processes import start
from tests.hub.emulator import Fault, HubEmulator

BUCKET = "hf://buckets/alice/weights"
RUN = f"{BUCKET}/run"
"""A stream of ``STEPS`` versions, which no test changes."""
QUICK = ("--rounds", 1, "--writers", 2)


@pytest.fixture(scope="module")
def hub(checkpoints: list[Path]) -> Iterator[HubEmulator]:
    from deltawire import Publisher  # noqa: PLC0415

    with HubEmulator() as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment().items():
            patch.setenv(name, value)
        patch.setattr(constants, "HF_TOKEN_PATH", os.devnull)  # whoever is logged in here
        running.create("alice/weights")
        running.create("alice/other")
        running.create("alice/secret", private=True)
        with Publisher(RUN, single_writer=True) as publisher:
            for path in checkpoints:
                publisher.publish(path)
        yield running
        close_session()


@pytest.fixture(autouse=True)
def _calm(hub: HubEmulator) -> Iterator[None]:
    yield
    hub.calm()


def gateway(hub: HubEmulator, name: str, prefix: str) -> str:
    return f"s3://{name}/{prefix}?endpoint_url={hub.s3_endpoint('alice')}"


def paths(hub: HubEmulator, prefix: str, bucket: str = "alice/weights") -> list[str]:
    return [path for path in hub.paths(bucket) if path.startswith(prefix)]


def test_publish_and_follow(run: Run, hub: HubEmulator, checkpoints: list[Path], tmp_path: Path) -> None:
    url = f"{BUCKET}/published"
    published = run("publish", url, *checkpoints[:2], "--single-writer", "--json")
    assert (published.status, published.err) == (0, "")
    followed = run("follow", url, tmp_path / "w", "--once", "--verify", "--json")
    assert (followed.status, followed.err) == (0, "")
    (update,) = followed.lines
    assert (update["version"], update["state_digest"]) == (1, published.lines[-1]["state_digest"])
    assert read_checkpoint(tmp_path / "w") == read_checkpoint(checkpoints[1])
    again = run("publish", url, checkpoints[2], "--single-writer")
    assert (again.status, again.err) == (0, "")
    assert run("follow", url, tmp_path / "w", "--once").out.endswith("holds version 2\n")


def test_it_is_not_looked_at_more_often_than_the_hub_bears(
    run: Run, hub: HubEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = list[float]()

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        raise DeadlineExceededError("enough")

    monkeypatch.setattr("deltawire.consumer.follower.time.sleep", sleep)
    for options in ((), ("--interval", 0.2)):
        assert run("follow", RUN, *options, "--timeout", 9).status == 6
    assert pauses == [1.0, 0.2]


def test_looking(run: Run, hub: HubEmulator, checkpoints: list[Path], tmp_path: Path) -> None:
    log = run("log", RUN, "--json").json
    assert (log["writers"], len(log["versions"])) == ("single", STEPS)
    for command in (("verify", RUN, "--deep"), ("fsck", RUN, "--deep"), ("show", RUN, "latest"), ("pins", RUN)):
        assert (run(*command).status, run(*command).err) == (0, ""), command
    assert run("lease", RUN).out == "one declared writer, and so no lease\n"
    made = run("materialize", RUN, 1, tmp_path / "m")
    assert (made.status, made.err) == (0, "")
    assert read_checkpoint(tmp_path / "m") == read_checkpoint(checkpoints[1])


def test_a_single_writer_must_be_declared(run: Run, hub: HubEmulator, checkpoints: list[Path]) -> None:
    for command in (
        ("publish", f"{BUCKET}/none", checkpoints[0]),
        ("fork", f"{RUN}@0", f"{BUCKET}/none"),
        ("rollback", RUN, "--to", 0),
    ):
        ran = run(*command)
        assert ran.status == 4
        assert LINE.fullmatch(ran.err)
        assert "error[store_unfit]" in ran.err
        assert "--single-writer" in ran.err
        assert "S3 gateway of the same bucket" in ran.err
    assert paths(hub, "none") == []
    done = run("rollback", RUN.replace("run", "back"), "--to", 0, "--single-writer")
    assert done.status == 3


def test_what_carries_several_writers_instead() -> None:
    told = hub_location("hf://buckets/alice/weights/a/run?endpoint=https://huggingface.co").alternative
    assert told.endswith(" s3://weights/a/run?endpoint_url=https://s3.hf.co/alice")
    assert "s3://" not in hub_location("hf://buckets/alice/weights?endpoint=https://hub.example").alternative


def test_probe(run: Run, hub: HubEmulator) -> None:
    url = f"{BUCKET}/scratch"
    ran = run("probe", url, *QUICK)
    assert (ran.status, ran.err) == (1, "")
    assert ran.out.splitlines()[-2:] == [
        f"{url} is fit for a single declared writer only: publish with --single-writer",
        "several writers, or maintainers, go through the S3 gateway of the same bucket",
    ]
    found = run("probe", url, *QUICK, "--single-writer", "--json")
    assert (found.status, found.err) == (0, "")
    assert (found.json["fit"], found.json["alternative"]) == ("single-writer", hub_location(url).alternative)
    found = run("probe", gateway(hub, "weights", "scratch"), *QUICK, "--json")
    assert (found.status, found.json["fit"], found.json["alternative"]) == (0, "many-writers", None)
    assert paths(hub, "scratch") == []


def test_maintain(run: Run, hub: HubEmulator, checkpoints: list[Path], tmp_path: Path) -> None:
    url = f"{BUCKET}/kept"
    states = [checkpoints[number % STEPS] for number in range(6)]
    assert run("publish", url, *states, "--single-writer").status == 0
    built = run("maintain", url, "--once", "--json")
    assert (built.status, built.err) == (0, "")
    assert built.json["built"]["spans"] == [[0, 4]]
    refused = run("maintain", url, "--once", "--keep-last", 1)
    assert refused.status == 4
    assert LINE.fullmatch(refused.err)
    assert "--single-maintainer" in refused.err
    assert "S3 gateway" in refused.err
    done = run("maintain", url, "--once", "--keep-last", 1, "--anchor-every", 1, "--single-maintainer", "--json")
    assert (done.status, done.err) == (0, "")
    assert (done.json["boundary"], done.json["versions"]) == (5, [[0, 4]])
    assert run("verify", url, "--deep").status == 0
    assert run("materialize", url, "latest", tmp_path / "m").status == 0
    assert read_checkpoint(tmp_path / "m") == read_checkpoint(states[-1])
    assert [path for path in paths(hub, "kept/versions/") if path.endswith("0.json")] == []


def test_fork_within_the_hub_is_a_copy(run: Run, hub: HubEmulator, checkpoints: list[Path], tmp_path: Path) -> None:
    target = "hf://buckets/alice/other/fork"
    done = run("fork", f"{RUN}@0", target, "--single-writer", "--json")
    assert (done.status, done.err) == (0, "")
    assert (done.json["how"], done.json["written_bytes"]) == ("copied", 0)
    assert run("fork", RUN, target, "--check").status == 0
    streamed = run("fork", f"{RUN}@0", gateway(hub, "other", "streamed"), "--json")
    assert (streamed.status, streamed.json["how"]) == (0, "streamed")
    for number, url in enumerate((target, "hf://buckets/alice/other/streamed")):
        assert run("materialize", url, 0, tmp_path / f"{number}").status == 0
        assert read_checkpoint(tmp_path / f"{number}") == read_checkpoint(checkpoints[0])


def test_what_the_gateway_wrote(run: Run, hub: HubEmulator, checkpoints: list[Path], tmp_path: Path) -> None:
    url = gateway(hub, "weights", "shared")
    published = run("publish", url, *checkpoints[:2])
    assert (published.status, published.err) == (0, "")
    assert run("lease", f"{BUCKET}/shared", "--json").json["released"] is True
    assert run("follow", f"{BUCKET}/shared", tmp_path / "w", "--once").status == 0
    assert read_checkpoint(tmp_path / "w") == read_checkpoint(checkpoints[1])
    refused = run("publish", f"{BUCKET}/shared", checkpoints[2], "--single-writer")
    assert refused.status == 4
    assert "the stream allows many writers" in refused.err
    assert "hint: several writers, or maintainers, go through the S3 gateway of the same bucket" in refused.err


def test_a_profile_says_where_the_gateway_is(
    run: Run, hub: HubEmulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keys = "aws_access_key_id = HFAKALICE\naws_secret_access_key = any\n"
    (tmp_path / "config").write_text(f"[profile hf]\nendpoint_url = {hub.s3_endpoint('alice')}\n{keys}")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    assert run("log", "s3://weights/run?profile=hf").status == 0
    ran = run("log", "s3://nowhere/run?profile=hf")
    assert ran.status == 4
    assert f"bucket nowhere does not exist at {hub.s3_endpoint('alice')}" in ran.err
    secret = hub.s3_endpoint("alice").replace("://", "://me:secret@")
    (tmp_path / "config").write_text(f"[profile hf]\nendpoint_url = {secret}\n{keys}")
    ran = run("log", "s3://nowhere/run?profile=hf")
    assert ran.status == 4
    assert "secret" not in ran.err + ran.out


@pytest.mark.parametrize(
    ("token", "url", "command", "code", "words"),
    [
        (
            None,
            "hf://buckets/alice/secret/run",
            "log",
            "store_denied",
            ("is private", "none was found", "hf auth login"),
        ),
        ("hf_carol", "hf://buckets/alice/secret/run", "log", "store_unavailable", ("private and this token",)),
        ("hf_alice", "hf://buckets/alice/nowhere/run", "log", "store_unavailable", ("buckets create alice/nowhere",)),
        ("hf_alice", "hf://buckets/alice/nowhere/run", "publish", "store_unavailable", ("buckets create",)),
        ("hf_alice", "hf://buckets/alice/nowhere/run", "probe", "store_unavailable", ("buckets create",)),
        ("hf_alice_expired", RUN, "log", "store_denied", ("expired", "/settings/tokens")),
        ("hf_alice_expired", f"{BUCKET}/new", "publish", "store_denied", ("expired", "/settings/tokens")),
        (None, f"{BUCKET}/new", "publish", "store_denied", ("none was found", "HF_TOKEN")),
        ("hf_alice_reads", f"{BUCKET}/new", "publish", "store_denied", ("token that may",)),
        ("hf_carol", f"{BUCKET}/new", "publish", "store_denied", ("token that may",)),
    ],
)
def test_who_may_do_what(
    run: Run,
    hub: HubEmulator,
    checkpoints: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    token: str | None,
    url: str,
    command: str,
    code: str,
    words: tuple[str, ...],
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    if token is not None:
        monkeypatch.setenv("HF_TOKEN", token)
    ran = run(command, url, *((checkpoints[0], "--single-writer") if command == "publish" else ()), "--json")
    assert ran.status == 4
    assert LINE.fullmatch(ran.err), ran.err
    assert ran.json["error"] == code
    for word in words:
        assert word in ran.json["message"] + ran.json["hint"]
    assert token is None or token not in ran.err
    assert paths(hub, "new") == []


def test_a_rate_limit(run: Run, hub: HubEmulator) -> None:
    def limited(seconds: int) -> Fault:
        return Fault(match="^HEAD /buckets/", status=429, headers={"RateLimit": f'"resolvers";r=0;t={seconds}'})

    hub.fault(limited(250))
    ran = run("log", RUN, "--json")
    assert (ran.status, ran.json["error"]) == (4, "store_unavailable")
    assert LINE.fullmatch(ran.err)
    assert "is used up for another 250 s" in ran.err
    assert "publish or poll less often" in ran.err
    hub.fault(limited(0))  # which is waited for
    ran = run("log", RUN)
    assert (ran.status, ran.err) == (0, "")


def test_following_goes_on_when_a_failure_has_passed(
    run: Run, hub: HubEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_FIRST_PAUSE", 0.01)
    limit = {"RateLimit": '"resolvers";r=0;t=250'}
    hub.fault(Fault(match="^HEAD /buckets/.*versions", status=429, headers=limit, times=3))
    ran = run("follow", RUN, "--until", STEPS - 1, "--json")
    assert (ran.status, ran.lines[-1]["version"]) == (0, STEPS - 1)
    assert ran.err.count("used up") == 1
    assert "it is tried again until it works" in ran.err
    hub.fault(Fault(match="^HEAD /buckets/.*versions", status=429, headers=limit, times=1000))
    ran = run("follow", RUN, "--until", STEPS - 1, "--timeout", 0.2, "--json")
    assert (ran.status, ran.json["error"]) == (4, "store_unavailable")


def test_time_without_an_update_counts_across_failures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(following, "_FIRST_PAUSE", 0.01)
    given, waits = list[float | None](), iter([0.2, 0.4, 0.0, 0.3, 0.0])

    def follow(timeout: float | None) -> Iterator[Any]:
        given.append(timeout)
        if (wait := next(waits)) > 0:
            time.sleep(wait)
            raise StoreUnavailableError("it does not answer")
        yield "an update"

    monkeypatch.setattr(following, "_TOLD_AGAIN", 0.0)
    updates = following._lasting(follow, 1.0)
    assert [str(next(updates)) for _ in range(2)] == ["an update"] * 2
    assert [value is not None and round(value, 1) for value in given] == [1.0, 0.8, 0.4, 1.0, 0.7]
    assert capsys.readouterr().err.count("it is tried again") == 3


@pytest.mark.parametrize("end", ["interrupt", "timeout"])
def test_nobody_waits_for_what_is_not_needed_any_more(hub: HubEmulator, end: str) -> None:
    """As where a thread waits until a rate limit ends."""
    limit = {"RateLimit": '"resolvers";r=0;t=50'}
    limited = threading.Event()
    hub.before("^HEAD /buckets/.*versions", lambda asked: limited.set(), times=1000)
    hub.fault(Fault(match="^HEAD /buckets/.*versions", status=429, headers=limit, times=1000))
    process = start(["follow", RUN, *(("--timeout", "1") if end == "timeout" else ())])
    try:
        assert limited.wait(30)
        if end == "interrupt":
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, errors.count("\n")) == ((130, 2) if end == "interrupt" else (6, 2))


def test_nothing_of_the_clients_is_printed(hub: HubEmulator, checkpoints: list[Path]) -> None:
    """Logs, warnings and bars of the Hub's libraries, one of which is no Python, as a process shows them."""
    hub.log.clear()
    hub.fault(
        Fault(match="^POST /.*/v1/xorbs", status=503),
        Fault(match="^POST /api/buckets/.*/batch", status=500, do_it=True),
        Fault(match="^GET /.*/v2/reconstructions", drop=True),
    )
    url = f"{BUCKET}/quiet"
    program = f"""
from deltawire.cli.app import app
app(["publish", {url!r}, {str(checkpoints[0])!r}, "--single-writer", "--json"], standalone_mode=False)
app(["follow", {url!r}, "--once", "--json"])
"""
    environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_DISABLE_PROGRESS_BARS"}
    done = _in_a_process(program, env=environment | {"HF_XET_CLIENT_RETRY_BASE_DELAY": "20ms"})
    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line)["version"] for line in done.stdout.splitlines()] == [0, 0]
    assert {0, 500, 503} <= {noted.status for noted in hub.log.all()}


def test_what_is_missing_is_named_when_it_is_needed() -> None:
    program = f"""
import sys
import deltawire
from deltawire import Follower, Publisher
from deltawire.cli.app import app
assert not {{"huggingface_hub", "hf_xet", "httpx2"}} & set(sys.modules)
for missing in ("huggingface_hub", "hf_xet"):
    sys.modules[missing] = None
    assert app(["log", {RUN!r}], prog_name="deltawire", standalone_mode=False) == 2
    del sys.modules[missing]
"""
    done = _in_a_process(program)
    assert (done.returncode, done.stdout) == (0, "")
    assert (
        len(re.findall("error.missing_dependency.*a recent huggingface_hub.*pip install 'deltawire.hf.'", done.stderr))
        == 1
    )
    assert len(re.findall("error.missing_dependency.*a recent hf_xet.*pip install 'deltawire.hf.'", done.stderr)) == 1


def _in_a_process(program: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)

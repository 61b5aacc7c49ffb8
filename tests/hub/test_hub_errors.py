"""What a person is told when a bucket cannot be reached: who, what, where, and what to do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import constants

from deltawire.errors import StoreDeniedError, StoreError, StoreUnavailableError
from deltawire.store import hub_client
from deltawire.store.hub import HubStore
from tests.hub.emulator import Fault, HubEmulator, Token
from tests.store.servers import free_port

VERBS: dict[str, Callable[[HubStore], object]] = {
    "get": lambda store: store.get("x", max_bytes=10),
    "get_range": lambda store: store.get_range("x", 0, 1),
    "head": lambda store: store.head("x"),
    "list": lambda store: list(store.list("")),
    "create": lambda store: store.put("y", b"1", mode="create"),
    "overwrite": lambda store: store.put("x", b"1", mode="overwrite"),
    "put_stream": lambda store: store.put_stream("y", [b"1"]),
    "delete": lambda store: store.delete("x"),
}
READS = ("get", "get_range", "head", "list")
LOGIN = "log in with 'hf auth login', or set HF_TOKEN"


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(hub_client, "time", SimpleNamespace(sleep=found.append, monotonic=time.monotonic))
    return found


@pytest.fixture(autouse=True)
def token_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where ``hf auth login`` puts a token; there is none at first, nor one in the environment."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    return tmp_path / "token"


@dataclass(frozen=True)
class Told:
    code: str
    message: str
    hint: str


def told(verb: str, url: str) -> Told:
    """What a verb says; an error, whatever the verb."""
    with pytest.raises(StoreError) as caught:
        VERBS[verb](HubStore(url))
    assert "hf_" not in str(caught.value)  # no token is shown
    return Told(caught.value.code, str(caught.value), caught.value.hint)


@pytest.fixture
def url(hub: HubEmulator) -> str:
    hub.create("alice/secret", private=True)
    hub.write("alice/secret", "run/x", b"1")
    hub.write("alice/weights", "run/x", b"1")
    return f"hf://buckets/alice/secret/run?endpoint={hub.endpoint}"


@pytest.fixture
def public(hub: HubEmulator, url: str) -> str:
    return url.replace("secret", "weights")


@pytest.mark.parametrize("verb", VERBS)
def test_no_token(hub: HubEmulator, url: str, verb: str, pauses: list[float]) -> None:
    error = told(verb, url)
    assert error.code == "store_denied"
    assert f"{hub.endpoint} wants a token for " in error.message
    assert "none was found; bucket alice/secret is private, or does not exist" in error.message
    assert error.hint == LOGIN
    assert pauses == []


def test_no_token_is_needed_to_read_what_is_public(public: str) -> None:
    store = HubStore(public)
    assert store.get("x", max_bytes=1).data == b"1"
    assert [info.key for info in store.list("")] == ["x"]
    for verb in VERBS.keys() - READS:
        error = told(verb, public)
        assert error.code == "store_denied"
        assert "wants a token for " in error.message
        assert error.hint == LOGIN


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("token", ["hf_alice_expired", "hf_nobodys"])
def test_a_token_that_is_no_good(
    hub: HubEmulator, url: str, verb: str, token: str, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    error = told(verb, url)
    assert error.code == "store_denied"
    assert error.message == (
        f"{hub.endpoint} does not take the token: it has expired, was revoked, or is not one of its own"
    )
    assert error.hint == f"make a new one at {hub.endpoint}/settings/tokens; {LOGIN}"
    assert pauses == []


def test_a_token_without_rights(hub: HubEmulator, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_alice_reads")
    assert HubStore(url).get("x", max_bytes=1).data == b"1"
    for verb in VERBS.keys() - READS:
        error = told(verb, url)
        assert error.code == "store_denied"
        assert f"{hub.endpoint} refused " in error.message
        assert "alice/secret: You don't have the rights to write" in error.message
        assert (
            error.hint
            == f"use a token that may read or write this bucket, as is needed: {hub.endpoint}/settings/tokens"
        )
    assert hub.paths("alice/secret") == ["run/x"]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("bucket", "token"), [("alice/none", "hf_alice"), ("alice/secret", "hf_carol")])
def test_a_bucket_that_is_missing_or_hidden(
    hub: HubEmulator, url: str, verb: str, bucket: str, token: str, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Hub does not tell one from the other."""
    monkeypatch.setenv("HF_TOKEN", token)
    error = told(verb, url.replace("alice/secret", bucket))
    assert error.code == "store_unavailable"
    assert error.message == (
        f"bucket {bucket} does not exist at {hub.endpoint}, or it is private and this token may not see it"
    )
    assert error.hint == f"create it ('hf buckets create {bucket}'), or log in as one who may read it: {LOGIN}"
    assert pauses == []


@pytest.mark.parametrize("verb", VERBS)
def test_a_rate_limit(public: str, verb: str, pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_alice")
    with HubEmulator(api_limit=0, resolver_limit=0, window_seconds=300) as hub:
        hub.create("alice/weights")
        error = told(verb, f"hf://buckets/alice/weights/run?endpoint={hub.endpoint}")
        assert error.code == "store_unavailable"
        assert re.match(rf"the rate limit of {hub.endpoint} is used up for another 30[01] s: ", error.message)
        assert error.hint == "wait, publish or poll less often, or use an account with a higher limit"
        assert pauses == []  # it would be too long
        assert sum(hub.log.counts().values()) == 1


def test_a_rate_limit_that_ends_soon_is_waited_for(pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_alice")
    with HubEmulator(resolver_limit=1, window_seconds=1) as hub:
        hub.create("alice/weights")
        hub.write("alice/weights", "x", b"1")
        store = HubStore(f"hf://buckets/alice/weights?endpoint={hub.endpoint}")
        assert store.head("x").bytes == 1

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            time.sleep(1.1)

        monkeypatch.setattr(hub_client, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
        assert store.head("x").bytes == 1
        assert pauses == [2]


@pytest.mark.parametrize("verb", VERBS)
def test_nobody_listens(verb: str, pauses: list[float]) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    error = told(verb, f"hf://buckets/alice/weights/run?endpoint={endpoint}")
    assert error.code == "store_unavailable"
    assert error.message.startswith(f"{endpoint} failed on ")
    assert "in alice/weights: no answer: ConnectError" in error.message
    assert error.hint == "check the endpoint and the network, then try again"
    assert len(pauses) == hub_client.ATTEMPTS - 1


@pytest.mark.parametrize("verb", VERBS)
def test_another_server(hub: HubEmulator, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint that is some web server: nothing of it is taken for an empty bucket."""
    monkeypatch.setenv("HF_TOKEN", "hf_alice")
    hub.fault(Fault(match="", times=1000, status=404, headers={"X-Error-Message": "", "X-Error-Code": ""}))
    error = told(verb, f"hf://buckets/alice/weights/run?endpoint={hub.endpoint}")
    assert error.code == ("object_not_found" if verb in {"get", "get_range", "head"} else "store_unavailable")


@pytest.mark.parametrize("verb", VERBS)
def test_offline(
    hub: HubEmulator, public: str, verb: str, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)  # what HF_HUB_OFFLINE=1 sets when the library is imported
    error = told(verb, public)
    assert error == Told(
        "store_unavailable", f"{hub.endpoint} was not asked: HF_HUB_OFFLINE is set", "unset HF_HUB_OFFLINE"
    )
    assert pauses == []
    assert hub.log.all() == []


class TestTokens:
    def test_in_the_environment_before_the_file(
        self, url: str, token_file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        token_file.write_text("hf_carol\n")
        monkeypatch.setenv("HF_TOKEN", "hf_alice")
        assert HubStore(url).get("x", max_bytes=1).data == b"1"

    def test_in_the_file(self, url: str, token_file: Path) -> None:
        token_file.write_text("hf_alice\n")
        assert HubStore(url).get("x", max_bytes=1).data == b"1"

    def test_changed_while_running(self, url: str, token_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is looked up for each request: one that expires is replaced in a process that goes on."""
        store = HubStore(url)
        with pytest.raises(StoreDeniedError):
            store.put("y", b"1", mode="create")
        token_file.write_text("hf_alice")
        store.put("y", b"1", mode="create")
        token_file.write_text("hf_alice_reads")
        with pytest.raises(StoreDeniedError):
            store.put("z", b"1", mode="create")
        monkeypatch.setenv("HF_TOKEN", "hf_alice")
        store.put("z", b"1", mode="create")

    def test_expired_while_running(self, hub: HubEmulator, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HF_TOKEN", "hf_brief")
        hub.tokens["hf_brief"] = Token(user="alice")
        store = HubStore(url)
        store.put("y", b"1", mode="create")
        hub.tokens["hf_brief"] = Token(user="alice", expires_at=0)
        for verb in VERBS.values():
            with pytest.raises(StoreDeniedError, match="does not take the token"):
                verb(store)

    @pytest.mark.parametrize("token", ["hf_ä", "hf_\u200b", "hf_a\x00b", "hf_a\x7fb"])
    def test_that_is_none(self, url: str, token: str, token_file: Path, pauses: list[float]) -> None:
        """As it is pasted from somewhere."""
        token_file.write_text(token)
        error = told("get", url)
        assert error.code == "store_denied"
        assert pauses == []

    def test_in_a_file_that_cannot_be_read(self, url: str, token_file: Path) -> None:
        token_file.mkdir()
        error = told("get", url)
        assert error.code == "store_denied"
        assert "no token could be had" in error.message
        assert str(token_file) in error.message
        assert error.hint == LOGIN


_READ = "import sys; from deltawire.store.hub import HubStore; print(HubStore(sys.argv[1]).get('x', max_bytes=1).data)"


def test_a_process_of_its_own(hub: HubEmulator, url: str, token_file: Path) -> None:
    """The library reads where the token is, and whether it is offline, when it is imported."""
    environment = {**os.environ, **hub.environment(), "HF_HOME": str(token_file.parent)}
    del environment["HF_TOKEN"]
    token_file.write_text("hf_alice")
    for offline, wanted in [("0", "b'1'"), ("1", "StoreUnavailableError: ")]:
        environment["HF_HUB_OFFLINE"] = offline
        command = [sys.executable, "-c", _READ, url]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert wanted in done.stdout + done.stderr


def test_renamed_buckets_are_followed(hub: HubEmulator, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the route for downloads, which redirects to the new name."""
    monkeypatch.setenv("HF_TOKEN", "hf_alice")
    there = f"{hub.endpoint}/buckets/alice/secret/resolve/run%2Fx"
    for location in (there, there.removeprefix(hub.endpoint)):
        hub.fault(Fault(match="^HEAD /buckets/alice/weights", status=307, headers={"Location": location}))
        assert HubStore(url.replace("secret", "weights")).head("x").bytes == 1
    hub.fault(
        Fault(match="^HEAD ", times=1000, status=307, headers={"Location": "/buckets/alice/weights/resolve/run%2Fx"})
    )
    with pytest.raises(StoreUnavailableError, match="redirects"):
        HubStore(url).head("x")


def test_where_the_endpoint_is(hub: HubEmulator, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_alice")
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint + "/")
    assert HubStore(url.partition("?")[0]).get("x", max_bytes=1).data == b"1"


@pytest.fixture(autouse=True)
def no_implicit_endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test reaches the Hub itself."""
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    yield
    assert os.environ["HF_ENDPOINT"].startswith("http://127.0.0.1")

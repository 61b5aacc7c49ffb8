"""Keys in every form in which they may be given, and in those in which they may not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization as s
from cryptography.hazmat.primitives.asymmetric import ec, ed448, x25519
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from deltawire import Follower, Publisher, ed25519, fork
from deltawire.errors import InvalidArgumentError, LimitExceededError
from deltawire.reading.trust import as_trust
from tests.signing.streams import contents, honest, new_store

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))  # always the same, as tests are named after it
NAME = "ed25519:" + KEY.public_key().public_bytes_raw().hex()


def private_pem(key: Any = KEY, password: bytes | None = None) -> bytes:
    how = s.NoEncryption() if password is None else s.BestAvailableEncryption(password)
    return bytes(key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, how))


def public_pem(key: Any = KEY) -> bytes:
    return bytes(key.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo))


def test_private_keys(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(private_pem())
    given: list[Any] = [path, str(path), private_pem(), private_pem().decode(), KEY, ed25519.signing_key(KEY)]
    for form in given:
        assert ed25519.signing_key(form).key == NAME
    assert ed25519.signing_key(KEY).pem() == private_pem()
    assert "private" not in repr(ed25519.signing_key(KEY))


def test_public_keys(tmp_path: Path) -> None:
    path = tmp_path / "public.pem"
    path.write_bytes(public_pem())
    for form in (path, str(path), public_pem(), public_pem().decode(), KEY.public_key(), NAME):
        assert ed25519.public_key(form) == NAME


OTHERS = [ec.generate_private_key(ec.SECP256R1()), ed448.Ed448PrivateKey.generate(), x25519.X25519PrivateKey.generate()]
BROKEN: list[Any] = [
    b"",
    b"not PEM",
    b"\x00\xff" * 100_000,
    private_pem()[:-40],
    b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
    "nowhere.pem",
    "/",
    "a\0b",
    "",
    17,
    None,
    [NAME],
    *(private_pem(key) for key in OTHERS),
    *(public_pem(key) for key in OTHERS),
]


@pytest.mark.parametrize("read", [ed25519.signing_key, ed25519.public_key])
@pytest.mark.parametrize("given", BROKEN, ids=lambda given: ascii(given)[:30])
def test_what_is_no_key(read: Callable[[Any], object], given: Any) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        read(given)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["ed25519:", NAME + "0", NAME[:-1], NAME + "\n", NAME.upper(), "ed25519:" + "g" * 64])
def test_what_is_no_name_of_a_key(name: str) -> None:
    with pytest.raises(InvalidArgumentError):
        ed25519.public_key(name)


def test_the_other_half() -> None:
    with pytest.raises(InvalidArgumentError, match="is a private key"):
        ed25519.public_key(private_pem())
    with pytest.raises(InvalidArgumentError, match="not a private key"):
        ed25519.signing_key(public_pem())
    with pytest.raises(InvalidArgumentError, match="encrypted"):
        ed25519.signing_key(private_pem(password=b"secret"))


@given(pem=st.binary(max_size=300) | st.binary(max_size=80).map(lambda tail: private_pem()[:60] + tail))
def test_any_bytes(pem: bytes) -> None:
    for read in (ed25519.signing_key, ed25519.public_key):
        with pytest.raises(InvalidArgumentError):
            read(pem)


@pytest.mark.parametrize("trust", [[], (), NAME, b"x", 5, [NAME, "nowhere"], [None], KEY.public_key()])
def test_what_is_no_list_of_keys(trust: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        as_trust(trust)
    with pytest.raises(InvalidArgumentError):
        Follower(new_store(), trust=trust)


def test_options_that_make_no_sense() -> None:
    store = new_store()
    for options in (
        {"co_signers": [NAME]},
        {"signing_key": KEY, "co_signers": NAME},
        {"signing_key": KEY, "co_signers": 5},
        {"signing_key": KEY, "co_signers": ["x"]},
        {"signing_key": "nowhere"},
    ):
        with pytest.raises(InvalidArgumentError):
            Publisher(store, **options)
        with pytest.raises(InvalidArgumentError):
            fork(new_store(honest()), store, **options)
    many = [ed25519.generate().key for _ in range(16)]
    with pytest.raises(LimitExceededError):
        Publisher(store, signing_key=KEY, co_signers=many)
    with pytest.raises(LimitExceededError):
        fork(new_store(honest()), store, signing_key=KEY, co_signers=many)
    assert not [key for key in contents(store) if not key.startswith("data/")]
    with Publisher(
        store, signing_key=KEY, co_signers=[*many[:15], NAME, many[0]]
    ) as publisher:  # itself, and one twice
        publisher.publish({"a": np.ones(1)})


def test_cryptography_is_needed_only_for_keys() -> None:
    script = (
        "import sys, numpy, deltawire\n"
        "with deltawire.Publisher('memory://x') as p: p.publish({'a': numpy.ones(3)})\n"
        "with deltawire.Follower('memory://x') as f: f.poll()\n"
        "assert 'cryptography' not in sys.modules, 'imported'\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
    missing = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from deltawire import Follower, Publisher, errors\n"
        "for call in (lambda: Publisher('memory://x', signing_key='x'), lambda: Follower('memory://x', trust=['x'])):\n"
        "    try: call()\n"
        "    except errors.MissingDependencyError as error: assert 'deltawire[sign]' in str(error)\n"
        "    else: raise SystemExit('not missed')\n"
    )
    subprocess.run([sys.executable, "-c", missing], check=True, timeout=120)

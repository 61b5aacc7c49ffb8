"""keygen, and the options of the other commands that are about keys."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.checkpoints import read_checkpoint
from tests.cli.conftest import Run


@dataclass(frozen=True)
class Key:
    file: Path
    public: str


def make_key(run: Run, folder: Path, name: str) -> Key:
    return Key(folder / name, run("keygen", folder / name).out.strip())


@pytest.fixture
def ours(run: Run, tmp_path: Path) -> Key:
    return make_key(run, tmp_path, "ours.pem")


@pytest.fixture
def theirs(run: Run, tmp_path: Path) -> Key:
    return make_key(run, tmp_path, "theirs.pem")


@pytest.fixture
def signed(run: Run, ours: Key, checkpoints: list[Path], tmp_path: Path) -> Path:
    """A signed stream of two versions."""
    stream = tmp_path / "signed"
    assert run("publish", stream, *checkpoints[:2], "--sign-key", ours.file).status == 0
    return stream


def test_keygen(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    made = run("keygen", file, "--json")
    assert (made.status, made.err) == (0, "")
    assert file.stat().st_mode & 0o777 == 0o600
    private = load_pem_private_key(file.read_bytes(), None)
    raw = private.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    assert made.json == {"file": str(file), "public_key": "ed25519:" + raw.hex()}
    before = file.read_bytes()
    again = run("keygen", file, "--json")
    assert (again.status, again.json["error"]) == (2, "invalid_argument")
    assert file.read_bytes() == before
    link = tmp_path / "link.pem"
    link.symlink_to(tmp_path / "elsewhere.pem")
    assert run("keygen", link).status == 2
    assert not (tmp_path / "elsewhere.pem").exists()
    assert run("keygen", tmp_path / "none" / "key.pem").status == 7
    assert run("keygen", tmp_path / "other.pem").out.strip() != made.json["public_key"]


def test_follow_with_a_key(
    run: Run, signed: Path, ours: Key, theirs: Key, checkpoints: list[Path], tmp_path: Path
) -> None:
    pem = tmp_path / "public.pem"
    public = load_pem_private_key(ours.file.read_bytes(), None).public_key()
    pem.write_bytes(public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    for number, key in enumerate((ours.public, pem)):
        folder = tmp_path / f"weights-{number}"
        assert run("follow", signed, folder, "--once", "--trust", theirs.public, "--trust", key).status == 0
        assert run("materialize", signed, 1, tmp_path / f"copy-{number}", "--trust", key).status == 0
        assert read_checkpoint(tmp_path / f"copy-{number}") == read_checkpoint(checkpoints[1])
        assert run("show", signed, 1, "--trust", key).out.count(ours.public + "\n") == 1
        assert run("log", signed, "--trust", key).status == 0
        assert run("verify", signed, "--trust", key).out.startswith("sound: 2 versions")
    refused = tmp_path / "refused"
    for command in (
        ("follow", signed, refused, "--once"),
        ("materialize", signed, 1, refused),
        ("show", signed, 1),
        ("log", signed),
        ("fork", signed, refused),
        ("fork", signed, refused, "--check"),
    ):
        if command[-1] == "--check":
            assert run("fork", signed, refused).status == 0
        ran = run(*command, "--trust", theirs.public, "--json")
        assert (ran.status, ran.json["error"]) == (1, "bad_signature"), command
        assert command[-1] == "--check" or not refused.exists()
    ran = run("verify", signed, "--trust", theirs.public, "--json")
    assert ran.status == 1
    assert [(found["code"], found["key"]) for found in ran.json["findings"]] == [("bad_signature", "stream.json")]
    for wrong in ("ed25519:12", str(ours.file), str(tmp_path / "nowhere")):
        assert run("follow", signed, refused, "--once", "--trust", wrong).status == 2
    assert run("follow", signed, refused, "--once", "--trust", "").status == 2


def test_without_keys(run: Run, signed: Path, ours: Key, published: Path) -> None:
    ran = run("verify", signed)
    assert (ran.status, ran.err) == (0, "")
    assert "not checked" in ran.out
    assert f"{ours.public} (not checked)" in run("show", signed, "latest").out
    assert run("show", signed, "latest", "--json").json["signed_by"] == ours.public
    assert run("log", signed, "--json").json["signing_keys"] == [ours.public]
    assert run("show", published, 1, "--json").json["signed_by"] is None
    assert run("log", published, "--json").json["signing_keys"] == []
    assert "signed" not in run("show", published, 1).out
    record = sorted((signed / "versions").iterdir())[1]
    record.write_text(json.dumps(json.loads(record.read_text())))  # the same, with white space
    ran = run("verify", signed, "--json")
    assert [found["code"] for found in ran.json["findings"]] == ["bad_signature"]
    assert run("follow", signed, "--once").status == 0, "whoever is given no key does not look"


def test_writing(run: Run, signed: Path, ours: Key, theirs: Key, checkpoints: list[Path], tmp_path: Path) -> None:
    for key in ((), ("--sign-key", theirs.file), ("--sign-key", tmp_path / "nowhere"), ("--sign-key", __file__)):
        for command in (("publish", signed, checkpoints[2]), ("rollback", signed, "--to", 0)):
            ran = run(*command, *key, "--json")
            assert (ran.status, ran.json["error"]) == (2, "invalid_argument")
    assert run("publish", signed, checkpoints[2], "--sign-key", ours.file).status == 0
    assert run("rollback", signed, "--to", 0, "--sign-key", ours.file).status == 0
    fork = tmp_path / "fork"
    keys = ("--sign-key", theirs.file, "--co-signer", ours.public)
    assert run("fork", f"{signed}@1", fork, "--trust", ours.public, *keys).status == 0
    assert run("log", fork, "--json").json["signing_keys"] == [theirs.public, ours.public]
    assert run("publish", fork, checkpoints[2], "--sign-key", ours.file).status == 1  # does not know who made it
    new = ("--sign-key", ours.file, "--co-signer", theirs.public)
    assert run("publish", fork, checkpoints[2], *new).status == 0
    assert run("rollback", fork, "--to", 0, "--sign-key", ours.file, "--trust", theirs.public).status == 0
    assert run("verify", fork, "--deep", "--trust", theirs.public).status == 0
    assert run("fork", f"{signed}@1", fork, "--check", "--trust", ours.public).status == 0
    other = tmp_path / "other"
    assert run("publish", other, checkpoints[0], "--co-signer", ours.public).status == 2
    assert not other.exists()

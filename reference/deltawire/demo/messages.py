"""What the demo's processes tell the one that started them: one JSON object a line on standard output."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Struct

from deltawire.errors import DeltawireError


class TrainerSettings(Struct, frozen=True, kw_only=True):
    """What the trainer is asked to do."""

    store: str
    model: str
    steps: int
    lr: float
    anchor_every: int
    threads: int
    timeout: float


class FollowerSettings(Struct, frozen=True, kw_only=True):
    """What a follower is asked to do."""

    store: str
    directory: str | None
    """None keeps the state in memory."""
    from_first: bool
    """Begin at version 0 rather than at the newest."""
    last: int
    """Version after which to stop."""
    interval: float = 0.05
    """Most seconds between looks at the stream."""
    timeout: float


class LoaderSettings(Struct, frozen=True, kw_only=True):
    """What the check of a followed directory is asked to do."""

    directory: str


class Message(Struct, frozen=True, kw_only=True, tag_field="event", tag=str.lower):
    """What every message shares."""


class Loaded(Message, frozen=True, kw_only=True):
    """The trainer has its model."""

    kind: str
    tensors: int
    elements: int
    state_bytes: int
    seconds: float


class Committed(Message, frozen=True, kw_only=True):
    """The trainer has published a version."""

    version: int
    loss: float | None
    """None of version 0, before the first step."""
    step_seconds: float
    record_digest: str
    """State digest as the version record says."""
    trainer_digest: str
    """State digest as torch computes it from the trainer's own tensors."""
    changed_elements: int
    elements: int
    stored_bytes: int
    """Everything the version put into the store: parts or shards, and the record."""
    state_bytes: int
    encode_seconds: float
    upload_seconds: float
    commit_seconds: float
    publish_seconds: float


class Anchored(Message, frozen=True, kw_only=True):
    """An anchor of a version is in the store."""

    version: int


class Embedded(Message, frozen=True, kw_only=True):
    """The embedding of one sentence by published weights: the bits of the vector in hex."""

    kind: str
    bits: str


class Verified(Message, frozen=True, kw_only=True):
    """A follower holds a version and has computed the digest of all of it."""

    version: int
    record_digest: str
    digest: str
    resumed: bool
    """Found on disk after a restart, rather than just fetched."""
    steps: tuple[str, ...] = ()
    bytes_fetched: int = 0
    resolve_seconds: float = 0.0
    fetch_seconds: float = 0.0
    decode_seconds: float = 0.0
    apply_seconds: float = 0.0
    verify_seconds: float


class Failed(Message, frozen=True, kw_only=True):
    """The process gives up."""

    code: str
    message: str
    hint: str = ""


AnyMessage = Loaded | Committed | Anchored | Embedded | Verified | Failed
Report = Callable[[AnyMessage], None]
_Settings = TypeVar("_Settings", bound=Struct)


def decode_message(line: bytes) -> AnyMessage:
    """Read one line.

    Raises:
        msgspec.DecodeError: it is not a message.
    """
    return msgspec.json.decode(line, type=AnyMessage)


def play(kind: type[_Settings], part: Callable[[_Settings, Report], None]) -> None:
    """Run a process's part with the settings in its only argument, and report until it ends."""
    messages = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not end up among the messages
    threading.Thread(target=_leave_with_parent, daemon=True).start()

    def report(message: AnyMessage) -> None:
        messages.write(msgspec.json.encode(message) + b"\n")
        messages.flush()

    try:
        part(msgspec.json.decode(sys.argv[1], type=kind), report)
    except DeltawireError as error:
        report(Failed(code=error.code, message=str(error), hint=error.hint))
        sys.exit(error.exit_status)


def _leave_with_parent() -> None:
    """Standard input is a pipe that ends when the parent does, however it dies."""
    os.read(0, 1)
    os._exit(1)

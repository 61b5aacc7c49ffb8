"""Everything that can go wrong, as one tree with stable codes.

    DeltawireError
    ├── FormatError        bytes that are not what SPEC.md says: malformed_*, limit_exceeded
    ├── UnsupportedError   valid, but beyond this implementation: unsupported_*
    ├── IntegrityError     bytes that are not what a record promised: *_mismatch, broken_chain, ...
    ├── PathError          nothing to read: stream_not_found, version_not_found, path_lost
    ├── CommitError        a write that did not take place, or may not have: conflict, fenced, ...
    ├── StoreError         the store refused, failed or is unfit
    ├── InputError         what the caller passed in cannot be used
    └── DeadlineError      the caller's time ran out

The codes are those of SPEC.md section 13; they are append-only. ``str(error)`` is one line, ``error.code`` the code,
``error.hint`` what a person can do, ``error.exit_status`` the command line's exit status.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar


class DeltawireError(Exception):
    """The root of every error this library raises on purpose."""

    code: ClassVar[str] = ""
    hint: str = ""
    exit_status: ClassVar[int] = 1
    retryable: ClassVar[bool] = False

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        super().__init__(message)
        if hint is not None:  # better than what holds for every error of this code
            self.hint = hint


class FormatError(DeltawireError):
    """Bytes that break a rule of SPEC.md."""

    hint = "the object was not written by a conforming producer, or was damaged; do not apply it"


class MalformedRecordError(FormatError):
    """A JSON object that is not I-JSON or does not have the shape of its schema."""

    code = "malformed_record"


class MalformedPartError(FormatError):
    """An Arrow part or batch whose structure is not what SPEC.md section 8 says."""

    code = "malformed_part"


class MalformedRowError(FormatError):
    """A row whose streams do not decode under its codec."""

    code = "malformed_row"


class MalformedShardError(FormatError):
    """A safetensors shard whose header or layout is invalid."""

    code = "malformed_shard"


class LimitExceededError(FormatError):
    """A size, count, length or ratio above the limits in force."""

    code = "limit_exceeded"
    hint = "raise the limit only if you trust the producer"


class UnsupportedError(DeltawireError):
    """Valid input that this implementation does not understand."""

    hint = "upgrade the reader"


class UnsupportedProtocolError(UnsupportedError):
    """A protocol name or major version that is not ours."""

    code = "unsupported_protocol"


class UnsupportedFeatureError(UnsupportedError):
    """A required feature that is not implemented here."""

    code = "unsupported_feature"


class UnsupportedCodecError(UnsupportedError):
    """A codec that is not in the registry."""

    code = "unsupported_codec"


class UnsupportedDtypeError(UnsupportedError):
    """A dtype that is not in the registry."""

    code = "unsupported_dtype"


class IntegrityError(DeltawireError):
    """Bytes that are not what a record promised."""

    hint = "'deltawire fsck URL' says what is affected and what to do; what is held is still a whole version"


class SizeMismatchError(IntegrityError):
    """An object or range that is shorter or longer than its descriptor says."""

    code = "size_mismatch"


class DigestMismatchError(IntegrityError):
    """An object or range whose sha256 is not its descriptor's."""

    code = "digest_mismatch"


class BrokenChainError(IntegrityError):
    """A record that does not follow from its parent."""

    code = "broken_chain"


class WrongStreamError(IntegrityError):
    """A record of another stream."""

    code = "wrong_stream"


class BadSignatureError(IntegrityError):
    """A record without a signature by a key that may sign it."""

    code = "bad_signature"
    hint = "whoever wrote this does not hold a key that you trust; do not use it, and find out who can write there"


class MissingObjectError(IntegrityError):
    """An object named by a record that is not in the store."""

    code = "missing_object"


class WrongBaseError(IntegrityError):
    """The state held is not the one the delta was made against."""

    code = "wrong_base"
    hint = "what is here was changed, or is another version; begin again from a whole copy"


class StateMismatchError(IntegrityError):
    """Decoded state whose digest is not the record's."""

    code = "state_mismatch"


class PathError(DeltawireError):
    """There is nothing there to read."""

    exit_status = 3


class StreamNotFoundError(PathError):
    """No ``stream.json`` under the prefix."""

    code = "stream_not_found"
    hint = "check the URL; a stream is the folder that holds stream.json"


class VersionNotFoundError(PathError):
    """The version asked for has not been committed, or is no longer retained."""

    code = "version_not_found"
    hint = "'deltawire log URL' lists what is there"


class PathLostError(PathError):
    """No anchor and chain of deltas leads to the version."""

    code = "path_lost"
    hint = "wait for the next anchor, or ask the producer to write one"


class CommitError(DeltawireError):
    """A write that did not take place, or may not have."""

    exit_status = 5


class ConflictError(CommitError):
    """Another writer committed this version first."""

    code = "conflict"
    hint = "two producers write to one stream; stop one of them and restart the other"


class FencedError(CommitError):
    """A writer with a higher epoch has taken over."""

    code = "fenced"
    hint = "this writer was replaced; it must not write again"


class LeaseHeldError(CommitError):
    """Another producer holds the stream, and is not known to be gone."""

    code = "lease_held"
    hint = "stop the other producer and try again, or take the stream from it with --take-over (take_over=True)"
    retryable = True


class OutcomeUnknownError(CommitError):
    """The answer to a commit was lost and could not be read back."""

    code = "outcome_unknown"
    hint = "open the stream again: it shows whether the version was committed"
    retryable = True


class StoreError(DeltawireError):
    """The store refused, failed or cannot do what is asked."""

    exit_status = 4


class ObjectNotFoundError(StoreError):
    """No object under this key."""

    code = "object_not_found"


class ObjectExistsError(StoreError):
    """A create found the key taken."""

    code = "object_exists"


class PreconditionFailedError(StoreError):
    """A compare-and-swap found another object than expected."""

    code = "precondition_failed"


class StoreUnavailableError(StoreError):
    """The store did not answer, or answered with a failure of its own."""

    code = "store_unavailable"
    hint = "check the endpoint and the network, then try again"
    retryable = True


class StoreDeniedError(StoreError):
    """The store refused the credentials or the permission."""

    code = "store_denied"
    hint = "check the credentials and the bucket's policy"


class StoreUnfitError(StoreError):
    """The store does not keep a guarantee that is needed here."""

    code = "store_unfit"
    hint = "run 'deltawire probe URL'; such a store can only carry a stream with one declared writer"


class InvalidKeyError(StoreError):
    """A key outside the grammar of SPEC.md section 6."""

    code = "invalid_key"


class InputError(DeltawireError):
    """What the caller passed in cannot be used."""

    exit_status = 2


class InvalidArgumentError(InputError):
    """An option or value that makes no sense."""

    code = "invalid_argument"


class InvalidStateError(InputError):
    """A model state that cannot be published."""

    code = "invalid_state"


class SourceChangedError(InputError):
    """The tensors being published were changed while they were read."""

    code = "source_changed"
    hint = "do not step the optimizer before publish returns; open the publisher again"


class TargetMismatchError(InputError):
    """A target whose tensors do not have the names, dtypes or shapes of the stream."""

    code = "target_mismatch"


class TargetBusyError(InputError):
    """Another process is applying to the same directory."""

    code = "target_busy"


class MissingDependencyError(InputError):
    """An optional package that this call needs is not installed."""

    code = "missing_dependency"


class DeadlineError(DeltawireError):
    """The caller's time ran out before the work was done."""

    exit_status = 6
    retryable = True


class DeadlineExceededError(DeadlineError):
    """A deadline passed."""

    code = "deadline_exceeded"
    hint = "nothing was changed; try again with more time"


def _leaves(root: type[DeltawireError]) -> Iterator[type[DeltawireError]]:
    for child in root.__subclasses__():
        if child.code:
            yield child
        yield from _leaves(child)


CODES: dict[str, type[DeltawireError]] = {error.code: error for error in _leaves(DeltawireError)}
"""Every stable code and the error that carries it (SPEC.md section 13)."""

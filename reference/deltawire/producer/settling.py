"""Making an anchor or a span real, and taking it back (SPEC.md sections 11.1 and 11.12)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from deltawire.deadline import Deadline
from deltawire.errors import DeltawireError, ObjectNotFoundError
from deltawire.format.records import Descriptor, StreamRecord
from deltawire.producer.commit import Outcome, create_record
from deltawire.reading.retention import read_retention
from deltawire.reading.transfer import Transfer


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """An anchor or a span, complete but for its record."""

    key: str
    """Of the record."""
    data: bytes = field(repr=False)
    """The record."""
    prefix: str
    """The data folder that is its own."""
    named: Sequence[Descriptor] = field(repr=False)
    """All that the record names."""
    versions: tuple[int, ...]
    """The versions that must be retained for it."""


def create(transfer: Transfer, ready: Ready, deadline: Deadline) -> bool:
    """Create the record; False if another one is there already, which is as good: ours is removed then. CMT-8, MNT-2

    Raises:
        OutcomeUnknownError: it may or may not be there; its data stays.
        StoreError: the store refused it, and nothing was created.
        DeadlineExceededError: it was not begun in time.
    """
    deadline.remaining()  # looked at no more after this: what is begun is finished
    if create_record(transfer.store, ready.key, ready.data, deadline=Deadline(None)) is Outcome.OURS:
        return True
    remove_folders(transfer, [ready.prefix])
    return False


def look_after(transfer: Transfer, stream: StreamRecord, ready: Ready) -> bool:
    """After a record was created: whether it should be there; if not, it is removed with its data. MNT-3

    Raises:
        StoreError, FormatError, IntegrityError: that could not be found out, or not be done.
    """
    if is_whole(transfer, stream, ready):
        return True
    transfer.store.delete(ready.key)  # before the rest: whoever finds the record finds what it names
    remove_folder(transfer, ready.prefix)
    return False


def is_whole(transfer: Transfer, stream: StreamRecord, ready: Ready) -> bool:
    """Whether all that a record names is in the store, and its versions are retained. MNT-3

    Raises:
        StoreError, FormatError, WrongStreamError: the store, or ``retention.json``, could not be read.
    """
    forever = Deadline(None)

    def there(descriptor: Descriptor) -> bool:
        try:
            return transfer.store.head(descriptor.key).bytes == descriptor.bytes
        except ObjectNotFoundError:
            return False

    if not all(transfer.map(there, ready.named, deadline=forever)):
        return False
    retention = read_retention(transfer, stream, forever)
    return all(version in retention for version in ready.versions)


def remove_folder(transfer: Transfer, prefix: str) -> None:
    """Delete what one logical write has stored and no record names."""
    transfer.store.delete_all([info.key for info in transfer.store.list(prefix)])


def remove_folders(transfer: Transfer, prefixes: Iterable[str]) -> list[DeltawireError]:
    """Delete several, as far as the store lets; what stays is an orphan that is collected later (COL-7)."""
    failures = []
    for prefix in prefixes:
        try:
            remove_folder(transfer, prefix)
        except DeltawireError as error:
            failures.append(error)
    return failures

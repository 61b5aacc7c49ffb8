"""Writing anchors beside the line of versions (SPEC.md section 11.3)."""

from __future__ import annotations

from deltawire.deadline import Deadline
from deltawire.format import keys, records
from deltawire.format.records import AnchorRecord
from deltawire.limits import Limits
from deltawire.producer.anchors import AnchorPolicy, BackgroundTask
from deltawire.producer.base import BaseState, Freeze
from deltawire.producer.envelope import envelope
from deltawire.producer.opening import Line
from deltawire.producer.settling import Ready, create, look_after
from deltawire.producer.signing import encode
from deltawire.reading.stream import Committed
from deltawire.reading.transfer import Transfer
from deltawire.snapshots.writer import write_snapshot
from deltawire.store.base import Store


class Anchoring:
    """Writes an anchor in the background when one is due; versions do not wait for it, and do not fail with it."""

    def __init__(self, store: Store, line: Line, *, policy: AnchorPolicy, shard_bytes: int, limits: Limits) -> None:
        self._store = store
        self._line = line
        self._policy = policy
        self._shard_bytes = shard_bytes
        self._limits = limits
        self._task = BackgroundTask()

    @property
    def error(self) -> Exception | None:
        """Why the last anchor could not be written, if it could not."""
        return self._task.error

    def wait(self, timeout: float | None) -> bool:
        """Wait for an anchor that is being written; whether none is any more."""
        return self._task.wait(timeout)

    def consider(self, committed: Committed) -> None:
        """Begin an anchor of the version just committed, which is the line's base, if one is due and none is begun."""
        line, base = self._line, self._line.base
        if base is None or line.anchor is None or self._task.busy:
            return
        version, written = committed.record.version, line.delta_bytes
        if not self._policy.due(
            versions=version - line.anchor,
            delta_bytes=written - line.anchor_bytes,
            state_bytes=base.table.state_bytes,
        ):
            return
        freeze, files = base.freeze(), dict(line.files)

        def work() -> None:
            try:
                ready = self._write(committed, base, freeze, files)
            finally:
                base.release()
            if not self._create(ready):
                return
            # Assigned, never added to: the publisher's own thread reads them meanwhile.
            line.anchor, line.anchor_bytes = version, written

        if not self._task.start(work):
            base.release()

    def _write(self, committed: Committed, base: BaseState, freeze: Freeze, files: dict[str, bytes]) -> Ready:
        record = committed.record
        head = envelope(record.stream_id, "anchor", epoch=record.epoch, writer_features=record.writer_features)
        prefix = keys.data_prefix(record.version, head["commit_id"])
        writes = self._store.write_batch()
        snapshot = write_snapshot(
            writes,
            base.table,
            lambda tensor: base.read_frozen(freeze, tensor),
            freeze.digests,
            prefix=prefix,
            shard_bytes=self._shard_bytes,
            files=files,
        )
        writes.finish()
        anchor = AnchorRecord(
            **head,
            version=record.version,
            version_digest=committed.digest,
            tensors=record.tensors,
            state_digest=record.state_digest,
            snapshot=snapshot,
        )
        key, data = keys.anchor_key(record.version), encode(anchor, self._line.signing)
        records.decode(data, AnchorRecord, what=key, limits=self._limits)  # LIM-4
        return Ready(key=key, data=data, prefix=prefix, named=records.named_by(anchor), versions=(record.version,))

    def _create(self, ready: Ready) -> bool:
        """Create the record; False if what it names was taken for orphans meanwhile, or its version collected. MNT-3"""
        transfer = Transfer(self._store, limits=self._limits, workers=2)
        try:
            # Another maintainer may have anchored this version meanwhile; either anchor is as good. ANC-4
            if not create(transfer, ready, Deadline(None)):
                return True
            return look_after(transfer, self._line.stream, ready)
        finally:
            transfer.close()

"""Streams built object by object, with the same bytes each time, and with faults where a case wants them.

Everything that points at something is computed from what is stored in the end, so that a fault stays the only one: if a
version's record is edited, the next one names the edited bytes.
"""

from __future__ import annotations

import copy
import hashlib
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from authoring.parts import RawPart, RawRow, rows_between, write_part
from authoring.states import M64, State, small_model, trained
from deltawire.format.keys import anchor_key, data_prefix, part_name, shard_name, span_key, version_key
from deltawire.format.strict_json import sha256
from deltawire.snapshots.header import build_header, file_order

Json = dict[str, Any]
Edit = Callable[[Json], object]
"""Changes a record in place before it is stored."""
Raw = Callable[[bytes], bytes]
"""Changes the bytes of an object before they are stored."""
PRODUCER = {"name": "conformance", "version": "0.1"}
SIGNATURE_TEXT = b"deltawire-signature-1\n"


def same(data: bytes) -> bytes:
    """Leave bytes as they are."""
    return data


def unedited(record: Json) -> None:
    """Leave a record as it is."""


def dump(value: Any) -> bytes:
    """JSON without white space."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def named_uuid(*names: object) -> str:
    """The same uuid for the same names."""
    digest = hashlib.sha256("/".join(map(str, names)).encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


def private_key(name: str) -> Ed25519PrivateKey:
    """The same signing key for the same name. Public by nature: it stands in this repository."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"conformance {name}".encode()).digest())


def public_key(name: str) -> str:
    """Its public half, as records write it."""
    return "ed25519:" + private_key(name).public_key().public_bytes_raw().hex()


def private_pem(name: str) -> bytes:
    """It as a PKCS8 PEM file."""
    return private_key(name).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


class Stream:
    """A stream under construction: ``objects`` by key.

    Args:
        name: of the stream; what its identities are made from.
        signers: names of keys in ``signing_keys``; the first one signs.
        writer_features: besides ``signed`` and reader features.
        reader_features: of both lists (VER-3).
    """

    def __init__(
        self, name: str, *, signers: Sequence[str] = (), writer_features: Sequence[str] = (),
        reader_features: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.name = name
        self.stream_id = named_uuid(name, "stream")
        self.signers = list(signers)
        self.signer: str | None = self.signers[0] if self.signers else None
        """Who signs the records that come next."""
        self.reader_features = list(reader_features)
        self.writer_features = [*writer_features, *reader_features, *(["signed"] if signers else [])]
        self.objects: dict[str, bytes] = {}
        self.records: list[Json] = []
        """Version records, by number."""
        self.states: list[State] = []
        """States of the versions, by number."""
        self.epoch = 0
        """Epoch of the version records that come next."""
        self._tables: list[Json] = []
        self._commits = 0

    # Records

    def envelope(self, kind: str, **members: Any) -> Json:
        """The members that every record begins with, and more."""
        self._commits += 1
        record = {
            "protocol": "deltawire",
            "protocol_version": "0.1",
            "kind": kind,
            "stream_id": self.stream_id,
            "commit_id": named_uuid(self.name, kind, self._commits),
            "epoch": 0,
            "created_at": f"2026-12-01T09:{self._commits // 60 % 60:02d}:{self._commits % 60:02d}Z",
            "producer": dict(PRODUCER),
            "reader_features": list(self.reader_features),
            "writer_features": list(self.writer_features),
            "metadata": {},
        }
        return record | members

    def create(self, *, writers: str = "many", edit: Edit = unedited, raw: Raw = same, **members: Any) -> Json:
        """Store ``stream.json``."""
        record = self.envelope("stream", writers=writers, **members)
        if self.signers:
            record["signing_keys"] = [public_key(name) for name in self.signers]
        return self.store("stream.json", record, edit=edit, raw=raw, signed=True)

    def store(self, key: str, record: Json, *, edit: Edit = unedited, raw: Raw = same, signed: bool = False) -> Json:
        """Store a record under a key, signed if the stream is and records of its kind are."""
        edit(record)
        data = dump(record)
        if signed and self.signer is not None and "signature" not in record:
            record["signature"] = {"key": public_key(self.signer), "value": "0" * 128}
            unsigned = dump(record)
            value = private_key(self.signer).sign(SIGNATURE_TEXT + unsigned).hex()
            data = unsigned.replace(b"0" * 128, value.encode())
            record["signature"]["value"] = value
        self.objects[key] = raw(data)
        return record

    def digest(self, version: int) -> str:
        """The sha256 of a version's record as it is stored."""
        return sha256(self.objects[version_key(version)])

    # Versions

    def rebase(
        self,
        state: State,
        *,
        metadata: Json | None = None,
        shard_tensors: int | None = None,
        edit: Edit = unedited,
        raw: Raw = same,
        table: Edit = unedited,
        table_raw: Raw = same,
        header: Callable[[Json, int], object] | None = None,
        shard: Callable[[bytes, int], bytes] | None = None,
        index: Raw = same,
    ) -> Json:
        """The next version, with a snapshot.

        Args:
            state: of the version.
            metadata: free members.
            shard_tensors: tensors to a shard; all in one if None.
            edit, raw: the record, as an object and as bytes.
            table, table_raw: the tensor table, likewise.
            header, shard: the JSON header of a shard and its bytes, given its number; digests fit what comes out.
            index: the shard index.
        """
        number = len(self.records)
        record = self._version(state, metadata)
        prefix = data_prefix(number, record["commit_id"])
        record["tensors"] = self.table(state, prefix, edit=table, raw=table_raw)
        record["state_digest"] = f"{state.digest:016x}"
        record["snapshot"] = self.snapshot(
            state, prefix, shard_tensors=shard_tensors, header=header, shard=shard, index=index
        )
        record["files"] = copy.deepcopy(record["snapshot"].get("files", []))
        if not record["files"]:
            del record["files"]
        return self._commit(number, state, record, edit, raw)

    def delta(
        self,
        state: State,
        *,
        codec: str | Mapping[str, str] = "gap",
        metadata: Json | None = None,
        rows: Callable[[list[RawRow]], list[RawRow] | None] | None = None,
        write: Callable[[list[RawRow]], list[RawPart]] | None = None,
        sums: bool = True,
        edit: Edit = unedited,
        raw: Raw = same,
    ) -> Json:
        """The next version, with a delta from the last one.

        Args:
            state: of the version; its tensors are those of the last one.
            codec: see ``rows_between``.
            metadata: free members.
            rows: changes the rows before they are written.
            write: makes parts of the rows; one part of one batch if None.
            sums: whether the record's sums are those of the rows as changed; else those of the rows as they were.
            edit, raw: the record, as an object and as bytes.
        """
        number = len(self.records)
        old = self.states[-1]
        record = self._version(state, metadata)
        record["tensors"] = copy.deepcopy(self.records[-1]["tensors"])
        honest = rows_between(old, state, codec=codec)
        changed = copy.deepcopy(honest)
        if rows is not None:
            changed = rows(changed) or changed
        made = write(changed) if write is not None else [write_part([changed])] if changed else []
        record["delta"] = self.delta_of(changed if sums else honest, made, data_prefix(number, record["commit_id"]))
        record["state_digest"] = f"{state.digest:016x}"
        files = self._files(state, number, record["commit_id"])
        if files:
            record["files"] = files
        return self._commit(number, state, record, edit, raw)

    def delta_of(self, rows: Sequence[RawRow], parts: Sequence[RawPart], prefix: str) -> Json:
        """The member ``delta`` for rows that are stored as parts below a prefix."""
        described = []
        for number, part in enumerate(parts):
            key = prefix + part_name(number)
            self.objects[key] = part.data
            described.append({"key": key, **part.descriptor})
        return {
            "changed_elements": sum(row.changed for row in rows),
            "changed_tensors": len({row.tensor for row in rows}),
            "digest_before": f"{sum(row.digest_before for row in rows) & M64:016x}",
            "digest_after": f"{sum(row.digest_after for row in rows) & M64:016x}",
            "parts": described,
        }

    def _version(self, state: State, metadata: Json | None) -> Json:
        number = len(self.records)
        record = self.envelope("version", epoch=self.epoch, metadata=metadata or {}, version=number)
        if number:
            record["parent"] = {"version": number - 1, "digest": self.digest(number - 1)}
        return record

    def _commit(self, number: int, state: State, record: Json, edit: Edit, raw: Raw) -> Json:
        stored = self.store(version_key(number), record, edit=edit, raw=raw, signed=True)
        self.records.append(stored)
        self.states.append(state)
        return stored

    def _files(self, state: State, number: int, commit_id: str) -> list[Json]:
        """FIL-1: what the parent has keeps its descriptor."""
        before = {file["name"]: file for file in self.records[-1].get("files", [])}
        found = []
        for name, data in sorted(state.files.items()):
            old = before.get(name)
            if old is not None and old["digest"] == sha256(data):
                found.append(copy.deepcopy(old))
            else:
                found.append(self.file(name, data, data_prefix(number, commit_id) + "files/" + name))
        return found

    # Objects

    def add_object(self, key: str, data: bytes, media_type: str) -> Json:
        """Store an object; its descriptor."""
        self.objects[key] = data
        return {"key": key, "media_type": media_type, "bytes": len(data), "digest": sha256(data)}

    def file(self, name: str, data: bytes, key: str) -> Json:
        """Store an auxiliary file."""
        kind = "application/json" if name.endswith(".json") else "application/octet-stream"
        return self.add_object(key, data, kind) | {"name": name}

    def table(self, state: State, prefix: str, *, edit: Edit = unedited, raw: Raw = same) -> Json:
        """Store a tensor table."""
        record: Json = {
            "protocol": "deltawire",
            "protocol_version": "0.1",
            "kind": "tensor_table",
            "tensors": [{"name": name, "dtype": v.dtype, "shape": list(v.shape)} for name, v in state.tensors.items()],
        }
        if state.aliases:
            record["aliases"] = [{"name": name, "target": target} for name, target in sorted(state.aliases.items())]
        edit(record)
        return self.add_object(prefix + "tensors/table.json", raw(dump(record)), "application/json")

    def snapshot(
        self,
        state: State,
        prefix: str,
        *,
        shard_tensors: int | None = None,
        header: Callable[[Json, int], object] | None = None,
        shard: Callable[[bytes, int], bytes] | None = None,
        index: Raw = same,
    ) -> Json:
        """Store a snapshot; the member ``snapshot``."""
        table, digests = state.table(), state.digests()
        size = shard_tensors or len(table)
        runs = [table[begin : begin + size] for begin in range(0, len(table), size)]
        shards, weight_map = [], {}
        for number, run in enumerate(runs):
            head = build_header(file_order(run), {t.name: digests[t.name] for t in run})
            if header is not None:
                parsed = json.loads(head[8:])
                header(parsed, number)
                text = dump(parsed)
                text += b" " * (-(len(text) + 8) % 8)
                head = len(text).to_bytes(8, "little") + text
            data = head + b"".join(state.tensors[t.name].data for t in file_order(run))
            if shard is not None:
                data = shard(data, number)
            name = shard_name(number + 1, len(runs))
            head_bytes = 8 + int.from_bytes(data[:8], "little")
            shards.append(
                self.add_object(prefix + name, data, "application/vnd.safetensors")
                | {
                    "header_bytes": head_bytes,
                    "header_digest": sha256(data[:head_bytes]),
                    "first_tensor": run[0].ordinal,
                    "last_tensor": run[-1].ordinal,
                }
            )
            weight_map.update(dict.fromkeys((t.name for t in run), name))
        total = sum(t.bytes for t in table)
        text = dump({"metadata": {"total_size": total}, "weight_map": weight_map})
        made: Json = {
            "shards": shards,
            "index": self.add_object(prefix + "model.safetensors.index.json", index(text), "application/json"),
        }
        if state.files:
            made["files"] = [self.file(name, data, prefix + name) for name, data in sorted(state.files.items())]
        return made

    # Beside the line

    def anchor(self, version: int, *, edit: Edit = unedited, raw: Raw = same, **snapshot: Any) -> Json:
        """An anchor of a version; see ``snapshot`` for what can be edited in it."""
        state, named = self.states[version], self.records[version]
        record = self.envelope("anchor", epoch=named["epoch"], version=version)
        record["version_digest"] = self.digest(version)
        record["tensors"] = copy.deepcopy(named["tensors"])
        record["state_digest"] = f"{state.digest:016x}"
        record["snapshot"] = self.snapshot(state, data_prefix(version, record["commit_id"]), **snapshot)
        return self.store(anchor_key(version), record, edit=edit, raw=raw, signed=True)

    def span(
        self,
        base: int,
        target: int,
        *,
        codec: str = "gap",
        rows: Callable[[list[RawRow]], list[RawRow] | None] | None = None,
        edit: Edit = unedited,
        raw: Raw = same,
    ) -> Json:
        """A span from one version to a later one."""
        named = self.records[target]
        record = self.envelope("span", epoch=named["epoch"], base=base, version=target)
        record["base_digest"], record["version_digest"] = self.digest(base), self.digest(target)
        record["tensors"] = copy.deepcopy(named["tensors"])
        record["state_digest"] = f"{self.states[target].digest:016x}"
        between = rows_between(self.states[base], self.states[target], codec=codec)
        if rows is not None:
            between = rows(between) or between
        parts = [write_part([between], level=19)] if between else []
        record["delta"] = self.delta_of(between, parts, data_prefix(target, record["commit_id"]))
        replaced = [self.records[number]["delta"]["parts"] for number in range(base + 1, target + 1)]
        record["replaces_bytes"] = sum(part["bytes"] for parts_of in replaced for part in parts_of)
        return self.store(span_key(base, target), record, edit=edit, raw=raw, signed=True)

    def head(self, version: int, *, edit: Edit = unedited, raw: Raw = same, **members: Any) -> Json:
        """The head."""
        epoch = self.records[version]["epoch"] if version < len(self.records) else 0
        record = self.envelope("head", epoch=epoch, version=version, **members)
        return self.store("head.json", record, edit=edit, raw=raw)

    def lease(
        self, holder: str = "trainer-0", *, epoch: int | None = None, ttl_ms: int = 30000, released: bool = False,
        edit: Edit = unedited, raw: Raw = same,
    ) -> Json:  # fmt: skip
        """The writer lease."""
        record = self.envelope("lease", epoch=self.epoch if epoch is None else epoch)
        record |= {"holder": holder, "acquired_at": record["created_at"], "ttl_ms": ttl_ms, "released": released}
        return self.store("leases/writer.json", record, edit=edit, raw=raw)

    def pin(
        self, first: int, *, last: int | None = None, holder: str = "engine-0", ttl_ms: int = 60000,
        released: bool = False, edit: Edit = unedited, raw: Raw = same,
    ) -> Json:  # fmt: skip
        """A reader pin."""
        record = self.envelope("pin")
        record |= {"holder": holder, "acquired_at": record["created_at"], "ttl_ms": ttl_ms, "released": released}
        record |= {"first": first} | ({} if last is None else {"last": last})
        return self.store(f"leases/readers/{named_uuid(self.name, 'pin', holder)}.json", record, edit=edit, raw=raw)

    def retention(self, boundary: int, *kept: int, edit: Edit = unedited, raw: Raw = same) -> Json:
        """The boundary."""
        record = self.envelope("retention", boundary=boundary, **({"kept": list(kept)} if kept else {}))
        return self.store("retention.json", record, edit=edit, raw=raw)


def small_stream(name: str, *, versions: int = 3, **options: Any) -> Stream:
    """The stream that most cases begin with: a rebase of ``small_model`` and deltas after it, with a head."""
    stream = Stream(name, **options)
    stream.create()
    state = small_model()
    stream.rebase(state)
    for step in range(1, versions):
        state = trained(state, step)
        stream.delta(state)
    stream.head(versions - 1)
    return stream

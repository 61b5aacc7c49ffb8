"""A small real stream, ways to damage it and to lie in it, and what a follower may make of that.

``Stream`` holds the exact objects of a stream and the states it committed. ``Stream.lie`` rewrites one record and
brings every hash that depends on it up to date, so that only the meaning of the lie can give it away.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import deserialize

from deltawire import AnchorPolicy, Follower, PartOptions, Publisher
from deltawire.errors import CODES
from deltawire.format import keys
from deltawire.format.dtypes import DTYPES
from deltawire.format.strict_json import sha256
from deltawire.store.memory import MemoryStore
from tests.core.refusal import refusal
from tests.strategies import State

Record = dict[str, Any]
_NUMBERS = itertools.count()

TABLE = "table"
NEWEST = 3
ANCHOR = 2


def _states() -> list[State]:
    rng = np.random.default_rng(0)

    def noise(name: str, size: int) -> Any:
        dtype = DTYPES[name]
        return np.frombuffer(rng.bytes(size * dtype.width), dtype.storage).copy()

    kinds = {"embed": "BF16", "w": "F32", "scale": "F64", "empty": "I8", "packed": "F4", "codes": "U8"}
    shapes = {"embed": (32, 8), "w": (20, 5), "scale": (), "empty": (0, 3), "packed": (4, 8), "codes": (300,)}
    sizes = {"embed": 256, "w": 100, "scale": 1, "empty": 0, "packed": 16, "codes": 300}
    bits = {name: noise(kind, sizes[name]) for name, kind in kinds.items()}
    first = State(bits, {name: DTYPES[kind] for name, kind in kinds.items()}, dict(shapes), {"head": "embed"})
    line = [first]
    for version in range(1, NEWEST + 1):
        bits = {name: array.copy() for name, array in line[-1].bits.items()}
        for name in ("embed", "w", "packed"):
            where = rng.choice(sizes[name], sizes[name] // 10, replace=False)
            bits[name][where] += np.array(1, bits[name].dtype)
        bits["embed"][version] ^= np.uint16(0x8000)
        if version == 2:
            bits["codes"] = noise("U8", 300)  # all of it: a dense row
            bits["scale"] = noise("F64", 1)
        line.append(replace(first, bits=bits))
    return line


@dataclass(frozen=True)
class Stream:
    """Objects by key."""

    objects: dict[str, bytes]

    def store(self) -> MemoryStore:
        """A store with these objects and nothing else."""
        store = MemoryStore(f"hostile-{next(_NUMBERS) % 16}")
        put_all(store, self.objects)
        return store

    def record(self, key: str) -> Record:
        """One of its records, parsed."""
        found: Record = json.loads(self.objects[key])
        return found

    def lie(self, mutate: Callable[[str, Record], None], parts: Mapping[str, bytes] | None = None) -> Stream:
        """Rewrite records from the bottom up, each with true hashes of what it names.

        ``mutate`` is called with ``TABLE`` or a record's key, and its members, after its links were set.
        """
        objects: dict[str, bytes] = {**self.objects, **(parts or {})}
        table_key = table_key_of(objects)
        table = json.loads(objects[table_key])
        mutate(TABLE, table)
        data = to_json(table)
        described = {"bytes": len(data), "digest": sha256(data)}
        objects[table_key] = data
        stream = json.loads(objects[keys.STREAM])
        mutate(keys.STREAM, stream)
        objects[keys.STREAM] = to_json(stream)
        parent = b""
        for version in range(NEWEST + 1):
            key = keys.version_key(version)
            record = json.loads(objects[key])
            record["tensors"] |= described
            if version:
                record["parent"]["digest"] = sha256(parent)
            mutate(key, record)
            objects[key] = parent = to_json(record)
            if version == ANCHOR:
                anchor = json.loads(objects[keys.anchor_key(ANCHOR)])
                anchor["tensors"] |= described
                anchor["version_digest"] = sha256(parent)
                mutate(keys.anchor_key(ANCHOR), anchor)
                objects[keys.anchor_key(ANCHOR)] = to_json(anchor)
        head = json.loads(objects[keys.HEAD])
        mutate(keys.HEAD, head)
        objects[keys.HEAD] = to_json(head)
        return Stream(objects)

    def damaged(self, key: str, data: bytes | None) -> Stream:
        """With one object replaced, or removed."""
        objects = {name: stored for name, stored in self.objects.items() if name != key}
        return Stream(objects if data is None else objects | {key: data})


def to_json(value: Record) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def table_key_of(objects: Mapping[str, bytes]) -> str:
    """Key of the one tensor table that all versions share."""
    [key] = [key for key in objects if key.endswith("/tensors/table.json")]
    return key


def put_all(store: MemoryStore, objects: Mapping[str, bytes]) -> None:
    for info in list(store.list("")):
        if info.key not in objects:
            store.delete(info.key)
    for key, data in objects.items():
        store.put(key, data, mode="overwrite")


STATES = _states()


@cache
def honest() -> Stream:
    """Four versions of six tensors: a snapshot, gap rows in several batches, a dense row, an anchor, a file."""
    store = MemoryStore("hostile-honest")
    policy = AnchorPolicy(every=ANCHOR, outweigh=None)
    with Publisher(store, anchors=policy, parts=PartOptions(batch_bytes=120), shard_bytes=700) as publisher:
        for state in STATES:
            publisher.publish(state.arrays(), dtypes=state.dtype_names(), files={"config.json": b'{"x": 1}'})
            publisher.wait_for_anchor()
    objects = {info.key: store.get(info.key, max_bytes=1 << 30).data for info in store.list("")}
    assert keys.anchor_key(ANCHOR) in objects
    codecs = json.dumps([json.loads(objects[keys.version_key(v)])["delta"]["parts"] for v in range(1, NEWEST + 1)])
    assert codecs.count('"offset"') > 4, "several batches"
    return Stream(objects)


# Targets, and what is in them.


class Case:
    """A target that holds ``held`` (or nothing), to be followed from a hostile store."""

    def __init__(self, kind: str, held: int | None, folder: Path) -> None:
        self.kind, self.held = kind, held
        self._folder = folder / f"target-{next(_NUMBERS)}"
        self._arrays = {name: np.zeros_like(array) for name, array in STATES[0].arrays().items()}
        self._arrays["head"] = self._arrays["embed"]
        self._tensors = {name: torch.from_numpy(a.reshape(-1).view(np.uint8)) for name, a in self._arrays.items()}
        self._tensors = {name: self._typed(name, raw) for name, raw in self._tensors.items()}
        places = {"own": None, "arrays": self._arrays, "torch": self._tensors, "directory": self._folder}
        self.target: Any = places[kind]
        if held is not None:
            if kind == "directory":
                shutil.copytree(_prepared(folder, held), self._folder)
            else:
                with Follower(_good_store(), self.target) as follower:
                    follower.poll(to=held)
                    self.target = follower.target

    def _typed(self, name: str, raw: torch.Tensor) -> torch.Tensor:
        state = STATES[0]
        name = state.aliases.get(name, name)
        kinds = {"BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64, "I8": torch.int8,
                 "F4": torch.float4_e2m1fn_x2, "U8": torch.uint8}  # fmt: skip
        kind = kinds[state.dtypes[name].name]
        empty = torch.empty(0, dtype=kind)
        return (raw.view(kind) if raw.numel() else empty).reshape(state.stored_shape(name))

    def follow(self, store: MemoryStore, *, to: int | None = None) -> str | None:
        """Poll; the error's code, if it ends in one. Afterwards the target is one of the committed versions."""
        with Follower(store, self.target, workers=2) as follower:
            before = follower.version
            assert before == self.held
            code = refusal(lambda: follower.poll(to=to, timeout=60))
            assert code is None or code in CODES, code
            version = follower.version
            assert before is None or (version is not None and version >= before)
            self._check(version, follower)
            self.held = version
            if self.kind != "directory":
                self.target = follower.target
        return code

    def _check(self, version: int | None, follower: Follower) -> None:
        if version is None:
            if self.kind == "directory":
                assert not [path for path in self._folder.glob("*") if path.name != ".deltawire"]
            elif self.kind == "own":
                assert not follower.arrays
            else:
                assert not any(array.view(np.uint8).any() for array in self._flat().values())
            return
        found = self._bytes(follower)
        expected = {name: bits.tobytes() for name, bits in STATES[version].bits.items()}
        assert {name: found[name] for name in expected} == expected, f"the target is not version {version}"
        follower.verify()

    def _flat(self) -> dict[str, Any]:
        return {name: array.reshape(-1) for name, array in self._arrays.items()}

    def _bytes(self, follower: Follower) -> dict[str, bytes]:
        if self.kind == "own":
            return {name: np.ascontiguousarray(array).tobytes() for name, array in follower.arrays.items()}
        if self.kind == "directory":
            files = sorted(self._folder.glob("*.safetensors"))
            views = [view for file in files for view in deserialize(file.read_bytes())]  # type: ignore[no-untyped-call]
            return {name: bytes(view["data"]) for name, view in views}
        return {name: array.tobytes() for name, array in self._arrays.items()}


@cache
def _good_store() -> MemoryStore:
    store = MemoryStore("hostile-good")
    put_all(store, honest().objects)
    return store


@cache
def _prepared(folder: Path, held: int) -> Path:
    path = folder / f"prepared-{held}"
    with Follower(_good_store(), path) as follower:
        follower.poll(to=held)
    return path


KINDS = ("own", "arrays", "torch", "directory")


def survive(stream: Stream, kind: str, held: int | None, folder: Path) -> str | None:
    """Follow a hostile stream, then the honest one: whatever happened, the target is whole and goes on.

    Returns the code of the first error, None if there was none.
    """
    case = Case(kind, held, folder)
    code = case.follow(stream.store())
    if case.held == held:
        assert case.follow(_good_store()) is None
        assert case.held == NEWEST
    else:  # it holds a version whose record may be a harmless lie, and then the honest line is another one
        assert case.follow(_good_store()) in (None, "broken_chain")
    return code

"""The suite's own look at a stream: every check of SPEC.md section 11.8, and the states bit by bit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pyarrow as pa

from deltawire import Follower
from deltawire.errors import DeltawireError
from deltawire.format import keys, records
from deltawire.format.records import PinRecord
from deltawire.inspecting.verification import verify_stream
from deltawire.limits import DEFAULT_LIMITS
from deltawire.store import Store
from deltawire.targets.arrays import ArraysTarget
from deltawire_conformance.case import CaseFolder, Judge
from deltawire_conformance.neutral import NeutralState, differences, neutral_files, neutral_tensor
from deltawire_conformance.places import contents


def judge(step: Judge, case: CaseFolder, store: Store, laid: Mapping[str, bytes]) -> Iterator[str]:
    """Say what is not as a step demands.

    Args:
        step: what to look at.
        case: of which it is a step.
        store: of the stream.
        laid: objects that the suite itself put there.
    """
    objects = contents(store)
    yield from _objects(step, objects, laid)
    yield from _records(step, objects)
    yield from unpinned(store, step.pinned)
    if step.unpinned:
        yield from (f"{key} is not released" for key, data in live_pins(store).items() if laid.get(key) != data)
    found = [] if "stream.json" not in objects else verify_stream(store, deep=True, trust=step.trust or None).findings
    unexpected = [finding for finding in found if finding.code not in step.findings]
    yield from (f"{finding.key}: {finding.code}: {finding.message}" for finding in unexpected)
    yield from (f"no {code} was found" for code in step.findings if code not in {finding.code for finding in found})
    numbers = [int(key[9:-5]) for key in objects if fnmatchcase(key, "versions/*.json")]
    if step.newest is not None and max(numbers, default=None) != step.newest:
        yield f"the newest version is {max(numbers, default=None)}, expected {step.newest}"
    if step.codecs:
        found_codecs = ((key, codec) for key, codec in _codecs(objects) if codec not in step.codecs)
        yield from (f"{key} has rows of the codec {codec}" for key, codec in found_codecs)
    for version, name in step.states.items():
        yield from _state(store, int(version), case.state(name))


def read_state(store: Store, version: int | None = None) -> NeutralState:
    """A version's state, read by the reference, the newest if None.

    Raises:
        DeltawireError: it cannot be read.
    """
    with Follower(store, pin=False) as follower:
        follower.poll(to=version)
        held = follower.target.held
        assert held is not None and isinstance(follower.target, ArraysTarget)  # noqa: S101, PT018 - it was just read
        bits = {tensor.name: follower.target.bits(tensor).gather(slice(0, tensor.elements)) for tensor in held.tensors}
        return NeutralState(
            version=held.committed.record.version,
            state_digest=follower.verify(),
            tensors={
                tensor.name: neutral_tensor(
                    tensor.dtype.name, tensor.shape, np.asarray(bits[tensor.name], tensor.dtype.storage).tobytes()
                )
                for tensor in held.tensors
            },
            files=neutral_files(
                {file.name: store.get(file.key, max_bytes=file.bytes).data for file in held.committed.record.files}
            ),
        )


def _state(store: Store, version: int, expected: NeutralState) -> Iterator[str]:
    try:
        found = read_state(store, version)
    except DeltawireError as error:
        yield f"version {version} cannot be read: {error.code}: {error}"
        return
    yield from (f"version {version}: {line}" for line in differences(found, expected))


def _objects(step: Judge, objects: Mapping[str, bytes], laid: Mapping[str, bytes]) -> Iterator[str]:
    yield from (f"there is no {pattern}" for pattern in step.present if not matching(pattern, objects))
    for pattern in step.absent:
        yield from (f"{key} is there" for key in matching(pattern, objects))
    for pattern in step.unchanged:
        for key in matching(pattern, laid):
            if key not in objects:
                yield f"{key} is gone"
            elif objects[key] != laid[key]:
                yield f"{key} was changed"
    if step.added is not None:
        allowed = {key for pattern in step.added for key in matching(pattern, objects)}
        yield from (f"{key} was added" for key in sorted(objects.keys() - laid.keys() - allowed))
    if step.tidy:
        data = set(matching("data/*", objects))
        yield from (f"{key} is there, but no record names it" for key in sorted(data - _named(objects)))


def _named(objects: Mapping[str, bytes]) -> set[Any]:
    """Keys that records of versions, anchors and spans name."""
    beginnings = (keys.VERSIONS, keys.ANCHORS, keys.SPANS)
    found = [_parsed(objects, key) for key in objects if key.startswith(beginnings)]
    named: set[Any] = set()
    while found:
        value = found.pop()
        if isinstance(value, dict):
            named.add(value.get("key"))
            found += value.values()
        elif isinstance(value, list):
            found += value
    return named


def live_pins(store: Store) -> dict[str, bytes]:
    """Pins that are not released, those that cannot be read included, by key."""
    found = {info.key: info for info in store.list(keys.PINS) if keys.parse_pin(info.key) is not None}
    stored = {}
    for key, info in found.items():
        try:
            stored[key] = store.get(key, max_bytes=max(info.bytes, 1 << 16)).data
        except DeltawireError:  # its owner was faster
            continue
    return {key: data for key, data in stored.items() if (record := _pin(data)) is None or not record.released}


def unpinned(store: Store, versions: Iterable[int]) -> Iterator[str]:
    """Say which versions no pin covers. PIN-1"""
    wanted = list(versions)
    pins = [_pin(data) for data in live_pins(store).values()] if wanted else []
    for version in wanted:
        if not any(pin and pin.first <= version and (pin.last is None or version <= pin.last) for pin in pins):
            yield f"no pin covers version {version}"


def _pin(data: bytes) -> PinRecord | None:
    try:
        return records.decode(data, PinRecord, what="pin", limits=DEFAULT_LIMITS)
    except DeltawireError:
        return None


def _records(step: Judge, objects: Mapping[str, bytes]) -> Iterator[str]:
    for pattern, members in step.members.items():
        found = matching(pattern, objects) or [pattern]
        lacks = [list(_subset(members, _parsed(objects, key), key)) for key in found]
        yield from min(lacks, key=len)
    for key, names in step.lacking.items():
        record = _parsed(objects, key)
        yield from (f"{key}: there is a member {name!r}" for name in names if _has(record, name.split(".")))


def _has(value: Any, path: Sequence[str]) -> bool:
    """Whether there is a member, given by the names of those that it is within and its own."""
    return not path or (isinstance(value, dict) and path[0] in value and _has(value[path[0]], path[1:]))


def _codecs(objects: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Each version with each codec that occurs in its delta."""
    for key in matching("versions/*.json", objects):
        record = _parsed(objects, key)
        for part in record.get("delta", {}).get("parts", []):
            table = pa.ipc.open_file(pa.BufferReader(objects[part["key"]])).read_all()
            yield from ((key, codec) for codec in sorted(set(table["codec"].to_pylist())))


def _parsed(objects: Mapping[str, bytes], key: str) -> Any:
    try:
        return json.loads(objects[key])
    except (KeyError, ValueError):
        return None


def _subset(expected: Any, found: Any, where: str) -> Iterator[str]:
    """Differences of what is expected; members that nobody asked for do not count."""
    if isinstance(expected, dict):
        if not isinstance(found, dict):
            yield f"{where} is {found!r}, not an object"
            return
        for name, value in expected.items():
            if name in found:
                yield from _subset(value, found[name], f"{where}: {name}")
            else:
                yield f"{where}: there is no member {name!r}"
    elif found != expected:
        yield f"{where} is {found!r}, expected {expected!r}"


def matching(pattern: str, keys: Iterable[str]) -> list[str]:
    """Keys that match a pattern with ``*``."""
    return [key for key in keys if fnmatchcase(key, pattern)]

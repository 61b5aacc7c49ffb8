"""What the simulator looks at: rules of SPEC.md that show in the order and the headers of requests (ADAPTER.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from deltawire_conformance.simulator.noting import Noted

Log = Sequence[Noted]
CREATED = ("stream.json", "versions/*.json", "anchors/*.json", "spans/*.json")
"""Records that are created once."""
SWAPPED = ("leases/writer.json", "retention.json")
"""Records that are created, then replaced if they are what was read."""
_WRITES = {"put", "copy", "begin", "part", "complete"}
_MULTIPART = {"begin", "part", "complete", "copy"}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One thing to look at."""

    requirements: tuple[str, ...]
    what: str
    broken: Callable[[Log], Iterator[str]]


RULES: dict[str, Rule] = {}
"""By name."""


def rule(what: str, *requirements: str) -> Callable[[Callable[[Log], Iterator[str]]], Callable[[Log], Iterator[str]]]:
    """Make a function that yields what is wrong a rule of its name."""

    def register(broken: Callable[[Log], Iterator[str]]) -> Callable[[Log], Iterator[str]]:
        RULES[broken.__name__] = Rule(requirements=requirements, what=what, broken=broken)
        return broken

    return register


@rule("everything that a record names was stored, with success, before the record was sent", "CMT-1")
def blobs_before_record(log: Log) -> Iterator[str]:
    """CMT-1"""
    stored = {noted.key: noted for noted in log if noted.took_place and noted.verb in {"put", "copy", "complete"}}
    touched = {noted.key for noted in log if noted.verb in _WRITES}
    for record in _puts(log, *CREATED[1:]):
        for key in _named(record.body):
            if key not in touched:
                continue  # it was there
            blob = stored.get(key)
            if blob is None or blob.wrote_at is None or blob.wrote_at > record.at or not blob.confirmed:
                yield f"{record} names {key}, which was not known to be stored by then"


@rule("each record is written by one PUT with the right condition, never in parts or as a copy", "CMT-2", "STO-17")
def conditional_records(log: Log) -> Iterator[str]:
    """CMT-2, STO-10, STO-17, LSE-3, RET-5"""
    for noted in log:
        created, swapped = _any(noted.key, CREATED), _any(noted.key, SWAPPED)
        if not created and not swapped:
            continue
        if noted.verb in _MULTIPART:
            yield f"{noted}: a record is one PUT"
        elif noted.verb == "put":
            free = noted.headers.get("if-none-match") == "*"
            if not free and not (swapped and "if-match" in noted.headers):
                yield f"{noted}: without its condition"


@rule("every attempt at a record sends the same bytes", "CMT-3", "REC-4")
def same_bytes_again(log: Log) -> Iterator[str]:
    """CMT-3"""
    sent: dict[str, bytes] = {}
    for noted in _puts(log, *CREATED):
        if sent.setdefault(noted.key, noted.body) != noted.body:
            yield f"{noted}: other bytes than in an earlier attempt"


@rule("a record whose last PUT was not confirmed is read back", "CMT-4", "CMT-5")
def read_back(log: Log) -> Iterator[str]:
    """CMT-4, CMT-5"""
    last = {noted.key: noted for noted in _puts(log, *CREATED)}
    for key, noted in last.items():
        if not noted.confirmed and not any(n.verb == "get" and n.key == key and n.at > noted.at for n in log):
            yield f"{noted} and was not read back"


@rule("retention.json is read after the record of a version was sent", "CMT-11")
def boundary_after_commit(log: Log) -> Iterator[str]:
    """CMT-11"""
    for noted in {noted.key: noted for noted in _puts(log, "versions/*.json")}.values():
        if not any(n.verb == "get" and n.key == "retention.json" and n.at > noted.at for n in log):
            yield f"{noted}, and retention.json was not read afterwards"


@rule("the head names no version that was not committed before, and follows every commit", "HED-3", "PUB-9")
def head_after_commit(log: Log) -> Iterator[str]:
    """HED-3"""
    committed = {noted.key: noted for noted in _puts(log, "versions/*.json") if noted.took_place}
    heads = list(_puts(log, "head.json"))
    for head in heads:
        record = committed.get(_version_key(head.body))
        if record is not None and record.wrote_at is not None and head.at < record.wrote_at:
            yield f"{head}, before the version that it names"
    for key, record in committed.items():
        if not any(head.at > record.at and _version_key(head.body) == key for head in heads):
            yield f"no head followed {record}"


@rule("no object is overwritten with other bytes but the head, the boundary and what lies below leases/", "KEY-7")
def no_overwrite(log: Log) -> Iterator[str]:
    """KEY-7"""
    for noted in log:
        changed = noted.took_place and noted.before is not None and noted.before != noted.after
        if changed and not _any(noted.key, ("head.json", "retention.json", "leases/*", "probe/*")):
            yield f"{noted}: it replaced other bytes"


@rule("nothing is deleted but pins and what lies below probe/", "KEY-8", "LSE-3")
def no_deletes(log: Log) -> Iterator[str]:
    """KEY-8"""
    free = ("probe/*", "leases/readers/*")
    yield from (str(noted) for noted in log if noted.verb == "delete" and not _any(noted.key, free))


@rule("whoever holds a version does not list versions", "LAT-1")
def no_listing(log: Log) -> Iterator[str]:
    """LAT-1, LAT-4"""
    yield from (
        f"{noted}: the versions were listed"
        for noted in log
        if noted.verb == "list" and (noted.key.startswith("versions") or "versions/".startswith(noted.key))
    )


@rule("no part or shard is read before the record that names it", "CHN-1")
def record_before_part(log: Log) -> Iterator[str]:
    """Section 11.5: before any step is taken, the records of the whole way are checked."""
    reads = [noted for noted in log if noted.verb == "get" and noted.key.startswith("data/")]
    records = [noted for noted in log if noted.verb == "get" and noted.key.startswith("versions/") and noted.confirmed]
    for noted in reads:
        if noted.key.endswith((".arrow", ".safetensors")) and not any(record.at < noted.at for record in records):
            yield f"{noted}, before the record of any version"


@rule("nothing below data/ but tensor tables is read where there is no newer version", "FOL-1")
def no_data(log: Log) -> Iterator[str]:
    """FOL-1: if there is nothing newer, it does nothing; whoever begins anew may need the table again."""
    for noted in log:
        if noted.verb == "get" and noted.key.startswith("data/") and not noted.key.endswith("/tensors/table.json"):
            yield str(noted)


@rule("the lease is written before the record of a version", "LSE-1", "OPN-7")
def lease_first(log: Log) -> Iterator[str]:
    """LSE-1"""
    leases = [noted for noted in _puts(log, "leases/writer.json") if noted.took_place]
    for noted in _puts(log, "versions/*.json"):
        if not any(lease.at < noted.at for lease in leases):
            yield f"{noted}, without a lease"


@rule("the newest version is looked for after the lease was acquired", "OPN-7", "LSE-7")
def line_after_lease(log: Log) -> Iterator[str]:
    """OPN-7"""
    acquired = next((noted for noted in _puts(log, "leases/writer.json") if noted.took_place), None)
    first = next(_puts(log, "versions/*.json"), None)
    if acquired is None or first is None:
        return
    looks = {"get", "head", "list"}
    if not any(n.verb in looks and n.key.startswith("versions") and acquired.at < n.at < first.at for n in log):
        yield f"{first}, and nobody had looked for the newest version since the lease was acquired"


@rule("each write of the lease has a commit_id of its own", "LSE-3")
def new_commit_ids(log: Log) -> Iterator[str]:
    """LSE-3"""
    seen: dict[str, bytes] = {}
    for noted in _puts(log, "leases/writer.json"):
        record = json.loads(noted.body)
        if seen.setdefault(record["commit_id"], noted.body) != noted.body:
            yield f"{noted}: another lease under the commit_id {record['commit_id']}"


@rule("the lease is renewed while it is held, with the same epoch and acquired_at", "LSE-8")
def renewals(log: Log) -> Iterator[str]:
    """LSE-8"""
    held = [json.loads(noted.body) for noted in _puts(log, "leases/writer.json") if noted.took_place]
    held = [record for record in held if not record["released"]]
    # The first write acquires; a second one may put the epoch above that of the newest version (LSE-7).
    if len(held) < 3:
        yield f"the lease was written {len(held)} times while it was held"
    elif len({(record["epoch"], record["acquired_at"]) for record in held[1:]}) != 1:
        yield "a renewal changed the epoch or acquired_at"


def _puts(log: Log, *patterns: str) -> Iterator[Noted]:
    return (noted for noted in log if noted.verb == "put" and _any(noted.key, patterns))


def _any(key: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in patterns)


def _version_key(head: bytes) -> str:
    return f"versions/{json.loads(head)['version']:020}.json"


def _named(record: bytes) -> Iterator[str]:
    """Keys of all descriptors in a record."""

    def walk(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            if isinstance(value.get("key"), str) and "digest" in value:
                yield value["key"]
            for member in value.values():
                yield from walk(member)
        elif isinstance(value, list):
            for member in value:
                yield from walk(member)

    yield from walk(json.loads(record))

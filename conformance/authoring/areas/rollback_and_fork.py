"""Rollbacks and forks, as a reader sees them (SPEC.md sections 11.10 and 11.11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from authoring.drafts import Draft, accepted, refused, refused_next
from authoring.nexts import bad_next, good_next
from authoring.states import small_model, trained
from authoring.stream import Json, Stream, small_stream
from deltawire.format.keys import version_key

AREA = "rollback-and-fork"
NOTHING = "sha256:" + "0" * 64

URLS: list[tuple[str, str, str]] = [
    ("url-user", "a fork whose origin's URL holds a user and a password", "s3://user:secret@bucket/prefix"),
    ("url-query", "a fork whose origin's URL holds a query", "https://example.com/stream?token=secret"),
    ("url-fragment", "a fork whose origin's URL holds a fragment", "https://example.com/stream#secret"),
    ("url-white-space", "a fork whose origin's URL holds a space", "s3://bucket/a prefix"),
    ("url-relative", "a fork whose origin's URL has no scheme", "/bucket/prefix"),
    ("url-long", "a fork whose origin's URL has 2001 characters", "s3://bucket/" + "n" * 1989),
]
"""URLs that are not plain. FRK-2"""


def drafts() -> Iterator[Draft]:
    """All cases."""
    for name, title, version in (
        ("rollback-to-itself", "a rollback of the very version that it is", 1),
        ("rollback-to-later", "a rollback of a later version", 2),
    ):
        yield bad_next(
            AREA, name, title, ["RBK-1"], "malformed_record",
            edit=_back_to(version, NOTHING),
        )  # fmt: skip
    yield bad_next(
        AREA, "rollback-without-digest", "a rollback that names a version without its digest", ["RBK-1", "REC-2"],
        "malformed_record", edit=lambda record: record.update(rollback_of={"version": 0}),
    )  # fmt: skip
    yield refused_next(
        AREA, "rollback-of-another-record", "a rollback of the version held, by the digest of another record",
        ["CHN-6"], small_stream("rollback-of-another-record", versions=2), "broken_chain",
        grow=lambda s: s.delta(s.states[1], edit=_back_to(1, NOTHING)),
    )  # fmt: skip
    yield refused_next(
        AREA, "rollback-to-another-state", "a rollback of the version held with another state", ["CHN-6"],
        small_stream("rollback-to-another-state", versions=2), "broken_chain",
        grow=lambda s: s.delta(trained(s.states[1], 2), edit=_back_to(1, s.digest(1))),
    )  # fmt: skip
    far = small_stream("rollback-far", versions=3)
    far.delta(far.states[0], edit=_back_to(0, NOTHING))
    yield refused(
        AREA, "rollback-on-the-way", "a rollback of the version that the way begins with, by another digest",
        ["CHN-6"], far, "broken_chain",
    )  # fmt: skip
    yield good_next(
        AREA, "rollback", "a rollback of version 0 after two others", ["RBK-1", "RBK-3"],
        stream=small_stream("rollback", versions=3), grow=lambda s: s.delta(s.states[0], edit=_back_to(0, s.digest(0))),
    )  # fmt: skip
    yield good_next(
        AREA, "rollback-of-the-newest", "a rollback of the newest version, in which nothing changes",
        ["RBK-1", "VSN-7", "CHN-6"], stream=small_stream("rollback-of-the-newest", versions=2),
        grow=lambda s: s.delta(s.states[1], edit=_back_to(1, s.digest(1))),
    )  # fmt: skip
    yield good_next(
        AREA, "rollback-by-rebase", "a rollback of version 0 over a version with other tensors", ["RBK-3", "VSN-5"],
        stream=_other_tensors("rollback-by-rebase"),
        grow=lambda s: s.rebase(s.states[0], edit=_back_to(0, s.digest(0))),
    )  # fmt: skip
    yield accepted(
        AREA, "rollback-of-collected", "a rollback of a version that was collected", ["CHN-6", "RBK-1"], _collected()
    )
    for name, title, url in URLS:
        yield refused(AREA, name, title, ["FRK-2"], _fork(name, url=url), "malformed_record")
    yield refused(
        AREA, "origin-without-digest", "a fork whose origin has no digest", ["FRK-1", "REC-2"],
        _fork("origin-without-digest", edit=lambda origin: origin.pop("digest")), "malformed_record",
    )  # fmt: skip
    yield refused(
        AREA, "fork-of-another-state", "a fork whose version 0 has another state digest than its origin", ["FRK-7"],
        _fork("fork-of-another-state", state_digest="0123456789abcdef"), "broken_chain",
    )  # fmt: skip
    yield accepted(AREA, "fork", "a fork that does not say where its origin was", ["FRK-1", "FRK-7"], _fork("fork"))
    grown = _fork("fork-with-url", url="s3://bucket/prefix/of-it")
    grown.delta(trained(grown.states[-1], 1))
    yield accepted(
        AREA, "fork-with-url", "a fork with a plain URL, and a version of its own", ["FRK-1", "FRK-2", "FRK-7"], grown
    )


def _back_to(version: int, digest: str) -> Callable[[Json], object]:
    return lambda record: record.update(rollback_of={"version": version, "digest": digest})


def _other_tensors(name: str) -> Stream:
    stream = small_stream(name, versions=1)
    other = small_model(seed="other")
    stream.rebase(other.with_values("head.weight", other.tensors["norm.weight"]))
    return stream


def _collected() -> Stream:
    stream = small_stream("rollback-of-collected", versions=1)
    stream.rebase(small_model(seed="other"))
    stream.rebase(stream.states[0], edit=_back_to(0, stream.digest(0)))
    stream.head(2)
    stream.retention(1)
    first = f"data/{0:020d}"
    stream.objects = {
        key: data for key, data in stream.objects.items() if key != version_key(0) and not key.startswith(first)
    }
    return stream


def _fork(name: str, *, edit: Callable[[Json], object] | None = None, **members: Any) -> Stream:
    state = small_model()
    source = small_stream(f"source of {name}", versions=1)
    origin: Json = {"stream_id": source.stream_id, "version": 0, "digest": source.digest(0)}
    origin |= {"state_digest": f"{state.digest:016x}", **members}
    if edit is not None:
        edit(origin)
    stream = Stream(name)
    stream.create(origin=origin)
    stream.rebase(state)
    stream.head(0)
    return stream

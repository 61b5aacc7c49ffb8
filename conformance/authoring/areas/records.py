"""Records: JSON, the envelope, the shape of each kind (SPEC.md sections 7.1 and 8.1)."""

from __future__ import annotations

from collections.abc import Iterator

from authoring.drafts import Draft, accepted, published, refused, refused_next
from authoring.states import small_model, trained
from authoring.stream import small_stream

AREA = "records"


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield accepted(
        AREA, "small-stream", "a snapshot and two deltas", ["VSN-1", "DLT-1", "CHN-1"], small_stream("small")
    )
    yield _member_twice()
    yield refused_next(
        AREA,
        "wrong-stream-id",
        "a version record of another stream",
        ["STR-2", "CHN-5"],
        small_stream("other", versions=2),
        "wrong_stream",
        grow=lambda s: s.delta(
            trained(s.states[-1], 9),
            edit=lambda record: record.update(stream_id="11111111-1111-4111-8111-111111111111"),
        ),
    )
    model = small_model()
    yield published(
        AREA, "publish-three", "three states published in one session", ["PUB-1", "PUB-7"],
        [model, trained(model, 1), trained(trained(model, 1), 2)],
    )  # fmt: skip


def _member_twice() -> Draft:
    stream = small_stream("twice", versions=1)
    stream.delta(trained(stream.states[0], 1), raw=lambda data: data.replace(b'"epoch":0', b'"epoch":0,"epoch":0', 1))
    return refused(
        AREA,
        "member-twice",
        "a version record with a member twice",
        ["JSN-1"],
        stream,
        "malformed_record",
    )

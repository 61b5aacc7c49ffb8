"""Streams of drawn states to go back in and to fork, and what must hold of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from hypothesis import strategies as st

from deltawire import AnchorPolicy, Follower, Publisher
from deltawire.deadline import Deadline
from deltawire.format import keys
from deltawire.inspecting.verification import verify_stream
from deltawire.producer.anchors import NEVER
from deltawire.reading.stream import Committed, StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.store.base import Store
from deltawire.store.memory import MemoryStore
from tests.strategies import State, codec_options, lines, same_bits

_NUMBERS = itertools.count()
FOREVER = Deadline(None)

Files = dict[str, bytes]
files = st.dictionaries(st.sampled_from(["config.json", "merges.txt", "chat_template.jinja"]), st.binary(max_size=8))


def new_store() -> MemoryStore:
    return MemoryStore(f"lineage-{next(_NUMBERS)}")


@dataclass(frozen=True)
class Given:
    """A stream in a store, and what was published into it."""

    store: MemoryStore
    states: list[State]
    files: list[Files]


@st.composite
def streams(draw: st.DrawFn) -> Given:
    """A stream of a few versions, with or without rebases, anchors, and with any codecs."""
    given = Given(new_store(), draw(lines()), [])
    every = draw(st.sampled_from([None, 1, 2]))
    policy = AnchorPolicy(every=every, outweigh=None) if every else NEVER
    shard_bytes = draw(st.sampled_from([1, 200, 1 << 30]))
    with Publisher(given.store, anchors=policy, **draw(codec_options), shard_bytes=shard_bytes) as publisher:
        for number, state in enumerate(given.states):
            given.files.append(draw(files))
            publish(publisher, state, given.files[-1], step=number)
            publisher.wait_for_anchor()
            assert publisher.anchor_error is None
    return given


def publish(publisher: Publisher, state: State, with_files: Files | None = None, *, step: int = 0) -> None:
    publisher.publish(state.arrays(), dtypes=state.dtype_names(), files=with_files, metadata={"step": step})


def committed(store: Store, number: int) -> Committed:
    transfer = Transfer(store)
    try:
        return StreamReader(transfer).version(number, FOREVER)
    finally:
        transfer.close()


def check_state(store: Store, number: int, state: State, with_files: Files) -> None:
    """A newcomer gets exactly this state and these files at a version."""
    with Follower(store) as follower:
        assert follower.poll(to=number) is not None
        assert same_bits(follower.arrays, state)
        follower.verify()
        assert follower.record is not None
        found = {file.name: store.get(file.key, max_bytes=file.bytes).data for file in follower.record.files}
    assert found == with_files


def check_sound(store: Store) -> None:
    """Everything is there, and every state can be rebuilt."""
    result = verify_stream(store, deep=True)
    assert not result.findings
    assert not [note for note in result.notes if "named by no record" in note]


def same_table(one: State, other: State) -> bool:
    """Whether a delta can lead from one to the other."""

    def table(state: State) -> tuple[set[tuple[str, str, tuple[int, ...]]], dict[str, str]]:
        return {(name, state.dtypes[name].name, state.shapes[name]) for name in state.bits}, state.aliases

    return table(one) == table(other)


def contents(store: Store) -> dict[str, bytes]:
    """Everything but readers' pins, which come and go."""
    found = [info for info in store.list("") if not info.key.startswith(keys.PINS)]
    return {info.key: store.get(info.key, max_bytes=info.bytes).data for info in found}

"""Whatever is missing or differs in a run is found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from deltawire.demo.evidence import FOLLOWER, LATE_JOINER, bytes_per_changed, times_smaller
from tests.demo.runs import EMBEDDED, STATE_BYTES, committed, good_run

_PLACES = [("trainer", "record_digest"), ("trainer", "trainer_digest")]
_PLACES += [(who, name) for who in (FOLLOWER, LATE_JOINER) for name in ("record_digest", "digest")]


def test_a_good_run_has_no_differences() -> None:
    evidence = good_run()
    assert evidence.differences() == []
    assert all(evidence.agrees(version) for version in range(7))


@given(version=st.integers(4, 6), place=st.sampled_from(_PLACES), bit=st.integers(0, 63))
def test_one_flipped_bit_of_any_digest_is_found(version: int, place: tuple[str, str], bit: int) -> None:
    evidence = good_run()
    who, name = place
    if who == "trainer":
        old = evidence.committed[version]
        flipped = f"{int(old.record_digest, 16) ^ (1 << bit):016x}"
        evidence.committed[version] = replace(old, **{name: flipped})
    else:
        proof = evidence.verified[who][version]
        flipped = f"{int(proof.digest, 16) ^ (1 << bit):016x}"
        evidence.verified[who][version] = replace(proof, **{name: flipped})
    (difference,) = evidence.differences()
    assert difference.startswith(f"version {version}:")
    assert flipped in difference


@pytest.mark.parametrize("version", [0, 3, 6])
def test_a_version_that_the_follower_never_proved_is_found(version: int) -> None:
    evidence = good_run()
    del evidence.verified[FOLLOWER][version]
    assert [line.partition(":")[0] for line in evidence.differences()] == [f"version {version}"]


def test_a_version_that_was_never_published_is_found() -> None:
    evidence = good_run()
    del evidence.committed[6]
    assert "record nothing" in evidence.differences()[0]


def test_a_late_joiner_must_prove_every_version_from_its_first() -> None:
    evidence = good_run(joined_at=3)
    del evidence.verified[LATE_JOINER][5]
    assert [line.partition(":")[0] for line in evidence.differences()] == ["version 5"]


def test_a_late_joiner_that_never_came_is_found() -> None:
    evidence = good_run()
    evidence.verified[LATE_JOINER].clear()
    assert evidence.differences() == ["the late joiner never held a version"]


def test_a_follower_that_was_not_restarted_is_found() -> None:
    evidence = good_run(killed_at=99)
    assert evidence.differences() == ["the follower was not killed and started again"]


def test_another_embedding_is_found() -> None:
    evidence = good_run()
    evidence.followed = replace(EMBEDDED, bits="00fe")
    assert "another embedding" in evidence.differences()[0]
    evidence.followed = None
    assert "not loaded" in evidence.differences()[0]


def test_a_version_held_before_and_after_the_kill_keeps_its_times() -> None:
    evidence = good_run(killed_at=99)
    timed = evidence.verified[FOLLOWER][2]
    resumed = replace(timed, resumed=True, fetch_seconds=0.0)
    evidence.add_verified(FOLLOWER, resumed)
    assert evidence.verified[FOLLOWER][2] == timed
    assert evidence.resumed == resumed
    assert evidence.differences() == []


def test_sizes() -> None:
    published = [committed(1), replace(committed(2), changed_elements=0, stored_bytes=10_000)]
    assert bytes_per_changed(published) == 260_000 / 200_000
    assert bytes_per_changed(published[1:]) is None
    assert times_smaller(published) == 2 * STATE_BYTES / 260_000

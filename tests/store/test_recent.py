"""Recent contents against a model: the ones used last, within the bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from deltawire.store.recent import RecentContents

LARGEST, TOGETHER = 10, 25


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 12)), max_size=60))
def test_what_was_used_last_is_kept(steps: list[tuple[bool, int]]) -> None:
    recent = RecentContents(largest=LARGEST, together=TOGETHER)
    model: list[int] = []  # sizes, which name the contents, last used last
    for keep, size in steps:
        if keep:
            recent.keep(str(size), bytes(size))
            if size <= LARGEST:
                model = [*(other for other in model if other != size), size]
                while sum(model) > TOGETHER:
                    model.pop(0)
        else:
            found = recent.get(str(size))
            assert found == (bytes(size) if size in model else None)
            if size in model:
                model = [*(other for other in model if other != size), size]

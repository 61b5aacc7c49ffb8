from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltawire.errors import InvalidKeyError
from deltawire.store import check_key
from tests.store.contract import HOSTILE_KEYS

ALLOWED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
GRAMMAR = re.compile(r"(?!.{513})[\w-]+(\.+[\w-]+)*(/[\w-]+(\.+[\w-]+)*)*", re.ASCII | re.DOTALL)
"""KEY-1 once more, written differently from the implementation."""

segments = st.lists(st.text(ALLOWED, min_size=1, max_size=12), min_size=1, max_size=4).map(".".join)
keys = st.lists(segments, min_size=1, max_size=8).map("/".join)


@given(keys)
def test_every_key_of_the_grammar_is_accepted_as_it_is(key: str) -> None:
    assert check_key(key) == key


@given(st.one_of(st.text(max_size=40), st.text("ab./-_ \n", max_size=12), st.text("a./", max_size=600)))
def test_whatever_is_accepted_follows_the_grammar(key: str) -> None:
    try:
        check_key(key)
    except InvalidKeyError:
        assert not GRAMMAR.fullmatch(key)
    else:
        assert GRAMMAR.fullmatch(key)
        assert key.isascii()


@given(keys, st.integers(0, 200), st.characters(exclude_characters=ALLOWED + "./"))
def test_one_foreign_character_spoils_a_key(key: str, place: int, character: str) -> None:
    place %= len(key) + 1
    with pytest.raises(InvalidKeyError):
        check_key(key[:place] + character + key[place:])


@pytest.mark.parametrize("key", HOSTILE_KEYS, ids=repr)
def test_hostile_keys_are_refused(key: str) -> None:
    with pytest.raises(InvalidKeyError):
        check_key(key)


def test_the_longest_key() -> None:
    assert check_key("k" * 512)
    with pytest.raises(InvalidKeyError):
        check_key("k" * 513)

"""Keys: their form, their order, and what is ignored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltawire.format import keys
from deltawire.store.base import check_key

versions = st.integers(0, keys.MAX_VERSION)


@given(versions, versions)
def test_byte_order_is_number_order(a: int, b: int) -> None:
    assert (keys.version_key(a) < keys.version_key(b)) == (a < b)
    assert (keys.anchor_key(a) < keys.anchor_key(b)) == (a < b)


@given(versions)
def test_numbers_come_back(number: int) -> None:
    for key in (keys.version_key(number), keys.anchor_key(number)):
        assert check_key(key) == key
        assert keys.parse_numbered(key) == number


def test_by_hand() -> None:
    write = (7, "c0ffee00-0000-4000-8000-000000000000")
    assert keys.version_key(42) == "versions/00000000000000000042.json"
    assert keys.anchor_key(keys.MAX_VERSION) == "anchors/00009007199254740991.json"
    prefix = keys.data_prefix(*write)
    assert prefix == "data/00000000000000000007-c0ffee00-0000-4000-8000-000000000000/"
    assert check_key(prefix + keys.part_name(3)).endswith("/part-00003.arrow")
    assert keys.table_key(*write) == prefix + "tensors/table.json"
    assert keys.files_prefix(*write) == prefix + "files/"
    assert keys.shard_name(1, 12) == "model-00001-of-00012.safetensors"


@pytest.mark.parametrize(
    "key",
    [
        "versions/42.json",
        "versions/0000000000000000042.json",
        "versions/000000000000000000042.json",
        "versions/00009007199254740992.json",  # 2^53
        "versions/99999999999999999999.json",
        "versions/00000000000000000042.json.tmp",
        "versions/00000000000000000042.json\n",
        "versions/0000000000000000004a.json",
        "versions/-0000000000000000042.json",
        "versions/" + "\u0660" * 20 + ".json",  # Arabic-Indic digits
        "spans/00000000000000000042.json",
        "x/versions/00000000000000000042.json",
        "Versions/00000000000000000042.json",
        "",
    ],
)
def test_other_keys_are_ignored(key: str) -> None:
    assert keys.parse_numbered(key) is None

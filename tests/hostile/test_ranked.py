"""Rows of the codec ``ranked`` that lie: a few bytes may stand for many elements, but never for more than a tensor has.

Its streams give no bound for what they decode to, as those of the other codecs do (LIM-3).
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltawire.consumer.staging import Totals, stage_row
from deltawire.errors import CODES
from deltawire.format.boxes import Box
from deltawire.format.dtypes import DTYPES, Bits
from deltawire.format.tensors import Tensor
from deltawire.parts.rows import Row
from deltawire.targets.arrays import NumpyBits
from deltawire.targets.base import Indices
from tests.core.refusal import refusal
from tests.hostile.stream import survive
from tests.hostile.test_messages import HELD, TENSORS, TRUE_ROWS, row_of, with_rows

W = row_of("w", "ranked")
NONE, ALL, BITMAP = 64, 96, 128
LONG = bytes([255] * 3)
"""So many ones that a whole gap follows."""


def streams(classes: bytes, items: bytes = b"") -> dict[str, np.ndarray[tuple[int], np.dtype[np.uint8]]]:
    return {"classes": np.frombuffer(classes, np.uint8), "items": np.frombuffer(items, np.uint8)}


def rows(**members: object) -> list[Row]:
    """The true rows, that of ``w`` in this codec and changed."""
    changed: Row = replace(W, **members)  # type: ignore[arg-type]
    return [TRUE_ROWS[0], changed, TRUE_ROWS[2]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranked")


def test_the_true_row_is_good(folder: Path) -> None:
    assert survive(with_rows(rows(), agree=False), "own", HELD, folder) is None


LIES: list[tuple[str, list[Row]]] = [
    ("no bytes", rows(streams=streams(b""))),
    ("all changes", rows(changed=2**64 - 1)),
    ("all elements", rows(changed=100)),
    ("all elements by one byte", rows(changed=100, streams=streams(bytes([1, 255, ALL])))),
    ("more than all elements", rows(changed=101, streams=streams(bytes([1, 255, ALL, NONE, NONE, NONE])))),
    ("layers without end", rows(changed=100, streams=streams(bytes([1, 255] + [ALL] * 100_000)))),
    ("digits that are not there", rows(changed=100, streams=streams(bytes([1, 255] + [ALL] * 34)))),
    ("classes without end", rows(streams=streams(bytes([255, *range(255)])))),
    ("a bitmap of nothing", rows(streams=streams(bytes([1, 255, BITMAP])))),
    ("a list of nothing", rows(streams=streams(bytes([1, 255, 0])))),
    ("ones without end", rows(streams=streams(bytes([1, 255, 31]), b"\xff" * 100_000))),
    ("zeros without end", rows(streams=streams(bytes([1, 255, 0]), bytes(100_000)))),
    ("zeros without end of others", rows(streams=streams(bytes([1, 255, 32]), bytes(100_000)))),
    ("the longest gap", rows(streams=streams(bytes([1, 255, 0]), LONG + b"\xff" * 4))),
    ("the longest gap of others", rows(streams=streams(bytes([1, 255, 32]), LONG + b"\xff" * 4))),
    ("a box past the end", rows(box=Box((1, 0), (20, 5)))),
    ("a box that wraps", rows(box=Box((2**64 - 1, 0), (2, 5)))),
    ("a box twice", [*rows(), W]),
    ("no streams of its own", rows(streams=TRUE_ROWS[1].streams)),
]  # fmt: skip


@pytest.mark.parametrize("lie", [lie[1] for lie in LIES], ids=[lie[0] for lie in LIES])
def test_lies_of_rows(lie: list[Row], folder: Path) -> None:
    assert survive(with_rows(lie, agree=False), "arrays", HELD, folder) == "malformed_row"


@settings(max_examples=200)
@given(st.binary(max_size=40), st.binary(max_size=40), st.integers(1, 100), st.booleans())
def test_any_bytes_as_streams(folder: Path, classes: bytes, items: bytes, changed: int, cut: bool) -> None:
    made = rows(changed=changed, streams=streams(bytes([1, 255]) + classes if cut else classes, items))
    code = survive(with_rows(made, agree=False), "arrays", HELD, folder)
    assert code in CODES


class Watched(NumpyBits):
    """Bits of which it is noted how often they were looked at."""

    looks = 0

    def gather(self, where: Indices | slice) -> Bits:
        self.looks += 1
        return super().gather(where)


def test_rows_are_refused_before_they_look_at_more_than_the_tensor() -> None:
    # A few bytes could otherwise make a reader look at a large tensor a million times. RNK-5
    tensor, bits, totals = TENSORS[W.tensor], Watched(np.zeros(100, np.uint32)), Totals()
    assert refusal(lambda: stage_row(W, tensor, bits, totals)) is not None  # of another base
    seen = bits.looks
    for _ in range(3):
        assert refusal(lambda: stage_row(W, tensor, bits, totals)) == "malformed_row"
    assert bits.looks == seen


ELEMENTS = 1 << 22
BOMBS: list[tuple[str, Callable[[], dict[str, np.ndarray[tuple[int], np.dtype[np.uint8]]]]]] = [
    ("all by one byte", lambda: streams(bytes([1, 255, ALL]))),
    ("as many layers as there are", lambda: streams(bytes([1, 255, ALL, NONE, NONE] + [ALL] * 15))),
    ("one thing too few in a bitmap", lambda: streams(bytes([1, 255, BITMAP]), b"\xff" * (ELEMENTS // 8 - 1))),
    ("sixteen classes", lambda: streams(bytes([16, *range(15), 255] + [ALL, NONE, NONE, NONE] * 16), b"\0")),
]


@pytest.mark.parametrize("bomb", [bomb[1] for bomb in BOMBS], ids=[bomb[0] for bomb in BOMBS])
def test_memory_is_bound_by_the_elements_of_the_box(
    bomb: Callable[[], dict[str, np.ndarray[tuple[int], np.dtype[np.uint8]]]],
) -> None:
    def refused(elements: int) -> str | None:
        tensor = Tensor(0, "w", DTYPES["BF16"], (elements,), (elements,))
        row = Row(
            tensor=0, box=Box((0,), (elements,)), codec="ranked", changed=elements, digest_before=0, digest_after=0,
            streams=bomb(),
        )  # fmt: skip
        return refusal(lambda: stage_row(row, tensor, NumpyBits(np.zeros(elements, np.uint16)), Totals()))

    assert refused(1) in {"malformed_row", "wrong_base"}  # compilers take memory, too
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert refused(ELEMENTS) == "malformed_row"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < 64 * ELEMENTS

"""Other readings of the codec ``ranked``, and streams of it that are written otherwise.

A mutant that reads is the plain reader of the reference's tests, changed in one place: compiled kernels are not so
easily changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from deltawire.codecs.base import Base, BoxChange, Patch, Stream, Streams
from deltawire.errors import MalformedRowError
from deltawire.format.dtypes import Dtype
from deltawire.kernels import oracle
from deltawire.kernels.levels import LEVELS
from deltawire.kernels.ranked import encode_ranked
from mutants import Mutant
from mutants.patching import both, edit, replace, wrap

_CODEC = "deltawire.codecs.ranked:RankedCodec"
_PLAIN = "deltawire.kernels.oracle:decode_ranked"
_SUBSET = "deltawire.kernels.oracle:read_subset"
_READER = "deltawire.kernels.oracle:BitReader"
Change = tuple[str, str]


def cases(names: str) -> tuple[str, ...]:
    """Ids of cases of this area."""
    return tuple(f"ranked/{name}" for name in names.split())


def _decoder(*, counts: bool = True, before: Callable[[Stream], Stream] = lambda classes: classes) -> Any:
    def decode(_self: object, streams: Streams, dtype: Dtype, elements: int, changed: int, base: Base) -> Patch:  # noqa: ARG001 - as it is called
        old = base.gather(None)
        try:
            found = oracle.decode_ranked(old, dtype, before(streams["classes"]), streams["items"])
        except (ValueError, IndexError) as error:
            raise MalformedRowError(f"ranked: {error}") from None
        if counts and len(found) != changed:
            raise MalformedRowError("ranked: another number of changes")
        positions = np.array(sorted(found), np.uint32)
        modulus = 1 << (8 * dtype.width)
        return Patch(positions, np.array([found[at] % modulus for at in positions.tolist()], dtype.storage))

    return decode


def _plain(**more: Any) -> Callable[[], None]:
    return replace(f"{_CODEC}.decode", by=_decoder(**more))


def _reads(*changes: Change, **more: Any) -> Callable[[], None]:
    """A patch after which rows are read in another way."""
    return both(edit(_PLAIN, *changes), _plain(**more))


def _reads_subsets(*changes: Change) -> Callable[[], None]:
    """A patch after which subsets are read in another way."""
    return both(edit(_SUBSET, *changes), _plain())


def _staged(*changes: Change) -> Callable[[], None]:
    return edit("deltawire.consumer.staging:stage_row", *changes, also=("deltawire.consumer.small_rows:stage_row",))


def _looks(*changes: Change) -> Callable[[], None]:
    return edit("deltawire.consumer.staging:check_looks", *changes, also=("deltawire.consumer.steps:check_looks",))


def _one_class(classes: Stream) -> Stream:
    return classes if classes[0] else np.concatenate([np.array([1, LEVELS - 1], np.uint8), classes[1:]])


def _filled_up(classes: Stream) -> Stream:
    return np.concatenate([classes, np.zeros(8, np.uint8)])


def _zeros_at_end(self: Any, count: int) -> int:
    """``BitReader.take`` that finds zeros behind the end."""
    self._bits.extend([0] * max(0, self._at + count - len(self._bits)))
    taken = self._bits[self._at : self._at + count]
    self._at += count
    return sum(bit << place for place, bit in enumerate(taken))


def _by_new_levels(_self: object, change: BoxChange, dtype: Dtype) -> dict[str, Stream]:  # noqa: ARG001 - as it is called
    changes, starts = change.changes, np.array([0, 100, 120, 125], np.uint8)
    codes, items = encode_ranked(change.new, changes.positions, changes.old, changes.new, starts)
    ends = np.append(starts[1:] - np.uint8(1), np.uint8(LEVELS - 1))
    return {"classes": np.concatenate([np.array([starts.size], np.uint8), ends, codes]), "items": items}


def _forgets_reader_features(envelope: Any) -> Any:
    return lambda *given, **members: envelope(*given, **members) | {"reader_features": ()}


def _absolute_alone(publisher: Any) -> Any:
    def made(*given: Any, **options: Any) -> Any:
        return publisher(*given, **options | {"ranked": options["ranked"] and not options["absolute"]})

    return made


_LEFT = "if codes or any(bits.rest()) or len(bits.rest()) > 7:"
_NO_CLASSES = "if not 1 <= classes[0] <= 16 or len(ends) != classes[0] or ends[-1] != 255 or sorted(set(ends)) != ends:"
_RANGE = "if not 0 <= magnitude < top or (item in down and distance == 0):"
_PAST = 'if following > total:\n            raise ValueError("a number past the end")\n        if following == total:'

READERS = [
    Mutant(
        name="ranked-signed-levels",
        what="takes the uppermost bit for one of the level",
        patch=_reads(("magnitude >> max(8 * dtype.width - 9, 0)", "magnitude >> max(8 * dtype.width - 8, 0)")),
        caught_by=cases("vectors dtypes classes"),
    ),
    Mutant(
        name="ranked-levels-of-a-byte",
        what="leaves out a bit of the levels of elements of one byte",
        patch=_reads(("max(8 * dtype.width - 9, 0)", "max(8 * dtype.width - 9, 1)")),
        caught_by=cases("dtypes classes"),
    ),
    Mutant(
        name="ranked-no-flips",
        what="does not look at flips",
        patch=_reads((" ^ (top if item in flips else 0)", "")),
        caught_by=cases("vectors special-values dtypes"),
    ),
    Mutant(
        name="ranked-distance-of-flips",
        what="takes 1 from the distance of items that flip, too",
        patch=_reads(("value if item in flips else value + 1", "value + 1")),
        caught_by=cases("special-values longest-values"),
    ),
    Mutant(
        name="ranked-down-among-all",
        what="goes up where it must go down",
        patch=_reads(("(-distance if item in down else distance)", "distance")),
        caught_by=cases("steps vectors"),
    ),
    Mutant(
        name="ranked-layers-of-all",
        what="takes the numbers of a layer for those of all items",
        patch=_reads(("layer = [layer[number] for number in subset(len(layer))]", "layer = subset(len(layer))")),
        caught_by=cases("dtypes codes"),
    ),
    Mutant(
        name="ranked-one-layer-more",
        what="reads a layer after the last one that there can be",
        patch=_reads(("for _ in range(8 * dtype.width - 1):", "for _ in range(8 * dtype.width):")),
        caught_by=cases("longest-values"),
    ),
    Mutant(
        name="ranked-layers-to-the-last",
        what="reads layers behind one without items",
        patch=_reads(("if not layer:", "if False:")),
        caught_by=cases("vectors no-items steps"),
    ),
    Mutant(
        name="ranked-digits-backwards",
        what="reads digits from the most significant one",
        patch=_reads(("bits.take(length - 1)", "sum(bits.take(1) << place for place in reversed(range(length - 1)))")),
        caught_by=cases("dtypes codes"),
    ),
    Mutant(
        name="ranked-first-digit-written",
        what="reads the first digit of a value too",
        patch=_reads(("bits.take(length - 1) + (1 << (length - 1))", "bits.take(length)")),
        caught_by=cases("dtypes codes"),
    ),
    Mutant(
        name="ranked-code-for-nothing",
        what="reads a code byte only for classes that have elements",
        patch=_reads(("for rank in subset(len(members))]", "for rank in (subset(len(members)) if members else [])]")),
        caught_by=cases("classes"),
    ),
    Mutant(
        name="ranked-codes-of-no-items",
        what="reads the code bytes of flips and of those that go down for classes without items",
        patch=_reads(("continue", "pass")),
        caught_by=cases("classes"),
    ),
    Mutant(
        name="ranked-bits-backwards",
        what="reads bits from the most significant one of a byte",
        patch=both(edit(f"{_READER}.__init__", ('"little"', '"big"')), _plain()),
        caught_by=cases("vectors subset-vectors codes"),
    ),
    Mutant(
        name="ranked-lists-of-others",
        what="takes lists of those that are not meant for lists of those that are",
        patch=_reads_subsets(("if code >= 32 else listed", "if False else listed")),
        caught_by=cases("subset-vectors codes"),
    ),
    Mutant(
        name="ranked-short-long-gaps",
        what="reads 16 bits of a gap in the longer form",
        patch=_reads_subsets(("bits.take(32)", "bits.take(16)")),
        caught_by=cases("long-gaps"),
    ),
    Mutant(
        name="ranked-long-gaps-of-more",
        what="takes a gap in the longer form for what is above the quotient 24",
        patch=_reads_subsets(("else bits.take(32)", "else bits.take(32) + (24 << parameter)")),
        caught_by=cases("long-gaps"),
    ),
]
CHECKS = [
    Mutant(
        name="ranked-any-classes",
        what="takes classes as they come",
        patch=_reads((_NO_CLASSES, "if False:")),
        caught_by=cases("classes-seventeen levels-repeat levels-descend levels-above-left-out"),
    ),
    Mutant(
        name="ranked-one-class-for-none",
        what="takes no classes for one of all levels",
        patch=_plain(before=_one_class),
        caught_by=cases("classes-none"),
    ),
    Mutant(
        name="ranked-bytes-filled-up",
        what="takes bytes of the classes that are not there for zeros, and a last level of 0 for any",
        patch=_reads((_NO_CLASSES, "if False:"), (_LEFT, _LEFT.replace("codes or ", "")), before=_filled_up),
        caught_by=cases("classes-cut-short codes-missing"),
    ),
    Mutant(
        name="ranked-any-more-codes",
        what="leaves code bytes unread",
        patch=_reads((_LEFT, _LEFT.replace("codes or ", ""))),
        caught_by=cases("codes-left-over"),
    ),
    Mutant(
        name="ranked-bits-filled-up",
        what="takes bits that are not there for zeros",
        patch=both(replace(f"{_READER}.take", by=_zeros_at_end), _plain()),
        caught_by=cases("items-too-short bitmap-too-short"),
    ),
    Mutant(
        name="ranked-any-more-bytes",
        what="leaves bytes of zeros unread",
        patch=_reads((_LEFT, _LEFT.replace(" or len(bits.rest()) > 7", ""))),
        caught_by=cases("items-too-long items-where-none"),
    ),
    Mutant(
        name="ranked-any-padding",
        what="does not look at the padding",
        patch=_reads((_LEFT, _LEFT.replace(" or any(bits.rest())", ""))),
        caught_by=cases("padding-not-zero"),
    ),
    Mutant(
        name="ranked-any-count",
        what="does not look how many elements a row counts",
        patch=both(_plain(counts=False), _staged(("!= row.changed", "< 0"))),
        caught_by=cases("changed-more changed-fewer"),
    ),
    Mutant(
        name="ranked-down-by-nothing",
        what="lets items go down by nothing",
        patch=_reads((_RANGE, "if not 0 <= magnitude < top:")),
        caught_by=cases("down-by-nothing"),
    ),
    Mutant(
        name="ranked-wraps-round",
        what="takes magnitudes modulo what they can be",
        patch=_reads((_RANGE, "magnitude %= top\n            if item in down and distance == 0:")),
        caught_by=cases("below-zero above-the-top below-zero-of-64-bits above-the-top-of-64-bits"),
    ),
    Mutant(
        name="ranked-kinds-of-codes",
        what="looks at the uppermost bits of code bytes alone where there is no parameter",
        patch=_reads_subsets(("if code in {64, 96}:", "code &= 255 if code < 64 else 224\n    if code in {64, 96}:")),
        caught_by=cases("code-65 code-97 code-129"),
    ),
    Mutant(
        name="ranked-past-the-end",
        what="ends a list with any number that is not below its things",
        patch=_reads_subsets((_PAST, "if following >= total:")),
        caught_by=cases("gap-past-the-end gap-past-the-end-of-others"),
    ),
    Mutant(
        name="ranked-open-lists",
        what="ends a list where the bits end",
        patch=_reads_subsets(("while True:", "while bits.rest():")),
        caught_by=cases("list-without-end"),
    ),
    Mutant(
        name="ranked-any-long-gap",
        what="takes gaps in the longer form that have a shorter one",
        patch=_reads_subsets(("if quotient == 24 and gap >> parameter < 24:", "if False:")),
        caught_by=cases("gap-in-the-longer-form"),
    ),
    Mutant(
        name="ranked-any-boxes",
        what="looks at boxes whatever elements they have together",
        patch=_looks(("if looked_at > tensor.elements:", "if False:")),
        caught_by=cases("boxes-of-more-than-the-tensor"),
    ),
    Mutant(
        name="ranked-boxes-of-any-codec",
        what="counts the elements of boxes of other codecs too",
        patch=_looks(("if not codec_of(row.codec).needs_box:", "if False:")),
        caught_by=cases("boxes"),
    ),
]
RECORDS = [
    Mutant(
        name="ranked-for-writers-only",
        what="does not miss a reader feature that is a writer feature",
        patch=edit(
            "deltawire.format.records:_check_envelope",
            ("set(record.writer_features) & features.READER_FEATURES - set(record.reader_features)", "set()"),
        ),
        caught_by=cases("for-writers-only"),
    ),
    Mutant(
        name="ranked-and-absolute",
        what="creates a stream with absolute alone where ranked is demanded too",
        patch=wrap("deltawire:Publisher", by=_absolute_alone),
        caught_by=cases("absolute-demanded-too"),
    ),
]
WRITERS = [
    Mutant(
        name="ranked-by-new-levels",
        what="writes the changes of elements by the levels of their new values",
        patch=replace(f"{_CODEC}.encode", by=_by_new_levels),
        caught_by=cases("created"),
    ),
    Mutant(
        name="ranked-reader-feature-forgotten",
        what="says of its records that every reader can read them",
        patch=wrap(
            *(
                f"deltawire.{module}:envelope"
                for module in (
                    "producer.opening",
                    "producer.publisher",
                    "lineage.fork",
                    "maintaining.writing",
                    "maintaining.boundary",
                )
            ),
            by=_forgets_reader_features,
        ),
        caught_by=cases("created taken-up rolled-back forked built collected"),
    ),
    Mutant(
        name="ranked-everywhere",
        what="uses the codec whatever the features of the stream",
        patch=edit(
            "deltawire.producer.encoding:Encoder._sparse",
            ("if self.absolute:", "if False:"),
            ('"ranked" if self.ranked and dtype.order == "float" else "gap"', '"ranked"'),
        ),
        caught_by=cases("absolute-too not-asked-for"),
    ),
]
MUTANTS = [*READERS, *CHECKS, *RECORDS, *WRITERS]

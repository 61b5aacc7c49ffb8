"""Dtypes that are guessed."""

from __future__ import annotations

from deltawire.format.dtypes import DTYPES
from mutants import Mutant
from mutants.patching import edit, replace

MUTANTS = [
    Mutant(
        name="any-dtype",
        what="takes a dtype that it does not know for the one that is most like it",
        patch=replace(
            "deltawire.format.tensors:dtype_of",
            "deltawire.snapshots.header:dtype_of",
            by=lambda name: DTYPES.get(name.upper(), DTYPES["F32"]),
        ),
        caught_by=("dtypes/unknown", "dtypes/lower-case"),
    ),
    Mutant(
        name="part-of-byte",
        what="takes tensors whose elements do not fill bytes",
        patch=edit(
            "deltawire.format.dtypes:storage_shape",
            ("if bits % 8:", "if False:"),
            also=("deltawire.format.tensors:storage_shape",),
        ),
        caught_by=("dtypes/sub-byte-part-of-byte",),
    ),
]

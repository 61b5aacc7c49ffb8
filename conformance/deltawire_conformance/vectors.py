"""Cases and vectors as plain files, for those who bring a harness of their own."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from deltawire_conformance import __version__
from deltawire_conformance.resources import CASES, SPEC
from deltawire_conformance.specification import Block, examples, vector_blocks, vector_tables

SUMS = "SHA256SUMS"
_ENDINGS = {"part": ".arrow", "shard": ".safetensors"}

_README = """\
Deltawire test vectors
======================

Written by deltawire-conformance {version}, for version 0.1 of SPEC.md (its sha256: {spec}).

vectors/    The tables of SPEC.md appendix A, a JSON file each. "rows" has the rows of the table by column. Text in
            code quotes became strings: bits, seeds, digests and bytes are hexadecimal, as in the text. Lists became
            lists, plain numbers numbers, and the streams of a row an object. "before" and "after" are what the document
            says around the table. "Refused with" a code means: a reader must refuse it, with that code.
            part.arrow, shard.safetensors, shard-header.json and signed-record.json are the bytes of A.11, A.12
            and A.14.
examples/   The records of section 8 without white space: the bytes whose sha256 other examples give.
cases/      Cases: <area>/valid/<id>/ and <area>/invalid/<id>/, each with a case.json.
{sums:<12}The sha256 of every file but itself; check with: sha256sum -c {sums}

How to use a case
-----------------

case.json is described in {schema}. Its steps are done in order:

put          Copy the files of the folder "tree" (store/ if not given) over the stream's prefix; below it their paths
             are the keys. Lay them in any order, records last. With "where": "source" it is the stream that is forked.
delete, pad  Remove objects; append spaces to an object until it has so many bytes.
materialize  Bring the consumer to "version". It holds nothing before the first such step and is not begun anew
             afterwards.
             Without "error" it must succeed and hold expected/<state>.json, if "state" is given: dtype, logical shape
             and the sha256 of the little-endian, row-major bytes of each tensor, and the sha256 of each file.
             With "error" it must fail with one of these codes of SPEC.md section 13, AND the target must hold
             afterwards exactly what it held before the step (ERR-2), or "state" if that is given. A case in which the
             right code comes out and the target has changed is failed.
follow       The same, version by version; the trees of "meanwhile" are laid one by one, each after a version was shown.
publish      Publish input/0, input/1, ... in one session: model.safetensors, files/, input.json (aliases, metadata).
             "versions" are the numbers that it must report as committed. The steps of "paused" are done when it has
             opened the stream and committed as many states as its option "pause_after" says, before it goes on.
lease, rollback, fork, build, collect
             What these calls do is described in ADAPTER.md of the suite.
race         The calls in it at the same time.
judge        Look at the store: versions that must read as given, keys that must be there, be gone or be unchanged,
             members that records must have. "findings" are codes that a check of the stream must report; without it
             the stream must be sound.
requests     Only for a store that notes what is asked of it; leave it out.

Cases with "faults" need a store that fails on purpose; leave them out. "arbitration" says that a case needs a store
that decides between writers that meet (STO-3, STO-4), or one that does not. "features" are things that SPEC.md leaves
open: a case counts only if the implementation has them. "requirements" are the identifiers in SPEC.md that the case is
about.
Keys that options name lie in the case's folder.
"""


def write_vectors(folder: Path) -> Counter[str]:
    """Write everything into a folder, which must be empty or absent. Returns the number of files of each sort.

    Raises:
        FileExistsError: there is something in it.
        OSError: it cannot be written.
    """
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(17, "the folder is not empty", str(folder))
    for name in ("vectors", "examples"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    _write_tables(folder / "vectors")
    for block in vector_blocks():
        (folder / "vectors" / (block.name + _ENDINGS.get(block.name, ".json"))).write_bytes(block.data)
    _write_examples(folder / "examples")
    shutil.copytree(CASES, folder / "cases")
    spec = hashlib.sha256(SPEC.read_bytes()).hexdigest()
    text = _README.format(version=__version__, spec=spec, sums=SUMS, schema="conformance/schemas/case.json")
    (folder / "README.txt").write_text(text, encoding="utf-8")
    return _write_sums(folder)


def _write_tables(folder: Path) -> None:
    for table in vector_tables():
        made: dict[str, Any] = {
            "name": table.name,
            "section": f"SPEC.md {table.section}",
            "before": table.before,
            "rows": table.rows,
            "after": table.after,
        }
        (folder / f"{table.name.replace(' ', '-')}.json").write_text(
            json.dumps(made, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )


def _write_examples(folder: Path) -> None:
    by_name: dict[str, list[Block]] = {}
    for block in examples():
        by_name.setdefault(block.name, []).append(block)
    for name, blocks in by_name.items():
        for number, block in enumerate(blocks):
            ending = f"-{number}" if len(blocks) > 1 else ""
            (folder / f"{name}{ending}.json").write_bytes(block.data)


def _write_sums(folder: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    lines = []
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            name = file.relative_to(folder).as_posix()
            counts[name.split("/", maxsplit=1)[0]] += 1
            lines.append(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {name}\n")
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")
    return counts

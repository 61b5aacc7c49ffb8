"""Writes the golden cases: ``python -m authoring [AREA ...]``, in ``conformance/``."""

from __future__ import annotations

import shutil
import sys
from collections import defaultdict
from pathlib import Path

import msgspec

from authoring.areas import all_drafts
from authoring.drafts import Draft, pretty
from deltawire_conformance.case import find_cases
from deltawire_conformance.frozen import as_draft, read_frozen

HERE = Path(__file__).resolve().parent.parent
CASES, REQUIREMENTS = HERE / "cases", HERE / "requirements"
VERSION = "0.1"


def main() -> None:
    """Write all areas, or those named."""
    listed = REQUIREMENTS / f"{VERSION}.json"
    if listed.exists() and read_frozen(VERSION, folder=REQUIREMENTS).status == "frozen":
        sys.exit(f"the cases of {VERSION} are frozen; new ones need another version")
    by_area: dict[str, list[Draft]] = defaultdict(list)
    for draft in all_drafts():
        by_area[draft.area].append(draft)
    for area in sys.argv[1:] or sorted(by_area):
        shutil.rmtree(CASES / area, ignore_errors=True)
        for draft in by_area[area]:
            draft.write(CASES)
        print(f"{area}: {len(by_area[area])} cases")
    listed.write_bytes(pretty(msgspec.to_builtins(as_draft(VERSION, find_cases(CASES)))))


if __name__ == "__main__":
    main()

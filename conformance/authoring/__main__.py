"""Writes the golden cases: ``python -m authoring [AREA ...]``, in ``conformance/``."""

from __future__ import annotations

import shutil
import sys
from collections import defaultdict
from pathlib import Path

from authoring.areas import all_drafts
from authoring.drafts import Draft

CASES = Path(__file__).resolve().parent.parent / "cases"


def main() -> None:
    """Write all areas, or those named."""
    by_area: dict[str, list[Draft]] = defaultdict(list)
    for draft in all_drafts():
        by_area[draft.area].append(draft)
    for area in sys.argv[1:] or sorted(by_area):
        shutil.rmtree(CASES / area, ignore_errors=True)
        for draft in by_area[area]:
            draft.write(CASES)
        print(f"{area}: {len(by_area[area])} cases")


if __name__ == "__main__":
    main()

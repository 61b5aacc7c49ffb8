"""Four writers, four followers and a maintainer on one stream, killed with SIGKILL and stopped with SIGSTOP at random.

    python -m tests.torture URL [--seconds 600] [--seed 7]

URL is that of a stream that does not exist yet: a directory, or ``s3://bucket/prefix``. Every act is played at least
once, which takes about half a minute, and all again until so many seconds have passed. Afterwards the stream is
verified in full, and held against what every process noted while it lived. If anything is wrong, the status is 1, and
the folder with all that was noted is kept.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from tests.torture.director import Director
from tests.torture.scene import Scene
from tests.torture.verdict import judge

_TAIL = 12


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("url", help="of a stream that does not exist yet")
    parser.add_argument("--seconds", type=float, default=0.0, help="how long; at least until every act was played")
    parser.add_argument("--seed", type=int, default=None, help="decides the order of things; a new one by default")
    parser.add_argument("--folder", type=Path, default=None, help="for what is noted, and the followers' directories")
    options = parser.parse_args()
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    folder = Path(tempfile.mkdtemp(prefix="torture-")) if options.folder is None else options.folder
    (folder / "targets").mkdir(parents=True)
    scene = Scene(url=options.url, folder=folder, seed=seed)
    director = Director(scene)
    print(f"seed {seed}, folder {folder}", flush=True)
    try:
        director.perform(options.seconds)
        verdict = judge(scene, director.did)
    except Exception:  # noqa: BLE001 - whatever it was, what everybody noted is shown
        traceback.print_exc()
        wrong = ["it did not come to an end"]
    else:
        wrong = verdict.wrong
        print(", ".join(f"{what} {count}" for what, count in sorted(verdict.counts.items())))
        for note in verdict.notes:
            print(f"note: {note}")
    if not wrong:
        if options.folder is None:
            shutil.rmtree(folder)
        return 0
    for line in wrong:
        print(f"WRONG: {line}")
    for path in sorted(folder.glob("*.jsonl")) + sorted(folder.glob("*.log")):
        lines = path.read_text(errors="replace").splitlines()[-_TAIL:]
        print("\n".join([f"--- {path.name}", *(line[:2000] for line in lines)]))
    print(f"seed {seed}, did {dict(director.did)}; everything is in {folder}")
    return 1


if __name__ == "__main__":
    sys.exit(main())

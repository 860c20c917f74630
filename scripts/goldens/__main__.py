"""Goldens: what commands, parsers, the twin and pages answer, held against what is committed.

    make goldens                 compare; exit code 1 where anything differs
    make goldens ARGS=--make     write tests/goldens anew
    make goldens ARGS=record     compare those of one folder

Every commit leaves them equal, or names what it changes and why, and commits the new ones.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from scripts.goldens import kept, place

DIRECTORY = place.ROOT / "tests" / "goldens"


def main() -> None:
    """Make the goldens, and write or compare them."""
    parser = argparse.ArgumentParser(prog="goldens", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--make", action="store_true", help="write them in the place of comparing")
    parser.add_argument("folders", nargs="*", help="only these; default: all")
    wanted = parser.parse_args()
    place.enter()
    from scripts.goldens.commands import uncovered
    from scripts.goldens.scenes import SCENES

    problems: list[str] = []
    every: list[Any] = []
    for name in wanted.folders or SCENES:
        began_s = time.monotonic()
        made = dict(SCENES[name]())
        every += made.values()
        print(f"{name}: {len(made)} goldens, {time.monotonic() - began_s:.0f} s", file=sys.stderr)
        if wanted.make:
            kept.write(DIRECTORY / name, made)
        else:
            found = kept.differences(kept.read(DIRECTORY / name), made)
            problems += [f"{name}/{line}" for line in found]
    if not wanted.folders:
        problems += uncovered(every)
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()

"""What the size of the miniature OST does to write amplification: `make bench-miniature`.

A real OST has thousands of superblocks, each of which holds thousands of files; a miniature has
few of either. Small superblocks die whole with a large file, so less is copied; few superblocks
leave collection less to choose from, so more is. A probe shows it most: what a run writes and
deletes fills dozens of superblocks of a real OST, and shares one with users' files in a miniature
of few. Beside the sizes stands the largest that can be simulated here: `LARGEST`.

A month at a constant fullness with Perlmutter's writes: log-normal files, 0.07 capacities a day,
and in two regimes as much again by a probe that runs every hour.
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

from trimtab._core import OstFleet

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)

RESULT = ROOT / "benchmarks" / "results" / "miniature_size.json"
SIZES = (
    *((16, 64), (16, 256), (64, 256), (64, 2048), (256, 512), (256, 2048)),
    *((512, 512), (512, 1024), (1024, 1024)),
)
LARGEST = (4096, 2048)
DAILY, STEP = 0.07, 0.07 / 24
WARM, MEASURED = 2.0, 2.0
"""Capacities, after the two that a filling ages it with."""
FULLNESS = (0.60, 0.75, 0.85)
PROBE_FILES = 8


class Regime(NamedTuple):
    """Whether it is trimmed nightly, resets of the pointer an hour, and whether it is probed."""

    trimmed: bool
    resets: float = 0.0
    probed: bool = False


REGIMES = {
    "never trimmed": Regime(False),
    "nightly": Regime(True),
    "nightly, reset every 15 min": Regime(True, resets=4.0),
    "never trimmed, reset every 15 min": Regime(False, resets=4.0),
    "nightly, probed": Regime(True, probed=True),
    "never trimmed, probed": Regime(False, probed=True),
}


def amplifications(
    size: tuple[int, int], fullness: float, regime: Regime, seeds: int
) -> list[float]:
    """Return the write amplification of so many OSTs."""
    fleet = OstFleet(
        seeds,
        groups=size[0],
        superblock_units=size[1],
        spare=0.127,
        separate=True,
        size_median_units=4.0,
        size_sigma=2.2,
        enter=(0.25, 0.25, 0.05),
        seed=1,
        threads=1,
    )
    fleet.fill([fullness] * seeds)
    nothing = [0.0] * seeds

    def write(capacities: float) -> None:
        for hour in range(1, round(capacities / STEP) + 1):
            fleet.advance(
                written=[STEP] * seeds,
                deleted=[STEP] * seeds,
                purged=nothing,
                burst=[STEP * regime.probed] * seeds,
                burst_files=[PROBE_FILES * regime.probed] * seeds,
                resets=[regime.resets] * seeds,
            )
            if regime.trimmed and hour % 24 == 0:
                fleet.trim(list(range(seeds)))

    write(WARM)
    before = fleet.state()
    write(MEASURED)
    after = fleet.state()
    copied, written = (
        [late - early for early, late in zip(before[name], after[name], strict=True)]
        for name in ("copied_units", "written_units")
    )
    return [1 + copies / host for copies, host in zip(copied, written, strict=True)]


def main() -> None:
    """Measure, print and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    asked = parser.parse_args()
    rows = []
    for fullness, (name, regime) in product(FULLNESS, REGIMES.items()):
        largest = mean(amplifications(LARGEST, fullness, regime, 2))
        for size in SIZES:
            seen = amplifications(size, fullness, regime, asked.seeds)
            rows.append(
                {
                    "groups": size[0],
                    "superblock_units": size[1],
                    "fullness": fullness,
                    "regime": name,
                    "amplification": mean(seen),
                    "standard_error": stdev(seen) / asked.seeds**0.5,
                    "largest": largest,
                    "off": mean(seen) / largest - 1,
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    result = {
        "what": "write amplification of miniatures of several sizes over that of the largest",
        **measured_on(),
        "largest": LARGEST,
        "seeds": asked.seeds,
        "rows": rows,
    }
    if not asked.no_write:
        RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

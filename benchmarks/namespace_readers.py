"""What the Parquet decoder brings over the parquet crate's own readers: `make bench-readers`."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)

RESULT = ROOT / "benchmarks" / "results" / "namespace_readers.json"
PROGRAMS = ("synthetic_index", "paired_readers")
LEAST_RATIO = 1.2
"""Below it, on the usual tally, the decoder would not be worth its lines."""


def main() -> None:
    """Build, make an index, run both readers in turns, print, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000, help="Rows of the index.")
    parser.add_argument("--rounds", type=int, default=15, help="Rounds of each tally.")
    parser.add_argument("--dir", type=Path, help="Directory for the index; 50 bytes a row.")
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    options = parser.parse_args()
    programs = build()
    with tempfile.TemporaryDirectory(dir=options.dir, prefix="bench-readers-") as index:
        run([programs["synthetic_index"], index, str(options.rows)])
        elapsed = run([programs["paired_readers"], index, str(options.rounds)])
    result = {
        "what": "one tally on one thread, its columns read by the decoder of the index and by the"
        " parquet crate's own column readers, in turns in one process, results equal; medians"
        " of processor seconds",
        **measured_on(),
        "link_time_optimisation": os.environ.get("CARGO_PROFILE_RELEASE_LTO", "thin"),
        "rows": options.rows,
        "rounds": options.rounds,
        "least_ratio": LEAST_RATIO,
        "tallies": {name: summary(times) for name, times in elapsed.items()},
    }
    print(json.dumps(result, indent=2))
    if not options.no_write:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")


def build() -> Mapping[str, Path]:
    """Return the programs, built in the release profile."""
    examples = [part for name in PROGRAMS for part in ("--example", name)]
    argv = ["cargo", "build", "--release", "--package", "namespace", "--locked"]
    argv += ["--features", "library-readers", *examples]
    subprocess.run(argv, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return {name: target / "release" / "examples" / name for name in PROGRAMS}


def run(argv: Sequence[str | Path]) -> dict[str, Any]:
    """Return what a program prints."""
    return json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)


def summary(times: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Return the medians of both readers, their ratio and the range of the ratios of rounds."""
    decoder_s, library_s = times["decoder_s"], times["library_s"]
    ratios = [slow / fast for fast, slow in zip(decoder_s, library_s, strict=True)]
    return {
        "decoder_s": round(statistics.median(decoder_s), 4),
        "library_s": round(statistics.median(library_s), 4),
        "ratio": round(statistics.median(library_s) / statistics.median(decoder_s), 2),
        "ratio_of_rounds": [round(value, 2) for value in statistics.quantiles(ratios, n=4)],
    }


if __name__ == "__main__":
    main()

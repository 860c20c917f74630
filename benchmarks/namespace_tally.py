"""How fast an index is tallied, beside what bounds it and plain group-bys: `make bench-tally`."""

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

RESULT = ROOT / "benchmarks" / "results" / "namespace_tally.json"
PROGRAMS = ("synthetic_index", "tally_index", "decode_index")
SIZES = (10_000_000, 30_000_000, 100_000_000)
MOST_S = 4.0
MOST_BYTES = 4 * 2**30

POLARS = """
import sys, time
import polars as pl

shards = sorted(__import__("pathlib").Path(sys.argv[1]).glob("*.parquet"))
times = ["atime_ns", "mtime_ns", "ctime_ns"]
begun = time.perf_counter()
frame = (
    pl.scan_parquet(shards)
    .filter(pl.col("type") == "f")
    .with_columns(bucket=pl.max_horizontal(times) // (int(sys.argv[2]) * 10**9))
)
by = ["bucket"] if sys.argv[2] == "3600" else ["uid", "bucket"]
sums = [pl.len(), pl.col("allocated_bytes").sum()]
rows = frame.group_by(by).agg(sums).collect(engine="streaming").height
print('{"buckets": %d, "elapsed_s": %.3f}' % (rows, time.perf_counter() - begun))
"""


def main() -> None:
    """Build, make indexes, measure in turns, print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES, help="Sizes of the indexes.")
    parser.add_argument("--rounds", type=int, default=5, help="How often each is measured.")
    parser.add_argument("--dir", type=Path, help="Where; some 50 bytes a row of the largest.")
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    asked = parser.parse_args()
    programs = build()
    sizes = [measure(programs, rows, asked.rounds, asked.dir) for rows in sorted(asked.rows)]
    result = {
        "what": "curve by hour, curve of each user by day and counts, over a synthetic index whose"
        " files are in the page cache; whole processes; medians",
        **measured_on(),
        "goal": {"rows": 100_000_000, "elapsed_s": MOST_S, "memory_bytes": MOST_BYTES},
        "sizes": sizes,
        "extrapolated_s": {"rows": 10**9, "elapsed_s": extrapolated(sizes, 10**9)},
    }
    print(json.dumps(result, indent=2))
    if not asked.no_write:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")


def build() -> Mapping[str, Path]:
    """Return the programs, built as they are released."""
    examples = [part for name in PROGRAMS for part in ("--example", name)]
    argv = ["cargo", "build", "--release", "--package", "namespace", "--locked", *examples]
    subprocess.run(argv, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return {name: target / "release" / "examples" / name for name in PROGRAMS}


def measure(
    programs: Mapping[str, Path], rows: int, rounds: int, directory: Path | None
) -> dict[str, Any]:
    """Return what one size took, each contender in turn in every round."""
    with tempfile.TemporaryDirectory(dir=directory, prefix="bench-tally-") as index:
        _, made = run([programs["synthetic_index"], index, str(rows)])
        threads = str(os.cpu_count())
        contenders = {
            "tally": [programs["tally_index"], index, threads],
            "tally_one_thread": [programs["tally_index"], index, "1"],
            "decoding_only": [programs["decode_index"], index, threads],
            "polars_by_hour": [sys.executable, "-c", POLARS, index, "3600"],
            "polars_by_user_and_day": [sys.executable, "-c", POLARS, index, "86400"],
        }
        taken: dict[str, list[tuple[float, int]]] = {name: [] for name in contenders}
        for _ in range(rounds):
            for name, argv in contenders.items():
                memory_bytes, told = run(argv)
                taken[name].append((told["elapsed_s"], memory_bytes))
    return {
        "rows": rows,
        "index_bytes": made["bytes"],
        "writing_s": made["elapsed_s"],
        **{name: summary(values) for name, values in taken.items()},
    }


def run(argv: Sequence[str | Path]) -> tuple[int, dict[str, Any]]:
    """Return the most memory that a process had, and what it printed."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, [str(part) for part in argv])
    return used.ru_maxrss * 1024, json.loads(printed)


def summary(taken: Sequence[tuple[float, int]]) -> dict[str, Any]:
    """Return the median time, its range, and the most memory."""
    times = [elapsed_s for elapsed_s, _ in taken]
    return {
        "elapsed_s": statistics.median(times),
        "range_s": [min(times), max(times)],
        "memory_bytes": max(memory_bytes for _, memory_bytes in taken),
    }


def extrapolated(sizes: Sequence[Mapping[str, Any]], rows: int) -> float | None:
    """Return what so many rows would take, by the line through the sizes; needs two of them."""
    if len(sizes) < 2:
        return None
    known = [float(size["rows"]) for size in sizes]
    line = statistics.linear_regression(known, [size["tally"]["elapsed_s"] for size in sizes])
    return round(line.slope * rows + line.intercept, 2)


if __name__ == "__main__":
    main()

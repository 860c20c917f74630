"""The running kernel's block allocator beside the twin's model of it: `make bench-allocator`.

As root: a sparse file on a loop device, ext4, and a trace of files that come and go at one fullness
after another; then the same trace through the model of the kernel's family, from the same metadata,
with the same inode numbers. Compared are hits per criterion, useless loops and groups considered, as
both count them. It is a report: whatever comes out is written down.

No data is written: fallocate makes unwritten extents, which go through the same search, and the file
beneath holds metadata only. Up to 128 MiB a call such requests are not normalised and preallocate
nothing, so what normalisation does to small writes is not in this comparison.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.allocator.compare import compare, run
from benchmarks.allocator.trace import LARGEST_BLOCKS, MEDIAN_BLOCKS, SIGMA

RESULT = ROOT / "benchmarks" / "results" / "kernel_allocator.json"
GIB = 1024**3
STEPS = [0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95]


def main() -> None:
    """Run every seed, print a table, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, help="where the sparse file is made (default: a temporary one)")
    parser.add_argument("--size-gib", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--churn", type=float, default=0.75, help="capacities, twice at each fullness")
    parser.add_argument("--request-blocks", type=int, default=256)
    parser.add_argument("--no-write", action="store_true", help="leave the committed result")
    asked = parser.parse_args()
    os.nice(10)
    runs = []
    with tempfile.TemporaryDirectory(dir=asked.dir, prefix="kernel-allocator-") as directory:
        for seed in range(1, asked.seeds + 1):
            found = run(
                Path(directory),
                size_bytes=asked.size_gib * GIB,
                steps=STEPS,
                churn=asked.churn,
                seed=seed,
                request_blocks=asked.request_blocks,
            )
            runs.append(found)
            print_rows(found)
    result = {
        "what": "the running kernel's block allocator and the twin's model of its family, one trace",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "processors": os.cpu_count(),
            "architecture": platform.machine(),
            "kernel": platform.release(),
        },
        "terms": {
            "size_gib": asked.size_gib,
            "churn": asked.churn,
            "request_blocks": asked.request_blocks,
            "file_blocks": {"median": MEDIAN_BLOCKS, "sigma": SIGMA, "largest": LARGEST_BLOCKS},
        },
        "comparison": compare(runs),
        "runs": runs,
    }
    print(json.dumps(result["comparison"], indent=2))
    if not asked.no_write:
        RESULT.write_text(json.dumps(result, indent=1) + "\n")


def print_rows(found: dict) -> None:
    """Print one line for each fullness and side."""
    print(f"{found['family']}, seed {found['seed']}, {found['kernel_s']:.0f} s and {found['model_s']:.0f} s")
    print("  full side    hits % " + " / ".join(found["criteria"]) + ", useless a thousand, groups a request")
    for row in found["rows"]:
        for side in ("kernel", "model"):
            one = row[side]
            shares = " / ".join(f"{100 * share:.1f}" for share in one["hits"])
            useless = " / ".join(f"{1000 * loops:.1f}" for loops in one["useless"])
            groups = sum(one["considered"])
            print(f"  {row['fullness']:.2f} {side:7s} {shares:32s} {useless:32s} {groups:.2f}")


if __name__ == "__main__":
    main()

"""The running kernel's block allocator beside the twin's model of it: `make bench-allocator`.

As root: a sparse file on a loop device, ext4, and a trace of files that come and go at one fullness
after another; then the same trace through the model of the kernel's family, from the same metadata,
with the same inode numbers. Compared are hits per criterion, useless loops and groups considered,
as both count them. It is a report: whatever comes out is written down.

No data is written: fallocate makes unwritten extents, which go through the same search, and the
file beneath holds metadata only. Up to 128 MiB a call such requests are not normalised and
preallocate nothing, so what normalisation does to small writes is not in this comparison.
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

from benchmarks.allocator.compare import compare, run  # noqa: E402
from benchmarks.allocator.trace import LARGEST_BLOCKS, MEDIAN_BLOCKS, SIGMA  # noqa: E402
from tests.support import loopback  # noqa: E402 (the tree is on the path now)

RESULT = ROOT / "benchmarks" / "results" / "kernel_allocator.json"
GIB = 1024**3
STEPS = [round(0.60 + 0.025 * number, 3) for number in range(15)]


def main() -> None:
    """Run every seed with every length of request, print a table, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, help="where the sparse file is made")
    parser.add_argument("--size-gib", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--churn", type=float, default=0.5, help="capacities: to age, and to measure"
    )
    parser.add_argument("--request-blocks", type=int, nargs="+", default=[256, 2048])
    parser.add_argument("--no-write", action="store_true", help="leave the committed result")
    asked = parser.parse_args()
    if reason := loopback.why_no_loop_devices("ext4"):
        parser.error(reason)
    os.nice(10)
    result = {
        "what": "the running kernel's block allocator beside the twin's model of its family",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "processors": os.cpu_count(),
            "architecture": platform.machine(),
            "kernel": platform.release(),
        },
        "terms": {
            "size_gib": asked.size_gib,
            "churn": asked.churn,
            "file_blocks": {"median": MEDIAN_BLOCKS, "sigma": SIGMA, "largest": LARGEST_BLOCKS},
        },
        "cases": [_case(asked, blocks) for blocks in asked.request_blocks],
    }
    if not asked.no_write:
        RESULT.write_text(json.dumps(result, indent=1) + "\n")


def _case(asked: argparse.Namespace, request_blocks: int) -> dict:
    runs = []
    with tempfile.TemporaryDirectory(dir=asked.dir, prefix="kernel-allocator-") as directory:
        for seed in range(1, asked.seeds + 1):
            found = run(
                Path(directory),
                size_bytes=asked.size_gib * GIB,
                steps=STEPS,
                churn=asked.churn,
                seed=seed,
                request_blocks=request_blocks,
            )
            runs.append(found)
            _print(found, request_blocks)
    comparison = compare(runs)
    print(
        f"  hits apart by up to {comparison['hits_points_largest']} points; onset of useless loops:"
    )
    for name, onset in comparison["onset"].items():
        print(f"  {name}: kernel {onset['kernel']}, model {onset['model']}")
    return {"request_blocks": request_blocks, "comparison": comparison, "runs": runs}


def _print(found: dict, request_blocks: int) -> None:
    times = f"{found['kernel_s']:.0f} s and {found['model_s']:.0f} s"
    print(f"{found['family']}, requests of {request_blocks}, seed {found['seed']}, {times}")
    names = " / ".join(found["criteria"])
    print(f"  full  side    hits % {names}, useless a thousand requests, groups a request")
    for row in found["rows"]:
        for side in ("kernel", "model"):
            one = row[side]
            shares = " / ".join(f"{100 * share:.1f}" for share in one["hits"])
            useless = " / ".join(f"{1000 * loops:.1f}" for loops in one["useless"])
            groups = sum(one["considered"])
            print(f"  {row['fullness']:.3f} {side:7s} {shares:34s} {useless:34s} {groups:.2f}")


if __name__ == "__main__":
    main()

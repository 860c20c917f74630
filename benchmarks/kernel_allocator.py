"""The running kernel's block allocator beside the twin's model of it: `make bench-allocator`.

As root: a sparse file on a loop device, ext4, and a trace of files that come and go at one fullness
after another; then the same trace through the model of the kernel's family, from the same metadata,
with the same inode numbers. Compared are hits per criterion, useless loops and groups considered,
as both count them. It is a report: whatever comes out is written down.

Files are taken with fallocate: it makes unwritten extents, which go through the same search, and
the file beneath holds metadata only. Up to 128 MiB a call such requests are not normalised and
preallocate nothing. So a smaller file system, in memory, is written besides, which shows what
normalisation makes of requests and the criterion that cuts them down again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.allocator.compare import compare, run  # noqa: E402
from benchmarks.allocator.trace import LARGEST_BLOCKS, MEDIAN_BLOCKS, SIGMA  # noqa: E402
from benchmarks.measured import measured_on  # noqa: E402
from tests.support import loopback  # noqa: E402 (the tree is on the path now)

RESULT = ROOT / "benchmarks" / "results" / "kernel_allocator.json"
GIB = 1024**3
STEPS = [round(0.60 + 0.025 * number, 3) for number in range(15)]
WRITING_STEPS = [0.60, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95]


def main() -> None:
    """Run every seed of every case, print tables, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, help="where the sparse file is made")
    parser.add_argument("--size-gib", type=int, default=64)
    parser.add_argument(
        "--churn", type=float, default=0.5, help="capacities: to age, and to measure"
    )
    parser.add_argument("--request-blocks", type=int, nargs="*", default=[256, 2048])
    parser.add_argument("--write-dir", type=Path, default=Path("/dev/shm"), help="best in memory")
    parser.add_argument("--write-gib", type=int, default=3, help="0: write nothing")
    parser.add_argument("--write-churn", type=float, default=0.2)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--no-write", action="store_true", help="leave the committed result")
    asked = parser.parse_args()
    if reason := loopback.why_no_loop_devices("ext4"):
        parser.error(reason)
    os.nice(10)
    taking = {"size_gib": asked.size_gib, "churn": asked.churn, "writes": False}
    writing = {"size_gib": asked.write_gib, "churn": asked.write_churn, "writes": True}
    cases = [
        _case(asked.dir, taking | {"request_blocks": blocks}, STEPS, asked.seeds)
        for blocks in asked.request_blocks
    ]
    if asked.write_gib:
        terms = writing | {"request_blocks": 256}
        cases.append(_case(asked.write_dir, terms, WRITING_STEPS, asked.seeds))
    result = {
        "what": "the running kernel's block allocator beside the twin's model of its family",
        **measured_on(),
        "file_blocks": {"median": MEDIAN_BLOCKS, "sigma": SIGMA, "largest": LARGEST_BLOCKS},
        "cases": cases,
    }
    if not asked.no_write:
        RESULT.write_text(_text(result))


def _text(result: dict) -> str:
    """Return it as JSON with every list of numbers on one line."""
    text = json.dumps(result, indent=1) + "\n"
    return re.sub(r"\[[^][{}]*\]", lambda found: " ".join(found.group().split()), text)


def _case(directory: Path | None, terms: dict, steps: list[float], seeds: int) -> dict:
    runs = []
    with tempfile.TemporaryDirectory(dir=directory, prefix="kernel-allocator-") as place:
        for seed in range(1, seeds + 1):
            found = run(
                Path(place),
                size_bytes=terms["size_gib"] * GIB,
                steps=steps,
                churn=terms["churn"],
                seed=seed,
                request_blocks=terms["request_blocks"],
                writes=terms["writes"],
            )
            runs.append(found)
            _print(found, terms)
    comparison = compare(runs)
    print(
        f"  hits apart by up to {comparison['hits_points_largest']} points; onset of useless loops:"
    )
    for name, onset in comparison["onset"].items():
        print(f"  {name}: kernel {onset['kernel']}, model {onset['model']}", flush=True)
    return terms | {"comparison": comparison, "runs": runs}


def _print(found: dict, terms: dict) -> None:
    times = f"{found['kernel_s']:.0f} s and {found['model_s']:.0f} s"
    how = "writes" if terms["writes"] else "fallocate"
    what = f"{how} of {terms['request_blocks']} blocks, seed {found['seed']}"
    print(f"{found['family']}, {what}, {times}", flush=True)
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

"""Two hundred seeds of lost, paused and partitioned workers and schedulers, and full disks.

Each seed scans a small tree by workers of Dask and asks who holds what, while up to four faults hit
the first two attempts of the client. After each attempt the answer is the right one, or there is
none and the next attempt goes on. `make soak-dask`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)

RESULT = ROOT / "benchmarks" / "results" / "dask_chaos.json"
TEST = "tests/purge/index/test_chaos.py"


def main() -> None:
    """Run the seeds, print what they came to, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2, help="Seeds at a time.")
    asked = parser.parse_args()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report"
        report.touch()
        code = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-m", "system or soak", TEST,
             "--numprocesses", str(asked.processes), "--dist", "load"],
            cwd=ROOT, check=False,
            env={**os.environ, "TRIMTAB_CHAOS_SEEDS": str(asked.seeds),
                 "TRIMTAB_CHAOS_REPORT": str(report)},
        ).returncode  # fmt: skip
        seeds = [json.loads(line) for line in report.read_text().splitlines()]
    result = {
        "what": "a scan and a question by workers of Dask under faults: right, or no answer",
        **measured_on(),
        "seeds": asked.seeds,
        "right_in_the_end": len(seeds),
        "failed_or_not_run": asked.seeds - len(seeds),
        "faults": dict(Counter(fault for seed in seeds for fault in seed["faults"]).most_common()),
        "attempts": sum(len(seed["ends"]) for seed in seeds),
        "attempts_without_an_answer": sum(
            end != 0 for seed in seeds for end in seed["ends"]
        ),
        "elapsed_s": round(time.monotonic() - began_s, 1),
    }  # fmt: skip
    print(json.dumps(result, indent=2))
    if not asked.no_write:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(code)


if __name__ == "__main__":
    main()

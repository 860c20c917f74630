"""How fast the simulated drive is, beside the loop that bounds it: `make bench-flash`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)

RESULT = ROOT / "benchmarks" / "results" / "flash_writes.json"


def main() -> None:
    """Build, measure in turns, print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    asked = parser.parse_args()
    argv = ["cargo", "bench", "--package", "flash", "--bench", "writes", "--locked", "--quiet"]
    ended = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True)
    result = {
        "what": "unit writes a second of one simulated drive on one core, steady state, greedy",
        **measured_on(),
        **json.loads(ended.stdout),
    }
    print(json.dumps(result, indent=2))
    if not asked.no_write:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()

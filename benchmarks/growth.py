"""What a person waits for as a site's record grows: one thing at a time from a year of 298 OSTs.

``status``, ``judge``, ``incidents`` and the first page of the dashboard when nothing is new;
``status`` and ``incidents`` after one more run, and what it takes to keep one; the bytes of the
store. For three and ten years (the same month laid end to end), five sites, 1,000 OSTs, and
PostgreSQL where ``--postgresql`` names an empty database. Stores are made in ``--directory``, and
used again where they are there.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

import httpx2

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.dashboard import SECRET, served  # noqa: E402 (the tree is on the path)
from benchmarks.explain_a_year import (  # noqa: E402
    OSTS,
    SITE,
    YEAR_DAYS,
    add_runs,
    command,
    prepare,
)
from benchmarks.measured import measured_on  # noqa: E402

RESULT: Final = Path(__file__).with_name("results") / "growth.json"
CASES: Final[dict[str, dict[str, int]]] = {
    "a year": {},
    "3 years": {"days": 3 * YEAR_DAYS},
    "10 years": {"days": 10 * YEAR_DAYS},
    "5 sites": {"sites": 5},
    "1,000 OSTs": {"osts": 1000},
}


def figures_of(store: Path | str, rounds: int) -> dict[str, Any]:
    """Return the medians of what commands and pages took, in seconds, and the size of a store."""
    first = command("incidents", store)["elapsed_s"]
    took: dict[str, list[float]] = {"incidents, from nothing": [first]}
    for _ in range(rounds):
        for name in ("status", "judge", "incidents"):
            took.setdefault(f"{name}, nothing new", []).append(command(name, store)["elapsed_s"])
        for name in ("first page", "overview"):
            took.setdefault(name, [])
        with tempfile.TemporaryDirectory() as directory:
            began = time.perf_counter()
            with served(store, Path(directory)) as (port, _):
                for name in ("first page", "overview"):
                    page(port)
                    took[name].append(time.perf_counter() - began)
                    began = time.perf_counter()
        began = time.perf_counter()
        add_runs(store, 1)
        took.setdefault("one run kept", []).append(time.perf_counter() - began)
        for name in ("status", "incidents"):
            took.setdefault(f"{name}, one new run", []).append(command(name, store)["elapsed_s"])
    size = store.stat().st_size if isinstance(store, Path) else None
    return {"bytes": size, "seconds": {name: round(median(of), 3) for name, of in took.items()}}


def page(port: int) -> None:
    """Ask for the overview."""
    headers = {"X-Trimtab-Secret": SECRET, "X-Forwarded-User": "viewer"}
    url = f"http://127.0.0.1:{port}/s/{SITE}/overview"
    httpx2.get(url, headers=headers, timeout=600.0).raise_for_status()


def main() -> None:
    """Measure case by case, print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", type=Path, help="Where stores are made, and left.")
    parser.add_argument(
        "--case", action="append", choices=list(CASES), help="Only these; others stay as they were."
    )
    parser.add_argument("--postgresql", metavar="URL", help="Of an empty database.")
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    asked = parser.parse_args()
    kept = json.loads(RESULT.read_text())["cases"] if asked.case and RESULT.exists() else {}
    cases: dict[str, Any] = kept
    with tempfile.TemporaryDirectory() as temporary:
        directory = asked.directory or Path(temporary)
        for name in asked.case or CASES:
            store = directory / f"{name.replace(' ', '-').replace(',', '')}.db"
            if not store.exists():
                prepare(store, **CASES[name])
            cases[name] = figures_of(store, asked.rounds)
            print(name, json.dumps(cases[name]), file=sys.stderr, flush=True)
        if asked.postgresql is not None:
            prepare(asked.postgresql)
            cases["a year, PostgreSQL"] = figures_of(asked.postgresql, asked.rounds)
    what = f"what a person waits for, from a year of {OSTS} OSTs, one thing changed at a time"
    result = {"what": what, **measured_on(), "cases": cases}
    print(json.dumps(result, indent=2))
    if not asked.no_write:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""How fast the twin is: nine months by classes and by OSTs, and a sweep of them: `make bench-twin`.

Each run is a process of its own, so that its memory is its own. Beside the whole stands what the
miniature OSTs of the core take in the same run: no simulation that asks them so often can be faster
than they are. Runs of different kinds take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)

RESULT = ROOT / "benchmarks" / "results" / "twin_speed.json"
KINDS = {
    "16 classes": {"classes": 16, "threads": None},
    "298 OSTs": {"classes": None, "threads": None},
    "298 OSTs, one thread": {"classes": None, "threads": 1},
}
TEN = ("--vary", "fullness=0.5:0.68:0.02")
HUNDRED = (*TEN, "--vary", "trim=never,30d,7d,2d,nightly", "--vary", "thresholds=25/15/5,25/25/5")
"""Scenarios of nine months each."""


class Timed:
    """The miniature OSTs, with the seconds that they take."""

    def __init__(self, layout: Any) -> None:
        self._layout = layout
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        """Return a method that counts its time."""
        call = getattr(self._layout, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return call(*arguments, **named)
            finally:
                self.seconds += time.perf_counter() - began

        return timed


def one(kind: str) -> dict[str, float]:
    """Return what one simulation of nine months takes, in this process."""
    from trimtab.twin.scenario_file import load_scenario
    from trimtab.twin.simulation.engine import Simulation
    from trimtab.twin.simulation.miniature import core_fleet

    asked = KINDS[kind]
    scenario = load_scenario("perlmutter")
    resolution = replace(scenario.resolution, classes=asked["classes"])
    made: list[Timed] = []

    def layout(*arguments: Any) -> Any:
        made.append(Timed(core_fleet(*arguments)))
        return made[-1]

    began, busy = time.perf_counter(), time.process_time()
    simulation = Simulation(
        replace(scenario, resolution=resolution), threads=asked["threads"], layout=layout
    )
    simulation.run()
    return {
        "elapsed_s": time.perf_counter() - began,
        "processor_s": time.process_time() - busy,
        "miniature_s": made[0].seconds,
        "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "columns": simulation.columns.count,
        "epochs": len(simulation.trace.ends_s),
    }


def in_a_process(kind: str) -> dict[str, float]:
    """Return what `one` says in a process of its own."""
    argv = [sys.executable, __file__, "--one", kind]
    ended = subprocess.run(argv, check=True, capture_output=True, text=True)
    return json.loads(ended.stdout)


def figures(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the medians of some runs, and the ratio of the whole to the miniature."""
    found = {name: median(run[name] for run in runs) for name in runs[0]}
    found["times_the_miniature"] = median(run["elapsed_s"] / run["miniature_s"] for run in runs)
    found["rounds"] = len(runs)
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def taken(directory: str, *arguments: str) -> dict[str, float]:
    """Return what a command of Trimtab takes, with all processes that it starts."""
    program = Path(sys.executable).with_name("trimtab")
    usage, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([program, *arguments], check=True, capture_output=True, cwd=directory)
    elapsed_s, ended = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = ended.ru_utime + ended.ru_stime - usage.ru_utime - usage.ru_stime
    return {"elapsed_s": elapsed_s, "processor_s": busy}


def sweep(vary: tuple[str, ...]) -> dict[str, Any]:
    """Return what scenarios of 16 classes take with a process for each processor."""
    processes = os.cpu_count() or 1
    options = ("--classes", "16", "--seeds", "1", "--again", "--json", "--workers", str(processes))
    with tempfile.TemporaryDirectory() as directory:
        figures = taken(directory, "whatif", "perlmutter", *vary, *options)
    return {
        "scenarios": 10 if vary == TEN else 100,
        "classes": 16,
        "processes": processes,
        **figures,
    }


def with_snapshots() -> dict[str, float]:
    """Return what `trimtab twin run perlmutter` takes, with a snapshot of all targets an hour."""
    with tempfile.TemporaryDirectory() as directory:
        figures = taken(directory, "twin", "run", "perlmutter", "--directory", "life")
        store = Path(directory) / "life" / "perlmutter.db"
        return {**figures, "store_bytes": store.stat().st_size}


def main() -> None:
    """Measure in turns, print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=9, help="Of the classes.")
    parser.add_argument("--long-rounds", type=int, default=3, help="Of one column an OST.")
    parser.add_argument("--no-sweep", action="store_true")
    parser.add_argument("--short-sweep", action="store_true", help="10 scenarios instead of 100.")
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    asked = parser.parse_args()
    if asked.one is not None:
        print(json.dumps(one(asked.one)))
        return
    runs: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    for number in range(asked.rounds):
        for kind in KINDS:
            if kind == "16 classes" or number < asked.long_rounds:
                runs[kind].append(in_a_process(kind))
                print(f"{kind}: {runs[kind][-1]['elapsed_s']:.1f} s", file=sys.stderr, flush=True)
    result: dict[str, Any] = {
        "what": "nine months of Perlmutter, hourly epochs; 100 such scenarios as a sweep",
        **measured_on(),
        "nine months": {kind: figures(found) for kind, found in runs.items() if found},
    }
    result["twin run"] = {**measured_on(), **with_snapshots()}
    if not asked.no_sweep:
        result["sweep"] = {**measured_on(), **sweep(TEN if asked.short_sweep else HUNDRED)}
    print(json.dumps(result, indent=2))
    if not asked.no_write:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()

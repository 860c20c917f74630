"""What judging and explaining a year of one site costs: 298 OSTs, a probe an hour, a survey a day.

A simulated month of a site of that size (``tests/worlds``: two faults, innocent events beside
them) is laid end to end until the year is full: 8,760 hourly runs, 365 surveys of 298 OSTs, 8,760
snapshots of 298 targets. ``trimtab incidents``, ``judge`` and ``status`` run as a person would
start them, on that store: from nothing, when nothing is new, and after a day of new runs.

Bound: what no program could do without. Every sample of the probe and of the surveys is read from
SQLite, and the snapshots that explaining looks at are read and decompressed, in one process.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import func, insert, select

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)
from tests.support import kept_world  # noqa: E402
from tests.worlds.of_clients import client_setting  # noqa: E402
from tests.worlds.of_storage import silent  # noqa: E402
from tests.worlds.steady import Befalls, steady_world  # noqa: E402

from trimtab.base.event import new_identifier  # noqa: E402
from trimtab.base.run import Run  # noqa: E402
from trimtab.store import schema  # noqa: E402
from trimtab.store.connection import (  # noqa: E402
    event_row,
    insert_samples,
    run_row,
)
from trimtab.store.snapshot_record import insert_snapshots  # noqa: E402
from trimtab.store.store import Store  # noqa: E402

RESULTS = Path(__file__).with_name("results")
OSTS, DAYS, YEAR_DAYS = 298, 35, 365
SITE = "scratch"
FAULTS = (
    Befalls(partial(client_setting, told="both"), 24.1, 120.0),
    Befalls(partial(silent, how="hangs"), 12.0, 5.0),
)
SNAPSHOTS_OF_AN_INCIDENT = 33


def prepare(path: Path | str, *, days: int = YEAR_DAYS, osts: int = OSTS, sites: int = 1) -> None:
    """Make the store of a year, or of more days, targets or sites."""
    world = steady_world(7, DAYS, *FAULTS, osts=osts, share=0.9, busy=True)
    with Store.open(path) as store:
        for number in range(1, sites + 1):
            name = SITE if number == 1 else f"{SITE}{number}"
            store.ensure_site(name, driver="lustre", identity=f"lustre:{name}", path=f"/{name}")
            _fill(store, name, number, world, days)


def _fill(store: Store, name: str, site: int, world: Any, days: int) -> None:
    """Keep a month of a world end to end under a site, its number in the store beside."""
    runs = [*map(kept_world.run_of(name), world.runs), *kept_world.surveys_of(name, world)]
    snapshots = [kept_world.snapshot_of(one) for one in world.snapshots]
    events = [kept_world.event_of(name, one) for one in world.events]
    last = world.begin + timedelta(days=days)
    with store._reading() as connection:
        runs_kept = connection.execute(select(func.max(schema.run.c.number))).scalar() or 0
    changes = store.changes_of(name, {str(one.at): one for one in snapshots})
    for shift in _shifts(world.begin, last):
        own = [run for run in runs if run.at is not None and run.at + shift < last]
        first = runs_kept + 1
        with store._writing() as connection:
            connection.execute(
                insert(schema.run),
                [
                    {"number": number, **_moved(run_row(run, site, None), shift)}
                    for number, run in enumerate(own, first)
                ],
            )
            insert_samples(
                connection, [(number, run.samples) for number, run in enumerate(own, first)]
            )
            shifted = [
                replace(change, id=new_identifier(change.at + shift), at=change.at + shift)
                for change in changes
                if change.at + shift < last
            ]
            insert_snapshots(connection, name, shifted)
            runs_kept += len(own)
            log = [{**event_row(event, site)} for event in events if event.at + shift < last]
            connection.execute(insert(schema.event), [_moved(row, shift) for row in log])


def add_runs(path: Path | str, hours: int) -> None:
    """Keep so many runs of the hourly probe after the last."""
    with Store.open(path) as store:
        for run in islice(later_runs(store), hours):
            store.add_run(run)


def later_runs(store: Store) -> Iterator[Run]:
    """Yield the last run of the hourly probe again, each time an hour later."""
    last = next(run for run in store.runs(site=SITE, limit=50) if run.probe != "survey")
    whole, at = store.run(last.id), last.at
    assert at is not None
    while True:
        at += timedelta(hours=1)
        yield replace(whole, id=new_identifier(at), at=at, until=at, outputs=())


def forget(path: Path | str) -> None:
    """Drop what is kept of verdicts, so that the next command works it out from nothing."""
    with Store.open(path) as store:
        store.drop_derived()


def contents(store: Path) -> dict[str, int]:
    """Return how many rows of each sort a store holds."""
    tables = ("run", "sample", "snapshot", "event")
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as connection:
        return {
            f"{name}s": connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for name in tables
        }


def _shifts(start: datetime, last: datetime) -> Iterator[timedelta]:
    shift = timedelta()
    while start + shift < last:
        yield shift
        shift += timedelta(days=DAYS)


def _moved(row: dict[str, Any], shift: timedelta) -> dict[str, Any]:
    at = row["at"] + shift
    until = row.get("until")
    moved = {**row, "id": new_identifier(at), "at": at}
    return {**moved, "until": until and until + shift} if "until" in row else moved


def command(name: str, store: Path | str) -> dict[str, Any]:
    """Return what one command took, in seconds of time and of processors, and what it found."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-m", "trimtab.cli", name, SITE, "--json", "--store", str(store)],
        check=True,
        capture_output=True,
    )
    took = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"elapsed_s": took, "cpu_s": cpu, "document": json.loads(ended.stdout)}


def bound(store: Path, snapshots: int) -> float:
    """Return the seconds that reading alone takes."""
    began = time.perf_counter()
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as connection:
        for _ in connection.execute("SELECT run, metric, repetition, target, value FROM sample"):
            pass
        batches = connection.execute("SELECT batch FROM snapshot ORDER BY at LIMIT ?", (snapshots,))
        for (batch,) in batches:
            zlib.decompress(batch)
    return time.perf_counter() - began


def main() -> None:
    """Measure in interleaved rounds, print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--keep", type=Path, help="Make the store here, and leave it.")
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        store = (asked.keep or Path(directory)) / "year.db"
        if not store.exists():
            prepare(store)
        figures: dict[str, list[float]] = {}
        found: dict[str, int] = {}
        for _ in range(asked.rounds):
            copy = Path(directory) / "copy.db"
            shutil.copyfile(store, copy)
            forget(copy)
            for state in ("from nothing", "nothing new", "a day later"):
                if state == "a day later":
                    add_runs(copy, 24)
                for name in ("incidents", "judge", "status"):
                    ended = command(name, copy)
                    figures.setdefault(f"{name}, {state}", []).append(ended["elapsed_s"])
                    if name == "incidents":
                        found = {"incidents": len(ended["document"]["incidents"])}
            looked = found["incidents"] * SNAPSHOTS_OF_AN_INCIDENT
            figures.setdefault("bound", []).append(bound(store, looked))
        result = {
            "what": "trimtab incidents, judge and status on a year of 298 OSTs",
            **measured_on(),
            "store": {**contents(store), "bytes": store.stat().st_size},
            "found": found,
            "seconds": {
                name: {
                    "median": round(statistics.median(values), 3),
                    "least": round(min(values), 3),
                    "most": round(max(values), 3),
                }
                for name, values in figures.items()
            },
        }
    print(json.dumps(result, indent=2))
    if not asked.no_write:
        path = RESULTS / "explain_a_year.json"
        path.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()

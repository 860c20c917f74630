"""A store of everything that verdicts read, copies of it with a damaged byte, and what is read."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from tests.store.values import NOON, a_run, a_snapshot, an_event

from trimtab.base.error import UnreadableError
from trimtab.base.event import identifier_of
from trimtab.store.kept import Judged, KeptIncident
from trimtab.store.slot import Slot, SlotState
from trimtab.store.store import Store

SITE = "scratch"
READS: dict[str, Callable[[Store], object]] = {
    "runs": lambda store: store.runs(),
    "status": lambda store: (
        store.sites(),
        store.series(),
        store.run_counts(SITE),
        store.slots(SITE),
        store.incidents(SITE),
        store.unjudged(SITE),
        store.judged(SITE),
    ),
    "judge": lambda store: [store.history(SITE, one.comparability) for one in store.series(SITE)],
    "incidents": lambda store: (
        store.events(site=SITE),
        list(store.runs_between(SITE)),
        store.survey_frame(SITE).rows(),
        [frame.rows() for frame in store.telemetry_frames(SITE, store.snapshot_times(SITE))],
    ),
    "targets": lambda store: (store.latest_snapshot(SITE), store.last_survey(SITE)),
}


def a_store(path: Path, *, runs: int) -> bytes:
    """Return the bytes of a store that is the same at each call."""
    drawn = random.Random(1)
    with Store.open(path) as store:
        store.ensure_site(SITE, driver="local", identity="x", path="/scratch", timezone="UTC")
        store.add_runs(
            [
                a_run(
                    hour,
                    id=identifier_of(NOON + timedelta(hours=hour), "run"),
                    values=tuple(2e9 * (1 + drawn.gauss(0, 0.05)) for _ in range(6)),
                )
                for hour in range(runs)
            ]
        )
        store.add_events(
            [
                replace(an_event(hour), id=identifier_of(NOON + timedelta(hours=hour), "event"))
                for hour in range(20)
            ]
        )
        for minute in range(0, 60, 10):
            snapshot = a_snapshot(minute, 10 + minute)
            name = identifier_of(snapshot.at, "snapshot")
            store.add_snapshot(SITE, snapshot, identifier=name)
        for hour in range(20):
            at = NOON + timedelta(hours=hour)
            store.finish_slot(Slot(SITE, "probe:check", at, SlotState.DONE, at, at))
        incident = KeptIncident(
            id="i", site=SITE, at=NOON, until=None, detected_at=NOON, shape="step",
            state="lasting", certainty="confirmed", effect=0.8, summary="slow",
            document={"causes": [{"id": "trim-overdue", "title": "trim overdue"}]},
        )  # fmt: skip
        incidents = [replace(incident, id=f"i{number}") for number in range(10)]
        store.keep_incidents(SITE, incidents, since=None, judged=Judged(NOON, NOON))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.read_bytes()


def damaged_answers(path: Path, *, runs: int, damages: int, seed: int) -> Counter[str]:
    """Return how often a copy with a damaged byte gave the same answer, a plain error, another.

    An error that is not plain is raised.
    """
    whole = a_store(path, runs=runs)
    with Store.open(path) as store:
        truth = {name: read(store) for name, read in READS.items()}
    drawn, answers = random.Random(seed), Counter[str]()
    copy = path.with_name("copy.db")
    for _ in range(damages):
        data = bytearray(whole)
        place, change = drawn.randrange(len(data)), drawn.choice((1 << drawn.randrange(8), 0))
        data[place] ^= change or drawn.randrange(1, 256)
        for file in path.parent.glob("copy.db*"):
            file.unlink()
        copy.write_bytes(data)
        try:
            store = Store.open(copy, create=False)
        except UnreadableError:
            answers["plain"] += 1
            continue
        with store:
            for name, read in READS.items():
                answers[_answer(store, read, truth[name], f"{name}, byte {place}")] += 1
    return answers


def _answer(store: Store, read: Callable[[Store], object], truth: object, noun: str) -> str:
    try:
        return "same" if read(store) == truth else f"changed: {noun}"
    except UnreadableError:
        return "plain"
    except Exception as error:
        error.add_note(noun)
        raise


def damaged_rows(store: Store) -> list[str]:
    """Return the damaged rows of a store as table and what names each."""
    return [f"{table.table} {row}" for table in store.check().tables for row in table.damaged]

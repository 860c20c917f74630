"""A store with damaged bytes: a plain error or the right answer, never another one."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.store.values import NOON, a_run, a_snapshot, an_event, an_output, execute, keep
from tests.support.codes import raises
from tests.support.command import trimtab

from trimtab.base.error import UnreadableError
from trimtab.base.event import identifier_of
from trimtab.store.kept import Judged, KeptIncident
from trimtab.store.slot import Slot, SlotState
from trimtab.store.store import Store

LATER = NOON + timedelta(days=1)


def test_a_damaged_byte_never_changes_an_answer(tmp_path: Path) -> None:
    answers = damaged_answers(tmp_path / "t.db", runs=40, damages=60, seed=1)
    assert set(answers) == {"same", "plain"}, answers
    assert answers["plain"] > 20


@pytest.mark.soak
def test_many_damaged_bytes_never_change_an_answer(tmp_path: Path) -> None:
    answers = damaged_answers(tmp_path / "t.db", runs=1000, damages=2000, seed=2)
    assert set(answers) == {"same", "plain"}, answers


@pytest.mark.parametrize(
    ("statement", "read"),
    [
        ("UPDATE run SET status = 'failed' WHERE number = 2", lambda s: s.series()),
        ("UPDATE run SET comparability = 'x' WHERE number = 2", lambda s: s.series()),
        ("UPDATE run SET parameters = '{' WHERE number = 2", lambda s: s.runs()),
        ("UPDATE run SET probe = CAST(x'ff' AS TEXT) WHERE number = 2", lambda s: s.runs()),
        ("UPDATE run SET at = 'noon' WHERE number = 2", lambda s: s.runs()),
        ("UPDATE sample SET value = 3e9 WHERE run = 2 AND ordinal = 1", lambda s: s.runs()),
        ("UPDATE sample SET reason = 'x' WHERE run = 2", lambda s: s.unjudged("scratch")),
        ("DELETE FROM sample WHERE run = 2 AND ordinal = 1", lambda s: s.last_survey("scratch")),
        ("DELETE FROM sample WHERE run = 2", lambda s: s.survey_frame("scratch")),
        ("UPDATE event SET detail = 'nothing'", lambda s: s.events()),
        ("UPDATE snapshot SET at = at - 1", lambda s: s.latest_snapshot("scratch")),
        ("UPDATE snapshot SET complete = 0", lambda s: s.snapshots("scratch")),
        ("UPDATE site SET timezone = 'UTC'", lambda s: s.sites()),
        ("UPDATE output SET argv = '['", lambda s: s.outputs(s.runs()[0].id)),
    ],
)
def test_a_changed_value_is_a_plain_error(tmp_path: Path, statement: str, read) -> None:
    path = tmp_path / "t.db"
    with Store.open(path) as store:
        for hour in range(3):
            store.add_run(a_run(hour, outputs=(an_output(),)))
        store.add_event(an_event())
        store.add_snapshot("scratch", a_snapshot())
        read(store)
    execute(path, statement)
    with Store.open(path) as store, raises(UnreadableError, "store-rows-damaged"):
        read(store)


@pytest.mark.cli
def test_what_is_damaged_is_listed_and_left_out_of_a_copy(tmp_path: Path) -> None:
    path, copy = tmp_path / "t.db", tmp_path / "copy" / "t.db"
    runs = [a_run(hour, outputs=(an_output(b"%d" % hour),)) for hour in range(3)]
    with Store.open(path) as store:
        keep(store, *runs)
        store.add_event(an_event())
    assert trimtab("store", "check", store=path).code == 0
    execute(
        path,
        "UPDATE run SET parameters = '{' WHERE number = 1",
        "UPDATE sample SET value = 1 WHERE run = 2",
        "UPDATE event SET targets = 'x'",
    )
    ended = trimtab("store", "check", "--contents", "--json", store=path)
    assert (ended.code, ended.document["whole"]) == (5, False)
    rows = {table["table"]: table["damaged"] for table in ended.document["tables"]}
    assert rows["run"] == [runs[0].id, runs[1].id]
    assert len(rows["event"]) == 1
    assert all(run["raw_is_whole"] for run in ended.document["runs"])
    for command in ("runs", "status"):
        refused = trimtab(command, store=path)
        assert (refused.code, "Traceback" in refused.stderr) == (5, False)
        assert runs[0].id in refused.stderr
        assert "trimtab store check" in refused.stderr
    copied = trimtab("store", "copy", path, copy, "--json", store=path)
    assert copied.code == 0
    assert copied.document["damaged"]["run"] == [runs[0].id, runs[1].id]
    with Store.open(copy) as store:
        assert [run.id for run in store.runs()] == [runs[2].id]
        assert store.check().whole


@pytest.mark.parametrize(
    ("table", "column"), [("run", "checksum"), ("run", "sample_checksum"), ("snapshot", "checksum")]
)
def test_a_row_without_a_checksum_is_damaged(tmp_path: Path, table: str, column: str) -> None:
    path, run = tmp_path / "t.db", a_run()
    with Store.open(path) as store:
        store.add_run(run)
        name = run.id if table == "run" else store.add_snapshot("scratch", a_snapshot())
    execute(path, f"UPDATE {table} SET {column} = NULL")
    with Store.open(path) as store:
        with raises(UnreadableError, "store-rows-damaged"):
            store.run(run.id) if table == "run" else store.latest_snapshot("scratch")
        assert damaged_rows(store) == [f"{table} {name}"]


@pytest.mark.parametrize(
    ("whole", "damaged", "message"),
    [
        (b"tool_version", b"tool_versiom", "definitions"),
        (b"CREATE INDEX ix_snapshot", b"CREATE IND\x98X ix_snapshot", ""),
    ],
    ids=["a name", "its text"],
)
def test_a_damaged_definition_is_a_plain_error(
    tmp_path: Path, whole: bytes, damaged: bytes, message: str
) -> None:
    path = tmp_path / "t.db"
    Store.open(path).close()
    data = path.read_bytes()
    assert whole in data
    path.write_bytes(data.replace(whole, damaged))
    with raises(UnreadableError, "store-damaged", message):
        Store.open(path)


def test_a_forged_name_of_a_raw_output_leads_nowhere(tmp_path: Path) -> None:
    path, victim = tmp_path / "store" / "t.db", tmp_path / "victim.z"
    with Store.open(path) as store:
        store.add_run(a_run(outputs=(an_output(),)))
        victim.write_bytes(b"x")
        import os

        os.utime(victim, (0, 0))
        name = f"../../../{victim.stem}"
        assert store.raw.remove(name) is None
        with raises(UnreadableError, "raw-output-unnamed"):
            store.raw.get(name, 1)
    assert victim.exists()


# A store of everything that verdicts read, copies of it with a damaged byte, and what is read.

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
            store.add_snapshot(SITE, snapshot, identifier=identifier_of(snapshot.at, "snapshot"))
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

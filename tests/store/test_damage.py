"""A store with damaged bytes: a plain error or the right answer, never another one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from tests.store.damage import damaged_answers, damaged_rows
from tests.store.values import NOON, a_run, a_snapshot, an_event, an_output
from tests.support.codes import raises
from tests.support.command import trimtab

from trimtab.base.error import UnreadableError
from trimtab.store.store import Store

LATER = NOON + timedelta(days=1)


def changed(path: Path, *statements: str) -> None:
    """Change values in place, as a disk does: nothing of the structure is damaged."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


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
    changed(path, statement)
    with Store.open(path) as store, raises(UnreadableError, "store-rows-damaged"):
        read(store)


@pytest.mark.cli
def test_what_is_damaged_is_listed_and_left_out_of_a_copy(tmp_path: Path) -> None:
    path, copy = tmp_path / "t.db", tmp_path / "copy" / "t.db"
    runs = [a_run(hour, outputs=(an_output(b"%d" % hour),)) for hour in range(3)]
    with Store.open(path) as store:
        for run in runs:
            store.add_run(run)
        store.add_event(an_event())
    assert trimtab("store", "check", store=path).code == 0
    changed(
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
    ("table", "column"),
    [("run", "checksum"), ("run", "sample_checksum"), ("snapshot", "checksum")],
)
def test_a_row_without_a_checksum_is_damaged(tmp_path: Path, table: str, column: str) -> None:
    path, run = tmp_path / "t.db", a_run()
    with Store.open(path) as store:
        store.add_run(run)
        name = run.id if table == "run" else store.add_snapshot("scratch", a_snapshot())
    changed(path, f"UPDATE {table} SET {column} = NULL")
    with Store.open(path) as store:
        with raises(UnreadableError, "store-rows-damaged"):
            store.run(run.id) if table == "run" else store.latest_snapshot("scratch")
        assert damaged_rows(store) == [f"{table} {name}"]


def test_a_damaged_definition_of_a_table_is_a_plain_error(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    Store.open(path).close()
    data = path.read_bytes()
    assert data.count(b"tool_version") == 1
    path.write_bytes(data.replace(b"tool_version", b"tool_versiom"))
    with raises(UnreadableError, "store-damaged", "definitions"):
        Store.open(path)


def test_a_definition_whose_text_is_damaged_is_a_plain_error(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    Store.open(path).close()
    data = path.read_bytes()
    path.write_bytes(data.replace(b"CREATE INDEX ix_snapshot", b"CREATE IND\x98X ix_snapshot"))
    with raises(UnreadableError, "store-damaged"):
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

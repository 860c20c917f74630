"""Migrations lead to the schema, happen once, whole or not at all, after a copy was kept."""

from __future__ import annotations

import multiprocessing
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import inspect, text
from tests.store.conftest import OpenStore
from tests.store.values import a_run, an_output, execute, run_together, store_of
from tests.support import made_stores
from tests.support.codes import raises

from trimtab.base.error import UnreadableError
from trimtab.store import database, schema
from trimtab.store.store import Store

MIGRATIONS = Path(database.__file__).parent / "migrations"
LATER_REVISION = """
import sqlalchemy as sa
from alembic import op

revision = "9998"
down_revision = "{head}"

def upgrade():
    op.create_table("added_later", sa.Column("x", sa.Integer))
    op.execute("INSERT INTO added_later SELECT count(*) FROM run")
    if {fails}:
        op.execute("SELECT * FROM a_table_that_is_not_there")
"""


def test_the_revisions_are_those_that_alembic_finds() -> None:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    script = ScriptDirectory.from_config(config)
    assert script.get_heads() == [schema.HEAD]
    assert tuple(reversed([one.revision for one in script.walk_revisions()])) == schema.REVISIONS


def test_the_migrations_lead_to_the_schema(store: Store) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with store._reading() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": schema.VERSION_TABLE, "compare_type": True}
        )
        assert compare_metadata(context, schema.metadata) == []


def test_a_store_made_for_another_test_is_what_the_migrations_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for name, upgrade in (("by", made_stores.MIGRATE), ("like", made_stores.make)):
        monkeypatch.setattr(database, "_upgrade", upgrade)
        path = tmp_path / f"{name}.db"
        Store.open(path).close()
        with closing(sqlite3.connect(path)) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()
            made.append(([*connection.iterdump()], version, path.stat().st_mode))
    assert made[0] == made[1]
    assert made[0][1] != (0,)


def _add_revision(directory: Path, patch: pytest.MonkeyPatch, *, fails: bool = False) -> None:
    """Make a program that knows one revision more than this one."""
    scripts = directory / "program" / "migrations"
    shutil.copytree(MIGRATIONS, scripts)
    (scripts / "versions" / "r9998_later.py").write_text(
        LATER_REVISION.format(fails=fails, head=schema.HEAD)
    )
    patch.setattr(database, "__file__", str(directory / "program" / "database.py"))
    patch.setattr(schema, "REVISIONS", (*schema.REVISIONS, "9998"))
    patch.setattr(schema, "HEAD", "9998")


def test_an_older_store_is_migrated_when_it_is_opened(
    open_store: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(outputs=(an_output(),))
    older = open_store()
    older.add_run(run)
    older.close()
    _add_revision(tmp_path, monkeypatch)
    for _ in range(2):
        newer = open_store()
        assert newer.run(run.id, outputs=True) == run
        with newer._reading() as connection:
            assert connection.execute(text("SELECT x FROM added_later")).scalars().all() == [1]
        newer.close()


def test_a_migration_that_fails_changes_nothing(
    open_store: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run()
    older = open_store()
    older.add_run(run)
    older.close()
    with monkeypatch.context() as patch:
        _add_revision(tmp_path, patch, fails=True)
        with pytest.raises(Exception, match="a_table_that_is_not_there"):
            open_store()
    again = open_store()
    assert again.run(run.id) == run
    with again._reading() as connection:
        version = connection.execute(text(f"SELECT version_num FROM {schema.VERSION_TABLE}"))
        assert version.scalars().all() == [schema.HEAD]
        assert "added_later" not in inspect(connection).get_table_names()


def test_sqlite_keeps_the_store_as_it_was_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store" / "t.db"
    store_of(path, a_run())
    with monkeypatch.context() as patch:
        _add_revision(tmp_path, patch)
        Store.open(path).close()
    names = sorted(one.name for one in path.parent.iterdir())
    assert names == ["t.db", f"t.db.before-migration-of-{schema.HEAD}"]
    with Store.open(path.with_name(f"t.db.before-migration-of-{schema.HEAD}")) as copy:
        assert len(copy.runs()) == 1
        assert copy.check().problems == ()


def _open_at(path: Path, scripts: Path, barrier: object) -> None:
    database.__file__ = str(scripts)
    schema.REVISIONS, schema.HEAD = (*schema.REVISIONS, "9998"), "9998"  # type: ignore[misc]
    barrier.wait()  # type: ignore[attr-defined]
    with Store.open(path) as store:
        assert len(store.runs()) == 1


@pytest.mark.system
def test_two_processes_migrate_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store" / "t.db"
    store_of(path, a_run())
    with monkeypatch.context() as patch:
        _add_revision(tmp_path, patch)
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(3)
    scripts = tmp_path / "program" / "database.py"
    workers = [context.Process(target=_open_at, args=(path, scripts, barrier)) for _ in range(3)]
    run_together(workers)
    assert execute(path, "SELECT x FROM added_later") == [(1,)]


def test_a_store_that_lost_its_journal_mode_gets_it_back(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    Store.open(path).close()
    assert execute(path, "PRAGMA journal_mode") == [("wal",)]


def test_a_store_from_before_a_table_came_is_of_an_unreleased_version(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE result")
        connection.execute(f"PRAGMA user_version = {database._definitions(connection)}")
    with raises(UnreadableError, "format-unreleased"):
        Store.open(path)

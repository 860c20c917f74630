"""What is PostgreSQL's own: shared databases, permissions, servers that are not there."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
from tests.store.values import a_run, an_output, run_together
from tests.support.codes import raises

from trimtab.base.error import UnreadableError
from trimtab.store import schema
from trimtab.store.kept import ImportedRun
from trimtab.store.location import locate
from trimtab.store.store import Store

pytestmark = pytest.mark.system


def _execute(url: str, *statements: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_other_programs_tables_may_stand_beside_ours(postgresql_url: str, tmp_path: Path) -> None:
    _execute(postgresql_url, "CREATE TABLE alembic_version (version_num TEXT)")
    with Store.open(postgresql_url, raw=tmp_path) as store:
        store.add_run(a_run())


def test_but_not_under_our_names(postgresql_url: str, tmp_path: Path) -> None:
    _execute(postgresql_url, "CREATE TABLE run (x INTEGER)")
    with pytest.raises(UnreadableError, match=r"another program \(tables run\)"):
        Store.open(postgresql_url, raw=tmp_path)


def test_who_only_reads_makes_no_store(postgresql_url: str, tmp_path: Path) -> None:
    for _ in range(2):  # the first made no table either
        with pytest.raises(UnreadableError, match="there is no store at"):
            Store.open(postgresql_url, raw=tmp_path, create=False)
    Store.open(postgresql_url, raw=tmp_path).close()
    with Store.open(postgresql_url, raw=tmp_path, create=False) as store:
        assert store.runs() == ()


@pytest.mark.parametrize(
    ("revision", "why"),
    [("9999", "newer Trimtab"), ("", "no known version"), ("x", "no known version")],
)
def test_an_unknown_revision_is_left_alone(
    postgresql_url: str, tmp_path: Path, revision: str, why: str
) -> None:
    Store.open(postgresql_url, raw=tmp_path).close()
    _execute(postgresql_url, f"UPDATE {schema.VERSION_TABLE} SET version_num = '{revision}'")
    with pytest.raises(UnreadableError, match=why) as caught:
        Store.open(postgresql_url, raw=tmp_path)
    assert caught.value.exit_code == 5


@pytest.mark.parametrize("with_todays", [False, True])
def test_a_store_of_an_unreleased_version_is_left_alone(
    postgresql_url: str, tmp_path: Path, with_todays: bool
) -> None:
    statements = [f"CREATE TABLE {schema.UNRELEASED_TABLE} (version_num text)"]
    if with_todays:  # it had the tables of today's, by their names
        Store.open(postgresql_url, raw=tmp_path).close()
        statements.append(f"DROP TABLE {schema.VERSION_TABLE}")
    _execute(postgresql_url, *statements)
    with raises(UnreadableError, "format-unreleased"):
        Store.open(postgresql_url, raw=tmp_path)


def test_a_user_without_permission(postgresql_url: str, tmp_path: Path) -> None:
    Store.open(postgresql_url, raw=tmp_path).close()
    _execute(
        postgresql_url,
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader LOGIN",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
    )
    url = postgresql_url.replace("postgres@", "reader@")
    with Store.open(url, raw=tmp_path) as store:
        assert store.runs() == ()
        with pytest.raises(UnreadableError, match="permission denied"):
            store.add_run(a_run())


def test_a_database_that_is_not_there(postgresql_url: str, tmp_path: Path) -> None:
    url = postgresql_url.replace("@/t", "@/no_such_database_t")
    with pytest.raises(UnreadableError, match="does not exist") as caught:
        Store.open(url, raw=tmp_path)
    assert caught.value.hint


def test_a_server_that_is_not_there_does_not_show_the_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    url = f"postgresql://someone:secret@/name?host={tmp_path}"
    with pytest.raises(UnreadableError, match="cannot be used") as caught:
        Store.open(url, raw=tmp_path)
    assert "secret" not in f"{caught.value.message}{caught.value.hint}"
    assert "someone" in caught.value.message


def test_the_plain_url_names_psycopg() -> None:
    assert locate("postgresql://db/x").url == "postgresql+psycopg://db/x"


def _create_and_add(url: str, raw: Path, barrier: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    with Store.open(url, raw=raw) as store:
        for number in range(10):
            store.add_run(a_run(number, outputs=(an_output(bytes([number])),)))
            store.add_imports([ImportedRun(a_run(number, kind="ior"), (), f"{number:064x}")])


def test_processes_create_one_store_at_once_and_fill_it_together(
    postgresql_url: str, tmp_path: Path
) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(3)
    workers = [
        context.Process(target=_create_and_add, args=(postgresql_url, tmp_path, barrier))
        for _ in range(3)
    ]
    run_together(workers)
    with Store.open(postgresql_url, raw=tmp_path) as store:
        assert len(store.runs()) == 40  # 3 x 10 of our own, 10 imported once
        assert len(store.sites()) == 1
        assert store.check(contents=True).problems == ()

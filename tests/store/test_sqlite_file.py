"""SQLite's file: what is not ours, damaged, newer, full, forbidden; said clearly, nothing lost."""

from __future__ import annotations

import contextlib
import fcntl
import multiprocessing
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.store.values import a_run, a_snapshot, an_output, execute, run_together, store_of
from tests.support.codes import raises
from tests.support.each import for_each
from tests.support.silent_fuse import silent_mount

from trimtab.base.error import NoAnswer, RefusedError, TrimtabError, UnreadableError
from trimtab.base.run import Run
from trimtab.reach.bounded import describe
from trimtab.store import database, schema
from trimtab.store.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the file of a store that holds two runs."""
    path = tmp_path / "store" / "trimtab.db"
    with Store.open(path) as store:
        store.add_run(a_run(0, outputs=(an_output(),)))
        store.add_run(a_run(1))
    return path


def _content(directory: Path) -> dict[str, bytes]:
    files = (one for one in directory.rglob("*") if one.is_file())
    return {str(one.relative_to(directory)): one.read_bytes() for one in files}


def _refused(path: Path) -> TrimtabError:
    """Return the error of opening; it names the file, has a hint, and touched nothing."""
    before = _content(path.parent)
    with pytest.raises(UnreadableError) as caught:
        Store.open(path)
    assert str(path) in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code == 5
    assert _content(path.parent) == before
    return caught.value


# As it should be


def test_the_file_is_durable_and_nobody_elses(path: Path) -> None:
    with Store.open(path) as store, store._reading() as connection:
        settings = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert settings == {
        "journal_mode": "wal",
        "synchronous": 2,  # FULL
        "foreign_keys": 1,
        "busy_timeout": 30_000,
    }
    directory_mode = 0o750 if os.geteuid() == 0 else 0o700
    assert path.parent.stat().st_mode & 0o777 == directory_mode
    assert all(one.stat().st_mode & 0o007 == 0 for one in path.parent.rglob("*"))
    assert sorted(one.name for one in path.parent.iterdir()) == ["raw", "trimtab.db"]


@pytest.mark.system
def test_opening_an_up_to_date_store_imports_no_alembic(path: Path) -> None:
    program = (
        "import sys; from trimtab.store.store import Store; Store.open(sys.argv[1]).close(); "
        "assert not {'alembic', 'polars', 'psycopg'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program, path], check=True, timeout=60)


@pytest.mark.parametrize("name", ["caf\udce9 %20?#.db", "with%percent", "Ωmega", "-dash", "q'u\"o"])
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    path = tmp_path / name / name
    for _ in range(2):
        store_of(path, a_run(outputs=(an_output(),)))
    with Store.open(path) as store:
        assert len(store.runs()) == 2
        assert store.check(contents=True).problems == ()
    assert path.is_file()


def test_a_relative_path_is_the_same_store(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    with Store.open("trimtab.db") as plain, Store.open("sqlite:///trimtab.db") as url:
        monkeypatch.chdir("/")
        assert len(plain.runs()) == len(url.runs()) == 2


# Not a store


DAMAGED = "store-damaged"


@for_each(
    "make, code",
    [
        *(
            (lambda path, size=size: path.write_bytes(random.Random(1).randbytes(size)), DAMAGED)
            for size in (1, 15, 99, 511, 3000, 10_000)
        ),
        (Path.touch, "store-empty"),
        (Path.mkdir, "store-not-a-file"),
        (lambda path: path.symlink_to(path.parent / "elsewhere" / "t.db"), "store-link-broken"),
    ],
)
def test_what_is_not_a_store(
    tmp_path_factory: pytest.TempPathFactory, make: Callable[[Path], object], code: str
) -> None:
    path = tmp_path_factory.mktemp("place") / "t.db"
    make(path)
    assert _refused(path).code == code
    assert not (path.parent / "elsewhere").exists()


def test_a_file_in_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with raises(UnreadableError, "store-not-opened", "Not a directory"):
        Store.open(tmp_path / "file" / "t.db")


def test_a_link_to_a_store_is_that_store(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(path)
    with Store.open(tmp_path / "link.db") as store:
        assert len(store.runs()) == 2


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    execute(path, "CREATE TABLE alembic_version (version_num TEXT)", "CREATE TABLE run (x)")
    error = _refused(path)
    assert "another program" in error.message
    assert "alembic_version, run" in error.message


def test_a_store_that_lost_its_file_but_not_its_log(path: Path) -> None:
    kept = Store.open(path)
    kept.add_run(a_run(2))  # stands in the log as long as someone has the store open
    shutil.copytree(path.parent, path.parent.with_name("copy"))
    kept.close()
    copy = path.parent.with_name("copy") / path.name
    copy.unlink()
    with raises(UnreadableError, "store-missing-log-present"):
        Store.open(copy)
    assert not copy.exists()


# Damaged


@pytest.mark.parametrize("lost_bytes", [1, 511, 4000, 4096, 40_000, 40_960])
def test_a_store_that_was_cut_off(path: Path, lost_bytes: int) -> None:
    os.truncate(path, path.stat().st_size - lost_bytes)
    assert _refused(path).code == DAMAGED


def test_a_store_with_overwritten_pages_says_so_and_goes_on_elsewhere(path: Path) -> None:
    with path.open("r+b") as stream:
        for page in range(1, path.stat().st_size // 4096):
            stream.seek(page * 4096)
            stream.write(b"\xff" * 4096)
    with raises(UnreadableError, "store-damaged") as caught:
        _use(path)
    assert str(path) in caught.value.message


def _use(path: Path) -> None:
    with Store.open(path) as store:
        for run in store.runs():
            store.run(run.id, outputs=True)
        store.series()
        store.check(contents=True)
        store.add_run(a_run(5))


@pytest.mark.system
@pytest.mark.parametrize("seed", range(12))
def test_no_damage_ever_ends_in_another_error(path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(path.read_bytes())
    start = chance.randrange(len(data))
    length = chance.choice([1, 16, 4096, 20_000])
    data[start : start + length] = chance.randbytes(min(length, len(data) - start))
    path.write_bytes(data)
    # Damage may lie where nothing looks, so it may also pass; any other error fails the test.
    with contextlib.suppress(UnreadableError):
        _use(path)


def test_integrity_names_what_is_damaged(path: Path) -> None:
    raw = next((path.parent / "raw").rglob("*.z"))
    with Store.open(path) as store:
        assert store.check(contents=True).problems == ()
        raw.write_bytes(b"rubbish")
        assert store.check().problems == ()
        assert any(str(raw) in line for line in store.check(contents=True).problems)
        raw.unlink()
        assert any(str(raw) in line for line in store.check().problems)
    execute(path, "PRAGMA foreign_keys=OFF", "DELETE FROM run WHERE number = 2")
    with Store.open(path) as store:
        assert any("refers to a run that is missing" in line for line in store.check().problems)


# Of another time


@pytest.mark.parametrize(
    ("change", "shows"),
    [
        ("UPDATE {} SET version_num = '9999'", ("'9999'", repr(schema.HEAD), "newer Trimtab")),
        ("UPDATE {} SET version_num = 'ae1027a6acf'", ("no known version of Trimtab",)),
        ("UPDATE {} SET version_num = ''", ("no known version of Trimtab",)),
        ("UPDATE {} SET version_num = '0000'", ("no known version of Trimtab",)),
        ("DELETE FROM {}", ()),
    ],
)
def test_a_store_of_another_revision_is_left_alone(
    path: Path, change: str, shows: tuple[str, ...]
) -> None:
    execute(path, change.format(schema.VERSION_TABLE))
    error = _refused(path)
    assert error.code == "store-revision-unknown"
    assert all(text in error.message for text in shows)


@pytest.mark.parametrize("revision", ["0001", "0007"])
def test_a_store_of_an_unreleased_version_is_left_alone(path: Path, revision: str) -> None:
    opened = Store.open(path)
    execute(
        path,
        f"ALTER TABLE {schema.VERSION_TABLE} RENAME TO {schema.UNRELEASED_TABLE}",
        f"UPDATE {schema.UNRELEASED_TABLE} SET version_num = '{revision}'",
    )
    assert _refused(path).code == "format-unreleased"
    with raises(UnreadableError, "format-unreleased"):
        opened.look_again()


# Where it cannot be


@contextmanager
def _tiny_disk(directory: Path, options: str = "size=1m") -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounted.returncode != 0:
        pytest.skip(f"mounting is not allowed here: {mounted.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", directory], check=True)


def _fill(directory: Path, leave_bytes: int = 0) -> Path:
    filler = directory / "filler"
    with filler.open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(b"\0" * 4096)
        except OSError:
            pass
        stream.truncate(max(0, stream.tell() - leave_bytes))
    return filler


def _add_until_refused(store: Store, runs: Iterator[Run]) -> tuple[list[Run], UnreadableError]:
    kept: list[Run] = []
    for run in runs:
        try:
            store.add_run(run)
        except UnreadableError as error:
            return kept, error
        kept.append(run)
    raise AssertionError("the disk never filled up")


@pytest.mark.system
def test_a_disk_that_fills_up_loses_nothing_that_was_kept(tmp_path: Path) -> None:
    big = os.urandom(30_000)
    runs = (a_run(n, outputs=(an_output(big + bytes([n])),)) for n in range(200))
    with _tiny_disk(tmp_path / "disk") as disk:
        path = disk / "t.db"
        with Store.open(path) as store:
            kept, error = _add_until_refused(store, runs)
            assert str(disk) in error.message
            assert "no space left" in error.message.lower()  # for the database or for an output
            assert "free space" in (error.hint or "")
            # What was kept stands, also while the disk is still full.
            assert [run.id for run in store.runs()] == [run.id for run in reversed(kept)]
            assert not list(disk.rglob("*.part"))
        filler = _fill(disk)
        with raises(UnreadableError, "store-disk-full"):
            Store.open(path)  # SQLite needs a little room for the index of its log
        filler.unlink()
        with Store.open(path) as store:
            assert store.check(contents=True).problems == ()
            assert store.run(kept[-1].id, outputs=True) == kept[-1]


@pytest.mark.system
def test_a_full_disk_under_the_database_alone(tmp_path: Path) -> None:
    runs = (a_run(n, problem="x" * 20_000) for n in range(200))
    with (
        _tiny_disk(tmp_path / "disk") as disk,
        Store.open(disk / "t.db", raw=tmp_path / "raw") as store,
    ):
        store.add_run(next(runs))
        filler = _fill(disk)
        kept, error = _add_until_refused(store, runs)
        assert "no space left" in error.message
        assert str(disk / "t.db") in error.message
        assert len(store.runs()) == 1 + len(kept)
        filler.unlink()
        store.add_run(a_run(99))
        assert len(store.runs()) == 2 + len(kept)
        assert store.check(contents=True).problems == ()


@pytest.mark.system
@pytest.mark.parametrize("leave_bytes", [0, 8192, 40_960, 81_920])
def test_a_store_cannot_be_created_on_a_full_disk(tmp_path: Path, leave_bytes: int) -> None:
    with _tiny_disk(tmp_path / "disk") as disk:
        filler = _fill(disk, leave_bytes)
        with pytest.raises(UnreadableError) as caught:
            Store.open(disk / "t.db")
        assert "space" in caught.value.message
        assert caught.value.hint
        assert "free space" in caught.value.hint
        assert [one.name for one in disk.iterdir()] == ["filler"]
        filler.unlink()
        Store.open(disk / "t.db").close()


@pytest.mark.system
def test_a_read_only_disk(tmp_path: Path) -> None:
    with _tiny_disk(tmp_path / "disk") as disk:
        store_of(disk / "t.db", a_run())
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        with pytest.raises(UnreadableError) as caught:
            _use(disk / "t.db")
        assert str(disk / "t.db") in caught.value.message
        with pytest.raises(UnreadableError, match="Read-only file system"):
            Store.open(disk / "new" / "t.db")


def _as_nobody(action: str, path: Path) -> str:
    """Return what an unprivileged process says that tries ``action`` on the store at ``path``."""
    program = (
        "import os, sys; from trimtab.base.error import TrimtabError\n"
        "from trimtab.store.store import Store; from tests.store.values import a_run\n"
        "import trimtab.store.snapshot_batch, sqlalchemy.dialects.sqlite, alembic.command\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try:\n"
        f"    store = Store.open(os.fsencode(sys.argv[1]).decode()); {action}\n"
        "except TrimtabError as error: print(error.exit_code, error.message)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, path],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    return done.stdout


@pytest.fixture
def open_directory(tmp_path: Path) -> Iterator[Path]:
    """Yield a directory that everyone can reach, unlike pytest's own."""
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    directory = Path("/tmp") / f"trimtab-{os.urandom(8).hex()}"
    directory.mkdir(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


@pytest.mark.system
def test_another_user_without_permission(open_directory: Path) -> None:
    path = open_directory / "private" / "t.db"
    store_of(path, a_run())
    for action, place in (("store.runs()", path), ("pass", open_directory / "new" / "t.db")):
        said = _as_nobody(action, place)
        assert said.startswith("5 ")
        assert "Permission denied" in said


@pytest.mark.system
def test_another_user_may_not_write(open_directory: Path) -> None:
    path = open_directory / "t.db"
    store_of(path, a_run())
    path.chmod(0o644)
    said = _as_nobody("store.add_run(a_run(1))", path)
    assert said.startswith("5 ")
    assert str(path) in said


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.store.location.why_not", lambda fs_type: f"({fs_type})")
    with pytest.raises(RefusedError) as caught:
        Store.open(tmp_path / "new" / "t.db")
    assert caught.value.exit_code == 4
    assert "postgresql://" in (caught.value.hint or "")
    assert not (tmp_path / "new").exists()


def test_a_link_to_a_file_on_a_network_file_system_is_refused(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link.db").symlink_to(path)
    table = f"1 0 0:1 / / rw - ext4 x rw\n2 1 0:2 / {path.parent} rw - nfs4 x rw\n"
    monkeypatch.setattr(Path, "read_text", lambda *_: table)
    with raises(RefusedError, "store-on-shared-file-system", "nfs4"):
        Store.open(tmp_path / "link.db")


def test_what_the_store_lies_on_is_asked_before_it_is_touched(tmp_path: Path) -> None:
    asked: list[tuple[str, bool]] = []

    def answers(path: str) -> None:
        asked.append((path, Path(path).exists() or Path(path).parent.exists()))

    Store.open(tmp_path / "new" / "t.db", raw=tmp_path / "far" / "raw", answers=answers).close()
    new, far = tmp_path / "new" / "t.db", tmp_path / "far" / "raw"
    assert asked == [(str(new), False), (str(far), False)]
    assert new.exists()


@pytest.mark.system
@pytest.mark.parametrize("mute", [False, True])
def test_a_store_on_a_file_system_that_does_not_answer(tmp_path: Path, mute: bool) -> None:
    dead = tmp_path / "dead"
    for name in ("dead", "disk"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("dead")
    (tmp_path / "t.db").symlink_to("dead/t.db")
    (tmp_path / "disk" / "raw").symlink_to("../dead")
    answers = partial(describe, deadline_s=0.5)
    with silent_mount(dead, mute=mute):
        for seen in (dead, dead / "t.db"):  # by its type, without touching it
            with pytest.raises(RefusedError, match=r"fuse\.silent"):
                Store.open(seen, answers=answers)
        for hidden in ("link", "link/t.db", "t.db", "disk/t.db"):
            with pytest.raises(NoAnswer, match="did not answer"):
                Store.open(tmp_path / hidden, answers=answers)
    assert [one.name for one in (tmp_path / "disk").iterdir()] == ["raw"]


# Only to be read


def test_who_only_reads_makes_no_store(tmp_path: Path) -> None:
    with raises(UnreadableError, "store-missing") as caught:
        Store.open(tmp_path / "new" / "t.db", create=False)
    assert "trimtab check" in (caught.value.hint or "")
    assert list(tmp_path.iterdir()) == []
    execute(tmp_path / "t.db", "CREATE TABLE x (y)", "DROP TABLE x")
    before = _content(tmp_path)
    with raises(UnreadableError, "store-missing"):
        Store.open(tmp_path / "t.db", create=False)
    assert _content(tmp_path) == before
    Store.open(tmp_path / "t.db").close()  # who keeps something may


def test_who_only_reads_sees_what_is_there(path: Path) -> None:
    with Store.open(path, create=False) as store:
        assert len(store.runs()) == 2


# Held by others


def test_a_store_that_another_process_holds(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as other, Store.open(path) as store:
        other.execute("BEGIN IMMEDIATE")
        assert len(store.runs()) == 2  # who reads does not wait for who writes
        with raises(UnreadableError, "store-busy"):
            store.add_run(a_run(2))
        other.execute("ROLLBACK")
        store.add_run(a_run(2))


def test_a_creation_that_another_process_never_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.05)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with raises(UnreadableError, "store-busy"):
            Store.open(tmp_path / "t.db")
    finally:
        os.close(descriptor)
    Store.open(tmp_path / "t.db").close()


def _create_and_add(path: Path, barrier: object, count: int) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    with Store.open(path) as store:
        for number in range(count):
            store.add_run(a_run(number, outputs=(an_output(bytes([number]) * 500),)))
            if number % 10 == 0:
                store.add_snapshot("scratch", a_snapshot(number))


@pytest.mark.system
def test_processes_create_one_store_at_once_and_fill_it_together(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    path, barrier = tmp_path / "new" / "t.db", context.Barrier(2)
    run_together(
        [context.Process(target=_create_and_add, args=(path, barrier, 50)) for _ in range(2)]
    )
    with Store.open(path) as store:
        assert len(store.runs()) == 100
        assert len(store.sites()) == 1
        assert len(store.snapshots("scratch")) == 10
        assert store.check(contents=True).problems == ()
    assert sorted(one.name for one in path.parent.iterdir()) == ["raw", "t.db"]


def _create(path: Path, barrier: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    Store.open(path).close()


@pytest.mark.system
def test_many_creations_at_once_make_one_store(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for round_ in range(5):
        path, barrier = tmp_path / str(round_) / "t.db", context.Barrier(4)
        run_together([context.Process(target=_create, args=(path, barrier)) for _ in range(4)])
        # Two that close at once may each leave the log to the other; who opens next clears it.
        Store.open(path).close()
        assert [one.name for one in path.parent.iterdir()] == ["t.db"]

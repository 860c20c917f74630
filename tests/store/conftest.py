"""A store on each database: the same contract suite runs over all of them."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.support import made_stores

from trimtab.store import database
from trimtab.store.store import Store

OpenStore = Callable[[], Store]


@pytest.fixture(autouse=True)
def the_migrations_make_each_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every store of these tests by the migrations; those on PostgreSQL are copies of one."""
    monkeypatch.setattr(database, "_upgrade", made_stores.MIGRATE)


def _postgresql_programs() -> Path:
    """Return the directory of PostgreSQL's server programs, which Debian keeps off the PATH."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda one: int(one.parts[4])
    )
    if found:
        return found[-1].parent
    program = shutil.which("initdb")
    if program is None:
        pytest.skip("PostgreSQL's server is not installed (Debian: postgresql)")
    return Path(program).parent


def _unprivileged_account() -> tuple[int, int] | None:
    """Return whom to run the server as: it refuses to run as root."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam("postgres")
    except KeyError:
        pytest.skip("PostgreSQL does not run as root and there is no user postgres")
    return entry.pw_uid, entry.pw_gid


@pytest.fixture(scope="session")
def postgresql_directory() -> Iterator[Path]:
    """Yield the directory of the socket of a private server, without a network port."""
    programs = _postgresql_programs()
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    account = _unprivileged_account()
    directory = Path(tempfile.mkdtemp(prefix="trimtab-pg-", dir="/tmp"))  # a socket's path is short
    try:
        if account:
            os.chown(directory, *account)

        def server(*argv: str) -> None:
            subprocess.run(
                [str(programs / argv[0]), *argv[1:]],
                check=True,
                cwd=directory,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
                user=account and account[0],
                group=account and account[1],
                extra_groups=account and [],
            )

        data = str(directory / "data")
        server("initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync")
        options = f"-c listen_addresses= -c unix_socket_directories={directory} -c fsync=off"
        server("pg_ctl", "-D", data, "-w", "-l", str(directory / "log"), "-o", options, "start")
        try:
            yield directory
        finally:
            server("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(directory)


@contextmanager
def postgresql_database(directory: Path, template: str = "template1") -> Iterator[tuple[str, str]]:
    """Give a new copy of a database to the block: its name and its URL."""
    import psycopg

    name = f"t{uuid.uuid4().hex}"
    host = str(directory)
    with psycopg.connect(host=host, user="postgres", dbname="postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        yield name, f"postgresql://postgres@/{name}?host={quote(host, safe='')}"
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def postgresql_url(postgresql_directory: Path) -> Iterator[str]:
    """Yield the URL of a new, empty database."""
    with postgresql_database(postgresql_directory) as (_, url):
        yield url


@pytest.fixture(scope="session")
def postgresql_store(
    postgresql_directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Yield the name of a database that is a new store, made once by the migrations."""
    raw = tmp_path_factory.mktemp("raw")
    with postgresql_database(postgresql_directory) as (name, url):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(database, "_upgrade", made_stores.MIGRATE)
            Store.open(url, raw=raw).close()
        yield name


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.system)])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Yield a function that opens the same store again and again, each time anew."""
    with ExitStack() as opened:
        if request.param == "sqlite":
            url = f"sqlite:///{tmp_path}/trimtab.db"
        else:
            directory = request.getfixturevalue("postgresql_directory")
            made = request.getfixturevalue("postgresql_store")
            _, url = opened.enter_context(postgresql_database(directory, made))
        yield lambda: opened.enter_context(Store.open(url, raw=tmp_path / "raw"))


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    """Return a new store."""
    return open_store()

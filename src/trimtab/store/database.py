"""Opens a store's database, and explains its errors: what is wrong, where, and what to do.

It is created when missing, migrated when older, and refused when it is not ours. A SQLite store
that is up to date costs one look at its revision. Everything else happens under a lock, since two
processes may open a new or an old store at the same moment: on SQLite a lock on the directory
(which leaves no file behind), on PostgreSQL an advisory lock of the transaction.

A new SQLite file is made under another name, migrated, and only then linked to its own, so that
its own name always has a whole store or nothing. An older one is migrated in one transaction, after
a copy was put beside it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.exc import DBAPIError, IntegrityError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import QueuePool

from trimtab.base.error import UnreadableError, UsageError, install_command, unreleased
from trimtab.base.trusted_file import synchronise
from trimtab.base.units import is_digits
from trimtab.store import schema
from trimtab.store.location import Answers, Location, refuse_exchangeable, refuse_shared_file_system
from trimtab.store.raw_output import make_directories

BUSY_TIMEOUT_S = 30.0
"""Maximum time that a process waits for another that writes."""

_FULL_MARGIN_BYTES = 64 * 1024  # less than this and SQLite cannot even grow its log's index
# PostgreSQL's codes (its manual, appendix A). Classes: connection, log-in, no such database or
# schema, resources (a full disk is 53100), shut down, system, damaged data. Single ones: no
# permission, read-only, lock not to be had.
_OF_THE_SERVER = {"08", "28", "3D", "3F", "53", "57", "58", "XX"}
_OF_THE_DATABASE = {"42501", "25006", "55P03"}
_TAKEN_OF_SQLITE = {"SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY"}
_TAKEN_OF_POSTGRESQL = "23505"
_NOTHING_LOST = "earlier data is intact"
DAMAGED_HINT = (
    "keep the file as it is and restore a copy; `sqlite3 FILE .recover` saves what can be read"
)


@contextmanager
def store_errors(location: Location) -> Iterator[None]:
    """Turn what the database raises inside into an `UnreadableError` that names the store.

    A broken constraint and wrong SQL pass: the first is for the caller to judge, the second is
    a bug.
    """
    try:
        yield
    except IntegrityError:
        raise
    except DBAPIError as error:
        if (store_error := explained(error.orig, location)) is None:
            raise
        raise store_error from error
    except StatementError as error:
        # A value that a column does not take: SQLAlchemy wraps the ValueError that says why.
        raise (error.orig or error) from None
    except sqlite3.Error as error:
        if (store_error := explained(error, location)) is None:
            raise
        raise store_error from error
    except UnicodeDecodeError as error:
        # Python's own error: SQLite's message quotes a definition whose text is damaged.
        raise UnreadableError(
            f"the store {location} is damaged: it has text that is not UTF-8",
            code="store-damaged",
            hint=DAMAGED_HINT,
        ) from error
    except PoolTimeout as error:
        raise UnreadableError(
            f"the store {location} keeps every connection of this process waiting",
            code="store-busy",
            hint=f"see what holds it; {_NOTHING_LOST}",
        ) from error
    except OSError as error:
        raise operating_system_error(error, location) from error


def is_taken(error: IntegrityError) -> bool:
    """Return whether a broken constraint says that a row's like is kept already.

    Any other one, as a value that is missing, is a bug of the caller.
    """
    if isinstance(error.orig, sqlite3.Error):
        return error.orig.sqlite_errorname in _TAKEN_OF_SQLITE
    return getattr(error.orig, "sqlstate", None) == _TAKEN_OF_POSTGRESQL


def operating_system_error(error: OSError, location: Location) -> UnreadableError:
    """Return the operating system's error about the store's file or directory."""
    path = location.path or location.raw
    place = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else str(path)
    hint = "name another with --store or TRIMTAB_STORE, or see who may write there"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = _full(location)[1]
    return UnreadableError(
        f"the store {location} cannot be opened: {place}: {error.strerror}",
        code="store-not-opened",
        hint=hint,
    )


def explained(error: BaseException | None, location: Location) -> UnreadableError | None:
    """Return the error in our words, ``None`` where it is not the store's fault."""
    if isinstance(error, sqlite3.Error):
        return _sqlite(error, location)
    return _postgresql(error, location)


def _sqlite(error: sqlite3.Error, location: Location) -> UnreadableError | None:
    name = getattr(error, "sqlite_errorname", None) or ""
    family = "_".join(name.split("_")[:2])
    hint: str | None = None
    match family:
        case "SQLITE_CORRUPT" | "SQLITE_NOTADB":
            code, problem, hint = (
                "store-damaged",
                "is damaged or is not a SQLite database",
                DAMAGED_HINT,
            )
        case "SQLITE_BUSY" | "SQLITE_LOCKED":
            code, problem = "store-busy", f"was held by another process for {BUSY_TIMEOUT_S:.0f} s"
            hint = f"see what holds it (fuser {location}), then try again"
        case "SQLITE_FULL":
            code, (problem, hint) = "store-disk-full", _full(location)
        case "SQLITE_IOERR" | "SQLITE_CANTOPEN" if _disk_is_full(location.path):
            code, (problem, hint) = "store-disk-full", _full(location)
        case "SQLITE_READONLY" | "SQLITE_CANTOPEN" | "SQLITE_PERM" | "SQLITE_AUTH":
            code, problem = "store-not-writable", "cannot be opened or written"
            hint = f"see who may write the file and its directory; {_NOTHING_LOST}"
        case "SQLITE_IOERR" | "SQLITE_PROTOCOL" | "SQLITE_NOMEM":
            code, problem = "store-disk-failing", "cannot be read or written: its disk fails"
            hint = _NOTHING_LOST
        case _ if str(error).startswith("Could not decode"):
            code, problem, hint = "store-damaged", "has text that is not UTF-8", DAMAGED_HINT
        case _:
            return None
    return UnreadableError(f"the store {location} {problem} ({error})", code=code, hint=hint)


def _full(location: Location) -> tuple[str, str]:
    directory = location.path.parent if location.path else location.raw
    return "has no space left on its disk", f"free space for {directory}; {_NOTHING_LOST}"


def _disk_is_full(path: Path | None) -> bool:
    if path is None:
        return False
    try:
        status = os.statvfs(path.parent)
    except OSError:
        return False
    return status.f_bavail * status.f_frsize < _FULL_MARGIN_BYTES or status.f_favail == 0


def _postgresql(error: BaseException | None, location: Location) -> UnreadableError | None:
    # Without a code the server was not reached.
    if error is None or location.kind != "postgresql":
        return None
    code = getattr(error, "sqlstate", None)
    if code is not None and code[:2] not in _OF_THE_SERVER and code not in _OF_THE_DATABASE:
        return None
    first_line = (str(error).strip().splitlines() or ["no reason given"])[0]
    return UnreadableError(
        f"the store {location} cannot be used: {first_line}",
        code="store-unusable",
        hint="see that the server runs, that the database exists and that this user may write it",
    )


_PAGE_BYTES_MINIMUM = 512  # sqlite.org/fileformat2.html; ours are 4096
_ADVISORY_LOCK = 0x7472696D  # any number will do, as long as all of us use the same
_POSTGRESQL_TABLES = """
    SELECT relname FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v') AND n.nspname = ANY (current_schemas(false))
"""
WRITES = {"trimtab_writes": True}
"""Execution options of a connection that is going to write."""


def open_database(
    location: Location, *, answers: Answers | None = None, create: bool = True
) -> Engine:
    """Return an engine on the store at that place, created or migrated if need be.

    Parameters
    ----------
    answers
        Called with each path of this host that the store is on before anything touches it;
        raises if the file system does not answer.
    create
        Whether to create a store if there is none.

    Raises
    ------
    UnreadableError
        The store is damaged, of a newer or unknown revision, of another program or unreachable, or
        it does not exist and is not to be created.
    RefusedError
        SQLite on a network or parallel file system.
    UsageError
        This process is root, and another user can replace the store.
    """
    if location.path is not None:
        refuse_shared_file_system(location.path, answers=answers)
    if answers is not None:
        answers(os.fspath(location.raw))
    with store_errors(location):
        refuse_exchangeable(location)
    if location.path is None:
        return _open_postgresql(location, create=create)
    with store_errors(location):
        _open_sqlite(location, location.path, create=create)
    return _sqlite_engine(location.path)


def _open_sqlite(location: Location, path: Path, *, create: bool) -> None:
    if not _is_there(path):
        if not create:
            raise _nothing_there(location)
        make_directories(path.parent)
        with _directory_lock(path, location):
            if not _is_there(path):
                _create_sqlite(path)
    _refuse_other_files(path)
    if not _is_current(_sqlite_revision(path), location, create=create):
        with _directory_lock(path, location):
            _migrate_sqlite(path, location)
    with closing(_connect(path)) as connection:
        sealed = connection.execute("PRAGMA user_version").fetchone()[0]
        if sealed not in (0, _definitions(connection)):
            raise UnreadableError(
                f"the store {location} is damaged: the definitions of its tables were changed",
                code="store-damaged",
                hint=DAMAGED_HINT,
            )
        # Undamaged, and without a table: that came after this store, before a release.
        if sealed and not schema.metadata.tables.keys() <= _tables(connection):
            raise _unreleased(str(location))
        # Kept in the file; a store that was restored from a dump or backup may lack it.
        connection.execute("PRAGMA journal_mode=WAL")


def _nothing_there(location: Location) -> UnreadableError:
    return UnreadableError(
        f"there is no store at {location}",
        code="store-missing",
        hint="trimtab check PATH makes it; or name another with --store or TRIMTAB_STORE",
    )


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise UnreadableError(
                f"the store {path} is a link to {path.readlink()}, which is missing",
                code="store-link-broken",
                hint="mount what it points to, or remove the link",
            ) from None
        return False
    return True


def _refuse_other_files(path: Path) -> None:
    if not path.is_file():
        raise UnreadableError(
            f"the store {path} is a directory or device, not a file",
            code="store-not-a-file",
            hint=f"name a file in it, as {path}/trimtab.db",
        )
    log_is_gone = not _log_of(path).exists()
    # Its size only: reading it here would drop the locks that other connections of this process
    # hold on it (closing any descriptor of a file does, fcntl(2)).
    size_bytes = path.stat().st_size
    if size_bytes == 0:
        raise UnreadableError(
            f"the store {path} is an empty file: it was truncated, or only created",
            code="store-empty",
            hint="restore a copy, or remove it to start a new store",
        )
    # SQLite takes a file of one byte for a new database, and half a page for a page of zeros.
    # While the log exists a page may be on its way into the file.
    if size_bytes < _PAGE_BYTES_MINIMUM or (log_is_gone and size_bytes % _PAGE_BYTES_MINIMUM):
        raise UnreadableError(
            f"the store {path} is damaged or is not a SQLite database ({size_bytes} bytes are no "
            "whole number of pages)",
            code="store-damaged",
            hint="keep the file as it is and restore a copy, or name another with --store",
        )


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _connect(path: Path) -> sqlite3.Connection:
    # Never creates the file: a store that vanished must not come back empty.
    connection = sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?mode=rw",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute("PRAGMA foreign_keys=ON")
        # With a write-ahead log NORMAL may lose the last commits in a power failure; FULL does not.
        connection.execute("PRAGMA synchronous=FULL")
    except (sqlite3.Error, UnicodeDecodeError):
        connection.close()
        raise
    return connection


def _sqlite_engine(path: Path) -> Engine:
    engine = create_engine("sqlite://", creator=lambda: _connect(path), poolclass=QueuePool)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A transaction that reads first and then writes fails at once when another wrote in
        # between (SQLITE_BUSY_SNAPSHOT); one that says so at its beginning waits its turn.
        options = connection.get_execution_options()
        patience_ms = int(BUSY_TIMEOUT_S * 1000) if options.get("trimtab_patient", True) else 0
        connection.exec_driver_sql(f"PRAGMA busy_timeout={patience_ms}")
        writes = options.get("trimtab_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _tables(connection: sqlite3.Connection) -> set[str]:
    query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    return {name for (name,) in connection.execute(query)}


def _sqlite_revision(path: Path) -> str | None:
    """Return the revision; ``None`` for a database that is empty of tables."""
    with closing(_connect(path)) as connection:
        tables = _tables(connection)
        if not tables:
            return None
        if schema.VERSION_TABLE not in tables:
            raise _foreign(str(path), tables)
        rows = connection.execute(f"SELECT version_num FROM {schema.VERSION_TABLE}").fetchall()
    return rows[0][0] if rows else ""


def _is_current(revision: str | None, location: Location, *, create: bool = True) -> bool:
    """Return whether nothing needs doing; raise for a revision that this program does not know.

    Without ``create`` a database without tables, which would become a store, counts as missing.
    """
    if revision is None and not create:
        raise _nothing_there(location)
    if revision is not None and revision not in schema.REVISIONS:
        newer = is_digits(revision) and revision > schema.HEAD
        why = "a newer Trimtab wrote it" if newer else "no known version of Trimtab wrote it"
        raise UnreadableError(
            f"the store {location} has schema revision {revision!r}, this program knows up to "
            f"{schema.HEAD!r}: {why}; nothing in it was touched",
            code="store-revision-unknown",
            hint="use the program that wrote it, or name another store with --store",
        )
    return revision == schema.HEAD


def refuse_other_revision(connection: Connection, location: Location) -> None:
    """Raise unless an open store has the revision that this program reads."""
    if not inspect(connection).has_table(schema.VERSION_TABLE):
        raise _foreign(str(location), set(inspect(connection).get_table_names()))
    revision = connection.execute(text(f"SELECT version_num FROM {schema.VERSION_TABLE}")).scalar()
    if not _is_current(revision or "", location):
        raise UnreadableError(
            f"the store {location} has the schema of an older Trimtab",
            code="store-revision-old",
            hint="start again: the store is then migrated",
        )


def _foreign(name: str, tables: set[str]) -> UnreadableError:
    if schema.UNRELEASED_TABLE in tables:
        return _unreleased(name)
    some = ", ".join(sorted(tables)[:5]) or "none of ours"
    return UnreadableError(
        f"the store {name} is a database of another program (tables {some}); it was not touched",
        code="store-of-another-program",
        hint="name another store with --store or TRIMTAB_STORE",
    )


def _unreleased(name: str) -> UnreadableError:
    again = "import the raw outputs again into a new one: trimtab import DIR --store NEW"
    return unreleased(f"the store {name}", again)


@contextmanager
def _directory_lock(path: Path, location: Location) -> Iterator[None]:
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        deadline = time.monotonic() + BUSY_TIMEOUT_S
        while not _locked(descriptor):
            if time.monotonic() > deadline:
                raise UnreadableError(
                    f"the store {location} was being created or migrated by another process for "
                    f"{BUSY_TIMEOUT_S:.0f} s",
                    code="store-busy",
                    hint=f"see what holds {path.parent} (fuser), then try again",
                )
            time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)  # which also unlocks


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _create_sqlite(path: Path) -> None:
    log = _log_of(path)
    if log.exists() and log.stat().st_size:
        # SQLite would play this log into the new file and make rubbish of it.
        raise UnreadableError(
            f"the store {path} is missing, but its write-ahead log {log} exists",
            code="store-missing-log-present",
            hint="put the store back beside its log, or move the log away to start a new store",
        )
    new = path.with_name(f".{path.name}.new")
    _remove_with_companions(new)  # of a process that was killed here
    try:
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o640))
        with closing(_connect(new)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
        engine = _sqlite_engine(new)
        try:
            with engine.connect().execution_options(**WRITES) as connection, connection.begin():
                _upgrade(connection)
        finally:
            engine.dispose()  # the last connection empties the log into the file
        synchronise(new)
        os.link(new, path)
    finally:
        _remove_with_companions(new)
        synchronise(path.parent)


def _migrate_sqlite(path: Path, location: Location) -> None:
    engine = _sqlite_engine(path)
    try:
        with engine.connect().execution_options(**WRITES) as connection, connection.begin():
            # No other process writes from here on: this check holds, and the copy is of one moment.
            revision = _sqlite_revision(path)
            if _is_current(revision, location):
                return
            if revision is not None:
                _copy_beside(path, revision)
            _upgrade(connection)
    finally:
        engine.dispose()


def _copy_beside(path: Path, revision: str) -> None:
    """Keep the store as it was, as ``<name>.before-migration-of-<revision>``."""
    copy = path.with_name(f"{path.name}.before-migration-of-{revision}")
    part = path.with_name(f".{copy.name}.part")
    _remove_with_companions(part)
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o640))
        with closing(_connect(path)) as source, closing(_connect(part)) as target:
            source.backup(target)
        synchronise(part)
        part.rename(copy)
    finally:
        _remove_with_companions(part)
        synchronise(path.parent)


def _remove_with_companions(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _definitions(connection: sqlite3.Connection) -> int:
    """Return a checksum of the definitions of our tables and indexes, and of the revision.

    It is stored as SQLite's ``user_version``, so that a damaged definition is detected.
    """
    indexes = {index.name for table in schema.metadata.tables.values() for index in table.indexes}
    ours = {*schema.metadata.tables, *indexes, schema.VERSION_TABLE}
    query = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
    rows = [row for row in connection.execute(query) if row[1] in ours]
    revision = connection.execute(f"SELECT version_num FROM {schema.VERSION_TABLE}").fetchall()
    return zlib.crc32(repr([rows, revision]).encode()) & 0x7FFFFFFF


def _upgrade(connection: Connection) -> None:
    """Run the missing revisions, in the open transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    scripts = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", scripts.replace("%", "%%"))  # it interpolates
    config.attributes["connection"] = connection
    config.attributes["version_table"] = schema.VERSION_TABLE
    command.upgrade(config, schema.HEAD)
    driver = connection.connection.driver_connection
    if isinstance(driver, sqlite3.Connection):
        connection.exec_driver_sql(f"PRAGMA user_version = {_definitions(driver)}")


def _open_postgresql(location: Location, *, create: bool) -> Engine:
    try:
        import psycopg  # noqa: F401  # to say what is missing before SQLAlchemy does
    except ImportError as error:
        raise UsageError(
            f"the store {location} needs psycopg, which is not installed",
            code="psycopg-missing",
            hint=install_command("postgresql"),
        ) from error
    engine = create_engine(location.url, pool_pre_ping=True)
    try:
        with store_errors(location):
            with engine.connect() as connection:
                revision = _postgresql_revision(connection, location)
            current = _is_current(revision, location, create=create)
            if not current:
                _migrate_postgresql(engine, location)
    except BaseException:
        engine.dispose()
        raise
    return engine


def _postgresql_revision(connection: Connection, location: Location) -> str | None:
    """Return the revision; ``None`` if none of our tables exists."""
    # One look for all names, and at the catalogue itself: to_regclass answers from a cache that
    # does not learn, within a transaction, of what another process has created since.
    tables = set(connection.execute(text(_POSTGRESQL_TABLES)).scalars())
    if schema.VERSION_TABLE not in tables:
        # Other programs' tables may exist beside ours, but not under our names.
        if taken := tables & {*schema.metadata.tables, schema.UNRELEASED_TABLE}:
            raise _foreign(str(location), taken)
        return None
    rows = connection.execute(text(f"SELECT version_num FROM {schema.VERSION_TABLE}")).fetchall()
    return rows[0][0] if rows else ""


def _migrate_postgresql(engine: Engine, location: Location) -> None:
    with engine.begin() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
        if not _is_current(_postgresql_revision(connection, location), location):
            _upgrade(connection)

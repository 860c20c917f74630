"""What the database says when it cannot, in words that name the store and the way out."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError, IntegrityError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from trimtab.errors import UnreadableError
from trimtab.record.location import Location

BUSY_TIMEOUT_S = 30.0
"""How long one process waits for another that writes."""

_FULL_MARGIN_BYTES = 64 * 1024  # less than this and SQLite cannot even grow its log's index
# PostgreSQL's codes (its manual, appendix A). Classes: connection, log-in, no such database or
# schema, resources (a full disk is 53100), shut down, system, damaged data. Single ones: no
# permission, read-only, lock not to be had.
_OF_THE_SERVER = {"08", "28", "3D", "3F", "53", "57", "58", "XX"}
_OF_THE_DATABASE = {"42501", "25006", "55P03"}
_TAKEN_OF_SQLITE = {"SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY"}
_TAKEN_OF_POSTGRESQL = "23505"
_NOTHING_LOST = "what was kept before is whole"
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
            f"the store {location} is damaged: it holds text that is no UTF-8",
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
    """Return what the operating system said about the store's file or directory."""
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
            code, problem, hint = "store-damaged", "holds text that is no UTF-8", DAMAGED_HINT
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

"""The connections of a store: every question and every change goes through one of two methods."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine

from trimtab.errors import UnreadableError
from trimtab.record.database import WRITES
from trimtab.record.failures import store_errors
from trimtab.record.location import Location
from trimtab.record.raw import RawDirectory


class Connections:
    """A database that is open, with its raw outputs beside it."""

    def __init__(self, engine: Engine, location: Location) -> None:
        self._engine = engine
        self.location = location
        self.raw = RawDirectory(location.raw)
        self._file = _identity(location)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with store_errors(self.location), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """Yield a connection in a transaction, which is all kept or not at all.

        Raises
        ------
        UnreadableError
            SQLite's file is no longer where it was: what is written would go with the last
            process that has it open.
        """
        if _identity(self.location) != self._file:
            raise UnreadableError(
                f"the store {self.location} was removed or replaced while it was open",
                code="store-replaced",
                hint="bring it back, or start again to make a new one",
            )
        with store_errors(self.location), self._engine.connect() as connection:
            writer = connection.execution_options(**WRITES)
            with writer.begin():
                yield writer


def _identity(location: Location) -> tuple[int, int] | None:
    """Return device and inode of SQLite's file; ``None`` for a server and for what is not there."""
    if location.path is None:
        return None
    try:
        state = location.path.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino

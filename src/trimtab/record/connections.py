"""The connections of a store: every question and every change goes through one of two methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine

from trimtab.errors import UnreadableError
from trimtab.model.run import Run
from trimtab.record.checksums import guard
from trimtab.record.database import WRITES, refuse_other_revision
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
        guard(engine, location)

    def look_again(self) -> bool:
        """Return whether another store was put in the place of the one that was opened.

        From now on that one is read. For who reads for months: a store may be restored from a copy,
        or migrated by a newer program, meanwhile.

        Raises
        ------
        UnreadableError
            None is there, or one of another revision.
        """
        present = _identity(self.location)
        if present is None and self.location.path is not None:
            raise UnreadableError(
                f"the store {self.location} was removed while it was open",
                code="store-missing",
                hint="bring it back",
            )
        was_replaced = present != self._file
        if was_replaced:
            self._engine.dispose()  # connections to a file that was replaced go on reading that
            self._file = present
        with self._reading() as connection:
            refuse_other_revision(connection, self.location)
        return was_replaced

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with store_errors(self.location), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self, *, patient: bool = True) -> Iterator[Connection]:
        """Yield a connection in a transaction, which is all kept or not at all.

        Parameters
        ----------
        patient
            Whether another process that writes is waited for.

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
            writer = connection.execution_options(**WRITES, trimtab_patient=patient)
            with writer.begin():
                yield writer

    def _put_outputs(self, runs: Iterable[Run]) -> None:
        """Bring the raw outputs of runs to stable storage."""
        for run in runs:
            for output in run.outputs:
                self.raw.put(output.stdout)
                self.raw.put(output.stderr)


def _identity(location: Location) -> tuple[int, int] | None:
    """Return device and inode of SQLite's file; ``None`` for a server and for what is not there."""
    if location.path is None:
        return None
    try:
        state = location.path.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino

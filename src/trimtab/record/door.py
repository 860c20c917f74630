"""The connections of a store: every question and every change goes through one of two methods."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine

from trimtab.record.database import WRITES
from trimtab.record.failures import told
from trimtab.record.location import Location
from trimtab.record.raw import RawDirectory


class Door:
    """A database that is open, with its raw outputs beside it."""

    def __init__(self, engine: Engine, location: Location) -> None:
        self._engine = engine
        self.location = location
        self.raw = RawDirectory(location.raw)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with told(self.location), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """Yield a connection in a transaction, which is all kept or not at all."""
        with told(self.location), self._engine.connect() as connection:
            writer = connection.execution_options(**WRITES)
            with writer.begin():
                yield writer

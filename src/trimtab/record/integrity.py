"""Looking a store over: the database's own check, and that every raw output is there."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, select, union

from trimtab.errors import UnreadableError
from trimtab.message import Message
from trimtab.record import schema
from trimtab.record.raw import EMPTY_SHA256, RawDirectory


def problems(connection: Connection, raw: RawDirectory, *, contents: bool) -> Iterator[str]:
    """Yield what is wrong, in plain words."""
    if connection.dialect.name == "sqlite":
        yield from _sqlite(connection)
    yield from _raw(connection, raw, contents=contents)


def _sqlite(connection: Connection) -> Iterator[str]:
    for (line,) in connection.exec_driver_sql("PRAGMA integrity_check"):
        if line != "ok":
            yield Message("database-damaged", f"the database is damaged: {line}")
    for table, number, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check"):
        yield Message(
            "row-orphaned", f"row {number} of {table} refers to a {parent} that is missing"
        )


def _raw(connection: Connection, raw: RawDirectory, *, contents: bool) -> Iterator[str]:
    output = schema.output.c
    hashes = union(
        select(output.stdout_sha256, output.stdout_bytes).where(output.pruned_at.is_(None)),
        select(output.stderr_sha256, output.stderr_bytes).where(output.pruned_at.is_(None)),
    )
    for sha256, size_bytes in connection.execute(hashes):
        if sha256 == EMPTY_SHA256:
            continue
        if contents:
            try:
                raw.get(sha256, size_bytes)
            except UnreadableError as error:
                yield error.message
        elif not raw.file(sha256).is_file():
            yield Message("raw-output-missing", f"the raw output {raw.file(sha256)} is missing")

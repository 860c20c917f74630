"""The store's tables, as the newest migration leaves them, and the types of their columns.

::

    site 1──n run 1──n output    a command that ran, and the hash of its output
                  1──n sample    each number, with the output and line that it came from
         1──n snapshot           one compressed Arrow batch of telemetry each
         1──n snapshot_base      a snapshot stored whole; others store their differences from it
         1──n event              an entry of the log book
         1──n slot               a due item: the run, snapshots and verdicts that resulted
         1──1 lease              the process that watches the site
         1──n incident           an incident as last found, with its explanation
         1──n action             a change made to the site, with the values before and after
         1──1 acting             the process with the right to act, and how many had it before
         1──n alert              an alert, and its deliveries
         1──n derived            a value computed from the rest: dropping it loses nothing

Rows refer to one another by small integers (``number``): a sample is about 60 bytes. People and
programs name a run by its ``id``, a UUIDv7, of which any unique prefix will do.

Both databases agree on the types: aware times are integer microseconds in UTC, text may hold any
file name, and JSON is plain text.

A change here needs a new revision in ``migrations/versions`` and its name in `REVISIONS`; a test
compares the two.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from trimtab.base.error import UnreadableError, restored, storable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class UtcMicroseconds(TypeDecorator[datetime]):
    """An aware datetime, kept as microseconds since 1970 UTC, so that both databases agree."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """Return the microseconds; a time without a zone is a bug and raises ValueError."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone: it cannot be kept")
        return (value - _EPOCH) // _MICROSECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        """Return the time, aware and in UTC."""
        try:
            return None if value is None else _EPOCH + timedelta(microseconds=value)
        except (TypeError, OverflowError) as error:
            raise _damaged("time", error) from error


class AnyText(TypeDecorator[str]):
    """Text that may hold anything a file name or a tool can: see `trimtab.base.error`."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the text as every database takes it."""
        return None if value is None else storable(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the text as it was given."""
        try:
            return None if value is None else restored(value)
        except TypeError as error:
            raise _damaged("text", error) from error


class PlainJson(TypeDecorator[Any]):
    """Plain JSON values as text; a value that JSON has no word for raises ValueError."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: object, dialect: Dialect) -> str:
        """Return the JSON text, other scripts readable, surrogates escaped."""
        return storable(json.dumps(value, ensure_ascii=False, allow_nan=False))

    def process_result_value(self, value: str | None, dialect: Dialect) -> object:
        """Return the values; tuples come back as lists."""
        try:
            return None if value is None else json.loads(restored(value))
        except (TypeError, ValueError, RecursionError) as error:
            raise _damaged("JSON", error) from error


def _damaged(noun: str, error: Exception) -> UnreadableError:
    """Return the error for a value that is not of its column's kind: the row is damaged."""
    return UnreadableError(
        f"the store holds a value that is no {noun}: {error}",
        code="store-rows-damaged",
        hint="trimtab store check lists what is damaged; restore a backup",
    )


REVISIONS: Final = ("0001",)
"""Every revision that this program knows, oldest first."""
HEAD: Final = REVISIONS[-1]
VERSION_TABLE: Final = "trimtab_schema"
"""Table of the revision. Not Alembic's default name: a database of another program that uses
Alembic must not be taken for ours."""
UNRELEASED_TABLE: Final = "trimtab_revision"
"""Its table in stores of unreleased versions, whose revisions had the numbers of today's."""

NAMING: Final = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}

CHECKSUM: Final = "checksum"
"""The column of a row's checksum."""
UNCHECKED: Final = {"unchecked": True}
"""Mark of a column that the checksum does not cover."""

_encode = json.JSONEncoder(
    separators=(",", ":"), default=lambda data: ["bytes", len(data), zlib.crc32(data)]
).encode


def checksum(values: Sequence[object]) -> int:
    """Return the CRC-32 of values as the database holds them.

    Examples
    --------
    >>> checksum(["scratch", None, 1.5]) == checksum(["scratch", None, 1.4])
    False
    """
    return zlib.crc32(_encode(values).encode("ascii"))


def _row_checksum(context: Any) -> int:
    """Return the checksum of the row that is being inserted: the default of its column."""
    table = context.current_column.table
    return checksum(row_values(table, context.get_current_parameters()))


@cache
def checked_columns(table: Table) -> tuple[Column[Any], ...]:
    """Return the columns that a checksum covers.

    Not the number, which a row gets when it is inserted and the indexes repeat, nor what has a
    checksum of its own or is changed without a look at the row (``info``).
    """
    without = {"number", CHECKSUM} | ({"run"} if table.name == "sample" else set())
    return tuple(
        column
        for column in table.columns
        if column.name not in without and not column.info.get("unchecked")
    )


def row_values(table: Table, row: Mapping[Any, Any]) -> list[Any]:
    """Return what the database will hold of a row that is to be inserted."""
    return [_database_value(column, row.get(column.name)) for column in checked_columns(table)]


def _database_value(column: Column[Any], value: Any) -> Any:
    kind = column.type
    if value is None:
        return None
    if isinstance(kind, TypeDecorator):
        return kind.process_bind_param(value, None)  # type: ignore[arg-type]  # none of ours looks
    if isinstance(kind, Boolean):
        return int(value)
    if isinstance(kind, Double):
        return float(value) + 0.0  # SQLite has no -0.0
    return value


metadata = MetaData(naming_convention=NAMING)

# SQLite numbers rows itself only where the type is INTEGER to the letter.
_NUMBER = BigInteger().with_variant(Integer, "sqlite")
# Byte order, so that a prefix is a range of the index whatever the database's language is.
_ID = Text().with_variant(Text(collation="C"), "postgresql")

_required = partial(Column, nullable=False)


def _of_site(*name: Column[Any]) -> tuple[Column[Any], ...]:
    """Return what each row that is of a site begins with."""
    number = Column("number", _NUMBER, primary_key=True)
    return number, *name, _required("site", ForeignKey("site.number"))


def _identified() -> tuple[Column[Any], ...]:
    return _of_site(_required("id", _ID, unique=True))


def _checksum() -> Column[int]:
    return Column(CHECKSUM, BigInteger, default=_row_checksum)


site = Table(
    "site",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    _required("name", AnyText, unique=True),
    Column("driver", AnyText),
    Column("identity", AnyText),
    Column("path", AnyText),
    Column("timezone", AnyText),
    # Time of the last search for incidents, and of the last run that it included.
    Column("judged_at", UtcMicroseconds),
    Column("judged_until", UtcMicroseconds),
    _checksum(),
)

run = Table(
    "run",
    metadata,
    *_identified(),
    _required("probe", AnyText),
    _required("kind", AnyText),
    _required("comparability", Text),
    _required("status", Text),
    Column("at", UtcMicroseconds),
    Column("until", UtcMicroseconds),
    Column("at_reason", AnyText),
    Column("tool_version", AnyText),
    Column("path", AnyText),
    Column("host", AnyText),
    Column("trimtab_version", AnyText),
    _required("parameters", PlainJson),
    Column("problem", AnyText),
    # sha256 of the raw output of an imported run; several runs of our own may print the same.
    Column("import_key", AnyText),
    # Of its samples.
    Column("sample_checksum", BigInteger),
    _checksum(),
    Index(None, "site", "kind", "import_key", unique=True),
    # With the checksum, for `trimtab.store.store.DerivedRecords.sums`.
    Index(None, "site", "comparability", "at", CHECKSUM),
    Index(None, "site", "at"),
)

output = Table(
    "output",
    metadata,
    Column("run", ForeignKey("run.number"), primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    _required("label", AnyText),
    _required("argv", PlainJson),
    _required("stdout_sha256", Text),
    _required("stdout_bytes", BigInteger),
    _required("stderr_sha256", Text),
    _required("stderr_bytes", BigInteger),
    Column("exit_code", Integer),
    Column("started_at", UtcMicroseconds),
    Column("elapsed_s", Double),
    _required("truncated", Boolean),
    # When its content was removed; its description stays.
    Column("pruned_at", UtcMicroseconds, info=UNCHECKED),
    _checksum(),
    sqlite_with_rowid=False,
)

sample = Table(
    "sample",
    metadata,
    Column("run", ForeignKey("run.number"), primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    _required("metric", Text),
    Column("value", Double),
    Column("repetition", Integer),
    Column("target", AnyText),
    _required("statistic", AnyText),
    Column("output", Integer),
    Column("line", BigInteger),
    Column("reason", AnyText),
    # The rows themselves in the order of the key: the samples of a run lie together.
    sqlite_with_rowid=False,
)

snapshot_base = Table(
    "snapshot_base",
    metadata,
    *_of_site(),
    _required("digest", Text),
    _required("batch", LargeBinary),
    Index(None, "site", "digest", unique=True),
)

snapshot = Table(
    "snapshot",
    metadata,
    *_identified(),
    _required("at", UtcMicroseconds),
    _required("driver", AnyText),
    _required("complete", Boolean),
    # Compressed, with a checksum within.
    _required("batch", LargeBinary, info=UNCHECKED),
    Column("base", ForeignKey("snapshot_base.number")),
    _checksum(),
    Index(None, "site", "at", CHECKSUM),
    Index(None, "base"),
)

event = Table(
    "event",
    metadata,
    *_identified(),
    _required("kind", Text),
    _required("at", UtcMicroseconds),
    Column("until", UtcMicroseconds),
    _required("targets", PlainJson),
    _required("detail", AnyText),
    _required("source", AnyText),
    _checksum(),
    Index(None, "site", "at"),
)

slot = Table(
    "slot",
    metadata,
    *_of_site(),
    _required("item", AnyText),
    _required("due_at", UtcMicroseconds),
    _required("state", Text),
    Column("started_at", UtcMicroseconds),
    Column("ended_at", UtcMicroseconds),
    # Ids and no references: snapshots go at the end of their retention, slots stay.
    Column("run", _ID),
    Column("before", _ID),
    Column("after", _ID),
    _required("verdicts", PlainJson),
    Column("detail", AnyText),
    Column("holder", AnyText),
    _checksum(),
    Index(None, "site", "item", "due_at", unique=True),
    Index(None, "site", "state"),
    Index(None, "site", "due_at"),
)

lease = Table(
    "lease",
    metadata,
    Column("site", ForeignKey("site.number"), primary_key=True, autoincrement=False),
    _required("holder", AnyText),
    _required("taken_at", UtcMicroseconds),
    _required("until", UtcMicroseconds),
)

incident = Table(
    "incident",
    metadata,
    *_of_site(_required("id", _ID)),
    _required("at", UtcMicroseconds),
    Column("until", UtcMicroseconds),
    _required("detected_at", UtcMicroseconds),
    _required("shape", Text),
    _required("state", Text),
    _required("certainty", Text),
    Column("effect", Double),
    _required("summary", AnyText),
    # The explanation, as the JSON document has it.
    _required("document", PlainJson),
    _checksum(),
    Index(None, "site", "id", unique=True),
    Index(None, "site", "at"),
)

action = Table(
    "action",
    metadata,
    *_identified(),
    _required("policy", Text),
    _required("plan", Text),
    _required("who", AnyText),
    _required("kind", Text),
    _required("target", AnyText),
    Column("server", AnyText),
    Column("setting", AnyText),
    Column("before", AnyText),
    Column("value", AnyText),
    _required("stage", Integer),
    _required("permanent", Boolean),
    # Ids of the actions that it takes back.
    _required("reverts", PlainJson),
    _required("reason", AnyText),
    _required("reason_code", Text),
    _required("at", UtcMicroseconds),
    # None, as the outcome: begun, and not known to have ended.
    Column("until", UtcMicroseconds),
    Column("outcome", Text),
    Column("found", AnyText),
    Column("detail", AnyText),
    _required("facts", PlainJson),
    _checksum(),
    Index(None, "site", "at"),
)

acting = Table(
    "acting",
    metadata,
    Column("site", ForeignKey("site.number"), primary_key=True, autoincrement=False),
    # Raised whenever a process takes the right to act: a process with a lower one is refused.
    _required("token", BigInteger),
    Column("holder", AnyText),
    Column("until", UtcMicroseconds),
)

result = Table(
    "result",
    metadata,
    *_identified(),
    _required("kind", Text),
    _required("at", UtcMicroseconds),
    _required("document", PlainJson),
    _checksum(),
    Index(None, "site", "kind", "at"),
)

alert = Table(
    "alert",
    metadata,
    *_identified(),
    _required("subject", AnyText),
    _required("name", Text),
    _required("phase", Text),
    _required("severity", Text),
    _required("at", UtcMicroseconds),
    Column("since", UtcMicroseconds),
    _required("title", AnyText),
    _required("lines", PlainJson),
    # What people know after it: the next decisions rest on it.
    _required("facts", PlainJson),
    # Receiver to state, time and detail.
    _required("deliveries", PlainJson),
    _checksum(),
    Index(None, "site", "at"),
)

derived = Table(
    "derived",
    metadata,
    *_of_site(_required("noun", AnyText)),
    # Digest of all that it was computed from.
    _required("basis", Text),
    _required("document", LargeBinary),
    _checksum(),
    Index(None, "site", "noun", unique=True),
)

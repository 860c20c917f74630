"""The store's tables, as the newest migration leaves them.

::

    site 1──n run 1──n output    what was run, and the hash of what it printed
                  1──n sample    each number, with the output and line that it came from
         1──n snapshot           one compressed Arrow batch of telemetry each
         1──n snapshot_base      a snapshot kept whole, where others hold what differs from it
         1──n event              what happened
         1──n slot               what was due: the run, snapshots and verdicts that came of it
         1──1 lease              which process watches the site
         1──n incident           as it was last found, with its explanation
         1──n action             what was done to it, before and after
         1──1 acting             which process may, and how many had the right before
         1──n alert              an alert of it, and who got it

Rows refer to one another by small integers (``number``): a sample is about 60 bytes. People and
programs name a run by its ``id``, a UUIDv7, of which any unique prefix will do.

A change here needs a new revision in ``migrations/versions`` and its name in `REVISIONS`; a test
compares the two.
"""

from __future__ import annotations

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

from trimtab.record.columns import AnyText, PlainJson, UtcMicroseconds

REVISIONS: Final = ("0001",)
"""Every revision that this program knows, oldest first."""
HEAD: Final = REVISIONS[-1]
VERSION_TABLE: Final = "trimtab_schema"
"""Where the revision stands. Not Alembic's default name: a database of another program that uses
Alembic must not be taken for ours."""
UNRELEASED_TABLE: Final = "trimtab_revision"
"""Where it stood in stores of unreleased versions, whose revisions had the numbers of today's."""

NAMING: Final = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}

CHECKSUM: Final = "checksum"
"""The column of a row's checksum."""
UNCHECKED: Final = {"unchecked": True}
"""Of a column that the checksum does not cover."""

metadata = MetaData(naming_convention=NAMING)

# SQLite numbers rows itself only where the type is INTEGER to the letter.
_NUMBER = BigInteger().with_variant(Integer, "sqlite")
# Byte order, so that a prefix is a range of the index whatever the database's language is.
_ID = Text().with_variant(Text(collation="C"), "postgresql")


def _checksum() -> Column[int]:
    return Column(CHECKSUM, BigInteger, default=_row_checksum)


def _row_checksum(context: Any) -> int:
    from trimtab.record.checksums import row_checksum  # which needs the tables

    return row_checksum(context)


site = Table(
    "site",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("name", AnyText, nullable=False, unique=True),
    Column("driver", AnyText),
    Column("identity", AnyText),
    Column("path", AnyText),
    Column("timezone", AnyText),
    # When its incidents were last looked for, and the last run that was looked at.
    Column("judged_at", UtcMicroseconds),
    Column("judged_until", UtcMicroseconds),
    _checksum(),
)

run = Table(
    "run",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("id", _ID, nullable=False, unique=True),
    Column("site", ForeignKey("site.number"), nullable=False),
    Column("probe", AnyText, nullable=False),
    Column("kind", AnyText, nullable=False),
    Column("comparability", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("at", UtcMicroseconds),
    Column("until", UtcMicroseconds),
    Column("at_reason", AnyText),
    Column("tool_version", AnyText),
    Column("path", AnyText),
    Column("host", AnyText),
    Column("trimtab_version", AnyText),
    Column("parameters", PlainJson, nullable=False),
    Column("problem", AnyText),
    # sha256 of the raw output of an imported run; several runs of our own may print the same.
    Column("import_key", AnyText),
    # Of its samples.
    Column("sample_checksum", BigInteger),
    _checksum(),
    Index(None, "site", "kind", "import_key", unique=True),
    Index(None, "site", "comparability", "at"),
    Index(None, "site", "at"),
)

output = Table(
    "output",
    metadata,
    Column("run", ForeignKey("run.number"), primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("label", AnyText, nullable=False),
    Column("argv", PlainJson, nullable=False),
    Column("stdout_sha256", Text, nullable=False),
    Column("stdout_bytes", BigInteger, nullable=False),
    Column("stderr_sha256", Text, nullable=False),
    Column("stderr_bytes", BigInteger, nullable=False),
    Column("exit_code", Integer),
    Column("started_at", UtcMicroseconds),
    Column("elapsed_s", Double),
    Column("truncated", Boolean, nullable=False),
    # When its content was removed; what is known of it stays.
    Column("pruned_at", UtcMicroseconds, info=UNCHECKED),
    _checksum(),
    sqlite_with_rowid=False,
)

sample = Table(
    "sample",
    metadata,
    Column("run", ForeignKey("run.number"), primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("metric", Text, nullable=False),
    Column("value", Double),
    Column("repetition", Integer),
    Column("target", AnyText),
    Column("statistic", AnyText, nullable=False),
    Column("output", Integer),
    Column("line", BigInteger),
    Column("reason", AnyText),
    # The rows themselves in the order of the key: the samples of a run lie together.
    sqlite_with_rowid=False,
)

snapshot_base = Table(
    "snapshot_base",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("site", ForeignKey("site.number"), nullable=False),
    Column("digest", Text, nullable=False),
    Column("batch", LargeBinary, nullable=False),
    Index(None, "site", "digest", unique=True),
)

snapshot = Table(
    "snapshot",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("id", _ID, nullable=False, unique=True),
    Column("site", ForeignKey("site.number"), nullable=False),
    Column("at", UtcMicroseconds, nullable=False),
    Column("driver", AnyText, nullable=False),
    Column("complete", Boolean, nullable=False),
    # Compressed, with a checksum within.
    Column("batch", LargeBinary, nullable=False, info=UNCHECKED),
    Column("base", ForeignKey("snapshot_base.number")),
    _checksum(),
    Index(None, "site", "at"),
    Index(None, "base"),
)

event = Table(
    "event",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("id", _ID, nullable=False, unique=True),
    Column("site", ForeignKey("site.number"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("at", UtcMicroseconds, nullable=False),
    Column("until", UtcMicroseconds),
    Column("targets", PlainJson, nullable=False),
    Column("detail", AnyText, nullable=False),
    Column("source", AnyText, nullable=False),
    _checksum(),
    Index(None, "site", "at"),
)

slot = Table(
    "slot",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("site", ForeignKey("site.number"), nullable=False),
    Column("item", AnyText, nullable=False),
    Column("due_at", UtcMicroseconds, nullable=False),
    Column("state", Text, nullable=False),
    Column("started_at", UtcMicroseconds),
    Column("ended_at", UtcMicroseconds),
    # Ids and no references: snapshots go at the end of their retention, slots stay.
    Column("run", _ID),
    Column("before", _ID),
    Column("after", _ID),
    Column("verdicts", PlainJson, nullable=False),
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
    Column("holder", AnyText, nullable=False),
    Column("taken_at", UtcMicroseconds, nullable=False),
    Column("until", UtcMicroseconds, nullable=False),
)

incident = Table(
    "incident",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("id", _ID, nullable=False),
    Column("site", ForeignKey("site.number"), nullable=False),
    Column("at", UtcMicroseconds, nullable=False),
    Column("until", UtcMicroseconds),
    Column("detected_at", UtcMicroseconds, nullable=False),
    Column("shape", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("certainty", Text, nullable=False),
    Column("effect", Double),
    Column("summary", AnyText, nullable=False),
    # The explanation, as the JSON document has it.
    Column("document", PlainJson, nullable=False),
    _checksum(),
    Index(None, "site", "id", unique=True),
    Index(None, "site", "at"),
)

action = Table(
    "action",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("id", _ID, nullable=False, unique=True),
    Column("site", ForeignKey("site.number"), nullable=False),
    Column("policy", Text, nullable=False),
    Column("plan", Text, nullable=False),
    Column("who", AnyText, nullable=False),
    Column("kind", Text, nullable=False),
    Column("target", AnyText, nullable=False),
    Column("server", AnyText),
    Column("setting", AnyText),
    Column("before", AnyText),
    Column("value", AnyText),
    Column("stage", Integer, nullable=False),
    Column("permanent", Boolean, nullable=False),
    # Ids of the actions that it takes back.
    Column("reverts", PlainJson, nullable=False),
    Column("reason", AnyText, nullable=False),
    Column("reason_code", Text, nullable=False),
    Column("at", UtcMicroseconds, nullable=False),
    # None, as the outcome: begun, and not known to have ended.
    Column("until", UtcMicroseconds),
    Column("outcome", Text),
    Column("found", AnyText),
    Column("detail", AnyText),
    Column("facts", PlainJson, nullable=False),
    _checksum(),
    Index(None, "site", "at"),
)

acting = Table(
    "acting",
    metadata,
    Column("site", ForeignKey("site.number"), primary_key=True, autoincrement=False),
    # Raised whenever somebody takes the right to act: an actor with a lower one is refused.
    Column("token", BigInteger, nullable=False),
    Column("holder", AnyText),
    Column("until", UtcMicroseconds),
)

result = Table(
    "result",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("id", _ID, nullable=False, unique=True),
    Column("site", ForeignKey("site.number"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("at", UtcMicroseconds, nullable=False),
    Column("document", PlainJson, nullable=False),
    _checksum(),
    Index(None, "site", "kind", "at"),
)

alert = Table(
    "alert",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("id", _ID, nullable=False, unique=True),
    Column("site", ForeignKey("site.number"), nullable=False),
    Column("subject", AnyText, nullable=False),
    Column("name", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("at", UtcMicroseconds, nullable=False),
    Column("since", UtcMicroseconds),
    Column("title", AnyText, nullable=False),
    Column("lines", PlainJson, nullable=False),
    # What people know after it: the next decisions rest on it.
    Column("facts", PlainJson, nullable=False),
    # Receiver to state, time and detail.
    Column("deliveries", PlainJson, nullable=False),
    _checksum(),
    Index(None, "site", "at"),
)

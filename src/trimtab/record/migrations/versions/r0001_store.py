"""The tables of the first released store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables."""
    _create_site()
    _create_run()
    _create_output()
    _create_sample()
    _create_snapshot_base()
    _create_snapshot()
    _create_event()
    _create_slot()
    _create_lease()
    _create_incident()
    _create_action()
    _create_acting()
    _create_result()
    _create_alert()


def _create_site() -> None:
    op.create_table(
        "site",
        sa.Column("number", _NUMBER, primary_key=True),
        *_required(sa.Text, "name"),
        *_optional(sa.Text, "driver", "identity", "path", "timezone"),
        *_optional(sa.BigInteger, "judged_at", "judged_until", "checksum"),
        sa.PrimaryKeyConstraint("number", name="pk_site"),
        sa.UniqueConstraint("name", name="uq_site_name"),
    )


def _create_run() -> None:
    _create_identified(
        "run",
        *_required(sa.Text, "probe", "kind", "comparability", "status"),
        *_optional(sa.BigInteger, "at", "until"),
        *_optional(sa.Text, "at_reason", "tool_version", "path", "host", "trimtab_version"),
        *_required(sa.Text, "parameters"),
        *_optional(sa.Text, "problem", "import_key"),
        *_optional(sa.BigInteger, "sample_checksum", "checksum"),
    )
    _index("run", "site", "kind", "import_key", unique=True)
    _index("run", "site", "comparability", "at")
    _index("run", "site", "at")


def _create_output() -> None:
    op.create_table(
        "output",
        *_required(_NUMBER, "run"),
        *_required(sa.Integer, "ordinal"),
        *_required(sa.Text, "label", "argv", "stdout_sha256"),
        *_required(sa.BigInteger, "stdout_bytes"),
        *_required(sa.Text, "stderr_sha256"),
        *_required(sa.BigInteger, "stderr_bytes"),
        *_optional(sa.Integer, "exit_code"),
        *_optional(sa.BigInteger, "started_at"),
        *_optional(sa.Double, "elapsed_s"),
        *_required(sa.Boolean, "truncated"),
        *_optional(sa.BigInteger, "pruned_at", "checksum"),
        sa.PrimaryKeyConstraint("run", "ordinal", name="pk_output"),
        sa.ForeignKeyConstraint(["run"], ["run.number"], name="fk_output_run"),
        sqlite_with_rowid=False,
    )


def _create_sample() -> None:
    op.create_table(
        "sample",
        *_required(_NUMBER, "run"),
        *_required(sa.Integer, "ordinal"),
        *_required(sa.Text, "metric"),
        *_optional(sa.Double, "value"),
        *_optional(sa.Integer, "repetition"),
        *_optional(sa.Text, "target"),
        *_required(sa.Text, "statistic"),
        *_optional(sa.Integer, "output"),
        *_optional(sa.BigInteger, "line"),
        *_optional(sa.Text, "reason"),
        sa.PrimaryKeyConstraint("run", "ordinal", name="pk_sample"),
        sa.ForeignKeyConstraint(["run"], ["run.number"], name="fk_sample_run"),
        sqlite_with_rowid=False,
    )


def _create_snapshot_base() -> None:
    _create_numbered(
        "snapshot_base",
        *_required(sa.Text, "digest"),
        *_required(sa.LargeBinary, "batch"),
    )
    _index("snapshot_base", "site", "digest", unique=True)


def _create_snapshot() -> None:
    _create_identified(
        "snapshot",
        *_required(sa.BigInteger, "at"),
        *_required(sa.Text, "driver"),
        *_required(sa.Boolean, "complete"),
        *_required(sa.LargeBinary, "batch"),
        *_optional(_NUMBER, "base"),
        *_optional(sa.BigInteger, "checksum"),
        sa.ForeignKeyConstraint(["base"], ["snapshot_base.number"], name="fk_snapshot_base"),
    )
    _index("snapshot", "site", "at")
    _index("snapshot", "base")


def _create_event() -> None:
    _create_identified(
        "event",
        *_required(sa.Text, "kind"),
        *_required(sa.BigInteger, "at"),
        *_optional(sa.BigInteger, "until"),
        *_required(sa.Text, "targets", "detail", "source"),
        *_optional(sa.BigInteger, "checksum"),
    )
    _index("event", "site", "at")


def _create_slot() -> None:
    _create_numbered(
        "slot",
        *_required(sa.Text, "item"),
        *_required(sa.BigInteger, "due_at"),
        *_required(sa.Text, "state"),
        *_optional(sa.BigInteger, "started_at", "ended_at"),
        *_optional(_ID, "run", "before", "after"),
        *_required(sa.Text, "verdicts"),
        *_optional(sa.Text, "detail", "holder"),
        *_optional(sa.BigInteger, "checksum"),
    )
    _index("slot", "site", "item", "due_at", unique=True)
    _index("slot", "site", "state")
    _index("slot", "site", "due_at")


def _create_lease() -> None:
    op.create_table(
        "lease",
        sa.Column("site", _NUMBER, primary_key=True, autoincrement=False),
        *_required(sa.Text, "holder"),
        *_required(sa.BigInteger, "taken_at", "until"),
        sa.PrimaryKeyConstraint("site", name="pk_lease"),
        sa.ForeignKeyConstraint(["site"], ["site.number"], name="fk_lease_site"),
    )


def _create_incident() -> None:
    _create_numbered(
        "incident",
        *_required(sa.BigInteger, "at"),
        *_optional(sa.BigInteger, "until"),
        *_required(sa.BigInteger, "detected_at"),
        *_required(sa.Text, "shape", "state", "certainty"),
        *_optional(sa.Double, "effect"),
        *_required(sa.Text, "summary", "document"),
        *_optional(sa.BigInteger, "checksum"),
        first=_required(_ID, "id"),
    )
    _index("incident", "site", "id", unique=True)
    _index("incident", "site", "at")


def _create_action() -> None:
    _create_identified(
        "action",
        *_required(sa.Text, "policy", "plan", "who", "kind", "target"),
        *_optional(sa.Text, "server", "setting", "before", "value"),
        *_required(sa.Integer, "stage"),
        *_required(sa.Boolean, "permanent"),
        *_required(sa.Text, "reverts", "reason", "reason_code"),
        *_required(sa.BigInteger, "at"),
        *_optional(sa.BigInteger, "until"),
        *_optional(sa.Text, "outcome", "found", "detail"),
        *_required(sa.Text, "facts"),
        *_optional(sa.BigInteger, "checksum"),
    )
    _index("action", "site", "at")


def _create_acting() -> None:
    op.create_table(
        "acting",
        *_required(_NUMBER, "site"),
        *_required(sa.BigInteger, "token"),
        *_optional(sa.Text, "holder"),
        *_optional(sa.BigInteger, "until"),
        sa.PrimaryKeyConstraint("site", name="pk_acting"),
        sa.ForeignKeyConstraint(["site"], ["site.number"], name="fk_acting_site"),
    )


def _create_result() -> None:
    _create_identified(
        "result",
        *_required(sa.Text, "kind"),
        *_required(sa.BigInteger, "at"),
        *_required(sa.Text, "document"),
        *_optional(sa.BigInteger, "checksum"),
    )
    _index("result", "site", "kind", "at")


def _create_alert() -> None:
    _create_identified(
        "alert",
        *_required(sa.Text, "subject", "name", "phase", "severity"),
        *_required(sa.BigInteger, "at"),
        *_optional(sa.BigInteger, "since"),
        *_required(sa.Text, "title", "lines", "facts", "deliveries"),
        *_optional(sa.BigInteger, "checksum"),
    )
    _index("alert", "site", "at")


def _required(kind: Any, *names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=False) for name in names]


def _optional(kind: Any, *names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind) for name in names]


def _create_identified(name: str, *columns: sa.schema.SchemaItem) -> None:
    """Create a table whose rows have numbers and ids, and belong to a site."""
    unique = sa.UniqueConstraint("id", name=f"uq_{name}_id")
    _create_numbered(name, *columns, unique, first=_required(_ID, "id"))


def _create_numbered(
    name: str, *columns: sa.schema.SchemaItem, first: Sequence[sa.Column[Any]] = ()
) -> None:
    """Create a table whose rows have numbers, and belong to a site."""
    op.create_table(
        name,
        sa.Column("number", _NUMBER, primary_key=True),
        *first,
        *_required(_NUMBER, "site"),
        *columns,
        sa.PrimaryKeyConstraint("number", name=f"pk_{name}"),
        sa.ForeignKeyConstraint(["site"], ["site.number"], name=f"fk_{name}_site"),
    )


def _index(table: str, *columns: str, unique: bool = False) -> None:
    op.create_index(f"ix_{table}_{'_'.join(columns)}", table, list(columns), unique=unique)

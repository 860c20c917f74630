"""The tables of the first released store."""

from __future__ import annotations

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
    _create_alert()


def _create_site() -> None:
    op.create_table(
        "site",
        sa.Column("number", _NUMBER, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("driver", sa.Text),
        sa.Column("identity", sa.Text),
        sa.Column("path", sa.Text),
        sa.Column("timezone", sa.Text),
        sa.Column("judged_at", sa.BigInteger),
        sa.Column("judged_until", sa.BigInteger),
        sa.Column("checksum", sa.BigInteger),
        sa.PrimaryKeyConstraint("number", name="pk_site"),
        sa.UniqueConstraint("name", name="uq_site_name"),
    )


def _create_run() -> None:
    _create_numbered(
        "run",
        sa.Column("id", _ID, nullable=False),
        sa.Column("site", _NUMBER, nullable=False),
        sa.Column("probe", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("comparability", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger),
        sa.Column("until", sa.BigInteger),
        sa.Column("at_reason", sa.Text),
        sa.Column("tool_version", sa.Text),
        sa.Column("path", sa.Text),
        sa.Column("host", sa.Text),
        sa.Column("trimtab_version", sa.Text),
        sa.Column("parameters", sa.Text, nullable=False),
        sa.Column("problem", sa.Text),
        sa.Column("import_key", sa.Text),
        sa.Column("sample_checksum", sa.BigInteger),
        sa.Column("checksum", sa.BigInteger),
        sa.UniqueConstraint("id", name="uq_run_id"),
    )
    op.create_index(
        "ix_run_site_kind_import_key", "run", ["site", "kind", "import_key"], unique=True
    )
    op.create_index("ix_run_site_comparability_at", "run", ["site", "comparability", "at"])
    op.create_index("ix_run_site_at", "run", ["site", "at"])


def _create_output() -> None:
    op.create_table(
        "output",
        sa.Column("run", _NUMBER, nullable=False),
        sa.Column("ordinal", sa.Integer, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("argv", sa.Text, nullable=False),
        sa.Column("stdout_sha256", sa.Text, nullable=False),
        sa.Column("stdout_bytes", sa.BigInteger, nullable=False),
        sa.Column("stderr_sha256", sa.Text, nullable=False),
        sa.Column("stderr_bytes", sa.BigInteger, nullable=False),
        sa.Column("exit_code", sa.Integer),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("elapsed_s", sa.Double),
        sa.Column("truncated", sa.Boolean, nullable=False),
        sa.Column("pruned_at", sa.BigInteger),
        sa.Column("checksum", sa.BigInteger),
        sa.PrimaryKeyConstraint("run", "ordinal", name="pk_output"),
        sa.ForeignKeyConstraint(["run"], ["run.number"], name="fk_output_run"),
        sqlite_with_rowid=False,
    )


def _create_sample() -> None:
    op.create_table(
        "sample",
        sa.Column("run", _NUMBER, nullable=False),
        sa.Column("ordinal", sa.Integer, nullable=False),
        sa.Column("metric", sa.Text, nullable=False),
        sa.Column("value", sa.Double),
        sa.Column("repetition", sa.Integer),
        sa.Column("target", sa.Text),
        sa.Column("statistic", sa.Text, nullable=False),
        sa.Column("output", sa.Integer),
        sa.Column("line", sa.BigInteger),
        sa.Column("reason", sa.Text),
        sa.PrimaryKeyConstraint("run", "ordinal", name="pk_sample"),
        sa.ForeignKeyConstraint(["run"], ["run.number"], name="fk_sample_run"),
        sqlite_with_rowid=False,
    )


def _create_snapshot_base() -> None:
    _create_numbered(
        "snapshot_base",
        sa.Column("site", _NUMBER, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("batch", sa.LargeBinary, nullable=False),
    )
    op.create_index(
        "ix_snapshot_base_site_digest", "snapshot_base", ["site", "digest"], unique=True
    )


def _create_snapshot() -> None:
    _create_numbered(
        "snapshot",
        sa.Column("id", _ID, nullable=False),
        sa.Column("site", _NUMBER, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("driver", sa.Text, nullable=False),
        sa.Column("complete", sa.Boolean, nullable=False),
        sa.Column("batch", sa.LargeBinary, nullable=False),
        sa.Column("base", _NUMBER),
        sa.Column("checksum", sa.BigInteger),
        sa.UniqueConstraint("id", name="uq_snapshot_id"),
        sa.ForeignKeyConstraint(["base"], ["snapshot_base.number"], name="fk_snapshot_base"),
    )
    op.create_index("ix_snapshot_site_at", "snapshot", ["site", "at"])
    op.create_index("ix_snapshot_base", "snapshot", ["base"])


def _create_event() -> None:
    _create_numbered(
        "event",
        sa.Column("id", _ID, nullable=False),
        sa.Column("site", _NUMBER, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("until", sa.BigInteger),
        sa.Column("targets", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("checksum", sa.BigInteger),
        sa.UniqueConstraint("id", name="uq_event_id"),
    )
    op.create_index("ix_event_site_at", "event", ["site", "at"])


def _create_slot() -> None:
    _create_numbered(
        "slot",
        sa.Column("site", _NUMBER, nullable=False),
        sa.Column("item", sa.Text, nullable=False),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("run", _ID),
        sa.Column("before", _ID),
        sa.Column("after", _ID),
        sa.Column("verdicts", sa.Text, nullable=False),
        sa.Column("detail", sa.Text),
        sa.Column("holder", sa.Text),
        sa.Column("checksum", sa.BigInteger),
    )
    op.create_index("ix_slot_site_item_due_at", "slot", ["site", "item", "due_at"], unique=True)
    op.create_index("ix_slot_site_state", "slot", ["site", "state"])
    op.create_index("ix_slot_site_due_at", "slot", ["site", "due_at"])


def _create_lease() -> None:
    op.create_table(
        "lease",
        sa.Column("site", _NUMBER, primary_key=True, autoincrement=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("taken_at", sa.BigInteger, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("site", name="pk_lease"),
        sa.ForeignKeyConstraint(["site"], ["site.number"], name="fk_lease_site"),
    )


def _create_incident() -> None:
    _create_numbered(
        "incident",
        sa.Column("id", _ID, nullable=False),
        sa.Column("site", _NUMBER, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("until", sa.BigInteger),
        sa.Column("detected_at", sa.BigInteger, nullable=False),
        sa.Column("shape", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("certainty", sa.Text, nullable=False),
        sa.Column("effect", sa.Double),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("checksum", sa.BigInteger),
    )
    op.create_index("ix_incident_site_id", "incident", ["site", "id"], unique=True)
    op.create_index("ix_incident_site_at", "incident", ["site", "at"])


def _create_action() -> None:
    _create_numbered(
        "action",
        sa.Column("id", _ID, nullable=False),
        sa.Column("site", _NUMBER, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("server", sa.Text),
        sa.Column("setting", sa.Text),
        sa.Column("before", sa.Text),
        sa.Column("value", sa.Text),
        sa.Column("stage", sa.Integer, nullable=False),
        sa.Column("permanent", sa.Boolean, nullable=False),
        sa.Column("reverts", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("reason_code", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("until", sa.BigInteger),
        sa.Column("outcome", sa.Text),
        sa.Column("found", sa.Text),
        sa.Column("detail", sa.Text),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("checksum", sa.BigInteger),
        sa.UniqueConstraint("id", name="uq_action_id"),
    )
    op.create_index("ix_action_site_at", "action", ["site", "at"])


def _create_acting() -> None:
    op.create_table(
        "acting",
        sa.Column("site", _NUMBER, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.Text),
        sa.Column("until", sa.BigInteger),
        sa.PrimaryKeyConstraint("site", name="pk_acting"),
        sa.ForeignKeyConstraint(["site"], ["site.number"], name="fk_acting_site"),
    )


def _create_alert() -> None:
    _create_numbered(
        "alert",
        sa.Column("id", _ID, nullable=False),
        sa.Column("site", _NUMBER, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("severity", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("since", sa.BigInteger),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("lines", sa.Text, nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("deliveries", sa.Text, nullable=False),
        sa.Column("checksum", sa.BigInteger),
        sa.UniqueConstraint("id", name="uq_alert_id"),
    )
    op.create_index("ix_alert_site_at", "alert", ["site", "at"])


def _create_numbered(name: str, *columns: sa.schema.SchemaItem) -> None:
    """Create a table whose rows have numbers, and belong to a site."""
    op.create_table(
        name,
        sa.Column("number", _NUMBER, primary_key=True),
        *columns,
        sa.PrimaryKeyConstraint("number", name=f"pk_{name}"),
        sa.ForeignKeyConstraint(["site"], ["site.number"], name=f"fk_{name}_site"),
    )

"""Sites, runs with outputs and samples, snapshots, events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the first tables."""
    _create_site()
    _create_run()
    _create_output()
    _create_sample()
    _create_snapshot()
    _create_event()


def _create_site() -> None:
    op.create_table(
        "site",
        sa.Column("number", _NUMBER, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("driver", sa.Text),
        sa.Column("identity", sa.Text),
        sa.Column("path", sa.Text),
        sa.Column("timezone", sa.Text),
        sa.PrimaryKeyConstraint("number", name="pk_site"),
        sa.UniqueConstraint("name", name="uq_site_name"),
    )


def _create_run() -> None:
    op.create_table(
        "run",
        sa.Column("number", _NUMBER, primary_key=True),
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
        sa.PrimaryKeyConstraint("number", name="pk_run"),
        sa.UniqueConstraint("id", name="uq_run_id"),
        sa.ForeignKeyConstraint(["site"], ["site.number"], name="fk_run_site"),
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


def _create_snapshot() -> None:
    op.create_table(
        "snapshot",
        sa.Column("number", _NUMBER, primary_key=True),
        sa.Column("id", _ID, nullable=False),
        sa.Column("site", _NUMBER, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("driver", sa.Text, nullable=False),
        sa.Column("complete", sa.Boolean, nullable=False),
        sa.Column("batch", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_snapshot"),
        sa.UniqueConstraint("id", name="uq_snapshot_id"),
        sa.ForeignKeyConstraint(["site"], ["site.number"], name="fk_snapshot_site"),
    )
    op.create_index("ix_snapshot_site_at", "snapshot", ["site", "at"])


def _create_event() -> None:
    op.create_table(
        "event",
        sa.Column("number", _NUMBER, primary_key=True),
        sa.Column("id", _ID, nullable=False),
        sa.Column("site", _NUMBER, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("until", sa.BigInteger),
        sa.Column("targets", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_event"),
        sa.UniqueConstraint("id", name="uq_event_id"),
        sa.ForeignKeyConstraint(["site"], ["site.number"], name="fk_event_site"),
    )
    op.create_index("ix_event_site_at", "event", ["site", "at"])

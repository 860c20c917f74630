"""Snapshots as what differs from one that is kept whole."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create the table of bases, and let snapshots refer to one."""
    op.create_table(
        "snapshot_base",
        sa.Column("number", _NUMBER, primary_key=True),
        sa.Column("site", _NUMBER, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("batch", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_snapshot_base"),
        sa.ForeignKeyConstraint(["site"], ["site.number"], name="fk_snapshot_base_site"),
    )
    op.create_index(
        "ix_snapshot_base_site_digest", "snapshot_base", ["site", "digest"], unique=True
    )
    if op.get_bind().dialect.name == "sqlite":  # adds no constraint to a table that is there
        op.execute(
            "ALTER TABLE snapshot ADD COLUMN base INTEGER "
            "CONSTRAINT fk_snapshot_base REFERENCES snapshot_base (number)"
        )
    else:
        op.add_column("snapshot", sa.Column("base", _NUMBER))
        op.create_foreign_key("fk_snapshot_base", "snapshot", "snapshot_base", ["base"], ["number"])
    op.create_index("ix_snapshot_base", "snapshot", ["base"])

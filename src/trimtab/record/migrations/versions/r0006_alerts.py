"""What people were told of a site, and who got it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the ledger of alerts."""
    op.create_table(
        "alert",
        sa.Column("number", _NUMBER, primary_key=True),
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
        sa.PrimaryKeyConstraint("number", name="pk_alert"),
        sa.UniqueConstraint("id", name="uq_alert_id"),
        sa.ForeignKeyConstraint(["site"], ["site.number"], name="fk_alert_site"),
    )
    op.create_index("ix_alert_site_at", "alert", ["site", "at"])

"""Incidents as they were last found, and up to when each site was judged."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table of incidents and the marks of the last judgement."""
    op.create_table(
        "incident",
        sa.Column("number", _NUMBER, primary_key=True),
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
        sa.PrimaryKeyConstraint("number", name="pk_incident"),
        sa.ForeignKeyConstraint(["site"], ["site.number"], name="fk_incident_site"),
    )
    op.create_index("ix_incident_site_id", "incident", ["site", "id"], unique=True)
    op.create_index("ix_incident_site_at", "incident", ["site", "at"])
    op.add_column("site", sa.Column("judged_at", sa.BigInteger))
    op.add_column("site", sa.Column("judged_until", sa.BigInteger))

"""What was done to a file system, and which process may do it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the ledger of actions, and the lease of who acts."""
    op.create_table(
        "action",
        sa.Column("number", _NUMBER, primary_key=True),
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
        sa.PrimaryKeyConstraint("number", name="pk_action"),
        sa.UniqueConstraint("id", name="uq_action_id"),
        sa.ForeignKeyConstraint(["site"], ["site.number"], name="fk_action_site"),
    )
    op.create_index("ix_action_site_at", "action", ["site", "at"])
    op.create_table(
        "acting",
        sa.Column("site", _NUMBER, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.Text),
        sa.Column("until", sa.BigInteger),
        sa.PrimaryKeyConstraint("site", name="pk_acting"),
        sa.ForeignKeyConstraint(["site"], ["site.number"], name="fk_acting_site"),
    )

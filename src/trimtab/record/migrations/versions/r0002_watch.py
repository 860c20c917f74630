"""Slots and leases of the watch; outputs whose content was removed at the end of its retention."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables of the watch and the mark of an output that was removed."""
    _create_slot()
    _create_lease()
    op.add_column("output", sa.Column("pruned_at", sa.BigInteger))


def _create_slot() -> None:
    op.create_table(
        "slot",
        sa.Column("number", _NUMBER, primary_key=True),
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
        sa.PrimaryKeyConstraint("number", name="pk_slot"),
        sa.ForeignKeyConstraint(["site"], ["site.number"], name="fk_slot_site"),
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

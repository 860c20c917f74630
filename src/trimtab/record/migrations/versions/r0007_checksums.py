"""A checksum for each row that a verdict may rest on, and one for the samples of each run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_TABLES = ("site", "run", "output", "snapshot", "event", "slot", "incident", "action", "alert")


def upgrade() -> None:
    """Add the columns; rows that are there have none, and count as not checked."""
    op.add_column("run", sa.Column("sample_checksum", sa.BigInteger))
    for table in _TABLES:
        op.add_column(table, sa.Column("checksum", sa.BigInteger))

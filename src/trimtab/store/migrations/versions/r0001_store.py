"""The tables of the store.

Until the first release they are what `trimtab.store.schema` declares. A second revision cannot be
written without writing them out here: `alembic revision --autogenerate` against an empty database
does.
"""

from __future__ import annotations

from alembic import op

from trimtab.store.schema import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    metadata.create_all(op.get_bind(), checkfirst=False)

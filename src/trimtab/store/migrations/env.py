"""Runs the revisions on a connection that the caller has opened a transaction on.

Alembic executes this file; imported by anything else it does nothing.
"""

from __future__ import annotations

from alembic import context


def _upgrade() -> None:
    connection = context.config.attributes["connection"]
    context.configure(
        connection=connection,
        version_table=context.config.attributes["version_table"],
        transactional_ddl=True,  # SQLite's tables can be rolled back too; Alembic assumes not
    )
    with context.begin_transaction():
        context.run_migrations()


if getattr(context, "config", None) is not None:
    _upgrade()

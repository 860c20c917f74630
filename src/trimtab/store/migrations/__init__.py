"""The revisions of the store's tables, which Alembic runs on a new or an older store."""

"""Alembic revisions of the store; shipped with the package, run when a store is opened."""

"""New stores as the migrations make them, without the migrations being run for each.

Alembic takes most of the processor time of a new store, and hundreds of tests make one. What it
has once made in a process is made again by its definitions, in the transaction in which Alembic
would have made it: all else of a new store (its lock, its other name, its link) happens as ever.
`tests/store` runs the migrations each time, and compares what both make.
"""

from __future__ import annotations

import functools
import sqlite3

from sqlalchemy import Connection

from trimtab.store import database

MIGRATE = database._upgrade
"""Makes every store by the migrations."""


def make(connection: Connection) -> None:
    """Make a new SQLite store by what the migrations once made; all else by the migrations."""
    driver = connection.connection.driver_connection
    if not isinstance(driver, sqlite3.Connection) or _tables(driver):
        MIGRATE(connection)
        return
    statements, version = definitions()
    for statement in statements:
        connection.exec_driver_sql(statement)
    connection.exec_driver_sql(f"PRAGMA user_version = {version}")


@functools.cache
def definitions() -> tuple[tuple[str, ...], int]:
    """Return the statements that make what the migrations make, and SQLite's ``user_version``."""
    engine = database.create_engine("sqlite://")
    with engine.connect() as connection:
        MIGRATE(connection)
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        dump = tuple(driver.iterdump())
        version = driver.execute("PRAGMA user_version").fetchone()[0]
    engine.dispose()
    return tuple(line for line in dump if line not in {"BEGIN TRANSACTION;", "COMMIT;"}), version


def _tables(driver: sqlite3.Connection) -> int:
    return driver.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]

"""Removing what has outlived its retention: snapshots, raw outputs' content, alerts that are over.

A file of raw content goes before the transaction ends that marks its row: a process that is killed
in between leaves a row whose file is missing, and the next pruning marks it. The other way round
it would leave a file that nothing names. Content has one file however many runs printed it, so it
stays while a run that is young enough names it, and while it was written or found again within
the last hour: such a file may belong to a run that another process is about to keep.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta
from operator import add
from typing import Final

from sqlalchemy import Connection, delete, or_, select, update

from trimtab.model.alert import Phase
from trimtab.record import schema
from trimtab.record.alerting import REMEMBERED
from trimtab.record.raw import RawDirectory
from trimtab.record.snapshots import remove_unused_bases

AT_ONCE: Final = 200
"""Rows in one transaction, so that nobody waits long for the store."""
ALERTS_AT_LEAST: Final = timedelta(days=30)
"""Younger alerts stay, however short the retention: some may still wait."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """How much was removed.

    Attributes
    ----------
    snapshots
        How many.
    outputs
        Raw outputs whose content is gone.
    files, removed_bytes
        Of their content, compressed.
    alerts
        How many.
    """

    snapshots: int = 0
    outputs: int = 0
    files: int = 0
    removed_bytes: int = 0
    alerts: int = 0

    def __add__(self, other: Pruned) -> Pruned:
        """Return both together."""
        return Pruned(*map(add, astuple(self), astuple(other)))


def prune_some(
    connection: Connection, raw: RawDirectory, site: str, *, before: datetime, now: datetime
) -> Pruned:
    """Remove at most `AT_ONCE` snapshots, outputs and alerts; nothing is left when none were."""
    query = select(schema.site.c.number).where(schema.site.c.name == site)
    number = connection.execute(query).scalar()
    if number is None:
        return Pruned()
    snapshots = _remove_snapshots(connection, number, before)
    alerts = _remove_alerts(connection, number, before, now)
    removed = Pruned(snapshots=snapshots, alerts=alerts)
    return removed + _remove_outputs(connection, raw, number, before, now)


def _remove_snapshots(connection: Connection, site: int, before: datetime) -> int:
    table = schema.snapshot
    old = (
        select(table.c.number)
        .where(table.c.site == site, table.c.at < before)
        .order_by(table.c.at)
        .limit(AT_ONCE)
    )
    numbers = connection.execute(old).scalars().all()
    if numbers:
        connection.execute(delete(table).where(table.c.number.in_(numbers)))
        remove_unused_bases(connection, site)
    return len(numbers)


def _remove_alerts(connection: Connection, site: int, before: datetime, now: datetime) -> int:
    """Remove old alerts that a later one about the same subject replaced, and all forgotten ones.

    Decisions rest on the last that was sent, and on the notes since.
    """
    table, later = schema.alert, schema.alert.alias()
    replaced = select(later.c.number).where(
        later.c.site == site,
        later.c.subject == table.c.subject,
        later.c.number > table.c.number,
        later.c.phase != Phase.NOTED.value,
    )
    old = table.c.at < min(before, now - ALERTS_AT_LEAST)
    forgotten = table.c.at < min(before, now - REMEMBERED)
    query = (
        select(table.c.number)
        .where(table.c.site == site, or_(old & replaced.exists(), forgotten))
        .limit(AT_ONCE)
    )
    numbers = connection.execute(query).scalars().all()
    if numbers:
        connection.execute(delete(table).where(table.c.number.in_(numbers)))
    return len(numbers)


def _remove_outputs(
    connection: Connection, raw: RawDirectory, site: int, before: datetime, now: datetime
) -> Pruned:
    output, run = schema.output, schema.run
    query = (
        select(output.c.run, output.c.ordinal, output.c.stdout_sha256, output.c.stderr_sha256)
        .join(run, run.c.number == output.c.run)
        # What was imported is old when it comes, and may be the only copy that is left.
        .where(run.c.site == site, run.c.at < before, run.c.import_key.is_(None))
        .where(output.c.pruned_at.is_(None))
        .order_by(run.c.at)
        .limit(AT_ONCE)
    )
    old = connection.execute(query).all()
    if not old:
        return Pruned()
    for row in old:
        this = (output.c.run == row.run, output.c.ordinal == row.ordinal)
        connection.execute(update(output).where(*this).values(pruned_at=now))
    hashes = {sha256 for row in old for sha256 in (row.stdout_sha256, row.stderr_sha256)}
    unnamed = hashes - _still_named(connection, hashes)
    sizes = [size for digest in sorted(unnamed) if (size := raw.remove(digest)) is not None]
    return Pruned(outputs=len(old), files=len(sizes), removed_bytes=sum(sizes))


def _still_named(connection: Connection, hashes: Iterable[str]) -> set[str]:
    """Return those of the hashes that an output names which was not pruned."""
    output = schema.output.c
    wanted = sorted(hashes)
    named: set[str] = set()
    for column in (output.stdout_sha256, output.stderr_sha256):
        query = select(column).distinct().where(column.in_(wanted), output.pruned_at.is_(None))
        named.update(connection.execute(query).scalars())
    return named

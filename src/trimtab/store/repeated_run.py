"""Results that are stored twice: two ids of one run, which counts once.

An archive that is imported from another place, a log with a prefix on each line, and stores that
were put together bring the same result under a second id. Counted twice, it narrows every interval
and makes one unfinished run two at a time, which is an incident. All rows stay; what judges and
explains skips those named here. Neither time nor figures alone will do: three runs a night may have
one stamp, and idle runs equal figures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, func, select

from trimtab.store import schema
from trimtab.store.checksum import of_runs
from trimtab.store.connection import AT_ONCE, between, of_site

_NOTHING: Final = schema.checksum([])
"""Checksum of the samples of a run that has none."""
_FIGURES: Final = ("metric", "value", "repetition", "target", "statistic", "reason")
"""What a sample says, wherever it stands in an output."""


@dataclass(frozen=True, slots=True)
class RepeatedRun:
    """A run whose result is stored under an earlier number too."""

    number: int
    id: str
    status: str
    first: str
    """Id of the run that counts."""


def repeated_runs(
    connection: Connection,
    site: str,
    *,
    probe: str | None = None,
    comparability: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> dict[int, RepeatedRun]:
    """Return the runs of a site that repeat one stored before them, by number.

    Notes
    -----
    Same probe, requested workload, begin, end, status and figures. Two results in one file are two,
    as its format has it. Without figures the end tells; runs without either are the same if they
    were imported from different files with the same problem, or are no imports.
    """
    run = schema.run.c

    def narrowed(query: Select[*tuple[Any, ...]]) -> Select[*tuple[Any, ...]]:
        query = between(of_site(query, schema.run, site), run.at, since, until)
        query = query if probe is None else query.where(run.probe == probe)
        return query if comparability is None else query.where(run.comparability == comparability)

    # From the index alone: hardly any store has such times.
    same = narrowed(select(run.comparability, run.at).where(run.at.is_not(None)))
    tied = same.group_by(run.comparability, run.at).having(func.count() > 1).subquery()
    if connection.execute(select(tied).limit(1)).first() is None:
        return {}
    columns = (
        run.number, run.id, run.comparability, run.at, run.until, run.status, run.problem,
        run.import_key, run.sample_checksum,
    )  # fmt: skip
    query = narrowed(select(*columns)).join(
        tied, (tied.c.comparability == run.comparability) & (tied.c.at == run.at)
    )
    at = attrgetter("comparability", "at")
    rows = connection.execute(query.order_by(run.comparability, run.at, run.number)).all()
    groups = [list(group) for _, group in groupby(rows, at)]
    figures = _figures(connection, (row for group in groups for row in _unlike(group)))
    repeated: dict[int, RepeatedRun] = {}
    for group in groups:
        counted: list[Row[Any]] = []
        for row in group:
            first = next((each for each in counted if _is_same(each, row, figures)), None)
            if first is None:
                counted.append(row)
            else:
                repeated[row.number] = RepeatedRun(row.number, row.id, row.status, first.id)
    return repeated


def _unlike(group: list[Row[Any]]) -> list[Row[Any]]:
    """Return the runs whose samples differ, if only by the lines on which they were read."""
    checksums = {row.sample_checksum for row in group}
    return group if len(checksums) > 1 or None in checksums else []


def _figures(
    connection: Connection, rows: Iterable[Row[Any]]
) -> dict[int, tuple[tuple[Any, ...], ...]]:
    """Return number to the figures of runs, in their order."""
    sample = schema.sample.c
    numbers = [row.number for row in rows]
    figures: dict[int, tuple[tuple[Any, ...], ...]] = {}
    for start in range(0, len(numbers), AT_ONCE):
        some = numbers[start : start + AT_ONCE]
        query = select(sample.run, *(sample[name] for name in _FIGURES))
        query = query.where(sample.run.in_(some)).order_by(sample.run, sample.ordinal)
        runs = select(schema.run.c.number).where(schema.run.c.number.in_(some))
        records = connection.execute(query, execution_options=of_runs(runs))
        for number, of_run in groupby(records, itemgetter(0)):
            figures[number] = tuple(tuple(record[1:]) for record in of_run)
    return figures


def _is_same(
    first: Row[Any], other: Row[Any], figures: dict[int, tuple[tuple[Any, ...], ...]]
) -> bool:
    """Return whether two runs of one series that began at one time are one and the same."""
    keys = (first.import_key, other.import_key)
    files = [None if key is None else key.partition("#")[0] for key in keys]
    if (first.until, first.status) != (other.until, other.status) or (
        None not in files and files[0] == files[1]
    ):
        return False
    # Of a run that has any, the figures were read unless the checksums are equal.
    equal = first.sample_checksum == other.sample_checksum and first.sample_checksum is not None
    if not equal and figures.get(first.number) != figures.get(other.number):
        return False
    has_figures = first.sample_checksum not in (None, _NOTHING) or first.number in figures
    if has_figures or first.until is not None:
        return True
    return first.problem == other.problem if None not in files else files == [None, None]

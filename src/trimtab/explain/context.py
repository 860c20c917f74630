"""The input of a cause: the bad hours, the good ones, and the data of both.

Frames are Polars frames. All values are plain: the store, or a test, provides them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import polars as pl

from trimtab.model.event import Event
from trimtab.model.hardware import Hardware
from trimtab.model.incident import Incident
from trimtab.model.run import RunStatus
from trimtab.model.site import SiteLimits

T = TypeVar("T")
_AT: Final = pl.Datetime("us", "UTC")
READINGS: Final[dict[str, Any]] = {
    "at": _AT, "target": pl.String, "kind": pl.String, "server": pl.String, "name": pl.String,
    "label": pl.String, "number": pl.Float64, "text": pl.String, "reason": pl.String,
}  # fmt: skip
"""Columns of `Telemetry.readings`."""
SETTINGS: Final[dict[str, Any]] = {
    "at": _AT, "target": pl.String, "kind": pl.String, "name": pl.String, "value": pl.String,
}  # fmt: skip
"""Columns of `Telemetry.settings`."""
SURVEYS: Final[dict[str, Any]] = {
    "at": _AT, "run": pl.String, "target": pl.String, "metric": pl.String, "value": pl.Float64,
}  # fmt: skip
"""Columns of `Context.surveys`."""
JOBS: Final[dict[str, Any]] = {"at": _AT, "jobs": pl.Float64, "nodes": pl.Float64}
"""Columns of `Context.jobs`."""


@dataclass(frozen=True, slots=True)
class Window:
    """A period of time, both ends inclusive; aware UTC."""

    from_: datetime
    to: datetime

    def holds(self, at: datetime) -> bool:
        """Return whether a time lies within."""
        return self.from_ <= at <= self.to


@dataclass(frozen=True, slots=True)
class RunFact:
    """One run as an explanation needs it.

    Attributes
    ----------
    id
        Id of the run.
    at, until
        Start and end, aware UTC.
    probe, kind
        Name in the site file, and benchmark.
    series
        Comparability: runs of one series had the same requested workload.
    values
        Metric to the median over believed repetitions, in the metric's unit; empty for a run
        without any.
    tails
        ``metric:statistic`` to value, of statistics other than totals (``write_latency:p99``).
    disbelieved
        Reasons of the values that may not be judged: cached reads, another workload ...
    problem
        Why the status is not ``ok``.
    hosts
        Client nodes on which it ran, where known.
    bytes_written, bytes_read
        Bytes that the run itself moved, where known.
    nodes, tasks
        Number of client nodes and of tasks, where known.
    """

    id: str
    at: datetime
    until: datetime | None
    probe: str
    kind: str
    series: str
    status: RunStatus
    values: Mapping[str, float] = field(default_factory=dict)
    tails: Mapping[str, float] = field(default_factory=dict)
    disbelieved: tuple[str, ...] = ()
    problem: str | None = None
    hosts: tuple[str, ...] = ()
    bytes_written: float | None = None
    bytes_read: float | None = None
    nodes: int | None = None
    tasks: int | None = None


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Snapshots of some times, as frames.

    Attributes
    ----------
    readings
        One row per reading: ``at`` (microseconds, UTC), ``target``, ``kind`` (``ost``, ``mdt``,
        ``file-system``; ``server`` or ``client`` for a machine, whose name is then in ``target``),
        ``server`` (that serves the target), ``name``, ``label``, ``number`` (in base SI, booleans
        as 0 and 1; null for text), ``text`` (null for numbers), ``reason`` (set where there is no
        value). Texts may be categories.
    settings
        One row per setting: ``at``, ``target``, ``kind``, ``name``, ``value``; unavailable settings
        are omitted.
    """

    readings: pl.DataFrame
    settings: pl.DataFrame


@dataclass(frozen=True, slots=True)
class CpuProfile:
    """CPU time of a server by function, from ``perf report`` or ``perf script``.

    Attributes
    ----------
    shares
        Function to its share of the samples, 0 to 1, excluding functions that it calls.
    """

    at: datetime | None
    shares: Mapping[str, float]


def once(look: Callable[[Context], T]) -> Callable[[Context], T]:
    """Return the function with its result cached per context, because every cause needs it."""
    results: WeakKeyDictionary[Context, T] = WeakKeyDictionary()

    @wraps(look)
    def known(context: Context) -> T:
        if context not in results:
            results[context] = look(context)
        return results[context]

    return known


# Compared and kept by identity: frames have no equality, and what is worked out from a context is
# kept for as long as it lives (`trimtab.explain.telemetry.observe`).
@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Context:
    """One incident with all data that may explain it.

    Attributes
    ----------
    bad, good
        Periods of the incident, and of its reference: times of the same probe at its usual level,
        before the incident where there are enough, otherwise also after it. ``good`` is empty where
        the record has none.
    record_from
        The first run of the record: a condition that existed by then cannot be contrasted.
    now
        End of the record.
    runs
        Of every probe of the site within ``bad`` and ``good``, whatever their status.
    surveys
        One row per target measured separately, within ``bad`` and ``good``: ``at``, ``run``,
        ``target``, ``metric``, ``value``.
    telemetry
        Snapshots within ``bad`` and ``good``.
    events
        The log book from two weeks before ``bad`` on, and the last trim before it.
    log_entries
        How many entries the log book has up to the incident's end, of all the record; ``None``:
        those of ``events``.
    has_site_file
        Whether commands that look at the file system can be advised; of an archive they cannot.
    home
        Target to the server that serves it when nothing has failed over.
    jobs
        Of the whole machine by the accounting of its batch system: ``at`` is the middle of an hour,
        ``jobs`` and ``nodes`` how many ran and were busy on the mean; within ``bad`` and ``good``.
    """

    incident: Incident
    bad: tuple[Window, ...]
    good: tuple[Window, ...]
    record_from: datetime
    now: datetime
    telemetry: Telemetry
    surveys: pl.DataFrame
    runs: tuple[RunFact, ...] = ()
    events: tuple[Event, ...] = ()
    limits: SiteLimits = field(default_factory=SiteLimits)
    hardware: Hardware = field(default_factory=Hardware)
    home: Mapping[str, str] = field(default_factory=dict)
    profiles: tuple[CpuProfile, ...] = ()
    jobs: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=JOBS))
    log_entries: int | None = None
    has_site_file: bool = True

    @property
    def end(self) -> datetime:
        """The end of the bad periods; of a level that stays, of its first days.

        What came later has no part in an explanation, but what confirms it.
        """
        return max((window.to for window in self.bad), default=self.now)

    def entries(self, fit: Callable[[Event], object]) -> list[Event]:
        """Return the matching entries of the log book, the earliest first."""
        return sorted(filter(fit, self.events), key=lambda event: event.at)

    def is_bad(self, at: datetime) -> bool:
        """Return whether a time is within the bad periods."""
        return any(window.holds(at) for window in self.bad)

    def is_good(self, at: datetime) -> bool:
        """Return whether a time is within the good periods."""
        return any(window.holds(at) for window in self.good)

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
        """Return whether a time is inside."""
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
        Client nodes on which it ran, if known.
    bytes_written, bytes_read
        Bytes moved by the run itself, if known.
    nodes, tasks
        Number of client nodes and of tasks, if known.
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
    """Snapshots of several times, as frames.

    Attributes
    ----------
    readings
        One row per reading: ``at`` (microseconds, UTC), ``target``, ``kind`` (``ost``, ``mdt``,
        ``file-system``; ``server`` or ``client`` for a machine, whose name is then in ``target``),
        ``server`` (that serves the target), ``name``, ``label``, ``number`` (in base SI, booleans
        as 0 and 1; null for text), ``text`` (null for numbers), ``reason`` (set if there is no
        value). Texts may be categories.
    settings
        One row per setting: ``at``, ``target``, ``kind``, ``name``, ``value``; without those that
        were unavailable.
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
    """Return the function with its result cached per context: several causes share it."""
    results: WeakKeyDictionary[Context, T] = WeakKeyDictionary()

    @wraps(look)
    def known(context: Context) -> T:
        if context not in results:
            results[context] = look(context)
        return results[context]

    return known


# Compared by identity: frames have no equality, and results derived from a context are cached for
# as long as it lives (`trimtab.explain.telemetry.observe`).
@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Context:
    """One incident with all data that may explain it.

    Attributes
    ----------
    bad, good
        Periods of the incident and of its reference: times of the same probe at its usual level,
        before the incident if there are enough, otherwise also after it. ``good`` is empty if the
        record has none.
    record_from
        First run of the record: a condition that already existed then has no contrast in time.
    now
        End of the record.
    runs
        Runs of every probe of the site within ``bad`` and ``good``, whatever their status.
    surveys
        One row per target measured separately, within ``bad`` and ``good``: ``at``, ``run``,
        ``target``, ``metric``, ``value``.
    telemetry
        Snapshots within ``bad`` and ``good``.
    events
        Log book from two weeks before ``bad``, and the last trim before it.
    log_entries
        Number of log book entries of the whole record up to the end of the incident; ``None``:
        those in ``events``.
    has_site_file
        Whether to suggest commands that access the file system; impossible for an archive.
    home
        Target to its server when nothing has failed over.
    jobs
        Batch accounting of the whole machine within ``bad`` and ``good``: ``at`` is the middle of
        an hour, ``jobs`` and ``nodes`` are the mean numbers running and busy.
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
        """The end of the bad periods; for a lasting level, of its first days.

        Anything later cannot explain the incident, only confirm it.
        """
        return max((window.to for window in self.bad), default=self.now)

    def entries(self, fit: Callable[[Event], object]) -> list[Event]:
        """Return the matching log book entries, earliest first."""
        return sorted(filter(fit, self.events), key=lambda event: event.at)

    def is_bad(self, at: datetime) -> bool:
        """Return whether a time is within the bad periods."""
        return any(window.holds(at) for window in self.bad)

    def is_good(self, at: datetime) -> bool:
        """Return whether a time is within the good periods."""
        return any(window.holds(at) for window in self.good)

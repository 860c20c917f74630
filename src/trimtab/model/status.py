"""The current status of sites, from the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from trimtab.model.finding import Finding
from trimtab.model.run import Run
from trimtab.model.series import ChangePoint, LevelNow
from trimtab.model.verdict import Trend, Verdict
from trimtab.report.documents.encode import shape


@dataclass(frozen=True, slots=True)
class SeriesStatus:
    """Status of one series of comparable runs: one metric of one probe.

    Attributes
    ----------
    id
        As `trimtab.model.series.SeriesKey.id`.
    runs
        Number of runs.
    last_at, last_value
        Time of the last run, aware UTC, and its value in the metric's unit.
    verdict, trend
        Over the last window, and over days.
    asked
        Parameters that distinguish the series from others of its probe and benchmark: parameter to
        value, ``None`` if not set. Empty if there is no other.
    suspect
        A level change suspected at its last run and not confirmed yet.
    """

    site: str
    probe: str
    kind: str
    runs: int
    last_at: datetime
    last_value: float
    verdict: Verdict
    trend: Trend
    asked: Mapping[str, object] = field(default_factory=dict)
    suspect: ChangePoint | None = None
    id: str = ""


@dataclass(frozen=True, slots=True)
class IncidentStatus:
    """An incident that has not ended, as last recorded.

    Attributes
    ----------
    at
        First bad run, aware UTC.
    effect
        Ratio of bad to good level.
    cause, confidence
        The likeliest cause and its probability, 0 to 1; ``None`` if unexplained.
    probe, metric
        The series in which it is most visible; ``None`` if no series shows it.
    level_now
        As `trimtab.model.incident.Incident.level_now`.
    """

    site: str
    id: str
    at: datetime
    state: str
    certainty: str
    effect: float | None
    summary: str
    cause: str | None
    confidence: float | None
    probe: str | None = None
    metric: str | None = None
    level_now: LevelNow | None = None


@dataclass(frozen=True, slots=True)
class JudgedStatus:
    """When incidents of a site were last searched for.

    Attributes
    ----------
    at
        Time of the search, aware UTC.
    until
        The last run that it covered.
    newer_runs
        Number of runs since then, which the incidents do not take into account.
    """

    site: str
    at: datetime
    until: datetime | None
    newer_runs: int


@dataclass(frozen=True, slots=True)
class SlowestTargets:
    """The slowest targets of the last survey of a site, one metric.

    Attributes
    ----------
    at
        Time of the survey, aware UTC.
    targets
        Number of measured targets.
    median
        Median of all targets of that survey, in ``unit``.
    slowest
        Pairs of target and value in ``unit``, slowest first.
    """

    site: str
    at: datetime
    metric: str
    unit: str
    targets: int
    median: float
    slowest: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class SlowTargetStatus:
    """A target that is slow in surveys and has not recovered.

    Attributes
    ----------
    metric
        The metric in which it is slowest.
    since, last
        First and last survey in which it was slow, aware UTC.
    share
        Its rate in the last of them, relative to its earlier rate.
    surveys
        Number of surveys in which it was slow.
    """

    site: str
    target: str
    metric: str
    since: datetime
    last: datetime
    share: float
    surveys: int


@dataclass(frozen=True, slots=True)
class RejectedSeries:
    """A series in which no run can be judged.

    Attributes
    ----------
    runs
        Number of runs that failed, did not start, or ran another workload.
    reason
        The most frequent reason, with its number of runs if there are others.
    """

    site: str
    probe: str
    kind: str
    runs: int
    reason: str


@dataclass(frozen=True, slots=True)
class SweepStatus:
    """A sweep with runs in the store; ``trimtab sweep`` analyses it.

    Attributes
    ----------
    name, probe
        Name of the sweep, and the probe name of its runs.
    settings, runs
        Number of series with different settings, and number of runs of any status.
    """

    site: str
    name: str
    probe: str
    settings: int
    runs: int


@dataclass(frozen=True, slots=True)
class ProbeCost:
    """The cost of the probes of a site.

    Attributes
    ----------
    from_, to
        The period covered: a week up to the last run.
    runs
        Number of Trimtab's own runs in it; imported runs are not counted.
    bytes_written, bytes_read
        Bytes moved by the benchmarks, before parity and write amplification.
    node_hours
        Of all runs with known nodes and times; ``None`` if there is none.
    drive_writes_per_day
        Bytes written per day over the capacity of the file system: the part of the drives' rated
        endurance (DWPD) used for probing, before parity and write amplification.
    reason
        Why that is unknown, or higher than stated.
    """

    site: str
    from_: datetime
    to: datetime
    runs: int
    bytes_written: int
    bytes_read: int
    node_hours: float | None
    drive_writes_per_day: float | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """A site with snapshots only, and the time of the last one."""

    site: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Status:
    """The current status: every series, and the last runs of any status.

    Attributes
    ----------
    store
        Location of the store.
    window_s
        Length in seconds of the window, up to the last run of a series, that its verdict covers.
    rejected
        Series without a verdict because none of their runs can be judged.
    snapshots
        Sites without runs but with snapshots, and the time of the last one.
    """

    store: str
    window_s: float
    sites: tuple[str, ...]
    series: tuple[SeriesStatus, ...]
    last_runs: tuple[Run, ...]
    costs: tuple[ProbeCost, ...] = ()
    sweeps: tuple[SweepStatus, ...] = ()
    incidents: tuple[IncidentStatus, ...] = ()
    judged: tuple[JudgedStatus, ...] = ()
    slowest: tuple[SlowestTargets, ...] = ()
    slow_targets: tuple[SlowTargetStatus, ...] = ()
    rejected: tuple[RejectedSeries, ...] = ()
    snapshots: tuple[SnapshotStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class StatusDocument:
    """``trimtab status --json``.

    Attributes
    ----------
    troubles
        What is wrong with each site now, worst first, each with its repair.
    """

    status: Status
    troubles: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)


shape(SeriesStatus, derive={"metric": "verdict.metric", "unit": "verdict.unit"})
shape(
    Status,
    omit=["last_runs"],
    derive={"runs": "last_runs"},
)
shape(StatusDocument, inline={"status": ()})

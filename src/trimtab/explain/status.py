"""The status of sites as plain values: targets, machines, series, incidents, purges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from trimtab.base.encode import shape
from trimtab.base.finding import Finding, Severity
from trimtab.base.maintenance_window import AfterMaintenance, MaintenanceWindow
from trimtab.base.run import Run
from trimtab.base.series import ChangePoint, LevelNow, SeriesJudgement
from trimtab.base.snapshot import HostSnapshot, Snapshot, TargetSnapshot
from trimtab.base.verdict import Trend, Verdict
from trimtab.judge.crossing import Crossing


@dataclass(frozen=True, slots=True)
class PlanSlot:
    """A time at which a purge plan was due, and the outcome.

    Attributes
    ----------
    state
        ``done``, ``failed`` or ``missed``.
    detail
        Why it failed or was missed; for a completed one: why no plan was needed.
    """

    at: datetime
    state: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class PurgeTrouble:
    """Why a scheduled purge does not free the space it should.

    Attributes
    ----------
    id
        ``purge-failed``, ``purge-overdue`` or ``purge-plan-failed``.
    at
        Time of the run or plan; if overdue, of the last run.
    """

    id: str
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """One problem of a target or a machine.

    Attributes
    ----------
    id
        A stable word: ``lost``, ``read-only``, ``closed`` ...
    text
        What is wrong, in a few words, with its figure.
    source
        The parameter, file or command that reports it.
    """

    id: str
    severity: Severity
    text: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class FullWhen:
    """When a target passes its limit, and when it is full.

    Attributes
    ----------
    kind
        ``bytes`` or ``inodes``.
    """

    kind: str
    limit: Crossing
    full: Crossing


@dataclass(frozen=True, slots=True)
class TargetState:
    """One target with its readings and its problems, worst first.

    Attributes
    ----------
    full_when
        For space and for inodes, as of the day before; empty if nothing is stored of it.
    """

    seen: TargetSnapshot
    troubles: tuple[Trouble, ...] = ()
    full_when: tuple[FullWhen, ...] = ()

    @property
    def name(self) -> str:
        """The target's name."""
        return self.seen.target.name

    @property
    def rank(self) -> tuple[int, int, int, float]:
        """Sort key: worst severity, then exposed data, then more problems, then higher fullness.

        A degraded target that still accepts new files ranks before a closed one: closing it adds a
        problem and removes a risk.
        """
        worst = min((trouble.severity.rank for trouble in self.troubles), default=len(Severity))
        degraded = any(trouble.id == "degraded" for trouble in self.troubles)
        open_ = self.seen.value("create_enabled") is not False
        exposed = 0 if degraded and open_ else 1
        return worst, exposed, -len(self.troubles), -(self.seen.fullness() or 0.0)


@dataclass(frozen=True, slots=True)
class HostState:
    """One machine with its problems, worst first."""

    name: str
    role: str
    troubles: tuple[Trouble, ...] = ()


@dataclass(frozen=True, slots=True)
class SiteState:
    """All targets of a site at one time, sorted by severity.

    Attributes
    ----------
    hosts
        Machines with a problem of their own.
    kept
        Whether the snapshot comes from the store.
    """

    site: str
    snapshot: Snapshot
    targets: tuple[TargetState, ...]
    hosts: tuple[HostState, ...] = ()
    kept: bool = False

    def without_readings(self) -> SiteState:
        """Return the targets and machines with their troubles alone."""
        snapshot = replace(self.snapshot, targets=(), hosts=())
        targets = tuple(
            replace(each, seen=TargetSnapshot(each.seen.target, ())) for each in self.targets
        )
        return replace(self, snapshot=snapshot, targets=targets)


@dataclass(frozen=True, slots=True)
class HostRow:
    """One machine of the site."""

    host: HostSnapshot
    troubles: tuple[Trouble, ...]


def _host_rows(state: SiteState) -> tuple[HostRow, ...]:
    troubles = {host.name: host.troubles for host in state.hosts}
    return tuple(HostRow(host, troubles.get(host.name, ())) for host in state.snapshot.hosts)


shape(HostRow, inline={"host": ()})
shape(TargetState, inline={"seen": ()})
shape(
    SiteState,
    inline={"snapshot": ("at", "driver", "complete")},
    derive={"hosts": (tuple[HostRow, ...], _host_rows)},
)


@dataclass(frozen=True, slots=True)
class SnapshotDocument:
    """``trimtab snapshot --json``: what was stored, under which id, and where."""

    store: str
    id: str
    snapshot: SiteState


BENCHMARK: Final = "benchmark"
"""Name of the benchmark among the settings that distinguish series: `SeriesStatus.asked`."""


@dataclass(frozen=True, slots=True)
class SeriesStatus:
    """Status of one series of comparable runs: one metric of one probe.

    Attributes
    ----------
    id
        As `trimtab.base.series.SeriesKey.id`.
    runs
        Number of runs.
    last_at, last_value
        Time of the last run, aware UTC, and its value in the metric's unit.
    verdict, trend
        Over the last window, and over days.
    asked
        What distinguishes the series from others of its probe: ``benchmark`` if the probe has
        several, then parameter to value, ``None`` if not set; ``series``, the beginning of its key,
        if that does not suffice. Empty if there is no other.
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
        As `trimtab.base.incident.Incident.level_now`.
    series
        Id of that series, as `trimtab.base.series.SeriesKey.id`; ``None`` if unknown.
    name
        Display name of that series, distinct within its site; empty: probe and metric.
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
    series: str | None = None
    name: str = ""


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


@dataclass(frozen=True, slots=True)
class SiteStanding:
    """The current knowledge about a site.

    Attributes
    ----------
    state
        Targets and machines, live or from the last stored snapshot; ``None`` if there is none.
    incidents
        Incidents that have not ended.
    slow
        Targets that surveys show to be slow.
    series
        Every series judged; empty if none was, as in a status.
    verdicts
        On the COV of each series over the last window; ``None``: not requested.
    suspects
        Number of series with a suspected change.
    purging
        What is wrong with the scheduled purge.
    searched
        Whether incidents were ever searched for; ``None``: a file, which has none.
    where
        How commands name the site; empty: by its name; ``None``: it has no site file.
    maintenance
        The window that the site is in.
    after
        What is different since a maintenance, the worst first.
    """

    site: str
    state: SiteState | None = None
    incidents: tuple[IncidentStatus, ...] = ()
    slow: tuple[SlowTargetStatus, ...] = ()
    series: tuple[SeriesJudgement, ...] = ()
    verdicts: tuple[Verdict, ...] | None = None
    suspects: int = 0
    purging: tuple[PurgeTrouble, ...] = ()
    searched: bool | None = None
    where: str | None = ""
    maintenance: MaintenanceWindow | None = None
    after: tuple[AfterMaintenance, ...] = ()

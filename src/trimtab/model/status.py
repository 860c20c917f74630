"""Where things stand, from what is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from trimtab.model.run import Run
from trimtab.model.series import ChangePoint
from trimtab.model.verdict import Trend, Verdict


@dataclass(frozen=True, slots=True)
class SeriesStatus:
    """Where one series of comparable runs stands: one metric of one probe.

    Attributes
    ----------
    last_at, last_value
        Of the last run, in the metric's unit.
    asked
        What sets the series apart from others of its probe and benchmark: parameter to value,
        ``None`` where it is not set. Empty where there is no other.
    suspect
        A change of level that is suspected at its last run and not confirmed yet.
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


@dataclass(frozen=True, slots=True)
class IncidentStatus:
    """An incident that is not over, as it was last found.

    Attributes
    ----------
    cause, confidence
        The likeliest one; ``None`` where it is unexplained.
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


@dataclass(frozen=True, slots=True)
class JudgedStatus:
    """When the incidents of a site were last looked for.

    Attributes
    ----------
    until
        The last run that was looked at.
    newer_runs
        Runs since: what is said of incidents does not know them.
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
    median
        Of all targets of that survey.
    slowest
        Target and value, the slowest first.
    """

    site: str
    at: datetime
    metric: str
    unit: str
    targets: int
    median: float
    slowest: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class SweepStatus:
    """A sweep that something is kept of; what it showed is for ``trimtab sweep`` to say.

    Attributes
    ----------
    name, probe
        Of the sweep, and under which its runs are kept.
    settings, runs
        How many series of different settings there are, and runs whatever their status.
    """

    site: str
    name: str
    probe: str
    settings: int
    runs: int


@dataclass(frozen=True, slots=True)
class ProbeCost:
    """What the probes of a site cost it.

    Attributes
    ----------
    from_, to
        The stretch that was looked at: a week up to the last run.
    runs
        Of our own within it; what others ran and we imported is not our cost.
    bytes_written, bytes_read
        By the benchmarks, before parity and write amplification.
    node_hours
        Of all runs that tell; ``None`` where none does.
    drive_writes_per_day
        Bytes written a day over the capacity of the file system: how much of the drives' rated
        endurance (DWPD) goes into probing, before parity and write amplification.
    reason
        Why that is not known, or more than it says.
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
class Status:
    """Where things stand: every series, and the last runs whatever they were.

    ``window_s`` is the stretch, up to the last run of a series, that its verdict is about.
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

"""The metrics of a watched site: every name with its type, unit and labels, and their samples.

Names follow Prometheus: base units, ``_total`` for counters, ``_timestamp_seconds`` for times, one
unit per name. Labels are bounded by the site: its targets, probes, causes and policies; never
users, jobs or paths. Pure: `samples` maps known values to rows; nothing is measured here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Final, Literal

from trimtab.base.run import grouped
from trimtab.base.site import Site
from trimtab.base.snapshot import Snapshot, TargetSnapshot
from trimtab.base.verdict import Verdict, VerdictStatus
from trimtab.explain.space_forecast import full_soon
from trimtab.explain.status import FullWhen
from trimtab.explain.trouble import target_troubles
from trimtab.store.slot import Slot

Kind = Literal["gauge", "counter", "info"]
_SITE: Final = ("site",)
_SERIES: Final = (*_SITE, "probe", "kind", "metric")
_TARGET: Final = (*_SITE, "target")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes
    ----------
    name
        Without ``_total`` and ``_info``, which the exposition adds.
    """

    name: str
    help: str
    labels: tuple[str, ...] = _SITE
    kind: Kind = "gauge"


LEVELS: Final[Mapping[str, tuple[str, str]]] = {
    "B/s": ("bandwidth_bytes_per_second", "bandwidth"),
    "1/s": ("rate_per_second", "operations or items a second"),
    "s": ("time_seconds", "time"),
    "1": ("share_ratio", "share"),
    "B": ("volume_bytes", "volume"),
    "points": ("score", "score"),
}
"""Unit of a probe's metric to the end of its name here, and its description."""

_READINGS: Final[Mapping[str, tuple[str, Kind, str]]] = {
    "capacity_bytes": ("capacity_bytes", "gauge", "Size of the target."),
    "used_bytes": ("used_bytes", "gauge", "Space in use."),
    "available_bytes": ("available_bytes", "gauge", "Space that users can still write."),
    "inodes_total": ("inodes", "gauge", "Inodes that the target can have."),
    "inodes_free": ("inodes_free", "gauge", "Inodes not in use."),
    "bytes_written_total": ("written_bytes", "counter", "Bytes written to the target."),
    "bytes_read_total": ("read_bytes", "counter", "Bytes read from the target."),
    "bytes_discarded_total": ("discarded_bytes", "counter", "Bytes handed back to the flash."),
    "allocator_requests_total": (
        "allocator_requests", "counter", "Requests to the block allocator.",
    ),
    "drive_host_written_bytes_total": (
        "drive_host_written_bytes", "counter", "Bytes that the drives were given to write.",
    ),
    "drive_media_written_bytes_total": (
        "drive_media_written_bytes", "counter", "Bytes that the drives wrote to flash.",
    ),
    # A ring forgets: as counters they would seem to begin anew each time.
    "evictions_total": ("evictions", "gauge", "Clients evicted that kernel logs still name."),
    "reconnections_total": ("reconnections", "gauge", "Clients that came back, in the same logs."),
    "lock_timeouts_total": ("lock_timeouts", "gauge", "Clients evicted for a lock, in them."),
    "slow_requests_total": ("slow_requests", "gauge", "Requests that timed out, in them."),
}  # fmt: skip
"""Telemetry of a target to its metric: the end of the name, the kind, and the help.

For several drives it is the sum.
"""

METRICS: Final = (
    Metric("trimtab_site", "The site and the program.", (*_SITE, "driver", "version"), kind="info"),
    *(
        Metric(f"trimtab_probe_{prefix}{ending}", f"{words}: {text}.", _SERIES)
        for ending, text in LEVELS.values()
        for prefix, words in (("", "Mean over the window"), ("last_", "Last run"))
    ),
    Metric("trimtab_probe_cov_ratio", "Coefficient of variation, whole window.", _SERIES),
    Metric("trimtab_probe_cov_lower_bound_ratio", "Lower end of its 95 % interval.", _SERIES),
    Metric("trimtab_probe_cov_upper_bound_ratio", "Upper end of its 95 % interval.", _SERIES),
    Metric("trimtab_probe_cov_goal_ratio", "Highest COV that meets the goal.", _SERIES),
    Metric(
        "trimtab_probe_goal_state",
        "1 for the state of the goal: met, missed or cannot_tell.",
        (*_SERIES, "state"),
    ),
    Metric("trimtab_probe_last_run_timestamp_seconds", "Start of the last run.", _SERIES),
    Metric("trimtab_probe_runs", "Runs by status.", (*_SITE, "probe", "status"), kind="counter"),
    Metric(
        "trimtab_targets",
        "Targets by their worst problem; ok without a problem.",
        (*_SITE, "state"),
    ),
    Metric(
        "trimtab_target_trouble",
        "1 for each problem of a target.",
        (*_TARGET, "trouble", "severity"),
    ),
    Metric("trimtab_target_fullness_ratio", "Used / (used + available).", _TARGET),
    Metric(
        "trimtab_target_limit_timestamp_seconds",
        "When it probably passes its limit; kind is bytes or inodes.",
        (*_TARGET, "kind"),
    ),
    Metric(
        "trimtab_target_full_timestamp_seconds",
        "When it is probably full; kind is bytes or inodes.",
        (*_TARGET, "kind"),
    ),
    Metric("trimtab_target_creation_enabled", "Whether it takes new files, 1 or 0.", _TARGET),
    *(
        Metric(f"trimtab_target_{ending}", text, _TARGET, kind)
        for ending, kind, text in _READINGS.values()
    ),
    Metric(
        "trimtab_target_allocator_useless_loops",
        "Scans of all groups without a result, by criterion.",
        (*_TARGET, "criterion"),
        kind="counter",
    ),
    Metric(
        "trimtab_target_write_amplification_ratio",
        "Bytes written to flash over bytes given, over the life of its drives.",
        _TARGET,
    ),
    Metric("trimtab_target_trimmed_timestamp_seconds", "Last known trim.", _TARGET),
    Metric("trimtab_fullness_limit_ratio", "Fullness that targets must not exceed."),
    Metric("trimtab_snapshot_timestamp_seconds", "Time of the last snapshot."),
    Metric("trimtab_snapshot_complete", "Whether every server answered it, 1 or 0."),
    Metric("trimtab_servers_differing", "Machines that differ from most of their role."),
    Metric("trimtab_incidents_open", "Ongoing incidents, by cause.", (*_SITE, "cause")),
    Metric("trimtab_incidents_judged_timestamp_seconds", "When they were looked for."),
    Metric(
        "trimtab_actions",
        "Actions by outcome.",
        (*_SITE, "policy", "kind", "outcome"),
        kind="counter",
    ),
    Metric("trimtab_plans_waiting", "Plans that wait for approval.", (*_SITE, "policy")),
    Metric("trimtab_alerts_waiting", "Alerts not delivered yet.", (*_SITE, "receiver")),
    Metric("trimtab_alert_failures", "Attempts since the last delivery.", (*_SITE, "receiver")),
    Metric("trimtab_in_maintenance", "Whether a maintenance of the site goes on, 1 or 0."),
    Metric("trimtab_alerts_silenced", "Alerts that a person silenced for now."),
    Metric("trimtab_watch_slots", "Slots by state.", (*_SITE, "item", "state"), kind="counter"),
    Metric(
        "trimtab_watch_slot_lag_seconds",
        "Start of the last slot after its time.",
        (*_SITE, "item"),
    ),
    Metric(
        "trimtab_watch_slot_duration_seconds",
        "Duration of the last slot; item snapshot is a snapshot.",
        (*_SITE, "item"),
    ),
    Metric(
        "trimtab_watch_last_slot_timestamp_seconds",
        "Time of the last slot done.",
        (*_SITE, "item"),
    ),
    Metric("trimtab_watch_refreshed_timestamp_seconds", "When these metrics were read."),
    Metric("trimtab_watch_refresh_duration_seconds", "How long reading them took."),
    Metric("trimtab_store_size_bytes", "Size of the store's database file."),
)
"""Every metric, in the order of the exposition."""


@dataclass(frozen=True, slots=True)
class SeriesNow:
    """One metric of one probe: its verdict over the window, and the last run.

    Attributes
    ----------
    last_value
        In the metric's unit.
    """

    probe: str
    kind: str
    verdict: Verdict
    last_at: datetime
    last_value: float


@dataclass(frozen=True, slots=True)
class ReceiverNow:
    """A receiver of alerts: how many wait, and its failures since the last delivery."""

    name: str
    waiting: int
    failures: int


@dataclass(frozen=True, slots=True)
class SiteNow:
    """Everything behind the metrics of a site.

    Attributes
    ----------
    file_system
        Lustre's name of the file system, used by its servers in target names; ``None``: it is not
        Lustre.
    runs, slots
        Probe and status, or item and state, to their number.
    actions
        Policy, kind and outcome to their number.
    causes
        Cause id of each open incident; ``unexplained``.
    full_when
        Target to its forecasts.
    trimmed
        Target to its last trim.
    plans
        Policy to the number of plans that wait for approval.
    in_maintenance, silenced
        Whether a window of the whole site holds, and the number of silences that do.
    last_slots
        Last completed slot of each item.
    refreshed_s
        Time spent reading all this.
    """

    site: Site
    version: str
    at: datetime
    file_system: str | None = None
    series: tuple[SeriesNow, ...] = ()
    runs: Mapping[tuple[str, str], int] = field(default_factory=dict)
    snapshot: Snapshot | None = None
    full_when: Mapping[str, tuple[FullWhen, ...]] = field(default_factory=dict)
    trimmed: Mapping[str, datetime] = field(default_factory=dict)
    causes: tuple[str, ...] = ()
    judged_at: datetime | None = None
    actions: Mapping[tuple[str, str, str | None], int] = field(default_factory=dict)
    plans: Mapping[str, int] = field(default_factory=dict)
    receivers: tuple[ReceiverNow, ...] = ()
    in_maintenance: bool | None = None
    silenced: int | None = None
    slots: Mapping[tuple[str, str], int] = field(default_factory=dict)
    last_slots: tuple[Slot, ...] = ()
    servers_differing: int | None = None
    store_bytes: int | None = None
    refreshed_s: float | None = None


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One sample: a metric's name, the values of its labels after the site, and its value."""

    name: str
    labels: tuple[str, ...]
    value: float


def samples(now: SiteNow) -> Iterator[MetricSample]:
    """Yield every sample of a site; unknown values have none, never 0."""
    yield MetricSample("trimtab_site", (now.site.driver, now.version), 1.0)
    yield MetricSample("trimtab_fullness_limit_ratio", (), now.site.limits.fullness)
    yield from _probes(now)
    if now.snapshot is not None:
        yield from _targets(now, now.snapshot)
    for cause, count in sorted(Counter(now.causes).items()):
        yield MetricSample("trimtab_incidents_open", (cause,), count)
    if not now.causes and now.judged_at is not None:
        yield MetricSample("trimtab_incidents_open", ("unexplained",), 0.0)
    yield from _times({"trimtab_incidents_judged_timestamp_seconds": now.judged_at})
    for (policy, kind, outcome), count in sorted(now.actions.items(), key=str):
        yield MetricSample("trimtab_actions", (policy, kind, outcome or "unknown-yet"), count)
    for policy, count in sorted(now.plans.items()):
        yield MetricSample("trimtab_plans_waiting", (policy,), count)
    for receiver in now.receivers:
        yield MetricSample("trimtab_alerts_waiting", (receiver.name,), receiver.waiting)
        yield MetricSample("trimtab_alert_failures", (receiver.name,), receiver.failures)
    if now.in_maintenance is not None:
        yield MetricSample("trimtab_in_maintenance", (), float(now.in_maintenance))
    if now.silenced is not None:
        yield MetricSample("trimtab_alerts_silenced", (), now.silenced)
    yield from _watch(now)


def _probes(now: SiteNow) -> Iterator[MetricSample]:
    for series in now.series:
        verdict = series.verdict
        labels = (series.probe, series.kind, verdict.metric)
        ending = LEVELS[verdict.unit][0]
        interval = verdict.cov_interval
        values = {
            f"trimtab_probe_{ending}": verdict.mean,
            f"trimtab_probe_last_{ending}": series.last_value,
            "trimtab_probe_cov_ratio": verdict.cov,
            "trimtab_probe_cov_lower_bound_ratio": None if interval is None else interval.low,
            "trimtab_probe_cov_upper_bound_ratio": None if interval is None else interval.high,
            "trimtab_probe_cov_goal_ratio": verdict.goal,
            "trimtab_probe_last_run_timestamp_seconds": series.last_at.timestamp(),
        }
        for name, value in values.items():
            if value is not None:
                yield MetricSample(name, labels, value)
        for state in VerdictStatus:
            is_state = verdict.status is state
            yield MetricSample("trimtab_probe_goal_state", (*labels, state.value), float(is_state))
    for (probe, status), count in sorted(now.runs.items()):
        yield MetricSample("trimtab_probe_runs", (probe, status), count)


def _targets(now: SiteNow, snapshot: Snapshot) -> Iterator[MetricSample]:
    yield from _times({"trimtab_snapshot_timestamp_seconds": snapshot.at})
    yield MetricSample("trimtab_snapshot_complete", (), float(snapshot.complete))
    states: Counter[str] = Counter({"ok": 0})
    for seen in snapshot.targets:
        name, forecasts = _full_name(now, seen), now.full_when.get(seen.target.name, ())
        more = full_soon(forecasts, snapshot.at)
        troubles = target_troubles(seen, now.site.limits, more)
        states[troubles[0].id if troubles else "ok"] += 1
        known = {trouble.id: trouble for trouble in troubles}
        for trouble in known.values():
            labels = (name, trouble.id, trouble.severity.value)
            yield MetricSample("trimtab_target_trouble", labels, 1.0)
        yield from _target(seen, name, now.trimmed.get(seen.target.name))
        for each in forecasts:
            for crossing, level in ((each.limit, "limit"), (each.full, "full")):
                if crossing.at is not None:
                    metric = f"trimtab_target_{level}_timestamp_seconds"
                    yield MetricSample(metric, (name, each.kind), crossing.at.timestamp())
    for state, count in sorted(states.items()):
        yield MetricSample("trimtab_targets", (state,), count)


def _full_name(now: SiteNow, seen: TargetSnapshot) -> str:
    """Return a target's name in the form of Lustre exporters: ``scratch-OST0000``."""
    return "-".join(filter(None, (now.file_system, seen.target.name)))


def _target(seen: TargetSnapshot, name: str, trimmed_at: datetime | None) -> Iterator[MetricSample]:
    if (fullness := seen.fullness()) is not None:
        yield MetricSample("trimtab_target_fullness_ratio", (name,), fullness)
    creation = seen.value("create_enabled")
    if isinstance(creation, bool):
        yield MetricSample("trimtab_target_creation_enabled", (name,), float(creation))
    for reading, (ending, _, _) in _READINGS.items():
        if (value := _sum_of(seen, reading)) is not None:
            yield MetricSample(f"trimtab_target_{ending}", (name,), value)
    loops = seen.labelled("allocator_useless_loops_total")
    whole = seen.number("allocator_useless_loops_total")
    if whole is not None and not loops:
        loops = {"all": whole}
    for criterion, count in sorted(loops.items()):
        yield MetricSample("trimtab_target_allocator_useless_loops", (name, criterion), count)
    host = _sum_of(seen, "drive_host_written_bytes_total")
    media = _sum_of(seen, "drive_media_written_bytes_total")
    if host and media is not None:
        yield MetricSample("trimtab_target_write_amplification_ratio", (name,), media / host)
    elif factors := _values_of(seen, "drive_write_amplification"):
        mean = sum(factors) / len(factors)
        yield MetricSample("trimtab_target_write_amplification_ratio", (name,), mean)
    if trimmed_at is not None:
        yield MetricSample(
            "trimtab_target_trimmed_timestamp_seconds", (name,), trimmed_at.timestamp()
        )


def _values_of(seen: TargetSnapshot, name: str) -> list[float]:
    """Return a reading without a label, else all with one; empty if one is missing."""
    whole = seen.number(name)
    if whole is not None:
        return [whole]
    labelled = [reading for reading in seen.readings if reading.name == name and reading.label]
    values = seen.labelled(name)
    return list(values.values()) if len(values) == len(labelled) else []


def _sum_of(seen: TargetSnapshot, name: str) -> float | None:
    values = _values_of(seen, name)
    return sum(values) if values else None


def _watch(now: SiteNow) -> Iterator[MetricSample]:
    for (item, state), count in sorted(now.slots.items()):
        yield MetricSample("trimtab_watch_slots", (item, state), count)
    for slot in now.last_slots:
        if slot.started_at is not None:
            lag_s = (slot.started_at - slot.due_at).total_seconds()
            yield MetricSample("trimtab_watch_slot_lag_seconds", (slot.item,), lag_s)
            if slot.ended_at is not None:
                duration_s = (slot.ended_at - slot.started_at).total_seconds()
                yield MetricSample("trimtab_watch_slot_duration_seconds", (slot.item,), duration_s)
        due_s = slot.due_at.timestamp()
        yield MetricSample("trimtab_watch_last_slot_timestamp_seconds", (slot.item,), due_s)
    yield from _times({"trimtab_watch_refreshed_timestamp_seconds": now.at})
    if now.refreshed_s is not None:
        yield MetricSample("trimtab_watch_refresh_duration_seconds", (), now.refreshed_s)
    if now.servers_differing is not None:
        yield MetricSample("trimtab_servers_differing", (), now.servers_differing)
    if now.store_bytes is not None:
        yield MetricSample("trimtab_store_size_bytes", (), now.store_bytes)


def _times(times: Mapping[str, datetime | None]) -> Iterator[MetricSample]:
    for name, at in times.items():
        if at is not None:
            yield MetricSample(name, (), at.timestamp())


def families_of(rows: Iterable[MetricSample]) -> Iterator[tuple[Metric, list[MetricSample]]]:
    """Yield each metric that has samples, in the order of `METRICS`."""
    of_name = grouped(rows, attrgetter("name"))
    for metric in METRICS:
        if metric.name in of_name:
            yield metric, of_name.pop(metric.name)
    assert not of_name, f"not in METRICS: {sorted(of_name)}"

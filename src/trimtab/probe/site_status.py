"""The status of sites, from the store alone: latest verdicts, incidents, slowest targets, cost.

A path is touched only to find out which file system it is on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from operator import itemgetter
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from trimtab.base.error import visible
from trimtab.base.incident import GOING_ON
from trimtab.base.plain import as_dict, as_list, as_number, as_text
from trimtab.base.run import METRIC_UNITS
from trimtab.base.series import ChangePoint, LevelNow, series_id
from trimtab.base.site import LIMITS
from trimtab.base.text import series_label
from trimtab.base.verdict import HistoryPoint, Verdict, by_metric
from trimtab.explain.status import (
    IncidentStatus,
    JudgedStatus,
    ProbeCost,
    SeriesStatus,
    SlowestTargets,
    SlowTargetStatus,
    SnapshotStatus,
    Status,
)
from trimtab.probe.site_series import (
    KeptKey,
    rejected_among,
    series_apart,
    surveying_series,
    sweeps_of,
)
from trimtab.store.kept import Keeping, keeping, value_of

if TYPE_CHECKING:
    from trimtab.judge.change import LevelNewest
    from trimtab.store.kept import KeptIncident, Series
    from trimtab.store.kept_period import Sums
    from trimtab.store.store import Store

RUNS_SHOWN = 5


def status_of(
    store: Store,
    site: str | None = None,
    *,
    goal: float = LIMITS.cov,
    window_s: float = LIMITS.window_s,
    timezone: str = "UTC",
    progress: Callable[[str, float], None] = lambda text, fraction: None,
) -> Status:
    """Return the status of one site of the store, or of all; no path is touched."""
    names = tuple(entry.name for entry in store.sites()) if site is None else (site,)

    def rests_on(sums: Sums) -> object:
        snapshots = None if sums.runs else sums.tables.get("snapshot")
        tables = (sums.tables.get(name) for name in ("site", "incident"))
        return goal, window_s, timezone, sorted(sums.runs.items()), *tables, snapshots

    def make() -> Status:
        lines_of = partial(_lines, goal=goal, window_s=window_s, timezone=timezone)
        return _status(store, looks, lines_of, window_s, progress)

    with ExitStack() as stack:
        looks = {name: stack.enter_context(keeping(store, name)) for name in names}
        look = looks[names[0]] if len(names) == 1 else None
        status = make() if look is None else look.remembered("status", Status, rests_on, make)
        return replace(status, store=str(store.location))


def _status(
    store: Store,
    looks: Mapping[str, Keeping],
    lines_of: Callable[[Series, Keeping], _SeriesLines],
    window_s: float,
    progress: Callable[[str, float], None],
) -> Status:
    sites = tuple(looks)
    site = sites[0] if len(sites) == 1 else None
    stored = store.series() if site is None else looks[site].series()
    sweeps = sweeps_of(store, stored)
    of_sweeps = {(sweep.site, sweep.probe) for sweep in sweeps}
    stored = tuple(entry for entry in stored if (entry.site, entry.probe) not in of_sweeps)
    lines: dict[KeptKey, _SeriesLines] = {}
    for number, entry in enumerate(stored):
        progress(f"judging {visible(entry.probe)}", number / len(stored))
        lines[entry.key] = lines_of(entry, looks[entry.site])
    last_runs = {key: of.last_run for key, of in lines.items()}
    apart = series_apart(store, stored, last_runs)
    series = [
        replace(line, asked=apart.get(key, {})) for key, of in lines.items() for line in of.lines
    ]
    costs = [cost for name in sites if (cost := _cost(store, name)) is not None]
    judged = [entry for name in sites if (entry := last_judged(store, name)) is not None]
    return Status(
        "",  # a store may be moved: where it is now is no part of what is kept
        window_s,
        sites,
        tuple(series),
        store.runs(site=site, limit=RUNS_SHOWN),
        tuple(costs),
        sweeps,
        incidents=tuple(entry for name in sites for entry in going_on(store, name)),
        judged=tuple(judged),
        slowest=tuple(slowest for name in sites for slowest in slowest_targets(store, name)),
        rejected=tuple(rejected_among(store, stored, last_runs)),
        snapshots=tuple(_only_snapshots(store, {*sites} - {entry.site for entry in stored})),
        slow_targets=tuple(slow for name in sites for slow in slow_targets(store, name)),
    )


@dataclass(frozen=True, slots=True)
class _SeriesLines:
    """Lines of a status about one series.

    Attributes
    ----------
    last_run
        The last run that can be judged; ``None`` if none can.
    lines
        A line for each metric, without what distinguishes the series from others.
    """

    last_run: str | None
    lines: tuple[SeriesStatus, ...]


def _lines(
    entry: Series, look: Keeping, *, goal: float, window_s: float, timezone: str
) -> _SeriesLines:
    def make() -> _SeriesLines:
        points = look.history(entry)
        lines = _series_status(entry, points, goal=goal, window_s=window_s, timezone=timezone)
        return _SeriesLines(points[-1].run if points else None, tuple(lines))

    def rests_on(sums: Sums) -> object:
        return goal, window_s, timezone, sums.runs.get(entry.comparability)

    return look.remembered(f"status of {entry.comparability}", _SeriesLines, rests_on, make)


def _only_snapshots(store: Store, sites: Collection[str]) -> Iterator[SnapshotStatus]:
    for site in sorted(sites):
        last = store.latest_snapshot(site)
        if last is not None and not store.runs(site=site, limit=1):
            yield SnapshotStatus(site, last.at)


def _cost(store: Store, site: str) -> ProbeCost | None:
    last = store.runs(site=site, limit=1)
    if not last or last[0].at is None:
        return None
    cost = cost_of(store, site, last[0].at)
    return cost if cost.runs else None


def _series_status(
    stored: Series,
    points: Sequence[HistoryPoint],
    *,
    goal: float,
    window_s: float,
    timezone: str,
) -> list[SeriesStatus]:
    from trimtab.judge.series_level import trend

    lines = []
    probe = f"{stored.probe} ({stored.kind})"
    judged = judged_metrics(points, probe, goal=goal, window_s=window_s, timezone=timezone)
    for of_metric, verdict, suspect in judged:
        metric, last = verdict.metric, of_metric[-1]
        line = SeriesStatus(
            site=stored.site,
            probe=stored.probe,
            kind=stored.kind,
            runs=len(of_metric),
            last_at=last.at,
            last_value=last.value,
            verdict=verdict,
            trend=trend(of_metric, metric=metric, probe=probe),
            suspect=suspect,
            id=series_id(stored.comparability, metric),
        )
        lines.append(line)
    return sorted(lines, key=_writes_first)


def judged_metrics(
    points: Sequence[HistoryPoint], probe: str, *, goal: float, window_s: float, timezone: str
) -> Iterator[tuple[list[HistoryPoint], Verdict, ChangePoint | None]]:
    """Yield the runs of each metric of a series, the verdict on their variability, the suspect.

    Parameters
    ----------
    probe
        Name shown in the verdicts.
    goal, window_s
        Highest COV allowed, a fraction, and the window of runs in seconds.
    timezone
        IANA name of the site's time zone, in whose weeks the runs are compared.
    """
    from trimtab.judge.variability import judge_history

    for metric, of_metric in by_metric(points):
        level = _newest_level(of_metric, timezone=timezone)
        verdict = judge_history(
            of_metric,
            metric=metric,
            probe=probe,
            goal=goal,
            window_s=window_s,
            level_from=level.since,
        )
        yield of_metric, verdict, level.suspect


def _writes_first(status: SeriesStatus) -> tuple[bool, str]:
    return (not status.verdict.metric.startswith("write"), status.verdict.metric)


STRETCH: Final = timedelta(days=7)
_DAY_S: Final = 86_400.0


def cost_of(
    store: Store, site: str, until: datetime, *, since: datetime | None = None
) -> ProbeCost:
    """Return the cost of a site's probes up to a time: since another one, else in a week."""
    since = until - STRETCH if since is None else since
    stored = store.parameters(site, since=since, until=until)
    costs = [cost for _, parameters in stored if (cost := as_dict(parameters.get("cost")))]
    first = stored[0][0] if stored else until
    # A week, or the record so far, but at least a day: otherwise one run would make a rate.
    days = max(1.0, (until - max(since, first)).total_seconds() / _DAY_S)
    written = _sum(cost.get("bytes_written") for cost in costs)
    sizes = [cost["capacity_bytes"] for cost in costs if cost.get("capacity_bytes")]
    capacity = sizes[-1] if sizes else None
    silent = sum(as_number(cost.get("bytes_written")) is None for cost in costs)
    reason = None if capacity else "no run reports the capacity of the file system"
    if silent:  # a site's own command need not report it
        reason = f"{silent} of {len(costs)} runs do not report what they wrote"
    hours = [cost["node_hours"] for cost in costs if as_number(cost.get("node_hours")) is not None]
    return ProbeCost(
        site=site,
        from_=until - timedelta(days=days),
        to=until,
        runs=len(costs),
        bytes_written=written,
        bytes_read=_sum(cost.get("bytes_read") for cost in costs),
        node_hours=sum(hours) if hours else None,
        drive_writes_per_day=(
            None if capacity is None or silent == len(costs) else written / days / capacity
        ),
        reason=reason,
    )


def _sum(values: Iterable[object]) -> int:
    return sum(int(as_number(value) or 0) for value in values)


HISTORY: Final = timedelta(days=30)
"""Record in which a suspect is detected: a month shows nearly as much as a year."""
_SLOWEST: Final = 3


def suspect_of(
    points: Sequence[HistoryPoint], known: Collection[datetime] = (), *, timezone: str
) -> ChangePoint | None:
    """Return the change of level that is suspected at the end of a series of one metric.

    Parameters
    ----------
    known
        Beginnings of suspects that need not be reported again.
    timezone
        IANA name of the site's time zone, in whose weeks the runs are compared.
    """
    return _newest_level(points, known, timezone=timezone).suspect


def _newest_level(
    points: Sequence[HistoryPoint], known: Collection[datetime] = (), *, timezone: str
) -> LevelNewest:
    """Return the current level of a series of one metric; parameters as in `suspect_of`."""
    from trimtab.base.run import higher_is_better
    from trimtab.judge.change import LevelNewest, newest_level

    if not points:
        return LevelNewest(None, None)
    since = points[-1].at - HISTORY
    recent = [point for point in points if point.at >= since]
    return newest_level(
        [point.at for point in recent],
        [None if point.unfinished else point.value for point in recent],
        more_is_better=higher_is_better(points[-1].metric),
        timezone=timezone,
        known=known,
    )


def going_on(store: Store, site: str) -> Iterator[IncidentStatus]:
    """Yield the incidents of a site that were open at the last search."""
    yield from map(incident_status, store.incidents(site, states=GOING_ON))


def incident_status(incident: KeptIncident) -> IncidentStatus:
    """Return a stored incident as a status shows it."""
    document = incident.document
    probe, metric = as_text(document.get("probe")), as_text(document.get("metric"))
    return value_of(
        IncidentStatus,
        incident,
        cause=incident.chain_text,
        confidence=incident.likeliest.get("confidence"),
        probe=probe,
        metric=metric,
        level_now=_level_of(as_dict(document.get("level_now"))),
        series=as_text(document.get("series")),  # not known of one that was stored earlier
        name=(
            ""
            if probe is None or metric is None
            else series_label(probe, metric, as_text(document.get("apart")) or "")
        ),
    )


def _level_of(document: Mapping[str, Any]) -> LevelNow | None:
    """Return the level of a stored incident; ``None`` if none was stored."""
    since, between = document.get("since"), as_list(document.get("between"))
    last, best = (as_number(document.get(name)) for name in ("from_last", "from_best"))
    if not isinstance(since, str) or last is None or best is None:
        return None
    gap = tuple(datetime.fromisoformat(str(end)) for end in between)
    ends = (gap[0], gap[1]) if len(gap) == 2 else None
    return LevelNow(datetime.fromisoformat(since), last, best, ends)


def last_judged(store: Store, site: str) -> JudgedStatus | None:
    """Return when the incidents of a site were last searched for; ``None`` if never."""
    judged = store.judged(site)
    if judged is None:
        return None
    newer = 0 if judged.until is None else store.runs_since(site, judged.until)
    return JudgedStatus(site, judged.at, judged.until, newer)


def slow_targets(
    store: Store, site: str, *, until: datetime | None = None
) -> tuple[SlowTargetStatus, ...]:
    """Return the targets that surveys show to be slow and not to have recovered.

    The incidents of single targets are made of the same stretches. A target that has always been
    slow is usual: `judge` lists those that are slow again and again, and they are no trouble.
    """
    if until is not None:
        return _slow_targets(store, site, until)
    with keeping(store, site) as look:
        surveys = surveying_series(look)

        def rests_on(sums: Sums) -> object:
            return [sums.runs.get(entry.comparability) for entry in surveys]

        kind = tuple[SlowTargetStatus, ...]
        return look.remembered(
            "slow targets", kind, rests_on, lambda: _slow_targets(store, site, None)
        )


def _slow_targets(store: Store, site: str, until: datetime | None) -> tuple[SlowTargetStatus, ...]:
    if not store.last_survey(site):
        return ()
    from trimtab.explain.slow_target import slow_now

    return tuple(
        value_of(SlowTargetStatus, each, site=site, since=each.at)
        for each in slow_now(store.survey_frame(site, until=until))
    )


def slowest_targets(store: Store, site: str) -> tuple[SlowestTargets, ...]:
    """Return the slowest targets of the last survey of a site, for each metric."""
    from trimtab.base.run import higher_is_better

    of_metric: dict[str, list[tuple[str, float]]] = {}
    at = None
    for at, target, metric, value in store.last_survey(site):  # noqa: B007 (the last one is used)
        if METRIC_UNITS.get(metric) != "B":
            of_metric.setdefault(metric, []).append((target, value))
    if at is None:
        return ()
    slowest = []
    for metric, values in of_metric.items():
        if len(values) > 1:
            ordered = sorted(values, key=itemgetter(1), reverse=not higher_is_better(metric))
            middle, first = median(value for _, value in values), tuple(ordered[:_SLOWEST])
            unit = METRIC_UNITS[metric]
            slowest.append(SlowestTargets(site, at, metric, unit, len(values), middle, first))
    return tuple(slowest)

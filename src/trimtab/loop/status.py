"""Where things stand, from what is kept alone: no path is touched but to find out which it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from trimtab.drivers.local.driver import LocalDriver
from trimtab.errors import UsageError
from trimtab.judge.trend import trend
from trimtab.judge.variability import judge_history
from trimtab.launch import bounded
from trimtab.loop.cost import cost_of
from trimtab.loop.status_incidents import going_on, last_judged, slowest_targets, suspect_of
from trimtab.model.check import HistoryPoint
from trimtab.model.run import METRIC_UNITS, Run
from trimtab.model.status import ProbeCost, SeriesStatus, Status, SweepStatus
from trimtab.model.sweep import SWEEP
from trimtab.record.comparability import ASKED
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.record.kept import Series
    from trimtab.record.store import Store

RUNS_SHOWN = 5
_SWEEP_PREFIX = "sweep-"


def status(
    store: Store, where: str | None = None, *, goal: float = 0.08, window_s: float = 48 * 3600.0
) -> Status:
    """Return where one site stands, or every site that something is kept of.

    Parameters
    ----------
    where
        A PATH (its file system's identity is looked up) or the name of a SITE.

    Raises
    ------
    UsageError
        Nothing is kept of that path or site.
    """
    site = None if where is None else site_of(store, where)
    kept = store.series(site)
    sweeps = sweeps_of(store, kept)
    of_sweeps = {(one.site, one.probe) for one in sweeps}
    kept = tuple(one for one in kept if (one.site, one.probe) not in of_sweeps)
    histories = {_key(one): store.history(*_key(one)) for one in kept}
    apart = series_apart(store, kept, histories)
    series = tuple(
        one
        for own in kept
        for one in _series_status(
            own, histories[_key(own)], apart.get(_key(own), {}), goal=goal, window_s=window_s
        )
    )
    sites = tuple(one.name for one in store.sites()) if site is None else (site,)
    costs = [cost for name in sites if (cost := _cost(store, name)) is not None]
    judged = [one for name in sites if (one := last_judged(store, name)) is not None]
    return Status(
        str(store.location),
        window_s,
        sites,
        series,
        store.runs(site=site, limit=RUNS_SHOWN),
        tuple(costs),
        sweeps,
        incidents=tuple(one for name in sites for one in going_on(store, name)),
        judged=tuple(judged),
        slowest=tuple(one for name in sites for one in slowest_targets(store, name)),
    )


def sweeps_of(store: Store, kept: Sequence[Series]) -> tuple[SweepStatus, ...]:
    """Return the sweeps among series: their settings, each a series, would hide the others."""
    found: dict[tuple[str, str], list[Series]] = {}
    for one in kept:
        if one.probe.startswith(_SWEEP_PREFIX):
            found.setdefault((one.site, one.probe), []).append(one)
    sweeps = []
    for (site, probe), series in found.items():
        newest = store.runs(site=site, probe=probe, limit=1)
        if newest and SWEEP in newest[0].parameters:  # else a probe that has such a name
            name, runs = probe.removeprefix(_SWEEP_PREFIX), sum(one.runs for one in series)
            sweeps.append(SweepStatus(site, name, probe, len(series), runs))
    return tuple(sweeps)


_Key = tuple[str, str]


def _key(series: Series) -> _Key:
    return series.site, series.comparability


def series_apart(
    store: Store,
    kept: Sequence[Series],
    histories: Mapping[_Key, Sequence[HistoryPoint]],
) -> dict[_Key, dict[str, object]]:
    """Return what sets series of one probe and kind apart; the last run speaks for each.

    By site and comparability, and only of those that are not alone.
    """
    alike: dict[tuple[str, str, str], list[Series]] = {}
    for one in kept:
        if histories[_key(one)]:
            alike.setdefault((one.site, one.probe, one.kind), []).append(one)
    found: dict[_Key, dict[str, object]] = {}
    for series in alike.values():
        if len(series) < 2:
            continue
        own = [_asked(store.run(histories[_key(one)][-1].run)) for one in series]
        names = dict.fromkeys(name for values in own for name in values)
        differing = [name for name in names if len({repr(one.get(name)) for one in own}) > 1]
        for one, values in zip(series, own, strict=True):
            found[_key(one)] = {name: values.get(name) for name in differing}
    return found


def _asked(run: Run) -> dict[str, object]:
    """Return what a run was asked for, options and settings among it, and its layer."""
    asked = run.parameters.get(ASKED, run.parameters)
    values: dict[str, object] = {}
    for name, value in asked.items() if isinstance(asked, dict) else ():
        values |= value if isinstance(value, dict) else {name: value}
    layer = run.parameters.get("layer")
    return values if layer in (None, "client") else {**values, "layer": layer}


def _cost(store: Store, site: str) -> ProbeCost | None:
    last = store.runs(site=site, limit=1)
    if not last or last[0].at is None:
        return None
    cost = cost_of(store, site, last[0].at)
    return cost if cost.runs else None


def site_of(store: Store, where: str) -> str:
    """Return the name under which a PATH or SITE is kept.

    Raises
    ------
    UsageError
        Nothing is kept of it.
    """
    known = {site.name: site for site in store.sites()}
    state = bounded.describe(where)
    if state.kind == "directory":
        identity = LocalDriver(where).description.identity
        for site in known.values():
            if identity in (site.name, site.identity):
                return site.name
    if where in known:  # without a site file a site is named by its path's identity
        return where
    if state.failure is not None and "/" in where:
        raise bounded.error_of(state.failure, where)
    raise UsageError(
        f"nothing is kept of {visible(where)} yet",
        hint=f"known: {', '.join(map(visible, known)) or 'none'}; trimtab check PATH measures",
    )


def _series_status(
    kept: Series,
    points: Sequence[HistoryPoint],
    asked: Mapping[str, object],
    *,
    goal: float,
    window_s: float,
) -> list[SeriesStatus]:
    found = []
    for metric in dict.fromkeys(point.metric for point in points):
        if METRIC_UNITS.get(metric) == "B":
            continue  # what was done, not how well
        of_metric = [point for point in points if point.metric == metric]
        name = f"{kept.probe} ({kept.kind})"
        last = of_metric[-1]
        found.append(
            SeriesStatus(
                site=kept.site,
                probe=kept.probe,
                kind=kept.kind,
                runs=len(of_metric),
                last_at=last.at,
                last_value=last.value,
                verdict=judge_history(
                    of_metric, metric=metric, probe=name, goal=goal, window_s=window_s
                ),
                trend=trend(of_metric, metric=metric, probe=name),
                asked=asked,
                suspect=suspect_of(of_metric),
            )
        )
    return sorted(found, key=_writes_first)


def _writes_first(status: SeriesStatus) -> tuple[bool, str]:
    return (not status.verdict.metric.startswith("write"), status.verdict.metric)

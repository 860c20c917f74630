"""Where things stand, from what is kept alone: no path is touched but to find out which it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.drivers.local.driver import LocalDriver
from trimtab.errors import UsageError
from trimtab.judge.trend import trend
from trimtab.judge.variability import judge_history
from trimtab.launch import bounded
from trimtab.loop.cost import cost_of
from trimtab.model.status import ProbeCost, SeriesStatus, Status
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.record.kept import Series
    from trimtab.record.store import Store

RUNS_SHOWN = 5


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
    series = tuple(
        one
        for kept in store.series(site)
        for one in _series_status(store, kept, goal=goal, window_s=window_s)
    )
    sites = tuple(one.name for one in store.sites()) if site is None else (site,)
    costs = [cost for name in sites if (cost := _cost(store, name)) is not None]
    return Status(
        str(store.location),
        window_s,
        sites,
        series,
        store.runs(site=site, limit=RUNS_SHOWN),
        tuple(costs),
    )


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
    store: Store, kept: Series, *, goal: float, window_s: float
) -> list[SeriesStatus]:
    points = store.history(kept.site, kept.comparability)
    found = []
    for metric in dict.fromkeys(point.metric for point in points):
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
            )
        )
    return sorted(found, key=_writes_first)


def _writes_first(status: SeriesStatus) -> tuple[bool, str]:
    return (not status.verdict.metric.startswith("write"), status.verdict.metric)

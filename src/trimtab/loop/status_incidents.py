"""What ``trimtab status`` tells of incidents and single targets, from what is kept of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from statistics import median
from typing import TYPE_CHECKING, Final

from trimtab.judge.changes import suspect_among
from trimtab.judge.variability import higher_is_better
from trimtab.measure.plain import as_dict, as_list
from trimtab.model.check import HistoryPoint
from trimtab.model.incident import IncidentState
from trimtab.model.run import METRIC_UNITS
from trimtab.model.series import ChangePoint
from trimtab.model.status import IncidentStatus, JudgedStatus, SlowestTargets

if TYPE_CHECKING:
    from trimtab.record.store import Store

HISTORY: Final = timedelta(days=30)
"""What a suspect is told from: a month tells nearly what a year does."""
_SLOWEST: Final = 3
GOING_ON: Final = (IncidentState.OPEN.value, IncidentState.LASTING.value)


def suspect_of(points: Sequence[HistoryPoint]) -> ChangePoint | None:
    """Return the change of level that is suspected at the end of a series of one metric."""
    if not points:
        return None
    since = points[-1].at - HISTORY
    recent = [point for point in points if point.at >= since]
    return suspect_among(
        [point.at for point in recent],
        [None if point.unfinished else point.value for point in recent],
        more_is_better=higher_is_better(points[-1].metric),
    )


def going_on(store: Store, site: str) -> Iterator[IncidentStatus]:
    """Yield the incidents of a site that were not over when they were last looked for."""
    for one in store.incidents(site, states=GOING_ON):
        causes = as_list(one.document.get("causes"))
        likeliest = as_dict(causes[0]) if causes and not one.document.get("unexplained") else {}
        yield IncidentStatus(
            site=site,
            id=one.id,
            at=one.at,
            state=one.state,
            certainty=one.certainty,
            effect=one.effect,
            summary=one.summary,
            cause=likeliest.get("title"),
            confidence=likeliest.get("confidence"),
        )


def last_judged(store: Store, site: str) -> JudgedStatus | None:
    """Return when the incidents of a site were last looked for; ``None``: never."""
    judged = store.judged(site)
    if judged is None:
        return None
    newer = 0 if judged.until is None else store.runs_since(site, judged.until)
    return JudgedStatus(site, judged.at, judged.until, newer)


def slowest_targets(store: Store, site: str) -> tuple[SlowestTargets, ...]:
    """Return the slowest targets of the last survey of a site, for each metric."""
    by_metric: dict[str, list[tuple[str, float]]] = {}
    at = None
    for when, target, metric, value in store.last_survey(site):
        at = when
        if METRIC_UNITS.get(metric) != "B":
            by_metric.setdefault(metric, []).append((target, value))
    if at is None:
        return ()
    return tuple(
        SlowestTargets(
            site=site,
            at=at,
            metric=metric,
            unit=METRIC_UNITS[metric],
            targets=len(found),
            median=median(value for _, value in found),
            slowest=tuple(
                sorted(found, key=lambda one: one[1], reverse=not higher_is_better(metric))
            )[:_SLOWEST],
        )
        for metric, found in by_metric.items()
        if len(found) > 1
    )

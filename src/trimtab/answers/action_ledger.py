"""The ledger of actions on a site: its changes, and how the runs before and after compare."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trimtab.base.action import Action
from trimtab.base.error import Message, UsageError
from trimtab.judge.comparison_result import PlanEffect
from trimtab.probe.compare import CompareRequest, compare_sides

if TYPE_CHECKING:
    from trimtab.site.place import Place
    from trimtab.store.store import Store


PLANS: Final = 10
"""Number of plans, the newest, whose effects are computed."""


def ledger(
    store: Store,
    place: Place,
    now: datetime,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int | None = None,
) -> tuple[tuple[Action, ...], tuple[PlanEffect, ...]]:
    """Return the actions on a site, and the effect of the newest plans that changed something.

    Both are the oldest first. Without a site file no effect is computed.

    Parameters
    ----------
    since, until, limit
        As in `Store.actions`.
    """
    actions = store.actions(place.name, since=since, until=until, limit=limit)
    if place.site is None:
        return actions, ()
    window = timedelta(seconds=place.site.limits.window_s)
    stretches: dict[str, tuple[datetime, datetime]] = {}
    for action in actions:
        if action.outcome is not None and action.outcome.wrote:
            begin, _ = stretches.get(action.plan, (action.at, action.at))
            stretches[action.plan] = begin, action.until or action.at
    newest = list(stretches.items())[-PLANS:]
    return actions, tuple(
        _effect(store, place, plan, (begin - window, begin), (end, min(now, end + window)))
        for plan, (begin, end) in newest
    )


def _effect(
    store: Store,
    place: Place,
    plan: str,
    before: tuple[datetime, datetime],
    after: tuple[datetime, datetime],
) -> PlanEffect:
    if after[0] >= after[1]:
        return PlanEffect(plan, before[1], reason=Message("too-recent", "no time has passed since"))
    earlier, later = (
        f"{place.name}@{begin:%Y-%m-%dT%H:%M:%S%z}..{end:%Y-%m-%dT%H:%M:%S%z}"
        for begin, end in (before, after)
    )
    try:
        result = compare_sides(CompareRequest(earlier, later, opened=(store, place)))
    except UsageError as error:
        code = error.code or "nothing-to-compare"
        return PlanEffect(plan, before[1], reason=Message(code, error.message))
    return PlanEffect(plan, before[1], result)


@dataclass(frozen=True, slots=True)
class ActionsDocument:
    """``trimtab actions --json``: the ledger of a site, oldest first."""

    store: str
    actions: tuple[Action, ...]
    effects: tuple[PlanEffect, ...]

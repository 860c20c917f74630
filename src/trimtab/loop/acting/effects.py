"""How performance went after a plan was applied: the runs before it against those after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trimtab.errors import UsageError
from trimtab.loop.comparing.compare import Request, compare_sides
from trimtab.message import Message
from trimtab.model.action import Action
from trimtab.model.compare import CompareResult, Effect
from trimtab.report.text import metric_text

if TYPE_CHECKING:
    from trimtab.loop.event_log import Place
    from trimtab.record.store import Store
    from trimtab.report.documents.acting import ActionsDocument

PLANS: Final = 10
"""The effects of so many plans are worked out, the newest."""


@dataclass(frozen=True, slots=True)
class PlanEffect:
    """How performance went after a plan was applied, or why that cannot be told yet.

    Attributes
    ----------
    at
        When its first action was begun.
    """

    plan: str
    at: datetime
    effect: CompareResult | None = None
    reason: Message | None = None

    @property
    def in_words(self) -> str:
        """The effects on every series, or the reason."""
        if self.effect is None:
            return f"cannot tell yet: {self.reason}"
        return "; ".join(
            f"{series.probe} {_in_words(effect)}"
            for series in self.effect.series
            for effect in series.effects
        )


def _in_words(effect: Effect) -> str:
    ratio = "" if effect.ratio is None else f" ({100 * (effect.ratio - 1):+.1f} %)"
    change = effect.change.value.replace("_", " ")
    return f"{metric_text(effect.metric or 'value')}: {change}{ratio}"


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

    Both are the oldest first. Without a site file no effect is worked out.

    Parameters
    ----------
    since, until, limit
        As `Store.actions` has them.
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


def ledger_document(
    store: Store, actions: Sequence[Action], effects: Sequence[PlanEffect]
) -> ActionsDocument:
    """Return what `trimtab actions --json` prints."""
    from trimtab.report.documents.acting import ActionsDocument, EffectRow

    rows = [EffectRow(each.plan, each.at, each.effect, each.reason) for each in effects]
    return ActionsDocument(str(store.location), tuple(actions), tuple(rows))


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
        result = compare_sides(Request(earlier, later, opened=(store, place)))
    except UsageError as error:
        code = error.code or "nothing-to-compare"
        return PlanEffect(plan, before[1], reason=Message(code, error.message))
    return PlanEffect(plan, before[1], result)

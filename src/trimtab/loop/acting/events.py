"""What was done to a site, in its log book: incidents are compared with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from trimtab.model.action import Action, ActionKind
from trimtab.model.event import Event, EventKind
from trimtab.units import enumerated

if TYPE_CHECKING:
    from trimtab.record.store import Store

SOURCE: Final = "act"
_KINDS: Final = {
    "trim": EventKind.TRIM,
    "close": EventKind.TARGET_CLOSED,
    "open": EventKind.TARGET_OPENED,
    "migrate": EventKind.NOTE,
}
_NAMED: Final = 3
"""So many actions and settings are named: an explanation shows the beginning of an entry."""
_ID_SHOWN: Final = 13


def log_actions(store: Store, site: str, actions: Iterable[Action]) -> None:
    """Write an event for each kind of change; what the log book has already is not repeated.

    An event has the id of the first action that it tells of.
    """
    wrote = [each for each in actions if each.outcome is not None and each.outcome.wrote]
    if not wrote:
        return
    logged = {
        event.id: event
        for event in store.events(site=site, since=min(action.at for action in wrote))
        if event.source == SOURCE
    }
    for plan, kind in dict.fromkeys((each.plan, each.instruction.kind) for each in wrote):
        of_kind = [e for e in wrote if (e.plan, e.instruction.kind) == (plan, kind)]
        for action in tuple(of_kind):
            event = logged.get(action.id)
            until = None if event is None else event.end
            of_kind = [each for each in of_kind if until is None or each.at > until]
        if of_kind:
            store.add_event(_event(site, of_kind))


def _event(site: str, actions: list[Action]) -> Event:
    first, last = actions[0], actions[-1]
    kind = first.instruction.kind
    settings = dict.fromkeys(
        f"{action.instruction.setting} = {action.instruction.value}"
        for action in actions
        if action.instruction.setting is not None and kind is not ActionKind.MIGRATE
    )
    ids = enumerated((action.id[:_ID_SHOWN] for action in actions), _NAMED)
    words = [first.policy, f"action {ids}:", kind.value, enumerated(settings, _NAMED)]
    return Event(
        id=first.id,
        site=site,
        kind=_KINDS.get(kind.value, EventKind.CONFIG_CHANGE),
        at=first.at,
        until=last.until,
        targets=tuple(dict.fromkeys(action.instruction.target for action in actions)),
        detail=" ".join(word for word in words if word),
        source=SOURCE,
    )

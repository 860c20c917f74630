"""Look up the ledger by what was changed: one pass over the actions, then by target."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from trimtab.message import Message
from trimtab.model.action import Action, ActionKind, Instruction, Outcome
from trimtab.model.event import Event, EventKind
from trimtab.model.grouping import grouped
from trimtab.model.telemetry import Snapshot, TargetSnapshot

CLOCK_S: Final = 60.0
"""Clocks that differ by more cannot date telemetry; a purge tolerates as much."""
CREATION: Final = frozenset({ActionKind.CLOSE, ActionKind.OPEN})
_NOT_TRIED: Final = frozenset({Outcome.SKIPPED, Outcome.CHANGED, Outcome.UNREACHABLE})
CREATED: Final = "creation"
_ANY: Final = Message("any", "any")
Key = tuple[str, str]
"""A target and what was changed on it: a setting, ``creation``, or the kind of action."""


def key_of(instruction: Instruction) -> Key:
    """Return what an instruction changes.

    Closing and opening change the same subject, a target's creation, by whichever setting.
    """
    if instruction.kind in CREATION:
        return instruction.target, CREATED
    return instruction.target, instruction.setting or str(instruction.kind)


def ended_at(action: Action) -> datetime:
    """Return when an action's outcome was known, or else when it began."""
    return action.until or action.at


def number_of(action: Action, fact: str) -> float | None:
    """Return a number recorded with an action; ``None`` if missing."""
    try:
        return float(action.facts[fact])
    except (KeyError, ValueError):
        return None


def may_have_written(action: Action) -> bool:
    """Return whether an action, ended or not, may have changed the file system."""
    return action.outcome is None or action.outcome.wrote


def still_counting(
    actions: Iterable[Action], reverted: Collection[str] = frozenset()
) -> list[Action]:
    """Return the old actions that decisions may still depend on, oldest first.

    Omitted are closings and openings before a target's last opening, and, of a change repeated with
    the same result, all attempts but the first and the last.

    Parameters
    ----------
    reverted
        Ids of actions reverted recently.
    """
    ledger, counting = Ledger(actions), list[Action]()
    taken_back = ledger.reverted.union(reverted)
    for (_, subject), rows in ledger.by_key.items():
        counting += _since_opened(rows) if subject == CREATED else _ends(rows, taken_back)
    return sorted(counting, key=lambda action: (action.at, action.id))


def _since_opened(rows: Sequence[Action]) -> Sequence[Action]:
    opened = (
        place
        for place, row in enumerate(rows)
        if row.instruction.kind is ActionKind.OPEN and row.outcome is Outcome.DONE
    )
    return rows[max(opened, default=0) :]


def _ends(rows: Sequence[Action], reverted: Collection[str]) -> list[Action]:
    """Return the rows without those that equal both neighbours."""
    results = [(_result(row), row.id in reverted) for row in rows]
    alike = [result == following for result, following in pairwise(results)]
    within = (False, *(before and after for before, after in pairwise(alike)), False)
    return [row for row, is_within in zip(rows, within[: len(rows)], strict=True) if not is_within]


def _result(action: Action) -> tuple[object, ...]:
    """Return everything of an action that decisions use, except its id and time."""
    instruction = replace(action.instruction, reason=_ANY)
    return action.policy, instruction, action.outcome, action.found, action.facts


class Ledger:
    """Actions by what they changed, each list oldest first."""

    def __init__(self, actions: Iterable[Action]) -> None:
        """Sort the actions by start time."""
        ordered = sorted(actions, key=lambda action: (action.at, action.id))
        self.by_key: Mapping[Key, list[Action]] = grouped(
            ordered, lambda action: key_of(action.instruction)
        )
        self.reverted: frozenset[str] = frozenset(
            identifier
            for action in ordered
            if action.outcome is Outcome.DONE
            for identifier in action.instruction.reverts
        )

    def of(self, target: str, subject: str) -> list[Action]:
        """Return all actions on one subject of a target, oldest first."""
        return self.by_key.get((target, subject), [])

    def last_tried(self, target: str, subject: str) -> Action | None:
        """Return the newest attempted action, successful or not."""
        rows = reversed(self.of(target, subject))
        return next((action for action in rows if action.outcome not in _NOT_TRIED), None)

    def last_done(self, target: str, subject: str) -> Action | None:
        """Return the newest action known to have succeeded."""
        rows = reversed(self.of(target, subject))
        return next((action for action in rows if action.outcome is Outcome.DONE), None)


def closed_by_us(ledger: Ledger, target: str) -> Action | None:
    """Return the first closing of a target that may be in force; it has the previous value."""
    first = None
    for action in ledger.of(target, CREATED):
        if action.instruction.kind is ActionKind.CLOSE:
            first = first or (action if may_have_written(action) else None)
        elif action.outcome is Outcome.DONE:
            first = None
    return first


def closed_targets(actions: Iterable[Action]) -> dict[str, Action]:
    """Return the targets that Trimtab closed and has not opened since, each with its closing.

    Parameters
    ----------
    actions
        Closings and openings of a site, however old: ``store.actions(site, kinds=CREATION)``.

    Notes
    -----
    A failover may have opened one of these targets since; only a snapshot shows that.
    """
    ledger = Ledger(actions)
    closings = {
        name: closed_by_us(ledger, name) for name, subject in ledger.by_key if subject == CREATED
    }
    return {name: action for name, action in sorted(closings.items()) if action is not None}


def last_trim(seen: TargetSnapshot, recorded: Iterable[datetime], now: datetime) -> datetime | None:
    """Return the latest trim of a target: of those recorded, or the one that its system reports.

    A report from the future is a wrong clock's, and does not count.
    """
    reported = seen.moment("last_trim_at")
    if reported is not None and reported <= now + timedelta(seconds=CLOCK_S):
        recorded = [*recorded, reported]
    return max(recorded, default=None)


def last_trims(
    snapshot: Snapshot, actions: Iterable[Action], events: Iterable[Event]
) -> dict[str, datetime]:
    """Return target to its last trim: by Trimtab, in the log book, or reported by its system.

    A plan of trims does not count what people wrote into the log book: `last_trim` alone.
    """
    recorded: dict[str | None, list[datetime]] = {}
    for event in events:
        if event.kind is EventKind.TRIM:
            for name in event.targets or (None,):  # None: every target
                recorded.setdefault(name, []).append(event.at)
    for action in actions:
        if action.instruction.kind is ActionKind.TRIM and action.outcome is Outcome.DONE:
            recorded.setdefault(action.instruction.target, []).append(ended_at(action))
    of_all = recorded.get(None, [])
    trims = {
        name: last_trim(seen, [*recorded.get(name, []), *of_all], snapshot.at)
        for seen in snapshot.targets
        for name in [seen.target.name]
    }
    return {name: at for name, at in trims.items() if at is not None}

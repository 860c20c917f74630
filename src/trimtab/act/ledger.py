"""The ledger, looked up by what was changed: one pass over the actions, then by target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from trimtab.model.action import Action, ActionKind, Instruction, Outcome

CREATION: Final = frozenset({ActionKind.CLOSE, ActionKind.OPEN})
_NOT_TRIED: Final = frozenset({Outcome.SKIPPED, Outcome.CHANGED, Outcome.UNREACHABLE})
Key = tuple[str, str]
"""A target, and what of it was changed: a setting, ``creation``, or the name of the kind."""


def key_of(instruction: Instruction) -> Key:
    """Return what an instruction changes.

    Closing and opening are one thing: a target's creation, by whichever setting.
    """
    if instruction.kind in CREATION:
        return instruction.target, "creation"
    return instruction.target, instruction.setting or str(instruction.kind)


def ended_at(action: Action) -> datetime:
    """Return when an action's outcome was known; when it was begun where it is not."""
    return action.until or action.at


def may_have_written(action: Action) -> bool:
    """Return whether the file system may differ from before an action; ended or not."""
    return action.outcome is None or action.outcome.wrote


class Ledger:
    """Actions by what they changed, each list oldest first."""

    def __init__(self, actions: Iterable[Action]) -> None:
        """Sort actions of any order by the time at which they were begun."""
        ordered = sorted(actions, key=lambda action: (action.at, action.id))
        by_key: dict[Key, list[Action]] = {}
        for action in ordered:
            by_key.setdefault(key_of(action.instruction), []).append(action)
        self.by_key: Mapping[Key, list[Action]] = by_key
        self.reverted: frozenset[str] = frozenset(
            identifier
            for action in ordered
            if action.outcome is Outcome.DONE
            for identifier in action.instruction.reverts
        )

    def of(self, target: str, subject: str) -> list[Action]:
        """Return every action on one subject of a target, oldest first."""
        return self.by_key.get((target, subject), [])

    def last_tried(self, target: str, subject: str) -> Action | None:
        """Return the newest action that was tried, with success or without."""
        rows = reversed(self.of(target, subject))
        return next((action for action in rows if action.outcome not in _NOT_TRIED), None)

    def last_done(self, target: str, subject: str) -> Action | None:
        """Return the newest action that is known to have been carried out."""
        rows = reversed(self.of(target, subject))
        return next((action for action in rows if action.outcome is Outcome.DONE), None)

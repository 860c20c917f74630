"""Document of the ledger of actions."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.model.action import Action
from trimtab.model.compare import PlanEffect


@dataclass(frozen=True, slots=True)
class ActionsDocument:
    """``trimtab actions --json``: the ledger of a site, oldest first."""

    store: str
    actions: tuple[Action, ...]
    effects: tuple[PlanEffect, ...]

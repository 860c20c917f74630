"""Documents of acting: tune, trim, balance, actions, revert, and what the watch would do."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.model.action import Action, Plan
from trimtab.model.compare import PlanEffect
from trimtab.record.slots import WatchState
from trimtab.report.documents import judged  # noqa: F401 (declares comparisons)
from trimtab.report.documents.encode import shape


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """``trimtab tune | trim | balance | revert --json``: the plan and its outcome.

    Attributes
    ----------
    settled
        Actions of killed processes whose outcome was determined first.
    actions
        Completed actions; empty without ``--apply``.
    """

    store: str
    applied: bool
    plan: Plan
    settled: tuple[Action, ...]
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class RegistrationDocument:
    """``trimtab purge follow --register | --deregister --json``: changelog users of MDTs.

    Attributes
    ----------
    dangers
        What the operator must know before applying it; empty if there is nothing to do.
    settled, actions
        As those of a plan; ``actions`` is empty without ``--yes``.
    """

    store: str
    applied: bool
    plan: Plan
    dangers: tuple[str, ...]
    settled: tuple[Action, ...]
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class ActionsDocument:
    """``trimtab actions --json``: the ledger of a site, oldest first."""

    store: str
    actions: tuple[Action, ...]
    effects: tuple[PlanEffect, ...]


@dataclass(frozen=True, slots=True)
class WatchStateDocument:
    """``trimtab watch --status | --dry-run --json``: what ran last, and what comes next.

    Attributes
    ----------
    plans
        With ``--dry-run``: what the armed policies would change now.
    """

    state: WatchState
    plans: tuple[Plan, ...]


shape(Plan, derive={"id": "id"})
shape(WatchStateDocument, inline={"state": ()})

"""Surveys the first target of a rollout beside others, before its change and after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from trimtab.act.observed import Observed
from trimtab.act.rollout import CANARY
from trimtab.act.targets import server_of, why_left_alone
from trimtab.errors import TrimtabError
from trimtab.loop.sites import reach_of
from trimtab.loop.survey.request import Asked, Tools, carry_out, prepare
from trimtab.model.action import ActionKind, Outcome, Plan
from trimtab.model.site import Site

if TYPE_CHECKING:
    from trimtab.drivers.protocol import Driver
    from trimtab.model.action import Action
    from trimtab.record.store import Store

REFERENCES: Final = 3
"""So many other targets are surveyed with it: what slows all of them is divided out."""


def first_targets(plan: Plan) -> tuple[str, ...]:
    """Return the OSTs that a plan changes first."""
    rows = (each for each in plan.instructions if each.kind is ActionKind.SET)
    names = [each.target for each in rows if each.stage == CANARY and each.target[:3] == "OST"]
    return tuple(dict.fromkeys(names))


def pending(observed: Observed) -> tuple[str, ...]:
    """Return the first targets whose change was not surveyed since."""
    rows = (action for action in observed.actions if action.facts.get("verdict") == "pending")
    return tuple(dict.fromkeys(action.instruction.target for action in rows))


def changed(actions: Sequence[Action], names: Sequence[str]) -> tuple[str, ...]:
    """Return those of some targets that were changed."""
    done = {action.instruction.target for action in actions if action.outcome is Outcome.DONE}
    return tuple(name for name in names if name in done)


def survey(
    site: Site, store: Store, driver: Driver, observed: Observed, names: Sequence[str]
) -> None:
    """Survey targets from this client, and with them some of other servers that are well.

    Raises
    ------
    TrimtabError
        A target cannot be surveyed, or it failed.
    """
    tools = Tools(reach_of(site))
    request = Asked("client", targets=(*names, *_references(observed, names)))
    prepared = prepare(site, driver, request, tools)
    carry_out(prepared, driver, store, progress=lambda text, fraction: None, tools=tools)


def survey_if_possible(
    site: Site, store: Store, driver: Driver, observed: Observed, names: Sequence[str]
) -> None:
    """Survey as `survey`; where that fails the verdict stays pending, and the next run tries."""
    if not names:
        return
    try:
        survey(site, store, driver, observed, names)
    except TrimtabError:
        return


def _references(observed: Observed, names: Sequence[str]) -> tuple[str, ...]:
    if observed.snapshot is None:
        return ()
    others = [
        seen
        for seen in observed.snapshot.targets
        if seen.target.kind == "ost"
        and seen.target.name not in names
        and seen.value("create_enabled") is True
        and why_left_alone(observed, seen) is None
    ]
    servers = {server_of(seen) for seen in observed.snapshot.targets if seen.target.name in names}
    others.sort(key=lambda seen: (server_of(seen) in servers, seen.target.name))
    return tuple(seen.target.name for seen in others[:REFERENCES])

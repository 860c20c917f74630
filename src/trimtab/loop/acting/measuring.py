"""Measures the first target of a rollout before its change and after it: a survey, a probe."""

from __future__ import annotations

import contextlib
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
    """Return the targets that a plan changes first."""
    rows = (each for each in plan.instructions if each.kind is ActionKind.SET)
    return tuple(dict.fromkeys(each.target for each in rows if each.stage == CANARY))


def pending(observed: Observed) -> tuple[str, ...]:
    """Return the first targets whose change was not surveyed since."""
    rows = (action for action in observed.actions if action.facts.get("verdict") == "pending")
    return tuple(dict.fromkeys(action.instruction.target for action in rows))


def changed(actions: Sequence[Action], names: Sequence[str]) -> tuple[str, ...]:
    """Return those of some targets that were changed."""
    done = {action.instruction.target for action in actions if action.outcome is Outcome.DONE}
    return tuple(name for name in names if name in done)


def measure(
    site: Site, store: Store, driver: Driver, observed: Observed, names: Sequence[str]
) -> None:
    """Measure first targets as the policy says: by a survey of OSTs, by a probe of the site.

    Raises
    ------
    TrimtabError
        It cannot be measured, or that failed.
    """
    policy = site.policies.tunables
    osts = [name for name in names if name.startswith("OST")]
    if policy.survey and osts:
        _survey(site, store, driver, observed, osts)
    if policy.probe is not None and names:
        _probe(site, store, driver, policy.probe)


def measure_if_possible(
    site: Site, store: Store, driver: Driver, observed: Observed, names: Sequence[str]
) -> None:
    """Measure as `measure`; where that fails the verdict stays pending, and the next run tries."""
    with contextlib.suppress(TrimtabError):
        measure(site, store, driver, observed, names)


def _survey(
    site: Site, store: Store, driver: Driver, observed: Observed, names: Sequence[str]
) -> None:
    """Survey targets from this client, and with them some of other servers that are well."""
    tools = Tools(reach_of(site))
    request = Asked("client", targets=(*names, *_references(observed, names)))
    prepared = prepare(site, driver, request, tools)
    carry_out(prepared, driver, store, progress=_no_progress, tools=tools)


def _probe(site: Site, store: Store, driver: Driver, name: str) -> None:
    from trimtab.loop.probing.probe_now import probe_now, probe_of
    from trimtab.loop.probing.site_probe import runner_of

    reach, probe = reach_of(site), probe_of(site, name)
    runner = runner_of(site, store, reach)
    terms = {"clock": reach.clock, "progress": _no_progress}
    made = probe_now(site, probe, store, driver, runner, **terms)
    if made.error is not None:
        raise made.error


def _no_progress(text: str, fraction: float) -> None:
    """Show nothing."""


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

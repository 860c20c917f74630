"""One visit of a command to a site: observe, decide, and carry the plan out if requested."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from trimtab.act.action_journal import directory_of, ends_open
from trimtab.act.decide.balance import MovableFiles
from trimtab.act.decide.decision import narrowed, planned_by
from trimtab.act.decide.site_observed import SiteObserved
from trimtab.act.session import ActingPlace, carry_out, carrying_out, settle
from trimtab.base.action import Action, Plan
from trimtab.base.encode import shape
from trimtab.base.error import RefusedError, visible
from trimtab.base.finding import Finding
from trimtab.probe.site_look import SiteView
from trimtab.site.lookup import acting_site, clock_of, know_site, open_driver, open_store

_MEASURED: Final = frozenset({"tunables", "again"})


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """``trimtab tune | trim | balance | revert --json``: the plan and its outcome.

    Attributes
    ----------
    applied
        Whether the plan was to be carried out.
    settled
        Actions of killed processes whose outcome was determined first.
    actions
        Completed actions; empty without ``--apply``.
    troubles
        Problems of the site, by the snapshot that the plan is based on; not printed.
    """

    store: str
    applied: bool
    plan: Plan
    settled: tuple[Action, ...]
    actions: tuple[Action, ...]
    troubles: tuple[Finding, ...]


shape(PlanDocument, omit=["troubles"])


def visit(
    where: str,
    store_url: str | None,
    policy: str,
    *,
    applying: bool = False,
    targets: str | None = None,
    action: str | None = None,
    expected: str | None = None,
    index: Callable[[], MovableFiles] | None = None,
    in_maintenance: bool = False,
    progress: Callable[[Action], None] = lambda action: None,
) -> PlanDocument:
    """Observe a site, decide, and with ``applying`` carry the plan out.

    If there is nothing to change, nothing is written, not even the right to act.

    Parameters
    ----------
    policy
        One of `CONTROLLERS`; ``again`` is tunables including reverted values, ``migrate`` moves
        files off full targets, ``revert`` and ``reopen`` undo earlier actions.
    targets
        Only these targets, as ``OST[0000-0003]``.
    action
        Beginning of the id of the action to revert; ``None``: all.
    expected
        `Plan.id` that a person has seen: another plan is not applied.
    index
        With ``migrate``: reads the files of a purge's index.
    in_maintenance
        Whether a maintenance holds nothing, whatever the site file says.

    Raises
    ------
    RefusedError
        The plan is held, or another process acts on the site.
    TrimtabError
        The site cannot be opened, or the store or journal cannot be used.
    """
    site = acting_site(where)
    if in_maintenance:
        site = replace(site, policies=replace(site.policies, in_maintenance=True))
    with open_store(store_url, site, create=True) as store:
        know_site(store, site)
        place = ActingPlace(site, store, clock_of(site))
        location = str(store.location)

        def planned(observed: SiteObserved) -> Plan:
            plan = planned_by(observed, policy, place.clock(), action, index)
            return plan if targets is None else narrowed(plan, observed, targets)

        measuring = applying and policy in _MEASURED
        observed = place.observe(open_driver(site, clock=place.clock), measuring=measuring)
        plan = planned(observed)
        troubles = SiteView(site, observed.snapshot).troubles(store, site.name)
        if not applying:
            return PlanDocument(location, False, plan, (), (), troubles)
        if not plan.is_due and not _is_unsettled(place, observed):
            refuse_another(plan, expected)
            return PlanDocument(location, True, plan, (), (), troubles)
        with carrying_out(place) as surroundings:
            settled = settle(place, surroundings)
            observed = place.observe(surroundings.driver)
            plan = planned(observed)
            refuse_another(plan, expected)
            actions = carry_out(place, plan, observed, surroundings, progress)
            if actions:
                place.keep(surroundings.driver.snapshot(place.clock()))
        return PlanDocument(location, True, plan, settled, actions, troubles)


def _is_unsettled(place: ActingPlace, observed: SiteObserved) -> bool:
    """Return whether a process that was killed may have left something open."""
    is_open = any(action.outcome is None for action in observed.actions)
    return is_open or ends_open(directory_of(place.store), place.site.name)


def refuse_another(
    plan: Plan, expected: str | None, hint: str = "see it again: without --apply"
) -> None:
    """Raise RefusedError unless a plan is the one that a person has seen; ``None``: any is."""
    if expected not in {None, plan.id}:
        raise RefusedError(
            f"the plan is {plan.id} now, not {visible(str(expected)[:40])}",
            code="plan-changed",
            hint=hint,
        )

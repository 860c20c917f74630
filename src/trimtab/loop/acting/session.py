"""One visit to a site that may change it: everything opened, what was left open settled first."""

from __future__ import annotations

import contextlib
import getpass
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.act import migrating, reverting, tunables
from trimtab.act.observed import Observed
from trimtab.config.targets import unfold_targets
from trimtab.errors import RefusedError, UsageError
from trimtab.loop.acting.applying import LEASE, Surroundings, apply
from trimtab.loop.acting.deadman import DeadMan, dead_man, dead_man_s
from trimtab.loop.acting.events import last_run, log_actions
from trimtab.loop.acting.journal import directory_of, opened
from trimtab.loop.acting.measuring import (
    changed,
    first_targets,
    pending,
    survey,
    survey_if_possible,
)
from trimtab.loop.acting.observing import observe
from trimtab.loop.acting.pacing import Pacing
from trimtab.loop.acting.recovering import interrupted_trims, recover
from trimtab.loop.sites import (
    clock_of,
    know_site,
    open_acting_driver,
    open_driver,
    site_file,
    with_store,
)
from trimtab.loop.stores import open_store
from trimtab.loop.watching.lease import is_gone, this_process
from trimtab.model.action import Action, ActionKind, Plan
from trimtab.model.driver import DRIVERS
from trimtab.model.site import Site
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.drivers.protocol import Clock, Driver
    from trimtab.record.store import Store

CONTROLLERS: Final = {
    "tunables": "trimtab.act.tunables",
    "allocator": "trimtab.act.allocator",
    "trim": "trimtab.act.trimming",
    "balance": "trimtab.act.balance",
}
"""Policy to the module whose ``decide(observed, now)`` plans it."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A site that was observed, with the plan that a policy makes of it.

    Attributes
    ----------
    settled
        Actions of processes that were killed, whose outcome was found out.
    actions
        What was carried out; empty where the plan was only shown.
    applied
        Whether it was to be carried out.
    """

    site: Site
    store: str
    plan: Plan
    applied: bool = False
    settled: tuple[Action, ...] = ()
    actions: tuple[Action, ...] = ()


def acting_site(where: str) -> Site:
    """Return the site of a name or a site file; a bare PATH has no policies.

    Raises
    ------
    UsageError
        There is no such site.
    """
    loaded = site_file(where)
    if loaded is None:
        raise UsageError(
            f"{where!r} is no site: only a site file has policies",
            code="site-unknown",
            hint=f"write one: trimtab init {where if '/' in where else 'PATH'}",
        )
    return loaded.site


def visit(
    where: str,
    store_url: str | None,
    policy: str,
    *,
    applying: bool = False,
    targets: str | None = None,
    action: str | None = None,
    expected: str | None = None,
    index: Path | None = None,
    progress: Callable[[Action], None] = lambda action: None,
) -> Visit:
    """Observe a site, decide, and with ``applying`` carry the plan out.

    Parameters
    ----------
    policy
        One of `CONTROLLERS`; ``again`` are tunables with what was reverted, ``migrate`` moves files
        off full targets, ``revert`` and ``reopen`` take back what was done.
    targets
        Only these, as ``OST[0000-0003]``.
    action
        Beginning of the id of the action to revert; all where ``None``.
    expected
        `Plan.id` that a person has seen: another plan is not applied.
    index
        Of a purge: with ``migrate``, what it tells of files.

    Raises
    ------
    RefusedError
        It is held, or another process acts on the site.
    TrimtabError
        The site cannot be opened, or the store or journal cannot be used.
    """
    site = acting_site(where)
    clock = clock_of(site)

    def planned(observed: Observed) -> Plan:
        plan = _plan(observed, policy, clock(), action, index)
        return plan if targets is None else _narrowed(plan, observed, targets)

    with open_store(with_store(site, store_url), create=True) as store:
        know_site(store, site)
        location = str(store.location)
        if not applying:
            driver = open_driver(site, clock=clock)
            plan = planned(observe(site, driver, store, clock()))
            return Visit(site, location, plan)
        with _carrying_out(site, store) as surroundings:
            driver = surroundings.driver
            settled = recover(surroundings.journal, store, driver, site.name, clock())
            log_actions(store, site.name, last_run(surroundings.journal, site.name, settled))
            observed = _observe(site, driver, store, clock, policy)
            plan = planned(observed)
            if expected not in {None, plan.id}:
                raise RefusedError(
                    f"the plan is {plan.id} now, not {visible(str(expected)[:40])}",
                    code="plan-changed",
                    hint="see it again: without --apply",
                )
            first = first_targets(plan) if _is_surveyed(site, policy) and not plan.held else ()
            if first:
                survey(site, store, driver, observed, first)
            actions = () if plan.held else _applied(plan, surroundings, progress)
            survey_if_possible(site, store, driver, observed, changed(actions, first))
        return Visit(site, location, plan, True, settled, actions)


def _is_surveyed(site: Site, policy: str) -> bool:
    return policy in {"tunables", "again"} and site.policies.tunables.survey


def _observe(site: Site, driver: Driver, store: Store, clock: Clock, policy: str) -> Observed:
    """Return what is observed, once first targets whose verdict is pending were surveyed."""
    observed = observe(site, driver, store, clock())
    waiting = pending(observed) if _is_surveyed(site, policy) else ()
    if not waiting:
        return observed
    survey_if_possible(site, store, driver, observed, waiting)
    return observe(site, driver, store, clock())


def _applied(
    plan: Plan, surroundings: Surroundings, progress: Callable[[Action], None]
) -> tuple[Action, ...]:
    """Carry out a plan; what was done is in the log book even where it ends halfway."""
    begun = surroundings.clock()
    try:
        return apply(plan, surroundings, progress)
    finally:
        store = surroundings.store
        done = store.actions(plan.site, since=begun)
        log_actions(store, plan.site, [action for action in done if action.plan == plan.id])


@contextlib.contextmanager
def _carrying_out(site: Site, store: Store) -> Iterator[Surroundings]:
    clock = clock_of(site)
    holder = this_process()
    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(opened(directory_of(store), site.name))
        now = clock()
        token = store.take_right(site.name, holder, now=now, until=now + LEASE, gone=is_gone)
        stack.callback(store.release_right, site.name, token)
        who = f"{getpass.getuser()}@{platform.node()}"
        driver = open_acting_driver(site, clock=clock, token=token, who=who)
        # A server that puts back by itself outlives this host, too.
        guarded = DRIVERS[site.driver].simulated or dead_man_s(driver) is not None
        guard = DeadMan() if guarded else stack.enter_context(dead_man(driver))
        yield Surroundings(
            driver=driver,
            store=store,
            journal=journal,
            clock=clock,
            token=token,
            who=who,
            range_bytes=site.policies.trim.range_bytes,
            deadman=guard,
            resume=interrupted_trims(journal, site.name),
            pacing=Pacing(driver, site.policies.trim, time.sleep),
            migrate_bytes_per_s=site.policies.balance.bandwidth_bytes_per_s,
        )


def _plan(
    observed: Observed, policy: str, now: datetime, action: str | None, index: Path | None
) -> Plan:
    """Return what a policy makes of what was observed."""
    if policy in CONTROLLERS:
        plan = import_module(CONTROLLERS[policy]).decide(observed, now)
    elif policy == "migrate":
        plan = migrating.decide(observed, _index_of(index), now)
    elif policy == "again":
        plan = tunables.decide(observed, now, again=True)
    else:
        plan = reverting.decide(observed, _named(observed, action), now)
    if policy == "reopen":
        opening = (each for each in plan.instructions if each.kind is ActionKind.OPEN)
        plan = replace(plan, instructions=tuple(opening))
    return plan


def _narrowed(plan: Plan, observed: Observed, targets: str) -> Plan:
    """Return what a plan has for the targets that were named."""
    names = _known(observed, unfold_targets(targets))
    return replace(
        plan,
        instructions=tuple(each for each in plan.instructions if each.target in names),
        untouched=tuple(each for each in plan.untouched if each.target in names),
    )


def _index_of(directory: Path | None) -> migrating.Index:
    from trimtab.loop.acting.migrating import read_index

    if directory is None:
        raise UsageError(
            "which files lie on a target is told by an index",
            code="index-missing",
            hint="make one: trimtab purge scan; then --index DIR",
        )
    return read_index(directory)


def _named(observed: Observed, prefix: str | None) -> str | None:
    """Return the id of the one action that begins so.

    Raises
    ------
    UsageError
        There is none, or there are several.
    """
    if prefix is None:
        return None
    named = [each.id for each in observed.actions if each.id.startswith(prefix)]
    if len(named) == 1:
        return named[0]
    problem = f"{len(named)} actions have" if named else "no action of the last thirty days has"
    raise UsageError(
        f"{problem} an id that begins with {visible(prefix[:40])!r}",
        code="action-ambiguous" if named else "action-unknown",
        hint=f"list them: trimtab actions {observed.site.name}",
    )


def _known(observed: Observed, names: tuple[str, ...]) -> frozenset[str]:
    snapshot = observed.snapshot
    known = set() if snapshot is None else {target.target.name for target in snapshot.targets}
    for name in names:
        if name not in known:
            raise UsageError(
                f"there is no target {visible(name[:80])!r}",
                code="target-unknown",
                hint=f"known: {', '.join(sorted(known)[:12])}",
            )
    return frozenset(names)

"""The right to act on a site, and plans carried out with it once a killed run is settled."""

from __future__ import annotations

import contextlib
import getpass
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trimtab.act.action_journal import (
    ActionEnd,
    ActionJournal,
    directory_of,
    ended,
    log_actions,
    opened,
)
from trimtab.act.apply import LEASE, ActingSurroundings, GivesWay, apply, never
from trimtab.act.decide.site_observed import SiteObserved
from trimtab.act.first_target import changed, first_targets, measure, measure_if_possible, pending
from trimtab.act.observing import LongAgo, observe
from trimtab.act.safeguard import DeadMan, Pacing, dead_man
from trimtab.base.action import INTERRUPTED, Action, ActionKind, Outcome, Plan
from trimtab.base.filesystem import DRIVERS
from trimtab.base.site import Site
from trimtab.base.snapshot import NotAvailable, Setting
from trimtab.site.lookup import open_acting_driver
from trimtab.store.slot import is_gone, this_process

if TYPE_CHECKING:
    from trimtab.base.snapshot import Snapshot
    from trimtab.reach.driver_protocol import Clock, Driver
    from trimtab.store.store import Store


@dataclass(frozen=True, slots=True)
class ActingPlace:
    """A site with its open store and its clock.

    Attributes
    ----------
    open_acting
        `open_acting_driver`, or a substitute for it.
    sleep
        Waits for a number of seconds, by the same clock.
    long_ago
        Part of the ledger that earlier visits read.
    """

    site: Site
    store: Store
    clock: Clock
    open_acting: Callable[..., Driver] = open_acting_driver
    sleep: Callable[[float], None] = time.sleep
    long_ago: LongAgo = field(default_factory=LongAgo)

    def observe(self, driver: Driver, *, measuring: bool = False) -> SiteObserved:
        """Return the site as it is now.

        Parameters
        ----------
        measuring
            Whether first targets that still await their survey or probe get it.
        """
        observed = observe(self.site, driver, self.store, self.clock(), self.long_ago)
        waiting = pending(observed) if measuring else ()
        if not waiting:
            return observed
        measure_if_possible(self.site, self.store, driver, observed, waiting)
        return observe(self.site, driver, self.store, self.clock(), self.long_ago)

    def keep(self, snapshot: Snapshot) -> None:
        """Store a snapshot taken after a change, since an older one contradicts the ledger."""
        self.store.add_snapshot(self.site.name, snapshot)


def settle(place: ActingPlace, surroundings: ActingSurroundings) -> tuple[Action, ...]:
    """Determine the outcome of actions of killed processes, and return these actions."""
    journal, site = surroundings.journal, place.site.name
    settled = recover(journal, place.store, surroundings.driver, site, place.clock())
    # A process that was killed may not have written its last run there.
    outcomes = {action.id: action for action in settled}
    log_actions(place.store, site, [outcomes.get(each.id, each) for each in journal.last_run])
    return settled


def carry_out(
    place: ActingPlace,
    plan: Plan,
    observed: SiteObserved,
    surroundings: ActingSurroundings,
    progress: Callable[[Action], None] = lambda action: None,
) -> tuple[Action, ...]:
    """Carry out a plan that is not held; the log book has what was done, also if only a part was.

    If the site requires it, the first target of a rollout is measured before and after.
    """
    if plan.held:
        return ()
    site, store, driver = place.site, place.store, surroundings.driver
    first = first_targets(plan) if plan.policy == "tunables" else ()
    measure(site, store, driver, observed, first)
    actions = apply_and_log(place, plan, surroundings, progress)
    measure_if_possible(site, store, driver, observed, changed(actions, first))
    return actions


def apply_and_log(
    place: ActingPlace,
    plan: Plan,
    surroundings: ActingSurroundings,
    progress: Callable[[Action], None] = lambda action: None,
) -> tuple[Action, ...]:
    """Carry out a plan; the log book has what was done, also if only a part was."""
    begun = surroundings.clock()
    try:
        return apply(plan, surroundings, progress)
    finally:
        done = place.store.actions(place.site.name, since=begun)
        of_plan = [action for action in done if action.plan == plan.id]
        log_actions(place.store, place.site.name, of_plan)


@contextlib.contextmanager
def carrying_out(place: ActingPlace, gives_way: GivesWay = never) -> Iterator[ActingSurroundings]:
    """Hold the right to act on a site, its journal and its driver.

    Parameters
    ----------
    gives_way
        As `ActingSurroundings.gives_way`.

    Raises
    ------
    RefusedError
        Another process acts on the site.
    """
    site, store, clock = place.site, place.store, place.clock
    holder = this_process()
    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(opened(directory_of(store), site.name))
        now = clock()
        token = store.take_right(site.name, holder, now=now, until=now + LEASE, gone=is_gone)
        stack.callback(store.release_right, site.name, token)
        who = f"{getpass.getuser()}@{platform.node()}"
        driver = place.open_acting(site, clock=clock, token=token, who=who)
        # A server that puts back by itself outlives this host, too.
        simulated = DRIVERS[site.driver].simulated
        guarded = simulated or not isinstance(driver.dead_man_s, NotAvailable)
        guard = DeadMan() if guarded else stack.enter_context(dead_man(driver))
        yield ActingSurroundings(
            driver=driver,
            store=store,
            journal=journal,
            clock=clock,
            token=token,
            who=who,
            range_bytes=site.policies.trim.range_bytes,
            deadman=guard,
            resume=journal.past.interrupted_trims,
            pacing=Pacing(driver, site.policies.trim, place.sleep),
            migrate_bytes_per_s=site.policies.balance.bandwidth_bytes_per_s,
            gives_way=gives_way,
            together=site.servers.ssh.fanout if site.servers.names and not simulated else 1,
        )


# After a kill: the ledger is filled from the journal, and open actions are checked

_REGISTRATIONS: Final = {ActionKind.REGISTER: True, ActionKind.DEREGISTER: False}
"""Whether the MDT has a user afterwards."""
MARGIN: Final = timedelta(minutes=2)
"""Maximum time from the journal's line to the beginning of a server's write."""


def recover(
    journal: ActionJournal, store: Store, driver: Driver, site: str, now: datetime
) -> tuple[Action, ...]:
    """Settle every action that was begun and did not end, and return these actions.

    Afterwards the ledger has all that the journal has.
    """
    done = journal.past
    first = min((action.at for action in done.actions), default=None)
    stored = {} if first is None else {a.id: a for a in store.actions(site, since=first)}
    settled = []
    for action in done.actions:
        final = action
        if action.outcome is None:
            line = _end_of(action, driver, now)
            journal.write(line)
            final = ended(action, line)
            settled.append(final)
        if stored.get(action.id) != final:
            store.put_action(final)
    return tuple(settled)


def _end_of(action: Action, driver: Driver, now: datetime) -> ActionEnd:  # noqa: C901
    """Return the end to record for an action whose process was killed."""
    instruction = action.instruction
    outcome, state = Outcome.UNKNOWN, None
    detail = "its process was killed: whether it was done is not known"
    wait_s = driver.dead_man_s
    puts_back = not isinstance(wait_s, NotAvailable)
    pending = puts_back and now - action.at < timedelta(seconds=wait_s) + MARGIN
    if pending and instruction.kind in {ActionKind.SET, ActionKind.CLOSE}:
        detail = "its process was killed, and its server may be about to put back the value"
    elif instruction.kind is ActionKind.SET and instruction.setting is not None:
        setting = driver.settings(instruction.target).get(instruction.setting)
        if isinstance(setting, Setting):
            state = setting.value
            if state == instruction.value:
                outcome, detail = Outcome.DONE, "its process was killed after it was written"
            elif state == instruction.before:
                outcome, detail = Outcome.SKIPPED, "its process was killed, the value is as before"
    elif instruction.kind in {ActionKind.CLOSE, ActionKind.OPEN}:
        snapshot = driver.snapshot(now).of(instruction.target)
        enabled = None if snapshot is None else snapshot.value("create_enabled")
        if isinstance(enabled, bool):
            wanted = instruction.kind is ActionKind.OPEN
            outcome = Outcome.DONE if enabled is wanted else Outcome.SKIPPED
            state = "open" if enabled else "closed"
            detail = "its process was killed; this is how the target is now"
    elif instruction.kind in _REGISTRATIONS:
        state = _changelog_user(driver, instruction.target)
        if state is not None and bool(state) is _REGISTRATIONS[instruction.kind]:
            outcome, detail = Outcome.DONE, "its process was killed after it was done"
    elif instruction.kind in {ActionKind.TRIM, ActionKind.RESET_ALLOCATOR, ActionKind.MIGRATE}:
        outcome, detail = Outcome.FAILED, "its process was killed; it can be repeated"
    return ActionEnd(now, action.id, outcome.value, state, detail, {INTERRUPTED: "killed"})


def _changelog_user(driver: Driver, target: str) -> str | None:
    changelogs = driver.changelogs
    answer = changelogs if isinstance(changelogs, NotAvailable) else changelogs.user(target)
    return answer if isinstance(answer, str) else None

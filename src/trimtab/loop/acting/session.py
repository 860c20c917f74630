"""One visit to a site that may change it: everything opened, what was left open settled first."""

from __future__ import annotations

import contextlib
import getpass
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Final

from trimtab.act import migrating, reverting, tunables
from trimtab.act.observed import Observed
from trimtab.config.problems import did_you_mean
from trimtab.config.targets import unfold_targets
from trimtab.errors import RefusedError, UsageError
from trimtab.loop import event_log
from trimtab.loop.acting.applying import LEASE, GivesWay, Surroundings, apply, never
from trimtab.loop.acting.deadman import DeadMan, dead_man
from trimtab.loop.acting.journal import EndLine, Journal, directory_of, ended, ends_open, opened
from trimtab.loop.acting.measuring import (
    changed,
    first_targets,
    measure,
    measure_if_possible,
    pending,
)
from trimtab.loop.acting.observing import LongAgo, observe
from trimtab.loop.acting.pacing import Pacing
from trimtab.loop.sites import (
    clock_of,
    know_site,
    open_acting_driver,
    open_driver,
    site_file,
)
from trimtab.loop.standing import standing_of
from trimtab.loop.stores import open_store
from trimtab.loop.watching.lease import is_gone, this_process
from trimtab.model.action import INTERRUPTED, Action, ActionKind, Outcome, Plan
from trimtab.model.driver import DRIVERS
from trimtab.model.event import Event, EventKind
from trimtab.model.site import Site
from trimtab.model.standing import SiteStanding
from trimtab.model.telemetry import NotAvailable, Setting
from trimtab.site.load import known_sites
from trimtab.units import enumerated
from trimtab.visible import shell_text, visible

if TYPE_CHECKING:
    from trimtab.drivers.protocol import Clock, Driver
    from trimtab.model.telemetry import Snapshot
    from trimtab.record.store import Store


CONTROLLERS: Final = {
    "tunables": "trimtab.act.tunables",
    "allocator": "trimtab.act.allocator",
    "trim": "trimtab.act.trimming",
    "balance": "trimtab.act.balance",
}
"""Policy to the module whose ``decide(observed, now)`` plans it."""
_MEASURED: Final = frozenset({"tunables", "again"})


@dataclass(frozen=True, slots=True)
class Visit:
    """A site that was observed, with the plan that a policy makes of it.

    Attributes
    ----------
    settled
        Actions of processes that were killed, whose outcome was found out.
    actions
        What was carried out; empty where the plan was only shown.
    standing
        How the site stands, by the snapshot that the plan is made of.
    applied
        Whether it was to be carried out.
    """

    site: Site
    store: str
    plan: Plan
    standing: SiteStanding
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
            hint=did_you_mean(where, known_sites())
            or f"write one: trimtab init {shell_text([where]) if '/' in where else 'PATH'}",
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
    index: Callable[[], migrating.Index] | None = None,
    progress: Callable[[Action], None] = lambda action: None,
) -> Visit:
    """Observe a site, decide, and with ``applying`` carry the plan out.

    Where there is nothing to change nothing is written, not even the right to act.

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
        With ``migrate``: reads the files of a purge's index.

    Raises
    ------
    RefusedError
        It is held, or another process acts on the site.
    TrimtabError
        The site cannot be opened, or the store or journal cannot be used.
    """
    site = acting_site(where)
    with open_store(store_url, site, create=True) as store:
        know_site(store, site)
        place = Place(site, store, clock_of(site))
        location = str(store.location)

        def planned(observed: Observed) -> Plan:
            plan = _plan(observed, policy, place.clock(), action, index)
            return plan if targets is None else _narrowed(plan, observed, targets)

        measuring = applying and policy in _MEASURED
        observed = place.observe(open_driver(site, clock=place.clock), measuring=measuring)
        plan = planned(observed)
        standing = standing_of(store, event_log.Place(site.name, site), snapshot=observed.snapshot)
        if not applying:
            return Visit(site, location, plan, standing)
        if not plan.is_due and not _is_unsettled(place, observed):
            _refuse_another(plan, expected)
            return Visit(site, location, plan, standing, True)
        with carrying_out(place) as surroundings:
            settled = settle(place, surroundings)
            observed = place.observe(surroundings.driver)
            plan = planned(observed)
            _refuse_another(plan, expected)
            actions = carry_out(place, plan, observed, surroundings, progress)
            if actions:
                place.keep(surroundings.driver.snapshot(place.clock()))
        return Visit(site, location, plan, standing, True, settled, actions)


def _is_unsettled(place: Place, observed: Observed) -> bool:
    """Return whether a process that was killed may have left something open."""
    is_open = any(action.outcome is None for action in observed.actions)
    return is_open or ends_open(directory_of(place.store), place.site.name)


def _refuse_another(plan: Plan, expected: str | None) -> None:
    if expected not in {None, plan.id}:
        raise RefusedError(
            f"the plan is {plan.id} now, not {visible(str(expected)[:40])}",
            code="plan-changed",
            hint="see it again: without --apply",
        )


@dataclass(frozen=True, slots=True)
class Place:
    """A site whose store is open, in the time that passes there.

    Attributes
    ----------
    open_acting
        `open_acting_driver`, or what stands for it.
    sleep
        Waits for that many seconds, by the same clock.
    long_ago
        What earlier visits read of the ledger.
    """

    site: Site
    store: Store
    clock: Clock
    open_acting: Callable[..., Driver] = open_acting_driver
    sleep: Callable[[float], None] = time.sleep
    long_ago: LongAgo = field(default_factory=LongAgo)

    def observe(self, driver: Driver, *, measuring: bool = False) -> Observed:
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
        """Keep what the site looks like after a change: an older one contradicts the ledger."""
        self.store.add_snapshot(self.site.name, snapshot)


def settle(place: Place, surroundings: Surroundings) -> tuple[Action, ...]:
    """Find out what became of actions of processes that were killed, and return these."""
    journal, site = surroundings.journal, place.site.name
    settled = recover(journal, place.store, surroundings.driver, site, place.clock())
    # A process that was killed may not have written its last run there.
    outcomes = {action.id: action for action in settled}
    log_actions(place.store, site, [outcomes.get(each.id, each) for each in journal.last_run])
    return settled


def carry_out(
    place: Place,
    plan: Plan,
    observed: Observed,
    surroundings: Surroundings,
    progress: Callable[[Action], None] = lambda action: None,
) -> tuple[Action, ...]:
    """Carry out a plan that is not held; what was done is in the log book, also of a part.

    Where the site wants it the first target of a rollout is measured before and after.
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
    place: Place,
    plan: Plan,
    surroundings: Surroundings,
    progress: Callable[[Action], None] = lambda action: None,
) -> tuple[Action, ...]:
    """Carry out a plan; what was done is in the log book, also of a part."""
    begun = surroundings.clock()
    try:
        return apply(plan, surroundings, progress)
    finally:
        done = place.store.actions(place.site.name, since=begun)
        of_plan = [action for action in done if action.plan == plan.id]
        log_actions(place.store, place.site.name, of_plan)


@contextlib.contextmanager
def carrying_out(place: Place, gives_way: GivesWay = never) -> Iterator[Surroundings]:
    """Hold the right to act on a site, its journal and its driver.

    Parameters
    ----------
    gives_way
        As `Surroundings.gives_way`.

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
        yield Surroundings(
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


def decided(observed: Observed, policy: str, now: datetime) -> Plan:
    """Return the plan of one of `CONTROLLERS`."""
    return import_module(CONTROLLERS[policy]).decide(observed, now)


def _plan(
    observed: Observed,
    policy: str,
    now: datetime,
    action: str | None,
    index: Callable[[], migrating.Index] | None,
) -> Plan:
    """Return what a policy makes of what was observed."""
    if policy in CONTROLLERS:
        plan = decided(observed, policy, now)
    elif policy == "migrate":
        if index is None:
            raise UsageError(
                "which files lie on a target is told by an index",
                code="index-missing",
                hint="make one: trimtab purge scan ROOT --index DIR; then name it with --index DIR",
            )
        plan = migrating.decide(observed, index(), now)
    elif policy == "again":
        plan = tunables.decide(observed, now, again=True)
    else:
        named = _named(observed, action)
        plan = reverting.decide(observed, named, now, reopening=policy == "reopen")
    return plan


def _narrowed(plan: Plan, observed: Observed, targets: str) -> Plan:
    """Return what a plan has for the targets that were named."""
    names = _known(observed, unfold_targets(targets))
    return replace(
        plan,
        instructions=tuple(each for each in plan.instructions if each.target in names),
        untouched=tuple(each for each in plan.untouched if each.target in names),
    )


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
    problem = f"{len(named)} actions have" if named else "no action that may be in force has"
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


# What was done to a site, in its log book: incidents are compared with it

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


# After a kill: the ledger is filled from the journal, and what was open is looked at again

_REGISTRATIONS: Final = {ActionKind.REGISTER: True, ActionKind.DEREGISTER: False}
"""Whether the MDT then has a user."""
MARGIN: Final = timedelta(minutes=2)
"""A server begins a write that long after the journal's line at the most."""


def recover(
    journal: Journal, store: Store, driver: Driver, site: str, now: datetime
) -> tuple[Action, ...]:
    """Settle every action that was begun and did not end, and return them.

    The ledger afterwards has whatever the journal has.
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


def _end_of(action: Action, driver: Driver, now: datetime) -> EndLine:  # noqa: C901
    """Return what is to be said of an action whose process was killed."""
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
    return EndLine(now, action.id, outcome.value, state, detail, {INTERRUPTED: "killed"})


def _changelog_user(driver: Driver, target: str) -> str | None:
    changelogs = driver.changelogs
    answer = changelogs if isinstance(changelogs, NotAvailable) else changelogs.user(target)
    return answer if isinstance(answer, str) else None

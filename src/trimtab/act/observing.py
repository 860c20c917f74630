"""Basis of decisions: a new snapshot, the earlier record, the ledger, and work in progress."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trimtab.act.decide.site_observed import SiteObserved
from trimtab.act.first_target import with_verdicts
from trimtab.base.action import Action, ActionKind, still_counting
from trimtab.base.error import Message
from trimtab.base.filesystem import DRIVERS
from trimtab.base.maintenance_window import IN_MAINTENANCE
from trimtab.base.name_set import ost_name
from trimtab.base.schedule import PROBE_PREFIX
from trimtab.base.site import Site
from trimtab.base.snapshot import NotAvailable, Snapshot, TrimPractice
from trimtab.probe.site_standing import integrity
from trimtab.store.chain import is_locked
from trimtab.store.location import purge_place

if TYPE_CHECKING:
    from trimtab.reach.driver_protocol import Driver
    from trimtab.store.store import Store


LEDGER: Final = timedelta(days=30)
"""Age up to which actions count; settings and closings count until they are reverted."""
REPEATED_S: Final = {ActionKind.RESET_ALLOCATOR: 2 * 3600.0, ActionKind.TRIM: 2 * 86400.0}
"""The same for frequent kinds, or two of their intervals if longer: a large site has a million in
thirty days."""
_READ_AGAIN: Final = timedelta(days=1)
_LASTING: Final = (ActionKind.SET, ActionKind.CLOSE, ActionKind.OPEN)
BASELINE: Final = timedelta(hours=1)


def observe(
    site: Site, driver: Driver, store: Store, now: datetime, long_ago: LongAgo | None = None
) -> SiteObserved:
    """Return a site as it is now, with the reason for everything that could not be observed.

    Parameters
    ----------
    long_ago
        Part of the ledger that earlier visits of this process read; ``None``: nothing.
    """
    snapshot = driver.snapshot(now)
    latest = store.latest_snapshot(site.name)
    return SiteObserved(
        site=site,
        snapshot=snapshot,
        baseline=store.latest_snapshot(site.name, now - BASELINE),
        actions=ledger(store, site, now, long_ago),
        busy=busy(site, store, snapshot, now),
        practices=practices(driver, snapshot),
        pools=pools(driver),
        measured={target: at for at, target, _, _ in store.last_survey(site.name)},
        integrity=integrity(site, snapshot),
        clock_jump_s=0.0 if latest is None else max(0.0, (latest.at - now).total_seconds()),
    )


class LongAgo:
    """Old actions that still count, kept in memory between two visits.

    Each visit reads those that have become old since the previous visit; all of them are read at
    first, and once a day, as another process may have settled one.
    """

    def __init__(self) -> None:
        self._actions: tuple[Action, ...] = ()
        self._from: datetime | None = None
        self._until: datetime | None = None

    def before(
        self, store: Store, site: str, until: datetime, reverted: Collection[str] = frozenset()
    ) -> tuple[Action, ...]:
        """Return settings and closings from before a time that may still be in force.

        Parameters
        ----------
        reverted
            Ids of actions that were reverted since.
        """
        known, first, end = self._until, self._from, until - timedelta(microseconds=1)
        if first is None or known is None or not known <= until < first + _READ_AGAIN:
            self._actions, self._from, known = (), until, None
        newer = store.actions(site, since=known, until=end, kinds=_LASTING)
        self._actions = tuple(still_counting((*self._actions, *newer), reverted))
        self._until = until
        return self._actions


def ledger(
    store: Store, site: Site, now: datetime, long_ago: LongAgo | None = None
) -> tuple[Action, ...]:
    """Return the actions that decisions are based on: recent ones, and what may be in force."""
    since, policies = now - LEDGER, site.policies
    recent = list(store.actions(site.name, since=since, kinds=set(ActionKind) - REPEATED_S.keys()))
    reverted = {name for action in recent for name in action.instruction.reverts}
    older = (long_ago or LongAgo()).before(store, site.name, since, reverted)
    for kind, policy in (
        (ActionKind.RESET_ALLOCATOR, policies.allocator),
        (ActionKind.TRIM, policies.trim),
    ):
        begin = now - timedelta(seconds=max(REPEATED_S[kind], 2 * policy.every_s))
        recent += store.actions(site.name, since=begin, kinds=(kind,))
    ordered = sorted(recent, key=lambda action: (action.at, action.id))
    known = with_verdicts(
        store, site.name, ordered, surveyed=policies.tunables.survey, probe=policies.tunables.probe
    )
    return (*older, *known)


def busy(site: Site, store: Store, snapshot: Snapshot, now: datetime) -> dict[str, Message]:
    """Return why targets must be left alone; the empty name means all."""
    reasons = in_maintenance(site, store, now)
    for slot in store.open_slots(site.name):
        if slot.item.startswith(PROBE_PREFIX):
            reasons[""] = Message("probe-running", f"{slot.item} has been running since its slot")
    if not DRIVERS[site.driver].simulated and is_locked(purge_place().journals):
        reasons[""] = Message("purge-running", "a purge is running on this host")
    for target in snapshot.targets:
        if target.value("degraded") is True:
            reasons[target.target.name] = Message("target-degraded", "its array is being rebuilt")
    return reasons


def in_maintenance(site: Site, store: Store, moment: datetime) -> dict[str, Message]:
    """Return the targets that a window holds at a moment, as `busy` does."""
    reasons: dict[str, Message] = {}
    for window in store.windows(site.name, since=moment):
        if window.holds(moment) and not site.policies.in_maintenance:
            why = Message(IN_MAINTENANCE, f"in maintenance: {window.why}")
            reasons |= dict.fromkeys(window.targets or ("",), why)
    return reasons


def practices(driver: Driver, snapshot: Snapshot) -> dict[str, TrimPractice | NotAvailable]:
    """Return how each target is trimmed without Trimtab."""
    return {
        target.target.name: driver.trim_practice(target.target.name) for target in snapshot.targets
    }


def pools(driver: Driver) -> dict[str, frozenset[str]] | NotAvailable:
    """Return the OSTs of each pool, by the names of targets."""
    members = driver.pools()
    if isinstance(members, NotAvailable):
        return members
    return {
        pool: frozenset(ost_name(number) for number in numbers) for pool, numbers in members.items()
    }

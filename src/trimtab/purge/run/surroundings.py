"""The world of a run on this host: its clock, its files, and the file system as it is mounted here.

What only servers know (their clocks, the objects that are being destroyed) is asked for by
functions that whoever knows the site hands over; without them it is not known.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from trimtab.purge.horizon.usage import Usage
from trimtab.purge.policy import Policy
from trimtab.purge.run import collect
from trimtab.purge.run.reserve import give_back
from trimtab.purge.run.situation import (
    ArmingFacts,
    CanaryFacts,
    Planned,
    RootFacts,
    ServerClock,
    Situation,
)
from trimtab.record.system_errors import system_errors
from trimtab.record.trusted import opened, synchronise_file_system
from trimtab.visible import visible

LOOK_EVERY_S: Final = 1.0
"""The mount table is read so often at most; the kill switch is looked for before every batch."""


@dataclass(frozen=True, slots=True)
class Site:
    """What is asked of others than this host; each may be left out.

    Attributes
    ----------
    in_flight
        Objects whose destruction has to be waited for, over all servers; ``None``: not known.
    clocks
        Of the servers.
    keeps_deleted
        What keeps the space of deleted files, such as a trash can that is switched on.
    deleting
        Called before files are deleted: what ``in_flight`` says after that is of the objects that
        wait by then, and not of those that others add later.
    """

    in_flight: Callable[[], int | None] = lambda: None
    clocks: Callable[[], tuple[ServerClock, ...]] = tuple
    keeps_deleted: Callable[[], str | None] = lambda: None
    deleting: Callable[[], None] = lambda: None


@dataclass(eq=False)
class HostSurroundings:
    """The surroundings of a run, from what is on this host.

    Attributes
    ----------
    arming
        Who armed the plan, as read before the run.
    journals
        Directory of the journals.
    canary
        Whether a canary file is made: by a run that deletes, never by a dry run.
    quarantine
        Of the plan: the reserve in it is given back where a full file system takes no canary.
    leftovers
        Finds what runs of other plans left.
    owner
        Whose the allow-list has to be.
    clock, sleep
        Of this host.
    root
        The descriptor of the root that the guards looked at; ``None``: there is none yet. Whatever
        is done beneath the root goes by it: its path may lead elsewhere by then.
    """

    policy: Policy
    planned: Planned
    arming: ArmingFacts
    journals: Path
    canary: bool
    quarantine: str | None = None
    site: Site = field(default_factory=Site)
    leftovers: Callable[[], tuple[str, ...]] = tuple
    owner: int = 0
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    root: int | None = field(default=None, init=False)
    _first: Situation | None = field(default=None, init=False)
    _looked_at_s: float = field(default=0.0, init=False)

    def close(self) -> None:
        """Let go of the root."""
        if self.root is not None:
            os.close(self.root)
            self.root = None

    def now_s(self) -> float:
        """Return the time, in seconds since 1970."""
        return self.clock()

    def wait(self, seconds: float) -> None:
        """Return after a while."""
        self.sleep(seconds)

    def measure(self) -> tuple[Usage, int | None]:
        """Return how full the file system is, and how many objects are still being destroyed."""
        # Objects first: what is destroyed between the two is in the use then, and not forgotten.
        in_flight = self.site.in_flight()
        return collect.usage(self._place), in_flight

    def sync(self) -> None:
        """Return when the file system has on stable storage what was done to it."""
        with (
            system_errors(
                f"{visible(self.policy.root)} cannot be synchronised",
                code="root-unsynced",
                hint="run again: what was deleted since the last time is looked for",
            ),
            opened(self._place) as top,
        ):
            synchronise_file_system(top)

    def situation(self) -> Situation:
        """Return the facts; after the first time only those that may change while a run lasts.

        Nothing is deleted that was not preceded by a look at them.
        """
        self.site.deleting()
        if self._first is None:
            self._first = self._all()
            return self._first
        now_s = self.now_s()
        pulled = collect.kill_switch(Path(self.policy.guards.kill_switch))
        if not 0 <= now_s - self._looked_at_s < LOOK_EVERY_S:
            self._looked_at_s = now_s
            self._first = replace(self._first, root=self._root_again(self._first.root))
        return replace(self._first, now_s=now_s, kill_switch=pulled)

    @property
    def _place(self) -> str | int:
        return self.policy.root if self.root is None else self.root

    def _keep(self, descriptor: int) -> None:
        self.close()
        self.root = descriptor

    def _all(self) -> Situation:
        guards, root = self.policy.guards, collect.root_facts(self.policy.root, keep=self._keep)
        self._looked_at_s = self.now_s()
        usable, place = root.trouble is None, self._place
        return Situation(
            now_s=self.now_s(),
            policy=self.policy,
            planned=self.planned,
            root=root,
            allow_list=collect.allow_list(Path(guards.allow_list), owner=self.owner),
            arming=self.arming,
            root_user=os.geteuid() == 0,
            kill_switch=collect.kill_switch(Path(guards.kill_switch)),
            canary=self._flown(place) if self.canary and usable else None,
            usage=collect.usage(place) if usable else None,
            clocks=self.site.clocks(),
            keeps_deleted=self.site.keeps_deleted() or collect.keeps_deleted(root),
            journal_trouble=collect.journal_trouble(self.journals, self.policy.root),
            leftovers=self.leftovers() if usable else (),
        )

    def _flown(self, place: str | int) -> CanaryFacts:
        facts = collect.canary(place, clock=self.now_s)
        if not facts.no_room or self.quarantine is None or not give_back(place, self.quarantine):
            return facts
        return collect.canary(place, clock=self.now_s)

    def _root_again(self, before: RootFacts) -> RootFacts:
        after = collect.root_facts(self.policy.root)
        if after.trouble is None and _place_of(after) != _place_of(before):
            shown = visible(self.policy.root)
            return replace(before, trouble=f"{shown} is another directory than when the run began")
        return after


def _place_of(root: RootFacts) -> tuple[int | None, int | None, str | None] | None:
    """Return which directory of which mount it is."""
    system = root.file_system
    return None if system is None else (system.device, system.root_inode, system.mount)

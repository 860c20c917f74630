"""The surroundings of a run: this host's clock, files and remover, and what a site's servers know.

Facts that only servers have (their clocks, objects being destroyed) come from `AskedServers`, or
from other functions that the caller passes in; without these they are unknown.
"""

from __future__ import annotations

import contextlib
import math
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from trimtab.base.error import RefusedError, TrimtabError, UsageError, system_errors, visible
from trimtab.base.trusted_file import opened, synchronise_file_system
from trimtab.base.units import plural
from trimtab.purge import root_facts
from trimtab.purge.fullness import Usage
from trimtab.purge.plan.arming import read_arming
from trimtab.purge.plan.plan_directory import LoadedPlan
from trimtab.purge.purge_policy import Policy, loosened
from trimtab.purge.root_facts import first_troubles, look_beneath, path_troubles
from trimtab.purge.run.situation import (
    ArmingFacts,
    CanaryFacts,
    Planned,
    RootFacts,
    ServerClock,
    Situation,
)
from trimtab.reach.fleet import FanOut
from trimtab.reach.fleet import fan_out as reach
from trimtab.reach.lustre.deleted_space import DeletedSpace, Drain, Pair, ask_deleted_space
from trimtab.reach.lustre.lustre_client import lustre_name
from trimtab.reach.lustre.server_query import ask_clocks
from trimtab.site.lookup import is_beneath, open_site, site_with_path

if TYPE_CHECKING:
    from trimtab._core import Candidates, Removal
    from trimtab.base import site as model
    from trimtab.purge.plan.deletion_plan import PlannedFileSystem


SPARE_INODES: Final = 32
SPARE_BYTES: Final = 2 * 1024**2
_BLOCKS: Final = "blocks"
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def set_aside(root: str | int, name: str, *, threads: int, rows: int) -> None:
    """Create the quarantine of a plan with cells for its threads and a reserve; idempotent.

    A run needs a few inodes and blocks of the file system that it purges, for the last check of
    files and for a canary, and it is needed most when there are none. So they are set aside when
    the plan is published, weeks before its run.

    Parameters
    ----------
    rows
        Maximum rows of a batch.

    Raises
    ------
    RefusedError
        The name exists and is not a private directory of this user.
    OSError
        The file system has no space left.
    """
    from trimtab._core import QUARANTINE

    files = QUARANTINE["cell_files"].items()
    room_bytes = {file: fixed + rows * of_row for file, (fixed, of_row) in files}
    with opened(root) as top, _private(name, top) as quarantine:
        for number in range(threads):
            with _private(f"{QUARANTINE['ready']}{number}", quarantine) as cell:
                for file, size_bytes in room_bytes.items():
                    with opened(file, cell, _NEW) as descriptor:
                        if size_bytes:
                            os.posix_fallocate(descriptor, 0, size_bytes)
        with (
            _private(QUARANTINE["stranded"], quarantine),
            _private(QUARANTINE["reserve"], quarantine) as reserve,
        ):
            with opened(_BLOCKS, reserve, _NEW) as descriptor:
                os.posix_fallocate(descriptor, 0, SPARE_BYTES)
            for number in range(SPARE_INODES):
                with opened(f"{number:02}", reserve, _NEW):
                    pass
        os.fsync(quarantine)


def give_back(root: str | int, name: str) -> bool:
    """Release the reserve's inodes and blocks; return whether there was one."""
    from trimtab._core import QUARANTINE

    with contextlib.suppress(OSError), opened(root) as top, opened(name, top) as quarantine:
        with opened(QUARANTINE["reserve"], quarantine) as reserve:
            for file in os.listdir(reserve):  # noqa: PTH208 (a descriptor has no path)
                os.unlink(file, dir_fd=reserve)
        os.rmdir(QUARANTINE["reserve"], dir_fd=quarantine)
        return True
    return False


def clear(root: str | int, name: str) -> None:
    """Remove what `set_aside` created and no run needs any more; other files there stay."""
    from trimtab._core import QUARANTINE

    give_back(root, name)
    with contextlib.suppress(OSError), opened(root) as top:
        with opened(name, top) as quarantine:
            for cell in os.listdir(quarantine):  # noqa: PTH208 (a descriptor has no path)
                if cell.startswith(QUARANTINE["ready"]):
                    with opened(cell, quarantine) as inside:
                        for file in QUARANTINE["cell_files"]:
                            with contextlib.suppress(FileNotFoundError):
                                os.unlink(file, dir_fd=inside)
                    os.rmdir(cell, dir_fd=quarantine)
            with contextlib.suppress(FileNotFoundError):  # a run removed it when empty
                os.rmdir(QUARANTINE["stranded"], dir_fd=quarantine)
        os.rmdir(name, dir_fd=top)


@contextlib.contextmanager
def _private(name: str, directory: int) -> Iterator[int]:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=directory)
    with opened(name, directory) as descriptor:
        state = os.fstat(descriptor)
        if state.st_uid != os.geteuid() or stat.S_IMODE(state.st_mode) & 0o777 != 0o700:
            raise RefusedError(
                f"{visible(name)} beneath the root is not a private directory of user "
                f"{os.geteuid()}",
                code="quarantine-untrusted",
                hint="find out who created it, and make a new plan",
            )
        yield descriptor


LOOK_EVERY_S: Final = 1.0
"""Minimum interval of reading the mount table; the kill switch is checked before every batch."""


@dataclass(frozen=True, slots=True)
class AskedSite:
    """Queries to other hosts; each is optional.

    Attributes
    ----------
    in_flight
        Number of objects still to be destroyed, over all servers; ``None`` if unknown.
    clocks
        Clocks of the servers.
    keeps_deleted, maintenance
        What keeps the space of deleted files, such as an active trash can; what the site is in.
    deleting
        Called before files are deleted: ``in_flight`` then counts only objects pending by that
        time, not those that others add later.
    """

    in_flight: Callable[[], int | None] = lambda: None
    clocks: Callable[[], tuple[ServerClock, ...]] = tuple
    keeps_deleted: Callable[[], str | None] = lambda: None
    deleting: Callable[[], None] = lambda: None
    maintenance: str | None = None


@dataclass(eq=False)
class HostSurroundings:
    """Surroundings of a run, from this host.

    Attributes
    ----------
    arming
        Who armed the plan, as read before the run.
    journals
        Directory of the journals.
    canary
        Whether to create a canary file: only in a run that deletes, never in a dry run.
    quarantine
        The plan's quarantine, whose reserve is released if a full file system has no space for a
        canary.
    leftovers
        Finds what runs of other plans left.
    owner
        Uid that must own the allow-list.
    clock, sleep
        Clock and sleep function of this host.
    root
        Descriptor of the root checked by the guards; ``None`` before that. All operations beneath
        the root use it, because the path may lead elsewhere later.
    """

    policy: Policy
    planned: Planned
    arming: ArmingFacts
    journals: Path
    canary: bool
    quarantine: str | None = None
    site: AskedSite = field(default_factory=AskedSite)
    leftovers: Callable[[], tuple[str, ...]] = tuple
    owner: int = 0
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    root: int | None = field(default=None, init=False)
    _first: Situation | None = field(default=None, init=False)
    _looked_at_s: float = field(default=0.0, init=False)

    def close(self) -> None:
        """Close the root's descriptor."""
        if self.root is not None:
            os.close(self.root)
            self.root = None

    def now_s(self) -> float:
        """Return the time, in seconds since 1970."""
        return self.clock()

    def wait(self, seconds: float) -> None:
        """Wait."""
        self.sleep(seconds)

    def measure(self) -> tuple[Usage, int | None]:
        """Return usage, and the number of objects still being destroyed, if known."""
        # Objects first: those destroyed in between then still show in usage, and are not missed.
        in_flight = self.site.in_flight()
        return root_facts.usage(self._place), in_flight

    def sync(self) -> None:
        """Synchronise all changes of the file system to stable storage."""
        with (
            system_errors(
                f"{visible(self.policy.root)} cannot be synchronised",
                code="root-unsynced",
                hint="run again: deletions since the last synchronisation are checked",
            ),
            opened(self._place) as top,
        ):
            synchronise_file_system(top)

    def situation(self) -> Situation:
        """Return the facts.

        After the first call only those that may change during a run are updated.

        No deletion happens without checking them first.
        """
        self.site.deleting()
        if self._first is None:
            self._first = self._all()
            return self._first
        now_s = self.now_s()
        pulled = root_facts.kill_switch(Path(self.policy.guards.kill_switch))
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
        guards, root = self.policy.guards, root_facts.root_facts(self.policy.root, keep=self._keep)
        self._looked_at_s = self.now_s()
        usable, place = root.trouble is None, self._place
        return Situation(
            now_s=self.now_s(),
            policy=self.policy,
            planned=self.planned,
            root=root,
            allow_list=root_facts.allow_list(Path(guards.allow_list), owner=self.owner),
            arming=self.arming,
            root_user=os.geteuid() == 0,
            kill_switch=root_facts.kill_switch(Path(guards.kill_switch)),
            canary=self._flown(place) if self.canary and usable else None,
            usage=root_facts.usage(place) if usable else None,
            clocks=self.site.clocks(),
            keeps_deleted=self.site.keeps_deleted() or root_facts.keeps_deleted(root),
            journal_trouble=root_facts.journal_trouble(self.journals, self.policy.root),
            leftovers=self.leftovers() if usable else (),
            maintenance=self.site.maintenance,
        )

    def _flown(self, place: str | int) -> CanaryFacts:
        facts = root_facts.canary(place, clock=self.now_s)
        if not facts.no_room or self.quarantine is None or not give_back(place, self.quarantine):
            return facts
        return root_facts.canary(place, clock=self.now_s)

    def _root_again(self, before: RootFacts) -> RootFacts:
        after = root_facts.root_facts(self.policy.root)
        if after.trouble is None and _place_of(after) != _place_of(before):
            shown = visible(self.policy.root)
            return replace(
                before, trouble=f"{shown} is not the directory it was when the run began"
            )
        return after


def _place_of(root: RootFacts) -> tuple[int | None, int | None, str | None] | None:
    """Return the identity of the root's directory and mount."""
    system = root.file_system
    return None if system is None else (system.device, system.root_inode, system.mount)


def surroundings_of(
    loaded: LoadedPlan,
    previous: LoadedPlan | None,
    policy: Policy,
    *,
    journals: Path,
    owner: int,
    canary: bool,
    now_s: int,
    site: AskedSite,
    leftovers: Callable[[], tuple[str, ...]],
) -> HostSurroundings:
    """Return the surroundings of a plan's run, under the policy in force.

    Parameters
    ----------
    previous
        The plan that was published before.
    journals
        Directory of the journals, which also hold who armed the plan.
    """
    planned, plan = loaded.policy, loaded.plan
    exempt = path_troubles(policy, look_beneath(policy.root), now_s=now_s, planned=planned)
    return HostSurroundings(
        policy,
        Planned(
            plan,
            loaded.publication,
            changes=loosened(planned, policy, at_s=now_s),
            previous=None if previous is None else previous.plan.candidates,
            exempt_troubles=first_troubles(list(exempt)),
        ),
        read_arming(journals, plan.id, loaded.sha256, owner=owner),
        journals=journals,
        canary=canary,
        quarantine=plan.quarantine,
        site=site,
        leftovers=leftovers,
        owner=owner,
    )


def remover_of(
    loaded: LoadedPlan,
    candidates: Candidates,
    policy: Policy,
    *,
    now_s: int,
    before_s: int | None = None,
    root: int | None = None,
    in_use: Sequence[bytes] = (),
    quarantine: str | None = None,
) -> Removal:
    """Return the core's remover for a plan, under the policy in force.

    The rules are the plan's; what the policy in force keeps comes on top, so that an exemption
    that was granted since holds at once.

    Parameters
    ----------
    candidates
        The plan's (`open_candidates`).
    before_s
        The cut-off; ``None``: the plan's.
    root
        A descriptor of the root; ``None``: its path is opened.
    in_use
        Paths relative to the root that stay, whatever the rules say.
    quarantine
        Where files are put aside; ``None``: the plan's.
    """
    from trimtab._core import Removal, Rules

    plan, rules = loaded.plan, loaded.plan.rules
    exempt = partial(policy.exempt_numbers, at_s=now_s)
    counted = {*rules.counted, *(name for name in policy.counted if name != "atime")}
    return Removal(
        candidates,
        plan.file_system.root,
        Rules(
            counted=sorted(counted),
            as_of_s=now_s,
            old_enough_before_s=_old_enough_before_s(loaded, policy),
            minimum_size_bytes=max(rules.minimum_size_bytes, policy.minimum_size_bytes),
            exempt_paths=sorted({*rules.exempt_path_bytes, *policy.exempt_paths(now_s), *in_use}),
            exempt_users=sorted({*rules.exempt_users, *exempt("user")}),
            exempt_groups=sorted({*rules.exempt_groups, *exempt("group")}),
            exempt_projects=sorted({*rules.exempt_projects, *exempt("project")}),
            linked=rules.linked and policy.linked_files == "delete",
        ),
        before_s=plan.horizon.before_s if before_s is None else before_s,
        quarantine=quarantine or plan.quarantine,
        time_resolution_ns=plan.index.time_resolution_ns,
        threads=policy.throttle.threads,
        open_files=policy.open_files == "delete" and loaded.policy.open_files == "delete",
        lustre=plan.file_system.kind == "lustre",
        exact_sizes=plan.index.has_exact_sizes,
        # Users save their files at any time after the scan that found them.
        listed_s=math.ceil((plan.index.started_at or plan.index.ended_at).timestamp()),
        root_descriptor=root,
    )


def _old_enough_before_s(loaded: LoadedPlan, policy: Policy) -> int:
    """Return the limit of the plan's rules, or an earlier one if the policy's minimum age rose."""
    rules = loaded.plan.rules
    more_s = max(0, policy.minimum_age_s - loaded.policy.minimum_age_s)
    return rules.old_enough_before_s - more_s * (1 if rules.reads_count else 2)


_NAMED: Final = 3
"""Maximum number of OSTs named in a sentence."""

Answer = TypeVar("Answer")


@dataclass(slots=True)
class AskedServers:
    """The servers of a site, as queried by a run; answers are remembered.

    Nothing here raises: a server that does not answer leaves a fact unknown, with a sentence.

    Attributes
    ----------
    file_system
        Lustre's name of it.
    servers
        Servers to query, and how; ``None``: none.
    why_nobody
        Reason for people, if no server is queried.
    """

    file_system: str = ""
    servers: model.Servers | None = None
    why_nobody: str | None = None
    fan_out: FanOut = reach
    _drain: Drain = field(default_factory=Drain)
    _last: DeletedSpace | None = None
    _unknown: Counter[str] = field(default_factory=Counter)

    def site(self, maintenance: str | None = None) -> AskedSite:
        """Return the questions of a run, with what is known of the site."""
        if self.servers is None:
            return AskedSite(maintenance=maintenance)
        questions = self.in_flight, self.clocks, self.keeps_deleted, self._drain.restart
        return AskedSite(*questions, maintenance)

    def in_flight(self) -> int | None:
        """Return the number of objects waiting at the first look that may still wait.

        An MDS that falls silent while it has objects destroyed may not have destroyed them: the
        last known number is used.
        """
        space = self._ask_deleted_space("objects of deleted files are still being destroyed")
        if space is None or space.objects is None:
            old = self._drain.old
            return None if old is None else sum(old.values())
        return self._drain.look(space.objects, space.uncounted)

    def clocks(self) -> tuple[ServerClock, ...]:
        """Return the clocks of the servers and clients that answer."""
        servers, fan_out = self.servers, self.fan_out
        if servers is None:
            return ()
        answers = self._tried("clocks of servers", lambda: ask_clocks(servers, fan_out=fan_out))
        clocks = []
        for clock in answers or ():
            if clock.at_s is None:
                self._unknown[
                    f"the time on {visible(clock.name)} was not known: {clock.problem}"
                ] += 1
            else:
                clocks.append(ServerClock(clock.name, clock.at_s, clock.before_s, clock.after_s))
        return tuple(clocks)

    def keeps_deleted(self) -> str | None:
        """Return which trash can would keep deleted files."""
        space = self._ask_deleted_space("a trash can is on")
        if space is None or not space.trash_cans:
            return None
        return f"deleted files go into a trash can: {', '.join(space.trash_cans)}"

    def sentences(self) -> tuple[str, ...]:
        """Return notes for people, one sentence each."""
        if self.why_nobody is not None:
            return (self.why_nobody,)
        sentences = [
            text if count == 1 else f"{text} ({count} times)"
            for text, count in self._unknown.items()
        ]
        if self._last is not None and self._last.held:
            sentences.append(
                f"{_of_osts(self._last.held)}, which an MDT has switched off: they are destroyed, "
                "and their space is free, when it is switched on again"
            )
        old = {pair: count for pair, count in (self._drain.old or {}).items() if count}
        if old:
            sentences.append(
                f"{_of_osts(old)}: they were not seen to be destroyed when last looked at"
            )
        return tuple(sentences)

    def _ask_deleted_space(self, subject: str) -> DeletedSpace | None:
        servers, file_system, fan_out = self.servers, self.file_system, self.fan_out
        if servers is None:
            return None
        space = self._tried(
            subject, lambda: ask_deleted_space(servers, file_system, fan_out=fan_out)
        )
        if space is not None:
            self._last = space
            if space.objects is None:
                self._unknown[f"whether {subject} was not known: {'; '.join(space.problems)}"] += 1
        return space

    def _tried(self, subject: str, ask: Callable[[], Answer]) -> Answer | None:
        try:
            return ask()
        except TrimtabError as error:
            self._unknown[f"no server could be asked about {subject}: {error.message}"] += 1
            return None


def _of_osts(objects: Mapping[Pair, int]) -> str:
    """Return how many objects wait on which OSTs, those with the most first."""
    counts: Counter[str] = Counter()
    for (_, ost), count in objects.items():
        counts[ost] += count
    most = counts.most_common()
    names = ", ".join(f"{ost} ({count:,})" for ost, count in most[:_NAMED])
    more = f" and {plural(len(most) - _NAMED, 'other OST')}" if len(most) > _NAMED else ""
    return f"{plural(counts.total(), 'object', ',')} of deleted files wait on {names}{more}"


def servers_of(
    planned: PlannedFileSystem, where: str | None, *, fan_out: FanOut = reach
) -> AskedServers:
    """Return the servers to ask for a run on the file system of a plan.

    Parameters
    ----------
    where
        The site; ``None``: the one site file whose path has the root, if there is just one. A run
        that asks servers can only be held back more, so the site need not be named.

    Raises
    ------
    UsageError
        The named site does not exist, or is another file system's.
    """
    if planned.kind != "lustre":
        return AskedServers()
    if where is not None:
        site = open_site(where).site
    else:
        site = site_with_path(planned.root, file_system=planned.name)
    if site is None:
        return AskedServers(
            why_nobody="no server of this Lustre was asked what it still destroys, nor for its "
            "time: it has no site file (trimtab init PATH writes one)"
        )
    shown = visible(site.name)
    if not is_beneath(site, planned.root):
        raise UsageError(
            f"the site {shown} is of {visible(site.path)}, and {visible(planned.root)} is not "
            "beneath it",
            code="site-elsewhere",
            hint="name the site whose file system is purged",
        )
    if site.driver != "lustre" or not (site.servers.names or site.servers.clients):
        return AskedServers(
            why_nobody="no server of this Lustre was asked what it still destroys, nor for its "
            f"time: the site {shown} names none"
        )
    file_system = site.file_system or planned.name or lustre_name(site)
    if planned.name not in (None, file_system):
        raise UsageError(
            f"the site {shown} is of the Lustre {visible(file_system)}, the plan of "
            f"{visible(planned.name or '')}",
            code="site-elsewhere",
            hint="name the site whose file system is purged",
        )
    return AskedServers(file_system, site.servers, fan_out=fan_out)

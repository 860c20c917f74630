"""What a run asks the servers of a Lustre site, and what it reports if none answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from trimtab.base.error import TrimtabError, UsageError
from trimtab.base.units import plural
from trimtab.base.visible import visible
from trimtab.purge.run.situation import ServerClock
from trimtab.purge.run.surroundings import AskedSite
from trimtab.reach.fleet import FanOut
from trimtab.reach.fleet import fan_out as reach
from trimtab.reach.lustre.deleted_space import DeletedSpace, Drain, Pair, ask_deleted_space
from trimtab.reach.lustre.lustre_client import lustre_name
from trimtab.reach.lustre.server_query import ask_clocks
from trimtab.site.lookup import is_beneath, open_site, site_with_path

if TYPE_CHECKING:
    from trimtab.base import site as model
    from trimtab.purge.plan.deletion_plan import PlannedFileSystem

_NAMED: Final = 3
"""So many OSTs are told by name."""

Answer = TypeVar("Answer")


@dataclass(slots=True)
class AskedServers:
    """The servers of a site, asked for what a run wants to know; what they say is remembered.

    Nothing here raises: a server that does not answer leaves something unknown, and a sentence.

    Attributes
    ----------
    file_system
        Lustre's name of it.
    servers
        Who is asked, and how; ``None``: nobody.
    why_nobody
        A sentence for people, where nobody is asked.
    """

    file_system: str = ""
    servers: model.Servers | None = None
    why_nobody: str | None = None
    fan_out: FanOut = reach
    _drain: Drain = field(default_factory=Drain)
    _last: DeletedSpace | None = None
    _unknown: Counter[str] = field(default_factory=Counter)

    def site(self) -> AskedSite:
        """Return the questions of a run."""
        if self.servers is None:
            return AskedSite()
        return AskedSite(self.in_flight, self.clocks, self.keeps_deleted, self._drain.restart)

    def in_flight(self) -> int | None:
        """Return how many of the objects that waited at the first look may still wait.

        An MDS that falls silent while it has objects destroyed has not destroyed them: what was
        known last holds.
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
        """Return which trash can would keep what a run deletes."""
        space = self._ask_deleted_space("a trash can is on")
        if space is None or not space.trash_cans:
            return None
        return f"deleted files go into a trash can: {', '.join(space.trash_cans)}"

    def sentences(self) -> tuple[str, ...]:
        """Return what a person should know of it, a sentence each."""
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
            self._unknown[f"nobody could be asked about {subject}: {error.message}"] += 1
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
        The site; ``None``: the one site file whose path has the root, if there is just one. Who
        asks more can only be held back more, so nobody need remember to name it.

    Raises
    ------
    UsageError
        The named site is not there, or is another file system's.
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
            "time: no site file is of it (trimtab init PATH writes one)"
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

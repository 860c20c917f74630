"""Looking for incidents, in a process of its own: what months take of memory goes with it.

A look reads all kept months: for seconds it takes more memory than the watch itself, and an
allocator that gave nearly all of it back still left the watch some MiB larger after each incident.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from trimtab.loop.event_log import Place
from trimtab.loop.workers import frames_for_months, worker_pool

if TYPE_CHECKING:
    from trimtab.model.incident import Explanation
    from trimtab.record.store import Store


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look found.

    Attributes
    ----------
    unkept
        Why the incidents could not be kept; ``None``: they are.
    """

    explanations: tuple[Explanation, ...]
    unkept: str | None


class Look(Protocol):
    """How a site is looked at: `look`, or the same elsewhere."""

    def __call__(
        self, store: Store, place: Place, now: datetime, *, incidents: bool = True
    ) -> Looked:
        """Return what was found, or nothing where incidents were not looked for."""
        ...


def look(store: Store, place: Place, now: datetime, *, incidents: bool = True) -> Looked:
    """Bring what is kept of a site up to date.

    Parameters
    ----------
    incidents
        Whether those are looked for as well.

    Raises
    ------
    UsageError
        Nothing is kept of the site; without incidents: or no run can be judged yet.
    """
    from trimtab.loop.verdicts import bring_up_to_date, bring_verdicts_up_to_date

    if not incidents:
        bring_verdicts_up_to_date(store, place)
        return Looked((), None)
    search, _ = bring_up_to_date(store, place, now=now)
    return Looked(search.explained.explanations, search.unkept)


def look_elsewhere(store: Store, place: Place, now: datetime, *, incidents: bool = True) -> Looked:
    """Do the same in a process that ends with the answer.

    Raises
    ------
    UsageError
        As `look`.
    ToolError
        The process was killed.
    """
    with worker_pool(1, hint="the next look is tomorrow, or at the next suspect") as pool:
        url = store.location.url
        return pool.submit(_looked, url, place, now, incidents).result()


def _looked(url: str, place: Place, now: datetime, incidents: bool) -> Looked:
    frames_for_months()  # one thread: the probes of the watch have the others
    from trimtab.loop.stores import open_store

    with open_store(url) as store:
        return look(store, place, now, incidents=incidents)

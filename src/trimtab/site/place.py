"""The place of a site in a store: its name there, its log book, the open store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Final

from trimtab.base.error import TrimtabError, UsageError
from trimtab.base.event import Event, EventKind, new_identifier
from trimtab.base.name_set import unfold_targets
from trimtab.base.site import Site, SiteLimits
from trimtab.base.units import parse_moment
from trimtab.site.lookup import site_file, site_of

if TYPE_CHECKING:
    from trimtab.store.store import Store


PERSON: Final = "person"
_DETAIL_MAXIMUM: Final = 2000
_FUTURE: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Place:
    """A site under which events, judgements and incidents are stored.

    Attributes
    ----------
    name
        Its name in the store.
    site
        Contents of its site file; ``None`` without one.
    """

    name: str
    site: Site | None

    @property
    def timezone(self) -> str:
        """Time zone of the site's days."""
        return "UTC" if self.site is None else self.site.timezone

    @property
    def limits(self) -> SiteLimits:
        """Its limits; the defaults if it has no site file."""
        return SiteLimits() if self.site is None else self.site.limits

    def moment(self, text: str | None, *, end: bool = False) -> datetime | None:
        """Return a time that a person wrote, in the site's zone; for a date its begin or end."""
        return None if text is None else parse_moment(text, self.timezone, end=end)


def place_of(store: Store, where: str) -> Place:
    """Return the site that a word names: that of a site file, or one with a stored record.

    Raises
    ------
    UsageError
        There is no such site.
    """
    loaded = site_file(where)
    return place_with(store, where, None if loaded is None else loaded.site)


def place_with(store: Store, where: str, site: Site | None) -> Place:
    """Return the site that a word names, whose site file was read; ``None``: it has none.

    Raises
    ------
    UsageError
        There is no such site.
    """
    return Place(site_of(store, where) if site is None else site.name, site)


def add_event(
    store: Store,
    where: str | Place,
    *,
    kind: str,
    detail: str,
    now: datetime,
    at: str | None = None,
    until: str | None = None,
    targets: str | None = None,
    source: str = PERSON,
) -> Event:
    """Write an event into the log book of a site and return it.

    Parameters
    ----------
    where
        A word that names the site, or the site.
    at, until
        As `trimtab.base.units.parse_moment` reads them, in the site's zone. ``at`` is now by
        default.
    targets
        Targets that it concerns, as ``OST[0000-0003],MDT0000``; ``None``: the whole site.

    Raises
    ------
    UsageError
        There is no such site, a time is invalid or in the future, or the detail is empty.
    """
    place = where if isinstance(where, Place) else place_of(store, where)
    words = detail.strip()
    if not words:
        raise UsageError("an event needs a description of what happened", code="event-empty")
    if len(words) > _DETAIL_MAXIMUM:
        raise UsageError(
            f"more than {_DETAIL_MAXIMUM} characters; describe one event", code="event-too-long"
        )
    begin, end = place.moment(at) or now, place.moment(until, end=True)
    if begin > now + _FUTURE:
        problem, hint = f"{begin.isoformat()} is in the future", "record an event after it happened"
        raise UsageError(problem, code="time-in-future", hint=hint)
    if end is not None and end < begin:
        problem = f"it ends at {end.isoformat()}, before it begins at {begin.isoformat()}"
        raise UsageError(problem, code="times-reversed")
    event = Event(
        id=new_identifier(begin),
        site=place.name,
        kind=EventKind(kind),
        at=begin,
        until=end,
        targets=() if targets is None else unfold_targets(targets),
        detail=words,
        source=source,
    )
    store.add_event(event)
    return event


_UNKNOWN: Final = {"store-missing", "site-unknown"}
"""Error codes of a mistyped site name: its store is not opened."""


@dataclass(frozen=True)
class Opened:
    """A site's open store; ``site`` is ``None`` without a site file."""

    where: str | None
    site: Site | None
    store: Store

    @property
    def location(self) -> str:
        """Where results are stored, in printable form."""
        return str(self.store.location)

    @cached_property
    def place(self) -> Place:
        """The site under which results are stored; raises UsageError if there are none."""
        return place_with(self.store, self.where or "", self.site)

    @property
    def now(self) -> datetime:
        """The time by the site's own clock."""
        from trimtab.site.lookup import clock_of

        return clock_of(self.site)()


@contextmanager
def opened(where: str | None, store_url: str | None) -> Iterator[Opened]:
    """Open the store of a PATH or SITE: the one on the command line, else the site's own."""
    from trimtab.base.toml_problem import did_you_mean
    from trimtab.site.lookup import open_store, site_file
    from trimtab.site.site_file import known_sites

    loaded = site_file(where)
    site = None if loaded is None else loaded.site
    try:
        with open_store(store_url, site) as store:
            yield Opened(where, site, store)
    except TrimtabError as error:
        if site is None and where is not None and error.code in _UNKNOWN:
            error.hint = did_you_mean(where, known_sites()) or error.hint
        raise

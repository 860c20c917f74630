"""The store of a site, opened for one command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final

from trimtab.errors import TrimtabError

if TYPE_CHECKING:
    from trimtab.loop.event_log import Place
    from trimtab.model.site import Site
    from trimtab.record.store import Store


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
        from trimtab.loop.event_log import place_with

        return place_with(self.store, self.where or "", self.site)

    @property
    def now(self) -> datetime:
        """The time by the site's own clock."""
        from trimtab.loop.sites import clock_of

        return clock_of(self.site)()


@contextmanager
def opened(where: str | None, store_url: str | None) -> Iterator[Opened]:
    """Open the store of a PATH or SITE: the one on the command line, else the site's own."""
    from trimtab.config.problems import did_you_mean
    from trimtab.loop.sites import site_file
    from trimtab.loop.stores import open_store
    from trimtab.site.load import known_sites

    loaded = site_file(where)
    site = None if loaded is None else loaded.site
    try:
        with open_store(store_url, site) as store:
            yield Opened(where, site, store)
    except TrimtabError as error:
        if site is None and where is not None and error.code in _UNKNOWN:
            error.hint = did_you_mean(where, known_sites()) or error.hint
        raise

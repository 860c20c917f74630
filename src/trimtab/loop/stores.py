"""Opening the store from a command: asked for within a deadline, made only where runs are made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from trimtab.launch import bounded
from trimtab.record.location import locate

if TYPE_CHECKING:
    from trimtab.model.site import Site
    from trimtab.record.store import Store

_AT_HAND: Final[dict[str, Store]] = {}
"""Stores by URL that this process has open for whoever asks."""


def nothing_kept(url: str | None) -> str | None:
    """Return the place of a store that is not there yet, as people may see it; ``None``: it is."""
    location = locate(url)
    if location.path is None:
        return None
    failure = bounded.describe(str(location.path)).failure
    return str(location) if failure is not None and failure.name == "ENOENT" else None


def with_store(site: Site | None, store_url: str | None) -> str | None:
    """Return where a site's results are kept: as asked on the command line, else its own place."""
    return store_url or (None if site is None else site.store.url)


def open_store(url: str | None, site: Site | None = None, *, create: bool = False) -> Store:
    """Return the store at a URL or path, else a site's own, else that of the default place.

    Raises
    ------
    NoAnswer
        The file system that it lies on does not answer.
    UnreadableError
        There is none and ``create`` is false, or it cannot be read.
    """
    from trimtab.record.store import Store

    return Store.open(with_store(site, url), answers=bounded.describe, create=create)


@contextmanager
def at_hand(store: Store) -> Iterator[None]:
    """Let `borrowed` give this store to whoever asks for its URL."""
    _AT_HAND[store.location.url] = store
    try:
        yield
    finally:
        del _AT_HAND[store.location.url]


def borrowed(url: str) -> Store:
    """Return a store that is not to be closed: one at hand, else opened and kept until the end.

    For questions that a worker process answers, one after another: to open a store takes longer
    than many of them.
    """
    store = _AT_HAND.get(url)
    if store is None:
        store = _AT_HAND[url] = open_store(url)
    return store

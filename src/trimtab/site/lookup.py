"""Finds the site that a person named, as a PATH or SITE, with the store and the driver it uses.

Every call that might hang has a deadline. A missing store is created only on request.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

from trimtab.base.error import (
    TrimtabError,
    UnreadableError,
    UsageError,
    shell_text,
    site_place,
    visible,
)
from trimtab.base.event import utc_now
from trimtab.base.filesystem import DRIVERS, driver_of_mount, lustre_name
from trimtab.base.site import NONE, Site
from trimtab.base.toml_problem import NAME, did_you_mean
from trimtab.base.trusted_file import read_text
from trimtab.reach import bounded
from trimtab.site.site_file import LoadedSite, known_sites, load_site
from trimtab.site.site_file import find_site as find_site_file
from trimtab.store.location import locate

if TYPE_CHECKING:
    from datetime import datetime

    from trimtab.reach.driver_protocol import Clock, Driver
    from trimtab.site.path_access import Reach
    from trimtab.store.kept import Keepable, KeptSite
    from trimtab.store.store import Store


_AT_HAND: Final[dict[str, Store]] = {}
"""Open stores of this process by URL, for `borrowed`."""


def nothing_kept(url: str | None) -> str | None:
    """Return the printable place of a store that does not exist yet; ``None`` if it exists."""
    location = locate(url)
    if location.path is None:
        return None
    failure = bounded.describe(str(location.path)).failure
    return str(location) if failure is not None and failure.name == "ENOENT" else None


def with_store(site: Site | None, store_url: str | None) -> str | None:
    """Return where a site's results are stored: the place on the command line, else its own."""
    return store_url or (None if site is None else site.store.url)


def open_store(url: str | None, site: Site | None = None, *, create: bool = False) -> Store:
    """Return the store at a URL or path, else a site's own, else that of the default place.

    Raises
    ------
    NoAnswer
        The file system of the store does not answer.
    UnreadableError
        It does not exist and ``create`` is false, or it cannot be read.
    """
    from trimtab.store.store import Store

    return Store.open(with_store(site, url), answers=bounded.describe, create=create)


@contextmanager
def at_hand(store: Store) -> Iterator[None]:
    """Let `borrowed` return this store for its URL."""
    _AT_HAND[store.location.url] = store
    try:
        yield
    finally:
        del _AT_HAND[store.location.url]


def borrowed(url: str) -> Store:
    """Return a store that must not be closed: one `at_hand`, else opened and kept until the end.

    For questions that a worker process answers one after another, many of which take less time
    than opening a store.
    """
    store = _AT_HAND.get(url)
    if store is None:
        store = _AT_HAND[url] = open_store(url)
    return store


SITE_FILE: Final = ".toml"
_SITE_TABLE: Final = re.compile(r"^\s*\[site\]", re.MULTILINE)
"""Table that only a site file has; scenarios, sweeps and policies may be beside it."""

OpenDriver = Callable[[Site], "Driver"]
"""`open_driver`, or a substitute in a test."""


def open_site(where: str) -> LoadedSite:
    """Return the site of a name, a site file or a PATH.

    A ``.toml`` file is a SITE, what has a ``/`` is a PATH. Of other words the name of a site file
    comes first, then a directory here, for which a site is made up: local, or a Lustre client's
    view.

    Raises
    ------
    UsageError
        There is no such site, or its file is wrong.
    """
    site = site_file(where)
    if site is not None:
        return site
    if "/" in where or bounded.describe(where).kind == "directory":
        return LoadedSite(site_of_path(where), ())
    return load_site(find_site_file(where))


def kept_site(where: str, store_url: str | None) -> Site:
    """Return the site of a word as `open_site` does, or one that only a store knows of.

    Raises
    ------
    UsageError
        There is no such site, and nothing is kept under that name.
    """
    try:
        return open_site(where).site
    except UsageError as error:
        if error.code != "site-unknown" or nothing_kept(store_url) is not None:
            raise
        with open_store(store_url) as store:
            known = next((site for site in store.sites() if site.name == where), None)
        if known is None:
            raise
    return site_as_kept(known)


def site_as_kept(stored: KeptSite) -> Site:
    """Return a site of which only the store knows."""
    entry = DRIVERS.get(stored.driver or "")
    # A twin without its scenario is only a network file system, as Lustre is.
    driver = "lustre" if entry is None or entry.simulated else entry.name
    timezone = stored.timezone or "UTC"
    return Site(stored.name, driver, stored.path or "", timezone=timezone)


def _as_typed(site: KeptSite) -> str:
    """Return a site as a person names it: by its path if its name was derived from that."""
    return visible(site.path if site.path and ":/" in site.name else site.name)


def site_of(store: Store, where: str) -> str:
    """Return the name under which a PATH or SITE is stored.

    Raises
    ------
    UsageError
        Nothing is kept of it.
    """
    known = {site.name: site for site in store.sites()}
    if where in known:  # without a site file a site is named by its path's identity
        return where
    state = bounded.describe(where)
    if state.kind == "directory":
        from trimtab.reach.local_driver import LocalDriver

        identity = LocalDriver(where).description.identity
        for site in known.values():
            if identity in (site.name, site.identity):
                return site.name
    if state.failure is not None and "/" in where:
        raise bounded.error_of(state.failure, where)
    raise UsageError(
        f"nothing is stored for {visible(where)} yet",
        code="site-unknown",
        hint=did_you_mean(where, known)
        or f"known: {', '.join(map(_as_typed, known.values())) or 'none'}; "
        "trimtab check PATH measures",
    )


def only_site() -> LoadedSite:
    """Return the site of this host where there is just one site file.

    Raises
    ------
    UsageError
        There are several, or none.
    """
    known = known_sites()
    if len(known) != 1:
        names = ", ".join(known) or "none: trimtab init PATH writes one"
        raise UsageError(
            "no site is named", code="site-ambiguous", hint=f"--site; there are {names}"
        )
    return load_site(next(iter(known.values())))


def site_file(where: str | None, *, only_sites: bool = False) -> LoadedSite | None:
    """Return the site whose file ``where`` names or is, ``None`` for paths and unknown names.

    A known name is looked up nowhere else: a directory of that name here is often the site's own
    mount, which answers late or never when something is wrong with it.

    Parameters
    ----------
    only_sites
        Whether a file of that name in the present directory is passed over, as for a service.

    Raises
    ------
    UsageError
        There is such a file, and it is wrong.
    """
    if where is None:
        return None
    if not where.endswith(SITE_FILE) and ("/" in where or where not in known_sites()):
        here = None if only_sites or "/" in where else file_here(where)
        return None if here is None else load_site(here)
    return load_site(find_site_file(where))


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


def site_named(name: str) -> Site | None:
    """Return the site whose file has a name, ``None`` where there is none.

    Raises
    ------
    UsageError
        There is such a file, and it is wrong.
    """
    loaded = site_file(name, only_sites=True)
    return None if loaded is None or loaded.site.name != name else loaded.site


def file_here(name: str) -> str | None:
    """Return the file of a site in the current directory, ``./NAME.toml``, if it exists.

    A directory of that name comes first: a PATH means what it meant before the file was written.
    """
    file = f"./{name}{SITE_FILE}"
    if NAME.fullmatch(name) is None or bounded.describe(file).kind != "file":
        return None
    if bounded.describe(name).kind == "directory":
        return None
    try:
        text = read_text(Path(file), "the site file")
    except UsageError:  # of another user, or no text: the name means something else
        return None
    return file if _SITE_TABLE.search(text) else None


def site_of_path(path: str) -> Site:
    """Return a site made from a path, with what is known without a site file."""
    from trimtab.reach.local_driver import LocalDriver

    description = LocalDriver(path).description
    entry = driver_of_mount(description.kind)
    site = Site(
        name=description.identity,
        driver=entry.name,
        path=description.mount_point if entry.networked else description.real_path,
    )
    if not entry.named:
        return site
    return replace(site, file_system=lustre_name(description.fs_type, description.source))


def site_with_path(
    path: str, *, drivers: Collection[str] = ("lustre",), file_system: str | None = None
) -> Site | None:
    """Return the site file whose path contains a path; ``None`` unless there is exactly one.

    A file that cannot be read, or is of another driver or file system, is passed over.
    """
    sites = []
    for file in known_sites().values():
        try:
            site = load_site(file).site
        except TrimtabError:
            continue
        other = None not in (file_system, site.file_system) and file_system != site.file_system
        if site.driver in drivers and not other and is_beneath(site, path):
            sites.append(site)
    return sites[0] if len(sites) == 1 else None


def is_beneath(site: Site, path: str) -> bool:
    """Return whether a path is a site's own or beneath it."""
    above = site.path.rstrip("/")
    return path == above or path.startswith(f"{above}/")


class Opener(Protocol):
    """Opens a driver for a site: a module."""

    def open_site(self, site: Site, clock: Clock) -> Driver:
        """Return a driver that reads: see `open_driver`."""
        ...

    def open_for_acting(self, site: Site, clock: Clock, *, token: int, who: str) -> Driver:
        """Return a driver that may change: see `open_acting_driver`."""
        ...


class SimulatedOpener(Opener, Protocol):
    """Opens a driver that has a clock of its own."""

    def reach_site(self, site: Site) -> Reach:
        """Return how probes reach it."""
        ...

    def site_clock(self, site: Site) -> Clock:
        """Return its clock."""
        ...


@functools.cache
def opener_of(driver: str) -> Opener:
    """Return the opener of a driver; foreign ones are entry points of ``trimtab.drivers``.

    Raises
    ------
    UsageError
        It is not installed.
    """
    if driver == "local":
        from trimtab.reach import local_driver as local

        return local
    if driver == "lustre":
        from trimtab.reach.lustre import lustre_driver as lustre

        return lustre
    from importlib.metadata import entry_points

    for entry in entry_points(group="trimtab.drivers", name=driver):
        return entry.load()
    raise UsageError(
        f"driver {driver} is not installed",
        code="driver-not-installed",
        hint="install Trimtab again: it is an entry point of the group trimtab.drivers",
    )


def _simulated(site: Site) -> SimulatedOpener:
    return cast("SimulatedOpener", opener_of(site.driver))


def open_driver(site: Site, *, clock: Clock = utc_now) -> Driver:
    """Return the driver that a site names.

    Raises
    ------
    UsageError
        The site's path does not exist; for a twin: its scenario cannot be read.
    """
    return opener_of(site.driver).open_site(site, clock)


def open_acting_driver(site: Site, *, clock: Clock, token: int, who: str) -> Driver:
    """Return the driver that a site names, with the right to change the file system.

    Parameters
    ----------
    token
        Token of the right to act (`Store.take_right`): servers refuse lower ones than they saw.
    who
        The user and host that act, for the logs of servers.

    Raises
    ------
    UsageError
        As `open_driver`.
    """
    return opener_of(site.driver).open_for_acting(site, clock, token=token, who=who)


def reach_of(site: Site) -> Reach:
    """Return how a site's file system is reached from here: the twin's in simulated time.

    Raises
    ------
    UsageError
        For a twin: its scenario cannot be read.
    """
    from trimtab.site.path_access import THIS_HOST

    if DRIVERS[site.driver].simulated:
        return _simulated(site).reach_site(site)
    return THIS_HOST


def clock_of(site: Site | None) -> Clock:
    """Return the clock by which things happen on a site: the host's, or a twin's own."""
    if site is None or not DRIVERS[site.driver].simulated:
        return utc_now
    return _simulated(site).site_clock(site)


def know_site(store: Store, site: Site) -> str | None:
    """Add a site to the store, so that data can be stored under it; return its identity.

    Raises
    ------
    UsageError
        The name belongs to another file system.
    """
    reach = reach_of(site)
    try:
        identity = reach.open_path(site.path, reach.execute, reach.clock).description.identity
    except UsageError:
        identity = None  # not mounted now: answers of the servers can be stored nevertheless
    known = store.ensure_site(
        site.name,
        driver=site.driver,
        identity=identity,
        path=site.path,
        timezone=site.timezone,
    )
    return known.identity


def kept_identity(store: Store, site: Site) -> str | None:
    """Return the identity under which a site is stored; ``None`` if nothing is."""
    return next((known.identity for known in store.sites() if known.name == site.name), None)


def where_of(site: Site) -> str:
    """Return a site as commands find it: by its name, or the file or path it was opened by."""
    if site.source is None:
        return site_place(site.name)
    known = known_sites().get(site.name)
    is_found = known is not None and str(known) == site.source
    return site.name if is_found else site.source


def identity_of(site: Site) -> str | None:
    """Return the identity under which a site is stored in its own store, if that exists."""
    try:
        with open_store(site.store.url) as store:
            return kept_identity(store, site)
    except UnreadableError:
        return None


def with_dask(site: Site | None, dask: str | None, *, workers: int | None = None) -> str | None:
    """Return the Dask scheduler to use: as given on the command line, else the site's.

    Parameters
    ----------
    dask
        Scheduler on the command line; ``none``: no scheduler.
    workers
        Number of local processes on the command line; they replace the site's scheduler.
    """
    if dask is not None:
        return None if dask == NONE else dask
    return None if site is None or workers is not None else site.dask.scheduler


def keep_result(where: str, store_url: str | None, value: Keepable, at: datetime) -> str:
    """Keep a result in the store of a site, and return the site's name.

    Parameters
    ----------
    where
        As `open_site` has it.
    """
    from trimtab.store.kept import add_result

    site = open_site(where).site
    with open_store(store_url, site, create=True) as store:
        store.ensure_site(site.name, driver=site.driver, path=site.path)
        add_result(store, site.name, value, at)
    return site.name

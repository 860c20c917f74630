"""From what a person typed, a PATH or a SITE, to a site and the driver that reaches it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from trimtab.drivers.local.driver import LocalDriver
from trimtab.errors import UsageError
from trimtab.launch import bounded
from trimtab.model import mounts
from trimtab.model.site import Site
from trimtab.site.load import LoadedSite, known_sites, load_site
from trimtab.site.load import find_site as find_site_file

if TYPE_CHECKING:
    from trimtab.drivers.protocol import Clock, Driver
    from trimtab.record.store import Store

SITE_FILE: Final = ".toml"

OpenDriver = Callable[[Site], "Driver"]
"""`open_driver`, or what stands for it in a test."""


def utc_now() -> datetime:
    """Return the time now, aware UTC."""
    return datetime.now(UTC)


def open_site(where: str) -> LoadedSite:
    """Return the site of a name, a site file or a PATH.

    An argument with ``/`` or the name of an existing directory is a PATH: a site is made up for
    it, local or a Lustre client's view. Anything else is a SITE, and so is a ``.toml`` file.

    Raises
    ------
    UsageError
        There is no such site, or its file is wrong.
    """
    if where.endswith(SITE_FILE) or not _is_path(where):
        return load_site(find_site_file(where))
    return LoadedSite(site_of_path(where), ())


def site_file(where: str | None) -> Site | None:
    """Return the site whose file ``where`` names or is, ``None`` for paths and unknown names.

    Raises
    ------
    UsageError
        There is such a file, and it is wrong.
    """
    if where is None or not (where.endswith(SITE_FILE) or where in known_sites()):
        return None
    if not where.endswith(SITE_FILE) and _is_path(where):
        return None
    return load_site(find_site_file(where)).site


def _is_path(where: str) -> bool:
    return "/" in where or bounded.describe(where).kind == "directory"


def site_of_path(path: str) -> Site:
    """Return a site made up for a path: what is known without a site file."""
    description = LocalDriver(path).description
    if description.kind == "lustre":
        return Site(
            name=description.identity,
            driver="lustre",
            path=description.mount_point,
            file_system=mounts.lustre_name(description.fs_type, description.source),
        )
    return Site(name=description.identity, driver="local", path=description.real_path)


def open_driver(site: Site, *, clock: Clock = utc_now) -> Driver:
    """Return the driver that a site names.

    Raises
    ------
    UsageError
        The site's driver does not exist yet, or its path is not there.
    """
    if site.driver == "local":
        return LocalDriver(site.path, clock=clock)
    if site.driver == "lustre":
        from trimtab.drivers.lustre.driver import LustreDriver

        return LustreDriver(site.path, lustre_name(site), site.servers, clock=clock)
    raise UsageError(
        f"{site.name}: the driver {site.driver!r} is not there yet",
        hint="local and lustre are",
    )


def lustre_name(site: Site) -> str:
    """Return Lustre's own name of a site's file system.

    Raises
    ------
    UsageError
        The site file does not say, and neither does the mount.
    """
    if site.file_system is not None:
        return site.file_system
    description = LocalDriver(site.path).description
    name = mounts.lustre_name(description.fs_type, description.source)
    if name is None:
        raise UsageError(
            f"{site.path} is no mount of Lustre that tells its file system",
            hint="name it in the site file: [site] file_system",
        )
    return name


def know_site(store: Store, site: Site) -> None:
    """Name a site in the store, so that something can be kept under it.

    Raises
    ------
    UsageError
        The name stands for another file system.
    """
    try:
        identity = LocalDriver(site.path).description.identity
    except UsageError:
        identity = None  # not mounted now: what the servers say can be kept all the same
    store.ensure_site(
        site.name,
        driver=site.driver,
        identity=identity,
        path=site.path,
        timezone=site.timezone,
    )


def with_store(site: Site | None, store_url: str | None) -> str | None:
    """Return where a site's results are kept: as asked on the command line, else its own place."""
    return store_url or (None if site is None else site.store.url)

"""Opens the driver of a site on Lustre, and finds Lustre's name of the file system."""

from __future__ import annotations

from typing import Final

from trimtab.drivers.local.driver import LocalDriver
from trimtab.drivers.lustre.asking import ask_name
from trimtab.drivers.lustre.driver import LustreDriver
from trimtab.drivers.lustre.writing import Writer
from trimtab.drivers.protocol import Clock
from trimtab.errors import UsageError
from trimtab.launch.process import Execute
from trimtab.model import mounts
from trimtab.model.filesystem import PathDescription
from trimtab.model.site import Site

DEAD_MAN_S: Final = 120.0
"""Longer than a change of a target takes on its servers, including a slow one."""


def open_site(site: Site, clock: Clock) -> LustreDriver:
    """Return the driver of a site.

    Raises
    ------
    UsageError
        The path does not exist, or the name of the file system is unknown.
    """
    return LustreDriver(site.path, lustre_name(site), site.servers, clock=clock)


def open_for_acting(site: Site, clock: Clock, *, token: int, who: str) -> LustreDriver:
    """Return the driver of a site with the right to change it.

    Parameters
    ----------
    token
        The fencing token of the lease under which it is changed.
    who
        The acting user and host, for the servers' logs.

    Raises
    ------
    UsageError
        As `open_site`.
    """
    name = lustre_name(site)
    writer = Writer(site.servers, name, token, who, DEAD_MAN_S)
    mechanism = site.policies.balance.mechanism
    return LustreDriver(
        site.path, name, site.servers, clock=clock, writer=writer, mechanism=mechanism
    )


def name_at(path: str, description: PathDescription, execute: Execute) -> str | None:
    """Return Lustre's name of the file system at a path; ``None`` if it is not Lustre."""
    # The mount table usually has it; else use lfs.
    name = mounts.lustre_name(description.fs_type, description.source)
    return name or ask_name(path, execute)


def lustre_name(site: Site) -> str:
    """Return Lustre's own name of a site's file system.

    Raises
    ------
    UsageError
        Neither the site file nor the mount has it.
    """
    if site.file_system is not None:
        return site.file_system
    description = LocalDriver(site.path).description
    name = mounts.lustre_name(description.fs_type, description.source)
    if name is None:
        raise UsageError(
            f"{site.path} is not a Lustre mount with a file system name",
            code="file-system-name-unknown",
            hint="set it in the site file: [site] file_system",
        )
    return name

"""Opens the driver of a site on Lustre."""

from __future__ import annotations

from typing import Final

from trimtab.drivers.lustre.driver import LustreDriver
from trimtab.drivers.lustre.placement import lustre_name
from trimtab.drivers.lustre.writing import Writer
from trimtab.drivers.protocol import Clock
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

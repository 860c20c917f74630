"""Trimtab's driver on a fake Lustre: what a site has whose servers are those of the fake."""

from __future__ import annotations

from typing import Any

from trimtab.base.site import Servers
from trimtab.reach.lustre.lustre_driver import LustreDriver

from .state import FakeLustre


def servers_of(fake: FakeLustre, **more: Any) -> Servers:
    """Return a site's servers: all of a fake Lustre's."""
    return Servers(oss=tuple(server.name for server in fake.servers), **more)


def driver_of(fake: FakeLustre, servers: Servers | None = None, **more: Any) -> LustreDriver:
    """Return a driver of a fake Lustre that asks all its servers, unless others are given."""
    how: dict[str, Any] = {"execute": fake.execute, "fan_out": fake.fan_out, **more}
    asked = servers_of(fake) if servers is None else servers
    return LustreDriver("/scratch", fake.file_system, asked, **how)

"""A fake Lustre and a driver that may change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.fake_lustre.state import FakeLustre

from trimtab.base.error import TrimtabError, code_of
from trimtab.base.site import Servers
from trimtab.base.snapshot import NotAvailable
from trimtab.reach.lustre.lustre_driver import LustreDriver
from trimtab.reach.lustre.server_write import ServerWriter

AT = datetime(2026, 11, 20, 3, 4, 5, tzinfo=UTC)
GIB = 2**30
OST = "OST0003"
SET = "lctl set_param"
EINVAL = "error: set_param: setting /sys/fs/lustre/x=1: Invalid argument\n"
"""As in params/set_bad."""


@dataclass
class World:
    """A fake Lustre, and a driver that may change it."""

    fake: FakeLustre
    driver: LustreDriver

    @property
    def counts(self) -> list[int]:
        """max_create_count of the OST on each MDT."""
        counts = self.fake.target(OST).max_create_count
        return [counts.get(mdt.name, 20000) for mdt in self.fake.mdts]

    def writes(self) -> list[str]:
        """What was written, as the servers logged it."""
        lines = [line for server in self.fake.servers for line in server.log]
        return [line for line in lines if ": begun " in line]


def a_world(
    *, token: int = 5, fake: FakeLustre | None = None, sudo: bool = False, **more: Any
) -> World:
    fake = fake or FakeLustre.pair()
    servers = Servers(oss=tuple(server.name for server in fake.servers), sudo=sudo)
    dead_man_s = more.pop("dead_man_s", None)
    writer = ServerWriter(servers, fake.file_system, token, "ops@login1", dead_man_s, fake.fan_out)
    driver = LustreDriver(
        *("/scratch", fake.file_system, servers),
        execute=fake.execute,
        fan_out=fake.fan_out,
        clock=lambda: AT,
        writer=writer,
        **more,
    )
    driver.snapshot(AT)
    return World(fake, driver)


def attempt(call: Callable[[], object]) -> object:
    """Return what a call returned, or the error that it raised."""
    try:
        return call()
    except TrimtabError as error:
        return error


def code(answer: object) -> str | None:
    return (
        code_of(answer.reason)
        if isinstance(answer, NotAvailable)
        else getattr(answer, "code", None)
    )

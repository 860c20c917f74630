"""A fake Lustre on disk for surveys: its servers' programs are real processes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fake_lustre.install import Installed, install, locked
from tests.fake_lustre.program import HOST
from tests.fake_lustre.state import FakeLustre

from trimtab.base.site import Servers, Site, Ssh
from trimtab.probe.survey import SurveyRequest, Tools
from trimtab.reach.lustre.lustre_driver import LustreDriver
from trimtab.reach.process import ProcessResult, execute
from trimtab.site.lookup import open_store
from trimtab.store.store import Store

MIB = 2**20
SIZE = 64 * MIB


@dataclass
class Place:
    """A site on a fake Lustre.

    Attributes
    ----------
    calls
        Every command that was run on a server, with the server.
    """

    installed: Installed
    site: Site
    root: Path
    calls: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def changing(self) -> AbstractContextManager[FakeLustre]:
        """Yield the state to look at or change."""
        return locked(self.installed.state.parent)

    def driver(self) -> LustreDriver:
        """Return the driver; its round trips are answered in this process."""

        def run(argv: Sequence[str], **options: Any) -> ProcessResult:
            with self.changing() as state:
                return state.execute(argv, **options)

        def fan_out(
            nodes: Sequence[str], argv: Sequence[str], **options: Any
        ) -> dict[str, ProcessResult]:
            with self.changing() as state:
                return state.fan_out(nodes, argv, **options)

        servers = self.site.servers
        return LustreDriver(self.site.path, "scratch", servers, execute=run, fan_out=fan_out)

    def run(
        self, commands: Mapping[str, Sequence[str]], timeout_s: float
    ) -> dict[str, ProcessResult]:
        """Run each command as on its server, without the way there."""
        found = {}
        for server, argv in commands.items():
            self.calls.append((server, tuple(argv)))
            found[server] = execute(self.on(server, argv), timeout_s=timeout_s)
        return found

    def on(self, server: str, argv: Sequence[str]) -> tuple[str, ...]:
        """Return what runs a command as on a server."""
        return ("env", f"{HOST}={server}", f"PATH={self.installed.path}", *argv)

    def tools(self, **changes: Any) -> Tools:
        """Return what reaches the servers, with pauses that are short."""
        usual: dict[str, Any] = {"run": self.run, "look_s": 0.001, "pause": short}
        return Tools(**(usual | changes))

    def store(self) -> Store:
        """Return the store of the test."""
        return open_store(str(self.root / "t.db"), create=True)

    def surveys(self) -> list[str]:
        """Return the servers on which obdfilter-survey was run, in their order."""
        return [server for server, argv in self.calls if argv[-1] == "obdfilter-survey"]


def short(seconds: float) -> None:
    """Wait a little."""
    time.sleep(min(seconds, 0.05))


def silent(step: str, fraction: float) -> None:
    """Show no progress."""


def on_servers(*targets: str, **changes: Any) -> SurveyRequest:
    """Return a survey on the servers."""
    usual: dict[str, Any] = {"way": "server", "targets": targets, "size_bytes": SIZE}
    return SurveyRequest(**(usual | changes))


def make(root: Path, state: FakeLustre) -> Place:
    """Install a state below a directory, and describe it as a site."""
    mount = Path(state.mount)
    mount.mkdir(exist_ok=True)
    installed = install(state, root / "fake")
    servers = Servers(
        oss=tuple(one.name for one in state.servers if one.name.startswith(("oss", "lustre"))),
        mds=tuple(one.name for one in state.servers if one.name.startswith("mds")),
        ssh=Ssh(command=installed.ssh),
        home={target.name: target.home for target in state.targets},
    )
    site = Site("here", "lustre", str(mount), file_system="scratch", servers=servers)
    return Place(installed, site, root)

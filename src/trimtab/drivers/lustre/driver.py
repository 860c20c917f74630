"""The Lustre driver: ``lfs`` and ``lctl`` here, one round trip to each server. Reading only."""

from __future__ import annotations

import gc
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from trimtab.drivers.host import Host
from trimtab.drivers.local.counters import CpuTimes, busy_fraction, read_cpu_times
from trimtab.drivers.local.describe import mount_table
from trimtab.drivers.lustre.asking import ask_client, ask_servers
from trimtab.drivers.lustre.backing import Backing, read_backing
from trimtab.drivers.lustre.hosts import client_snapshot, other_client, server_snapshot
from trimtab.drivers.lustre.placement import read_placement
from trimtab.drivers.lustre.pools import read_pools
from trimtab.drivers.lustre.state import why_not_served
from trimtab.drivers.lustre.telemetry import Cpu, target_snapshot
from trimtab.drivers.lustre.view import View
from trimtab.drivers.protocol import Clock, Placement, TrimResult, WriteTimes
from trimtab.errors import RefusedError, UsageError
from trimtab.launch.fleet import FanOut
from trimtab.launch.fleet import fan_out as reach
from trimtab.launch.launchers import Execute, Launcher, find_launcher
from trimtab.launch.process import ProcessResult, utc_now
from trimtab.launch.process import execute as run_process
from trimtab.model.filesystem import PathDescription
from trimtab.model.mounts import Mount, find_mount
from trimtab.model.site import Servers
from trimtab.model.telemetry import NotAvailable, Setting, Snapshot, Target, not_available
from trimtab.model.trim import TrimPractice

_READING_ONLY: Final = "the Lustre driver only reads"


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """Keep Python from searching for reference cycles in the block.

    Some 300,000 values come into being there and none refers back: for a large site the search
    would go over all of them ten times.
    """
    searched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searched:
            gc.enable()


class LustreDriver:
    """A Lustre file system, as a client and its servers show it.

    Parameters
    ----------
    path
        Where it is mounted on this host.
    file_system
        Lustre's name of it.
    servers
        Who serves it and how they are asked; without any, only the client's view is there.
    execute
        Runs ``lfs`` and ``lctl``: `trimtab.launch.process.execute`.
    fan_out
        Asks the servers: `trimtab.launch.fleet.fan_out`.
    clock
        Returns the time now, aware UTC.
    """

    name = "lustre"

    def __init__(
        self,
        path: str,
        file_system: str,
        servers: Servers,
        *,
        execute: Execute = run_process,
        fan_out: FanOut = reach,
        clock: Clock = utc_now,
    ) -> None:
        self._path = path
        self._file_system = file_system
        self._servers = servers
        self._execute = execute
        self._fan_out = fan_out
        self._clock = clock
        self._cpu_times: dict[str, CpuTimes] = {}
        self._last: Snapshot | None = None
        self._view: View | None = None

    @property
    def clock(self) -> Clock:
        """Returns the time now, aware UTC."""
        return self._clock

    @property
    def capabilities(self) -> frozenset[str]:
        """What can be done: reading, and running programs."""
        return frozenset({"settings", "placement", "run", "launcher"})

    def view(self) -> View:
        """Return what client and servers say now: one round trip."""
        views = ask_servers(self._servers, self._file_system, fan_out=self._fan_out)
        serving = set(self._servers.names)
        servers = {name: view for name, view in views.items() if name in serving}
        others = {name: view for name, view in views.items() if name not in serving}
        client = ask_client(
            self._file_system, self._path, self._execute, timeout_s=self._servers.timeout_s
        )
        self._view = View(self._file_system, client, servers, dict(self._servers.home), others)
        return self._view

    def snapshot(self, at: datetime) -> Snapshot:
        """Return what every target and machine looks like; what did not answer says so."""
        view = self.view()
        cpu = self._cpu(view)
        with _no_search_for_cycles():
            targets = tuple(target_snapshot(view, target, cpu) for target in view.targets)
        hosts = (
            client_snapshot(view, platform.node(), self._mount(), Host()),
            *(server_snapshot(server, cpu) for server in view.servers.values()),
            *(other_client(client) for client in view.clients.values()),
        )
        complete = not view.client.problems and all(
            host.answered and host.problem is None for host in hosts
        )
        complete = complete and all(target.target.server for target in targets)
        self._last = Snapshot(at, self.name, complete, targets, hosts)
        return self._last

    def targets(self) -> tuple[Target, ...] | NotAvailable:
        """Return every target that client, servers or site file know of."""
        targets = tuple(target.target for target in self._latest().targets)
        return targets or NotAvailable(f"nothing is known of the targets of {self._file_system}")

    def settings(self, target: str) -> dict[str, Setting | NotAvailable]:
        """Return the settings of a target as the last snapshot of this driver found them."""
        snapshot = self._latest().of(target)
        if snapshot is None:
            raise self._no_such(target)
        return dict(snapshot.settings)

    def set(self, target: str, name: str, value: str) -> Setting | NotAvailable:
        """Refuse: this driver changes nothing."""
        if name not in self.settings(target):
            raise UsageError(f"there is no setting {name!r} on {target}", code="setting-unknown")
        raise RefusedError(f"{name} is not written: {_READING_ONLY}", code="driver-read-only")

    def trim(
        self, target: str, start: int = 0, length: int | None = None
    ) -> TrimResult | NotAvailable:
        """Answer that nothing is trimmed yet."""
        self._check(target)
        if start < 0 or (length is not None and length <= 0):
            raise UsageError(
                f"{start} and {length} are not the start and length of a range",
                code="range-invalid",
            )
        return not_available("driver-read-only", _READING_ONLY)

    def trim_practice(self, target: str) -> TrimPractice | NotAvailable:
        """Return how a target was trimmed without Trimtab, as the last snapshot found it."""
        self._check(target)
        backing = self._backing(target)
        if isinstance(backing, NotAvailable):
            return backing
        return backing.trim_practice()

    def write_times(self, target: str) -> WriteTimes | NotAvailable:
        """Return that a server's trim watches the times of writes itself."""
        self._check(target)
        return not_available("server-watches", "a trim on a server watches its writes there")

    def describe(self, target: str) -> PathDescription | NotAvailable:
        """Return what lay beneath a target on its server at the last snapshot.

        Raises
        ------
        UsageError
            There is no such target.
        """
        self._check(target)
        backing = self._backing(target)
        return backing if isinstance(backing, NotAvailable) else backing.description

    def _backing(self, target: str) -> Backing | NotAvailable:
        view = self._view
        serving = () if view is None else view.serving(target)
        if view is None or len(serving) != 1:
            reason = "no snapshot was taken" if view is None else why_not_served(view, target)
            return NotAvailable(reason)
        return read_backing(serving[0], target, link_rates=True)

    def set_creation(self, target: str, enabled: bool) -> NotAvailable:
        """Answer that nothing is opened or closed yet."""
        self._check(target)
        return not_available("driver-read-only", _READING_ONLY)

    def reset_allocator(self, target: str) -> NotAvailable:
        """Answer that nothing is reset yet."""
        self._check(target)
        return not_available("driver-read-only", _READING_ONLY)

    def placement(self, path: str) -> Placement | NotAvailable:
        """Return on which OSTs a file lies."""
        return read_placement(path, self._execute)

    def pools(self) -> Mapping[str, tuple[int, ...]] | NotAvailable:
        """Return the OSTs of each pool, by their index, as this client knows them."""
        return read_pools(self._file_system, self._execute)

    def run(
        self, server: str | None, argv: Sequence[str], timeout_s: float
    ) -> ProcessResult | NotAvailable:
        """Run a program on this host, a server or a client that the site names."""
        if server is None:
            return self._execute(argv, timeout_s=timeout_s)
        if server not in (*self._servers.names, *self._servers.clients):
            return not_available(
                "server-unknown", f"{server} is not among the site's servers and clients"
            )
        if self._servers.reach == "local":
            return self._execute(argv, timeout_s=timeout_s)
        results: Mapping[str, ProcessResult] = self._fan_out(
            (server,), tuple(argv), ssh=self._servers.ssh, timeout_s=timeout_s
        )
        return results[server]

    def launcher(self, name: str) -> Launcher | NotAvailable:
        """Return the launcher of that name, or why it cannot be used here."""
        return find_launcher(name)

    def _mount(self) -> Mount | None:
        """Return the mount of the site's path on this host, from the mount table alone."""
        return find_mount(mount_table(Host()), self._path)

    def _latest(self) -> Snapshot:
        return self._last or self.snapshot(self._clock())

    def _check(self, target: str) -> None:
        if self._latest().of(target) is None:
            raise self._no_such(target)

    def _no_such(self, target: str) -> UsageError:
        known = ", ".join(target_seen.target.name for target_seen in self._latest().targets[:8])
        return UsageError(
            f"there is no target {target!r}",
            code="target-unknown",
            hint=f"known: {known or 'none'}",
        )

    def _cpu(self, view: View) -> Cpu:
        """Return how busy each server was since the last snapshot of this driver."""
        fractions: Cpu = {}
        for name, server in view.servers.items():
            if not server.answered:
                fractions[name] = NotAvailable(server.why_no("parameters"))
                continue
            now = read_cpu_times(server.host)
            if isinstance(now, NotAvailable):
                fractions[name] = now
                continue
            before = self._cpu_times.get(name)
            self._cpu_times[name] = now
            fractions[name] = (
                not_available("one-snapshot", "needs two snapshots: it is the share between them")
                if before is None
                else busy_fraction(before, now)
            )
        return fractions

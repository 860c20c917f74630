"""The Lustre driver: ``lfs`` and ``lctl`` on this host, one round trip to each server.

It only reads, unless it is given a `ServerWriter`.
"""

from __future__ import annotations

import gc
import platform
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime
from typing import Final

from trimtab.base.error import RefusedError, ToolError, UsageError, code_of
from trimtab.base.event import utc_now
from trimtab.base.holder import Holders
from trimtab.base.inventory import ServerInventory
from trimtab.base.site import Servers, Site
from trimtab.base.snapshot import (
    NotAvailable,
    Setting,
    Snapshot,
    Target,
    TrimPractice,
    not_available,
)
from trimtab.reach.driver_protocol import Clock, WriteTimes, check_range
from trimtab.reach.fleet import FanOut
from trimtab.reach.fleet import fan_out as reach
from trimtab.reach.lustre.change_order import (
    ChangeAttempt,
    Order,
    act_alone,
    answer_of,
    as_setting,
    carry_out,
    client_orders,
    confirm_results,
    creation_orders,
    is_open,
    permanent_order,
    setting_orders,
    switch_orders,
)
from trimtab.reach.lustre.changelog import Registrar
from trimtab.reach.lustre.lustre_client import lustre_name, read_placement, read_pools
from trimtab.reach.lustre.lustre_telemetry import (
    ServerProcessors,
    client_snapshot,
    other_client,
    server_messages,
    server_snapshot,
    target_snapshot,
)
from trimtab.reach.lustre.lustre_view import View
from trimtab.reach.lustre.quota_account import QuotaTally
from trimtab.reach.lustre.server_query import (
    ask_client,
    ask_holders,
    ask_inventory,
    ask_servers,
)
from trimtab.reach.lustre.server_write import InstructionResult, ServerWriter
from trimtab.reach.lustre.target_state import backing_of, read_backing, serving, write_times_of
from trimtab.reach.process import Execute, ProcessResult
from trimtab.reach.process import execute as run_process

_READ_ONLY: Final = not_available("driver-read-only", "the file system was opened for reading only")
TRIM_RANGE_BYTES: Final = 2**40
TRIM_TIMEOUT_S: Final = 4 * 3600.0


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """Suspend Python's cyclic garbage collection inside the block.

    About 300,000 objects without cycles are created there: for a large site the collector would
    scan all of them ten times. They are frozen afterwards, so that they are never scanned.
    """
    searched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()
        if searched:
            gc.enable()


@dataclass(eq=False)
class LustreDriver:
    """A Lustre file system, seen through a client and its servers.

    Attributes
    ----------
    path
        Mount point on this host.
    file_system
        Lustre's name of it.
    servers
        Its servers and how to reach them; without any, only the client's view is available.
    execute
        Runs ``lfs`` and ``lctl``: `trimtab.reach.process.execute`.
    fan_out
        Runs programs on the servers: `trimtab.reach.fleet.fan_out`.
    clock
        Returns the current time, aware UTC.
    writer
        Writes on the servers; ``None`` for a read-only driver.
    mechanism
        How targets are closed to new files: ``auto``, ``max_create_count`` or ``no_create``.
    """

    name = "lustre"

    path: str
    file_system: str
    servers: Servers
    _: KW_ONLY
    execute: Execute = run_process
    fan_out: FanOut = reach
    clock: Clock = utc_now
    writer: ServerWriter | None = None
    mechanism: str = "auto"

    def __post_init__(self) -> None:
        self._processors = ServerProcessors()
        self._last: Snapshot | None = None
        self._view: View | None = None
        self._written: dict[tuple[str, str], Setting] = {}
        self._now: dict[tuple[str, str], str] = {}
        self._unconfirmed: dict[int, dict[tuple[str, bool], dict[str, str]]] = {}

    @property
    def capabilities(self) -> frozenset[str]:
        """Capabilities of this driver: read and run programs; change, if it was opened for that.

        Writing requires root or sudo on the servers.
        """
        able = frozenset({"settings", "placement", "run"})
        if self.writer is None or not self._has_rights:
            return able
        return able | {"set", "permanent", "trim", "creation", "allocator-reset"}

    @property
    def _has_rights(self) -> bool:
        if self.servers.sudo or self._view is None:
            return True
        return any(server.answer.euid == 0 for server in self._view.servers.values())

    def view(self) -> View:
        """Query the client and all servers, in one round trip."""
        views = ask_servers(self.servers, self.file_system, fan_out=self.fan_out)
        serving = set(self.servers.names)
        servers = {name: view for name, view in views.items() if name in serving}
        others = {name: view for name, view in views.items() if name not in serving}
        client = ask_client(
            self.file_system,
            self.path,
            self.execute,
            timeout_s=self.servers.timeout_s,
            measured={target for server in servers.values() for target in server.measured},
        )
        self._view = View(self.file_system, client, servers, dict(self.servers.home), others)
        return self._view

    def snapshot(self, at: datetime) -> Snapshot:
        """Return the state of every target and host; silent ones have the reason."""
        with _no_search_for_cycles():
            view = self.view()
            cpu = self._processors.busy(view)
            targets = tuple(target_snapshot(view, target, cpu) for target in view.targets)
            machines = (*view.servers.values(), *view.clients.values())
            messages = tuple(row for each in machines for row in server_messages(each, at))
            hosts = (
                client_snapshot(view, platform.node(), self.path),
                *(server_snapshot(server, cpu) for server in view.servers.values()),
                *(other_client(client) for client in view.clients.values()),
            )
        complete = not view.client.problems and all(
            host.answered and host.problem is None for host in hosts
        )
        complete = complete and all(target.target.server for target in targets)
        self._written.clear()
        self._now.clear()
        self._last = Snapshot(at, self.name, complete, targets, hosts, messages)
        return self._last

    def targets(self) -> tuple[Target, ...] | NotAvailable:
        """Return every target known to the client, a server or the site file."""
        targets = tuple(target.target for target in self._latest().targets)
        return targets or NotAvailable(f"the targets of {self.file_system} are unknown")

    def settings(self, target: str) -> dict[str, Setting | NotAvailable]:
        """Return the settings of a target as of this driver's last snapshot."""
        snapshot = self._latest().of(target)
        if snapshot is None:
            raise self._no_such(target)
        return {**snapshot.settings, **self._read_back(target)}

    def _read_back(self, place: str) -> dict[str, Setting]:
        """Return the settings changed on a target or client since the last snapshot."""
        written = self._written.copy()  # other threads set other servers concurrently
        return {name: setting for (of, name), setting in written.items() if of == place}

    def set(self, target: str, name: str, value: str) -> Setting | NotAvailable:
        """Write a setting everywhere it applies (each MDT, each drive) and read it back.

        With the name of a client it sets that client's. If a part fails, the earlier parts are
        reverted.
        """
        here = target == platform.node()
        known = self._client_settings(target)
        if known is None:
            known = self.settings(target)
        if name not in known:
            raise UsageError(f"there is no setting {name!r} on {target}", code="setting-unknown")
        if self.writer is None:
            raise RefusedError(
                f"{name} cannot be written: {_READ_ONLY.reason}", code="driver-read-only"
            )
        view, current = self._seen(), known[name]
        if self._latest().of(target) is None:
            orders = self._as_written(client_orders(view, target, here, name, value))
        else:
            backing = backing_of(self._seen(), target)
            known_backing = None if isinstance(backing, NotAvailable) else backing
            orders = self._as_written(setting_orders(view, target, known_backing, name, value))
            here = False
        if isinstance(orders, NotAvailable):
            return orders
        attempt = self._carry_out(orders, here=here)
        why = answer_of(attempt, f"{name} of {target}")
        if why is not None:
            return why
        source = current.source if isinstance(current, Setting) else orders[0].name
        setting = as_setting(name, attempt, source)
        self._written[target, name] = setting
        return setting

    def set_permanent(self, target: str, name: str, value: str | None) -> str | NotAvailable:
        """Set a permanent value on the MGS; see `Driver.set_permanent`."""
        self._check(target)
        if self.writer is None:
            return _READ_ONLY
        order = permanent_order(self._seen(), target, name, value)
        if isinstance(order, NotAvailable):
            return order
        result = act_alone(self.writer, order, f"permanent {name} of {target}")
        return result if isinstance(result, NotAvailable) else result.before or ""

    @property
    def changelogs(self) -> Registrar:
        """Trimtab's changelog users on the MDTs."""
        return Registrar(self.servers, self.file_system, self.writer, self.fan_out)

    def trim(self, target: str, start: int = 0, length: int | None = None) -> int | NotAvailable:
        """Trim a byte range of a target on the server that mounts it now."""
        self._check(target)
        check_range(start, length)
        end = None if length is None else start + length
        result = self.trim_ranges(target, start=start, end=end)
        if isinstance(result, NotAvailable):
            return result
        if result.next_start is not None:
            raise ToolError(
                f"trim of {target} ended at byte {result.next_start}: {result.detail}",
                code="trim-failed",
            )
        return int(result.found or 0)

    def trim_ranges(
        self,
        target: str,
        *,
        start: int = 0,
        end: int | None = None,
        range_bytes: int = TRIM_RANGE_BYTES,
        timeout_s: float = TRIM_TIMEOUT_S,
    ) -> InstructionResult | NotAvailable:
        """Trim a target range by range, to its end or until the deadline.

        Returns
        -------
        Result
            All ranges; ``next_start`` is where to continue, ``None`` if everything was trimmed.

        Raises
        ------
        UsageError, RefusedError, ToolError
            As `trim` does.
        """
        self._check(target)
        if self.writer is None:
            return _READ_ONLY
        server = serving(self._seen(), target)
        if isinstance(server, NotAvailable):
            return server
        backing = backing_of(self._seen(), target)
        if not isinstance(backing, NotAvailable) and backing.description.fs_type == "zfs":
            return not_available("zfs", "ZFS trims its pools itself: see zpool trim, autotrim")
        instruction = {
            "do": "trim",
            "place": {"service": f"{self.file_system}-{target}"},
            "start": start,
            "end": end,
            "range_bytes": range_bytes,
        }
        order = Order(server.name, target, target, instruction)
        return act_alone(self.writer, order, f"trim of {target}", timeout_s=timeout_s)

    def trim_practice(self, target: str) -> TrimPractice | NotAvailable:
        """Return how a target is trimmed without Trimtab, as of the last snapshot."""
        self._check(target)
        backing = backing_of(self._seen(), target)
        if isinstance(backing, NotAvailable):
            return backing
        return backing.trim_practice()

    def write_times(self, target: str) -> WriteTimes | NotAvailable:
        """Return the write times of the drives beneath a target; queries its server."""
        self._check(target)
        seen = serving(self._seen(), target)
        if isinstance(seen, NotAvailable):
            return seen
        name = seen.name
        alone = replace(self.servers, oss=(name,), mds=(), clients=())
        server = ask_servers(alone, self.file_system, fan_out=self.fan_out)[name]
        if not server.answered:
            return NotAvailable(server.why_no("parameters"))
        return write_times_of(read_backing(server, target), target)

    def set_creation(self, target: str, enabled: bool) -> NotAvailable | None:
        """Close a target to new files for every MDT, or reopen it with its previous value.

        Uses ``max_create_count`` on every MDS, else ``no_create`` on the OSS. If it cannot be
        closed for one MDT, the earlier ones are reverted; if it cannot be opened for one, the
        others still are.

        Raises
        ------
        ToolError
            It is closed or open for some of the MDTs only; the message names them.
        """
        self._check(target)
        if self.writer is None:
            return _READ_ONLY
        if not target.startswith("OST"):
            return not_available("not-supported", "only OSTs can be closed to new files")
        view = self._seen()
        counts = self._as_written(creation_orders(view, target, None if enabled else "0"))
        switch = self._as_written(switch_orders(view, target, "0" if enabled else "1"))
        if self.mechanism == "no_create" and not enabled:
            counts = not_available("not-wanted", "the site closes targets with no_create")
        if enabled:
            return self._open(target, counts, switch)
        unwanted = self.mechanism == "max_create_count"
        orders = switch if isinstance(counts, NotAvailable) and not unwanted else counts
        if isinstance(orders, NotAvailable):
            return orders
        if isinstance(counts, NotAvailable) and code_of(counts.reason) == "mdt-not-seen":
            return counts
        attempt = self._carry_out(orders)
        return answer_of(attempt, f"closing {target}")

    def _open(
        self,
        target: str,
        counts: tuple[Order, ...] | NotAvailable,
        switch: tuple[Order, ...] | NotAvailable,
    ) -> NotAvailable | None:
        """Open a target by every mechanism that keeps it closed."""
        known = [orders for orders in (counts, switch) if not isinstance(orders, NotAvailable)]
        closed = [orders for orders in known if not is_open(orders)]
        if not closed and isinstance(counts, NotAvailable):
            return counts
        for orders in closed:
            attempt = self._carry_out(orders, put_back=False)
            failures = [pair for pair in attempt.results if not pair[1].done]
            if failures and len(failures) < len(attempt.results):
                names = "; ".join(f"{order.name}: {result.detail}" for order, result in failures)
                raise ToolError(
                    f"{target} is only partly open, not for: {names}", code="partly-written"
                )
            why = answer_of(attempt, f"opening {target}")
            if why is not None:
                return why
        return None

    def reset_allocator(self, target: str) -> NotAvailable | None:
        """Reset the goal of ldiskfs's allocator to the first group."""
        self._check(target)
        if self.writer is None:
            return _READ_ONLY
        backing = backing_of(self._seen(), target)
        if isinstance(backing, NotAvailable):
            return backing
        if backing.description.fs_type == "zfs":
            return not_available("zfs", "ZFS chooses its groups itself: it has no such goal")
        names = [name for name in self.settings(target) if "/mb_last_group" in name]
        if not names:
            return not_available("not-supported", f"{target} has no mb_last_group")
        orders = setting_orders(self._seen(), target, backing, names[0], "0")
        if isinstance(orders, NotAvailable):
            return orders
        return answer_of(self._carry_out(orders), f"{names[0]} of {target}")

    @property
    def dead_man_s(self) -> float | NotAvailable:
        """Seconds after which a server reverts an unconfirmed change."""
        if self.writer is None:
            return _READ_ONLY
        if self.writer.dead_man_s is None:
            return not_available("not-put-back", "its servers are configured not to revert changes")
        return self.writer.dead_man_s

    def confirm(self) -> NotAvailable | None:
        """Confirm the changes of this thread; see `Driver.confirm`."""
        if isinstance(self.dead_man_s, NotAvailable):
            return self.dead_man_s
        waiting = self._unconfirmed.pop(threading.get_ident(), {})
        results: list[InstructionResult] = []
        for (server, here), ids in waiting.items():
            assert self.writer is not None
            instructions = [{"do": "confirm", "id": identifier} for identifier in ids.values()]
            results += self.writer.act(server, instructions, go_on=True, here=here)
        confirm_results(results)
        return None

    def _carry_out(
        self, orders: Sequence[Order], *, here: bool = False, put_back: bool = True
    ) -> ChangeAttempt:
        assert self.writer is not None
        attempt = carry_out(self.writer, orders, here=here, put_back=put_back)
        for order, result in attempt.results:
            if result.found is not None:
                self._now[order.server, order.name] = result.found
            # Failed changes are reverted: by this driver, or by a server it lost contact with.
            if result.armed and attempt.failure is None and result.id is not None:
                waiting = self._unconfirmed.setdefault(threading.get_ident(), {})
                waiting.setdefault((order.server, here), {})[order.name] = result.id
        return attempt

    def _as_written(
        self, orders: tuple[Order, ...] | NotAvailable
    ) -> tuple[Order, ...] | NotAvailable:
        """Return orders whose value before is the last one read back."""
        if isinstance(orders, NotAvailable):
            return orders
        return tuple(
            order
            if (current := self._now.get((order.server, order.name))) is None
            else replace(order, instruction={**order.instruction, "before": current})
            for order in orders
        )

    def _seen(self) -> View:
        self._latest()
        assert self._view is not None
        return self._view

    def _client_settings(self, name: str) -> Mapping[str, Setting | NotAvailable] | None:
        """Return the settings of a client of that name, ``None`` if there is none."""
        hosts = self._latest().hosts if self.writer is not None else ()
        client = next((h for h in hosts if h.name == name and h.role == "client"), None)
        if client is None:
            return None
        return {**client.settings, **self._read_back(name)}

    def placement(self, path: str) -> tuple[str, ...] | NotAvailable:
        """Return the OSTs that hold a file."""
        return read_placement(path, self.execute)

    def pools(self) -> Mapping[str, tuple[int, ...]] | NotAvailable:
        """Return the OST indices of each pool, as this client knows them."""
        return read_pools(self.file_system, self.execute)

    def inventory(self) -> tuple[ServerInventory, ...] | NotAvailable:
        """Return the inventory of every server and client of the site file."""
        if not (self.servers.names or self.servers.clients):
            return not_available("no-servers", "the site file names no servers")
        return ask_inventory(self.servers, self.file_system, fan_out=self.fan_out)

    def holders(self) -> Holders | NotAvailable:
        """Return who holds the space, from the quota accounts of the servers."""
        if not self.servers.names:
            return not_available("no-servers", "the site file names no servers")
        pools = self.pools()
        known = {} if isinstance(pools, NotAvailable) else pools
        tally = QuotaTally(self.file_system, {name: set(known[name]) for name in known})
        if isinstance(pools, NotAvailable):
            tally.problems.append(f"pools are unknown: {pools.reason}")
        return ask_holders(self.servers, tally, fan_out=self.fan_out, at=self.clock())

    def run(
        self, server: str | None, argv: Sequence[str], timeout_s: float
    ) -> ProcessResult | NotAvailable:
        """Run a program on this host, or on a server or client of the site."""
        if server is None:
            return self.execute(argv, timeout_s=timeout_s)
        if server not in (*self.servers.names, *self.servers.clients):
            return not_available(
                "server-unknown", f"{server} is not among the site's servers and clients"
            )
        if self.servers.reach == "local":
            return self.execute(argv, timeout_s=timeout_s)
        results: Mapping[str, ProcessResult] = self.fan_out(
            (server,), tuple(argv), ssh=self.servers.ssh, timeout_s=timeout_s
        )
        return results[server]

    def _latest(self) -> Snapshot:
        return self._last or self.snapshot(self.clock())

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
    writer = ServerWriter(site.servers, name, token, who, DEAD_MAN_S)
    mechanism = site.policies.balance.mechanism
    return LustreDriver(
        site.path, name, site.servers, clock=clock, writer=writer, mechanism=mechanism
    )

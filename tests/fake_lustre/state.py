"""A Lustre file system as plain values, and the commands that answer from them.

Everything here is the standard library's: the programs that `FakeLustre.install` writes start
without site-packages, so that a thousand of them cost little.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from trimtab.reach.process import ProcessResult

    from .install import Installed

KIB = 1024
MAX_CREATE_COUNT = 20000

FaultKind = Literal[
    "hang", "half", "garbage", "empty", "exit", "die", "slow", "swallow", "refuse",
]  # fmt: skip


@dataclass(slots=True)
class Output:
    """What a command printed and how it ended.

    ``hang_s`` is how long it would still run before it ends; ``None`` of ``exit_code`` never.
    """

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    hang_s: float = 0.0


@dataclass(slots=True)
class FakeDrive:
    """One drive beneath a target, by the kernel's name.

    ``flash_written_bytes`` is of the OCP log; ``None``: the drive has no such log.
    """

    name: str
    model: str = "SAMSUNG MZWLR15THALA-00007"
    size_bytes: int = 15_360_950_534_144
    percentage_used: int = 1
    media_errors: int = 0
    written_bytes: int = 0
    read_bytes: int = 0
    flash_written_bytes: int | None = None
    dead: bool = False


@dataclass(slots=True)
class FakeTarget:
    """One OST or MDT.

    Attributes
    ----------
    server, home, partner
        Who serves it now, who should, and who takes over.
    device
        What it stands on, by the kernel's name: a disk of its own name without ``drives``, an
        ``mdN`` over all of them, or the one drive's name.
    reserved_bytes
        Neither used nor available: ldiskfs' reserve and the grants of clients.
    up
        Mounted on ``server``.
    aborted
        Its journal is aborted: Lustre calls it healthy, only ``errors_count`` tells.
    max_create_count, osp_active
        By MDT; those that lack have the default.
    wbt_us
        ``None``: the device has no such setting.
    untrimmed_bytes
        Free space that fstrim would still find; it falls to 0 when it is trimmed.
    echo_objects, echo_bytes, next_object
        What obdfilter-survey has on it now, and the number of its next object.
    survey_mib_s
        What obdfilter-survey finds in its write.
    changelog_index, changelog_users, changelog_mask
        Of an MDT: its last record; name, cleared index and idle seconds of each reader; the types
        that are written.
    criteria
        Counters of the allocator: hits, groups considered, extents scanned, useless loops for
        each criterion from the best to the last.
    """

    name: str
    server: str
    home: str = ""
    partner: str | None = None
    capacity_bytes: int = 0
    used_bytes: int = 0
    reserved_bytes: int = 0
    inodes_total: int = 0
    inodes_used: int = 0
    device: str = "vdd"
    drives: list[FakeDrive] = field(default_factory=list)
    up: bool = True
    no_create: bool = False
    degraded: bool = False
    readonly: bool = False
    aborted: bool = False
    errors_count: int = 0
    recovery: str = "INACTIVE"
    max_create_count: dict[str, int] = field(default_factory=dict)
    osp_active: dict[str, bool] = field(default_factory=dict)
    client_active: bool = True
    full: bool = False
    reserved_mb_low: int | None = None
    reserved_mb_high: int | None = None
    wbt_us: int | None = 2000
    rotational: bool = False
    discard_granularity: int = 512
    written_bytes: int = 0
    write_calls: int = 0
    read_bytes: int = 0
    read_calls: int = 0
    operations: int = 0
    discarded_kib: int = 0
    discard_ops: int = 0
    untrimmed_bytes: int = 0
    mount_options: str = ""
    osd: Literal["ldiskfs", "zfs"] = "ldiskfs"
    criteria: list[list[int]] = field(default_factory=lambda: [[0, 0, 0, 0] for _ in range(5)])
    allocator_requests: int = 0
    mb_last_group: int = 0
    echo_objects: list[int] = field(default_factory=list)
    echo_bytes: int = 0
    next_object: int = 2
    survey_mib_s: float = 1400.0
    changelog_index: int = 0
    changelog_users: list[tuple[str, int, int]] = field(default_factory=list)
    changelog_mask: str = "MARK "

    @property
    def kind(self) -> str:
        """``OST`` or ``MDT``."""
        return self.name[:3]

    @property
    def index(self) -> int:
        """The number behind its name, which is hexadecimal."""
        return int(self.name[3:], 16)

    @property
    def available_bytes(self) -> int:
        """What can still be written."""
        return max(0, self.capacity_bytes - self.used_bytes - self.reserved_bytes)

    @property
    def mount_point(self) -> str:
        """Where its server mounts it."""
        return f"/mnt/lustre/{self.kind.lower()}{self.index}"

    @property
    def reserve_mb(self) -> tuple[int, int]:
        """Below which, and above which again, an MDT calls it full."""
        low = self.reserved_mb_low
        high = self.reserved_mb_high
        default = max(1, self.capacity_bytes >> 30)
        low = default if low is None else low
        return low, (2 * default + 1 if high is None else high)


@dataclass(slots=True)
class FakeServer:
    """One machine.

    ``jiffies`` are the columns of ``/proc/stat``; ``sent_bytes``, ``received_bytes`` are LNet's.
    ``euid`` is of who logs in, ``sudoers`` whether the rules for acting are installed there;
    ``kept`` is what the writing program keeps, ``log`` what it sent to the system's log.
    """

    name: str
    nids: list[str] = field(default_factory=list)
    cpus: int = 2
    jiffies: list[int] = field(default_factory=lambda: [4000, 0, 3000, 900000, 100, 0, 50, 0, 0, 0])
    sent_bytes: int = 0
    received_bytes: int = 0
    dead: bool = False
    kernel_log: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    echo_clients: list[str] = field(default_factory=list)
    euid: int = 0
    sudoers: bool = True
    kept: dict[str, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Fault:
    """Something that goes wrong.

    Attributes
    ----------
    kind
        ``hang`` for ``seconds``; ``half``: stdout cut after ``lines`` lines or ``bytes`` bytes,
        half of it where neither is given; ``garbage``: ``text`` instead of it; ``empty``;
        ``exit`` with ``code``; ``die``: the server is gone in mid-answer; ``slow``: it answers,
        ``seconds`` later; ``swallow``: it answers as if it had done it; ``refuse``: it does
        nothing, says ``text`` and ends with ``code``.
    command, host
        Which calls it meets; ``None`` is every one. The command is the program's name, with its
        first argument or without (``lctl set_param``), ``write`` a write to a file of ``/proc``
        or ``/sys``, ``ssh`` the whole round trip to a server; the host of the client is
        ``client``.
    after_calls, times
        How many such calls go well before, and how often it happens; ``None``: always.
    """

    kind: FaultKind
    command: str | None = None
    host: str | None = None
    after_calls: int = 0
    times: int | None = None
    seconds: float = 3600.0
    lines: int | None = None
    bytes: int | None = None
    code: int = 1
    text: str = "\x00\x01\udcff\udcfe*** garbage = 17 ***\n"
    seen: int = 0
    happened: int = 0


@dataclass
class FakeLustre:
    """A whole file system; see the README for what it can do.

    Attributes
    ----------
    client
        The server that the client's mount is on, or ``None``: a machine of its own.
    boot
        ``fresh``: devices stand in the order in which a new file system makes them.
    allocator
        Which form the counters have: ``by-name`` (Linux 6.5+) or ``loops`` (RHEL 8).
    allocator_counts
        Whether ``mb_stats`` is 1; the old counters count always.
    now_s
        Seconds since 1970 for whatever prints a time; a simulation moves it.
    parameters
        What ``set_param`` set and no other field holds, by full name.
    permanent
        What ``set_param -P`` set: full name to value, set anew with each mount.
    permanent_used
        Whether anybody has used ``set_param -P``: before that the MGS has no log of it.
    survey_s
        How long obdfilter-survey takes for each of its tests.
    layouts
        Path to OST indices, of files made by ``lfs setstripe``.
    pools
        Name to the names of its OSTs, in the order in which they were put in.
    """

    file_system: str = "scratch"
    mount: str = "/scratch"
    lustre_version: str = "2.17.57"
    kernel: str = "6.12.117"
    servers: list[FakeServer] = field(default_factory=list)
    targets: list[FakeTarget] = field(default_factory=list)
    client: str | None = None
    client_name: str = "client1"
    client_nid: str = "10.0.2.99@tcp"
    client_id: str = "ffff8881253af000"
    client_uuid: str = "28c31e48-2a9d-465a-9204-dc01a94a9804"
    boot: Literal["fresh", "restart"] = "restart"
    allocator: Literal["by-name", "loops"] = "by-name"
    allocator_counts: bool = True
    plain_df_hangs: bool = True
    now_s: float = 1795190453.0
    client_written_bytes: int = 0
    client_read_bytes: int = 0
    parameters: dict[str, str] = field(default_factory=dict)
    layouts: dict[str, list[int]] = field(default_factory=dict)
    pools: dict[str, list[str]] = field(default_factory=dict)
    permanent: dict[str, str] = field(default_factory=dict)
    permanent_used: bool = False
    survey_s: float = 0.0
    next_ost: int = 0
    complained: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    calls: int = 0

    def __post_init__(self) -> None:
        self.caches: dict[Any, Any] = {}
        for target in self.targets:
            target.home = target.home or target.server

    # -- looking things up --

    @property
    def version(self) -> tuple[int, ...]:
        """The Lustre version as numbers."""
        return tuple(int(part) for part in self.lustre_version.split(".") if part.isdigit())

    @property
    def osts(self) -> list[FakeTarget]:
        """Every OST."""
        return [target for target in self.targets if target.kind == "OST"]

    @property
    def mdts(self) -> list[FakeTarget]:
        """Every MDT."""
        return [target for target in self.targets if target.kind == "MDT"]

    def server(self, name: str) -> FakeServer:
        """Return the server of that name."""
        index = self.caches.get("servers")
        if index is None or len(index) != len(self.servers):
            index = self.caches["servers"] = {one.name: one for one in self.servers}
        return index[name]

    def machine(self, node: str) -> FakeServer | None:
        """Return the server that answers to a name or to the address of one of its NIDs."""
        for server in self.servers:
            if node == server.name or node in (nid.split("@")[0] for nid in server.nids):
                return server
        return None

    def target(self, name: str) -> FakeTarget:
        """Return the target of that name."""
        return next(target for target in self.targets if target.name == name)

    def reaches(self, target: FakeTarget) -> bool:
        """Return whether a target answers its clients."""
        return target.up and not self.server(target.server).dead

    @property
    def dead(self) -> set[str]:
        """The servers that are gone."""
        return {server.name for server in self.servers if server.dead}

    def served_by(self, host: str) -> list[FakeTarget]:
        """Return the targets that a server has mounted."""
        token = self.caches.get("frozen")
        if token is None:
            return [target for target in self.targets if target.server == host and target.up]
        kept = self.caches.get("served")
        if kept is None or kept[0] is not token:
            served: dict[str, list[FakeTarget]] = {}
            for target in self.targets:
                if target.up:
                    served.setdefault(target.server, []).append(target)
            kept = self.caches["served"] = (token, served)
        return kept[1].get(host, [])

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Promise that no target moves inside the block: who serves what is looked up once."""
        self.caches["frozen"] = object()
        try:
            yield
        finally:
            self.caches["frozen"] = None

    def is_client(self, host: str | None) -> bool:
        """Return whether the client's mount is on that host; ``None`` is the client."""
        return host is None or host in (self.client, self.client_name)

    def prealloc_status(self, target: FakeTarget, mdt: str) -> int:
        """Return what an MDT thinks of creating on an OST, as ``osp.*.prealloc_status``."""
        if not target.osp_active.get(mdt, True):
            return -108
        if not self.reaches(target):
            return -19
        low, high = target.reserve_mb
        available_mb = target.available_bytes >> 20
        if available_mb < low:
            target.full = True
        elif available_mb > high:
            target.full = False
        return -28 if target.full else 0

    # -- changing things --

    def fail_over(self, target: str) -> None:
        """Let the partner serve a target."""
        one = self.target(target)
        assert one.partner is not None, f"{target} has no partner"
        one.server, one.partner = one.partner, one.server
        self.remounted(one)

    def remounted(self, target: FakeTarget) -> None:
        """Let a target forget what only its mount knew."""
        target.no_create = target.degraded = False
        for ost in self.osts:
            ost.max_create_count.pop(target.name, None)
        own = f".{self.file_system}-{target.name}"
        for name in [name for name in self.parameters if own in name]:
            del self.parameters[name]
        self.parameters |= {name: text for name, text in self.permanent.items() if own in name}

    def kill_server(self, name: str) -> None:
        """Let a server be gone, with its targets."""
        self.server(name).dead = True

    def write(self, target: str, size_bytes: int, *, call_bytes: int = 1 << 20) -> None:
        """Let clients write that much to a target, as far as there is room."""
        one = self.target(target)
        size_bytes = min(size_bytes, one.available_bytes)
        calls = -(-size_bytes // call_bytes)
        one.used_bytes += size_bytes
        one.untrimmed_bytes = min(one.untrimmed_bytes, one.capacity_bytes - one.used_bytes)
        one.written_bytes += size_bytes
        one.write_calls += calls
        one.allocator_requests += calls
        one.criteria[0][0] += calls
        one.criteria[0][1] += calls
        one.criteria[0][2] += calls
        self.client_written_bytes += size_bytes
        if one.up:
            self.server(one.server).received_bytes += size_bytes
        for drive in one.drives:
            drive.written_bytes += size_bytes // len(one.drives)

    def delete(self, target: str, size_bytes: int) -> None:
        """Let files of that much go from a target; the space is not trimmed by it."""
        one = self.target(target)
        size_bytes = min(size_bytes, one.used_bytes)
        one.used_bytes -= size_bytes
        one.untrimmed_bytes += size_bytes

    def pass_time(self, seconds: float, *, busy: float = 0.1) -> None:
        """Let time go by, with every server's processors busy for that part of it."""
        self.now_s += seconds
        for server in self.servers:
            jiffies = int(seconds * 100 * server.cpus)
            server.jiffies[0] += int(jiffies * busy)
            server.jiffies[3] += jiffies - int(jiffies * busy)
            if any(".pending." in name for name in server.kept) and not server.dead:
                from .acting import put_back

                put_back(self, server.name)

    # -- answering --

    def lctl(self, host: str | None, argv: Sequence[str]) -> Output:
        """Return what ``lctl ARGV...`` answers on a host; ``None`` is the client."""
        return self.run(host, ("lctl", *argv))

    def lfs(self, argv: Sequence[str]) -> Output:
        """Return what ``lfs ARGV...`` answers on the client."""
        return self.run(None, ("lfs", *argv))

    def run(self, host: str | None, argv: Sequence[str]) -> Output:
        """Return what any of the commands that there are answers on a host."""
        from .commands import run

        return run(self, host, argv)

    def files(self, host: str | None) -> dict[str, str]:
        """Return path to text of what a host's ``/proc``, ``/sys`` and ``/etc`` hold."""
        from .tree import files

        return files(self, host)

    def execute(self, argv: Sequence[str], *, timeout_s: float, **options: Any) -> ProcessResult:
        """Stand for `trimtab.reach.process.execute` on the client, in simulated time."""
        from .processes import execute

        return execute(self, argv, timeout_s=timeout_s, **options)

    def fan_out(
        self, nodes: Sequence[str], argv: Sequence[str], **options: Any
    ) -> dict[str, ProcessResult]:
        """Stand for `trimtab.reach.fleet.fan_out`, in this process and in simulated time."""
        from .processes import fan_out

        return fan_out(self, nodes, argv, **options)

    def install(self, directory: Path) -> Installed:
        """Write programs and server trees that answer from this state, from now on theirs."""
        from .install import install

        return install(self, directory)

    # -- keeping --

    def to_json(self) -> str:
        """Return the whole state as JSON."""
        return json.dumps(_plain(self), ensure_ascii=True)

    @classmethod
    def from_json(cls, text: str) -> FakeLustre:
        """Return the state that `to_json` wrote."""
        values: dict[str, Any] = json.loads(text)
        values["servers"] = [FakeServer(**one) for one in values["servers"]]
        values["targets"] = [
            FakeTarget(**(one | {"drives": [FakeDrive(**drive) for drive in one["drives"]]}))
            for one in values["targets"]
        ]
        values["faults"] = [Fault(**one) for one in values["faults"]]
        return cls(**values)

    # -- examples --

    @classmethod
    def small(cls, **changes: Any) -> FakeLustre:
        """Return the recorded machine: 2 MDTs, 4 OSTs and the client on one node."""
        from .examples import small

        return small(**changes)

    @classmethod
    def pair(cls, **changes: Any) -> FakeLustre:
        """Return 2 MDSs and 4 OSSs in failover pairs, 8 OSTs on md arrays, the client apart."""
        from .examples import pair

        return pair(**changes)

    @classmethod
    def perlmutter(cls, **changes: Any) -> FakeLustre:
        """Return 298 OSTs and 16 MDTs on 157 servers, 12 drives beneath each target."""
        from .examples import perlmutter

        return perlmutter(**changes)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value

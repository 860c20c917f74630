"""A site as its file describes it: plain values, read by `trimtab.site`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from trimtab.model.hardware import Hardware

NODE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:-]{0,254}")
"""Host names, IPv4 and IPv6 addresses; nothing that ssh or a shell could take for more."""
COMMAND_TIMEOUT_S: Final = 3600.0
"""Of a probe that is one command, where the site file names none."""
DriverKind = str
"""A key of `trimtab.model.driver.DRIVERS`."""


@dataclass(frozen=True, slots=True)
class Ssh:
    """How a site's servers are reached.

    Attributes
    ----------
    command
        The program, with its fixed arguments where there are any.
    user
        Remote user; ``None`` leaves the choice to the site's ssh configuration.
    options
        More arguments for ssh, each one word: ``-oPort=2222``.
    fanout
        Connections at the same time.
    """

    command: tuple[str, ...] = ("ssh",)
    user: str | None = None
    options: tuple[str, ...] = ()
    fanout: int = 64


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers of a site and how they are asked.

    Attributes
    ----------
    oss, mds
        Names, node sets unfolded, in their order. One machine may be both.
    clients
        Client nodes that are asked besides, one or two of each class (login, compute, data
        transfer): whether reads through them move a file's atime depends on their mount.
    reach
        ``ssh``, or ``local`` where every server is this very host.
    ssh
        How, where ``reach`` is ``ssh``.
    sudo
        Whether what needs rights is read through ``sudo -n``.
    python
        The interpreter on the servers that runs the collector, 3.6 or later.
    timeout_s
        Deadline of one server for everything that it is asked.
    home
        Target to the server that serves it when nothing has failed over; may lack targets.
    """

    oss: tuple[str, ...] = ()
    mds: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    reach: Literal["ssh", "local"] = "ssh"
    ssh: Ssh = Ssh()
    sudo: bool = False
    python: str = "python3"
    timeout_s: float = 20.0
    home: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Every server once: MDSs first."""
        return tuple(dict.fromkeys((*self.mds, *self.oss)))


@dataclass(frozen=True, slots=True)
class SiteLimits:
    """What a site holds itself to; the figures of the seeds by default.

    Attributes
    ----------
    fullness
        Used / (used + available) of a target not to exceed.
    reopen
        Below which a target that was closed for its fullness is opened again.
    cov
        Goal over ``window_s``.
    window_s
        Twice the longest job.
    """

    fullness: float = 0.75
    reopen: float = 0.70
    cov: float = 0.08
    window_s: float = 48 * 3600.0


@dataclass(frozen=True, slots=True)
class SiteProbe:
    """A probe of the site file.

    Attributes
    ----------
    benchmark
        ``auto``, or the kind of a benchmark: what runs, and with ``command`` what its output is.
    schedule
        ``every 1h``, ``daily at 20:00``, or a cron expression; see `trimtab.site.schedule`.
        ``None``: only when asked for.
    launcher
        ``local``, ``mpi``, or the name of a ``[launcher.NAME]``.
    tasks_per_node
        ``None``: chosen as `trimtab check` does.
    block_size_bytes
        Size of one task's file. Fixed, so that runs stay comparable.
    timeout_s
        For one write or one read, or for the one command; a run that passes it is unfinished and
        counts as 0. ``None``: `trimtab.loop.probing.probe.PATIENCE_S` after its duration, or
        `COMMAND_TIMEOUT_S`.
    jitter_s
        The longest that a start is put off, the same for each slot; keeps probes apart.
    directory
        Where its files go, below the site's path; ``None``: the path itself.
    pending_s
        The longest wait in a queue; then the run is missing, which is not the same as failed.
    stripe_count
        OSTs of each file, -1 for all; ``None`` leaves the directory's layout as it is. Lustre.
    drop_caches
        Whether the client nodes drop their page caches before each write and read; needs root.
    options
        For the benchmark, by its own names.
    command
        Words of a command that measures all by itself, started once in each run. In them
        ``{directory}`` is the probe's own directory, ``{tasks}`` and ``{nodes}`` are numbers.
    output
        Pattern of the files below the probe's directory that hold the command's result;
        ``None``: it is what the command prints.
    items
        Files of each task, of mdtest.
    confirm
        Further runs, a quarter of an hour apart, when one makes a change of level suspect.
    """

    name: str
    benchmark: str = "auto"
    schedule: str | None = None
    launcher: str = "local"
    nodes: int = 1
    tasks_per_node: int | None = None
    transfer_size_bytes: int = 1024**2
    block_size_bytes: int = 1024**3
    repetitions: int = 1
    duration_s: float = 30.0
    timeout_s: float | None = None
    jitter_s: float = 0.0
    direct: bool = True
    directory: str | None = None
    target_pinning: bool = False
    pending_s: float = 3600.0
    stripe_count: int | None = None
    drop_caches: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] | None = None
    output: str | None = None
    items: int = 1000
    confirm: int = 0

    @property
    def is_one_command(self) -> bool:
        """Whether a run is one command, where other probes write and read in turn."""
        return self.command is not None or self.benchmark == "mdtest"


@dataclass(frozen=True, slots=True)
class SiteLauncher:
    """A launcher of the site file: a kind of `trimtab.launch.launchers` with its options."""

    name: str
    kind: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SiteStore:
    """Where results are kept; ``None`` is the default place.

    Attributes
    ----------
    retention_s
        How long raw outputs and snapshots are kept; ``None``: for ever.
    """

    url: str | None = None
    raw: str | None = None
    retention_s: float | None = None


@dataclass(frozen=True, slots=True)
class Site:
    """One file system that Trimtab looks after.

    Attributes
    ----------
    source
        The file that it was read from.
    path
        The mount on this host, under which probes write.
    file_system
        Lustre's name of it (``fsname``); ``None``: as the mount says.
    timezone
        For daily schedules and for outputs that print none; an IANA name.
    snapshot_schedule
        As a probe's; ``None``: only before and after probes, and when asked for.
    policies
        Name to whether it is armed. None can be, so far.
    hardware
        What it is built of, for efficiencies.
    reads_recorded
        Whether every class of client is said to record reads, so that atime tells of a file's use;
        a canary read tries it (`trimtab.loop.purging.reads`).
    """

    name: str
    driver: DriverKind
    path: str
    source: str | None = None
    file_system: str | None = None
    timezone: str = "UTC"
    scenario: str | None = None
    servers: Servers = Servers()
    limits: SiteLimits = SiteLimits()
    snapshot_schedule: str | None = None
    snapshot_jitter_s: float = 0.0
    probes: tuple[SiteProbe, ...] = ()
    launchers: tuple[SiteLauncher, ...] = ()
    store: SiteStore = SiteStore()
    policies: Mapping[str, bool] = field(default_factory=dict)
    hardware: Hardware = field(default_factory=Hardware)
    reads_recorded: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """One statement of a site file, held against reality.

    Attributes
    ----------
    ok
        ``None``: could not be found out.
    """

    what: str
    ok: bool | None
    detail: str

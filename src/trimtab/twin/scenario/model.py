"""A scenario: what a file system is built of, how it is set, who uses it, and what happens to it.

Plain values in base SI; `trimtab.twin.scenario.load` reads them from commented TOML. Every part of
a scenario that may change while it runs is named by its dotted key (``allocator.c2``,
``clients.checksums``), the same in the file, in `Change.set` and in ``whatif --vary``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from trimtab.model.site import LIMITS

AllocatorFamily = Literal["classic", "optimize-scan", "el9"]
"""mballoc of RHEL 8 with Lustre's thresholds; with lists of groups; of 6.5 and later."""
RaidKind = Literal["gridraid", "draid", "raid10"]
PlacementKind = Literal["round-robin", "weighted"]
FaultKind = Literal[
    "silent-ost", "failover", "slow-drive", "failed-drive", "name-service", "filling", "burst"
]


@dataclass(frozen=True, slots=True)
class DriveModel:
    """A drive as its data sheet, and what is assumed, says.

    Attributes
    ----------
    read_bytes_per_s, write_bytes_per_s
        Sequential, as one server sees the drive, before write amplification.
    spare
        Usable spare: part of the flash that is not for data.
    drive_writes_per_day
        That it is sold for, over five years.
    """

    name: str
    capacity_bytes: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    read_iops: float
    write_iops: float
    spare: float
    drive_writes_per_day: float


@dataclass(frozen=True, slots=True)
class Raid:
    """How drives become one target.

    Attributes
    ----------
    drives
        Of one OST; with ``shared`` that many drives carry ``shared`` OSTs together (E2000: 32
        drives, 4 OSTs).
    data, parity, spares
        Of one stripe; spares are distributed and carry traffic.
    """

    kind: RaidKind = "gridraid"
    drives: int = 12
    data: int = 8
    parity: int = 2
    spares: int = 1
    chunk_bytes: int = 128 * 1024
    shared: int = 1


@dataclass(frozen=True, slots=True)
class Osts:
    """The object storage targets.

    Attributes
    ----------
    count
        Changes when capacity is added.
    capacity_bytes
        Of one, as ``df`` counts it; ``None``: from drives and RAID.
    per_server
        OSTs of one OSS at home.
    link_bytes_per_s
        What one server's link to one drive carries, each way; ``None``: more than the drive gives.
    """

    count: int
    drive: DriveModel
    raid: Raid = Raid()
    capacity_bytes: float | None = None
    per_server: int = 1
    link_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Mdts:
    """The metadata targets."""

    count: int
    inodes: float = 4e9
    creates_per_s: float = 100_000.0
    removes_per_s: float = 75_000.0


@dataclass(frozen=True, slots=True)
class Server:
    """One OSS."""

    cores: int = 32
    network_bytes_per_s: float = 50e9


@dataclass(frozen=True, slots=True)
class Clients:
    """Compute nodes, and what their settings cost.

    Attributes
    ----------
    checksums
        Lustre's checksums on the wire.
    saferet
        The kernel's mitigation of CVE-2023-20569 (Speculative Return Stack Overflow).
    """

    nodes: int
    network_bytes_per_s: float
    checksums: bool = False
    saferet: bool = False


@dataclass(frozen=True, slots=True)
class Allocator:
    """The block allocator of an OST's backing file system.

    Attributes
    ----------
    c1, c2, c3
        Free fractions under which the search begins at that loop; classic family only.
    reset_s
        How often ``mb_last_group`` is set to 0; ``None``: never.
    """

    family: AllocatorFamily = "classic"
    c1: float = 0.25
    c2: float = 0.15
    c3: float = 0.05
    reset_s: float | None = None


@dataclass(frozen=True, slots=True)
class Queue:
    """Block layer of the drives.

    Attributes
    ----------
    writeback_throttling
        ``wbt_lat_usec`` over 0.
    """

    writeback_throttling: bool = True
    target_latency_s: float = 0.002


@dataclass(frozen=True, slots=True)
class Trim:
    """How often free space is handed to the drives.

    Attributes
    ----------
    every_s
        ``None``: never.
    discard
        Mounted with ``-o discard``: at each deletion.
    """

    every_s: float | None = None
    discard: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """Which OSTs new files get.

    Attributes
    ----------
    qos_threshold_rr
        Round-robin as long as free space differs by less than this fraction.
    qos_prio_free
        Weight of free space against spreading, 0 to 1.
    stripe_count
        Default of a file.
    """

    kind: PlacementKind = "round-robin"
    qos_threshold_rr: float = 0.17
    qos_prio_free: float = 0.91
    stripe_count: int = 1


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A share of what users write, and how long it lives until its owner deletes it.

    Attributes
    ----------
    mean_s
        Exponential; ``None``: until a purge takes it.
    """

    share: float
    mean_s: float | None


@dataclass(frozen=True, slots=True)
class Users:
    """Who uses the file system, and how.

    Attributes
    ----------
    fullness
        At the start, of the whole; what is there is spread over ages as the lifetimes have it.
    fullness_spread
        Standard deviation over OSTs at the start.
    daily_writes_bytes, daily_reads_bytes
        On the average of a week.
    lifetimes
        Shares that add to 1.
    size_median_bytes, size_sigma
        Log-normal file sizes.
    rhythm
        Amplitude of the daily wave of writes, 0 to 1; of the week: weekends at that much less.
    burstiness
        Coefficient of variation of hourly writes on top of the rhythm.
    reread_share
        Share of old bytes that is read again within eight weeks: their age starts anew.
    skew
        Exponent of Zipf's law of what users write.
    quota_bytes, quota_inodes
        Of one user; ``None``: none.
    """

    count: int
    fullness: float
    daily_writes_bytes: float
    daily_reads_bytes: float
    fullness_spread: float = 0.02
    lifetimes: tuple[Lifetime, ...] = (
        Lifetime(0.5, 2 * 86400.0),
        Lifetime(0.3, 30 * 86400.0),
        Lifetime(0.2, None),
    )
    size_median_bytes: float = 256 * 1024.0
    size_sigma: float = 2.2
    rhythm: float = 0.3
    burstiness: float = 0.5
    reread_share: float = 0.2
    skew: float = 1.1
    quota_bytes: float | None = None
    quota_inodes: float | None = None


@dataclass(frozen=True, slots=True)
class Purge:
    """Deletion of what nobody used for long.

    Attributes
    ----------
    target
        Fullness of the whole that a purge brings it under.
    min_age_s
        Younger files are never purged.
    max_age_s
        Older ones always are, however full it is (ETH's 15 days); ``None``: only for the target.
    bytes_per_day
        What deletion gets through; ``None``: all at once.
    """

    enabled: bool = False
    target: float = 0.70
    min_age_s: float = 8 * 7 * 86400.0
    max_age_s: float | None = None
    every_s: float = 86400.0
    bytes_per_day: float | None = None


@dataclass(frozen=True, slots=True)
class Gating:
    """Closing OSTs to new files when they are full.

    Attributes
    ----------
    most_closed
        Fraction of all OSTs that may be closed at a time; ``None``: as many as are over the limit.
    """

    enabled: bool = False
    limit: float = LIMITS.fullness
    reopen: float = LIMITS.reopen
    most_closed: float | None = None


@dataclass(frozen=True, slots=True)
class ProbeLoad:
    """A benchmark that runs by a schedule, and loads what it measures.

    Attributes
    ----------
    kind
        ``ior``: file per process, written and read back; ``obdfilter-survey``: every OST by
        itself, neither clients nor network.
    schedule
        As in a site file: ``every 1h``, ``daily at 21:00``.
    bytes_written
        Of one run; deleted at its end.
    timeout_s
        After which a run is unfinished and counts as 0.
    since
        First moment at which it may run; ``None``: from the start.
    """

    name: str
    kind: Literal["ior", "obdfilter-survey"]
    schedule: str
    nodes: int = 0
    tasks_per_node: int = 0
    transfer_size_bytes: int = 1024**2
    bytes_written: float = 0.0
    timeout_s: float = 1800.0
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Settings that change at a time; a value has the type of the key that it sets."""

    at: datetime
    set: Mapping[str, object]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong.

    Attributes
    ----------
    osts
        Numbers of the OSTs; empty for the whole.
    size
        What it means depends on the kind: the factor that is left of a slow drive's speed, bytes
        per second of a burst or of what fills an OST.
    """

    at: datetime
    kind: FaultKind
    until: datetime | None = None
    osts: tuple[int, ...] = ()
    size: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Resolution:
    """How finely it is simulated.

    Attributes
    ----------
    classes
        Columns that stand for all OSTs; ``None``: one each.
    groups
        Block groups of the miniature OST, 2,048 units each.
    superblock_units
        Units that the miniature drive erases at once.
    epoch_s
        Length of a step.
    """

    classes: int | None = 16
    groups: int = 16
    superblock_units: int = 64
    epoch_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """All of it.

    Attributes
    ----------
    start
        Aware and in UTC, as every time inside; schedules are in ``timezone``.
    source
        The file that it was read from, or the preset's name.
    assumptions
        Dotted keys, or tables, to why their values are assumed: no source prints them.
    """

    name: str
    title: str
    start: datetime
    length_s: float
    osts: Osts
    mdts: Mdts
    server: Server
    clients: Clients
    users: Users
    seed: int = 0
    timezone: str = "UTC"
    resolution: Resolution = Resolution()
    allocator: Allocator = Allocator()
    queue: Queue = Queue()
    trim: Trim = Trim()
    placement: Placement = Placement()
    purge: Purge = Purge()
    gating: Gating = Gating()
    probes: tuple[ProbeLoad, ...] = ()
    changes: tuple[Change, ...] = ()
    faults: tuple[Fault, ...] = ()
    source: str | None = None
    assumptions: Mapping[str, str] = field(default_factory=dict)

    @property
    def end(self) -> datetime:
        """Return the moment at which it is over, in UTC."""
        return self.start + timedelta(seconds=self.length_s)

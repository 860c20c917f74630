"""A scenario: what a file system is built of, how it is set, who uses it, and what happens to it.

Plain values in base SI, each declared with the key that a TOML file has for it;
`trimtab.twin.scenario.load` reads such files. A setting is named by its dotted key
(``allocator.c2``, ``clients.checksums``), the same in the file, in `Change.set` and in
``whatif --vary``. What ``changing`` declares may change while a scenario runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Literal, get_args

from trimtab.config.kinds import (
    FRACTION_OR_ZERO,
    INNER_FRACTION,
    MOMENT,
    NAME,
    OPERATIONS,
    RATE,
    SCHEDULE,
    SIZE,
    SIZE_OR_ZERO,
    SWITCH,
    TEXT,
    choice,
    real,
    table_of,
    whole,
)
from trimtab.config.schema import key, table, tables
from trimtab.model.site import LIMITS, ZONE
from trimtab.twin.scenario.kinds import DURATION, FAULT_SIZE, OSTS, WHOLE_SIZE

AllocatorFamily = Literal["classic", "optimize-scan", "el9"]
"""mballoc of RHEL 8 with Lustre's thresholds; with lists of groups; of 6.5 and later."""
RaidKind = Literal["gridraid", "draid", "raid10"]
PlacementKind = Literal["round-robin", "weighted"]
FaultKind = Literal[
    "silent-ost", "failover", "slow-drive", "failed-drive", "name-service", "filling", "burst"
]
ProbeKind = Literal["ior", "obdfilter-survey"]
ServerGeneration = Literal["e1000", "e2000"]
"""Servers of HPE's E1000 and E2000: `trimtab.twin.stack.hardware` has what is printed of each."""

changing = partial(key, changes=True)
_COUNT: Final = whole(1, 1_000_000)
_COUNT_OR_ZERO: Final = whole(0, 1_000_000)
_DRIVES: Final = whole(1, 10_000)
_FEW: Final = whole(0, 1_000)
_AMOUNT: Final = real(0, 1e15)
_RATIO: Final = real(0, 100)
_EVERY: Final = DURATION.or_word("never")
_FAMILY: Final = choice(get_args(AllocatorFamily))
_PLACEMENT: Final = choice(get_args(PlacementKind))


@dataclass(frozen=True, slots=True)
class DriveModel:
    """A drive: the figures of its data sheet, and assumptions where that has none."""

    name: str = key(TEXT, "Name of the model.")
    capacity_bytes: float = key(SIZE, "Capacity for data, as sold.")
    read_bytes_per_s: float = key(RATE, "Sequential reads, as one server sees the drive.")
    write_bytes_per_s: float = key(RATE, "Sequential writes, before write amplification.")
    read_iops: float = key(OPERATIONS, "Random reads of 4 KiB.")
    write_iops: float = key(OPERATIONS, "Random writes of 4 KiB, full and in the steady state.")
    spare: float = key(INNER_FRACTION, "Usable spare: part of the flash that is not for data.")
    drive_writes_per_day: float = key(_RATIO, "Rated drive writes per day over five years.")


@dataclass(frozen=True, slots=True)
class Raid:
    """How drives become one target.

    With ``shared`` the drives carry that many OSTs together (E2000: 32 drives, 4 OSTs). Spares are
    distributed and carry traffic.
    """

    kind: RaidKind = key(choice(get_args(RaidKind)), "Layout.", "gridraid")
    drives: int = key(_DRIVES, "Drives of one OST, or of all that share them.", 12)
    data: int = key(_DRIVES, "Data chunks of a stripe.", 8)
    parity: int = key(_FEW, "Parity chunks of a stripe; of raid10: copies beside the first.", 2)
    spares: int = key(_FEW, "Drives' worth of spare space, spread over all.", 1)
    chunk_bytes: int = key(WHOLE_SIZE, "Bytes of a stripe on one drive.", 128 * 1024)
    shared: int = key(_DRIVES, "OSTs that share these drives.", 1)
    rebuild_share: float = key(
        INNER_FRACTION, "Part of the drives' time that a rebuild takes; assumed.", 0.3
    )


@dataclass(frozen=True, slots=True)
class Osts:
    """The object storage targets."""

    count: int = changing(_COUNT, "Number of OSTs.")
    drive: DriveModel = table(DriveModel, "A known drive's name, or a table.", MISSING)
    raid: Raid = table(Raid, "How drives become one target.")
    capacity_bytes: float | None = key(
        SIZE.or_word("from-drives"), "Of one, as df counts it; from-drives: what they give.", None
    )
    per_server: int = key(_COUNT, "OSTs of one OSS at home.", 1)
    link_bytes_per_s: float | None = key(
        RATE.or_word("none"), "A server's link to one drive; none: faster than the drive.", None
    )


@dataclass(frozen=True, slots=True)
class Mdts:
    """The metadata targets."""

    count: int = key(_COUNT, "Number of MDTs.")
    inodes: float = key(_AMOUNT, "Inodes of one.", 4e9)
    creates_per_s: float = key(OPERATIONS, "Files created, of all MDTs together.", 100_000.0)
    removes_per_s: float = key(OPERATIONS, "Files removed, of all MDTs together.", 75_000.0)


@dataclass(frozen=True, slots=True)
class Server:
    """One OSS.

    The generation is never inferred from the drives: any drive can be in any server.
    """

    cores: int = key(_COUNT, "Cores.", 32)
    network_bytes_per_s: float = key(RATE, "Line rate, all interfaces, each way.", 50e9)
    generation: ServerGeneration = key(
        choice(get_args(ServerGeneration)),
        "Memory, speed of a core and fabric of an E1000 or an E2000.",
        "e1000",
    )


@dataclass(frozen=True, slots=True)
class Clients:
    """Compute nodes, and what their settings cost.

    CVE-2023-20569 is Speculative Return Stack Overflow.
    """

    nodes: int = changing(_COUNT, "Number of nodes.")
    network_bytes_per_s: float = changing(RATE, "Line rate of one node, each way.")
    checksums: bool = changing(SWITCH, "Lustre's checksums on the wire.", False)
    saferet: bool = changing(SWITCH, "The kernel's mitigation of CVE-2023-20569.", False)


@dataclass(frozen=True, slots=True)
class Allocator:
    """The block allocator of the OSTs' backing file system; thresholds are of ``classic`` only."""

    family: AllocatorFamily = key(_FAMILY, "Which allocator.", "classic", changes=True)
    c1: float = changing(
        FRACTION_OR_ZERO,
        "mb_c1_threshold: free part below which the search begins at loop 1.",
        0.25,
    )
    c2: float = changing(FRACTION_OR_ZERO, "mb_c2_threshold.", 0.15)
    c3: float = changing(FRACTION_OR_ZERO, "mb_c3_threshold.", 0.05)
    reset_s: float | None = changing(_EVERY, "Interval at which mb_last_group is set to 0.", None)


@dataclass(frozen=True, slots=True)
class Queue:
    """Block layer of the drives."""

    writeback_throttling: bool = changing(SWITCH, "wbt_lat_usec over 0.", True)
    target_latency_s: float = changing(DURATION, "Of reads, over which it throttles.", 0.002)


@dataclass(frozen=True, slots=True)
class Trim:
    """How often free space is discarded on the drives."""

    every_s: float | None = changing(_EVERY, "Time between two fstrim of one OST.", None)
    discard: bool = changing(SWITCH, "Mounted with -o discard: at each deletion.", False)


@dataclass(frozen=True, slots=True)
class Placement:
    """Which OSTs new files get."""

    kind: PlacementKind = key(_PLACEMENT, "The rule.", "round-robin", changes=True)
    qos_threshold_rr: float = changing(
        FRACTION_OR_ZERO, "Round-robin while free space differs by less.", 0.17
    )
    qos_prio_free: float = changing(
        FRACTION_OR_ZERO, "Weight of free space against spreading.", 0.91
    )
    stripe_count: int = changing(_COUNT, "OSTs of a file, by default.", 1)


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A share of what users write, and how long it lives: exponential, ``None`` until a purge."""

    share: float = key(FRACTION_OR_ZERO, "Of what users write.")
    mean_s: float | None = key(
        DURATION.or_word("until-purged"), "Mean time until its owner deletes it."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """Who uses the file system, and how.

    At the start, old data are spread over ages as the lifetimes have it. File sizes are
    log-normal. Weekends are lower by the amplitude of the daily wave; a byte that is read again is
    as young as new.
    """

    count: int = key(_COUNT, "Number of users.")
    fullness: float = key(FRACTION_OR_ZERO, "Of the whole file system at the start.")
    fullness_spread: float = key(
        FRACTION_OR_ZERO, "Standard deviation over OSTs at the start.", 0.02
    )
    daily_writes_bytes: float = changing(SIZE_OR_ZERO, "Mean of a week, without probes.")
    daily_reads_bytes: float = changing(SIZE_OR_ZERO, "Mean of a week, without probes.")
    lifetimes: tuple[Lifetime, ...] = tables(
        Lifetime,
        "lifetimes",
        "Shares that add to 1.",
        (Lifetime(0.5, 2 * 86400.0), Lifetime(0.3, 30 * 86400.0), Lifetime(0.2, None)),
    )
    size_median_bytes: float = key(SIZE, "Median file size.", 256 * 1024.0)
    size_sigma: float = key(real(0, 10), "Standard deviation of the sizes' logarithm.", 2.2)
    rhythm: float = changing(FRACTION_OR_ZERO, "Amplitude of the daily wave of writes.", 0.3)
    burstiness: float = changing(
        _RATIO, "Coefficient of variation of hourly writes besides that wave.", 0.5
    )
    job_rate_bytes_per_s: float = changing(
        RATE,
        "What one job writes to one OST, or reads from it, while it does; jobs come in bursts. It "
        "decides the COV of probes where OSTs have little to spare.",
        4e9,
    )
    job_rate_sigma: float = changing(
        real(0, 10), "Standard deviation of that rate's logarithm over jobs.", 0.8
    )
    reread_share: float = changing(
        FRACTION_OR_ZERO, "Share of old bytes that is read again within eight weeks.", 0.2
    )
    skew: float = changing(_RATIO, "Exponent of Zipf's law of what users write.", 1.1)
    quota_bytes: float | None = changing(
        SIZE.or_word("none"), "Quota of one user.", None, at="quota_bytes"
    )
    quota_inodes: float | None = changing(_AMOUNT.or_word("none"), "Quota of one user.", None)


@dataclass(frozen=True, slots=True)
class Purge:
    """Deletion of what nobody used for long.

    Files older than ``max_age_s`` are purged however full it is (ETH's 15 days); without it purging
    stops at the target.
    """

    enabled: bool = changing(SWITCH, "Whether there is one.", False)
    target: float = changing(
        FRACTION_OR_ZERO, "Fullness of the whole that it brings it under.", 0.70
    )
    min_age_s: float = changing(DURATION, "Younger files are never purged.", 8 * 7 * 86400.0)
    max_age_s: float | None = changing(
        DURATION.or_word("none"), "Older files are always purged.", None
    )
    every_s: float = changing(DURATION, "Time between two.", 86400.0)
    bytes_per_day: float | None = changing(
        SIZE.or_word("unlimited"), "Bytes that deletion gets through in a day.", None
    )


@dataclass(frozen=True, slots=True)
class Gating:
    """Closing OSTs to new files when they are full."""

    enabled: bool = changing(SWITCH, "Whether OSTs are closed.", False)
    limit: float = changing(
        FRACTION_OR_ZERO, "Fullness over which an OST is closed.", LIMITS.fullness
    )
    reopen: float = changing(
        FRACTION_OR_ZERO, "Fullness under which it is opened again.", LIMITS.reopen
    )
    most_closed: float | None = changing(
        FRACTION_OR_ZERO.or_word("all"), "Part of all OSTs that may be closed at a time.", None
    )
    every_s: float = changing(DURATION, "Interval at which fullness is looked at.", 900.0)


@dataclass(frozen=True, slots=True)
class ProbeLoad:
    """A benchmark that runs by a schedule, and loads what it measures.

    ``ior`` is file per process, written and read back; ``obdfilter-survey`` measures every OST by
    itself, with neither clients nor network.
    """

    name: str
    kind: ProbeKind = key(choice(get_args(ProbeKind)), "What runs.")
    schedule: str = key(SCHEDULE, "When, in the site's time.")
    nodes: int = key(_COUNT_OR_ZERO, "Client nodes.", 0)
    tasks_per_node: int = key(_COUNT_OR_ZERO, "Tasks of a node.", 0)
    transfer_size_bytes: int = key(WHOLE_SIZE, "Bytes of one write or read.", 1024**2)
    bytes_written: float = key(
        SIZE_OR_ZERO, "Of one run; as much is read back, then it is deleted.", 0.0
    )
    timeout_s: float = key(DURATION, "After which a run is unfinished and counts as 0.", 1800.0)
    since: datetime | None = key(
        MOMENT, "First time at which it may run; without it: from the start.", None
    )


@dataclass(frozen=True, slots=True)
class Change:
    """Settings that change at a time; a value has the type of the key that it sets."""

    at: datetime = key(MOMENT, "When.")
    # Its kind knows every key: `trimtab.twin.scenario.keys` puts it here.
    set: Mapping[str, object] = key(TEXT, "Dotted keys to their new values.")
    detail: str = key(TEXT, "What it is, and where it is printed.", "")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong."""

    at: datetime = key(MOMENT, "When.")
    kind: FaultKind = key(choice(get_args(FaultKind)), "Which fault.")
    until: datetime | None = key(
        MOMENT, "When it is over, or the failed drive replaced; without it, it stays.", None
    )
    osts: tuple[int, ...] = key(OSTS, "Numbers of the OSTs; none: the whole.", ())
    size: float | None = key(
        FAULT_SIZE,
        "slow-drive: part of its speed that is left; filling, burst: bytes a second.",
        None,
    )
    detail: str = key(TEXT, "What it is, and where it is printed.", "")


@dataclass(frozen=True, slots=True)
class Resolution:
    """How finely it is simulated: block groups are of 2,048 units."""

    classes: int | None = key(
        whole(1, 100_000).or_word("all"),
        "Columns that represent all OSTs; all: one for each OST.",
        16,
    )
    groups: int = key(whole(1, 4096), "Block groups of the miniature OST.", 1024)
    superblock_units: int = key(
        whole(8, 65536), "Units that the miniature drive erases at once.", 1024
    )
    epoch_s: float = key(DURATION, "Length of a step.", 3600.0)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A file system and its history.

    Attributes
    ----------
    start
        Aware and in UTC, as every time inside; schedules are in ``timezone``.
    source
        The file that it was read from, or the preset's name.
    assumptions
        Dotted keys, or tables, to why their values are assumed: no source prints them.
    """

    name: str = key(NAME, "Name of the scenario.", at="scenario.name")
    title: str = key(TEXT, "Its title, in a line.", at="scenario.title")
    start: datetime = key(MOMENT, "When it begins.", at="scenario.start")
    length_s: float = key(DURATION, "How long it lasts.", at="scenario.length")
    osts: Osts = table(Osts, "The object storage targets.", MISSING)
    mdts: Mdts = table(Mdts, "The metadata targets.", MISSING)
    server: Server = table(Server, "One OSS.", MISSING)
    clients: Clients = table(Clients, "Compute nodes.", MISSING)
    users: Users = table(Users, "Who uses it, and how.", MISSING)
    seed: int = key(whole(0, 2**63 - 1), "Seed of all random draws.", 0, at="scenario.seed")
    timezone: str = key(
        ZONE, "Of dates here and of daily schedules.", "UTC", at="scenario.timezone"
    )
    resolution: Resolution = table(Resolution, "How finely it is simulated.")
    allocator: Allocator = table(Allocator, "The block allocator.")
    queue: Queue = table(Queue, "Block layer of the drives.")
    trim: Trim = table(Trim, "How often free space is discarded on the drives.")
    placement: Placement = table(Placement, "Which OSTs new files get.")
    purge: Purge = table(Purge, "Deletion of what nobody used for long.")
    gating: Gating = table(Gating, "Closing OSTs when they are full.")
    probes: tuple[ProbeLoad, ...] = tables(ProbeLoad, "probe", "A benchmark.", named=True)
    changes: tuple[Change, ...] = tables(Change, "change", "Settings that change at a time.")
    faults: tuple[Fault, ...] = tables(Fault, "fault", "What goes wrong.")
    source: str | None = None
    assumptions: Mapping[str, str] = key(
        table_of(TEXT, '{ users = "not printed" }'),
        "Dotted keys to why their values are assumed.",
        {},
        at="assumptions",
    )

    @property
    def end(self) -> datetime:
        """Return the moment at which it is over, in UTC."""
        return self.start + timedelta(seconds=self.length_s)

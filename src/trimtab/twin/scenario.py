"""A scenario: hardware, settings, users and events of a simulated file system, as plain values.

Values are in base SI, each declared with its TOML key; `trimtab.twin.scenario_file` reads such
files. Settings have dotted keys (``allocator.c2``, ``clients.checksums``), the same in files, in
`ScenarioChange.set` and in ``whatif --vary``. Settings declared with ``changing`` may change while
a scenario runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from functools import cache, partial
from typing import Any, Final, Literal, get_args

from trimtab.base import toml_kind
from trimtab.base.schedule import find_zone
from trimtab.base.site import LIMITS, ZONE
from trimtab.base.toml_kind import (
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
    ValueKind,
    choice,
    in_units,
    listed,
    number_text,
    out_of_range,
    read_texts,
    real,
    shown,
    size,
    table_of,
    whole,
    wrong_type,
)
from trimtab.base.toml_problem import BadValue
from trimtab.base.toml_schema import key, table, tables
from trimtab.base.units import parse_duration, parse_moment

_TIME_UNITS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1), ("ms", Decimal("0.001")))
DURATION: Final = replace(toml_kind.DURATION, write=in_units(_TIME_UNITS, parse_duration))
WHOLE_SIZE: Final = size(most=2**50, most_text="1 PiB", whole=True)


def _read_fault_size(value: object) -> float:
    """Parse a fraction or bytes per second; the kind of fault decides which is needed."""
    if isinstance(value, str) and not value.strip().endswith("%"):
        rate = RATE.read(value)
        if rate <= 1:
            raise out_of_range(value, "more than 1 B/s")
        return rate
    return INNER_FRACTION.read(value)


def _read_osts(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(ost) is int and ost >= 0 for ost in value):
        raise wrong_type(value, "a list of OSTs", "write osts = [17, 18]")
    if len(set(value)) != len(value):
        raise BadValue(f"{shown(value)} names an OST twice", code="duplicate-value")
    return tuple(value)


def choices(words: Sequence[str]) -> ValueKind:
    """Return the kind for lists of certain words."""
    word = choice(words)

    def read(value: object) -> tuple[str, ...]:
        texts = read_texts(value, "a list of texts", f"write {listed(words)}")
        return tuple(word.read(text) for text in texts)

    noun = f"list of {', '.join(f'`{toml_kind.quoted(word)}`' for word in words)}"
    return ValueKind(noun, listed(words[:1]), read, listed)


@cache
def moment_in(timezone: str) -> ValueKind:
    """Return the kind for times, stored in UTC; without an offset they are in a time zone."""

    def parse(value: date | str) -> datetime:
        if not isinstance(value, date):
            return parse_moment(value, timezone).astimezone(UTC)
        text = value.isoformat()
        return parse_moment(text if isinstance(value, datetime) else f"{text}T00:00:00", timezone)

    def write(at: datetime) -> str:
        """Format a time in the site's zone, with an offset if it is ambiguous."""
        local = at.astimezone(find_zone(timezone)).replace(tzinfo=None)
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
        for plain in (local.date() if local == midnight else local, local):
            if parse(plain) == at:
                return plain.isoformat()
        return at.isoformat()

    def read(value: Any) -> datetime:
        return parse(MOMENT.read(value))

    return replace(MOMENT, read=read, write=write)


OSTS: Final = ValueKind("list of OST numbers", "[17]", _read_osts, lambda osts: str(list(osts)))
FAULT_SIZE: Final = ValueKind(
    "fraction or rate",
    '0.5 or "2 GB/s"',
    _read_fault_size,
    lambda value: RATE.write(value) if value > 1 else number_text(value),
)


AllocatorFamily = Literal["classic", "optimize-scan", "el9"]
"""mballoc of RHEL 8 with Lustre's thresholds; with lists of groups; of 6.5 and later."""
RaidKind = Literal["gridraid", "draid", "raid10"]
PlacementKind = Literal["round-robin", "weighted"]
FaultKind = Literal[
    "silent-ost", "failover", "slow-drive", "failed-drive", "name-service", "filling", "burst"
]
ProbeKind = Literal["ior", "obdfilter-survey"]
ServerGeneration = Literal["e1000", "e2000"]
"""Servers of HPE's E1000 and E2000; see `trimtab.twin.simulation.hardware` for their data."""

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
    """A drive: the figures of its data sheet, and assumptions for missing ones."""

    name: str = key(TEXT, "Name of the model.")
    capacity_bytes: float = key(SIZE, "Capacity for data, as sold.")
    read_bytes_per_s: float = key(RATE, "Sequential reads, as one server sees the drive.")
    write_bytes_per_s: float = key(RATE, "Sequential writes, before write amplification.")
    read_iops: float = key(OPERATIONS, "Random reads of 4 KiB.")
    write_iops: float = key(OPERATIONS, "Random writes of 4 KiB, full and in the steady state.")
    spare: float = key(INNER_FRACTION, "Usable spare: fraction of the flash that is not for data.")
    drive_writes_per_day: float = key(_RATIO, "Rated drive writes per day over five years.")


@dataclass(frozen=True, slots=True)
class Raid:
    """How drives form one target.

    With ``shared`` the drives hold that many OSTs together (E2000: 32 drives, 4 OSTs). Spares are
    distributed and carry traffic.
    """

    kind: RaidKind = key(choice(get_args(RaidKind)), "Layout.", "gridraid")
    drives: int = key(_DRIVES, "Drives of one OST, or of all that share them.", 12)
    data: int = key(_DRIVES, "Data chunks of a stripe.", 8)
    parity: int = key(_FEW, "Parity chunks of a stripe; for raid10: additional copies.", 2)
    spares: int = key(_FEW, "Drives' worth of spare space, spread over all.", 1)
    chunk_bytes: int = key(WHOLE_SIZE, "Bytes of a stripe on one drive.", 128 * 1024)
    shared: int = key(_DRIVES, "OSTs that share these drives.", 1)
    rebuild_share: float = key(
        INNER_FRACTION, "Fraction of the drives' time for a rebuild; assumed.", 0.3
    )

    @property
    def data_share(self) -> float:
        """Return the fraction of the bytes on the drives that is data.

        >>> Raid().data_share
        0.8
        """
        return self.data / (self.data + self.parity)


@dataclass(frozen=True, slots=True)
class Osts:
    """The object storage targets."""

    count: int = changing(_COUNT, "Number of OSTs.")
    drive: DriveModel = table(DriveModel, "A known drive's name, or a table.", MISSING)
    raid: Raid = table(Raid, "How drives form one target.")
    capacity_bytes: float | None = key(
        SIZE.or_word("from-drives"),
        "Capacity of one OST, as df shows it; from-drives: the drives' capacity.",
        None,
    )
    per_server: int = key(_COUNT, "OSTs per OSS, without failover.", 1)
    link_bytes_per_s: float | None = key(
        RATE.or_word("none"), "A server's link to one drive; none: faster than the drive.", None
    )


@dataclass(frozen=True, slots=True)
class Mdts:
    """The metadata targets."""

    count: int = key(_COUNT, "Number of MDTs.")
    inodes: float = key(_AMOUNT, "Inodes of one MDT.", 4e9)
    creates_per_s: float = key(
        OPERATIONS, "Files created per second, all MDTs together.", 100_000.0
    )
    removes_per_s: float = key(OPERATIONS, "Files removed per second, all MDTs together.", 75_000.0)


@dataclass(frozen=True, slots=True)
class Server:
    """One OSS.

    The generation is never inferred from the drives: any drive can be in any server.
    """

    cores: int = key(_COUNT, "Cores.", 32)
    network_bytes_per_s: float = key(RATE, "Line rate of all interfaces, in each direction.", 50e9)
    generation: ServerGeneration = key(
        choice(get_args(ServerGeneration)),
        "Memory, core speed and fabric of an E1000 or an E2000.",
        "e1000",
    )


@dataclass(frozen=True, slots=True)
class Clients:
    """Compute nodes and their settings.

    CVE-2023-20569 is Speculative Return Stack Overflow.
    """

    nodes: int = changing(_COUNT, "Number of nodes.")
    network_bytes_per_s: float = changing(RATE, "Line rate of one node, in each direction.")
    checksums: bool = changing(SWITCH, "Lustre's checksums on the wire.", False)
    saferet: bool = changing(SWITCH, "The kernel's mitigation of CVE-2023-20569.", False)


@dataclass(frozen=True, slots=True)
class Allocator:
    """The block allocator of the OSTs' backing file system; thresholds are of ``classic`` only."""

    family: AllocatorFamily = key(_FAMILY, "Which allocator.", "classic", changes=True)
    c1: float = changing(
        FRACTION_OR_ZERO,
        "mb_c1_threshold: free fraction below which the search starts at loop 1.",
        0.25,
    )
    c2: float = changing(FRACTION_OR_ZERO, "mb_c2_threshold.", 0.15)
    c3: float = changing(FRACTION_OR_ZERO, "mb_c3_threshold.", 0.05)
    reset_s: float | None = changing(_EVERY, "Interval at which mb_last_group is set to 0.", None)


@dataclass(frozen=True, slots=True)
class Queue:
    """Block layer of the drives."""

    writeback_throttling: bool = changing(SWITCH, "wbt_lat_usec over 0.", True)
    target_latency_s: float = changing(
        DURATION, "Read latency above which writes are throttled.", 0.002
    )


@dataclass(frozen=True, slots=True)
class Trim:
    """How often free space is discarded on the drives."""

    every_s: float | None = changing(_EVERY, "Time between two fstrim runs on one OST.", None)
    discard: bool = changing(SWITCH, "Mounted with -o discard: trim at each deletion.", False)


@dataclass(frozen=True, slots=True)
class Placement:
    """Choice of OSTs for new files."""

    kind: PlacementKind = key(_PLACEMENT, "The rule.", "round-robin", changes=True)
    qos_threshold_rr: float = changing(
        FRACTION_OR_ZERO, "Round-robin while free space differs by less.", 0.17
    )
    qos_prio_free: float = changing(
        FRACTION_OR_ZERO, "Weight of free space against spreading.", 0.91
    )
    stripe_count: int = changing(_COUNT, "Default number of OSTs per file.", 1)


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A share of users' writes and its exponential lifetime; ``None``: until a purge."""

    share: float = key(FRACTION_OR_ZERO, "Share of users' writes.")
    mean_s: float | None = key(
        DURATION.or_word("until-purged"), "Mean time until its owner deletes it."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """Users and their workload.

    At the start, the ages of old data follow the lifetimes. File sizes are log-normal. Weekends are
    lower by the amplitude of the daily wave; data that is read again counts as new.
    """

    count: int = key(_COUNT, "Number of users.")
    fullness: float = key(FRACTION_OR_ZERO, "Fullness of the whole file system at the start.")
    fullness_spread: float = key(
        FRACTION_OR_ZERO, "Standard deviation of fullness over OSTs at the start.", 0.02
    )
    daily_writes_bytes: float = changing(SIZE_OR_ZERO, "Mean of a week, without probes.")
    daily_reads_bytes: float = changing(SIZE_OR_ZERO, "Mean of a week, without probes.")
    lifetimes: tuple[Lifetime, ...] = tables(
        Lifetime,
        "lifetimes",
        "Shares of lifetimes; they add up to 1.",
        (Lifetime(0.5, 2 * 86400.0), Lifetime(0.3, 30 * 86400.0), Lifetime(0.2, None)),
    )
    size_median_bytes: float = key(SIZE, "Median file size.", 256 * 1024.0)
    size_sigma: float = key(real(0, 10), "Standard deviation of the sizes' logarithm.", 2.2)
    rhythm: float = changing(FRACTION_OR_ZERO, "Amplitude of the daily wave of writes.", 0.3)
    burstiness: float = changing(
        _RATIO, "Coefficient of variation of hourly writes, apart from that wave.", 0.5
    )
    job_rate_bytes_per_s: float = changing(
        RATE,
        "Rate of one job's I/O to one OST; jobs come in bursts. It determines the COV of probes if "
        "OSTs are nearly saturated.",
        4e9,
    )
    job_rate_sigma: float = changing(
        real(0, 10), "Standard deviation of that rate's logarithm over jobs.", 0.8
    )
    reread_share: float = changing(
        FRACTION_OR_ZERO, "Share of old bytes that are read again within eight weeks.", 0.2
    )
    skew: float = changing(_RATIO, "Exponent of Zipf's law for users' writes.", 1.1)
    quota_bytes: float | None = changing(
        SIZE.or_word("none"), "Quota of one user.", None, at="quota_bytes"
    )
    quota_inodes: float | None = changing(_AMOUNT.or_word("none"), "Quota of one user.", None)

    @property
    def file_mean_bytes(self) -> float:
        """Return the mean file size."""
        return self.size_median_bytes * math.exp(self.size_sigma**2 / 2)


@dataclass(frozen=True, slots=True)
class Purge:
    """Deletion of files that have not been used for long.

    Files older than ``max_age_s`` are purged at any fullness (ETH's 15 days); without it purging
    stops at the target.
    """

    enabled: bool = changing(SWITCH, "Whether the purge is enabled.", False)
    target: float = changing(FRACTION_OR_ZERO, "Target fullness of the whole file system.", 0.70)
    min_age_s: float = changing(DURATION, "Younger files are never purged.", 8 * 7 * 86400.0)
    max_age_s: float | None = changing(
        DURATION.or_word("none"), "Older files are always purged.", None
    )
    every_s: float = changing(DURATION, "Time between two purges.", 86400.0)
    bytes_per_day: float | None = changing(
        SIZE.or_word("unlimited"), "Maximum bytes deleted per day.", None
    )


@dataclass(frozen=True, slots=True)
class Gating:
    """Closing OSTs to new files when they are full."""

    enabled: bool = changing(SWITCH, "Whether OSTs are closed.", False)
    limit: float = changing(
        FRACTION_OR_ZERO, "Fullness above which an OST is closed.", LIMITS.fullness
    )
    reopen: float = changing(
        FRACTION_OR_ZERO, "Fullness below which it is reopened.", LIMITS.reopen
    )
    most_closed: float | None = changing(
        FRACTION_OR_ZERO.or_word("all"), "Fraction of OSTs that may be closed at a time.", None
    )
    every_s: float = changing(DURATION, "Interval between checks of fullness.", 900.0)


@dataclass(frozen=True, slots=True)
class ProbeLoad:
    """A scheduled benchmark, which also loads the file system.

    ``ior`` is file per process, written and read back; ``obdfilter-survey`` measures every OST
    separately, without clients or network.
    """

    name: str
    kind: ProbeKind = key(choice(get_args(ProbeKind)), "Benchmark that runs.")
    schedule: str = key(SCHEDULE, "Times of the runs, in the site's time zone.")
    nodes: int = key(_COUNT_OR_ZERO, "Client nodes.", 0)
    tasks_per_node: int = key(_COUNT_OR_ZERO, "Tasks per node.", 0)
    transfer_size_bytes: int = key(WHOLE_SIZE, "Bytes of one write or read.", 1024**2)
    bytes_written: float = key(
        SIZE_OR_ZERO, "Bytes written by one run, then read back and deleted.", 0.0
    )
    timeout_s: float = key(
        DURATION, "Timeout after which a run is unfinished and counts as 0.", 1800.0
    )
    since: datetime | None = key(
        MOMENT, "First time at which it may run; default: the start.", None
    )

    @property
    def tasks(self) -> int:
        """Return the number of tasks of a run, each of which writes a file."""
        return self.nodes * self.tasks_per_node

    @property
    def bytes_per_task(self) -> float:
        """Return the bytes that each task writes and reads."""
        return self.bytes_written / self.tasks


@dataclass(frozen=True, slots=True)
class ScenarioChange:
    """Settings that change at a time; each value has the type of its key."""

    at: datetime = key(MOMENT, "When.")
    # Its kind needs all keys, so `trimtab.twin.scenario_key` sets it.
    set: Mapping[str, object] = key(TEXT, "Dotted keys to their new values.")
    detail: str = key(TEXT, "Description, and source.", "")


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault."""

    at: datetime = key(MOMENT, "When.")
    kind: FaultKind = key(choice(get_args(FaultKind)), "Which fault.")
    until: datetime | None = key(
        MOMENT, "End of the fault, or replacement of the failed drive; default: never.", None
    )
    osts: tuple[int, ...] = key(OSTS, "Numbers of the OSTs; default: the whole file system.", ())
    size: float | None = key(
        FAULT_SIZE,
        "slow-drive: remaining fraction of its speed; filling, burst: bytes per second.",
        None,
    )
    detail: str = key(TEXT, "Description, and source.", "")


@dataclass(frozen=True, slots=True)
class Resolution:
    """Resolution of the simulation; block groups have 2,048 units."""

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
        In UTC, as all times; schedules are in ``timezone``.
    source
        The file it was read from, or the preset's name.
    assumptions
        Dotted keys, or tables, to the reason why their values are assumed: no source has them.
    """

    name: str = key(NAME, "Name of the scenario.", at="scenario.name")
    title: str = key(TEXT, "Its title, in one line.", at="scenario.title")
    start: datetime = key(MOMENT, "Start time.", at="scenario.start")
    length_s: float = key(DURATION, "Duration.", at="scenario.length")
    osts: Osts = table(Osts, "The object storage targets.", MISSING)
    mdts: Mdts = table(Mdts, "The metadata targets.", MISSING)
    server: Server = table(Server, "One OSS.", MISSING)
    clients: Clients = table(Clients, "Compute nodes.", MISSING)
    users: Users = table(Users, "Users and their workload.", MISSING)
    seed: int = key(whole(0, 2**63 - 1), "Seed of all random draws.", 0, at="scenario.seed")
    timezone: str = key(
        ZONE, "Time zone of dates here and of daily schedules.", "UTC", at="scenario.timezone"
    )
    resolution: Resolution = table(Resolution, "Resolution of the simulation.")
    allocator: Allocator = table(Allocator, "The block allocator.")
    queue: Queue = table(Queue, "Block layer of the drives.")
    trim: Trim = table(Trim, "How often free space is discarded on the drives.")
    placement: Placement = table(Placement, "Choice of OSTs for new files.")
    purge: Purge = table(Purge, "Deletion of files that have not been used for long.")
    gating: Gating = table(Gating, "Closing OSTs when they are full.")
    probes: tuple[ProbeLoad, ...] = tables(ProbeLoad, "probe", "A benchmark.", named=True)
    changes: tuple[ScenarioChange, ...] = tables(
        ScenarioChange, "change", "Settings that change at a time."
    )
    faults: tuple[Fault, ...] = tables(Fault, "fault", "Faults.")
    source: str | None = None
    assumptions: Mapping[str, str] = key(
        table_of(TEXT, '{ users = "not printed" }'),
        "Dotted keys to the reason why their values are assumed.",
        {},
        at="assumptions",
    )

    @property
    def end(self) -> datetime:
        """Return its end, in UTC."""
        return self.start + timedelta(seconds=self.length_s)

    @property
    def assumption_lines(self) -> tuple[str, ...]:
        """Return its assumptions, a line each, sorted."""
        return tuple(f"{name}: {why}" for name, why in sorted(self.assumptions.items()))

    @property
    def zone(self) -> tzinfo:
        """Return the time zone of its site."""
        return find_zone(self.timezone)


GROUP_UNITS: Final = 2048
"""Units per block group of a miniature OST."""


def drives_capacity_bytes(osts: Osts) -> float:
    """Return the capacity of one OST's drives for data, including the file system's metadata.

    Notes
    -----
    (drives - spares) x capacity x data / (data + parity) / OSTs that share them: 12 drives of
    15.36 TB in 8+2+1 give 135.2 TB.
    """
    raid = osts.raid
    return (raid.drives - raid.spares) * osts.drive.capacity_bytes * raid.data_share / raid.shared


def ost_capacity_bytes(osts: Osts) -> float:
    """Return the capacity of one OST: the scenario's value, else that of its drives."""
    return drives_capacity_bytes(osts) if osts.capacity_bytes is None else osts.capacity_bytes


def capacity_bytes(scenario: Scenario) -> float:
    """Return the capacity of the whole file system at the start."""
    return scenario.osts.count * ost_capacity_bytes(scenario.osts)


def server_count(osts: Osts) -> int:
    """Return the number of object storage servers."""
    return -(-osts.count // osts.per_server)

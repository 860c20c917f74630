"""What a simulated world is asked for, and what it consists of: plain values only.

Nothing here, and nothing in this package, imports the program that is scored on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal, TypedDict

Cause = Literal[
    "targets-over-limit",
    "target-filling",
    "few-targets-open",
    "target-silent",
    "failover",
    "array-degraded",
    "trim-overdue",
    "garbage-collection",
    "writeback-throttling",
    "allocator-loops",
    "configuration-change",
    "competing-load",
    "metadata-load",
    "network",
    "client-node",
    "launch-failure",
    "workload-mismatch",
    "cached-read",
    "bad-checksums",
]
CAUSES: Final[tuple[Cause, ...]] = Cause.__args__  # pyrefly: ignore[missing-attribute]

Value = float | int | str | bool
START: Final = datetime(2026, 3, 2, tzinfo=UTC)
"""A Monday, so that weeks begin with the record."""


@dataclass(frozen=True, slots=True)
class Incident:
    """One fault that is put into a world.

    Attributes
    ----------
    start_day
        Since the start of the record; under 0 for what was wrong before it: a standing condition.
    length_h
        ``None``: to the end of the record.
    strength
        0 (just seen by the instrument that can see it) to 1.
    variant
        Which of a cause's forms; the README lists them. ``None``: drawn.
    """

    cause: Cause
    start_day: float
    length_h: float | None
    strength: float
    variant: str | None = None


@dataclass(frozen=True, slots=True)
class Site:
    """What the simulated file system is and how it is run.

    Attributes
    ----------
    bound_by
        What the hourly probe is bound by when all is well. ``clients``: 21 GB/s a node, 2.5 GB/s
        a target, as at NERSC. ``servers``: enough nodes to saturate the targets, as at ETH.
    allocator
        ``old``: ldiskfs of RHEL 8, with thresholds. ``new``: RHEL 9, without.
    thresholds
        mb_c1, mb_c2 and mb_c3_threshold, percent of free blocks.
    fullness
        Mean at the start.
    fullness_spread
        Standard deviation over targets.
    age
        What the useless loops of the toy in the flash notes, section c, are multiplied by: they
        depend strongly on churn (25 to 77 a thousand between 1.0 and 1.5 capacities of it).
    scan_s_per_group
        16 ns measured in a microbenchmark, without locks; up to 50 ns fits (flash notes, c).
    trim_every_h
        ``None``: never trimmed.
    gate
        Whether a policy closes targets at the limit and opens them again under 70 %; so many stay
        open whatever happens.
    weighted_placement
        Whether new files go by free space where it differs by more than 17 %.
    random_share
        Of the drives' blocks, those whose data users usually overwrite in small pieces.
    second
        Benchmark of the second probe.
    drive_telemetry
        ``interval``: write amplification of the last hour, as vendor tools give it; ``lifetime``:
        since the drive was new, as its health log has it.
    """

    bound_by: Literal["clients", "servers"] = "clients"
    allocator: Literal["old", "new"] = "old"
    thresholds: tuple[int, int, int] = (25, 25, 5)
    fullness: float = 0.64
    fullness_spread: float = 0.012
    age: float = 1.0
    scan_s_per_group: float = 16e-9
    trim_every_h: float | None = 24.0
    gate: bool = False
    open_at_least: int = 3
    weighted_placement: bool = True
    writeback_throttling: bool = False
    random_share: float = 0.03
    checksums: bool = False
    second: Literal["fio", "mdtest"] = "mdtest"
    lnet_selftest: bool = True
    profiles: bool = False
    drive_telemetry: Literal["interval", "lifetime"] = "interval"


@dataclass(frozen=True, slots=True)
class Spec:
    """A world that is asked for. The same spec gives the same world.

    Attributes
    ----------
    noise
        What the scatter of probes, surveys and users is multiplied by.
    missing
        Withheld: telemetry names, and ``settings``, ``events``, ``surveys``, ``second``,
        ``lnet_selftest``, ``profiles``, ``tails``, ``hosts``, ``problems``.
    log_book
        Whether the events that belong to the incidents were written down.
    site
        ``None``: one in which the incidents can be seen, drawn from the seed.
    confounders
        Whether innocent things happen: notes, purges, a harmless change, a reboot.
    """

    seed: int
    days: int = 35
    osts: int = 24
    incidents: tuple[Incident, ...] = ()
    noise: float = 1.0
    missing: frozenset[str] = frozenset()
    log_book: bool = True
    site: Site | None = None
    confounders: bool = True
    snapshot_every_h: int = 1
    name: str = "world"
    start: datetime = START


class SiteFacts(TypedDict):
    """What the people who run the site know."""

    name: str
    limits: dict[str, float]
    home: dict[str, str]
    clients: list[str]
    hardware: dict[str, float]


class Run(TypedDict):
    """One execution of a probe; metrics in base SI."""

    id: str
    at: datetime
    until: datetime
    probe: str
    kind: str
    status: str
    values: dict[str, float]
    tails: dict[str, float]
    disbelieved: list[str]
    problem: str | None
    hosts: list[str]
    nodes: int
    tasks: int
    bytes_written: float | None
    bytes_read: float | None


class SurveyValue(TypedDict):
    """One target measured by itself on its server; ``value`` is null where nothing came back."""

    at: datetime
    run: str
    target: str
    metric: str
    value: float | None


class TargetState(TypedDict):
    """One target in a snapshot; ``reasons`` has every name whose reading is null."""

    kind: str
    server: str | None
    readings: dict[str, Value | None]
    reasons: dict[str, str]
    settings: dict[str, str]


class HostState(TypedDict):
    """One machine in a snapshot."""

    role: str
    answered: bool
    readings: dict[str, Value | None]
    reasons: dict[str, str]
    settings: dict[str, str]


class Snapshot(TypedDict):
    """Telemetry of one time."""

    at: datetime
    targets: dict[str, TargetState]
    hosts: dict[str, HostState]


class LogEntry(TypedDict):
    """One line of the log book; no targets: the whole site."""

    kind: str
    at: datetime
    until: datetime | None
    targets: list[str]
    detail: str
    source: str


class Profile(TypedDict):
    """Where the CPU time of a server went: function to share, 0 to 1."""

    at: datetime
    server: str
    shares: dict[str, float]


class Truth(TypedDict):
    """What really was wrong.

    ``because_of`` names the cause that brought this one about. ``seen_by``: instrument and metric
    (``hourly:write_bandwidth``, ``survey:write_bandwidth:OST0003`` ...) to the median of with over
    without the incident, everything else alike, where that is 0.95 or less; the share of runs that
    ended stands as ``hourly:ended``.
    """

    cause: str
    at: datetime
    until: datetime | None
    targets: list[str]
    because_of: str | None
    standing: bool
    mitigation: bool
    variant: str
    seen_by: dict[str, float]


@dataclass(slots=True)
class World:
    """Everything that a site's record holds, and beside it the truth."""

    spec: Spec
    site: SiteFacts
    runs: list[Run] = field(default_factory=list)
    surveys: list[SurveyValue] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    events: list[LogEntry] = field(default_factory=list)
    profiles: list[Profile] = field(default_factory=list)
    truth: list[Truth] = field(default_factory=list)

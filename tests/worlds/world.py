"""What a world consists of: plain values, as a site's record holds them, and the truth beside it.

Nothing in this package imports the program that is scored on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypedDict, get_args

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
    "quota-reached",
]
CAUSES: Final[tuple[Cause, ...]] = get_args(Cause)

Value = float | int | str | bool


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


@dataclass(frozen=True, slots=True)
class Fault:
    """What really was wrong.

    Attributes
    ----------
    cause
        The cause that the record tells; ``None`` if no recorded instrument shows its sign.
    mechanism
        The cause whether it is told or not; ``None`` if no cause id describes it.
    accepted
        Causes that the recorded data cannot tell from this one, each with the reason.
    end
        ``None``: it lasts to the end of the record.
    told_by
        Recorded instruments that show the cause's own sign within the hours.
    noticed_by
        Probes and surveys whose results differ from those of the same record without this fault
        by more than their noise.
    effect
        ``probe:metric`` to the median ratio of results with and without the fault, over its hours.
    because_of
        The mechanism of the fault that brought this one about.
    """

    name: str
    family: str
    variant: str
    cause: Cause | None
    mechanism: Cause | None
    begin: datetime
    end: datetime | None
    targets: tuple[str, ...]
    accepted: dict[str, str]
    told_by: tuple[str, ...]
    noticed_by: tuple[str, ...]
    effect: dict[str, float]
    because_of: str | None

    @property
    def knowable(self) -> bool:
        """Whether a recorded instrument shows the cause's own sign."""
        return bool(self.told_by)

    @property
    def noticed(self) -> bool:
        """Whether a probe or survey differs because of the fault by more than its noise."""
        return bool(self.noticed_by)


@dataclass(slots=True)
class World:
    """Everything that a site's record holds, and beside it the truth.

    Attributes
    ----------
    every
        Time between two runs of the main probe.
    bad_checksums
        Time, server and number of damaged transfers, as consecutive snapshots show them.
    """

    family: str
    variant: str
    seed: int
    begin: datetime
    end: datetime
    every: timedelta
    site: SiteFacts
    runs: list[Run] = field(default_factory=list)
    surveys: list[SurveyValue] = field(default_factory=list)
    snapshots: Sequence[Any] = ()
    events: list[LogEntry] = field(default_factory=list)
    profiles: list[Profile] = field(default_factory=list)
    truth: list[Fault] = field(default_factory=list)
    bad_checksums: list[tuple[datetime, str, int]] = field(default_factory=list)

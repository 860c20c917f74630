"""A probe, its runs and the samples of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal, get_args

METRIC_UNITS: Final[dict[str, str]] = {
    "write_bandwidth": "B/s",
    "read_bandwidth": "B/s",
    "rewrite_bandwidth": "B/s",
    "write_iops": "1/s",
    "read_iops": "1/s",
    "write_latency": "s",
    "read_latency": "s",
    "file_creation_rate": "1/s",
    "file_stat_rate": "1/s",
    "file_read_rate": "1/s",
    "file_removal_rate": "1/s",
    "directory_creation_rate": "1/s",
    "directory_stat_rate": "1/s",
    "directory_removal_rate": "1/s",
    "directory_rename_rate": "1/s",
    "tree_creation_rate": "1/s",
    "tree_removal_rate": "1/s",
    "file_find_rate": "1/s",
    "rpc_rate": "1/s",
    "samples_rate": "1/s",
    "accelerator_utilization": "1",
    "score": "1",
    "output_time": "s",
    "write_time": "s",
    "read_time": "s",
    "metadata_time": "s",
    "elapsed": "s",
    "bytes_written": "B",
    "bytes_read": "B",
}
"""Every metric with its unit: one vocabulary for store, JSON, tables and pages."""

Access = Literal["write", "read"]

Layer = Literal["drive", "raid", "ost", "network", "client", "application"]
"""Where in the stack a benchmark measures, from below: each can at most reach what carries it."""
LAYERS: Final[tuple[Layer, ...]] = get_args(Layer)


class RunStatus(StrEnum):
    """How a run ended."""

    OK = "ok"
    PARTIAL = "partial"
    """Ended early; what was measured stands."""
    UNFINISHED = "unfinished"
    """Did not end in its time: counts as bandwidth 0, as in the first seed."""
    FAILED = "failed"
    NOT_STARTED = "not_started"
    """Missing: never a number."""
    INVALID_WORKLOAD = "invalid_workload"
    """Did not do what the probe asked for: never judged."""


@dataclass(frozen=True, slots=True)
class ProbeSpec:
    """A benchmark with fixed parameters; two runs are comparable when theirs are equal.

    Attributes
    ----------
    name
        The probe's name in the site file, or ``check`` for the one that ``check`` makes up.
    benchmark
        ``auto``, ``ior``, ``fio`` or ``builtin``.
    tasks
        Processes or threads that do I/O at the same time.
    transfer_size_bytes
        Bytes of one write or read call.
    block_size_bytes
        Contiguous bytes of one task's file; the upper limit of what it writes in one pass.
    duration_s
        Fixed time of one repetition; a task starts again at the beginning of its file.
    direct
        O_DIRECT; buffered otherwise.
    nodes
        That the tasks are spread over, evenly.
    target_pinning
        Whether every file was placed on one target, the same number on each.
    stripe_count
        Of each file on Lustre; ``None``: as the directory above has it.
    options
        Further options of the benchmark, by its own names.
    processes
        Whether a launcher starts a process for each task; otherwise the benchmark makes its own.
    """

    name: str
    benchmark: str
    tasks: int
    transfer_size_bytes: int
    block_size_bytes: int
    repetitions: int
    duration_s: float
    direct: bool = True
    file_per_process: bool = True
    accesses: tuple[Access, ...] = ("write", "read")
    flush: bool = True
    nodes: int = 1
    target_pinning: bool = False
    stripe_count: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    processes: bool = False

    def compared_settings(self) -> dict[str, object]:
        """Return what makes two runs comparable, as plain values.

        Without ``repetitions``, of which more only tells more, and without what came later to
        this class and was not used: runs from before that stay comparable.
        """
        values = {field_.name: getattr(self, field_.name) for field_ in fields(self)}
        del values["repetitions"], values["processes"]  # the launcher stands beside them
        values["accesses"] = list(self.accesses)
        for name, usual in (
            ("nodes", 1),
            ("target_pinning", False),
            ("stripe_count", None),
            ("options", {}),
        ):
            if values[name] == usual:
                del values[name]
        return values


@dataclass(frozen=True, slots=True)
class Sample:
    """One number of a run.

    Attributes
    ----------
    metric, unit
        A key of `METRIC_UNITS` and its unit.
    value
        In base SI; ``None`` only with a ``reason``.
    repetition
        Counted from 0; ``None`` where the number is of the whole run.
    target
        The OST or MDT; ``None`` is the whole.
    statistic
        What of the metric it is: ``total`` (the repetition's own figure), ``p50``, ``p99`` ...
    output, line
        Ordinal of the raw output and the line in it that the number came from.
    reason
        Why the number is missing or is not to be believed. A sample with a reason is kept and
        shown and never judged.
    """

    metric: str
    value: float | None
    repetition: int | None = None
    target: str | None = None
    statistic: str = "total"
    output: int | None = None
    line: int | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        if self.metric not in METRIC_UNITS:
            raise ValueError(f"{self.metric!r} is not a metric")
        if self.value is None and self.reason is None:
            raise ValueError(f"{self.metric}: a missing value needs a reason")

    @property
    def unit(self) -> str:
        """The unit of the value."""
        return METRIC_UNITS[self.metric]

    @property
    def believed(self) -> bool:
        """Whether the value may be judged."""
        return self.value is not None and self.reason is None


@dataclass(frozen=True, slots=True)
class RawOutput:
    """What a tool printed, whole, with what was asked of it.

    Attributes
    ----------
    label
        ``write 0``, ``read 3`` ...: which part of the run.
    argv
        The exact command.
    exit_code
        ``None`` when it was killed at its deadline or by a signal that left none, and where an
        imported file does not tell.
    truncated
        The output went over the limit and was cut; the tool was killed.
    """

    label: str
    argv: tuple[str, ...]
    stdout: bytes
    stderr: bytes = b""
    exit_code: int | None = 0
    started_at: datetime | None = None
    elapsed_s: float | None = None
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Timeline:
    """Bytes moved in each interval of a repetition, summed over tasks."""

    access: Access
    repetition: int
    interval_s: float
    moved_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LatencyHistogram:
    """Latency of single operations: ``upper_s`` of each bucket and its count."""

    access: Access
    repetition: int
    upper_s: tuple[float, ...]
    count: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a probe.

    Attributes
    ----------
    id
        UUIDv7 text.
    site
        Name of the site, or the identity of a path without one.
    kind
        The benchmark that ran: ``ior``, ``fio``, ``builtin`` ...
    tool_version
        As the tool prints it.
    at, until
        Aware UTC; ``None`` with ``at_reason`` where an imported output has no time zone.
    parameters
        What was asked, and what came of it, as plain JSON values.
    problem
        Why the status is not ``ok``.
    """

    id: str
    site: str
    probe: str
    kind: str
    status: RunStatus
    at: datetime | None
    until: datetime | None = None
    at_reason: str | None = None
    tool_version: str | None = None
    path: str | None = None
    host: str | None = None
    trimtab_version: str | None = None
    parameters: dict[str, object] = field(default_factory=dict)
    problem: str | None = None
    samples: tuple[Sample, ...] = ()
    outputs: tuple[RawOutput, ...] = ()

    def believed(self, metric: str) -> list[float]:
        """Return the values of a metric that may be judged, of the whole, one a repetition."""
        return [
            sample.value
            for sample in self.samples
            if sample.metric == metric
            and sample.target is None
            and sample.statistic == "total"
            and sample.reason is None
            and sample.value is not None
        ]

    def disbelieved(self, metric: str) -> list[str]:
        """Return the reason of each repetition of a metric that may not be judged."""
        return [
            sample.reason
            for sample in self.samples
            if sample.metric == metric
            and sample.target is None
            and sample.statistic == "total"
            and sample.reason is not None
        ]

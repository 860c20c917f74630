"""Probes, their runs and samples; which runs may be compared; why runs have no credible figure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Final, Literal, TypeVar, get_args

from trimtab.base.units import plural

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
    "file_lookup_rate": "1/s",
    "file_attribute_rate": "1/s",
    "rpc_rate": "1/s",
    "samples_rate": "1/s",
    "accelerator_utilization": "1",
    "score": "points",
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
BANDWIDTH: Final[dict[Access, str]] = {"write": "write_bandwidth", "read": "read_bandwidth"}

Layer = Literal["drive", "raid", "ost", "network", "client", "application"]
"""Layer of the stack that a benchmark measures, bottom up: each layer is limited by the one
below."""
LAYERS: Final[tuple[Layer, ...]] = get_args(Layer)


def higher_is_better(metric: str) -> bool:
    """Return whether higher values are better: true for rates and bandwidths, false for times."""
    return METRIC_UNITS[metric] != "s"


class RunStatus(StrEnum):
    """How a run ended."""

    OK = "ok"
    PARTIAL = "partial"
    """Ended early; its measurements are valid."""
    UNFINISHED = "unfinished"
    """Exceeded its time limit: counts as bandwidth 0, as in [S1, figure 6]."""
    FAILED = "failed"
    NOT_STARTED = "not_started"
    """Missing: never a number."""
    INVALID_WORKLOAD = "invalid_workload"
    """Its workload was not the requested one: never judged."""


@dataclass(frozen=True, slots=True)
class ProbeSpec:
    """A benchmark with fixed parameters; two runs are comparable if theirs are equal.

    Attributes
    ----------
    name
        The probe's name in the site file, or ``check`` for the probe of ``trimtab check``.
    benchmark
        ``auto``, ``ior``, ``fio`` or ``builtin``.
    tasks
        Number of processes or threads that do I/O at the same time.
    transfer_size_bytes
        Bytes of one write or read call.
    block_size_bytes
        Contiguous bytes of one task's file; the upper limit of the bytes written in one pass.
    repetitions
        Number of writes and reads in one run.
    duration_s
        Fixed time of one repetition in seconds; a task restarts at the beginning of its file.
    direct
        O_DIRECT; buffered otherwise.
    file_per_process
        One file per task; otherwise one shared file.
    accesses
        Order of writes and reads.
    flush
        Whether the time of a write includes its flush to storage.
    nodes
        Number of nodes over which the tasks are spread evenly.
    target_pinning
        Whether every file is placed on one target, with the same number on each.
    stripe_count
        Stripe count of each file on Lustre; ``None``: the default of the directory.
    options
        Further options of the benchmark, by its own names.
    processes
        Whether a launcher starts a process for each task; otherwise the benchmark starts them
        itself.
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

    def compared_settings(self, launcher: str) -> dict[str, object]:
        """Return the settings that determine whether two runs are comparable, as plain values.

        Omits ``repetitions``, which only add precision, and parameters added to this class later
        that have their default value: earlier runs stay comparable.
        """
        values = {field_.name: getattr(self, field_.name) for field_ in fields(self)}
        del values["repetitions"], values["processes"]
        values["accesses"] = list(self.accesses)
        for name, usual in (
            ("nodes", 1),
            ("target_pinning", False),
            ("stripe_count", None),
            ("options", {}),
        ):
            if values[name] == usual:
                del values[name]
        return {**values, "launcher": launcher}


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
        Counted from 0; ``None`` if the number describes the whole run.
    target
        The OST or MDT; ``None``: the whole file system.
    statistic
        Which statistic of the metric: ``total`` (the repetition's own figure), ``p50``, ``p99`` ...
    output, line
        Index of the raw output, and the line in it from which the number was read.
    reason
        Why the number is missing or not credible. A sample with a reason is stored and shown but
        never judged.

    Raises
    ------
    ValueError
        The metric is unknown, or value and reason are both missing.
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

    def __reduce__(self) -> tuple[type[Sample], tuple[object, ...]]:
        """Pickle as an ordered tuple of values: a survey of a large site has a thousand samples."""
        return Sample, values_of_sample(self)

    @property
    def unit(self) -> str:
        """The unit of the value."""
        return METRIC_UNITS[self.metric]

    @property
    def is_total(self) -> bool:
        """Whether it is the metric itself, for the whole file system."""
        return self.statistic == "total" and self.target is None

    @property
    def believed(self) -> bool:
        """Whether the value may be judged."""
        return self.value is not None and self.reason is None


values_of_sample = attrgetter(*(field.name for field in fields(Sample)))
"""Returns the values of a sample, or of any object with the same fields, in order."""


@dataclass(frozen=True, slots=True)
class RawOutput:
    """The complete output of a tool, with its command.

    Attributes
    ----------
    label
        Part of the run: ``write 0``, ``read 3`` ...
    argv
        The exact command.
    exit_code
        ``None`` if the tool was killed at its deadline or by a signal, and if an imported file
        does not contain it.
    started_at
        Aware UTC.
    elapsed_s
        Wall time in seconds.
    truncated
        The output exceeded the limit and was cut; the tool was killed.
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
    """Bytes moved in each interval of a repetition, summed over tasks.

    Attributes
    ----------
    interval_s
        Length of an interval in seconds.
    moved_bytes
        One entry per interval, from the start of the repetition.
    """

    access: Access
    repetition: int
    interval_s: float
    moved_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LatencyHistogram:
    """Histogram of the latency of single operations.

    Attributes
    ----------
    upper_s
        Upper bound of each bucket in seconds.
    count
        Number of operations in each bucket; as many entries as ``upper_s``.
    """

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
    probe
        Name of the probe.
    kind
        The benchmark that ran: ``ior``, ``fio``, ``builtin`` ...
    tool_version
        As the tool prints it.
    at, until
        Start and end, aware UTC; ``None`` with ``at_reason`` if an imported output has no time
        zone.
    path, host
        Where it ran.
    parameters
        Requested and actual settings, as plain JSON values.
    problem
        Why the status is not ``ok``.
    samples, outputs
        The numbers, and the raw outputs from which they were read.
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

    def totals(self, metric: str) -> list[Sample]:
        """Return a metric's figures for the whole file system, one per repetition."""
        return [sample for sample in self.samples if sample.metric == metric and sample.is_total]

    def believed(self, metric: str) -> list[float]:
        """Return the values of a metric that may be judged, in the metric's unit."""
        return [
            sample.value
            for sample in self.totals(metric)
            if sample.reason is None and sample.value is not None
        ]

    def disbelieved(self, metric: str) -> list[str]:
        """Return the reason for each repetition of a metric that may not be judged."""
        return [sample.reason for sample in self.totals(metric) if sample.reason is not None]

    def believed_of_targets(self, metric: str) -> dict[str, float]:
        """Return target to the median of its values of a metric that may be judged."""
        from statistics import median

        values: dict[str, list[float]] = {}
        for sample in self.samples:
            named = sample.metric == metric and sample.statistic == "total" and sample.target
            if named and sample.reason is None and sample.value is not None:
                values.setdefault(named, []).append(sample.value)
        return {target: median(target_values) for target, target_values in values.items()}


PERF_KIND: Final = "perf"
JOBS_KIND: Final = "slurm-accounting"
EXPLAINING: Final = frozenset({PERF_KIND, JOBS_KIND})
"""Kinds of runs without a figure of the file system: they explain others."""
ASKED = "spec"
"""Key of `Run.parameters` that holds the request (a `ProbeSpec` as plain values)."""


def comparability_key(run: Run) -> str:
    """Return a text that is equal for two runs exactly when they may be compared.

    It covers the probe's name, the benchmark that ran, the layer that it measured where that is
    not the client, and what was asked of it: ``parameters["spec"]`` where the run has it, else all
    parameters (an imported run has only what its output says). The same fio job on a drive and on
    a RAID device is not one series. What came of a run, its host and its tool's version are left
    out: a new version of a tool is a change to be seen in the series, not the end of it.

    Examples
    --------
    >>> from trimtab.base.run import RunStatus
    >>> asked = {"spec": {"tasks": 4, "duration_s": 5.0}, "moved_bytes": 7}
    >>> one = Run("1", "s", "check", "fio", RunStatus.OK, None, parameters=asked)
    >>> asked = {"spec": {"duration_s": 5, "tasks": 4}, "moved_bytes": 8}
    >>> other = Run("2", "s", "check", "fio", RunStatus.OK, None, parameters=asked)
    >>> comparability_key(one) == comparability_key(other)
    True
    """
    import hashlib
    import json

    requested = run.parameters.get(ASKED, run.parameters)
    layer = run.parameters.get("layer")
    beneath = [] if layer in (None, "client") else [layer]
    text = json.dumps([run.probe, run.kind, _canonical(requested), *beneath], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _canonical(value: object) -> object:
    """Return the value with whole floats as integers: 5 s and 5.0 s ask for the same."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {str(key): _canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    return value


Key = TypeVar("Key")
Value = TypeVar("Value")


def grouped(values: Iterable[Value], key: Callable[[Value], Key]) -> dict[Key, list[Value]]:
    """Group values by the result of a function; groups and values keep their order."""
    groups: dict[Key, list[Value]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


_SHOWN = 3
_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")


@dataclass(frozen=True, slots=True)
class Doubt:
    """A reason why runs have no credible figure, and the number of such runs.

    Numbers in ``reason`` are those of one of the runs.
    """

    reason: str
    runs: int


def doubts(runs: Iterable[Run]) -> tuple[Doubt, ...]:
    """Return why runs have no credible figure, most frequent reason first.

    A run counts once, for the reason shared by most of its figures. An unfinished run has a figure:
    it counts as 0.
    """
    reasons = (reason for run in runs if (reason := _why(run)) is not None)
    # "it ran 304 ms" and "it ran 298 ms" are one reason.
    by_pattern = grouped(reasons, lambda reason: _NUMBER.sub("0", reason))
    ordered = sorted(by_pattern.values(), key=lambda alike: (-len(alike), alike[0]))
    return tuple(Doubt(alike[0], len(alike)) for alike in ordered)


def doubts_text(reasons: Sequence[Doubt]) -> str:
    """Return the reasons as one text: ``served from the page cache (10 runs), ...``.

    Examples
    --------
    >>> doubts_text([Doubt("too short", 2), Doubt("cached", 1)])
    'too short (2 runs), cached (1 run)'
    """
    shown = [f"{doubt.reason} ({plural(doubt.runs, 'run')})" for doubt in reasons]
    if len(shown) > _SHOWN:
        shown[_SHOWN:] = [f"and {len(shown) - _SHOWN} other reasons"]
    return ", ".join(shown)


def _why(run: Run) -> str | None:
    """Return why nothing of a run is credible; ``None`` if something is."""
    if run.status is RunStatus.UNFINISHED:
        return None
    if run.status not in (RunStatus.OK, RunStatus.PARTIAL):
        return f"{run.status.value}: {run.problem}" if run.problem else run.status.value
    totals = [sample for sample in run.samples if sample.is_total]
    # Bytes moved are the request, not an achievement.
    figures = [total for total in totals if total.unit != "B"]
    if any(figure.believed for figure in figures):
        return None
    reasons = Counter(figure.reason for figure in figures if figure.reason is not None)
    if not reasons:
        return run.problem or "it has no figure of the whole"
    return reasons.most_common(1)[0][0]

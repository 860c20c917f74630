"""What one output of a benchmark says, in the same form whatever the tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Final

from trimtab.message import Message, code_of, joined
from trimtab.model.finding import Missing
from trimtab.model.run import (
    Access,
    LatencyHistogram,
    Layer,
    RawOutput,
    RunStatus,
    Sample,
    Timeline,
)

ACCESSES: Final[tuple[Access, ...]] = ("write", "read")
BANDWIDTH: Final[dict[Access, str]] = {"write": "write_bandwidth", "read": "read_bandwidth"}
LATENCY: Final[dict[Access, str]] = {"write": "write_latency", "read": "read_latency"}
IOPS: Final[dict[Access, str]] = {"write": "write_iops", "read": "read_iops"}


class Notes(list[str]):
    """Sentences about a measurement while it is read: its problems, or its warnings."""

    def add(self, code: str, text: str) -> None:
        """Add a sentence with its code."""
        self.append(Message(code, text))


@dataclass(frozen=True, slots=True)
class Phase:
    """One write or read of one repetition.

    Attributes
    ----------
    repetition
        Counted from 0 over the whole run.
    tasks, transfer_size_bytes, block_size_bytes
        As the tool says it ran; ``None`` where it does not say.
    moved_bytes
        What was written or read, all tasks together.
    elapsed_s
        The time that the bandwidth is over: last close minus first open, or the tool's own
        figure for it; with the flush inside where one was asked for.
    bandwidth_bytes_per_s
        As printed; checked against ``moved_bytes / elapsed_s``.
    cpu_user_s, cpu_system_s
        Of all tasks, where the tool tells.
    direct
        Whether O_DIRECT was really used; ``None`` where the tool does not say.
    caches_dropped
        Whether the tool dropped the cached pages of its files before the phase.
    line
        Of the bandwidth in the output.
    reason
        Why the figures are not to be believed.
    """

    access: Access
    repetition: int
    moved_bytes: int | None = None
    elapsed_s: float | None = None
    bandwidth_bytes_per_s: float | None = None
    tasks: int | None = None
    transfer_size_bytes: int | None = None
    block_size_bytes: int | None = None
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    direct: bool | None = None
    caches_dropped: bool | None = None
    line: int | None = None
    reason: str | None = None

    def sample(self, output: int | None) -> Sample:
        """Return the phase's bandwidth as a sample; ``output`` is the ordinal of the raw output."""
        value, reason = self.bandwidth_bytes_per_s, self.reason
        if value is None:
            reason = reason or Message("no-bandwidth", "the tool printed no bandwidth")
        metric = BANDWIDTH[self.access]
        return Sample(metric, value, self.repetition, output=output, line=self.line, reason=reason)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One output of a benchmark, read.

    Attributes
    ----------
    kind
        The benchmark: ``ior``, ``fio``, ``builtin``.
    status
        ``ok``; ``partial``: it ended early and what was measured stands; ``failed``: nothing can
        be believed; ``invalid_workload``: set by `workload.confirm`.
    problems
        Why the status is not ``ok``, the most important first: sentences with their codes, or
        what the tool itself complained of.
    samples
        The bandwidth of every phase first, then latencies.
    warnings
        What the tool complained about without failing.
    missing
        What this tool does not tell, with the reason.
    name
        What sets this result apart from others of the same file: ``ior-easy`` of an IO500.
    layer
        Where in the stack it measured; ``None`` where the output does not show that.
    began, ended
        As printed: aware where a zone stands beside it, else naive, in the zone of the machine.
    host
        Where it ran, as it says.
    requested
        The parameters, as plain JSON values, so that two results can be compared exactly when
        theirs are equal. Names as in `trimtab.model.run.ProbeSpec` where they mean the same:
        ``tasks``, ``nodes``, ``transfer_size_bytes``, ``block_size_bytes``, ``direct`` ...
    reported
        What else a reader may want to know, as plain JSON values: ``targets``, ``drives``,
        ``servers`` are how many of each the result covers.
    identity
        What makes it this result whatever file it stands in, where a tool writes it to several;
        ``None`` where only the same file is the same result.
    """

    kind: str
    status: RunStatus
    problems: tuple[str, ...] = ()
    tool_version: str | None = None
    name: str | None = None
    layer: Layer | None = None
    began: datetime | None = None
    ended: datetime | None = None
    host: str | None = None
    requested: Mapping[str, object] = field(default_factory=dict)
    reported: Mapping[str, object] = field(default_factory=dict)
    phases: tuple[Phase, ...] = ()
    samples: tuple[Sample, ...] = ()
    timelines: tuple[Timeline, ...] = ()
    histograms: tuple[LatencyHistogram, ...] = ()
    warnings: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    identity: str | None = None

    @property
    def problem(self) -> str | None:
        """The problems as one sentence, with the code of the first that has one."""
        return joined(*self.problems)

    @property
    def codes(self) -> tuple[str, ...]:
        """The code of each problem; ``tool-message`` for the tool's own words."""
        return tuple(code_of(problem) or "tool-message" for problem in self.problems)

    def moved_bytes(self, access: Access) -> int:
        """Return the bytes of all its writes or reads, as far as they are known."""
        return sum(phase.moved_bytes or 0 for phase in self.phases if phase.access == access)


@dataclass(slots=True)
class Draft:
    """A measurement while its output is read; `finished` decides the status once."""

    kind: str
    output: int | None = None
    tool_version: str | None = None
    name: str | None = None
    layer: Layer | None = None
    began: datetime | None = None
    ended: datetime | None = None
    host: str | None = None
    requested: dict[str, object] = field(default_factory=dict)
    reported: dict[str, object] = field(default_factory=dict)
    phases: list[Phase] = field(default_factory=list)
    latencies: list[Sample] = field(default_factory=list)
    timelines: list[Timeline] = field(default_factory=list)
    histograms: list[LatencyHistogram] = field(default_factory=list)
    warnings: Notes = field(default_factory=Notes)
    missing: list[Missing] = field(default_factory=list)
    problems: Notes = field(default_factory=Notes)

    def note_exit(self, tool: str, output: RawOutput, complaint: str = "") -> None:
        """Add the problem of a tool that did not end with exit code 0."""
        if output.exit_code != 0:
            code = "a signal" if output.exit_code is None else f"exit code {output.exit_code}"
            text = f"{tool} ended with {code}" + (f": {complaint}" if complaint else "")
            self.problems.add("tool-exit", text)

    def finished(self, *, integrity_lost: bool = False) -> Measurement:
        """Return the measurement.

        Without a problem it is ``ok``. With one it is ``partial`` if some phase can still be
        believed, else ``failed``; data that came back wrong is always ``failed``.
        """
        samples = tuple(phase.sample(self.output) for phase in self.phases)
        if not self.problems and not any(sample.believed for sample in samples):
            reasons = [phase.reason for phase in self.phases if phase.reason is not None]
            nothing = Message("no-result", "the output contains no result")
            self.problems.append(next(iter(reasons), nothing))
        taken: dict[str, Any] = {
            part.name: getattr(self, part.name)
            for part in fields(Measurement)
            if hasattr(self, part.name)
        }
        for name, value in taken.items():
            if isinstance(value, list):
                taken[name] = tuple(dict.fromkeys(value) if isinstance(value, Notes) else value)
        status = RunStatus.FAILED if integrity_lost else status_of(samples, self.problems)
        return Measurement(status=status, samples=(*samples, *self.latencies), **taken)


def status_of(samples: Iterable[Sample], problems: Iterable[str]) -> RunStatus:
    """Return ``ok`` without a problem; else ``partial`` where some sample is believed."""
    if not any(problems):
        return RunStatus.OK
    believed = any(sample.believed for sample in samples)
    return RunStatus.PARTIAL if believed else RunStatus.FAILED


def concluded(
    kind: str,
    samples: Sequence[Sample],
    problems: Sequence[str],
    nothing: str | None,
    *,
    warnings: Iterable[str] = (),
    **more: Any,
) -> Measurement:
    """Return a measurement with the status that its samples and problems show.

    Parameters
    ----------
    nothing
        The problem where no sample is believed, and neither a problem nor a reason says why;
        ``None``: then it has no problem.
    more
        The other fields of `Measurement`.
    """
    if nothing is not None and not problems and not any(sample.believed for sample in samples):
        problems = (first_reason(samples, nothing),)
    return Measurement(
        kind,
        status_of(samples, problems),
        tuple(dict.fromkeys(problems)),
        samples=tuple(samples),
        warnings=tuple(dict.fromkeys(warnings)),
        **more,
    )


def told_apart(measurements: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """Return results with names of their own: with its number each that came before.

    Examples
    --------
    >>> results = [Measurement("lst-survey", RunStatus.OK, name=name) for name in ("rw", "rw")]
    >>> [result.name for result in told_apart(results)]
    ['rw', 'rw #2']
    """
    counts = Counter[str | None]()
    apart: list[Measurement] = []
    for result in measurements:
        counts[result.name] += 1
        number = counts[result.name]
        name = result.name if number == 1 else f"{result.name} #{number}"
        apart.append(replace(result, name=name))
    return tuple(apart)


def first_reason(samples: Iterable[Sample], nothing: str) -> str:
    """Return the first reason of samples not to believe them; ``nothing`` where none has one."""
    reasons = (sample.reason for sample in samples if sample.reason)
    return next(reasons, Message("no-result", nothing))


def doubted(sample: Sample, reason: str) -> Sample:
    """Return the sample with this reason, where it has none yet."""
    return replace(sample, reason=sample.reason or reason)


def missing(noun: str, code: str, text: str) -> Missing:
    """Return something that a tool does not tell, with the reason."""
    return Missing(noun, Message(code, text))


def with_reason(sample: Sample, reason: str) -> Sample:
    """Return the sample with one more reason not to believe it."""
    return replace(sample, reason=joined(sample.reason, reason))


def agrees(
    bandwidth_bytes_per_s: float, moved_bytes: float, elapsed_s: float, *, tolerance: float
) -> bool:
    """Return whether bytes, time and bandwidth fit together.

    Parameters
    ----------
    tolerance
        What rounding in print can make of the ratio, as a fraction.
    """
    if bandwidth_bytes_per_s <= 0 or moved_bytes <= 0 or elapsed_s <= 0:
        return False  # printed as 0 is printed with too few digits
    return abs(bandwidth_bytes_per_s * elapsed_s / moved_bytes - 1.0) <= tolerance


def beginning(text: str) -> str:
    """Return the first words of something unexpected, on one line, for a message."""
    words = " ".join(text[:480].split())
    return words if len(words) <= 120 else f"{words[:120]} ..."


def tail(text: str, limit: int = 300) -> str:
    """Return the last words of a complaint, on one line, for a message."""
    words = " ".join(text.split())
    return words if len(words) <= limit else f"... {words[-limit:]}"

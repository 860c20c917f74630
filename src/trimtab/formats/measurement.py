"""The content of one benchmark output, in the same form for every tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Final

from trimtab.base.error import Message, code_of, joined
from trimtab.base.finding import Missing
from trimtab.base.run import (
    BANDWIDTH,
    Access,
    LatencyHistogram,
    Layer,
    RawOutput,
    RunStatus,
    Sample,
    Timeline,
)

ACCESSES: Final[tuple[Access, ...]] = ("write", "read")
LATENCY: Final[dict[Access, str]] = {"write": "write_latency", "read": "read_latency"}
IOPS: Final[dict[Access, str]] = {"write": "write_iops", "read": "read_iops"}


class Notes(list[str]):
    """Collects messages while an output is read: problems, or warnings."""

    def add(self, code: str, text: str) -> None:
        """Add a message."""
        self.append(Message(code, text))


@dataclass(frozen=True, slots=True)
class MeasuredPhase:
    """One write or read of one repetition.

    Attributes
    ----------
    repetition
        Number within the whole run, from 0.
    tasks, transfer_size_bytes, block_size_bytes
        As the tool reports them; ``None`` if it does not.
    moved_bytes
        Bytes written or read by all tasks together.
    elapsed_s
        The time the bandwidth refers to: last close minus first open, or the tool's equivalent;
        including the flush if one was requested.
    bandwidth_bytes_per_s
        As printed; checked against ``moved_bytes / elapsed_s``.
    cpu_user_s, cpu_system_s
        Of all tasks together, if the tool reports it.
    direct
        Whether O_DIRECT was actually used; ``None`` if the tool does not report it.
    caches_dropped
        Whether the tool dropped the cached pages of its files before the phase.
    line
        Line of the bandwidth in the output.
    reason
        Why the figures are not credible.
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
    """The parsed output of a benchmark.

    Attributes
    ----------
    kind
        The benchmark: ``ior``, ``fio``, ``builtin``.
    status
        ``ok``; ``partial``: it ended early, but its figures are valid; ``failed``: nothing is
        credible; ``invalid_workload``: set by
        `trimtab.formats.phase.confirm`.
    problems
        Why the status is not ``ok``, the most important first: messages with codes, or the tool's
        own errors.
    samples
        The bandwidth of every phase first, then latencies.
    warnings
        The tool's warnings that did not make it fail.
    missing
        What this tool does not report, with the reason.
    name
        Name that distinguishes this result from others of the file: ``ior-easy`` of an IO500.
    layer
        The layer of the stack it measured; ``None`` if the output does not show it.
    began, ended
        As printed: aware if printed with a zone, else naive, in the zone of the machine.
    host
        The host it ran on, as printed.
    requested
        The parameters, as JSON values: two results are comparable if and only if these are equal.
        Equivalents of fields of `trimtab.base.run.ProbeSpec` have the field's name: ``tasks``,
        ``nodes``, ``transfer_size_bytes``, ``block_size_bytes``, ``direct`` ...
    reported
        Further information, as JSON values: ``targets``, ``drives`` and ``servers`` are the numbers
        that the result covers.
    identity
        Identity of the result across files, if a tool writes it to several; ``None`` if only an
        identical file has the same result.
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
    phases: tuple[MeasuredPhase, ...] = ()
    samples: tuple[Sample, ...] = ()
    timelines: tuple[Timeline, ...] = ()
    histograms: tuple[LatencyHistogram, ...] = ()
    warnings: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    identity: str | None = None

    @property
    def problem(self) -> str | None:
        """All problems as one message, with the first code."""
        return joined(*self.problems)

    @property
    def codes(self) -> tuple[str, ...]:
        """The code of each problem; ``tool-message`` for the tool's own text."""
        return tuple(code_of(problem) or "tool-message" for problem in self.problems)

    def moved_bytes(self, access: Access) -> int:
        """Return the known bytes of all its writes or reads."""
        return sum(phase.moved_bytes or 0 for phase in self.phases if phase.access == access)


@dataclass(slots=True)
class MeasurementDraft:
    """A measurement under construction; `finished` decides its status."""

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
    phases: list[MeasuredPhase] = field(default_factory=list)
    latencies: list[Sample] = field(default_factory=list)
    timelines: list[Timeline] = field(default_factory=list)
    histograms: list[LatencyHistogram] = field(default_factory=list)
    warnings: Notes = field(default_factory=Notes)
    missing: list[Missing] = field(default_factory=list)
    problems: Notes = field(default_factory=Notes)

    def note_exit(self, tool: str, output: RawOutput, complaint: str = "") -> None:
        """Add a problem if the tool did not exit with 0."""
        if output.exit_code != 0:
            code = "a signal" if output.exit_code is None else f"exit code {output.exit_code}"
            text = f"{tool} ended with {code}" + (f": {complaint}" if complaint else "")
            self.problems.add("tool-exit", text)

    def finished(self, *, integrity_lost: bool = False, rates_count: bool = False) -> Measurement:
        """Return the measurement.

        Without a problem it is ``ok``. Otherwise it is ``partial`` if a phase is still credible,
        else ``failed``; corrupt data is always ``failed``.

        Parameters
        ----------
        rates_count
            Whether the other samples count like phases: files, directories, operations a second.
        """
        samples = tuple(phase.sample(self.output) for phase in self.phases)
        judged = (*samples, *self.latencies) if rates_count else samples
        if not self.problems and not any(sample.believed for sample in judged):
            reasons = [each.reason for each in (judged if rates_count else self.phases)]
            nothing = Message("no-result", "the output contains no result")
            self.problems.append(next(filter(None, reasons), nothing))
        taken: dict[str, Any] = {
            part.name: getattr(self, part.name)
            for part in fields(Measurement)
            if hasattr(self, part.name)
        }
        for name, value in taken.items():
            if isinstance(value, list):
                taken[name] = tuple(dict.fromkeys(value) if isinstance(value, Notes) else value)
        status = RunStatus.FAILED if integrity_lost else status_of(judged, self.problems)
        return Measurement(status=status, samples=(*samples, *self.latencies), **taken)


def status_of(samples: Iterable[Sample], problems: Iterable[str]) -> RunStatus:
    """Return ``ok`` without a problem, ``partial`` if a sample is credible, else ``failed``."""
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
    """Return a measurement with the status that follows from its samples and problems.

    Parameters
    ----------
    nothing
        The problem if no sample is credible and no problem or reason explains it; ``None``: no
        problem.
    more
        Further fields of `Measurement`.
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
    """Return results with unique names: repeated ones get a number.

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
    """Return the first reason among samples; ``nothing`` if there is none."""
    reasons = (sample.reason for sample in samples if sample.reason)
    return next(reasons, Message("no-result", nothing))


def doubted(sample: Sample, reason: str) -> Sample:
    """Return the sample with this reason, unless it already has one."""
    return replace(sample, reason=sample.reason or reason)


def missing(noun: str, code: str, text: str) -> Missing:
    """Return an entry for something that a tool does not report."""
    return Missing(noun, Message(code, text))


def with_reason(sample: Sample, reason: str) -> Sample:
    """Return the sample with an additional reason."""
    return replace(sample, reason=joined(sample.reason, reason))


def agrees(
    bandwidth_bytes_per_s: float, moved_bytes: float, elapsed_s: float, *, tolerance: float
) -> bool:
    """Return whether bytes, time and bandwidth agree.

    Parameters
    ----------
    tolerance
        Maximum error of the ratio through rounding, as a fraction.
    """
    if bandwidth_bytes_per_s <= 0 or moved_bytes <= 0 or elapsed_s <= 0:
        return False  # a printed 0 has too few digits
    return abs(bandwidth_bytes_per_s * elapsed_s / moved_bytes - 1.0) <= tolerance


def beginning(text: str) -> str:
    """Return the start of an unexpected text on one line, for a message."""
    words = " ".join(text[:480].split())
    return words if len(words) <= 120 else f"{words[:120]} ..."


def tail(text: str, limit: int = 300) -> str:
    """Return the end of an error text on one line, for a message."""
    words = " ".join(text.split())
    return words if len(words) <= limit else f"... {words[-limit:]}"

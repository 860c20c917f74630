"""The content of one benchmark output, the same for every tool, and the interface of all formats.

``trimtab import`` needs an `OutputFormat` of each benchmark: it recognises the benchmark's output
and reads the results in it, as a `Measurement`. Both are pure.
`trimtab.formats.format_table.formats` returns all formats. A file may also have the output of
several benchmarks, such as a batch job's log, and end at the job's time limit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import cached_property
from pathlib import PurePath
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
        CPU time of all tasks together, if the tool reports it.
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


HEAD_BYTES: Final = 65_536
"""Bytes at the start by which a format is recognised."""
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class OutputFile:
    """One file, with neighbouring files of the same result.

    Attributes
    ----------
    name
        Its path, for messages and for information in the name (a host, a target). Formats never
        open it.
    content
        All of it.
    beside
        Relative name to content of the existing files among `OutputFormat.companions`. They are the
        outputs 1, 2 ... of the run, in this order; the file itself is output 0.
    timezone
        IANA name of the zone for times printed without one, for formats that compute with them;
        otherwise the zone is applied to the measurement later. ``None``: unknown.
    """

    name: str
    content: bytes
    beside: Mapping[str, bytes] = field(default_factory=dict)
    timezone: str | None = None

    @cached_property
    def text(self) -> str:
        """The content as text; invalid UTF-8 becomes U+FFFD, a byte order mark is removed."""
        return self.content.decode("utf-8-sig", "replace")

    @cached_property
    def head(self) -> str:
        """The start of the text, for recognition."""
        return self.content[:HEAD_BYTES].decode("utf-8-sig", "replace")

    @property
    def file_name(self) -> str:
        """The last component of the name."""
        return PurePath(self.name).name

    def raw_output(self) -> RawOutput:
        """Return the content as the output of a successful tool: only the output is judged."""
        return RawOutput(self.file_name, (), self.content.removeprefix(_BYTE_ORDER_MARK))


def _alone(name: str) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Mark:
    """Recognises where a benchmark's output starts, for files with several.

    Attributes
    ----------
    words
        Every match contains one of these: a fast way to rule it out.
    pattern
        Matches at the start of a line, in time linear in the size of the content.
    """

    words: tuple[bytes, ...]
    pattern: re.Pattern[bytes]

    def stands_in(self, source: OutputFile) -> bool:
        """Return whether the benchmark's output starts within the head of a file."""
        head = source.content[:HEAD_BYTES]
        return any(word in head for word in self.words) and self.pattern.search(head) is not None


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """How to recognise and read a benchmark's output.

    Attributes
    ----------
    kind
        As in the store and ``--kind``: ``ior``, ``mdtest``, ``obdfilter-survey`` ...
    recognises
        Whether a content has this format; uses only `OutputFile.head` and the file name, rejects
        other formats, and never raises.
    read
        Returns every result in it, at least one. Raises `trimtab.base.error.DataError` with the
        offending line if there is none; no other error on any input.
    companions
        File name to the relative names of files to read with it, if they exist.
    instead
        File name to the relative names of files that may contain the whole result of which this is
        a part; the first existing one is read instead.
    beginning
        Start of its output in a file with others; ``None`` if it always has its own file.
    """

    kind: str
    recognises: Callable[[OutputFile], bool]
    read: Callable[[OutputFile], tuple[Measurement, ...]]
    companions: Callable[[str], tuple[str, ...]] = _alone
    instead: Callable[[str], tuple[str, ...]] = _alone
    beginning: Mark | None = None


@dataclass(frozen=True, slots=True)
class MixedPart:
    """The part of a file that belongs to one benchmark.

    Attributes
    ----------
    line
        Its first line, from 1.
    """

    form: OutputFormat
    content: bytes
    line: int


def parts_of(
    source: OutputFile, form: OutputFormat, formats: Iterable[OutputFormat]
) -> tuple[MixedPart, ...]:
    """Return the parts of a file, by their first line; one for a single benchmark.

    A part starts at a benchmark's start line (`OutputFormat.beginning`) and ends before the next
    one's. Lines before the first belong to it, or to ``form``. Lines of other benchmarks are blank,
    so that line numbers stay those of the file. Several runs of one benchmark are one part, which
    its format divides.

    Parameters
    ----------
    form
        The format that the file was recognised as.
    """
    content = source.content
    whole = (MixedPart(form, content, 1),)
    marks = sorted(
        ((place, each.kind, each) for each in formats for place in _places(each, content)),
        key=lambda mark: mark[:2],
    )
    if all(kind == form.kind for _, kind, _ in marks):
        return whole
    before = OutputFile(source.name, content[: marks[0][0]])
    if marks[0][1] != form.kind and form.recognises(before):
        marks.insert(0, (0, form.kind, form))
    if form.kind not in {kind for _, kind, _ in marks}:
        return whole
    starts = [0, *(place for place, _, _ in marks[1:])]
    ends = [*starts[1:], len(content)]
    spans = [(a, b, each) for a, b, (_, _, each) in zip(starts, ends, marks, strict=True)]
    return tuple(
        _part(content, spans, each) for each in {each.kind: each for _, _, each in marks}.values()
    )


def _places(form: OutputFormat, content: bytes) -> list[int]:
    """Return the positions where a benchmark starts, each at the start of a line."""
    mark = form.beginning
    if mark is None or not any(word in content for word in mark.words):
        return []
    return [match.start() for match in mark.pattern.finditer(content)]


def _part(
    content: bytes, spans: list[tuple[int, int, OutputFormat]], form: OutputFormat
) -> MixedPart:
    pieces = [
        content[start:end] if owner.kind == form.kind else b"\n" * content.count(b"\n", start, end)
        for start, end, owner in spans
    ]
    first = next(start for start, _, owner in spans if owner.kind == form.kind)
    return MixedPart(form, b"".join(pieces), 1 + content.count(b"\n", 0, first))


_TIME_LIMIT: Final = re.compile(
    rb"^(?:slurmstepd[^:\n]*: error: \*\*\* .* CANCELLED AT .* DUE TO TIME LIMIT"  # Slurm: req.c
    rb"|=>> PBS: job killed: walltime \d+ exceeded limit"  # PBS: mom_main.c
    rb"|TERM_RUNLIMIT: job killed after reaching LSF run time limit"  # LSF: bacct(1)
    rb").*$",
    re.MULTILINE,
)
_WORDS: Final = (b"DUE TO TIME LIMIT", b"PBS: job killed", b"TERM_RUNLIMIT")
"""Every such line contains one of these."""
_UNFINISHED: Final = (
    "output-unfinished", "run-unfinished", "ended-early", "repetitions-missing", "phases-missing",
)  # fmt: skip
_MAY_BE: Final = (RunStatus.FAILED, RunStatus.PARTIAL)


def with_time_limit(measurements: Iterable[Measurement], content: bytes) -> tuple[Measurement, ...]:
    """Return the results of an output, with those cut off by a time limit as unfinished.

    What such a run measured so far means little; that it did not finish in time means most. The
    batch system writes a line about it into the job's output.

    Examples
    --------
    >>> cut = Measurement("ior", RunStatus.FAILED, (Message("output-unfinished", "no end"),))
    >>> text = b"slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-03-02 DUE TO TIME LIMIT ***"
    >>> with_time_limit([cut], text)[0].status
    <RunStatus.UNFINISHED: 'unfinished'>
    """
    every = tuple(measurements)
    if not any(word in content for word in _WORDS):
        return every
    line = _TIME_LIMIT.search(content)
    if line is None:
        return every
    printed = tail(line.group().decode("utf-8", "replace").strip(), 200)
    problem = Message("time-limit", f"it reached its time limit before it finished: {printed}")
    return tuple(
        replace(
            measurement,
            status=RunStatus.UNFINISHED,
            problems=(problem, *measurement.problems),
        )
        if measurement.status in _MAY_BE
        and any(code_of(text) in _UNFINISHED for text in measurement.problems)
        else measurement
        for measurement in every
    )

"""Imported files, and the interface of the formats that read them.

``trimtab import`` needs an `OutputFormat` of each benchmark: it recognises the benchmark's output
and reads the results in it. Both are pure. `trimtab.formats.format_table.formats` returns all
formats. A file may also have the output of several benchmarks, such as a batch job's log, and end
at the job's time limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePath
from typing import Final

from trimtab.base.error import Message, code_of
from trimtab.base.run import RawOutput, RunStatus
from trimtab.formats.measurement import Measurement, tail

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

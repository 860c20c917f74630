"""Reads one file to its results: opened, unpacked, recognised, parsed. Runs in worker processes.

So nothing here imports code that queries the store: every worker would have to load it.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import BinaryIO, Final

from trimtab.base.error import DataError, Message, TrimtabError, visible
from trimtab.base.plain import unix_lines
from trimtab.base.snapshot import Snapshot
from trimtab.formats import darshan
from trimtab.formats.format_table import formats
from trimtab.formats.measurement import (
    HEAD_BYTES,
    Measurement,
    OutputFile,
    OutputFormat,
    beginning,
    parts_of,
    with_time_limit,
)
from trimtab.formats.prefix import Stream, streams
from trimtab.probe import target_dump
from trimtab.probe.result_file import GZIP, FoundFile, content_of, converted, opened_file, whole_of
from trimtab.probe.target_dump import TARGET_DUMPS
from trimtab.store.raw_output import RawDirectory

PREAMBLE_BYTES = 16 * 1024**2
"""Where in a text a benchmark may begin at the latest: thousands of ranks may warn before."""
PUT_BYTES = 32 * 1024**2
"""So much is held in memory before it is written to the raw outputs."""
REPETITION_MAXIMUM = 2**31 - 1
_NOTES = 4
"""At most this many nodes without a result are listed one by one."""
NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
UNRECOGNISED: Final = (
    "unrecognised format; if only the beginning is odd, name the format with --kind"
)
"""Reason for a file of unknown format, of which a directory may contain many."""
EMPTY: Final = "the file is empty"


@dataclass(frozen=True, slots=True)
class FileReading:
    """Contents of one file.

    Attributes
    ----------
    path
        The file given.
    snapshots
        Name and snapshot of each file system of an ``lfs df`` or ``lctl get_param``; the time is
        `NO_TIME` where the file has none.
    unjudged
        Name of a file system to why nothing judges its snapshot.
    shown
        Readable lines about the snapshots.
    notes
        What is missing or odd in the snapshots, or which part of the file was not read.
    kind
        The format; for a file of several benchmarks all of them, separated by commas.
    source
        The file that was read, with those beside it; ``None`` if it could not be opened.
        ``source.name`` differs from ``path`` if another file holds the result.
    original
        Content from which a child process produced the text of the source.
    """

    path: str
    kind: str | None = None
    measurements: tuple[Measurement, ...] = ()
    problem: str | None = None
    snapshots: tuple[tuple[str, Snapshot], ...] = ()
    unjudged: Mapping[str, Message] = field(default_factory=dict)
    shown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    source: OutputFile | None = field(default=None, repr=False)
    original: bytes | None = field(default=None, repr=False)


Task = tuple[FoundFile, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Read:
    """A file that was read.

    Attributes
    ----------
    outputs
        Label, size in bytes and sha256 of each raw output.
    sha256
        Identity of the file, see `_identity`.
    """

    candidate: FoundFile
    reading: FileReading
    outputs: tuple[tuple[str, int, str], ...] = ()
    sha256: str | None = None


def read_file(
    path: str,
    kind: str | None = None,
    *,
    others: Container[str] = (),
    follow: bool = True,
    timezone: str | None = None,
) -> FileReading:
    """Return the contents of a file; anything wrong with it is in ``problem``, never raised.

    Parameters
    ----------
    kind
        The format, if the user names it; otherwise it is recognised by its content.
    others
        Other files being read: a file that is only a part of one of them is returned without
        results, with that file as its source.
    follow
        Whether a link is followed: only if the user named it.
    timezone
        Zone of times printed without one; ``None``: unknown.
    """
    known = kind
    try:
        with opened_file(path, follow=follow) as stream:
            if kind is None and not _may_be_known(path, stream):
                return FileReading(path, None, problem=_unrecognised(OutputFile(path, b"x"), kind))
            content = whole_of(path, stream)
        made = converted(content)
        source = OutputFile(path, content if made is None else made, timezone=timezone)
        # Output of a child process has that format even if it only says why it failed.
        hint = kind if made is None else kind or darshan.KIND
        refusals: list[DataError] = []
        for way in _ways(source, hint):
            first = OutputFile(path, next(stream for stream in way if stream.known).content)
            form = _format(first, hint)
            known = _kind_of_targets(first, kind) if form is None else form.kind
            try:
                if form is None:
                    return _snapshots(source, way, known)
                reading = _read_way(source, form, way, kind=kind, hint=hint, others=others)
                return replace(reading, original=None if made is None else content)
            except DataError as error:
                refusals.append(error)
        if refusals:
            raise refusals[0]
        return FileReading(path, None, problem=_unrecognised(source, kind))
    except DataError as error:
        whole = error if error.file else error.of(visible(path))
        return FileReading(path, known, problem=Message(whole.code, whole.message))
    except TrimtabError as error:
        return FileReading(path, known, problem=error.message)
    except OSError as error:
        return FileReading(path, known, problem=f"{visible(path)}: {_reason(error)}")
    except Exception as error:  # noqa: BLE001 (a bug that one file shows must not cost the others)
        bug = f"a bug of Trimtab in reading it, {type(error).__name__}: {error}"
        return FileReading(path, known, problem=f"{visible(path)}: {bug}")


def _ways(source: OutputFile, kind: str | None) -> Iterator[tuple[Stream, ...]]:
    """Yield the ways in which a file can be read, the likeliest first: as it is, or what it quotes.

    If the user names the format, it is finally read as that, whatever it looks like.
    """
    content = unix_lines(source.content)
    yield from streams(content, lambda text: _is_known(OutputFile(source.name, text), kind))
    if any(form.kind == kind for form in formats()):
        yield (Stream(None, content),)


def _is_known(source: OutputFile, kind: str | None) -> bool:
    form = _format(source, kind)
    # Last: users write lfs df before and after a benchmark into one file.
    if form is None:
        return _kind_of_targets(source, kind) is not None
    return kind is None or form.recognises(source)


def _read_way(
    source: OutputFile,
    form: OutputFormat,
    way: tuple[Stream, ...],
    *,
    kind: str | None,
    hint: str | None,
    others: Container[str],
) -> FileReading:
    """Return the results of a file, with its companions, in one way to read it; may raise."""
    path = source.name
    main = _main(source, form)
    if main is not source:
        if main.name in others:
            return FileReading(path, form.kind, source=main)
        source, way = main, next(_ways(main, form.kind))
    source = _with_companions(source, form)
    measurements, notes = _measured(source, way, kind=kind, hint=hint)
    _refuse_what_cannot_be(measurements)
    known = ", ".join(dict.fromkeys(measurement.kind for measurement in measurements))
    return FileReading(path, known, measurements, notes=notes, source=source)


def says_the_same(reading: FileReading, source: OutputFile) -> bool:
    """Return whether another content of the file has the same results as this reading."""
    if reading.kind is None or not reading.measurements:
        return False
    hint = None if "," in reading.kind else reading.kind
    for way in _ways(source, hint):
        with suppress(DataError):
            results = _measured(source, way, kind=None, hint=hint)
            return results == (reading.measurements, reading.notes)
    return False


def _measured(
    source: OutputFile, way: tuple[Stream, ...], *, kind: str | None, hint: str | None
) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """Return the results of every output in a file, and which part was not read.

    Raises
    ------
    DataError
        Nothing can be read.
    """
    beside = {name: unix_lines(content) for name, content in source.beside.items()}
    measurements: list[Measurement] = []
    notes: list[str] = []
    for stream in way:
        part = replace(source, content=stream.content, beside={} if stream.label else beside)
        form = _format(part, hint) if stream.known else None
        try:
            results, remarks = ((), ()) if form is None else _read_parts(part, form, kind)
        except DataError as error:
            if stream.label is None:
                raise
            results, remarks = (), (error.reason,)
        # Messages of a batch system follow a prefix or are on lines between prefixed ones.
        for text in (stream.content, source.content):
            results = with_time_limit(results, text)
        measurements += [_of_stream(result, stream) for result in results]
        if not results and not remarks:
            remarks = (f"no result: {beginning(part.text)}",)
        notes += [f"{stream.label}: {text}" if stream.label else text for text in remarks]
    if not measurements:
        raise DataError("; ".join(notes), code="nothing-read", line=1)
    if len(notes) > _NOTES:
        notes[_NOTES:] = [f"and {len(notes) - _NOTES} more have no result"]
    return tuple(measurements), tuple(notes)


def _of_stream(measurement: Measurement, stream: Stream) -> Measurement:
    """Return a result with the name of its node or rank."""
    label = stream.label
    if label is None:
        return measurement
    name = label if measurement.name is None else f"{label}: {measurement.name}"
    is_node = not label.startswith("rank ")
    return replace(measurement, name=name, host=measurement.host or (label if is_node else None))


def _read_parts(
    source: OutputFile, form: OutputFormat, kind: str | None
) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """Return the results of every benchmark in a file, and which part was not read.

    Raises
    ------
    DataError
        Nothing can be read.
    """
    parts = parts_of(source, form, formats())
    if len(parts) == 1:
        return form.read(source), ()
    measurements: list[Measurement] = []
    notes: list[str] = []
    for part in parts:
        part_text = f"output of {part.form.kind} from line {part.line}"
        if kind not in (None, part.form.kind):
            notes.append(f"it also holds {part_text}, which was not read (--kind {kind})")
            continue
        beside = source.beside if part.form is form else {}
        try:
            measurements += part.form.read(replace(source, content=part.content, beside=beside))
        except DataError as error:
            notes.append(f"it also holds {part_text}, which cannot be read: {error.message}")
    if not measurements:
        raise DataError("; ".join(notes), code="nothing-read", line=1)
    return tuple(measurements), tuple(notes)


def _reason(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "a link; links in a directory, and beside a file, are not followed"
    return error.strerror or str(error)


def _may_be_known(path: str, stream: BinaryIO) -> bool:
    """Return whether the beginning of a file is of a format, so that the rest is worth reading."""
    head = stream.read(HEAD_BYTES)
    if len(head) < HEAD_BYTES or head.startswith(GZIP) or darshan.is_log(head):
        return True
    if next(_ways(OutputFile(path, head), None), None) is not None:
        return True
    if b"\0" in head:
        return False
    whole = OutputFile(path, head + stream.read(PREAMBLE_BYTES))
    return next(_ways(whole, None), None) is not None


def _behind_preamble(source: OutputFile) -> OutputFormat | None:
    """Return the format that begins first in a text whose head has no format."""
    begins: list[tuple[int, OutputFormat]] = []
    for form in formats():
        mark = form.beginning
        if mark is None or not any(word in source.content for word in mark.words):
            continue
        match = mark.pattern.search(source.content, 0, PREAMBLE_BYTES)
        if match is not None:
            begins.append((match.start(), form))
    for place, form in sorted(begins, key=lambda begin: begin[0]):
        if form.recognises(OutputFile(source.name, source.content[place : place + HEAD_BYTES])):
            return form
    return None


def _refuse_what_cannot_be(measurements: Iterable[Measurement]) -> None:
    """Raise DataError if the number of a repetition is implausibly large."""
    for measurement in measurements:
        for sample in measurement.samples:
            if (sample.repetition or 0) > REPETITION_MAXIMUM:
                raise DataError(
                    f"repetition {sample.repetition} is not a valid count",
                    code="repetition-invalid",
                    line=sample.line,
                )


def _kind_of_targets(source: OutputFile, kind: str | None) -> str | None:
    """Return the kind of text about targets, restricted to the one the user names."""
    matching = (name for name, dump in TARGET_DUMPS.items() if dump.recognises(source))
    return next((name for name in matching if kind in (None, name)), None)


def _snapshots(source: OutputFile, way: tuple[Stream, ...], kind: str | None) -> FileReading:
    """Return the snapshots of targets in a text, which may not state their time."""
    kind = kind or target_dump.LFS_DF_KIND
    dump = TARGET_DUMPS[kind]
    # Every node sees the same file system, so one is enough.
    part = OutputFile(source.name, next(stream.content for stream in way if stream.known))
    snapshots = dump.snapshots(part, NO_TIME)
    return FileReading(
        source.name,
        kind,
        snapshots=snapshots,
        unjudged={
            name: reason
            for name, snapshot in snapshots
            if (reason := target_dump.why_not_judged(snapshot)) is not None
        },
        shown=dump.shown(part),
        notes=dump.problems(part),
        source=source,
    )


def kinds() -> tuple[str, ...]:
    """Return the formats that ``--kind`` takes."""
    return (*(form.kind for form in formats()), *TARGET_DUMPS)


def _format(source: OutputFile, kind: str | None) -> OutputFormat | None:
    if kind is not None:
        return next((form for form in formats() if form.kind == kind), None)
    return _recognised(source.name, source.content[:HEAD_BYTES]) or _behind_preamble(source)


@lru_cache(maxsize=2)  # needed several times while a file is read
def _recognised(name: str, head: bytes) -> OutputFormat | None:
    source = OutputFile(name, head)
    return next((form for form in formats() if form.recognises(source)), None)


def _unrecognised(source: OutputFile, kind: str | None) -> str:
    if kind is not None:
        return f"there is no format {kind!r}"
    if not source.content:
        return EMPTY
    return UNRECOGNISED


def mains(path: str) -> tuple[str, ...]:
    """Return the files of which this one may be a part, by its name alone."""
    directory, name = os.path.split(path)
    names = (main for form in formats() for main in form.instead(name))
    return tuple(os.path.join(directory, main) for main in names)  # noqa: PTH118


def _main(source: OutputFile, form: OutputFormat) -> OutputFile:
    """Return the source of the file with the result of which this one is a part."""
    directory = os.path.dirname(source.name)  # noqa: PTH120 (a name of any bytes)
    for main in form.instead(source.file_name):
        path = os.path.join(directory, main)  # noqa: PTH118
        if os.path.lexists(path):
            other = replace(source, name=path, content=content_of(path, follow=False))
            if form.recognises(other):
                return other
    return source


def _with_companions(source: OutputFile, form: OutputFormat) -> OutputFile:
    beside = {}
    directory = os.path.dirname(source.name)  # noqa: PTH120
    for name in form.companions(source.file_name):
        path = os.path.join(directory, name)  # noqa: PTH118
        if os.path.lexists(path):
            beside[name] = content_of(path, follow=False)
    return replace(source, beside=beside)


@dataclass(frozen=True, slots=True)
class ImportBatch:
    """Files that are read together.

    Attributes
    ----------
    raw
        Directory for their content; ``None``: it is not stored.
    kind, timezone
        As for `read_file`.
    """

    tasks: Sequence[Task]
    raw: RawDirectory | None
    kind: str | None
    timezone: str | None

    def answer(self) -> list[Read]:
        """Read files, each with its main files that are read too; write their raw outputs."""
        done: list[Read] = []
        contents: dict[str, bytes] = {}
        for candidate, others in self.tasks:
            if candidate.problem is not None:
                done.append(Read(candidate, FileReading(candidate.path, problem=candidate.problem)))
                continue
            reading = read_file(
                candidate.path,
                self.kind,
                others=others,
                follow=candidate.named,
                timezone=self.timezone,
            )
            source = reading.source
            outputs: list[tuple[str, int, str]] = []
            for label, content in _contents(reading):
                sha256 = hashlib.sha256(content).hexdigest()
                outputs.append((label, len(content), sha256))
                contents[sha256] = content
            if self.raw is not None and sum(map(len, contents.values())) > PUT_BYTES:
                self.raw.put_many(contents)
                contents.clear()
            name = None if source is None else OutputFile(source.name, b"")
            sha256 = None if source is None else _identity(reading, source)
            reading = replace(reading, source=name, original=None)
            done.append(Read(candidate, reading, tuple(outputs), sha256))
        if self.raw is not None:
            self.raw.put_many(contents)
        return done


def _identity(reading: FileReading, source: OutputFile) -> str:
    """Return the hash that identifies a file: of its content with one newline at the end.

    It does not depend on trailing empty lines, nor on Windows line ends.

    A text without a final newline equals one with it only if it says the same: it may have been
    cut there.
    """
    content = reading.original or source.content
    if reading.original is None:
        content = unix_lines(content)
        text = content.rstrip(b"\r\n")
        ended = replace(source, content=text + b"\n")
        if len(text) < len(content) or says_the_same(reading, ended):
            content = ended.content
    return hashlib.sha256(content).hexdigest()


def _contents(reading: FileReading) -> list[tuple[str, bytes]]:
    """Return the contents of a file to store: first the text that numbers were read from."""
    source = reading.source
    if source is None or not reading.measurements:
        return []
    contents = [(source.file_name, source.content), *source.beside.items()]
    if reading.original is None:
        return contents
    contents[0] = (f"{source.file_name}, as text", source.content)
    return [*contents, (source.file_name, reading.original)]

"""Finds result files, to import or in a probe's directory, and reads the results in them.

Directories are walked in the order of names. Links in them are not followed, so nothing is read
twice or from elsewhere; a link that the user names is followed. Only regular files are opened.
Binary formats are converted in a child process.

A probe's files are on the file system under test. Disposable children (`trimtab.reach.bounded`)
find and read them; everything after that works on their content.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import posixpath
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from trimtab.base.error import DataError, Message, ToolError, visible
from trimtab.base.filesystem import parse_mountinfo
from trimtab.base.plain import unix_lines
from trimtab.base.run import RawOutput
from trimtab.base.units import format_bytes
from trimtab.formats import darshan
from trimtab.formats.format_table import formats
from trimtab.formats.measurement import Measurement, OutputFile, OutputFormat
from trimtab.formats.prefix import streams
from trimtab.reach import bounded
from trimtab.reach.process import OUTPUT_LIMIT_BYTES, execute

DEPTH_LIMIT = 64
SIZE_LIMIT_BYTES = 256 * 1024**2
"""No output of a benchmark is larger; a directory may hold a file of any size."""
GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to read.

    Attributes
    ----------
    path
        As the user named it; for a file in a directory, the directory's name and the rest.
    problem
        Why it cannot be read, if that is already known.
    size_bytes
        0 if it cannot be read.
    """

    path: str
    named: bool
    problem: str | None = None
    size_bytes: int = 0


def candidates(paths: Sequence[str]) -> Iterator[FoundFile]:
    """Yield every file once: in the order of the arguments, and of names within a directory.

    Raises
    ------
    NoAnswer
        The file system of an argument does not answer.
    """
    seen: set[tuple[int, int]] = set()
    answering: set[str] = set()
    for path in paths:
        for candidate in _of_argument(path, answering):
            if candidate.problem is None:
                try:
                    status = os.stat(candidate.path)  # noqa: PTH116 (a name of any bytes)
                except OSError as error:
                    yield FoundFile(candidate.path, candidate.named, error.strerror)
                    continue
                identity = (status.st_dev, status.st_ino)
                if identity in seen:
                    continue
                seen.add(identity)
                yield replace(candidate, size_bytes=status.st_size)
            else:
                yield candidate


def _of_argument(path: str, answering: set[str]) -> Iterator[FoundFile]:
    """Yield the files of one argument; ``answering`` are directories whose file system answers."""
    directory = os.path.dirname(path.rstrip("/")) or "."  # noqa: PTH120 (a name of any bytes)
    # A child asks, so that it hangs in our place: the file system may be the one under test.
    # Once for a directory: a shell unfolds a pattern into thousands of arguments.
    if directory not in answering:
        bounded.describe(directory)
        answering.add(directory)
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode) or stat.S_ISDIR(mode):
            bounded.describe(path)
        mode = os.stat(path).st_mode  # noqa: PTH116
    except OSError as error:
        yield FoundFile(path, True, _why(path, error))
        return
    if stat.S_ISDIR(mode):
        real = os.path.realpath(path)
        yield from _walk(path.rstrip("/") or "/", real, _mount_points(), 0)
    elif stat.S_ISREG(mode):
        yield FoundFile(path, True)
    else:
        yield FoundFile(path, True, "it is not a regular file")


def _why(path: str, error: OSError) -> str:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        is_link = os.path.islink(path)  # noqa: PTH114
        return "it is a link to nothing" if is_link else "there is no such file"
    return error.strerror or str(error)


def _mount_points() -> frozenset[str]:
    """Return the mount points of file systems: a hanging one is not touched."""
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    return frozenset(mount.mount_point for mount in parse_mountinfo(text))


def _walk(
    directory: str, real: str, mount_points: frozenset[str], depth: int
) -> Iterator[FoundFile]:
    """Yield the files below a directory, without leaving its file system.

    Parameters
    ----------
    real
        The same directory without links, as the mount table names it.
    """
    if depth > DEPTH_LIMIT:
        yield FoundFile(directory, False, f"more than {DEPTH_LIMIT} directories deep")
        return
    try:
        with os.scandir(directory) as entries:
            ordered = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        yield FoundFile(directory, False, error.strerror)
        return
    for entry in ordered:
        inner = f"{real.rstrip('/')}/{entry.name}"
        if inner in mount_points:
            why = "another file system is mounted there; name it to have it read"
            yield FoundFile(entry.path, False, why)
            continue
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError as error:
            yield FoundFile(entry.path, False, error.strerror)
            continue
        if stat.S_ISDIR(mode):
            yield from _walk(entry.path, inner, mount_points, depth + 1)
        elif stat.S_ISREG(mode):
            yield FoundFile(entry.path, False)


@contextmanager
def opened_file(path: str, *, follow: bool) -> Iterator[BinaryIO]:
    """Yield a regular file to read.

    Raises
    ------
    DataError
        It is no regular file, or too large.
    OSError
        It cannot be opened, or is a link that must not be followed.
    """
    # Without blocking: since its type was read it may have become a pipe.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb") as stream:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise DataError("it is not a regular file", code="not-a-file", file=visible(path))
        _check_size(state.st_size, visible(path))
        yield stream


def _check_size(size: int, file: str) -> None:
    if size > SIZE_LIMIT_BYTES:
        limit = format_bytes(SIZE_LIMIT_BYTES)
        raise DataError(f"it is larger than {limit}", code="file-too-large", file=file)


def content_of(path: str, *, follow: bool) -> bytes:
    """Return the bytes of a file, unpacked if it is gzip.

    Raises
    ------
    DataError
        It is too large, or a damaged archive.
    OSError
        It cannot be opened.
    """
    with opened_file(path, follow=follow) as stream:
        return whole_of(path, stream)


def whole_of(path: str, stream: BinaryIO) -> bytes:
    """Return the bytes of an opened file, unpacked where it is gzip; raises as `content_of`."""
    stream.seek(0)
    content = stream.read(SIZE_LIMIT_BYTES + 1)
    _check_size(len(content), visible(path))
    return unpacked(content, visible(path))


def unpacked(content: bytes, file: str) -> bytes:
    """Return the content of a file, unpacked if it is gzip.

    Raises
    ------
    DataError
        It is a damaged archive, one of several files, or too large unpacked.
    """
    if content.startswith(GZIP):
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
                content = packed.read(SIZE_LIMIT_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(
                f"a damaged gzip archive: {error}", code="archive-damaged", file=file
            ) from error
        _check_size(len(content), file)
    if content[257:262] == b"ustar":
        raise DataError(
            "an archive of several files (tar)",
            code="archive",
            file=file,
            hint="unpack it and import the directory",
        )
    return content


_TIMEOUT_S: Final = 120.0
_LIMIT_BYTES: Final = 256 * 1024**2


def converted(content: bytes) -> bytes | None:
    """Return the text of a binary file; ``None`` if the content is already text.

    The child gets a copy: its library reads untrusted bytes, from a path, and may crash.

    Raises
    ------
    DataError
        It did not end, or printed nothing.
    """
    if not darshan.is_log(content):
        return None
    with tempfile.NamedTemporaryFile(suffix=".darshan") as copy:
        copy.write(content)
        copy.flush()
        argv = darshan.dump_command(copy.name)
        result = execute(argv, timeout_s=_TIMEOUT_S, output_limit_bytes=_LIMIT_BYTES)
    if result.timed_out or result.truncated or not result.stdout:
        problem = result.problem or "it printed nothing"
        raise DataError(
            f"PyDarshan cannot read this Darshan log: {problem}", code="format-unreadable"
        )
    return result.stdout


FILES_MAXIMUM: Final = 100
"""Maximum of files that a pattern may match: more are data, not results."""

Find = Callable[[str, str, str], tuple[tuple[str, str], ...]]
"""`trimtab.reach.bounded.find_files`: parent, name and pattern to paths with their kinds."""


@dataclass(frozen=True, slots=True)
class OutputReading:
    """The results of a command, and the files that they were read from.

    Attributes
    ----------
    measurements
        Results; their samples number the outputs from `first_output`.
    problem
        Why all or some results are missing.
    outputs
        The files that were read; empty if the command printed its results.
    """

    measurements: tuple[Measurement, ...] = ()
    problem: Message | None = None
    outputs: tuple[RawOutput, ...] = ()


def read_printed(content: bytes, kind: str) -> OutputReading:
    """Return the results that a command printed.

    Parameters
    ----------
    kind
        Name of the format; ``auto`` recognises it.
    """
    return _read(OutputFile("standard output", content), kind)


def read_files(pattern: str, files: Files, kind: str, *, first_output: int) -> OutputReading:
    """Return the results in the files that match a pattern; links are not followed.

    Parameters
    ----------
    first_output
        Ordinal of the first file among the outputs of the run.

    Raises
    ------
    TrimtabError
        The file system does not answer, or the files are too many or too large.
    """
    matching = files.matching(pattern)
    paths = [path for path, file_type in matching if file_type == "file"]
    if not paths:
        others = [f"{visible(path)} is a {file_type}" for path, file_type in matching]
        text = f"no file matches {visible(pattern)!r}" + _listed(others)
        return OutputReading(problem=Message("output-missing", text))
    contents = files.contents(dict.fromkeys(name for path in paths for name in _with(path)))
    readings: list[OutputReading] = []
    # A file may be part of a result that is in another file; that one is read, once.
    for path in dict.fromkeys(_main(path, contents) for path in paths if path in contents):
        reading = _read_file(path, contents, kind)
        place = first_output + sum(len(earlier.outputs) for earlier in readings)
        placed = tuple(_placed(reading.measurements, place))
        readings.append(replace(reading, measurements=placed))
    return OutputReading(
        tuple(measurement for reading in readings for measurement in reading.measurements),
        _problem_of(readings, pattern),
        tuple(output for reading in readings for output in reading.outputs),
    )


def _problem_of(readings: list[OutputReading], pattern: str) -> Message | None:
    if not readings:
        return Message("output-missing", f"the files that match {visible(pattern)!r} are gone")
    problems = [reading.problem for reading in readings if reading.problem is not None]
    return Message(problems[0].code, "; ".join(problems)) if problems else None


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one probe's directory."""

    parent: str
    name: str
    find: Find
    read: Callable[..., dict[str, bytes]]

    def matching(self, pattern: str) -> tuple[tuple[str, str], ...]:
        """Return path and file type of each match."""
        matching = self.find(self.parent, self.name, pattern)
        if len(matching) > FILES_MAXIMUM:
            raise ToolError(
                f"{visible(pattern)} matches more than {FILES_MAXIMUM} files",
                code="output-too-many-files",
            )
        return matching

    def contents(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the content of those that exist."""
        return self.read(self.parent, self.name, paths, limit_bytes=OUTPUT_LIMIT_BYTES)


def _with(path: str) -> Iterator[str]:
    """Yield a file and the files that any format would read with it or in its place."""
    yield path
    mains = [main for form in formats() for main in form.instead(posixpath.basename(path))]
    for main in (path, *(_companion(path, name) for name in mains)):
        if main is None:
            continue
        yield main
        for form in formats():
            for name in form.companions(posixpath.basename(main)):
                if (other := _companion(main, name)) is not None:
                    yield other


def _companion(path: str, name: str) -> str | None:
    """Return the path of a file named in another; ``None`` if outside the directory."""
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    return None if joined.startswith(("/", "../")) or joined == ".." else joined


def _main(path: str, contents: Mapping[str, bytes]) -> str:
    """Return the file with the whole result of which this file is a part, else itself."""
    for form in formats():
        mains = (_companion(path, name) for name in form.instead(posixpath.basename(path)))
        main = next((main for main in mains if main in contents), None)
        if main is None:
            continue
        if all(form.recognises(OutputFile(file, contents[file])) for file in (path, main)):
            return main
    return path


def _read_file(path: str, contents: Mapping[str, bytes], kind: str) -> OutputReading:
    content = contents[path]
    try:
        text = converted(content)
    except DataError as error:
        problem = Message(error.code, error.of(visible(path)).message)
        return OutputReading((), problem, (_output(path, content),))
    source = OutputFile(path, content if text is None else text)
    form = _format(source, kind)
    companions: dict[str, bytes] = {}
    outputs = [_output(path, content)]
    for name in form.companions(source.file_name) if form is not None else ():
        other = _companion(path, name)
        if other is not None and other in contents:
            companions[name] = contents[other]
            outputs.append(_output(other, contents[other]))
    reading = _read(replace(source, beside=companions), kind)
    return replace(reading, outputs=tuple(outputs))


def _read(source: OutputFile, kind: str) -> OutputReading:
    def is_known(text: bytes) -> bool:
        form = _format(OutputFile(source.name, text), kind)
        return form is not None and form.recognises(OutputFile(source.name, text))

    way = next(streams(unix_lines(source.content), is_known), ())
    if len(way) == 1:  # behind the prefixes of its launcher, if it has any
        source = replace(source, content=way[0].content)
    form, name = _format(source, kind), visible(source.name)
    problem = None
    if not source.content:
        problem = Message("output-empty", f"{name} is empty")
    elif form is None:
        problem = Message("format-unknown", f"{name} has an unrecognised format")
    elif kind not in ("auto", form.kind):
        problem = Message("format-differs", f"{name} is in the format of {form.kind}, not {kind}")
    else:
        try:
            return OutputReading(form.read(source))
        except DataError as error:
            problem = Message(error.code, error.of(name).message)
    return OutputReading(problem=problem)


def _format(source: OutputFile, kind: str) -> OutputFormat | None:
    """Return the format of a content: the requested one unless only another recognises it."""
    requested = next((form for form in formats() if form.kind == kind), None)
    if requested is not None and requested.recognises(source):
        return requested
    return next((form for form in formats() if form.recognises(source)), requested)


def _placed(measurements: Iterable[Measurement], place: int) -> Iterator[Measurement]:
    for measurement in measurements:
        samples = tuple(
            sample if sample.output is None else replace(sample, output=sample.output + place)
            for sample in measurement.samples
        )
        yield replace(measurement, samples=samples)


def _output(path: str, content: bytes) -> RawOutput:
    return RawOutput(path, (), content, exit_code=None)


def _listed(problems: list[str]) -> str:
    return f" ({'; '.join(problems[:3])})" if problems else ""

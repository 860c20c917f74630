"""Reads the results of one command: from what it printed, or from files in the probe's directory.

The files are on the file system under test. Disposable children (`trimtab.reach.bounded`) find and
read them; everything after that works on their content.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from trimtab.base.error import DataError, Message, ToolError
from trimtab.base.plain import unix_lines
from trimtab.base.run import RawOutput
from trimtab.base.visible import visible
from trimtab.formats.format_table import formats
from trimtab.formats.measurement import Measurement
from trimtab.formats.prefix import streams
from trimtab.formats.source import OutputFile, OutputFormat
from trimtab.probe.imports.import_file import converted
from trimtab.reach.process import OUTPUT_LIMIT_BYTES

FILES_MAXIMUM: Final = 100
"""The most that a pattern may match: more files than that are data, not results."""

Find = Callable[[str, str, str], tuple[tuple[str, str], ...]]
"""`trimtab.reach.bounded.find_files`: parent, name and pattern to paths with their kinds."""


@dataclass(frozen=True, slots=True)
class OutputReading:
    """The results of a command, and the files that they were read from.

    Attributes
    ----------
    measurements
        Their samples count the outputs from `first_output` on.
    problem
        Why results are missing, all or some.
    outputs
        The files that were read; empty where the command printed its results.
    """

    measurements: tuple[Measurement, ...] = ()
    problem: Message | None = None
    outputs: tuple[RawOutput, ...] = ()


def read_printed(content: bytes, kind: str) -> OutputReading:
    """Return the results that a command printed.

    Parameters
    ----------
    kind
        Of the format; ``auto`` recognises it.
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
    # A file may be a part of a result that lies in another one; that is read, and once.
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
        """Return path and file type of what matches."""
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
    """Yield a file and what any format would read with it or in place of it."""
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
    """Return the path of a file that is named from another; ``None``: outside the directory."""
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    return None if joined.startswith(("/", "../")) or joined == ".." else joined


def _main(path: str, contents: Mapping[str, bytes]) -> str:
    """Return the file that holds the result of which this one is a part, else itself."""
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

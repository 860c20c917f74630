"""What one command left behind, read: what it printed, or files below the probe's directory.

The files are on the file system under test. They are looked for and read by throw-away children
(`launch.bounded`), and everything after that works on their content.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from trimtab.errors import DataError, ToolError
from trimtab.launch.process import OUTPUT_LIMIT_BYTES
from trimtab.loop.importing.converting import converted
from trimtab.measure.measurement import Measurement
from trimtab.measure.source import Format, Source
from trimtab.measure.table import formats
from trimtab.model.run import RawOutput
from trimtab.visible import visible

FILES_MAXIMUM: Final = 100
"""That a pattern may match: more are not results but the data."""

Find = Callable[[str, str, str], tuple[tuple[str, str], ...]]
"""`trimtab.launch.bounded.find_files`: parent, name and pattern to paths with their kinds."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was measured, and what shows it.

    Attributes
    ----------
    measurements
        Their samples count the outputs from `first_output` on.
    problem
        Why there is nothing, or not all.
    outputs
        The files that were read; none where it was what the command printed.
    """

    measurements: tuple[Measurement, ...] = ()
    problem: str | None = None
    outputs: tuple[RawOutput, ...] = ()


def read_printed(content: bytes, kind: str) -> Found:
    """Return what a command printed that it measured.

    Parameters
    ----------
    kind
        Of the format; ``auto``: it is recognised.
    """
    return _read(Source("what it printed", content), kind)


def read_left(pattern: str, files: Files, kind: str, *, first_output: int) -> Found:
    """Return what the files say that match a pattern; links among them are not followed.

    Parameters
    ----------
    first_output
        Ordinal of the first file among the outputs of the run.

    Raises
    ------
    TrimtabError
        The file system does not answer, or the files are far too many or too large.
    """
    matching = files.matching(pattern)
    paths = [path for path, found in matching if found == "file"]
    if not paths:
        others = [f"{visible(path)} is a {found}" for path, found in matching]
        return Found(problem=f"no file matches {visible(pattern)!r}" + _listed(others))
    contents = files.contents(dict.fromkeys(name for path in paths for name in _with(path)))
    found: list[Found] = []
    # A file may be a part of a result that lies in another one; that is read, and once.
    for path in dict.fromkeys(_main(path, contents) for path in paths if path in contents):
        one = _read_file(path, contents, kind)
        place = first_output + sum(len(other.outputs) for other in found)
        found.append(replace(one, measurements=tuple(_placed(one.measurements, place))))
    problems = [one.problem for one in found if one.problem is not None]
    return Found(
        tuple(measurement for one in found for measurement in one.measurements),
        "; ".join(problems) or (None if found else f"what matches {visible(pattern)!r} is gone"),
        tuple(output for one in found for output in one.outputs),
    )


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one probe's directory."""

    parent: str
    name: str
    find: Find
    read: Callable[..., dict[str, bytes]]

    def matching(self, pattern: str) -> tuple[tuple[str, str], ...]:
        """Return path and kind of what matches."""
        found = self.find(self.parent, self.name, pattern)
        if len(found) > FILES_MAXIMUM:
            raise ToolError(f"{visible(pattern)} matches more than {FILES_MAXIMUM} files")
        return found

    def contents(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the content of those that are there."""
        return self.read(self.parent, self.name, paths, limit_bytes=OUTPUT_LIMIT_BYTES)


def _with(path: str) -> Iterator[str]:
    """Yield a file and what any format would read with it or in place of it."""
    yield path
    mains = [form.instead(posixpath.basename(path)) for form in formats()]
    for main in (path, *(_beside(path, name) for name in mains if name is not None)):
        if main is None:
            continue
        yield main
        for form in formats():
            for name in form.companions(posixpath.basename(main)):
                if (other := _beside(main, name)) is not None:
                    yield other


def _beside(path: str, name: str) -> str | None:
    """Return the path of a file that is named from another; ``None``: outside the directory."""
    found = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    return None if found.startswith(("/", "../")) or found == ".." else found


def _main(path: str, contents: Mapping[str, bytes]) -> str:
    """Return the file that holds the result of which this one is a part, else itself."""
    for form in formats():
        name = form.instead(posixpath.basename(path))
        main = None if name is None else _beside(path, name)
        if main is None or main not in contents:
            continue
        if all(form.recognises(Source(one, contents[one])) for one in (path, main)):
            return main
    return path


def _read_file(path: str, contents: Mapping[str, bytes], kind: str) -> Found:
    content = contents[path]
    try:
        text = converted(content)
    except DataError as error:
        return Found((), error.of(visible(path)).message, (_output(path, content),))
    source = Source(path, content if text is None else text)
    form = _format(source, kind)
    beside: dict[str, bytes] = {}
    outputs = [_output(path, content)]
    for name in form.companions(source.file_name) if form is not None else ():
        other = _beside(path, name)
        if other is not None and other in contents:
            beside[name] = contents[other]
            outputs.append(_output(other, contents[other]))
    found = _read(replace(source, beside=beside), kind)
    return replace(found, outputs=tuple(outputs))


def _read(source: Source, kind: str) -> Found:
    form = _format(source, kind)
    if not source.content:
        return Found(problem=f"{visible(source.name)} is empty")
    if form is None:
        return Found(problem=f"{visible(source.name)} is of no format that Trimtab knows")
    if kind not in ("auto", form.kind):
        return Found(problem=f"{visible(source.name)} is of {form.kind}, not of {kind}")
    try:
        return Found(form.read(source))
    except DataError as error:
        return Found(problem=error.of(visible(source.name)).message)


def _format(source: Source, kind: str) -> Format | None:
    """Return the format of a content: the one asked for, if it is that or of none else."""
    asked = next((form for form in formats() if form.kind == kind), None)
    if asked is not None and asked.recognises(source):
        return asked
    return next((form for form in formats() if form.recognises(source)), asked)


def _placed(measurements: Iterable[Measurement], place: int) -> Iterator[Measurement]:
    for one in measurements:
        samples = tuple(
            sample if sample.output is None else replace(sample, output=sample.output + place)
            for sample in one.samples
        )
        yield replace(one, samples=samples)


def _output(path: str, content: bytes) -> RawOutput:
    return RawOutput(path, (), content, exit_code=None)


def _listed(problems: list[str]) -> str:
    return f" ({'; '.join(problems[:3])})" if problems else ""

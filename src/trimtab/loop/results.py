"""Results that commands left in a directory: horizons, what-ifs, ladders of published figures.

::

    RESULTS/scratch.json       trimtab purge horizon --index INDEX --policy FILE --json > ...
    RESULTS/trims.json         trimtab whatif SCENARIO --vary trim=never,nightly --json > ...
    RESULTS/perlmutter.toml    a file with [ladder], as `trimtab ladder FILE.toml` takes it
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from trimtab.errors import TrimtabError, UnreadableError
from trimtab.judge.ladder.build import build_ladder
from trimtab.loop.ladder import of_file
from trimtab.message import Message
from trimtab.model.ladder import Ladder
from trimtab.report.documents.reading import ReadHorizon, ReadWhatIf, read_document
from trimtab.site.ladder_file import is_ladder, load_ladder
from trimtab.visible import visible

FILES_MAX: Final = 200
BYTES_MAX: Final = 64 * 2**20
"""A horizon of a million owners is smaller."""
Value = TypeVar("Value", ReadHorizon, ReadWhatIf, Ladder)
Signature = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Result(Generic[Value]):
    """One result, and the file that holds it.

    Attributes
    ----------
    file
        Its name within the directory.
    at
        When it was written.
    """

    file: str
    at: datetime
    value: Value


@dataclass(frozen=True, slots=True)
class Results:
    """What a directory holds, the newest first.

    Attributes
    ----------
    problems
        Why the directory, or a file of it, is not shown.
    """

    horizons: tuple[Result[ReadHorizon], ...] = ()
    what_ifs: tuple[Result[ReadWhatIf], ...] = ()
    ladders: tuple[Result[Ladder], ...] = ()
    problems: tuple[Message, ...] = ()


def results_in(directory: Path) -> Results:
    """Return every result in a directory; one that is not there holds none."""
    try:
        files = list(_files(directory))
    except OSError as error:
        return Results(problems=(_problem(directory, error),))
    held: list[Result[Any]] = []
    problems: list[Message] = []
    if len(files) > FILES_MAX:
        text = f"{visible(str(directory))}: the newest {FILES_MAX} of {len(files)} files are read"
        problems.append(Message("results-many", text))
    for path, state in files[:FILES_MAX]:
        try:
            value = _value(path, state)
        except TrimtabError as error:
            problems.append(Message(error.code, f"{visible(path.name)}: {error.message}"))
            continue
        if value is not None:
            at = datetime.fromtimestamp(state.st_mtime, UTC)
            held.append(Result(path.name, at, value))
    return Results(
        _of(held, ReadHorizon), _of(held, ReadWhatIf), _of(held, Ladder), tuple(problems)
    )


def _of(held: Sequence[Result[Any]], kind: type[Value]) -> tuple[Result[Value], ...]:
    return tuple(result for result in held if isinstance(result.value, kind))


def signature_of(directory: Path) -> Signature | str:
    """Return what differs when a directory holds something else."""
    try:
        return tuple(
            (path.name, state.st_mtime_ns, state.st_size, state.st_ino)
            for path, state in _files(directory)
        )
    except OSError as error:
        return str(error)


def _files(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the documents and ladder files of a directory itself, the newest first; no link."""
    try:
        with os.scandir(directory) as entries:
            files = [
                (Path(entry.path), entry.stat(follow_symlinks=False))
                for entry in entries
                if entry.name.endswith((".json", ".toml"))
            ]
    except FileNotFoundError:
        return
    regular = [(path, state) for path, state in files if stat.S_ISREG(state.st_mode)]
    yield from sorted(regular, key=lambda pair: (-pair[1].st_mtime_ns, pair[0].name))


def _value(path: Path, state: os.stat_result) -> Any:
    if path.suffix == ".toml":
        # Of other TOML files nothing is said: sweeps and policies may lie here too.
        return build_ladder(of_file(load_ladder(str(path)))) if is_ladder(str(path)) else None
    if state.st_size > BYTES_MAX:
        raise UnreadableError(f"larger than {BYTES_MAX // 2**20} MiB", code="file-too-large")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            data = stream.read(BYTES_MAX + 1)
    except OSError as error:
        raise UnreadableError(error.strerror or str(error), code="file-unreadable") from error
    return read_document(data)


def _problem(directory: Path, error: OSError) -> Message:
    text = f"{visible(str(directory))} cannot be read: {error.strerror or error}"
    return Message("results-unreadable", text)

"""``lfs df`` that was kept in a file, as snapshots: how full each target was at that time.

The text has no time in it, so the caller says when it was. One file may tell of several file
systems, and of bytes and inodes (``lfs df; lfs df -i``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from trimtab.drivers.lustre.lfs_df import Column, LfsDf, LfsDfLine, parse_lfs_df
from trimtab.errors import DataError
from trimtab.measure.source import Source
from trimtab.model.telemetry import Reading, Snapshot, Target, TargetSnapshot

KIND: Final = "lfs-df"

_HEADER: Final = re.compile(r"^UUID[ \t]+(?:1K-blocks|bytes|Inodes)[ \t]", re.MULTILINE)
_TARGET: Final = re.compile(r"_UUID[ \t].{1,200}\[(?:OST|MDT):[0-9]{1,5}\]")
_FLAGS: Final = {"D": ("degraded", True), "R": ("read_only", True), "N": ("create_enabled", False)}
_SPACE: Final = ("capacity_bytes", "used_bytes", "available_bytes")
_INODES: Final = ("inodes_total", "inodes_free")


def recognises(source: Source) -> bool:
    """Return whether a content is what ``lfs df`` prints, in whatever unit."""
    return _HEADER.search(source.head) is not None and _TARGET.search(source.head) is not None


def snapshots(source: Source, at: datetime) -> tuple[tuple[str, Snapshot], ...]:
    """Return Lustre's name of each file system with the snapshot of it.

    A snapshot is not complete where a target did not answer, and where the text ends before the
    summary. What it does not tell is missing with a reason; a flag is told only where it is set,
    for older versions print none.

    Parameters
    ----------
    at
        When it was printed, aware.

    Raises
    ------
    DataError
        Nothing in it can be used, the lines contradict their summary (one was lost or altered),
        or one file system stands there twice, which is of two times.
    """
    spaces, inodes = (_by_name(source, inodes=inodes) for inodes in (False, True))
    names = tuple(dict.fromkeys((*spaces, *inodes)))
    if not names:
        complaints = "; ".join(dict.fromkeys(_complaints(source)))
        raise DataError(
            f"no file system of lfs df can be used: {complaints or 'there is none'}",
            code="lfs-df-unusable",
            line=1,
        )
    return tuple((name, _snapshot(at, spaces.get(name), inodes.get(name))) for name in names)


def problems(source: Source) -> tuple[str, ...]:
    """Return what is missing or odd in it, in words: targets that did not answer, lost lines."""
    problems_found = [
        problem for df in _parsed(source, inodes=False) if df.lines for problem in df.problems
    ]
    return tuple(dict.fromkeys(problems_found))


def _parsed(source: Source, *, inodes: bool) -> tuple[LfsDf, ...]:
    return parse_lfs_df(source.text.replace("\r\n", "\n"), inodes=inodes)


def _complaints(source: Source) -> Iterator[str]:
    for df in _parsed(source, inodes=False):
        yield from df.problems


def _by_name(source: Source, *, inodes: bool) -> dict[str, LfsDf]:
    """Return the file systems that have lines in the unit that is wanted."""
    by_name: dict[str, LfsDf] = {}
    for df in _parsed(source, inodes=inodes):
        if df.file_system is None or not df.lines:
            continue
        if df.file_system in by_name:
            raise DataError(
                f"{df.file_system} appears twice: the file holds more than one time",
                code="lfs-df-repeated",
                line=df.lines[0].line or None,
                hint="import a file for each time",
            )
        if df.summary is not None and not df.complete:
            problem_text = next(
                (problem for problem in df.problems if "altered" in problem), df.problems[0]
            )
            raise DataError(
                f"{df.file_system}: {problem_text}", code="lfs-df-unusable", line=df.summary.line
            )
        by_name[df.file_system] = df
    return by_name


def _snapshot(at: datetime, space: LfsDf | None, inodes: LfsDf | None) -> Snapshot:
    listings = [df for df in (space, inodes) if df is not None]
    by_target = [
        {} if df is None else {line.target: line for line in df.lines} for df in (space, inodes)
    ]
    names = dict.fromkeys(line.target for df in listings for line in df.lines)
    targets = tuple(_target(name, *(lines.get(name) for lines in by_target)) for name in names)
    answered = all(line.problem is None for df in listings for line in df.lines)
    whole = all(df.complete for df in listings) and answered
    return Snapshot(at, "lustre", whole, targets)


def _target(name: str, space: LfsDfLine | None, inodes: LfsDfLine | None) -> TargetSnapshot:
    readings = [
        *_readings("lfs df", space, _SPACE, ("total", "used", "available")),
        *_readings("lfs df -i", inodes, _INODES, ("total", "available")),
    ]
    for flag, (reading, value) in _FLAGS.items():
        if space is not None and flag in space.flags:
            readings.append(Reading(reading, value, source=f"lfs df, line {space.line}"))
    kind = "mdt" if name.startswith("MDT") else "ost"
    return TargetSnapshot(Target(name, kind), tuple(readings))


def _readings(
    command: str, line: LfsDfLine | None, names: Sequence[str], columns: Sequence[Column]
) -> Iterator[Reading]:
    for name, column in zip(names, columns, strict=True):
        value = None if line is None else getattr(line, column)
        if line is None:
            yield Reading(name, None, reason=f"{command} has no line for it in the file")
        elif value is None:
            problem = line.problem or "the line has no number"
            yield Reading(name, None, reason=f"{command}: {problem}")
        else:
            yield Reading(name, value, source=f"{command}, line {line.line}")

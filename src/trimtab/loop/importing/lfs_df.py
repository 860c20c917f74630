"""``lfs df`` that was kept in a file, as snapshots: how full each target was at that time.

The text has no time in it, so the caller says when it was. One file may tell of several file
systems, and of bytes and inodes (``lfs df; lfs df -i``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from trimtab.drivers.lustre.lfs_df import LfsDf, LfsDfLine, parse_lfs_df
from trimtab.errors import DataError
from trimtab.measure.source import Source
from trimtab.model.telemetry import Reading, Snapshot, Target, TargetSnapshot

KIND: Final = "lfs-df"

_HEADER: Final = re.compile(r"^UUID[ \t]+(?:1K-blocks|bytes|Inodes)[ \t]", re.MULTILINE)
_TARGET: Final = re.compile(r"_UUID[ \t].{1,200}\[(?:OST|MDT):[0-9]{1,5}\]")
_FLAGS: Final = {"D": ("degraded", True), "R": ("read_only", True), "N": ("create_enabled", False)}
_SPACE: Final = ("capacity_bytes", "used_bytes", "available_bytes")


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
    if not spaces:
        said = "; ".join(dict.fromkeys(_complaints(source)))
        raise DataError(f"no file system of lfs df can be used: {said or 'there is none'}", line=1)
    return tuple((name, _snapshot(at, df, inodes.get(name))) for name, df in spaces.items())


def problems(source: Source) -> tuple[str, ...]:
    """Return what is missing or odd in it, in words: targets that did not answer, lost lines."""
    found = [problem for df in _parsed(source, inodes=False) if df.lines for problem in df.problems]
    return tuple(dict.fromkeys(found))


def _parsed(source: Source, *, inodes: bool) -> tuple[LfsDf, ...]:
    return parse_lfs_df(source.text.replace("\r\n", "\n"), inodes=inodes)


def _complaints(source: Source) -> Iterator[str]:
    for df in _parsed(source, inodes=False):
        yield from df.problems


def _by_name(source: Source, *, inodes: bool) -> dict[str, LfsDf]:
    """Return the file systems that have lines in the unit that is wanted."""
    found: dict[str, LfsDf] = {}
    for df in _parsed(source, inodes=inodes):
        if df.file_system is None or not df.lines:
            continue
        if df.file_system in found:
            raise DataError(
                f"{df.file_system} stands there twice: these are two times",
                line=df.lines[0].line or None,
                hint="import a file for each time",
            )
        if df.summary is not None and not df.complete:
            said = next((one for one in df.problems if "altered" in one), df.problems[0])
            raise DataError(f"{df.file_system}: {said}", line=df.summary.line)
        found[df.file_system] = df
    return found


def _snapshot(at: datetime, space: LfsDf, inodes: LfsDf | None) -> Snapshot:
    counted = {} if inodes is None else {line.target: line for line in inodes.lines}
    targets = tuple(_target(line, counted.get(line.target)) for line in space.lines)
    answered = all(line.problem is None for line in space.lines)
    whole = space.complete and answered and (inodes is None or inodes.complete)
    return Snapshot(at, "lustre", whole, targets)


def _target(space: LfsDfLine, inodes: LfsDfLine | None) -> TargetSnapshot:
    figures = (space.total, space.used, space.available)
    readings = [
        _reading(name, value, space, "lfs df") for name, value in zip(_SPACE, figures, strict=True)
    ]
    if inodes is None:
        reason = "lfs df -i is not in the file"
        readings += [Reading(name, None, reason=reason) for name in ("inodes_total", "inodes_free")]
    else:
        readings.append(_reading("inodes_total", inodes.total, inodes, "lfs df -i"))
        readings.append(_reading("inodes_free", inodes.available, inodes, "lfs df -i"))
    for flag, (name, value) in _FLAGS.items():
        if flag in space.flags:
            readings.append(Reading(name, value, source=f"lfs df, line {space.line}"))
    return TargetSnapshot(Target(space.target, space.kind), tuple(readings))


def _reading(name: str, value: int | None, line: LfsDfLine, command: str) -> Reading:
    if value is None:
        return Reading(name, None, reason=f"{command}: {line.problem or 'the line has no number'}")
    return Reading(name, value, source=f"{command}, line {line.line}")

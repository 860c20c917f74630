"""Reads saved output of ``lfs df``, as snapshots: how full each target was at that time.

The text has no time, so the caller gives one. A file may hold several file systems, and bytes and
inodes (``lfs df; lfs df -i``). Rounded values of ``lfs df -h`` are kept with the label `ROUNDED`
where nothing better is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from trimtab.base.error import DataError, Message
from trimtab.base.plain import whole_lines
from trimtab.base.snapshot import ROUNDED, Reading, Snapshot, Target, TargetSnapshot
from trimtab.formats.source import OutputFile
from trimtab.reach.lustre.lfs_df import Column, LfsDf, LfsDfLine, parse_lfs_df
from trimtab.reach.lustre.lustre_device import parse_name

KIND: Final = "lfs-df"

_HEADER: Final = re.compile(r"^UUID[ \t]+(?:1K-blocks|bytes|Inodes)[ \t]", re.MULTILINE)
_TARGET: Final = re.compile(r"_UUID[ \t].{1,200}\[(?:OST|MDT):[0-9]{1,5}\]")
_FLAGS: Final = {"D": ("degraded", True), "R": ("read_only", True), "N": ("create_enabled", False)}
_SPACE: Final = ("capacity_bytes", "used_bytes", "available_bytes")
_INODES: Final = ("inodes_total", "inodes_free")
_SUMMARY_MISSING: Final = "the summary is missing: the output was cut"
_SIZE: Final = r"\s+([0-9]{1,6}(?:\.[0-9]{1,3})?)([KMGTPEZY])"
_SIZES: Final = rf"{_SIZE}{_SIZE}{_SIZE}\s+(?:[0-9]{{1,3}}%|-)\s+\S"
_BYTES: Final = re.compile(r"UUID\s+bytes\s")
_ROUNDED: Final = re.compile(rf"([!-~]{{1,200}}_UUID){_SIZES}.*\[(?:OST|MDT):([0-9]{{1,5}})\].*")
_ROUNDED_SUM: Final = re.compile(rf"filesystem[_ ]summary:{_SIZES}.*")


def recognises(source: OutputFile) -> bool:
    """Return whether a content is what ``lfs df`` prints, in whatever unit."""
    return _HEADER.search(source.head) is not None and _TARGET.search(source.head) is not None


def snapshots(source: OutputFile, at: datetime) -> tuple[tuple[str, Snapshot], ...]:
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
    rounded = {name: block for name, block in _rounded(source).items() if name not in spaces}
    names = tuple(dict.fromkeys((*spaces, *rounded, *inodes)))
    if not names:
        complaints = "; ".join(dict.fromkeys(_complaints(source)))
        raise DataError(
            f"no file system of lfs df can be used: {complaints or 'there is none'}",
            code="lfs-df-unusable",
            line=1,
        )
    return tuple(
        (
            name,
            rounded[name].snapshot(at, inodes.get(name))
            if name in rounded
            else _snapshot(at, spaces.get(name), inodes.get(name)),
        )
        for name in names
    )


@dataclass(slots=True)
class _Rounded:
    """What ``lfs df -h`` printed of one file system: sizes, each with half of its last digit."""

    file_system: str
    targets: dict[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    complete: bool = False

    def close(self, sums: tuple[tuple[float, float], ...], line: int) -> None:
        """Take the summary; raise DataError where the lines do not come to it."""
        for place, (total, half) in enumerate(sums):
            of_osts = [
                sizes[place] for name, sizes in self.targets.items() if name.startswith("OST")
            ]
            slack = half + sum(error for _, error in of_osts)
            if abs(sum(size for size, _ in of_osts) - total) > 1.01 * slack:
                text = f"{self.file_system}: a line is missing or was altered"
                raise DataError(text, code="lfs-df-unusable", line=line)
        self.complete = True

    def snapshot(self, at: datetime, inodes: LfsDf | None) -> Snapshot:
        """Return it with the label that nothing judges; what is not labelled is missing."""
        why = Message("figures-rounded", "lfs df -h prints it rounded")
        inode_lines = {} if inodes is None else inodes.lines
        targets = []
        for name, sizes in self.targets.items():
            source = f"lfs df -h, line {self.lines[name]}"
            readings = [
                reading
                for column, (size, _) in zip(_SPACE, sizes, strict=True)
                for reading in (
                    Reading(column, reason=why),
                    Reading(column, size, source=source, label=ROUNDED),
                )
            ]
            line = inode_lines.get(name)
            readings += _readings("lfs df -i", line, _INODES, ("total", "available"))
            kind = "mdt" if name.startswith("MDT") else "ost"
            targets.append(TargetSnapshot(Target(name, kind), tuple(readings)))
        complete = self.complete and (inodes is None or inodes.complete)
        return Snapshot(at, "lustre", complete, tuple(targets))


def _rounded(source: OutputFile) -> dict[str, _Rounded]:
    """Return the file systems of ``lfs df -h`` by name."""
    blocks: dict[str, _Rounded] = {}
    block, is_rounded = None, False
    for number, line in whole_lines(source.text):
        if line.startswith("UUID"):
            block, is_rounded = None, _BYTES.match(line) is not None
        elif not is_rounded:
            continue
        elif match := _ROUNDED.fullmatch(line):
            name = parse_name(match[1])
            if name is None or name.file_system is None or name.index != int(match[8]):
                continue
            if block is None:
                if name.file_system in blocks:
                    raise _twice(name.file_system, number)
                block = blocks[name.file_system] = _Rounded(name.file_system)
            if name.file_system == block.file_system:
                block.targets[name.target] = _sizes(match, 2)
                block.lines[name.target] = number
        elif block is not None and (match := _ROUNDED_SUM.fullmatch(line)):
            block.close(_sizes(match, 1), number)
            block = None
    return blocks


def _sizes(match: re.Match[str], first: int) -> tuple[tuple[float, float], ...]:
    """Return three sizes in bytes, each with half a unit of its last digit."""
    sizes = []
    for place in range(first, first + 6, 2):
        unit = 1024.0 ** ("KMGTPEZY".index(match[place + 1]) + 1)
        decimals = len(match[place].partition(".")[2])
        sizes.append((float(match[place]) * unit, 0.5 * 10.0**-decimals * unit))
    return tuple(sizes)


def _twice(file_system: str, line: int | None) -> DataError:
    return DataError(
        f"{file_system} appears twice: the file holds more than one time",
        code="lfs-df-repeated",
        line=line,
        hint="import a file for each time",
    )


def why_not_judged(snapshot: Snapshot) -> Message | None:
    """Return why nothing judges a snapshot; ``None`` where its figures are exact."""
    labels = {reading.label for target in snapshot.targets for reading in target.readings}
    if ROUNDED not in labels:
        return None
    text = "lfs df -h prints rounded figures: they are shown and never judged; import lfs df"
    return Message("figures-rounded", text)


def problems(source: OutputFile) -> tuple[str, ...]:
    """Return what is missing or odd in it, in words: targets that did not answer, lost lines."""
    cut = [block for block in _rounded(source).values() if not block.complete]
    problems_found = [_SUMMARY_MISSING for _ in cut] + [
        problem for df in _parsed(source, inodes=False) if df.lines for problem in df.problems
    ]
    return tuple(dict.fromkeys(problems_found))


def _parsed(source: OutputFile, *, inodes: bool) -> list[LfsDf]:
    return parse_lfs_df(source.text.replace("\r\n", "\n"), inodes=inodes)


def _complaints(source: OutputFile) -> Iterator[str]:
    for df in _parsed(source, inodes=False):
        yield from df.problems


def _by_name(source: OutputFile, *, inodes: bool) -> dict[str, LfsDf]:
    """Return the file systems that have lines in the unit that is wanted."""
    by_name: dict[str, LfsDf] = {}
    for df in _parsed(source, inodes=inodes):
        if df.file_system is None or not df.lines:
            continue
        if df.file_system in by_name:
            raise _twice(df.file_system, next(iter(df.lines.values())).line or None)
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
    by_target = [{} if df is None else df.lines for df in (space, inodes)]
    names = dict.fromkeys(target for df in listings for target in df.lines)
    targets = tuple(_target(name, *(lines.get(name) for lines in by_target)) for name in names)
    answered = all(line.problem is None for df in listings for line in df.lines.values())
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
            yield Reading(name, reason=f"{command} has no line for it in the file")
        elif value is None:
            problem = line.problem or "the line has no number"
            yield Reading(name, reason=f"{command}: {problem}")
        else:
            yield Reading(name, value, source=f"{command}, line {line.line}")

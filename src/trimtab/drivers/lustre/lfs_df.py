"""What ``lfs df`` prints, and whether all of it is there. Pure: text in, values out.

::

    UUID                   1K-blocks        Used   Available Use%  Mounted on
    scratch-MDT0000_UUID     2316144        1776     2089828   1%  /scratch[MDT:0]
    scratch-OST0002_UUID     3833116        1528     3605492   1%  /scratch[OST:2] Nf
    OST0001             : inactive device

    filesystem_summary:     15332464        6112    14421968   1%  /scratch

The summary is Lustre's own sum over the lines. Where it differs from the sum taken here, a line
was lost or altered on the way. What the sums cannot tell: ``lfs df -l`` leaves out a target that
is down, and sums the others. Which targets there should be, the caller knows.

Sources: lustre/utils/lfs.c (``showdf``, ``mntdf``), outputs of 2.5 and 2.17.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from trimtab.drivers.lustre.names import TargetKind, index_of, parse_name, target_of
from trimtab.visible import visible

Column = Literal["total", "used", "available"]
COLUMNS: Final[tuple[Column, ...]] = ("total", "used", "available")

_KIB: Final = 1024
_HEADER: Final = re.compile(r"UUID\s+(1K-blocks|bytes|Inodes)\s+I?Used\s+(?:Available|IFree)\s")
_NUMBERS: Final = r"\s+([0-9]{1,19})\s+([0-9]{1,19})\s+([0-9]{1,19})\s+(?:[0-9]{1,3}%|-)\s+"
_LINE: Final = re.compile(
    rf"([!-~]+)_UUID{_NUMBERS}(\S[^\n]*)\[(OST|MDT):([0-9]{{1,5}})\][ ]?([A-Za-z]*)"
)
_SUMMARY: Final = re.compile(rf"filesystem[_ ]summary:{_NUMBERS}(\S[^\n]*)")
_HUMAN: Final = re.compile(r"\s[0-9]+(?:\.[0-9]+)?[KMGTPEZY]\s")
_COMPLAINT: Final = re.compile(
    r"(?:([!-~]{1,8})-)?((?:OST|MDT)[0-9a-fA-F]{4})(?:_UUID)?\s*: (\S.*)"
)
_NO_LUSTRE: Final = re.compile(r"df: ?(.*?):? Not a Lustre filesystem")
_LINE_CHARACTERS_MAXIMUM: Final = 8192
_PROBLEMS_MAXIMUM: Final = 50


@dataclass(frozen=True, slots=True)
class LfsDfLine:
    """What one line says of one target.

    Attributes
    ----------
    target
        ``OST000a``.
    total, used, available
        Bytes, or inodes (``available`` are the free ones); ``None`` where the line tells a problem
        instead. ``available`` is less than ``total - used``: it leaves out what is reserved for
        root and granted to clients.
    flags
        ``D`` degraded, ``R`` read-only, ``N`` no new objects, ``S`` no space, ``I`` no inodes,
        ``f`` flash (with ``-v`` only). Empty does not mean that all is well.
    line
        In the output, from 1; 0 when it was on the error output.
    problem
        ``inactive device``, ``Transport endpoint is not connected`` ...
    """

    target: str
    kind: TargetKind
    index: int
    total: int | None
    used: int | None
    available: int | None
    flags: str
    line: int
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class LfsDfSummary:
    """What Lustre says of the file system as a whole, in the unit of the lines."""

    total: int
    used: int
    available: int
    line: int


@dataclass(frozen=True, slots=True)
class LfsDf:
    """What ``lfs df`` printed of one file system.

    Attributes
    ----------
    file_system
        Lustre's name of it; ``None`` where no line tells.
    mount
        Where it is mounted; ``None`` where no line tells.
    complete
        Whether the summary is there and agrees with the lines.
    problems
        What is missing or odd, in words. A complete output can have some: targets that did not
        answer, lines that belong to nothing.
    """

    file_system: str | None
    mount: str | None
    lines: tuple[LfsDfLine, ...]
    summary: LfsDfSummary | None
    complete: bool
    problems: tuple[str, ...]


def parse_lfs_df(stdout: str, stderr: str = "", *, inodes: bool = False) -> tuple[LfsDf, ...]:
    """Return what ``lfs df`` said of each file system.

    Nothing at all is a possible output: with the root of a file system gone, ``lfs df`` prints
    nothing and ends with 0.

    Parameters
    ----------
    stderr
        Its error output: targets that did not answer stand there or on stdout.
    inodes
        Whether it was asked for inodes (``-i``). Output in another unit is not used.
    """
    reader = _Reader(inodes)
    lines = stdout.split("\n")
    for number, line in enumerate(lines[:-1], start=1):
        if len(line) > _LINE_CHARACTERS_MAXIMUM:
            reader.complain(f"line {number} is too long to be one of lfs df")
        elif line.strip():
            reader.read(line.rstrip(" "), number)
    if lines[-1].strip():
        reader.unended()
    for line in stderr.split("\n"):
        reader.read_error(line.strip())
    return tuple(block.closed(inodes=inodes) for block in reader.done())


@dataclass(slots=True)
class _Block:
    """The lines of one file system while they are read."""

    usable: bool
    stray: bool = False
    file_system: str | None = None
    mount: str | None = None
    lines: dict[str, LfsDfLine] = field(default_factory=dict)
    summary: LfsDfSummary | None = None
    problems: list[str] = field(default_factory=list)
    wrong: bool = False

    def complain(self, problem: str, *, wrong: bool = True) -> None:
        if len(self.problems) < _PROBLEMS_MAXIMUM:
            self.problems.append(problem)
        self.wrong = self.wrong or wrong

    def add(self, line: LfsDfLine) -> None:
        if line.target in self.lines:
            self.complain(f"{line.target} is listed twice: the first line is used")
        else:
            self.lines[line.target] = line

    def closed(self, *, inodes: bool) -> LfsDf:
        if self.usable:
            for problem in self._sums(inodes=inodes):
                self.complain(problem)
        return LfsDf(
            file_system=self.file_system,
            mount=self.mount,
            lines=tuple(self.lines.values()),
            summary=self.summary,
            complete=self.usable and not self.wrong,
            problems=tuple(self.problems),
        )

    def _sums(self, *, inodes: bool) -> list[str]:
        if self.summary is None:
            return ["the summary is missing: the output was cut"]
        lines = tuple(self.lines.values())
        wanted = _inode_sums(lines) if inodes else _sums_of(lines, "ost")
        # Lustre sums bytes and each line is rounded to KiB: one KiB for each line may be lost.
        slack = 0 if inodes else len(lines) * _KIB
        noun = "inodes" if inodes else "bytes"
        return [
            f"a line is missing or was altered: the {column} of the lines comes to"
            f" {wanted[column]} {noun}, the summary says {getattr(self.summary, column)}"
            for column in COLUMNS
            if abs(wanted[column] - getattr(self.summary, column)) > slack
        ]


class _Reader:
    """Sort lines into blocks, one for each file system."""

    def __init__(self, inodes: bool) -> None:
        self.blocks: list[_Block] = []
        self._inodes = inodes
        self._open: _Block | None = None

    def done(self) -> list[_Block]:
        """Return the blocks; what stood before the first header goes to the block after it."""
        if len(self.blocks) > 1 and self.blocks[0].stray:
            first, *others = self.blocks
            others[0].problems[:0] = first.problems
            return others
        return self.blocks

    def unended(self) -> None:
        """Take note of a last line without a line feed: it is not used."""
        # After a summary it belongs to the next file system, of which nothing is known yet.
        self.complain("the last line has no end", wrong=self._open is not None)

    def complain(self, problem: str, *, wrong: bool = True) -> None:
        """Put a problem where it belongs: to the file system that was read last."""
        if not self.blocks:
            self.blocks.append(_Block(usable=False, stray=True))
        self.blocks[-1].complain(problem, wrong=wrong)

    def read(self, line: str, number: int) -> None:
        if header := _HEADER.match(line):
            self._start(header[1])
        elif match := _NO_LUSTRE.fullmatch(line.strip()):
            self.blocks.append(_Block(usable=False, mount=match[1] or None))
            self.complain(
                f"{visible(match[1])}: lfs df reports that it is not a Lustre file system"
            )
        elif self._open is None:
            self.complain(f"line {number} belongs to no file system: {_short(line)}", wrong=False)
        elif self._open.usable:
            self._read_into(self._open, line, number)

    def _read_into(self, block: _Block, line: str, number: int) -> None:
        if match := _LINE.fullmatch(line):
            self._numbers(block, match, number)
        elif match := _SUMMARY.fullmatch(line):
            self._summarise(block, match, number)
        elif match := _COMPLAINT.fullmatch(line):
            self._complaint(block, match, number)
        elif _HUMAN.search(line):
            block.usable = False
            block.lines.clear()
            block.complain("the numbers are rounded for people (-h): they are not used")
        else:
            block.complain(f"line {number} has an unknown format: {_short(line)}")

    def read_error(self, line: str) -> None:
        if not line:
            return
        match = _COMPLAINT.fullmatch(line[:_LINE_CHARACTERS_MAXIMUM])
        block = None if match is None else self._block_of(match[1])
        if match is None or block is None:
            self.complain(f"lfs df says: {_short(line)}", wrong=False)
        else:
            self._complaint(block, match, 0)

    def _start(self, unit: str) -> None:
        wanted = "Inodes" if self._inodes else "1K-blocks"
        self._open = _Block(usable=unit == wanted)
        self.blocks.append(self._open)
        if unit != wanted:
            self._open.complain(f"the numbers are {unit}, not {wanted}: they are not used")

    def _numbers(self, block: _Block, match: re.Match[str], number: int) -> None:
        name = parse_name(f"{match[1]}_UUID")
        index = int(match[7])
        if name is None or name.by is not None or name.device is not None or name.index != index:
            block.complain(f"line {number} contradicts itself: {_short(match[0])}")
            return
        if name.kind != match[6].lower() or not _is_of(block, name.file_system, match[5]):
            block.complain(f"line {number} contradicts the others: {_short(match[0])}")
            return
        total, used, available = (self._quantity(match[place]) for place in (2, 3, 4))
        block.add(
            LfsDfLine(name.target, name.kind, index, total, used, available, match[8], number)
        )

    def _summarise(self, block: _Block, match: re.Match[str], number: int) -> None:
        if not _is_of(block, None, match[4]):
            block.complain(f"line {number} contradicts the others: {_short(match[0])}")
            return
        total, used, available = (self._quantity(match[place]) for place in (1, 2, 3))
        block.summary = LfsDfSummary(total, used, available, number)
        # What follows belongs to the next file system, which has a header of its own.
        self._open = None

    def _complaint(self, block: _Block, match: re.Match[str], number: int) -> None:
        file_system, target, problem = match[1], match[2], match[3].strip()
        index = index_of(target)
        if index is None or (file_system is not None and not _is_of(block, file_system, None)):
            block.complain(f"line {number} contradicts the others: {_short(match[0])}")
            return
        kind: TargetKind = "ost" if target.startswith("OST") else "mdt"
        name = target_of(kind, index)
        block.lines.setdefault(
            name, LfsDfLine(name, kind, index, None, None, None, "", number, visible(problem))
        )
        block.complain(f"{name}: {visible(problem)}", wrong=False)

    def _block_of(self, file_system: str | None) -> _Block | None:
        if len(self.blocks) == 1 and None in (file_system, self.blocks[0].file_system):
            return self.blocks[0]
        return next((block for block in self.blocks if block.file_system == file_system), None)

    def _quantity(self, digits: str) -> int:
        return int(digits) if self._inodes else int(digits) * _KIB


def _is_of(block: _Block, file_system: str | None, mount: str | None) -> bool:
    """Tell whether a line is of the block's file system, and note which one that is."""
    if block.file_system is None:
        block.file_system = file_system
    if block.mount is None:
        block.mount = mount
    return file_system in (None, block.file_system) and mount in (None, block.mount)


def _sums_of(lines: Sequence[LfsDfLine], kind: TargetKind) -> dict[Column, int]:
    return {
        column: sum(getattr(line, column) or 0 for line in lines if line.kind == kind)
        for column in COLUMNS
    }


def _inode_sums(lines: Sequence[LfsDfLine]) -> dict[Column, int]:
    """Return the sums as Lustre takes them: of the MDTs, or of what the OSTs can still hold.

    A file needs an inode on an MDT and an object on an OST: where fewer objects than inodes are
    free, the total and the free ones are those of the objects.
    """
    sums, objects = _sums_of(lines, "mdt"), _sums_of(lines, "ost")["available"]
    if objects < sums["available"]:
        return {"total": sums["used"] + objects, "used": sums["used"], "available": objects}
    return sums


def _short(line: str) -> str:
    return visible(line.strip()[:120])

"""Parses ``lfs df`` and detects incomplete output. Pure: text in, values out.

::

    UUID                   1K-blocks        Used   Available Use%  Mounted on
    scratch-MDT0000_UUID     2316144        1776     2089828   1%  /scratch[MDT:0]
    scratch-OST0002_UUID     3833116        1528     3605492   1%  /scratch[OST:2] Nf
    OST0001             : inactive device

    filesystem_summary:     15332464        6112    14421968   1%  /scratch

The summary is Lustre's own sum over the lines. If it differs from the sum computed here, a line was
lost or altered in transfer. The sums cannot detect that ``lfs df -l`` omits a target that is down
and sums the others: the caller must know which targets to expect.

Sources: lustre/utils/lfs.c (``showdf``, ``mntdf``), outputs of 2.5 and 2.17.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from trimtab.base.visible import visible
from trimtab.reach.lustre.lustre_device import parse_name, spelt

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
    """One line, about one target.

    Attributes
    ----------
    target
        ``OST000a``.
    total, used, available
        Bytes, or inodes (``available`` are the free ones); ``None`` if the line reports a problem
        instead. ``available`` is less than ``total - used``: it excludes what is reserved for root
        and granted to clients.
    flags
        ``D`` degraded, ``R`` read-only, ``N`` no new objects, ``S`` no space, ``I`` no inodes,
        ``f`` flash (only with ``-v``). Empty does not mean healthy.
    line
        Line number in the output, from 1; 0 for a line of the error output.
    problem
        ``inactive device``, ``Transport endpoint is not connected`` ...
    """

    target: str
    total: int | None
    used: int | None
    available: int | None
    flags: str
    line: int
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class LfsDfSummary:
    """Totals of the file system, in the unit of the lines."""

    total: int
    used: int
    available: int
    line: int


@dataclass(slots=True)
class LfsDf:
    """The output of ``lfs df`` for one file system.

    Attributes
    ----------
    complete
        Whether there is a summary that agrees with the lines.
    stray
        Not a file system: holds problems before the first header.
    file_system
        Lustre's name; ``None`` if no line has it.
    mount
        Mount point; ``None`` if no line has it.
    lines
        By target.
    problems
        What is missing or odd. A complete output can have some: targets that did not answer,
        unrelated lines.
    """

    usable: bool
    complete: bool = True
    stray: bool = False
    file_system: str | None = None
    mount: str | None = None
    lines: dict[str, LfsDfLine] = field(default_factory=dict)
    summary: LfsDfSummary | None = None
    problems: list[str] = field(default_factory=list)

    def complain(self, problem: str, *, wrong: bool = True) -> None:
        """Record a problem; ``wrong`` marks the output as incomplete."""
        if len(self.problems) < _PROBLEMS_MAXIMUM:
            self.problems.append(problem)
        self.complete = self.complete and not wrong

    def is_of(self, file_system: str | None, mount: str | None) -> bool:
        """Return whether a line belongs to this file system, and record its names."""
        self.file_system = self.file_system or file_system
        self.mount = self.mount or mount
        return file_system in (None, self.file_system) and mount in (None, self.mount)

    def check_sums(self, *, inodes: bool) -> None:
        """Record a problem if the lines do not add up to the summary."""
        if self.summary is None:
            self.complain("the summary is missing: the output was cut")
            return
        wanted = _inode_sums(self.lines) if inodes else _sums_of(self.lines, "OST")
        # Lustre sums bytes but rounds each line to KiB: allow one KiB per line.
        slack = 0 if inodes else len(self.lines) * _KIB
        noun = "inodes" if inodes else "bytes"
        for column in COLUMNS:
            summed = getattr(self.summary, column)
            if abs(wanted[column] - summed) > slack:
                self.complain(
                    f"a line is missing or was altered: the lines have {wanted[column]} {noun} "
                    f"{column}, the summary {summed}"
                )


def parse_lfs_df(stdout: str, stderr: str = "", *, inodes: bool = False) -> list[LfsDf]:
    """Parse the output of ``lfs df``, by file system.

    The output may be empty: without the root of a file system, ``lfs df`` prints nothing and exits
    with 0.

    Parameters
    ----------
    stderr
        Its error output: silent targets are reported there or on stdout.
    inodes
        Whether inodes were requested (``-i``). Output in another unit is ignored.
    """
    reader = _LfsDfReader(inodes)
    lines = stdout.split("\n")
    for number, line in enumerate(lines[:-1], start=1):
        if len(line) > _LINE_CHARACTERS_MAXIMUM:
            reader.complain(f"line {number} is too long for lfs df")
        elif line.strip():
            reader.read(line.rstrip(" "), number)
    if lines[-1].strip():
        reader.unended()
    for line in stderr.split("\n"):
        reader.read_error(line.strip())
    return reader.done()


class _LfsDfReader:
    """Sorts lines into blocks, one for each file system."""

    def __init__(self, inodes: bool) -> None:
        self.blocks: list[LfsDf] = []
        self._inodes = inodes
        self._open: LfsDf | None = None

    def done(self) -> list[LfsDf]:
        """Return the blocks; problems before the first header go to the first block."""
        for block in self.blocks:
            if block.usable:
                block.check_sums(inodes=self._inodes)
            block.complete = block.complete and block.usable
        if len(self.blocks) > 1 and self.blocks[0].stray:
            stray = self.blocks.pop(0)
            self.blocks[0].problems[:0] = stray.problems
        return self.blocks

    def unended(self) -> None:
        """Record a last line without a line feed, which is ignored."""
        # After a summary it belongs to the next file system, which has no block yet.
        self.complain("the last line was cut", wrong=self._open is not None)

    def complain(self, problem: str, *, wrong: bool = True) -> None:
        """Record a problem with the file system that was read last."""
        if not self.blocks:
            self.blocks.append(LfsDf(usable=False, stray=True))
        self.blocks[-1].complain(problem, wrong=wrong)

    def read(self, line: str, number: int) -> None:
        if header := _HEADER.match(line):
            self._start(header[1])
        elif match := _NO_LUSTRE.fullmatch(line.strip()):
            self.blocks.append(LfsDf(usable=False, mount=match[1] or None))
            self.complain(
                f"{visible(match[1])}: lfs df reports that it is not a Lustre file system"
            )
        elif self._open is None:
            self.complain(f"line {number} belongs to no file system: {_short(line)}", wrong=False)
        elif self._open.usable:
            self._read_into(self._open, line, number)

    def _read_into(self, block: LfsDf, line: str, number: int) -> None:
        if match := _LINE.fullmatch(line):
            self._numbers(block, match, number)
        elif match := _SUMMARY.fullmatch(line):
            self._summarise(block, match, number)
        elif match := _COMPLAINT.fullmatch(line):
            self._complaint(block, match, number)
        elif _HUMAN.search(line):
            block.usable = False
            block.lines.clear()
            block.complain("the numbers are rounded (-h) and therefore ignored")
        else:
            block.complain(f"line {number} has an unknown format: {_short(line)}")

    def read_error(self, line: str) -> None:
        if not line:
            return
        match = _COMPLAINT.fullmatch(line[:_LINE_CHARACTERS_MAXIMUM])
        block = None if match is None else self._block_of(match[1])
        if match is None or block is None:
            self.complain(f"lfs df printed: {_short(line)}", wrong=False)
        else:
            self._complaint(block, match, 0)

    def _start(self, unit: str) -> None:
        wanted = "Inodes" if self._inodes else "1K-blocks"
        self._open = LfsDf(usable=unit == wanted)
        self.blocks.append(self._open)
        if unit != wanted:
            self._open.complain(f"the numbers are {unit}, not {wanted}, and therefore ignored")

    def _numbers(self, block: LfsDf, match: re.Match[str], number: int) -> None:
        name = parse_name(f"{match[1]}_UUID")
        if name is None or name.device is not None or name.index != int(match[7]):
            block.complain(f"line {number} contradicts itself: {_short(match[0])}")
        elif name.kind != match[6].lower() or not block.is_of(name.file_system, match[5]):
            block.complain(f"line {number} contradicts the others: {_short(match[0])}")
        elif name.target in block.lines:
            block.complain(f"{name.target} is listed twice: the first line is used")
        else:
            total, used, available = map(self._quantity, match.group(2, 3, 4))
            line = LfsDfLine(name.target, total, used, available, match[8], number)
            block.lines[name.target] = line

    def _summarise(self, block: LfsDf, match: re.Match[str], number: int) -> None:
        if not block.is_of(None, match[4]):
            block.complain(f"line {number} contradicts the others: {_short(match[0])}")
            return
        total, used, available = map(self._quantity, match.group(1, 2, 3))
        block.summary = LfsDfSummary(total, used, available, number)
        # The next lines belong to the next file system, which has its own header.
        self._open = None

    def _complaint(self, block: LfsDf, match: re.Match[str], number: int) -> None:
        file_system, target, problem = match[1], spelt(match[2]), visible(match[3].strip())
        if file_system is not None and not block.is_of(file_system, None):
            block.complain(f"line {number} contradicts the others: {_short(match[0])}")
            return
        line = LfsDfLine(target, None, None, None, "", number, problem)
        block.lines.setdefault(target, line)
        block.complain(f"{target}: {problem}", wrong=False)

    def _block_of(self, file_system: str | None) -> LfsDf | None:
        if len(self.blocks) == 1 and None in (file_system, self.blocks[0].file_system):
            return self.blocks[0]
        return next((block for block in self.blocks if block.file_system == file_system), None)

    def _quantity(self, digits: str) -> int:
        return int(digits) if self._inodes else int(digits) * _KIB


def _sums_of(lines: Mapping[str, LfsDfLine], kind: str) -> dict[Column, int]:
    chosen = [line for target, line in lines.items() if target.startswith(kind)]
    return {column: sum(getattr(line, column) or 0 for line in chosen) for column in COLUMNS}


def _inode_sums(lines: Mapping[str, LfsDfLine]) -> dict[Column, int]:
    """Return the sums as Lustre computes them: of the MDTs, limited by the OSTs' objects.

    A file needs an inode on an MDT and an object on an OST: if fewer objects than inodes are free,
    the totals and free counts are those of the objects.
    """
    sums, objects = _sums_of(lines, "MDT"), _sums_of(lines, "OST")["available"]
    if objects < sums["available"]:
        return {"total": sums["used"] + objects, "used": sums["used"], "available": objects}
    return sums


def _short(line: str) -> str:
    return visible(line.strip()[:120])

"""Parses the names of Lustre targets, ``lctl dl``, ``import`` parameters and ``lfs df``. Pure.

================================  ============  =========  =================
name                              target        by         device
================================  ============  =========  =================
``scratch-OST0001_UUID``          ``OST0001``   ``None``   ``None``
``scratch-OST0001-osc-MDT0000``   ``OST0001``   MDT0000    ``osc``
``scratch-OST0001-osc-ffff8...``  ``OST0001``   ffff8...   ``osc``
``scratch-MDT0001-osp-MDT0000``   ``MDT0001``   MDT0000    ``osp``
``scratch-MDT0000-lwp-OST0001``   ``MDT0000``   OST0001    ``lwp``
``scratch-MDT0000-mdtlov_UUID``   ``MDT0000``   ``None``   ``mdtlov``
``scratch-OST0001-osd``           ``OST0001``   ``None``   ``osd``
================================  ============  =========  =================

The number in a target's name is hexadecimal (``OST000a`` is the eleventh); ``lfs df`` prints it in
brackets as decimal.

``lctl dl`` lists the Lustre devices of a machine::

      9 UP osp scratch-OST0000-osc-MDT0000 scratch-MDT0000-mdtlov_UUID 5
     45 UP osc scratch-OST0000-osc-ffff888121acb000 53489c99-3201-4f59-817d-63877e31fede 5 0@lo

The last column, the NID, is printed only with ``-t`` and for a client's devices. ``UP`` does not
mean healthy: a lost or read-only target is ``UP`` too.

An ``import`` parameter shows how one host is connected to one target. Its state is the reliable
sign that a target is gone: ``lctl dl``, ``lfs check`` and ``health_check`` report the target
healthy until much later.

``lfs df`` lists the targets of a mount::

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
from functools import lru_cache
from typing import Final, Literal

from trimtab.base.error import visible

TargetKind = Literal["ost", "mdt"]

_TARGET: Final = r"(?:OST|MDT)[0-9a-fA-F]{4}"
# A file system's name has at most eight letters, digits, "_" and "-" (LUSTRE_MAXFSNAME): too short
# for a target name and dash, so the split is unambiguous. Before a target has registered, the
# separator is ":" (new) or "=" (configuration to be rewritten).
_NAME: Final = re.compile(
    rf"(?P<file_system>[A-Za-z0-9_-]{{1,8}})[-:=](?P<target>{_TARGET})"
    rf"(?:-(?P<link>osc|osp|mdc|lwp)-(?P<by>{_TARGET}|[0-9a-f]{{8,16}})|-(?P<own>mdtlov|osd))?"
    r"(?:_UUID)?"
)
_SHORT: Final = re.compile(_TARGET)
_NAME_CHARACTERS_MAXIMUM: Final = 64


@dataclass(frozen=True, slots=True)
class TargetName:
    """The parts of one name.

    Attributes
    ----------
    file_system
        Lustre's own name of the file system.
    target
        ``OST000a`` or ``MDT0000``, as Lustre prints it.
    by
        The owner of this connection: ``MDT0000``, or the hexadecimal id of a client's mount;
        ``None`` for the target itself and its own devices.
    device
        ``osc``, ``osp``, ``mdc``, ``lwp`` (connections), ``mdtlov``, ``osd``; ``None`` for the
        target itself.
    """

    file_system: str
    target: str
    by: str | None = None
    device: str | None = None

    @property
    def kind(self) -> TargetKind:
        """The kind of the target: OST or MDT."""
        return "ost" if self.target.startswith("OST") else "mdt"

    @property
    def index(self) -> int:
        """The target's index, which ``lfs`` prints and accepts in decimal."""
        return int(self.target[3:], 16)


def parse_name(text: str) -> TargetName | None:
    """Parse the name of a target or of a connection to one; ``None`` for other names.

    Examples
    --------
    >>> parse_name("scratch-OST000a_UUID").index
    10
    >>> parse_name("scratch-OST0001-osc-MDT0000")
    TargetName(file_system='scratch', target='OST0001', by='MDT0000', device='osc')
    """
    return _parsed(text) if len(text) <= _NAME_CHARACTERS_MAXIMUM else None


@lru_cache(maxsize=8192)
def _parsed(text: str) -> TargetName | None:
    match = _NAME.fullmatch(text)
    if match is None:
        return None
    by = match["by"]
    return TargetName(
        file_system=match["file_system"],
        target=spelt(match["target"]),
        by=spelt(by) if by is not None and _SHORT.fullmatch(by) else by,
        device=match["link"] or match["own"],
    )


def target_of(kind: TargetKind, index: int) -> str:
    """Return the name of the target with that index.

    Raises
    ------
    ValueError
        The index does not fit into 16 bits.

    Examples
    --------
    >>> target_of("ost", 10)
    'OST000a'
    """
    if not 0 <= index <= 0xFFFF:
        raise ValueError(f"{index} is not a target index (0 to 65535)")
    return f"{kind.upper()}{index:04x}"


def spelt(target: str) -> str:
    """Return the name of a target as Lustre prints it, with lower-case digits."""
    return target[:3] + target[3:].lower()


_ROW: Final = re.compile(
    r"\s*[0-9]{1,9} [A-Z-]{2} ([!-~]+) ([!-~]+) [!-~]+ -?[0-9]{1,9}(?: [!-~]+@[a-z0-9]+)?\s*"
)
_DEVICE_LINE_MAXIMUM: Final = 1024


@dataclass(frozen=True, slots=True)
class LustreDevice:
    """One row.

    Attributes
    ----------
    type
        ``obdfilter`` (an OST served here), ``mdt``, ``osp``, ``osc``, ``mdc`` ...
    """

    type: str
    name: str


def parse_device_list(text: str) -> tuple[LustreDevice, ...]:
    """Return the devices in the output of ``lctl dl`` or ``lctl dl -t``; skip other lines.

    A last line without a line feed was cut and is ignored.
    """
    lines = (line for line in text.split("\n")[:-1] if len(line) <= _DEVICE_LINE_MAXIMUM)
    return tuple(LustreDevice(*row.groups()) for row in map(_ROW.fullmatch, lines) if row)


_FIELDS: Final = frozenset({"name", "target", "state", "failover_nids"})
_NID: Final = re.compile(r"[!-~]{1,100}@[a-z0-9]{1,16}")
_STATE: Final = re.compile(r"[A-Z][A-Z_]{1,30}|<UNKNOWN>")
_IMPORT_NAME: Final = re.compile(r"[!-~]{1,100}")
_IMPORT_LINE_MAXIMUM: Final = 65536


@dataclass(frozen=True, slots=True)
class Import:
    """One connection; fields missing in the text are ``None`` or an empty tuple.

    Attributes
    ----------
    name
        Device name: ``scratch-OST0001-osc-MDT0000``.
    target
        ``scratch-OST0001_UUID``.
    state
        ``FULL``; ``IDLE`` (a client's connection that is not in use); ``DISCONN``,
        ``CONNECTING``, ``REPLAY``, ``RECOVER``, ``EVICTED`` ... otherwise.
    failover_nids
        NIDs of the servers that may serve the target, its home first.
    """

    name: str | None = None
    target: str | None = None
    state: str | None = None
    failover_nids: tuple[str, ...] = ()


def parse_import(text: str) -> Import | None:
    """Parse the value, or part of the value, of an ``import`` parameter.

    Before 2.16 NIDs have no quotes.

    Returns
    -------
    Import or None
        ``None`` if the name, target and state are all missing.
    """
    fields: dict[str, str] = {}
    for line in text.split("\n"):
        name, colon, value = line.partition(": ")
        name = name.lstrip()
        if colon and name in _FIELDS and len(line) <= _IMPORT_LINE_MAXIMUM:
            fields.setdefault(name, value.strip())
    link = Import(
        name=_value(fields, "name", _IMPORT_NAME),
        target=_value(fields, "target", _IMPORT_NAME),
        state=_value(fields, "state", _STATE),
        failover_nids=_nids(fields.get("failover_nids", "")),
    )
    return None if (link.name, link.target, link.state) == (None, None, None) else link


def _value(fields: dict[str, str], key: str, form: re.Pattern[str]) -> str | None:
    value = _unquoted(fields.get(key, ""))
    return value if form.fullmatch(value) else None


def _nids(value: str) -> tuple[str, ...]:
    """Return the items of ``[ a, b ]``; none if the list is cut or has invalid items."""
    if not (value.startswith("[") and value.endswith("]")):
        return ()
    items = [_unquoted(item.strip()) for item in value[1:-1].split(",") if item.strip()]
    return tuple(items) if all(map(_NID.fullmatch, items)) else ()


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


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

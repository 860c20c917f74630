"""IOR 4.0 as the twin plays it: its options understood, its output printed as text or as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean, pstdev
from typing import Final, NoReturn

from trimtab.errors import UsageError
from trimtab.model.run import Access
from trimtab.twin.instruments.sizes import bytes_of, ctime

VERSION: Final = "4.0.0"
MIB: Final = 2**20

_FLAGS: Final = frozenset("wrkFeC")
_VALUES: Final = frozenset("atbsioDlO")
_LONG: Final = frozenset({"--posix.odirect"})
_DIRECTIVES: Final = frozenset({"minTimeDuration", "summaryFormat"})
_PACKETS: Final = frozenset({"random", "timestamp"})


@dataclass(frozen=True, slots=True)
class IorAsked:
    """What a command of IOR asks for.

    Attributes
    ----------
    argv
        Beginning with the program.
    deadline_s, minimum_duration_s
        ``-D`` and ``minTimeDuration``; 0: none.
    """

    argv: tuple[str, ...]
    tasks: int
    nodes: int
    file: str
    transfer_size_bytes: int = 2**18
    block_size_bytes: int = MIB
    segments: int = 1
    repetitions: int = 1
    accesses: tuple[Access, ...] = ("write", "read")
    file_per_process: bool = False
    flush: bool = False
    reorder: bool = False
    direct: bool = False
    keep: bool = False
    deadline_s: int = 0
    minimum_duration_s: int = 0
    packet: str = "timestamp"
    json: bool = False

    @property
    def tasks_per_node(self) -> int:
        """Tasks on the node of the first one."""
        return math.ceil(self.tasks / self.nodes)

    @property
    def aggregate_bytes(self) -> int:
        """Bytes of all files when they are whole."""
        return self.block_size_bytes * self.segments * self.tasks


@dataclass(frozen=True, slots=True)
class IorPhase:
    """One write or read of one repetition.

    Attributes
    ----------
    moved_bytes
        By all tasks together.
    elapsed_s
        From the first open to the last close: the bandwidth is over this time.
    transfer_s, open_s, close_s, latency_s
        Of writing or reading alone, of opening and of closing (each of the slowest task), and of
        one transfer.
    file_bytes
        In the files afterwards; ``None``: as much as was moved, at most what was asked for.
    """

    access: Access
    moved_bytes: int
    elapsed_s: float
    transfer_s: float
    open_s: float = 0.0
    close_s: float = 0.0
    latency_s: float = 0.0
    file_bytes: int | None = None

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """As IOR counts it."""
        return self.moved_bytes / self.elapsed_s


@dataclass(frozen=True, slots=True)
class Space:
    """How full the file system is: ``used`` and ``used_inodes`` are fractions of all there is."""

    capacity_bytes: float = 0.0
    used: float = 0.0
    inodes: float = 0.0
    used_inodes: float = 0.0


@dataclass(frozen=True, slots=True)
class IorResult:
    """What came of a command, by the clock of its nodes.

    Attributes
    ----------
    began, finished
        In the zone of the machine; ``finished`` is ``None`` for one that was ended before.
    phases
        In their order: write and read of the first repetition, of the second ...
    warnings
        Lines before the results.
    """

    began: datetime
    finished: datetime | None
    phases: tuple[IorPhase, ...]
    host: str = "nid001000"
    space: Space = Space()
    warnings: tuple[str, ...] = ()


def asked_of(argv: Sequence[str], *, tasks: int, nodes: int = 1) -> IorAsked:
    """Return what a command of IOR asks for.

    Raises
    ------
    UsageError
        An option that IOR does not have or the twin does not play; it is named.
    """
    flags: set[str] = set()
    values: dict[str, str] = {}
    directives: dict[str, str] = {}
    words = iter(argv[1:])
    for word in words:
        if word in _LONG:
            flags.add(word)
        elif len(word) == 2 and word[0] == "-" and word[1] in _FLAGS:
            flags.add(word[1])
        elif len(word) == 2 and word[0] == "-" and word[1] in _VALUES:
            value = next(words, None)
            if value is None:
                raise UsageError(f"ior: option {word} has no value")
            if word == "-O":
                directives |= _pairs(value)
            else:
                values[word[1]] = value
        else:
            _refuse(word)
    if "o" not in values:
        raise UsageError("ior: -o names no file", hint="the twin has no default file")
    accesses: list[Access] = [one for one in ("write", "read") if one[0] in flags]
    packet = values.get("l", "timestamp")
    if values.get("a", "POSIX") != "POSIX" or packet not in _PACKETS:
        _refuse(f"-a {values['a']}" if packet in _PACKETS else f"-l {packet}")
    form = directives.get("summaryFormat", "default")
    if form not in ("default", "JSON"):
        _refuse(f"-O summaryFormat={form}")
    return IorAsked(
        argv=tuple(argv),
        tasks=tasks,
        nodes=nodes,
        file=values["o"],
        transfer_size_bytes=_size(values, "t", 2**18),
        block_size_bytes=_size(values, "b", MIB),
        segments=_size(values, "s", 1),
        repetitions=_size(values, "i", 1),
        accesses=tuple(accesses) or ("write", "read"),
        file_per_process="F" in flags,
        flush="e" in flags,
        reorder="C" in flags,
        direct="--posix.odirect" in flags,
        keep="k" in flags,
        deadline_s=_size(values, "D", 0),
        minimum_duration_s=_size(directives, "minTimeDuration", 0),
        packet=packet,
        json=form == "JSON",
    )


def print_ior(asked: IorAsked, result: IorResult) -> bytes:
    """Return what IOR prints: whole where it finished, else as far as it came."""
    from trimtab.twin.instruments import ior_json

    text = ior_json.printed(asked, result) if asked.json else _text(asked, result)
    return text.encode()


def warnings_of(asked: IorAsked, phase: IorPhase) -> list[str]:
    """Return what IOR says where other bytes were moved than asked for."""
    if phase.moved_bytes == asked.aggregate_bytes and phase.file_bytes is None:
        return []
    held = phase.file_bytes
    if held is None:
        held = min(phase.moved_bytes, asked.aggregate_bytes)
    lines = [
        f"WARNING: Expected aggregate file size       = {asked.aggregate_bytes}",
        f"WARNING: Stat() of aggregate file size      = {held}",
        f"WARNING: Using actual aggregate bytes moved = {phase.moved_bytes}",
    ]
    if asked.deadline_s:
        lines.append("WARNING: Maybe caused by deadlineForStonewalling")
    return lines


def sized(count: int) -> str:
    """Return a size as IOR writes it for people.

    Examples
    --------
    >>> sized(2**20), sized(262144), sized(5555000)
    ('1 MiB', '262144 bytes', '5.30 MiB')
    """
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20)):
        if count >= size:
            return f"{count / size:.2f} {unit}" if count % size else f"{count // size} {unit}"
    return f"{count} bytes"


def space_of(space: Space) -> tuple[str, str, str, str]:
    """Return size, used part, inodes and their used part as IOR rounds them."""
    tebi = space.capacity_bytes > 2**40
    size = space.capacity_bytes / (2**40 if tebi else 2**30)
    return (
        f"{size:.1f} {'TiB' if tebi else 'GiB'}",
        f"{100 * space.used:2.1f}%",
        f"{space.inodes / MIB:.1f} Mi",
        f"{100 * space.used_inodes:2.1f}%",
    )


def test_file(asked: IorAsked) -> str:
    """Return the file of the first task."""
    return f"{asked.file}.00000000" if asked.file_per_process else asked.file


def _text(asked: IorAsked, result: IorResult) -> str:
    size, used, inodes, used_inodes = space_of(result.space)
    began = ctime(result.began)
    lines = [
        f"IOR-{VERSION}: MPI Coordinated Test of Parallel I/O",
        f"Began               : {began}",
        f"Command line        : {' '.join(asked.argv)}",
        f"Machine             : Linux {result.host}",
        "TestID              : 0",
        f"StartTime           : {began}",
        f"Path                : {test_file(asked)}",
        f"FS                  : {size}   Used FS: {used}   Inodes: {inodes}"
        f"   Used Inodes: {used_inodes}",
        "",
        "Options: ",
        *(f"{name:<20}: {value}" for name, value in options_of(asked).items()),
        "",
        "Results: ",
        "",
        "access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)  "
        " close(s)   total(s)   iter",
        "------    ---------  ----       ----------  ---------- ---------  --------   --------  "
        " --------   --------   ----",
        *result.warnings,
    ]
    counts = dict.fromkeys(asked.accesses, 0)
    for phase in result.phases:
        lines += [*warnings_of(asked, phase), _row(asked, phase, counts[phase.access])]
        counts[phase.access] += 1
    if result.finished is not None:
        lines += ["", *_summary(asked, result), f"Finished            : {ctime(result.finished)}"]
    return "\n".join(lines) + "\n"


def options_of(asked: IorAsked) -> dict[str, str]:
    """Return the options as IOR lists them, by its names and in its order."""
    options = {
        "api": "POSIX",
        "apiVersion": "",
        "test filename": asked.file,
        "access": "file-per-process" if asked.file_per_process else "single-shared-file",
        "type": "independent",
        "segments": str(asked.segments),
        "ordering in a file": "sequential",
        "ordering inter file": "constant task offset" if asked.reorder else "no tasks offsets",
    }
    if asked.reorder:
        options["task offset"] = "1"
    options |= {
        "nodes": str(asked.nodes),
        "tasks": str(asked.tasks),
        "clients per node": str(asked.tasks_per_node),
        "repetitions": str(asked.repetitions),
        "xfersize": sized(asked.transfer_size_bytes),
        "blocksize": sized(asked.block_size_bytes),
        "aggregate filesize": sized(asked.aggregate_bytes),
    }
    if asked.deadline_s:
        options |= {"stonewallingTime": str(asked.deadline_s), "stoneWallingWearOut": "0"}
    return options


def _row(asked: IorAsked, phase: IorPhase, repetition: int) -> str:
    iops = phase.moved_bytes / asked.transfer_size_bytes / phase.transfer_s
    cells = (
        _column(phase.bandwidth_bytes_per_s / MIB),
        _column(iops),
        _column(phase.latency_s) + " ",
        _column(asked.block_size_bytes / 1024),
        _column(asked.transfer_size_bytes / 1024),
        _column(phase.open_s),
        _column(phase.transfer_s),
        _column(phase.close_s),
        _column(phase.elapsed_s),
    )
    return f"{phase.access:<10}{''.join(cells)}{repetition:<4d}"


def _column(value: float) -> str:
    """Return a cell of the results: fewer decimals the larger it is (``PPDouble`` of IOR)."""
    decimals = 6 if value < 1 else 2 if value < 3600 else 0
    return f"{value:<10.{decimals}f} "


def _summary(asked: IorAsked, result: IorResult) -> list[str]:
    lines = [
        "Summary of all tests:",
        "Operation   Max(MiB)   Min(MiB)  Mean(MiB)     StdDev   Max(OPs)   Min(OPs)  Mean(OPs)"
        "     StdDev    Mean(s) Stonewall(s) Stonewall(MiB) Test# #Tasks tPN reps fPP reord"
        " reordoff reordrand seed segcnt   blksiz    xsize aggs(MiB)   API RefNum",
    ]
    for access in asked.accesses:
        phases = [one for one in result.phases if one.access == access]
        if not phases:
            continue
        rates = [one.bandwidth_bytes_per_s for one in phases]
        figures = [one / MIB for one in spread(rates)]
        figures += [one / asked.transfer_size_bytes for one in spread(rates)]
        mean_s = fmean(one.elapsed_s for one in phases)
        lines.append(
            f"{access:<9} {' '.join(f'{one:10.2f}' for one in figures)} {mean_s:10.5f}"
            f" {'NA':>10} {'NA':>13} {0:5d} {asked.tasks:6d} {asked.tasks_per_node:3d}"
            f" {asked.repetitions:4d} {asked.file_per_process:3d} {asked.reorder:5d}"
            f" {1:8d} {0:9d} {0:4d} {asked.segments:6d} {asked.block_size_bytes:8d}"
            f" {asked.transfer_size_bytes:8d} {phases[-1].moved_bytes / MIB:9.1f}"
            f" POSIX {0:6d}"
        )
    return lines


def spread(values: Sequence[float]) -> tuple[float, float, float, float]:
    """Return most, least, mean and standard deviation, as a summary has them."""
    return max(values), min(values), fmean(values), pstdev(values)


def _pairs(value: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in value.split(","):
        name, _, text = pair.partition("=")
        if name not in _DIRECTIVES:
            _refuse(f"-O {pair}")
        found[name] = text
    return found


def _size(values: dict[str, str], name: str, default: int) -> int:
    if name not in values:
        return default
    found = bytes_of(values[name])
    if found is None:
        raise UsageError(f"ior: {name} is {values[name]!r}: no number")
    return found


def _refuse(word: str) -> NoReturn:
    raise UsageError(
        f"ior: the twin does not play the option {word!r}",
        hint="it knows -a POSIX -w -r -k -F -e -C -t -b -s -i -D -l -O -o and --posix.odirect",
    )

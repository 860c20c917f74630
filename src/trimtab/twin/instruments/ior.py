"""IOR 4.0 as the twin runs it: its options parsed, its results as values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean, pstdev
from typing import Final, NoReturn

from trimtab.errors import UsageError
from trimtab.model.run import Access
from trimtab.twin.instruments.sizes import bytes_of

VERSION: Final = "4.0.0"
MIB: Final = 2**20

_FLAGS: Final = frozenset("wrkFeC")
_VALUES: Final = frozenset("atbsioDlO")
_LONG: Final = frozenset({"--posix.odirect"})
_DIRECTIVES: Final = frozenset({"minTimeDuration", "summaryFormat"})
_PACKETS: Final = frozenset({"random", "timestamp"})


@dataclass(frozen=True, slots=True)
class IorCommand:
    """A command line of IOR, parsed.

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
        In the files afterwards; ``None``: as much as was moved, at most what was command for.
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
    """The result of a command, by the clock of its nodes.

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


def parse_command(argv: Sequence[str], *, tasks: int, nodes: int = 1) -> IorCommand:
    """Return a command line of IOR, parsed.

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
                raise UsageError(f"ior: option {word} has no value", code="option-without-value")
            if word == "-O":
                directives |= _pairs(value)
            else:
                values[word[1]] = value
        else:
            _refuse(word)
    if "o" not in values:
        raise UsageError(
            "ior: -o names no file", code="option-missing", hint="the twin has no default file"
        )
    accesses: list[Access] = [access for access in ("write", "read") if access[0] in flags]
    packet = values.get("l", "timestamp")
    if values.get("a", "POSIX") != "POSIX" or packet not in _PACKETS:
        _refuse(f"-a {values['a']}" if packet in _PACKETS else f"-l {packet}")
    form = directives.get("summaryFormat", "default")
    if form not in ("default", "JSON"):
        _refuse(f"-O summaryFormat={form}")
    return IorCommand(
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


def warnings_of(command: IorCommand, phase: IorPhase) -> list[str]:
    """Return what IOR says where other bytes were moved than requested."""
    if phase.moved_bytes == command.aggregate_bytes and phase.file_bytes is None:
        return []
    held = phase.file_bytes
    if held is None:
        held = min(phase.moved_bytes, command.aggregate_bytes)
    lines = [
        f"WARNING: Expected aggregate file size       = {command.aggregate_bytes}",
        f"WARNING: Stat() of aggregate file size      = {held}",
        f"WARNING: Using actual aggregate bytes moved = {phase.moved_bytes}",
    ]
    if command.deadline_s:
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


def test_file(command: IorCommand) -> str:
    """Return the file of the first task."""
    return f"{command.file}.00000000" if command.file_per_process else command.file


def options_of(command: IorCommand) -> dict[str, str]:
    """Return the options as IOR lists them, by its names and in its order."""
    options = {
        "api": "POSIX",
        "apiVersion": "",
        "test filename": command.file,
        "access": "file-per-process" if command.file_per_process else "single-shared-file",
        "type": "independent",
        "segments": str(command.segments),
        "ordering in a file": "sequential",
        "ordering inter file": "constant task offset" if command.reorder else "no tasks offsets",
    }
    if command.reorder:
        options["task offset"] = "1"
    options |= {
        "nodes": str(command.nodes),
        "tasks": str(command.tasks),
        "clients per node": str(command.tasks_per_node),
        "repetitions": str(command.repetitions),
        "xfersize": sized(command.transfer_size_bytes),
        "blocksize": sized(command.block_size_bytes),
        "aggregate filesize": sized(command.aggregate_bytes),
    }
    if command.deadline_s:
        options |= {"stonewallingTime": str(command.deadline_s), "stoneWallingWearOut": "0"}
    return options


def spread(values: Sequence[float]) -> tuple[float, float, float, float]:
    """Return most, least, mean and standard deviation, as a summary has them."""
    if len(values) == 1:  # as most: exact fractions take longer than the rest of the output
        return values[0], values[0], values[0], 0.0
    return max(values), min(values), fmean(values), pstdev(values)


def _pairs(value: str) -> dict[str, str]:
    directives: dict[str, str] = {}
    for pair in value.split(","):
        name, _, text = pair.partition("=")
        if name not in _DIRECTIVES:
            _refuse(f"-O {pair}")
        directives[name] = text
    return directives


def _size(values: dict[str, str], name: str, default: int) -> int:
    if name not in values:
        return default
    size_bytes = bytes_of(values[name])
    if size_bytes is None:
        raise UsageError(f"ior: {name} is {values[name]!r}: no number", code="wrong-type")
    return size_bytes


def _refuse(word: str) -> NoReturn:
    raise UsageError(
        f"ior: the twin does not play the option {word!r}",
        code="option-not-simulated",
        hint="it knows -a POSIX -w -r -k -F -e -C -t -b -s -i -D -l -O -o and --posix.odirect",
    )

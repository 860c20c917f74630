"""Simulates IOR 4.0: parses its options and represents its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean, pstdev
from typing import Any, Final

from trimtab.errors import UsageError
from trimtab.measure.command_line import size_of
from trimtab.measure.measurement import ACCESSES
from trimtab.model.run import Access
from trimtab.twin.instruments.command import FLAG, NOT_PLAYED, LoadCommand, one_of, parse_options
from trimtab.units import MIB

VERSION: Final = "4.0.0"
_DIRECTIVES: Final[Mapping[str, Callable[[str], Any]]] = {
    "minTimeDuration": size_of,
    "summaryFormat": one_of("default", "JSON"),
}


def _directives(text: str) -> object:
    """Parse ``name=value,name=value``, the value of ``-O``."""
    values: dict[str, Any] = {}
    for directive in text.split(","):
        name, _, value = directive.partition("=")
        values[name] = _DIRECTIVES[name](value) if name in _DIRECTIVES else NOT_PLAYED
        if values[name] in (None, NOT_PLAYED):
            return values[name]
    return values


_OPTIONS: Final[Mapping[str, Callable[[str], Any] | None]] = {
    **dict.fromkeys(("-w", "-r", "-k", "-F", "-e", "-C", "--posix.odirect"), FLAG),
    **dict.fromkeys(("-t", "-b", "-s", "-i", "-D"), size_of),
    **{"-a": one_of("POSIX"), "-l": one_of("random", "timestamp"), "-o": str, "-O": _directives},
}


@dataclass(frozen=True, slots=True)
class IorPhase:
    """One write or read of one repetition.

    Attributes
    ----------
    moved_bytes
        Bytes of all tasks together.
    elapsed_s
        From the first open to the last close; the bandwidth refers to this time.
    transfer_s, open_s, close_s, latency_s
        Times of writing or reading, opening and closing (each of the slowest task), and of one
        transfer.
    file_bytes
        Bytes in the files afterwards; ``None``: the moved bytes, at most the requested ones.
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
        """The bandwidth, as IOR computes it."""
        return self.moved_bytes / self.elapsed_s


@dataclass(frozen=True, slots=True)
class Space:
    """Usage of the file system: ``used`` and ``used_inodes`` are fractions."""

    capacity_bytes: float = 0.0
    used: float = 0.0
    inodes: float = 0.0
    used_inodes: float = 0.0


@dataclass(frozen=True, slots=True)
class IorResult:
    """The result of a command, with times by its nodes' clock.

    Attributes
    ----------
    began, finished
        In the zone of the machine; ``finished`` is ``None`` if it was ended early.
    phases
        In order: write and read of the first repetition, of the second ...
    """

    began: datetime
    finished: datetime | None
    phases: tuple[IorPhase, ...]
    host: str = "nid001000"
    space: Space = Space()


def parse_command(argv: Sequence[str], *, tasks: int, nodes: int = 1) -> LoadCommand:
    """Parse a command line of IOR.

    Raises
    ------
    UsageError
        An option that IOR does not have or the twin does not simulate.
    """
    values = parse_options(argv, _OPTIONS)
    directives = values.get("-O", {})
    if "-o" not in values:
        raise UsageError(
            "ior: -o names no file", code="option-missing", hint="the twin has no default file"
        )
    return LoadCommand(
        name="ior",
        benchmark="ior",
        argv=tuple(argv),
        tasks=tasks,
        nodes=nodes,
        file=values["-o"],
        transfer_size_bytes=values.get("-t", 2**18),
        block_size_bytes=values.get("-b", MIB),
        segments=values.get("-s", 1),
        repetitions=values.get("-i", 1),
        accesses=tuple(access for access in ACCESSES if f"-{access[0]}" in values) or ACCESSES,
        file_per_process="-F" in values,
        flush="-e" in values,
        reorder=int("-C" in values),
        direct="--posix.odirect" in values,
        keep="-k" in values,
        duration_s=values.get("-D", 0),
        minimum_duration_s=directives.get("minTimeDuration", 0),
        packet=values.get("-l", "timestamp"),
        json=directives.get("summaryFormat") == "JSON",
    )


def warnings_of(command: LoadCommand, phase: IorPhase) -> list[str]:
    """Return IOR's warnings if the moved bytes differ from the request."""
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
    if command.duration_s:
        lines.append("WARNING: Maybe caused by deadlineForStonewalling")
    return lines


def sized(count: int) -> str:
    """Format a size like IOR.

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
    """Return size, used fraction, inodes and their used fraction, rounded like IOR."""
    tebi = space.capacity_bytes > 2**40
    size = space.capacity_bytes / (2**40 if tebi else 2**30)
    return (
        f"{size:.1f} {'TiB' if tebi else 'GiB'}",
        f"{100 * space.used:2.1f}%",
        f"{space.inodes / MIB:.1f} Mi",
        f"{100 * space.used_inodes:2.1f}%",
    )


def options_of(command: LoadCommand) -> dict[str, str]:
    """Return the options with IOR's names and in its order."""
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
    if command.duration_s:
        options |= {"stonewallingTime": str(command.duration_s), "stoneWallingWearOut": "0"}
    return options


def spread(values: Sequence[float]) -> tuple[float, float, float, float]:
    """Return maximum, minimum, mean and standard deviation, as in a summary."""
    if len(values) == 1:  # usual case: exact fractions take longer than the rest of the output
        return values[0], values[0], values[0], 0.0
    return max(values), min(values), fmean(values), pstdev(values)

"""Simulate IOR 4.0: parse its options, and print its results as text or JSON.

Warnings are mixed into the JSON, as the real IOR does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean, pstdev
from typing import Any, Final

from trimtab.base.error import UsageError
from trimtab.base.plain import size_of
from trimtab.base.run import Access
from trimtab.base.units import MIB
from trimtab.formats.measurement import ACCESSES
from trimtab.twin.load_command import FLAG, NOT_PLAYED, LoadCommand, one_of, parse_options

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
class PrintedSpace:
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
    space: PrintedSpace = PrintedSpace()


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


def space_of(space: PrintedSpace) -> tuple[str, str, str, str]:
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


_NUMBERS: Final = frozenset({
    "segments", "task offset", "nodes", "tasks", "clients per node", "repetitions",
    "stonewallingTime", "stoneWallingWearOut",
})  # fmt: skip
_PACKET: Final = {"random": (3, "i"), "timestamp": (0, "g")}


def print_ior(command: LoadCommand, result: IorResult) -> bytes:
    """Return IOR's output: complete if it finished, else up to that point."""
    text = _json(command, result) if command.json else _text(command, result)
    return text.encode()


def _text(command: LoadCommand, result: IorResult) -> str:
    size, used, inodes, used_inodes = space_of(result.space)
    began = result.began.ctime()
    lines = [
        f"IOR-{VERSION}: MPI Coordinated Test of Parallel I/O",
        f"Began               : {began}",
        f"Command line        : {' '.join(command.argv)}",
        f"Machine             : Linux {result.host}",
        "TestID              : 0",
        f"StartTime           : {began}",
        f"Path                : {command.first_file}",
        f"FS                  : {size}   Used FS: {used}   Inodes: {inodes}"
        f"   Used Inodes: {used_inodes}",
        "",
        "Options: ",
        *(f"{name:<20}: {value}" for name, value in options_of(command).items()),
        "",
        "Results: ",
        "",
        "access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)  "
        " close(s)   total(s)   iter",
        "------    ---------  ----       ----------  ---------- ---------  --------   --------  "
        " --------   --------   ----",
    ]
    counts = dict.fromkeys(command.accesses, 0)
    for phase in result.phases:
        lines += [*warnings_of(command, phase), _row(command, phase, counts[phase.access])]
        counts[phase.access] += 1
    if result.finished is not None:
        lines += [
            "",
            *_summary(command, result),
            f"Finished            : {result.finished.ctime()}",
        ]
    return "\n".join(lines) + "\n"


def _row(command: LoadCommand, phase: IorPhase, repetition: int) -> str:
    iops = phase.moved_bytes / command.transfer_size_bytes / phase.transfer_s
    cells = (
        _column(phase.bandwidth_bytes_per_s / MIB),
        _column(iops),
        _column(phase.latency_s) + " ",
        _column(command.block_size_bytes / 1024),
        _column(command.transfer_size_bytes / 1024),
        _column(phase.open_s),
        _column(phase.transfer_s),
        _column(phase.close_s),
        _column(phase.elapsed_s),
    )
    return f"{phase.access:<10}{''.join(cells)}{repetition:<4d}"


def _column(value: float) -> str:
    """Format a cell of the results: larger values have fewer decimals (IOR's ``PPDouble``)."""
    decimals = 6 if value < 1 else 2 if value < 3600 else 0
    return f"{value:<10.{decimals}f} "


def _summary(command: LoadCommand, result: IorResult) -> list[str]:
    lines = [
        "Summary of all tests:",
        "Operation   Max(MiB)   Min(MiB)  Mean(MiB)     StdDev   Max(OPs)   Min(OPs)  Mean(OPs)"
        "     StdDev    Mean(s) Stonewall(s) Stonewall(MiB) Test# #Tasks tPN reps fPP reord"
        " reordoff reordrand seed segcnt   blksiz    xsize aggs(MiB)   API RefNum",
    ]
    for access in command.accesses:
        phases = [phase for phase in result.phases if phase.access == access]
        if not phases:
            continue
        rates = [phase.bandwidth_bytes_per_s for phase in phases]
        figures = [rate / MIB for rate in spread(rates)]
        figures += [rate / command.transfer_size_bytes for rate in spread(rates)]
        mean_s = fmean(phase.elapsed_s for phase in phases)
        lines.append(
            f"{access:<9} {' '.join(f'{figure:10.2f}' for figure in figures)} {mean_s:10.5f}"
            f" {'NA':>10} {'NA':>13} {0:5d} {command.tasks:6d} {command.tasks_per_node:3d}"
            f" {command.repetitions:4d} {command.file_per_process:3d} {command.reorder:5d}"
            f" {1:8d} {0:9d} {0:4d} {command.segments:6d} {command.block_size_bytes:8d}"
            f" {command.transfer_size_bytes:8d} {phases[-1].moved_bytes / MIB:9.1f}"
            f" POSIX {0:6d}"
        )
    return lines


def _json(command: LoadCommand, result: IorResult) -> str:
    """Return the JSON output: complete if the run finished, else up to that point."""
    began = result.began.ctime()
    parts = [
        "{\n",
        f'  "Version": "{VERSION}", \n  "Began": "{began}", \n',
        f'  "Command line": "{" ".join(command.argv)}", \n  "Machine": "Linux {result.host}", \n',
        '  "tests": [\n    {\n    "TestID": 0, \n',
        f'    "StartTime": "{began}"    , {_space(command, result)}\n, \n',
        _object("Parameters", _parameters(command, result)),
        "\n, \n",
        _object(
            "Options", {name: _value(name, text) for name, text in options_of(command).items()}
        ),
        '\n, \n    "Results": [\n',
    ]
    for place, phase in enumerate(result.phases):
        parts.append(", \n" if place else "")
        parts += [f"{line}\n" for line in warnings_of(command, phase)]
        parts.append(_phase(command, phase))
    if result.finished is not None:
        parts += ["]\n\n  }\n]\n, \n", _summaries(command, result)]
        parts.append(f', \n"Finished": "{result.finished.ctime()}"\n}}\n')
    return "".join(parts)


def _space(command: LoadCommand, result: IorResult) -> str:
    size, used, inodes, used_inodes = space_of(result.space)
    return (
        f'"Path": "{command.first_file}","Capacity": "{size}", "Used Capacity": "{used}",'
        f'"Inodes": "{inodes}", "Used Inodes" : "{used_inodes}"'
    )


def _object(name: str, values: dict[str, str]) -> str:
    rows = ", \n".join(f'      "{key}": {value}' for key, value in values.items())
    return f'    "{name}": {{\n{rows}\n    }}'


def _value(name: str, text: str) -> str:
    return text if name in _NUMBERS else f'"{text}"'


def _parameters(command: LoadCommand, result: IorResult) -> dict[str, str]:
    number, letter = _PACKET[command.packet]
    values: dict[str, object] = {
        "testID": 0, "refnum": 0, "api": '"POSIX"', "platform": f'"{result.host}(Linux)"',
        "testFileName": f'"{command.file}"', "deadlineForStonewall": command.duration_s,
        "stoneWallingWearOut": 0, "maxTimeDuration": 0, "outlierThreshold": 0,
        "options": '"(null)"', "dryRun": 0, "nodes": command.nodes, "memoryPerTask": 0,
        "memoryPerNode": 0, "tasksPerNode": command.tasks_per_node,
        "repetitions": command.repetitions, "multiFile": 0, "interTestDelay": 0,
        "fsync": int(command.flush), "fsyncperwrite": 0, "useExistingTestFile": 0, "uniqueDir": 0,
        "singleXferAttempt": 0, "readFile": int("read" in command.accesses),
        "writeFile": int("write" in command.accesses), "filePerProc": int(command.file_per_process),
        "reorderTasks": int(command.reorder), "reorderTasksRandom": 0,
        "reorderTasksRandomSeed": 0, "randomOffset": 0, "checkWrite": 0, "checkRead": 0,
        "dataPacketType": number, "keepFile": int(command.keep), "keepFileWithError": 0,
        "warningAsErrors": 0, "verbose": 0, "data packet type": f'"{letter}"',
        "setTimeStampSignature/incompressibleSeed": 0, "collective": 0,
        "segmentCount": command.segments, "transferSize": command.transfer_size_bytes,
        "blockSize": command.block_size_bytes,
    }  # fmt: skip
    return {name: str(value) for name, value in values.items()}


def _phase(command: LoadCommand, phase: IorPhase) -> str:
    figures = {
        "bwMiB": phase.bandwidth_bytes_per_s / 2**20,
        "blockKiB": command.block_size_bytes / 1024,
        "xferKiB": command.transfer_size_bytes / 1024,
        "iops": phase.moved_bytes / command.transfer_size_bytes / phase.transfer_s,
        "latency": phase.latency_s,
        "openTime": phase.open_s,
        "wrRdTime": phase.transfer_s,
        "closeTime": phase.close_s,
        "totalTime": phase.elapsed_s,
    }
    rows = ", \n".join(f'        "{name}": {value:.4f}' for name, value in figures.items())
    return f'            {{\n        "access": "{phase.access}", \n{rows}\n      }}\n'


def _summaries(command: LoadCommand, result: IorResult) -> str:
    objects: list[str] = []
    for access in command.accesses:
        phases = [phase for phase in result.phases if phase.access == access]
        if not phases:
            continue
        rates = spread([phase.bandwidth_bytes_per_s for phase in phases])
        values: dict[str, str | int] = {
            "operation": f'"{access}"', "API": '"POSIX"', "TestID": 0, "ReferenceNumber": 0,
            "segmentCount": command.segments, "blockSize": command.block_size_bytes,
            "transferSize": command.transfer_size_bytes, "numTasks": command.tasks,
            "tasksPerNode": command.tasks_per_node, "repetitions": command.repetitions,
            "filePerProc": int(command.file_per_process), "reorderTasks": int(command.reorder),
            "taskPerNodeOffset": 1, "reorderTasksRandom": 0, "reorderTasksRandomSeed": 0,
        }  # fmt: skip
        for names, scale in (
            (("bwMaxMIB", "bwMinMIB", "bwMeanMIB", "bwStdMIB"), 2**20),
            (("OPsMax", "OPsMin", "OPsMean", "OPsSD"), command.transfer_size_bytes),
        ):
            for name, rate in zip(names, rates, strict=True):
                values[name] = f"{rate / scale:.4f}"
        values["MeanTime"] = f"{fmean(phase.elapsed_s for phase in phases):.4f}"
        values["xsizeMiB"] = f"{phases[-1].moved_bytes / 2**20:.4f}"
        rows = ", \n".join(f'    "{name}": {value}' for name, value in values.items())
        objects.append(f"    {{\n{rows}\n  }}")
    joined = "\n, \n".join(objects)
    return f'"summary": [\n{joined}\n]\n'

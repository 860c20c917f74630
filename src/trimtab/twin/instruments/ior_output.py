"""Prints IOR 4.0's output as text, or as JSON with warnings mixed in like the real one."""

from __future__ import annotations

from statistics import fmean
from typing import Final

from trimtab.twin.instruments.command import LoadCommand
from trimtab.twin.instruments.ior import (
    VERSION,
    IorPhase,
    IorResult,
    options_of,
    space_of,
    spread,
    warnings_of,
)
from trimtab.units import MIB

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

"""The JSON of IOR 4.0, with its warnings in between as the real one mixes them."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Final

from trimtab.twin.instruments.sizes import ctime

if TYPE_CHECKING:
    from trimtab.twin.instruments.ior import IorAsked, IorPhase, IorResult

_NUMBERS: Final = frozenset({
    "segments", "task offset", "nodes", "tasks", "clients per node", "repetitions",
    "stonewallingTime", "stoneWallingWearOut",
})  # fmt: skip
_PACKET: Final = {"random": (3, "i"), "timestamp": (0, "g")}


def printed(asked: IorAsked, result: IorResult) -> str:
    """Return the output of a run: whole where it finished, else as far as it came."""
    from trimtab.twin.instruments.ior import VERSION, options_of, warnings_of

    began = ctime(result.began)
    parts = [
        "{\n",
        f'  "Version": "{VERSION}", \n  "Began": "{began}", \n',
        f'  "Command line": "{" ".join(asked.argv)}", \n  "Machine": "Linux {result.host}", \n',
        '  "tests": [\n    {\n    "TestID": 0, \n',
        f'    "StartTime": "{began}"    , {_space(asked, result)}\n, \n',
        _object("Parameters", _parameters(asked, result)),
        "\n, \n",
        _object("Options", {name: _value(name, text) for name, text in options_of(asked).items()}),
        '\n, \n    "Results": [\n',
        *(f"{line}\n" for line in result.warnings),
    ]
    for place, phase in enumerate(result.phases):
        parts.append(", \n" if place else "")
        parts += [f"{line}\n" for line in warnings_of(asked, phase)]
        parts.append(_result(asked, phase))
    if result.finished is not None:
        parts += ["]\n\n  }\n]\n, \n", _summaries(asked, result)]
        parts.append(f', \n"Finished": "{ctime(result.finished)}"\n}}\n')
    return "".join(parts)


def _space(asked: IorAsked, result: IorResult) -> str:
    from trimtab.twin.instruments.ior import space_of, test_file

    size, used, inodes, used_inodes = space_of(result.space)
    return (
        f'"Path": "{test_file(asked)}","Capacity": "{size}", "Used Capacity": "{used}",'
        f'"Inodes": "{inodes}", "Used Inodes" : "{used_inodes}"'
    )


def _object(name: str, values: dict[str, str]) -> str:
    rows = ", \n".join(f'      "{key}": {value}' for key, value in values.items())
    return f'    "{name}": {{\n{rows}\n    }}'


def _value(name: str, text: str) -> str:
    return text if name in _NUMBERS else f'"{text}"'


def _parameters(asked: IorAsked, result: IorResult) -> dict[str, str]:
    number, letter = _PACKET[asked.packet]
    values: dict[str, int | str] = {
        "testID": 0, "refnum": 0, "api": '"POSIX"', "platform": f'"{result.host}(Linux)"',
        "testFileName": f'"{asked.file}"', "deadlineForStonewall": asked.deadline_s,
        "stoneWallingWearOut": 0, "maxTimeDuration": 0, "outlierThreshold": 0,
        "options": '"(null)"', "dryRun": 0, "nodes": asked.nodes, "memoryPerTask": 0,
        "memoryPerNode": 0, "tasksPerNode": asked.tasks_per_node,
        "repetitions": asked.repetitions, "multiFile": 0, "interTestDelay": 0,
        "fsync": int(asked.flush), "fsyncperwrite": 0, "useExistingTestFile": 0, "uniqueDir": 0,
        "singleXferAttempt": 0, "readFile": int("read" in asked.accesses),
        "writeFile": int("write" in asked.accesses), "filePerProc": int(asked.file_per_process),
        "reorderTasks": int(asked.reorder), "reorderTasksRandom": 0,
        "reorderTasksRandomSeed": 0, "randomOffset": 0, "checkWrite": 0, "checkRead": 0,
        "dataPacketType": number, "keepFile": int(asked.keep), "keepFileWithError": 0,
        "warningAsErrors": 0, "verbose": 0, "data packet type": f'"{letter}"',
        "setTimeStampSignature/incompressibleSeed": 0, "collective": 0,
        "segmentCount": asked.segments, "transferSize": asked.transfer_size_bytes,
        "blockSize": asked.block_size_bytes,
    }  # fmt: skip
    return {name: str(value) for name, value in values.items()}


def _result(asked: IorAsked, phase: IorPhase) -> str:
    figures = {
        "bwMiB": phase.bandwidth_bytes_per_s / 2**20,
        "blockKiB": asked.block_size_bytes / 1024,
        "xferKiB": asked.transfer_size_bytes / 1024,
        "iops": phase.moved_bytes / asked.transfer_size_bytes / phase.transfer_s,
        "latency": phase.latency_s,
        "openTime": phase.open_s,
        "wrRdTime": phase.transfer_s,
        "closeTime": phase.close_s,
        "totalTime": phase.elapsed_s,
    }
    rows = ", \n".join(f'        "{name}": {value:.4f}' for name, value in figures.items())
    return f'            {{\n        "access": "{phase.access}", \n{rows}\n      }}\n'


def _summaries(asked: IorAsked, result: IorResult) -> str:
    from trimtab.twin.instruments.ior import spread

    objects: list[str] = []
    for access in asked.accesses:
        phases = [one for one in result.phases if one.access == access]
        if not phases:
            continue
        rates = spread([one.bandwidth_bytes_per_s for one in phases])
        values: dict[str, str | int] = {
            "operation": f'"{access}"', "API": '"POSIX"', "TestID": 0, "ReferenceNumber": 0,
            "segmentCount": asked.segments, "blockSize": asked.block_size_bytes,
            "transferSize": asked.transfer_size_bytes, "numTasks": asked.tasks,
            "tasksPerNode": asked.tasks_per_node, "repetitions": asked.repetitions,
            "filePerProc": int(asked.file_per_process), "reorderTasks": int(asked.reorder),
            "taskPerNodeOffset": 1, "reorderTasksRandom": 0, "reorderTasksRandomSeed": 0,
        }  # fmt: skip
        for names, scale in (
            (("bwMaxMIB", "bwMinMIB", "bwMeanMIB", "bwStdMIB"), 2**20),
            (("OPsMax", "OPsMin", "OPsMean", "OPsSD"), asked.transfer_size_bytes),
        ):
            for name, rate in zip(names, rates, strict=True):
                values[name] = f"{rate / scale:.4f}"
        values["MeanTime"] = f"{fmean(one.elapsed_s for one in phases):.4f}"
        values["xsizeMiB"] = f"{phases[-1].moved_bytes / 2**20:.4f}"
        rows = ", \n".join(f'    "{name}": {value}' for name, value in values.items())
        objects.append(f"    {{\n{rows}\n  }}")
    joined = "\n, \n".join(objects)
    return f'"summary": [\n{joined}\n]\n'

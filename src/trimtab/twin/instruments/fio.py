"""fio 3.33 as the twin plays it: its JSON of one job with one access."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from trimtab.errors import UsageError
from trimtab.model.run import Access
from trimtab.twin.instruments.options import options_of
from trimtab.twin.instruments.sizes import ctime

VERSION: Final = "fio-3.33"
_FLAGS: Final = ("--thread", "--time_based", "--readonly", "--group_reporting")
_VALUES: Final = (
    "--name", "--directory", "--filename_format", "--rw", "--bs", "--size", "--numjobs",
    "--ioengine", "--direct", "--invalidate", "--fallocate", "--unlink", "--runtime",
    "--end_fsync", "--allow_file_create", "--percentile_list", "--eta", "--output-format",
)  # fmt: skip
_NOT_OPTIONS_OF_A_JOB: Final = frozenset({"--eta", "--output-format", "--allow_file_create"})


@dataclass(frozen=True, slots=True)
class FioAsked:
    """What a command of fio asks for.

    Attributes
    ----------
    options
        Of the job, by fio's names.
    percentiles
        As on the command line: ``50``, ``99.9``.
    """

    argv: tuple[str, ...]
    access: Access
    tasks: int
    transfer_size_bytes: int
    size_bytes: int
    runtime_s: float
    direct: bool
    percentiles: tuple[str, ...]
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FioResult:
    """What came of it.

    Attributes
    ----------
    finished
        Aware; fio prints the time at which it prints.
    percentiles_s
        Percentile as on the command line to seconds.
    """

    finished: datetime
    moved_bytes: int
    elapsed_s: float
    mean_s: float
    percentiles_s: Mapping[str, float] = field(default_factory=dict)


def asked_of(argv: Sequence[str]) -> FioAsked:
    """Return what a command of fio asks for.

    Raises
    ------
    UsageError
        An option that the twin does not play, which is named, or another access or output.
    """
    found = options_of(argv, flags=_FLAGS, values=_VALUES)
    access = found.text("--rw")
    if access not in ("write", "read"):
        raise UsageError(f"fio: the twin does not play --rw={access}", hint="write or read")
    if not found.values.get("--output-format", "").startswith("json"):
        raise UsageError("fio: the twin prints JSON alone", hint="add --output-format=json+")
    runtime = found.values.get("--runtime", "0ms")
    if not (runtime.endswith("ms") and runtime[:-2].isdecimal()):
        raise UsageError(f"fio: --runtime is {runtime!r}", hint="the twin takes 1000ms")
    options = {
        name[2:]: value for name, value in found.values.items() if name not in _NOT_OPTIONS_OF_A_JOB
    }
    return FioAsked(
        argv=tuple(argv),
        access="write" if access == "write" else "read",
        tasks=found.whole("--numjobs", 1),
        transfer_size_bytes=found.whole("--bs", 4096),
        size_bytes=found.whole("--size", 0),
        runtime_s=int(runtime[:-2]) / 1000,
        direct=found.values.get("--direct", "0") == "1",
        percentiles=tuple(found.values.get("--percentile_list", "").split(":")),
        options=options,
    )


def print_fio(asked: FioAsked, result: FioResult) -> bytes:
    """Return the JSON of a run. Its time is in whole milliseconds, and its bytes a second are of
    those, as fio has it.
    """
    runtime_ms = max(1, round(result.elapsed_s * 1000))
    own = _access(asked, result, runtime_ms)
    other = "read" if asked.access == "write" else "write"
    job = {
        "jobname": asked.options.get("name", "job"),
        "groupid": 0,
        "error": 0,
        "eta": 0,
        "elapsed": runtime_ms // 1000 + 1,
        "job options": dict(asked.options),
        "read": own if other == "write" else _nothing(),
        "write": own if other == "read" else _nothing(),
        "trim": _nothing(),
    }
    timestamp_ms = round(result.finished.timestamp() * 1000)
    document = {
        "fio version": VERSION,
        "timestamp": timestamp_ms // 1000,
        "timestamp_ms": timestamp_ms,
        "time": ctime(result.finished),
        "jobs": [job],
    }
    return (json.dumps(document, indent=2, separators=(",", " : ")) + "\n").encode()


def _access(asked: FioAsked, result: FioResult, runtime_ms: int) -> dict[str, object]:
    operations = result.moved_bytes // asked.transfer_size_bytes
    rate = result.moved_bytes * 1000 // runtime_ms
    return {
        "io_bytes": result.moved_bytes,
        "io_kbytes": result.moved_bytes // 1024,
        "bw_bytes": rate,
        "bw": rate // 1024,
        "iops": round(operations * 1000 / runtime_ms, 6),
        "runtime": runtime_ms,
        "total_ios": operations,
        "short_ios": 0,
        "drop_ios": 0,
        "clat_ns": {
            "mean": result.mean_s * 1e9,
            "N": operations,
            "percentile": {
                f"{float(name):.6f}": round(result.percentiles_s[name] * 1e9)
                for name in asked.percentiles
                if name in result.percentiles_s
            },
        },
    }


def _nothing() -> dict[str, object]:
    return {
        "io_bytes": 0, "io_kbytes": 0, "bw_bytes": 0, "bw": 0, "iops": 0.0, "runtime": 0,
        "total_ios": 0, "short_ios": 0, "drop_ios": 0,
    }  # fmt: skip

"""The built-in generator as the twin plays it: its one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from trimtab.errors import UsageError
from trimtab.model.run import Access
from trimtab.twin.instruments.options import options_of

VERSION: Final = "0.1.0"
_FLAGS: Final = (
    "--write", "--read", "--keep", "--shared-file", "--fsync", "--direct", "--alone", "--overwrite",
)  # fmt: skip
_VALUES: Final = (
    "--dir", "--name", "--tasks", "--transfer-size", "--block-size", "--deadline",
    "--minimum-duration", "--reorder", "--run-id",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LoadAsked:
    """What a command of the generator asks for; see its ``--help``."""

    argv: tuple[str, ...]
    access: Access
    tasks: int
    directory: str
    name: str
    transfer_size_bytes: int
    block_size_bytes: int
    deadline_s: float
    minimum_duration_s: float
    file_per_process: bool
    flush: bool
    direct: bool
    reorder: int
    run_id: str


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What came of it.

    Attributes
    ----------
    latency
        ``mean_s``, ``p50_s``, ``p90_s``, ``p99_s``, ``p999_s``, ``max_s``, those that are known.
    error
        Why it stopped; it had moved ``moved_bytes`` by then.
    """

    began: datetime
    moved_bytes: int
    elapsed_s: float
    host: str = "nid001000"
    latency: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None


def asked_of(argv: Sequence[str], *, tasks: int = 1) -> LoadAsked:
    """Return what a command of the generator asks for; ``tasks`` are the ranks that were started.

    Raises
    ------
    UsageError
        An option that the twin does not play, which is named, or not one access.
    """
    found = options_of(argv, flags=_FLAGS, values=_VALUES)
    accesses: list[Access] = [one for one in ("write", "read") if f"--{one}" in found.flags]
    if len(accesses) != 1:
        raise UsageError("trimtab-ioload: the twin plays --write or --read, one at a time")
    own = found.whole("--tasks", 1)
    return LoadAsked(
        argv=tuple(argv),
        access=accesses[0],
        tasks=own if "--alone" in found.flags else own * tasks,
        directory=found.text("--dir"),
        name=found.values.get("--name", "data"),
        transfer_size_bytes=found.whole("--transfer-size", 2**20),
        block_size_bytes=found.whole("--block-size", 2**30),
        deadline_s=found.number("--deadline", 0.0),
        minimum_duration_s=found.number("--minimum-duration", 0.0),
        file_per_process="--shared-file" not in found.flags,
        flush="--fsync" in found.flags,
        direct="--direct" in found.flags,
        reorder=found.whole("--reorder", 0),
        run_id=found.values.get("--run-id", "0000000000000000"),
    )


def print_load(asked: LoadAsked, result: LoadResult) -> bytes:
    """Return the report of the generator."""
    status = "ok" if result.error is None else "failed"
    error = None
    if result.error is not None:
        error = {"kind": "io", "message": result.error, "path": None, "errno": None}
    phase = {
        "access": asked.access,
        "status": status,
        "error": error,
        "began_at": result.began.isoformat(),
        "bytes": result.moved_bytes,
        "transfers": result.moved_bytes // asked.transfer_size_bytes,
        "elapsed_s": result.elapsed_s,
        "bandwidth_bytes_per_s": result.moved_bytes / result.elapsed_s,
        "stonewall": None,
        "latency": dict(result.latency) or None,
        "timeline": None,
        "verify": None,
        "per_task": [],
    }
    report = {
        "ioload": VERSION,
        "argv": list(asked.argv),
        "run_id": asked.run_id,
        "hosts": [result.host],
        "ranks": 1,
        "tasks": asked.tasks,
        "clock": "simulated",
        "status": status,
        "error": error,
        "parameters": {
            "dir": asked.directory,
            "name": asked.name,
            "transfer_size_bytes": asked.transfer_size_bytes,
            "block_size_bytes": asked.block_size_bytes,
            "segments": 1,
            "layout": "file-per-process" if asked.file_per_process else "shared-file",
            "offsets": "sequential",
            "reorder": asked.reorder,
            "fsync": asked.flush,
            "deadline_s": asked.deadline_s,
            "minimum_duration_s": asked.minimum_duration_s,
            "wear_out": False,
            "verify": False,
        },
        "direct": {"asked": asked.direct, "used": asked.direct, "reason": None},
        "phases": [phase],
    }
    return (json.dumps(report, separators=(",", ":")) + "\n").encode()

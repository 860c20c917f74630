"""Simulates the built-in generator: its command and its line of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from trimtab.errors import UsageError
from trimtab.measure.measurement import ACCESSES
from trimtab.twin.instruments.command import FLAG, LoadCommand, parse_options
from trimtab.units import is_digits

VERSION: Final = "0.1.0"


def _whole(text: str) -> int | None:
    return int(text) if is_digits(text) else None


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


_OPTIONS: Final[Mapping[str, Callable[[str], Any] | None]] = {
    **dict.fromkeys(("--write", "--read", "--keep", "--shared-file", "--fsync"), FLAG),
    **dict.fromkeys(("--direct", "--alone", "--overwrite"), FLAG),
    **dict.fromkeys(("--dir", "--name", "--run-id"), str),
    **dict.fromkeys(("--tasks", "--transfer-size", "--block-size", "--reorder"), _whole),
    **dict.fromkeys(("--deadline", "--minimum-duration"), _seconds),
}


@dataclass(frozen=True, slots=True)
class IoloadResult:
    """The result of a command.

    Attributes
    ----------
    latency
        ``mean_s``, ``p50_s``, ``p90_s``, ``p99_s``, ``p999_s``, ``max_s``, if known.
    """

    began: datetime
    moved_bytes: int
    elapsed_s: float
    host: str = "nid001000"
    latency: Mapping[str, float] = field(default_factory=dict)


def parse_command(argv: Sequence[str], *, tasks: int = 1, nodes: int = 1) -> LoadCommand:
    """Parse a command line of the generator; ``tasks`` is the number of ranks.

    Raises
    ------
    UsageError
        An option that the twin does not simulate, or not exactly one access.
    """
    values = parse_options(argv, _OPTIONS)
    accesses = tuple(access for access in ACCESSES if f"--{access}" in values)
    if len(accesses) != 1:
        raise UsageError(
            "trimtab-ioload: the twin simulates either --write or --read",
            code="access-ambiguous",
        )
    if "--dir" not in values:
        raise UsageError("trimtab-ioload: --dir is missing", code="option-missing")
    return LoadCommand(
        name="ioload",
        benchmark="builtin",
        argv=tuple(argv),
        accesses=accesses,
        tasks=values.get("--tasks", 1) * (1 if "--alone" in values else tasks),
        nodes=nodes,
        file=f"{values['--dir'].rstrip('/')}/{values.get('--name', 'data')}",
        transfer_size_bytes=values.get("--transfer-size", 2**20),
        block_size_bytes=values.get("--block-size", 2**30),
        repetitions=1,
        duration_s=values.get("--deadline", 0.0),
        minimum_duration_s=values.get("--minimum-duration", 0.0),
        file_per_process="--shared-file" not in values,
        flush="--fsync" in values,
        direct="--direct" in values,
        reorder=values.get("--reorder", 0),
        run_id=values.get("--run-id", "0000000000000000"),
    )


def print_load(command: LoadCommand, result: IoloadResult) -> bytes:
    """Return the report of the generator."""
    directory, _, name = command.file.rpartition("/")
    phase = {
        "access": command.accesses[0],
        "status": "ok",
        "error": None,
        "began_at": result.began.isoformat(),
        "bytes": result.moved_bytes,
        "transfers": result.moved_bytes // command.transfer_size_bytes,
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
        "argv": list(command.argv),
        "run_id": command.run_id,
        "hosts": [result.host],
        "ranks": 1,
        "tasks": command.tasks,
        "clock": "simulated",
        "status": "ok",
        "error": None,
        "parameters": {
            "dir": directory,
            "name": name,
            "transfer_size_bytes": command.transfer_size_bytes,
            "block_size_bytes": command.block_size_bytes,
            "segments": 1,
            "layout": "file-per-process" if command.file_per_process else "shared-file",
            "offsets": "sequential",
            "reorder": command.reorder,
            "fsync": command.flush,
            "deadline_s": command.duration_s,
            "minimum_duration_s": command.minimum_duration_s,
            "wear_out": False,
            "verify": False,
        },
        "direct": {"asked": command.direct, "used": command.direct, "reason": None},
        "phases": [phase],
    }
    return (json.dumps(report, separators=(",", ":")) + "\n").encode()

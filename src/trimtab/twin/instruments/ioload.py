"""The built-in generator as the twin plays it: its one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from trimtab.errors import UsageError
from trimtab.model.run import Access
from trimtab.units import is_digits

VERSION: Final = "0.1.0"
_FLAGS: Final = (
    "--write", "--read", "--keep", "--shared-file", "--fsync", "--direct", "--alone", "--overwrite",
)  # fmt: skip


def _whole(text: str) -> int:
    if not is_digits(text):
        raise ValueError(text)
    return int(text)


_VALUES: Final[Mapping[str, Callable[[str], Any]]] = {
    "--dir": str, "--name": str, "--run-id": str, "--tasks": _whole, "--transfer-size": _whole,
    "--block-size": _whole, "--reorder": _whole, "--deadline": float, "--minimum-duration": float,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class IoloadCommand:
    """A command line of the generator, parsed; see its ``--help``."""

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
class IoloadResult:
    """The result of a command.

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


def parse_command(argv: Sequence[str], *, tasks: int = 1) -> IoloadCommand:
    """Return a command line of the generator, parsed; ``tasks`` are the ranks that were started.

    Raises
    ------
    UsageError
        An option that the twin does not play, which is named, or not one access.
    """
    flags, values = _options(argv)
    accesses: list[Access] = [access for access in ("write", "read") if f"--{access}" in flags]
    if len(accesses) != 1:
        raise UsageError(
            "trimtab-ioload: the twin plays --write or --read, one at a time",
            code="access-ambiguous",
        )
    if "--dir" not in values:
        raise UsageError("trimtab-ioload: --dir is missing", code="option-missing")
    tasks_per_rank = values.get("--tasks", 1)
    return IoloadCommand(
        argv=tuple(argv),
        access=accesses[0],
        tasks=tasks_per_rank if "--alone" in flags else tasks_per_rank * tasks,
        directory=values["--dir"],
        name=values.get("--name", "data"),
        transfer_size_bytes=values.get("--transfer-size", 2**20),
        block_size_bytes=values.get("--block-size", 2**30),
        deadline_s=values.get("--deadline", 0.0),
        minimum_duration_s=values.get("--minimum-duration", 0.0),
        file_per_process="--shared-file" not in flags,
        flush="--fsync" in flags,
        direct="--direct" in flags,
        reorder=values.get("--reorder", 0),
        run_id=values.get("--run-id", "0000000000000000"),
    )


def _options(argv: Sequence[str]) -> tuple[set[str], dict[str, Any]]:
    """Return flags and values of a command line: ``--name VALUE``, ``--name=VALUE`` or a flag.

    Raises
    ------
    UsageError
        An option that the twin does not play, or one without a value of its type; it is named.
    """
    program = argv[0].rpartition("/")[2]
    values: dict[str, Any] = {}
    flags: set[str] = set()
    words = iter(argv[1:])
    for word in words:
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in _FLAGS and not equals:
            flags.add(name)
        elif name in _VALUES:
            text = value if equals else next(words, None)
            if text is None:
                raise UsageError(
                    f"{program}: option {name} has no value", code="option-without-value"
                )
            try:
                values[name] = _VALUES[name](text)
            except ValueError:
                message = f"{program}: {name} is {text!r}: not a number"
                raise UsageError(message, code="wrong-type") from None
        else:
            known = ", ".join(sorted({*_FLAGS, *_VALUES}))
            raise UsageError(
                f"{program}: the twin does not play the option {word!r}",
                code="option-not-simulated",
                hint=f"it knows {known}",
            )
    return flags, values


def print_load(command: IoloadCommand, result: IoloadResult) -> bytes:
    """Return the report of the generator."""
    status = "ok" if result.error is None else "failed"
    error = None
    if result.error is not None:
        error = {"kind": "io", "message": result.error, "path": None, "errno": None}
    phase = {
        "access": command.access,
        "status": status,
        "error": error,
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
        "status": status,
        "error": error,
        "parameters": {
            "dir": command.directory,
            "name": command.name,
            "transfer_size_bytes": command.transfer_size_bytes,
            "block_size_bytes": command.block_size_bytes,
            "segments": 1,
            "layout": "file-per-process" if command.file_per_process else "shared-file",
            "offsets": "sequential",
            "reorder": command.reorder,
            "fsync": command.flush,
            "deadline_s": command.deadline_s,
            "minimum_duration_s": command.minimum_duration_s,
            "wear_out": False,
            "verify": False,
        },
        "direct": {"asked": command.direct, "used": command.direct, "reason": None},
        "phases": [phase],
    }
    return (json.dumps(report, separators=(",", ":")) + "\n").encode()

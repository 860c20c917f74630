"""The built-in generator as the twin plays it: its one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from trimtab.errors import UsageError
from trimtab.model.run import Access

VERSION: Final = "0.1.0"
_FLAGS: Final = (
    "--write", "--read", "--keep", "--shared-file", "--fsync", "--direct", "--alone", "--overwrite",
)  # fmt: skip
_VALUES: Final = (
    "--dir", "--name", "--tasks", "--transfer-size", "--block-size", "--deadline",
    "--minimum-duration", "--reorder", "--run-id",
)  # fmt: skip


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
    options = _options(argv)
    accesses: list[Access] = [
        access for access in ("write", "read") if f"--{access}" in options.flags
    ]
    if len(accesses) != 1:
        raise UsageError(
            "trimtab-ioload: the twin plays --write or --read, one at a time",
            code="access-ambiguous",
        )
    tasks_per_rank = options.whole("--tasks", 1)
    return IoloadCommand(
        argv=tuple(argv),
        access=accesses[0],
        tasks=tasks_per_rank if "--alone" in options.flags else tasks_per_rank * tasks,
        directory=options.text("--dir"),
        name=options.values.get("--name", "data"),
        transfer_size_bytes=options.whole("--transfer-size", 2**20),
        block_size_bytes=options.whole("--block-size", 2**30),
        deadline_s=options.number("--deadline", 0.0),
        minimum_duration_s=options.number("--minimum-duration", 0.0),
        file_per_process="--shared-file" not in options.flags,
        flush="--fsync" in options.flags,
        direct="--direct" in options.flags,
        reorder=options.whole("--reorder", 0),
        run_id=options.values.get("--run-id", "0000000000000000"),
    )


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of a command line; ``program`` is the name that messages use."""

    program: str
    flags: frozenset[str]
    values: Mapping[str, str]

    def whole(self, name: str, default: int) -> int:
        """Return a value that is a whole number.

        Raises
        ------
        UsageError
            It is none.
        """
        text = self.values.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdecimal()):
            raise UsageError(
                f"{self.program}: {name} is {text!r}: no whole number", code="wrong-type"
            )
        return int(text)

    def number(self, name: str, default: float) -> float:
        """Return a value that is a number; see `whole`."""
        text = self.values.get(name)
        if text is None:
            return default
        try:
            return float(text)
        except ValueError:
            raise UsageError(
                f"{self.program}: {name} is {text!r}: no number", code="wrong-type"
            ) from None

    def text(self, name: str) -> str:
        """Return a value that has to be there.

        Raises
        ------
        UsageError
            It is not.
        """
        if name not in self.values:
            raise UsageError(f"{self.program}: {name} is missing", code="option-missing")
        return self.values[name]


def _options(argv: Sequence[str]) -> _Options:
    """Return the options of a command line: ``--name VALUE``, ``--name=VALUE`` or a flag.

    Raises
    ------
    UsageError
        An option that the twin does not play, or one without its value; it is named.
    """
    program = argv[0].rpartition("/")[2]
    values: dict[str, str] = {}
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
            values[name] = text
        else:
            known = ", ".join(sorted({*_FLAGS, *_VALUES}))
            raise UsageError(
                f"{program}: the twin does not play the option {word!r}",
                code="option-not-simulated",
                hint=f"it knows {known}",
            )
    return _Options(program, frozenset(flags), values)


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

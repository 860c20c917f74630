"""Parse benchmark command lines, and print the built-in generator's result or a run's failure.

Options that the twin does not simulate are errors.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from trimtab.base.error import Message, UsageError
from trimtab.base.run import ProbeSpec
from trimtab.base.units import is_digits
from trimtab.formats.measurement import ACCESSES

FLAG: Final = None
"""Marks an option without a value."""
NOT_PLAYED: Final = object()
"""Marks a valid value that the twin does not simulate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCommand(ProbeSpec):
    """A parsed command line of a benchmark.

    Attributes
    ----------
    argv
        Starts with the program.
    file
        The shared file; a task's own file has the task's number appended.
    reorder
        Number of nodes between a task and the file it reads.
    minimum_duration_s
        Time before which no task stops, as ``duration_s`` is when all stop; 0: none.
    """

    argv: tuple[str, ...]
    file: str
    segments: int = 1
    reorder: int = 0
    keep: bool = False
    minimum_duration_s: float
    packet: str = "timestamp"
    json: bool = True
    run_id: str = ""

    @property
    def fixed_s(self) -> float:
        """Fixed duration of each write and read; 0: until the files are complete."""
        return max(self.duration_s, self.minimum_duration_s)

    @property
    def tasks_per_node(self) -> int:
        """Tasks on the first task's node."""
        return math.ceil(self.tasks / self.nodes)

    @property
    def task_bytes(self) -> int:
        """Bytes of each task's complete file."""
        return self.block_size_bytes * self.segments

    @property
    def aggregate_bytes(self) -> int:
        """Bytes of all tasks' complete files."""
        return self.task_bytes * self.tasks

    @property
    def first_file(self) -> str:
        """The file of the first task."""
        return self._file_of(0)

    @property
    def files(self) -> tuple[str, ...]:
        """The files, in task order."""
        return tuple(map(self._file_of, range(self.tasks if self.file_per_process else 1)))

    def _file_of(self, task: int) -> str:
        return f"{self.file}.{task:08d}" if self.file_per_process else self.file


def one_of(*names: str) -> Callable[[str], object]:
    """Return a parser for an option of which the twin simulates only some values."""
    return lambda text: text if text in names else NOT_PLAYED


def parse_options(
    argv: Sequence[str], known: Mapping[str, Callable[[str], Any] | None]
) -> dict[str, Any]:
    """Return options with their values: ``-x VALUE``, ``--name VALUE``, ``--name=VALUE``.

    The value of a flag is ``True``; tables of a repeated option are merged.

    Parameters
    ----------
    known
        Option to the parser of its value, which returns ``None`` for a wrong type, or `FLAG`.

    Raises
    ------
    UsageError
        An option that the twin does not simulate, or one with a missing or wrong value.
    """
    program = argv[0].rpartition("/")[2]
    values: dict[str, Any] = {}
    words = iter(argv[1:])
    for word in words:
        name, equals, text = word.partition("=") if word.startswith("--") else (word, "", "")
        if name not in known or (equals and known[name] is FLAG):
            raise _not_played(program, word, known)
        read = known[name]
        if read is FLAG:
            values[name] = True
            continue
        text = text if equals else next(words, None)
        if text is None:
            raise UsageError(f"{program}: option {name} has no value", code="option-without-value")
        value = read(text)
        if value is None:
            message = f"{program}: the twin does not simulate {name} {text}"
            raise UsageError(message, code="wrong-type")
        if value is NOT_PLAYED:
            raise _not_played(program, f"{name} {text}", known)
        values[name] = {**values.get(name, {}), **value} if isinstance(value, dict) else value
    return values


def _not_played(program: str, words: str, known: Iterable[str]) -> UsageError:
    return UsageError(
        f"{program}: the twin does not simulate the option {words!r}",
        code="option-not-simulated",
        hint=f"supported: {', '.join(sorted(known))}",
    )


@dataclass(frozen=True, slots=True)
class FailedOutput:
    """A run that failed or was never started.

    Attributes
    ----------
    started
        Whether its command ran; otherwise there is only the reason.
    """

    stdout: bytes
    stderr: bytes
    exit_code: int
    reason: Message
    started: bool = True


def no_name_service(node: str = "nid001000") -> FailedOutput:
    """Return the failure of a launcher that cannot resolve the name of one of its nodes."""
    message = (
        f"ssh: Could not resolve hostname {node}: Temporary failure in name resolution\n"
        f"{'-' * 74}\nORTE was unable to reliably start one or more daemons.\n{'-' * 74}\n"
    )
    reason = Message("name-service", f"{node}: no name service")
    return FailedOutput(b"", message.encode(), 1, reason, started=False)


def no_space(path: str, node: str = "nid001000") -> FailedOutput:
    """Return the failure of IOR on a full file system, which is mounted at ``path``."""
    message = (
        "ior: aiori-POSIX.c:818: POSIX_Xfer: Assertion `rc >= 0' failed.\n"
        f"{'-' * 74}\nmpirun noticed that process rank 0 with PID 0 on node {node} exited"
        f" on signal 6 (Aborted).\n{'-' * 74}\n"
    )
    return FailedOutput(b"", message.encode(), 134, Message("no-space", f"no space left on {path}"))


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

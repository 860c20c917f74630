"""Parses the benchmark command lines that the twin simulates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trimtab.errors import UsageError
from trimtab.model.run import ProbeSpec

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

"""Command lines of benchmarks as the twin plays them: their options, and what they ask for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trimtab.errors import UsageError
from trimtab.model.run import ProbeSpec

FLAG: Final = None
"""Stands for how the value of an option is read that has none."""
NOT_PLAYED: Final = object()
"""Stands for a value that is valid and that the twin does not play."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCommand(ProbeSpec):
    """A command line of a benchmark, parsed: what it does, and on which files.

    Attributes
    ----------
    argv
        Beginning with the program.
    file
        The file of all tasks; that of one alone has the task's number behind it.
    reorder
        By how many nodes each task reads away from what it wrote.
    minimum_duration_s
        Until when no task stops, as ``duration_s`` is when all do; 0: none.
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
        """How long each write and read takes; 0: until the files are whole."""
        return max(self.duration_s, self.minimum_duration_s)

    @property
    def tasks_per_node(self) -> int:
        """Tasks on the node of the first one."""
        return math.ceil(self.tasks / self.nodes)

    @property
    def task_bytes(self) -> int:
        """Bytes of each task when its file is whole."""
        return self.block_size_bytes * self.segments

    @property
    def aggregate_bytes(self) -> int:
        """Bytes of all tasks when their files are whole."""
        return self.task_bytes * self.tasks

    @property
    def first_file(self) -> str:
        """The file of the first task."""
        return self._file_of(0)

    @property
    def files(self) -> tuple[str, ...]:
        """The files, in the order of the tasks."""
        return tuple(map(self._file_of, range(self.tasks if self.file_per_process else 1)))

    def _file_of(self, task: int) -> str:
        return f"{self.file}.{task:08d}" if self.file_per_process else self.file


def one_of(*names: str) -> Callable[[str], object]:
    """Return what reads the value of an option of which the twin plays only some names."""
    return lambda text: text if text in names else NOT_PLAYED


def parse_options(
    argv: Sequence[str], known: Mapping[str, Callable[[str], Any] | None]
) -> dict[str, Any]:
    """Return options with their values: ``-x VALUE``, ``--name VALUE``, ``--name=VALUE``.

    The value of a flag is ``True``; tables of an option that is given again add up.

    Parameters
    ----------
    known
        Each option with what reads its value, or `FLAG`; ``None``: it is not of its type.

    Raises
    ------
    UsageError
        An option that the twin does not play, or one without a value of its type; it is named.
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
            message = f"{program}: the twin does not play {name} {text}"
            raise UsageError(message, code="wrong-type")
        if value is NOT_PLAYED:
            raise _not_played(program, f"{name} {text}", known)
        values[name] = {**values.get(name, {}), **value} if isinstance(value, dict) else value
    return values


def _not_played(program: str, words: str, known: Iterable[str]) -> UsageError:
    return UsageError(
        f"{program}: the twin does not play the option {words!r}",
        code="option-not-simulated",
        hint=f"it knows {', '.join(sorted(known))}",
    )

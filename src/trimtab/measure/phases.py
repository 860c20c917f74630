"""How a probe runs a benchmark that writes and reads in turn: one command for each phase.

``trimtab probe`` and ``trimtab check`` need `Phases` of such a benchmark, as ``trimtab import``
needs `trimtab.measure.source.Format`. Nothing here runs a program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Final, Protocol

from trimtab.errors import ToolError, UsageError
from trimtab.measure.measurement import Measurement, tail
from trimtab.measure.plain import version_numbers
from trimtab.model.run import Access, ProbeSpec, RawOutput
from trimtab.model.telemetry import NotAvailable, not_available
from trimtab.visible import visible

FILE_NAME: Final = "data"
"""Prefix of a probe's file names; the task's number follows."""
_OPTION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,62})")
Ask = Callable[[tuple[str, ...]], RawOutput]
"""Runs a short command and returns what it printed; raises ``ToolError`` if it cannot start."""


@dataclass(frozen=True, slots=True)
class PhaseRequest:
    """One write or read of a probe, for which a command is built.

    Attributes
    ----------
    program
        Path of the benchmark.
    directory
        Directory of the files; their names start with `FILE_NAME`.
    size_bytes
        For a read: the minimum size of the tasks' files. By default, and for a write: the block
        size.
    """

    spec: ProbeSpec
    access: Access
    program: str
    directory: str
    size_bytes: int | None = None

    @property
    def file_bytes(self) -> int:
        """Return the size of each task's file."""
        return self.size_bytes or self.spec.block_size_bytes


@dataclass(frozen=True, slots=True)
class Version:
    """How to get a program's version.

    Attributes
    ----------
    arguments
        Arguments that make it print its version and do nothing else.
    pattern
        Pattern of a line; its group is the version.
    oldest
        Oldest usable version; empty: every version.
    """

    name: str
    arguments: tuple[str, ...]
    pattern: str
    oldest: str = ""

    def __call__(self, ask: Ask, path: str) -> str | NotAvailable:
        """Return the version of the program at a path, or why it is unusable."""
        try:
            output = ask((path, *self.arguments))
        except ToolError as error:
            return not_available(error.code, error.message)
        text = output.stdout.decode("utf-8", "replace")
        match = re.search(self.pattern, text, re.MULTILINE)
        if match is None:
            printed = (
                tail(text + " " + output.stderr.decode("utf-8", "replace"), 120) or "no output"
            )
            problem = f"{path} does not identify itself as {self.name}: {printed}"
            return not_available("tool-not-recognised", problem)
        if version_numbers(match[1]) < version_numbers(self.oldest):
            needed = f"version {self.oldest} or later is needed"
            return not_available("tool-too-old", f"{path} is {self.name} {match[1]}; {needed}")
        return match[1]


class Parse(Protocol):
    """Reads one raw output."""

    def __call__(
        self, output: RawOutput, *, repetition: int = 0, ordinal: int | None = None
    ) -> Measurement:
        """Return the measurement; see each benchmark's own."""
        ...


@dataclass(frozen=True, slots=True)
class Phases:
    """One benchmark whose phases a probe runs one by one.

    Attributes
    ----------
    name
        As in the table, ``--probe`` and the store.
    programs
        Names to look for, in order.
    launchers
        The kinds of launchers that can start its tasks, the usual one first: ``mpi`` and ``slurm``
        start one process per task, ``local`` one process that starts its own.
    reserved_options
        Options that the command sets itself, or that would make it something other than a probe: a
        site file must not have them.
    """

    name: str
    programs: tuple[str, ...]
    launchers: tuple[str, ...]
    command: Callable[[PhaseRequest], tuple[str, ...]]
    parse: Parse
    version: Version
    reserved_options: frozenset[str]

    def arguments(self, phase: PhaseRequest) -> tuple[str, ...]:
        """Return the command of one phase, with the site file's further options.

        Raises
        ------
        UsageError
            The benchmark cannot do it, or an option is reserved or malformed.
        """
        further = further_options(phase.spec.options, reserved=self.reserved_options)
        return (*self.command(phase), *further)


def further_options(options: Mapping[str, str], *, reserved: Set[str]) -> tuple[str, ...]:
    """Return options as arguments: ``-z``, ``-B 1``, ``--name``, ``--name=value``.

    Parameters
    ----------
    options
        Name to value, with or without dashes; an empty value for an option without one.
    reserved
        Names that the probe sets itself, or that would change what it does.

    Raises
    ------
    UsageError
        A name is malformed or ``reserved``.

    Examples
    --------
    >>> further_options({"z": "", "J": "4096", "posix.lustre.stripecount": "4"}, reserved=set())
    ('-z', '-J', '4096', '--posix.lustre.stripecount=4')
    """
    argv: list[str] = []
    for option, value in options.items():
        name = option.lstrip("-")
        if not _OPTION.fullmatch(name) or "\0" in value:
            raise UsageError(
                f"{visible(option[:80])!r} is not an option name", code="option-invalid"
            )
        if name in reserved:
            raise UsageError(
                f"option {name!r} is set by the probe",
                code="option-reserved",
                hint="use the probe's keys: transfer_size, tasks_per_node, direct ...",
            )
        if len(name) == 1:
            argv += [f"-{name}"] if not value else [f"-{name}", value]
        else:
            argv.append(f"--{name}" if not value else f"--{name}={value}")
    return tuple(argv)

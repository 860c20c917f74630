"""How a probe runs a benchmark that writes and reads in turn: one command for each phase.

`Phases` is what ``trimtab probe`` and ``trimtab check`` need of such a benchmark, as
`trimtab.measure.source.Format` is what ``trimtab import`` needs. Nothing here runs anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from trimtab.errors import ToolError
from trimtab.measure.measurement import Measurement, tail
from trimtab.measure.options import further_options
from trimtab.model.run import Access, ProbeSpec, RawOutput
from trimtab.model.telemetry import NotAvailable, not_available

Ask = Callable[[tuple[str, ...]], RawOutput]
"""Runs a short command and returns what it printed; raises ``ToolError`` if it cannot start."""


class Command(Protocol):
    """Makes the arguments of one write or read phase."""

    def __call__(
        self,
        spec: ProbeSpec,
        access: Access,
        *,
        program: str,
        directory: str,
        size_bytes: int | None = None,
    ) -> tuple[str, ...]:
        """Return the command; see each benchmark's own."""
        ...


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
        The kinds of launchers that can start its tasks, the usual one first: ``mpi`` and
        ``slurm`` start a process for each, ``local`` one process that makes its own.
    version
        Returns the version of the program at a path, or why it cannot be used.
    reserved_options
        What the command says itself, and what would make it do something else than a probe: a
        site file must not give them.
    """

    name: str
    programs: tuple[str, ...]
    launchers: tuple[str, ...]
    command: Command
    parse: Parse
    version: Callable[[Ask, str], str | NotAvailable]
    reserved_options: frozenset[str]

    def arguments(
        self,
        spec: ProbeSpec,
        access: Access,
        *,
        program: str,
        directory: str,
        size_bytes: int | None = None,
    ) -> tuple[str, ...]:
        """Return the command of one phase, with the further options of the site file.

        Raises
        ------
        UsageError
            The benchmark cannot do it, or an option is reserved or no option's name.
        """
        argv = self.command(
            spec, access, program=program, directory=directory, size_bytes=size_bytes
        )
        return (*argv, *further_options(spec.options, reserved=self.reserved_options))


def printed_version(
    ask: Ask, argv: tuple[str, ...], pattern: str, *, name: str, oldest: int = 0
) -> str | NotAvailable:
    """Return the version that a program prints of itself, or why it cannot be used.

    Parameters
    ----------
    argv
        The program with the arguments that make it print its version and do nothing else.
    pattern
        Of a line; its group is the version.
    oldest
        First major version that can be used.
    """
    try:
        output = ask(argv)
    except ToolError as error:
        return not_available(error.code, error.message)
    text = output.stdout.decode("utf-8", "replace")
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        printed = tail(text + " " + output.stderr.decode("utf-8", "replace"), 120) or "no output"
        problem = f"{argv[0]} does not identify itself as {name}: {printed}"
        return not_available("tool-not-recognised", problem)
    version = match[1]
    if int(re.match(r"[0-9]{1,9}", version)[0]) < oldest:  # type: ignore[index]
        problem = f"{argv[0]} is {name} {version}; version {oldest}.0 or later is needed"
        return not_available("tool-too-old", problem)
    return version

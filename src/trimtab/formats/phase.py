"""How a probe runs a benchmark that writes and reads in turn: a command per phase, then a check.

``trimtab probe`` and ``trimtab check`` need `Phases` of such a benchmark, as ``trimtab import``
needs `trimtab.formats.measurement.OutputFormat`. The check confirms that a run did what was
requested; only then is it judged. Nothing here runs a program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Final, Protocol

from trimtab.base.error import Message, ToolError, UsageError, visible
from trimtab.base.plain import version_numbers
from trimtab.base.run import Access, ProbeSpec, RawOutput, RunStatus
from trimtab.base.snapshot import NotAvailable, not_available
from trimtab.base.units import format_bytes
from trimtab.formats.measurement import MeasuredPhase, Measurement, Notes, tail

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


def readable_size_bytes(sizes: Mapping[str, int], spec: ProbeSpec) -> int:
    """Return how many bytes a read may request from every task's file.

    The shortest file, in whole transfers, at most the block size.

    Parameters
    ----------
    sizes
        Name to size in bytes of the files after the write.

    Raises
    ------
    UsageError
        A shared file: a stopped task left a hole in its share, and reading a hole needs no device
        access.
    ToolError
        The number of files is wrong, or one is smaller than a transfer.
    """
    if not spec.file_per_process:
        raise UsageError(
            "a shared file written for a fixed time has holes and cannot be read back",
            code="shared-file-holes",
            hint="probe with a file per task, or write only",
        )
    if len(sizes) != spec.tasks:
        raise ToolError(
            f"the write left {len(sizes)} files instead of {spec.tasks}", code="file-count-mismatch"
        )
    shortest = min(sizes.values())
    size = min(shortest, spec.block_size_bytes)
    size -= size % spec.transfer_size_bytes
    if size <= 0:
        raise ToolError(
            f"the write left a file of {format_bytes(shortest)}, less than one transfer of "
            f"{format_bytes(spec.transfer_size_bytes)}: nothing to read",
            code="file-too-short",
            hint="the file system is very slow: use a longer --budget or a smaller transfer size",
        )
    return size


def confirm(
    measurement: Measurement, spec: ProbeSpec, *, sizes: Mapping[str, int] | None = None
) -> Measurement:
    """Return the measurement, as ``invalid_workload`` with the reason if it does not match.

    Parameters
    ----------
    sizes
        Name to size in bytes of the files after the phase, if the caller has checked.

    Notes
    -----
    A failed measurement is returned unchanged. A run that did something else (other tasks,
    transfers or files, no bytes) is invalid as a whole. A phase that did the right thing without
    proving anything, because it was too short or came from a cache, is another matter: that takes
    facts from beneath the file system, which `trimtab.judge.credibility` weighs.
    """
    if measurement.status is RunStatus.FAILED:
        return measurement
    wrong = [problem for phase in measurement.phases for problem in _wrong(phase, spec)]
    if measurement.status is RunStatus.OK:  # an early end may be anywhere
        wrong += [problem for phase in measurement.phases for problem in _odd_bytes(phase, spec)]
    if sizes is not None:
        wrong += _wrong_files(sizes, spec, measurement)
    if not wrong:
        return measurement
    problems = tuple(dict.fromkeys([*wrong, *measurement.problems]))
    return replace(measurement, status=RunStatus.INVALID_WORKLOAD, problems=problems)


def _wrong(phase: MeasuredPhase, spec: ProbeSpec) -> list[str]:
    """Return how a phase differs from the request."""
    problems = Notes()
    name = f"{phase.access} {phase.repetition}"
    for noun, actual, expected in (
        ("tasks", phase.tasks, spec.tasks),
        ("bytes per transfer", phase.transfer_size_bytes, spec.transfer_size_bytes),
    ):
        if actual is None:
            problems.add("parameters-not-printed", f"{name}: the number of {noun} is unknown")
        elif actual != expected:
            problems.add("workload-mismatch", f"{name}: {actual} {noun} instead of {expected}")
    if phase.access not in spec.accesses:
        problems.add("access-not-requested", f"{name} was not requested")
    if not phase.moved_bytes:
        problems.add("no-bytes", f"{name}: no bytes were moved")
    block, limit = phase.block_size_bytes, spec.block_size_bytes
    if phase.access == "write" and block is not None and block > limit:
        problems.add("workload-mismatch", f"{name}: a block of {block} bytes instead of {limit}")
    return problems


def _odd_bytes(phase: MeasuredPhase, spec: ProbeSpec) -> list[str]:
    """Return how the bytes of a complete phase contradict the request."""
    moved, problem = phase.moved_bytes, None
    if moved and moved < spec.tasks * spec.transfer_size_bytes:
        problem = "less than one transfer of every task"
    elif moved and moved % spec.transfer_size_bytes:
        problem = "not whole transfers"
    text = f"{phase.access} {phase.repetition}: {moved} bytes are {problem}"
    return [Message("bytes-mismatch", text)] if problem else []


def _wrong_files(sizes: Mapping[str, int], spec: ProbeSpec, measurement: Measurement) -> list[str]:
    """Return how the files contradict the request."""
    problems = Notes()
    expected = spec.tasks if spec.file_per_process else 1
    limit = spec.block_size_bytes * (1 if spec.file_per_process else spec.tasks)
    if len(sizes) != expected:
        problems.add("file-count-mismatch", f"{len(sizes)} files instead of {expected}")
    largest, total = max(sizes.values(), default=0), sum(sizes.values())
    if largest > limit:
        text = f"a file of {largest} bytes instead of at most {limit}"
        problems.add("file-size-mismatch", text)
    written = [phase.moved_bytes or 0 for phase in measurement.phases if phase.access == "write"]
    if written and spec.file_per_process and total > max(written):
        text = f"the files have {total} bytes, but {max(written)} were written"
        problems.add("file-size-mismatch", text)
    return problems

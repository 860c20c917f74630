"""The benchmarks that Trimtab knows: what makes their commands, reads them, and finds them.

A new benchmark is one file beside this one and one line in `BENCHMARKS` if probes can run it, and
one in `FORMATS` if its output can be imported.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from trimtab.measure import (
    darshan,
    fio,
    io500,
    ioload,
    ior,
    lnet_selftest,
    mdtest,
    mlperf_storage,
    obdfilter_survey,
    perf,
    tokio_abc,
    wrf,
)
from trimtab.measure.measurement import Measurement
from trimtab.measure.source import Format
from trimtab.model.run import Access, ProbeSpec, RawOutput
from trimtab.model.telemetry import NotAvailable

Run = Callable[[tuple[str, ...]], RawOutput]
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
        """Return what the output says; see each benchmark's own."""
        ...


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark.

    Attributes
    ----------
    name
        As in ``--probe`` and in the store.
    programs
        Names to look for, in order.
    launchers
        The kinds of launchers that can start its tasks, the usual one first: ``mpi`` and
        ``slurm`` start a process for each, ``local`` one process that makes its own.
    """

    name: str
    programs: tuple[str, ...]
    launchers: tuple[str, ...]
    command: Command
    parse: Parse
    version: Callable[[Run, str], str | NotAvailable]


@dataclass(frozen=True, slots=True)
class Tool:
    """A benchmark that was found on this host."""

    name: str
    path: str
    version: str


BENCHMARKS: Final[Mapping[str, Benchmark]] = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark("ior", ("ior",), ("mpi", "slurm"), ior.command, ior.parse, ior.version),
        Benchmark("fio", ("fio",), ("local",), fio.command, fio.parse, fio.version),
        Benchmark(
            "builtin",
            ("trimtab-ioload",),
            ("local", "mpi", "slurm"),
            ioload.command,
            ioload.parse,
            ioload.version,
        ),
    )
}
"""In the order in which ``auto`` takes them: what the field compares by comes first."""

FORMATS: Final[tuple[Format, ...]] = (
    darshan.FORMAT,
    fio.FORMAT,
    io500.FORMAT,
    ioload.FORMAT,
    ior.FORMAT,
    lnet_selftest.FORMAT,
    mdtest.FORMAT,
    mlperf_storage.FORMAT,
    obdfilter_survey.FORMAT,
    perf.FORMAT,
    tokio_abc.FORMAT,
    wrf.FORMAT,
)
"""What can be imported. Recognising looks at each in this order; no two should claim a file."""


def find(name: str, run: Run, *, path: str | None = None) -> Tool | NotAvailable:
    """Return where a benchmark is and its version, or why it cannot be used.

    Parameters
    ----------
    name
        A key of `BENCHMARKS`.
    run
        Runs the program to ask for its version; a deadline is its business.
    path
        Of the program where the site gives it; else it is looked for on PATH and, for what comes
        with Trimtab, beside the Python that runs this.

    Raises
    ------
    KeyError
        There is no such benchmark.
    """
    benchmark = BENCHMARKS[name]
    program = path or _located(benchmark.programs)
    if program is None:
        return NotAvailable(f"{' or '.join(benchmark.programs)} is not on PATH")
    version = benchmark.version(run, program)
    if isinstance(version, NotAvailable):
        return version
    return Tool(name, program, version)


def _located(programs: tuple[str, ...]) -> str | None:
    beside = str(Path(sys.executable).parent)
    for program in programs:
        # A virtual environment need not be activated for its programs to be found.
        found = shutil.which(program) or shutil.which(program, path=beside)
        if found is not None:
            return found
    return None

"""The table of benchmarks: everything that other rooms derive from a benchmark's name.

It provides the site schema's names of benchmarks, the importer's formats, the command line's
choices, the ladder's layers and the rows of docs/import.md. A new benchmark is a file in this room,
or a few, and a line in `TABLE`. Its module is imported only when used: reading a site file loads
none.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trimtab.base.run import Layer
    from trimtab.base.snapshot import NotAvailable
    from trimtab.formats.measurement import OutputFormat
    from trimtab.formats.phase import Ask, Phases

Start = Literal["phases", "one command", "site command", "servers", "import"]
"""How a probe of the site file starts a benchmark.

``phases``: Trimtab builds a command for each write and read (the adapter has ``PHASES``); ``one
command``: Trimtab builds a single command; ``site command``: the site file must have the command;
``servers``: it runs on servers, started only by ``trimtab survey``, and a probe may only read its
output; ``import``: no probe command prints it.
"""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One line of the table.

    Attributes
    ----------
    name
        As in the store, the site file, ``--probe`` and ``--kind``.
    title
        Its name in the documentation.
    summary
        Supported output, as Markdown for docs/import.md.
    layer
        The layer of the stack it measures, unless the run has its own; ``None``: only the run
        knows.
    pinnable
        Whether it writes to existing files, one per task, which can be placed on targets
        individually.
    module
        Module in this package with the adapter's ``FORMAT`` and ``PHASES``; default: the name.
    page
        Where the manual explains its figures, from docs on; empty: nowhere; default:
        ``benchmarks/NAME.md``.
    """

    name: str
    start: Start
    title: str
    summary: str
    layer: Layer | None = None
    pinnable: bool = False
    module: str = ""
    page: str | None = None

    @property
    def documentation(self) -> str:
        """Page of the manual, with its section; empty if there is none."""
        return f"benchmarks/{self.name}.md" if self.page is None else self.page

    @property
    def adapter(self) -> str:
        """Full name of the module that builds its commands and reads its output."""
        return f"{__package__}.{self.module or self.name.replace('-', '_')}"


TABLE: Final = (
    Benchmark(
        "ior", "phases", "IOR", "IOR 3.0 to 4.1: text, JSON, CSV", layer="client", pinnable=True
    ),
    Benchmark(
        "fio", "phases", "fio", "JSON, JSON+ and normal output of fio 2.1 to 3.42", layer="client"
    ),
    Benchmark(
        "builtin",
        "phases",
        "built-in generator",
        "reports of `trimtab-ioload`",
        layer="client",
        pinnable=True,
        module="ioload",
        page="",
    ),
    Benchmark(
        "elbencho",
        "phases",
        "elbencho",
        "CSV, JSON and text of elbencho 1.0 to 3.1",
        layer="client",
    ),
    Benchmark("mdtest", "one command", "mdtest", "mdtest since 1.9.3"),
    Benchmark(
        "io500", "site command", "IO500", "`result_summary.txt`, `result.txt`", layer="client"
    ),
    Benchmark(
        "mlperf-storage",
        "site command",
        "MLPerf Storage",
        "`summary.json`, reports",
        layer="application",
    ),
    Benchmark(
        "wrf", "site command", "WRF", "`rsl.out.0000`, `rsl.error.0000`", layer="application"
    ),
    Benchmark(
        "darshan",
        "site command",
        "Darshan",
        "Darshan's logs, with `trimtab[darshan]`",
        layer="application",
    ),
    Benchmark(
        "lnet-selftest", "servers", "LNet selftest", "what `lst stat` prints", layer="network"
    ),
    Benchmark(
        "obdfilter-survey",
        "servers",
        "obdfilter-survey",
        "`.summary` with its `.detail`, or either",
        layer="ost",
        page="benchmarks/lustre-iokit.md#obdfilter-survey",
    ),
    Benchmark(
        "ost-survey",
        "import",
        "ost-survey",
        "its output: each OST through a client",
        layer="client",
        page="benchmarks/lustre-iokit.md#ost-survey",
    ),
    Benchmark(
        "mds-survey",
        "import",
        "mds-survey",
        "`.summary`, or its output: operations of MDTs",
        page="benchmarks/lustre-iokit.md#mds-survey",
    ),
    Benchmark(
        "lst-survey",
        "import",
        "lst-survey",
        "its output, or its CSV: the network between groups of nodes",
        layer="network",
        page="benchmarks/lnet-selftest.md#lst-survey",
    ),
    Benchmark(
        "perf",
        "import",
        "perf",
        "`perf report` and `perf script`, as text: a server's CPU profile",
    ),
    Benchmark(
        "smartctl",
        "import",
        "smartctl",
        "`smartctl --json --all`: wear and errors of a drive, shown",
        layer="drive",
        page="",
    ),
    Benchmark(
        "slurm-accounting",
        "import",
        "Slurm's accounting",
        "`sacct --parsable2` of all jobs: running jobs and their nodes by hour",
        page="slurm.md#accounting-the-jobs-of-the-machine",
    ),
)
"""``auto`` takes the first usable one with phases: IOR is the common standard."""

BENCHMARKS: Final[Mapping[str, Benchmark]] = {benchmark.name: benchmark for benchmark in TABLE}


def names(*starts: Start) -> tuple[str, ...]:
    """Return the names of the benchmarks with one of these kinds of start, in table order.

    Examples
    --------
    >>> names("servers")
    ('lnet-selftest', 'obdfilter-survey')
    """
    return tuple(benchmark.name for benchmark in TABLE if benchmark.start in starts)


def pinnable() -> tuple[str, ...]:
    """Return the names of the benchmarks whose files can be placed individually."""
    return tuple(benchmark.name for benchmark in TABLE if benchmark.pinnable)


def phases_of(name: str) -> Phases:
    """Return how a probe runs the phases of a benchmark.

    Raises
    ------
    KeyError
        There is no such benchmark, or it has no phases.
    """
    if name not in names("phases"):
        raise KeyError(name)
    return import_module(BENCHMARKS[name].adapter).PHASES


@cache
def formats() -> tuple[OutputFormat, ...]:
    """Return the formats that can be imported.

    Recognition tries them in this order, by module; no two should claim a file.
    """
    adapters = sorted(benchmark.adapter for benchmark in TABLE)
    return tuple(import_module(adapter).FORMAT for adapter in adapters)


@dataclass(frozen=True, slots=True)
class Tool:
    """A benchmark installed on this host."""

    name: str
    path: str
    version: str


def find(name: str, run: Ask, *, path: str | None = None) -> Tool | NotAvailable:
    """Return a benchmark's path and version, or why it is unusable.

    Parameters
    ----------
    name
        Name of a benchmark with phases.
    run
        Runs the program to get its version, with its own deadline.
    path
        Path of the program, from the site; otherwise it is searched on PATH and, for programs of
        Trimtab, in the directory of the running Python.

    Raises
    ------
    KeyError
        There is no such benchmark.
    """
    from trimtab.base.snapshot import NotAvailable, not_available

    benchmark = phases_of(name)
    program = path or _located(benchmark.programs)
    if program is None:
        return not_available("tool-not-found", f"{' or '.join(benchmark.programs)} is not on PATH")
    version = benchmark.version(run, program)
    if isinstance(version, NotAvailable):
        return version
    return Tool(name, program, version)


def _located(programs: tuple[str, ...]) -> str | None:
    python_directory = str(Path(sys.executable).parent)
    for program in programs:
        # Find programs of a virtual environment even if it is not activated.
        path = shutil.which(program) or shutil.which(program, path=python_directory)
        if path is not None:
            return path
    return None

"""mdtest: rates of creating, statting, reading and removing files and directories.

`output` parses its text, `arguments` the printed command line; `figures` decides which of the
printed rates are credible.

Versions print alike but their numbers differ in meaning; see the table in `figures`.
"""

from __future__ import annotations

import re
from typing import Final

from trimtab.errors import DataError, UsageError
from trimtab.measure.mdtest.figures import measured
from trimtab.measure.mdtest.output import KIND, executions
from trimtab.measure.measurement import Measurement
from trimtab.measure.phases import Version
from trimtab.measure.source import Format, Mark, Source

__all__ = ["FORMAT", "KIND", "command", "read", "version"]


def read(source: Source) -> tuple[Measurement, ...]:
    """Return a result for each test in an output; see `trimtab.measure.source`.

    An output has several if mdtest ran several times, or if ``-f`` and ``-l`` stepped through
    numbers of tasks. All but the first have a name: ``run 2`` ...

    Raises
    ------
    DataError
        It has no launch line of mdtest.
    """
    measurements = measured(executions(source.text))
    if not measurements:
        raise DataError("no launch line of mdtest in this file", code="not-this-format", line=1)
    return measurements


_BEGINNING: Final = Mark(
    (b"mdtest-",),
    re.compile(
        rb"^(?:-- started at [0-9/]{8,10} [0-9:]{8} --\s{1,9})?mdtest-\S{1,40} was launched with ",
        re.MULTILINE,
    ),
)
FORMAT: Final = Format(KIND, _BEGINNING.stands_in, read, beginning=_BEGINNING)


_VERSION_ARGUMENTS: Final = ("-a", "DUMMY", "-F", "-C", "-n", "1", "-d", "/dev/null/trimtab")
"""mdtest has no ``--version`` and prints it with each result. This run creates nothing: the dummy
backend accesses no file system, and 1.9, without backends, cannot create anything below a file. """


version: Final = Version("mdtest", _VERSION_ARGUMENTS, r"^mdtest-([0-9]\S*) was launched")
"""The mdtest of IOR 3.2 reports 1.9.3, like the stand-alone mdtest before it."""


def command(items: int, iterations: int, *, program: str, directory: str) -> tuple[str, ...]:
    """Return mdtest's command, to be started as processes by an MPI launcher.

    Each process creates the same number of files in its own directory. The command is the same for
    every version since 1.9.3 and requests the rate of each repetition (``-v``): before 3.3 no other
    is credible.

    Parameters
    ----------
    items
        Files per task.
    iterations
        Repetitions inside one run of mdtest.
    program
        Path of ``mdtest``.
    directory
        Working directory. If it is missing, mdtest creates it and later removes it.

    Raises
    ------
    UsageError
        mdtest cannot express it.
    """
    if "@" in directory:
        raise UsageError(
            f"mdtest cannot use {directory}: it reads @ as the end of a directory",
            code="directory-unusable",
        )
    return (program, "-v", "-n", str(items), "-i", str(iterations), "-F", "-u", "-d", directory)

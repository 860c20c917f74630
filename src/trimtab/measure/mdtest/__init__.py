"""mdtest: how many files and directories a file system creates, stats, reads and removes a second.

`launch` makes its command and finds its version, `output` takes its text apart, `arguments` reads
the command line that it prints, `figures` says which of the printed rates can be believed.

Versions are alike on paper and differ in what their numbers mean; `figures` has the table.
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

_HEAD: Final = re.compile(r"^mdtest-\S{1,40} was launched with [0-9]+ total task", re.MULTILINE)


def read(source: Source) -> tuple[Measurement, ...]:
    """Return a result for each test in an output; see `trimtab.measure.source`.

    An output holds several where mdtest ran several times into it, and where ``-f`` and ``-l`` had
    it go through numbers of tasks. All but the first have a name: ``run 2`` ...

    Raises
    ------
    DataError
        mdtest never said in it that it was launched.
    """
    measurements = measured(executions(source.text))
    if not measurements:
        raise DataError("no launch of mdtest in this file", code="not-this-format", line=1)
    return measurements


def _recognises(source: Source) -> bool:
    return _HEAD.search(source.head.replace("\r", "")) is not None


_BEGINNING: Final = re.compile(
    rb"^(?:-- started at [0-9/]{8,10} [0-9:]{8} --\s{1,9})?mdtest-\S{1,40} was launched with ",
    re.MULTILINE,
)
FORMAT: Final = Format(KIND, _recognises, read, beginning=Mark((b"mdtest-",), _BEGINNING))


_VERSION_ARGUMENTS: Final = ("-a", "DUMMY", "-F", "-C", "-n", "1", "-d", "/dev/null/trimtab")
"""mdtest has no ``--version``, and prints it with each result. This one creates nothing: the dummy
backend reaches no file system, and 1.9, which has no backends, cannot create what is below a file.
"""


version: Final = Version("mdtest", _VERSION_ARGUMENTS, r"^mdtest-([0-9]\S*) was launched")
"""The mdtest of IOR 3.2 calls itself 1.9.3, as the one before it that stood alone."""


def command(items: int, iterations: int, *, program: str, directory: str) -> tuple[str, ...]:
    """Return mdtest's command, to be started as processes by an MPI launcher.

    Each creates as many files in a directory of its own. It is the same for every version since
    1.9.3, and asks for the rate of each repetition (``-v``): before 3.3 no other can be believed.

    Parameters
    ----------
    items
        Files of each task.
    iterations
        Repetitions inside one run of mdtest.
    program
        Path of ``mdtest``.
    directory
        Where it works. mdtest creates it where it is missing, and then removes it.

    Raises
    ------
    UsageError
        mdtest cannot express it.
    """
    if "@" in directory:
        raise UsageError(
            f"mdtest cannot use {directory}: it takes @ for the end of a directory",
            code="directory-unusable",
        )
    return (program, "-v", "-n", str(items), "-i", str(iterations), "-F", "-u", "-d", directory)

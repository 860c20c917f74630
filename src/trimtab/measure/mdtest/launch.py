"""The command of mdtest, and how it tells its version."""

from __future__ import annotations

from typing import Final

from trimtab.errors import UsageError
from trimtab.measure.phases import Ask, printed_version
from trimtab.model.telemetry import NotAvailable

_VERSION_ARGUMENTS: Final = ("-a", "DUMMY", "-F", "-C", "-n", "1", "-d", "/dev/null/trimtab")
"""mdtest has no ``--version``, and prints it with each result. This one creates nothing: the dummy
backend reaches no file system, and 1.9, which has no backends, cannot create what is below a file.
"""


def version(run: Ask, path: str) -> str | NotAvailable:
    """Return the version of the mdtest at ``path``, or why it cannot be used.

    The mdtest of IOR 3.2 calls itself 1.9.3, as the one before it that stood alone.
    """
    return printed_version(
        run, (path, *_VERSION_ARGUMENTS), r"^mdtest-([0-9]\S*) was launched", name="mdtest"
    )


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

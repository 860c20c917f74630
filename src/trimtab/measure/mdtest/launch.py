"""The command of mdtest, and how it tells its version."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from trimtab.errors import UsageError
from trimtab.measure.phases import Ask, printed_version
from trimtab.model.telemetry import NotAvailable

_VERSION_ARGUMENTS: Final = ("-a", "DUMMY", "-F", "-C", "-n", "1", "-d", "/dev/null/trimtab")
"""mdtest has no ``--version``, and prints it with each result. This one creates nothing: the dummy
backend reaches no file system, and 1.9, which has no backends, cannot create what is below a file.
"""


@dataclass(frozen=True, slots=True)
class MdtestSpec:
    """What one run of mdtest does.

    Attributes
    ----------
    tasks
        Processes, started by a launcher.
    items_per_task
        Files, or directories, or both of that many, of each task; with a stonewall the upper limit.
    files_only
        Files and no directories; otherwise both.
    unique_directories
        A directory for each task; otherwise all tasks work in one.
    iterations
        Repetitions inside one run of mdtest.
    stonewall_s
        Seconds after which creating stops; each task then creates what the fastest had by then.
        ``None``: everything is created.
    """

    tasks: int
    items_per_task: int
    files_only: bool = True
    unique_directories: bool = True
    iterations: int = 1
    stonewall_s: float | None = None


def version(run: Ask, path: str) -> str | NotAvailable:
    """Return the version of the mdtest at ``path``, or why it cannot be used.

    The mdtest of IOR 3.2 calls itself 1.9.3, as the one before it that stood alone.
    """
    return printed_version(
        run, (path, *_VERSION_ARGUMENTS), r"^mdtest-([0-9]\S*) was launched", name="mdtest"
    )


def command(spec: MdtestSpec, *, program: str, directory: str) -> tuple[str, ...]:
    """Return mdtest's command, to be started as ``spec.tasks`` processes by an MPI launcher.

    It is the same for every version since 1.9.3, but for the stonewall, which came with IOR 3.2.
    It asks for the rate of each repetition (``-v``): before 3.3 no other can be believed.

    Parameters
    ----------
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
    if min(spec.tasks, spec.items_per_task, spec.iterations) < 1:
        raise UsageError(
            "mdtest needs at least one task, one item and one iteration",
            code="test-parameters-invalid",
        )
    if spec.stonewall_s is not None and not spec.files_only:
        # MDTEST_FILE_CREATE_NUM is the only phase that looks at the timer (mdtest.c).
        raise UsageError(
            "the stonewall of mdtest stops only file creation", code="stonewall-unsupported"
        )
    argv = [program, "-v", "-n", str(spec.items_per_task), "-i", str(spec.iterations)]
    if spec.files_only:
        argv.append("-F")
    if spec.unique_directories:
        argv.append("-u")
    if spec.stonewall_s is not None:
        argv += ["-W", str(max(1, math.ceil(spec.stonewall_s)))]
    return (*argv, "-d", directory)

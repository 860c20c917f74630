"""IOR, the parallel file system benchmark: its command and its output.

`lines` parses an output into the values of `printed`, `parameters` finds what was requested,
`results` checks each repetition, `reading` builds the measurement.

`command` runs for a fixed time: ``-D S`` stops a task within its file after S seconds, and
``minTimeDuration=S`` restarts the file if it is full earlier. Both take whole seconds (``atoi`` in
parse_options.c), so a fraction is rounded up. A slow device leaves shorter files of different
lengths, but ``-b`` is the same for all tasks: the read uses the shortest, since IOR aborts when it
reads past the end.

Data: ``-l random`` is the only packet type whose bytes do not repeat. Measured with 4.1.0+dev over
128 MiB, zlib leaves 100 % of it, 19 % of the default and 0.7 % of the one called "incompressible".
"""

from __future__ import annotations

import math
from typing import Final

from trimtab.errors import UsageError
from trimtab.measure.ior.reading import FORMAT, parse, read
from trimtab.measure.phases import FILE_NAME, PhaseRequest, Phases, Version

__all__ = ["FORMAT", "PHASES", "command", "parse", "read", "version"]

_VERSION_ARGUMENTS: Final = (
    *("-a", "DUMMY", "-w", "-t", "1k", "-b", "1k", "-l", "random"),
    *("-O", "summaryFormat=JSON", "-o", "trimtab"),
)
"""IOR has no ``--version``: this prints it and writes nothing."""
_RESERVED_OPTIONS: Final = frozenset(
    {"a", "b", "C", "D", "e", "F", "k", "l", "o", "O", "r", "s", "t", "w", "posix.odirect"}
    | {"E", "f", "h", "i", "K", "m", "N", "R", "T", "u", "W", "y", "help", "dryRun"}
)
"""Options that the command sets itself, or that would make it something other than a probe."""


version: Final = Version(
    "IOR", _VERSION_ARGUMENTS, r'(?:"Version": "|IOR-)([0-9][^"\s:]*)', oldest="4.0"
)


def command(phase: PhaseRequest) -> tuple[str, ...]:
    """Return IOR's command, to be started as ``spec.tasks`` processes by an MPI launcher.

    Raises
    ------
    UsageError
        IOR cannot express it: a directory with ``@``, which separates several file names.
    """
    spec, directory = phase.spec, phase.directory
    if "@" in directory:
        raise UsageError(
            f"IOR cannot use {directory}: it reads @ as the end of a file name",
            code="directory-unusable",
            hint="use --probe fio or --probe builtin",
        )
    seconds = str(max(1, math.ceil(spec.duration_s)))
    argv = [phase.program, "-a", "POSIX", "-w" if phase.access == "write" else "-r", "-k"]
    argv += ["-t", str(spec.transfer_size_bytes), "-s", "1"]
    argv += ["-b", str(phase.file_bytes)]
    argv += ["-D", seconds, "-O", f"minTimeDuration={seconds}", "-l", "random"]
    if spec.file_per_process:
        argv.append("-F")
    if phase.access == "write" and spec.flush:
        argv.append("-e")
    if phase.access == "read":
        argv.append("-C")  # on several nodes: read what another node wrote
    if spec.direct:
        argv.append("--posix.odirect")
    return (*argv, "-O", "summaryFormat=JSON", "-o", f"{directory.rstrip('/')}/{FILE_NAME}")


PHASES: Final = Phases(
    "ior", ("ior",), ("mpi", "slurm"), command, parse, version, _RESERVED_OPTIONS
)

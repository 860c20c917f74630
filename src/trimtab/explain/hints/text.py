"""Hints as what can be pasted: a command for the layout, an environment and a hints file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trimtab.explain.hints.hint import Hint, JobRequest, Kind, Mpi
from trimtab.visible import shell_text

HINTS_FILE: Final = "romio-hints.txt"


def setstripe_argv(hints: Sequence[Hint], directory: str) -> tuple[str, ...]:
    """Return the command that gives new files in a directory the layout of these hints.

    Examples
    --------
    >>> from trimtab.explain.hints import JobRequest, advise
    >>> " ".join(setstripe_argv(advise(JobRequest(osts=8, nodes=2)), "/scratch/run"))
    'lfs setstripe -c 2 -S 1048576 /scratch/run'
    """
    values = {hint.name: hint.value for hint in hints if hint.kind is Kind.LAYOUT}
    argv = ["lfs", "setstripe"]
    for name, option in (("stripe_count", "-c"), ("overstripe_count", "-C"), ("stripe_size", "-S")):
        if name in values:
            argv += [option, values[name]]
    return (*argv, directory)


def paste_text(request: JobRequest, hints: Sequence[Hint], directory: str) -> str:
    """Return lines for a job script: layout, then what its MPI-IO reads."""
    lines = [shell_text(setstripe_argv(hints, directory))]
    mpi_io = [(hint.name, hint.value) for hint in hints if hint.kind is Kind.MPI_IO]
    checks = [hint for hint in hints if hint.kind is Kind.CHECK and hint.name.isupper()]
    if request.mpi is Mpi.CRAY:
        joined = ":".join(f"{name}={value}" for name, value in mpi_io)
        lines.append(f'export MPICH_MPIIO_HINTS="*:{joined}"')
    elif mpi_io:
        lines.append(f"cat > {HINTS_FILE} <<'END'")
        lines += [f"{name} {value}" for name, value in mpi_io]
        lines += ["END", f'export ROMIO_HINTS="$PWD/{HINTS_FILE}"']
    if request.mpi is Mpi.OPENMPI:
        lines.append("# mpirun takes these along only with: mpirun -x ROMIO_HINTS")
    lines += _mca_lines(hints)
    lines += [f"export {hint.name}={hint.value}" for hint in checks]
    return "\n".join(lines) + "\n"


def _mca_lines(hints: Sequence[Hint]) -> list[str]:
    """Return the choice of Open MPI's ROMIO, and what OMPIO would take as a comment."""
    mca = [hint for hint in hints if hint.kind is Kind.MCA]
    lines = [f"export OMPI_MCA_{hint.name}={hint.value}" for hint in mca if hint.name == "io"]
    others = [hint for hint in mca if hint.name != "io"]
    if others:
        lines.append("# with OMPIO instead (OMPI_MCA_io=ompio), in place of the hints file:")
        lines += [f"# export OMPI_MCA_{hint.name}={hint.value}" for hint in others]
    return lines

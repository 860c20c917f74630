"""``trimtab hints``: stripes, aggregators and MPI-IO hints for a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from trimtab.cli import options
from trimtab.cli.render.document import print_section, show
from trimtab.cli.render.screen import console, print_wrapped
from trimtab.explain.hints import Basis, paste_text
from trimtab.report.sections import Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trimtab.explain.hints import Hint, JobRequest
    from trimtab.report.kit import Tone


@click.command("hints", cls=options.GroupedCommand)
@click.option(
    "--ost", "osts", type=click.IntRange(1, 100_000), required=True, help="OSTs of the file system."
)
@click.option("--nodes", type=click.IntRange(1, 1_000_000), required=True, help="Nodes of the job.")
@click.option(
    "--tasks-per-node",
    type=click.IntRange(1, 100_000),
    default=1,
    show_default=True,
    help="Tasks per node that do I/O.",
)
@click.option(
    "--mpi",
    type=click.Choice(["cray", "romio", "openmpi"]),
    default="cray",
    show_default=True,
    help="Cray MPICH; MPICH and its relatives; Open MPI.",
)
@click.option(
    "--shared/--file-per-process",
    default=True,
    show_default=True,
    help="One shared file, or one file per task.",
)
@click.option(
    "--file-size", "file_size_bytes", type=options.FILE_SIZE, help="Size of one file: 100GiB."
)
@click.option(
    "--transfer-size",
    "transfer_size_bytes",
    type=options.SIZE,
    help="Size of one write of a task: 64KiB.",
)
@click.option(
    "--overstriping/--no-overstriping",
    default=True,
    show_default=True,
    help="Whether several stripes of a file may lie on one OST (Lustre 2.13 and later).",
)
@click.option(
    "--directory",
    default="DIRECTORY",
    help="Where the job writes, for the command that sets the stripes. It is not accessed.",
)
@options.output
def hints_command(directory: str, **job: Any) -> None:
    """Recommend file striping and MPI-IO hints for a job, with reasons.

    Every hint states its basis: measured, documented, or a rule of thumb. Nothing is set, and the
    file system is not contacted.
    """
    from trimtab.errors import UsageError
    from trimtab.explain.hints import JobRequest, Mpi, advise, paste_text, setstripe_argv
    from trimtab.loop import documents

    try:
        request = JobRequest(**(job | {"mpi": Mpi(job["mpi"])}))
    except ValueError as error:
        hint = "sizes and numbers must be greater than 0"
        raise UsageError(str(error), code="job-invalid", hint=hint) from error
    hints = advise(request)
    show(
        lambda: documents.judged.HintsDocument(
            request, hints, setstripe_argv(hints, directory), paste_text(request, hints, directory)
        ),
        lambda: print_hints(request, hints, directory),
    )


_TONES: Final[dict[Basis, Tone | None]] = {
    Basis.MEASURED: "healthy",
    Basis.DOCUMENTED: None,
    Basis.RULE_OF_THUMB: "warning",
}


def print_hints(request: JobRequest, hints: Sequence[Hint], directory: str) -> None:
    """Print lines for a job script, followed by the reason of each."""
    out, extent = console(), options.extent()
    out.print("For the job script", style="bold")
    for line in paste_text(request, hints, directory).splitlines():
        out.print(line, soft_wrap=True)
    if extent.brief:
        return
    out.print("Why", style="bold")
    sources = list(dict.fromkeys(hint.source for hint in hints))
    for hint in hints:
        number = sources.index(hint.source) + 1
        title = f"{hint.name} {hint.value}  {hint.basis.value} [{number}]"
        print_section(out, Section(title, (f"{hint.reason}.",), tone=_TONES[hint.basis]))
    if not extent.everything:
        print_wrapped(out, "--all shows the sources, --brief the lines for the job script", "dim")
        return
    numbered = (f"[{number}] {source}" for number, source in enumerate(sources, start=1))
    print_section(out, Section(lines=tuple(numbered)))

"""``trimtab hints``: stripes, aggregators and MPI-IO hints for a job."""

from __future__ import annotations

from typing import Any

import click

from trimtab.cli import options
from trimtab.cli.render.document import show


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
    from trimtab.cli.render.hints import print_hints
    from trimtab.errors import UsageError
    from trimtab.explain.hints import JobRequest, Mpi, advise, paste_text, setstripe_argv
    from trimtab.report.documents.judged import HintsDocument

    try:
        request = JobRequest(**(job | {"mpi": Mpi(job["mpi"])}))
    except ValueError as error:
        hint = "sizes and numbers must be greater than 0"
        raise UsageError(str(error), code="job-invalid", hint=hint) from error
    hints = advise(request)
    show(
        lambda: HintsDocument(
            request, hints, setstripe_argv(hints, directory), paste_text(request, hints, directory)
        ),
        lambda: print_hints(request, hints, directory),
    )

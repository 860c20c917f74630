"""``trimtab explain``, ``incidents`` and ``hints``: what went wrong, why, and hints for jobs."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import click

from trimtab.show import command_options
from trimtab.show.screen_document import print_note, show, show_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trimtab.base.finding import Tone
    from trimtab.explain.hint import Hint, JobRequest


@click.command("explain")
@click.argument("where", metavar="SITE")
@click.option(
    "--at", "moment", metavar="TIME", required=True,
    help="The moment, in the site's zone; a date is any time of that day.",
)  # fmt: skip
@command_options.output
@command_options.store
def explain_command(where: str, moment: str, store_url: str | None) -> None:
    """Show all evidence about one moment, whether or not anything was wrong.

    Shows the speed of its runs compared with usual, then the incidents that include it. --all
    lists every piece of evidence: found, absent, or not available with the reason.
    """
    from trimtab.base.incident import ExplainDocument
    from trimtab.explain.page import moment_document
    from trimtab.probe.incident_search import explain_at
    from trimtab.show.screen_document import progress_bar
    from trimtab.site.place import opened
    from trimtab.store.kept import value_of

    with opened(where, store_url) as record, progress_bar() as progress:
        known = explain_at(record.store, record.place, moment, progress=progress)
    show_page(
        lambda: value_of(ExplainDocument, known, incidents=known.explanations),
        lambda: moment_document(
            known.moment,
            known.explanations,
            known.lone_runs,
            known.speeds,
            where=command_options.site_argument(known.site),
        ),
    )


@click.command("incidents")
@click.argument("where", metavar="SITE")
@command_options.since("Only incidents that lasted until this time or later. Default: all.")
@command_options.until
@command_options.afresh
@command_options.output
@command_options.store
def incidents_command(
    where: str, store_url: str | None, since: str | None, until: str | None, afresh: bool
) -> None:
    """List incidents: when, how severe, and the likely causes.

    Open incidents come first, then the largest. The first is shown with its causes, their
    probability and evidence, and the decisive measurement; --all shows each.
    """
    from trimtab.base.incident import IncidentsDocument
    from trimtab.explain.page import incidents_document
    from trimtab.probe.up_to_date import look_for_incidents, standing_beside
    from trimtab.show.screen_document import progress_bar
    from trimtab.site.place import opened
    from trimtab.store.kept import compared_afresh, value_of

    with (
        opened(where, store_url) as record,
        compared_afresh(afresh, print_note),
        progress_bar() as progress,
    ):
        place, now = record.place, record.now
        search = look_for_incidents(
            record.store, place, now=now, since=since, until=until, progress=progress
        )
        standing = cache(partial(standing_beside, record.store, place, search))
        # JSON shows the incidents alone; after a search the rest is kept for who asks next.
        if afresh or not command_options.wants_json() or search.explained.judged_at == now:
            standing()
    explained = search.explained
    for note in filter(None, (search.why_none, search.unkept)):
        print_note(note)
    show_page(
        lambda: value_of(IncidentsDocument, explained, incidents=explained.explanations),
        lambda: incidents_document(
            explained.explanations,
            explained.standing,
            explained.lone_runs,
            standing(),
            in_full=command_options.extent().rows(1),
            where=command_options.site_argument(explained.site),
        ),
        more=[
            f"trimtab explain {command_options.site_argument(explained.site)}"
            " --at TIME has all evidence"
        ],
    )


@click.command("hints", cls=command_options.GroupedCommand)
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
    "--file-size",
    "file_size_bytes",
    type=command_options.FILE_SIZE,
    help="Size of one file: 100GiB.",
)
@click.option(
    "--transfer-size",
    "transfer_size_bytes",
    type=command_options.SIZE,
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
@command_options.output
def hints_command(directory: str, **job: Any) -> None:
    """Recommend file striping and MPI-IO hints for a job, with reasons.

    Every hint states its basis: measured, documented, or a rule of thumb. Nothing is set, and the
    file system is not contacted.
    """
    from trimtab.base.error import UsageError
    from trimtab.explain.hint import (
        HintsDocument,
        JobRequest,
        Mpi,
        advise,
        paste_text,
        setstripe_argv,
    )

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


def print_hints(request: JobRequest, hints: Sequence[Hint], directory: str) -> None:
    """Print lines for a job script, followed by the reason of each."""
    from trimtab.explain.hint import HintBasis, paste_text
    from trimtab.show.document import Section
    from trimtab.show.screen_document import console, print_section, print_wrapped

    tones: dict[HintBasis, Tone | None] = {
        HintBasis.MEASURED: "healthy",
        HintBasis.DOCUMENTED: None,
        HintBasis.RULE_OF_THUMB: "warning",
    }
    out, extent = console(), command_options.extent()
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
        print_section(out, Section(title, (f"{hint.reason}.",), tone=tones[hint.basis]))
    if not extent.everything:
        print_wrapped(out, "--all shows the sources, --brief the lines for the job script", "dim")
        return
    numbered = (f"[{number}] {source}" for number, source in enumerate(sources, start=1))
    print_section(out, Section(lines=tuple(numbered)))

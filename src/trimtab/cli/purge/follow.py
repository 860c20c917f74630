"""``trimtab purge follow``: an index kept up to date from changelogs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.purge import terms

if TYPE_CHECKING:
    from trimtab.loop.purging.following import Round


@click.command("follow")
@click.argument("where", metavar="SITE")
@terms.index
@click.option(
    "--every",
    "every_s",
    type=options.POSITIVE_DURATION,
    default="60s",
    show_default=True,
    help="Time between two readings of the changelogs.",
)
@click.option("--once", is_flag=True, help="Read to the end of the changelogs, then exit.")
@click.option(
    "--compact",
    is_flag=True,
    help="Write shards with many replaced rows anew, then exit; reads no changelog.",
)
@terms.threads
@options.as_json
def command(
    where: str, directory: Path, every_s: float, threads: int, *, once: bool, compact: bool
) -> None:
    """Keep the index of a scanned Lustre up to date from the changelogs of all MDTs.

    Runs on a client, as root. Each MDT needs a changelog user named trimtab that was registered
    before the scan began. Reads are not in changelogs: an access time is that of the scan, or of
    the last change since. Changes that were lost are reported, and the index then has to be
    scanned anew. May be killed at any moment; the same command goes on.
    """
    from trimtab.cli.render.purge_index import print_index
    from trimtab.loop.purging.following import compact_index, follow
    from trimtab.report import documents

    if compact:
        manifest = compact_index(directory)
    else:
        manifest = follow(
            where, directory, every_s=every_s, once=once, threads=threads, report=_report
        )
    show(
        lambda: documents.purged.IndexDocument(str(directory), manifest),
        lambda: print_index(manifest, directory),
    )


def _report(done: Round) -> None:
    from trimtab.units import enumerated, plural

    parts = [
        plural(done.records, "record", ","), f"{plural(done.looked, 'file', ',')} looked at",
        f"{plural(done.added, 'row', ',')} added", f"{done.removed:,} replaced or removed",
    ]  # fmt: skip
    if done.unknown:
        parts.append(f"{done.unknown:,} to be tried again")
    if done.silent:
        parts.append(f"no answer from the server of {enumerated(done.silent, 3)}")
    click.echo("; ".join(parts), err=True)

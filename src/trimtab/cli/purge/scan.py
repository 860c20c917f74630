"""``trimtab purge scan``: scan a file system into an index."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from trimtab.cli import options
from trimtab.cli.purge import terms
from trimtab.errors import UsageError

_EXTRAS = ("project", "layout")


@click.command("scan")
@click.argument("root", metavar="ROOT")
@terms.index
@terms.threads
@click.option(
    "--with",
    "extras",
    metavar="WHAT",
    multiple=True,
    help="project, layout or both (project,layout): read per file, at a call or two each.",
)
@click.option(
    "--checkpoint",
    "checkpoint_s",
    type=options.POSITIVE_DURATION,
    default="30s",
    show_default=True,
    help="Interval of checkpoints from which a killed scan resumes.",
)
@click.option(
    "--sizes",
    type=click.Choice(["lazy", "sampled", "exact"]),
    default="sampled",
    show_default=True,
    help="On Lustre: sizes from the MDS, corrected by a sample, or exact (a call per file).",
)
@click.option(
    "--calls-per-second",
    "calls_per_s",
    type=click.FloatRange(1),
    metavar="N",
    help="Maximum calls per second to the file system, over all threads and workers.",
)
@click.option(
    "--calls-per-mdt",
    "calls_per_mdt_s",
    type=click.FloatRange(1),
    metavar="N",
    help="Maximum calls per second to each MDT of a Lustre, over all threads and workers.",
)
@click.option(
    "--latency-max",
    "latency_s_max",
    type=options.POSITIVE_DURATION,
    metavar="DURATION",
    help="Halve the calls (on Lustre: to an MDT) while more than 1 % of them take longer.",
)
@click.option(
    "--incremental",
    "base",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="BASE",
    help="Read only directories that changed since the index BASE of the same root was scanned.",
)
@options.dask
@options.as_json
def purge_scan_command(
    *,
    root: str,
    directory: Path,
    extras: tuple[str, ...],
    sizes: str,
    calls_per_s: float | None,
    calls_per_mdt_s: float | None,
    latency_s_max: float | None,
    **terms_given: Any,
) -> None:
    """Scan every file below ROOT into an index in a new directory.

    The scan never follows links and never leaves the file system. The same command resumes a scan
    that was stopped. Unreadable subtrees are named; no plan can be made from such an index. With
    --incremental the index BASE stays as it is; changes of files in place (sizes, times, owners)
    are missed in directories whose names did not change.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.cli.render.purge_index import show_index
    from trimtab.cli.render.purge_progress import scan_progress
    from trimtab.config.version import __version__
    from trimtab.loop.purging.answering import inodes_in_use, require_answer
    from trimtab.loop.purging.limits import Limits
    from trimtab.loop.purging.scanning import ScanOptions, scan_index
    from trimtab.purge.index.manifest import SizesMode

    columns = _extras(extras)
    require_answer(root, "the scan")
    top = os.path.realpath(root) if not os.path.isabs(root) else root  # noqa: PTH117
    scan = ScanOptions(
        project="project" in columns,
        layout="layout" in columns,
        sizes=SizesMode(sizes),
        limits=Limits(calls_per_s, calls_per_mdt_s, latency_s_max),
        **terms_given,
    )
    inodes, whole = inodes_in_use(top)
    with progress_bar(counts=True) as display:
        shown = scan_progress(display, inodes, whole=whole)
        manifest = scan_index(top, directory, scan, version=__version__, progress=shown)
    show_index(manifest, directory)


def _extras(texts: tuple[str, ...]) -> set[str]:
    words = {word.strip() for text in texts for word in text.split(",")}
    for word in sorted(words - set(_EXTRAS)):
        raise UsageError(
            f"{word!r} cannot be added to a scan",
            code="extra-unknown",
            hint=f"one of {', '.join(_EXTRAS)}",
        )
    return words

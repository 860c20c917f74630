"""``trimtab purge scan``, ``import`` and ``query``: make an index, and query it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import click

from trimtab.base.error import UsageError
from trimtab.purge import command
from trimtab.show import command_options
from trimtab.show.screen_document import show_page

_EXTRAS = ("project", "layout")


@click.command("scan")
@click.argument("root", metavar="ROOT")
@command.index
@command.threads
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
    type=command_options.POSITIVE_DURATION,
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
    type=command_options.POSITIVE_DURATION,
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
@command_options.dask
@command_options.as_json
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
    from trimtab.base.code_version import __version__
    from trimtab.purge.core_call import ScanLimits, inodes_in_use, require_answer
    from trimtab.purge.index.manifest import SizesMode
    from trimtab.purge.index.scan import ScanOptions, scan_index
    from trimtab.purge.index.screen import scan_progress, show_index
    from trimtab.show.screen_document import progress_bar

    columns = _extras(extras)
    require_answer(root, "the scan")
    top = os.path.realpath(root) if not os.path.isabs(root) else root  # noqa: PTH117
    scan = ScanOptions(
        project="project" in columns,
        layout="layout" in columns,
        sizes=SizesMode(sizes),
        limits=ScanLimits(calls_per_s, calls_per_mdt_s, latency_s_max),
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


_FORMATS = ("gnu-find", "lfs-find", "mfu", "csv", "parquet")


@click.command("import", cls=command_options.GroupedCommand)
@click.argument("file", metavar="FILE", type=command_options.PATH)
@command.index
@click.option("--root", required=True, metavar="DIR", help="Directory that was listed, absolute.")
@click.option(
    "--format",
    "source",
    type=click.Choice(_FORMATS),
    required=True,
    help="Tool that made the list.",
)
@click.option(
    "--printf",
    metavar="TEXT",
    help="Format given to -printf, if not the usual one.",
)
@click.option(
    "--map",
    "column_map",
    metavar="COLUMN=NAME",
    multiple=True,
    help="Columns of a table: uid=owner_id,atime_ns=atime:s. Repeatable, or separated by commas.",
)
@click.option("--delimiter", default=",", show_default=True, help="Delimiter of a CSV file.")
@click.option(
    "--users", type=command_options.PATH, metavar="FILE",
    help="Output of `getent passwd`, for user names. Default: this host's accounts.",
)  # fmt: skip
@click.option(
    "--groups",
    type=command_options.PATH,
    metavar="FILE",
    help="Output of `getent group`, for group names.",
)
@click.option("--beneath", metavar="PATH", help="Prefix of relative paths in the list.")
@click.option("--started", metavar="TIME", help="When the tool was started: 2026-11-20T02:00Z.")
@click.option("--ended", metavar="TIME", help="When the tool ended.")
@click.option(
    "--complete",
    is_flag=True,
    help="Confirm that the tool ended without an error: the list is complete.",
)
@click.option(
    "--mounted",
    is_flag=True,
    help="Confirm that the list describes the current mount of the root; required for a plan.",
)
@command_options.as_json
def purge_import_command(
    file: Path, directory: Path, root: str, source: str, **options_given: Any
) -> None:
    """Convert an index or list of another tool, or a table, into an index.

    Tools: find, lfs find, mpiFileUtils. Others export a table: Spectrum Scale, Robinhood, GUFI.

    Records which columns the list lacks. A plan also needs what a list cannot state itself: when
    it was made, that it is complete, and its file system.
    """
    from trimtab.purge.index.list_import import ListDescription, import_index
    from trimtab.purge.index.manifest import IndexSource
    from trimtab.purge.index.screen import import_progress, show_index
    from trimtab.show.screen_document import progress_bar

    described = ListDescription(
        IndexSource(source),
        os.fsencode(root),
        complete=options_given.pop("complete"),
        beneath=os.fsencode(options_given.pop("beneath") or ""),
        format_text=options_given.pop("printf"),
        column_map=options_given.pop("column_map"),
        delimiter=options_given.pop("delimiter"),
    )
    with progress_bar(counts=True) as display:
        progress = import_progress(display)
        manifest = import_index(file, directory, described, progress=progress, **options_given)
    show_index(manifest, directory)


_ROWS_MOST: Final = 10_000
_BY = ("user", "group", "project", "age", "size", "ost", "pool")


@click.command("query")
@click.argument("statement", metavar='["SQL"]', required=False)
@command.index
@click.option("--by", type=click.Choice(_BY), help="Report usage by this key, instead of SQL.")
@command_options.dask
@command_options.output
def purge_query_command(
    statement: str | None, directory: Path, by: str | None, dask: str | None
) -> None:
    """Query an index: one SELECT over its tables `names` and `files`, or --by.

    `names` has one row per name, `files` one per regular file, however many names it has. Columns:
    path, directory, user, group, size_bytes, allocated_bytes, age_days, last_use and those of the
    index. Names are shown as visible text.
    """
    from trimtab.purge.index.index_query import query_document
    from trimtab.purge.index.screen import answer_document

    if (statement is None) == (by is None):
        raise UsageError(
            "give one SELECT, or --by",
            code="query-missing",
            hint='trimtab purge query --index DIR "SELECT user, count(*) FROM files GROUP BY user"',
        )
    most = min(command_options.extent().top or _ROWS_MOST, _ROWS_MOST)
    if statement is not None and dask is not None:
        raise UsageError(
            "--dask goes with --by: an arbitrary SELECT cannot be divided",
            code="options-exclusive",
            hint="leave --dask or the SELECT out",
        )
    if statement is not None:
        from trimtab.purge.index.index_query import ask

        answer = ask(directory, statement, rows_maximum=most)
    else:
        from trimtab.purge.index.dask_pieces import holdings
        from trimtab.purge.index.index_query import By

        assert by is not None
        answer = holdings(directory, By(by), top=most, dask=dask)
    show_page(lambda: query_document(answer), lambda: answer_document(answer))

"""``trimtab import``: results that others made."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.render.screen import Column, print_rows, print_screen, print_wrapped
from trimtab.cli.render.text import console, site_labels
from trimtab.errors import UnreadableError
from trimtab.model.imported import EMPTY, UNRECOGNISED, FileStatus
from trimtab.model.run import METRIC_UNITS
from trimtab.units import enumerated, format_value, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from trimtab.model.imported import Imported, ImportedFile
    from trimtab.model.run import Sample
    from trimtab.record.store import Store


@click.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@options.as_json
@options.store
@click.option("--kind", metavar="KIND", help="The format. Default: each file is recognised.")
@click.option("--site", metavar="SITE", help="Under which they are kept. Default: imported.")
@click.option("--probe", metavar="NAME", help="The probe that they are runs of. Default: imported.")
@click.option(
    "--layer",
    type=click.Choice(["drive", "raid", "ost", "network", "client", "application"]),
    help="Layer at which it was measured, if the file does not show it.",
)
@click.option("--at", metavar="TIME", help="When it was, for files that do not say.")
@click.option(
    "--timezone",
    metavar="ZONE",
    help="Zone of times printed without one: Europe/Zurich. Default: the site's.",
)
@options.dask_or_site
@click.option("--dry-run", is_flag=True, help="Read and show everything, keep nothing.")
@options.extent_options
def command(
    files: tuple[str, ...],
    store_url: str | None,
    kind: str | None,
    dask: str | None,
    dry_run: bool,
    **terms_given: str | None,
) -> None:
    """Import result files as benchmarks printed them.

    A directory is walked. Each file is recognised by its content; one that is of no known format
    is listed as unreadable. What was imported before is not kept twice.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.loop.importing.importer import check_kind, import_files, terms_of
    from trimtab.loop.sites import with_dask, with_store
    from trimtab.loop.stores import open_store

    check_kind(kind)
    terms, site = terms_of(**terms_given)  # type: ignore[arg-type]
    dask = with_dask(site, dask)
    opened = nullcontext() if dry_run else open_store(with_store(site, store_url), create=True)
    tally = _Tally()
    remains = "what was stored is kept: the same command passes over it and goes on"
    with opened as store, progress_bar(remains=remains) as progress:
        imported = tally.of(
            import_files(files, terms, store, kind=kind, dask=dask, progress=progress)
        )
        where = None if store is None else str(store.location)
        if options.wants_json():
            from trimtab.report.documents.measured import import_json

            for piece in import_json(imported, store=where, site=terms.site):
                click.echo(piece, nl=False)
        else:
            print_imported(imported, where, partial(_sites, store))
    tally.refuse_nothing(reported=options.wants_json())


def _sites(store: Store | None) -> list[str]:
    return [] if store is None else list(site_labels(site.name for site in store.sites()).values())


@dataclass(slots=True)
class _Tally:
    """Looks on while files are imported: what was named and could not be read is an error."""

    unreadable: list[str] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)

    def of(self, files: Iterable[ImportedFile]) -> Iterator[ImportedFile]:
        for file in files:
            self.statuses[file.status.value] += 1
            if file.named and file.status.value == "unreadable":
                name, reason = visible(file.file), file.reason or ""
                self.unreadable.append(reason if reason.startswith(name) else f"{name}: {reason}")
            yield file

    def refuse_nothing(self, *, reported: bool) -> None:
        """Raise UnreadableError where a file that was named, or every file, is unreadable."""
        if self.unreadable:
            more = f" (and {len(self.unreadable) - 1} more)" if len(self.unreadable) > 1 else ""
            message = f"cannot be imported: {self.unreadable[0]}{more}"
            code = "file-unreadable"
        elif self.statuses.total() == self.statuses["unreadable"]:
            message = "there is nothing to import: no file of a known format"
            code = "nothing-to-import"
        else:
            return
        hint = "docs/import.md lists the formats; --kind names one"
        error = UnreadableError(message, code=code, hint=hint)
        error.reported = reported
        raise error


_STYLES = {
    FileStatus.OK: "green",
    FileStatus.PARTIAL: "yellow",
    FileStatus.FAILED: "red",
    FileStatus.UNREADABLE: "dim",
}
_FILES = 5
"""Files of each status that the screen has; ``--all`` prints each as soon as it is imported."""
_RESULTS = 4
"""Of one file on the screen: a table may hold a year of them."""
_FIGURES = 4
_WARNINGS = 2


@dataclass(slots=True)
class _Found:
    """What the files of an import come to, in memory that does not grow with their number."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    results: Counter[tuple[str, str]] = field(default_factory=Counter)
    first: dict[str, list[ImportedFile]] = field(default_factory=dict)
    new: int = 0
    kept_before: int = 0
    unknown: int = 0

    def add(self, file: ImportedFile) -> None:
        """Count a file, and keep it where it is among the first of its status."""
        if _is_unknown(file):
            self.unknown += 1
            return
        key = file.kind or "unknown", file.status.value
        self.counts[key] += 1
        self.results[key] += len(file.results)
        self.new += sum(result.new for result in file.results)
        self.kept_before += sum(
            result.run is not None and not result.new for result in file.results
        )
        first = self.first.setdefault(file.status.value, [])
        if len(first) < _FILES:
            first.append(file)


def _is_unknown(file: ImportedFile) -> bool:
    return file.kind is None and not file.named and file.reason in (UNRECOGNISED, EMPTY)


def print_imported(
    files: Iterable[ImportedFile], store: str | None, sites: Callable[[], Sequence[str]] = tuple
) -> None:
    """Print what was imported, the files with troubles first, and how to go on.

    Parameters
    ----------
    sites
        Returns the sites of the store, called when all files are imported.
    """
    tallied, everything = _Found(), options.extent().everything
    for file in files:
        tallied.add(file)
        if everything and not _is_unknown(file):
            _print_file(console(), file, results=sys.maxsize)
    body = _print_counts if everything else _print_found
    named = tuple(sites()) if tallied.new or tallied.kept_before else ()
    print_screen(
        _answer(tallied, store),
        partial(body, tallied),
        more=_more(tallied, named, everything=everything),
    )


def _answer(tallied: _Found, store: str | None) -> str:
    files = plural(tallied.counts.total(), "file", ",")
    if store is None:
        results = plural(tallied.results.total(), "result", ",")
        answer = f"{results} of {files} read; nothing was kept: this was a dry run"
    else:
        results = plural(tallied.new, "result", ",")
        answer = f"{results} of {files} kept in {visible(store)}"
        answer += f", {tallied.kept_before:,} were there before" if tallied.kept_before else ""
    statuses: Counter[str] = Counter()
    for (_, status), count in tallied.counts.items():
        statuses[status] += count
    troubles = [
        f"{statuses[status.value]:,} {status.value}"
        for status in (FileStatus.UNREADABLE, FileStatus.FAILED, FileStatus.PARTIAL)
        if statuses[status.value]
    ]
    return f"{answer}. " + (f"Files: {', '.join(troubles)}." if troubles else "All files are ok.")


def _more(tallied: _Found, sites: Sequence[str], *, everything: bool) -> Iterator[str]:
    if not everything and tallied.counts:
        yield "--all prints every file with every result"
    if sites:
        others = f" ({enumerated(map(visible, sites[1:]), 3)} likewise)" if sites[1:] else ""
        yield f"next: trimtab judge {visible(sites[0])}{others}"


_COLUMNS = (
    Column("kind"),
    Column("status"),
    Column("files", right=True),
    Column("results", right=True),
)


def _print_counts(tallied: _Found, out: Console) -> None:
    rows = [
        (kind, status, f"{count:,}", f"{tallied.results[kind, status]:,}")
        for (kind, status), count in sorted(tallied.counts.items())
    ]
    print_rows(out, _COLUMNS, rows)
    if tallied.unknown:
        out.print(f"{plural(tallied.unknown, 'file', ',')} of no known format", style="dim")


def _print_found(tallied: _Found, out: Console) -> None:
    _print_counts(tallied, out)
    for status in reversed(FileStatus):
        files = tallied.first.get(status.value, [])
        for file in files:
            _print_file(out, file, results=_RESULTS)
        more = sum(n for (_, of), n in tallied.counts.items() if of == status.value) - len(files)
        if more:
            out.print(f"... {more:,} more that are {status.value}", style="dim")


_INDENT = 2


def _print_file(out: Console, imported_file: ImportedFile, *, results: int) -> None:
    from rich.text import Text

    line = Text(f"{imported_file.status.value:<10} ", style=_STYLES[imported_file.status])
    line.append(f"{imported_file.kind or '-'} ", style="default")
    line.append(visible(imported_file.file), style="default")
    out.print(line, soft_wrap=True)

    def print_line(text: str, style: str = "") -> None:
        print_wrapped(out, text, style, indent=_INDENT)

    if imported_file.part_of is not None:
        print_line(f"read with {imported_file.part_of}", "dim")
    for result in imported_file.results[:results]:
        if figures := _result_text(result):
            print_line(figures)
    if (more := len(imported_file.results) - results) > 0:
        print_line(f"... {plural(more, 'more result', ',')}", "dim")
    for result in imported_file.results[:results]:
        for note in (*_slowest(result.told), *result.warnings[:_WARNINGS]):
            print_line(f"note: {note}", "dim")
    if imported_file.reason:
        print_line(imported_file.reason, "dim")
    for reason in dict.fromkeys(r.at_reason for r in imported_file.results if r.at_reason):
        print_line(f"no time: {reason}", "dim")


def _result_text(result: Imported) -> str:
    """Return one result in a line; empty where it has no figure."""
    name = f"{result.name}: " if result.name else ""
    if result.snapshot is not None:
        return f"{name}{len(result.snapshot.targets)} targets of {result.site or ''}"
    figures = _figures(result.samples)
    return f"{name}{figures}" if figures else ""


def _slowest(facts: Mapping[str, object]) -> list[str]:
    """Return which target held a job up, where the result says so."""
    target, times = facts.get("slowest_target"), facts.get("slowest_target_ratio")
    if not isinstance(target, str):
        return []
    by = f", {times:.1f} times the median" if isinstance(times, float) else ""
    return [f"the slowest target is {target}{by}"]


def _figures(samples: Iterable[Sample]) -> str:
    """Return the median of each metric's repetitions, of the whole; else how many numbers."""
    values: dict[str, list[float]] = {}
    count = 0
    for sample in samples:
        count += 1
        if sample.believed and sample.statistic == "total" and sample.target is None:
            values.setdefault(sample.metric, []).append(sample.value or 0.0)
    if not values:
        return f"{count} numbers" if count else ""
    facts = []
    for metric, figures in list(values.items())[:_FIGURES]:
        middle = format_value(median(figures), METRIC_UNITS[metric])
        facts.append(f"{metric} {middle}" + (f" (of {len(figures)})" if len(figures) > 1 else ""))
    return ", ".join(facts) + (" ..." if len(values) > _FIGURES else "")

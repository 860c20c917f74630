"""``trimtab import``: results that others made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.render.text import console
from trimtab.errors import UnreadableError
from trimtab.model.imported import EMPTY, UNRECOGNISED, FileStatus
from trimtab.model.run import METRIC_UNITS
from trimtab.units import format_value
from trimtab.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import Console

    from trimtab.model.imported import ImportedFile
    from trimtab.model.run import Sample


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
@options.dask
@click.option("--dry-run", is_flag=True, help="Read and show everything, keep nothing.")
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
    from trimtab.loop.sites import with_store
    from trimtab.loop.stores import open_store

    check_kind(kind)
    terms, site = terms_of(**terms_given)  # type: ignore[arg-type]
    opened = nullcontext() if dry_run else open_store(with_store(site, store_url), create=True)
    tally = _Tally()
    with opened as store, progress_bar() as progress:
        imported = tally.of(
            import_files(files, terms, store, kind=kind, dask=dask, progress=progress)
        )
        where = None if store is None else str(store.location)
        if options.wants_json():
            from trimtab.report.documents.measured import import_json

            for piece in import_json(imported, store=where, site=terms.site):
                click.echo(piece, nl=False)
        else:
            print_imported(imported, where)
    tally.refuse_nothing(reported=options.wants_json())


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
_SHOWN = 40
"""Files that are told one by one; of a whole archive only the sum is, and what is wrong."""
_RESULTS = 16
"""Of one file that are told one by one: a table may hold a year of them."""
_FIGURES = 4
_WARNINGS = 2


def print_imported(files: Iterable[ImportedFile], store: str | None) -> None:
    """Print each file as soon as it is imported, then how many there were of each kind."""
    out = console()
    counts: Counter[tuple[str, str]] = Counter()
    new = kept_before = facts = unknown = 0
    for file in files:
        if file.kind is None and not file.named and file.reason in (UNRECOGNISED, EMPTY):
            unknown += 1
            continue
        counts[file.kind or "unknown", file.status.value] += 1
        new += sum(result.new for result in file.results)
        kept_before += sum(result.run is not None and not result.new for result in file.results)
        if facts < _SHOWN:
            facts += 1
            _print_file(out, file)
        elif facts == _SHOWN:
            facts += 1
            out.print("... (--json has every file)", style="dim")
    out.print()
    for (kind, status), count in sorted(counts.items()):
        out.print(f"{count:>8}  {kind:<20} {status}")
    if unknown:
        out.print(f"{unknown:>8}  of no known format", style="dim")
    if store is None:
        out.print("Nothing was kept: this was a dry run.")
    else:
        again = f", {kept_before} were there before" if kept_before else ""
        out.print(f"{new} results kept in {visible(store)}{again}.")


def _print_file(out: Console, imported_file: ImportedFile) -> None:
    from rich.text import Text

    line = Text(f"{imported_file.status.value:<10} ", style=_STYLES[imported_file.status])
    line.append(f"{imported_file.kind or '-':<18} ", style="default")
    line.append(visible(imported_file.file), style="default")
    out.print(line, soft_wrap=True)
    if imported_file.part_of is not None:
        note = f"           read with {visible(imported_file.part_of)}"
        out.print(note, style="dim", soft_wrap=True)
    for result in imported_file.results[:_RESULTS]:
        name = f"{visible(result.name)}: " if result.name else ""
        figures = _figures(result.samples)
        if result.snapshot is not None:
            figures = f"{len(result.snapshot.targets)} targets of {visible(result.site or '')}"
        if figures:
            out.print(f"           {name}{figures}", soft_wrap=True)
    if (more := len(imported_file.results) - _RESULTS) > 0:
        out.print(f"           ... and {more:,} results more (--json has every one)", style="dim")
    for result in imported_file.results[:_RESULTS]:
        for line in (*_slowest(result.told), *result.warnings[:_WARNINGS]):
            out.print(f"           note: {visible(line)}", style="dim", soft_wrap=True)
    if imported_file.reason:
        out.print(f"           {visible(imported_file.reason)}", style="dim", soft_wrap=True)
    for reason in dict.fromkeys(r.at_reason for r in imported_file.results if r.at_reason):
        out.print(f"           no time: {visible(reason)}", style="dim", soft_wrap=True)


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

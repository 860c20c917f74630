"""``trimtab import``: results that others made."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import click

from trimtab.cli import options
from trimtab.cli.render.screen import Column, print_rows, print_screen, print_wrapped
from trimtab.cli.render.text import console
from trimtab.errors import UnreadableError
from trimtab.message import code_of
from trimtab.model.imported import EMPTY, UNRECOGNISED, FileStatus
from trimtab.model.run import METRIC_UNITS
from trimtab.units import enumerated, format_value, plural, whole_second
from trimtab.visible import shell_text, visible

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from rich.console import Console

    from trimtab.model.imported import Imported, ImportedFile
    from trimtab.model.run import Sample


@click.command("import", cls=options.GroupedCommand)
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
@click.option("--dry-run", is_flag=True, help="Read and show everything, keep nothing.")
@options.extent_options
def command(
    files: tuple[str, ...],
    store_url: str | None,
    kind: str | None,
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
    tally, again = _Tally(), _again(files, kind, store_url, terms_given)
    remains = "what was stored is kept: the same command passes over it and goes on"
    with opened as store, progress_bar(remains=remains) as progress:
        imported = tally.of(import_files(files, terms, store, kind=kind, progress=progress))
        where = None if store is None else str(store.location)
        if options.wants_json():
            from trimtab.report.documents.measured import import_json

            for piece in import_json(imported, store=where, site=terms.site):
                click.echo(piece, nl=False)
        else:
            print_imported(imported, where, again)
    tally.refuse_nothing(again[0], reported=options.wants_json())


def _again(
    files: Sequence[str], kind: str | None, store_url: str | None, terms_given: Mapping[str, Any]
) -> tuple[str, str]:
    """Return the command as it was given, and the option with its store, for another command."""
    values = {"kind": kind, "store": store_url, **terms_given}
    options_given = [(f"--{name}", value) for name, value in values.items() if value is not None]
    words = [word for option in options_given for word in option]
    named = shell_text(files) if len(files) <= _NAMED else "FILE..."
    command = " ".join(filter(None, ("trimtab", "import", named, shell_text(words))))
    return command, "" if store_url is None else f" --store {shell_text([store_url])}"


@dataclass(slots=True)
class _Tally:
    """Looks on while files are imported: what was named and could not be read is an error."""

    unreadable: list[str] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    zone_missing: bool = False

    def of(self, files: Iterable[ImportedFile]) -> Iterator[ImportedFile]:
        for file in files:
            self.statuses[file.status.value] += 1
            self.zone_missing |= code_of(file.reason) == "zone-missing"
            if file.named and file.status.value == "unreadable":
                name, reason = visible(file.file), file.reason or ""
                self.unreadable.append(reason if reason.startswith(name) else f"{name}: {reason}")
            yield file

    def refuse_nothing(self, again: str, *, reported: bool) -> None:
        """Raise UnreadableError where a file that was named, or every file, is unreadable.

        Parameters
        ----------
        again
            The command that imports it.
        """
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
        if self.zone_missing:
            hint = f"{again} --timezone ZONE"
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
_NAMED = 3
"""Files of a command that is printed again."""
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
    unjudged: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)
    judged_sites: dict[str, None] = field(default_factory=dict)
    snapshots: dict[str, datetime] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)

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
        for result in file.results:
            self._take(result)
        first = self.first.setdefault(file.status.value, [])
        if len(first) < _FILES:
            first.append(file)

    def _take(self, result: Imported) -> None:
        """Take note of what shows a result: series, or targets, or it alone."""
        if result.unjudged is not None:
            self.unjudged[result.unjudged.code] += 1
            self.reasons.setdefault(result.unjudged.code, result.unjudged)
        if result.run is None or result.site is None:
            return
        if result.snapshot is not None and result.at is not None:
            self.snapshots[result.site] = result.at
        elif result.unjudged is None and result.samples:
            self.judged_sites[result.site] = None
        elif len(self.others) < 1:
            self.others.append(result.run)


def _is_unknown(file: ImportedFile) -> bool:
    return file.kind is None and not file.named and file.reason in (UNRECOGNISED, EMPTY)


def print_imported(
    files: Iterable[ImportedFile], store: str | None, again: tuple[str, str] = ("", "")
) -> None:
    """Print what was imported, the files with troubles first, and how to go on.

    Parameters
    ----------
    again
        The command that imports it, and what names its store in another one.
    """
    tallied, everything = _Found(), options.extent().everything
    for file in files:
        tallied.add(file)
        if everything and not _is_unknown(file):
            _print_file(console(), file, results=sys.maxsize)
    body = _print_counts if everything else _print_found
    print_screen(
        _answer(tallied, store),
        partial(body, tallied),
        more=_more(tallied, again, in_store=store is not None, everything=everything),
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
    sentences = [f"Files: {', '.join(troubles)}."] if troubles else []
    if tallied.unjudged:
        count, every = tallied.unjudged.total(), tallied.results.total()
        why = ", ".join(f"{n:,} {_WHY.get(code, code)}" for code, n in tallied.unjudged.items())
        who = "None of them can" if count == every else f"{count:,} of {every:,} results cannot"
        sentences.append(f"{who} be judged: {why}.")
    if not sentences and tallied.counts:
        sentences.append("All files are ok.")
    return " ".join((f"{answer}.", *sentences))


_WHY: Final = {
    "time-not-printed": "without a time",
    "time-without-zone": "with a time in a zone that is not known",
    "time-skipped": "at a time that clocks left out",
    "time-contradicted": "at another time than --at",
    "only-summaries": "with summaries alone",
    "figures-rounded": "with rounded figures",
    "not-believed": "with figures that are not believed",
    "result-failed": "failed",
}
_MENDING: Final = {"time-without-zone": "--timezone ZONE", "time-not-printed": "--at TIME"}
"""Codes of `Imported.unjudged` in words of the answer, and the option that mends them."""


def _more(
    tallied: _Found, again: tuple[str, str], *, in_store: bool, everything: bool
) -> Iterator[str]:
    if not everything and tallied.counts:
        yield "--all prints every file with every result"
    import_again, store = again
    mending = [option for code, option in _MENDING.items() if tallied.unjudged[code]]
    if mending:
        yield f"so that they have a time: {' '.join((import_again, *mending))}"
    if not in_store:
        return
    if tallied.judged_sites:
        first, *others = tallied.judged_sites
        likewise = f" ({enumerated(map(visible, others), 3)} likewise)" if others else ""
        yield f"next: trimtab judge {shell_text([first])}{store}{likewise}"
    for site, at in list(tallied.snapshots.items())[:1]:
        yield f"next: trimtab targets {shell_text([site])} --at {whole_second(at)}{store}"
    if tallied.others and not tallied.judged_sites:
        yield f"next: trimtab show {tallied.others[0]}{store}"


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
    for code, count in tallied.unjudged.items():
        if code != "result-failed":
            results = plural(count, "result", ",")
            print_wrapped(out, f"not judged, {results}: {tallied.reasons[code]}", "yellow")
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
        for text in _result_texts(result):
            print_line(text)
    if (more := len(imported_file.results) - results) > 0:
        print_line(f"... {plural(more, 'more result', ',')}", "dim")
    for result in imported_file.results[:results]:
        for note in (*_slowest(result.told), *result.warnings[:_WARNINGS]):
            print_line(f"note: {note}", "dim")
    if imported_file.reason:
        print_line(imported_file.reason, "dim")
    for reason in dict.fromkeys(r.at_reason for r in imported_file.results if r.at_reason):
        print_line(f"no time: {reason}", "dim")


def _result_texts(result: Imported) -> Iterator[str]:
    """Yield one result in a line, and what else it says in words."""
    name = f"{result.name}: " if result.name else ""
    if result.snapshot is not None:
        yield f"{name}{len(result.snapshot.targets)} targets of {result.site or ''}"
    elif figures := _figures(result.samples):
        yield f"{name}{figures}"
    answer = result.told.get("answer")
    if isinstance(answer, str) and answer:
        yield from answer.split("\n")


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
        if sample.believed and sample.is_total:
            values.setdefault(sample.metric, []).append(sample.value or 0.0)
    if not values:
        return f"{count} numbers" if count else ""
    facts = []
    for metric, figures in list(values.items())[:_FIGURES]:
        middle = format_value(median(figures), METRIC_UNITS[metric])
        facts.append(f"{metric} {middle}" + (f" (of {len(figures)})" if len(figures) > 1 else ""))
    return ", ".join(facts) + (" ..." if len(values) > _FIGURES else "")

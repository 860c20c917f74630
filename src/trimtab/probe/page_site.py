"""Pages of a site file (as read, compared, written, installed) and of an import.

An import's page shows how many results of which kind there were, and the files with problems.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final

from trimtab.base.error import UnreadableError, code_of, shell_text
from trimtab.base.run import METRIC_UNITS
from trimtab.base.site import Checked, Site
from trimtab.base.units import (
    enumerated,
    format_bytes,
    format_duration,
    format_percent,
    format_value,
    plural,
    whole_second,
)
from trimtab.probe.import_reading import EMPTY, UNRECOGNISED
from trimtab.probe.import_result import FileStatus
from trimtab.show import command_options, document
from trimtab.show.document import ALL, Document, Section, row, table
from trimtab.show.screen_document import console, print_section

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from trimtab.base.finding import Tone
    from trimtab.base.run import Sample
    from trimtab.probe.import_result import Imported, ImportedFile
    from trimtab.probe.site_draft import Discovery
    from trimtab.watch.service import InstalledFile


def site_document(site: Site, warnings: Sequence[str], checked: Sequence[Checked]) -> Document:
    """Return a site as read, its warnings, and the comparison with the live system."""
    order = (False, None, True)
    rows = (
        document.row(
            statement.what,
            "not known" if statement.ok is None else "yes" if statement.ok else "NO",
            statement.detail,
        )
        for statement in sorted(checked, key=lambda statement: order.index(statement.ok))
    )
    ask = (
        f"trimtab site {command_options.site_argument(site.name)} --validate checks the live system"
    )
    return Document(
        _answer(site, warnings, checked),
        (
            Section(lines=tuple(f"warning: {warning}" for warning in warnings), tone="warning"),
            Section(
                tables=(document.table(("statement", "holds", "detail"), rows, first=document.ALL),)
            ),
            Section(
                "What the site file says" if checked else "",
                tables=(document.facts(_facts(site)),),
                folded=bool(checked),
            ),
        ),
        more=() if checked else (ask,),
    )


def _answer(site: Site, warnings: Sequence[str], checked: Sequence[Checked]) -> str:
    warned = f", {plural(len(warnings), 'warning')}" if warnings else ""
    wrong = [statement.what for statement in checked if statement.ok is False]
    unknown = sum(statement.ok is None for statement in checked)
    rest = f", {unknown} not known" if unknown else ""
    if wrong:
        count = plural(len(checked), "statement")
        return f"{site.name}: {len(wrong)} of {count} wrong{rest}{warned}: {enumerated(wrong, 3)}."
    if checked:
        good = len(checked) - unknown
        return f"{site.name}: {good} of {plural(len(checked), 'statement')} hold{rest}{warned}."
    probes = plural(len(site.probes), "probe")
    return f"{site.name}: {site.driver} at {site.path}, {probes}{warned}."


def _facts(site: Site) -> Iterator[tuple[str, str]]:
    yield "file", site.source or "none: derived from the path"
    yield "driver", site.driver
    yield "path", site.path
    if site.file_system is not None:
        yield "lustre", site.file_system
    servers = site.servers
    if servers.names:
        from trimtab.base.name_set import fold_nodes

        for name, nodes in (("mds", servers.mds), ("oss", servers.oss)):
            yield name, fold_nodes(nodes) if nodes else "none"
        yield (
            "reached by",
            "this host itself" if servers.reach == "local" else " ".join(servers.ssh.command),
        )
    limits = site.limits
    yield (
        "limits",
        f"fullness {format_percent(limits.fullness)}, COV {format_percent(limits.cov)} over "
        f"{format_duration(limits.window_s)}",
    )
    yield "snapshots", site.snapshot_schedule or "before and after probes only"
    for probe in site.probes:
        size = format_bytes(probe.block_size_bytes)
        yield (
            f"probe {probe.name}",
            f"{probe.benchmark}, {probe.schedule or 'when asked'}, block size {size}, "
            f"{format_duration(probe.duration_s)} x {probe.repetitions}",
        )
    yield "store", site.store.url or "the default"


def print_file(discovery: Discovery, text: str) -> None:
    """Print a site file on standard output, and what was found on standard error."""
    print_aside(*found_sections(discovery))
    print(text, end="")


def print_aside(*sections: Section) -> None:
    """Print sections on standard error."""
    page = console(to_error=True)
    for section in sections:
        print_section(page, section)


def found_sections(discovery: Discovery) -> tuple[Section, Section]:
    """Return what was found of a file system, and what was not."""
    return (
        Section(lines=tuple(f"found: {line}" for line in discovery.facts)),
        Section(lines=tuple(f"not found: {line}" for line in discovery.not_found), tone="warning"),
    )


def written_document(out: str, name: str, sections: tuple[Section, ...]) -> Document:
    """Return the page of a new site file, with how to check it."""
    return Document(
        f"Site {name} written to {out}.",
        sections,
        more=("Read it, then compare it with the live system:",),
        command=shell_text(["trimtab", "site", out, "--validate"]),
    )


_STATES = {"absent": "new", "same": "already there", "differs": "differs from the existing one"}


def planned_sections(discovery: Discovery, planned: Sequence[InstalledFile]) -> Iterator[Section]:
    """Yield which files to install, then each in full."""
    states = [_STATES[file.state.value] for file in planned]
    each = ", ".join(f"{count} {state}" for state, count in Counter(states).items())
    paths = (f"{file.path} ({state})" for file, state in zip(planned, states, strict=True))
    yield Section(
        f"The watch of {discovery.site.name} needs {plural(len(planned), 'file')}: {each}.",
        tuple(paths),
    )
    yield from found_sections(discovery)
    for file in planned:
        if file.state.value != "same":
            yield Section(file.path, commands=tuple(file.text.splitlines()))


def installed_document(name: str, written: Sequence[str], following: Sequence[str]) -> Document:
    """Return the installed files and the commands that come next."""
    done = f"{plural(len(written), 'file')} written" if written else "every file was already there"
    sections = Section(lines=tuple(written)), Section("next:", commands=tuple(following))
    return Document(f"Site {name}: {done}.", sections)


_TONES: Final[dict[FileStatus, Tone]] = {
    FileStatus.OK: "healthy",
    FileStatus.PARTIAL: "warning",
    FileStatus.FAILED: "critical",
    FileStatus.UNREADABLE: "unclear",
}


_FILES = 5
"""Files of each status on the screen; ``--all`` prints each as soon as it is imported."""


_RESULTS = 4
"""Results of one file on the screen: a table may hold a year of them."""


_FIGURES = 4


_WARNINGS = 2


@dataclass(slots=True)
class Tally:
    """Summary of an import, in memory that does not grow with the number of files."""

    counts: Counter[tuple[str, FileStatus]] = field(default_factory=Counter)
    results: Counter[tuple[str, FileStatus]] = field(default_factory=Counter)
    first: dict[FileStatus, list[ImportedFile]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    zone_missing: bool = False
    new: int = 0
    kept_before: int = 0
    unknown: int = 0
    unjudged: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)
    judged_sites: dict[str, None] = field(default_factory=dict)
    snapshots: dict[str, datetime] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)

    def of(self, files: Iterable[ImportedFile]) -> Iterator[ImportedFile]:
        """Yield files as they are imported, counting each; keep the first of each status."""
        for file in files:
            self.zone_missing |= code_of(file.reason) == "zone-missing"
            if file.named and file.status is FileStatus.UNREADABLE:
                name, reason = file.file, file.reason or ""
                self.refused.append(reason if reason.startswith(name) else f"{name}: {reason}")
            if is_unknown(file):
                self.unknown += 1
            else:
                self._add(file)
            yield file

    def _add(self, file: ImportedFile) -> None:
        key = file.kind or "unknown", file.status
        self.counts[key] += 1
        self.results[key] += len(file.results)
        for result in file.results:
            self.new += result.new
            self.kept_before += result.run is not None and not result.new
            self._take(result)
        first = self.first.setdefault(file.status, [])
        if len(first) < _FILES:
            first.append(file)

    def _take(self, result: Imported) -> None:
        """Record the command that shows a result: its series, its targets, or itself."""
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

    def files(self, status: FileStatus) -> int:
        """Return the number of files with a status."""
        return sum(count for (_, each), count in self.counts.items() if each is status)


def is_unknown(file: ImportedFile) -> bool:
    """Return whether a file of a directory is of no format, and not worth a line."""
    return file.kind is None and not file.named and file.reason in (UNRECOGNISED, EMPTY)


def refuse_nothing(tallied: Tally, again: str) -> None:
    """Raise UnreadableError if a named file, or every file, is unreadable.

    Parameters
    ----------
    again
        The command that imports them.
    """
    if tallied.refused:
        more = f" (and {len(tallied.refused) - 1} more)" if len(tallied.refused) > 1 else ""
        message = f"cannot be imported: {tallied.refused[0]}{more}"
        code = "file-unreadable"
    elif tallied.counts.total() == tallied.files(FileStatus.UNREADABLE):
        message = "there is nothing to import: no file of a known format"
        code = "nothing-to-import"
    else:
        return
    hint = "docs/import.md lists the formats; --kind names one"
    if tallied.zone_missing:
        hint = f"{again} --timezone ZONE"
    error = UnreadableError(message, code=code, hint=hint)
    error.reported = command_options.wants_json()
    raise error


def imported_document(
    tallied: Tally, store: str | None, again: tuple[str, str] = ("", ""), *, apart: bool = False
) -> Document:
    """Return what was imported, the files with troubles first, and how to go on.

    Parameters
    ----------
    again
        The command that imports it, and what names its store in another one.
    apart
        Whether the files themselves were printed before.
    """
    counted = (
        row(kind, status.value, f"{count:,}", f"{tallied.results[kind, status]:,}")
        for (kind, status), count in sorted(tallied.counts.items())
    )
    unjudged = (
        f"not judged, {plural(count, 'result', ',')}: {tallied.reasons[code]}"
        for code, count in tallied.unjudged.items()
        if code != "result-failed"
    )
    unknown = f"{plural(tallied.unknown, 'file', ',')} of no known format"
    return Document(
        _import_answer(tallied, store),
        (
            Section(tables=(table(("kind", "status", "files>", "results>"), counted, first=ALL),)),
            Section(lines=tuple(unjudged), tone="warning"),
            Section(lines=(unknown,) if tallied.unknown else ()),
            *(() if apart else _first_sections(tallied)),
        ),
        more=tuple(_more(tallied, again, in_store=store is not None, everything=apart)),
    )


def _import_answer(tallied: Tally, store: str | None) -> str:
    files = plural(tallied.counts.total(), "file", ",")
    if store is None:
        results = plural(tallied.results.total(), "result", ",")
        answer = f"{results} of {files} read; nothing was kept: this was a dry run"
    else:
        answer = f"{plural(tallied.new, 'result', ',')} of {files} kept in {store}"
        answer += f", {tallied.kept_before:,} were already stored" if tallied.kept_before else ""
    troubles = [
        f"{count:,} {status.value}"
        for status in (FileStatus.UNREADABLE, FileStatus.FAILED, FileStatus.PARTIAL)
        if (count := tallied.files(status))
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
    "time-skipped": "at a time that clocks skipped",
    "time-contradicted": "at another time than --at",
    "only-summaries": "with summaries alone",
    "figures-rounded": "with rounded figures",
    "not-believed": "with figures that are not credible",
    "result-failed": "failed",
}


_MENDING: Final = {"time-without-zone": "--timezone ZONE", "time-not-printed": "--at TIME"}
"""Codes of `Imported.unjudged` as text of the answer, and the option that fixes them."""


def _more(
    tallied: Tally, again: tuple[str, str], *, in_store: bool, everything: bool
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
        likewise = f" ({enumerated(others, 3)} likewise)" if others else ""
        yield f"next: trimtab judge {shell_text([first])}{store}{likewise}"
    for site, at in list(tallied.snapshots.items())[:1]:
        yield f"next: trimtab targets {shell_text([site])} --at {whole_second(at)}{store}"
    if tallied.others and not tallied.judged_sites:
        yield f"next: trimtab show {tallied.others[0]}{store}"


def _first_sections(tallied: Tally) -> Iterator[Section]:
    for status in reversed(FileStatus):
        files = tallied.first.get(status, [])
        for file in files:
            yield file_section(file, _RESULTS)
        if more := tallied.files(status) - len(files):
            yield Section(lines=(f"... {more:,} more that are {status.value}",))


def file_section(file: ImportedFile, results: int) -> Section:
    """Return a file with its first ``results`` results."""
    title = f"{file.status.value:<10} {file.kind or '-'} {file.file}"
    lines = tuple(_file_lines(file, results)) or ("no result",)
    return Section(title, lines, tone=_TONES[file.status])


def _file_lines(file: ImportedFile, results: int) -> Iterator[str]:
    if file.part_of is not None:
        yield f"read with {file.part_of}"
    for result in file.results[:results]:
        yield from _result_texts(result)
    if (more := len(file.results) - results) > 0:
        yield f"... {plural(more, 'more result', ',')}"
    for result in file.results[:results]:
        for note in (*_slowest(result.told), *result.warnings[:_WARNINGS]):
            yield f"note: {note}"
    if file.reason:
        yield file.reason
    for reason in dict.fromkeys(r.at_reason for r in file.results if r.at_reason):
        yield f"no time: {reason}"


def _result_texts(result: Imported) -> Iterator[str]:
    """Yield one result in a line, then its further statements."""
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

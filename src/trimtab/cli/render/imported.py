"""What was imported, as text: one line a file, as it is kept, and a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import median
from typing import TYPE_CHECKING

from trimtab.cli.render.text import console
from trimtab.model.imported import EMPTY, UNRECOGNISED, FileStatus, ImportedFile
from trimtab.model.run import METRIC_UNITS, Sample
from trimtab.units import format_value
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

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
    new = kept_before = told = unknown = 0
    for one in files:
        if one.kind is None and not one.named and one.reason in (UNRECOGNISED, EMPTY):
            unknown += 1
            continue
        counts[one.kind or "unknown", one.status.value] += 1
        new += sum(result.new for result in one.results)
        kept_before += sum(result.run is not None and not result.new for result in one.results)
        if told < _SHOWN:
            told += 1
            _print_file(out, one)
        elif told == _SHOWN:
            told += 1
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


def _print_file(out: Console, one: ImportedFile) -> None:
    from rich.text import Text

    line = Text(f"{one.status.value:<10} ", style=_STYLES[one.status])
    line.append(f"{one.kind or '-':<18} ", style="default")
    line.append(visible(one.file), style="default")
    out.print(line, soft_wrap=True)
    if one.part_of is not None:
        out.print(f"           read with {visible(one.part_of)}", style="dim", soft_wrap=True)
    for result in one.results[:_RESULTS]:
        name = f"{visible(result.name)}: " if result.name else ""
        figures = _figures(result.samples)
        if result.snapshot is not None:
            figures = f"{len(result.snapshot.targets)} targets of {visible(result.site or '')}"
        if figures:
            out.print(f"           {name}{figures}", soft_wrap=True)
    if len(one.results) > _RESULTS:
        more = f"... and {len(one.results) - _RESULTS:,} results more (--json has every one)"
        out.print(f"           {more}", style="dim")
    for result in one.results[:_RESULTS]:
        for line in (*_slowest(result.told), *result.warnings[:_WARNINGS]):
            out.print(f"           note: {visible(line)}", style="dim", soft_wrap=True)
    if one.reason:
        out.print(f"           {visible(one.reason)}", style="dim", soft_wrap=True)
    for reason in dict.fromkeys(r.at_reason for r in one.results if r.at_reason):
        out.print(f"           no time: {visible(reason)}", style="dim", soft_wrap=True)


def _slowest(told: Mapping[str, object]) -> list[str]:
    """Return which target held a job up, where the result says so."""
    target, times = told.get("slowest_target"), told.get("slowest_target_ratio")
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
    told = []
    for metric, found in list(values.items())[:_FIGURES]:
        middle = format_value(median(found), METRIC_UNITS[metric])
        told.append(f"{metric} {middle}" + (f" (of {len(found)})" if len(found) > 1 else ""))
    return ", ".join(told) + (" ..." if len(values) > _FIGURES else "")

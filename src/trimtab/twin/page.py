"""Pages of the twin: scenarios, simulations, a drive's write amplification, and sizings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from trimtab.base import text
from trimtab.base.error import shell_text
from trimtab.base.units import (
    format_bytes,
    format_bytes_per_s,
    format_duration,
    format_percent,
    format_value,
    plural,
)
from trimtab.show import document
from trimtab.show.document import Cell, Document, Row, Section, Table, row, table
from trimtab.twin import scenario_fact
from trimtab.twin.scenario import Scenario, capacity_bytes

if TYPE_CHECKING:
    from trimtab.twin.amplification import Amplification
    from trimtab.twin.scenario_fact import TwinRun
    from trimtab.twin.scenario_key import Preset
    from trimtab.twin.whatif.sizing import Sizing
    from trimtab.twin.whatif.sizing_figure import SizingFigure
    from trimtab.twin.whatif.sizing_figure import SizingSection as Figures


def scenario_document(scenario: Scenario) -> Document:
    """Return the page of a scenario."""
    moments = scenario_fact.timeline(scenario)
    start, end = (scenario_fact.local(at, scenario) for at in (scenario.start, scenario.end))
    span = f"{start} to {end}"
    counts = plural(len(moments), "event"), plural(len(scenario.assumptions), "assumption")
    probes = [(probe.name, scenario_fact.probe_text(probe, scenario)) for probe in scenario.probes]
    happens = [(_when(moment, scenario), moment.text) for moment in moments]
    return Document(
        kind="twin show",
        heading=scenario.name,
        subtitle=f"{span} {scenario.timezone}, seed {scenario.seed}",
        tone="info",
        answer=f"{scenario.title}. {', '.join(counts)}.",
        details=("A simulation is only as good as its assumptions.",),
        sections=tuple(
            Section(title, tables=(table(("what", "is"), (row(*pair) for pair in pairs)),))
            for title, pairs in (
                ("Built of", list(scenario_fact.built_of(scenario))),
                ("At the start", list(scenario_fact.used_by(scenario))),
                ("Probes", probes),
                ("What happens", happens),
                ("Assumed, without a source", list(scenario.assumptions.items())),
            )
            if pairs
        ),
    )


def _when(moment: scenario_fact.TimelineEntry, scenario: Scenario) -> str:
    until = "" if moment.until is None else f" to {scenario_fact.local(moment.until, scenario)}"
    return f"{scenario_fact.local(moment.at, scenario)}{until}"


def scenarios_document(scenarios: Sequence[Scenario]) -> Document:
    """Return the page of several scenarios."""
    return Document(
        kind="twin list",
        heading="scenarios",
        subtitle="trimtab twin show NAME describes one, trimtab twin run NAME simulates it",
        tone="info",
        answer=f"{plural(len(scenarios), 'file system')} can be simulated.",
        sections=(Section("Built-in scenarios", tables=(_scenarios_table(scenarios),)),),
    )


def _scenarios_table(scenarios: Iterable[Scenario]) -> Table | None:
    return table(
        ("name", "what", "OSTs>", "capacity>", "length>"),
        (
            row(
                scenario.name,
                text.one_line(scenario.title),
                f"{scenario.osts.count:,}",
                format_bytes(capacity_bytes(scenario)),
                format_duration(scenario.length_s),
            )
            for scenario in scenarios
        ),
    )


def amplification_document(amplification: Amplification, preset: Preset | None) -> Document:
    """Return the write amplification of a drive, with the formula."""
    terms = amplification.terms
    drive = f"{format_percent(terms.spare)} usable spare, {terms.superblocks:,} superblocks of "
    drive += f"{terms.units:,} units, {terms.policy}"
    if terms.separate:
        drive += ", copies kept apart"
    named = [("drive", drive)]
    if preset is not None:
        named.append(("", f"{preset.name}: {preset.reason}"))
    named.append(("writes", f"to {_workload(amplification)}"))
    if amplification.formula is not None and amplification.relative_error is not None:
        off = format_percent(amplification.relative_error, 2)
        named.append(("formula", f"{amplification.formula:.3f}, the simulation is {off} off it"))
    elif amplification.bound is not None:
        bound = f"{amplification.bound:.3f}, with hot and cold data kept wholly apart"
        named.append(("bound", bound))
    else:
        named.append(("formula", "none for this policy"))
    settled = f"{amplification.warm} drive writes until it was settled, "
    unsettled = "not settled: it still changes from one drive write to the next"
    return Document(
        f"Write amplification {amplification.simulated:.3f}, simulated (standard error "
        f"{amplification.error:.3f}).",
        (
            Section(tables=(table(("what", "is"), (row(*pair) for pair in named)),)),
            Section(lines=(f"{settled}{amplification.measured} measured",)),
            Section(lines=() if amplification.settled else (unsettled,), tone="warning"),
        ),
    )


def _workload(amplification: Amplification) -> str:
    terms = amplification.terms
    data = "all units" if terms.live == 1 else f"{format_percent(terms.live)} of the units"
    if terms.hot is None:
        return f"{data} at random" + ("" if terms.live == 1 else ", the rest trimmed")
    part, share = terms.hot
    return (
        f"{data}: {format_percent(share, 0)} of the writes to {format_percent(part, 0)} of them, "
        "the hot ones"
    )


def twin_run_document(twin_run: TwinRun) -> Document:
    """Return the stored results of a simulated period, and how to continue."""
    scenario = twin_run.scenario
    count = sum(twin_run.statuses.values())
    length = format_duration((twin_run.end - twin_run.start).total_seconds())
    start, end = (scenario_fact.local(at, scenario) for at in (twin_run.start, twin_run.end))
    span = f"{start} to {end}"
    runs = ", ".join(f"{count:,} {status.value}" for status, count in twin_run.statuses.items())
    rows = [
        ("runs", runs or "none"),
        ("surveys", f"{twin_run.surveys:,}"),
        ("snapshots", f"{twin_run.snapshots:,}"),
        ("events", f"{twin_run.events:,}"),
        ("store", twin_run.store),
        *(("truth", str(path)) for path in twin_run.truth),
        ("site file", str(twin_run.site_file)),
    ]
    return Document(
        f"Simulated {length} of {scenario.name}: {plural(count, 'run', ',')}, "
        f"{plural(twin_run.surveys, 'survey', ',')} and "
        f"{plural(twin_run.snapshots, 'snapshot', ',')} kept.",
        (Section("kept", tables=(document.facts(rows),)),),
        details=(f"{scenario.title}; {span} {scenario.timezone}, seed {scenario.seed}",),
        more=("continue with:",),
        command=shell_text(["trimtab", "status", str(twin_run.site_file)]),
    )


DECIDING: Final = (
    *("drives", "raw_bytes", "usable_bytes", "stored_bytes", "write_amplification"),
    *("safe_fullness", "fullness_for_allocator", "purge_horizon_s", "life_years", "worn"),
    *("flash_drive_writes_per_day", "write_bytes_per_s", "mean_write_bytes_per_s"),
    *("fullness_for_bandwidth", "inodes", "mdt_bytes"),
)
"""Figures that decide; the others are folded."""


def size_document(sizing: Sizing, *, explained: bool = False) -> Document:
    """Return the page of a sizing; ``explained`` adds formula and source to each figure."""
    request, trim = sizing.request, sizing.request.trim
    osts = f"{plural(sizing.osts, 'OST', ',')} of {request.raid.drives} x {request.drive.name}"
    full = f"{format_percent(sizing.fullness, 0)} full"
    unmet = plural(len(sizing.shortfalls), "requirement")
    answer = f"{unmet} not met" if sizing.shortfalls else "all requirements met"
    requested = sizing.amplified[trim]
    formulas = (
        f"formulas for random writes: {requested.trimmed:.2f} with all free space trimmed, "
        f"{requested.untrimmed:.2f} with none"
    )
    curve = ", ".join(
        f"{format_percent(point.case.fullness, 0)} {point.simulated:.2f}" for point in sizing.curve
    )
    return Document(
        kind="size",
        heading=request.drive.name,
        subtitle="all of it is simulation: try it on one real target first",
        tone="warning" if sizing.shortfalls else "healthy",
        answer=f"{osts}, {full}, simulated: {answer}",
        details=sizing.shortfalls,
        sections=(
            *(_section(part, explained=explained) for part in sizing.sections),
            Section(
                "write amplification per trim schedule, simulated",
                tables=(table(("", "", ""), _schedules(sizing)),),
                notes=(formulas,),
            ),
            Section(f"with trim {trim}, by fullness", lines=(curve,), folded=True),
            Section(
                "the same flash with other spare, holding the same bytes",
                lines=tuple(_comparison(sizing)),
                folded=True,
            ),
            Section("assumed", notes=sizing.assumptions, folded=True),
        ),
    )


def _section(part: Figures, *, explained: bool) -> Section:
    deciding = [
        figure for figure in part.figures if figure.name in DECIDING and figure.value is not None
    ]
    columns = ("", "")
    rest = table(columns, (_row(each, explained) for each in part.figures if each not in deciding))
    return Section(
        part.title,
        tables=(table(columns, (_row(figure, explained) for figure in deciding)),),
        folds=() if rest is None else (("more", rest),),
        folded=not deciding,
    )


def _row(figure: SizingFigure, explained: bool) -> Row:
    note = f"{figure.formula}; {figure.source}" if explained and figure.formula else ""
    return row(figure.title, shown(figure), note=note)


def shown(figure: SizingFigure) -> str:
    """Return a figure's value in readable units, or why there is none."""
    value = figure.value
    if value is None:
        return f"- ({figure.reason})"
    if figure.unit == "B":
        return f"{format_bytes(value)} ({_decimal(value)})"
    if figure.unit in {"B/s", "s", "1"}:
        return format_value(value, figure.unit)
    if figure.unit == "years":
        return f"{value:.1f} years"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _decimal(value: float) -> str:
    return format_bytes_per_s(value).removesuffix("/s")


def _schedules(sizing: Sizing) -> Iterator[Row]:
    for word, amplified in sizing.amplified.items():
        error = "" if amplified.error is None else f"standard error {amplified.error:.3f}"
        requested = word == sizing.request.trim
        simulated = Cell(f"{amplified.simulated:.2f}", error)
        yield row(word, simulated, "<- asked" if requested else "", marked=requested)


def _comparison(sizing: Sizing) -> Iterator[str]:
    comparison, trim = sizing.comparison, sizing.request.trim
    peer, drive = comparison.peer, sizing.request.drive
    yield (
        f"this drive, {format_percent(drive.spare)} spare, {format_percent(sizing.fullness, 0)}"
        f" full: {comparison.own_never.simulated:.2f} never trimmed,"
        f" {comparison.own_trimmed.simulated:.2f} trim {trim}"
    )
    other = (
        f"{peer.name}, {format_percent(peer.spare)} spare,"
        f" {_decimal(peer.capacity_bytes)}, {format_percent(peer.fullness, 0)} full"
    )
    if comparison.peer_never is None or comparison.peer_trimmed is None:
        yield f"{other}: too small for these bytes"
        return
    yield (
        f"{other}: {comparison.peer_never.simulated:.2f} never trimmed,"
        f" {comparison.peer_trimmed.simulated:.2f} trim {trim}"
    )

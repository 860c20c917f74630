"""The pages of ``trimtab twin``: scenarios, what was simulated, a drive's write amplification."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from trimtab.base.units import format_bytes, format_duration, format_percent, plural
from trimtab.base.visible import shell_text
from trimtab.show import document, text
from trimtab.show.document import Document, Section, Table, row, table
from trimtab.twin import scenario_fact
from trimtab.twin.scenario import Scenario, capacity_bytes

if TYPE_CHECKING:
    from trimtab.twin.amplification import Amplification
    from trimtab.twin.drive_preset import Preset
    from trimtab.twin.scenario_fact import TwinRun


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
    """Return what was stored of a simulated period, and how to continue."""
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
        more=("go on with:",),
        command=shell_text(["trimtab", "status", str(twin_run.site_file)]),
    )

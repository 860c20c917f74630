"""The page of a scenario: its hardware, events and assumptions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trimtab.report import text
from trimtab.report.kit import Table, row, table
from trimtab.report.sections import Document, Section
from trimtab.twin.scenario import facts
from trimtab.twin.scenario.geometry import capacity_bytes
from trimtab.twin.scenario.model import Scenario
from trimtab.units import format_bytes, format_duration, plural


def scenario_document(scenario: Scenario) -> Document:
    """Return the page of a scenario."""
    moments = facts.timeline(scenario)
    span = f"{facts.local(scenario.start, scenario)} to {facts.local(scenario.end, scenario)}"
    counts = plural(len(moments), "event"), plural(len(scenario.assumptions), "assumption")
    probes = [(probe.name, facts.probe_text(probe, scenario)) for probe in scenario.probes]
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
                ("Built of", list(facts.built_of(scenario))),
                ("At the start", list(facts.used_by(scenario))),
                ("Probes", probes),
                ("What happens", happens),
                ("Assumed, without a source", list(scenario.assumptions.items())),
            )
            if pairs
        ),
    )


def _when(moment: facts.Moment, scenario: Scenario) -> str:
    until = "" if moment.until is None else f" to {facts.local(moment.until, scenario)}"
    return f"{facts.local(moment.at, scenario)}{until}"


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

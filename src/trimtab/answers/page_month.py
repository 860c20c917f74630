"""The report of one month of a site: verdicts, incidents, space and purge, cost, actions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from trimtab.answers.month import Month
from trimtab.base import text
from trimtab.base.action import Action, Instruction, Outcome
from trimtab.base.error import UsageError, visible
from trimtab.base.incident import Explanation, IncidentState
from trimtab.base.units import format_bytes, format_percent, plural
from trimtab.explain.headline import headline, tone_of
from trimtab.explain.page import incidents_table, rank
from trimtab.explain.status import ProbeCost
from trimtab.judge.page import panel, summary_table
from trimtab.judge.series_level import series_rank
from trimtab.purge.run.page import runs_answer, runs_sections
from trimtab.reach.bounded import check_report_path, write_report
from trimtab.show.chart import ACCENT, SECOND, Chart, Key, data, layered, milliseconds, time_axis
from trimtab.show.document import (
    Cell,
    Document,
    Section,
    Table,
    document_markdown,
    render_document,
    row,
    table,
)
from trimtab.store.snapshot_record import SpaceAt

_PANELS: Final = 6
_LISTED: Final = 40
_FORMATS: Final = (".html", ".md")


def monthly_document(month: Month) -> Document:
    """Return the report of a month."""
    so_far = "" if month.complete else ", so far"
    details = (
        _incidents_answer(month.incidents),
        space_answer(month.space),
        runs_answer(month.purges) if month.purges is not None else "",
        cost_answer(month.cost),
        actions_answer(month.actions),
    )
    return Document(
        kind="report",
        heading=f"{visible(month.site)}, {month.first:%B %Y}",
        subtitle=f"{month.first} to {month.last}{so_far} ({month.timezone})",
        tone=tone_of(month.standing),
        answer=headline(month.standing),
        details=tuple(filter(None, details)),
        sections=tuple(_sections(month)),
    )


def _incidents_answer(incidents: Sequence[Explanation]) -> str:
    """Return the number of incidents in the month."""
    states = Counter(each.incident.state for each in incidents)
    each = ", ".join(f"{states[state]} {state.value}" for state in IncidentState if states[state])
    return f"Incidents: {each}." if each else "Incidents: none in this month."


def _sections(month: Month) -> Iterator[Section]:
    ranked = sorted(month.judgement.series, key=series_rank)
    yield Section(
        "Verdicts",
        lines=() if ranked else ("No series has runs to judge.",),
        tables=(summary_table(ranked),),
        charts=tuple(
            partial(panel, series, place) for place, series in enumerate(ranked[:_PANELS])
        ),
        notes=month.judgement.notes,
    )
    incidents = sorted(month.incidents, key=rank)
    left = len(incidents) - _LISTED
    yield Section(
        "Incidents and their causes",
        lines=() if month.incidents else ("None in this month.",),
        tables=(incidents_table(incidents[:_LISTED]),),
        notes=(f"{left} smaller ones: trimtab incidents SITE --all",) if left > 0 else (),
    )
    yield Section(
        "Space",
        lines=() if month.space else ("No snapshot says how full it was.",),
        charts=(partial(space_chart, month.space),),
        tables=(_space_table(month.space),),
    )
    yield from _purge_sections(month)
    yield Section("Cost of the probes", lines=(cost_answer(month.cost),), tables=(_cost(month),))
    yield Section(
        "Actions",
        lines=() if month.actions else ("Nothing was changed.",),
        tables=(_actions_table(month.actions),),
    )


def space_answer(space: Sequence[SpaceAt]) -> str:
    """Return the fullness at the beginning and at the end, and the fullest target."""
    if not space:
        return "Fullness not known: no snapshot."
    first, last = space[0], space[-1]
    name, fullness = max((each.fullest for each in space), key=lambda fullest: fullest[1])
    peak = "" if name == "" else f"; fullest target {visible(name)}, {format_percent(fullness)}"
    end = f", {format_percent(last.fullness)} on {last.at:%d %b}" if len(space) > 1 else ""
    return f"Space: {format_percent(first.fullness)} full on {first.at:%d %b}{end}{peak}."


def space_chart(space: Sequence[SpaceAt]) -> Chart | None:
    """Return the fullness over the month, with the fullest target."""
    import altair as alt

    if len(space) < 2:
        return None
    rows = [
        {
            "at": milliseconds(each.at),
            "full": 100 * each.fullness,
            "fullest": 100 * each.fullest[1],
        }
        for each in space
    ]
    x = time_axis(rows)
    y = alt.Y("full:Q", title="full, %", scale=alt.Scale(domain=[0, 100]),
              axis=alt.Axis(tickCount=5))  # fmt: skip
    several = any(entry["fullest"] > entry["full"] + 0.01 for entry in rows)
    layers = [data(rows).mark_line(color=ACCENT, strokeWidth=2).encode(x=x, y=y)]
    keys = [Key("line", "accent", "whole file system")]
    if several:
        dashed = data(rows).mark_line(color=SECOND, strokeWidth=1.5, strokeDash=[5, 3])
        layers.append(dashed.encode(x=x, y="fullest:Q"))
        keys.append(Key("dashed", "second", "fullest target"))
    return Chart("space", "Fullness", "One snapshot a day.", layered(layers), (), tuple(keys))


def _space_table(space: Sequence[SpaceAt]) -> Table | None:
    chosen = {id(each): each for each in (*space[:1], *space[-1:])}.values()
    return table(
        ("time", "used>", "available>", "full>", "fullest target", "its fullness>"),
        (
            row(
                text.moment_text(each.at),
                format_bytes(each.used_bytes),
                format_bytes(each.available_bytes),
                format_percent(each.fullness),
                visible(each.fullest[0]) or "-",
                format_percent(each.fullest[1]),
            )
            for each in chosen
        ),
    )


def _purge_sections(month: Month) -> Iterator[Section]:
    if month.purges is None:
        yield Section("Purge", lines=(f"Not known: {text.sentence(month.purge_reason)}",))
        return
    yield Section("Purge", lines=(runs_answer(month.purges),))
    for section in runs_sections(month.purges)[:2]:
        yield Section(
            f"Purge: {section.title.lower()}", section.lines, section.charts, section.tables
        )


def cost_answer(cost: ProbeCost | None) -> str:
    """Return what the probes moved and the drives' endurance used for it."""
    if cost is None or not cost.runs:
        return "Probes: no run by Trimtab itself in this month."
    worn = ""
    if cost.drive_writes_per_day is not None:
        worn = f", {cost.drive_writes_per_day:.2g} drive writes a day"
    return (
        f"Probes: {plural(cost.runs, 'run', ',')} wrote {format_bytes(cost.bytes_written)} and "
        f"read {format_bytes(cost.bytes_read)}{worn}."
    )


def _cost(month: Month) -> Table | None:
    cost = month.cost
    if cost is None or not cost.runs:
        return None
    worn = cost.drive_writes_per_day
    hours = "not known" if cost.node_hours is None else f"{cost.node_hours:,.1f}"
    return table(
        ("what", "value>"),
        [
            row("runs", f"{cost.runs:,}"),
            row("written", format_bytes(cost.bytes_written)),
            row("read", format_bytes(cost.bytes_read)),
            row("node hours", hours),
            row(
                "drive writes a day",
                "not known" if worn is None else f"{worn:.3g}",
                note=text.sentence(cost.reason) if cost.reason else "",
            ),
        ],
        "Bytes moved by the benchmarks, before parity and write amplification.",
    )


def actions_answer(actions: Sequence[Action]) -> str:
    """Return the number of changes made, and of those that failed."""
    if not actions:
        return "Actions: nothing was changed."
    done = sum(action.outcome is Outcome.DONE for action in actions)
    rest = len(actions) - done
    words = f"Actions: {done} of {plural(len(actions), 'change', ',')} done"
    return f"{words}; {rest} not, see below." if rest else f"{words}."


def _actions_table(actions: Sequence[Action]) -> Table | None:
    left = len(actions) - _LISTED
    return table(
        ("time", "target", "change", "by", "outcome"),
        (
            row(
                text.moment_text(action.at),
                visible(action.instruction.target),
                _in_words(action.instruction),
                visible(action.who),
                _outcome(action),
                note=text.sentence(visible(action.instruction.reason)),
            )
            for action in actions[-_LISTED:]
        ),
        f"{left:,} earlier ones: trimtab actions SITE." if left > 0 else "",
    )


def _in_words(instruction: Instruction) -> str:
    if instruction.setting is None:
        return instruction.kind.value
    before = "" if instruction.before is None else f" {visible(instruction.before)} to"
    return f"{visible(instruction.setting)}{before} {visible(instruction.value or '-')}"


def _outcome(action: Action) -> Cell:
    if action.outcome is None:
        return Cell("not ended", tone="warning")
    good = action.outcome is Outcome.DONE
    quiet = action.outcome in {Outcome.SKIPPED, Outcome.CHANGED}
    return Cell(
        action.outcome.value, tone="healthy" if good else "unclear" if quiet else "critical"
    )


def check_out(out: Path) -> None:
    """Return if a report can be written to a file, as its name says: HTML or Markdown.

    Raises
    ------
    UsageError
        The name ends in something else, or the file cannot be there.
    """
    if out.suffix not in _FORMATS:
        raise UsageError(
            f"{visible(str(out))}: the format is not known",
            code="format-unknown",
            hint=f"let the name end in {' or '.join(_FORMATS)}",
        )
    check_report_path(out)


def write_monthly(out: Path, document: Document) -> None:
    """Write a report in the format of its name: whole or not at all."""
    render = document_markdown if out.suffix == ".md" else render_document
    write_report(out, render(document))

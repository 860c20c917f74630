"""Incidents with their causes as text: open ones first, each with its evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from trimtab.cli.render.text import console, utc_moment
from trimtab.model.incident import (
    NAMED,
    Assessment,
    Evidence,
    Explanation,
    Found,
    Incident,
    IncidentState,
    Instrument,
    LoneRun,
)
from trimtab.units import format_percent, format_value, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_EVIDENCE_SHOWN = 3
_LONE_SHOWN = 4
_STATES = {
    IncidentState.OPEN: "bold red",
    IncidentState.LASTING: "yellow",
    IncidentState.ENDED: "dim",
}
_MARKS = {Found.FOR: "+", Found.AGAINST: "-", Found.NEUTRAL: "=", Found.NOT_AVAILABLE: "?"}
_LEGEND = "+ speaks for it, - against it, = neither, ? not available; all times are UTC"


def print_incidents(
    explanations: Sequence[Explanation],
    standing: Sequence[Assessment],
    lone_runs: Sequence[LoneRun] = (),
) -> None:
    """Print incidents, open ones first, and what was wrong all along."""
    out = console()
    if not explanations:
        out.print("No incident was found.")
    for explanation in explanations:
        _print_incident(out, explanation, whole=False)
        out.print()
    if standing:
        out.print("wrong in all of the record, so that no incident can convict or clear it")
        for cause in standing:
            _print_cause(out, cause, whole=False)
    _print_lone_runs(out, lone_runs)
    if explanations:
        out.print(
            f"{_LEGEND}; trimtab explain SITE --at TIME shows all that was looked for", style="dim"
        )


def print_explanation(
    explanations: Sequence[Explanation], about: Explanation, lone_runs: Sequence[LoneRun] = ()
) -> None:
    """Print all that is known about one moment."""
    out = console()
    for explanation in explanations:
        _print_incident(out, explanation, whole=True)
        out.print()
    _print_moment(out, about, beside=bool(explanations))
    _print_lone_runs(out, lone_runs)
    out.print(_LEGEND, style="dim")


def _print_lone_runs(out: Console, lone_runs: Sequence[LoneRun]) -> None:
    """Print the runs that were lost alone: worth a look, and no incident."""
    if lone_runs:
        shown = [f"{visible(run.probe)} {utc_moment(run.at)}" for run in lone_runs[:_LONE_SHOWN]]
        more = len(lone_runs) - len(shown)
        out.print(
            f"note: {plural(len(lone_runs), 'run')} failed or did not finish, those around did: "
            f"{', '.join(shown)}{f' and {more} more' if more else ''}",
            style="dim",
            soft_wrap=True,
        )


def _print_incident(out: Console, explanation: Explanation, *, whole: bool) -> None:
    from rich.text import Text

    incident = explanation.incident
    head = Text(incident.state.value, style=_STATES[incident.state])
    out.print(head.append(f"  {visible(incident.summary)}", style="bold"), soft_wrap=True)
    for line in _facts(incident):
        out.print(f"  {visible(line)}", style="dim", soft_wrap=True)
    if explanation.unexplained:
        out.print("  unexplained: no cause is likely enough to be named", style="yellow")
    _print_causes(out, explanation, whole=whole)


def _print_moment(out: Console, explanation: Explanation, *, beside: bool) -> None:
    """Print a moment, which need not be an incident: nothing may have been wrong with it.

    Parameters
    ----------
    beside
        Whether it lies in an incident: that stands out already.
    """
    about = explanation.incident
    to = utc_moment(about.until or about.detected_at)
    out.print(f"the moment  {visible(about.summary)}", style="bold")
    out.print(
        f"  {utc_moment(about.at)} to {to}, held against the week before; {_counted(about)}",
        style="dim",
        soft_wrap=True,
    )
    if explanation.unexplained:
        text = "nothing else stands out" if beside else "nothing stands out"
        out.print(f"  {text}: no cause is likely enough to be named")
    _print_causes(out, explanation, whole=True)


def _print_causes(out: Console, explanation: Explanation, *, whole: bool) -> None:
    for place, cause in enumerate(explanation.causes):
        rank = "leading suspicion" if place == 0 else "suspicion"
        _print_cause(out, cause, whole=whole, unless_named=rank)
    if whole:
        _print_rest(out, explanation)
    else:
        for name, others in (
            ("cleared", explanation.cleared),
            ("not assessed", explanation.not_assessed),
        ):
            if others:
                out.print(f"  {name:<12}  {_titles(others)}", style="dim", soft_wrap=True)
    out.print(f"  to decide     {visible(explanation.deciding)}", soft_wrap=True)
    for instrument in explanation.instruments if whole else ():
        out.print(f"  {_instrument(instrument)}", style="dim", soft_wrap=True)
    for note in explanation.notes:
        out.print(f"  note          {visible(note)}", style="dim", soft_wrap=True)


def _facts(incident: Incident) -> Iterator[str]:
    yield (
        f"{incident.shape.value} {_stretch(incident)}; {_counted(incident)}; "
        f"detected {utc_moment(incident.detected_at)}, {incident.certainty.value}"
    )
    if incident.moved_with:
        yield f"moved alike: {', '.join(incident.moved_with)}"
    for number, stage in enumerate(incident.stages, start=1):
        yield f"stage {number} from {utc_moment(stage.at)}: {stage.what}"
    if incident.better:
        yield f"better at the same moment: {', '.join(incident.better)}"
    if incident.unmoved:
        yield f"did not move: {', '.join(incident.unmoved)}"
    if incident.targets:
        yield f"targets: {', '.join(incident.targets)}"


def _stretch(incident: Incident) -> str:
    begin = utc_moment(incident.at)
    if incident.until is None:
        return f"from {begin} on"
    end = utc_moment(incident.until)
    return f"at {begin}" if end == begin else f"from {begin} to {end}"


def _counted(incident: Incident) -> str:
    runs = plural(incident.runs, "run")
    return f"{runs}, {incident.unfinished} unfinished" if incident.unfinished else runs


def _print_cause(
    out: Console, cause: Assessment, *, whole: bool, unless_named: str | None = None
) -> None:
    """Print a cause with its evidence.

    Parameters
    ----------
    unless_named
        What is shown instead of the confidence of a cause that is not likely enough to be named:
        a figure is printed where it was found to hold, and nowhere else.
    """
    because = "" if cause.because_of is None else f", because of {cause.because_of}"
    standing = ", wrong in all of the record" if cause.standing else ""
    confidence = "" if cause.standing else f"{format_percent(cause.confidence)}  "
    if unless_named is not None and cause.confidence < NAMED:
        confidence = f"{unless_named}  "
    out.print(f"  {confidence}{visible(cause.title)}{because}{standing}", soft_wrap=True)
    shown = cause.evidence if whole else _weighty(cause.evidence)
    for piece in shown:
        out.print(_evidence(piece), soft_wrap=True)


def _weighty(evidence: Iterable[Evidence]) -> Sequence[Evidence]:
    return [piece for piece in evidence if piece.weight][:_EVIDENCE_SHOWN]


def _evidence(piece: Evidence) -> Text:
    from rich.text import Text

    text = Text(f"      {_MARKS[piece.found]} {visible(piece.what)}")
    if piece.reason is not None:
        text.append(f" ({visible(piece.reason)})", style="dim")
    if piece.at is not None:
        text.append(f" [{utc_moment(piece.at)}]", style="dim")
    # An entry of the log book is told by its words and time: nothing takes its identifier.
    if piece.source is not None and not piece.source.startswith("event "):
        text.append(f" {visible(piece.source)}", style="dim")
    return text


def _print_rest(out: Console, explanation: Explanation) -> None:
    for name, others in (
        ("looked for and not found", explanation.cleared),
        ("not assessed: what it takes is not available", explanation.not_assessed),
        ("wrong in all of the record", explanation.standing),
    ):
        if others:
            out.print(f"  {name}", style="bold")
        for cause in others:
            _print_cause(out, cause, whole=True)


def _titles(causes: Iterable[Assessment]) -> str:
    return "; ".join(visible(cause.title) for cause in causes)


def _instrument(instrument: Instrument) -> str:
    below = instrument.notices_below
    limit = "" if below is None else f", below {format_value(below, 'B/s')}"
    saw = "saw" if instrument.saw else "has no data"
    name, reason = visible(instrument.name), visible(instrument.reason)
    return f"{name} ({instrument.metric}{limit}) {saw}: {reason}"

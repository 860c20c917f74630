"""Incidents with their causes as text: open ones first, each with its evidence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING, Final

from trimtab.cli.options import extent
from trimtab.cli.render.screen import Column, print_rows, print_screen, print_wrapped
from trimtab.cli.render.text import site_argument, utc_moment, value_text
from trimtab.model.incident import (
    NAMED,
    NOTABLE,
    Assessment,
    Evidence,
    Explanation,
    Found,
    Incident,
    IncidentState,
    Instrument,
    LoneRun,
    SpeedAt,
)
from trimtab.report.answers import (
    cause_text,
    effect_text,
    explain_answer,
    is_worse,
    rank,
)
from trimtab.report.headline import headline
from trimtab.report.text import key_label
from trimtab.units import format_duration, format_percent, format_value, plural
from trimtab.visible import site_word, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from trimtab.model.standing import SiteStanding


_EVIDENCE_SHOWN = 3
_LONE_SHOWN = 4
_ROWS: Final = 12
"""Incidents in the table of a screen: the first is shown with its causes below."""
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
    lone_runs: Sequence[LoneRun],
    site: SiteStanding,
) -> None:
    """Print incidents, open ones first and then the largest, and what was wrong all along.

    Parameters
    ----------
    site
        How it stands now, with these incidents.
    """
    ranked = sorted(explanations, key=rank)
    more = []
    if ranked:
        first = ranked[0].incident
        word, at = site_argument(first.site), f"{first.at:%Y-%m-%dT%H:%MZ}"
        more.append(f"all evidence about one of them: trimtab explain {word} --at {at}")
    if ranked and not extent().everything:
        more.append("--all shows each incident with its causes")
    print_screen(
        headline(site),
        partial(_print_incidents_body, ranked, standing, lone_runs),
        more=more,
    )


_COLUMNS: Final = (
    Column("state"),
    Column("since (UTC)"),
    Column("lasted", right=True, drop=3),
    Column("effect", right=True),
    Column("what", wraps=True, least=14),
    Column("likely cause", wraps=True, least=16),
)


def _print_incidents_body(
    ranked: Sequence[Explanation],
    standing: Sequence[Assessment],
    lone_runs: Sequence[LoneRun],
    out: Console,
) -> None:
    requested = extent()
    rows = requested.rows(_ROWS)
    if ranked:
        _print_next(out, ranked[0])
    else:
        out.print("Incidents in the record: none.", style="dim")
    print_rows(out, _COLUMNS, [_row(explanation) for explanation in ranked[:rows]])
    if len(ranked) > rows:
        out.print(f"... {len(ranked) - rows:,} more incidents: --all", style="dim")
    in_full = ranked if requested.everything else ranked[:1]
    for explanation in in_full:
        out.print()
        _print_incident(out, explanation, whole=False, has_next=explanation is not ranked[0])
    if standing:
        out.print()
        out.print("wrong in all of the record, so that no incident can convict or clear it")
        for cause in standing:
            _print_cause(out, cause, whole=False)
    _print_lone_runs(out, lone_runs)
    if ranked or standing:
        print_wrapped(out, f"{_LEGEND}; %: probability of the cause", "dim")


def _row(explanation: Explanation) -> tuple[str | Text, ...]:
    from rich.text import Text

    incident = explanation.incident
    return (
        Text(incident.state.value, style=_STATES[incident.state]),
        f"{incident.at.astimezone(UTC):%Y-%m-%d %H:%M}",
        _lasted(incident),
        effect_text(incident.effect),
        _subject(incident),
        cause_text(explanation),
    )


def _lasted(incident: Incident) -> str:
    if incident.until is None:
        return ""
    if incident.until == incident.at:
        return plural(incident.runs, "run")
    return format_duration((incident.until - incident.at).total_seconds())


def _subject(incident: Incident) -> str:
    """Return what an incident is about: its targets, or the series in which it is most visible."""
    if incident.targets:
        more = len(incident.targets) - 1
        return visible(incident.targets[0]) + (f" and {more} more" if more else "")
    if incident.key is None:
        stated = incident.summary.partition(" UTC: ")[2].partition(";")[0]
        return visible(stated or incident.shape.value)
    others = f" and {len(incident.moved_with)} more" if incident.moved_with else ""
    return f"{key_label(incident.key)}{others}"


def print_explanation(
    explanations: Sequence[Explanation],
    about: Explanation,
    lone_runs: Sequence[LoneRun] = (),
    speeds: Sequence[SpeedAt] = (),
) -> None:
    """Print all that is known about one moment: first how fast its runs were."""
    more = [] if extent().everything else ["--all shows every cause with all evidence"]
    print_screen(
        explain_answer(about, explanations, speeds),
        partial(_print_explanation_body, explanations, about, lone_runs, speeds),
        more=more,
    )


_SPEED_COLUMNS: Final = (
    Column("series", wraps=True),
    Column("runs", right=True, drop=3),
    Column("at (UTC)", drop=2),
    Column("level", right=True),
    Column("usual", right=True),
    Column("difference", right=True),
)


def _print_explanation_body(
    explanations: Sequence[Explanation],
    about: Explanation,
    lone_runs: Sequence[LoneRun],
    speeds: Sequence[SpeedAt],
    out: Console,
) -> None:
    everything = extent().everything
    first = min(explanations, key=rank, default=None)
    if first is not None:
        _print_next(out, first)
    print_rows(out, _SPEED_COLUMNS, [_speed_row(speed) for speed in speeds])
    if speeds:
        last, *earlier = sorted({speed.usual_until for speed in speeds}, reverse=True)
        begun = "".join(f" or {utc_moment(at)}, where an incident began" for at in earlier[:1])
        text = f"usual: median of the week before {utc_moment(last)}{begun}, or of all before"
        print_wrapped(out, text, "dim")
    for explanation in explanations:
        out.print()
        _print_incident(out, explanation, whole=everything, has_next=explanation is not first)
    out.print()
    _print_moment(out, about, beside=bool(explanations), whole=everything)
    _print_lone_runs(out, lone_runs)
    print_wrapped(out, f"{_LEGEND}; %: probability of the cause", "dim")


def _speed_row(speed: SpeedAt) -> tuple[str | Text, ...]:
    from rich.text import Text

    ratio = speed.ratio
    notable = ratio is not None and abs(ratio - 1) >= NOTABLE
    unfinished = f", {speed.unfinished} unfinished" if speed.unfinished else ""
    return (
        key_label(speed.key),
        f"{speed.runs}{unfinished}",
        f"{speed.at.astimezone(UTC):%Y-%m-%d %H:%M}",
        value_text(speed.value, speed.key.unit),
        value_text(speed.usual, speed.key.unit),
        Text(effect_text(ratio), style="red" if notable and is_worse(ratio, speed.key) else ""),
    )


def _print_lone_runs(out: Console, lone_runs: Sequence[LoneRun]) -> None:
    """Print the runs that were lost alone: worth a look, and no incident."""
    if lone_runs:
        shown = [f"{visible(run.probe)} {utc_moment(run.at)}" for run in lone_runs[:_LONE_SHOWN]]
        more = len(lone_runs) - len(shown)
        print_wrapped(
            out,
            f"note: {plural(len(lone_runs), 'run')} failed or did not finish, those around did: "
            f"{', '.join(shown)}{f' and {more} more' if more else ''}",
            "dim",
        )


def _print_next(out: Console, explanation: Explanation) -> None:
    """Print what to do about an incident: the measurement that decides on its cause."""
    print_wrapped(out, f"next: {visible(_next(explanation))}", hang=6)


def _next(explanation: Explanation) -> str:
    """Return what to do about an incident, its commands with the site as it was given."""
    site = explanation.incident.site
    command = re.compile(rf"(\btrimtab [a-z ]+ ){re.escape(site_word(site))}(?![\w/.-])")
    return command.sub(lambda begin: begin[1] + site_argument(site), explanation.deciding)


def _print_incident(out: Console, explanation: Explanation, *, whole: bool, has_next: bool) -> None:
    """Print an incident with its causes.

    Parameters
    ----------
    has_next
        Whether to print what to do next, too: of the first incident the screen begins with it.
    """
    from rich.text import Text

    incident = explanation.incident
    head = Text(incident.state.value, style=_STATES[incident.state])
    print_wrapped(out, head.append(f"  {visible(incident.summary)}", style="bold"), hang=6)
    for line in _facts(incident):
        print_wrapped(out, line, "dim", indent=2)
    if explanation.unexplained:
        print_wrapped(out, "unexplained: no cause is likely enough to be named", "yellow", indent=2)
    _print_causes(out, explanation, whole=whole, has_next=has_next)


def _print_moment(out: Console, explanation: Explanation, *, beside: bool, whole: bool) -> None:
    """Print a moment, which need not be an incident: nothing may have been wrong with it.

    Parameters
    ----------
    beside
        Whether it lies in an incident: that stands out already.
    """
    about = explanation.incident
    to = utc_moment(about.until or about.detected_at)
    out.print(f"the moment  {visible(about.summary)}", style="bold")
    stretch = f"{utc_moment(about.at)} to {to}, held against the week before; {_counted(about)}"
    print_wrapped(out, stretch, "dim", indent=2)
    if explanation.unexplained:
        text = "nothing else stands out" if beside else "nothing stands out"
        print_wrapped(out, f"{text}: no cause is likely enough to be named", indent=2)
    if whole or not beside:
        _print_causes(out, explanation, whole=whole, has_next=True)


def _print_causes(out: Console, explanation: Explanation, *, whole: bool, has_next: bool) -> None:
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
                text = _titles(others) if extent().everything else plural(len(others), "cause")
                print_wrapped(out, f"{name:<12}  {text}", "dim", indent=2, hang=14)
    if has_next:
        print_wrapped(out, f"next          {_next(explanation)}", indent=2, hang=14)
    for instrument in explanation.instruments if whole else ():
        print_wrapped(out, _instrument(instrument), "dim", indent=2)
    for note in explanation.notes:
        print_wrapped(out, f"note          {note}", "dim", indent=2, hang=14)


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
    print_wrapped(out, f"{confidence}{cause.title}{because}{standing}", indent=2)
    shown = cause.evidence if whole else _weighty(cause.evidence)
    for piece in shown:
        print_wrapped(out, _evidence(piece), indent=6)


def _weighty(evidence: Iterable[Evidence]) -> Sequence[Evidence]:
    return [piece for piece in evidence if piece.weight][:_EVIDENCE_SHOWN]


def _evidence(piece: Evidence) -> Text:
    from rich.text import Text

    text = Text(f"{_MARKS[piece.found]} {visible(piece.what)}")
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

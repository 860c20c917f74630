"""The pages of incidents and of one moment: each cause with its evidence. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from trimtab.base.error import site_word, visible
from trimtab.base.finding import Tone
from trimtab.base.incident import (
    NAMED,
    NOTABLE,
    Assessment,
    Evidence,
    Explanation,
    Incident,
    IncidentState,
    Instrument,
    LoneRun,
    Shape,
    SpeedAt,
)
from trimtab.base.server_message import MessageHour
from trimtab.base.text import joined_sentences, key_label, minute_text
from trimtab.base.units import (
    enumerated,
    format_duration,
    format_percent,
    format_value,
    plural,
    value_or_dash,
)
from trimtab.explain.headline import headline, short_summary, tone_of
from trimtab.judge.series_level import effect_text, is_worse, size_of
from trimtab.show.document import Cell, Document, Row, Section, Table, row, table

if TYPE_CHECKING:
    from trimtab.explain.status import SiteStanding

STATE_TONES: Final[dict[IncidentState, Tone]] = {
    IncidentState.OPEN: "critical",
    IncidentState.LASTING: "warning",
    IncidentState.ENDED: "unclear",
}
_STANDING: Final = "wrong throughout the record"
_TITLES: Final = 3
"""Number of causes named if none is likely; all are listed with their evidence."""


def incidents_document(
    explanations: Sequence[Explanation],
    standing: Sequence[Assessment],
    lone_runs: Sequence[LoneRun],
    site: SiteStanding,
    *,
    in_full: int | None = None,
    where: str = "",
) -> Document:
    """Return incidents, open ones first and then the largest, and what was wrong throughout.

    Parameters
    ----------
    site
        State of the site now, with these incidents.
    in_full
        Number of incidents shown with their causes; ``None``: all.
    where
        The site as the next command takes it; empty: by its name.
    """
    ranked = sorted(explanations, key=rank)
    sections = [
        Section(
            "Incidents",
            lines=() if ranked else ("Incidents in the record: none.",),
            tables=(incidents_table(ranked),),
            notes=tuple(_lone_runs(lone_runs)),
        )
    ]
    for explanation in ranked[:in_full]:
        next_ = "" if explanation is ranked[0] else next_text(explanation, where)
        sections += incident_sections(explanation, next_)
    sections += [_cause_section(cause, _STANDING) for cause in standing]
    return Document(
        kind="incidents",
        heading=site.site,
        subtitle="causes by probability, with the evidence for and against each",
        tone=tone_of(site),
        answer=headline(site),
        details=tuple(next_text(first, where) for first in ranked[:1]),
        sections=tuple(sections),
    )


def moment_document(
    about: Explanation,
    explanations: Sequence[Explanation],
    lone_runs: Sequence[LoneRun],
    speeds: Sequence[SpeedAt],
    *,
    where: str = "",
) -> Document:
    """Return all evidence about one moment: first the speed of its runs.

    Parameters
    ----------
    about
        The moment, which need not be an incident: nothing may have been wrong.
    explanations
        Explanations of the incidents that include it.
    where
        As in `incidents_document`.
    """
    first = min(explanations, key=rank, default=about)
    sections = [Section("Runs", tables=(_speeds_table(speeds),), notes=tuple(_usual(speeds)))]
    for explanation in (*explanations, about):
        same = explanation.deciding == first.deciding
        next_ = "" if same else next_text(explanation, where)
        sections += incident_sections(explanation, next_, beside=bool(explanations))
    return Document(
        kind="explain",
        heading=about.incident.site,
        subtitle=minute_text(about.incident.at),
        tone="info",
        answer=explain_answer(about, explanations, speeds),
        details=(next_text(first, where), *_lone_runs(lone_runs)),
        sections=tuple(sections),
    )


def next_text(explanation: Explanation, where: str) -> str:
    """Return the decisive measurement for a cause, its commands with the site as given."""
    site = site_word(explanation.incident.site)
    command = re.compile(rf"(\btrimtab [a-z ]+ ){re.escape(site)}(?![\w/.-])")
    return f"next: {command.sub(lambda begin: begin[1] + (where or site), explanation.deciding)}"


def incidents_table(ranked: Sequence[Explanation]) -> Table | None:
    """Return a row per incident."""
    return table(
        ("incident", "state", "effect>", "lasted>", "likeliest cause"),
        (
            row(
                short_summary(each.incident.summary),
                Cell(each.incident.state.value, tone=STATE_TONES[each.incident.state]),
                effect_text(each.incident.effect) or "-",
                _lasted(each.incident),
                cause_text(each),
            )
            for each in ranked
        ),
    )


def _lasted(incident: Incident) -> str:
    if incident.until is None:
        return "-"
    if incident.until == incident.at:
        return plural(incident.runs, "run")
    return format_duration((incident.until - incident.at).total_seconds())


def incident_sections(
    explanation: Explanation, next_: str = "", *, beside: bool = False
) -> Iterator[Section]:
    """Yield an incident, or a moment, and each of its causes with the evidence.

    Parameters
    ----------
    next_
        What to do about it.
    beside
        Whether a moment is in an incident, which stands out already.
    """
    incident = explanation.incident
    facts = tuple(filter(None, (*_facts(explanation, beside=beside), next_)))
    word = "the moment" if incident.shape is Shape.MOMENT else incident.state.value
    tables = (
        ("cleared", _evidence_table(explanation.cleared)),
        ("not assessed", _evidence_table(explanation.not_assessed)),
        (_STANDING, _evidence_table(explanation.standing)),
        ("kernel logs", _messages_table(explanation.messages)),
        ("probes and surveys", _instruments_table(explanation.instruments)),
    )
    folds = tuple((name, made) for name, made in tables if made is not None)
    yield Section(f"{word}: {incident.summary}", facts, notes=explanation.notes, folds=folds)
    for place, cause in enumerate(explanation.causes):
        suspicion = "suspicion" if place else "leading suspicion"
        named = format_percent(cause.confidence) if cause.confidence >= NAMED else suspicion
        label = _STANDING if cause.standing else named
        yield _cause_section(cause, label, _title_of(explanation, cause.because_of))


def _title_of(explanation: Explanation, cause: str | None) -> str:
    """Return the title of a cause by its id; empty for none."""
    others = (*explanation.causes, *explanation.cleared, *explanation.not_assessed)
    return next((other.title for other in others if other.cause == cause), cause or "")


def _facts(explanation: Explanation, *, beside: bool) -> Iterator[str]:
    incident = explanation.incident
    end = "" if incident.until is None else f" to {minute_text(incident.until)}"
    runs = plural(incident.runs, "run")
    runs += f", {incident.unfinished} unfinished" if incident.unfinished else ""
    if incident.shape is Shape.MOMENT:
        yield f"{minute_text(incident.at)}{end}, compared with the week before; {runs}"
    else:
        yield (
            f"{incident.shape.value} from {minute_text(incident.at)}{end}; {runs}; "
            f"detected {minute_text(incident.detected_at)}, {incident.certainty.value}"
        )
    for number, stage in enumerate(incident.stages, start=1):
        yield f"stage {number} from {minute_text(stage.at)}: {stage.what}"
    for name, names in (
        ("moved alike", incident.moved_with),
        ("improved at the same moment", incident.better),
        ("did not move", incident.unmoved),
        ("targets", incident.targets),
    ):
        if names:
            yield f"{name}: {', '.join(names)}"
    for name, causes in (
        ("cleared", explanation.cleared),
        ("not assessed", explanation.not_assessed),
    ):
        if causes:
            yield f"{name}: {enumerated((cause.title for cause in causes), _TITLES)}"
    if explanation.unexplained:
        at_moment = f"nothing {'else ' * beside}stands out"
        word = at_moment if incident.shape is Shape.MOMENT else "unexplained"
        yield f"{word}: no cause is likely enough to be named"


def _cause_section(cause: Assessment, label: str, trigger: str = "") -> Section:
    """Return a cause with its evidence; ``trigger`` is the title of the cause that led to it."""
    because = f", because of {trigger}" if trigger else ""
    weighty_first = sorted(cause.evidence, key=lambda piece: not piece.weight)
    return Section(f"{label}: {cause.title}{because}", notes=tuple(map(_evidence, weighty_first)))


def _evidence(piece: Evidence) -> str:
    words = f"{piece.found.value.replace('_', ' ')}: {piece.what}"
    if piece.reason is not None:
        words += f" ({piece.reason})"
    if piece.at is not None:
        words += f" [{minute_text(piece.at)}]"
    # Identify an entry of the log book by text and time: no command takes its identifier.
    if piece.source is not None and not piece.source.startswith("event "):
        words += f" {piece.source}"
    return words


def _evidence_table(causes: Sequence[Assessment]) -> Table | None:
    """Return a row per piece of evidence on causes, each cause named in its first row."""
    return table(
        ("cause", "evidence"),
        (
            row("" if place else f"{cause.title} ({format_percent(cause.confidence)})", words)
            for cause in causes
            for place, words in enumerate(map(_evidence, cause.evidence))
        ),
    )


def _messages_table(messages: Sequence[MessageHour]) -> Table | None:
    """Return a row per hour and family of messages."""
    return table(
        ("from", "message", "times>", "of", "by", "kernel log of"),
        (
            row(
                minute_text(each.at),
                each.what,
                f"{each.count}",
                enumerated(each.targets),
                enumerated(each.clients),
                enumerated(each.hosts),
            )
            for each in messages
        ),
    )


def _instruments_table(instruments: Sequence[Instrument]) -> Table | None:
    """Return a row per probe and survey, with its detection limit for one target."""
    return table(
        ("probe or survey", "notices below>", "saw it", "why"),
        (
            row(
                Cell(each.name, each.metric),
                value_or_dash(each.notices_below, "B/s"),
                "yes" if each.saw else "no data",
                each.reason,
            )
            for each in instruments
        ),
    )


def _speeds_table(speeds: Sequence[SpeedAt]) -> Table | None:
    columns = ("series", "runs>", "at", "level>", "usual>", "difference>")
    return table(columns, map(_speed_row, speeds))


def _speed_row(speed: SpeedAt) -> Row:
    ratio, unit = speed.ratio, speed.key.unit
    slower = is_worse(ratio, speed.key) and abs((ratio or 0.0) - 1) >= NOTABLE
    return row(
        key_label(speed.key),
        Cell(f"{speed.runs}", f"{speed.unfinished} unfinished" if speed.unfinished else ""),
        minute_text(speed.at),
        value_or_dash(speed.value, unit),
        value_or_dash(speed.usual, unit),
        Cell(effect_text(ratio), tone="critical" if slower else None),
    )


def _usual(speeds: Sequence[SpeedAt]) -> Iterator[str]:
    if speeds:
        last, *earlier = sorted({speed.usual_until for speed in speeds}, reverse=True)
        begun = "".join(f" or {minute_text(at)}, where an incident began" for at in earlier[:1])
        yield f"usual: median of the week before {minute_text(last)}{begun}, or of all before"


def _lone_runs(lone_runs: Sequence[LoneRun]) -> Iterator[str]:
    """Yield the single lost runs and the slow ones: worth a look, but no incident."""
    for is_slow, verb in ((False, "failed or did not finish, those around did"),
                          (True, "slow, those around were as usual")):  # fmt: skip
        runs = [run for run in lone_runs if bool(run.slow) is is_slow]
        if runs:
            names = enumerated(map(_of_run, runs))
            yield f"note: {plural(len(runs), 'run')} {verb}: {names}"


def _of_run(run: LoneRun) -> str:
    apart = f" ({run.apart})" if run.apart else ""
    slow = f" ({run.slow})" if run.slow else ""
    return f"{run.probe}{apart} {minute_text(run.at)}{slow}"


def explain_answer(
    about: Explanation, explanations: Sequence[Explanation], speeds: Sequence[SpeedAt]
) -> str:
    """Return the speed of the runs at a moment, and the likeliest cause.

    Parameters
    ----------
    about
        The moment.
    explanations
        Explanations of the incidents that include it.
    speeds
        Per series, largest difference first.
    """
    if explanations:
        incident = min(explanations, key=rank)
        reason = f"{incident.incident.state.value.capitalize()} incident, {cause_text(incident)}"
    else:
        reason = "In no incident"
    first = f"{visible(about.incident.summary)}: {_speeds_answer(speeds)}"
    return joined_sentences(first, reason)


def _speeds_answer(speeds: Sequence[SpeedAt]) -> str:
    known = [speed for speed in speeds if speed.ratio is not None]
    if not known:
        return "no run with a usual level to compare it with"
    notable = [speed for speed in known if abs((speed.ratio or 0.0) - 1) >= NOTABLE]
    if not notable:
        return f"{len(known)} series as fast as usual"
    speed = notable[0]
    answer = (
        f"{key_label(speed.key)} {effect_text(speed.ratio)} "
        f"from usual ({format_value(speed.value or 0.0, speed.key.unit)}, usually "
        f"{format_value(speed.usual, speed.key.unit)})"
    )
    if len(notable) > 1:
        answer += f"; {len(notable) - 1} more of {len(known)} series differ"
    usual = len(known) - len(notable)
    return f"{answer}; {usual} as usual" if usual else answer


def rank(explanation: Explanation) -> tuple[int, float, float]:
    """Return the sort key of an incident: open ones first, then by the size of their effect."""
    incident = explanation.incident
    return (
        list(IncidentState).index(incident.state),
        -size_of(incident.effect),
        -incident.at.timestamp(),
    )


def cause_text(explanation: Explanation) -> str:
    """Return the likeliest cause with its probability, or that it is unknown."""
    cause = explanation.likeliest
    if cause is None:
        return "cause unknown"
    because = "".join(f", because of {visible(link.title)}" for link in explanation.chain[1:])
    return f"{visible(cause.title)} ({format_percent(cause.confidence, 0)}){because}"

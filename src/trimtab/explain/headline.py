"""The first line of every screen, page and alert: the worst current problem. Pure.

::

    levels (judge) ─┐
    incidents      ─┼─▶ SiteStanding ─▶ site_troubles: one list, worst first, each with its repair
    targets, slow  ─┤                        └─▶ headline: its first entry, and what is beside it
    purge runs     ─┘
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from trimtab.base.error import shell_text, visible
from trimtab.base.finding import Finding, Fix, Seen, Severity
from trimtab.base.incident import NOTABLE, IncidentState
from trimtab.base.series import ChangeStatus, LevelNow
from trimtab.base.text import joined_sentences, key_label, local_moment, series_label
from trimtab.base.toml_problem import NAME
from trimtab.base.units import format_percent, plural, whole_second
from trimtab.base.verdict import Change, VerdictStatus
from trimtab.explain.status import SiteStanding
from trimtab.explain.trouble import state_findings
from trimtab.judge.series_level import (
    DIRECTION_UNKNOWN,
    NOTABLE_SIZE,
    UNTESTED,
    is_worse,
    level_now,
    level_text,
    level_word,
    size_of,
)

if TYPE_CHECKING:
    from trimtab.base.finding import Tone
    from trimtab.base.series import SeriesJudgement, SiteJudgement
    from trimtab.base.verdict import Verdict
    from trimtab.explain.status import IncidentStatus, PurgeTrouble

_SEVERE: Final = math.log(2.0)
"""Half of the level, in logarithms."""
_SAME: Final = timedelta(days=2)
"""Maximum distance between the onsets of a level and an incident of one problem."""
_GOING_ON: Final = frozenset({"incident-open", "level-lower"})
_BESIDE: Final = 2
"""Number of other troubles named in a headline; further ones are counted."""


# The list of troubles


@dataclass(frozen=True, slots=True)
class _Matter:
    """A trouble, its sort key, the affected series, and the command that shows it.

    Attributes
    ----------
    series
        Id of the series, else its display name; ``None`` if it is of no single one.
    """

    rank: tuple[int, int, float]
    finding: Finding
    site: str
    series: str | None = None
    see: str = ""


def site_troubles(standing: SiteStanding) -> tuple[Finding, ...]:
    """Return everything that is wrong with a site now, worst first, each with its repair."""
    return tuple(matter.finding for matter in _matters(standing))


def _matters(standing: SiteStanding) -> list[_Matter]:
    matters = [
        _Matter(_rank(finding, None), finding, standing.site, see=_see(standing, finding))
        for finding in state_findings(standing.state, standing.slow, site=standing.site)
    ]
    matters += [_of_purge(standing.site, trouble) for trouble in standing.purging]
    matters += [_of_incident(incident, standing.incidents) for incident in standing.incidents]
    for series in standing.series:
        level = level_now(series)
        if level is None or not is_worse(level.from_last, series.key):
            continue
        if not any(_is_known(series, level, incident) for incident in standing.incidents):
            matters.append(_of_level(standing, series, level))
    placed = (replace(each, finding=_found_there(standing, each.finding)) for each in matters)
    return sorted(placed, key=lambda matter: matter.rank)


def _found_there(standing: SiteStanding, finding: Finding) -> Finding:
    """Return a finding whose command names the site in a usable form, or has none."""
    program, *words = finding.fix.argv or ("",)
    if not words or standing.where == "":
        return finding
    if standing.where is not None:
        words = [standing.where if word == standing.site else word for word in words]
    elif words[0] != "explain":  # a site without a file only has its store
        words = []
    return replace(finding, fix=replace(finding.fix, argv=(program, *words) if words else ()))


def _see(standing: SiteStanding, finding: Finding) -> str:
    """Return the command that shows the subject of a finding; empty if none does."""
    words = ["trimtab", "targets", standing.where or standing.site]
    if finding.target is not None and standing.state is not None:
        words.append(finding.target)
    if standing.where is None:
        if standing.state is None:
            return ""
        words += ["--at", whole_second(standing.state.snapshot.at)]
    elif not standing.where and not NAME.fullmatch(standing.site):
        return ""
    return shell_text(words)


def _rank(finding: Finding, effect: float | None) -> tuple[int, int, float]:
    """Return the sort key: inaccessible data before lost performance, that before future risks."""
    performance = finding.source == _SOURCE
    before = not performance and finding.severity is not Severity.CRITICAL
    return finding.severity.rank, 2 * before + performance, -size_of(effect)


_SOURCE: Final = "incidents"


def _loss_severity(effect: float | None) -> Severity:
    """Return the severity of a loss; one below `NOTABLE` is worth a note but no headline."""
    if effect is None:
        return Severity.WARNING
    size = size_of(effect)
    small = Severity.INFO if size < NOTABLE_SIZE else Severity.WARNING
    return Severity.CRITICAL if size >= _SEVERE else small


def _of_incident(incident: IncidentStatus, known: Sequence[IncidentStatus]) -> _Matter:
    level = incident.level_now
    later = level is not None and level.since > incident.at + _SAME
    if level is not None and later and any(abs(k.at - level.since) <= _SAME for k in known):
        level = None  # the later step is reported with its own incident
    effect = incident.effect if level is None else level.from_last
    short = short_summary(incident.summary)
    state = f"{incident.state} incident"
    if incident.state == IncidentState.ENDED:
        state = "incident ended, level not back"
    if incident.certainty == ChangeStatus.SUSPECT:
        state = f"suspected {state}"
    label = incident.name or series_label(incident.probe or "", incident.metric or "")
    known_level = incident.level_now is not None and incident.metric is not None
    series = (incident.series or label) if known_level else None
    if level is None or not known_level:
        title = f"{state} {short}"
    else:
        others = short.rpartition(", with ")
        beside = f", with {others[2]}" if others[1] else ""
        title = f"{label} {level_text(level)}{beside} ({state})"
    cause = f"cause: {visible(incident.cause)}" if incident.cause else "cause unknown"
    at = level.since if level is not None and later else incident.at
    finding = _loss(incident.site, f"incident-{incident.state}", f"{title}; {cause}", effect, at)
    certain = 1.0 if incident.certainty == ChangeStatus.CONFIRMED else 0.5
    finding = replace(finding, confidence=certain)
    size = effect if level is None else level.from_best
    return _Matter(_rank(finding, size), finding, incident.site, series)


def _of_purge(site: str, trouble: PurgeTrouble) -> _Matter:
    since = f"{trouble.at:%Y-%m-%d}"
    finding = Finding(
        id=trouble.id,
        severity=Severity.WARNING,
        title=trouble.text,
        target=None,
        seen=Seen(since, None, trouble.id, "log book"),
        source="log book",
        why="The file system fills up although a purge is scheduled, until writes fail.",
        fix=Fix(
            "Check the log of cron or of the timer that runs it, and trimtab purge report on its "
            "host; run it again. A log book entry of kind purge also resolves it.",
            ("trimtab", "event", "list", site, "--since", since),
        ),
        confidence=1.0,
    )
    return _Matter(_rank(finding, None), finding, site)


def _of_level(standing: SiteStanding, series: SeriesJudgement, level: LevelNow) -> _Matter:
    label = key_label(series.key)
    title = f"{label} {level_text(level)}"
    finding = _loss(standing.site, "level-lower", title, level.from_last, level.since)
    if standing.searched is None:
        finding = replace(finding, fix=Fix(finding.fix.prose))
    identity = series.key.id if series.key.comparability else label
    return _Matter(_rank(finding, level.from_best), finding, standing.site, identity)


def _loss(site: str, id_: str, title: str, effect: float | None, at: datetime) -> Finding:
    moment = f"{at.astimezone(UTC):%Y-%m-%dT%H:%MZ}"
    return Finding(
        id=id_,
        severity=_loss_severity(effect),
        title=title,
        target=None,
        seen=Seen(effect, "1", "level against the one before", _SOURCE),
        source=_SOURCE,
        why="Jobs are slower, or vary more, than this file system has shown that it can do.",
        fix=Fix(
            "See which cause the evidence supports, and the decisive measurement.",
            ("trimtab", "explain", site, "--at", moment),
        ),
        confidence=1.0,
    )


def _is_known(series: SeriesJudgement, level: LevelNow, incident: IncidentStatus) -> bool:
    """Return whether an incident already covers the level of a series."""
    key = series.key
    of_series = (
        (incident.probe, incident.metric) == (key.probe, key.metric)
        if incident.series is None
        else incident.series == key.id
    )
    if of_series and incident.level_now is not None:
        return True
    if incident.effect is not None and 2 * size_of(incident.effect) < size_of(level.from_last):
        return False  # compared with this loss it is another, smaller problem
    begin, end = level.between or (level.since, level.since)
    return begin - _SAME <= incident.at <= end + _SAME


# The first line


def headline(*standings: SiteStanding) -> str:
    """Return the worst current problem of some sites: what, how much, since when, why, what next.

    Other problems are named or counted. Steady is used only for what was tested, and well only if
    nothing in `site_troubles` is a warning or worse.
    """
    matters = sorted(
        (matter for standing in standings for matter in _matters(standing)),
        key=lambda matter: matter.rank,
    )
    grave = [matter for matter in matters if matter.finding.severity is not Severity.INFO]
    series = [entry for standing in standings for entry in standing.series]
    verdicts = [verdict for standing in standings for verdict in standing.verdicts or ()]
    looked_at = any(standing.verdicts is not None for standing in standings)
    suspects = sum(standing.suspects for standing in standings)
    several = len(standings) > 1
    after = [_after_text(standing, several=several) for standing in standings]
    return joined_sentences(
        *(_maintenance_text(standing, several=several) for standing in standings),
        *(() if grave else after),
        *(_worst(grave, several=several) if grave else _calm(standings, matters)),
        _series_text(series, grave[: 1 + _BESIDE]),
        _goal_text(verdicts),
        f"{plural(suspects, 'suspected change')}" if suspects and not series else "",
        *(after if grave else ()),
        "No run can be judged yet" if looked_at and not verdicts else "",
    )


def _maintenance_text(standing: SiteStanding, *, several: bool) -> str:
    """Return that a site is in maintenance; empty if it is not."""
    window = standing.maintenance
    if window is None:
        return ""
    of = f"{visible(standing.site)} is in" if several else "In"
    return f"{of} maintenance until {local_moment(window.end)} ({visible(window.why)})"


def _after_text(standing: SiteStanding, *, several: bool) -> str:
    """Return what differs since the last maintenance that changed something; empty if none did."""
    if not standing.after:
        return ""
    last = max(each.until for each in standing.after)
    worst, *others = (each for each in standing.after if each.until == last)
    of = f"{visible(standing.site)}, since" if several else "Since"
    more = f"; and {len(others)} more" if others else ""
    return f"{of} the maintenance of {worst.until:%-d %B}: {worst}{more}"


def targets_headline(standing: SiteStanding) -> str:
    """Return the number of troubled targets and the worst; if none, the state of the site."""
    state = standing.state
    troubled = [] if state is None else [target for target in state.targets if target.troubles]
    if state is None or not troubled:
        return f"{visible(standing.site)}: {headline(standing)}"
    of_targets = replace(state, hosts=())
    first, *others = state_findings(of_targets)
    machines = sum(bool(host.troubles) for host in state.hosts)
    rest = f"; {plural(len(others), 'other kind')} of trouble" if others else ""
    return joined_sentences(
        f"{visible(state.site)}: {len(troubled):,} of {plural(len(state.targets), 'target', ',')} "
        f"in trouble: {visible(first.title)}{rest}",
        f"{plural(machines, 'machine')} with troubles of their own" if machines else "",
        "" if state.snapshot.complete else "The snapshot is not complete",
    )


def _worst(grave: Sequence[_Matter], *, several: bool) -> Iterator[str]:
    first, *others = grave
    subject = _placed(first, several)
    if first.finding.source == _SOURCE and first.series is None and not several:
        subject = subject[0].upper() + subject[1:]  # start a sentence, unless it starts with a name
    yield subject + _next(first)
    beside = [matter for matter in others if not _is_within(matter.finding, first.finding)]
    if beside:
        texts = [_placed(matter, several).partition("; ")[0] for matter in beside[:_BESIDE]]
        more = len(beside) - len(texts)
        yield f"Also: {'; '.join(texts)}{f'; and {more} more' if more else ''}"


def _placed(matter: _Matter, several: bool) -> str:
    title = visible(matter.finding.title)
    return f"{visible(matter.site)}: {title}" if several else title


def _is_within(finding: Finding, first: Finding) -> bool:
    """Return whether a slow target is already named in the first trouble."""
    return finding.id == "slow" and bool(finding.target) and str(finding.target) in first.title


def _next(matter: _Matter) -> str:
    finding = matter.finding
    if finding.fix.argv:
        return f"; next: {shell_text(finding.fix.argv)}"
    return f"; next: {matter.see}" if matter.see else ""


def _calm(standings: Sequence[SiteStanding], minor: Sequence[_Matter]) -> Iterator[str]:
    """Yield what was checked and is well, and no more than that."""
    series = [entry for standing in standings for entry in standing.series]
    looked = [standing for standing in standings if standing.searched is not None]
    unsearched = sum(not standing.searched for standing in looked)
    states = [standing.state for standing in standings if standing.state is not None]
    lead, parts = _best(series), []
    if any(matter.finding.source == _SOURCE for matter in minor):
        parts.append(f"no loss of {format_percent(NOTABLE, 0)} or more")
    else:
        tested = any(entry.untested is None for entry in series)
        if lead is None and tested and DIRECTION_UNKNOWN not in map(level_word, series):
            parts.append("no lasting level change")
        if looked and not unsearched:
            parts.append("no open incident")
    if states and all(state.snapshot.complete for state in states):
        count = sum(len(state.targets) for state in states)
        parts.append(f"no trouble on {plural(count, 'target', ',')}")
    rest = ", ".join(parts)
    yield "; ".join(filter(None, (lead, rest))) if lead else rest[:1].upper() + rest[1:]
    if any(not state.snapshot.complete for state in states):
        yield "The snapshot is not complete"
    if unsearched and any(standing.verdicts for standing in looked):
        of_sites = f" on {unsearched} of {len(looked)} sites" if len(looked) > 1 else ""
        yield f"Incidents not searched for yet{of_sites}"


def _best(series: Sequence[SeriesJudgement]) -> str | None:
    """Return the largest lasting improvement, if any is notable."""
    better = [
        (size_of(level.from_last), f"{key_label(entry.key)} {level_text(level)}")
        for entry in series
        if level_word(entry) == "better" and (level := level_now(entry)) is not None
    ]
    return max(better)[1] if better else None


_WORDS: Final = (
    "worse", DIRECTION_UNKNOWN, "may have changed", "better", "changed a little", UNTESTED,
    "steady",
)  # fmt: skip


def _series_text(series: Sequence[SeriesJudgement], named: Sequence[_Matter]) -> str:
    """Return ``3 series steady``, or ``4 other series: 1 worse, 3 unchanged``.

    Steady is for a site without trouble; otherwise a series is unchanged.
    """
    shown = {(matter.site, matter.series) for matter in named}
    others = [
        entry
        for entry in series
        if shown.isdisjoint((entry.key.site, word) for word in (entry.key.id, key_label(entry.key)))
    ]
    if not others:
        return ""
    other = "other " if len(others) < len(series) else ""
    counts = Counter(map(level_word, others))
    reasons = {visible(str(entry.untested)) for entry in others if entry.untested is not None}
    if set(counts) == {UNTESTED} and len(reasons) == 1:
        return f"{len(others):,} {other}series: {reasons.pop()}"
    words = {"steady": "unchanged" if named else "steady"}
    if len(counts) == 1:
        (word,) = counts
        return f"{len(others):,} {other}series {words.get(word, word)}"
    each = ", ".join(f"{counts[word]:,} {words.get(word, word)}" for word in _WORDS if counts[word])
    return f"{len(others):,} {other}series: {each}"


_GOAL_WORDS: Final = {
    VerdictStatus.MISSED: "missed by",
    VerdictStatus.MET: "met by",
    VerdictStatus.CANNOT_TELL: "cannot tell for",
}


def _goal_text(verdicts: Sequence[Verdict]) -> str:
    """Return for how many series the goal is met."""
    if not verdicts:
        return ""
    goals = {verdict.goal for verdict in verdicts}
    (only, *more) = goals
    goal = "" if more or only is None else f" of {format_percent(only, 0)}"
    counts = Counter(verdict.status for verdict in verdicts)
    if len(verdicts) == 1:
        cov = verdicts[0].cov
        now = "" if cov is None else f" (COV {format_percent(cov)})"
        return f"COV goal{goal}: {_GOAL_WORDS[verdicts[0].status].rpartition(' ')[0]}{now}"
    each = ", ".join(
        f"{word} {counts[status]:,}" for status, word in _GOAL_WORDS.items() if counts[status]
    )
    return f"COV goal{goal}: {each}"


def of_judgement(judgement: SiteJudgement) -> SiteStanding:
    """Return the standing of the series of a judgement if nothing else is known, as for a file."""
    verdicts = tuple(series.verdict for series in judgement.series)
    return SiteStanding(judgement.site, series=judgement.series, verdicts=verdicts)


def tone_of(standing: SiteStanding) -> Tone:
    """Return the colour of a headline; healthy means goal met and no trouble."""
    worst = next(
        (each for each in site_troubles(standing) if each.severity is not Severity.INFO), None
    )
    goals = {verdict.status for verdict in standing.verdicts or ()}
    if worst is not None:
        is_grave = worst.severity is Severity.CRITICAL or worst.id in _GOING_ON
        return "critical" if is_grave else "warning"
    slower = any(each.change is Change.WORSE for each in standing.after)
    if VerdictStatus.MISSED in goals or slower:
        return "warning"
    return "healthy" if VerdictStatus.MET in goals else "unclear"


def short_summary(summary: str) -> str:
    """Return an incident's summary with only its first series, and the number of others.

    Examples
    --------
    >>> short_summary("since 2026-03-08 02:05 UTC: a write 17 % lower; b read 18 % lower; 3 more")
    'since 2026-03-08 02:05 UTC: a write 17 % lower, with 4 others'
    """
    first, *others = visible(summary).split("; ")
    count = len(others)
    if others and (more := others[-1].removesuffix(" more")).isdecimal():
        count += int(more) - 1
    return f"{first}, with {count} other{'s' * (count != 1)}" if others else first

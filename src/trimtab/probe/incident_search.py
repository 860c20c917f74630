"""``trimtab incidents`` and ``trimtab explain``: finds, explains and keeps a site's incidents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from trimtab.base.error import UnreadableError, UsageError
from trimtab.base.incident import Assessment, Explanation, Incident, IncidentState, LoneRun, SpeedAt
from trimtab.base.units import is_date, parse_moment
from trimtab.explain.explanation import with_standing
from trimtab.explain.incident_detection import Troubles, find_troubles, with_levels
from trimtab.explain.site_explanation import Known, explain_moment, speeds_at
from trimtab.probe.incident_question import (
    Conditions,
    ExplanationBasis,
    IncidentQuestion,
    PeriodFacts,
    StoreTelemetry,
    ask_for_standing,
    jobs_of,
    questions_of,
)
from trimtab.probe.record_period import RememberedSpells, facts_and_counts
from trimtab.probe.site_judgement import JudgedSite, JudgeTerms, Progress, judge_site
from trimtab.reach.worker_process import Together, one_by_one, processors, side_by_side
from trimtab.site.lookup import at_hand
from trimtab.site.place import Place
from trimtab.store.kept import Judged as JudgedMark
from trimtab.store.kept import KeptIncident, is_afresh, keeping, value_of

if TYPE_CHECKING:
    from trimtab.base.incident import IncidentsDocument
    from trimtab.store.kept_period import Sums
    from trimtab.store.store import Store

_DAY: Final = timedelta(days=1)
_NEAR: Final = timedelta(hours=1)
_MINUTE: Final = timedelta(minutes=1)
"""Resolution of printed times: users ask for a time as it was printed."""
_MANY_RUNS: Final = 3000
"""From four months of hourly runs on, a second process is worth the second it takes to start."""
_HINT: Final = "--until and a shorter record take less memory; stored incidents are unchanged"
_ORDER: Final = (IncidentState.OPEN, IncidentState.LASTING, IncidentState.ENDED)


@dataclass(frozen=True, slots=True)
class ExplainedBy:
    """Data that an explanation rests on, and the conditions that it names itself."""

    basis: ExplanationBasis
    standing: tuple[Assessment, ...]


@dataclass(frozen=True, slots=True)
class Explained:
    """The incidents of a site, open ones first.

    Attributes
    ----------
    judged_until
        Time of the last run examined.
    standing
        Conditions that were wrong throughout the record.
    lone_runs
        Runs that failed or did not finish while those around them did, the latest first.
    bases
        Incident to the basis of its explanation, for those that ended long ago.
    """

    site: str
    store: str = field(compare=False)
    judged_at: datetime = field(compare=False)
    judged_until: datetime | None
    explanations: tuple[Explanation, ...]
    standing: tuple[Assessment, ...] = ()
    lone_runs: tuple[LoneRun, ...] = ()
    bases: Mapping[str, ExplainedBy] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExplainedMoment:
    """All that is known about one moment of a site.

    Attributes
    ----------
    explanations
        Explanations of the incidents during which it falls.
    moment
        Findings at that very time, compared with the week before.
    lone_runs
        Runs within an hour of it that failed or did not finish while those around them did.
    speeds
        Speed of its runs compared with usual, the series that differs most first.
    """

    site: str
    store: str
    at: datetime
    explanations: tuple[Explanation, ...]
    moment: Explanation
    lone_runs: tuple[LoneRun, ...] = ()
    speeds: tuple[SpeedAt, ...] = ()


def incidents_of(
    store: Store,
    place: Place,
    *,
    now: datetime,
    since: str | None = None,
    until: str | None = None,
    progress: Progress = lambda text, fraction: None,
) -> Explained:
    """Return the incidents of a site with their causes, open ones first.

    Parameters
    ----------
    now
        Current time, aware. Open incidents last up to the last stored run.
    since
        Incidents that ended before are left out. The whole record is judged nevertheless: an open
        incident may have begun long before.
    until
        Later records are ignored. Without it the search is kept in the store, and results of an
        earlier one are reused as far as they still hold.

    Raises
    ------
    UsageError
        Nothing is kept of it.
    """
    begin = place.moment(since)
    if until is not None:
        explained = search(store, place, now, until=until, progress=progress)
    else:
        with keeping(store, place.name) as look:
            noun, rests_on = "incidents", partial(_rests_on, place)
            explained = look.remembered(
                noun,
                Explained,
                rests_on,
                lambda: search(
                    store, place, now, earlier=look.before(noun, Explained), progress=progress
                ),
            )
        explained = replace(explained, store=str(store.location))
    if begin is None:
        return explained
    return replace(
        explained,
        explanations=tuple(
            each for each in explained.explanations if not _is_over(each.incident, begin)
        ),
        lone_runs=tuple(run for run in explained.lone_runs if run.at >= begin),
    )


def _rests_on(place: Place, sums: Sums) -> object:
    """Return the basis of a search of the whole record."""
    rows = (sorted(sums.runs.items()), sorted(sums.slots.items()))
    tables = (sums.tables.get("snapshot"), sums.tables.get("event"))
    site = place.site
    of_file = None if site is None else (site.hardware, sorted(site.servers.home.items()))
    return *rows, *tables, place.limits, place.timezone, of_file


def search(
    store: Store,
    place: Place,
    now: datetime,
    *,
    until: str | None = None,
    earlier: Explained | None = None,
    progress: Progress = lambda text, fraction: None,
) -> Explained:
    """Search a record for incidents and explain them, whatever is stored.

    Parameters
    ----------
    until
        As for `incidents_of`.
    earlier
        Result of an earlier search: explanations of incidents that ended long ago, and about
        which nothing new is known, are reused.

    Raises
    ------
    UsageError
        As `incidents_of`.
    """
    processes = _processes(store, place)
    with at_hand(store), side_by_side(processes, hint=_HINT) as together:
        known, troubles, standing = _looked(
            store, place, until=until, together=together, progress=progress
        )
        incidents = troubles.incidents
        takeover = _Takeover(earlier)
        questions = takeover.unanswered(questions_of(store, incidents, known, others=incidents))
        for explanation in together(questions):
            takeover.note(explanation)
            count, of = len(takeover.explanations), len(incidents)
            progress(f"explaining {count} of {of}", 0.5 + 0.5 * count / of)
        explanations = sorted(
            (with_standing(each, standing()) for each in takeover.explanations),
            key=lambda each: (
                _ORDER.index(each.incident.state),
                -(each.incident.until or known.now).timestamp(),
            ),
        )
        progress("explained", 1.0)
        return Explained(
            known.site,
            str(store.location),
            now,
            known.now,
            tuple(explanations),
            standing(),
            troubles.lone_runs,
            takeover.explained_by,
        )


def _is_over(incident: Incident, begin: datetime | None) -> bool:
    """Return whether an incident ended before a time; with ``None`` none did."""
    return begin is not None and incident.until is not None and incident.until < begin


@dataclass(slots=True)
class _Takeover:
    """Explanations reused from an earlier search, and the data that those of this one rest on."""

    earlier: Explained | None
    explanations: list[Explanation] = field(default_factory=list)
    explained_by: dict[str, ExplainedBy] = field(default_factory=dict)
    _bases: dict[str, ExplanationBasis] = field(default_factory=dict)

    def unanswered(self, questions: Iterator[IncidentQuestion]) -> Iterator[IncidentQuestion]:
        """Yield the questions that the earlier search did not answer."""
        before = {} if self.earlier is None else self.earlier.bases
        known = () if self.earlier is None else self.earlier.explanations
        by_id = {each.incident.id: each for each in known if each.incident.id in before}
        for question in questions:
            incident, basis = question.incident, question.basis()
            if basis is not None:
                answered = by_id.get(incident.id)
                if answered is not None:
                    by = before[incident.id]
                    if still_holds(answered.incident, by.basis, incident, basis):
                        whole = replace(answered, incident=incident, standing=by.standing)
                        self.explanations.append(whole)
                        self.explained_by[incident.id] = by
                        continue
                self._bases[incident.id] = basis
            yield question

    def note(self, explanation: Explanation) -> None:
        """Record a new explanation, and its basis."""
        self.explanations.append(explanation)
        basis = self._bases.get(explanation.incident.id)
        if basis is not None:
            by = ExplainedBy(basis, explanation.standing)
            self.explained_by[explanation.incident.id] = by


def still_holds(
    before: Incident, rested_on: ExplanationBasis, incident: Incident, now: ExplanationBasis
) -> bool:
    """Return whether a new explanation would say the same as the previous one, or less.

    If snapshots have outlived their retention since, it would know less. Only then is the previous
    one kept even where everything is computed afresh.
    """
    is_same = (before.at, before.until, before.effect, before.summary) == (
        *(incident.at, incident.until, incident.effect, incident.summary),
    )
    knows_less = now.are_removed and now.snapshots < rested_on.snapshots
    return is_same and (knows_less or (now.digest == rested_on.digest and not is_afresh()))


def _processes(store: Store, place: Place) -> int:
    """Return the number of processes for a site: a short record is done before they start."""
    runs = sum(series.runs for series in store.series(place.name))
    return processors() if runs >= _MANY_RUNS else 1


def keep_incidents(store: Store, explained: Explained) -> str | None:
    """Keep the incidents of a whole record in place of those found before, for `trimtab status`.

    Returns
    -------
    str | None
        Why they could not be kept (the store is read-only); the incidents themselves are valid.
    """
    from trimtab.base.encode import dumps

    marks = JudgedMark(explained.judged_at, explained.judged_until)
    if store.judged(explained.site) == marks:
        return None  # they are already stored
    records = [
        value_of(
            KeptIncident,
            incident,
            site=explained.site,
            shape=incident.shape.value,
            state=incident.state.value,
            certainty=incident.certainty.value,
            document=json.loads(dumps(explanation)),
        )
        for explanation in explained.explanations
        for incident in [explanation.incident]
    ]
    try:
        store.keep_incidents(explained.site, records, since=None, judged=marks)
    except UnreadableError as error:
        return f"these incidents are not kept: {error.message}"
    return None


def kept_document(store: Store, site: str, incidents: Iterable[KeptIncident]) -> IncidentsDocument:
    """Return what `trimtab incidents --json` printed of some incidents at the last search."""
    from trimtab.base.incident import IncidentsDocument

    judged = store.judged(site)
    ordered = sorted(
        incidents,
        key=lambda each: (
            _ORDER.index(IncidentState(each.state)),
            -float("inf") if each.until is None else -each.until.timestamp(),
        ),
    )
    # They are stored as they are printed.
    printed: Any = tuple(each.document for each in ordered)
    at, until = (None, None) if judged is None else (judged.at, judged.until)
    return IncidentsDocument(str(store.location), site, at, until, printed, None, None)


def explain_at(
    store: Store, place: Place, moment: str, *, progress: Progress = lambda text, fraction: None
) -> ExplainedMoment:
    """Return the incidents of one moment, and all that is known about it.

    Parameters
    ----------
    moment
        Time as the user wrote it, in the site's zone; a date is any time of that day.

    Raises
    ------
    UsageError
        Nothing is kept of the site, or nothing of that time.
    """
    at = parse_moment(moment, place.timezone)
    until = parse_moment(moment, place.timezone, end=True) if is_date(moment) else None
    last = until or at
    with at_hand(store), side_by_side(_processes(store, place), hint=_HINT) as together:
        known, troubles, standing = _looked(store, place, together=together, progress=progress)
        incidents = troubles.incidents
        if last < known.record_from or at > known.now + _DAY:
            raise UsageError(
                f"nothing is stored for {at.isoformat()}",
                code="time-outside-record",
                hint=f"the record goes from {known.record_from.isoformat()} to "
                f"{known.now.isoformat()}",
            )
        active = [
            incident
            for incident in incidents
            if incident.at < last + _MINUTE and (incident.until is None or at <= incident.until)
        ]
        progress("explaining", 0.7)
        answers = together(questions_of(store, active, known, others=incidents))
        # After the last run there is nothing to examine: use the facts of the last hours.
        source = StoreTelemetry(store, place.name)
        around = explain_moment(min(at, known.now), known, source, until=until, standing=standing())
        explained = tuple(with_standing(answer, standing()) for answer in answers)
        near = _NEAR if until is None else timedelta(0)
        notes = tuple(run for run in troubles.lone_runs if at - near <= run.at <= last + near)
        speeds = speeds_at(at, known, active, until=until)
        answer_at = ExplainedMoment(
            known.site, str(store.location), at, explained, around, notes, speeds
        )
        progress("explained", 1.0)
        return answer_at


def _looked(
    store: Store,
    place: Place,
    *,
    until: str | None = None,
    together: Together = one_by_one,
    progress: Progress,
) -> tuple[Known, Troubles, Callable[[], Conditions]]:
    """Return the facts about a site, its troubles, and its permanent conditions.

    The conditions come on request: other processes search for them meanwhile.
    """
    terms = JudgeTerms(until=until)
    end = place.moment(until, end=True)

    def judging(text: str, fraction: float) -> None:
        progress(text, 0.4 * fraction)

    with ExitStack() as stack:
        look = stack.enter_context(keeping(store, place.name)) if until is None else None
        # First: workers, if any, begin with these while histories are read here.
        read = facts_and_counts(store, place.name, look, until=end, together=together)
        judged = judge_site(store, place, terms, together=together, progress=judging)
        facts, bad_checksums = read()
        progress("looking for incidents", 0.4)
        known = _known(place, judged, terms, facts)
        events = store.events(site=place.name, until=known.now, messages=True)
        known = replace(known, events=events)
        standing = ask_for_standing(store, known, together)
        series = judged.judgement.series
        spells = RememberedSpells(look)
        troubles = find_troubles(
            series,
            judged.frames,
            known.surveys,
            [
                incident
                for incident in bad_checksums
                if known.record_from <= incident.at <= known.now
            ],
            site=place.name,
            now=known.now,
            runs=known.runs,
            limits=known.limits,
            timezone=place.timezone,
            remember=spells.remember,
        )
        spells.keep()
    troubles = replace(troubles, incidents=with_levels(troubles.incidents, series))
    return known, troubles, cache(lambda: next(standing))


def _known(
    place: Place,
    judged: JudgedSite,
    terms: JudgeTerms,
    facts: Sequence[PeriodFacts],
) -> Known:
    runs = chain.from_iterable(of.runs for of in facts)
    profiles = chain.from_iterable(of.profiles for of in facts)
    surveys = judged.surveys
    assert surveys is not None  # of a site, not of a file
    surveyed = (surveys["at"].min(), surveys["at"].max())
    edges = (judged.judgement.from_, judged.judgement.to, *surveyed)
    times = [at for at in edges if isinstance(at, datetime)]
    begin, end = min(times), max(times)
    site = place.site
    known = Known(
        site=place.name,
        record_from=begin,
        now=end,
        series=judged.frames,
        surveys=surveys,
        runs=tuple(run for run in runs if begin <= run.at <= end),
        limits=terms.limits(place),
        profiles=tuple(
            profile for profile in profiles if profile.at is not None and begin <= profile.at <= end
        ),
        jobs=jobs_of(facts),
    )
    if site is None:
        return replace(known, has_site_file=False)
    return replace(known, hardware=site.hardware, home=site.servers.home)

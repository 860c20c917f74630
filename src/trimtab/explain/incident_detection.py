"""Find the incidents of a site in its judged series, surveys and runs.

`find_troubles` collects spells, one per series or survey, and merges those of the same trouble: one
incident per trouble, not one per series. A recovery is not an incident.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from trimtab.base.incident import Incident, IncidentState, LoneRun, Shape, Stage
from trimtab.base.series import ChangeStatus, LevelNow, SeriesJudgement, SeriesKey
from trimtab.base.site import LIMITS, SiteLimits
from trimtab.explain.context import Period, RunFact
from trimtab.explain.dip import unsteady
from trimtab.explain.failed_run import BadChecksums, failures, integrity
from trimtab.explain.incident_hours import (
    began_together,
    begin_of,
    companions,
    core_spells,
    end_of,
    margin_of,
    same_runs,
    summary_of,
    when_text,
)
from trimtab.explain.lasting import (
    LASTING,
    RunOutcomes,
    are_losses_of_rate,
    between_recurring,
    is_of_losses,
    is_of_rate,
    lasting_losses,
    lasting_spread,
    outcomes_of,
    without_absorbed,
    without_losses,
)
from trimtab.explain.lone_run import is_one_slow_run, without_incident
from trimtab.explain.remembered_spells import (
    Remember,
    low_runs,
    low_together,
    made_now,
    recurring_hours,
    single_targets,
)
from trimtab.explain.same_trouble import (
    ended_together,
    falls_again,
    grouped_spells,
    is_of_one_trouble,
    loss_of,
    may_begin_together,
)
from trimtab.explain.spell import (
    SHORT,
    Judged,
    LookedSeries,
    SeriesPart,
    Spell,
    id_of,
    name_of,
    percent_off,
    rows_between,
)
from trimtab.explain.worse_level import drift, steps
from trimtab.judge.array import scatter
from trimtab.judge.series_level import is_worse, level_now

_STAGE: Final = timedelta(hours=6)
"""A later onset than this is a separate stage; closer onsets cannot be resolved."""
_WELL: Final = 2.5
"""A series is unmoved if its median is within this many standard errors of its level."""
_BETTER: Final = 4.0
"""Standard errors above its level from which a series improved; and at least `_BETTER_LEAST` of the
level, which sites consider normal."""
_BETTER_LEAST: Final = LIMITS.cov
_BETTER_BEFORE: Final = timedelta(days=30)
_BETTER_RUNS: Final = 12
_STRONG: Final = 0.25
_FEW: Final = 2
_LEVEL: Final = 2.0
"""The deepest of many runs is about twice as far down as their level, in standard deviations."""


def merged(
    spells: Sequence[Spell], frames: Mapping[SeriesKey, pl.DataFrame], *, site: str, now: datetime
) -> tuple[Incident, ...]:
    """Return one incident per group of spells that belong together, latest first."""
    incidents = [
        _incident(part, frames, site=site, now=now)
        for group in grouped_spells(spells, is_of_one_trouble)
        for part in _parts(group)
        if not is_one_slow_run(part)
    ]
    return tuple(sorted(incidents, key=lambda incident: (incident.at, incident.id), reverse=True))


def _parts(group: Sequence[Spell]) -> Iterator[list[Spell]]:
    """Yield a group, and separately its faint levels that begin earlier or outlast the rest.

    A confirmed level change is reported as long as it lasts. If another series shows far more,
    later or for a shorter time, the remainder is another trouble.
    """
    lead = _lead(group)
    strong = _strong(group, lead)
    beside = companions(group, strong)
    ended = all(spell.until is not None for spell in strong)
    first, last = min(spell.at for spell in strong), max(spell.last for spell in strong)
    begun = min(spell.began[0] for spell in strong)
    outside = [
        spell
        for spell in group
        if spell.is_level
        and spell.shape is not Shape.DIP
        and spell not in strong
        and spell not in beside
        and not any(ended_together(spell, each) or falls_again(spell, each) for each in strong)
        and (
            (spell.at < first - _STAGE and spell.began[1] < begun)
            or (ended and loss_of(spell) and (spell.until is None or spell.last > last))
        )
    ]
    yield [spell for spell in group if spell not in outside]
    if outside:
        yield from _parts(outside)


def _lead(group: Sequence[Spell]) -> Spell:
    """Return the spell that shows most; a level outranks dips and lost runs at its beginning.

    A run or two, deep as they may be, say less than a level that lasts.
    """
    shown = [spell for spell in group if spell.key is not None]
    if any(spell.is_level for spell in shown):
        shown = [
            spell
            for spell in shown
            if spell.is_level or spell.shape is not Shape.DIP or spell.runs > _FEW
        ]
    deepest = max(shown or group, key=_leading)
    levels = [spell for spell in _strong(group, deepest) if spell.is_level]
    if deepest.shape is Shape.DIP and levels:
        return max(levels, key=_leading)
    return deepest


def _strong(group: Sequence[Spell], lead: Spell) -> list[Spell]:
    """Return the spells that define an incident's begin and end, without faint traces elsewhere."""
    return [
        spell
        for spell in group
        if spell.depth >= _STRONG * lead.depth
        or spell.key is None
        or (
            spell.is_level
            and (spell.key == lead.key or (lead.is_lost and same_runs(spell, lead)))
            and lead.shape is not Shape.UNSTEADY
            and (may_begin_together(spell, lead) or falls_again(spell, lead))
        )
    ]


def _incident(
    group: Sequence[Spell], frames: Mapping[SeriesKey, pl.DataFrame], *, site: str, now: datetime
) -> Incident:
    lead = _lead(group)
    strong = _strong(group, lead)
    core = core_spells(strong, lead, frames)
    lead = lead if lead in core else _lead(core)
    at, onset = begin_of(core, lead)
    last, ended = end_of(core, companions(group, strong))
    until = last if ended else None
    shape = _shape(core, lead, at, last)
    confirmed = any(spell.certainty is ChangeStatus.CONFIRMED for spell in group)
    targets = tuple(sorted({target for spell in group for target in spell.targets}))
    return Incident(
        id=_id(site, lead, shape, at),
        site=site,
        key=lead.key,
        shape=shape,
        state=_state(shape, at, until, now, is_usual=not (targets or is_of_losses(lead))),
        certainty=ChangeStatus.CONFIRMED if confirmed else ChangeStatus.SUSPECT,
        at=at,
        until=until,
        detected_at=max(at, min(spell.detected_at for spell in group)),
        effect=lead.effect,
        effect_interval=lead.effect_interval,
        runs=lead.runs,
        unfinished=max(spell.unfinished for spell in group),
        summary=summary_of(group, lead, when_text(at, until, onset)),
        moved_with=tuple(sorted(_moved(group) - {lead.name})),
        unmoved=_unmoved(group, frames, at, last),
        better=_better(group, frames, at, last),
        stages=_stages(core),
        recurs=lead.recurs,
        targets=targets,
        onset=onset,
        margin=margin_of(strong, at, last),
    )


def _leading(spell: Spell) -> tuple[bool, float, str]:
    """Return the sort key: deepest first. The level of a step counts as its deepest run."""
    depth = spell.depth * (_LEVEL if spell.shape is Shape.STEP else 1.0)
    return spell.shape is Shape.INTEGRITY, depth, spell.name


def _shape(group: Sequence[Spell], lead: Spell, at: datetime, last: datetime) -> Shape:
    """Return the shape of the whole: dips that join into days are a level change."""
    if lead.shape is Shape.DIP and any(
        spell.shape is Shape.STEP
        and (spell.key in (lead.key, None) or spell.depth >= lead.depth / 2)
        for spell in group
    ):
        return Shape.STEP
    if (
        lead.shape is Shape.DIP
        and last - at >= SHORT
        and any(spell.until is None for spell in group)
    ):
        return Shape.STEP
    return lead.shape


def _state(
    shape: Shape, at: datetime, until: datetime | None, now: datetime, *, is_usual: bool
) -> IncidentState:
    """Return whether it is ongoing.

    Parameters
    ----------
    is_usual
        Whether a level that lasts becomes the new normal: slow single targets and losses of runs
        never do.
    """
    if until is not None:
        return IncidentState.ENDED
    lasts = shape is Shape.STEP and now - at > LASTING and is_usual
    return IncidentState.LASTING if lasts else IncidentState.OPEN


def _id(site: str, lead: Spell, shape: Shape, at: datetime) -> str:
    key = lead.key
    series = (
        lead.name if key is None else f"{key.probe}/{key.kind}/{key.metric}/{key.comparability}"
    )
    return id_of(site, series, shape, at.isoformat())


def _stages(strong: Sequence[Spell]) -> tuple[Stage, ...]:
    """Return what got worse when; empty if no onset was clearly later than the rest."""
    stages: list[list[Spell]] = []
    for spell in sorted(strong, key=lambda spell: (spell.at, -spell.depth, spell.name)):
        if spell.shape in (Shape.UNSTEADY, Shape.DRIFT, Shape.PERIODIC):
            continue
        if stages and (
            spell.at - stages[-1][0].at < _STAGE or began_together(spell, stages[-1][0])
        ):
            stages[-1].append(spell)
        else:
            stages.append([spell])
    if len(stages) < 2:
        return ()
    return tuple(
        Stage(
            stage[0].at,
            "; ".join(dict.fromkeys(f"{spell.name} {spell.what}" for spell in stage)),
        )
        for stage in stages
    )


def _moved(group: Sequence[Spell]) -> set[str]:
    return {name for spell in group for name in (spell.name, *spell.moved)}


def _better(
    group: Sequence[Spell], frames: Mapping[SeriesKey, pl.DataFrame], at: datetime, last: datetime
) -> tuple[str, ...]:
    """Return the series that improved at the same moment, each with its size.

    A series that got faster while others got slower says more about the cause than either.
    """
    moved = _moved(group)
    gains = []
    for key, frame in frames.items():
        within, around = _sides(frame, at, min(last, at + LASTING), _BETTER_BEFORE)
        if name_of(key) in moved or len(within) == 0 or len(around) < _BETTER_RUNS:
            continue
        usual, value = float(np.median(around)), float(np.median(within))
        gain = value - usual if key.more_is_better else usual - value
        if usual > 0 and gain > max(_BETTER_LEAST * usual, _BETTER * _error(within, around)):
            text = percent_off(value / usual, more_is_better=key.more_is_better)
            gains.append(f"{name_of(key)} {text}")
    return tuple(sorted(gains))


def _unmoved(
    group: Sequence[Spell], frames: Mapping[SeriesKey, pl.DataFrame], at: datetime, last: datetime
) -> tuple[str, ...]:
    """Return the series that were unchanged throughout."""
    moved = _moved(group)
    still = {
        name_of(key)
        for key, frame in frames.items()
        if name_of(key) not in moved and _is_still(frame, at, last)
    }
    return tuple(sorted(still))


def _is_still(frame: pl.DataFrame, at: datetime, last: datetime) -> bool:
    within, around = _sides(frame, at, last, timedelta(days=7))
    if len(within) == 0 or len(around) < 6:
        return False
    off = abs(float(np.median(within)) - float(np.median(around)))
    return off <= _WELL * _error(within, around)


def _sides(frame: pl.DataFrame, at: datetime, last: datetime, before: timedelta) -> tuple[Any, Any]:
    """Return the values of the finished runs within a stretch, and of those before it."""
    edges = (at, last), (at - before, min(last, at - timedelta(hours=1)))
    within, around = (
        frame["value"][rows_between(frame, from_, to)].drop_nulls().to_numpy()
        for from_, to in edges
    )
    return within, around


def _error(within: Any, around: Any) -> float:
    """Return the standard error of the median within, from the scatter of the runs before."""
    usual = float(np.median(around))
    scale = max(scatter(around), 0.005 * usual)
    # The median of n has 1.25 times the standard error of the mean; neighbours are correlated, so
    # only about one run in three counts.
    return 1.25 * scale / max(1.0, len(within) / 3) ** 0.5


_NEAR_LEVEL: Final = timedelta(days=2)
"""So far apart an incident and the level that it left may begin."""


@dataclass(frozen=True, slots=True)
class Troubles:
    """The troubles of a site.

    Attributes
    ----------
    incidents
        Latest first.
    lone_runs
        Single runs that were lost or slow, latest first: notes, not incidents.
    """

    incidents: tuple[Incident, ...]
    lone_runs: tuple[LoneRun, ...]


def find_troubles(
    judgements: Sequence[SeriesJudgement],
    frames: Mapping[SeriesKey, pl.DataFrame],
    surveys: pl.DataFrame,
    bad_checksums: Iterable[BadChecksums] = (),
    *,
    site: str,
    now: datetime,
    runs: Sequence[RunFact] = (),
    limits: SiteLimits | None = None,
    timezone: str = "UTC",
    remember: Remember = made_now,
) -> Troubles:
    """Find the incidents of a site, and what deserves only a note.

    Parameters
    ----------
    judgements
        One per series of the whole file system; dismissed suspects among their changes are ignored.
    frames
        The series by the judgements' keys: ``at`` (Datetime, UTC), ``value`` (in the unit of the
        series), ``unfinished``.
    surveys
        Targets measured separately: ``at``, ``run``, ``target``, ``metric``, ``value``; one row per
        target and survey.
    bad_checksums
        Transfers with bad checksums, from the counters of snapshots.
    site, now
        Name of the site, and end of the record, aware UTC.
    runs
        Every run, whatever its status: runs that failed, did not start, ran another workload or are
        not credible form incidents of their own.
    limits, timezone
        Limits of the site (``None``: the defaults); IANA name of its zone, for patterns by hour.
    remember
        Returns earlier spells where their runs are the same, else makes them.

    Returns
    -------
    Troubles
        Incidents and notes, the latest first.
    """
    limits = limits or SiteLimits()
    judged = [
        (judgement, frame)
        for judgement in judgements
        if (frame := frames.get(judgement.key)) is not None and not frame.is_empty()
    ]
    looked = LookedSeries(judged, now)
    apart = {key.comparability: key.apart for key in frames}
    spells = [*single_targets(surveys, remember=remember), *failures(runs, apart)]
    spells += low_together(looked.together(), remember=remember)
    spells += _of_series(judged, looked, timezone, remember)
    outcomes = outcomes_of(runs, frames)
    losses = tuple(lasting_losses(outcomes))
    wide = [*_wider(judged, spells, limits.cov)]
    spells = [spell for spell in spells if not is_of_rate(spell, losses, outcomes)]
    spells += [*losses, *wide]
    low = _low_of(judged, looked, spells, losses, outcomes, remember=remember)
    dips_of = {key: without_absorbed(of_series, wide) for key, of_series in low.items()}
    alone, notes = without_incident([*spells, *chain(*dips_of.values())], frames, runs)
    reported = [spell for spell in spells if spell not in alone]
    for judgement, _ in judged:
        taken = _taken((*spells, *alone), judgement.key, now)
        low = [dip for dip in dips_of[judgement.key] if dip not in alone]
        reported += unsteady(judgement, looked, low, taken, window_s=limits.window_s)
    reported += integrity(bad_checksums, now)
    return Troubles(merged(reported, frames, site=site, now=now), notes)


def _without_losses(judged: Judged, losses: Sequence[Spell], now: datetime) -> LookedSeries:
    """Return the series without the runs lost while a rate of losses of their probe lasts."""
    finished = (
        (judgement, without_losses(frame, _of_probe(losses, judgement.key)))
        for judgement, frame in judged
    )
    return LookedSeries([each for each in finished if not each[1].is_empty()], now)


def _low_of(
    judged: Judged,
    looked: LookedSeries,
    spells: Sequence[Spell],
    losses: Sequence[Spell],
    outcomes: Mapping[str, RunOutcomes],
    *,
    remember: Remember,
) -> dict[SeriesKey, list[Spell]]:
    """Return series to its dips that a rate of losses does not explain."""
    finished = _without_losses(judged, losses, looked.now)
    dips_of: dict[SeriesKey, list[Spell]] = {}
    for judgement, _ in judged:
        key = judgement.key
        low = _dips(looked.of(key), spells, remember)
        if _of_probe(losses, key):
            few = (dip for dip in low if not are_losses_of_rate(dip, losses, outcomes))
            low = _with_slow(few, _dips(finished.of(key), spells, remember))
        dips_of[key] = low
    return dips_of


def _with_slow(dips: Iterable[Spell], slow: Iterable[Spell]) -> list[Spell]:
    """Return the dips with lost runs, and of those among finished runs the others."""
    low = [dip for dip in dips if dip.unfinished]
    return [*low, *(dip for dip in slow if not any(dip.is_same(each) for each in low))]


def _of_probe(losses: Iterable[Spell], key: SeriesKey) -> list[Spell]:
    """Return the rates of losses of the probe of a series."""
    return [loss for loss in losses if loss.key is not None and loss.key.probe == key.probe]


def _taken(spells: Iterable[Spell], key: SeriesKey, now: datetime) -> list[Period]:
    """Return the hours of a series whose spread spells explain."""
    near = (spell for spell in spells if _is_near(spell, key))
    return [hours for spell in near for hours in _hours(spell, now)]


def _wider(judged: Judged, spells: Sequence[Spell], goal: float) -> Iterator[Spell]:
    """Yield the stretches in which a series scatters more, recurring hours left out."""
    for judgement, frame in judged:
        recurring = (spell for spell in spells if spell.key == judgement.key)
        yield from lasting_spread(judgement, between_recurring(frame, recurring), goal)


def _of_series(
    judged: Judged, looked: LookedSeries, timezone: str, remember: Remember
) -> Iterator[Spell]:
    """Yield the levels, drifts and recurring hours of each series."""
    for judgement, frame in judged:
        yield from steps(judgement, frame)
        yield from drift(judgement)
        yield from recurring_hours(looked.of(judgement.key), frame, timezone, remember=remember)


def _is_near(spell: Spell, key: SeriesKey) -> bool:
    """Return whether a spell may explain the spread of a series.

    Another series' trouble does not; a lost single run does, and a share of lost runs, which all
    figures of a probe have in common.
    """
    if spell.key is None or spell.key == key:
        return True
    return is_of_losses(spell) and spell.key.probe == key.probe


def _dips(parts: Sequence[SeriesPart], spells: Sequence[Spell], remember: Remember) -> list[Spell]:
    """Return the dips of a series except the recurring ones."""
    recurring = [
        spell for spell in spells if spell.shape is Shape.PERIODIC and spell.key == parts[0].key
    ]
    return [dip for dip in low_runs(parts, remember=remember) if not _recurs(dip, recurring)]


def _recurs(dip: Spell, recurring: Sequence[Spell]) -> bool:
    """Return whether a dip is one of the recurring ones and nothing else."""
    for spell in recurring:
        assert spell.recurs is not None
        local = dip.at.astimezone(ZoneInfo(spell.recurs.timezone))
        if (
            spell.at <= dip.at <= spell.last
            and local.hour in spell.recurs.hours
            and local.weekday() in spell.recurs.weekdays
            and dip.last - dip.at < timedelta(days=1)
        ):
            return True
    return False


def _hours(spell: Spell, now: datetime) -> tuple[Period, ...]:
    """Return the hours whose spread a spell explains: the edges of a step, all of a dip."""
    end = spell.until or now
    if spell.margin is not None:
        return (Period(spell.margin[0], max(end, spell.margin[1])),)
    if spell.shape is Shape.UNSTEADY or is_of_losses(spell):
        return (Period(spell.at, end),)
    if end - spell.at <= timedelta(days=4) or spell.shape is Shape.PERIODIC:
        return (Period(spell.at, end),)
    edges = [spell.at] if spell.until is None else [spell.at, spell.until]
    return tuple(Period(at, at) for at in edges)


def with_levels(
    incidents: Sequence[Incident], judged: Sequence[SeriesJudgement]
) -> tuple[Incident, ...]:
    """Return incidents, the last of each series that is below its level with the one it has now.

    Of those that go on, else of all: a series that lost a half and got a quarter back is in no
    incident any more, and not as it was.
    """
    levels: dict[str, LevelNow] = {}
    for series in judged:
        level = level_now(series)
        if level is None or not is_worse(level.from_last, series.key):
            continue
        begin = level.since if level.between is None else level.between[0]
        of_series = [
            incident
            for incident in incidents
            if incident.key == series.key
            and incident.shape in {Shape.STEP, Shape.DIP, Shape.DRIFT}
            and (incident.state is not IncidentState.ENDED or incident.at >= begin - _NEAR_LEVEL)
        ]
        lasting_steps = [
            incident
            for incident in of_series
            if incident.shape is Shape.STEP and incident.state is not IncidentState.ENDED
        ]
        if lasting_steps or of_series:
            last = max(lasting_steps or of_series, key=lambda incident: incident.at)
            levels[last.id] = level
    return tuple(replace(incident, level_now=levels.get(incident.id)) for incident in incidents)

"""Incidents: everything worth explaining in the judged series, surveys and runs.

`find_troubles` collects spells, one per series or survey, and merges those of the same trouble. A
recovery is not an incident.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Final
from zoneinfo import ZoneInfo

import polars as pl

from trimtab.explain.context import RunFact, Window
from trimtab.explain.incidents.dips import dips
from trimtab.explain.incidents.failures import failures
from trimtab.explain.incidents.integrity import BadChecksums, integrity
from trimtab.explain.incidents.levels import drift, steps
from trimtab.explain.incidents.looks import Looked, Part
from trimtab.explain.incidents.merging import merged, without_lone_runs
from trimtab.explain.incidents.periodic import periodic
from trimtab.explain.incidents.pooled import pooled
from trimtab.explain.incidents.spell import Spell
from trimtab.explain.incidents.targets import slow_surveys, slow_targets
from trimtab.explain.incidents.unsteady import unsteady
from trimtab.judge.level import is_worse, level_now
from trimtab.model.incident import Incident, IncidentState, LoneRun, Shape
from trimtab.model.series import LevelNow, SeriesJudgement, SeriesKey
from trimtab.model.site import SiteLimits

__all__ = ["BadChecksums", "Troubles", "find_troubles", "with_levels"]

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
        Single runs that did not finish, latest first: notes, not incidents.
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
    site
        Name of the site.
    now
        End of the record, aware UTC.
    runs
        Every run, whatever its status: runs that failed, did not start, ran another workload or are
        not credible form incidents of their own.
    limits
        Limits of the site; ``None``: the defaults.
    timezone
        IANA name of the site's zone, for patterns by hour or weekday.

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
    looked = Looked(judged, now)
    spells = [*slow_targets(surveys), *slow_surveys(surveys), *failures(runs)]
    spells += pooled(looked.together())
    for judgement, frame in judged:
        spells += [*steps(judgement, frame), *drift(judgement)]
        spells += periodic(looked.of(judgement.key), frame, timezone)
    dips_of = {judgement.key: _dips(looked.of(judgement.key), spells) for judgement, _ in judged}
    every = [*spells, *chain.from_iterable(dips_of.values())]
    lost, lone = without_lone_runs(every, frames, runs)
    first_spells = tuple(spells)
    spells = [spell for spell in spells if spell not in lost]
    for judgement, _ in judged:
        # Another series' trouble does not explain this one's spread; a lost single run does.
        key = judgement.key
        near = (spell for spell in (*first_spells, *lost) if spell.key in (key, None))
        taken = [hours for spell in near for hours in _hours(spell, now)]
        low = [dip for dip in dips_of[key] if dip not in lost]
        spells += unsteady(judgement, looked, low, taken, window_s=limits.window_s)
    spells += integrity(bad_checksums, now)
    return Troubles(merged(spells, frames, site=site, now=now), lone)


def _dips(parts: Sequence[Part], spells: Sequence[Spell]) -> list[Spell]:
    """Return the dips of a series except the recurring ones."""
    recurring = [
        spell for spell in spells if spell.shape is Shape.PERIODIC and spell.key == parts[0].key
    ]
    return [dip for dip in dips(parts) if not _recurs(dip, recurring)]


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


def _hours(spell: Spell, now: datetime) -> tuple[Window, ...]:
    """Return the hours whose spread a spell explains: the edges of a step, all of a dip."""
    end = spell.until or now
    if end - spell.at <= timedelta(days=4) or spell.shape is Shape.PERIODIC:
        return (Window(spell.at, end),)
    edges = [spell.at] if spell.until is None else [spell.at, spell.until]
    return tuple(Window(at, at) for at in edges)


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

"""Runs that measured nothing usable, transfers with bad checksums, and single lost runs.

Runs that were not started, failed, ran another workload or came from a cache are incidents: while
they last nothing is monitored, and a site that does not notice mistakes a broken probe for a slow
file system (Edison in 2017 [S9, errata]).

A transfer with a bad checksum is an incident whatever the speed: data was at risk.

Runs that failed or did not finish while those around them did are notes. Every site loses a run now
and then, to a node, a job or a person. Several together are an incident if chance rarely brings so
many so close together.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final

import polars as pl

from trimtab.base.incident import LoneRun, Shape
from trimtab.base.run import RunStatus
from trimtab.base.series import ChangeStatus, SeriesKey
from trimtab.base.units import plural
from trimtab.explain.context import RunFact
from trimtab.explain.spell import SHORT, Spell, core_with_most, grouped, shape_of_rate
from trimtab.explain.spell import apart as furthest
from trimtab.judge.quantile import beta_lower

BROKEN: Final = {RunStatus.FAILED: "failed", RunStatus.NOT_STARTED: "did not start"}
_USELESS: Final = {
    **BROKEN,
    RunStatus.INVALID_WORKLOAD: "ran another workload than requested",
}
_DOUBTED: Final = "gave figures that are not credible"
_DOUBTED_LEAST: Final = 4
"""Runs in a group. A single doubtful run is left out of the verdict; no more is needed."""
_DEPTH: Final = 30.0
"""Deeper than any slow run: where nothing was measured, nothing else can be reported."""


def failures(runs: Sequence[RunFact], apart: Mapping[str, str] | None = None) -> list[Spell]:
    """Return stretches of runs without a usable figure, by probe and reason.

    Parameters
    ----------
    apart
        Comparability to what distinguishes that series from others of its probe.
    """
    sorts: dict[tuple[str, str], list[RunFact]] = {}
    times: dict[str, list[datetime]] = {}
    for run in sorted(runs, key=lambda run: run.at):
        times.setdefault(run.probe, []).append(run.at)
        why = _why(run)
        if why is not None:
            sorts.setdefault((run.probe, why), []).append(run)
    return [
        _failure_spell(probe, why, group, times[probe], apart or {})
        for (probe, why), broken in sorts.items()
        for group in _in_a_row(broken, times[probe])
        if why != _DOUBTED or len(group) >= _DOUBTED_LEAST
    ]


def _in_a_row(broken: Sequence[RunFact], times: Sequence[datetime]) -> list[list[RunFact]]:
    """Return the broken runs of a probe in groups; a gap without any run does not split one."""
    groups: list[list[RunFact]] = []
    for group in grouped(broken, lambda run: run.at, furthest(times)):
        between = slice(bisect_right(times, groups[-1][-1].at) if groups else 0, None)
        if groups and times[between][0] >= group[0].at:
            groups[-1] += group
        else:
            groups.append(group)
    return groups


def _why(run: RunFact) -> str | None:
    if run.status in _USELESS:
        return _USELESS[run.status]
    return _DOUBTED if run.disbelieved else None


def _failure_spell(
    probe: str,
    why: str,
    group: Sequence[RunFact],
    times: Sequence[datetime],
    apart: Mapping[str, str],
) -> Spell:
    bad = {run.at for run in group}
    begin, end = bisect_left(times, group[0].at), bisect_right(times, group[-1].at)
    core = core_with_most([at in bad for at in times[begin:end]])
    goes_on = end == len(times)
    first = begin + core[0]
    last = end - 1 if goes_on else begin + core[1] - 1
    whole = group[0].at, group[-1].at
    of = sorted({apart.get(run.series, "") for run in group})
    # Not in the name, of which the id is made: it would change with every series that is added.
    which = f" ({of[0]})" if len(of) == 1 and of[0] else ""
    return Spell(
        shape=Shape.STEP if goes_on and times[last] - times[first] >= SHORT else Shape.DIP,
        key=None,
        name=probe,
        at=times[first],
        until=None if goes_on else times[last],
        last=times[last],
        detected_at=times[first],
        certainty=ChangeStatus.CONFIRMED,
        depth=_DEPTH,
        what=f"{plural(len(group), 'run')} {why}{which}",
        runs=len(group),
        is_broken=why in BROKEN.values(),
        onset=(times[first - 1], times[first]) if first else None,
        margin=None if (times[first], times[last]) == whole else whole,
    )


_TOGETHER: Final = timedelta(hours=24)
"""Errors of one day are one incident: they all call for checking the same path."""


@dataclass(frozen=True, slots=True)
class BadChecksums:
    """Transfers with a bad checksum that one machine or target had counted by a time.

    Attributes
    ----------
    at
        The first snapshot that shows them.
    where
        Machine or target that counted them.
    count
        Increase since the previous snapshot.
    """

    at: datetime
    where: str
    count: int


def integrity(counts: Iterable[BadChecksums], now: datetime) -> list[Spell]:
    """Return the stretches in which transfers had bad checksums."""
    bad = sorted(
        (machine for machine in counts if machine.count > 0),
        key=lambda machine: (machine.at, machine.where),
    )
    return [_checksum_spell(group, now) for group in grouped(bad, attrgetter("at"), _TOGETHER)]


def _checksum_spell(group: list[BadChecksums], now: datetime) -> Spell:
    where = sorted({machine.where for machine in group})
    last = group[-1].at
    count = sum(machine.count for machine in group)
    return Spell(
        shape=Shape.INTEGRITY,
        key=None,
        name="checksums",
        at=group[0].at,
        until=None if now - last <= _TOGETHER else last,
        last=last,
        detected_at=group[0].at,
        certainty=ChangeStatus.CONFIRMED,
        depth=1000.0,
        what=f"{plural(count, 'transfer')} with a bad checksum, on {', '.join(where)}",
        targets=tuple(machine for machine in where if machine.startswith(("OST", "MDT"))),
    )


A_MONTH: Final = 0.02
"""Maximum rate per 30 days at which chance may bring this many lost runs this close together.

It holds for each number of runs, and from three on for any one probe as well: together up to 0.14
incidents a month. Of hourly runs two in a row are an incident where under 0.4 % are lost, three in
a row where under 2 % are."""
_BEFORE: Final = timedelta(days=60)
"""Days used to estimate how often runs are lost; half a run is added to a short record."""
_MONTH: Final = timedelta(days=30)
_OUT: Final = timedelta(days=1)
_OUT_RUNS: Final = 3
"""A probe that lost this many runs in a row, for `_OUT` at least, measured nothing. If it runs
twice a day and loses one run in ten, chance does that once in 17 months; an hourly one must lose
25."""

_BROKEN: Final = "broken "
_Probe = tuple[str, str, str]
"""Name, kind and comparability; after `_BROKEN` for runs that are in no series."""


@dataclass(frozen=True, slots=True)
class _Runs:
    """Times of one probe's runs, and of those that did not finish."""

    every: pl.Series
    lost: pl.Series


def lone_runs(
    group: Sequence[Spell], frames: Mapping[SeriesKey, pl.DataFrame], runs: Iterable[RunFact] = ()
) -> tuple[LoneRun, ...]:
    """Return the lost runs of a group that consists of nothing else, if chance explains them.

    Parameters
    ----------
    runs
        All runs of the site: those that failed or did not start are lost as well.

    Empty if the group is an incident: something was slow as well, or too many were lost.
    """
    if not all(spell.is_lost for spell in group):
        return ()
    extents = [spell.extent for spell in group]
    begin, end = min(first for first, _ in extents), max(last for _, last in extents)
    probes = _probes(frames, runs)
    within = [
        (probe, at)
        for probe, part in probes.items()
        for at in part.lost.filter(part.lost.is_between(begin, end))
    ]
    if len(within) > 1 and not _is_chance(within, begin, end, probes):
        return ()
    apart = {key.comparability: key.apart for key in frames}
    return tuple(
        LoneRun(probe, kind, at, apart.get(series.removeprefix(_BROKEN), ""))
        for (probe, kind, series), at in sorted(within)
    )


def _probes(
    frames: Mapping[SeriesKey, pl.DataFrame], runs: Iterable[RunFact]
) -> dict[_Probe, _Runs]:
    """Return the runs of each probe; a duration has no value for an unfinished run.

    Runs that failed or did not start belong to no series: they are added separately, all lost.
    """
    broken: dict[_Probe, list[datetime]] = {}
    for run in runs:
        if run.status in BROKEN:
            broken.setdefault((run.probe, run.kind, _BROKEN + run.series), []).append(run.at)
    probes: dict[_Probe, _Runs] = {
        probe: _Runs(times, times)
        for probe, ats in broken.items()
        for times in [pl.Series(sorted(ats), dtype=pl.Datetime("us", "UTC"))]
    }
    for key, frame in sorted(frames.items(), key=lambda pair: not pair[0].more_is_better):
        if key.target is None:
            every = frame["at"]
            lost = frame.filter("unfinished")["at"]
            probes.setdefault((key.probe, key.kind, key.comparability), _Runs(every, lost))
    return probes


def _is_chance(
    lost: Sequence[tuple[_Probe, datetime]],
    begin: datetime,
    end: datetime,
    probes: Mapping[_Probe, _Runs],
) -> bool:
    """Return whether runs are lost so often that chance brings this many this close together.

    Over all probes and, from three on, also in the one that lost most: a trouble may concern only
    the files of one probe. It is never chance if that one had no other run for a day: nothing was
    measured.
    """
    names = [name for (name, _, _), _ in lost]
    most = max(sorted(set(names)), key=names.count)
    count = names.count(most)
    of_one = {probe: runs for probe, runs in probes.items() if probe[0] == most}
    ended = (runs.every.filter(~runs.every.is_in(runs.lost.implode())) for runs in of_one.values())
    is_out = not any(times.is_between(begin, end).any() for times in ended)
    often = _how_often(len(lost), begin, end, probes)
    if count >= _OUT_RUNS:
        if is_out and end - begin >= _OUT:
            return False
        every = len({name for name, _, _ in probes})
        often = min(often, every * _how_often(count, begin, end, of_one))
    return often > A_MONTH


def _how_often(count: int, begin: datetime, end: datetime, probes: Mapping[_Probe, _Runs]) -> float:
    """Return the monthly rate at which chance brings so many lost runs this close together.

    The first lost run starts the group; the others are among the runs up to the last one.

    Notes
    -----
    The rate of losses varies, and is estimated from few of them: their number is negative binomial,
    and a lost run makes a high rate likelier.
    """
    earlier = [
        part.filter(part.is_between(begin - _BEFORE, begin, closed="left")).len()
        for runs in probes.values()
        for part in (runs.lost, runs.every)
    ]
    lost, every = sum(earlier[::2]), sum(earlier[1::2])
    share = (lost + 0.5) / (every + 1)
    span = sum(int(runs.every.is_between(begin, end).sum()) for runs in probes.values())
    a_month = every / (_BEFORE / _MONTH)
    first = min((runs.every[0] for runs in probes.values() if runs.every.len()), default=begin)
    if begin - first < _BEFORE:
        a_month = every / max((begin - first) / _MONTH, 1e-3)
    shape = shape_of_rate(lost + 0.5)
    mean = (span - 1) * share
    often = a_month * share
    return often if count < 2 else often * beta_lower(mean / (shape + mean), count - 1, shape + 1)

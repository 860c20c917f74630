"""Troubles that last without a change of level: runs that scatter more, or that are often lost.

Usual is before: what a series or probe did until the trouble began, not the record as a whole, of
which a trouble that lasts may be the larger part. Both searches walk through the record, so what is
found in a longer one was found in the same way when it was shorter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import numpy as np
import polars as pl

from trimtab.base.incident import Shape
from trimtab.base.series import ChangeStatus, SeriesJudgement, SeriesKey
from trimtab.base.units import format_percent
from trimtab.explain.context import RunFact
from trimtab.explain.failed_run import BROKEN
from trimtab.explain.spell import TOGETHER, VARIES, Spell, name_of
from trimtab.judge.array import log_likelihood_of_share, median, scatter
from trimtab.judge.quantile import binomial_above
from trimtab.judge.spread import (
    corrected_autocorrelation,
    cov,
    cov_interval_of_history,
    usual_gap_s,
)

_BLOCK_RUNS: Final = 12
"""Fewest runs of a usual block of time, which is a day at least."""
_BLOCK_LEAST: Final = 6
"""Fewest finished runs for the spread of one block."""
_SINCE: Final = 4
"""Fewest blocks that show a spread."""
_BEFORE: Final = (14, 56)
"""Fewest and most blocks before it that show the usual one."""
_MOST: Final = 0.75
"""Share of the blocks since that are wide: two days with dips are no spread that lasts."""
_WIDER: Final = 1.25
"""Smallest ratio of the spreads: the interval of either is about as wide."""
_OUT: Final = 6.0
"""Standard errors between the medians of the blocks. The scatter of the blocks before contains what
heavy tails and busy weeks do to them; the least over all begins of a year is reached by chance less
than once in the sites of tests/explain/incidents/test_lasting.py."""
_FAR: Final = 3.0
"""Usual standard deviations beyond which a run belongs to the wider spread."""
DEEP: Final = 6.0
"""Standard deviations of the wider spread from which a dip within it is a trouble of its own."""


def lasting_spread(judgement: SeriesJudgement, frame: pl.DataFrame, goal: float) -> Iterator[Spell]:
    """Yield the stretches since which a series scatters beyond its goal, and did not before.

    Parameters
    ----------
    frame
        ``at``, ``value``, ``unfinished`` of the series.
    goal
        Goal for the COV, a fraction.

    Notes
    -----
    The spread of a block, a day or more, is the standard deviation of the logarithms of its
    finished runs. A block that holds a dip or the edge of a step is one outlier: medians of blocks
    are compared, those since a moment with up to eight weeks before it.
    """
    if frame.is_empty():
        return
    blocks = _Blocks.of(frame)
    wider, usual_from = None, 0
    for now in range(1, len(blocks.spreads) + 1):
        if wider is None:
            since = blocks.wider_since(usual_from, now, goal)
            wider = None if since is None else blocks.placed(usual_from, since, now)
        if wider is not None and blocks.is_over(usual_from, wider.begin, now):
            yield blocks.spell(judgement, usual_from, wider, now - _SINCE)
            wider, usual_from = None, now - _SINCE
    if wider is not None:
        yield blocks.spell(judgement, usual_from, wider, None)


@dataclass(frozen=True, slots=True)
class _Wider:
    """Since which block a series scatters more.

    Attributes
    ----------
    begin
        The block with which that most likely began.
    first, last
        The earliest and the latest with which it may have begun.
    known
        Number of blocks by which it was detected.
    """

    begin: int
    first: int
    last: int
    known: int


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The finished runs of a series in blocks of time that are over.

    Attributes
    ----------
    times, values
        Of the runs of each block.
    spreads
        Logarithm of the standard deviation of their logarithms.
    last
        Last run of the series.
    """

    times: list[list[datetime]]
    values: list[Any]
    spreads: Any
    last: datetime

    @classmethod
    def of(cls, frame: pl.DataFrame) -> _Blocks:
        times_s = (frame["at"].dt.epoch("us") / 1e6).to_numpy()
        length_s = 86400.0 * math.ceil(
            max(1.0, _BLOCK_RUNS * usual_gap_s(times_s.tolist()) / 86400.0)
        )
        finished = (frame["value"] > 0).fill_null(value=False).to_numpy()
        values = frame["value"].to_numpy()
        numbers = np.floor(times_s / length_s)
        every: tuple[list[list[datetime]], list[Any], list[float]] = ([], [], [])
        times: list[datetime] = frame["at"].to_list()
        edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist()]
        # The last block may not be over.
        for begin, end in pairwise(edges):
            rows = begin + np.flatnonzero(finished[begin:end])
            if len(rows) < _BLOCK_LEAST:
                continue
            part = values[rows].astype(float)
            every[0].append([times[row] for row in rows.tolist()])
            every[1].append(part / median(part))
            every[2].append(math.log(max(float(np.std(np.log(part), ddof=1)), 1e-4)))
        return cls(every[0], every[1], np.array(every[2]), times[-1])

    def wider_since(self, usual_from: int, now: int, goal: float) -> int | None:
        """Return the block since which they are wider, by what is known at block ``now``."""
        best, since = _OUT, None
        first, last = usual_from + _BEFORE[0], now - _SINCE
        if last < first:
            return None
        wide = median(self.spreads[last:now]) - median(self._usual(usual_from, last))
        latest = cov(np.concatenate(self.values[last:now]).tolist())
        if latest is None or latest <= goal or wide <= 0:
            return None
        for begin in range(max(first, now - _BEFORE[1]), last + 1):
            before, after = self._usual(usual_from, begin), self.spreads[begin:now]
            wider = median(after) - median(before)
            is_wide = after >= (median(after) + median(before)) / 2
            if wider < math.log(_WIDER) or not is_wide[0] or is_wide.mean() < _MOST:
                continue
            phi = corrected_autocorrelation(before.tolist())
            least = 1 / math.sqrt(2 * np.mean([len(part) for part in self.values[begin:now]]))
            error = 1.25 * max(scatter(before), least) * math.sqrt((1 + phi) / (1 - phi))
            out = wider / (error * math.sqrt(1 / len(after) + 1 / len(before)))
            if out > best:
                best, since = out, begin
        if since is None:
            return None
        interval = self._interval(since, now)
        usual = cov(
            np.concatenate(self.values[max(usual_from, since - _BEFORE[1]) : since]).tolist()
        )
        misses = interval is not None and interval.low > goal
        return since if misses and usual is not None and usual <= goal else None

    def placed(self, usual_from: int, since: int, now: int) -> _Wider:
        """Return the begin at which two levels of the spread fit the blocks best.

        `wider_since` compares medians: a few usual blocks after its begin hardly change them.
        """
        before = self._usual(usual_from, since)
        usual, wide = median(before), median(self.spreads[since:now])
        least = 1 / math.sqrt(2 * np.mean([len(part) for part in self.values[since:now]]))
        first = usual_from + _BEFORE[0]
        clipped = np.clip(self.spreads[first:now], usual, wide)
        nearer = ((clipped - usual) ** 2 - (clipped - wide) ** 2) / 2
        likely = np.cumsum(nearer[::-1])[::-1] / max(scatter(before), least) ** 2
        best = int(np.argmax(likely))
        within = np.flatnonzero(likely >= likely[best] - _WITHIN)
        return _Wider(first + best, first + int(within[0]), first + int(within[-1]), now)

    def is_over(self, usual_from: int, begin: int, now: int) -> bool:
        """Return whether the last blocks are as narrow as before, rather than as wide as since."""
        if now - begin <= _SINCE:
            return False
        usual = median(self._usual(usual_from, begin))
        wide = median(self.spreads[begin : max(begin + _SINCE, now - _SINCE)])
        return bool((self.spreads[now - _SINCE : now] < (usual + wide) / 2).all())

    def spell(
        self, judgement: SeriesJudgement, usual_from: int, wider: _Wider, end: int | None
    ) -> Spell:
        begin = wider.begin
        upto = len(self.values) if end is None else end
        before = np.concatenate(self.values[max(usual_from, begin - _BEFORE[1]) : begin])
        since = np.concatenate(self.values[begin:upto])
        covs = [cov(part.tolist()) or 0.0 for part in (since, before)]
        interval = self._interval(begin, upto)
        assert interval is not None, "the goal was missed"
        usual = math.exp(median(self._usual(usual_from, begin)))
        far = np.abs(np.log(self.values[begin])) > _FAR * usual
        last = self.last if end is None else self.times[end - 1][-1]
        text = f"{100 * interval.low:.1f} to {100 * interval.high:.1f} %"
        return Spell(
            shape=Shape.UNSTEADY,
            key=judgement.key,
            name=name_of(judgement.key),
            at=self.times[begin][int(np.argmax(far))],
            until=None if end is None else last,
            last=last,
            detected_at=self.times[wider.known - 1][-1],
            certainty=ChangeStatus.CONFIRMED,
            depth=covs[0] / 0.01,
            what=f"COV {100 * covs[0]:.1f} % ({text}), {100 * covs[1]:.1f} % before",
            runs=len(since),
            onset=(self.times[wider.first - 1][0], self.times[wider.last][-1]),
        )

    def _usual(self, usual_from: int, begin: int) -> Any:
        return self.spreads[max(usual_from, begin - _BEFORE[1]) : begin]

    def _interval(self, begin: int, end: int) -> Any:
        return cov_interval_of_history(np.concatenate(self.values[begin:end]).tolist())


def between_recurring(frame: pl.DataFrame, spells: Iterable[Spell]) -> pl.DataFrame:
    """Return the runs of a series outside the hours in which a trouble recurs.

    Its hours are left out of the whole record: it may have begun days before it was recognised.
    """
    for recurs in (spell.recurs for spell in spells if spell.recurs is not None):
        # A night that begins before midnight belongs to the day on which it began.
        day = (
            pl.col("at").dt.convert_time_zone(recurs.timezone).dt.offset_by(f"-{recurs.from_hour}h")
        )
        within = day.dt.hour() < len(recurs.hours)
        frame = frame.filter(~(within & (day.dt.weekday() - 1).is_in(list(recurs.weekdays))))
    return frame


def without_losses(frame: pl.DataFrame, losses: Iterable[Spell]) -> pl.DataFrame:
    """Return the runs of a probe without those lost while a rate of losses lasts."""
    for loss in losses:
        within = pl.col("at").is_between(loss.began[0], loss.last)
        frame = frame.filter(~(within & pl.col("unfinished").fill_null(value=True)))
    return frame


def without_absorbed(dips: Iterable[Spell], wide: Sequence[Spell]) -> list[Spell]:
    """Return the dips of a series that its lasting spread does not explain.

    Those with lost runs, and those far below what the wider spread reaches.
    """
    return [
        dip
        for dip in dips
        if dip.unfinished
        or not any(
            spell.key == dip.key
            and spell.at <= dip.at <= spell.last
            and not _is_deep(dip, spell.depth * 0.01)
            for spell in wide
        )
    ]


def _is_deep(dip: Spell, spread: float) -> bool:
    return dip.effect is not None and abs(math.log(max(dip.effect, 1e-9))) >= DEEP * spread


LASTING: Final = timedelta(days=14)
"""A level that lasts so long is the new normal, and what comes later is another trouble."""
LESS: Final = 0.5
"""Share of a loss up to which a further one of the same series is the same trouble: about what the
interval of an effect leaves open."""
_LOST_LEAST: Final = 6
_LOST_SPAN: Final = timedelta(days=3)
"""Fewest occasions, over so long: an outage is one occasion, and no rate."""
_LOST_EVIDENCE: Final = 21.0
"""Twice the log-likelihood ratio of two rates against one: reached by chance once in 200,000 tests
(chi-squared, one degree of freedom), for each of the hundreds of begins in a year."""
_LOST_TIMES: Final = 3.0
_LOST_MORE: Final = 0.03
"""The rate since is at least so many times that before, and so much more."""
_LOST_BEFORE: Final = 1344
"""Most runs before that show the usual rate: eight weeks of hourly ones."""
_WITHIN: Final = 3.0
"""Distance from the highest log-likelihood within which the rate may have begun to be higher."""
_DEPTH: Final = 24.0
"""As deep as a lost run (`trimtab.explain.dip.SINGLE` twice)."""
_PLACED_S: Final = 7 * 86400.0
"""So long after it was noticed, more runs place the begin of a rate better; then it stays."""
_OWN_A_MONTH: Final = 0.01
"""How often chance may bring a trouble of its own within a rate that lasts, in 30 days and for each
number of lost runs: a fifth of what it may outside, as an incident already reports the rate."""
_MONTH_S: Final = 30 * 86400.0


@dataclass(frozen=True, slots=True)
class RunOutcomes:
    """The runs of one probe by time, those right after a lost one that were lost too left out.

    Attributes
    ----------
    key
        The series that stands for the probe; ``None`` if it has none.
    times, lost
        Seconds since 1970 of each run, and whether it was lost.
    counts
        Number of lost runs before each run, and after the last.
    every
        Times and losses of all runs, none left out.
    has_failed
        Whether some of the lost runs failed or did not start.
    """

    probe: str
    key: SeriesKey | None
    times: Any
    lost: Any
    counts: Any
    every: tuple[Any, Any]
    has_failed: bool

    def within(self, begins: Any, ends: Any) -> tuple[Any, Any]:
        """Return the number of lost runs, and of runs, from each begin up to its end."""
        return self.counts[ends] - self.counts[begins], ends - begins


def lasting_losses(every: Mapping[str, RunOutcomes]) -> Iterator[Spell]:
    """Yield the stretches since which runs of a probe are lost more often than before.

    Lost are runs that did not finish, failed or did not start: one rate, whatever a broken client
    or target makes of a run.

    Notes
    -----
    Losses within hours of one another are one occasion. At each, the likelihood of a rate before
    some earlier loss and another one since is compared with that of one rate for all.
    """
    for outcomes in every.values():
        yield from _losses_of(outcomes)


def _losses_of(outcomes: RunOutcomes) -> Iterator[Spell]:
    rate, usual_from = None, 0
    for now in range(1, len(outcomes.times) + 1):
        if outcomes.lost[now - 1]:
            begin = None
            if rate is None or outcomes.times[now - 1] - rate.known_s <= _PLACED_S:
                begin = _more_since(outcomes, usual_from, now)
            if begin is not None:
                known_s = float(outcomes.times[now - 1]) if rate is None else rate.known_s
                rate = _Rate(usual_from, begin, known_s, now)
        if rate is not None:
            end = _fewer_since(outcomes, rate.begin, now)
            if end is not None:
                yield _loss_spell(outcomes, rate, end)
                rate, usual_from = None, end
    if rate is not None:
        yield _loss_spell(outcomes, rate, None)


@dataclass(frozen=True, slots=True)
class _Rate:
    """A rate of losses: since which run, and what was known when it was placed.

    Attributes
    ----------
    usual_from
        First run that shows the usual rate.
    begin
        First run of the higher one.
    known_s
        When it was first noticed, seconds since 1970.
    placed
        Number of runs from which ``begin`` was placed.
    """

    usual_from: int
    begin: int
    known_s: float
    placed: int


def outcomes_of(
    runs: Sequence[RunFact], frames: Mapping[SeriesKey, pl.DataFrame]
) -> dict[str, RunOutcomes]:
    """Return probe to the outcomes of its runs."""
    outcomes: dict[str, RunOutcomes] = {}
    keys = sorted(
        (key for key in frames if key.target is None), key=lambda key: not key.more_is_better
    )
    of_probe = {key.probe: key for key in reversed(keys)}
    broken = {run.probe for run in runs if run.status in BROKEN}
    for probe in sorted({*of_probe, *broken}):
        key = of_probe.get(probe)
        times, lost = _runs_of(probe, runs, frames)
        again = np.zeros(len(lost), dtype=bool)
        near_s = TOGETHER.total_seconds()
        again[1:] = lost[1:] & lost[:-1] & (np.diff(times) <= near_s)
        first = lost[~again]
        counts = np.concatenate([[0], np.cumsum(first)])
        outcomes[probe] = RunOutcomes(
            probe, key, times[~again], first, counts, (times, lost), probe in broken
        )
    return outcomes


def _runs_of(
    probe: str, runs: Sequence[RunFact], frames: Mapping[SeriesKey, pl.DataFrame]
) -> tuple[Any, Any]:
    """Return the time of each run of a probe, in seconds since 1970, and whether it was lost."""
    fates: dict[datetime, bool] = {}
    for key, frame in frames.items():
        if key.target is None and key.probe == probe:
            for at, lost in frame.select("at", "unfinished").rows():
                fates[at] = fates.get(at, False) or bool(lost)
    fates |= {run.at: True for run in runs if run.probe == probe and run.status in BROKEN}
    return (
        np.array([at.timestamp() for at in sorted(fates)]),
        np.array([fates[at] for at in sorted(fates)], dtype=bool),
    )


def _evidence(before: tuple[Any, Any], since: tuple[Any, Any]) -> Any:
    """Return twice the log-likelihood ratio of two rates against one, less what it varies.

    Parameters
    ----------
    before, since
        Number of lost runs, and of runs.
    """
    whole = before[0] + since[0], before[1] + since[1]
    ratio = log_likelihood_of_share(*before) + log_likelihood_of_share(*since)
    return 2 * (ratio - log_likelihood_of_share(*whole)) / (1 + VARIES)


def _ratios(outcomes: RunOutcomes, usual_from: int, now: int) -> tuple[Any, Any, Any, Any]:
    """Return each loss as a begin: its run, evidence for two rates, the rate since and before."""
    first = max(usual_from, now - 2 * _LOST_BEFORE)
    begins = first + np.flatnonzero(outcomes.lost[first:now])
    before = outcomes.within(np.maximum(usual_from, begins - _LOST_BEFORE), begins)
    since = outcomes.within(begins, now)
    usual = (before[0] + 0.5) / (before[1] + 1)
    return begins, _evidence(before, since), since[0] / since[1], usual


def _more_since(outcomes: RunOutcomes, usual_from: int, now: int) -> int | None:
    """Return the run since which more are lost, by what is known at run ``now``."""
    begins, evidence, rate, usual = _ratios(outcomes, usual_from, now)
    count = np.arange(len(begins), 0, -1)
    lasts = outcomes.times[now - 1] - outcomes.times[begins]
    fits = (
        (count >= _LOST_LEAST)
        & (lasts >= _LOST_SPAN.total_seconds())
        & (begins > usual_from + _LOST_LEAST)
        & (rate >= _LOST_TIMES * usual)
        & (rate >= usual + _LOST_MORE)
        & (evidence > _LOST_EVIDENCE)
    )
    return int(begins[fits][np.argmax(evidence[fits])]) if fits.any() else None


def _fewer_since(outcomes: RunOutcomes, begin: int, now: int) -> int | None:
    """Return the first run since which a third as many are lost, or fewer, as since ``begin``."""
    ends = begin + 1 + np.flatnonzero(outcomes.lost[begin:now])
    ends = ends[ends < now]
    high, low = outcomes.within(begin, ends), outcomes.within(ends, now)
    evidence = _evidence(high, low)
    fits = (evidence > _LOST_EVIDENCE) & (low[0] / low[1] * _LOST_TIMES <= high[0] / high[1])
    return int(ends[fits][np.argmax(evidence[fits])]) if fits.any() else None


def _loss_spell(outcomes: RunOutcomes, rate: _Rate, end: int | None) -> Spell:
    begins, evidence, *_ = _ratios(outcomes, rate.usual_from, rate.placed)
    place = int(np.flatnonzero(begins == rate.begin)[0])
    # The evidence is twice the log-likelihood ratio, less what the varying rate takes from it.
    likely = begins[evidence >= evidence[place] - 2 * _WITHIN / (1 + VARIES)]
    upto = len(outcomes.times) if end is None else end
    rows = rate.begin, upto - 1, max(0, int(likely[0]) - 1), int(likely[-1])
    at, last, low, high = (datetime.fromtimestamp(float(outcomes.times[row]), UTC) for row in rows)
    times, lost = outcomes.every
    edges = [rate.usual_from, rate.begin, upto - 1]
    first, middle, end_at = np.searchsorted(times, outcomes.times[edges]).tolist()
    since, before = lost[middle : end_at + 1], lost[max(first, middle - _LOST_BEFORE) : middle]
    verb = "failed or did not finish" if outcomes.has_failed else "did not finish"
    share = format_percent(float(since.mean()), 0)
    key = outcomes.key
    return Spell(
        shape=Shape.STEP,
        key=key,
        name=outcomes.probe if key is None else name_of(key),
        at=at,
        until=None if end is None else last,
        last=last,
        detected_at=datetime.fromtimestamp(rate.known_s, UTC),
        certainty=ChangeStatus.CONFIRMED,
        depth=_DEPTH,
        what=f"{share} of runs {verb}, {format_percent(float(before.mean()))} before",
        runs=int(since.sum()),
        unfinished=int(since.sum()),
        is_level=True,
        onset=(low, max(high, at)),
    )


def is_of_losses(spell: Spell) -> bool:
    """Return whether a spell is a level at which nothing changed but the share of lost runs."""
    return spell.shape is Shape.STEP and spell.effect is None and 0 < spell.unfinished == spell.runs


def is_of_rate(spell: Spell, losses: Iterable[Spell], outcomes: Mapping[str, RunOutcomes]) -> bool:
    """Return whether a spell shows nothing beyond a rate of losses that lasts.

    A confirmed change of level that is only one of the lost runs is the same trouble; how long it
    lasts, the rate shows better. So is a lesser loss while the rate is new: a run that nearly fails
    is slow.
    """
    if spell.is_lost:
        return are_losses_of_rate(spell, losses, outcomes)
    if not spell.is_level or not spell.unfinished:
        return False
    interval = spell.effect_interval
    is_same = interval is not None and interval.low <= 1 <= interval.high
    slower = abs(math.log(spell.effect)) if spell.effect else math.inf
    return any(
        is_same
        or (
            spell.at <= loss.at + LASTING
            and slower <= LESS * -math.log1p(-min(_rate_since(loss, outcomes)[0], 0.99))
        )
        for loss in _rates_at(spell, losses)
    )


def are_losses_of_rate(
    spell: Spell, losses: Iterable[Spell], outcomes: Mapping[str, RunOutcomes]
) -> bool:
    """Return whether the lost runs of a spell are explained by a rate of losses that lasts.

    Several together are a trouble of their own if that rate hardly ever brings so many so close
    together.
    """
    for loss in _rates_at(spell, losses):
        times, lost = outcomes[_probe_of(loss)].every
        begin, end = (at.timestamp() for at in spell.extent)
        within = (times >= begin) & (times <= end)
        rate, a_month = _rate_since(loss, outcomes)
        more = int(lost[within].sum()) - 1
        chance = binomial_above(more - 1, float(within.sum() - 1), rate) if more > 0 else 1.0
        if a_month * rate * chance > _OWN_A_MONTH:
            return True
    return False


def _rates_at(spell: Spell, losses: Iterable[Spell]) -> Iterator[Spell]:
    """Yield the rates of losses of a spell's probe within which it begins."""
    for loss in losses:
        if _probe_of(loss) == _probe_of(spell) and loss.began[0] <= spell.at <= loss.last:
            yield loss


def _probe_of(spell: Spell) -> str:
    return spell.name if spell.key is None else spell.key.probe


def _rate_since(loss: Spell, outcomes: Mapping[str, RunOutcomes]) -> tuple[float, float]:
    """Return the share of runs lost while a rate of losses lasts, and the runs in 30 days."""
    times, lost = outcomes[_probe_of(loss)].every
    since = (times >= loss.at.timestamp()) & (times <= loss.last.timestamp())
    span = max(float(np.ptp(times[since])), 1.0)
    return float(lost[since].mean()), float(since.sum() * _MONTH_S / span)

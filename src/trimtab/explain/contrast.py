"""The three contrasts behind all evidence, as weights: log10 of a likelihood ratio.

```
              bad hours                good hours
 slow targets   ▓▓▓▓  ◀── in time ──▶    ░░░░
                 ▲                                     ▓▓▓▓ ── against an expectation ── limit, dose
                 │ between targets
                 ▼
 fast targets   ░░░░                     ░░░░
```

Which targets are slow and which are fast follows from surveys of single targets (`breadth`).

A weight says how much likelier the observation is if the cause holds than if it does not. It is
bounded twice: by how much a few independent stretches or targets can show, and by `MOST`, since no
single piece convicts. A condition present in good and bad hours weighs nothing in time and is
marked as present throughout: it may be a standing condition.

A cause declares a `Sign` once and makes evidence from it: ``_LOOPS.of(in_time(frame, ratio=1.5))``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Final, Literal, TypedDict, Unpack

import polars as pl

from trimtab.base.error import Message
from trimtab.base.event import Event
from trimtab.base.incident import Against, Evidence, Found, Route
from trimtab.base.units import format_value
from trimtab.explain.context import SURVEYS, Context, RunFact, once
from trimtab.explain.sight import SEES, View
from trimtab.explain.telemetry_frame import marked

_SLOW_LEAST: Final = 0.1
"""A slow target lost at least a tenth more than the healthy ones."""
_SLOW_SIGMAS: Final = 4.0
"""... and exceeds its scatter in good hours by this many robust standard deviations. With 298
targets, one survey in a hundred gets here by chance."""
_SCATTER: Final = 0.05
"""Standard deviation of a target's rate if there are too few surveys of good hours."""
_WELL_QUANTILE: Final = 0.75
"""Reference for all targets: the upper quartile, because up to half of them may be slow."""
_SURVEYS_LEAST: Final = 3
ON_SERVERS: Final = "obdfilter-survey"
"""The benchmark that surveys single targets on the servers; the others cross the network."""
LEVEL_RATIO: Final = 0.95
"""All targets are slow alike if together they lost a twentieth."""


@dataclass(frozen=True, slots=True)
class Breadth:
    """How much of the file system was slow, from surveys of single targets.

    Attributes
    ----------
    slow, fast
        Targets that lost more than the upper quartile, beyond chance, and the remaining targets.
    level
        Median target, bad over good; ``None`` without a survey of good hours.
    surveyed
        Whether a survey exists within the bad stretch.
    alike
        Whether all targets lost alike: none slow by itself, and the level fell. ``None``: unknown.
    reason
        The same as a sentence.
    fast_level
        Rate retained by the targets that lost least; ``None`` if unknown. Below 0.95 they are not
        a healthy reference for the slow ones.
    """

    slow: tuple[str, ...]
    fast: tuple[str, ...]
    level: float | None
    surveyed: bool
    alike: bool | None
    reason: Message
    fast_level: float | None = None


@once
def breadth(context: Context) -> Breadth:
    """Return which targets were slow by themselves in the bad hours, and whether all lost alike.

    Compares each target's rate in ``context.surveys``, bad hours over good, with the upper quartile
    of all targets. Without surveys of good hours it compares with the median of its own survey. A
    target that moved nothing is slow. ``context.incident.targets`` are included.
    """
    surveys = surveys_within(context)
    bad, good = (surveys.filter(bad=side) for side in (True, False))
    named = context.incident.targets
    if bad.is_empty():
        why = Message("no-bad-survey", "no survey of single targets in the bad hours")
        return Breadth(named, (), None, False, None, why)
    slow, fast = _slow_and_fast(bad, good)
    slow = tuple(sorted({*slow, *named}))
    fast = tuple(name for name in fast if name not in slow)
    level = _level(bad, good)
    alike = None if level is None else not slow and level < LEVEL_RATIO
    if not slow:
        why = Message("no-target-slow", "no slow target in the surveys of the bad hours")
    elif not fast:
        why = Message("all-targets-slow", "all targets slow in the surveys of the bad hours")
    else:
        why = Message(
            "some-targets-slow", f"{len(slow)} of {len(slow) + len(fast)} targets were slow"
        )
    return Breadth(slow, fast, level, True, alike, why, _level(bad, good, _WELL_QUANTILE))


def surveys_within(context: Context) -> pl.DataFrame:
    """Return the survey rows within the stretches, with ``bad``."""
    frame = context.surveys
    if not SURVEYS.keys() <= set(frame.columns):
        frame = pl.DataFrame(schema=SURVEYS)
    frame = frame.filter(pl.col("value").is_not_null() & pl.col("at").is_not_null())
    return marked(frame, context.bad, context.good).drop_nulls("bad")


def _slow_and_fast(
    bad: pl.DataFrame, good: pl.DataFrame
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    key = ["metric", "target"]
    usual = good.filter(pl.col("value") > 0).group_by(key).agg(usual=pl.median("value"))
    now = bad.group_by(key).agg(pl.median("value"), n=pl.len())
    share = pl.col("value") / pl.col("usual")
    both = now.join(usual, on=key, how="left").with_columns(
        share=pl.when(pl.col("usual").is_not_null()).then(share).otherwise(
            pl.when(pl.col("usual").is_null().all().over("metric")).then(pl.col("value"))
        )
    ).filter(pl.col("share").is_finite())  # fmt: skip
    well = pl.col("share").quantile(_WELL_QUANTILE).over("metric")
    scatter = pl.lit(_scatter(good)) / pl.col("n").sqrt()
    least = pl.max_horizontal(pl.lit(_SLOW_LEAST), _SLOW_SIGMAS * scatter).clip(upper_bound=0.5)
    judged = both.with_columns(slow=pl.col("share") < well * (1 - least))
    by_target = judged.group_by("target").agg(pl.col("slow").any()).sort("target")
    slow, fast = (tuple(by_target.filter(slow=side)["target"].to_list()) for side in (True, False))
    return slow, fast


def _scatter(good: pl.DataFrame) -> float:
    """Return the robust standard deviation of a target's rate between surveys."""
    middle = pl.median("value").over("run", "metric")
    shares = good.filter(pl.col("value") > 0).with_columns(share=pl.col("value") / middle)
    usual = pl.median("share").over("metric", "target")
    off = shares.filter(pl.len().over("metric", "target") >= _SURVEYS_LEAST).select(
        (pl.col("share") / usual - 1).abs().median()
    )
    deviation = off.item() if off.height else None
    # With few surveys, deviations from their own median are biased low.
    return _SCATTER if deviation is None else max(1.4826 * float(deviation) * 1.2, 0.005)


def _level(bad: pl.DataFrame, good: pl.DataFrame, quantile: float = 0.5) -> float | None:
    """Return the lowest bad-over-good ratio of the median target over all metrics."""
    medians = [
        dict(frame.group_by("metric").agg(pl.col("value").quantile(quantile)).iter_rows())
        for frame in (bad, good)
    ]
    ratios = [medians[0][metric] / usual for metric, usual in medians[1].items()
              if usual and metric in medians[0]]  # fmt: skip
    return min(ratios, default=None)


def left_of(context: Context, targets: Sequence[str]) -> float | None:
    """Return the rate retained by the slowest of these targets, bad over good."""
    key = ["metric", "target"]
    surveys = surveys_within(context).filter(pl.col("target").is_in(list(targets)))
    medians = surveys.group_by(*key, "bad").agg(pl.median("value"))
    bad, good = (medians.filter(bad=side) for side in (True, False))
    both = bad.join(good.filter(pl.col("value") > 0), on=key, suffix="_usual")
    shares = both["value"] / both["value_usual"]
    least = shares.min()
    return float(least) if isinstance(least, int | float) else None


def kinds_of_surveys(context: Context) -> tuple[str, ...]:
    """Return the benchmarks that surveyed single targets in the bad hours, as far as known."""
    frame = context.surveys
    if "run" not in frame.columns or "at" not in frame.columns:
        return ()
    kinds = {run.id: run.kind for run in context.runs}
    surveyed = {run for at, run in frame.select("at", "run").rows() if at and context.is_bad(at)}
    return tuple(sorted({kinds[run] for run in surveyed if run in kinds}))


def on_servers(context: Context) -> bool:
    """Return whether a survey of the bad hours ran on the servers; true if no kind is known."""
    kinds = kinds_of_surveys(context)
    return not kinds or ON_SERVERS in kinds


def survey_view(context: Context) -> View:
    """Return the instrument of the surveys of the bad hours; if unknown, the one that sees less."""
    return View.SURVEY_ON_SERVERS if on_servers(context) else View.SURVEY_OF_CLIENTS


Worse = Literal["higher", "lower"]
Over = Literal["max", "min", "mean", "median", "sum"]

MOST: Final = 2.0
"""A hundred to one: no single piece of evidence weighs more."""
LEAST: Final = 0.1
"""A smaller weight counts as 0: neutral."""
STRETCH: Final = timedelta(hours=6)
"""Snapshots within one stretch count as one: a state that lasts hours is not news in each of them.

User load and fullness both change over hours; 48 hourly snapshots are about 8 independent
observations.
"""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PRIOR: Final = 0.5
"""Added half a time to both present and absent (Jeffreys): small samples never give 0 or 1."""
_RANK_SHARE: Final = 0.7
"""Factor on the log odds of the ranks: perfect ranks occur by chance, too.

With one bad stretch and n good ones the top rank has probability 1 / (n + 1); the log odds alone
would give 1 / (2 n + 1).
"""
NO_BAD_RUNS: Final = Message("no-bad-runs", "no run in the bad hours")
_NO_BAD_VALUE: Final = Message("no-bad-value", "no value in the bad hours")
_NO_VALUE: Final = {
    Route.TIME: (_NO_BAD_VALUE, Message("no-good-value", "no value in good hours to compare with")),
    Route.TARGETS: (
        Message("no-slow-value", "no value of the slow targets"),
        Message("no-fast-value", "no value of the fast targets"),
    ),
}


@dataclass(frozen=True, slots=True)
class Contrast:
    """The result of a contrast.

    Attributes
    ----------
    weight
        log10 of the likelihood ratio.
    value, reference
        The value judged, and its reference; ``None`` if missing.
    at
        When the condition was first seen in the bad hours.
    throughout
        Whether the condition was present in the good hours as well.
    reason
        Why the contrast could not be made; ``None`` if it could.
    statistic
        Statistic of the bad hours that ``value`` is, as text: "at most"; empty if not stated.
    """

    route: Route
    weight: float
    value: float | None
    reference: float | None
    at: datetime | None = None
    throughout: bool = False
    reason: Message | None = None
    statistic: str = ""

    def is_alike(self, unit: str | None = None) -> bool:
        """Return whether both figures print the same."""
        return self.value is not None and format_value(self.value, unit) == format_value(
            self.reference, unit
        )

    def in_words(self, unit: str | None = None) -> str:
        """Return both figures as text."""
        value, reference = (format_value(side, unit) for side in (self.value, self.reference))
        match self.route:
            case Route.TIME:
                return f"{value} in the bad hours, {reference} in good hours"
            case Route.TARGETS:
                return f"{value} on the slow targets, {reference} on the fast ones"
            case _:
                return f"{value}, against {reference}"


class _Named(TypedDict, total=False):
    code: str
    subject: str
    source: str | None


class _Details(TypedDict, total=False):
    value: float | str | None
    reference: float | str | None
    unit: str | None
    at: datetime | None
    source: str | None
    throughout: bool
    sees: tuple[str, ...]
    against: Against | None
    quantity: str


@dataclass(frozen=True, slots=True)
class Sign:
    """Something a cause looks for, declared once; the methods turn results into evidence.

    Attributes
    ----------
    code
        Stable name: ``loops-in-time``; a result under another name passes its own ``code``.
    subject
        What is compared, or was not available: "useless loops per request".
    source, unit
        Telemetry name behind it, and the unit of its figures.
    view
        The instrument by which it is observed, which determines what it can see.
    """

    code: str
    route: Route
    subject: str = ""
    source: str | None = None
    unit: str | None = None
    view: View = field(kw_only=True)

    def weighed(
        self, text: str, weight: float, by: RunFact | Event | None = None, *,
        code: str | None = None, targets: Sequence[str] = (), **details: Unpack[_Details],
    ) -> Evidence:  # fmt: skip
        """Return a finding as evidence; its capped weight makes it for, against or neutral.

        Parameters
        ----------
        text
            The result, with its figures.
        by
            Run or log book entry that shows it: provides time and source.
        details
            Fields of `Evidence` that override those of the sign.
        """
        capped = max(-MOST, min(MOST, weight)) if math.isfinite(weight) else 0.0
        capped = 0.0 if abs(capped) < LEAST else round(capped, 3)
        outcome = Found.FOR if capped > 0 else Found.AGAINST if capped < 0 else Found.NEUTRAL
        sees = tuple(sorted(SEES[self.view]))
        details = {"source": self.source, "unit": self.unit, "sees": sees, **details}
        if by is not None:
            details["at"] = by.at
            details["source"] = f"{'event' if isinstance(by, Event) else 'run'} {by.id}"
        message = Message(code or self.code, text)
        return Evidence(outcome, message, self.route, capped, targets=tuple(targets), **details)

    def not_available(self, reason: Message, **named: Unpack[_Named]) -> Evidence:
        """Return that the evidence was not available."""
        message = Message(named.get("code", self.code), named.get("subject", self.subject))
        source = named.get("source", self.source)
        return Evidence(Found.NOT_AVAILABLE, message, self.route, reason=reason, source=source)

    def missing(self, why: str, reason: str, **named: Unpack[_Named]) -> Evidence:
        """Return that the evidence was not available, with the reason and its code."""
        return self.not_available(Message(why, reason), **named)

    def of(
        self, contrast: Contrast, subject: str | None = None, *, code: str | None = None,
        why_not: Message | None = None, targets: Sequence[str] = (), **details: Unpack[_Details],
    ) -> Evidence:  # fmt: skip
        """Return a contrast as evidence: the subject with both figures, or why there are none.

        Parameters
        ----------
        why_not
            A more specific reason than the contrast's own, such as `Observations.why_not`.
        """
        subject = self.subject if subject is None else subject
        sign = replace(self, route=contrast.route, code=code or self.code, subject=subject)
        if contrast.reason is not None:
            source = details.get("source", self.source)
            return sign.not_available(why_not or contrast.reason, source=source)
        text = f"{subject}: {contrast.in_words(details.get('unit', self.unit))}"
        details = {"at": contrast.at, "throughout": contrast.throughout, **details}
        # "11.2 % in the bad hours, 11.2 % in good hours" is a difference no reader can see.
        alike = contrast.weight > 0 and contrast.is_alike(details.get("unit", self.unit))
        weight = 0.0 if alike else contrast.weight
        return sign.counted(text, weight, contrast, targets=targets, **details)

    def counted(
        self, text: str, weight: float, contrast: Contrast, *,
        targets: Sequence[str] = (), **details: Unpack[_Details],
    ) -> Evidence:  # fmt: skip
        """Return the figures of a contrast as evidence with another text and weight."""
        details = {"value": contrast.value, "reference": contrast.reference, **details}
        return self.weighed(text, weight, targets=targets, **details)


def in_time(
    frame: pl.DataFrame,
    *,
    worse: Worse = "higher",
    ratio: float = 1.0,
    by: float = 0.0,
    present_from: float | None = None,
    absent: float = -1.0,
    over: Over = "max",
) -> Contrast:
    """Return whether a value was worse in the bad hours than in the good ones.

    Parameters
    ----------
    frame
        ``at``, ``value``, ``bad``, from `Observations`; several rows of one time are combined.
    worse
        Direction in which the cause would move it.
    ratio, by
        Smallest factor, and smallest difference in the value's unit, that would matter.
    present_from
        Value from which the condition is present at all (up to which, if lower is worse).
    absent
        Weight if the value did not move although the cause would move it; shrunk if there are few
        stretches. 0 for a cause that need not show here.
    over
        How the targets at one time are combined.

    Notes
    -----
    Medians of stretches of `STRETCH` are ranked (Mann-Whitney). With u the share of pairs in which
    the bad stretch is worse, smoothed by half a pair, the weight is
    0.7 log10(u / (1 - u)): one bad stretch against eight good ones gives 0.86 at most.
    """
    bad, good = _stretches(frame, over)
    return _ranked(
        Route.TIME, bad, good, _first(frame, worse, present_from), worse=worse, ratio=ratio, by=by,
        present_from=present_from, absent=absent,
    )  # fmt: skip


def between_targets(
    frame: pl.DataFrame,
    breadth: Breadth,
    *,
    ratio: float = 1.0,
    by: float = 0.0,
    present_from: float | None = None,
    absent: float = -1.0,
) -> Contrast:
    """Return whether a value was worse on slow targets than on fast ones during the bad hours.

    Parameters as in `in_time`; ``frame`` also has ``target``. This is how NERSC found the
    allocator: statistics of fast and slow OSTs side by side [S1, IV.B].
    """
    if not breadth.slow or not breadth.fast:
        return Contrast(Route.TARGETS, 0.0, None, None, reason=breadth.reason)
    bad = frame.filter("bad").group_by("target").agg(pl.median("value"))
    slow, fast = (
        bad.filter(pl.col("target").is_in(list(names)))["value"].to_list()
        for names in (breadth.slow, breadth.fast)
    )
    seen = _first(frame.filter(pl.col("target").is_in(list(breadth.slow))), "higher", present_from)
    if breadth.fast_level is not None and breadth.fast_level < LEVEL_RATIO:
        # All were slow, some more than others: no difference here does not rule the cause out.
        absent = 0.0
    return _ranked(
        Route.TARGETS, slow, fast, seen, worse="higher", ratio=ratio, by=by,
        present_from=present_from, absent=absent,
    )  # fmt: skip


def presence(frame: pl.DataFrame, *, absent: float = -1.0) -> Contrast:
    """Return whether a condition was present in the bad hours and not in the good ones.

    Parameters
    ----------
    frame
        ``at``, ``value`` (0 and 1, or a share between), ``bad``. Any target that has it counts.
    absent
        Weight if it was absent in the bad hours; shrunk if there are few stretches.

    Notes
    -----
    Smoothed rates of stretches with the condition: (k + 1/2) / (n + 1) in the bad hours over the
    same in the good ones. 6 of 6 bad stretches and none of 8 good ones: log10 16.7 = 1.2.
    """
    bad, good = _stretches(frame, "max")
    seen = _first(frame, "higher", 0.5)
    if not bad:
        return Contrast(Route.TIME, 0.0, None, _mean(good), reason=_NO_VALUE[Route.TIME][0])
    k_bad, k_good = sum(bad), sum(good)
    share = k_bad / len(bad)
    if share < 0.5 * _PRIOR:
        weight = absent * len(bad) / (len(bad) + 1)
        return Contrast(Route.TIME, weight, share, _mean(good), at=seen)
    if not good:
        return Contrast(Route.TIME, 0.0, share, None, seen, reason=_NO_VALUE[Route.TIME][1])
    rates = [(k + _PRIOR) / (n + 2 * _PRIOR) for k, n in ((k_bad, len(bad)), (k_good, len(good)))]
    weight = math.log10(rates[0] / rates[1])
    throughout = k_good / len(good) >= 0.9 and share >= 0.9
    return Contrast(
        Route.TIME, 0.0 if throughout else weight, share, k_good / len(good), seen, throughout
    )


def expected(
    value: float | None,
    limit: float,
    *,
    worse: Worse = "higher",
    over: float = 0.7,
    under: float = -0.7,
    scale: float = 0.0,
    reason: Message = _NO_BAD_VALUE,
) -> Contrast:
    """Return the weight of a value against an absolute expectation: a limit, data sheet or dose.

    Parameters
    ----------
    over, under
        Weights well beyond the limit on the bad side, and on the good side.
    scale
        Distance from the limit, in the value's unit, at which half the weight counts; 0 is a sharp
        limit.
    reason
        Why there is no value, if there is none.
    """
    if value is None or not math.isfinite(value):
        return Contrast(Route.EXPECTED, 0.0, None, limit, reason=reason)
    beyond = value - limit if worse == "higher" else limit - value
    share = 1.0 if scale <= 0 else abs(beyond) / (abs(beyond) + scale)
    return Contrast(Route.EXPECTED, share * (over if beyond > 0 else under), value, limit)


def _stretches(frame: pl.DataFrame, over: Over) -> tuple[list[float], list[float]]:
    """Return the medians of the bad and of the good stretches, all targets combined."""
    folded = getattr(pl.col("value").cast(pl.Float64), over)()
    stretches: dict[tuple[bool, datetime], list[float]] = {}
    # There are few times: plain Python is faster here than queries to a frame.
    for at, bad, value in frame.group_by("at", "bad").agg(folded).sort("at").rows():
        if value is not None and not math.isnan(value):
            stretches.setdefault((bad, at - (at - _EPOCH) % STRETCH), []).append(value)
    bad, good = (
        [median(values) for (of_bad, _), values in stretches.items() if of_bad == side]
        for side in (True, False)
    )
    return bad, good


def _first(frame: pl.DataFrame, worse: Worse, present_from: float | None) -> datetime | None:
    """Return when the condition was first present in the bad hours."""
    if present_from is None:
        return None
    value = pl.col("value")
    present = value >= present_from if worse == "higher" else value <= present_from
    first = frame.filter(pl.col("bad") & present)["at"].min()
    return first if isinstance(first, datetime) else None


def _ranked(
    route: Route, ours: list[float], theirs: list[float], at: datetime | None, *,
    worse: Worse, ratio: float, by: float, present_from: float | None, absent: float,
) -> Contrast:  # fmt: skip
    """Return the contrast of two sets of values by rank; parameters as in `in_time`."""
    middle, usual = _median(ours), _median(theirs)
    if middle is None or usual is None:
        reason = _NO_VALUE[route][0 if middle is None else 1]
        return Contrast(route, 0.0, middle, usual, at, reason=reason)
    sign = 1.0 if worse == "higher" else -1.0
    above = sum((sign * (a - b) > 0) + 0.5 * (a == b) for a in ours for b in theirs)
    pairs = len(ours) * len(theirs)
    share = (above + _PRIOR) / (pairs + 2 * _PRIOR)
    low, high = sorted((usual, middle))
    moved = sign * (middle - usual) > 0 and high - low >= by and high >= low * ratio
    present, usually = (
        present_from is None or sign * value >= sign * present_from for value in (middle, usual)
    )
    throughout = present_from is not None and present and usually and not moved
    if moved and present:
        weight = max(0.0, _RANK_SHARE * math.log10(share / (1 - share)))
    elif throughout:
        weight = 0.0
    else:
        # With one stretch on each side half of it counts, with many all of it.
        weight = absent * pairs / (pairs + 1)
    return Contrast(route, weight, middle, usual, at, throughout)


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None

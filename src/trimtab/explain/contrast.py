"""The three contrasts behind all evidence, as weights: log10 of a likelihood ratio.

```
              bad hours                good hours
 slow targets   ▓▓▓▓  ◀── in time ──▶    ░░░░
                 ▲                                     ▓▓▓▓ ── against an expectation ── limit, dose
                 │ between targets
                 ▼
 fast targets   ░░░░                     ░░░░
```

Which targets are slow and which are fast follows from surveys of single targets
(`trimtab.explain.breadth`).

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
from trimtab.explain.breadth import LEVEL_RATIO, Breadth
from trimtab.explain.context import RunFact
from trimtab.explain.sight import SEES, View

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
            case Route.TIME if self.statistic:
                return f"{value} {self.statistic} of the bad hours, {reference} of good hours"
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
            Fields of `Evidence` that override those of the sign. ``against`` is how it contradicts
            the cause if its weight does: unless stated, by the absence of what the cause would
            change.
        """
        capped = max(-MOST, min(MOST, weight)) if math.isfinite(weight) else 0.0
        capped = 0.0 if abs(capped) < LEAST else round(capped, 3)
        against = details.get("against") or Against.ABSENT
        details["against"] = against if capped < 0 else None
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
    if not breadth.explains:
        # The slow targets are not why the probe is slow: what they lack need not be the cause.
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

"""Estimates that widen a horizon: growth of usage until a plan expires, and lazy sizes. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trimtab.base.encode import bounds, shape
from trimtab.base.units import format_bytes, format_duration
from trimtab.judge.bootstrap import block_length, widening
from trimtab.judge.quantile import t_quantile
from trimtab.purge.fullness import AgeCurve, OwnerDays

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray


if TYPE_CHECKING:
    Floats = numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float64]]

DAYS_MINIMUM: Final = 14
"""Two weeks: fewer days show neither the weekly pattern nor the variation of days."""
WINDOW_S: Final = 90 * 86400
"""Older snapshots say little about next week's usage."""
LEVEL: Final = 0.9
"""Coverage of the interval: growth exceeds its upper end in one case in twenty."""
DRAWS: Final = 4000
_SPREAD_MINIMUM: Final = 0.2
"""Least spread of a drawn past, as a fraction of the spread of all days."""
_DAY_S: Final = 86400
_GAP_MAXIMUM_S: Final = 3 * _DAY_S


@dataclass(frozen=True, slots=True)
class Growth:
    """Forecast growth of usage over a time, or why there is none.

    Attributes
    ----------
    middle_bytes, low_bytes, high_bytes
        Expected growth and the ends of its interval; ``None`` with a ``reason``.
    level
        Coverage of the interval; half of the rest lies beyond each end.
    days
        Number of days that the forecast is based on.
    """

    ahead_s: int
    middle_bytes: int | None
    low_bytes: int | None
    high_bytes: int | None
    level: float
    days: int
    reason: str | None = None

    @property
    def words(self) -> str:
        """The forecast as a sentence."""
        ahead = format_duration(self.ahead_s)
        if self.middle_bytes is None or self.low_bytes is None or self.high_bytes is None:
            return f"No forecast of growth within {ahead}: {self.reason}."
        return (
            f"Within {ahead} usage is expected to grow by {format_bytes(self.middle_bytes)} "
            f"({format_bytes(self.low_bytes)} to {format_bytes(self.high_bytes)}, "
            f"{self.level:.0%}), based on {self.days} days."
        )


def forecast_growth(
    points: Sequence[tuple[int, int]],
    *,
    ahead_s: int,
    purged: Sequence[tuple[int, int]] = (),
) -> Growth:
    """Forecast the growth of usage over the next ``ahead_s`` seconds after the last point.

    Growth is bytes written less bytes deleted by their owners; lists cover the upper end of its
    interval. Bytes freed by purges are added back, because every purge would otherwise look like
    falling demand::

        used + purged so far   ▁▁▂▂▃▃▃▄▄▅▅▆▆▇▇█   daily differences ──▶ blocks of them, resampled

    Parameters
    ----------
    points
        Seconds since 1970 and bytes used, in any order: a site's snapshots. Those of the last
        `WINDOW_S` count.
    ahead_s
        Length of the forecast, in seconds.
    purged
        Seconds since 1970 and bytes freed, of each purge; added back to the usage.

    Returns
    -------
    Growth
        Expected growth and interval in bytes, or the ``reason`` why there is no forecast: fewer
        than `DAYS_MINIMUM` days, or a gap of more than three days.

    Notes
    -----
    Usage with purges added back is interpolated linearly at whole days before the last point. The
    daily growths are the sample; the interval is their predictive bootstrap. Blocks of consecutive
    days (circular blocks, D. N. Politis and J. P. Romano, 1992) form both another past, for the
    error of the mean, and another future, for the variation of the days to come. The interval is
    widened as in `trimtab.judge.bootstrap`, for variation that short blocks miss. The mean is used
    rather than a robust estimate because the rare day on which a user writes a petabyte is what
    fills a file system.

    Rate at which growth exceeded the upper end, nominal 5 %, from 30 / 60 / 90 days (400 series
    each): independent days 5 / 5 / 4 % within 7 days and 5 / 6 / 4 % within 28; with an
    autocorrelation of 0.5, 4 / 3 / 4 and 5 / 5 / 4 %; lognormal days, whose monthly maximum is
    eight times their median, 9 / 7 / 6 and 7 / 9 / 9 %; days with a weekly pattern, under 2 %.
    """
    reason, daily = _daily(points, purged)
    if reason is not None or daily is None:
        days = 0 if daily is None else len(daily)
        return Growth(ahead_s, None, None, None, LEVEL, days, reason)
    import numpy as np

    ahead_days = ahead_s / _DAY_S
    middle = float(daily.mean()) * ahead_days
    errors = _errors(daily, ahead_days)
    low, high = np.quantile(errors, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    widened = widening(list(daily), LEVEL) if float(daily.std()) > 0 else 1.0
    return Growth(
        ahead_s=ahead_s,
        middle_bytes=round(middle),
        low_bytes=round(middle + widened * min(0.0, float(low))),
        high_bytes=round(middle + widened * max(0.0, float(high))),
        level=LEVEL,
        days=len(daily),
    )


def _daily(
    points: Sequence[tuple[int, int]], purged: Sequence[tuple[int, int]]
) -> tuple[str | None, Floats | None]:
    """Return why there is no forecast, and the growth of each day in bytes, oldest first."""
    import numpy as np

    end = max((at for at, _ in points), default=0)
    recent = sorted({at: used for at, used in points if at >= end - WINDOW_S}.items())
    if len(recent) < 2:
        return f"{len(recent)} snapshots are too few", None
    at = np.array([at for at, _ in recent], np.float64)
    gross = np.array([used for _, used in recent], np.float64)
    for when, freed in purged:
        gross[at >= when] += freed
    days = int((at[-1] - at[0]) // _DAY_S)
    grown = np.diff(np.interp(at[-1] - _DAY_S * np.arange(days, -1, -1), at, gross))
    if days < DAYS_MINIMUM:
        return f"snapshots reach back {days} days; a forecast needs {DAYS_MINIMUM}", grown
    gap_s = float(np.diff(at).max())
    if gap_s > _GAP_MAXIMUM_S:
        return f"no snapshot for {format_duration(gap_s)}: variation of days unknown", grown
    return None, grown


def _errors(daily: Floats, ahead_days: float) -> Floats:
    """Return the differences between drawn futures and the forecasts of drawn pasts, in bytes."""
    import numpy as np

    n = len(daily)
    # Seeded by the data: the same snapshots give the same lists.
    seed = int.from_bytes(hashlib.sha256(daily.tobytes()).digest()[:16], "big")
    generator = np.random.default_rng(seed)
    whole = int(ahead_days)
    part = ahead_days - whole
    weights = np.append(np.ones(whole), [part] if part > 0 else [])
    past = _drawn(daily, n, generator)
    future = _drawn(daily, len(weights), generator) @ weights
    spread = daily.std()
    # Scaled by the spread of each past: a past without the rare large days both forecasts too
    # little and varies too little, and this corrects for both.
    shown = np.maximum(past.std(axis=1), _SPREAD_MINIMUM * spread)
    scale = np.divide(spread, shown, out=np.ones_like(shown), where=shown > 0)
    return (future - ahead_days * past.mean(axis=1)) * scale


def _drawn(daily: Floats, length: int, generator: numpy.random.Generator) -> Floats:
    """Return `DRAWS` series of ``length`` days, made of circular blocks of ``daily``."""
    import numpy as np

    n = len(daily)
    block = block_length(n)
    starts = generator.integers(0, n, (DRAWS, -(-length // block)))
    days = (starts[:, :, None] + np.arange(block)).reshape(DRAWS, -1)[:, :length]
    return daily[days % n]


shape(
    Growth,
    omit=["low_bytes", "high_bytes"],
    derive={"interval": bounds("low_bytes", "high_bytes", int)},
)


if TYPE_CHECKING:
    Whole = NDArray[numpy.int64]
    Real = NDArray[numpy.float64]

CONFIDENCE: Final = 0.95
PRIOR_FILES: Final = 2.0
AGES_DAYS: Final = (14, 28, 56, 84, 182, 365)
"""Upper bounds of the age classes in days, also used for the sample."""


@dataclass(frozen=True, slots=True)
class BiasEstimate:
    """A number of bytes with its 95 % interval."""

    bytes: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class SizeSample:
    """Sampled files of an index.

    Attributes
    ----------
    stratum
        Stratum of each file, from 0; int64, shape (n,).
    difference
        Exact less listed bytes; float64, shape (n,).
    uids
        Owners; int64, shape (n,).
    hours
        Last use by the rules in force, in hours since 1970; int64, shape (n,).
    eligible
        Whether the rules allow its deletion; bool, shape (n,).
    files, drawn
        Number of files and of sampled files in each stratum; int64, shape (k,).
    scales
        Typical file size of each stratum in bytes, greater than 0; float64, shape (k,).
    """

    stratum: Whole
    difference: Real
    uids: Whole
    hours: Whole
    eligible: NDArray[numpy.bool_]
    files: Whole
    drawn: Whole
    scales: Real

    @property
    def weights(self) -> Real:
        """Number of files of its stratum that each sampled file represents; shape (n,)."""
        import numpy as np

        return self.files[self.stratum] / np.maximum(self.drawn[self.stratum], 1)

    def estimate(self, domain: NDArray[numpy.bool_]) -> BiasEstimate:
        """Return how many bytes too small a domain is listed.

        Parameters
        ----------
        domain
            Which sampled files belong to it; shape (n,).
        """
        import numpy as np

        values = np.where(domain, self.difference, 0.0)
        known = self.drawn > 0
        mean = np.zeros(len(self.files))
        np.divide(np.bincount(self.stratum, values, len(self.files)), self.drawn, mean, where=known)
        within: Real = np.bincount(
            self.stratum, (values - mean[self.stratum]) ** 2, len(self.files)
        ).astype(float)
        whole = self.drawn >= self.files
        pooled, freedom = self._pooled(within, domain)
        shrunk = (within + PRIOR_FILES * pooled) / np.maximum(self.drawn - 1 + PRIOR_FILES, 1)
        rest = np.where(whole | ~known, 0.0, 1.0 - self.drawn / np.maximum(self.files, 1))
        variances = self.files.astype(float) ** 2 * rest * shrunk / np.maximum(self.drawn, 1)
        total, variance = float((self.files * mean).sum()), float(variances.sum())
        if variance <= 0.0:
            return BiasEstimate(total, total, total)
        squared = variances**2 / np.maximum(self.drawn - 1 + PRIOR_FILES, 1)
        degrees = max(1.0, min(variance**2 / float(squared.sum()), freedom))
        half = t_quantile((1 + CONFIDENCE) / 2, degrees) * math.sqrt(variance)
        return BiasEstimate(total, total - half, total + half)

    def _pooled(self, within: Real, domain: NDArray[numpy.bool_]) -> tuple[Real, float]:
        """Return the variance that each stratum is shrunk towards, and its degrees of freedom.

        Only strata with files of the domain contribute; outside it there is no variance.
        """
        import numpy as np

        touched = np.bincount(self.stratum, domain, len(self.files)) > 0
        freedom = np.where(touched, np.maximum(self.drawn - 1, 0), 0)
        scale = self.scales
        relative = float((np.where(touched, within, 0) / scale**2).sum())
        total = float(freedom.sum())
        pooled = np.where(touched, relative / max(total, 1.0) * scale**2, 0.0)
        return pooled, max(total, 1.0)


@dataclass(frozen=True, eq=False)
class SizeBias:
    """Listed amounts of an index, corrected by a sample of it.

    The sample has exact sizes, the index lazy ones. The estimator is that of stratified sampling: a
    stratum's bias is the mean difference (exact less listed) of its sampled files times its number
    of files. A subset of the files (eligible, last used before a cut-off, of one user) is a domain:
    the differences of all others are 0. Source: Cochran, Sampling Techniques, 5.3, 5.4, 5A.14.

    A stratum whose few sampled files agree has no variance of its own, which says little: each
    variance is shrunk towards that of all strata, with the weight of `PRIOR_FILES` files.

    Attributes
    ----------
    as_of_hour
        Hours since 1970 from which ages are counted back.
    """

    sample: SizeSample
    as_of_hour: int

    @property
    def whole(self) -> BiasEstimate:
        """How many bytes too small all files together are listed."""
        import numpy as np

        return self.sample.estimate(np.ones(len(self.sample.difference), bool))

    def held(self, listed: Mapping[int, int]) -> dict[int, int]:
        """Return the corrected bytes of each user, by uid."""
        sample = self.sample
        more: dict[int, float] = {}
        for uid, size in zip(
            sample.uids.tolist(), (sample.weights * sample.difference).tolist(), strict=True
        ):
            more[uid] = more.get(uid, 0.0) + size
        return {uid: max(0, round(size + more.get(uid, 0.0))) for uid, size in listed.items()}

    def curve(self, listed: AgeCurve, *, low: bool = False) -> AgeCurve:
        """Return the corrected curve of eligible files; with ``low``, by the interval's lower end.

        Within an age class all files have the same mean error, so each hour gets a share of the
        class by its number of files.
        """
        import numpy as np

        classes = self._classes(listed.hours)
        sizes = listed.allocated_bytes.astype(float)
        for number in np.unique(classes):
            inside = classes == number
            of_sample = self.sample.eligible & (self._classes(self.sample.hours) == number)
            estimate = self.sample.estimate(of_sample)
            total = estimate.low if low else estimate.bytes
            files = listed.files[inside].astype(float)
            if files.sum() > 0:
                sizes[inside] += total * files / files.sum()
        return AgeCurve(listed.hours, listed.files, np.maximum(np.rint(sizes), 0).astype(np.int64))

    def owner_days(self, listed: OwnerDays, *, users: bool = True) -> OwnerDays:
        """Return the corrected eligible bytes of each owner; for projects, by age alone."""
        import numpy as np

        classes = self._classes(listed.days * 24)
        owners = np.repeat(listed.owners, np.diff(listed.starts))
        means = self._means(users=users)
        more = np.array(
            [
                means.get((owner, age), means.get((None, age), 0.0))
                for owner, age in zip(owners.tolist(), classes.tolist(), strict=True)
            ]
        )
        sizes = listed.allocated_bytes + more * listed.files
        whole = np.maximum(np.rint(sizes), 0).astype(np.int64)
        return OwnerDays(listed.owners, listed.starts, listed.days, listed.files, whole)

    def _means(self, *, users: bool) -> dict[tuple[int | None, int], float]:
        """Return the mean difference of an eligible file by owner and age class, and by age."""
        sample = self.sample
        classes = self._classes(sample.hours)
        sums: dict[tuple[int | None, int], tuple[float, float]] = {}
        rows = zip(
            sample.uids.tolist(), classes.tolist(), sample.weights.tolist(),
            sample.difference.tolist(), sample.eligible.tolist(), strict=True,
        )  # fmt: skip
        for uid, age, weight, difference, eligible in rows:
            for key in ((uid, age), (None, age)) if users else ((None, age),):
                if eligible:
                    files, size = sums.get(key, (0.0, 0.0))
                    sums[key] = (files + weight, size + weight * difference)
        return {key: size / files for key, (files, size) in sums.items()}

    def _classes(self, hours: Whole) -> Whole:
        import numpy as np

        return np.searchsorted(np.array(AGES_DAYS) * 24, self.as_of_hour - hours, side="right")

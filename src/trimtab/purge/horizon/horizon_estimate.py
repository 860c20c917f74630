"""Lazy sizes of a horizon: how much too small an index lists files, from a sample. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trimtab.judge.quantile import t_quantile
from trimtab.purge.fullness import AgeCurve, OwnerDays

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

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

"""The COV over the window ending with each run of a series: those of past periods are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Final

from trimtab.base.series import CovAt
from trimtab.store.kept_period import KeptPeriods, Period, in_order, period_at

if TYPE_CHECKING:
    from trimtab.base.site import SiteLimits
    from trimtab.store.kept import Keeping, RestsOn

_AHEAD: Final = 2
"""Periods after its own on which a window rests. Which runs make one occasion, the five weeks after
them tell (`trimtab.judge.spread.occasions`)."""

Windows = dict[str, tuple[CovAt, ...]]
"""Metric to its windows, by time."""


class KeptWindows:
    """The windows of the metrics of a series, none of them left out for their number.

    Parameters
    ----------
    look
        Of the whole record.
    name
        Comparability of the series.
    metrics
        All its metrics: a new one has runs in the past too, those that did not finish.
    """

    def __init__(
        self, look: Keeping, name: str, metrics: Iterable[str], limits: SiteLimits
    ) -> None:
        terms = sorted(metrics), limits.cov, limits.window_s

        def rests_on(period: Period) -> RestsOn:
            assert period is not None
            upto = period + _AHEAD
            return lambda sums: (
                *terms,
                sorted(
                    (at is not None, at or 0, of)
                    for (series, at), of in sums.runs_in.items()
                    if series == name and (at is None or at <= upto)
                ),
            )

        periods = in_order(at for of, at in look.sums.runs_in if of == name and at is not None)
        self._periods = KeptPeriods[Windows](look, f"windows of {name}", Windows, rests_on, periods)

    @property
    def first(self) -> Windows:
        """The windows of the periods before the first whose windows must be made."""
        return _joined(self._periods.first)

    @property
    def all(self) -> Windows | None:
        """The windows of all periods; ``None``: some must be made."""
        return None if self._periods.missing else _joined(self._periods.filled(()))

    def filled(self, made: Mapping[str, Iterable[CovAt]]) -> Windows:
        """Return the windows of all periods, given those after the `first`; they are kept."""
        of_period: dict[Period, dict[str, list[CovAt]]] = {}
        for metric, windows in made.items():
            for window in windows:
                of_metric = of_period.setdefault(period_at(window.at), {})
                of_metric.setdefault(metric, []).append(window)
        return _joined(
            self._periods.filled(
                {metric: tuple(of) for metric, of in of_period.get(period, {}).items()}
                for period in self._periods.missing
            )
        )


def _joined(periods: Iterable[Windows]) -> Windows:
    every = [*periods]
    metrics = dict.fromkeys(chain.from_iterable(every))
    return {
        metric: tuple(chain.from_iterable(of.get(metric, ()) for of in every)) for metric in metrics
    }

"""The efficiency of a layer: the ratio of two rungs with its uncertainty, if they are comparable.

Two kinds of uncertainty are kept apart. A printed figure may be anything that rounds to it: its
interval is certain and has no confidence level, and ratios use interval arithmetic. A measured
rate has repetitions: its interval is a confidence interval, and ratios are taken on log values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median, stdev
from typing import Final

from trimtab.base.error import Message
from trimtab.base.site_hardware import Figure, Hardware
from trimtab.base.units import format_percent
from trimtab.base.verdict import LEVEL
from trimtab.judge.bootstrap import N_MINIMUM, ratio_interval, series_interval
from trimtab.judge.efficiency_ladder import (
    NOMINAL_LEVELS,
    RAW_LEVELS,
    UNITS,
    Coverage,
    Efficiency,
    Estimate,
    IntervalBasis,
    Rung,
    Unit,
)
from trimtab.judge.quantile import t_quantile

_HALF_MAXIMUM: Final = 50.0
"""On log values: 22 powers of ten either way mean that nothing is known, and stay finite."""


def of_figure(figure: Figure, *, exact: bool = False) -> Estimate:
    """Return a printed figure as a rate; ``exact`` ones are exact by definition (a line rate)."""
    if exact:
        return Estimate(figure.middle, figure.middle, figure.middle)
    low, high = figure.possible()
    return Estimate(figure.middle, low, high, IntervalBasis.ROUNDING)


def of_values(values: Sequence[float], basis: IntervalBasis) -> Estimate:
    """Return the median of repetitions or runs, by time, with its interval.

    Raises
    ------
    ValueError
        There are no values, or one is not positive and finite.

    Notes
    -----
    From `N_MINIMUM` values the interval is a block bootstrap. Below, log values are assumed normal:
    the half-width is t(n - 1) s sqrt(pi / (2 n)), where pi / 2 is the cost of a median relative to
    a mean. One value has no interval.
    """
    if not values or not all(0 < value < math.inf for value in values):
        raise ValueError("a rate has positive, finite values")
    middle = median(values)
    if len(values) < 2:
        return Estimate(middle, basis=basis, values=tuple(values))
    interval = series_interval(values)
    if interval is not None and interval.low > 0:
        low, high = interval.low, interval.high
    else:
        half = t_quantile((1 + LEVEL) / 2, len(values) - 1) * math.sqrt(_variance(values))
        half = min(half, _HALF_MAXIMUM)
        low, high = middle * math.exp(-half), middle * math.exp(half)
    return Estimate(middle, low, high, basis, LEVEL, tuple(values))


def scaled(rate: Estimate, factor: float) -> Estimate:
    """Return the rate scaled by a factor of hardware, including interval and values."""
    low = None if rate.low is None else rate.low * factor
    high = None if rate.high is None else rate.high * factor
    values = tuple(value * factor for value in rate.values)
    return Estimate(rate.value * factor, low, high, rate.basis, rate.level, values)


def ratio(above: Estimate, beneath: Estimate) -> Estimate:
    """Return one rate as a fraction of another, with its uncertainty.

    Notes
    -----
    With `N_MINIMUM` values or more on both sides: independent block bootstraps of the two medians.
    With fewer, but at least two each: Welch's interval on log values, degrees of freedom after
    Satterthwaite. If only one has values, the other's interval counts as certain bounds (a data
    sheet, a printed figure), which is cautious. If one has no interval, neither has the ratio.
    """
    value = above.value / beneath.value
    if min(len(above.values), len(beneath.values)) >= 2:
        interval = ratio_interval(above.values, beneath.values)
        if interval is not None and min(len(above.values), len(beneath.values)) >= N_MINIMUM:
            low, high = interval.low, interval.high
        else:
            half = _welch(above.values, beneath.values)
            low, high = value * math.exp(-half), value * math.exp(half)
        basis = IntervalBasis.RUNS
        if IntervalBasis.REPETITIONS in (above.basis, beneath.basis):
            basis = IntervalBasis.REPETITIONS
        return Estimate(value, low, high, basis, LEVEL)
    if above.low is None or above.high is None or beneath.low is None or beneath.high is None:
        return Estimate(value)
    basis = above.basis if above.basis is not IntervalBasis.STATED else beneath.basis
    level = beneath.level if above.level is None else above.level
    return Estimate(value, above.low / beneath.high, above.high / beneath.low, basis, level)


def _variance(values: Sequence[float]) -> float:
    """Return the variance of the log of the median of independent values."""
    spread = stdev(math.log(value) for value in values)
    return spread * spread * math.pi / (2 * len(values))


def _welch(above: Sequence[float], beneath: Sequence[float]) -> float:
    """Return the half-width of the interval of the log ratio of two medians."""
    variances = [_variance(values) for values in (above, beneath)]
    total = math.fsum(variances)
    if total == 0:
        return 0.0
    degrees = (
        total
        * total
        / math.fsum(
            variance * variance / (len(values) - 1)
            for variance, values in zip(variances, (above, beneath), strict=True)
        )
    )
    return min(t_quantile((1 + LEVEL) / 2, degrees) * math.sqrt(total), _HALF_MAXIMUM)


APART_MAXIMUM: Final = timedelta(days=30)
"""Drives age and files change: rungs further apart are not of the same system without a note."""
FULLNESS_APART_MAXIMUM: Final = 0.10
"""Allocator and drives slow down with fullness [S1; S2]; a tenth is noticeable."""
MORE_THAN_CARRIED: Final = 1.10
"""Data sheets are rounded down and settings differ; beyond a tenth something is wrong."""
_SAME: Final = 1e-6
SINGULAR: Final[dict[str, str]] = {"drives": "drive", "osts": "OST", "servers": "server"}


def built_of(hardware: Hardware) -> Coverage:
    """Return the counts of the whole file system, derived from each other where possible."""
    drives: float | None = hardware.drives
    osts: float | None = hardware.osts
    each = hardware.drives_per_ost
    if drives is None and osts is not None and each is not None:
        drives = osts * each
    if osts is None and drives is not None and each is not None:
        osts = drives / each
    return Coverage(drives, osts, hardware.oss)


@dataclass(frozen=True, slots=True)
class Comparer:
    """Compares rungs of one system."""

    hardware: Hardware

    @property
    def built(self) -> Coverage:
        """Counts of the whole file system."""
        return built_of(self.hardware)

    def counts(self, rung: Rung, unit: Unit) -> float | None:
        """Return the number of a unit that a rung covers, ``None`` if it does not follow."""
        stated, built, per_ost = rung.coverage, self.built, self.hardware.drives_per_ost
        if stated.count(unit) is not None:
            return stated.count(unit)
        for other in UNITS:
            count = stated.count(other)
            if count is None:
                continue
            if per_ost is not None and {unit, other} == {"drives", "osts"}:
                return count * per_ost if unit == "drives" else count / per_ost
            wanted, known = built.count(unit), built.count(other)
            if wanted is not None and known is not None:
                return count * wanted / known
        return None

    def efficiency(self, above: Rung, beneath: Rung) -> Efficiency:
        """Return the share of one rung that another delivers, both for the same hardware."""
        factor, parity_counted, reason = self._parity(above, beneath)
        if reason is not None:
            return Efficiency(beneath.layer, reason=reason)
        common = self._common(above, beneath)
        if common is None:
            return Efficiency(beneath.layer, reason=_no_common(above, beneath))
        unit, of_above, of_beneath = common
        share = ratio(scaled(above.rate, factor / of_above), scaled(beneath.rate, 1 / of_beneath))
        same = abs(of_above / of_beneath - 1) < _SAME
        return Efficiency(
            beneath.layer,
            share.value,
            share.low,
            share.high,
            share.level,
            parity_counted=parity_counted,
            per=None if same else SINGULAR[unit],
            doubts=(
                *self._doubts(above, beneath, unit, same=same),
                *_too_good(share.value if share.low is None else share.low),
            ),
        )

    def _parity(self, above: Rung, beneath: Rung) -> tuple[float, bool, Message | None]:
        crossed = (above.layer in RAW_LEVELS) != (beneath.layer in RAW_LEVELS)
        if above.metric != "write_bandwidth" or not crossed:
            return 1.0, False, None
        parity = self.hardware.parity
        if parity is None:
            return 1.0, False, Message("parity-unknown", "parity unknown: add [hardware] parity")
        factor = parity.written_per_byte
        return (1 / factor if above.layer in RAW_LEVELS else factor), factor != 1, None

    def _common(self, above: Rung, beneath: Rung) -> tuple[str, float, float] | None:
        """Return a unit in which both can be counted, with the counts."""
        if (above.layer, beneath.layer) == ("client", "client_network"):
            return "client nodes", 1.0, 1.0  # of the same nodes it was measured on
        units: tuple[Unit, ...] = UNITS[::-1] if _of_network(above, beneath) else UNITS
        for unit in units:
            counts = self.counts(above, unit), self.counts(beneath, unit)
            if counts[0] and counts[1]:
                return unit, counts[0], counts[1]
        return None

    def _doubts(self, above: Rung, beneath: Rung, unit: str, *, same: bool) -> tuple[Message, ...]:
        if beneath.layer in NOMINAL_LEVELS or above.layer in NOMINAL_LEVELS:
            return ()
        doubts = []
        if not same and unit in ("drives", "osts"):
            counted: Unit = "drives" if unit == "drives" else "osts"
            numbers = [self.counts(rung, counted) or 0 for rung in (above, beneath)]
            noun = f"{SINGULAR[unit]}s"
            text = f"measured on {numbers[0]:,.4g} and on {numbers[1]:,.4g} {noun}"
            doubts.append(Message("hardware-differs", text))
        doubts += conditions_apart(above, beneath)
        return tuple(doubts)


def _too_good(least: float) -> tuple[Message, ...]:
    if least <= MORE_THAN_CARRIED:
        return ()
    text = "more than it can carry: check units, counts, parity and caches"
    return (Message("more-than-carried", text),)


def conditions_apart(above: Rung, beneath: Rung) -> list[Message]:
    """Return the known conditions in which two measurements differ."""
    apart = []
    if above.epoch is not None and beneath.epoch is not None and above.epoch != beneath.epoch:
        text = f"from different epochs: {above.epoch}, {beneath.epoch}"
        apart.append(Message("epochs-differ", text))
    if above.at is not None and beneath.at is not None:
        between = abs(above.at - beneath.at)
        if between > APART_MAXIMUM:
            apart.append(Message("times-differ", f"measured {between.days} days apart"))
    if above.fullness is not None and beneath.fullness is not None:
        difference = abs(above.fullness - beneath.fullness)
        if difference > FULLNESS_APART_MAXIMUM + 1e-9:
            full = [format_percent(rung.fullness or 0.0, 0) for rung in (above, beneath)]
            text = f"measured at {full[0]} and {full[1]} full"
            apart.append(Message("fullness-differs", text))
    for name, value in above.conditions.items():
        other = beneath.conditions.get(name)
        if other is not None and other != value:
            apart.append(Message("conditions-differ", f"{name} {value} and {other}"))
    return apart


def _of_network(above: Rung, beneath: Rung) -> bool:
    network = {"network", "line_rate", "client_network"}
    return above.layer in network or beneath.layer in network


def _no_common(above: Rung, beneath: Rung) -> Message:
    needed = "servers" if _of_network(above, beneath) else "drives, OSTs or servers"
    return Message(
        "counts-unknown", f"number of {needed} unknown: add drives, osts, oss under [hardware]"
    )

"""The efficiency of layers: ratios of two rungs, what limits the topmost rate, and what loses most.

Two kinds of uncertainty are kept apart. A printed figure may be anything that rounds to it: its
interval is certain and has no confidence level, and ratios use interval arithmetic. A measured rate
has repetitions: its interval is a confidence interval, and ratios are taken on log values.

The walk starts at the client (else at the highest measured layer) and goes down the branch that
carries least. With a margin x, a branch of which the client gets at least 1 - x limits it: the
network, or the storage, where each layer that delivers at least 1 - x of the one beneath passes the
question down, until the drives. A layer that certainly gets less than 1 - x of what carries it is
the bottleneck. Everything else is "cannot tell": an interval that includes 1 - x, two statistically
tied branches, a rung that is missing or was measured under other conditions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import median, stdev
from typing import Final

from trimtab.base.error import Message, code_of
from trimtab.base.site_hardware import Figure, Hardware
from trimtab.base.units import format_percent
from trimtab.base.verdict import LEVEL
from trimtab.judge.bootstrap import N_MINIMUM, ratio_interval, series_interval
from trimtab.judge.efficiency_ladder import (
    LEVEL_NAMES,
    NOMINAL_LEVELS,
    RAW_LEVELS,
    UNITS,
    Coverage,
    Efficiency,
    Estimate,
    IntervalBasis,
    LadderLevel,
    LadderLimit,
    LimitKind,
    Loss,
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

    From `N_MINIMUM` values the interval is a block bootstrap. Below, log values are assumed normal:
    the half-width is t(n - 1) s sqrt(pi / (2 n)), where pi / 2 is the cost of a median relative to
    a mean. One value has no interval; no values, or one that is not positive and finite, are a
    ``ValueError``.
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


_STORAGE: Final[tuple[LadderLevel, ...]] = ("ost", "raid", "drive", "data_sheet")
_BRANCHES: Final[tuple[tuple[LadderLevel, ...], ...]] = (
    _STORAGE,
    ("network", "line_rate"),
    ("client_network",),
)
BENEATH: Final[Mapping[LadderLevel, tuple[tuple[LadderLevel, ...], ...]]] = {
    "drive": (("data_sheet",),),
    "raid": (("drive", "data_sheet"),),
    "ost": (("raid", "drive", "data_sheet"),),
    "network": (("line_rate",),),
    "client": _BRANCHES,
    "application": (("client",),),
}
"""Layer to its branches; each lists the layers that may carry it, nearest first."""
_NOTHING_PASSES: Final[Mapping[LadderLevel, LimitKind]] = {
    "line_rate": LimitKind.NETWORK,
    "client_network": LimitKind.CLIENT_NETWORK,
}
_TOPS: Final[tuple[LadderLevel, ...]] = ("client", "ost", "raid", "drive")


@dataclass(frozen=True, slots=True)
class Walk:
    """The rungs of one metric, and how to compare them.

    ``margin`` is the fraction that a layer may lose without being the bottleneck, ``networked``
    whether a network lies between clients and drives, and OSTs.
    """

    rungs: Mapping[LadderLevel, Rung]
    comparer: Comparer
    margin: float
    networked: bool = True
    _known: dict[tuple[LadderLevel, LadderLevel], Efficiency] = field(
        default_factory=dict, compare=False
    )

    def carriers(self, level: LadderLevel) -> list[Rung]:
        """Return the carriers of a layer: the nearest existing rung of each branch."""
        branches = BENEATH.get(level, ())
        if level == "application" and "client" not in self.rungs:
            branches = _BRANCHES
        carriers = []
        for branch in branches:
            nearest = next((self.rungs[layer] for layer in branch if layer in self.rungs), None)
            if nearest is not None:
                carriers.append(nearest)
        return carriers

    def efficiency(self, above: LadderLevel, beneath: LadderLevel) -> Efficiency:
        """Return the share of one layer that another delivers."""
        pair = (above, beneath)
        if pair not in self._known:  # a bootstrap of a week of runs takes 20 ms; cache it
            self._known[pair] = self.comparer.efficiency(self.rungs[above], self.rungs[beneath])
        return self._known[pair]

    def limit(self) -> LadderLimit:
        """Return what limits the topmost rate."""
        top: LadderLevel | None = next((level for level in _TOPS if level in self.rungs), None)
        if top is None:
            return _cannot_tell("not-measured", "no layer from drives to clients was measured")
        if top == "client":
            return self._of_client()
        limit = self._down(top)
        reason = Message(limit.reason.code, limit.reason + self._to_come(top))
        return LadderLimit(limit.kind, limit.layer, reason)

    def path(self) -> list[tuple[LadderLevel, LadderLevel]]:
        """Return the pairs of layers from the top down through the branch that carries least."""
        level: LadderLevel | None = next((top for top in _TOPS if top in self.rungs), None)
        pairs: list[tuple[LadderLevel, LadderLevel]] = []
        while level is not None:
            beneath = self._least(level)
            if beneath is None:
                break
            pairs.append((level, beneath))
            level = beneath
        return pairs

    def loss(self) -> Loss:
        """Return the layer on the way down that delivers the smallest share of what carries it."""
        known, unknown = [], []
        for above, beneath in self.path():
            efficiency = self.efficiency(above, beneath)
            usable = efficiency.low is not None and not efficiency.doubts
            (known if usable else unknown).append((above, efficiency))
        if unknown or not known:
            names = ", ".join(f"{_name(above)} against {_name(e.of)}" for above, e in unknown)
            return _no_loss("efficiency-unknown", f"no usable figure of {names or 'any layer'}")
        known.sort(key=lambda pair: pair[1].value or 0.0)
        above, least = known[0]
        share = f"{_name(above)} {_share(least)}"
        high = least.high or 0.0
        if high >= 1:
            return _no_loss(
                "no-loss", f"no significant loss in any layer: the lowest is {share}", least
            )
        tied = [pair for pair in known[1:] if (pair[1].low or 0.0) <= high]
        if tied:
            others = ", ".join(f"{_name(layer)} {_share(other)}" for layer, other in tied)
            return _no_loss("losses-tied", f"{share}; statistically tied with {others}", least)
        if self.networked and above == "client" and least.of not in ("ost", "network"):
            return _no_loss(
                "layers-not-measured", f"{share}; the layers between were not measured", least
            )
        rest = "less than any other layer on the way down" if known[1:] else "the only one measured"
        return Loss(above, least, Message("largest-loss", f"{share}, {rest}"))

    def _least(self, level: LadderLevel) -> LadderLevel | None:
        """Return the carrier that carries least: the one of which a layer gets the most."""
        shares: list[tuple[LadderLevel, float | None]] = [
            (carrier.layer, self.efficiency(level, carrier.layer).value)
            for carrier in self.carriers(level)
        ]
        known: list[tuple[float, LadderLevel]] = [
            (value, carrier) for carrier, value in shares if value is not None
        ]
        return max(known)[1] if known else None

    def _to_come(self, top: LadderLevel) -> str:
        """Return the clients' next limit, if the network surely carries less than the OSTs."""
        if top != "ost" or "network" not in self.rungs:
            return ""
        network = self.efficiency("network", top)
        if network.high is None or network.high >= 1 or network.doubts:
            return ""
        return f"; network {_share(network)}: it will limit the clients"

    def _of_client(self) -> LadderLimit:
        carriers: dict[LadderLevel, Efficiency] = {
            rung.layer: self.efficiency("client", rung.layer) for rung in self.carriers("client")
        }
        limit = self._at_line_rate(carriers)
        if limit is not None:
            return limit
        missing = self._missing(carriers)
        if missing:
            shares = "; ".join(
                f"client {_share(carrier)}" for carrier in carriers.values() if carrier.value
            )
            return _cannot_tell(missing.code, f"{missing}{f' ({shares})' if shares else ''}")
        for efficiency in carriers.values():
            if why := _unusable("client", efficiency):
                return _cannot_tell(why.code, why)
        least: LadderLevel = max(carriers, key=lambda layer: carriers[layer].value or 0.0)
        efficiency = carriers[least]
        if self._lost(efficiency):
            return self._lost_in_client(least, efficiency)
        if not self._within_margin(efficiency):
            return _cannot_tell("margin-in-interval", self._open("client", efficiency))
        if also := self._tied(least, carriers):
            return _cannot_tell(
                "carriers-tied",
                f"client {_share(efficiency)}, but {_name(least)} and {also} are "
                "statistically tied",
            )
        return self._named(least, f"client {_share(efficiency)}")

    def _at_line_rate(self, carriers: Mapping[LadderLevel, Efficiency]) -> LadderLimit | None:
        """Return that the network is the limit if the client runs at its line rate."""
        for layer, kind in _NOTHING_PASSES.items():
            efficiency = carriers.get(layer)
            if (
                efficiency is not None
                and efficiency.value is not None
                and self._within_margin(efficiency)
            ):
                text = f"client {_share(efficiency)}, which cannot be exceeded"
                return LadderLimit(kind, layer, Message("at-line-rate", text))
        return None

    def _missing(self, carriers: Mapping[LadderLevel, Efficiency]) -> Message | None:
        if not any(layer in carriers for layer in _STORAGE):
            return Message(
                "storage-not-measured",
                "no layer below the client was measured, no data sheet known",
            )
        if self.networked and "network" not in carriers:
            return Message("network-not-measured", "network not measured: it may be the limit")
        return None

    def _lost_in_client(self, least: LadderLevel, efficiency: Efficiency) -> LadderLimit:
        if self.networked and least in _STORAGE and least != "ost":
            return _cannot_tell(
                "ost-not-measured",
                f"client {_share(efficiency)}; OSTs not measured: the loss may be below or above "
                "the network",
            )
        return LadderLimit(
            LimitKind.LAYER,
            "client",
            Message(
                "lost-in-client",
                f"client {_share(efficiency)}, its narrowest carrier: lost in the client layer "
                "(file system, clients, their number and settings)",
            ),
        )

    def _tied(self, least: LadderLevel, carriers: Mapping[LadderLevel, Efficiency]) -> str | None:
        for layer in carriers:
            if layer == least:
                continue
            between = self.efficiency(layer, least)
            if between.low is None or between.low <= 1:
                return _name(layer)
        return None

    def _named(self, level: LadderLevel, so_far: str) -> LadderLimit:
        if level in ("network", "line_rate"):
            text = so_far + self._of_line_rate()
            return LadderLimit(LimitKind.NETWORK, level, Message("network-limited", text))
        if level == "client_network":
            return LadderLimit(
                LimitKind.CLIENT_NETWORK, level, Message("client-network-limited", so_far)
            )
        return self._down(level, so_far)

    def _of_line_rate(self) -> str:
        if not {"network", "line_rate"} <= self.rungs.keys():
            return ""
        efficiency = self.efficiency("network", "line_rate")
        return "" if efficiency.value is None else f"; {_name('network')} {_share(efficiency)}"

    def _down(self, level: LadderLevel, so_far: str = "") -> LadderLimit:
        """Return what limits a storage layer."""
        lead = f"{so_far}; " if so_far else ""
        carriers = self.carriers(level)
        if level == "data_sheet" or (level == "drive" and not carriers):
            return self._of_drives(level, so_far or "only the drives were measured")
        if not carriers:
            return _cannot_tell(
                "drives-unknown",
                f"{lead}drives not measured and no data sheet known: the capability of "
                f"{_name(level)} is unknown",
            )
        beneath = carriers[0].layer
        efficiency = self.efficiency(level, beneath)
        if why := _unusable(level, efficiency):
            return _cannot_tell(why.code, f"{lead}{why}")
        share = f"{_name(level)} {_share(efficiency)}"
        if self._lost(efficiency):
            reason = Message("lost-in-layer", f"{lead}{share}: lost in that layer")
            return LadderLimit(LimitKind.LAYER, level, reason)
        if not self._within_margin(efficiency):
            return _cannot_tell("margin-in-interval", f"{lead}{self._open(level, efficiency)}")
        if level == "drive":
            return self._of_drives(level, f"{lead}{share}")
        return self._down(beneath, f"{lead}{share}")

    def _of_drives(self, level: LadderLevel, so_far: str) -> LadderLimit:
        """Return that the drives are the limit, with the notes of the lowest rung reached."""
        text = "; ".join((so_far, *self.rungs[level].notes))
        return LadderLimit(LimitKind.DRIVES, level, Message("drive-limited", text))

    def _lost(self, efficiency: Efficiency) -> bool:
        return efficiency.high is not None and efficiency.high < 1 - self.margin

    def _within_margin(self, efficiency: Efficiency) -> bool:
        return (
            efficiency.low is not None
            and efficiency.low >= 1 - self.margin
            and not efficiency.doubts
        )

    def _open(self, level: LadderLevel, efficiency: Efficiency) -> str:
        return (
            f"{_name(level)} {_share(efficiency)}: inconclusive, the interval includes a loss of "
            f"{format_percent(self.margin, 0)}"
        )


def _unusable(level: LadderLevel, efficiency: Efficiency) -> Message | None:
    """Return why an efficiency decides nothing."""
    if efficiency.value is None:
        against = f"{_name(level)} against {_name(efficiency.of)}"
        code = code_of(efficiency.reason) or "efficiency-unknown"
        return Message(code, f"{against}: {efficiency.reason}")
    share = f"{_name(level)} {_share(efficiency)}"
    if efficiency.doubts:
        return Message(efficiency.doubts[0].code, f"{share}, but {'; '.join(efficiency.doubts)}")
    if efficiency.low is None:
        return Message("one-measurement", f"{share}, no interval: only one measurement")
    return None


def _cannot_tell(code: str, reason: str) -> LadderLimit:
    return LadderLimit(LimitKind.CANNOT_TELL, None, Message(code, reason))


def _no_loss(code: str, reason: str, least: Efficiency | None = None) -> Loss:
    return Loss(None, least, Message(code, reason))


def _share(efficiency: Efficiency) -> str:
    """Return ``at 95.3 % (93.1 .. 97.6) of OST``."""
    return f"at {_percent(efficiency)} of {_name(efficiency.of)}"


def _percent(efficiency: Efficiency) -> str:
    if efficiency.value is None:
        return "?"
    text = format_percent(efficiency.value)
    if efficiency.low is None or efficiency.high is None:
        return text
    return f"{text} ({efficiency.low * 100:.1f} .. {efficiency.high * 100:.1f})"


def _name(level: LadderLevel) -> str:
    return LEVEL_NAMES[level]

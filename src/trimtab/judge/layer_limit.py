"""What limits the topmost rate, and which layer loses most.

The walk starts at the client (else at the highest measured layer) and goes down the tree through
the branch that carries least. With a margin x:

- the client gets at least 1 - x of the least branch: that branch limits it. If it is the network:
  network limited. If it is the storage, the walk goes on: a layer that delivers at least 1 - x of
  the one beneath passes the question down, until the drives: drive limited.
- a layer certainly gets less than 1 - x of what carries it: that layer is the bottleneck.
- everything else is "cannot tell": an interval that includes 1 - x, two statistically tied
  branches, a rung that is missing or was measured under other conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from trimtab.base.error import Message, code_of
from trimtab.base.units import format_percent
from trimtab.judge.efficiency_ladder import (
    LEVEL_NAMES,
    Efficiency,
    LadderLevel,
    LadderLimit,
    LimitKind,
    Loss,
    Rung,
)
from trimtab.judge.layer_efficiency import Comparer

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

    Attributes
    ----------
    margin
        The fraction that a layer may lose without being the bottleneck.
    networked
        Whether a network lies between clients and drives, and OSTs.
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

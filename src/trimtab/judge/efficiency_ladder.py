"""The efficiency ladder: the rate of each layer relative to the capability of the layer below it.

::

    application ── client ──┬── ost ── raid ── drive ── data sheet
                            ├── network ── line rate
                            └── client network

The ladder is a tree, not a chain: the network is parallel to the disks. A client gets at most the
minimum of the rates of the OSTs, the servers' network and its own network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal, get_args

from trimtab.base.encode import bounds, shape
from trimtab.base.error import Message
from trimtab.base.site_hardware import FIGURE, Figure, Hardware
from trimtab.base.toml_kind import SWITCH, TEXT
from trimtab.base.toml_schema import key

LadderLevel = Literal[
    "data_sheet",
    "drive",
    "raid",
    "ost",
    "line_rate",
    "network",
    "client_network",
    "client",
    "application",
]
"""A measured layer, or a nominal rate of the hardware below it."""
LEVELS: Final[tuple[LadderLevel, ...]] = get_args(LadderLevel)
LEVEL_NAMES: Final[Mapping[LadderLevel, str]] = {
    "data_sheet": "data sheet",
    "drive": "drive",
    "raid": "RAID",
    "ost": "OST",
    "line_rate": "line rate",
    "network": "network",
    "client_network": "clients' network",
    "client": "client",
    "application": "application",
}
RAW_LEVELS: Final = frozenset({"data_sheet", "drive"})
"""Levels at which parity counts as data; above them, only user data counts."""
NOMINAL_LEVELS: Final = frozenset({"data_sheet", "line_rate", "client_network"})
"""Levels that are nominal, not measured."""

LADDER_METRICS: Final = ("write_bandwidth", "read_bandwidth", "write_iops", "read_iops")

Unit = Literal["drives", "osts", "servers"]
UNITS: Final[tuple[Unit, ...]] = get_args(Unit)


class IntervalBasis(StrEnum):
    """The data behind an interval."""

    STATED = "stated"
    """Exact by definition, or no interval is known."""
    ROUNDING = "rounding"
    """A printed figure: all values that round to it. No confidence level."""
    REPETITIONS = "repetitions"
    """Back to back within one run: no information about other days."""
    RUNS = "runs"
    """Runs of one probe over time."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A rate and its interval.

    Attributes
    ----------
    value
        In base SI; the median of several values.
    low, high
        Ends of the interval in base SI; ``None``: unknown (one repetition).
    basis
        The data behind the interval.
    level
        Confidence level, 0 to 1; ``None`` if the interval is that of rounding.
    values
        The repetitions or runs, by time.
    """

    value: float
    low: float | None = None
    high: float | None = None
    basis: IntervalBasis = IntervalBasis.STATED
    level: float | None = None
    values: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Coverage:
    """Number of drives, OSTs and servers to which a rate applies; ``None`` is unknown."""

    drives: float | None = None
    osts: float | None = None
    servers: float | None = None

    def count(self, unit: Unit) -> float | None:
        """Return the number of one of these units."""
        return getattr(self, unit)


@dataclass(frozen=True, slots=True)
class Rung:
    """The rate of one layer.

    Attributes
    ----------
    layer
        Layer of the stack.
    metric
        One of `LADDER_METRICS`.
    rate
        In the metric's unit.
    coverage
        Number of drives, OSTs and servers to which the rate applies.
    nodes
        Number of client nodes, for rates of clients.
    tool
        The measuring tool.
    source
        Origin of the figure: a table of a paper, a run with its probe.
    printed
        As printed, with its own unit.
    at
        Time of the measurement, aware UTC.
    epoch
        Rungs of different epochs are not of the same system: it was changed in between.
    fullness
        Used / (used + available) of the file system at that time, 0 to 1.
    conditions
        Other conditions that must be equal for two rungs to be comparable: ``NPS`` to ``1``.
    runs
        Ids in the store.
    notes
        Remarks for the reader.
    """

    layer: LadderLevel
    metric: str
    rate: Estimate
    coverage: Coverage = Coverage()
    nodes: int | None = None
    tool: str | None = None
    source: str | None = None
    printed: str | None = None
    at: datetime | None = None
    epoch: str | None = None
    fullness: float | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Rate of a layer relative to the rate of another one, both for the same hardware.

    Attributes
    ----------
    of
        The layer below.
    value, low, high
        Fractions; ``None`` with a ``reason``.
    level
        Confidence level of the interval, 0 to 1.
    parity_counted
        Each byte written counts as the bytes written to the drives for it.
    per
        Unit to which both rates were converted: one drive, one OST, one server, a client node;
        ``None``: both cover the same hardware.
    reason
        Why there is no value.
    doubts
        Reasons why the two may not be comparable; an efficiency with doubts decides nothing.
    """

    of: LadderLevel
    value: float | None = None
    low: float | None = None
    high: float | None = None
    level: float | None = None
    parity_counted: bool = False
    per: str | None = None
    reason: Message | None = None
    doubts: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class LadderStep:
    """One rung as displayed in the ladder.

    Attributes
    ----------
    shown
        The rate converted to the scale of the ladder; ``None`` with ``shown_reason``.
    beneath
        Efficiency relative to each layer directly below.
    of_data_sheet
        Efficiency relative to the drives' data sheet; ``None`` if not applicable (network).
    """

    rung: Rung
    shown: Estimate | None
    shown_reason: Message | None
    beneath: tuple[Efficiency, ...]
    of_data_sheet: Efficiency | None


class LimitKind(StrEnum):
    """What limits the topmost rate."""

    DRIVES = "drive limited"
    NETWORK = "network limited"
    CLIENT_NETWORK = "limited by the clients' network"
    LAYER = "lost in a layer"
    """A layer delivers clearly less than the layers below it could carry."""
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class LadderLimit:
    """What limits the topmost rate, and why.

    Attributes
    ----------
    layer
        The bottleneck: the network, the drives, or the layer in which the rate is lost; ``None``
        if unknown.
    """

    kind: LimitKind
    layer: LadderLevel | None
    reason: Message


@dataclass(frozen=True, slots=True)
class Loss:
    """The layer with the lowest efficiency on the path from the top.

    Attributes
    ----------
    layer, efficiency
        ``None`` if no layer can be distinguished from the next one.
    reason
        Why this layer, or why none.
    """

    layer: LadderLevel | None
    efficiency: Efficiency | None
    reason: Message


@dataclass(frozen=True, slots=True)
class Track:
    """The ladder of one metric.

    Attributes
    ----------
    metric, unit
        One of `LADDER_METRICS` and its unit.
    steps
        One per measured or nominal layer.
    limit, loss
        What limits the topmost rate, and the layer with the lowest efficiency.
    """

    metric: str
    unit: str
    steps: tuple[LadderStep, ...]
    limit: LadderLimit
    loss: Loss


@dataclass(frozen=True, slots=True)
class Absent:
    """A layer without measurements, and how to measure it."""

    layer: LadderLevel
    metrics: tuple[str, ...]
    hint: str


class Match(StrEnum):
    """Whether a printed value follows from the printed inputs."""

    GIVEN = "given"
    GIVEN_IF_ROUNDED = "given if zeros are filling"
    """Only if zeros at the end of the inputs are not significant."""
    ASSUMED = "given with an assumption"
    NOT_GIVEN = "not given"
    NO_INPUTS = "no inputs"


@dataclass(frozen=True, slots=True)
class Claim:
    """A printed value that should follow from others.

    Attributes
    ----------
    formula
        Formula of named inputs; ``None`` if those are not printed.
    """

    what: str = key(TEXT, "What is printed.")
    printed: Figure = key(FIGURE, "As it is printed.", at="value")
    formula: str | None = key(TEXT, "What it should follow from.", None, at="from")
    at_least: bool = key(SWITCH, 'The text says "more than".', False)
    assumes: str | None = key(TEXT, "What the formula takes for granted.", None)
    where: str | None = key(TEXT, "Where it is printed.", None)
    note: str | None = key(TEXT, "What a reader should know of it.", None)


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """A printed value compared with its inputs.

    Attributes
    ----------
    value
        Result of the formula with the inputs as printed.
    low, high
        Range with every input anywhere within its rounding.
    loose_low, loose_high
        The same if zeros at the end of the inputs are not significant.
    """

    claim: Claim
    match: Match
    value: float | None = None
    low: float | None = None
    high: float | None = None
    loose_low: float | None = None
    loose_high: float | None = None


@dataclass(frozen=True, slots=True)
class LadderInput:
    """All inputs of a ladder.

    Attributes
    ----------
    networked
        False for a file system of one host, which has no OSTs and no network between.
    figures
        Printed values by name, for claims: those of the rungs as ``ost.write``, and further ones.
    """

    name: str
    hardware: Hardware
    rungs: tuple[Rung, ...]
    source: str | None = None
    networked: bool = True
    figures: Mapping[str, Figure] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ladder:
    """A complete ladder.

    Attributes
    ----------
    scale
        Hardware to which the shown rates apply: ``12 drives, 1 OST, 1 server``.
    margin
        Fraction that a layer may lose without being named as the bottleneck.
    absent
        Layers without measurements.
    """

    name: str
    source: str | None
    hardware: Hardware
    scale: str
    margin: float
    tracks: tuple[Track, ...]
    absent: tuple[Absent, ...] = ()
    claims: tuple[CheckedClaim, ...] = ()
    notes: tuple[str, ...] = ()


shape(
    Estimate,
    omit=["low", "high", "values"],
    derive={
        "interval": bounds("low", "high"),
        "n": (int, lambda rate: len(rate.values) or 1),
    },
)
shape(Efficiency, omit=["low", "high"], derive={"interval": bounds("low", "high")})
shape(LadderStep, inline={"rung": ()})
shape(
    CheckedClaim,
    omit=["low", "high", "loose_low", "loose_high"],
    inline={"claim": ()},
    derive={
        "interval": bounds("low", "high"),
        "interval_if_zeros_are_filling": bounds("loose_low", "loose_high"),
    },
)
shape(Track, omit=["steps", "loss"], derive={"rungs": "steps", "largest_loss": "loss"})
shape(Ladder, omit=["hardware", "claims"], derive={"printed": "claims"})

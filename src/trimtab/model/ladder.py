"""The efficiency ladder: what each layer delivers of what the one beneath it could carry.

::

    application ── client ──┬── ost ── raid ── drive ── data sheet
                            ├── network ── line rate
                            └── client network

A tree, not a chain: the network stands beside the disks. A client gets at most the least of what
the OSTs, the servers' network and its own network carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal, get_args

from trimtab.config.kinds import SWITCH, TEXT
from trimtab.config.schema import key
from trimtab.message import Message
from trimtab.model.hardware import FIGURE, Figure, Hardware

Level = Literal[
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
"""A layer, or what the hardware promises beneath the measured ones."""
LEVELS: Final[tuple[Level, ...]] = get_args(Level)
LEVEL_NAMES: Final[Mapping[Level, str]] = {
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
"""Where parity is data like any other; above, only what a user wrote counts."""
NOMINAL_LEVELS: Final = frozenset({"data_sheet", "line_rate", "client_network"})
"""What is stated and not measured."""

LADDER_METRICS: Final = ("write_bandwidth", "read_bandwidth", "write_iops", "read_iops")

Unit = Literal["drives", "osts", "servers"]
UNITS: Final[tuple[Unit, ...]] = get_args(Unit)


class Basis(StrEnum):
    """What an interval rests on."""

    STATED = "stated"
    """Exact by definition, or no interval is known."""
    ROUNDING = "rounding"
    """A printed figure: all values that would have been printed so. No confidence level."""
    REPETITIONS = "repetitions"
    """Back to back within one run: says nothing about other days."""
    RUNS = "runs"
    """Runs of one probe over time."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A rate and how surely it is known.

    Attributes
    ----------
    value
        In base SI; the median where there are several.
    low, high
        ``None``: not known (one repetition).
    level
        Of confidence; ``None`` where the interval is of rounding.
    values
        The repetitions or runs, by time.
    """

    value: float
    low: float | None = None
    high: float | None = None
    basis: Basis = Basis.STATED
    level: float | None = None
    values: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many drives, OSTs and servers a rate is of; ``None`` is not known."""

    drives: float | None = None
    osts: float | None = None
    servers: float | None = None


@dataclass(frozen=True, slots=True)
class Rung:
    """What one layer delivered.

    Attributes
    ----------
    metric
        One of `LADDER_METRICS`.
    nodes
        Client nodes, where it is of clients.
    tool
        What measured.
    source
        Where the figure stands: a table of a paper, a run with its probe.
    printed
        As it was printed, with its own unit.
    at
        Aware UTC.
    epoch
        Two rungs of different epochs are not of one system: it was changed in between.
    fullness
        Used / (used + available) of the file system then.
    conditions
        Whatever else is to be equal for two rungs to be compared: ``NPS`` to ``1``.
    runs
        Ids in the store.
    notes
        What a reader should know of it.
    """

    layer: Level
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
    """What a layer delivers of what another one carries, both for the same hardware.

    Attributes
    ----------
    of
        The layer beneath.
    value, low, high
        Fractions; ``None`` with a ``reason``.
    parity_counted
        Each byte written counts as the bytes that reach the drives for it.
    per
        What both were brought to: one drive, one OST, one server, a client node; ``None``: both
        cover the same.
    reason
        Why there is no value.
    doubts
        Why the two should not be compared without a second thought; none decides anything then.
    """

    of: Level
    value: float | None = None
    low: float | None = None
    high: float | None = None
    level: float | None = None
    parity_counted: bool = False
    per: str | None = None
    reason: Message | None = None
    doubts: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One rung as the ladder shows it.

    Attributes
    ----------
    shown
        The rate brought to the scale of the ladder; ``None`` with ``shown_reason``.
    beneath
        Against each layer that carries it.
    of_data_sheet
        Against the drives' data sheet; ``None`` where that says nothing (network).
    """

    rung: Rung
    shown: Estimate | None
    shown_reason: Message | None
    beneath: tuple[Efficiency, ...]
    of_data_sheet: Efficiency | None


class LimitKind(StrEnum):
    """What holds the topmost rate down."""

    DRIVES = "drive limited"
    NETWORK = "network limited"
    CLIENT_NETWORK = "limited by the clients' network"
    LAYER = "lost in a layer"
    """A layer delivers clearly less than what carries it could."""
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class Limit:
    """What holds the topmost rate down, and why that is said.

    Attributes
    ----------
    layer
        The bottleneck: the network, the drives, or the layer in which the rate is lost.
    """

    kind: LimitKind
    layer: Level | None
    reason: Message


@dataclass(frozen=True, slots=True)
class Loss:
    """The layer on the way from the top that delivers the least of what carries it.

    ``layer`` is ``None`` where no layer can be told from the next one; ``reason`` says why.
    """

    layer: Level | None
    efficiency: Efficiency | None
    reason: Message


@dataclass(frozen=True, slots=True)
class Track:
    """The ladder of one metric."""

    metric: str
    unit: str
    steps: tuple[Step, ...]
    limit: Limit
    loss: Loss


@dataclass(frozen=True, slots=True)
class Absent:
    """A layer that nothing was measured of, and how it would be."""

    layer: Level
    metrics: tuple[str, ...]
    hint: str


class Match(StrEnum):
    """Whether what was printed follows from what was printed beside it."""

    GIVEN = "given"
    GIVEN_IF_ROUNDED = "given if zeros are filling"
    """Only if zeros at the end of the inputs are not digits that were measured."""
    ASSUMED = "given with an assumption"
    NOT_GIVEN = "not given"
    NO_INPUTS = "no inputs"


@dataclass(frozen=True, slots=True)
class Claim:
    """A printed value that should follow from others.

    Attributes
    ----------
    formula
        Of the names of the inputs; ``None`` where those are not printed.
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
    """A printed value held against its inputs.

    Attributes
    ----------
    value
        Of the formula with the inputs as printed.
    low, high
        With every input anywhere within its rounding.
    loose_low, loose_high
        The same if zeros at the end of the inputs only fill them up.
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
    """Everything that a ladder is made of.

    Attributes
    ----------
    networked
        False for a file system of one host: there are no OSTs and no network between.
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
    """A ladder, climbed.

    Attributes
    ----------
    scale
        What the shown rates are of: ``12 drives, 1 OST, 1 server``.
    margin
        The fraction that a layer may lose without being called the bottleneck.
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

"""Build the efficiency ladder from rungs and hardware, and check printed values against it.

A ladder gets nominal rungs from the hardware, and its rungs are scaled to one unit and compared.

A printed value is checked by a formula such as ``client.write * hardware.parity / drive.write``. It
is evaluated three times: with the inputs as printed, with each anywhere within its rounding
(interval arithmetic), and the same with trailing zeros of the inputs as padding. The printed value
follows from the inputs if its own rounding overlaps that interval. Nothing is ever adjusted to make
it fit.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from trimtab.base.error import Message, UsageError
from trimtab.base.run import METRIC_UNITS
from trimtab.base.site_hardware import Figure, Hardware
from trimtab.base.units import plural
from trimtab.judge.efficiency_ladder import (
    LADDER_METRICS,
    LEVELS,
    UNITS,
    Absent,
    CheckedClaim,
    Claim,
    Coverage,
    Efficiency,
    Estimate,
    Ladder,
    LadderInput,
    LadderLevel,
    LadderStep,
    Match,
    Rung,
    Track,
    Unit,
)
from trimtab.judge.layer_efficiency import SINGULAR, Comparer, Walk, of_figure, scaled

_FORMULA_MAX: Final = 200
_TOUCHING: Final = 1e-12
_NO_FORMULA: Final = "is not a formula of names, numbers, + - * / and ( )"
_TOKENS = re.compile(
    r"(?:\s|[-+*/()]|[0-9]++(?:\.[0-9]++)?(?![\w.])|[A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+)?)++\Z"
)
"""Possessive quantifiers, so that no text causes backtracking."""
_DIMENSIONS: Final[Mapping[str, tuple[int, int]]] = {
    "B/s": (1, -1),
    "1/s": (0, -1),
    "s": (0, 1),
    "1": (0, 0),
}
"""Powers of byte and second."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """A value, its bounds, and its powers of byte and second."""

    value: float
    low: float
    high: float
    dimension: tuple[int, int]


def check_claim(claim: Claim, figures: Mapping[str, Figure]) -> CheckedClaim:
    """Return whether a printed value follows from the figures in its formula.

    Raises
    ------
    UsageError
        The formula cannot be evaluated: an unknown name, incompatible units, or a printed figure
        used twice (interval arithmetic would treat them as two independent figures).
    """
    if claim.formula is None:
        return CheckedClaim(claim, Match.NO_INPUTS)
    strict = evaluate(claim.formula, figures)
    loose = evaluate(claim.formula, figures, zeros_are_filling=True)
    if strict.dimension != _DIMENSIONS[claim.printed.unit]:
        raise _wrong("unit-mismatch", claim.formula, f"gives no value in {claim.printed.unit}")
    match = Match.NOT_GIVEN
    if _meet(claim, strict):
        match = Match.GIVEN
    elif _meet(claim, loose):
        match = Match.GIVEN_IF_ROUNDED
    if match is not Match.NOT_GIVEN and claim.assumes is not None:
        match = Match.ASSUMED
    return CheckedClaim(claim, match, strict.value, strict.low, strict.high, loose.low, loose.high)


def evaluate(
    formula: str, figures: Mapping[str, Figure], *, zeros_are_filling: bool = False
) -> Bounds:
    """Return the value of a formula of named figures, with bounds from their rounding.

    Raises
    ------
    UsageError
        As `check_claim`.
    """
    if len(formula) > _FORMULA_MAX or not _TOKENS.match(formula):
        raise _wrong(
            "formula-invalid",
            formula[:_FORMULA_MAX],
            _NO_FORMULA,
        )
    try:
        tree = ast.parse(formula.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _wrong("formula-invalid", formula, "is not a formula") from error
    _refuse_repeated(formula, tree, figures)
    return _worked_out(formula, tree, figures, zeros_are_filling)


def _refuse_repeated(formula: str, tree: ast.expr, figures: Mapping[str, Figure]) -> None:
    names = Counter(
        name for node in ast.walk(tree) if (name := _dotted(node)) is not None and name in figures
    )
    for name, times in names.items():
        if times > 1 and figures[name].step > 0:
            raise _wrong("figure-repeated", formula, f"uses {name} twice: use each figure once")


def _worked_out(
    formula: str, node: ast.expr, figures: Mapping[str, Figure], filling: bool
) -> Bounds:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        value = float(node.value)  # pyrefly: ignore[bad-argument-type]
        return Bounds(value, value, value, (0, 0))
    name = _dotted(node)
    if name is not None:
        figure = figures.get(name)
        if figure is None:
            known = ", ".join(sorted(figures))
            raise UsageError(
                f"{formula!r}: no figure is called {name!r}",
                code="figure-unknown",
                hint=f"known: {known or 'none'}",
            )
        low, high = figure.possible(zeros_are_filling=filling)
        return Bounds(figure.middle, low, high, _DIMENSIONS[figure.unit])
    if isinstance(node, ast.BinOp):
        left = _worked_out(formula, node.left, figures, filling)
        right = _worked_out(formula, node.right, figures, filling)
        return _combined(formula, node.op, left, right)
    raise _wrong("formula-invalid", formula, _NO_FORMULA)


def _combined(formula: str, operator: ast.operator, left: Bounds, right: Bounds) -> Bounds:
    match operator:
        case ast.Add() | ast.Sub() if left.dimension != right.dimension:
            raise _wrong("unit-mismatch", formula, "adds values of different units")
        case ast.Add():
            return Bounds(
                left.value + right.value,
                left.low + right.low,
                left.high + right.high,
                left.dimension,
            )
        case ast.Sub():
            return Bounds(
                left.value - right.value,
                left.low - right.high,
                left.high - right.low,
                left.dimension,
            )
        case ast.Mult():
            return _product(left, right, 1)
        case ast.Div():
            if right.low <= 0 <= right.high:
                raise _wrong("division-by-zero", formula, "divides by a value that may be 0")
            inverse = Bounds(1 / right.value, 1 / right.high, 1 / right.low, right.dimension)
            return _product(left, inverse, -1)
        case _:
            raise _wrong("formula-invalid", formula, _NO_FORMULA)


def _product(left: Bounds, right: Bounds, sign: int) -> Bounds:
    ends = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
    dimension = (
        left.dimension[0] + sign * right.dimension[0],
        left.dimension[1] + sign * right.dimension[1],
    )
    return Bounds(left.value * right.value, min(ends), max(ends), dimension)


def _meet(claim: Claim, bounds: Bounds) -> bool:
    low, high = claim.printed.possible()
    if claim.at_least:
        high = float("inf")
    slack = _TOUCHING * max(abs(bounds.low), abs(bounds.high))
    return low <= bounds.high + slack and bounds.low <= high + slack


def _dotted(node: ast.AST) -> str | None:
    """Return ``client.write`` or ``name``; ``None`` for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return None


def _wrong(code: str, formula: str, why: str) -> UsageError:
    hint = "client.write * hardware.parity / drive.write"
    return UsageError(f"{formula!r} {why}", code=code, hint=hint)


MARGIN: Final = 0.10
"""Loss of a layer that does not make it the bottleneck; the sources call 95 to 99 % 'near' and
75 to 88 % notable."""

Scale = Literal["whole", "server", "ost", "drive"]
SCALES: Final[tuple[Scale, ...]] = ("whole", "server", "ost", "drive")
_SCALE_UNIT: Final[Mapping[Scale, Unit]] = {"server": "servers", "ost": "osts", "drive": "drives"}
_PER: Final[Mapping[LadderLevel, str]] = {
    "data_sheet": "drive",
    "line_rate": "server",
    "client_network": "client node",
}
_OF_DATA_SHEET: Final = frozenset({"drive", "raid", "ost", "client", "application"})
_HINTS: Final[Mapping[LadderLevel, str]] = {
    "data_sheet": "name the drive's model or its rates, and drives: [hardware] of the site file",
    "drive": "run fio on the drives, then trimtab import FILE: docs/benchmarks/fio.md",
    "ost": "trimtab survey SITE --server, or import that of obdfilter-survey: docs/survey.md",
    "network": "trimtab import FILE of lst stat: docs/benchmarks/lnet-selftest.md",
    "client": "trimtab probe NAME --site SITE, trimtab check PATH, or trimtab import FILE of IOR",
}
_OF_ONE_HOST: Final[tuple[LadderLevel, ...]] = ("data_sheet", "drive", "client")


def build_ladder(
    measured: LadderInput, *, margin: float = MARGIN, scale: Scale | None = None
) -> Ladder:
    """Return the ladder of the measurements.

    Parameters
    ----------
    margin
        The fraction that a layer may lose without being the bottleneck.
    scale
        Unit for displayed rates; ``None``: the whole file system if its size is known, else the
        largest unit that all rungs can be scaled to.

    Raises
    ------
    ValueError
        Two rungs have the same layer and metric, or the margin is not between 0 and 1.
    """
    if not 0 < margin < 1:
        raise ValueError(f"a margin of {margin} is not between 0 and 1")
    comparer = Comparer(measured.hardware)
    shown = Shower(comparer, scale or _scale_for(measured.rungs, comparer))
    tracks = []
    for metric in LADDER_METRICS:
        rungs = [rung for rung in measured.rungs if rung.metric == metric]
        if rungs:
            tracks.append(_track(metric, rungs, shown, margin=margin, networked=measured.networked))
    return Ladder(
        name=measured.name,
        source=measured.source,
        hardware=measured.hardware,
        scale=shown.text(),
        margin=margin,
        tracks=tuple(tracks),
        absent=tuple(_absent(measured, tracks)),
        claims=tuple(check_claim(claim, measured.figures) for claim in measured.claims),
        notes=measured.notes,
    )


def nominal_rungs(metric: str, hardware: Hardware, client: Rung | None) -> list[Rung]:
    """Return the nominal rates of the hardware: data sheet of the drives, and line rates.

    Parameters
    ----------
    client
        The client's rung, whose nodes define the client network.
    """
    rungs = [rung for rung in (_data_sheet(metric, hardware),) if rung is not None]
    if not metric.endswith("_bandwidth"):
        return rungs
    if hardware.network is not None:
        rate = of_figure(hardware.network, exact=True)
        rungs.append(_nominal("line_rate", metric, rate, hardware.network, Coverage(servers=1)))
    if hardware.client_network is not None and client is not None and client.nodes is not None:
        rate = scaled(of_figure(hardware.client_network, exact=True), client.nodes)
        of_clients = client.coverage
        rung = _nominal("client_network", metric, rate, hardware.client_network, of_clients)
        rungs.append(replace(rung, nodes=client.nodes))
    return rungs


class Shower:
    """Converts rates to the scale of the ladder."""

    def __init__(self, comparer: Comparer, scale: Scale) -> None:
        self.comparer = comparer
        self._scale: Scale = scale

    def text(self) -> str:
        """Return the unit that the displayed rates refer to."""
        if self._scale != "whole":
            return f"one {SINGULAR[_SCALE_UNIT[self._scale]]}"
        counts = ((self.comparer.built.count(unit), SINGULAR[unit]) for unit in UNITS)
        parts = [plural(n, noun, ",.6g") for n, noun in counts if n is not None]
        return f"the whole: {', '.join(parts)}" if parts else "as measured"

    def shown(self, rung: Rung) -> tuple[Estimate | None, Message | None]:
        """Return a rate converted to the scale, or why it cannot be."""
        if self._scale != "whole":
            count = self.comparer.counts(rung, _SCALE_UNIT[self._scale])
            if not count:
                unit = _SCALE_UNIT[self._scale]
                return None, Message("counts-unknown", f"number of {unit} unknown")
            return scaled(rung.rate, 1 / count), None
        for unit in UNITS:
            total, count = self.comparer.built.count(unit), self.comparer.counts(rung, unit)
            if total and count:
                return scaled(rung.rate, total / count), None
        return None, Message("share-unknown", "share of the whole unknown")


def _track(
    metric: str, rungs: Sequence[Rung], shown: Shower, *, margin: float, networked: bool
) -> Track:
    comparer = shown.comparer
    client = next((rung for rung in rungs if rung.layer == "client"), None)
    by_level: dict[LadderLevel, Rung] = {}
    for rung in (*rungs, *nominal_rungs(metric, comparer.hardware, client)):
        if rung.layer in by_level:
            raise ValueError(f"two rungs of {rung.layer} for {metric}")
        by_level[rung.layer] = rung
    by_level = {level: by_level[level] for level in LEVELS if level in by_level}
    walk = Walk(by_level, comparer, margin, networked)
    steps = []
    for level, rung in by_level.items():
        rate, reason = shown.shown(rung)
        beneath = tuple(walk.efficiency(level, carrier.layer) for carrier in walk.carriers(level))
        steps.append(LadderStep(rung, rate, reason, beneath, _of_data_sheet(walk, level)))
    limit = walk.limit()
    return Track(metric, METRIC_UNITS[metric], tuple(steps), limit, walk.loss())


def _of_data_sheet(walk: Walk, level: LadderLevel) -> Efficiency | None:
    if level not in _OF_DATA_SHEET or "data_sheet" not in walk.rungs:
        return None
    return walk.efficiency(level, "data_sheet")


def _data_sheet(metric: str, hardware: Hardware) -> Rung | None:
    figure = {
        "write_bandwidth": hardware.drive_write,
        "read_bandwidth": hardware.drive_read,
        "write_iops": hardware.drive_write_iops,
        "read_iops": hardware.drive_read_iops,
    }[metric]
    if figure is None:
        return None
    rung = _nominal("data_sheet", metric, of_figure(figure), figure, Coverage(drives=1))
    rung = replace(rung, tool=hardware.drive)
    link = hardware.drive_link
    if link is None or not metric.endswith("_bandwidth") or link.value >= figure.value:
        return rung
    note = f"its link carries {link.text}, its data sheet says {figure.text}"
    printed = f"{link.text} a drive"
    return replace(rung, rate=of_figure(link), printed=printed, notes=(note,))


def _nominal(
    level: LadderLevel,
    metric: str,
    rate: Estimate,
    figure: Figure,
    coverage: Coverage,
) -> Rung:
    return Rung(level, metric, rate, coverage, printed=f"{figure.text} a {_PER[level]}")


def _scale_for(rungs: Sequence[Rung], comparer: Comparer) -> Scale:
    fitting = {
        scale: sum(Shower(comparer, scale).shown(rung)[0] is not None for rung in rungs)
        for scale in SCALES
    }
    most = max(fitting.values(), default=0)
    return next(scale for scale in SCALES if fitting[scale] == most)


def _absent(measured: LadderInput, tracks: Sequence[Track]) -> list[Absent]:
    """Return the layers without a known bandwidth, with how to measure them."""
    bandwidths = [track for track in tracks if track.metric.endswith("_bandwidth")]
    levels: list[LadderLevel] = [
        level for level in _HINTS if measured.networked or level in _OF_ONE_HOST
    ]
    absent = []
    for level in levels:
        without = [
            track.metric
            for track in bandwidths
            if all(step.rung.layer != level for step in track.steps)
        ]
        if without or not bandwidths:
            metrics = tuple(without or LADDER_METRICS[:2])
            absent.append(Absent(level, metrics, _HINTS[level]))
    return absent

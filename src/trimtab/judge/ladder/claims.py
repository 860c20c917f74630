"""Check printed values against the printed values they should follow from.

A formula such as ``client.write * hardware.parity / drive.write`` is evaluated three times: with
the inputs as printed, with each anywhere within its rounding (interval arithmetic), and the same
with trailing zeros of the inputs as padding. The printed value follows from the inputs if its own
rounding overlaps that interval. Nothing is ever adjusted to make it fit.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trimtab.errors import UsageError
from trimtab.model.hardware import Figure
from trimtab.model.ladder import CheckedClaim, Claim, Match

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

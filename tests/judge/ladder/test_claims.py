"""Printed values: whether their inputs give them within rounding, and nothing else."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.base.error import UsageError
from trimtab.base.site_hardware import Figure, parse_figure
from trimtab.judge.efficiency_ladder import Claim, Match
from trimtab.judge.ladder_analysis import check_claim, evaluate

FIGURES = {
    "drive.write": parse_figure("38 GB/s"),
    "drive.read_iops": parse_figure("9600 kIOPS"),
    "client.write": parse_figure("27 GB/s"),
    "client.read_iops": parse_figure("1400 kIOPS"),
    "hardware.parity": Figure(1.25, "1"),
    "hardware.drives": Figure(12, "1"),
    "walltime": parse_figure("2900 s"),
}


def match(value: str, formula: str | None, **more: object) -> Match:
    claim = Claim("x", parse_figure(value), formula, **more)  # pyrefly: ignore[bad-argument-type]
    return check_claim(claim, FIGURES).match


def test_within_the_rounding_of_the_inputs() -> None:
    found = check_claim(
        Claim("x", parse_figure("88.4 %"), "client.write * hardware.parity / drive.write"), FIGURES
    )
    assert found.match is Match.GIVEN
    assert found.value == pytest.approx(27 * 1.25 / 38)
    assert (found.low, found.high) == (
        pytest.approx(26.5 * 1.25 / 38.5),
        pytest.approx(27.5 * 1.25 / 37.5),
    )


@pytest.mark.parametrize(
    ("value", "formula", "expected"),
    [
        ("71 %", "client.write / drive.write", Match.GIVEN),
        ("88.4 %", "client.write / drive.write", Match.NOT_GIVEN),
        ("14.6 %", "client.read_iops / drive.read_iops", Match.GIVEN),
        ("15.1 %", "client.read_iops / drive.read_iops", Match.GIVEN_IF_ROUNDED),
        ("16.1 %", "client.read_iops / drive.read_iops", Match.NOT_GIVEN),
        ("3.2 GB/s", "drive.write / hardware.drives", Match.GIVEN),
        ("3.3 GB/s", "drive.write / hardware.drives", Match.NOT_GIVEN),
        ("29 %", "1 - client.write / drive.write", Match.GIVEN),
        ("40 %", None, Match.NO_INPUTS),
    ],
)
def test_what_is_given_and_what_is_not(value: str, formula: str | None, expected: Match) -> None:
    assert match(value, formula) is expected


def test_more_than_needs_no_more_than_that() -> None:
    assert match("30 GB/s", "drive.write", at_least=True) is Match.GIVEN
    assert match("38.4 GB/s", "drive.write", at_least=True) is Match.GIVEN  # may have been 38.5
    assert match("39 GB/s", "drive.write", at_least=True) is Match.GIVEN  # 38.5 prints as both
    assert match("40 GB/s", "drive.write", at_least=True) is Match.NOT_GIVEN


def test_an_assumption_never_counts_as_given() -> None:
    formula = "client.write * hardware.parity / drive.write"
    assert match("88.4 %", formula, assumes="parity") is Match.ASSUMED
    assert match("50 %", formula, assumes="parity") is Match.NOT_GIVEN


@pytest.mark.parametrize(
    ("formula", "code"),
    [
        ("", "formula-invalid"),
        ("client.write *", "formula-invalid"),
        ("client.write ** 2", "formula-invalid"),
        ("__import__('os')", "formula-invalid"),
        ("client.write if 1 else 2", "formula-invalid"),
        ("1if 2else 3", "formula-invalid"),
        ("client.write.x", "formula-invalid"),
        ("[client.write]", "formula-invalid"),
        ("(" * 150 + "1" + ")" * 40, "formula-invalid"),
        ("1 +" * 100 + "1", "formula-invalid"),
        ("nothing", "figure-unknown"),
        ("client.nothing", "figure-unknown"),
        ("client.write + walltime", "unit-mismatch"),
        ("client.write * walltime", "unit-mismatch"),
        ("client.write / (1 - 1)", "division-by-zero"),
        ("client.write / client.write", "figure-repeated"),
    ],
)
def test_a_formula_that_cannot_be_worked_out(formula: str, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        match("50 %", formula)
    assert caught.value.code == code


def test_an_exact_figure_may_stand_twice() -> None:
    assert match("100 %", "hardware.parity / hardware.parity") is Match.GIVEN


@given(st.text(alphabet="clientwrdv.+-*/() 0123456789_", max_size=60) | st.text(max_size=250))
def test_any_text_is_worked_out_or_refused(formula: str) -> None:
    try:
        found = evaluate(formula, FIGURES)
    except UsageError:
        return
    assert found.low <= found.value * (1 + 1e-12) or found.low <= found.value + 1e-9
    assert found.low <= found.high


@given(
    st.lists(st.integers(1, 99), min_size=4, max_size=4),
    st.sampled_from(["a * b / c - d / 100", "a / (b + c) * d", "(a + b) / (c + d)", "1 - a / b"]),
    st.integers(0, 2**32),
)
def test_every_value_within_the_rounding_lies_within_the_bounds(
    numbers: list[int], formula: str, seed: int
) -> None:
    """A slow and obvious twin: inputs drawn from their rounding never leave the interval."""
    figures = {name: parse_figure(str(n)) for name, n in zip("abcd", numbers, strict=True)}
    bounds = evaluate(formula, figures)
    draw = random.Random(seed)
    for _ in range(20):
        inputs = {name: draw.uniform(*figure.possible()) for name, figure in figures.items()}
        value = eval(formula, {}, inputs)
        assert bounds.low - 1e-9 <= value <= bounds.high + 1e-9


@given(st.integers(100, 9999), st.integers(100, 9999))
def test_what_follows_from_the_true_values_is_always_given(above: int, beneath: int) -> None:
    """Rounding the truth and then the inputs never turns a true claim into one not given."""
    true_above, true_beneath = above / 100 + 0.0034, beneath / 100 + 0.0021
    figures = {
        "a": parse_figure(f"{true_above:.1f} GB/s"),
        "b": parse_figure(f"{true_beneath:.1f} GB/s"),
    }
    claim = Claim("x", parse_figure(f"{true_above / true_beneath * 100:.1f} %"), "a / b")
    assert check_claim(claim, figures).match is Match.GIVEN

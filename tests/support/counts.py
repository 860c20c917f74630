"""How often a randomised test repeats: few times in its own tier, many in the tier ``soak``."""

from __future__ import annotations

import math
import os
import random
import subprocess
from collections.abc import Collection, Iterable
from functools import cache
from typing import Any

import pytest
from _pytest.mark import ParameterSet

SOAK_TIMEOUT_S = 7200
_SOAK = (pytest.mark.soak, pytest.mark.timeout(SOAK_TIMEOUT_S))


def repetitions(
    gate: int, soak: int, *marks: pytest.MarkDecorator
) -> tuple[ParameterSet, ParameterSet]:
    """Return the parameters of a test that repeats ``gate`` times, and ``soak`` times in ``soak``.

    Parameters
    ----------
    marks
        Of the few repetitions: another tier than that of the file.
    """
    return (
        pytest.param(gate, id="gate", marks=marks),
        pytest.param(soak, id="soak", marks=_SOAK),
    )


def all_in_soak(values: Iterable[Any], *, gate: Collection[Any]) -> list[ParameterSet]:
    """Return all values as parameters of a test; those that ``gate`` lacks are of ``soak``.

    Where ``-m`` leaves that tier out they are not even collected: a thousand of them take a second
    of every process.
    """
    wanted = gate if _Collected.without_soak else values
    return [pytest.param(value, marks=() if value in gate else _SOAK) for value in wanted]


def collect_for(marks: str) -> None:
    """Take note of what ``-m`` chooses, before any test is collected."""
    _Collected.without_soak = marks in {"not soak", "unit"}


class _Collected:
    without_soak = False


def series_counts(gate: int, soak: int) -> Any:
    """Return a fixture ``trials``: how many simulated series a test of the calibration judges."""

    @pytest.fixture(params=repetitions(gate, soak, pytest.mark.calibration))
    def trials(request: pytest.FixtureRequest) -> int:
        return request.param

    return trials


def at_most(rate: float, count: int) -> float:
    """Return a rate plus three standard errors of its share in ``count`` trials."""
    return rate + 3 * math.sqrt(rate * (1 - rate) / count)


def seeded(name: str) -> random.Random:
    """Return a generator seeded by the commit and the test: new moments with every change.

    Set ``TRIMTAB_SEED`` to repeat a failure; its seed is the commit's full hash.
    """
    seed = os.environ.get("TRIMTAB_SEED") or _commit()
    return random.Random(f"{seed}:{name}")


@cache
def _commit() -> str:
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return commit.stdout.strip()

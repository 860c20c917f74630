"""What emerges in a simulation is told by target and stretch, and the same as a slow look says."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.small_twin import START, small_scenario

from trimtab.twin.scenario import Gating, Queue
from trimtab.twin.truth import FEW_OPEN, Emerging, TrueCause, _Stretches

HOUR = timedelta(hours=1)
CALM = {
    "fullness": 0.5,
    "amplification": 1.0,
    "useless_per_request": 0.0,
    "walks_per_request": 0.0,
    "open": 1.0,
}


def watched(hours: list[dict[str, list[float]]], osts: int = 4, **changes) -> list[TrueCause]:
    """Return what emerges of OSTs with a column each; what is not given is calm."""
    scenario = small_scenario(
        gating=replace(Gating(), limit=0.75, reopen=0.74),
        queue=Queue(writeback_throttling=False),
        **changes,
    )
    emerging, causes = Emerging(), []
    for number, given_values in enumerate(hours):
        values = {
            name: np.array(given_values.get(name, [calm] * osts), np.float32)
            for name, calm in CALM.items()
        }
        at = START + number * HOUR
        causes += emerging.step(at, scenario, np.arange(osts), values)
    return [*causes, *emerging.left()]


def test_nothing_emerges_of_what_is_calm() -> None:
    assert watched([{}] * 50) == []


def test_an_ost_slow_from_collection_is_named_with_its_stretch() -> None:
    slow = {"amplification": [1.0, 1.0, 2.0, 1.0]}
    (cause,) = watched([{}, slow, slow, {}])
    assert (cause.cause, cause.targets, cause.emerged) == ("garbage-collection", ("OST0002",), True)
    assert (cause.at, cause.until) == (START + HOUR, START + 3 * HOUR)
    assert cause.detail == "50% slower than fresh drives"


def test_an_ost_that_fills_is_told_from_all_that_fill() -> None:
    together = [{"fullness": [0.4 + 0.01 * hour] * 4} for hour in range(30)]
    assert watched(together) == []
    one = [{"fullness": [0.4, 0.4, 0.4, 0.4 + 0.01 * min(hour, 5)]} for hour in range(48)]
    (cause,) = watched(one)
    assert (cause.cause, cause.targets) == ("target-filling", ("OST0003",))
    assert cause.at == START + 3 * HOUR
    assert cause.until is not None
    # A day after it stopped, it no longer fills.
    assert START + 24 * HOUR < cause.until <= START + 30 * HOUR


def test_useless_loops_limits_and_few_open_osts_are_told() -> None:
    looping = {"walks_per_request": [0.0, 3e4, 0.0, 0.0]}
    assert [cause.cause for cause in watched([looping] * 3, osts=4)] == ["allocator-loops"]
    full = {"fullness": [0.76, 0.5, 0.5, 0.5]}
    lasting = {"fullness": [0.745, 0.5, 0.5, 0.5]}
    (over,) = watched([full, lasting, {}])
    assert (over.cause, over.until) == ("targets-over-limit", START + 2 * HOUR)
    closed = {"open": [0.0, 0.0, 0.0, 1.0]}
    (few,) = watched([{}, closed, closed])
    assert (few.cause, few.targets, few.until) == ("few-targets-open", (), None)
    assert FEW_OPEN[0] == 0.5


def test_osts_of_one_column_are_all_named() -> None:
    emerging = Emerging()
    values = {name: np.full(1, calm, np.float32) for name, calm in CALM.items()}
    values["amplification"][:] = 3.0
    scenario = small_scenario(queue=Queue(writeback_throttling=False))
    assert list(emerging.step(START, scenario, np.zeros(3, np.int64), values)) == []
    assert [cause.targets for cause in emerging.left()] == [(f"OST000{ost}",) for ost in range(3)]


@given(st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.3]), min_size=1, max_size=40))
def test_stretches_are_what_a_slow_look_says(values: list[float]) -> None:
    stretches = _Stretches("garbage-collection", "{:.1f}")
    told = []
    for number, value in enumerate([*values, 0.0]):
        array = np.array([value])
        told += stretches.step(START + number * HOUR, array > 0.25, array > 0.15, array)
    assert list(stretches.left()) == []
    slow, since = [], None
    for number, value in enumerate([*values, 0.0]):
        if since is None and value > 0.25:
            since = number
        elif since is not None and value <= 0.15:
            slow.append((since, number, max(values[since:number])))
            since = None
    assert [
        ((cause.at - START) / HOUR, ((cause.until or START) - START) / HOUR, cause.detail)
        for cause in told
    ] == [(first, last, f"{worst:.1f}") for first, last, worst in slow]


def test_a_cause_has_to_be_one_that_is_looked_for() -> None:
    with pytest.raises(ValueError, match="is not the id"):
        TrueCause("slow", START, emerged=True)

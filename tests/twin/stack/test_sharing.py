from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.twin.stack import slow_sharing

from trimtab.twin.simulation.job import Resource, fair_share, max_min

RATES = st.floats(0.1, 100.0)


@st.composite
def shared(draw: st.DrawFn) -> tuple[Resource, Resource, np.ndarray, list, list[float]]:
    nodes, osts, flows = (draw(st.integers(1, 5)) for _ in range(3))
    flows *= 3
    node = draw(st.lists(st.integers(0, nodes - 1), min_size=flows, max_size=flows))
    ost = draw(st.lists(st.integers(0, osts - 1), min_size=flows, max_size=flows))
    node_rates = draw(st.lists(RATES, min_size=nodes, max_size=nodes))
    ost_rates = draw(st.lists(RATES, min_size=osts, max_size=osts))
    demand = draw(st.lists(st.floats(0.01, 50) | st.just(0.0), min_size=osts, max_size=osts))
    weight = draw(st.lists(st.floats(0.5, 9), min_size=osts, max_size=osts))
    limits = draw(st.lists(RATES, min_size=flows, max_size=flows))
    slow_nodes = [slow_sharing.Shared(rate) for rate in node_rates]
    slow_osts = [
        slow_sharing.Shared(*values) for values in zip(ost_rates, demand, weight, strict=True)
    ]
    paths = [[slow_nodes[n], slow_osts[o]] for n, o in zip(node, ost, strict=True)]
    return (
        Resource(np.array(node), np.array(node_rates)),
        Resource(np.array(ost), np.array(ost_rates), np.array(demand), np.array(weight)),
        np.array(limits),
        paths,
        limits,
    )


@pytest.mark.calibration
@given(shared())
def test_filling_all_at_once_is_filling_step_by_step(case) -> None:
    nodes, osts, limits, paths, slow_limits = case
    assert max_min([nodes, osts], limits) == pytest.approx(
        slow_sharing.filled(paths, slow_limits), rel=1e-6
    )


@pytest.mark.calibration
@given(shared())
def test_nobody_can_get_more_without_taking_from_who_has_less(case) -> None:
    nodes, osts, limits, _, _ = case
    alone = Resource(osts.passed, osts.capacity)
    rates = max_min([nodes, alone], limits)
    for flow, rate in enumerate(rates):
        if rate >= limits[flow] * (1 - 1e-9):
            continue
        tight = False
        for kind in (nodes, alone):
            here = kind.passed == kind.passed[flow]
            full = rates[here].sum() >= kind.capacity[kind.passed[flow]] * (1 - 1e-6)
            tight |= bool(full and rate >= rates[here].max() * (1 - 1e-6))
        assert tight


def test_two_flows_on_a_narrow_link_leave_the_wide_one_to_the_third() -> None:
    wide = Resource(np.array([0, 0, 0]), np.array([10.0]))
    narrow = Resource(np.array([0, 0, 1]), np.array([2.0, 100.0]))
    assert max_min([wide, narrow], np.full(3, np.inf)).tolist() == [1.0, 1.0, 8.0]


def test_what_carries_nothing_gives_nothing_and_ends() -> None:
    dead = Resource(np.array([0, 1]), np.array([0.0, 4.0]))
    assert max_min([dead], np.full(2, np.inf)).tolist() == [0.0, 4.0]


def test_flows_that_nothing_limits_are_without_limit() -> None:
    assert max_min([Resource(np.array([0]), np.array([np.inf]))], np.array([np.inf])) == [np.inf]


@pytest.mark.parametrize(
    ("demand", "weight", "share"),
    [(0.0, 1.0, 5.0), (2.0, 1.0, 4.0), (20.0, 2.0, 2.5), (20.0, 8.0, 1.0)],
)
def test_others_take_what_they_ask_or_their_shares(
    demand: float, weight: float, share: float
) -> None:
    got = fair_share(np.array([10.0]), np.array([2.0]), np.array([demand]), np.array([weight]))
    assert got.tolist() == [share]

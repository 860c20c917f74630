from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.twin.simulation.slow_rules import choose_weighted

from trimtab.twin.scenario import Placement
from trimtab.twin.simulation.user_load import is_round_robin, place, striped_shares, weighted_shares

ROOM = np.array([100.0, 90.0, 80.0, 20.0, 60.0, 60.0, 10.0, 45.0])


@pytest.mark.calibration
@pytest.mark.parametrize("prio_free", [1.0, 0.91, 0.5])
@pytest.mark.parametrize("servers", [8, 4])
def test_shares_are_what_lustres_rule_settles_at(prio_free, servers):
    server = np.arange(8) * servers // 8
    drawn = choose_weighted(ROOM.tolist(), server.tolist(), prio_free, 40_000, seed=3)
    shares = weighted_shares(ROOM, np.ones(8), server, prio_free)
    assert shares.sum() == pytest.approx(1.0)
    # Sampling alone makes 0.0017; the mean field leaves out that who is penalised waits.
    np.testing.assert_allclose(shares, drawn, atol=0.012 if prio_free < 0.9 else 0.006)


def test_with_all_weight_on_free_space_twice_the_room_is_twice_as_likely():
    shares = weighted_shares(ROOM, np.ones(8), np.arange(8), 1.0)
    np.testing.assert_allclose(shares, ROOM / ROOM.sum())


def test_lower_priority_of_free_space_spreads_more_evenly():
    spread = [
        weighted_shares(ROOM, np.ones(8), np.arange(8), prio).std() for prio in (1.0, 0.9, 0.5)
    ]
    assert spread[0] >= spread[1] >= spread[2]


def test_a_class_is_as_good_as_its_members():
    room = np.array([100.0, 40.0])
    classed = weighted_shares(room, np.array([3.0, 2.0]), np.array([0, 3]), 0.8)
    single = weighted_shares(np.repeat(room, [3, 2]), np.ones(5), np.arange(5), 0.8)
    np.testing.assert_allclose(np.repeat(classed, [3, 2]), single, rtol=1e-9)


def test_round_robin_ends_where_the_emptiest_has_a_threshold_more_room():
    weighted = Placement(kind="weighted", qos_threshold_rr=0.17)
    everyone = np.ones(3, bool)
    # 100 * (1 - 0.17) = 83: strictly less than the least room.
    assert is_round_robin(np.array([100.0, 90.0, 83.1]), everyone, weighted)
    assert not is_round_robin(np.array([100.0, 90.0, 83.0]), everyone, weighted)
    assert is_round_robin(np.array([100.0, 90.0, 5.0]), np.array([True, True, False]), weighted)
    assert is_round_robin(np.array([100.0, 1.0, 1.0]), everyone, Placement())


def test_a_stripe_on_each_ost_is_an_even_share_and_few_stripes_cap_the_favourite():
    shares = np.array([0.7, 0.2, 0.1, 0.0])
    weight = np.ones(4)
    np.testing.assert_allclose(striped_shares(shares, weight, 1), shares)
    np.testing.assert_allclose(striped_shares(shares, weight, -1), [1 / 3, 1 / 3, 1 / 3, 0.0])
    # Two stripes: no more than half of all; the rest in proportion.
    np.testing.assert_allclose(striped_shares(shares, weight, 2), [0.5, 1 / 3, 1 / 6, 0.0])


def test_what_does_not_fit_goes_to_the_others_and_the_rest_is_refused():
    weight = np.array([2.0, 1.0])
    shares = np.array([0.25, 0.5])
    placed = place(40.0, shares, weight, np.array([100.0, 100.0]))
    np.testing.assert_allclose(placed.per_ost, [10.0, 20.0])
    assert placed.refused == 0.0
    placed = place(40.0, shares, weight, np.array([100.0, 5.0]))
    np.testing.assert_allclose(placed.per_ost, [17.5, 5.0])
    assert placed.refused == pytest.approx(0.0)
    placed = place(40.0, shares, weight, np.array([4.0, 5.0]))
    np.testing.assert_allclose(placed.per_ost, [4.0, 5.0])
    assert placed.refused == pytest.approx(27.0)
    assert place(40.0, np.zeros(2), weight, np.array([100.0, 100.0])).refused == 40.0


@given(
    st.floats(0.0, 1e15),
    st.lists(
        st.tuples(st.floats(0.0, 1.0), st.integers(1, 20), st.floats(0.0, 1e14)),
        min_size=1,
        max_size=12,
    ),
)
def test_bytes_are_placed_or_refused_and_no_ost_gets_more_than_it_has_room_for(wanted, osts):
    shares, weight, room = (np.array(one, float) for one in zip(*osts, strict=True))
    placed = place(wanted, shares, weight, room)
    assert (placed.per_ost >= 0.0).all()
    assert (placed.per_ost <= room * (1 + 1e-12)).all()
    assert (placed.per_ost[shares == 0.0] == 0.0).all()
    whole = float(placed.per_ost @ weight) + placed.refused
    assert whole == pytest.approx(wanted, rel=1e-9, abs=1e-3)

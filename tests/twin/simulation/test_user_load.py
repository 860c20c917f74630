"""What users ask for and where it is placed, and bytes of OSTs in ranges."""

import math
from dataclasses import replace
from datetime import UTC, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.twin.simulation.slow_rules import choose_weighted
from tests.twin.simulation.small import START, small

from trimtab.base.error import UsageError
from trimtab.twin.scenario import Placement
from trimtab.twin.simulation.ost_array import folded, stream, unfolded
from trimtab.twin.simulation.user_load import (
    UserDemand,
    competing,
    is_round_robin,
    mean_rhythm,
    place,
    rhythm,
    striped_shares,
    unevenness,
    weighted_shares,
)

USERS = small().users
HOURS = [START + timedelta(hours=hour) for hour in range(7 * 24)]


def test_the_rhythm_is_one_over_a_week_and_weekends_are_quieter():
    values = np.array([rhythm(at, UTC, USERS) for at in HOURS])
    assert values.mean() == pytest.approx(1.0)
    days = values.reshape(7, 24)
    # The first of July 2023 is a Saturday.
    np.testing.assert_allclose(days[:2].mean() / days[2:].mean(), 1.0 - USERS.rhythm)
    assert days.argmax(axis=1).tolist() == [15] * 7


def test_demand_has_the_mean_and_the_spread_that_users_have():
    users = replace(USERS, rhythm=0.0, burstiness=0.5)
    means, spreads = [], []
    for seed in range(20):
        demand = UserDemand(seed)
        values = [demand.step(epoch, START, UTC, users, 3600.0) for epoch in range(4000)]
        means.append(np.mean(values))
        spreads.append(np.std(values) / np.mean(values))
    # An hour is like the last: 4,000 are worth about 330, so a mean's error is 0.5 / 18.
    assert np.mean(means) == pytest.approx(1.0, abs=4 * 0.5 / math.sqrt(20 * 330))
    assert np.mean(spreads) == pytest.approx(0.5, abs=0.04)


def test_no_burstiness_is_the_rhythm_alone():
    users = replace(USERS, burstiness=0.0)
    demand = UserDemand(3)
    for epoch, at in enumerate(HOURS):
        assert demand.step(epoch, at, UTC, users, 3600.0) == pytest.approx(rhythm(at, UTC, users))


def test_what_competes_has_the_mean_rate_over_many_moments():
    rate = np.array([0.0, 1e8, 2e9])
    loads = np.array([competing(rate, USERS, stream(1, "moment", at)) for at in range(20_000)])
    assert (loads[:, 0] == 0.0).all()
    # Poisson many at log-normal rates: the variance is rate x mean x exp(sigma^2).
    for column in (1, 2):
        error = math.sqrt(rate[column] * 4e9 * math.exp(0.64) / 20_000)
        assert loads[:, column].mean() == pytest.approx(rate[column], abs=4 * error)
    assert (loads[:, 1] == 0.0).mean() == pytest.approx(math.exp(-0.025), abs=0.005)


def test_osts_differ_by_what_the_sizes_of_files_make():
    users = replace(USERS, size_median_bytes=1e6, size_sigma=1.5)
    mean = 1e6 * math.exp(1.5**2 / 2)
    written, weight = np.full(2, 1000 * mean), np.array([1.0, 4.0])
    draws = np.array(
        [unevenness(written, weight, users, stream(2, "epoch", at)) for at in range(5000)]
    )
    expected = np.sqrt(math.exp(1.5**2) / 1000.0 / weight)
    np.testing.assert_allclose(draws.mean(axis=0), 1.0, atol=0.006)
    np.testing.assert_allclose(draws.std(axis=0), expected, rtol=0.06)
    assert unevenness(np.zeros(2), weight, users, stream(2, "x")).tolist() == [0.0, 0.0]


def test_streams_are_their_names():
    assert stream(1, "a", 2).random() == stream(1, "a", 2).random()
    drawn = {stream(seed, *names).random() for seed in (1, 2) for names in (("a", 1), ("a1",))}
    assert len(drawn) == 4


def test_a_week_writes_as_much_in_epochs_of_any_length():
    for seconds in (600.0, 3600.0, 5400.0, 4 * 3600.0, 12 * 3600.0, 86400.0):
        starts = [START + timedelta(seconds=at * seconds) for at in range(int(7 * 86400 / seconds))]
        values = [mean_rhythm(at, seconds, UTC, USERS) for at in starts]
        assert np.mean(values) == pytest.approx(1.0, abs=1e-9), seconds
    assert [mean_rhythm(at, 3600.0, UTC, USERS) for at in HOURS] == [
        rhythm(at, UTC, USERS) for at in HOURS
    ]


# Placement


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


SHARE_WEIGHT_ROOM = st.tuples(st.floats(0.0, 1.0), st.integers(1, 20), st.floats(0.0, 1e14))


@given(st.floats(0.0, 1e15), st.lists(SHARE_WEIGHT_ROOM, min_size=1, max_size=12))
def test_bytes_are_placed_or_refused_and_no_ost_gets_more_than_it_has_room_for(wanted, osts):
    shares, weight, room = (np.array(one, float) for one in zip(*osts, strict=True))
    placed = place(wanted, shares, weight, room)
    assert (placed.per_ost >= 0.0).all()
    assert (placed.per_ost <= room * (1 + 1e-12)).all()
    assert (placed.per_ost[shares == 0.0] == 0.0).all()
    whole = float(placed.per_ost @ weight) + placed.refused
    assert whole == pytest.approx(wanted, rel=1e-9, abs=1e-3)


# Bytes of each OST folded to ranges, and back


def test_folding_is_undone_by_unfolding() -> None:
    rng = np.random.default_rng(4)
    for _ in range(200):
        values = rng.choice([0.0, 1.0, 7.5, 2.0**31], size=int(rng.integers(1, 40)))
        assert np.array_equal(unfolded(folded(values), len(values)), values)
    for wrong in ("4", "2-1", "-1", "x", "", "0-4"):
        with pytest.raises(UsageError):
            unfolded([(1.0, wrong)], 4)

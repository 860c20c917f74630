from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, timedelta

import numpy as np
import pytest
from tests.twin.simulation.small import START, small

from trimtab.twin.simulation.ost_array import stream
from trimtab.twin.simulation.user_load import UserDemand, competing, mean_rhythm, rhythm, unevenness

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

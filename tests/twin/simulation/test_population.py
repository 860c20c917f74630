import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.twin.simulation.slow_rules import SlowPopulation

from trimtab.twin.scenario import Lifetime
from trimtab.twin.simulation.population import COHORT_S, COHORTS, Population, ages_at_start

pytestmark = pytest.mark.calibration

DAY = 86400.0
LIVES = (Lifetime(0.6, DAY), Lifetime(0.3, 10 * DAY), Lifetime(0.1, None))
WEIGHT = np.array([3.0, 1.0])

AMOUNT = st.floats(0.0, 100.0)
STEP = st.one_of(
    st.tuples(st.just("write"), st.lists(AMOUNT, min_size=6, max_size=6)),
    st.tuples(st.just("delete"), st.floats(0.0, 3 * DAY)),
    st.tuples(st.just("day"), st.tuples(st.integers(1, 5), st.floats(0.0, 0.5))),
    st.tuples(st.just("purge"), st.tuples(st.floats(0.0, 300.0), st.integers(0, 8))),
)


@given(st.lists(STEP, max_size=25))
@example([("write", [0.0] * 6), ("delete", 5e-324)])
@example([*[("write", [0.0] * 6)] * 7, ("write", [0.0] * 5 + [2.2e-313]), ("purge", (1.0, 0))])
def test_it_keeps_what_a_dictionary_of_single_bins_keeps_and_loses_no_byte(steps):
    fast, slow = Population(WEIGHT, LIVES), SlowPopulation(WEIGHT, LIVES)
    for kind, value in steps:
        if kind == "write":
            written = np.array(value).reshape(3, 2)
            fast.write(written)
            slow.write(written)
        elif kind == "delete":
            fast.delete(value)
            slow.delete(value)
        elif kind == "day":
            day = fast.today + value[0]
            fast.new_day(day, value[1])
            slow.new_day(day, value[1])
        else:
            fast.purge(*value)
            slow.purge(*value)
        for column in range(2):
            expected = slow.used(column)
            assert fast.used[column] * WEIGHT[column] == pytest.approx(expected, abs=1e-6)
        totals, stored = fast.totals, float(fast.used @ WEIGHT)
        assert totals.written == pytest.approx(stored + totals.deleted + totals.purged, abs=1e-6)
        assert fast.by_age().sum() == pytest.approx(stored, abs=1e-6)


def test_a_purge_of_three_days_by_hand():
    keep = Population(np.array([1.0, 1.0]), (Lifetime(1.0, None),))
    for day, (left, right) in enumerate([(10.0, 30.0), (20.0, 20.0), (5.0, 15.0)]):
        keep.new_day(day, 0.0)
        keep.write(np.array([[left, right]]))
    keep.new_day(3, 0.0)
    # Ages 3, 2 and 1 days hold 40, 40 and 20: the oldest goes whole, half of the next.
    gone, share, horizon = keep.purge(60.0, youngest=2)
    np.testing.assert_allclose(gone, [20.0, 40.0])
    np.testing.assert_allclose(share, [0.6])
    assert horizon == 2
    np.testing.assert_allclose(keep.by_age()[0, :5], [0.0, 20.0, 20.0, 0.0, 0.0])
    # What is left of two days goes; what is younger stays, whatever is asked for.
    gone, _, horizon = keep.purge(1000.0, youngest=2)
    np.testing.assert_allclose(gone, [10.0, 10.0])
    assert horizon == 2
    assert keep.purge(1000.0, youngest=2)[2] is None
    np.testing.assert_allclose(keep.used, [5.0, 15.0])


def test_what_is_read_again_is_young_again():
    keep = Population(np.array([1.0]), (Lifetime(1.0, None),))
    keep.write(np.array([[100.0]]))
    keep.new_day(1, math.log(2))
    np.testing.assert_allclose(keep.by_age()[0, :2], [50.0, 50.0])
    assert keep.purge(1000.0, youngest=1)[0][0] == pytest.approx(50.0)


def test_days_beyond_the_oldest_stay_the_oldest():
    keep = Population(np.array([1.0]), (Lifetime(1.0, None),))
    keep.write(np.array([[7.0]]))
    keep.new_day(COHORTS + 100, 0.0)
    assert keep.by_age()[0, -1] == pytest.approx(7.0)
    assert keep.used[0] == pytest.approx(7.0)


def test_deletion_is_exponential_and_the_rest_lives():
    keep = Population(np.array([2.0]), LIVES)
    keep.write(np.array([[60.0], [30.0], [10.0]]))
    gone = keep.delete(DAY)
    expected = 60 * (1 - math.exp(-1)) + 30 * (1 - math.exp(-0.1))
    assert gone[0] == pytest.approx(expected)
    assert keep.totals.deleted == pytest.approx(2 * expected)


@pytest.mark.parametrize("mean_s", [600.0, 3600.0, DAY, 30 * DAY])
def test_a_long_step_leaves_what_many_short_ones_leave(mean_s):
    """A day's step let all that was written in it die for a day: 58 % of what hours left."""
    life = (Lifetime(1.0, mean_s),)
    left = []
    for parts in (1, 24, 24 * 60):
        of = Population(np.ones(1), life)
        for day in range(20):
            of.new_day(day, 0.0)
            for _ in range(parts):
                written = np.full((1, 1), 1e6 / parts)
                of.write(written)
                of.delete(DAY / parts, written)
        left.append(of.used[0])
        assert of.by_age().sum() == pytest.approx(left[-1])
        assert of.totals.written == pytest.approx(left[-1] + of.totals.deleted)
    np.testing.assert_allclose(left, left[-1], rtol=1e-6)


def test_columns_are_added_empty_and_used_from_then_on():
    keep = Population(np.array([2.0]), LIVES)
    keep.write(np.array([[6.0], [3.0], [1.0]]))
    keep.add_columns(np.array([2.0, 5.0]))
    np.testing.assert_allclose(keep.used, [10.0, 0.0])
    keep.write(np.ones((3, 2)))
    np.testing.assert_allclose(keep.used, [13.0, 3.0])
    assert keep.totals.written == pytest.approx(20.0 + 2 * 3.0 + 5 * 3.0)


def test_ages_at_the_start_are_of_a_system_written_at_the_same_rate_ever_since():
    # 1 a day, all kept: 100 is 100 days of writes, evenly.
    (only,) = ages_at_start(100.0, 1.0, (Lifetime(1.0, None),))
    np.testing.assert_allclose(only[:100], 0.01, rtol=1e-9)
    assert only[101:].sum() == pytest.approx(0.0)
    short, kept = ages_at_start(50.0, 1.0, (Lifetime(0.5, COHORT_S), Lifetime(0.5, None)))
    assert short.sum() + kept.sum() == pytest.approx(1.0)
    # Short lives hold half a day of writes, the rest is kept ones.
    assert short.sum() == pytest.approx(0.5 / 50.0, rel=1e-6)


def test_what_two_years_of_writes_do_not_explain_is_of_any_age():
    short, longer = ages_at_start(100.0, 1.0, (Lifetime(0.5, DAY), Lifetime(0.5, 4 * DAY)))
    assert short.sum() == pytest.approx(0.005, rel=1e-6)
    assert short.sum() + longer.sum() == pytest.approx(1.0)
    assert longer[700] > 0.0


def test_what_lives_for_seconds_leaves_numbers():
    of = Population(np.ones(2), (Lifetime(0.5, 1.0), Lifetime(0.5, 60.0)))
    for hour in range(60):
        of.new_day(hour // 24, 0.01)
        of.write(np.full((2, 2), 1e6))
        of.delete(3600.0)
    assert of.stored.max() < 1.0
    assert of.by_age().sum() == pytest.approx(0.0, abs=1.0)
    assert of.totals.deleted == pytest.approx(of.totals.written)

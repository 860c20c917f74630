"""Which hours are bad, which they are held against, and which snapshots are loaded."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from tests.explain.contexts import hours, plain_incident

from trimtab.base.incident import Incident, Shape
from trimtab.base.series import SeriesKey
from trimtab.explain.context import (
    BAD_TIMES,
    GOOD_TIMES,
    Period,
    Stretches,
    snapshot_times,
    windows_of,
    without,
)

KEY = SeriesKey("s", "p", "ior", "write_bandwidth", "B/s")
NOW = hours(24 * 35)


def frames(every_h: int = 1) -> dict[SeriesKey, pl.DataFrame]:
    times = [hours(h) for h in range(0, 24 * 35, every_h)]
    return {KEY: pl.DataFrame({"at": times}).with_columns(value=pl.lit(1.0), unfinished=False)}


def incident(start: float, end: float | None, **changes: Any) -> Incident:
    until = None if end is None else hours(end)
    return plain_incident(at=hours(start), until=until, key=KEY, **changes)


def test_a_dip_is_held_against_the_week_before() -> None:
    stretches = windows_of(incident(400, 410), frames(), hours(0), NOW)
    assert stretches.bad == (Period(hours(400), hours(411)),)
    assert stretches.good == (Period(hours(400 - 168), hours(399)),)


def test_a_level_that_stays_is_looked_at_where_it_began() -> None:
    stretches = windows_of(incident(300, None, shape=Shape.STEP), frames(), hours(0), NOW)
    assert stretches.bad == (Period(hours(300), hours(396)),)
    assert stretches.good == (Period(hours(132), hours(297)),)


def test_where_the_record_begins_with_it_the_hours_after_it_count() -> None:
    stretches = windows_of(incident(10, 20), frames(), hours(0), NOW)
    assert stretches.good == (Period(hours(0), hours(9)), Period(hours(22), hours(22 + 168)))
    first = windows_of(incident(0, None, shape=Shape.STEP), frames(), hours(0), NOW)
    assert first.good == ()


def test_what_has_no_beginning_has_no_good_hours() -> None:
    stretches = windows_of(incident(0, None, shape=Shape.STANDING), frames(), hours(0), NOW)
    assert (stretches.bad, stretches.good) == ((Period(hours(0), NOW),), ())


def test_hours_of_other_incidents_are_no_good_ones() -> None:
    other = incident(350, 360, id="other")
    stretches = windows_of(incident(400, 410), frames(), hours(0), NOW, others=[other])
    assert stretches.good == (
        Period(hours(232), hours(350)), Period(hours(361), hours(399)),
    )  # fmt: skip
    lasts = incident(100, None, id="lasts", shape=Shape.STEP)
    again = windows_of(incident(400, 410), frames(), hours(0), NOW, others=[lasts])
    assert again.good == (Period(hours(232), hours(399)),)


def test_few_snapshots_are_loaded_and_the_beginning_is_among_them() -> None:
    stretches = windows_of(incident(400, 500), frames(), hours(0), NOW)
    available = [hours(h + 0.1) for h in range(24 * 35)]
    times = snapshot_times(stretches, available, hours(0))
    bad = [at for at in times if stretches.bad[0].holds(at)]
    assert len(bad) == BAD_TIMES
    first = 2 * BAD_TIMES // 3
    assert bad[:first] == [hours(400 + n + 0.1) for n in range(first)]
    assert bad[-1] == hours(500.1)
    good = [at for at in times if at in set(available) and stretches.good[0].holds(at)]
    assert len(good) == GOOD_TIMES
    assert hours(398.1) in good
    assert hours(0.1) in times, "the first of the record shows what was so all along"
    assert list(times) == sorted(times)


def test_no_snapshots() -> None:
    stretches = windows_of(incident(400, 500), frames(), hours(0), NOW)
    assert snapshot_times(stretches, [], hours(0)) == ()


def test_the_hours_between_the_slow_runs_of_a_dip_are_good_ones() -> None:
    """Four of 21 runs were slow: the counters of the others' hours are those of a sound system."""
    slow = (400, 401, 410, 420)
    frame = frames()[KEY].with_columns(
        value=pl.when(pl.int_range(pl.len()).is_in(slow)).then(0.5).otherwise(1.0)
    )
    dip = incident(400, 420, effect=0.5)
    stretches = windows_of(dip, {KEY: frame}, hours(0), NOW)
    assert stretches.bad == (
        Period(hours(400), hours(402)), Period(hours(410), hours(411)),
        Period(hours(420), hours(421)),
    )  # fmt: skip
    good = [any(window.holds(hours(h + 0.5)) for window in stretches.good) for h in range(400, 421)]
    assert good[5:8] == [True] * 3
    assert not any(good[h - 400] for h in slow)
    # Where most runs were slow, and where it is a change of level, all of it is bad.
    most = frame.with_columns(
        value=pl.when(pl.int_range(pl.len()).is_between(400, 412)).then(0.5).otherwise(1.0)
    )
    whole = (Period(hours(400), hours(421)),)
    assert windows_of(dip, {KEY: most}, hours(0), NOW).bad == whole
    # Surveys that show slow targets were made at hours of their own.
    of_targets = incident(400, 420, effect=0.5, targets=("OST0001",))
    assert windows_of(of_targets, {KEY: frame}, hours(0), NOW).bad == whole
    step = incident(400, 420, effect=0.5, shape=Shape.STEP)
    assert windows_of(step, {KEY: frame}, hours(0), NOW).bad == whole


def test_sparse_snapshots_around_a_short_dip_are_loaded() -> None:
    """What was counted between the last one before it and the first after it was mostly then."""
    stretches = windows_of(incident(400, 402), frames(), hours(0), NOW)
    every_6_h = [hours(h + 0.1) for h in range(0, 24 * 35, 6)]
    assert {hours(396.1), hours(402.1), hours(408.1)} <= {
        *snapshot_times(stretches, every_6_h, hours(0))
    }
    hourly = [hours(h + 0.1) for h in range(24 * 35)]
    assert hours(403.1) not in snapshot_times(stretches, hourly, hours(0))
    # Of snapshots days apart no rate is made.
    seldom = [hours(h + 0.1) for h in range(0, 24 * 35, 72)]
    assert hours(432.1) not in snapshot_times(stretches, seldom, hours(0))


_WINDOW = st.tuples(st.integers(0, 50), st.integers(1, 20)).map(
    lambda pair: Period(hours(pair[0]), hours(pair[0] + pair[1]))
)


@given(st.lists(_WINDOW, max_size=4), st.lists(_WINDOW, max_size=4))
def test_cutting_windows_is_what_it_is_hour_by_hour(
    windows: list[Period], taken: list[Period]
) -> None:
    left = without(windows, taken)
    for half in range(1, 150, 2):
        at = hours(0) + timedelta(minutes=30 * half)
        expected = any(w.holds(at) for w in windows) and not any(t.holds(at) for t in taken)
        assert any(w.holds(at) for w in left) == expected
    assert all(w.to > w.from_ for w in left)


@given(st.integers(0, 800), st.integers(0, 200), st.sampled_from(sorted(Shape)))
def test_bad_and_good_never_overlap(start: int, length: int, shape: Shape) -> None:
    stretches = windows_of(incident(start, start + length, shape=shape), frames(6), hours(0), NOW)
    assert len(stretches.bad) == 1
    assert isinstance(stretches, Stretches)
    for good in stretches.good:
        assert good.to < stretches.bad[0].from_ or good.from_ > stretches.bad[0].to

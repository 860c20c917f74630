from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.judge.changes.made import LEVEL, START, ar1, noisy, times, walked
from tests.support.changes import changes_among
from tests.support.narrow import present
from tests.support.sentences import numbers

from trimtab.base.plain import packed, unpacked
from trimtab.base.series import ChangePoint, ChangeStatus
from trimtab.judge.change import LevelChanges, find_changes, newest_level, of_frame, of_sequences
from trimtab.judge.walk_forward import CONFIRM_S, Walked, WalkForward


def among(values: Sequence[float | None], *, dismissed: bool = False) -> LevelChanges:
    return changes_among(times(len(values)), values, dismissed=dismissed)


def stepped(seed: int, step: float, at: int = 800, n: int = 1100, phi: float = 0.5) -> np.ndarray:
    values = noisy(seed, n, phi)
    values[at:] *= 1 + step
    return values


# --- what is told --------------------------------------------------------------------------------


def test_a_lasting_step_is_suspected_then_confirmed_with_its_size() -> None:
    (point,) = among(stepped(3, -0.08).tolist()).points
    assert point.status is ChangeStatus.CONFIRMED
    assert abs(point.at - times(1100)[800]) <= timedelta(hours=12)
    assert point.effect == pytest.approx(0.92, abs=0.02)
    assert present(point.effect_interval).low < 0.92 < present(point.effect_interval).high
    assert (
        point.at <= present(point.suspected_at) == point.detected_at < present(point.confirmed_at)
    )
    assert point.before == pytest.approx(LEVEL, rel=0.02)
    assert (point.after, point.dismissed_at) == (pytest.approx(0.92 * LEVEL, rel=0.02), None)


def test_of_very_many_runs_several_are_taken_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The change is found within one of them, reported no earlier than its last run, and sized
    by all runs around it."""
    values = stepped(3, -0.08)
    values[600:603] = np.nan
    monkeypatch.setattr("trimtab.judge.change.RUNS_MOST", 300)
    (point,) = among([None if np.isnan(value) else value for value in values]).points
    runs = times(1100)
    assert runs.index(point.at) % 4 == 0
    assert abs(point.at - runs[800]) <= timedelta(hours=12)
    assert point.effect == pytest.approx(0.92, abs=0.02)
    assert point.n_before > 330
    assert runs.index(present(point.confirmed_at)) % 4 == 3
    assert among(noisy(4, 1100, 0.5).tolist()).points == ()


def test_there_and_back_is_two_changes() -> None:
    values = noisy(5, 1400)
    values[700:1000] *= 0.85
    down, up = among(values.tolist()).points
    assert down.effect == pytest.approx(0.85, abs=0.03)
    assert up.effect == pytest.approx(1 / 0.85, abs=0.04)
    assert down.n_after == up.n_before <= 336


def test_less_is_better_turns_nothing_round_but_the_unfinished() -> None:
    seconds = 1e13 / stepped(3, -0.1)
    (point,) = changes_among(times(1100), seconds.tolist(), more_is_better=False).points
    assert point.effect == pytest.approx(1 / 0.9, abs=0.03)


def test_a_stretch_in_which_nothing_finishes_is_a_change_without_a_ratio() -> None:
    values: list[float | None] = noisy(3, 800).tolist()
    values[500:560] = [None] * 60
    down, up = among(values).points
    assert down.at == times(800)[500]
    assert up.at == times(800)[560]
    assert present(down.suspected_at) - down.at <= timedelta(hours=6)
    assert (down.effect, down.after, down.n_after) == (None, None, 0)
    assert numbers(down.reason)[-2:] == [60, 60]  # unfinished runs of those after
    assert (up.effect, up.before) == (None, None)


def test_values_of_zero_are_as_bad_as_unfinished_and_have_a_level() -> None:
    (point,) = among([*noisy(3, 600).tolist(), *[0.0] * 200]).points
    assert point.at == times(800)[600]
    assert point.effect == point.after == 0.0


def test_the_first_runs_may_all_have_failed() -> None:
    values: list[float | None] = [*[None] * 300, *noisy(3, 500).tolist()]
    (point,) = among(values).points
    assert (point.at, point.before) == (times(800)[300], None)


@pytest.mark.parametrize(
    "values",
    [
        [],
        [1.0],
        [5.0] * 23,
        [5.0] * 12 + [1.0] * 11,
        [5.0] * 600,
        [None] * 600,
        [0.0] * 600,
        [5.0, 5.0001] * 300,
    ],
    ids=["none", "one", "few", "few step", "constant", "unfinished", "zero", "last digits"],
)
def test_nothing_is_told_where_nothing_can_be(values: list[float | None]) -> None:
    found = among(values, dismissed=True)
    assert found.points == ()
    assert not found.seasonal


def test_a_constant_that_moves_has_moved() -> None:
    (point,) = among([5.0] * 300 + [4.0] * 200).points
    assert (point.at, point.effect) == (times(300)[-1] + timedelta(hours=1), pytest.approx(0.8))


def test_runs_of_one_moment_and_in_any_order_are_taken() -> None:
    values = stepped(4, -0.15, at=400, n=700).tolist()
    order = np.random.default_rng(1).permutation(700)
    at = times(700)
    mixed = changes_among([at[k] for k in order], [values[k] for k in order])
    assert mixed.points == among(values).points
    doubled = changes_among(
        [time for time in at for _ in range(2)], [value for value in values for _ in range(2)]
    )
    assert [point.at for point in doubled.points] == [point.at for point in mixed.points]
    assert changes_among([START] * 100, values[:100]).points == ()


@pytest.mark.calibration
@pytest.mark.parametrize("step_s", [300.0, 86400.0, 7 * 86400.0])
def test_runs_may_be_minutes_or_weeks_apart(step_s: float) -> None:
    values = stepped(6, -0.3, at=400, n=600, phi=0.3)
    (point,) = changes_among(times(600, step_s), values.tolist()).points
    assert abs(point.at - times(600, step_s)[400]) <= timedelta(seconds=2 * step_s)


def test_a_gap_of_months_is_no_change_and_hides_none() -> None:
    values = stepped(7, -0.1, at=400, n=700).tolist()
    at = times(700)
    late = [time + timedelta(days=60) * (place >= 400) for place, time in enumerate(at)]
    (point,) = changes_among(late, values).points
    assert abs(point.at - late[400]) <= timedelta(hours=12)
    assert changes_among(late, noisy(7, 700).tolist()).points == ()


def test_a_frame_tells_what_its_columns_tell() -> None:
    values: list[float | None] = stepped(3, -0.1).tolist()
    values[50] = None
    frame = pl.DataFrame(
        {"at": times(1100), "value": values, "unfinished": [value is None for value in values]}
    )
    assert find_changes(frame) == among(values)
    # A value beside the flag is what the run had written before it was stopped: no result.
    told = frame.with_columns(value=pl.col("value").fill_null(LEVEL))
    assert find_changes(told) == among(values)


# --- when it is told -----------------------------------------------------------------------------


def told_of(walk: WalkForward) -> list[tuple[int, str]]:
    return sorted(
        (place, name)
        for one in walk.detections
        for name in ("suspected", "confirmed", "dismissed")
        if (place := getattr(one, name)) is not None
    )


CUT_LENGTH = 420


@pytest.mark.calibration
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    cut=st.integers(1, CUT_LENGTH),
    at=st.integers(20, CUT_LENGTH - 20),
    step=st.sampled_from([0.0, -0.05, -0.12, 0.15, -0.6]),
    lost=st.sampled_from([0.0, 0.02, 0.3]),
)
def test_what_is_told_up_to_a_time_rests_on_nothing_later(
    seed: int, cut: int, at: int, step: float, lost: float
) -> None:
    rng = np.random.default_rng(seed)
    values = stepped(seed, step, at=at, n=CUT_LENGTH)
    listed = [
        None if gone else v for v, gone in zip(values, rng.random(CUT_LENGTH) < lost, strict=True)
    ]
    whole = told_of(walked(listed))
    assert [one for one in whole if one[0] < cut] == told_of(walked(listed[:cut]))


def test_a_series_that_grows_is_gone_on_with_and_gives_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = stepped(3, 0.8, at=400, n=900).tolist()
    values[200:230] = (np.array(values[200:230]) * 0.5).tolist()
    frame = pl.DataFrame({"at": times(900), "value": values, "unfinished": [False] * 900})
    looks: list[int] = []
    looked = WalkForward._look
    monkeypatch.setattr(
        WalkForward, "_look", lambda walk, *rest: (looks.append(0), looked(walk, *rest))
    )
    walked = None
    for end in (10, 30, 31, 250, 410, 430, 430, 500, 501, 700, 900):
        whole = find_changes(frame.head(end), dismissed=True)
        looks.clear()
        # As it is kept and read back.
        walked = unpacked(Walked | None, packed(Walked | None, walked))
        grown = find_changes(frame.head(end), dismissed=True, after=walked)
        assert grown == whole
        walked = grown.walked
        assert end not in (31, 430, 501) or len(looks) <= 4  # six hours each, of 20 new runs
    assert len(whole.points) >= 3
    # A run of long ago is another one by now, and a series may have lost its last ones.
    early = pl.int_range(pl.len()) < 300
    altered = frame.with_columns(value=pl.col("value") * pl.when(early).then(0.7).otherwise(1.0))
    assert find_changes(altered, after=walked) == find_changes(altered)
    fewer = altered.head(450)
    assert find_changes(fewer, after=walked) == find_changes(fewer)


def test_the_rhythm_rests_on_nothing_later_either() -> None:
    hour = np.arange(1100)
    values = stepped(9, -0.08, at=850) * (1 + 0.1 * np.sin(2 * np.pi * hour / 168))
    whole = told_of(walked(values))
    assert whole
    for cut in (400, 700, 860, 880, 930):
        assert [one for one in whole if one[0] < cut] == told_of(walked(values[:cut]))


@pytest.mark.calibration
@pytest.mark.parametrize("seed", range(6))
def test_one_alert_an_epoch(seed: int) -> None:
    values = noisy(seed, 2500, phi=0.7, cov=0.08)
    for begin in (600, 640, 1200, 1300, 1320, 2000):
        values[begin : begin + 15] *= 0.8
    alerts = [one for one in walked(values).detections if one.suspected is not None]
    assert alerts
    for one, following in pairwise(alerts):
        ended = present(one.confirmed if one.dismissed is None else one.dismissed)
        assert present(one.suspected) < ended <= present(following.suspected)
        # What is confirmed may turn out to have begun before an earlier suspect was given up.
        if one.confirmed is None and following.confirmed is None:
            assert following.place >= ended
        waited_h = ended - present(one.suspected)
        assert waited_h <= CONFIRM_S / 3600


def test_a_short_dip_is_suspected_and_given_up() -> None:
    values = noisy(8, 900)
    values[600:612] *= 0.85
    (point,) = among(values.tolist(), dismissed=True).points
    assert point.status is ChangeStatus.SUSPECT
    assert point.suspected_at is not None
    assert timedelta(0) < present(point.dismissed_at) - point.suspected_at <= timedelta(hours=96)
    assert point.reason.code == "change-dismissed"
    assert among(values.tolist()).points == ()


def open_at(point: ChangePoint | None) -> tuple[object, object] | None:
    return None if point is None else (point.at, point.suspected_at)


def test_the_open_suspect_is_told_at_once() -> None:
    values = stepped(3, -0.12, at=700, n=720)
    point = present(newest_level(times(720), values.tolist()).suspect)
    assert (point.status, point.confirmed_at) == (ChangeStatus.SUSPECT, None)
    assert newest_level(times(690), values[:690].tolist()).suspect is None
    assert open_at(among(values.tolist()).points[-1]) == open_at(point)
    assert newest_level([], []).suspect is None


def test_the_open_suspect_of_daily_runs_is_told_too() -> None:
    values = stepped(3, -0.12, at=200, n=203, phi=0.0).tolist()
    days = times(203, 86400.0)
    assert abs(present(newest_level(days, values).suspect).at - days[200]) <= timedelta(days=2)


def test_no_suspect_is_open_long_after_a_change() -> None:
    values = stepped(3, -0.12, at=300, n=720)
    assert newest_level(times(720), values.tolist()).suspect is None


# --- how often it is wrong -----------------------------------------------------------------------


def test_a_week_s_rhythm_is_no_change_from_the_first_week_on() -> None:
    hour = np.arange(1500)
    for seed, phi in enumerate((0.3, 0.7)):
        values = noisy(300 + seed, 1500, phi) * (1 + 0.1 * np.sin(2 * np.pi * hour / 168))
        found = among(values.tolist())
        assert [p for p in found.points if p.status is ChangeStatus.CONFIRMED] == []
        assert found.seasonal


def test_scatter_and_memory_are_those_of_the_series() -> None:
    found = among((LEVEL * np.exp(0.08 * ar1(1, 1500, 0.5))).tolist())
    assert found.scale == pytest.approx(0.08, rel=0.1)
    assert found.autocorrelation == pytest.approx(0.5, abs=0.1)


def test_a_frame_and_sequences_are_the_same_runs() -> None:
    """In any order, with unfinished runs, in a zone whose clocks change."""
    values = [None, 3.0, 0.0, 5.5, None, 7.25]
    at = [START + timedelta(days=40 * n, minutes=n) for n in (3, 0, 5, 1, 4, 2)]
    frame = pl.DataFrame(
        {"at": at, "value": values, "unfinished": [value is None for value in values]}
    )
    terms = {"more_is_better": False, "timezone": "Europe/Zurich"}
    one, other = of_frame(frame, **terms), of_sequences(at, values, **terms)
    assert one.at == other.at
    for name in ("time_s", "hour", "value", "height"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))

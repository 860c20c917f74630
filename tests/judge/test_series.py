"""What is said of one series as a whole."""

from dataclasses import replace
from datetime import timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.judge.frames import KEY, change, hour, series
from tests.judge.history import noise, points
from tests.support.narrow import present

from trimtab.base.error import UsageError, code_of
from trimtab.base.series import ChangeStatus, InvalidRun, Noise
from trimtab.base.verdict import VerdictStatus
from trimtab.judge.change import LevelChanges
from trimtab.judge.series_analysis import judge_series
from trimtab.judge.series_frame import frame_of, normalised
from trimtab.judge.series_level import trend
from trimtab.judge.variability import judge_history

NONE = LevelChanges((), seasonal=False, autocorrelation=0.0, scale=0.05)


def with_changes(*found):
    return replace(NONE, points=found)


def stepped(days=20, at=240, factor=0.83, cov=0.05):
    values = noise(1, 24 * days, cov=cov, seed=2)[0] * 673e9
    values[at:] *= factor
    return values


def test_a_confirmed_step_is_taken_out_and_makes_two_regimes():
    found = change(240, 673e9, 559e9)
    judged = judge_series(series(stepped()), KEY, changes=with_changes(found))
    assert judged.changes == (found,)
    before, after = judged.regimes
    assert (before.from_, before.to, before.n) == (hour(0), hour(239), 240)
    assert (after.from_, after.n) == (hour(240), 240)
    assert present(after.mean) / present(before.mean) == pytest.approx(0.83, abs=0.02)
    assert judged.overall.noise is Noise.STEPS
    assert judged.overall.cov_within_regimes == pytest.approx(0.05, abs=0.005)
    assert judged.dispersion.noise is Noise.ALWAYS_NOISY  # the last two days hold no step


@pytest.mark.parametrize(
    "more", [{"status": ChangeStatus.SUSPECT}, {"dismissed_at": hour(300)}], ids=str
)
def test_a_suspect_makes_no_regime(more):
    doubtful = change(240, 673e9, 559e9, **more)
    judged = judge_series(series(stepped()), KEY, changes=with_changes(doubtful))
    assert (judged.changes, len(judged.regimes)) == ((doubtful,), 1)


def test_changes_are_looked_for_where_none_are_given():
    judged = judge_series(series(stepped(days=30, at=400)), KEY)
    (found,) = [c for c in judged.changes if c.status is ChangeStatus.CONFIRMED]
    assert abs(found.at - hour(400)) <= timedelta(hours=24)
    assert found.effect == pytest.approx(0.83, abs=0.02)
    assert len(judged.regimes) == 2


def test_since_and_until_cut_what_is_told_but_not_what_is_known():
    frame = series(stepped())
    judged = judge_series(frame, KEY, changes=NONE, since=hour(120), until=hour(300))
    assert [day.n for day in judged.days] == [24] * 7 + [13]
    assert (judged.overall.n, judged.verdict.to) == (181, hour(300))
    assert (judged.rolling[0].at, judged.rolling[0].n) == (hour(120), 48)
    assert judge_series(frame.head(301), KEY, changes=NONE, since=hour(120)) == judged


def test_what_was_due_and_did_not_run_is_missing():
    due = [hour(place) for place in range(72)]
    invalid = InvalidRun("run-50", hour(50), "moved 0.02 GiB instead of 1,536")
    frame = series(noise(1, 72)[0], gaps={5, 6, 30}, unfinished={40})
    judged = judge_series(frame, KEY, changes=NONE, schedule=due, invalid=[invalid])
    assert (judged.expected, judged.missing) == (72, 3)
    assert [day.missing for day in judged.days] == [2, 1, 0]
    assert [day.n for day in judged.days] == [22, 23, 23]
    assert (judged.invalid, judged.verdict.unfinished) == ((invalid,), 1)


def test_values_that_are_none_are_told_and_not_judged():
    frame = series([1.0, 2.0, 3.0, 4.0, 5.0])
    frame = frame.with_columns(value=pl.Series([1.0, None, -3.0, float("nan"), 5.0]))
    judged = judge_series(frame, KEY, changes=NONE)
    assert judged.overall.n == 2
    assert [(run.run, code_of(run.reason)) for run in judged.invalid] == [
        ("run-1", "value-missing"),
        ("run-2", "value-negative"),
        ("run-3", "value-not-finite"),
    ]


def test_an_empty_series_says_that_nothing_can_be_told():
    judged = judge_series(series([]), KEY)
    assert judged.verdict.status is VerdictStatus.CANNOT_TELL
    assert judged.days == judged.rolling == judged.regimes == judged.changes == ()
    assert judged.overall.noise is Noise.CANNOT_TELL
    assert (judged.expected, judged.missing) == (None, None)


def test_somebody_elses_metric_is_judged_as_told():
    key = replace(KEY, metric="wall clock", unit="min", kind="", more_is_better=False)
    frame = series(noise(1, 48, cov=0.02)[0], unfinished={3})
    judged = judge_series(frame, key, changes=NONE)
    assert judged.verdict.unit == judged.trend.unit == "min"
    assert (judged.verdict.n, judged.verdict.status) == (47, VerdictStatus.CANNOT_TELL)
    assert judged.verdict.slowest == pytest.approx(normalised(frame)[0]["value"].max())
    assert judged.verdict.reason.code == "unfinished-not-counted"


@pytest.mark.parametrize(
    ("frame", "code", "text"),
    [
        (pl.DataFrame({"value": [1.0]}), "column-missing", "'at'"),
        (pl.DataFrame({"at": ["x"], "value": [1.0]}), "column-type", "'at'"),
        (pl.DataFrame({"at": [hour(0).replace(tzinfo=None)], "value": [1.0]}), "zone-missing", "z"),
        (pl.DataFrame({"at": [hour(0)], "value": ["x"]}), "column-type", "'value'"),
    ],
)
def test_a_frame_of_another_shape_is_refused(frame, code, text):
    with pytest.raises(UsageError, match=text) as refused:
        judge_series(frame, KEY, changes=NONE)
    assert refused.value.code == code


def test_a_frame_is_made_whole():
    frame = pl.DataFrame(
        {"at": [hour(2), hour(0), hour(1)], "value": [3, 1, 2], "run": ["b", "a", "b"]}
    )
    tidy, invalid = normalised(frame)
    assert (tidy["value"].to_list(), tidy["run"].to_list()) == ([1.0, 2.0], ["a", "b"])
    assert tidy["unfinished"].to_list() == [False, False]
    assert invalid == ()
    numbered, _ = normalised(frame.drop("run"))
    assert numbered["run"].to_list() == ["row 2", "row 3", "row 1"]


def test_points_become_a_frame_and_an_unfinished_one_has_no_value():
    frame = frame_of(points([3.0, 2.0, 1.0], unfinished={1})[::-1])
    assert frame["value"].to_list() == [3.0, None, 1.0]
    assert frame["unfinished"].to_list() == [False, True, False]
    assert frame["at"].is_sorted()
    assert frame["run"].to_list() == ["run-0", "run-1", "run-2"]


@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False), st.floats(1e-3, 1e9), st.integers(0, 3))
def test_order_doubles_and_unit_change_nothing(shuffler, factor, ended):
    plain = series(noise(1, 60, phi=0.3, seed=5)[0], unfinished=set(range(10, 10 + ended)))
    rows = [*range(60), 3, 17, 40]
    shuffler.shuffle(rows)
    mixed = plain[rows].with_columns(pl.col("value") * factor)
    first, second = judge_series(plain, KEY, changes=NONE), judge_series(mixed, KEY, changes=NONE)
    assert second.verdict.status == first.verdict.status
    assert second.verdict.n == first.verdict.n == 48
    for one, other in zip(first.rolling, second.rolling, strict=True):
        assert (one.at, one.n, one.status) == (other.at, other.n, other.status)
        assert other.cov == pytest.approx(one.cov)
    assert second.dispersion.noise == first.dispersion.noise
    assert second.overall.mad_cv == pytest.approx(first.overall.mad_cv)
    for one, other in zip(first.days, second.days, strict=True):
        assert (other.mean, other.cov) == (pytest.approx(one.mean * factor), pytest.approx(one.cov))


@pytest.mark.parametrize("apart_h", [1, 24, 60, 400])
def test_verdict_and_trend_are_those_of_all_runs(apart_h):
    """Whatever is left out before: of runs close together, of daily ones and of very rare ones."""
    values = noise(1, 3000 // apart_h + 40, cov=0.05, seed=apart_h)[0] * 673e9
    same = points(values, step_s=3600.0 * apart_h, unfinished={len(values) - 10})
    judged = judge_series(frame_of(same), KEY, changes=NONE)
    assert judged.verdict == judge_history(
        same, metric="write_bandwidth", probe="ior (ior)", goal=0.08
    )
    assert judged.trend == trend(same, metric="write_bandwidth", probe="ior (ior)")

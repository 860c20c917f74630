"""All windows at once are each window by itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.judge.frames import hour, series
from tests.judge.history import noise

from trimtab.base.verdict import VerdictStatus
from trimtab.judge.rolling import rolling
from trimtab.judge.series_frame import normalised, points_of
from trimtab.judge.variability import judge_history

MET, MISSED, CANNOT_TELL = VerdictStatus.MET, VerdictStatus.MISSED, VerdictStatus.CANNOT_TELL


def one_by_one(frame, **terms):
    """Return (at, n, cov, interval, status) of every window from a verdict of its own."""
    tidy, _ = normalised(frame)
    points = points_of(tidy, "write_bandwidth")
    more = terms.pop("more_is_better", True)
    found = []
    for end in range(1, len(points) + 1):
        verdict = judge_history(
            points[:end],
            metric="write_bandwidth",
            probe="p",
            more_is_better=more,
            unit="B/s" if more else "s",
            goal=terms.get("goal", 0.08),
            window_s=terms.get("window_s", 48 * 3600.0),
        )
        found.append((points[end - 1].at, verdict))
    return found


def agree(frame, **terms):
    together, apart = rolling(frame, **terms), one_by_one(frame, **terms)
    assert len(together) == len(apart)
    for window, (at, verdict) in zip(together, apart, strict=True):
        assert (window.at, window.n, window.status) == (at, verdict.n, verdict.status), at
        if verdict.cov is None:
            assert window.cov is None
        else:
            assert window.cov == pytest.approx(verdict.cov, rel=1e-9)
        if verdict.cov_interval is None:
            assert window.interval is None
        else:
            assert window.interval is not None
            wanted = (verdict.cov_interval.low, verdict.cov_interval.high)
            assert (window.interval.low, window.interval.high) == pytest.approx(wanted, rel=1e-7)
    return together


@pytest.mark.parametrize("more_is_better", [True, False])
def test_hourly_runs_with_gaps_dips_and_unfinished_ones(more_is_better):
    values = noise(1, 150, phi=0.5, cov=0.08, seed=3)[0] * 1e9
    values[[20, 90, 91]] *= 0.3
    frame = series(values, unfinished={33, 34, 120}, gaps=set(range(60, 75)))
    windows = agree(frame, more_is_better=more_is_better)
    assert {window.status for window in windows} >= {CANNOT_TELL, MISSED}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 1.0, 1.0, 1.1, 0.9, None]), min_size=1, max_size=60),
    st.sampled_from([600.0, 1800.0, 3600.0, 7200.0]),
    st.booleans(),
    st.floats(0.0, 0.5),
)
def test_ties_zeros_and_any_spacing(values, step_s, more_is_better, goal):
    ended = {place for place, value in enumerate(values) if value is None}
    frame = series([v or 0.0 for v in values], step_s=step_s, unfinished=ended)
    agree(frame, goal=goal, more_is_better=more_is_better)


def test_each_answer_is_given():
    steady = noise(1, 48, cov=0.02)[0]
    shaky = noise(1, 96, cov=0.2, seed=5)[0]
    windows = agree(series([*steady, *shaky]))
    assert windows[22].status is CANNOT_TELL  # 23 runs are too few
    assert windows[47].status is MET
    assert windows[-1].status is MISSED
    assert {w.status for w in agree(series([5.0] * 40))} == {CANNOT_TELL, MET}
    nothing = agree(series([1.0] * 40, unfinished=set(range(40))))
    assert nothing[-1].status is MISSED
    assert nothing[-1].cov is None


def test_nothing_comes_of_nothing():
    assert rolling(series([])) == ()


def test_runs_before_since_still_count():
    frame = series(noise(1, 100)[0])
    every = rolling(frame)
    later = rolling(frame, since=hour(60))
    assert later == every[60:]
    assert later[0].n == 48


def test_a_year_of_hourly_runs():
    windows = rolling(series(noise(1, 8760, phi=0.5, cov=0.08)[0] * 1e9))
    assert len(windows) == 8760
    covs = np.array([window.cov for window in windows[47:]])
    # Within a window some of the spread of a series with a memory is hidden.
    assert 0.06 < covs.mean() < 0.08


def test_of_very_many_windows_every_kth_is_judged_as_all_would(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = series(noise(1, 200, phi=0.5, cov=0.08)[0] * 1e9)
    every = rolling(frame)
    cells = sum(window.n for window in every)
    monkeypatch.setattr("trimtab.judge.rolling._CELLS_MOST", cells // 7 + 1)
    few = rolling(frame)
    assert few == every[::-1][::7][::-1]
    assert few[-1] == every[-1]

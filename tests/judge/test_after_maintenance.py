"""What a maintenance changed: rarely said of a steady series, soon of one that lost a tenth."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
from tests.support.counts import series_counts

from trimtab.base.maintenance_window import AfterMaintenance, MaintenanceWindow
from trimtab.base.series import SeriesKey
from trimtab.base.verdict import Change, HistoryPoint
from trimtab.judge.after_maintenance import LOOKS, after_windows
from trimtab.judge.series_frame import frame_of

trials = series_counts(gate=60, soak=2000)
START = datetime(2026, 3, 2, tzinfo=UTC)
HOURS = 24 * 14
DOWN = 24 * 8  # the window's begin
BACK = DOWN + 10
KEY = SeriesKey("s", "hourly", "ior", "write_bandwidth", "B/s")


def hour(number: float) -> datetime:
    return START + timedelta(hours=number)


def window(begin: float = DOWN, end: float = BACK, name: str = "w") -> MaintenanceWindow:
    return MaintenanceWindow(name, "s", hour(begin), hour(end), "firmware", "person")


def series(number: int, *, correlation: float = 0.4, rhythm: float = 0.03) -> np.ndarray:
    """Return a steady series with a COV of 4 %, a day's rhythm, and neighbours that are alike."""
    random = np.random.default_rng(number)
    noise = random.normal(0, 0.04 * np.sqrt(1 - correlation**2), HOURS)
    for place in range(1, HOURS):
        noise[place] += correlation * noise[place - 1]
    return 1e9 * (1 + noise + rhythm * np.sin(np.arange(HOURS) * 2 * np.pi / 24))


def found(
    values: np.ndarray, *windows: MaintenanceWindow, timezone: str = "UTC", until: int = HOURS
) -> tuple[AfterMaintenance, ...]:
    points = [
        HistoryPoint(
            hour(number), "write_bandwidth", float(value), unfinished=False, run=str(number)
        )
        for number, value in enumerate(values[:until])
        if not any(each.holds(hour(number)) for each in windows or (window(),))
    ]
    return after_windows(frame_of(points), KEY, windows or (window(),), timezone)


def test_of_a_steady_series_it_is_rarely_said(trials):
    false = sum(bool(found(series(number))) for number in range(trials))
    assert false <= max(0.05 * trials, 4)


def test_a_loss_of_nine_percent_is_found_within_a_day(trials):
    named = 0
    for number in range(trials // 3):
        values = series(number)
        values[BACK:] *= 0.91
        answers = found(values, until=BACK + 24)
        named += any(each.change is Change.WORSE and each.runs <= 24 for each in answers)
    assert named >= 0.8 * (trials // 3)


def test_only_what_was_known_is_said_and_in_every_time_zone(trials):
    """A record that ends earlier gives the same answer, or none yet."""
    values = series(1)
    values[BACK:] *= 0.8
    whole = found(values)
    (answer,) = whole
    for until in (BACK + LOOKS[0] - 1, BACK + LOOKS[0], BACK + 30):
        assert found(values, until=until) == (whole if until >= BACK + answer.runs else ())
    assert found(values, timezone="Asia/Kathmandu")[0].change is Change.WORSE
    assert (answer.window, answer.until, answer.why) == ("w", hour(BACK), "firmware")
    assert answer.interval.low < answer.ratio < answer.interval.high < 0.95


def test_between_two_windows_the_first_has_the_runs_up_to_the_second():
    values = series(2)
    values[BACK + 20 :] *= 0.7
    second = window(BACK + 20, BACK + 26, "second")
    assert [each.window for each in found(values, window(), second)] == ["second"]
    assert found(values[: DOWN + 5]) == ()
    assert found(values, window(DOWN, DOWN)) == ()


def test_a_time_that_rises_is_worse_and_runs_that_do_not_finish_are():
    key = SeriesKey("s", "hourly", "x", "elapsed", "s", more_is_better=False)
    values = series(3) / 1e7
    values[BACK:] *= 1.3
    points = [
        HistoryPoint(hour(number), "elapsed", float(value), unfinished=False, run=str(number))
        for number, value in enumerate(values)
        if not window().holds(hour(number))
    ]
    (answer,) = after_windows(frame_of(points), key, [window()], "UTC")
    assert answer.change is Change.WORSE
    assert answer.ratio > 1.2

"""The sentence that a screen or a page begins with."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from trimtab.judge.series import judge_series
from trimtab.model.series import SeriesJudgement, SeriesKey, SiteJudgement
from trimtab.report.answers import judge_answer, lasting_change

START = datetime(2026, 3, 2, tzinfo=UTC)


def judged(probe: str, levels: list[tuple[int, float]], *, unit: str = "B/s") -> SeriesJudgement:
    """Return the judgement of hourly runs: so many at each level, with a little scatter."""
    import polars as pl

    values = [level * (1 + 0.01 * (n % 5)) for runs, level in levels for n in range(runs)]
    frame = pl.DataFrame(
        {
            "at": [START + timedelta(hours=hour) for hour in range(len(values))],
            "value": values,
            "unfinished": [False] * len(values),
            "run": [str(number) for number in range(len(values))],
        }
    )
    more = unit == "B/s"
    metric = "read_bandwidth" if more else "read_time"
    key = SeriesKey("scratch", probe, "ior", metric, unit, more_is_better=more)
    return judge_series(frame, key)


def answer(*series: SeriesJudgement) -> str:
    return judge_answer(SiteJudgement("scratch", START, START, series))


STEADY = judged("steady", [(120, 1e9)])
WORSE = judged("shared", [(72, 1e9), (72, 0.5e9)])
MUCH_WORSE = judged("single", [(72, 1e9), (72, 0.14e9)])
RECOVERED = judged("back", [(72, 1e9), (72, 0.5e9), (72, 1e9)])
BETTER = judged("tuned", [(72, 1e9), (72, 10e9)])


def test_the_worst_change_that_lasts_comes_first_and_the_others_are_counted() -> None:
    """A larger change for the better never hides one for the worse."""
    text = answer(STEADY, BETTER, WORSE, MUCH_WORSE, RECOVERED)
    assert text.startswith(
        "single read bandwidth -86 % since 2026-03-05; "
        "4 other series: 1 worse, 1 better, 2 steady. COV goal of 8 %: "
    )


def test_what_recovered_is_steady() -> None:
    assert len(RECOVERED.changes) == 2
    assert lasting_change(RECOVERED) is None
    assert answer(RECOVERED).startswith("No lasting change of level; 1 series steady.")


def test_times_that_grow_are_worse() -> None:
    slower = judged("latency", [(72, 1.0), (72, 3.0)], unit="s")
    assert answer(slower, BETTER).startswith(
        "latency read time +200 % since 2026-03-05; 1 other series better"
    )


def test_without_series_it_says_so() -> None:
    assert answer() == "No series has runs to judge."


@pytest.mark.parametrize("name", ["changes", "regimes"])
def test_without_changes_or_levels_nothing_lasts(name: str) -> None:
    assert lasting_change(replace(WORSE, **{name: ()})) is None

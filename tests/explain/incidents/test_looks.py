"""What is over stays as it was found, whatever comes later: other probes, another year."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from tests.calibration import series
from tests.explain.incidents.frames import found as troubles_in
from tests.explain.incidents.frames import level

from trimtab.base.incident import Incident, Recurrence, Shape
from trimtab.base.series import ChangeStatus, SeriesKey
from trimtab.explain.spell import (
    AFTER,
    BEFORE,
    EVERY,
    RUNS_BEFORE,
    CalendarLook,
    LookedSeries,
    Spell,
    carried,
)
from trimtab.judge.change import LevelChanges
from trimtab.judge.series_analysis import judge_series

STILL = LevelChanges((), False, 0.0, 0.05)
SETTLED = EVERY + AFTER
DAY = timedelta(days=1)
FACTORS = (0.84, 0.81, 0.78, 0.75, 0.7, 0.6, 0.5)


def key(probe: str, metric: str = "write_bandwidth") -> SeriesKey:
    return SeriesKey("s", probe, "ior", metric, "B/s", probe)


def noise(days: int, seed: int, cov: float = 0.04) -> np.ndarray:
    return level(seed, days, cov, phi=0.5)


def found(frames: Mapping[SeriesKey, pl.DataFrame]) -> tuple[Incident, ...]:
    """Return the incidents of a site whose levels never change."""
    now = max(frame["at"][-1] for frame in frames.values())
    return troubles_in(frames, changes=STILL, now=now).incidents


def over(incidents: tuple[Incident, ...], by: datetime) -> list[Incident]:
    """Return the incidents that had been over for so long that no look at them was open."""
    return [each for each in incidents if each.until is not None and each.until <= by - SETTLED]


def troubled(days: int) -> np.ndarray:
    """Return a series with dips from faint to plain, an unsteady week and bad nights."""
    values, rng = noise(days, 7), np.random.default_rng(8)
    for number, factor in enumerate(FACTORS):
        begin = 24 * (6 + 11 * number) + 3
        values[begin : begin + 3] *= factor
    week = slice(24 * 90, 24 * 97)
    values[week] *= rng.lognormal(0, 0.25, 24 * 7)
    nights = np.arange(24 * days)
    values[(nights % 24 < 3) & (nights // 24 >= 110) & (nights // 24 < 140)] *= 0.7
    return values


@pytest.mark.parametrize(
    "later", ["nothing", "as before", "wide", "five more probes", "a year later"]
)
def test_what_is_over_stays_as_it_was(later: str) -> None:
    first = troubled(160)
    before = {key("hourly"): series.frame(first)}
    then = before[key("hourly")]["at"][-1]
    expected = over(found(before), then)
    assert {each.shape for each in expected} >= {Shape.DIP, Shape.UNSTEADY}
    after = dict(before)
    if later in ("as before", "wide", "a year later"):
        cov = 0.12 if later == "wide" else 0.04
        more = np.concatenate([first, noise(365 if "year" in later else 60, 9, cov)])
        after = {key("hourly"): series.frame(more)}
    if later == "five more probes":
        for number in range(5):
            frame = series.frame(noise(220, 20 + number)).filter(pl.col("at") > then)
            after[key(f"probe{number}")] = frame
    assert over(found(after), then) == expected


def test_what_recurs_for_months_is_one_that_began_when_it_was_seen_to() -> None:
    values, hours = noise(330, 3), np.arange(24 * 330)
    values[(hours % 24 < 3) & (hours // 24 >= 60) & (hours // 24 < 300)] *= 0.7
    whole = series.frame(values)
    begins: set[tuple[str, datetime]] = set()
    for days in (100, 180, 260, 330):
        (nights,) = (
            each
            for each in found({key("hourly"): whole[: 24 * days]})
            if each.shape is Shape.PERIODIC
        )
        begins.add((nights.id, nights.at))
        assert nights.runs == pytest.approx(3 * (min(days, 300) - 60), abs=9)
        assert (nights.until is None) == (days < 300)
    ((_, at),) = begins
    assert abs(at - (series.START + 60 * DAY)) <= DAY


def test_looks_follow_one_another_and_each_run_lies_in_one() -> None:
    hourly, daily = series.frame(noise(400, 1)), series.frame(noise(40, 2)[:400], step_s=86400.0)
    short = series.frame(noise(9, 3))
    frames = {key("hourly"): hourly, key("daily"): daily, key("short"): short}
    judged = [(judge_series(frame, of, changes=STILL), frame) for of, frame in frames.items()]
    now = daily["at"][-1]
    looked = LookedSeries(judged, now)
    for of, frame in frames.items():
        parts = looked.of(of)
        rows = [range(*part.within.indices(part.frame.height)) for part in parts]
        seen = [
            row + part.first for part, within in zip(parts, rows, strict=True) for row in within
        ]
        assert seen == list(range(frame.height))
        for part in parts[1:]:
            since_epoch = part.look.from_ - datetime(1970, 1, 1, tzinfo=UTC)
            assert since_epoch % EVERY == timedelta(0)
            begin = part.first + part.within.start
            earlier = int(frame["at"].search_sorted(part.look.from_ - BEFORE))
            assert part.first == max(0, min(earlier, begin - RUNS_BEFORE))
            assert part.frame.is_empty() or part.frame["at"][-1] <= part.look.to + AFTER
    assert len(looked.of(key("short"))) >= 1
    assert [part.beside for part in looked.of(key("daily"))[-2:]] == [2, 2]  # one is no more


def spell(at: int, last: int, *, goes_on: bool = False, hour: int | None = None) -> Spell:
    times = series.START + at * DAY, series.START + last * DAY
    return Spell(
        Shape.PERIODIC, None, "x", times[0], None if goes_on else times[1], times[1], times[1],
        ChangeStatus.CONFIRMED, 1.0, f"{at}",
        recurs=None if hour is None else Recurrence((0,), hour, hour + 1, "UTC"),
    )  # fmt: skip


def test_one_that_several_looks_see_is_one() -> None:
    edges = [series.START + day * DAY for day in (0, 28, 56, 84)]
    looks = [CalendarLook(a, b, b + AFTER) for a, b in pairwise(edges)]
    seen = [[spell(5, 42, goes_on=True)], [spell(4, 60)], [spell(6, 62), spell(70, 80, hour=3)]]
    one, other = carried(zip(looks, seen, strict=True))
    assert (one.at, one.last, one.until) == (edges[0] + 5 * DAY, *[edges[0] + 62 * DAY] * 2)
    assert other.at == edges[0] + 70 * DAY
    # What only ended in the stretch that an earlier look sees is that look's.
    assert carried(zip(looks, [[], [spell(3, 20)], []], strict=True)) == []
    # At other hours it is another.
    two = carried(zip(looks, [[spell(5, 42, hour=1)], [spell(5, 42, hour=4)], []], strict=True))
    assert len(two) == 2
    # It goes on in the last look alone.
    (ended,) = carried(zip(looks, [[spell(5, 42, goes_on=True)], [], []], strict=True))
    assert ended.until == ended.last

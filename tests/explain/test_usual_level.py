"""What is known of a site: its hours good and bad, what is loaded, usual levels, one moment."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.explain.contexts import hours, plain_context, plain_incident
from tests.explain.worlds import WorldSource, incidents_of, known_of
from tests.support.small_site import SITE, SmallSite, hour
from tests.worlds.of_storage import failover
from tests.worlds.steady import Befalls, steady_world
from tests.worlds.world import World

from trimtab.base.incident import NAMED, Incident, Shape
from trimtab.base.run import Run
from trimtab.base.series import SeriesKey
from trimtab.base.text import key_label
from trimtab.explain.causes import TABLE
from trimtab.explain.context import (
    BAD_TIMES,
    GOOD_TIMES,
    SURVEYS,
    Period,
    Stretches,
    Telemetry,
    around,
    snapshot_times,
    windows_of,
    without,
)
from trimtab.explain.site_explanation import (
    Known,
    context_of,
    explain_incidents,
    explain_moment,
    speeds_at,
    standing_of,
)
from trimtab.probe.incident_search import explain_at
from trimtab.probe.incident_search import incidents_of as kept_incidents
from trimtab.probe.site_judgement import judge_site
from trimtab.site.place import Place
from trimtab.store.store import Store

# Which hours are bad, which they are held against, and which snapshots are loaded.

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


def test_what_began_long_before_and_lasts_is_the_usual_state() -> None:
    """A spread or a drift that has been there for weeks is no reason to compare with nothing."""
    for shape in (Shape.DRIFT, Shape.UNSTEADY):
        lasts = incident(100, None, id="lasts", shape=shape)
        stretches = windows_of(incident(400, 410), frames(), hours(0), NOW, others=[lasts])
        assert stretches.good == (Period(hours(232), hours(399)),)
        recent = replace(lasts, at=hours(300))
        cut = windows_of(incident(400, 410), frames(), hours(0), NOW, others=[recent])
        assert cut.good == (Period(hours(232), hours(300)),)
        # Beside an incident that began somewhere in a gap, the week before the gap counts.
        gap = incident(400, 410, onset=(hours(280), hours(400)))
        before = windows_of(gap, frames(), hours(0), NOW, others=[replace(lasts, at=hours(200))])
        assert before.good[0] == Period(hours(112), hours(200))


def test_where_no_snapshot_is_from_before_those_after_it_count() -> None:
    ended = incident(400, 450, shape=Shape.STEP)
    both = windows_of(ended, frames(), hours(0), NOW, afterwards=True)
    before = windows_of(ended, frames(), hours(0), NOW)
    assert both.good[:1] == before.good
    assert both.good[1] == Period(hours(454), hours(454 + 168))


def test_weeks_of_bad_hours_are_known_by_pairs_from_all_of_them() -> None:
    stretches = windows_of(incident(200, 600, shape=Shape.UNSTEADY), frames(), hours(0), NOW)
    available = [hours(h + 0.1) for h in range(24 * 35)]
    bad = [at for at in snapshot_times(stretches, available, hours(0))
           if stretches.bad[0].holds(at)]  # fmt: skip
    assert len(bad) == BAD_TIMES
    assert (bad[0], bad[-1]) == (hours(200.1), hours(600.1))
    gaps = [later - earlier for earlier, later in itertools.pairwise(bad)]
    assert set(gaps[::2]) == {timedelta(hours=1)}
    assert min(gaps[1::2]) > timedelta(hours=70)
    few = [hours(h) for h in (210, 300, 420)]
    assert [at for at in snapshot_times(stretches, few, hours(700)) if at in few] == few


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


# The usual level of a series, and its name among others of the same probe.

WRITES, READS = (
    SeriesKey(SITE, "hourly", "ior", metric, "B/s")
    for metric in ("write_bandwidth", "read_bandwidth")
)
BEGIN = 50


def usual_at(*incidents: dict[str, Any]) -> dict[str, tuple[float | None, object]]:
    """Return the usual level of writes, lowered from an hour on, and of reads, and its end."""
    frames = {
        key: pl.DataFrame(
            {
                "at": [hours(number) for number in range(300)],
                "value": [lowered if number >= BEGIN else 1e9 for number in range(300)],
                "unfinished": [False] * 300,
            }
        )
        for key, lowered in ((WRITES, 7e8), (READS, 1e9))
    }
    known = Known(SITE, hours(0), hours(299), frames, pl.DataFrame(schema=SURVEYS))
    lasting = [plain_incident(**{"until": None, "shape": Shape.STEP, **more}) for more in incidents]
    speeds = speeds_at(hours(250), known, lasting)
    return {speed.key.metric: (speed.usual, speed.usual_until) for speed in speeds}


def test_figures_that_are_never_credible_take_no_usual_level_away() -> None:
    lowered = {"key": WRITES, "at": hours(BEGIN)}
    alone = usual_at(lowered)
    assert alone["write_bandwidth"] == (1e9, hours(BEGIN))
    assert usual_at(lowered, {"key": None, "at": hours(0)}) == alone


@pytest.mark.parametrize("shape", [Shape.INTEGRITY, Shape.UNSTEADY, Shape.PERIODIC])
def test_what_leaves_the_level_as_it_was_takes_it_away_from_nothing(shape: Shape) -> None:
    assert usual_at({"key": READS, "shape": shape, "at": hours(0)}) == usual_at()


def test_an_incident_ends_the_usual_level_of_what_moved_with_it_and_of_nothing_else() -> None:
    assert usual_at({"key": WRITES, "at": hours(1)})["read_bandwidth"] == (1e9, hours(249))
    both = {"key": WRITES, "at": hours(40), "moved_with": ("hourly read_bandwidth",)}
    assert {until for _, until in usual_at(both).values()} == {hours(40)}


@dataclass
class TwoSizes(SmallSite):
    """A site whose probe runs with 512 tasks, and with 4,096 half an hour later."""

    def _runs(self) -> Iterable[Run]:
        for run in super()._runs():
            for tasks, minutes in ((512, 0), (4096, 30)):
                assert run.at is not None
                at = run.at + timedelta(minutes=minutes)
                spec = {"tasks": tasks, "transfer_size_bytes": 2**20}
                identifier = f"{run.id[:-4]}{tasks:04d}"
                yield replace(run, id=identifier, at=at, until=at, parameters={"spec": spec})


def test_series_of_one_probe_are_named_by_what_tells_them_apart(tmp_path: Path) -> None:
    values = 1e9 * (1 + 0.02 * np.random.default_rng(1).standard_normal(100))
    values[60:] *= 0.7
    path = TwoSizes({"write_bandwidth": values}).keep(tmp_path / "t.db")
    names = {f"hourly write bandwidth (tasks {tasks})" for tasks in ("512", "4,096")}
    place = Place(SITE, None)
    with Store.open(path) as store:
        judged = judge_site(store, place).judgement.series
        assert {key_label(series.key) for series in judged} == names
        speeds = explain_at(store, place, hour(90).isoformat()).speeds
        assert {key_label(speed.key) for speed in speeds} == names
        (explanation,) = kept_incidents(store, place, now=hour(100)).explanations
    key, moved = explanation.incident.key, explanation.incident.moved_with
    assert key is not None
    assert {key.apart, *moved} in (
        {"tasks 512", "hourly write_bandwidth (tasks 4,096)"},
        {"tasks 4,096", "hourly write_bandwidth (tasks 512)"},
    ), "each moved, and neither hides the other"


# A whole site result: what is loaded, one moment, and what was wrong all along.

ONCE = 10**6
"""Hours between trims, longer than any record: it trims on the first day alone."""


@cache
def failed_over() -> tuple[World, Known]:
    """Two weeks of a small site whose servers bind its probe; one failed over on the eighth day."""
    world = steady_world(5, 14, Befalls(failover, 8.0, 30.0))
    return world, known_of(world)


@pytest.mark.calibration
def test_only_a_few_snapshots_are_loaded_for_an_incident() -> None:
    world, known = failed_over()
    incidents = incidents_of(world, known)
    source = WorldSource(world)
    explanations = explain_incidents(incidents, known, source)
    assert [each.incident.id for each in explanations] == [each.id for each in incidents]
    assert source.loaded <= (len(incidents) + 2) * (BAD_TIMES + GOOD_TIMES + 3)
    named = [each for each in explanations if each.causes]
    first = next(each for each in named if each.causes[0].cause == "failover")
    assert not first.unexplained
    assert first.causes[0].confidence > 0.9
    names = {instrument.name for instrument in first.instruments}
    assert names >= {"hourly", "survey of single targets"}


def test_the_snapshot_after_a_short_dip_is_loaded_with_it() -> None:
    """Counters of snapshots four hours apart: what grew in the dip is in the first one after it."""
    dip = plain_incident(at=hours(400), until=hours(401))
    known = Known("s", hours(0), hours(700), {}, pl.DataFrame(schema=SURVEYS))
    loaded: list[datetime] = []

    class Sparse:
        def times(self, since: datetime, until: datetime) -> Sequence[datetime]:
            every_4_h = (hours(h + 0.5) for h in range(0, 700, 4))
            return [at for at in every_4_h if since <= at <= until]

        def frames(self, times: Sequence[datetime]) -> Telemetry:
            loaded.extend(times)
            return plain_context().telemetry

    context_of(dip, known, Sparse())
    assert {hours(396.5), hours(400.5), hours(404.5)} <= {*loaded}


@pytest.mark.calibration
def test_the_same_record_is_explained_alike() -> None:
    world, known = failed_over()
    incidents = incidents_of(world, known)
    once, again = (explain_incidents(incidents, known, WorldSource(world)) for _ in range(2))
    assert once == again


@pytest.mark.calibration
def test_a_moment_tells_what_was_looked_for_whether_anything_was_wrong_or_not() -> None:
    world, known = failed_over()
    for day, wrong in ((4.5, False), (8.5, True)):
        at = known.record_from + timedelta(days=day)
        result = explain_moment(at, known, WorldSource(world))
        every = (*result.causes, *result.cleared, *result.not_assessed)
        assert sorted(each.cause for each in every) == sorted(cause.id for cause in TABLE)
        assert all(each.evidence for each in every)
        names = [cause.cause for cause in result.causes if wrong or cause.confidence >= NAMED]
        assert names[:1] == (["failover"] if wrong else [])
        assert result.incident.at <= at <= (result.incident.until or known.now)
        assert result.incident.shape is Shape.MOMENT


@pytest.mark.calibration
def test_a_moment_at_the_very_beginning_and_end() -> None:
    world, known = failed_over()
    for at in (known.record_from, known.now):
        result = explain_moment(at, known, WorldSource(world))
        assert result.incident.summary.startswith(f"{at:%Y-%m-%d %H:%M}")


@pytest.mark.calibration
@pytest.mark.parametrize("stopped", [True, False])
def test_a_site_that_trims_no_more_has_that_as_a_standing_condition(stopped: bool) -> None:
    world = steady_world(6, 35, share=0.5, trim_every_h=ONCE if stopped else 24)
    conditions = standing_of(known_of(world), WorldSource(world))
    standing = {condition.cause: condition for condition in conditions}
    assert ("trim-overdue" in standing) == stopped
    if stopped:
        assert standing["trim-overdue"].standing
        assert standing["trim-overdue"].measurement


def test_snapshots_around_an_end_show_what_changed_there() -> None:
    hourly = [hours(h) for h in range(24 * 35)]
    assert sorted(around(hourly, hours(400.5))) == [hours(400), hours(401), hours(407)]
    assert sorted(around([hours(200), hours(410), hours(500)], hours(400))) == [hours(410)]
    assert not list(around([], hours(400)))


def test_the_bad_hours_of_what_comes_and_goes_are_those_of_its_slow_runs() -> None:
    """Whether it is told as a dip or as runs that scatter, and whatever the finished ones lost."""
    values = [1.0 + 0.01 * (h % 3) for h in range(24 * 35)]
    for h in (400, 401, 420, 449, 450):
        values[h] = 0.5
    spells = pl.DataFrame({"at": [hours(h) for h in range(24 * 35)], "value": values}).with_columns(
        unfinished=pl.col("at").is_in([hours(430)])
    )
    bad = tuple(
        Period(hours(a), hours(b)) for a, b in ((400, 402), (420, 421), (430, 431), (449, 451))
    )
    for shape, effect in ((Shape.UNSTEADY, None), (Shape.DIP, 0.5), (Shape.DIP, 0.99)):
        of = incident(400, 450, shape=shape, effect=effect)
        stretches = windows_of(of, {KEY: spells}, hours(0), NOW)
        assert stretches.bad == bad
        assert Period(hours(403), hours(419)) in stretches.good
    steady = windows_of(
        incident(400, 450, shape=Shape.STEP, effect=0.5), {KEY: spells}, hours(0), NOW
    )
    assert len(steady.bad) == 1


def test_around_short_spells_snapshots_are_loaded_whichever_it_is() -> None:
    spells = tuple(Period(hours(400 + 24 * n), hours(401 + 24 * n)) for n in range(6))
    available = [hours(8 * n + 4) for n in range(100)]
    times = snapshot_times(Stretches(spells, ()), available, hours(700))
    for spell in spells:
        begin = spell.from_ - timedelta(hours=4)
        assert {begin, begin + timedelta(hours=8)} <= set(times)


def test_the_last_snapshot_before_the_bad_hours_is_loaded() -> None:
    stretches = Stretches((Period(hours(400), hours(500)),), (Period(hours(100), hours(380)),))
    assert hours(399) in snapshot_times(stretches, [hours(n) for n in range(600)], hours(0))

"""One incident for one trouble: found, merged, named, and the same whenever it is found again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.calibration import series
from tests.explain.incidents.frames import READ, WRITE, level
from tests.support.small_site import hour as at

from trimtab.base.incident import Incident, IncidentState, Shape
from trimtab.base.run import RunStatus
from trimtab.base.series import ChangePoint, ChangeStatus, SeriesKey
from trimtab.explain.context import SURVEYS, RunFact
from trimtab.explain.failed_run import BadChecksums
from trimtab.explain.incident_detection import find_troubles
from trimtab.judge.change import LevelChanges
from trimtab.judge.series_analysis import judge_series

HOURS = 24 * 35


def quiet(seed: int, *dips: tuple[int, int, float]) -> pl.DataFrame:
    values = level(seed, cov=0.03, phi=0.5)
    for first, last, factor in dips:
        values[first:last] *= factor
    return series.frame(values)


def change(
    hour: int, effect: float, *, back: bool = False, nothing: bool = False, **more: Any
) -> ChangePoint:
    level = series.LEVEL_BYTES_PER_S
    before, after = (effect * level, level) if back else (level, effect * level)
    values: dict[str, Any] = {
        "at": at(hour), "detected_at": at(hour + 20), "status": ChangeStatus.CONFIRMED,
        "effect": after / before, "effect_interval": None, "before": before, "after": after,
        "n_before": 100, "n_after": 100, "reason": "", "confirmed_at": at(hour + 60),
    }  # fmt: skip
    if nothing:
        values |= {"effect": None, "after": None}
    return ChangePoint(**(values | more))


def merged_of(
    frames: Mapping[SeriesKey, pl.DataFrame],
    changes: Mapping[SeriesKey, Sequence[ChangePoint]] | None = None,
    *,
    surveys: pl.DataFrame | None = None,
    **more: Any,
) -> tuple[Incident, ...]:
    judgements = [
        judge_series(
            frame, key, changes=LevelChanges(tuple((changes or {}).get(key, ())), False, 0.5, 0.05)
        )
        for key, frame in frames.items()
    ]
    return find_troubles(
        judgements, frames, pl.DataFrame(schema=SURVEYS) if surveys is None else surveys,
        site="s", now=at(HOURS), **more,
    ).incidents  # fmt: skip


def test_nothing_happens() -> None:
    assert merged_of({WRITE: quiet(1), READ: quiet(2)}) == ()


def test_a_lasting_step_in_two_series_is_one_incident() -> None:
    frames = {WRITE: quiet(1, (600, HOURS, 0.83)), READ: quiet(2, (600, HOURS, 0.86))}
    (incident,) = merged_of(frames, {WRITE: [change(600, 0.83)], READ: [change(606, 0.86)]})
    assert (incident.key, incident.shape, incident.state) == (WRITE, Shape.STEP, IncidentState.OPEN)
    assert (incident.at, incident.until, incident.detected_at) == (at(600), None, at(620))
    assert incident.effect == pytest.approx(0.83)
    assert incident.moved_with == ("hourly read_bandwidth",)
    assert incident.summary.startswith(
        "since 2026-01-30 00:00 UTC: hourly write_bandwidth 17 % lower"
    )


def test_a_step_is_placed_to_the_run_where_it_can_be() -> None:
    frames = {WRITE: quiet(1, (600, HOURS, 0.6))}
    for hour in (592, 600, 611):
        (incident,) = merged_of(frames, {WRITE: [change(hour, 0.6)]})
        assert incident.at == at(600)


def test_a_step_that_stays_for_two_weeks_is_lasting_and_one_that_goes_is_over() -> None:
    lasting = {WRITE: quiet(1, (300, HOURS, 0.8))}
    (incident,) = merged_of(lasting, {WRITE: [change(300, 0.8)]})
    assert incident.state is IncidentState.LASTING
    gone = {WRITE: quiet(1, (300, 500, 0.8))}
    (incident,) = merged_of(gone, {WRITE: [change(300, 0.8), change(500, 0.8, back=True)]})
    assert (incident.state, incident.shape) == (IncidentState.ENDED, Shape.STEP)
    assert incident.until == at(499)
    short = {WRITE: quiet(1, (300, 330, 0.8))}
    (incident,) = merged_of(short, {WRITE: [change(300, 0.8), change(330, 0.8, back=True)]})
    assert (incident.until, incident.shape) == (at(329), Shape.DIP)


def test_a_change_for_the_better_is_no_incident() -> None:
    assert merged_of({WRITE: quiet(1)}, {WRITE: [change(400, 1.3)]}) == ()
    time = SeriesKey("s", "wrf", "wrf", "write_time", "s", more_is_better=False)
    assert merged_of({time: quiet(1)}, {time: [change(400, 0.8)]}) == ()
    (incident,) = merged_of({time: quiet(1, (400, HOURS, 1.2))}, {time: [change(400, 1.2)]})
    assert "20 % longer" in incident.summary


def test_a_faint_suspect_waits_for_confirmation() -> None:
    faint = {"status": ChangeStatus.SUSPECT, "confirmed_at": None}
    frames = {WRITE: quiet(1, (700, HOURS, 0.97))}
    assert merged_of(frames, {WRITE: [change(700, 0.97, **faint)]}) == ()
    assert len(merged_of(frames, {WRITE: [change(700, 0.97)]})) == 1
    assert len(merged_of(frames, {WRITE: [change(700, 0.9, **faint)]})) == 1
    dismissed = change(700, 0.9, dismissed_at=at(800), **faint)
    assert merged_of(frames, {WRITE: [dismissed]}) == ()


def test_a_cascade_shows_its_stages() -> None:
    frames = {
        WRITE: quiet(1, (600, HOURS, 0.8), (618, HOURS, 0.7)),
        READ: quiet(2, (600, 604, 0.5)),
    }
    changes = {WRITE: [change(600, 0.8), change(618, 0.7, before=0.8e11, after=0.56e11)]}
    (incident,) = merged_of(frames, changes)
    assert [stage.at for stage in incident.stages] == [at(600), at(618)]
    assert [stage.what for stage in incident.stages] == [
        "hourly read_bandwidth 50 % lower; hourly write_bandwidth 20 % lower",
        "hourly write_bandwidth 30 % lower",
    ]
    together = {WRITE: quiet(1, (600, HOURS, 0.8)), READ: quiet(2, (600, HOURS, 0.8))}
    (incident,) = merged_of(together, {WRITE: [change(600, 0.8)], READ: [change(603, 0.8)]})
    assert incident.stages == ()


def test_a_level_without_a_ratio_is_an_incident_too() -> None:
    frame = quiet(1).with_columns(
        value=pl.when(pl.int_range(pl.len()) >= 700).then(None).otherwise("value"),
        unfinished=pl.int_range(pl.len()) >= 700,
    )
    (incident,) = merged_of({WRITE: frame}, {WRITE: [change(700, 0.5, nothing=True)]})
    assert (incident.at, incident.effect, incident.unfinished) == (at(700), None, HOURS - 700)


def test_dips_near_each_other_are_one_and_others_are_not() -> None:
    frames = {WRITE: quiet(1, (500, 504, 0.3), (700, 702, 0.3)), READ: quiet(2, (501, 504, 0.4))}
    later, earlier = merged_of(frames)
    assert (earlier.at, earlier.until) == (at(500), at(503))
    assert earlier.moved_with == ("hourly read_bandwidth",)
    assert (later.at, later.until) == (at(700), at(701))
    assert later.unmoved == ("hourly read_bandwidth",)


def test_a_dip_within_a_lasting_step_is_its_own_incident() -> None:
    frames = {WRITE: quiet(1, (300, HOURS, 0.8), (600, 604, 0.3))}
    dip, step = merged_of(frames, {WRITE: [change(300, 0.8)]})
    assert (dip.at, dip.shape) == (at(600), Shape.DIP)
    assert (step.at, step.until) == (at(300), None)


def surveys(slow: Mapping[int, Mapping[str, float]], days: int = 20) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    rows = [
        (
            at(24 * day + 1), f"survey{day}", f"OST{n:04x}", "write_bandwidth",
            20e9 * slow.get(day, {}).get(f"OST{n:04x}", 1.0) * rng.normal(1, 0.03),
        )
        for day in range(days)
        for n in range(24)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=SURVEYS, orient="row")


def test_a_slow_target_that_no_probe_saw() -> None:
    rows = surveys({day: {"OST0003": 0.6} for day in (10, 11, 12)})
    (incident,) = merged_of({WRITE: quiet(1)}, surveys=rows)
    assert (incident.targets, incident.key) == (("OST0003",), None)
    assert (incident.at, incident.until) == (at(241), at(289))
    assert incident.detected_at == at(265), "one survey at 60 % is not enough, two are"
    assert incident.unmoved == ("hourly write_bandwidth",)
    (crawls,) = merged_of({WRITE: quiet(1)}, surveys=surveys({10: {"OST0003": 0.01}}))
    assert crawls.at == crawls.until == crawls.detected_at == at(241)


def test_all_targets_slow_alike_though_no_probe_saw_it() -> None:
    everyone = {f"OST{n:04x}": 0.5 for n in range(24)}
    rows = surveys({day: everyone for day in (10, 11, 12)})
    (incident,) = merged_of({WRITE: quiet(1)}, surveys=rows)
    assert (incident.at, incident.until, incident.targets) == (at(241), at(289), ())
    assert "median target of surveys write_bandwidth down to 5" in incident.summary
    once = surveys({10: {name: 0.8 for name in everyone}})
    assert merged_of({WRITE: quiet(1)}, surveys=once) == ()


def test_targets_that_scatter_make_no_incident() -> None:
    assert merged_of({}, surveys=surveys({})) == ()
    assert merged_of({}, surveys=surveys({10: {"OST0003": 0.7}})) == ()
    always = {day: {"OST0003": 0.6} for day in range(20)}
    assert merged_of({}, surveys=surveys(always)) == ()


def test_a_target_and_the_probe_that_it_slows_are_one() -> None:
    rows = surveys({20: {"OST0003": 0.02}}, days=35)
    (incident,) = merged_of({WRITE: quiet(1, (475, 490, 0.2))}, surveys=rows)
    assert incident.key == WRITE
    assert incident.targets == ("OST0003",)
    assert incident.moved_with == ("surveys of single targets",)


def run(hour: int, status: RunStatus, **more: Any) -> RunFact:
    return RunFact(f"run{hour}", at(hour), None, "hourly", "ior", "", status, **more)


def test_runs_that_gave_nothing() -> None:
    runs = [
        run(hour, RunStatus.FAILED if 400 <= hour < 405 else RunStatus.OK) for hour in range(HOURS)
    ]
    (incident,) = merged_of({WRITE: quiet(1)}, runs=runs)
    assert (incident.at, incident.until, incident.runs) == (at(400), at(404), 5)
    assert "5 runs failed" in incident.summary
    alone = [
        run(hour, RunStatus.FAILED if hour in (400, 600) else RunStatus.OK) for hour in range(HOURS)
    ]
    assert merged_of({WRITE: quiet(1)}, runs=alone) == ()
    doubted = [run(hour, RunStatus.OK, disbelieved=("cached",)) for hour in (100, 200, 201)]
    assert merged_of({WRITE: quiet(1)}, runs=[*doubted, run(HOURS, RunStatus.OK)]) == ()


def test_bad_checksums_are_told_at_once_and_by_themselves() -> None:
    bad = [BadChecksums(at(500), "oss001", 3), BadChecksums(at(501), "oss002", 1)]
    incidents = merged_of({WRITE: quiet(1, (500, 504, 0.3))}, bad_checksums=bad)
    assert sorted(incident.shape for incident in incidents) == [Shape.DIP, Shape.INTEGRITY]
    integrity = next(incident for incident in incidents if incident.shape is Shape.INTEGRITY)
    assert integrity.detected_at == at(500)
    assert "4 transfers with a bad checksum, on oss001, oss002" in integrity.summary
    assert merged_of({WRITE: quiet(1)}, bad_checksums=[BadChecksums(at(500), "oss001", 0)]) == ()


@pytest.mark.parametrize("cov", [0.13, 0.16, 0.25])
def test_spread_is_one_incident_whatever_its_size(cov: float) -> None:
    values = level(1, cov=0.03, phi=0.3)
    values[400:560] = level(2, cov=cov, phi=0.3)[400:560]
    (incident,) = merged_of({WRITE: series.frame(values)})
    assert incident.shape is Shape.UNSTEADY
    assert at(352) <= incident.at <= at(450)
    assert "COV " in incident.summary


def test_a_series_that_always_scatters_more_than_its_goal_is_not_unsteady() -> None:
    for seed in range(4):
        assert merged_of({WRITE: series.frame(level(seed, cov=0.11, phi=0.3))}) == ()


def test_one_dip_is_a_dip_though_the_windows_that_hold_it_miss_the_goal() -> None:
    (incident,) = merged_of({WRITE: quiet(1, (500, 508, 0.4))})
    assert (incident.shape, incident.at, incident.until) == (Shape.DIP, at(500), at(507))


def test_an_incident_has_the_same_id_whenever_it_is_found() -> None:
    frames = {WRITE: quiet(1, (500, 504, 0.3))}
    (incident,) = merged_of(frames)
    (again,) = merged_of({WRITE: frames[WRITE].head(700)})
    assert incident.id == again.id
    assert len({incident.id, *(other.id for other in merged_of({READ: frames[WRITE]}))}) == 2

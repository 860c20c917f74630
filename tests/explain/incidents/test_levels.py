"""Levels that fell, at once or by degrees, are in an incident for as long as they last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.calibration import series
from tests.explain.incidents.frames import WRITE, found, level
from tests.support.counts import repetitions
from tests.support.narrow import present
from tests.support.small_site import HOUR, SITE, SmallSite, hour

from trimtab.base.incident import Incident, IncidentState, Shape
from trimtab.base.series import ChangePoint, ChangeStatus, SeriesJudgement
from trimtab.base.verdict import Interval, TrendDirection
from trimtab.explain.incident_detection import find_troubles
from trimtab.explain.worse_level import drift
from trimtab.judge.series_analysis import judge_series
from trimtab.probe.site_judgement import judge_site
from trimtab.site.place import Place
from trimtab.store.store import Store

# A level that falls over hours or days is one incident, as deep as it fell and as long.

FALLS = 400
"""Hour at which the level begins to fall."""


def falling(seed: int, over_h: int, share: float, lasts_h: int | None = None) -> np.ndarray:
    """Return a series that falls to a share over some hours, and is back after ``lasts_h``."""
    values = level([seed, over_h])
    since = np.arange(len(values)) - FALLS
    factor = np.interp(since, [0, over_h], [1.0, share])
    if lasts_h is not None:
        factor = np.where(since < lasts_h, factor, 1.0)
    return values * factor


@pytest.mark.calibration
@pytest.mark.parametrize("over_h", [6, 12, 24, 36, 48])
@pytest.mark.parametrize("lasts_h", [None, 144])
@pytest.mark.parametrize("seeds", repetitions(gate=1, soak=3))
def test_a_fall_over_hours_is_reported_whole(over_h: int, lasts_h: int | None, seeds: int) -> None:
    """The levels during the fall are uncertain, those before and after it are not."""
    for share in (0.9, 0.75, 0.5):
        for seed in range(seeds):
            deepest, *_ = sorted(
                found({WRITE: series.frame(falling(seed, over_h, share, lasts_h))}).incidents[::-1],
                key=lambda incident: incident.effect or 1.0,
            )
            assert deepest.shape in {Shape.STEP, Shape.DRIFT}
            assert deepest.effect == pytest.approx(share, rel=0.08)
            assert abs(deepest.at - hour(FALLS)) <= max(over_h, 12) * HOUR
            if lasts_h is None:
                assert deepest.until is None
            else:
                assert abs(present(deepest.until) - hour(FALLS + lasts_h)) <= 12 * HOUR


@pytest.mark.parametrize("lasts_h", [60, 100, 144, 200])
def test_the_recovery_from_a_step_is_no_incident(lasts_h: int) -> None:
    """The windows that hold the end of a step spread as those that hold its beginning."""
    (step,) = found({WRITE: series.frame(falling(1, 0, 0.5, lasts_h))}).incidents
    assert (step.shape, step.at) == (Shape.STEP, hour(FALLS))


# Losses in one direction: one drift with its total where they are gradual, steps where not.

DAYS = 70


def shaped(shape: Callable[[np.ndarray], np.ndarray], seed: int) -> pl.DataFrame:
    """Return a series with a shape of its level, day by day."""
    return series.frame(level(seed, DAYS) * shape(np.arange(24 * DAYS) / 24))


def lasting_incidents(frame: pl.DataFrame) -> list[Incident]:
    incidents = found({WRITE: frame}).incidents
    return [entry for entry in incidents if entry.shape in (Shape.STEP, Shape.DRIFT)]


def line(first: float, last: float, share: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda days: 1 - (1 - share) * np.clip((days - first) / (last - first), 0, 1)


def stairs(*steps: tuple[float, float]) -> Callable[[np.ndarray], np.ndarray]:
    def shape(days: np.ndarray) -> np.ndarray:
        values = np.ones(len(days))
        for day, share in steps:
            values[days >= day] *= share
        return values

    return shape


@pytest.mark.calibration
@pytest.mark.parametrize(("share", "last"), [(0.85, 55), (0.7, 35)])
def test_a_gradual_loss_is_one_drift_with_its_total(share: float, last: int) -> None:
    whole = 0
    for seed in range(4):
        lasting = lasting_incidents(shaped(line(20, last, share), seed))
        drifts = [incident for incident in lasting if incident.shape is Shape.DRIFT]
        whole += (
            len(lasting) == 1
            and len(drifts) == 1
            and drifts[0].until is None
            and abs((drifts[0].effect or 0) - share) < 0.03
        )
    assert whole >= 3


@pytest.mark.calibration
def test_steps_stay_steps() -> None:
    kept = 0
    for seed in range(6):
        frame = shaped(stairs((25, 0.85), (36, 0.85)), seed)
        changes = judge_series(frame, WRITE).changes
        assert [change.status for change in changes].count(ChangeStatus.CONFIRMED) >= 2
        shapes = sorted(incident.shape for incident in lasting_incidents(frame))
        kept += shapes == [Shape.STEP, Shape.STEP]
    assert kept >= 5


@pytest.mark.calibration
def test_a_drift_that_recovers_has_ended() -> None:
    def shape(days: np.ndarray) -> np.ndarray:
        return np.where(days < 55, line(20, 50, 0.75)(days), 1.0)

    lasting = lasting_incidents(shaped(shape, 1))
    (drift,) = [incident for incident in lasting if incident.shape is Shape.DRIFT]
    assert abs(present(drift.until) - hour(24 * 55)) <= hour(24) - hour(0)


# Levels that are no trouble: a usual one that is back, and one that hardly differs.


def told(shape: Callable[[np.ndarray], np.ndarray], cov: float = 0.02) -> list[float]:
    """Return on which days the lasting incidents of a series begin, rounded."""
    values = level(7, DAYS, cov) * shape(np.arange(24 * DAYS) / 24)
    incidents = found({WRITE: series.frame(values)}).incidents
    return sorted(round((incident.at - hour(0)) / (24 * HOUR)) for incident in incidents)


def test_the_end_of_better_days_is_no_incident() -> None:
    """While users are on holiday a probe has the file system for itself."""
    assert told(stairs((30, 1.09), (39, 1 / 1.09))) == []
    assert told(stairs((30, 1.09), (39, 0.9 / 1.09))) == [39]


def test_the_end_of_better_weeks_is_one() -> None:
    assert told(stairs((20, 1.09), (48, 1 / 1.09))) == [48]


def test_a_trouble_that_comes_back_is_told_again() -> None:
    assert told(stairs((25, 0.85), (31, 1 / 0.85), (35, 0.85))) == [25, 35]


def test_hours_that_lost_less_than_a_twentieth_are_no_dip() -> None:
    day = stairs((40, 0.97), (41.5, 1 / 0.97))
    changes = judge_series(
        series.frame(level(7, DAYS, 0.01) * day(np.arange(24 * DAYS) / 24)), WRITE
    )
    assert [change.status for change in changes.changes] == [ChangeStatus.CONFIRMED] * 2
    assert told(day, 0.01) == []
    assert told(stairs((40, 0.9), (41.5, 1 / 0.9)), 0.01) == [40]


@pytest.mark.parametrize(("low", "high", "drifts"), [(-0.01, -0.0004, 0), (-0.007, -0.003, 1)])
def test_a_trend_that_is_hardly_certain_is_no_drift(low: float, high: float, drifts: int) -> None:
    frame = series.frame(level(3))
    judgement = judge_series(frame, WRITE)
    trend = replace(
        judgement.trend,
        direction=TrendDirection.FALLING,
        from_=hour(0),
        to=hour(24 * 30),
        change_per_day=-0.005,
        change_per_day_interval=Interval(low, high, 0.95),
    )
    assert len(list(drift(replace(judgement, trend=trend, changes=())))) == drifts


# Whatever happens beside it: a confirmed change for the worse is in an incident while it lasts.

EVERY_DAYS = 40
PLACED = timedelta(hours=24)
"""How well the beginning of a change is known."""
METRICS = ("write_bandwidth", "read_bandwidth")


def kept(folder: Path, site: SmallSite) -> tuple[tuple[SeriesJudgement, ...], list[Incident]]:
    """Return what is judged of a site, and its incidents, both from a store."""
    with Store.open(site.keep(folder / "small.db")) as store:
        judged = judge_site(store, Place(SITE, None))
    assert judged.surveys is not None
    incidents = find_troubles(
        judged.judgement.series, judged.frames, judged.surveys, site=SITE, now=hour(24 * EVERY_DAYS)
    ).incidents
    return judged.judgement.series, list(incidents)


def worse(judgement: SeriesJudgement) -> list[tuple[ChangePoint, datetime | None]]:
    """Return the confirmed changes for the worse with what ended them: half of it was back.

    Where the interval comes within half a per cent of 1 the level itself may not have changed: some
    runs were lost, or a dip is over.
    """
    confirmed = [change for change in judgement.changes if change.status is ChangeStatus.CONFIRMED]
    lasting = []
    for place, change in enumerate(confirmed):
        interval = change.effect_interval
        if change.before is None or (interval is not None and interval.high >= 0.995):
            continue
        if change.after is not None and (change.after >= change.before or interval is None):
            continue
        middle = (change.before + (change.after or 0.0)) / 2
        back = [later.at for later in confirmed[place + 1 :] if (later.after or 0.0) >= middle]
        lasting.append((change, back[0] if back else None))
    return lasting


def holds(incident: Incident, change: ChangePoint, back: datetime | None) -> bool:
    """Return whether an incident is there for as long as a change is."""
    if incident.at > change.at + PLACED:
        return False
    if incident.until is None or back is None:
        return incident.until is None
    return incident.until >= back - PLACED


def check(site: SmallSite) -> None:
    with TemporaryDirectory() as folder:
        judged, incidents = kept(Path(folder), site)
    for judgement in judged:
        for change, back in worse(judgement):
            assert any(holds(incident, change, back) for incident in incidents), (
                judgement.key.metric, str(change.reason), change.at, back,
                [incident.summary for incident in incidents],
            )  # fmt: skip


@pytest.mark.calibration
@pytest.mark.parametrize("beside", [-2, 0, 1, 6, 20])
def test_a_run_that_did_not_finish_ends_no_step(tmp_path: Path, beside: int) -> None:
    values = {name: level(seed, EVERY_DAYS) for seed, name in enumerate(METRICS)}
    for row in values.values():
        row[500:] *= 0.59
        row[500 + beside] = np.nan
    judged, incidents = kept(tmp_path, SmallSite(values))
    assert all(worse(judgement) for judgement in judged)
    going_on = [incident for incident in incidents if incident.until is None]
    (step,) = going_on
    assert step.state in (IncidentState.OPEN, IncidentState.LASTING)
    assert abs(step.at - hour(500)) <= PLACED
    assert step.effect == pytest.approx(0.59, abs=0.03)


def test_a_faint_level_that_outlasts_a_deep_dip_is_told() -> None:
    write, read = level(1, EVERY_DAYS), level(2, EVERY_DAYS)
    write[500:506] *= 0.1
    read[500:] *= 0.9
    check(SmallSite({"write_bandwidth": write, "read_bandwidth": read}))


def test_runs_that_stop_finishing_are_a_change_though_the_others_are_as_fast(
    tmp_path: Path,
) -> None:
    values = level(3, EVERY_DAYS)
    rng = np.random.default_rng(4)
    values[500:][rng.random(len(values) - 500) < 0.6] = np.nan
    judged, incidents = kept(tmp_path, SmallSite({"write_bandwidth": values}))
    assert any(change.status is ChangeStatus.CONFIRMED for change in judged[0].changes)
    going_on = [incident for incident in incidents if incident.until is None]
    assert any("did not finish" in incident.summary for incident in going_on)


happenings = st.tuples(
    st.sampled_from(["step", "step", "stay", "lost", "losses", "dip", "both"]),
    st.integers(24 * 8, 24 * EVERY_DAYS - 24 * 6),  # from this hour on
    st.floats(0.3, 0.95),  # to this share
    st.integers(2, 24 * 12),  # for so many hours
    st.sampled_from(METRICS),
)


def made(seed: int, cov: float, what: list[tuple[str, int, float, int, str]]) -> SmallSite:
    """Return a site in which these things happen."""
    values = {name: level(seed + place, EVERY_DAYS, cov) for place, name in enumerate(METRICS)}
    lost = []
    for sort, begin, share, length, metric in what:
        row = values[metric]
        match sort:
            case "step":
                row[begin:] *= share
            case "stay":
                row[begin : begin + 48 + length] *= share
            case "both":
                for other in values.values():
                    other[begin : begin + 48 + length] *= share
            case "dip":
                row[begin : begin + min(length, 30)] *= share**3
            case "lost":
                lost.append(slice(begin, begin + 1))
            case _:
                lost.append(slice(begin, begin + min(length, 30)))
    for part in lost:
        for row in values.values():
            row[part] = np.nan
    return SmallSite(values)


@pytest.mark.calibration
@settings(
    max_examples=settings().max_examples // 4,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
@given(
    seed=st.integers(0, 10**6),
    cov=st.sampled_from([0.01, 0.03, 0.06, 0.1]),
    what=st.lists(happenings, min_size=1, max_size=5),
)
@example(
    827, 0.01,
    [("losses", 192, 0.3, 30, METRICS[1]), ("step", 371, 0.9, 9, METRICS[0]),
     ("both", 218, 0.91, 288, METRICS[1]), ("both", 218, 0.91, 288, METRICS[1])],
)  # fmt: skip
@example(
    1852, 0.01,
    [("losses", 287, 0.3, 30, METRICS[0]), ("step", 413, 0.937, 2, METRICS[0]),
     ("step", 454, 0.4, 2, METRICS[0]), ("losses", 214, 0.3, 30, METRICS[0])],
)  # fmt: skip
@example(4298, 0.1, [("losses", 816, 0.685, 12, METRICS[0]), ("dip", 333, 0.5, 28, METRICS[0])])
@example(1, 0.04, [("both", 500, 0.59, 200, "write_bandwidth"), ("lost", 502, 0.5, 2, METRICS[0])])
def test_every_confirmed_change_for_the_worse_is_in_an_incident_while_it_lasts(
    seed: int, cov: float, what: list[tuple[str, int, float, int, str]]
) -> None:
    check(made(seed, cov, what))

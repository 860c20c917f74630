"""Spread and losses of runs that last: one open incident, and none where nothing changed."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from tests.calibration import series
from tests.explain.incidents.frames import READ, WRITE, found, level
from tests.support.counts import repetitions
from tests.support.small_site import HOUR, hour

from trimtab.base.incident import Incident, IncidentState, Shape
from trimtab.base.run import RunStatus
from trimtab.base.verdict import VerdictStatus
from trimtab.explain.context import RunFact
from trimtab.explain.incident_detection import Troubles
from trimtab.judge.change import LevelChanges
from trimtab.judge.series_analysis import judge_series

DAYS, SINCE = 84, 50
STILL = LevelChanges((), False, 0.4, 0.05)
PLACED = timedelta(days=3)


def wider(seed: int, phi: float, *, until: int = DAYS, days: int = DAYS) -> np.ndarray:
    """Return an hourly series whose COV goes from 4.5 to 15 % on day 50."""
    rng = np.random.default_rng([seed, round(10 * phi)])
    day = np.arange(24 * days) / 24
    covs = np.where((day >= SINCE) & (day < until), 0.15, 0.045)
    noise = series.ar1(len(covs), phi, rng)
    return series.LEVEL_BYTES_PER_S * np.exp(np.sqrt(np.log1p(covs**2)) * noise)


def losing(seed: int, rates: tuple[float, ...], *, days: int = DAYS) -> pl.DataFrame:
    """Return an hourly series of which these shares do not finish: before day 50, since, later."""
    rng = np.random.default_rng([seed, 12])
    hours = np.arange(24 * days)
    part = np.searchsorted([24 * SINCE, 24 * (SINCE + 20)], hours, side="right")
    lost = rng.random(len(hours)) < np.array([*rates, *rates[-1:] * 2])[part]
    return series.frame(level(seed, days), lost.astype(float))


def since_day_50(troubles: Troubles) -> Incident:
    """Return the only incident since day 40, which has been open since day 50."""
    (incident,) = (each for each in troubles.incidents if each.at > hour(24 * 40))
    assert (incident.until, incident.state) == (None, IncidentState.OPEN)
    assert abs(incident.at - hour(24 * SINCE)) <= PLACED
    return incident


@pytest.mark.parametrize("phi", [0.0, 0.5])
@pytest.mark.parametrize("trials", repetitions(2, 40, pytest.mark.calibration))
def test_a_series_that_scatters_more_since_a_day_is_one_open_incident(
    phi: float, trials: int
) -> None:
    for seed in range(trials):
        frame = series.frame(wider(seed, phi))
        judged = judge_series(frame, WRITE, changes=STILL)
        assert judged.verdict.status is VerdictStatus.MISSED or phi
        incident = since_day_50(found({WRITE: frame}, changes=STILL))
        assert incident.shape is Shape.UNSTEADY
        assert "before" in incident.summary
        earlier = since_day_50(found({WRITE: frame.head(24 * 70)}, changes=STILL))
        assert (earlier.id, earlier.at) == (incident.id, incident.at)


def test_a_wide_spread_that_is_over_has_ended() -> None:
    (incident,) = found({WRITE: series.frame(wider(1, 0.5, until=70))}, changes=STILL).incidents
    assert abs((incident.until or hour(0)) - hour(24 * 70)) <= PLACED
    assert abs(incident.at - hour(24 * SINCE)) <= PLACED


def test_a_deep_dip_in_a_wide_spread_is_an_incident_of_its_own() -> None:
    values = wider(2, 0.0)
    values[24 * 70 : 24 * 70 + 6] *= 0.2
    dip, lasting = found({WRITE: series.frame(values)}, changes=STILL).incidents
    assert (dip.at, dip.shape) == (hour(24 * 70), Shape.DIP)
    assert (lasting.shape, lasting.until) == (Shape.UNSTEADY, None)


@pytest.mark.parametrize("rates", [(0.003, 0.12), (0.01, 0.12), (0.003, 0.06)])
@pytest.mark.parametrize("trials", repetitions(2, 40, pytest.mark.calibration))
def test_runs_that_are_lost_more_often_since_a_day_are_one_open_incident(
    rates: tuple[float, float], trials: int
) -> None:
    right = 0
    for seed in range(trials):
        frame = losing(seed, rates)
        late = [each for each in found({WRITE: frame}).incidents if each.at > hour(24 * 40)]
        begins = [abs(each.at - hour(24 * SINCE)) <= PLACED for each in late]
        right += begins == [True] and late[0].until is None
        assert "of runs did not finish, " in late[-1].summary
    assert right >= 0.9 * trials - 1


def test_failed_runs_are_losses_like_unfinished_ones() -> None:
    rng = np.random.default_rng(8)
    failed = rng.random(24 * DAYS) < np.where(np.arange(24 * DAYS) < 24 * SINCE, 0.003, 0.12)
    runs = [
        RunFact(f"run{at}", hour(at), None, "hourly", "ior", "",
                RunStatus.FAILED if failed[at] else RunStatus.OK)
        for at in range(24 * DAYS)
    ]  # fmt: skip
    frame = series.frame(level(3, DAYS)).filter(pl.Series(~failed))
    incident = since_day_50(found({WRITE: frame}, runs=runs))
    assert incident.unfinished > 60


def test_two_metrics_of_one_probe_lose_the_same_runs_once() -> None:
    frame = losing(4, (0.003, 0.12))
    since_day_50(found({WRITE: frame, READ: frame}))


def test_a_rate_that_is_as_before_again_has_ended() -> None:
    frame = losing(5, (0.003, 0.15, 0.003), days=100)
    lasting = [
        each
        for each in found({WRITE: frame}).incidents
        if "of runs did not finish, " in each.summary
    ]
    (incident,) = lasting
    assert abs((incident.until or hour(0)) - hour(24 * (SINCE + 20))) <= PLACED


def test_half_a_day_without_a_run_in_it_is_an_incident_of_its_own() -> None:
    frame = losing(6, (0.003, 0.12))
    out = (pl.int_range(pl.len()) >= 24 * 75) & (pl.int_range(pl.len()) < 24 * 75 + 12)
    frame = frame.with_columns(
        unfinished=pl.col("unfinished") | out, value=pl.when(out).then(None).otherwise("value")
    )
    outage, lasting = found({WRITE: frame}).incidents[:2]
    assert abs(outage.at - hour(24 * 75)) <= 6 * HOUR
    assert (lasting.until, lasting.shape) == (None, Shape.STEP)


def test_single_low_runs_among_lost_ones_are_no_incident_of_their_own() -> None:
    frame = losing(1, (0.003, 0.15))
    lost = np.flatnonzero(frame["unfinished"].to_numpy() > 0)
    alone = [place + 1 for place in lost[20::12] if place + 1 not in lost]
    low = pl.int_range(pl.len()).is_in(alone)
    slower = frame.with_columns(
        pl.when(low).then(pl.col("value") * 0.6).otherwise("value").alias("value")
    )
    since_day_50(found({WRITE: slower}))


def test_low_hours_among_lost_runs_are_an_incident_of_their_own() -> None:
    frame = losing(1, (0.003, 0.15))
    within = pl.int_range(pl.len()).is_between(24 * 70, 24 * 70 + 7)
    low = frame.with_columns(
        pl.when(within).then(pl.col("value") * 0.6).otherwise("value").alias("value")
    )
    dip, lasting = found({WRITE: low}).incidents
    assert abs(dip.at - hour(24 * 70)) <= timedelta(hours=2)
    assert (dip.shape, lasting.until) == (Shape.DIP, None)


@pytest.mark.parametrize(("share", "told"), [(0.94, 1), (0.6, 2)])
def test_a_lesser_loss_days_after_runs_began_to_be_lost_is_the_same_trouble(
    share: float, told: int
) -> None:
    frame = losing(3, (0.003, 0.17))
    since = pl.int_range(pl.len()) >= 24 * (SINCE + 5)
    slower = frame.with_columns(
        pl.when(since).then(pl.col("value") * share).otherwise("value").alias("value")
    )
    assert len(found({WRITE: slower}).incidents) == told


@pytest.mark.parametrize("share", [0.003, 0.03])
@pytest.mark.parametrize("trials", repetitions(2, 60, pytest.mark.calibration))
def test_losses_at_a_steady_rate_are_no_incident(share: float, trials: int) -> None:
    for seed in range(trials):
        incidents = found({WRITE: losing(seed, (share,))}, changes=STILL).incidents
        assert not any("of runs did not finish, " in each.summary for each in incidents)


@pytest.mark.parametrize(
    ("kind", "phi", "cov"), [("normal", 0.5, 0.12), ("t3", 0.5, 0.1), ("normal", 0.8, 0.079)]
)
def test_a_steady_spread_is_no_incident(kind: str, phi: float, cov: float) -> None:
    for seed in range(3):
        rng = np.random.default_rng([seed, round(100 * cov)])
        values = series.lognormal(series.ar1(24 * 120, phi, rng, innovations=kind), cov=cov)
        incidents = found({WRITE: series.frame(values)}, changes=STILL).incidents
        assert not any("before" in each.summary for each in incidents)

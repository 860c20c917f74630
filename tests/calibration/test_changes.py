"""Changes of level: rarely told where there is none, soon told where there is one.

What is claimed, of hourly series (docs/calibration.md has the full counts):

- where nothing happens, at most one false confirmed change and 12 false suspects a series-year;
- a lasting step of 8 % under noise of COV 5 % and autocorrelation 0.5 is suspected within 36 h and
  confirmed within 96 h in nine series of ten; one of 4 % is confirmed within two weeks in eight.

The gate takes few series, always the same ones, so that no result hangs on luck; `make soak` takes
many. A count fails only where it speaks against the claim: where, were the claim just true, so
bad a count had a chance under 5 %. With the few series of the gate that finds what is badly
wrong (twice the false alarms pooled, six hits in ten), and `make soak` what is a little wrong.
"""

import math
from functools import cache

import pytest
from tests.calibration.changes import (
    alarms,
    poisson_at_most,
    speaks_against_rate,
    speaks_against_share,
    told,
)
from tests.calibration.series import KINDS, PHIS, null_cases, real_residuals, step_cases
from tests.support.counts import repetitions

YEARS = repetitions(gate=1, soak=10)
STEPS = repetitions(gate=12, soak=200)
CONFIRMED_PER_YEAR, SUSPECTS_PER_YEAR = 1.0, 12.0


@cache
def told_of(step, seed):
    """Return what is told of a step; two tests ask for the same ones."""
    (case,) = step_cases(steps=(step,))
    return told(case, seed)


@cache
def found_in(name, series_years):
    (case,) = (one for one in null_cases() if one.name == name)
    return alarms(case, range(1000, 1000 + series_years))


def hold_few(found):
    """Require few false alarms, all series together."""
    years = sum(one.series_years for one in found)
    confirmed, suspects = (sum(one.confirmed for one in found), sum(one.suspects for one in found))
    assert not speaks_against_rate(confirmed, CONFIRMED_PER_YEAR * years), (confirmed, years)
    assert not speaks_against_rate(suspects, SUSPECTS_PER_YEAR * years), (suspects, years)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("series_years", YEARS)
def test_where_nothing_happens_little_is_told(kind, series_years):
    """Each kind of noise, all autocorrelations together: four series-years in the gate."""
    hold_few([found_in(f"{kind}, phi {phi}", series_years) for phi in PHIS])


@pytest.mark.parametrize("phi", PHIS)
@pytest.mark.parametrize("series_years", YEARS)
def test_nor_at_any_autocorrelation(phi, series_years):
    """The same series the other way round: six series-years of each autocorrelation."""
    hold_few([found_in(f"{kind}, phi {phi}", series_years) for kind in KINDS])


@pytest.mark.parametrize("series_years", YEARS)
def test_nor_under_the_noise_of_real_systems(series_years):
    if not real_residuals():
        pytest.skip("no recorded data (set TRIMTAB_REAL_DATA)")
    (case,) = (one for one in null_cases() if one.kind == "tokio")
    hold_few([alarms(case, range(2 * series_years))])


@pytest.mark.parametrize("step", [-0.08, 0.08])
@pytest.mark.parametrize("steps", STEPS)
def test_eight_per_cent_is_suspected_in_36_hours_and_confirmed_in_96(step, steps):
    hits = sum(told_of(step, seed).within(36, 96) for seed in range(steps))
    assert not speaks_against_share(hits, steps, 0.9), hits


@pytest.mark.parametrize("step", [-0.04, 0.04])
@pytest.mark.parametrize("steps", STEPS)
def test_four_per_cent_is_confirmed_in_two_weeks(step, steps):
    hits = sum(told_of(step, seed).within(math.inf, 14 * 24) for seed in range(steps))
    assert not speaks_against_share(hits, steps, 0.8), hits


@pytest.mark.parametrize("steps", STEPS)
def test_what_is_told_of_a_step_is_about_its_size(steps):
    effects = [effect for seed in range(steps) if (effect := told_of(-0.08, seed).effect)]
    assert sum(effects) / len(effects) == pytest.approx(0.92, abs=0.015)


def test_the_bounds_are_those_of_poisson_and_binomial():
    assert poisson_at_most(0, 3.0) == pytest.approx(math.exp(-3))
    assert [speaks_against_rate(count, 4.0) for count in (0, 8, 9)] == [False, False, True]
    against = [speaks_against_share(hits, 16, 0.9) for hits in (16, 13, 12, 11)]
    assert against == [False, False, False, True]

"""The series have the properties that they are named for: else nothing said of them holds."""

import numpy as np
import polars as pl
import pytest
from tests.calibration import series

HOURS = 20_000  # standard errors of a lag-1 autocorrelation and of a relative spread: 0.7 %


@pytest.mark.parametrize("phi", series.PHIS)
@pytest.mark.parametrize("innovations", ["normal", "laplace", "t3"])
def test_noise_has_the_memory_and_spread_it_is_asked_for(phi, innovations):
    noise = series.ar1(HOURS, phi, np.random.default_rng(1), innovations=innovations)
    assert np.corrcoef(noise[1:], noise[:-1])[0, 1] == pytest.approx(phi, abs=0.03)
    # t with 3 degrees has no fourth moment: its spread wanders, its quartiles do not.
    assert np.std(noise) == pytest.approx(1, abs=0.25 if innovations == "t3" else 0.06)


def test_tails_are_as_heavy_as_they_are_called():
    drawn = {
        kind: np.abs(series.ar1(HOURS, 0.0, np.random.default_rng(2), innovations=kind))
        for kind in ("normal", "laplace", "t3")
    }
    beyond = {kind: float(np.mean(noise > 4)) for kind, noise in drawn.items()}
    assert beyond["normal"] < 0.0005 < 0.002 < beyond["laplace"]
    assert beyond["t3"] > 0.002


@pytest.mark.parametrize("case", series.null_cases(), ids=lambda case: case.name)
def test_a_null_series_has_one_level(case):
    frame = case.make(seed=1)
    at = pl.Datetime("us", "UTC")
    assert frame.schema == {"at": at, "value": pl.Float64, "unfinished": pl.Boolean}
    assert frame.equals(case.make(seed=1))
    assert not frame.equals(case.make(seed=2))
    assert frame["at"].is_sorted()
    assert len(frame) == series.YEAR_HOURS
    assert (frame["value"].is_null() == frame["unfinished"]).all()
    first, second = frame.head(4368)["value"], frame.tail(4368)["value"]
    medians = [np.nanmedian(half.to_numpy()) for half in (first, second)]
    assert medians[1] / medians[0] == pytest.approx(1, abs=0.05)


def test_what_the_kinds_add_is_there():
    made = {case.name: case.make(seed=3) for case in series.null_cases()}
    dips = made["dips, phi 0.0"]["value"] / series.LEVEL_BYTES_PER_S
    assert (dips < 0.82).mean() == pytest.approx(0.03, abs=0.006)
    week = made["weekly, phi 0.5"]
    by_day = week["at"].dt.hour().is_between(8, 19) & (week["at"].dt.weekday() <= 5)
    values = week["value"].to_numpy()
    assert values[by_day].mean() / values[~by_day].mean() == pytest.approx(0.9 / 1.1, abs=0.01)
    assert made["unfinished, phi 0.3"]["unfinished"].mean() == pytest.approx(0.02, abs=0.006)


@pytest.mark.parametrize("case", series.step_cases(), ids=lambda case: case.name)
def test_a_step_is_as_large_and_where_it_is_said_to_be(case):
    ratios = []
    for seed in range(20):
        frame = case.make(seed)
        is_after = pl.col("at") >= case.changed_at
        before, after = (frame.filter(side)["value"].mean() for side in (~is_after, is_after))
        ratios.append(after / before)
    assert np.mean(ratios) - 1 == pytest.approx(case.step, abs=0.006)


def test_real_residuals_have_no_level_and_the_dips_of_the_real_thing():
    probes = dict(series.real_residuals())
    if not probes:
        pytest.skip(f"no recorded data under {series.TOKIO} (set TRIMTAB_REAL_DATA)")
    assert len(probes) == 32
    for residuals in probes.values():
        assert np.median(residuals) == pytest.approx(0, abs=0.02)
    # Mira's HACC read has a COV of 20 % and a MAD-CV of 2.5 %.
    mira = np.exp(np.asarray(probes["mira-fs1 hacc_io_read read"]))
    assert np.std(mira) / np.mean(mira) == pytest.approx(0.20, abs=0.01)
    assert 1.4826 * np.median(np.abs(mira - np.median(mira))) == pytest.approx(0.027, abs=0.005)

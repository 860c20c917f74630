"""How a series spreads, and what its COV is made of."""

import csv
import gzip
import math
from collections import Counter
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest
from tests.formats.recorded import REAL_DATA
from tests.judge.frames import hour, series
from tests.judge.history import noise, with_cov
from tests.support.known import known
from tests.support.sentences import numbers

from trimtab.base.series import Noise
from trimtab.judge.series_analysis import dispersion
from trimtab.judge.spread import cov, mad_cv, quartile_dispersion


def kinds(many, **more):
    return Counter(dispersion(series(values), **more).noise for values in many)


def test_every_measure_is_the_one_it_says():
    values = with_cov(100, 0.08)
    found = dispersion(series(values, unfinished={7, 50}))
    finished = [value for place, value in enumerate(values) if place not in {7, 50}]
    zeros = [0.0 if place in {7, 50} else value for place, value in enumerate(values)]
    assert (found.n, found.unfinished) == (100, 2)
    assert found.cov == cov(zeros)
    assert found.cov_finished == cov(finished)
    assert found.cov_within_regimes == pytest.approx(cov(finished))
    assert found.mad_cv == mad_cv(finished)
    assert found.quartile_dispersion == quartile_dispersion(finished)
    assert found.cov_over_mad_cv == known(found.cov) / known(found.mad_cv)
    assert known(found.cov_interval).low < known(found.cov) < known(found.cov_interval).high


def test_one_step_of_8_per_cent_without_noise_is_a_cov_of_4_2_per_cent():
    # A single 8 % step in the middle of the window.
    values = [1.0] * 24 + [0.92] * 24
    found = dispersion(series(values), changes=[hour(24)])
    assert found.cov == pytest.approx(0.042, abs=0.0005)
    assert found.cov_within_regimes == 0.0
    assert found.noise is Noise.STEPS
    assert found.reason.code == "steps"
    changes, share, *_ = numbers(found.reason)
    assert (changes, share) == (1, 100)


def test_within_regimes_each_level_costs_a_degree_of_freedom():
    levels = [100.0, 60.0, 140.0]
    values = [level * (1 + d) for level in levels for d in (-0.1, 0.0, 0.1)]
    found = dispersion(series(values), changes=[hour(3), hour(6)])
    # Deviations of 10 % in two of three runs each: six of them, over 9 - 3 degrees.
    assert found.cov_within_regimes == pytest.approx(math.sqrt(6 * 0.01 / 6))
    assert found.noise is Noise.CANNOT_TELL
    assert found.reason.code == "too-few-runs"
    assert numbers(found.reason) == [9, 24]


def test_two_levels_and_as_much_noise_are_not_steps():
    values = noise(1, 480, cov=0.08)[0]
    values[240:] *= 0.92
    found = dispersion(series(values), changes=[hour(240)])
    assert found.noise is Noise.ALWAYS_NOISY
    assert found.cov_within_regimes == pytest.approx(cov(noise(1, 480, cov=0.08)[0]), rel=0.01)


def test_unfinished_runs_are_bad_events():
    values = noise(1, 200, cov=0.03)[0]
    found = dispersion(series(values, unfinished={20, 70, 71, 150, 190}))
    assert found.noise is Noise.FEW_BAD_EVENTS
    assert found.reason.code == "few-bad-events"
    assert numbers(found.reason)[-2:] == [200, 5]
    assert known(found.cov) > 4 * known(found.cov_finished)


def test_of_a_time_unfinished_runs_are_left_out():
    found = dispersion(series([10.0, 12.0, 11.0], unfinished={1}), more_is_better=False)
    assert found.cov == found.cov_finished == cov([10.0, 11.0])


def test_which_side_the_events_are_on_is_told():
    values = with_cov(300, 0.02)
    for place, factor in ((10, 0.3), (100, 0.4), (200, 0.35), (250, 0.3), (280, 1.9)):
        values[place] = factor * 1e9
    found = dispersion(series(values))
    assert found.noise is Noise.FEW_BAD_EVENTS
    assert numbers(found.reason)[-3:] == [300, 4, 1]
    assert found.reason.index("4 far below") < found.reason.index("1 far above")


@pytest.mark.parametrize(
    ("values", "code"),
    [([5.0] * 30, "constant-values"), ([0.0] * 30, "mean-zero"), ([], "too-few-runs")],
)
def test_why_nothing_can_be_told(values, code):
    found = dispersion(series(values))
    assert (found.noise, found.reason.code) == (Noise.CANNOT_TELL, code)
    assert found.cov_over_mad_cv is None


def test_nothing_finished():
    found = dispersion(series([1.0] * 30, unfinished=set(range(30))))
    assert found.noise is Noise.CANNOT_TELL
    assert (found.unfinished, found.cov, found.cov_finished, found.mad_cv) == (30, None, None, None)


def test_mostly_one_value_has_no_mad_and_only_events():
    found = dispersion(series([1.0] * 30 + [0.2]))
    assert found.noise is Noise.FEW_BAD_EVENTS
    assert found.cov_over_mad_cv is None
    assert found.reason.code == "bulk-constant"
    assert numbers(found.reason) == [31, 1]


def test_autocorrelation_is_taken_within_regimes():
    values = noise(1, 600, cov=0.05, seed=8)[0]
    values[300:] *= 0.6
    plain, cut = dispersion(series(values)), dispersion(series(values), changes=[hour(300)])
    assert known(plain.autocorrelation) > 0.5
    assert cut.autocorrelation == pytest.approx(0.0, abs=0.1)


@pytest.mark.calibration
@pytest.mark.parametrize(("n", "phi"), [(24, 0.0), (24, 0.5), (48, 0.0), (48, 0.5), (168, 0.5)])
def test_broad_noise_seldom_passes_for_bad_events(n, phi):
    found = kinds(noise(150, n, phi=phi, seed=n))
    # Measured on 1,000: 3.6, 1.5, 1.3, 0.6 and 0 % (in the order of the cases).
    assert found[Noise.FEW_BAD_EVENTS] <= 12
    assert found[Noise.ALWAYS_NOISY] >= 120


def test_dips_are_told_from_broad_noise():
    rng = np.random.default_rng(2)
    found = Counter()
    for values in noise(60, 168, phi=0.3, cov=0.03):
        dipped = rng.random(168) < 0.03
        values[dipped] *= rng.uniform(0.3, 0.8, dipped.sum())
        found[dispersion(series(values)).noise] += 1
    assert found[Noise.FEW_BAD_EVENTS] >= 54


def recorded(name: str, application: str, file_system: str) -> pl.DataFrame:
    path = REAL_DATA / "tokio-abc" / name
    if not path.exists():
        pytest.skip(f"no recorded data under {REAL_DATA} (set TRIMTAB_REAL_DATA)")
    with gzip.open(path, "rt") as file:
        head, *rows = csv.reader(file)
    unnamed = len(rows[0]) - len(head)  # an index stands first in one of the two files
    place = {column: number + unnamed for number, column in enumerate(head)}
    kept = [
        (
            datetime.fromtimestamp(float(row[place["darshan_start_time"]]), UTC),
            float(row[place["darshan_agg_perf_by_slowest_posix"]]) * 1024**2,
        )
        for row in rows
        if row[place["darshan_app"]].endswith(application)
        and row[place["_file_system"]] == file_system
    ]
    return pl.DataFrame(
        kept, schema={"at": pl.Datetime("us", "UTC"), "value": pl.Float64}, orient="row"
    )


def test_miras_rare_deep_dips():
    # HACC read on Mira [S9]: COV 20 %, MAD-CV 2.5 %, quartile dispersion 2.9 %.
    frame = recorded("mira-summaries_2017-02-14_2018-02-15.csv.gz", "hacc_io_read", "mira-fs1")
    found = dispersion(frame)
    assert found.noise is Noise.FEW_BAD_EVENTS
    assert (found.cov, found.mad_cv, found.quartile_dispersion) == pytest.approx(
        (0.20, 0.025, 0.029), rel=0.05
    )

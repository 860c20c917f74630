"""What a probe over all targets, and a survey of each, could have noticed."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.support.sentences import numbers

from trimtab.judge.effect_size import StripedProbe, probe_limit, survey_limit

# NERSC's hourly probe: 32 nodes with 64 tasks each, 673 GB/s, 274 OSTs, a file a process. It
# moves about 250 TB, written and read back: 125 TB written [S1, III, VI.B; S2].
PERLMUTTER = StripedProbe(
    bytes_moved=125e12,
    targets=274,
    bandwidth_bytes_per_s=673.32e9,
    cov=31_779 / 673_320,
)


def test_the_probe_of_the_seeds_is_blind_to_osts_that_lose_half():
    limit = probe_limit(PERLMUTTER)
    asked = PERLMUTTER.bandwidth_bytes_per_s / PERLMUTTER.targets
    assert asked == pytest.approx(2.46e9, rel=0.01)  # "2.5 GB/s per OST"
    assert 2.0e9 < limit.notices_below_bytes_per_s < asked
    for healthy in (15.1e9, 19.9e9):
        assert limit.notices_below_bytes_per_s < healthy / 2
    assert numbers(limit.reason)[:2] == [2.46, 274]


def test_the_limit_is_where_a_simulated_run_is_told_from_chance():
    # A slow twin: each target takes its share, the run ends with the last one.
    probe = PERLMUTTER
    limit = probe_limit(probe)
    rng = np.random.default_rng(4)
    before = probe.bandwidth_bytes_per_s * (1 + probe.cov * rng.standard_normal((4000, 168)))

    def seen(rate):
        usual_s = probe.bytes_moved / probe.bandwidth_bytes_per_s
        slowest_s = max(usual_s, (probe.bytes_moved / probe.targets) / rate)
        noisy = 1 + probe.cov * rng.standard_normal(len(before))
        found = probe.bytes_moved / slowest_s * noisy
        reach = 1.96 * before.std(axis=1) * math.sqrt(1 + 1 / 168)
        return np.mean(found < before.mean(axis=1) - reach)

    assert seen(limit.notices_below_bytes_per_s) == pytest.approx(0.8, abs=0.05)
    assert seen(limit.notices_below_bytes_per_s * 0.9) > 0.95
    assert seen(7.5e9) < 0.05  # half of what an OST does: not seen at all


def test_more_runs_notice_less_and_a_memory_hides_it():
    one, day = probe_limit(PERLMUTTER), probe_limit(PERLMUTTER, runs=24)
    assert day.detectable < one.detectable / 2
    assert day.notices_below_bytes_per_s > one.notices_below_bytes_per_s
    resembling = replace(PERLMUTTER, autocorrelation=0.5)
    assert probe_limit(resembling, runs=24).detectable > 1.5 * day.detectable


def test_a_survey_sees_what_the_probe_cannot():
    survey = survey_limit(17e9, 0.08)
    probe = probe_limit(PERLMUTTER)
    assert survey.notices_below_bytes_per_s > 12e9
    assert survey.notices_below_bytes_per_s > 5 * probe.notices_below_bytes_per_s


@pytest.mark.parametrize(
    "wrong", [{"bytes_moved": 0.0}, {"targets": 0}, {"cov": -0.1}, {"autocorrelation": 1.0}]
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match=r"greater than 0|autocorrelation"):
        replace(PERLMUTTER, **wrong)

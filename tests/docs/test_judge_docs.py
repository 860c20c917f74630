"""The worked examples on the page about judging are what the functions give."""

from __future__ import annotations

from pathlib import Path

from tests.judge.frames import hour, series

from trimtab.judge import lower_tail, straggler
from trimtab.judge.effect_size import StripedProbe, probe_limit, survey_limit
from trimtab.judge.lower_tail import expected_minimum
from trimtab.judge.series_analysis import HALF_OF_VARIANCE, dispersion
from trimtab.judge.spread import OCCASIONS_MINIMUM

PAGE = " ".join((Path(__file__).parents[2] / "docs" / "judge.md").read_text().split())
SEEDS = StripedProbe(
    bytes_moved=125e12, targets=274, bandwidth_bytes_per_s=673.32e9, cov=31_779 / 673_320
)


def says(words: str) -> bool:
    return words in PAGE


def test_a_step_is_a_cov() -> None:
    found = dispersion(series([1.0] * 24 + [0.92] * 24), changes=[hour(24)])
    assert found.cov is not None
    assert says(f"is a COV of {100 * found.cov:.1f} %")


def test_the_probe_of_the_seeds() -> None:
    limit = probe_limit(SEEDS)
    assert says(f"below {limit.notices_below_bytes_per_s / 1e9:.1f} GB/s in one run")
    assert says(f"at 260 MB/s takes {125e12 / 274 / 260e6 / 60:.0f} minutes")
    assert says(f"({250e12 / 298 / 260e6 / 60:.0f} for all 250 TB written and read, on 298 OSTs)")
    day = probe_limit(SEEDS, runs=24).notices_below_bytes_per_s
    assert limit.notices_below_bytes_per_s < day < 1.2 * limit.notices_below_bytes_per_s
    assert says(f"sees a loss of {100 * survey_limit(17e9, 0.08).detectable:.0f} % in one night")


def test_one_target_in_a_hundred_that_crawls() -> None:
    rates = [0.0] * 2740 + [1.0] * (274_000 - 2740)
    assert says(f"meets one with {100 * (1 - expected_minimum(rates, 274)):.0f} %")


def test_the_limits_are_those_of_the_code() -> None:
    assert says(f"more than {HALF_OF_VARIANCE:.2f} times the MAD-CV")
    assert says(f"fewer than {OCCASIONS_MINIMUM} runs, or no spread at all")
    assert says(f"Fewer than {lower_tail.SURVEYS_MINIMUM} surveys have no interval")
    assert says(f"fewer than {straggler.SURVEYS_MINIMUM} surveys name none")

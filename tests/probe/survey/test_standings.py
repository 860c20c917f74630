"""Targets beside one another: which is slow, and how far apart they are."""

from __future__ import annotations

import pytest

from trimtab.base.run import Run, RunStatus, Sample
from trimtab.probe.survey_plan import SurveyOutcome, TargetResult, standings


def a_run(*samples: Sample) -> Run:
    return Run("id", "here", "survey-client", "builtin", RunStatus.OK, None, samples=samples)


def rate(target: str, value: float, repetition: int = 0, **changes: str) -> Sample:
    return Sample("write_bandwidth", value, repetition, target, **changes)  # type: ignore[arg-type]


def results(*targets: str) -> list[TargetResult]:
    return [TargetResult(target, None, SurveyOutcome.MEASURED) for target in targets]


def test_the_slowest_is_first_and_what_has_no_figure_last() -> None:
    run = a_run(rate("OST0000", 4e9), rate("OST0001", 2e9), rate("OST0002", 3.9e9))
    found, (spread,) = standings(run, results("OST0003", "OST0000", "OST0001", "OST0002"))
    assert [one.result.target for one in found] == ["OST0001", "OST0002", "OST0000", "OST0003"]
    assert [bool(one.slow) for one in found] == [True, False, False, False]
    assert found[0].ratios["write_bandwidth"] == pytest.approx(2 / 3.9)
    assert (spread.targets, spread.median_bytes_per_s) == (3, 3.9e9)
    assert (spread.least_bytes_per_s, spread.most_bytes_per_s) == (2e9, 4e9)
    # statistics.stdev([4, 2, 3.9]) / mean = 1.12694... / 3.3
    assert spread.cov == pytest.approx(0.341498, rel=1e-4)


def test_a_target_counts_with_the_median_of_its_repetitions() -> None:
    run = a_run(rate("OST0000", 1e9), rate("OST0000", 5e9, 1), rate("OST0000", 2e9, 2))
    found, _ = standings(run, results("OST0000"))
    assert found[0].rates == {"write_bandwidth": 2e9}


def test_only_believed_figures_of_a_target_count() -> None:
    run = a_run(
        rate("OST0000", 1e9, reason="the survey says ERROR"),
        rate("OST0000", 9e9, statistic="p99"),
        Sample("write_bandwidth", 7e9, 0),
        Sample("rpc_rate", 7e9, 0, "OST0000"),
    )
    found, spreads = standings(run, results("OST0000"))
    assert found[0].rates == {}
    assert found[0].worst is None
    assert spreads == ()


def test_one_target_has_no_spread() -> None:
    _, (spread,) = standings(a_run(rate("OST0000", 1e9)), results("OST0000"))
    assert spread.cov is None

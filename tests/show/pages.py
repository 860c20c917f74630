"""Each page of Trimtab with data that a site could have: for the tests, and to look at."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from tests.judge.frames import series
from tests.judge.targets import fields
from tests.show.month_page import month_page
from tests.show.purge_pages import horizon_page as purge_horizon_page
from tests.show.purge_pages import runs_page

from trimtab.base.series import SeriesKey, SiteJudgement
from trimtab.judge.ladder_analysis import build_ladder
from trimtab.judge.page import judge_document
from trimtab.judge.series_analysis import judge_series
from trimtab.judge.straggler import target_tails
from trimtab.judge.sweep_analysis import analyse_sweep
from trimtab.judge.sweep_result import MeasuredPoint, SweepAnalysis
from trimtab.probe.check.page import check_document
from trimtab.probe.ladder import of_file
from trimtab.probe.ladder_file import load_ladder
from trimtab.probe.page_ladder import ladder_document
from trimtab.probe.page_sweep import sweep_document
from trimtab.show.document import render_document
from trimtab.twin.scenario import Scenario
from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.whatif.page_whatif import whatif_document
from trimtab.twin.whatif.variation import combinations, parse_axis
from trimtab.twin.whatif.whatif_figure import KINDS
from trimtab.twin.whatif.whatif_sweep import Swept, SweptRow, summed

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
FIRST = datetime(2026, 3, 1, tzinfo=UTC)


def judge_page() -> str:
    """Return the page of a site with a regression, a steady series, a new one and slow targets."""
    chance = random.Random(3)

    def rates(level: float, spread: float, runs: int, *steps: tuple[int, float]) -> list[float]:
        factors = [math.prod(by for at, by in steps if run >= at) for run in range(runs)]
        return [level * factor * chance.gauss(1, spread) for factor in factors]

    frames: dict[SeriesKey, pl.DataFrame] = {
        SeriesKey("scratch", "shared-read", "ior", "read_bandwidth", "B/s"): series(
            rates(8.9e11, 0.04, 1000, (600, 0.64)), unfinished={100, 101}
        ),
        SeriesKey("scratch", "hourly", "ior", "write_bandwidth", "B/s"): series(
            rates(6.7e11, 0.03, 1000, (400, 1.12))
        ),
        SeriesKey("scratch", "metadata", "mdtest", "create_rate", "1/s"): series(
            rates(48e3, 0.14, 1000)
        ),
        SeriesKey("scratch", "daily-small", "fio", "write_latency", "s", more_is_better=False): (
            series(rates(4e-4, 0.05, 9), step_s=86400.0)
        ),
    }
    surveys = fields.frame(
        np.array(
            [
                [
                    1e9 * chance.gauss(15 if day < 31 else 20, 1) * (0.8 if ost == 7 else 1)
                    for ost in range(24)
                ]
                for day in range(60)
            ]
        )
    )
    judged = tuple(judge_series(frame, key) for key, frame in frames.items())
    judgement = SiteJudgement(
        "scratch",
        FIRST,
        FIRST + timedelta(hours=999),
        judged,
        (target_tails(surveys, "write_bandwidth"),),
        notes=("2 runs of the probe nightly are too few to judge",),
    )
    return render_document(judge_document(judgement, frames, surveys))


def sweep_analysis() -> SweepAnalysis:
    """Return a sweep over nodes and transfer sizes, analysed."""
    chance = random.Random(5)
    sizes = {"64KiB": 0.35, "256KiB": 0.6, "1MiB": 0.95, "4MiB": 1.0}
    points = [
        MeasuredPoint(
            {"nodes": nodes, "transfer_size": size},
            {
                "write_bandwidth": tuple(
                    11e9 * min(nodes, 8) * factor * chance.gauss(1, 0.02) for _ in range(3)
                ),
                "read_bandwidth": tuple(
                    19e9 * min(nodes, 16) * factor * chance.gauss(1, 0.02) for _ in range(3)
                ),
            },
        )
        for nodes in (1, 2, 4, 8, 16, 32)
        for size, factor in sizes.items()
    ]
    return analyse_sweep(points)


def sweep_page() -> str:
    """Return the page of a sweep over nodes and transfer sizes."""
    return render_document(sweep_document("nodes and sizes", "scratch", sweep_analysis()))


def ladder_page(name: str) -> str:
    """Return the page of the published figures of one system."""
    return render_document(ladder_document(build_ladder(of_file(load_ladder(EXAMPLES / name)))))


def swept_policies() -> tuple[Scenario, Swept]:
    """Return six policies with figures as a twin could give them, five seeds each."""
    chance = random.Random(7)
    scenario = load_scenario("perlmutter")
    axes = [parse_axis("trim=never,weekly,nightly"), parse_axis("fullness=0.6,0.85")]
    rows, first = [], None
    for case in combinations(scenario, axes):
        settings = dict(case.settings)
        gain = {"never": 0.7, "weekly": 0.9, "nightly": 1.0}[settings["trim"]]
        full = float(settings["fullness"])
        runs = [
            dict.fromkeys(kind.name for kind in KINDS)
            | {
                "ior_write": 6.7e11 * gain * (1.2 - 0.4 * full) * chance.gauss(1, 0.02),
                "ior_read": 8.9e11 * chance.gauss(1, 0.01),
                "ior_cov": 0.05 / gain * chance.gauss(1, 0.05),
                "ior_cov_missed": 0.3 * (1 - gain),
                "write_amplification": (1 + full**3 / gain) * chance.gauss(1, 0.01),
                "fullness": full,
                "purged": 4e16 * (1 - full),
            }
            for _ in range(5)
        ]
        rows.append(SweptRow(case, summed(runs, first)))
        first = first or runs
    return scenario, Swept(tuple(rows), 5, 60 * 86400.0, 0, {})


def whatif_page() -> str:
    """Return the page of six simulated policies."""
    scenario, swept = swept_policies()
    return render_document(whatif_document(scenario.name, swept, scenario.assumption_lines))


def check_page() -> str:
    """Return the page of a check of an array."""
    from tests.show.conftest import full_result

    return render_document(check_document(full_result()))


PAGES: Mapping[str, Callable[[], str]] = {
    "check": check_page,
    "judge": judge_page,
    "sweep": sweep_page,
    "month": month_page,
    "purge-horizon": purge_horizon_page,
    "purge-runs": runs_page,
    "whatif": whatif_page,
    "ladder": partial(ladder_page, "perlmutter.toml"),
}

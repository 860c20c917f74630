"""Each page of Trimtab with data that a site could have: for the tests, and to look at."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from tests.judge.frames import series
from tests.judge.targets import fields

from trimtab.answers.month import Month
from trimtab.answers.page_month import monthly_document
from trimtab.base.action import Action, ActionKind, Instruction, Outcome
from trimtab.base.error import Message
from trimtab.base.series import SeriesKey, SiteJudgement
from trimtab.explain.headline import of_judgement
from trimtab.explain.status import ProbeCost
from trimtab.judge.ladder_analysis import build_ladder
from trimtab.judge.page import judge_document
from trimtab.judge.series_analysis import judge_series
from trimtab.judge.straggler import target_tails
from trimtab.judge.sweep_analysis import analyse_sweep
from trimtab.judge.sweep_result import MeasuredPoint, SweepAnalysis
from trimtab.probe.ladder import of_file
from trimtab.probe.page_check import check_document
from trimtab.probe.page_comparison import ladder_document
from trimtab.probe.page_sweep import sweep_document
from trimtab.probe.question_file import load_ladder
from trimtab.purge.fullness import HOUR_S, AgeCurve, Freed, Usage
from trimtab.purge.horizon.horizon import DAY_S, Horizon, OwnedBy, find_horizon, steps
from trimtab.purge.horizon.horizon_answer import HorizonAnswer, HorizonResult
from trimtab.purge.horizon.page import horizon_document
from trimtab.purge.run.page import runs_document
from trimtab.purge.run.purge_report import Day, Measured, PlanStanding, PurgeReport, RunDay, UserDay
from trimtab.show.document import render_document
from trimtab.store.snapshot_record import SpaceAt
from trimtab.twin.scenario import Scenario
from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.whatif.page import whatif_document
from trimtab.twin.whatif.whatif_figure import KINDS
from trimtab.twin.whatif.whatif_request import combinations, parse_axis
from trimtab.twin.whatif.whatif_sweep import Swept, SweptRow, summed

PURGE_NOW = datetime(2026, 10, 20, tzinfo=UTC)
TIB = 2**40
USAGE = Usage(26_800 * TIB, 8_200 * TIB)


def horizon_answer_of(target: float) -> HorizonAnswer:
    """Return the horizon of a target on a curve of two years."""
    chance = random.Random(11)
    hour = int(PURGE_NOW.timestamp()) // HOUR_S
    ages = [chance.expovariate(1 / 90) for _ in range(4000)]
    curve = AgeCurve.of(
        [hour - int(age * 24) for age in ages], [5_000] * len(ages), [6 * TIB] * len(ages)
    )
    youngest = hour - 14 * 24

    def horizon(required: int | None = None) -> Horizon:
        return find_horizon(
            curve, USAGE, target, youngest_hour=youngest, required_bytes=required,
            kept_back={"too_young": (1_200_000, 2_300 * TIB), "exempt_path": (90_000, 300 * TIB)},
        )  # fmt: skip

    needed = horizon()
    as_of_s = int(PURGE_NOW.timestamp())
    users = tuple(
        OwnedBy(
            20_000 + number,
            Freed(int(2e5 / number), int(900 * TIB / number)),
            Freed(int(2e5 / number), int(930 * TIB / number)),
            Freed(int(4e5 / number), int(2_000 * TIB / number)),
        )
        for number in range(1, 31)
    )
    return HorizonAnswer(
        as_of_s=as_of_s,
        needed=needed,
        published=horizon(needed.required_bytes + 400 * TIB),
        growth=None,
        osts=None,
        pools=None,
        steps=steps(curve, USAGE, as_of_s=as_of_s, ages_days=(14, 28, 56, 84, 112, 182, 365)),
        users=users if needed.cut_off_hour is not None else (),
        projects=(),
        words=needed.words(as_of_s),
    )


def purge_horizon_page() -> str:
    """Return the page of a horizon that reaches its target."""
    result = HorizonResult(
        "/scratch",
        "i",
        horizon_answer_of(0.70),
        USAGE,
        rules=("Files younger than 14 d stay.", "Last use is the later of atime and mtime."),
        total=Freed(21_000_000, 26_500 * TIB),
        notes=("The index is 6 h old.",),
    )
    return render_document(horizon_document(result))


def purge_runs() -> PurgeReport:
    """Return a dry run, two days of deletion, and an interrupted run."""

    def measured(used: float, at: datetime) -> Measured:
        return Measured(at, Usage(int(used * 35_000 * TIB), int((1 - used) * 35_000 * TIB)))

    def run(number: int, day: int, end: str | None, *objections: str) -> RunDay:
        at = datetime(2026, 10, day, 2, tzinfo=UTC)
        words = None if end is None else "every row has an outcome"
        name = f"01a1f640-bc00-700{number}"
        return RunDay(
            name, "plan-2026-10", at, at - timedelta(days=84), "root", end, words, objections
        )

    def day(number: int, files: int, used: tuple[float, float], *runs: RunDay, dry: bool) -> Day:
        at = datetime(2026, 10, number, 2, tzinfo=UTC)
        return Day(
            day=date(2026, 10, number),
            dry=dry,
            files=files,
            bytes=files * 260 * 2**20,
            freed_bytes=0 if dry else files * 255 * 2**20,
            kept={"used_since": 1_204, "changed": 88},
            horizons=(at - timedelta(seconds=84 * DAY_S),),
            before=measured(used[0], at),
            after=measured(used[1], at + timedelta(hours=3)),
            users=tuple(
                UserDay(20_000 + n, files // n // 3, files // n * 2**26) for n in (1, 2, 3)
            ),
            runs=runs,
        )

    held = run(1, 11, "refused", "use is not measured for 3 OSTs")
    return PurgeReport(
        (
            day(11, 3_100_000, (0.766, 0.766), held, dry=True),
            day(12, 2_100_000, (0.766, 0.751), run(2, 12, "pace"), dry=False),
            day(13, 980_000, (0.753, 0.744), run(3, 13, None), dry=False),
        ),
        (
            PlanStanding("plan-2026-10", "/scratch", "scratch", 3_200_000,
                         {"deleted": 3_080_000, "used_since": 1_204}, 118_708, 88),
        ),
    )  # fmt: skip


def runs_page() -> str:
    """Return the page of what runs did."""
    return render_document(runs_document(purge_runs(), "/var/lib/trimtab/purge"))


MONTH = datetime(2026, 10, 1, tzinfo=UTC)
KEY = SeriesKey("scratch", "hourly", "ior", "write_bandwidth", "B/s")


def month() -> Month:
    """Return a month with a change of level, a purge and two changes of settings."""
    rates = [6.7e11 * (0.8 if hour > 300 else 1) * (1 + 0.01 * (hour % 5)) for hour in range(700)]
    judged = judge_series(series(rates), KEY)
    judgement = SiteJudgement("scratch", MONTH, MONTH, (judged,))
    instruction = Instruction(
        ActionKind.SET, "OST0003", Message("desired", "the site file wants 25"), setting="c2",
        before="15", value="25",
    )  # fmt: skip
    done = Action("01a1f640-bc00", "scratch", "tune", "p1", "root@oss1", MONTH, instruction,
                  outcome=Outcome.DONE)  # fmt: skip
    return Month(
        site="scratch",
        first=date(2026, 10, 1),
        last=date(2026, 10, 31),
        timezone="UTC",
        complete=True,
        judgement=judgement,
        standing=of_judgement(judgement),
        incidents=(),
        space=tuple(
            SpaceAt(
                MONTH + timedelta(days=day),
                (20_000 + 60 * day) * TIB,
                (15_000 - 60 * day) * TIB,
                ("OST0007", 0.66 + 0.003 * day),
            )
            for day in range(31)
        ),
        purges=purge_runs(),
        purge_reason="",
        cost=ProbeCost("scratch", MONTH, MONTH, 744, 700 * TIB, 690 * TIB, 512.0, 0.021, None),
        actions=(done, replace(done, instruction=replace(instruction, target="OST0004"),
                               outcome=Outcome.REFUSED)),
    )  # fmt: skip


def month_page() -> str:
    """Return the page of a month."""
    return render_document(monthly_document(month()))


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

"""Measure how often the judge is wrong, and how soon it sees what is there: `make calibration`.

Every series is made by tests/calibration/series.py from its seed. The result goes to
benchmarks/results/calibration.json; scripts/calibration_page.py makes the tables of
docs/calibration.md of it.

Sections that are not asked for are kept from the last result; each says when it was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.judge import score  # noqa: E402 (the tree is on the path now)
from benchmarks.measured import measured_at  # noqa: E402
from tests.calibration import changes, fullness, intervals, series  # noqa: E402
from tests.calibration.patterns import HABITS  # noqa: E402
from tests.reach.hosts import real_data  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "calibration.json"

COV_KINDS = ("normal", "laplace", "dips")
COV_SIZES = (24, 48, 96, 168)
RATIO_KINDS = ("normal", "t3", "dips")
RATIO_SIZES = (4, 6, 8, 12, 24, 48, 96, 168, 336)
RATIO_SIZES_ELSE = (24, 48, 168)
RATIO_PHIS = (*series.PHIS, 0.9)

SUSPECT_H, CONFIRMED_H, LATE_H = 36.0, 96.0, 14 * 24.0
"""Within how long a step of 8 % is to be suspected and confirmed, and one of 4 % confirmed."""

Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Counts:
    """How many series of each case, windows or verdicts of each COV cell, pairs of each ratio."""

    years: int
    steps: int
    windows: int
    verdicts: int
    pairs: int


def main(arguments: list[str]) -> int:
    """Measure what is asked for and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=list(SECTIONS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--years", type=int, default=20)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--windows", type=int, default=4000)
    parser.add_argument("--verdicts", type=int, default=600)
    parser.add_argument("--pairs", type=int, default=1000)
    wanted = parser.parse_args(arguments)
    counts = Counts(wanted.years, wanted.steps, wanted.windows, wanted.verdicts, wanted.pairs)
    # A forked child of a process that has used Polars may hang on its locks.
    with ProcessPoolExecutor(wanted.jobs, mp_context=get_context("spawn")) as pool:
        for name in wanted.only or SECTIONS:
            _measure(name, counts, pool)
    return 0


def _measure(name: str, counts: Counts, pool: Executor) -> None:
    began_s = time.monotonic()
    rows = SECTIONS[name](counts, pool)
    took_s = round(time.monotonic() - began_s, 1)
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    result[name] = {
        **measured_at(),
        "took_s": took_s,
        "rows": rows,
    }
    RESULT.write_text(written(result))
    print(f"{name}: {len(rows)} rows in {took_s} s", flush=True)


def written(result: dict[str, dict[str, object]]) -> str:
    """Return the result as JSON with one row a line, so that a change can be read as one."""
    parts = []
    for name, section in result.items():
        head = {key: value for key, value in section.items() if key != "rows"}
        rows = section["rows"]
        assert isinstance(rows, list)
        lines = ",\n".join(f"   {json.dumps(row)}" for row in rows)
        inner = json.dumps(head, indent=2)[1:-2].replace("\n", "\n ")
        parts.append(f' {json.dumps(name)}: {{{inner},\n  "rows": [\n{lines}\n  ]}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


# --- changes ------------------------------------------------------------------------------------


def false_alarms(counts: Counts, pool: Executor) -> list[Row]:
    """Return what is told of a year in which nothing happens, every null case."""
    names = [case.name for case in series.null_cases()]
    asked = [(name, seed) for name in names for seed in range(counts.years)]
    found = list(pool.map(_alarms, asked, chunksize=1))
    rows = []
    for place, name in enumerate(names):
        of_case = found[place * counts.years : (place + 1) * counts.years]
        years = sum(one.series_years for one in of_case)
        suspects, confirmed = (
            sum(one.suspects for one in of_case),
            sum(one.confirmed for one in of_case),
        )
        rows.append(
            {
                "case": name,
                "kind": of_case[0].kind,
                "phi": of_case[0].phi,
                "series_years": round(years, 2),
                "suspects": suspects,
                "confirmed": confirmed,
                "suspects_per_year": round(suspects / years, 2),
                "confirmed_per_year": round(confirmed / years, 3),
                "confirmed_per_year_most": round(changes.poisson_upper(confirmed) / years, 3),
            }
        )
    return rows


def _alarms(asked: tuple[str, int]) -> changes.Alarms:
    name, seed = asked
    (case,) = (one for one in series.null_cases() if one.name == name)
    return changes.alarms(case, [seed])


def power(counts: Counts, pool: Executor) -> list[Row]:
    """Return when steps are told, every step case."""
    cases = _step_cases()
    asked = [(place, seed) for place in range(len(cases)) for seed in range(counts.steps)]
    found = list(pool.map(_told, asked, chunksize=4))
    rows = []
    for place, (history_h, case) in enumerate(cases):
        told = found[place * counts.steps : (place + 1) * counts.steps]
        rows.append(
            {"case": case.name, "kind": case.kind, "phi": case.phi, "step": case.step}
            | {"history_h": history_h}
            | _delays(told, 1 + (case.step or 0.0))
        )
    return rows


def _step_cases() -> list[tuple[int, series.Case]]:
    """Return every step case with the hours of history before it."""
    month, week = 8 * 7 * 24, 7 * 24
    loss = (-0.08, -0.04)
    made = [(month, case) for case in series.step_cases(phis=series.PHIS)]
    made += [(month, case) for case in series.step_cases(kinds=series.KINDS[1:], steps=loss)]
    made += [(week, case) for case in series.step_cases(before_hours=week, steps=loss)]
    return made


def _told(asked: tuple[int, int]) -> changes.Told:
    place, seed = asked
    return changes.told(_step_cases()[place][1], seed)


def _delays(told: Sequence[changes.Told], ratio: float) -> Row:
    suspect = [one.suspect_h for one in told if one.suspect_h is not None]
    confirmed = [one.confirmed_h for one in told if one.confirmed_h is not None]
    placed = [abs(one.off_h) for one in told if one.off_h is not None]
    effects = [one.effect for one in told if one.effect is not None]
    return {
        "series": len(told),
        "suspect_36h": sum(hours <= SUSPECT_H for hours in suspect),
        "confirmed_96h": sum(hours <= CONFIRMED_H for hours in confirmed),
        "both": sum(one.within(SUSPECT_H, CONFIRMED_H) for one in told),
        "confirmed_14d": sum(hours <= LATE_H for hours in confirmed),
        "suspect_h_median": score.median_delay([one.suspect_h for one in told]),
        "confirmed_h_median": score.median_delay([one.confirmed_h for one in told]),
        "placed_within_24h": sum(hours <= 24 for hours in placed),
        "off_h_median": _rounded(placed, 0),
        "effect_median": _rounded(effects, 4),
        "effect_true": round(ratio, 4),
    }


def _rounded(values: Sequence[float], digits: int) -> float | None:
    return round(median(values), digits) if values else None


# --- sampling -----------------------------------------------------------------------------------

_HABIT_CELLS = [
    *((phi, "nothing") for group in (*changes.HABIT_PHIS, (0.97,)) for phi in group),
    *((0.3, spiked) for spiked in changes.SPIKED),
]
"""Correlation at an hour (0.97: a memory of days), and what is far off now and then."""


def habit_alarms(counts: Counts, pool: Executor) -> list[Row]:
    """Return what is told of a year in which nothing happens, by who sampled it how."""
    cells = [(name, phi, spiked) for name in HABITS for phi, spiked in _HABIT_CELLS]
    asked = [(*cell, seed) for cell in cells for seed in range(counts.years)]
    answers = list(pool.map(_habit_alarms, asked, chunksize=1))
    rows = []
    for place, (name, phi, spiked) in enumerate(cells):
        of_cell = answers[place * counts.years : (place + 1) * counts.years]
        rows.append(
            {
                "habit": name,
                "phi": phi,
                "spiked": spiked,
                "series_years": counts.years,
                "suspects": sum(alarms.suspects for alarms in of_cell),
                "confirmed": sum(alarms.confirmed for alarms in of_cell),
            }
        )
    return rows


def _habit_alarms(asked: tuple[str, float, str, int]) -> changes.Alarms:
    name, phi, spiked, seed = asked
    return changes.habit_alarms(name, phi, [seed], spiked)


def habit_steps(counts: Counts, pool: Executor) -> list[Row]:
    """Return what is told of steps, by who sampled them how: a quarter of the series of `power`."""
    cells = [(name, step) for name in HABITS for step in changes.STEPS]
    count = -(-counts.steps // 4)
    asked = [(*cell, seed) for cell in cells for seed in range(count)]
    answers = list(pool.map(changes.habit_step, *zip(*asked, strict=True), chunksize=4))
    rows = []
    for place, (name, step) in enumerate(cells):
        looks = answers[place * count : (place + 1) * count]
        confirmed = [look.delay_h for look in looks if look.delay_h is not None]
        never = len(looks) - len(confirmed)
        occasions = [float(n) for look in looks if (n := look.delay_occasions) is not None]
        rows.append(
            {
                "habit": name,
                "step": step,
                "series": len(looks),
                "confirmed": len(confirmed),
                "placed": sum(look.placed for look in looks),
                "in_time": sum(look.in_time for look in looks),
                "both": sum(look.placed and look.in_time for look in looks),
                "others": sum(len(look.others) for look in looks),
                "delay_occasions_median": score.median_delay([*occasions, *[None] * never]),
                "delay_h_median": score.median_delay([*confirmed, *[None] * never]),
                "off_h_median": _rounded([abs(h) for k in looks if (h := k.off_h) is not None], 1),
                "effect_median": _rounded([e for k in looks if (e := k.effect) is not None], 4),
            }
        )
    return rows


# --- intervals ----------------------------------------------------------------------------------


def cov_intervals(counts: Counts, pool: Executor) -> list[Row]:
    """Return how often the interval of the COV holds, by kind, window and memory."""
    cells = [(kind, n, phi) for kind in COV_KINDS for n in COV_SIZES for phi in series.PHIS]
    return _covered(intervals.cov_coverage, cells, counts.windows, pool)


def cov_power(counts: Counts, pool: Executor) -> list[Row]:
    """Return how often a goal is found to be met or missed, by autocorrelation and true COV."""
    cells = [(phi, cov) for phi in intervals.POWER_PHIS for cov in intervals.POWER_COVS]
    measure = partial(intervals.cov_power, count=counts.verdicts)
    return _rows(pool.map(measure, *zip(*cells, strict=True)))


def ratio_intervals(counts: Counts, pool: Executor) -> list[Row]:
    """Return how often the interval of a before/after ratio holds, by kind, runs and memory."""
    cells = [
        (kind, n, phi)
        for kind in RATIO_KINDS
        for n in (RATIO_SIZES if kind == "normal" else RATIO_SIZES_ELSE)
        for phi in RATIO_PHIS
    ]
    return _covered(intervals.ratio_coverage, cells, counts.pairs, pool)


def _covered(
    measure: Callable[..., intervals.Coverage],
    cells: Sequence[tuple[str, int, float]],
    count: int,
    pool: Executor,
) -> list[Row]:
    return _rows(pool.map(partial(measure, count=count), *zip(*cells, strict=True)))


def _rows(found: Iterable[intervals.Coverage | intervals.CovPower]) -> list[Row]:
    rows = []
    for one in found:
        row = asdict(one)
        rows.append({key: round(v, 4) if isinstance(v, float) else v for key, v in row.items()})
    return rows


def space(counts: Counts, pool: Executor) -> list[Row]:
    """Return how often forecasts of fullness held on a public record."""
    del counts, pool  # there is one record
    return [asdict(score) for score in fullness.scored(real_data(fullness.FILE))]


SECTIONS: dict[str, Callable[[Counts, Executor], list[Row]]] = {
    "false_alarms": false_alarms,
    "power": power,
    "habit_alarms": habit_alarms,
    "habit_steps": habit_steps,
    "cov_intervals": cov_intervals,
    "cov_power": cov_power,
    "ratio_intervals": ratio_intervals,
    "space": space,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Trimtab's change points against other detectors, on the same series: `make bench-judge`.

First every detector meets series in which nothing happens (tests/calibration/series.py: AR(1)
noise of COV 5 % with phi 0, 0.5 and 0.7, and phi 0.5 with 3 % dips), at each of its thresholds.
Then it meets series with one step of 8 or 4 % down, the same noises: with the threshold its makers
give, and with the loosest threshold that raises no more false alarms than Trimtab does (its
confirmed changes, and its suspects): on all noises together, and on that noise alone, as somebody
could tune it who knew the noise.

Otava and ruptures judge a whole series at a time, so they are rerun as it grows: ruptures after
every run, Otava every 6 runs, both once a day where they get daily medians. Whatever any rerun
says was told, in a year in which nothing happens as after a step.

The others run in an environment of their own (build/bench-judge, requirements.txt beside this).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import polars

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.judge import score  # noqa: E402 (the tree is on the path now)
from benchmarks.measured import measured_at  # noqa: E402
from tests.calibration import changes, series  # noqa: E402

from trimtab.judge.change import find_changes  # noqa: E402

HERE = Path(__file__).parent
RESULT = ROOT / "benchmarks" / "results" / "judge_against_others.json"
PYTHON = ROOT / "build" / "bench-judge" / "bin" / "python"

NOISES = ("normal, phi 0.0", "normal, phi 0.5", "normal, phi 0.7", "dips, phi 0.5")
ALL = "all noises"
STEPS = (-0.08, -0.04)
HORIZON_H = 14 * 24
"""How long after a step a detector has to tell it."""

YEAR = series.YEAR_HOURS

Row = dict[str, object]
Told = list[tuple[int, list[tuple[int, int]]]]


@dataclass(frozen=True, slots=True)
class Detector:
    """One of the others.

    Attributes
    ----------
    default
        Threshold that its makers give or advise.
    thresholds
        That are tried, the strictest first.
    years
        How many years of each noise it gets at most: Otava takes seconds for each.
    online
        Whether it says when it alarms, rather than where the change lies.
    """

    name: str
    label: str
    default: float
    thresholds: tuple[float, ...]
    years: int = 1000
    online: bool = False


_P_VALUES = tuple(10.0**-k for k in (14, 12, 11, 10, 9, 8, 7, 6, 5))
_P_HOURLY = (1e-20, 1e-17, 1e-14, 1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6)
_P_DAILY = (*_P_VALUES, 1e-4, 3e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 4e-2)
_PENALTIES = (600.0, 400.0, 300.0, 250.0, 210.0, 180.0, 150.0, 130.0, 110.0, 95.0, 80.0)
_LOWER = (70.0, 60.0, 52.0, 45.0, 40.0, 35.0, 31.0)
_DAILY = (60.0, 45.0, 35.0, 28.0, 24.0, 21.0, 18.0, 16.0, 14.0, 12.0, 10.0, 8.5, 7.0, 6.0)
_SIGMAS = tuple(np.round(np.arange(12.0, 0.4, -0.25), 2).tolist())
_ALLOWED = tuple(np.round(np.arange(0.80, 0.03, -0.02), 2).tolist())

# 3 ln n of a year of runs, and of 365 days, is what is usually advised for the penalty.
OTHERS = (
    Detector(
        "otava_daily",
        "Otava on daily medians",
        1e-3,
        _P_DAILY,
    ),
    Detector("ruptures", "ruptures (PELT)", 27.0, (*_PENALTIES, *_LOWER)),
    Detector("ruptures_daily", "ruptures (PELT) on daily medians", 18.0, _DAILY),
    Detector("chart", "control chart, first 20 runs", 3.0, _SIGMAS, online=True),
    Detector("chart_week", "control chart, first week", 3.0, _SIGMAS, online=True),
    Detector("chart_week_day", "control chart, first week, mean of 24", 3.0, _SIGMAS, online=True),
    Detector("fixed", "fixed reference", 0.1, _ALLOWED, online=True),
    Detector("otava", "Otava", 1e-3, _P_HOURLY, years=2),
)


@dataclass(frozen=True, slots=True)
class Sets:
    """The series: for each noise years without a change, and for each noise and step one each."""

    nulls: dict[str, list[int]]
    steps: dict[tuple[str, float], list[int]]
    values: np.ndarray
    step_at: dict[int, int]
    """Where the step of a series lies."""


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--years", type=int, default=10, help="series-years of each noise")
    parser.add_argument("--steps", type=int, default=40, help="series of each noise and step")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    wanted = parser.parse_args()
    began_s = time.monotonic()
    ours, told_by_us = _ours(wanted.years, wanted.steps, wanted.jobs)
    with tempfile.TemporaryDirectory() as name:
        bench = _Bench(ours, Path(name), wanted.jobs)
        rows = _trimtab_rows(ours, told_by_us, wanted.years)
        for detector in OTHERS:
            rows += bench.against(detector, told_by_us, wanted.years)
            took_s = time.monotonic() - began_s
            _write(rows, wanted, took_s)
            print(f"{detector.label}: {took_s:.0f} s", flush=True)
        bench.close()


def _write(rows: list[Row], wanted: argparse.Namespace, took_s: float) -> None:
    """Write what there is: each detector adds its rows when it is done."""
    result = {
        "what": "Trimtab's change points against other detectors on the same series",
        **measured_at(),
        "series_years_of_each_noise": wanted.years,
        "series_of_each_step": wanted.steps,
        "took_s": round(took_s),
    }
    head = json.dumps(result, indent=1)[:-2]
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    RESULT.write_text(f'{head},\n "rows": [\n{lines}\n ]\n}}\n')


# --- series and Trimtab -------------------------------------------------------------------------


@cache
def _null_cases() -> dict[str, series.Case]:
    return {case.name: case for case in series.null_cases() if case.name in NOISES}


@cache
def _step_cases() -> dict[tuple[str, float], series.Case]:
    made = series.step_cases(
        steps=STEPS, phis=(0.5, 0.7), kinds=("normal", "dips"), after_hours=HORIZON_H
    )
    found = {}
    for case in made:
        noise = f"{case.kind}, phi {case.phi}"
        if noise in NOISES and case.step is not None:
            found[noise, case.step] = case
    return found


@dataclass(frozen=True, slots=True)
class Ours:
    """What Trimtab tells of one series: indices of the change and of the runs that told it."""

    points: tuple[tuple[int, int, int | None, int | None], ...]
    """(place, way, told as a suspect at, told as confirmed at)"""

    def at_tier(self, tier: str) -> list[tuple[int, int, int]]:
        """Return (place, way, told at) of each change that came to that tier."""
        found = []
        for place, way, suspected, confirmed in self.points:
            first = min((at for at in (suspected, confirmed) if at is not None), default=None)
            at = confirmed if tier == "confirmed" else first
            if at is not None:
                found.append((place, way, at))
        return found


def _judged(asked: tuple[str, float | None, int]) -> tuple[np.ndarray, Ours]:
    noise, step, seed = asked
    case = _null_cases()[noise] if step is None else _step_cases()[noise, step]
    frame = case.make(seed)
    if step is not None:
        late = _hours_left_out(seed)
        frame = frame.slice(late).with_columns(polars.col("at") - timedelta(hours=late))
    points = find_changes(frame, dismissed=True).points

    def index(at: datetime | None) -> int | None:
        return None if at is None else round((at - series.START).total_seconds() / 3600)

    told = tuple(
        (
            round((point.at - series.START).total_seconds() / 3600),
            1 if (point.effect or 0.0) > 1 else -1,
            index(point.suspected_at),
            index(point.confirmed_at),
        )
        for point in points
    )
    return frame["value"].to_numpy(), Ours(told)


def _hours_left_out(seed: int) -> int:
    """Return how many runs a series with a step lacks at its beginning.

    So that the step comes at any hour of the day: what looks once a day must not always have to
    wait equally long.
    """
    return 7 * seed % 24


def _ours(years: int, steps: int, jobs: int) -> tuple[Sets, list[Ours]]:
    """Return all series and what Trimtab tells of each, in the order of the series."""
    asked: list[tuple[str, float | None, int]] = []
    nulls, stepped = dict[str, list[int]](), dict[tuple[str, float], list[int]]()
    step_at = dict[int, int]()
    for noise in NOISES:
        nulls[noise] = list(range(len(asked), len(asked) + years))
        asked += [(noise, None, seed) for seed in range(years)]
    for (noise, step), case in _step_cases().items():
        assert case.step_at is not None
        for seed in range(steps):
            step_at[len(asked) + seed] = case.step_at - _hours_left_out(seed)
        stepped[noise, step] = list(range(len(asked), len(asked) + steps))
        asked += [(noise, step, seed) for seed in range(steps)]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(_judged, asked, chunksize=4))
    values = np.full((len(asked), YEAR), np.nan)
    for row, (one, _) in zip(values, found, strict=True):
        row[: len(one)] = one
    return Sets(nulls, stepped, values, step_at), [told for _, told in found]


def _trimtab_rows(sets: Sets, told: Sequence[Ours], years: int) -> list[Row]:
    rows = []
    for tier in ("suspect", "confirmed"):
        rates = _our_rates(sets, told, tier, years)
        for noise, step in _which(sets):
            delays = _our_delays(sets, told, tier, (noise, step))
            rows.append(
                {"detector": "trimtab", "label": f"Trimtab, {tier}", "tier": tier, "tuned": None}
                | {"threshold": None, "noise": noise, "step": step}
                | {"false_per_year": rates[ALL], "false_per_year_here": rates[noise]}
                | _summary(delays)
            )
    return rows


def _our_rates(sets: Sets, told: Sequence[Ours], tier: str, years: int) -> dict[str, float]:
    """Return false alarms per series-year of each noise, and of all together."""
    counts = {
        noise: sum(len(told[place].at_tier(tier)) for place in places)
        for noise, places in sets.nulls.items()
    }
    return _rates(counts, years)


def _rates(counts: dict[str, int], years: int) -> dict[str, float]:
    rates = {noise: round(count / years, 3) for noise, count in counts.items()}
    return rates | {ALL: round(sum(counts.values()) / years / len(counts), 3)}


def _which(sets: Sets) -> list[tuple[str, float]]:
    """Return every noise and step, and after them each step under all noises together."""
    return [*sets.steps, *((ALL, step) for step in STEPS)]


def _our_delays(
    sets: Sets, told: Sequence[Ours], tier: str, which: tuple[str, float]
) -> list[int | None]:
    if which[0] == ALL:
        found = [_our_delays(sets, told, tier, one) for one in sets.steps if one[1] == which[1]]
        return [delay for one in found for delay in one]
    delays = []
    for place in sets.steps[which]:
        step_at = sets.step_at[place]
        after = [
            at - step_at + 1
            for where, way, at in told[place].at_tier(tier)
            if abs(where - step_at) <= _tolerance(which[1]) and way < 0 and at >= step_at
        ]
        delays.append(min(after, default=None))
    return delays


def _tolerance(step: float) -> int:
    return round(changes.tolerance(step).total_seconds() / 3600)


def _summary(delays: Sequence[int | None]) -> Row:
    return {
        "series": len(delays),
        "detected": sum(delay is not None for delay in delays),
        "delay_h_median": score.median_delay(delays),
    }


# --- the others ---------------------------------------------------------------------------------


class _Bench:
    """Runs the others and holds them against what Trimtab told."""

    def __init__(self, sets: Sets, directory: Path, jobs: int) -> None:
        self._sets = sets
        self._jobs = jobs
        file = directory / "series.npz"
        np.savez(file, values=sets.values)
        self._workers = [Others(file) for _ in range(jobs)]
        self._delays_known = dict[tuple[str, float, str, float], list[int | None]]()

    def close(self) -> None:
        """End the other environment's processes."""
        for worker in self._workers:
            worker.close()

    def against(self, detector: Detector, ours: Sequence[Ours], years: int) -> list[Row]:
        """Return its results: as its makers give it, and at no more false alarms than ours."""
        tiers = ("confirmed", "suspect")
        allowed = {tier: _our_rates(self._sets, ours, tier, years) for tier in tiers}
        curve = self._curve(detector, years, max(max(rates.values()) for rates in allowed.values()))
        rows = []
        for noise, step in _which(self._sets):
            picks: list[tuple[str, str, float | None]] = [("default", "", detector.default)]
            for tier in tiers:
                tunings = (("all", ALL),) if noise == ALL else (("all", ALL), ("this", noise))
                for tuned, of in tunings:
                    rates = [(threshold, by_noise[of]) for threshold, by_noise in curve]
                    kept = score.loosest_within(rates, allowed[tier][of])
                    picks.append((tuned, tier, kept))
            rows += [
                self._row(detector, pick, (noise, step), (ours, dict(curve))) for pick in picks
            ]
        return rows

    def _row(
        self,
        detector: Detector,
        pick: tuple[str, str, float | None],
        which: tuple[str, float],
        known: tuple[Sequence[Ours], dict[float, dict[str, float]]],
    ) -> Row:
        (tuned, tier, threshold), (noise, step), (ours, curve) = pick, which, known
        row: Row = {"detector": detector.name, "label": detector.label, "tier": tier or None}
        row |= {"tuned": tuned, "threshold": threshold, "noise": noise, "step": step}
        if threshold is None:
            return row | {"reason": "even its strictest threshold has more false alarms"}
        row |= {"false_per_year": curve[threshold][ALL]}
        row |= {"false_per_year_here": curve[threshold][noise]}
        delays = self._delays(detector, threshold, which)
        if tier:
            mine = _our_delays(self._sets, ours, tier, which)
            hits = [[delay is not None for delay in one] for one in (mine, delays)]
            row["p_value"] = round(score.sign_test(*hits), 4)
        return row | _summary(delays)

    def _curve(
        self, detector: Detector, years: int, enough: float
    ) -> list[tuple[float, dict[str, float]]]:
        """Return false alarms per series-year by threshold, the strictest first.

        No looser ones are tried once every noise has more than ``enough``; the default always is.
        """
        curve = []
        for threshold in detector.thresholds:
            curve.append((threshold, self._false_alarms(detector, threshold, years)))
            if min(curve[-1][1].values()) > enough:
                break
        if detector.default not in dict(curve):
            curve.append((detector.default, self._false_alarms(detector, detector.default, years)))
        return curve

    def _false_alarms(self, detector: Detector, threshold: float, years: int) -> dict[str, float]:
        years = min(years, detector.years)
        nulls = {noise: places[:years] for noise, places in self._sets.nulls.items()}
        places = [place for of_noise in nulls.values() for place in of_noise]
        # At its default Otava finds hundreds of changes a year and takes seconds for each rerun:
        # there the last run alone counts.
        once = detector.name == "otava" and threshold == detector.default
        ends = {place: (YEAR if once else 0, YEAR) for place in places}
        found = self._run(detector.name, threshold, ends, {})
        counts = {
            noise: sum(score.false_alarms(found[place]) for place in of_noise)
            for noise, of_noise in nulls.items()
        }
        return _rates(counts, years)

    def _delays(
        self, detector: Detector, threshold: float, which: tuple[str, float]
    ) -> list[int | None]:
        if which[0] == ALL:
            of_step = [one for one in self._sets.steps if one[1] == which[1]]
            found = [self._delays(detector, threshold, one) for one in of_step]
            return [delay for one in found for delay in one]
        key = (detector.name, threshold, *which)
        if key not in self._delays_known:
            self._delays_known[key] = self._delays_of(detector, threshold, which)
        return self._delays_known[key]

    def _delays_of(
        self, detector: Detector, threshold: float, which: tuple[str, float]
    ) -> list[int | None]:
        delays = list[int | None]()
        steps = {
            place: score.Step(self._sets.step_at[place], -1, _tolerance(which[1]))
            for place in self._sets.steps[which]
        }
        ends = {place: (step.at, step.at + HORIZON_H) for place, step in steps.items()}
        found = self._run(detector.name, threshold, ends, {} if detector.online else steps)
        for place, step in steps.items():
            if detector.online:
                alarms = found[place][0][1] if found[place] else ()
                delays.append(score.alarm_delay(alarms, step))
            else:
                delays.append(score.rerun_delay(found[place], step))
        return delays

    def _run(
        self,
        name: str,
        threshold: float,
        ends: Mapping[int, tuple[int, int]],
        steps: Mapping[int, score.Step],
    ) -> dict[int, Told]:
        """Return what it told of each series, up to where it tells its step."""
        tasks = [
            {
                "detector": name,
                "threshold": threshold,
                "series": place,
                "ends": list(of_series),
                "until": None
                if (step := steps.get(place)) is None
                else [step.at, step.way, step.tolerance],
            }
            for place, of_series in ends.items()
        ]
        shares = [tasks[number :: self._jobs] for number in range(self._jobs)]
        with ThreadPoolExecutor(self._jobs) as pool:
            answers = list(pool.map(Others.ask, self._workers, shares))
        return {
            task["series"]: told
            for share, answer in zip(shares, answers, strict=True)
            for task, told in zip(share, answer, strict=True)
        }


class Others:
    """A process in the other environment that answers one job after another, a line each."""

    def __init__(self, file: Path) -> None:
        argv = [str(PYTHON), str(HERE / "alternatives.py"), str(file)]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, tasks: list[dict[str, object]]) -> list[Told]:
        """Return what was told for each task."""
        send, receive = self._process.stdin, self._process.stdout
        assert send is not None
        assert receive is not None
        send.write(json.dumps(tasks) + "\n")
        send.flush()
        answer = receive.readline()
        if not answer:
            raise SystemExit(f"alternatives.py ended with {self._process.wait()}")
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


if __name__ == "__main__":
    main()

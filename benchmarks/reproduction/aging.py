"""Rows of experiments on a few OSTs: age without trim, and where fullness begins to cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import numpy as np
from benchmarks.reproduction.life import Life, LifeRun, machine_of
from benchmarks.reproduction.statements import SeededRow, seeded_row
from numpy.typing import NDArray

from trimtab.twin.scenario import (
    Allocator,
    Gating,
    Lifetime,
    Purge,
    Queue,
    Scenario,
    Trim,
    Users,
    ost_capacity_bytes,
)
from trimtab.twin.simulation import ost_array
from trimtab.twin.simulation.ost_rate import throttling

Array = NDArray[np.float64]

OSTS: Final = 4
YOUNG: Final = (0.15, 0.30, 0.45)
"""Fullness of a young file system, which source S3 does not print; the middle is the row's."""
FULLNESS: Final = (0.55, 0.60, 0.65, 0.70, 0.75, 0.80, 0.85)
OST_WRITES: Final = 5.0
THREE_QUARTERS: Final = 0.75
_SETTLED_DAYS: Final = 20.0
_DAY_S: Final = 86400.0
_COSTS: Final = 0.05
SETTINGS: Final[Mapping[str, tuple[Trim, Allocator, Queue]]] = {
    "before": (Trim(30 * _DAY_S), Allocator(c2=0.15), Queue()),
    "after": (Trim(_DAY_S), Allocator(c2=0.25, reset_s=900.0), Queue(writeback_throttling=False)),
}
"""What source S1 had before its mitigations (a month between trims is assumed) and after them."""


KNEE_FULLNESS: Final = (
    *(0.70, 0.72, 0.74, 0.75, 0.76, 0.78),
    *(0.80, 0.82, 0.84, 0.86, 0.88, 0.90),
)
KNEE_THRESHOLDS: Final = ((0.25, 0.15), (0.20, 0.15), (0.15, 0.10), (0.15, 0.15), (0.10, 0.10))
"""c1 and c2, parts that are free."""
AS_WRITTEN: Final = "as Perlmutter's users leave it"
_KNEE_SEEDS: Final = 3


@dataclass(frozen=True, slots=True)
class Knee:
    """Where useless loops begin to cost writes.

    Attributes
    ----------
    c1, c2
        Thresholds, parts that are free.
    free_space
        What shapes it.
    fullness
        Of each seed; ``None``: nowhere up to `upto`.
    upto
        The fullest that was simulated.
    """

    c1: float
    c2: float
    free_space: str
    fullness: tuple[float | None, ...]
    upto: float = KNEE_FULLNESS[-1]


@dataclass(frozen=True, slots=True)
class Point:
    """What OSTs of one fullness write, bytes/s of one.

    Attributes
    ----------
    throttling
        What writeback throttling leaves of what drives give, 0 to 1.
    drives
        By their drives alone, throttled where the settings have it.
    delivered
        With what the allocator leaves.
    """

    fullness: float
    amplification: float
    throttling: float
    drives: float
    delivered: float


def young_runs(perlmutter: Scenario) -> list[LifeRun]:
    """Return lives of new OSTs that are written five times over, never trimmed until then."""
    life_runs = []
    for fullness in YOUNG:
        scenario = replace(_steady(perlmutter, fullness), trim=Trim(None))
        scenario = replace(scenario, users=replace(scenario.users, fullness=0.0))
        whole_s = OST_WRITES * _turn_s(scenario)
        scenario = replace(scenario, length_s=whole_s + 3 * _DAY_S)
        trimmed = scenario.start + timedelta(seconds=round(whole_s))
        life_runs.append(LifeRun(f"young {fullness}", scenario, trims=(trimmed,)))
    return life_runs


def fullness_runs(perlmutter: Scenario) -> list[LifeRun]:
    """Return lives at each fullness of `FULLNESS`, before the mitigations and after them."""
    return [
        LifeRun(
            f"{name} {fullness}",
            replace(
                _steady(perlmutter, fullness),
                trim=trim,
                allocator=allocator,
                queue=queue,
                length_s=_SETTLED_DAYS * _DAY_S,
            ),
        )
        for name, (trim, allocator, queue) in SETTINGS.items()
        for fullness in FULLNESS
    ]


def knee_runs(perlmutter: Scenario) -> list[LifeRun]:
    """Return lives at each fullness of `KNEE_FULLNESS`, by thresholds and shapes of free space."""
    trim, allocator, queue = SETTINGS["before"]
    return [
        LifeRun(
            _knee_name(c1, c2, shape, fullness),
            replace(
                _shaped(_steady(perlmutter, fullness), shape),
                trim=trim,
                allocator=replace(allocator, c1=c1, c2=c2),
                queue=queue,
                length_s=_SETTLED_DAYS * _DAY_S,
            ),
            most_seeds=_KNEE_SEEDS,
        )
        for c1, c2, shape in _knee_settings()
        for fullness in KNEE_FULLNESS
    ]


def _knee_settings() -> list[tuple[float, float, str]]:
    """Return thresholds and shapes: each threshold as users leave free space, then each shape."""
    usual = KNEE_THRESHOLDS[0]
    return [
        *((c1, c2, AS_WRITTEN) for c1, c2 in KNEE_THRESHOLDS),
        *((*usual, shape) for shape in _SHAPES),
    ]


def _knee_name(c1: float, c2: float, shape: str, fullness: float) -> str:
    return f"knee {c1} {c2} {shape} {fullness}"


def _larger_files(users: Users) -> Users:
    return replace(users, size_median_bytes=64.0 * users.size_median_bytes)


def _alike_files(users: Users) -> Users:
    mean = users.size_median_bytes * math.exp(users.size_sigma**2 / 2.0)
    return replace(users, size_median_bytes=mean, size_sigma=0.1)


def _two_lifetimes(users: Users) -> Users:
    mean_s = users.lifetimes[0].mean_s
    assert mean_s is not None
    lifetimes = (Lifetime(0.9, 0.2 * mean_s), Lifetime(0.1, 8.2 * mean_s))
    return replace(users, lifetimes=lifetimes)


_SHAPES: Final[Mapping[str, Callable[[Users], Users]]] = {
    "files 64 times as large": _larger_files,
    "files of one size, the same mean": _alike_files,
    "nine tenths of the writes live a fortieth of the rest": _two_lifetimes,
}
"""Each keeps fullness and writes as they are."""


def _shaped(scenario: Scenario, shape: str) -> Scenario:
    if shape == AS_WRITTEN:
        return scenario
    return replace(scenario, users=_SHAPES[shape](scenario.users))


def knees(lives: Mapping[str, Sequence[Life]]) -> tuple[Knee, ...]:
    """Return where useless loops begin to cost, for each setting of `knee_runs` that was lived."""
    settled = []
    for c1, c2, shape in _knee_settings():
        if _knee_name(c1, c2, shape, KNEE_FULLNESS[0]) not in lives:
            continue
        lives_at = {full: lives[_knee_name(c1, c2, shape, full)] for full in KNEE_FULLNESS}
        curves = zip(
            *(
                [point(life, full, _SETTLED_DAYS / 2, _SETTLED_DAYS) for life in seeds]
                for full, seeds in lives_at.items()
            ),
            strict=True,
        )
        settled.append(Knee(c1, c2, shape, tuple(_begins(curve) for curve in curves)))
    return tuple(settled)


def _steady(perlmutter: Scenario, fullness: float) -> Scenario:
    """Return a few of its OSTs, as full all the time, with its daily writes an OST and no probes.

    The probe's writes count as users': the drives do not know who writes.
    """
    share = OSTS / perlmutter.osts.count
    probes = sum(probe.bytes_written * 24 for probe in perlmutter.probes if probe.kind == "ior")
    daily = (perlmutter.users.daily_writes_bytes + probes) * share
    whole = OSTS * ost_capacity_bytes(perlmutter.osts)
    users = replace(
        perlmutter.users,
        fullness=fullness,
        fullness_spread=0.005,
        daily_writes_bytes=daily,
        lifetimes=(Lifetime(1.0, fullness * whole / daily * _DAY_S),),
        rhythm=0.0,
        burstiness=0.0,
        quota_bytes=None,
        quota_inodes=None,
    )
    survey = tuple(probe for probe in perlmutter.probes if probe.kind == "obdfilter-survey")
    return replace(
        perlmutter,
        osts=replace(perlmutter.osts, count=OSTS),
        users=users,
        probes=tuple(replace(probe, since=None) for probe in survey),
        purge=Purge(),
        gating=Gating(),
        changes=(),
        faults=(),
        resolution=replace(perlmutter.resolution, classes=None),
    )


def _turn_s(scenario: Scenario) -> float:
    """Return how long it takes users to write as much as all OSTs hold."""
    whole = scenario.osts.count * ost_capacity_bytes(scenario.osts)
    return whole / scenario.users.daily_writes_bytes * _DAY_S


def point(life: Life, fullness: float, first_day: float, last_day: float) -> Point:
    """Return what OSTs would write between two days of a life if one asked for it all."""
    machine = machine_of(life.scenario)
    since = life.scenario.start.timestamp() + first_day * _DAY_S
    rows = (life.ends_s > since) & (life.ends_s <= since + (last_day - first_day) * _DAY_S)
    amplification = life.traced["amplification"][rows].astype(np.float64)
    walks = life.traced["walks_per_request"][rows].astype(np.float64)
    window = throttling(life.scenario, amplification)
    ceilings = ost_array.ceilings_of(machine)
    drives = ceilings.rates(amplification, window=window)
    delivered = ceilings.rates(
        amplification, window=window, groups_considered=walks * machine.groups
    )
    return Point(
        fullness,
        float(amplification.mean()),
        float(window.mean()),
        float(drives.write.mean()),
        float(delivered.write.mean()),
    )


def fresh(scenario: Scenario) -> float:
    """Return what one OST of fresh drives writes, bytes/s."""
    return float(ost_array.ceilings_of(machine_of(scenario)).rates().write)


def curves(lives: Mapping[str, Sequence[Life]]) -> dict[str, list[list[Point]]]:
    """Return for each setting, and each seed, a point at each fullness."""
    return {
        name: [
            [
                point(lives[f"{name} {full}"][seed], full, _SETTLED_DAYS / 2, _SETTLED_DAYS)
                for full in FULLNESS
            ]
            for seed in range(len(lives[f"{name} {FULLNESS[0]}"]))
        ]
        for name in SETTINGS
    }


def young_rows(lives: Mapping[str, Sequence[Life]]) -> Iterator[SeededRow]:
    """Yield what age costs a young file system, and what a trim gives back."""
    aged: dict[float, list[float]] = {}
    trimmed: dict[float, list[float]] = {}
    for fullness in YOUNG:
        for life in lives[f"young {fullness}"]:
            day = life.scenario.length_s / _DAY_S - 3.0
            new = fresh(life.scenario)
            before, after = (
                point(life, fullness, day - 2, day),
                point(life, fullness, day + 1, day + 2),
            )
            aged.setdefault(fullness, []).append(before.delivered / new - 1)
            trimmed.setdefault(fullness, []).append(after.delivered / new)
    others = ", ".join(
        f"{np.mean(aged[full]):+.0%} at {full:.0%}" for full in YOUNG if full != YOUNG[1]
    )
    # How full it was is not printed: the interval is over that as over seeds.
    middle = seeded_row("6-age", aged[YOUNG[1]], f"assumed {YOUNG[1]:.0%} full; {others}")
    every = [loss for full in YOUNG for loss in aged[full]]
    yield replace(middle, low=min(every), high=max(every))
    yield seeded_row("6-trim", trimmed[YOUNG[1]], "a day after it")


def fullness_rows(curves: Mapping[str, Sequence[Sequence[Point]]]) -> Iterator[SeededRow]:
    """Yield where drives, allocator and both bend, and what throttling takes there."""
    before = curves["before"]
    yield seeded_row(
        "17-throttling",
        [1 / point_at(curve, THREE_QUARTERS).throttling - 1 for curve in before],
        f"{THREE_QUARTERS:.0%} full, a month between trims, write amplification "
        f"{np.mean([point_at(curve, THREE_QUARTERS).amplification for curve in before]):.2f}",
    )
    drives = [_bend_of(curve, [sample.drives for sample in curve]) for curve in before]
    both = [_bend_of(curve, [sample.delivered for sample in curve]) for curve in before]
    means = {
        full: float(np.mean([point_at(curve, full).drives for curve in before]))
        for full in (0.65, 0.75, 0.85)
    }
    lost = ", ".join(f"{mean / 1e9:.1f} GB/s at {full:.0%}" for full, mean in means.items())
    yield seeded_row(
        "9-collection", drives, f"two straight lines through what drives write: {lost}"
    )
    yield seeded_row(
        "19-knee",
        [_begins(curve) for curve in before],
        f"useless loops cost {_COSTS:.0%} of what drives would write; defaults, c2 = 15",
    )
    yield seeded_row(
        "46-fullness", both, "two straight lines through what is delivered before the mitigations"
    )


def _bend_of(curve: Sequence[Point], rates: Sequence[float]) -> float:
    return bend([sample.fullness for sample in curve], rates)


def point_at(curve: Sequence[Point], fullness: float) -> Point:
    """Return the point of a curve at one of `FULLNESS`."""
    return next(sample for sample in curve if sample.fullness == fullness)


def _begins(curve: Sequence[Point]) -> float | None:
    """Return the fullness at which the allocator costs `_COSTS`, between the points by a line."""
    cost = [1 - sample.delivered / sample.drives for sample in curve]
    for number, (sample, here) in enumerate(zip(curve, cost, strict=True)):
        if here < _COSTS:
            continue
        if number == 0:
            return sample.fullness
        last = cost[number - 1]
        part = (_COSTS - last) / (here - last)
        before = curve[number - 1].fullness
        return before + part * (sample.fullness - before)
    return None


def bend(x: Sequence[float], y: Sequence[float]) -> float:
    """Return where two straight lines that meet leave least squares.

    Examples
    --------
    >>> round(bend([0, 1, 2, 3, 4], [4, 4, 4, 2, 0]), 2)
    2.0
    """
    at, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    places = np.linspace(at[1], at[-2], 201).tolist()
    return min(places, key=lambda place: _left(at, values, place))


def _left(x: Array, y: Array, place: float) -> float:
    design = np.column_stack([np.ones_like(x), x, np.maximum(x - place, 0.0)])
    solution = np.linalg.lstsq(design, y, rcond=None)[0]
    return float(((design @ solution - y) ** 2).sum())

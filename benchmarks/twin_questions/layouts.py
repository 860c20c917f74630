"""Miniature OSTs at a constant fullness: write amplification and searches by how they are kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, product
from statistics import fmean
from typing import Any, Final

from trimtab._core import OstFleet
from trimtab.judge.spread import mean_interval

DAILY: Final = 0.07
"""Capacities that users write a day: 2.5 PB on 36.4 PB."""
PROBE: Final = 1.2
"""Bytes of hourly probes for each of users, where there are probes: 3 PB a day on 2.5."""
PROBE_FILES: Final = 8
OFTEN: Final = 4.0
"""Resets an hour: every 15 minutes, each 0.07 % of the capacity."""
SELDOM: Final = 0.25
"""Every four hours, each 1.2 % of the capacity."""
PURGED: Final = 0.3
"""Part of all deletions, where there is a purge: once a day, the oldest files."""
WARM_H: Final = 720
MEASURED_H: Final = 720
"""About two capacities each, after filling, which writes two more."""
SEED: Final = 2026

FULLNESS: Final = (0.50, 0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90, 0.92)
DEFAULT: Final = (0.25, 0.15, 0.05)
NERSC: Final = (0.25, 0.25, 0.05)
LOW: Final = (0.10, 0.10, 0.05)
TRIM_H: Final = {"never": 0, "once": 0, "weekly": 168, "nightly": 24, "discard": 0}
"""Hours between two; once: at the beginning, when the system has aged without."""
AGES: Final = 8


@dataclass(frozen=True, slots=True)
class Kept:
    """How an OST is kept.

    Attributes
    ----------
    thresholds
        Free parts under which the search begins at c1, c2 and c3.
    resets
        Of the goal, in an hour.
    """

    fullness: float
    thresholds: tuple[float, float, float] = DEFAULT
    resets: float = 0.0
    trim: str = "never"
    probe: bool = False
    purge: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """What the miniature is like: its size, and what no maker publishes of a drive."""

    groups: int = 16
    superblock_units: int = 64
    separate: bool = True
    spare: float = 0.127
    family: str = "classic"


def plan() -> list[tuple[Scale, list[Kept]]]:
    """Return every case, by the kind of miniature."""
    small, large = Scale(), Scale(64, 256)
    found = [
        (small, [*settings(), *trims(), *purges(), *substitutes()]),
        (large, [*settings(), *trims(), *purges(), *substitutes()]),
        (Scale(256, 1024), substitutes(fullness=(0.60, 0.75), probes=False)),
    ]
    for scale in (small, large):
        found.append((replace(scale, separate=False), [*trims(), *substitutes()]))
        found.append((replace(scale, spare=0.272), trims()))
        found.append((replace(scale, spare=0.272, separate=False), trims()))
    for family in ("optimize-scan", "el9", "ordered"):
        found.append((replace(small, family=family), [Kept(full) for full in FULLNESS]))
    return found


def settings() -> list[Kept]:
    """Return thresholds with and without resets at each fullness; the allocator sees no trim."""
    each = product(FULLNESS, (DEFAULT, NERSC, LOW), (0.0, OFTEN))
    return [Kept(full, thresholds, resets) for full, thresholds, resets in each]


def trims() -> list[Kept]:
    """Return each way of trimming at each fullness, under thresholds that spare long searches."""
    each = product(FULLNESS, ("never", "weekly", "nightly", "discard"))
    return [Kept(full, NERSC, trim=trim) for full, trim in each]


def purges() -> list[Kept]:
    """Return what purges change."""
    each = product(FULLNESS, ("never", "nightly"))
    return [Kept(full, NERSC, trim=trim, purge=True) for full, trim in each]


def substitutes(
    *, fullness: Sequence[float] = (0.60, 0.75, 0.85), probes: bool = True
) -> list[Kept]:
    """Return trims and resets, each alone and together."""
    each = product(
        fullness, (0.0, SELDOM, OFTEN), ("never", "once", "nightly"), (False, True)[: 1 + probes]
    )
    return [
        Kept(full, NERSC, resets=resets, trim=trim, probe=probe)
        for full, resets, trim, probe in each
    ]


def fresh(scale: Scale, seeds: int) -> list[dict[str, Any]]:
    """Return what resets do where they began with the first file: high addresses never written."""
    cases = [Kept(full, NERSC, resets) for full in (0.60, 0.75) for resets in (0.0, SELDOM, OFTEN)]
    return measure(scale, cases, seeds, churn=0.0)


def age(scale: Scale, fullness: Sequence[float], seeds: int) -> list[dict[str, Any]]:
    """Return useless loops in each capacity of writes since the filling, with the defaults."""
    columns = [Kept(full) for full in fullness for _ in range(seeds)]
    fleet = _fleet(scale, columns, churn=0.0)
    hours = round(24 / DAILY)
    states = [fleet.state()]
    for _ in range(AGES):
        for hour in range(hours):
            _step(fleet, columns, hour)
        states.append(fleet.state())
    found = []
    for number, full in enumerate(fullness):
        by_age = [
            _summed(
                [
                    _figures(before, after, column, scale.groups)
                    for column in range(number * seeds, (number + 1) * seeds)
                ]
            )["useless_per_1000"]
            for before, after in pairwise(states)
        ]
        found.append({"fullness": full, "useless_per_1000": by_age})
    return found


def measure(
    scale: Scale, cases: Sequence[Kept], seeds: int, *, churn: float = 2.0
) -> list[dict[str, Any]]:
    """Return the figures of each case over the seeds; ``churn`` capacities age it before."""
    cases = list(dict.fromkeys(cases))
    columns = [case for case in cases for _ in range(seeds)]
    fleet = _fleet(scale, columns, churn)
    once = _those(columns, "trim", "once")
    if once:
        fleet.trim(once)
    for hour in range(WARM_H):
        _step(fleet, columns, hour)
    before = fleet.state()
    for hour in range(WARM_H, WARM_H + MEASURED_H):
        _step(fleet, columns, hour)
    after = fleet.state()
    found = []
    for number, case in enumerate(cases):
        of_seeds = [
            _figures(before, after, column, scale.groups)
            for column in range(number * seeds, (number + 1) * seeds)
        ]
        found.append(asdict(case) | _summed(of_seeds))
    return found


def _fleet(scale: Scale, columns: Sequence[Kept], churn: float = 2.0) -> OstFleet:
    fleet = OstFleet(len(columns), seed=SEED, threads=1, **asdict(scale))
    if scale.family in ("classic", "optimize-scan"):
        for thresholds in {case.thresholds for case in columns}:
            fleet.configure(_those(columns, "thresholds", thresholds), enter=thresholds)
    discarding = _those(columns, "trim", "discard")
    if discarding:
        fleet.configure(discarding, discard=True)
    fleet.fill([case.fullness for case in columns], churn=churn)
    return fleet


def _those(columns: Iterable[Kept], name: str, value: object) -> list[int]:
    return [place for place, case in enumerate(columns) if getattr(case, name) == value]


def _step(fleet: OstFleet, columns: Sequence[Kept], hour: int) -> None:
    """Let an hour pass; what is purged waits for the night."""
    written, n = DAILY / 24, len(columns)
    night = hour % 24 == 23
    fleet.advance(
        [written] * n,
        [written * (1 - PURGED) if case.purge else written for case in columns],
        [DAILY * PURGED if case.purge and night else 0.0 for case in columns],
        [written * PROBE if case.probe else 0.0 for case in columns],
        [PROBE_FILES if case.probe else 0 for case in columns],
        [case.resets for case in columns],
    )
    due = [
        place
        for place, case in enumerate(columns)
        if (every := TRIM_H[case.trim]) and hour % every == every - 1
    ]
    if due:
        fleet.trim(due)


def _figures(
    before: dict[str, list[float]], after: dict[str, list[float]], column: int, groups: int
) -> dict[str, float]:
    """Return what was counted in between, of one OST."""

    def passed(name: str) -> float:
        return after[name][column] - before[name][column]

    requests = passed("requests")
    useless = [passed(f"useless_c{loop}") for loop in range(5)]
    considered = [passed(f"considered_c{loop}") for loop in range(5)]
    if passed("refused_units") > 0:
        raise SystemExit(f"no room in column {column}: a fullness that cannot be held")
    walks = sum(min(one, other / groups) for one, other in zip(useless, considered, strict=True))
    return {
        "write_amplification": 1 + passed("copied_units") / passed("written_units"),
        "useless_per_1000": 1000 * sum(useless) / requests,
        "walks_per_request": walks / requests,
        "groups_per_request": sum(considered) / requests,
        "extents_per_request": passed("extents") / requests,
        "free_extent_units": after["free_run_units"][column],
    }


def _summed(of_seeds: Sequence[dict[str, float]]) -> dict[str, list[float]]:
    """Return mean and ends of the 95 % interval of the mean, of each figure."""
    found = {}
    for name in of_seeds[0]:
        values = [one[name] for one in of_seeds]
        interval = mean_interval(values)
        ends = (interval.low, interval.high) if interval else (values[0], values[0])
        found[name] = [round(value, 5) for value in (fmean(values), *ends)]
    return found

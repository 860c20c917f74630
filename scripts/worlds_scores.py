"""What was found and said in worlds, held against their truth: plain values in and out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any, Final

from tests.worlds.world import Fault

NAMED: Final = 0.9
LOST: Final = frozenset({"failed", "unfinished", "not_started", "invalid_workload"})
BINS: Final = (0.05, 0.2, 0.5, 0.65, 0.8, 0.9, 1.01)
MONTH = timedelta(days=30)


@dataclass(frozen=True)
class Case:
    """One incident with the causes that are listed, and those that are true in its hours."""

    at: datetime
    until: datetime | None
    detected_at: datetime
    integrity: bool
    series: str
    targets: tuple[str, ...]
    effect: float | None
    causes: tuple[tuple[str, float], ...]
    unexplained: bool
    true: frozenset[str]
    simple: str | None
    onset: tuple[datetime, datetime] | None = None
    """Between which times it says that it began."""

    def began_within(self, earliest: datetime, latest: datetime) -> bool:
        """Return whether it may have begun then by what it says."""
        first, last = self.onset or (self.at, self.at)
        return min(first, self.at) <= latest and max(last, self.at) >= earliest


@dataclass(frozen=True)
class Scored:
    """One world: each fault with the earliest and latest begin of an incident of it, and the first
    run after it began.
    """

    family: str
    variant: str
    begin: datetime
    end: datetime
    faults: tuple[tuple[Fault, datetime, datetime, datetime], ...]
    cases: tuple[Case, ...]

    def near(self, number: int) -> list[Case]:
        """Return the incidents of a fault: those that began within its hours, or that lasted when
        it began and list its cause.
        """
        fault, earliest, latest, _ = self.faults[number]
        cases = [case for case in self.cases if may_be_of(case, fault)]
        began = [case for case in cases if case.began_within(earliest, latest)]
        return began or [
            case for case in cases
            if case.at < earliest <= (case.until or self.end)
            and fault.mechanism in {cause for cause, _ in case.causes}
        ]  # fmt: skip

    def is_false(self, case: Case) -> bool:
        """Return whether an incident is of no fault."""
        return all(
            not may_be_of(case, fault) or not case.began_within(earliest, latest)
            for fault, earliest, latest, _ in self.faults
        )

    def own(self, number: int) -> set[str]:
        """Return the causes that are right for a fault: its own and those of its chain."""
        fault = self.faults[number][0]
        right = {fault.mechanism, *fault.accepted, fault.because_of}
        right |= {other.mechanism for other, *_ in self.faults
                  if fault.mechanism and other.because_of == fault.mechanism}  # fmt: skip
        return {cause for cause in right if cause is not None}


def may_be_of(case: Case, fault: Fault) -> bool:
    """Return whether an incident shows what a fault did, whenever it was.

    Slow targets have to be those of the fault, and lost runs are of faults that lose runs.
    """
    if case.integrity or fault.mechanism == "bad-checksums":
        return case.integrity and fault.mechanism == "bad-checksums"
    if case.series:
        return True
    if case.targets:
        return not set(case.targets).isdisjoint(fault.targets)
    return any(name.rpartition(":")[2] in LOST for name in fault.noticed_by)


@dataclass
class Tally:
    """What is counted over the worlds of a family."""

    worlds: int = 0
    months: float = 0.0
    faults: int = 0
    noticed: int = 0
    found: int = 0
    once: int = 0
    knowable: int = 0
    first: int = 0
    simple: int = 0
    suspected: int = 0
    silent: int = 0
    unknown: int = 0
    unknown_left: int = 0
    incidents: int = 0
    named: int = 0
    named_wrongly: int = 0
    false: int = 0
    delays_h: list[float] = field(default_factory=list)
    effects: list[float] = field(default_factory=list)
    listed: list[tuple[float, bool]] = field(default_factory=list)
    missed: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)


def scores(worlds: Sequence[Scored]) -> dict[str, Any]:
    """Return all figures by family, of all together, and of both kinds of quiet worlds."""
    families: dict[str, Tally] = {}
    whole = Tally()
    for world in worlds:
        name = f"quiet, {world.variant}" if world.family == "quiet" else world.family
        for tally in (families.setdefault(name, Tally()), whole):
            _count(tally, world)
    return {"families": {name: _figures(tally) for name, tally in families.items()},
            "all": _figures(whole),
            "calibration": _bins(whole.listed)}  # fmt: skip


def _count(tally: Tally, world: Scored) -> None:
    tally.worlds += 1
    tally.months += (world.end - world.begin) / MONTH
    tally.faults += len(world.faults)
    tally.incidents += len(world.cases)
    for case in world.cases:
        tally.listed += [(sure, cause in case.true) for cause, sure in case.causes]
        named = [cause for cause, sure in case.causes if sure >= NAMED]
        tally.named += len(named)
        tally.named_wrongly += sum(cause not in case.true for cause in named)
        tally.false += world.is_false(case)
    for number, (fault, *_) in enumerate(world.faults):
        if fault.noticed:
            _count_fault(tally, world, number)


def _count_fault(tally: Tally, world: Scored, number: int) -> None:
    fault, _, _, seen = world.faults[number]
    near = world.near(number)
    tally.noticed += 1
    if not near:
        tally.missed[f"{fault.variant}: {fault.mechanism or 'unknown'}"] += 1
        return
    tally.found += 1
    tally.once += len(near) == 1
    detected = min(case.detected_at for case in near)
    tally.delays_h.append(max(0.0, (detected - seen) / timedelta(hours=1)))
    main = min(near, key=lambda case: abs(case.at - fault.begin))
    effect = fault.effect.get(main.series, 1.0)
    if effect < 0.97 and main.effect:
        tally.effects.append(abs(math.log(main.effect / effect)))
    sharing = [other for other in range(len(world.faults)) if main in world.near(other)]
    if not fault.knowable:
        others = {cause for other in sharing if other != number for cause in world.own(other)}
        if main.causes and main.causes[0][0] in others:
            return  # Something was to be known in these hours, and is named.
        tally.unknown += 1
        tally.unknown_left += main.unexplained
        return
    tally.knowable += 1
    right = world.own(number)
    # Where one incident covers several faults, each has its place among the first of them.
    first = [cause for cause, _ in main.causes[: len(sharing)]]
    is_right = bool(right.intersection(first))
    tally.first += is_right
    tally.silent += main.unexplained
    tally.suspected += main.unexplained and is_right
    tally.simple += main.simple in right
    if not is_right:
        named = first[0] if first else "nothing"
        tally.wrong[f"{fault.variant}: {fault.mechanism} -> {named}"] += 1


def _figures(tally: Tally) -> dict[str, Any]:
    plain = {
        name: getattr(tally, name)
        for name in (
            "worlds", "faults", "noticed", "found", "once", "knowable", "first", "simple", "silent",
            "suspected", "unknown", "unknown_left", "incidents", "named", "named_wrongly", "false",
        )
    }  # fmt: skip
    return plain | {
        "months": round(tally.months, 1),
        "calibration_error": _error(tally.listed),
        "delay_h": _quantiles(tally.delays_h),
        "effect_error": _quantiles(tally.effects),
        "missed": dict(tally.missed.most_common()),
        "wrong": dict(tally.wrong.most_common()),
    }


def _quantiles(values: Sequence[float]) -> list[float] | None:
    """Return median and 90 %."""
    if not values:
        return None
    ordered = sorted(values)
    return [round(median(ordered), 3), round(ordered[math.ceil(0.9 * len(ordered)) - 1], 3)]


def _bins(listed: Sequence[tuple[float, bool]]) -> list[dict[str, float]]:
    rows = []
    for low, high in pairwise(BINS):
        inside = [(sure, true) for sure, true in listed if low <= sure < high]
        rows.append({
            "from": low, "to": min(high, 1.0), "n": len(inside),
            "true": sum(true for _, true in inside),
            "mean": round(sum(sure for sure, _ in inside) / max(1, len(inside)), 4),
        })  # fmt: skip
    return rows


def _error(listed: Sequence[tuple[float, bool]]) -> float | None:
    """Return mean |confidence - share true| over the bins, weighted by their counts."""
    bins = [row for row in _bins(listed) if row["n"]]
    count = sum(row["n"] for row in bins)
    if not count:
        return None
    apart = sum(row["n"] * abs(row["mean"] - row["true"] / row["n"]) for row in bins)
    return round(apart / count, 4)

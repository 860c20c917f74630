"""Score `trimtab incidents` on records of sites as they really are (`tests.worlds`).

    python -m scripts.score_worlds --seeds 0 40                     play, print
    python -m scripts.score_worlds --seeds 0 40 --keep FILE         keep what was played
    python -m scripts.score_worlds --seeds 0 90 --fit               fit the calibration
    python -m scripts.score_worlds --seeds 0 40 --write now         and write the results

What is scored: faults found of those that an instrument notices, the first cause of those that the
record tells of, how late, incidents without a fault a quiet month, effects, and of what is listed
at a confidence how much is true. Seeds under 10,000 are fitted on; results are of later ones.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, cast

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.fit_confidence import PAGE, fit, machine, made_page  # noqa: E402 - the tree is on the path now
from scripts.fit_confidence import RESULTS as EXPLAINING  # noqa: E402
from scripts.worlds_page import BINS, RESULTS  # noqa: E402
from tests.explain.scoring import Gathered, Listed, gathered_of  # noqa: E402
from tests.explain.worlds import WorldSource, incidents_of, known_of  # noqa: E402
from tests.incidents.world import World as OtherWorld  # noqa: E402
from tests.worlds.faults import Fault  # noqa: E402
from tests.worlds.record import Snapshots, make_world  # noqa: E402

from trimtab.base.incident import Assessment, Explanation, Incident, Shape  # noqa: E402
from trimtab.explain.causes import TABLE  # noqa: E402
from trimtab.explain.explanation import (  # noqa: E402
    CALIBRATION,
    conclude,
    ranked_for,
)
from trimtab.explain.failed_run import BadChecksums  # noqa: E402
from trimtab.explain.site_explanation import standing_of  # noqa: E402

MONTH = timedelta(days=30)
_CAUSES = {cause.id: cause for cause in TABLE}
_SLACK = timedelta(hours=24)


@dataclass(frozen=True)
class Played:
    """One world with what was found in it, ready to be ranked again."""

    seed: int
    begin: datetime
    end: datetime
    every: timedelta
    faults: tuple[tuple[Fault, datetime, datetime], ...]
    gathered: Gathered
    standing: tuple[Assessment, ...]

    def explained(self) -> tuple[Explanation, ...]:
        """Return what is said of each incident."""
        return tuple(
            conclude(incident, [(_CAUSES[name], evidence) for name, evidence in causes],
                     standing=self.standing)
            for incident, causes in self.gathered
        )  # fmt: skip

    def faults_of(self, incident: Incident) -> list[Fault]:
        """Return the faults in whose hours an incident lies."""
        return [fault for fault, begin, end in self.faults if self.is_of(incident, begin, end)]

    def is_of(self, incident: Incident, begin: datetime, end: datetime) -> bool:
        """Return whether an incident began within the hours of a fault."""
        slack = max(_SLACK, 3 * self.every)
        return begin - max(slack, 0.3 * (end - begin)) <= incident.at <= end + slack


def play(seed: int) -> Played:
    """Return a world played: its incidents with the evidence of every cause."""
    warnings.simplefilter("ignore", RuntimeWarning)
    world = make_world(seed)
    plain = cast("OtherWorld", world)
    known, source = known_of(plain), WorldSource(plain)
    assert isinstance(world.snapshots, Snapshots)
    damaged = [BadChecksums(*row) for row in world.snapshots.bad_checksums()]
    incidents = incidents_of(plain, known, damaged)
    gathered = gathered_of(incidents, known, source)
    site = world.facts
    return Played(
        seed=seed, begin=site.at(0), end=site.at(site.hours),
        every=timedelta(hours=site.probe_every_h),
        faults=tuple((fault, site.at(fault.begin), site.at(fault.end)) for fault in world.truth),
        gathered=gathered, standing=standing_of(known, source),
    )  # fmt: skip


def scores(played: Sequence[Played]) -> dict[str, Any]:
    """Return everything that is scored, as plain values."""
    noticed = found = told = first = unknown = silent = 0
    delays: list[float] = []
    errors: list[float] = []
    covered: list[bool] = []
    missed: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for world in played:
        explained = world.explained()
        for fault, begin, end in world.faults:
            if not fault.noticed_by:
                continue
            noticed += 1
            near = [each for each in explained if world.is_of(each.incident, begin, end)]
            if fault.cause == "bad-checksums":
                near = [each for each in near if each.incident.shape is Shape.INTEGRITY]
            if not near:
                missed[f"{fault.cause}/{fault.variant}"] += 1
                continue
            found += 1
            main = min(
                near,
                key=lambda each: (
                    (each.incident.shape is Shape.INTEGRITY) != (fault.cause == "bad-checksums")
                    or abs(each.incident.at - begin) / timedelta(hours=1)
                ),
            )
            detected = min(each.incident.detected_at for each in near)
            delays.append(max(0.0, (detected - begin) / timedelta(hours=1)))
            _effect(fault, main.incident, errors, covered)
            names = [cause.cause for cause in main.causes]
            if fault.cause is None:
                unknown += 1
                silent += main.unexplained
            elif fault.told:
                told += 1
                right = bool(names) and names[0] in {fault.cause, *fault.accepted}
                first += right
                if not right:
                    wrong[
                        f"{fault.cause}/{fault.variant} -> {names[0] if names else 'nothing'}"
                    ] += 1
    return {
        "worlds": len(played), "days": round(sum((w.end - w.begin).days for w in played)),
        "faults": sum(len(w.faults) for w in played), "noticed": noticed, "found": found,
        "told": told, "first": first, "unknown": unknown, "unknown_unexplained": silent,
        "delay_h": _quantiles(delays), "effect_error": _quantiles(errors),
        "effect_covered": [sum(covered), len(covered)], "quiet": _quiet(played),
        "calibration": _calibration(played), "missed": dict(missed.most_common()),
        "wrong": dict(wrong.most_common()),
    }  # fmt: skip


def _effect(fault: Fault, incident: Incident, errors: list[float], covered: list[bool]) -> None:
    metric = incident.key.metric if incident.key else ""
    metric = "metadata" if metric.startswith("file_") else metric
    true = fault.effect.get(metric)
    if true is None or true > 0.97 or not incident.effect or fault.variant == "nightly":
        return
    errors.append(abs(math.log(incident.effect / true)))
    if incident.effect_interval is not None:
        covered.append(incident.effect_interval.low <= true <= incident.effect_interval.high)


def _quantiles(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    ordered = sorted(values)
    return {
        "median": round(median(ordered), 3),
        "p90": round(ordered[int(0.9 * (len(ordered) - 1))], 3),
    }


def _quiet(played: Sequence[Played]) -> dict[str, Any]:
    months, false, named = 0.0, 0, 0
    shapes: Counter[str] = Counter()
    for world in played:
        busy = sum(
            ((min(end, world.end) - begin + 2 * _SLACK) for _, begin, end in world.faults),
            timedelta(),
        )
        months += max((world.end - world.begin - busy) / MONTH, 0.0)
        for each in world.explained():
            if not world.faults_of(each.incident):
                false += 1
                shapes[each.incident.shape] += 1
                named += not each.unexplained
    return {
        "months": round(months, 1),
        "incidents": false,
        "a_month": round(false / max(months, 1e-9), 3),
        "named": named,
        "shapes": dict(shapes),
    }


def listed(played: Iterable[Played]) -> list[tuple[float, float, bool, str]]:
    """Return confidence, log odds, truth and cause of everything that is listed."""
    rows = []
    for world in played:
        for explanation, (incident, causes) in zip(world.explained(), world.gathered, strict=True):
            true = {name for fault in world.faults_of(incident)
                    for name in (fault.cause, *fault.accepted)}  # fmt: skip
            gathered = [(_CAUSES[name], evidence) for name, evidence in causes]
            odds = {each.cause.id: each.log_odds for each in ranked_for(incident, gathered)}
            rows += [(each.confidence, odds[each.cause], each.cause in true, each.cause)
                     for each in explanation.causes]  # fmt: skip
    return rows


def rows_to_fit(played: Iterable[Played]) -> list[Listed]:
    """Return everything with a sign of its mechanism, listed or not, as the fit takes it."""
    return [
        Listed(str(world.seed), "site", each.cause.id, each.log_odds, 0.0, each.cause.id in true)
        for world in played
        for incident, causes in world.gathered
        for true in [{name for fault in world.faults_of(incident)
                      for name in (fault.cause, *fault.accepted)}]
        for each in ranked_for(incident, [(_CAUSES[name], pieces) for name, pieces in causes])
        if each.has_evidence_for and not each.throughout
    ]  # fmt: skip


def _calibration(played: Sequence[Played]) -> list[dict[str, float]]:
    rows, found = [], listed(played)
    for low, high in pairwise(BINS):
        inside = [row for row in found if low <= row[0] < high]
        rows.append(
            {
                "from": low,
                "to": min(high, 1.0),
                "n": len(inside),
                "true": sum(row[2] for row in inside),
                "mean": round(sum(row[0] for row in inside) / max(1, len(inside)), 4),
            }
        )
    return rows


def main(arguments: list[str]) -> int:
    """Play or load, print, and write the results where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs=2, default=[10_000, 10_040])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--write", help="name of the section of the results: before, now")
    parser.add_argument("--fit", action="store_true", help="fit the calibration on these seeds")
    asked = parser.parse_args(arguments)
    if asked.keep is not None and asked.keep.exists():
        played = pickle.loads(asked.keep.read_bytes())
    else:
        with ProcessPoolExecutor(asked.processes, mp_context=get_context("spawn")) as pool:
            played = list(pool.map(play, range(*asked.seeds)))
        if asked.keep is not None:
            asked.keep.write_bytes(pickle.dumps(played))
    if asked.fit:
        fitted = fit(rows_to_fit(played))
        print(f"CALIBRATION = ({fitted[0]:.2f}, {fitted[1]:.2f}), it is {CALIBRATION}")
    results = scores(played)
    print(json.dumps(results, indent=1))
    if asked.write:
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        kept[asked.write] = {"seeds": asked.seeds, **machine(), **results}
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
        PAGE.write_text(made_page(PAGE.read_text(), json.loads(EXPLAINING.read_text())))
    return 0


if __name__ == "__main__":
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    sys.exit(main(sys.argv[1:]))

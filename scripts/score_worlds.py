"""Score `trimtab incidents` on records of sites (`tests.worlds`), by family.

    python -m scripts.score_worlds                              play, print one table
    python -m scripts.score_worlds --families full load --each 4
    python -m scripts.score_worlds --keep FILE                  keep what was played
    python -m scripts.score_worlds --from 0 --fit               fit the calibration
    python -m scripts.score_worlds --before-after after         and write the section
    python -m scripts.score_worlds --page                       make the page from kept results

Each family is played with as many seeds as asked for each of its variants. Seeds under 10,000 are
fitted on; results are of later ones. Beside the explainer stands the simplest rule that a person
would use (`tests.worlds.simple_rule`), given the same incidents.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import platform
import subprocess
import sys
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.calibration_fit import fit  # noqa: E402 - the tree is on the path now
from scripts.worlds_page import PAGE, RESULTS, made_page, table  # noqa: E402
from scripts.worlds_scores import Case, Scored, scores  # noqa: E402
from tests.explain.worlds import Gathered, WorldSource, gathered_of, incidents_of, known_of  # noqa: E402
from tests.worlds.families import VARIANTS  # noqa: E402
from tests.worlds.generate import make_world  # noqa: E402
from tests.worlds.simple_rule import nearest_change  # noqa: E402
from tests.worlds.world import Fault, World  # noqa: E402

from trimtab.base.incident import Assessment, Explanation, Incident, Shape  # noqa: E402
from trimtab.explain.causes import TABLE  # noqa: E402
from trimtab.explain.explanation import CALIBRATION, conclude, ranked_for  # noqa: E402
from trimtab.explain.site_explanation import standing_of  # noqa: E402

FIRST_SEED = 10_000
_CAUSES = {cause.id: cause for cause in TABLE}
_SLACK = timedelta(hours=24)
_ENTAILS: dict[str | None, tuple[str, ...]] = {"target-filling": ("targets-over-limit",)}
"""What is true as well though it is not the cause: a target that fills is over the limit."""
_QUIET_TIMES = 4
"""So many more quiet worlds: false incidents are few."""


@dataclass(frozen=True)
class Placed:
    """A fault and the hours in which an incident of it may begin.

    ``seen``: the first run after it began. In a gap an incident cannot be dated better than by the
    runs around it.
    """

    fault: Fault
    earliest: datetime
    latest: datetime
    seen: datetime


@dataclass(frozen=True)
class Played:
    """One world with what was found in it, ready to be ranked again."""

    family: str
    variant: str
    seed: int
    begin: datetime
    end: datetime
    faults: tuple[Placed, ...]
    gathered: Gathered
    simple: tuple[str | None, ...]
    standing: tuple[Assessment, ...]

    def explained(self) -> tuple[Explanation, ...]:
        """Return what is said of each incident."""
        return tuple(
            conclude(incident, [(_CAUSES[name], evidence) for name, evidence in causes],
                     standing=self.standing)
            for incident, causes in self.gathered
        )  # fmt: skip

    def true_of(self, incident: Incident) -> frozenset[str]:
        """Return every cause that is true in the hours of an incident."""
        until = incident.until or self.end
        return frozenset(
            cause
            for placed in self.faults
            if incident.at <= placed.latest and until >= placed.earliest
            for cause in (
                placed.fault.mechanism,
                *placed.fault.accepted,
                *_ENTAILS.get(placed.fault.mechanism, ()),
            )
            if cause is not None
        )

    def scored(self) -> Scored:
        """Return what was found and said as plain values."""
        explained = self.explained()
        causes = [tuple((cause.cause, cause.confidence) for cause in each.causes)
                  for each in explained]  # fmt: skip
        return Scored(
            family=self.family, variant=self.variant, begin=self.begin, end=self.end,
            faults=tuple((placed.fault, placed.earliest, placed.latest, placed.seen)
                         for placed in self.faults),
            cases=tuple(
                Case(
                    at=each.incident.at, until=each.incident.until,
                    detected_at=each.incident.detected_at,
                    integrity=each.incident.shape is Shape.INTEGRITY,
                    series=f"{each.incident.key.probe}:{each.incident.key.metric}"
                    if each.incident.key else "",
                    targets=each.incident.targets, effect=each.incident.effect,
                    causes=listed, unexplained=each.unexplained,
                    true=self.true_of(each.incident), simple=simple, onset=each.incident.onset,
                )
                for each, listed, simple in zip(explained, causes, self.simple, strict=True)
            ),
        )  # fmt: skip


def play(family: str, seed: int) -> Played:
    """Return a world played: its incidents with the evidence of every cause."""
    warnings.simplefilter("ignore", RuntimeWarning)
    world = make_world(family, seed)
    known, source = known_of(world), WorldSource(world)
    incidents = incidents_of(world, known)
    return Played(
        family=family, variant=world.variant, seed=seed, begin=world.begin, end=world.end,
        faults=tuple(placed(world, fault) for fault in world.truth),
        gathered=gathered_of(incidents, known, source),
        simple=tuple(nearest_change(world, incident.at) for incident in incidents),
        standing=standing_of(known, source),
    )  # fmt: skip


def placed(world: World, fault: Fault) -> Placed:
    """Return a fault with the hours in which an incident of it may begin."""
    slack = max(_SLACK, 3 * world.every)
    runs = [run["at"] for run in world.runs]
    before = max((at for at in runs if at <= fault.begin), default=fault.begin)
    seen = min((at for at in runs if at >= fault.begin), default=fault.begin)
    return Placed(fault, before - slack, max(fault.end or world.end, seen) + slack, seen)


def rows_to_fit(played: Iterable[Played]) -> list[tuple[float, bool]]:
    """Return log10 odds and truth of everything with a sign of its mechanism, listed or not."""
    return [
        (each.log_odds, each.cause.id in true)
        for world in played
        for incident, causes in world.gathered
        for true in [world.true_of(incident)]
        for each in ranked_for(incident, [(_CAUSES[name], pieces) for name, pieces in causes])
        if each.has_evidence_for and not each.throughout
    ]


def machine() -> dict[str, str]:
    """Return where and when this was scored."""
    words = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
    return {
        "commit": commit.stdout.strip(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
    }


def play_all(families: Sequence[str], first: int, each: int, processes: int) -> list[Played]:
    """Return every family played with so many seeds for each of its variants."""
    jobs = [
        (family, first + number)
        for family in families
        for number in range(
            each * len(VARIANTS[family]) * (_QUIET_TIMES if family == "quiet" else 1)
        )
    ]
    names, seeds = zip(*jobs, strict=True)
    if processes == 1:
        return [play(*job) for job in jobs]
    # Polars' threads do not outlive a fork.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return list(pool.map(play, names, seeds))


def main(arguments: list[str]) -> int:
    """Play or load, print, and write the results where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument(
        "--from", dest="first", type=int, default=FIRST_SEED, help="seed to begin with"
    )
    parser.add_argument("--each", type=int, default=3, help="worlds of each variant")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--before-after", metavar="NAME", help="section of the results to write")
    parser.add_argument("--fit", action="store_true", help="fit the calibration on these seeds")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--page", action="store_true", help="make the page from kept results")
    options = parser.parse_args(arguments)
    if options.page:
        PAGE.write_text(made_page(PAGE.read_text()))
        return 0
    if options.keep is not None and options.keep.exists():
        played = pickle.loads(options.keep.read_bytes())
    else:
        played = play_all(options.families, options.first, options.each, options.processes)
        if options.keep is not None:
            options.keep.write_bytes(pickle.dumps(played))
    if options.fit:
        fitted = fit(rows_to_fit(played))
        print(f"CALIBRATION = ({fitted[0]:.2f}, {fitted[1]:.2f}), it is {CALIBRATION}")
    results = scores([world.scored() for world in played])
    print(json.dumps(results, indent=1) if options.json else table(results))
    if options.before_after:
        sections = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        sections[options.before_after] = {
            "first_seed": options.first, "each": options.each, **machine(), **results
        }  # fmt: skip
        RESULTS.write_text(json.dumps(sections, indent=1) + "\n")
        PAGE.write_text(made_page(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    sys.exit(main(sys.argv[1:]))

"""Score explaining on simulated incidents, and fit how odds become confidence.

    python -m scripts.fit_confidence --seeds 1 2 3 4           play, fit on half, test on the rest
    python -m scripts.fit_confidence --seeds 1 2 3 4 --score   and write the results and the page
    python -m scripts.fit_confidence --page                    the page alone

Worlds with even numbers are fitted on, the others tested on. ``--keep DIRECTORY`` keeps what was
played, so that weights can be changed in the ranking without simulating again; a cause that was
changed has to be played again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts import worlds_page  # noqa: E402 - as below
from scripts.page_blocks import remade  # noqa: E402 - as below
from tests.explain.contexts import plain_context  # noqa: E402 - as below
from tests.explain.scoring import (  # noqa: E402 - the tests stand beside the package
    CONFIDENT,
    Listed,
    Played,
    Verdict,
    confusion,
    listed_causes,
    play,
    verdicts,
)
from tests.incidents.scenarios import Scenario, scenarios  # noqa: E402

from trimtab.base.incident import NAMED, Found, Route  # noqa: E402
from trimtab.explain.causes import TABLE  # noqa: E402
from trimtab.explain.explanation import CALIBRATION  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "explaining.json"
PAGE = ROOT / "docs" / "explaining.md"
FITTED_FROM = -2.0
"""log10 odds. What is less likely is never listed, and there are very many of those."""
STEP_MOST = 0.2
BINS = (0.05, 0.2, 0.5, 0.8, 0.9, 1.01)


def main(arguments: list[str]) -> int:
    """Play, fit and print; with ``--score`` write the results."""
    parser = argparse.ArgumentParser(description="score explaining, fit confidence")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--score", action="store_true")
    parser.add_argument("--page", action="store_true", help="make the page from kept results")
    asked = parser.parse_args(arguments)
    if asked.page:
        PAGE.write_text(made_page(PAGE.read_text(), json.loads(RESULTS.read_text())))
        return 0
    played = [
        one
        for seed in asked.seeds
        for one in played_of(seed, asked.rounds, asked.processes, asked.keep)
    ]
    fitted = fit([one for one in listed_causes(played[0::2]) if math.isfinite(one.log_odds)])
    print(f"fitted on half: CALIBRATION = ({fitted[0]:.2f}, {fitted[1]:.2f}), it is {CALIBRATION}")
    results = scores(played, played[1::2])
    print(as_text(results))
    if asked.score:
        results |= {"seeds": asked.seeds, "rounds": asked.rounds, **machine()}
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        PAGE.write_text(made_page(PAGE.read_text(), results))
    return 0


def played_of(seed: int, rounds: int, processes: int, keep: Path | None) -> list[Played]:
    """Return the scenarios of a seed played, from what was kept if it was."""
    file = None if keep is None else keep / f"played-{seed}-{rounds}.pickle"
    if file is not None and file.exists():
        return pickle.loads(file.read_bytes())
    found = scenarios(seed, rounds=rounds)
    # Polars' threads do not outlive a fork.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        played = list(pool.map(play_alone, found))
    if file is not None:
        file.write_bytes(pickle.dumps(played))
    return played


def play_alone(scenario: Scenario) -> Played:
    """Return a scenario played, in a process of its own."""
    return play(scenario)


def fit(seen: Sequence[Listed]) -> tuple[float, float]:
    """Return intercept and slope of the logistic curve through natural log odds and truth.

    Newton's method on the likelihood of what could be listed at all (`FITTED_FROM`), its steps
    bounded, with a faint pull towards (0, 1) that keeps it finite.
    """
    points = [
        (one.log_odds * math.log(10), one.true) for one in seen if one.log_odds >= FITTED_FROM
    ]
    intercept, slope = 0.0, 1.0
    for _ in range(200):
        gradient, hessian = [-0.5 * intercept, -0.5 * (slope - 1)], [0.5, 0.0, 0.5]
        for x, true in points:
            p = 1 / (1 + math.exp(-max(-50.0, min(50.0, intercept + slope * x))))
            gradient[0] += true - p
            gradient[1] += (true - p) * x
            weight = p * (1 - p)
            hessian = [
                hessian[0] + weight, hessian[1] + weight * x, hessian[2] + weight * x * x
            ]  # fmt: skip
        determinant = hessian[0] * hessian[2] - hessian[1] ** 2
        step = (hessian[2] * gradient[0] - hessian[1] * gradient[1]) / determinant
        tilt = (hessian[0] * gradient[1] - hessian[1] * gradient[0]) / determinant
        intercept += max(-STEP_MOST, min(STEP_MOST, step))
        slope += max(-STEP_MOST, min(STEP_MOST, tilt))
    return intercept, slope


def scores(played: Sequence[Played], tested: Sequence[Played]) -> dict[str, Any]:
    """Return everything that is scored, as plain values."""
    by_sort: dict[str, list[Verdict]] = {}
    for one in played:
        by_sort.setdefault(one.sort, []).extend(verdicts(one))
    quiet = [one for one in listed_causes(played) if one.sort == "quiet"]
    return {
        "sorts": {sort: _placed(found) for sort, found in by_sort.items() if found},
        "confusion": {
            cause: dict(counts.most_common())
            for cause, counts in sorted(confusion(by_sort.get("single", [])).items())
        },
        "calibration": _calibration(listed_causes(tested)),
        "quiet": {
            "worlds": sum(one.sort == "quiet" for one in played),
            "incidents": sum(len(one.gathered) for one in played if one.sort == "quiet"),
            "confident": sum(one.confidence >= CONFIDENT for one in quiet),
            "named": sum(one.confidence >= NAMED for one in quiet),
        },
        "standing": _standing(played),
        "mitigation": _mitigation(played),
        "withheld": _withheld(played),
    }


def _placed(found: Sequence[Verdict]) -> dict[str, int]:
    seen = [one for one in found if one.visible]
    told_of = [one for one in seen if one.available]
    explained = [one for one in told_of if one.detected]
    return {
        "causes": len(found),
        "visible": len(seen),
        "available": len(told_of),
        "found": len(explained),
        "first": sum(one.place == 0 for one in explained),
        "among_two": sum(one.place is not None and one.place <= 1 for one in explained),
    }


def _calibration(found: Sequence[Listed]) -> list[dict[str, float]]:
    rows = []
    for low, high in pairwise(BINS):
        inside = [one for one in found if low <= one.confidence < high]
        rows.append({
            "from": low, "to": min(high, 1.0), "n": len(inside),
            "true": sum(one.true for one in inside),
            "mean": sum(one.confidence for one in inside) / max(1, len(inside)),
        })  # fmt: skip
    return rows


def _standing(played: Sequence[Played]) -> dict[str, int]:
    worlds = [one for one in played if one.sort == "standing"]
    wanted = [one.name.split("/")[1] for one in worlds]
    told_ = [{each.cause for each in one.standing} for one in worlds]
    return {
        "worlds": len(worlds),
        "listed": sum(cause in names for cause, names in zip(wanted, told_, strict=True)),
    }


def _mitigation(played: Sequence[Played]) -> dict[str, int]:
    worlds = [one for one in played if one.sort == "mitigation"]
    named = chained = 0
    for one in worlds:
        firsts = [each.causes[0] for each in one.explanations() if each.causes]
        gated = [each for each in firsts if each.cause == "few-targets-open"]
        named += bool(gated)
        chained += any(
            each.because_of in {"targets-over-limit", "target-filling"} for each in gated
        )
    return {"worlds": len(worlds), "named": named, "because_of_fullness": chained}


def _withheld(played: Sequence[Played]) -> dict[str, int]:
    worlds = [one for one in played if one.sort == "withheld"]
    found = [one for one in listed_causes(worlds) if one.confidence >= CONFIDENT and not one.true]
    return {"worlds": len(worlds), "wrong_and_confident": len(found)}


def machine() -> dict[str, str]:
    """Return where and when this was scored."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return {
        "commit": commit.stdout.strip(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
    }


def as_text(results: dict[str, Any]) -> str:
    """Return the results as Markdown tables."""
    lines = ["| worlds with | causes | seen by an instrument | evidence available "
             "| incident found | ranked first | among the first two |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for sort, row in results["sorts"].items():
        share = row["first"] / max(1, row["found"])
        lines.append(
            f"| {_WORDS.get(sort, sort)} | {row['causes']} | {row['visible']} "
            f"| {row['available']} | {row['found']} "
            f"| {row['first']} ({share:.0%}) | {row['among_two']} |"
        )
    lines += ["", "| cause, alone | said first |", "|---|---|"]
    for cause, counts in results["confusion"].items():
        said = ", ".join(f"{name} {count}" for name, count in Counter(counts).most_common())
        lines.append(f"| {cause} | {said} |")
    lines += ["", "| confidence | causes | of them true | share |", "|---|---|---|---|"]
    for row in results["calibration"]:
        share = f"{row['true'] / row['n']:.0%}" if row["n"] else ""
        lines.append(
            f"| {row['from']:.0%} to {row['to']:.0%} | {row['n']} | {row['true']} | {share} |"
        )
    quiet, standing, gated, withheld = (
        results[name] for name in ("quiet", "standing", "mitigation", "withheld")
    )
    lines += [
        "",
        f"- {quiet['worlds']} quiet worlds of five weeks had {quiet['incidents']} incidents; "
        f"{quiet['confident']} causes were given at {CONFIDENT:.0%} or more, "
        f"{quiet['named']} named.",
        f"- {standing['listed']} of {standing['worlds']} sites that were bad from their first "
        "run had the condition listed as standing.",
        f"- Of {gated['worlds']} mitigations that were the cause {gated['named']} were named "
        f"first, {gated['because_of_fullness']} with the fullness that they came of.",
        f"- In {withheld['worlds']} worlds without the true cause's telemetry "
        f"{withheld['wrong_and_confident']} wrong causes were given at {CONFIDENT:.0%} or more.",
    ]
    return "\n".join(lines)


_WORDS = {
    "single": "one cause", "pair": "two causes", "mitigation": "a mitigation that is the cause",
    "withheld": "the true cause's telemetry withheld",
}  # fmt: skip


def made_page(page: str, results: dict[str, Any]) -> str:
    """Return the page with its causes and scores made anew."""
    made = {
        "named": NAMED_TEXT,
        "causes": causes_text(),
        "scores": f"{as_text(results)}\n\nSeeds {', '.join(map(str, results['seeds']))}; "
        f"{results['machine']}, {results['date']}, commit {results['commit']}.\n",
        "worlds": worlds_page.as_text(json.loads(worlds_page.RESULTS.read_text())),
    }
    return remade(page, made)


NAMED_TEXT = f"""\
From {NAMED:.0%} on a cause is named; below, the incident is **unexplained**, and what is left is a
leading suspicion without a figure. From there on the records of other sites (the second table
below) show that as much is true as is claimed, within 7 points; of what stands lower there is too
little on as many records to show that.
"""


def causes_text() -> str:
    """Return every cause with what is looked for and what would decide, as Markdown.

    What is looked for is what it says that it cannot have of a record that holds nothing.
    """
    lines = ["| cause | looked for | what would decide |", "|---|---|---|"]
    for cause in TABLE:
        pieces = cause.evidence(plain_context())
        wanted = [piece.what for piece in pieces if piece.found is Found.NOT_AVAILABLE]
        wanted += ["the log book"] if any(piece.route is Route.LOG for piece in pieces) else []
        lines.append(
            f"| {cause.title} (`{cause.id}`) | {'; '.join(wanted)} | {cause.measurement} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

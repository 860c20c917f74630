"""How many small changes of the core's rules its tests notice: a seeded sample by cargo-mutants.

The rules decide what a purge plans to delete. cargo-mutants changes a copy of the tree, never the
project. Their order is drawn from the seed: those judged so far are a sample, and the same call
goes on after a kill or a time limit; answers of a commit stand in ``build/mutants``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402

OUT: Final = ROOT / "benchmarks" / "results" / "mutants_core.json"
WORK: Final = ROOT / "build" / "mutants"
FILES: Final = tuple(
    f"crates/namespace/src/{name}.rs" for name in ("rules", "tally/judge", "tally/exempt")
)
TESTS: Final = ("--lib", "--test=tally", "--test=index")
"""The tests that judge the rules; those of whole walks and removals take minutes."""
ENVIRONMENT: Final = {"CARGO_PROFILE_RELEASE_LTO": "off", "PROPTEST_RNG_SEED": "1"}
VERDICTS: Final = {
    "CaughtMutant": "killed",
    "MissedMutant": "survived",
    "Timeout": "timeout",
    "Unviable": "unviable",
}


def main() -> None:
    """Judge mutants until the time is over, and write the score of all that were judged."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cargo-mutants", required=True, help="the program")
    parser.add_argument("--minutes", type=float, default=50.0)
    parser.add_argument("--sample", type=int, default=100, help="mutants that are judged at most")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    commit = _output("git", "-C", str(ROOT), "rev-parse", "HEAD").strip()
    kept = WORK / f"core-{commit[:12]}.json"
    answers: dict[str, str] = json.loads(kept.read_text()) if kept.exists() else {}
    program = (asked.cargo_mutants, "mutants", "--dir", str(ROOT), *_each("--file", FILES))
    mutants = sorted(each["name"] for each in json.loads(_output(*program, "--list", "--json")))
    random.Random(asked.seed).shuffle(mutants)
    sample = mutants[: asked.sample]
    left = [name for name in sample if name not in answers]
    if left:
        chosen = _each("--re", (f"^{re.escape(name)}$" for name in left))
        answers |= _judged((*program, *chosen), 60 * asked.minutes)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(answers, indent=1))
    document = {
        "what": "mutants of the rules in the core that its tests notice",
        **measured_on(),
        "commit": commit,
        "seed": asked.seed,
        "mutants": len(mutants),
        **_score({name: answers[name] for name in sample if name in answers}),
    }
    OUT.write_text(json.dumps(document, indent=2) + "\n")


def _judged(program: Iterable[str], seconds: float) -> dict[str, str]:
    """Return the verdict on each mutant that was judged within a time."""
    command = [
        *program, "--output", str(WORK), "--profile", "release", "--no-shuffle",
        "--package", "namespace", *_each("--cargo-arg", TESTS),
    ]  # fmt: skip
    try:
        # It exits with another code for survivors and timeouts, which are no failure here.
        subprocess.run(command, env=os.environ | ENVIRONMENT, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        print("the time is over; the same call goes on", file=sys.stderr)
    outcomes = json.loads((WORK / "mutants.out" / "outcomes.json").read_text())["outcomes"]
    found = {
        outcome["scenario"]["Mutant"]["name"]: VERDICTS[outcome["summary"]]
        for outcome in outcomes
        if isinstance(outcome["scenario"], dict)
    }
    if not found:
        sys.exit(f"no mutant was judged; the reason is in {WORK / 'mutants.out' / 'log'}")
    return found


def _score(answers: dict[str, str]) -> dict[str, Any]:
    """Return the counts of each file, the share that was noticed, and the survivors.

    Timeouts and mutants that do not compile count for neither.
    """
    counts: dict[str, Counter[str]] = {}
    for name, verdict in answers.items():
        counts.setdefault(name.partition(":")[0], Counter())[verdict] += 1
    total = sum(counts.values(), Counter[str]())
    decided = total["killed"] + total["survived"]
    return {
        "sample": len(answers),
        "killed_share": round(total["killed"] / decided, 3) if decided else None,
        "total": dict(total),
        "files": {name: dict(count) for name, count in sorted(counts.items())},
        "survivors": sorted(name for name, verdict in answers.items() if verdict == "survived"),
    }


def _each(option: str, values: Iterable[str]) -> list[str]:
    return [f"{option}={value}" for value in values]


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()

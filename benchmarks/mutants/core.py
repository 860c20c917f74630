"""How many small changes of the core's rules its tests notice: a seeded sample by cargo-mutants.

The rules decide what a purge plans to delete. cargo-mutants changes a copy of the tree, never the
project. Their order is drawn from the seed: those judged so far are a sample, and the same call
goes on after a kill or a time limit; the answers of a commit are kept in ``build/mutants``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402
from benchmarks.mutants.score import score_of  # noqa: E402

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
    work = WORK / f"core-{commit[:12]}"
    work.mkdir(parents=True, exist_ok=True)
    answers = _answers(work)
    program = (asked.cargo_mutants, "mutants", "--dir", str(ROOT), *_each("--file", FILES))
    mutants = sorted(each["name"] for each in json.loads(_output(*program, "--list", "--json")))
    random.Random(asked.seed).shuffle(mutants)
    sample = mutants[: asked.sample]
    left = [name for name in sample if name not in answers]
    if left:
        chosen = _each("--re", (f"^{re.escape(name)}$" for name in left))
        _judge((*program, *chosen), work, 60 * asked.minutes)
        answers = _answers(work)
    if not answers:
        sys.exit(f"no mutant was judged; the reason is in {work / 'mutants.out' / 'log'}")
    judged = [name for name in sample if name in answers]
    document = {
        "what": "mutants of the rules in the core that its tests notice",
        **measured_on(),
        "commit": commit,
        "seed": asked.seed,
        "mutants": len(mutants),
        **score_of((name.partition(":")[0], answers[name]) for name in judged),
        "survivors": sorted(name for name in judged if answers[name] == "survived"),
    }
    OUT.write_text(json.dumps(document, indent=2) + "\n")


def _judge(program: Iterable[str], work: Path, seconds: float) -> None:
    """Judge mutants until the time is over."""
    command = [
        *program, "--output", str(work), "--profile", "release", "--no-shuffle",
        "--package", "namespace", *_each("--cargo-arg", TESTS),
    ]  # fmt: skip
    try:
        # It exits with another code for survivors and timeouts, which are no failure here.
        subprocess.run(command, env=os.environ | ENVIRONMENT, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        print("the time is over; the same call goes on", file=sys.stderr)


def _answers(work: Path) -> dict[str, str]:
    """Return the verdict on each mutant so far, and keep it: the tool forgets all calls but two."""
    kept = work / "answers.json"
    answers: dict[str, str] = json.loads(kept.read_text()) if kept.exists() else {}
    outcomes = work / "mutants.out" / "outcomes.json"
    for outcome in json.loads(outcomes.read_text())["outcomes"] if outcomes.exists() else ():
        if isinstance(outcome["scenario"], dict):  # else that of the code as it is
            answers[outcome["scenario"]["Mutant"]["name"]] = VERDICTS[outcome["summary"]]
    kept.write_text(json.dumps(answers, indent=1))
    return answers


def _each(option: str, values: Iterable[str]) -> list[str]:
    return [f"{option}={value}" for value in values]


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()

"""How many small changes of safety-relevant code the tests notice: a seeded sample of mutants.

cosmic-ray makes the mutants and keeps their results in ``build/mutants``, with a copy of the
committed tree in which they are judged by the unit tests of their part. Their order is drawn from
the seed: those judged so far are a sample, and the same call goes on after a kill or a time limit.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from cosmic_ray.commands.init import init  # pyrefly: ignore[missing-import]
from cosmic_ray.mutating import mutate_and_test  # pyrefly: ignore[missing-import]
from cosmic_ray.testing import run_tests  # pyrefly: ignore[missing-import]
from cosmic_ray.work_db import WorkDB, use_db  # pyrefly: ignore[missing-import]
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkResult  # pyrefly: ignore[missing-import]

ROOT: Final = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402
from benchmarks.mutants.score import score_of  # noqa: E402

OUT: Final = ROOT / "benchmarks" / "results" / "mutants.json"
WORK: Final = ROOT / "build" / "mutants"
TESTS: Final = {
    "src/trimtab/act/decide/*.py": "tests/act",
    "src/trimtab/purge/run/next_step.py": "tests/purge/run/test_decide.py",
    "src/trimtab/purge/horizon/*.py": "tests/purge/horizon",
    "src/trimtab/judge/variability.py": "tests/judge/test_variability.py",
}
"""The tests that judge the modules of each pattern."""
POINTLESS: Final = re.compile(
    r"core/ReplaceBinaryOperator_(BitOr_|(?!Bit)\w+_(Bit|[LR]Shift)|Bit\w+_(?!Bit))"
)
"""Operators of annotations, which nothing evaluates, and those that numbers or sets do not have:
no test notices the ones, each notices the others."""
TIMEOUT_S: Final = 900.0


def main() -> None:
    """Judge mutants until the time is over, and write the score of all that were judged."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="interpreter that runs the tests")
    parser.add_argument("--minutes", type=float, default=50.0)
    parser.add_argument("--sample", type=int, default=400, help="mutants that are judged at most")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    end = time.monotonic() + 60 * arguments.minutes
    commit = _git("rev-parse", "HEAD")
    WORK.mkdir(parents=True, exist_ok=True)
    lock = (WORK / "lock").open("w")  # held to the end: two calls would share one tree
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    tree = _fresh_tree(commit)
    os.chdir(tree)  # modules of a session are named relative to it
    os.environ |= {"PYTHONPATH": f"{tree / 'src'}:{tree}", "OPENBLAS_NUM_THREADS": "1"}
    modules = {
        path.relative_to(tree): tests
        for pattern, tests in TESTS.items()
        for path in sorted(tree.glob(pattern))
    }
    with use_db(str(WORK / f"{commit[:12]}-{arguments.seed}.sqlite")) as session:
        if not session.num_work_items:
            init(modules, session, {})
        sample = _sample(session, arguments.seed)[: arguments.sample]
        _judge(session, sample, modules, arguments.python, end)
        answers = dict(session.results)
        judged = [(mutant, answers[job]) for job, mutant in sample if job in answers]
    document = {
        "what": "mutants of safety-relevant Python that the unit tests of their part notice",
        **measured_on(),
        "commit": commit,
        "seed": arguments.seed,
        **_score(judged),
    }
    OUT.write_text(json.dumps(document, indent=2) + "\n")


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _fresh_tree(commit: str) -> Path:
    """Return a copy of a commit without the mutant that a kill may have left in it."""
    tree = WORK / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    _git("archive", "--output", str(WORK / "tree.tar"), commit)
    shutil.unpack_archive(WORK / "tree.tar", tree)
    for extension in (ROOT / "src" / "trimtab").glob("_core*.so"):
        shutil.copy(extension, tree / "src" / "trimtab")
    return tree


def _sample(session: WorkDB, seed: int) -> list[tuple[str, MutationSpec]]:
    """Return mutants in the order of the seed, one of each place in the code."""
    mutants = [(item.job_id, item.mutations[0]) for item in session.work_items]
    mutants = [each for each in mutants if not POINTLESS.match(each[1].operator_name)]
    mutants.sort(key=lambda each: _name(each[1]))
    random.Random(seed).shuffle(mutants)
    places: dict[tuple[Any, ...], tuple[str, MutationSpec]] = {}
    for job, mutant in mutants:
        places.setdefault((mutant.module_path, mutant.start_pos, mutant.end_pos), (job, mutant))
    return list(places.values())


def _name(mutant: MutationSpec) -> str:
    line, column = mutant.start_pos
    operator = mutant.operator_name.removeprefix("core/")
    return f"{mutant.module_path}:{line}:{column}: {operator} {mutant.occurrence}"


def _judge(
    session: WorkDB,
    sample: Iterable[tuple[str, MutationSpec]],
    modules: dict[Path, str],
    python: str,
    end: float,
) -> None:
    """Run the tests on each mutant that has no result yet; first on the code as it is."""
    done = {job for job, _ in session.results}
    passing: set[str] = set()
    for job, mutant in sample:
        if time.monotonic() > end:
            return
        if job in done:
            continue
        tests = modules[mutant.module_path]
        options = "-x -q -p no:cacheprovider -m unit --hypothesis-profile mutants"
        command = f"{python} -m pytest {options} {tests}"
        if tests not in passing:
            outcome, output = run_tests(command, TIMEOUT_S)
            if outcome is not TestOutcome.SURVIVED:
                sys.exit(f"{tests} fails without any mutant:\n{output}")
            passing.add(tests)
        result = mutate_and_test([mutant], command, TIMEOUT_S)
        if result.worker_outcome is not WorkerOutcome.NORMAL:
            sys.exit(f"{_name(mutant)} could not be made:\n{result.output}")
        session.set_result(job, result)
        print(_verdict(result), _name(mutant), flush=True)


def _verdict(result: WorkResult) -> str:
    if result.output == "timeout":
        return "timeout"
    return "survived" if result.test_outcome is TestOutcome.SURVIVED else "killed"


def _score(judged: list[tuple[MutationSpec, WorkResult]]) -> dict[str, Any]:
    """Return the score of all that were judged, and each survivor with its change."""
    return {
        **score_of((str(mutant.module_path), _verdict(result)) for mutant, result in judged),
        "survivors": {
            _name(mutant): [line for line in (result.diff or "").splitlines() if _is_change(line)]
            for mutant, result in judged
            if _verdict(result) == "survived"
        },
    }


def _is_change(line: str) -> bool:
    return line.startswith(("-", "+")) and not line.startswith(("---", "+++"))


if __name__ == "__main__":
    main()

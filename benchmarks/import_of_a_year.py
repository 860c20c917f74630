"""What importing a year of results costs: 6,000 outputs of IOR and 270 surveys of 298 OSTs.

The outputs of IOR are one real recording with other times and rates; the surveys have the layout of
the real ones (``tests/formats/survey_files.py``), each OST in ``.detail``. ``trimtab import`` runs
as a person would start it, into a new store.

Bound: every byte is read, hashed, compressed and put on stable storage, and every sample is a row
of SQLite. The bound's own loop, timed beside it, does just that, in one process.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_at  # noqa: E402 (the tree is on the path now)
from tests.formats.survey_files import survey_files  # noqa: E402

RESULTS = Path(__file__).with_name("results")
RECORDING = ROOT / "tests" / "fixtures" / "ior" / "4.1.0+dev" / "text-fpp.out"
IOR_OUTPUTS, SURVEYS, OSTS = 6000, 270, 298


def prepare(directory: Path) -> int:
    """Write the files and return their bytes."""
    chance = random.Random(1)
    text = RECORDING.read_text()
    first = datetime(2024, 1, 1, tzinfo=UTC)
    for number in range(IOR_OUTPUTS):
        when = (first + timedelta(hours=number)).strftime("%a %b %d %H:%M:%S %Y")
        path = directory / f"ior-{number:04d}.out"
        path.write_text(re.sub(r"(?m)^((?:Began|Finished)\s*:).*$", rf"\1 {when}", text))
    for number in range(SURVEYS):
        survey = survey_files(OSTS, seed=chance.randrange(2**31))
        (directory / f"survey-{number:03d}.detail").write_bytes(survey.detail)
        (directory / f"survey-{number:03d}.summary").write_bytes(survey.summary)
    return sum(path.stat().st_size for path in directory.iterdir())


def imported(files: Path, place: Path) -> dict[str, float]:
    """Return what one import took, in seconds of time and of processors, and what was kept."""
    store = place / "t.db"
    argv = [sys.executable, "-m", "trimtab.cli", "import", str(files)]
    argv += ["--site", "year", "--timezone", "UTC", "--store", str(store)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started_s = time.perf_counter()
    subprocess.run(argv, check=True, capture_output=True)
    elapsed_s = time.perf_counter() - started_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with sqlite3.connect(store) as connection:
        (runs,) = connection.execute("SELECT count(*) FROM run").fetchone()
        (samples,) = connection.execute("SELECT count(*) FROM sample").fetchone()
    assert runs == IOR_OUTPUTS + SURVEYS, runs
    return {
        "elapsed_s": elapsed_s,
        "cpu_s": sum(after[:2]) - sum(before[:2]),
        "runs": runs,
        "samples": samples,
    }


def bound(files: Path, place: Path, samples: int) -> float:
    """Return the seconds of reading, hashing, compressing, keeping, and of inserting the rows."""
    started_s = time.perf_counter()
    for path in sorted(files.iterdir()):
        content = path.read_bytes()
        (place / hashlib.sha256(content).hexdigest()).write_bytes(zlib.compress(content, 6))
    os.sync()
    with sqlite3.connect(place / "bound.db") as connection:
        connection.execute("CREATE TABLE sample (run INT, ordinal INT, metric TEXT, value REAL)")
        rows = ((0, number, "write_bandwidth", 1.5e9) for number in range(samples))
        connection.executemany("INSERT INTO sample VALUES (?, ?, ?, ?)", rows)
    return time.perf_counter() - started_s


def main() -> None:
    """Measure in interleaved rounds, print, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--dir", help="where to work; by default a temporary directory")
    wanted = parser.parse_args()
    found: list[dict[str, float]] = []
    bounds: list[float] = []
    with tempfile.TemporaryDirectory(dir=wanted.dir) as name:
        files = Path(name) / "files"
        files.mkdir()
        size = prepare(files)
        for number in range(wanted.rounds):
            place = Path(name) / f"store-{number}"
            (place / "bound").mkdir(parents=True)
            found.append(imported(files, place))
            bounds.append(bound(files, place / "bound", int(found[-1]["samples"])))
            shutil.rmtree(place)
            print(f"{number + 1}: {found[-1]['elapsed_s']:.2f} s, bound {bounds[-1]:.2f} s")
    result = {
        "what": f"{IOR_OUTPUTS} outputs of IOR and {SURVEYS} surveys of {OSTS} OSTs, imported",
        **measured_at(),
        "rounds": wanted.rounds,
        "files_bytes": size,
        "runs": found[0]["runs"],
        "samples": found[0]["samples"],
        "goal_s": 10.0,
        "elapsed_s_median": statistics.median(one["elapsed_s"] for one in found),
        "cpu_s_median": statistics.median(one["cpu_s"] for one in found),
        "bound_elapsed_s_median": statistics.median(bounds),
        "elapsed_s": [round(one["elapsed_s"], 2) for one in found],
        "load_average": os.getloadavg()[0],
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "import_of_a_year.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()

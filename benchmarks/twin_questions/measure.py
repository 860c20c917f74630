"""The questions that the twin takes a position on, measured: `make twin-questions`.

The figures are a function of this code and the twin's; the machine says only how long they took.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402
from benchmarks.twin_questions import layouts, lives  # noqa: E402

from trimtab.twin.whatif.whatif_figure import code_version  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "twin_questions.json"
AGED = (0.70, 0.74, 0.75, 0.76, 0.78, 0.80, 0.85)


def main() -> None:
    """Measure one part or both and write them into the result, whose other part stays."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("layouts", "lives"), help="One part; the other stays.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--result", type=Path, default=RESULT)
    asked = parser.parse_args()
    for name, part in (("layouts", of_layouts), ("lives", of_lives)):
        if asked.only in (None, name):
            begun = time.process_time()
            # Written after each piece: what an interrupted measurement has is not lost.
            for found in part(asked.seeds):
                told = _told(asked.seeds, time.process_time() - begun)
                write(asked.result, name, found | told)


def of_layouts(seeds: int) -> Iterator[dict[str, Any]]:
    """Yield miniature OSTs, by what they are like, more of them each time."""
    small, large = layouts.Scale(), layouts.Scale(64, 256)
    ages = [
        {"scale": asdict(scale), "cases": layouts.age(scale, AGED, seeds)}
        for scale in (small, large)
    ]
    fresh = [
        {"scale": asdict(scale), "cases": layouts.fresh(scale, seeds)}
        for scale in (small, large, replace(large, separate=False))
    ]
    kinds = []
    for scale, cases in layouts.plan():
        print(f"{asdict(scale)}: {len(cases)} cases", file=sys.stderr)
        kinds.append({"scale": asdict(scale), "cases": layouts.measure(scale, cases, seeds)})
        yield {"kinds": kinds, "ages": ages, "fresh": fresh}


def of_lives(seeds: int) -> Iterator[dict[str, Any]]:
    """Yield whole file systems, by how they are kept, more of them each time."""
    found = []
    for settings in lives.plan():
        print(settings, file=sys.stderr)
        found.append(lives.measure(settings, seeds))
        yield {"days": lives.DAYS, "classes": lives.CLASSES, "combinations": found}


def write(path: Path, name: str, part: dict[str, Any]) -> None:
    """Replace one part of the result."""
    result = json.loads(path.read_text()) if path.exists() else {}
    result["what"] = "mean and 95 % interval over seeds: [mean, low, high]"
    result[name] = part
    # One case a line: a change of one is seen as one.
    text = json.dumps(result, indent=None)
    path.write_text(
        text.replace('{"fullness"', '\n{"fullness"').replace('{"settings"', '\n{"settings"') + "\n"
    )


def _told(seeds: int, processor_s: float) -> dict[str, Any]:
    return {
        "seeds": seeds,
        "version": code_version(),
        **measured_on(),
        "processor_s": round(processor_s),
    }


if __name__ == "__main__":
    main()

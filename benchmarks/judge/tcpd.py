"""Trimtab's change points on annotated series of others: `make bench-tcpd TCPD=DIR`.

DIR is a checkout of the Turing Change Point Dataset (alan-turing-institute/TCPD): its
``annotations.json`` has what five people marked in each series. The series have licences of their
own: they are read in place, and only scores go to benchmarks/results/judge_on_tcpd.json.

F1 (margin 5, over all annotators, with the trivial change at 0) and covering are those of
G. J. J. van den Burg and C. K. I. Williams, "An Evaluation of Change Point Detection Algorithms"
(arXiv:2003.06222). Every detector sees a series once, whole, with the settings its makers give:
what the paper calls *default*.

- The series have no time that means something to a probe (years since 1800, samples of a drill):
  Trimtab judges them as one run a day, and again as one run an hour. Confirmed changes count.
- Values at or below zero, which no bandwidth has and of which there is no logarithm, are judged as
  they are; the scores are also given without the series that have any.
- Missing values are left out for every detector, places are those of the whole series.
- Series that a checkout lacks, because their owners' terms ask for a download, are named in the
  result, and so are those of several dimensions, which are left out.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import mean

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.judge import score  # noqa: E402 (the tree is on the path now)
from benchmarks.judge.against import Others  # noqa: E402
from benchmarks.measured import measured_at  # noqa: E402
from tests.calibration.changes import confirmed_in  # noqa: E402
from tests.calibration.patterns import START, Runs  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "judge_on_tcpd.json"

Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Annotated:
    """A series with the changes that each annotator marked: places of first values after them.

    Attributes
    ----------
    places
        Of the values in the whole series: those that are missing are left out.
    """

    name: str
    length: int
    places: tuple[int, ...]
    values: tuple[float, ...]
    annotations: tuple[tuple[int, ...], ...]

    @property
    def positive(self) -> bool:
        """Whether every value has a logarithm."""
        return min(self.values) > 0


def main() -> None:
    """Score and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tcpd", type=Path, required=True, help="a checkout of TCPD")
    directory = parser.parse_args().tcpd
    if not (directory / "annotations.json").is_file():
        raise SystemExit(f"{directory} has no annotations.json: name a checkout of TCPD")
    series, absent, multivariate = read(directory)
    if not series:
        raise SystemExit(f"{directory}/datasets has no annotated series of one dimension")
    detected: dict[str, list[list[int]]] = {
        "Trimtab, a run a day": [_trimtab(each, timedelta(days=1)) for each in series],
        "Trimtab, a run an hour": [_trimtab(each, timedelta(hours=1)) for each in series],
        **_others(series),
        "none: no change in any": [[] for _ in series],
    }
    result = {
        "what": "change points on the annotated series of the Turing Change Point Dataset",
        **measured_at(),
        "absent": absent,
        "multivariate": multivariate,
        "not_positive": [each.name for each in series if not each.positive],
        "rows": [_summary(name, series, places) for name, places in detected.items()],
        "series": [
            # F1, covering and changes of each detector, as in the rows above
            {
                "series": each.name,
                "values": each.length,
                "scores": [_scores(each, places[k]) for places in detected.values()],
            }
            for k, each in enumerate(series)
        ],
    }
    RESULT.write_text(_written(result))
    for row in result["rows"]:
        print(row)


def read(directory: Path) -> tuple[list[Annotated], list[str], list[str]]:
    """Return the annotated series of one dimension; names of absent and of other ones."""
    marked = json.loads((directory / "annotations.json").read_text())
    series, absent, multivariate = [], [], []
    for name, by_annotator in sorted(marked.items()):
        path = directory / "datasets" / name / f"{name}.json"
        if not path.is_file():
            absent.append(name)
            continue
        data = json.loads(path.read_text())
        if data["n_dim"] != 1:
            multivariate.append(name)
            continue
        raw = data["series"][0]["raw"]
        held = [place for place, value in enumerate(raw) if value is not None]
        values = tuple(float(raw[place]) for place in held)
        annotations = tuple(tuple(places) for places in by_annotator.values())
        series.append(Annotated(name, len(raw), tuple(held), values, annotations))
    return series, absent, multivariate


def _trimtab(series: Annotated, apart: timedelta) -> list[int]:
    at = tuple(START + apart * place for place in series.places)
    return [round((point.at - START) / apart) for point in confirmed_in(Runs(at, series.values))]


_DETECTORS: Mapping[str, tuple[str, Callable[[int], float]]] = {
    "ruptures (PELT, 3 ln n), scaled by its noise": ("ruptures_whole", lambda n: 3 * math.log(n)),
    "ruptures (PELT, 3 ln n), scaled by its spread": ("ruptures_spread", lambda n: 3 * math.log(n)),
    "Otava": ("otava", lambda _: 1e-3),
}
"""The name of a row, and what detects for it at which threshold (`alternatives.DETECTORS`)."""


def _others(series: Sequence[Annotated]) -> dict[str, list[list[int]]]:
    table = np.full((len(series), max(len(each.values) for each in series)), np.nan)
    for row, each in zip(table, series, strict=True):
        row[: len(each.values)] = each.values
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "series.npz"
        np.savez(file, values=table)
        others = Others(file)
        detected = {
            label: [_last(others, detector, threshold, k, each) for k, each in enumerate(series)]
            for label, (detector, threshold) in _DETECTORS.items()
        }
        others.close()
    return detected


def _last(
    others: Others,
    detector: str,
    threshold: Callable[[int], float],
    number: int,
    series: Annotated,
) -> list[int]:
    """Return what a detector places in the whole of a series."""
    n = len(series.values)
    task: dict[str, object] = {"detector": detector, "threshold": threshold(n), "series": number}
    (answers,) = others.ask([task | {"ends": [n, n], "until": None}])
    return [series.places[place] for place, _ in answers[-1][1]] if answers else []


def _scores(series: Annotated, places: Sequence[int]) -> list[float]:
    """Return F1, covering and the number of changes."""
    f1 = score.f_measure(series.annotations, places)
    return [
        round(f1, 3),
        round(score.covering(series.annotations, places, series.length), 3),
        len(places),
    ]


def _summary(name: str, series: Sequence[Annotated], detected: Sequence[Sequence[int]]) -> Row:
    scores = [_scores(each, places) for each, places in zip(series, detected, strict=True)]
    usable = [row for row, each in zip(scores, series, strict=True) if each.positive]
    row: Row = {"detector": name}
    for key, rows in (("all", scores), ("positive", usable)):
        row |= {
            f"series_{key}": len(rows),
            f"f1_{key}": round(mean(f1 for f1, _, _ in rows), 3),
            f"covering_{key}": round(mean(cover for _, cover, _ in rows), 3),
        }
    return row | {"changes": sum(int(count) for _, _, count in scores)}


def _written(result: Mapping[str, object]) -> str:
    """Return the result as JSON with one row a line."""
    parts = []
    for key, value in result.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines = ",\n".join(f"  {json.dumps(row)}" for row in value)
            parts.append(f" {json.dumps(key)}: [\n{lines}\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    main()

"""Make the table of benchmarks/reports/twin-faults.md from benchmarks/results/score_of_faults.json.

Without arguments the page is written; with ``--check`` it is only compared.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.page_blocks import remade, text_of, write_or_check  # noqa: E402 (the tree is on the path now)

PAGE = ROOT / "benchmarks" / "reports" / "twin-faults.md"
RESULT = ROOT / "benchmarks" / "results" / "score_of_faults.json"


def main(arguments: list[str]) -> int:
    """Write the page, or return 1 if it is not what it would be."""
    result = json.loads(RESULT.read_text())
    blocks = {"score": text_of(lines(result))}
    return write_or_check({PAGE: remade(PAGE.read_text(), blocks)}, arguments)


def lines(result: dict[str, Any]) -> Iterator[str]:
    """Yield the table of the faults, and the incidents of quiet stretches below it."""
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in result["rows"]:
        rows.setdefault((row["fault"], row["book"]), []).append(row)
    yield (
        "| fault | leaves of writes, reads, slowest OST | book | detected | after, median | "
        "its OST named | right cause first | listed | named from 90 % on | first of the others |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for (fault, book), cases in rows.items():
        yield f"| {fault} | {left(cases)} | {book} | {' | '.join(cells(cases))} |"
    yield ""
    for book, quiet in result["summary"].items():
        where = "sites without a fault" if book == "no fault" else f"{book} book, beside faults"
        yield (
            f"- {where}: {quiet['others_a_month']:.2f} incidents a month in "
            f"{quiet['quiet_months']:.0f} quiet months, {quiet['false_a_month']:.2f} of "
            "them while nothing had emerged either, "
            f"{quiet['false_named_a_month']:.2f} with a cause named."
        )
    machine = result["machine"]
    yield ""
    yield (
        f"Seeds 1 to {result['seeds']}; {result['date']}, {machine['processors']} processors, "
        f"{machine['architecture']}."
    )


def left(cases: list[dict[str, Any]]) -> str:
    """Return the median over seeds of what a fault leaves, in per cent."""
    names = ("write_left", "read_left", "slowest_ost_left")
    known = [[case[name] for case in cases if name in case] for name in names]
    return ", ".join(f"{100 * median(part):.0f}" if part else "-" for part in known) + " %"


def cells(cases: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what the cases of a fault and a book say, column by column."""
    count = len(cases)
    seen = [case for case in cases if case["delay_h"] is not None]
    yield f"{len(seen)} of {count}"
    yield f"{median(case['delay_h'] for case in seen):.0f} h" if seen else ""
    aimed = [case for case in seen if case["target"] is not None]
    yield f"{sum(case['target'] for case in aimed)}" if aimed else ""
    yield str(sum(case["place"] == 1 for case in seen))
    yield str(sum(case["place"] is not None for case in seen))
    right = sum(case["named"] and case["place"] == 1 for case in seen)
    wrong = sum(case["named"] for case in seen) - right
    yield f"{right} right, {wrong} wrong"
    others = Counter(case["first"] for case in seen if case["place"] != 1 and case["first"])
    yield ", ".join(f"{cause} {times}" for cause, times in others.most_common())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

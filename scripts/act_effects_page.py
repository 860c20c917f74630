"""Make the tables of benchmarks/reports/act-effects.md from results/controllers_help.json.

Without arguments the page is written; with ``--check`` it is only compared.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.page_blocks import remade, text_of, write_or_check  # noqa: E402

PAGE = ROOT / "benchmarks" / "reports" / "act-effects.md"
RESULT = ROOT / "benchmarks" / "results" / "controllers_help.json"
Result = dict[str, Any]
Row = list[float | None]
HEADS = {
    "none": "nobody",
    "tunables": "tunables",
    "allocator": "allocator",
    "trim": "trim",
    "balance": "balance",
    "all": "all four",
    "as it was": "the operators",
}


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _giga(value: float) -> str:
    return f"{value / 1e9:.1f}"


def _plain(value: float) -> str:
    return f"{value:.2f}"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _thousand(value: float) -> str:
    return f"{1000 * value:.2f}"


FIGURES: dict[str, tuple[str, Callable[[float], str], str]] = {
    "ior_cov": (
        "COV of the hourly IOR over 48 h, median", _percent, "goal 8 % (S1)",
    ),
    "ior_cov_missed": ("48 h with a COV over 8 %", _percent, ""),
    "days_over_cov": (
        "days of January to March 2024 with one", _whole, "13, of which 11 are accounted for (S1)",
    ),
    "ior_write": ("IOR write, mean, GB/s", _giga, "673 before checksums, 554 with them (S1)"),
    "survey_first_mean": ("OST write, first month, mean, GB/s", _giga, "15.1 (S1)"),
    "survey_last_mean": ("OST write, last month, mean, GB/s", _giga, "19.9 (S1)"),
    "survey_last_p5": ("OST write, last month, slowest 5 %, GB/s", _giga, "no tail under 1 (S2)"),
    "survey_last_least": ("OST write, last month, least, GB/s", _giga, "9.0 (S1)"),
    "survey_whole_p5": ("OST write, all months, slowest 5 %, GB/s", _giga, ""),
    "write_amplification": ("write amplification", _plain, ""),
    "useless_loops": (
        "useless loops in 1,000 requests", _thousand, "large on slow OSTs, not on fast ones (S1)",
    ),
    "hours_over": ("time of OSTs over 75 %", _percent, ""),
    "fullest": ("fullest OST ever", _percent, ""),
    "least_open": ("fewest OSTs open", _whole, "about 50 (S1)"),
    "least_open_part": ("the same, as a part of all", _percent, "17 % (S1)"),
    "actions": ("changes made", _whole, ""),
}  # fmt: skip


def main(arguments: list[str]) -> int:
    """Write the page, or return 1 if it is not what it would be."""
    result = json.loads(RESULT.read_text())
    blocks = {name: text_of(table(result)) for name, table in TABLES.items()}
    return write_or_check({PAGE: remade(PAGE.read_text(), blocks)}, arguments)


def machine(result: Result) -> Iterator[str]:
    """Yield what the figures are of."""
    seeds = int(result["figures"]["none"]["seeds"][0])
    least = min(int(rows["seeds"][0]) for rows in result["figures"].values())
    known = f"{seeds} seeds" if seeds == least else f"{least} to {seeds} seeds"
    kernel = result["machine"]
    yield (
        f"Measured on {result['date']}: {known}, {result['classes']} classes of OSTs, "
        f"{result['processor_s']:.0f} s of a processor ({kernel['processors']} processors, "
        f"{kernel['architecture']}); version {result['version']}."
    )


def effects(result: Result) -> Iterator[str]:
    """Yield the median of each figure with its interval, by who acts."""
    yield from _table(result, "", HEADS, signed=False)


def differences(result: Result) -> Iterator[str]:
    """Yield the differences from nobody acting, seed by seed."""
    heads = {name: title for name, title in HEADS.items() if name != "none"}
    yield from _table(result, " against none", heads, signed=True)


def _table(result: Result, suffix: str, heads: dict[str, str], *, signed: bool) -> Iterator[str]:
    last = [] if signed else ["printed"]
    yield f"| | {' | '.join([*heads.values(), *last])} |"
    yield "|---" * (len(heads) + 1 + len(last)) + "|"
    for name, (title, shown, printed) in FIGURES.items():
        rows = [result["figures"].get(variant, {}).get(name + suffix) for variant in heads]
        if not any(rows):
            continue
        cells = [_cell(row, shown, signed=signed) for row in rows]
        yield f"| {title} | {' | '.join([*cells, *([] if signed else [printed])])} |"


def _points(value: float) -> str:
    return f"{100 * value:.1f} points"


def _cell(row: Row | None, shown: Callable[[float], str], *, signed: bool) -> str:
    if row is None or row[0] is None:
        return "-"
    if signed and shown is _percent:
        shown = _points
    value = shown(row[0])
    value = f"+{value}" if signed and row[0] > 0 else value
    if row[1] is None or row[2] is None or row[1] == row[2]:
        return value
    return f"{value} ({shown(row[1])} to {shown(row[2])})"


TABLES: dict[str, Callable[[Result], Iterator[str]]] = {
    "machine": machine,
    "effects": effects,
    "differences": differences,
}

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

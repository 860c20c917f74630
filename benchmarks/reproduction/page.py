"""Make the tables of reports/twin-calibration.md from the layers and the kept figures of lives.

Without arguments the page is written; with ``--check`` it is only compared. With ``--run``
everything is simulated first, and the figures are kept. Lives are kept in build/lives as they end,
by the version of the simulation: a run that was interrupted goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import math
import pickle
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.reproduction.life import Life, LifeRun
from benchmarks.reproduction.predict import layers
from benchmarks.reproduction.statements import Figure, Row, SeededRow, seeded_row, statements
from benchmarks.reproduction.table import (
    DOCUMENTS,
    Reproduction,
    Summary,
    Terms,
    Together,
    reproduce,
    summary_of,
)
from scripts.page_blocks import remade, text_of, write_or_check

from trimtab.base.code_version import code_version
from trimtab.base.units import format_value
from trimtab.reach.worker_process import processors, side_by_side

ROOT = Path(__file__).resolve().parents[2]

PAGE = ROOT / "benchmarks" / "reports" / "twin-calibration.md"
KEPT = ROOT / "benchmarks" / "results" / "twin_calibration.json"
TITLES: Final = {
    "nersc24": "NERSC, 2024: nine months of an all-flash file system",
    "sc21": "NERSC, 2021: architecture and performance of Perlmutter's scratch",
    "eth21": "ETH Zürich, 2021: shifting a file system to flash",
    "hpe25": "HPE, 2025: E2000, from microbenchmarks to applications",
}
_RELATIONS: Final = {"=": "", ">=": "at least ", "<=": "at most "}
_DAYS: Final = 2.0
_DAY_S: Final = 86400.0


def main(arguments: list[str]) -> int:
    """Write the page, or return 1 if it is not what it would be."""
    if "--run" in arguments:
        hint = "a life of all OSTs takes some 100 MB"
        with side_by_side(processors(), hint=hint) as together:
            reproduction = reproduce(Terms(), kept_lives(ROOT / "build" / "lives", together))
        figures = kept(reproduction, datetime.now(UTC))
        KEPT.write_text(json.dumps(figures, indent=1) + "\n")
    return write_or_check({PAGE: made(PAGE.read_text())}, arguments)


def kept_lives(directory: Path, together: Together) -> Together:
    """Return what answers from files, and simulates only what is not there."""
    version = code_version()

    def file_of(run: LifeRun) -> Path:
        digest = hashlib.sha256(f"{version}\0{run!r}".encode()).hexdigest()
        return directory / f"{digest[:32]}.pickle"

    def answer(runs: Iterable[LifeRun]) -> Iterator[Life]:
        directory.mkdir(parents=True, exist_ok=True)
        wanted = list(runs)
        missing = [run for run in wanted if not file_of(run).exists()]
        for run, life in zip(missing, together(missing), strict=True):
            part = file_of(run).with_suffix(".part")
            part.write_bytes(pickle.dumps(life, pickle.HIGHEST_PROTOCOL))
            part.rename(file_of(run))
        for run in wanted:
            yield pickle.loads(file_of(run).read_bytes())

    return answer


def kept(reproduction: Reproduction, at: datetime) -> dict[str, Any]:
    """Return what is kept of a run: the rows that need time, what contradicts, version and date.

    Which rows there were before rows had classes is kept from the last run.
    """
    layer_ids = {seeded.row.id for seeded in layers()}
    return {
        "date": at.date().isoformat(),
        "version": reproduction.version,
        "seeds": reproduction.terms.seeds,
        "rows": [_kept_row(row) for row in reproduction.rows if row.row.id not in layer_ids],
        "tensions": list(map(asdict, reproduction.tensions)),
        "knees": list(map(asdict, reproduction.knees)),
        "then": json.loads(KEPT.read_text())["then"],
    }


def _kept_row(seeded: SeededRow) -> dict[str, Any]:
    values = asdict(seeded.row)
    values["class"] = values.pop("row_class")
    printed = seeded.row.printed
    values["printed"] = {"value": None, "relation": None, "upto": None} | (
        {"words": printed} if isinstance(printed, str) else asdict(printed) | {"words": None}
    )
    for name in ("twin", "error"):
        if (value := values[name]) is not None and not math.isfinite(value):
            values[name] = None
    return values | {
        "kind": seeded.row.kind,
        "unscored": seeded.unscored,
        "range": None if seeded.low is None else [seeded.low, seeded.high],
        "verdict": seeded.verdict,
        "missed": seeded.missed,
    }


def rows_of(figures: Mapping[str, Any]) -> list[SeededRow]:
    """Return every row: what needs no simulation worked out anew, the others as they were kept."""
    return [
        *layers(),
        *(
            seeded_row(row["id"], []) if statements()[row["id"]].data else _seeded(row)
            for row in figures["rows"]
        ),
    ]


def _seeded(row: Mapping[str, Any]) -> SeededRow:
    printed = row["printed"]
    value = printed["words"]
    if value is None:
        value = Figure(printed["value"], printed["relation"], printed["upto"])
    names = ("id", "seed", "layer", "quantity", "unit", "twin", "error", "note", "group")
    low, high = row["range"] or (None, None)
    values = {name: row[name] for name in names}
    return SeededRow(
        Row(printed=value, row_class=row["class"], rests_on=tuple(row["rests_on"]), **values),
        low,
        high,
        row["unscored"],
    )


def made(page: str) -> str:
    """Return the page with its tables made anew."""
    figures = json.loads(KEPT.read_text())
    rows = rows_of(figures)
    blocks = {name: _table(name, rows) for name in DOCUMENTS}
    blocks["summary"] = _summary(figures, rows)
    blocks["classes"] = _classes(figures["then"], rows)
    blocks["predictions"] = _predictions(rows)
    blocks["outside"] = _outside(rows)
    blocks["knees"] = _knees(figures["knees"])
    blocks["tensions"] = _tensions(figures["tensions"])
    return remade(page, {name: text_of(lines) for name, lines in blocks.items()})


def _table(name: str, rows: Sequence[SeededRow]) -> list[str]:
    document_rows = [seeded for seeded in rows if seeded.row.seed in DOCUMENTS[name]]
    return [f"### {TITLES[name]}", "", *_rows_table(document_rows)]


def _rows_table(rows: Sequence[SeededRow]) -> list[str]:
    lines = ["| row | | printed | twin | error | |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {seeded.row.id} | {seeded.row.quantity} | {_printed_text(seeded)} | "
        f"{_twin_text(seeded)} | {_error_text(seeded)} | {seeded.row.row_class} |"
        for seeded in sorted(rows, key=lambda seeded: _place(seeded.row.id))
    ]
    return lines


def _predictions(rows: Sequence[SeededRow]) -> list[str]:
    fitted = {seeded.row.group for seeded in rows if seeded.row.row_class == "fitted"}
    lines = ["| row | | printed | twin | error | group |", "|---|---|---|---|---|---|"]
    predictions = [seeded for seeded in rows if seeded.row.row_class == "prediction"]
    for seeded in sorted(predictions, key=lambda seeded: _place(seeded.row.id)):
        group = seeded.row.group if seeded.row.group != seeded.row.id else ""
        lines.append(
            f"| {seeded.row.id} | {seeded.row.quantity} | {_printed_text(seeded)} | "
            f"{_twin_text(seeded)} | {_with_met(seeded)} | "
            f"{group}{', fitted' if group in fitted else ''} |"
        )
    return lines


def _with_met(seeded: SeededRow) -> str:
    return _error_text(seeded) + (" met" if seeded.verdict == "met" else "")


def _outside(rows: Sequence[SeededRow]) -> list[str]:
    """Return why each figure that is only listed cannot be held against the twin."""
    lines = ["| figure | printed | why not |", "|---|---|---|"]
    return lines + [
        f"| {seeded.row.quantity} | {_printed_text(seeded)} | {statements()[seeded.row.id].note} |"
        for seeded in rows
        if seeded.row.row_class == "outside"
    ]


def _place(id: str) -> tuple[int, str]:
    digits = id.split("-", maxsplit=1)[0]
    return (int(digits) if digits.isdecimal() else 10**6, "" if digits.isdecimal() else id)


def _summary(figures: Mapping[str, Any], rows: Sequence[SeededRow]) -> list[str]:
    return [
        f"**{headline(summary_of(rows))}.** All OSTs, {figures['seeds']} seeds; simulated on "
        f"{figures['date']}, version {figures['version']}."
    ]


def _classes(then: Mapping[str, Any], rows: Sequence[SeededRow]) -> list[str]:
    """Return the table of classes: the rows of then by the rules of now, and all rows now."""
    class_of = {seeded.row.id: seeded.row.row_class for seeded in rows}
    before, within = set(then["rows"]), set(then["within"])
    lines = [
        "| class | rows then | within 10 % then | rows now | met | open | missed | no verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    total = [0] * 7
    for count in summary_of(rows).classes:
        ids = {id for id in before if class_of[id] == count.row_class}
        scored = (count.met, count.open, count.missed)
        numbers = [len(ids), len(ids & within), count.rows, *scored, count.rows - sum(scored)]
        total = [one + other for one, other in zip(total, numbers, strict=True)]
        lines.append(f"| {count.row_class} | {' | '.join(map(str, numbers))} |")
    return [*lines, f"| all | {' | '.join(map(str, total))} |"]


def _knees(knees: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = ["| c1 | c2 | free space | useless loops cost a twentieth from |", "|---|---|---|---|"]
    for knee in knees:
        known = [value for value in knee["fullness"] if value is not None]
        text = f"nowhere up to {knee['upto']:.0%}"
        if known and len(known) == len(knee["fullness"]):
            text = f"{sum(known) / len(known):.1%} ({min(known):.1%} to {max(known):.1%})"
        elif known:
            text = f"{min(known):.1%} in {len(known)} of {len(knee['fullness'])} seeds"
        lines.append(f"| {knee['c1']:.0%} | {knee['c2']:.0%} | {knee['free_space']} | {text} |")
    return lines


def _tensions(tensions: Sequence[Mapping[str, str]]) -> list[str]:
    lines: list[str] = []
    for one in tensions:
        lines += [f"**{one['title']}** ({one['document']}): {one['verdict']}. {one['text']}", ""]
    return lines[:-1]


def _printed_text(seeded: SeededRow) -> str:
    """Return what is printed: a number with its unit, or the words."""
    printed = seeded.row.printed
    if not isinstance(printed, Figure):
        return printed
    text = _RELATIONS[printed.relation] + _value_text(printed.value, seeded)
    return text if printed.upto is None else f"{text} to {_value_text(printed.upto, seeded)}"


def _twin_text(seeded: SeededRow) -> str:
    """Return what the twin says, with least and greatest of the seeds; ``-`` for nothing."""
    if seeded.row.twin is None:
        return "-"
    text = _value_text(seeded.row.twin, seeded)
    if seeded.low is None or seeded.high is None:
        return text
    return f"{text} ({_value_text(seeded.low, seeded)} to {_value_text(seeded.high, seeded)})"


def _error_text(seeded: SeededRow) -> str:
    """Return the error in percent, and the verdict by a word, not by its colour alone."""
    error = "" if seeded.row.error is None else f"{seeded.row.error:+.1%}"
    verdict = seeded.verdict if seeded.verdict in ("open", "missed") else None
    return " ".join(part for part in (error, verdict) if part)


def headline(summary: Summary) -> str:
    """Return what the predictions come to; no other row counts."""
    count = summary.of("prediction")
    scored = count.met + count.open + count.missed
    text = (
        f"{count.rows} predictions of {summary.rows} rows: {scored} with a verdict, "
        f"{summary.independent} of them independent; {count.met} met, {count.open} open, "
        f"{count.missed} missed"
    )
    return (
        text
        if summary.unscored is None
        else f"{text}; needs time and not scored: {summary.unscored}"
    )


def _value_text(value: float, seeded: SeededRow) -> str:
    """Return a number as a row shows it."""
    unit = seeded.row.unit
    if unit == "1":
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if unit == "d":
        return f"{value:.0f} d"
    if unit == "s" and value >= _DAYS * _DAY_S:
        return f"{value / _DAY_S:.0f} d"
    if unit == "B":
        return f"{value / 1e15:.1f} PB" if value >= 1e15 else f"{value / 1e12:.1f} TB"
    if unit == "1/s":
        return f"{value / 1e3:,.4g} k/s"
    return format_value(value, unit)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

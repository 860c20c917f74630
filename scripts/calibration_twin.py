"""Make the tables of docs/twin-calibration.md from the layers and from the kept figures of lives.

Without arguments the page is written; with ``--check`` it is only compared. With ``--run
FILE.html`` everything is simulated first, the figures are kept, and the report goes to that file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trimtab.report.documents.encode import to_json
from trimtab.report.documents.simulated import ReproduceDocument
from trimtab.report.reproduce import TITLES, error_text, printed_text, twin_text
from trimtab.whatif.reproduce.reproduce import DOCUMENTS, Reproduction, Terms, summary_of

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.page_blocks import remade, text_of, write_or_check  # noqa: E402

from trimtab.twin.stack.predict import layer_rows  # noqa: E402
from trimtab.validation.statements import Figure, Row, SeededRow  # noqa: E402

PAGE = ROOT / "docs" / "twin-calibration.md"
KEPT = ROOT / "benchmarks" / "results" / "twin_calibration.json"


def main(arguments: list[str]) -> int:
    """Write the page, or return 1 if it is not what it would be."""
    if "--run" in arguments:
        from trimtab.loop.reproduce import reproduced

        found = reproduced(Terms(), report=arguments[arguments.index("--run") + 1])
        KEPT.write_text(json.dumps(kept(found, datetime.now(UTC)), indent=1) + "\n")
    return write_or_check({PAGE: made(PAGE.read_text())}, arguments)


def kept(found: Reproduction, at: datetime) -> dict[str, Any]:
    """Return what is kept of a run: the rows that need time, what contradicts, version and date."""
    document = json.loads(to_json(ReproduceDocument(found)))
    layers = {row.id for row in layer_rows()}
    return {
        "date": at.date().isoformat(),
        "version": document["version"],
        "seeds": document["seeds"],
        "rows": [row for row in document["rows"] if row["id"] not in layers],
        "tensions": document["tensions"],
    }


def rows_of(figures: Mapping[str, Any]) -> list[SeededRow]:
    """Return every row: the layers worked out anew, the others as they were kept."""
    return [SeededRow(row) for row in layer_rows()] + [_told(one) for one in figures["rows"]]


def _told(row: Mapping[str, Any]) -> SeededRow:
    printed = row["printed"]
    value = printed["words"]
    if value is None:
        value = Figure(printed["value"], printed["relation"])
    names = ("id", "seed", "layer", "quantity", "unit", "twin", "error", "kind", "note")
    low, high = row["range"] or (None, None)
    return SeededRow(Row(printed=value, **{name: row[name] for name in names}), low, high)


def made(page: str) -> str:
    """Return the page with its tables made anew."""
    figures = json.loads(KEPT.read_text())
    rows = rows_of(figures)
    blocks = {name: _table(name, rows) for name in DOCUMENTS}
    blocks["summary"] = _summary(figures, rows)
    blocks["tensions"] = _tensions(figures["tensions"])
    return remade(page, {name: text_of(lines) for name, lines in blocks.items()})


def _table(name: str, rows: Sequence[SeededRow]) -> list[str]:
    lines = [
        f"### {TITLES[name]}",
        "",
        "| row | | printed | twin | error | |",
        "|---|---|---|---|---|---|",
    ]
    own = [one for one in rows if one.row.seed in DOCUMENTS[name]]
    for one in sorted(own, key=lambda one: _place(one.row.id)):
        lines.append(
            f"| {one.row.id} | {one.row.quantity} | {printed_text(one)} | {twin_text(one)} | "
            f"{error_text(one)} | {one.row.kind} |"
        )
    return lines


def _place(id: str) -> tuple[int, str]:
    digits = id.split("-", maxsplit=1)[0]
    return (int(digits) if digits.isdecimal() else 10**6, "" if digits.isdecimal() else id)


def _summary(figures: Mapping[str, Any], rows: Sequence[SeededRow]) -> list[str]:
    counts = summary_of(rows)
    return [
        f"{counts.rows} rows: {counts.within} within 10 %, {counts.missed} missed, "
        f"{counts.silent} of which the twin says nothing. {counts.fitted} are fitted, "
        f"{counts.data} are data, {counts.not_printed} have no printed number. What needs time was "
        f"simulated with {figures['seeds']} seeds on {figures['date']}, version "
        f"{figures['version']}."
    ]


def _tensions(tensions: Sequence[Mapping[str, str]]) -> list[str]:
    lines: list[str] = []
    for one in tensions:
        lines += [f"**{one['title']}** ({one['document']}): {one['verdict']}. {one['text']}", ""]
    return lines[:-1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

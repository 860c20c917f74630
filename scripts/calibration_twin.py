"""Make the tables of reports/twin-calibration.md from the layers and the kept figures of lives.

Without arguments the page is written; with ``--check`` it is only compared. With ``--run
FILE.html`` everything is simulated first, the figures are kept, and the report goes to that file.
Lives are kept beside it as they end, by the version of the simulation: a run that was interrupted
goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trimtab.loop.workers import processors, side_by_side
from trimtab.report.documents.encode import to_json
from trimtab.report.documents.simulated import ReproduceDocument
from trimtab.report.reproduce import (
    TITLES,
    error_text,
    headline,
    printed_text,
    render_reproduction,
    twin_text,
)
from trimtab.twin.version import code_version
from trimtab.whatif.reproduce.life import Life, LifeRun
from trimtab.whatif.reproduce.reproduce import (
    DOCUMENTS,
    Reproduction,
    Terms,
    Together,
    reproduce,
    summary_of,
)

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.page_blocks import remade, text_of, write_or_check  # noqa: E402

from trimtab.twin.stack.predict import layers  # noqa: E402
from trimtab.validation.statements import (  # noqa: E402
    Figure,
    Row,
    SeededRow,
    seeded_row,
    statements,
)

PAGE = ROOT / "benchmarks" / "reports" / "twin-calibration.md"
KEPT = ROOT / "benchmarks" / "results" / "twin_calibration.json"


def main(arguments: list[str]) -> int:
    """Write the page, or return 1 if it is not what it would be."""
    if "--run" in arguments:
        report = Path(arguments[arguments.index("--run") + 1])
        hint = "a life of all OSTs takes some 100 MB"
        with side_by_side(processors(), hint=hint) as together:
            reproduction = reproduce(Terms(), kept_lives(report.parent / "lives", together))
        report.write_text(render_reproduction(reproduction))
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
    document = json.loads(to_json(ReproduceDocument(reproduction)))
    layer_ids = {seeded.row.id for seeded in layers()}
    return {
        "date": at.date().isoformat(),
        "version": document["version"],
        "seeds": document["seeds"],
        "rows": [row for row in document["rows"] if row["id"] not in layer_ids],
        "tensions": document["tensions"],
        "knees": document["knees"],
        "then": json.loads(KEPT.read_text())["then"],
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
        f"| {seeded.row.id} | {seeded.row.quantity} | {printed_text(seeded)} | "
        f"{twin_text(seeded)} | {error_text(seeded)} | {seeded.row.row_class} |"
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
            f"| {seeded.row.id} | {seeded.row.quantity} | {printed_text(seeded)} | "
            f"{twin_text(seeded)} | {_with_met(seeded)} | "
            f"{group}{', fitted' if group in fitted else ''} |"
        )
    return lines


def _with_met(seeded: SeededRow) -> str:
    return error_text(seeded) + (" met" if seeded.verdict == "met" else "")


def _outside(rows: Sequence[SeededRow]) -> list[str]:
    """Return why each figure that is only listed cannot be held against the twin."""
    lines = ["| figure | printed | why not |", "|---|---|---|"]
    return lines + [
        f"| {seeded.row.quantity} | {printed_text(seeded)} | {statements()[seeded.row.id].note} |"
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

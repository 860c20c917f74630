"""The page of ``trimtab reproduce``: every row, what contradicts itself, and charts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trimtab.report.kit import Cell, Table, Tone, row, table
from trimtab.report.render import drawn, environment
from trimtab.report.reproduce_charts import charts_of
from trimtab.units import format_value, plural
from trimtab.validation.statements import Figure, SeededRow
from trimtab.whatif.reproduce.reproduce import DOCUMENTS, Reproduction, Summary

TITLES: Final = {
    "nersc24": "NERSC, 2024: nine months of an all-flash file system",
    "sc21": "NERSC, 2021: architecture and performance of Perlmutter's scratch",
    "eth21": "ETH Zürich, 2021: shifting a file system to flash",
    "hpe25": "HPE, 2025: E2000, from microbenchmarks to applications",
}
_RELATIONS: Final = {"=": "", ">=": "at least ", "<=": "at most "}
_DAYS: Final = 2.0
_DAY_S: Final = 86400.0


def render_reproduction(reproduction: Reproduction) -> str:
    """Return a self-contained HTML page: no network, no script, equal for equals."""
    page = environment().get_template("reproduce.html.j2")
    documents = sections(reproduction)
    return page.render(
        reproduction=reproduction,
        seeds=plural(reproduction.terms.seeds, "seed"),
        tone=_tone(reproduction.summary),
        predictions=_predictions_table(documents),
        tables=[(title, _rows_table(rows)) for title, rows in documents],
        figures=drawn(charts_of(reproduction)),
        headline=headline(reproduction.summary),
        others=others_text(reproduction.summary),
    )


def _tone(summary: Summary) -> Tone:
    count = summary.of("prediction")
    if count.missed:
        return "warning"
    return "healthy" if count.met else "unclear"


_VERDICT_TONES: Final[dict[str, Tone]] = {"met": "healthy", "open": "unclear", "missed": "critical"}


def _verdict(seeded: SeededRow) -> Cell:
    verdict = seeded.verdict
    return Cell("-") if verdict is None else Cell(verdict, tone=_VERDICT_TONES[verdict])


def _error(seeded: SeededRow) -> str:
    return "-" if seeded.row.error is None else f"{100 * seeded.row.error:+.1f} %"


def _twin(seeded: SeededRow) -> Cell:
    if seeded.row.twin is None or seeded.low is None or seeded.high is None:
        return Cell(twin_text(seeded))
    low, high = value_text(seeded.low, seeded), value_text(seeded.high, seeded)
    return Cell(value_text(seeded.row.twin, seeded), f"{low} to {high}")


_ORDER: Final = {"missed": 0, "open": 1, "met": 2, None: 3}


def predictions(reproduction: Reproduction) -> list[SeededRow]:
    """Return the rows that are evidence, misses first."""
    rows = [seeded for _, rows in sections(reproduction) for seeded in rows]
    rows = [seeded for seeded in rows if seeded.row.row_class == "prediction"]
    return sorted(rows, key=lambda seeded: _ORDER[seeded.verdict])


def _predictions_table(documents: Sequence[tuple[str, Sequence[SeededRow]]]) -> Table | None:
    pairs = [
        (title, seeded)
        for title, rows in documents
        for seeded in rows
        if seeded.row.row_class == "prediction"
    ]
    return table(
        ("row", "quantity", "document", "printed>", "twin>", "error>", "verdict"),
        (
            row(
                seeded.row.id,
                seeded.row.quantity,
                title.partition(":")[0],
                printed_text(seeded),
                _twin(seeded),
                _error(seeded),
                _verdict(seeded),
                note=seeded.row.note,
            )
            for title, seeded in sorted(pairs, key=lambda pair: _ORDER[pair[1].verdict])
        ),
        "Nothing was fitted on these rows. Below a figure of the twin: its least and greatest over "
        "the seeds. Met: all of that range is where the document has it; missed: no seed is.",
    )


def _rows_table(rows: Sequence[SeededRow]) -> Table | None:
    return table(
        ("row", "quantity", "printed>", "twin>", "error>", "class", "verdict"),
        (
            row(
                seeded.row.id,
                seeded.row.quantity,
                printed_text(seeded),
                _twin(seeded),
                _error(seeded),
                class_text(seeded),
                _verdict(seeded),
                note=seeded.row.note,
            )
            for seeded in rows
        ),
    )


def sections(reproduction: Reproduction) -> list[tuple[str, list[SeededRow]]]:
    """Return the rows of each document, with its title."""
    return [
        (TITLES[name], [row for row in reproduction.rows if row.row.seed in DOCUMENTS[name]])
        for name in reproduction.terms.documents
    ]


def printed_text(seeded: SeededRow) -> str:
    """Return what is printed: a number with its unit, or the words."""
    printed = seeded.row.printed
    if not isinstance(printed, Figure):
        return printed
    text = _RELATIONS[printed.relation] + value_text(printed.value, seeded)
    return text if printed.upto is None else f"{text} to {value_text(printed.upto, seeded)}"


def twin_text(seeded: SeededRow) -> str:
    """Return what the twin says, with least and greatest of the seeds; ``-`` for nothing."""
    if seeded.row.twin is None:
        return "-"
    text = value_text(seeded.row.twin, seeded)
    if seeded.low is None or seeded.high is None:
        return text
    return f"{text} ({value_text(seeded.low, seeded)} to {value_text(seeded.high, seeded)})"


def error_text(seeded: SeededRow) -> str:
    """Return the error in percent, and the verdict by a word, not by its colour alone."""
    error = "" if seeded.row.error is None else f"{seeded.row.error:+.1%}"
    verdict = seeded.verdict if seeded.verdict in ("open", "missed") else None
    return " ".join(part for part in (error, verdict) if part)


def class_text(seeded: SeededRow) -> str:
    """Return what a row is worth."""
    return seeded.row.row_class


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


def others_text(summary: Summary) -> str:
    """Return the counts of the other classes, which are no evidence."""
    parts = []
    for count in summary.classes:
        if count.row_class == "prediction" or not count.rows:
            continue
        stand = [
            f"{number} {word}"
            for number, word in ((count.open, "open"), (count.missed, "missed"))
            if number
        ]
        parts.append(
            f"{count.rows} {count.row_class}" + (f" ({', '.join(stand)})" if stand else "")
        )
    return "no evidence: " + ", ".join(parts)


def value_text(value: float, seeded: SeededRow) -> str:
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

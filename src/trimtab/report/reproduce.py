"""The page of ``trimtab reproduce``: every row, what contradicts itself, and charts."""

from __future__ import annotations

from typing import Final

from trimtab.report.render import drawn, environment
from trimtab.report.reproduce_charts import charts_of
from trimtab.units import format_value
from trimtab.validation.statements import Figure, SeededRow
from trimtab.whatif.reproduce.reproduce import DOCUMENTS, Reproduction

TITLES: Final = {
    "nersc24": "NERSC, 2024: nine months of an all-flash file system",
    "sc21": "NERSC, 2021: architecture and performance of Perlmutter's scratch",
    "eth21": "ETH Zürich, 2021: shifting a file system to flash",
    "hpe25": "HPE, 2025: E2000, from microbenchmarks to applications",
}
_RELATIONS: Final = {"=": "", ">=": "over ", "<=": "under "}
_DAYS: Final = 2.0
_DAY_S: Final = 86400.0


def render_reproduction(reproduction: Reproduction) -> str:
    """Return a self-contained HTML page: no network, no script, equal for equals."""
    page = environment().get_template("reproduce.html.j2")
    return page.render(
        reproduction=reproduction,
        sections=sections(reproduction),
        figures=drawn(charts_of(reproduction)),
        printed=printed_text,
        twin=twin_text,
        error=error_text,
        kind=kind_text,
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
    return _RELATIONS[printed.relation] + value_text(printed.value, seeded)


def twin_text(seeded: SeededRow) -> str:
    """Return what the twin says, with least and greatest of the seeds; ``-`` for nothing."""
    if seeded.row.twin is None:
        return "-"
    text = value_text(seeded.row.twin, seeded)
    if seeded.low is None or seeded.high is None:
        return text
    return f"{text} ({value_text(seeded.low, seeded)} to {value_text(seeded.high, seeded)})"


def error_text(seeded: SeededRow) -> str:
    """Return the error in percent; a miss is marked by a word, not by its colour alone."""
    if seeded.row.error is None:
        return ""
    return f"{seeded.row.error:+.1%}" + (" missed" if seeded.row.missed else "")


def kind_text(seeded: SeededRow) -> str:
    """Return how a row came to be."""
    return seeded.row.kind


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

"""Make the tables of docs/twin-model.md from the constants and the rows.

Without arguments the page is written; with ``--check`` it is only compared.
"""

from __future__ import annotations

import sys
from pathlib import Path

from trimtab.twin.constants import TABLE

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.page_blocks import remade, text_of, write_or_check  # noqa: E402

from trimtab.twin.stack.predict import layer_rows  # noqa: E402
from trimtab.validation.statements import Figure, Row  # noqa: E402

PAGE = ROOT / "docs" / "twin-model.md"


def main(arguments: list[str]) -> int:
    """Write the page, or return 1 if it is not what it would be."""
    return write_or_check({PAGE: made(PAGE.read_text())}, arguments)


def made(page: str) -> str:
    """Return the page with its tables made anew."""
    return remade(page, {"constants": text_of(_constants()), "rows": text_of(_rows())})


def _constants() -> list[str]:
    lines = [
        "| constant | value | bounds | what it stands for | fitted on |",
        "|---|---|---|---|---|",
    ]
    for c in TABLE:
        unit = "" if c.unit == "1" else f" {c.unit}"
        lines.append(
            f"| `{c.name}` | {c.value:.3g}{unit} | {c.low:.3g} to {c.high:.3g} | {c.meaning} | "
            f"{', '.join(c.fitted_on)} |"
        )
    return lines


def _rows() -> list[str]:
    lines = ["| row | | printed | twin | error | |", "|---|---|---|---|---|---|"]
    for row in layer_rows():
        if row.error is not None and row.twin is not None and isinstance(row.printed, Figure):
            relation = {"=": "", ">=": "at least ", "<=": "at most "}[row.printed.relation]
            lines.append(
                f"| {row.id} | {row.quantity} | {relation}{_printed(row.printed, row)} | "
                f"{_number(row.twin, row)} | {row.error:+.1%} | "
                f"{row.row_class}{', missed' if row.missed else ''} |"
            )
    return lines


def _printed(figure: Figure, row: Row) -> str:
    number = _number(figure.value, row)
    return number if figure.upto is None else f"{number} to {_number(figure.upto, row)}"


def _number(value: float, row: Row) -> str:
    if row.unit == "B/s":
        return f"{value / 1e9:,.4g} GB/s" if value < 1e12 else f"{value / 1e12:.3g} TB/s"
    if row.unit == "1/s":
        return f"{value / 1e3:,.0f} k/s"
    return f"{value:.4g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

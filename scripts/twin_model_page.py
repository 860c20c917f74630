"""Make the table of docs/twin-model.md from the constants.

Without arguments the page is written; with ``--check`` it is only compared.
"""

from __future__ import annotations

import sys
from pathlib import Path

from trimtab.twin.simulation.hardware import TABLE

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.page_blocks import remade, text_of, write_or_check  # noqa: E402

PAGE = ROOT / "docs" / "twin-model.md"


def main(arguments: list[str]) -> int:
    """Write the page, or return 1 if it is not what it would be."""
    return write_or_check({PAGE: made(PAGE.read_text())}, arguments)


def made(page: str) -> str:
    """Return the page with its table made anew."""
    return remade(page, {"constants": text_of(_constants())})


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

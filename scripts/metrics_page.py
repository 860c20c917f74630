"""Write the table of metrics into docs/metrics.md, from `trimtab.watch.metrics`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trimtab.watch.metrics import METRICS, Metric

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "metrics.md"
HEAD: Final = "| metric | labels besides `site` | |\n|---|---|---|\n"


def row(metric: Metric) -> str:
    """Return the line of one metric."""
    ending = {"counter": "_total", "info": "_info", "gauge": ""}[metric.kind]
    labels = ", ".join(f"`{label}`" for label in metric.labels[1:])
    return f"| `{metric.name}{ending}` | {labels} | {metric.help.rstrip('.')} |\n"


def table() -> str:
    """Return the table."""
    return HEAD + "".join(map(row, METRICS))


def with_table(page: str) -> str:
    """Return the page with the table in place of what stands there."""
    before, _, rest = page.partition(HEAD)
    lines = rest.splitlines(keepends=True)
    while lines and lines[0].startswith("|"):
        del lines[0]
    return before + table() + "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))

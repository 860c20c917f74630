"""Write reports/a-year-of-two-systems.md: what Trimtab says of the year of Edison and Mira.

The tables of TOKIO-ABC are read by `tokio_abc` and judged as `trimtab judge` does;
what stands between ``<!-- year NAME -->`` and ``<!-- end -->``, and every chart of the page, is
made from that. The data are found through ``$TRIMTAB_REAL_DATA``. With ``--check`` nothing is
written: the exit code is 1 if page or charts are not what they would be, 2 without the data.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import real_year_charts
import real_year_tables
from page_blocks import remade, write_or_check
from real_year_data import load

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "benchmarks" / "reports" / "a-year-of-two-systems.md"
IMAGES = ROOT / "docs" / "images"


def main(arguments: list[str]) -> int:
    """Write page and charts, or say whether they are what they would be."""
    data = Path(os.environ.get("TRIMTAB_REAL_DATA", ROOT.parent / "shared" / "data")) / "tokio-abc"
    if not data.is_dir():
        print(f"no data under {data}: set TRIMTAB_REAL_DATA", file=sys.stderr)
        return 2
    year = load(sorted(data.glob("*.csv.gz")))
    blocks = {f"year {name}": table(year) for name, table in real_year_tables.TABLES.items()}
    made = {PAGE: remade(PAGE.read_text(), blocks)}
    made |= {IMAGES / name: svg for name, svg in real_year_charts.charts(year).items()}
    return write_or_check(made, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Write docs/a-year-of-two-systems.md: what Trimtab says of the year of Edison and Mira.

The tables of TOKIO-ABC are imported as `trimtab import` does and judged as `trimtab judge` does;
what stands between ``<!-- year NAME -->`` and ``<!-- end -->``, and every chart of the page, is
made from that. The data are found through ``$TRIMTAB_REAL_DATA``. With ``--check`` nothing is
written: the exit code is 1 if page or charts are not what they would be, 2 without the data.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import real_year_charts
import real_year_tables
from real_year_data import Year, load

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "a-year-of-two-systems.md"
IMAGES = ROOT / "docs" / "images"
_BLOCK = re.compile(r"(<!-- year ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main(arguments: list[str]) -> int:
    """Write page and charts, or say whether they are what they would be."""
    data = Path(os.environ.get("TRIMTAB_REAL_DATA", ROOT.parent / "shared" / "data")) / "tokio-abc"
    if not data.is_dir():
        print(f"no data under {data}: set TRIMTAB_REAL_DATA", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        year = load(sorted(data.glob("*.csv.gz")), Path(scratch))
    made = {PAGE: made_page(PAGE.read_text(), year)}
    made |= {IMAGES / name: svg for name, svg in real_year_charts.charts(year).items()}
    if "--check" in arguments:
        old = [path for path, text in made.items() if not _is(path, text)]
        for path in old:
            print(f"{path.relative_to(ROOT)} is not what the data give", file=sys.stderr)
        return int(bool(old))
    IMAGES.mkdir(exist_ok=True)
    for path, text in made.items():
        path.write_text(text)
    return 0


def made_page(page: str, year: Year) -> str:
    """Return the page with every block made anew."""
    tables = real_year_tables.TABLES
    return _BLOCK.sub(lambda found: f"{found[1]}{tables[found[2]](year)}{found[3]}", page)


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

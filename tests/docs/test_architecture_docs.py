"""ARCHITECTURE.md and CONTRIBUTING.md name files that exist."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.each import for_each

ROOT = Path(__file__).resolve().parents[2]
PLACES = (ROOT, ROOT / "src/trimtab")
_CODE = re.compile(r"`([\w./-]+)`")


def _missing(line: str) -> list[str]:
    """Return the files of a line that do not exist, alone or beside another of the line."""
    names = _CODE.findall(line)
    folders = ["", *names, *(str(Path(name).parent) for name in names)]
    files = [name for name in names if Path(name).suffix in {".py", ".rs"} or name.endswith("/")]
    return [
        name
        for name in files
        if not any((place / folder / name).exists() for place in PLACES for folder in folders)
    ]


@for_each("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_file_that_is_named_exists(page: str) -> None:
    lines = (ROOT / page).read_text().splitlines()
    assert not [
        f"{page}:{number}: {name}"
        for number, line in enumerate(lines, 1)
        for name in _missing(line)
    ]

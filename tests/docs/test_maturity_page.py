"""docs/maturity.md shows what ran on a real Lustre, and what the stand-in assumes."""

from __future__ import annotations

from scripts import maturity_page


def test_the_page_is_what_the_table_gives() -> None:
    assert maturity_page.main(["--check"]) == 0, "run scripts/maturity_page.py"

"""docs/maturity.md shows what the stand-in for a Lustre assumes."""

from __future__ import annotations

from scripts import answers_page


def test_the_page_is_what_the_table_gives() -> None:
    assert answers_page.main(["--check"]) == 0, "run scripts/answers_page.py"

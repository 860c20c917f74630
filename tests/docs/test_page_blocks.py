"""Pages that are made of data: a block is replaced whole, one that nobody makes is noticed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripts import page_blocks

PAGE = "text\n<!-- a -->\nold\nold\n<!-- end -->\n\n<!-- of b -->\n<!-- end -->\nmore\n"


def test_blocks_are_made_anew_and_the_rest_stays() -> None:
    made = page_blocks.remade(PAGE, {"of b": page_blocks.text_of(("1", "2")), "a": r"\1 new" "\n"})
    assert made == (
        "text\n<!-- a -->\n\\1 new\n<!-- end -->\n\n<!-- of b -->\n1\n2\n<!-- end -->\nmore\n"
    )
    assert page_blocks.names_of(made) == ["a", "of b"]


@pytest.mark.parametrize(
    ("page", "names", "said"),
    [
        (PAGE, ("a",), "nothing is made for the block of b"),
        (PAGE, ("a", "of b", "c"), "the page has 0 blocks of c"),
        (PAGE + PAGE, ("a", "of b"), "the page has 2 blocks of a"),
        (PAGE.replace("old\n<!-- end -->", ""), ("a", "of b"), "the page has 0 blocks of of b"),
    ],
    ids=["unknown", "missing", "doubled", "open"],
)
def test_a_block_that_is_not_there_once_is_told(
    page: str, names: tuple[str, ...], said: str
) -> None:
    with pytest.raises(SystemExit, match=re.escape(said)):
        page_blocks.remade(page, dict.fromkeys(names, "new\n"))


def test_files_are_compared_or_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(page_blocks, "ROOT", tmp_path)
    same, other, missing = (tmp_path / name for name in ("same.md", "other.md", "missing.md"))
    same.write_text("text\n")
    other.write_text("old\n")
    made = {same: "text\n", other: "text\n", missing: "text\n"}
    assert page_blocks.write_or_check(made, ["--check"]) == 1
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == [
        "other.md",
        "missing.md",
    ]
    assert other.read_text() == "old\n"
    assert page_blocks.write_or_check(made, []) == 0
    assert page_blocks.write_or_check(made, ["--check"]) == 0

"""Result files on either side of a comparison: read as an import reads them, and not kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.errors import UnreadableError
from trimtab.loop.comparing.compare import Request, compare_sides
from trimtab.loop.comparing.files import as_files

pytestmark = pytest.mark.cli
REPORT = Path(__file__).parents[2] / "fixtures/ior/4.0.0/text-shared.out"


def test_two_files_of_a_tool_are_compared_without_a_store(tmp_path: Path) -> None:
    copy = tmp_path / "later.out"
    copy.write_bytes(REPORT.read_bytes())
    store = tmp_path / "none.db"
    result = compare_sides(Request(str(REPORT), str(copy), store_url=str(store)))
    ratios = [effect.ratio for series in result.series for effect in series.effects]
    assert ratios
    assert set(ratios) == {1.0}
    assert not store.exists()


def test_only_files_that_are_there_are_files(tmp_path: Path) -> None:
    (tmp_path / "a.json").touch()
    (tmp_path / "figures.toml").touch()
    assert as_files(f"{tmp_path}/a.json, {tmp_path}/a.json") == (f"{tmp_path}/a.json",) * 2
    assert as_files(f"{tmp_path}/a.json,{tmp_path}/b.json") == ()
    assert as_files(f"{tmp_path}/figures.toml") == ()
    assert as_files(str(tmp_path)) == ()


def test_a_file_of_no_known_format_is_named(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("nothing\n")
    with pytest.raises(UnreadableError, match=r"notes\.txt cannot be compared"):
        compare_sides(Request(str(file), str(file), store_url=str(tmp_path / "none.db")))

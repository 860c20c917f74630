"""What the pages say of lists and columns is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.purge.index.imports import imported

from trimtab.purge.index import find_list, shard
from trimtab.purge.index.column_map import UNITS, parse_map
from trimtab.purge.index.index_query import By, ask
from trimtab.purge.index.manifest import IndexSource

DOCS = Path(__file__).parents[3] / "docs"
IMPORT = (DOCS / "purge-import.md").read_text()
INDEX = (DOCS / "purge-index.md").read_text()


def test_the_scripts_are_those_of_the_program() -> None:
    assert f" -printf '{find_list.GNU_FULL}' &&\n" in IMPORT
    assert f'--printf "$token\\t{find_list.LFS_FULL}" &&\n' in IMPORT
    assert find_list.GNU_SHORT in IMPORT


def test_every_format_and_target_stands_there() -> None:
    for source in set(IndexSource) - {IndexSource.SCAN}:
        assert f"`{source.value}`" in IMPORT
    for target, units in UNITS.items():
        row = next(line for line in IMPORT.splitlines() if f"`{target}`" in line and "| `" in line)
        for unit in units:
            assert f"`{unit}`" in row


@pytest.mark.parametrize("text", re.findall(r"--map (\S+=\S+,\S+) \\\n  --map (\S+)", IMPORT))
def test_the_map_of_the_page_is_one(text: tuple[str, str]) -> None:
    assert len(parse_map(text)) == "".join(text).count("=") >= 11


def test_every_column_stands_there() -> None:
    for column in shard.columns():
        assert INDEX.count(f"`{column}`") >= 2


def test_the_questions_of_the_page_are_answered(tmp_path: Path) -> None:
    statements = re.search(r"```sql\n(.*?)```", INDEX, re.DOTALL)
    assert statements is not None
    result = [one for one in statements[1].split(";") if one.strip()]
    assert len(result) == 3
    content = b"path,uid,size,t\nprojects/old/a,0,5,5\n"
    mapping = ["path=path,uid=uid,size_bytes=size,mtime_ns=t:s,atime_ns=t:s,ctime_ns=t:s"]
    imported(tmp_path, content, IndexSource.CSV, column_map=mapping)
    for statement in result:
        assert ask(tmp_path / "index", statement).frame.height == 1
    for by in By:
        assert by.value in INDEX.split("\n\n")[1] + INDEX.split("\n\n")[3]

"""docs/security.md names tests that exist, and that the gate runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
NAMED = sorted(set(re.findall(r"`([a-z]\w+_\w+_\w+_\w+)`", PAGE)))


@pytest.fixture(scope="module")
def defined() -> set[str]:
    texts = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    texts += [path.read_text() for path in (ROOT / "crates").rglob("*.rs")]
    return {name for text in texts for name in re.findall(r"^\s*(?:def|fn) (\w+)\(", text, re.M)}


@pytest.mark.parametrize("name", NAMED)
def test_each_test_that_the_page_names_is_there(name: str, defined: set[str]) -> None:
    assert name in defined


def test_each_threat_has_a_test() -> None:
    rows = [line.split("|") for line in PAGE.splitlines() if line.startswith("| ")]
    threats = [row for row in rows if len(row) == 5 and row[1].strip() not in {"threat", "who"}]
    without = [row[1] for row in threats[threats.index(_first(threats)) :] if "`" not in row[3]]
    assert len(threats) > 30
    assert without == []


def _first(rows: list[list[str]]) -> list[str]:
    return next(row for row in rows if "exchanged" in row[1])

"""Every source that is cited stands on docs/sources.md, and each that stands there is cited."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/sources.md"
CITED = re.compile(r"\bS[1-9][0-9]?\b")
PLACES = (
    ("src", ".py", ".toml", ".csv", ".j2"), ("crates", ".rs"), ("tests", ".py"), ("scripts", ".py"),
    ("benchmarks", ".py", ".md"), ("deploy", ".py", ".toml"), ("docs", ".md", ".toml"),
)  # fmt: skip


def listed() -> list[str]:
    return re.findall(r"^\| (S[0-9]+) \|", PAGE.read_text(), re.M)


def texts() -> Iterator[tuple[Path, str]]:
    for top, *suffixes in PLACES:
        for path in (ROOT / top).rglob("*"):
            if path.suffix in suffixes and path not in {PAGE, Path(__file__).resolve()}:
                yield path, path.read_text()


def test_the_sources_are_numbered_in_order() -> None:
    numbers = listed()
    assert numbers
    assert numbers == [f"S{number}" for number in range(1, len(numbers) + 1)]


def test_every_citation_is_listed_and_every_source_is_cited() -> None:
    cited = {number: path for path, text in texts() for number in CITED.findall(text)}
    assert {number: path for number, path in cited.items() if number not in listed()} == {}
    assert sorted(set(listed()) - cited.keys()) == []

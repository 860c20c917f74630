"""The page on policies: its table is the schema's, and what it shows works."""

from __future__ import annotations

import re
from pathlib import Path

from trimtab.base.toml_schema import Entry
from trimtab.purge.policy_file import parse_policy
from trimtab.purge.purge_policy import SCHEMA, Policy

ROOT = Path(__file__).resolve().parents[3]
PAGE_FILE = ROOT / "docs" / "purge-policy.md"
EXAMPLE = ROOT / "docs" / "examples" / "purge-policy.toml"
MARKED = re.compile(r"(<!-- made: keys -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE_FILE.read_text(), re.DOTALL)


def row(entry: Entry) -> str:
    """Return a row of the table of all keys: key, what, default."""
    can_say = entry.default is not None or entry.kind.absent is not None
    text = None if entry.is_required or not can_say else entry.kind.write(entry.default)
    default = "required" if entry.is_required else "" if text is None else f"`{text}`"
    return f"| `[{'.'.join(entry.location[:-1])}] {entry.name}` | {entry.comment} | {default} |\n"


def test_the_table_is_the_schema_s() -> None:
    result = MARKED.search(PAGE_FILE.read_text())
    assert result is not None
    assert result.group(2) == "".join(map(row, SCHEMA.every_key()))


def test_the_least_file_works() -> None:
    (least,) = blocks("toml")
    assert parse_policy(least, "least.toml").policy == Policy("scratch", "/scratch", target=0.7)


def test_the_example_is_a_careful_policy() -> None:
    loaded = parse_policy(EXAMPLE.read_text(), "example")
    assert loaded.warnings == ()
    assert loaded.policy.arming.kind == "second-person"
    assert len(loaded.policy.exemptions) == 3


def test_the_library_s_example_does_what_it_says() -> None:
    (example,) = blocks("python")
    names: dict[str, object] = {}
    exec(example, names)  # the page's own text
    assert parse_policy(str(names["text"]), "mine").policy == names["loaded"].policy  # type: ignore[attr-defined]
    assert names["horizon"].cut_off_hour == 490_001  # type: ignore[attr-defined]

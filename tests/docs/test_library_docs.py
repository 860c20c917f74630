"""The blocks of the page on the library run in turn and print what stands below them."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "library.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", PAGE, re.M | re.S)


@pytest.fixture(scope="module")
def ran() -> tuple[dict[str, object], list[str]]:
    """Run every block in one namespace, as a notebook does; return it and what each printed."""
    names: dict[str, object] = {"__name__": "notebook"}
    printed = []
    for code, _ in BLOCKS:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, "docs/library.md", "exec"), names)
        printed.append(out.getvalue())
    return names, printed


@pytest.mark.system
def test_each_block_prints_what_the_page_says(ran: tuple[dict[str, object], list[str]]) -> None:
    assert len(BLOCKS) >= 9
    shown = [(text, out) for (_, text), out in zip(BLOCKS, ran[1], strict=True) if text]
    assert len(shown) >= 7
    assert [out for _, out in shown] == [text for text, _ in shown]


def test_the_logged_change_is_the_likeliest_cause(
    ran: tuple[dict[str, object], list[str]],
) -> None:
    explanation = ran[0]["explanation"]
    assert explanation.causes[0].cause == "configuration-change"  # pyrefly: ignore[missing-attribute]
    assert "checksums" in ran[1][-1]

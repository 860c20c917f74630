"""What holds for every page: one stylesheet, no other style, no script, its answer first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripts.screenshots import WIDTHS, laid_out
from tests.show.conftest import draw_nothing
from tests.show.pages import PAGES, purge_horizon_page
from tests.show.test_check import assert_self_contained

from trimtab.show.chart import environment, stylesheet

_COLOUR = re.compile(r"#[0-9a-f]{6}\b")


@pytest.fixture(scope="module")
def undrawn() -> tuple[dict[str, str], str]:
    """Return every page without its drawings, and the specifications of these."""
    with pytest.MonkeyPatch.context() as patch:
        specifications = draw_nothing(patch)
        return {name: page() for name, page in PAGES.items()}, "".join(specifications)


@pytest.mark.system
def test_every_page_is_made_of_the_kit(undrawn: tuple[dict[str, str], str]) -> None:
    css, (pages, specifications) = stylesheet().text, undrawn
    for name, html in pages.items():
        elements = assert_self_contained(html).elements
        assert all("style" not in attributes for _, attributes in elements), name
        assert f"default-src 'none'; style-src '{stylesheet().hash}'" in html, name
        assert html.count("<style>") == 1
        assert f"<style>{css}</style>" in html, name
        assert html[: html.index("<main>")].count('aria-label="Answer"') == 1, name
    colours = set(_COLOUR.findall(specifications))
    assert len(colours) > 4
    for colour in colours:
        assert f'.drawing [fill="{colour}"]' in css, colour
        assert f'.drawing [stroke="{colour}"]' in css, colour


def test_a_drawing_has_no_style_and_says_its_figures_under_the_pointer() -> None:
    html = purge_horizon_page()
    page = assert_self_contained(html)
    assert all("style" not in attributes for _, attributes in page.elements)
    assert re.search(r"<title>unused for, days \(log scale\): [0-9.]+; full", html)


@pytest.mark.system
def test_no_page_is_wider_than_its_window(
    undrawn: tuple[dict[str, str], str], tmp_path: Path
) -> None:
    pages = [tmp_path / f"{name}.html" for name in undrawn[0]]
    for page in pages:
        page.write_text(undrawn[0][page.stem])
    for page, sizes in zip(pages, laid_out(pages), strict=True):
        for width, (needed, _) in zip(WIDTHS, sizes, strict=True):
            assert needed <= width, (page.stem, width, needed)


def test_a_template_that_misspells_a_name_fails() -> None:
    with pytest.raises(Exception, match="undefined"):
        environment().from_string("{{ nothing }}").render()

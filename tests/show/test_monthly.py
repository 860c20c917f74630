"""The report of a month: the same answers and figures as a page and as Markdown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.show.month_page import month, month_page

from trimtab.answers.page_month import monthly_document, space_answer
from trimtab.show.document import document_markdown

TITLES = ["Verdicts", "Incidents and their causes", "Space", "Purge", "Purge: days",
          "Purge: users", "Cost of the probes", "Actions"]  # fmt: skip


@pytest.mark.usefixtures("canned_drawings")
def test_both_forms_have_each_part_and_its_figures() -> None:
    page, markdown = month_page(), document_markdown(monthly_document(month()))
    for title in TITLES:
        assert f"<h2>{title}</h2>" in page
        assert f"\n## {title}\n" in markdown
    for words in (
        "hourly write bandwidth -20 % since", "Incidents: none in this month",
        "57.1 % full on 01 Oct", "62.3 % on 31 Oct", "Deleted 3,080,000 files",
        "744 runs wrote 700 TiB",
        "1 of 2 changes done; 1 not", "c2 15 to 25", "refused", "drive writes a day",
    ):  # fmt: skip
        assert words in page, words
        assert words in markdown, words


def test_what_is_not_known_says_so() -> None:
    bare = replace(month(), space=(), purges=None, purge_reason="no permission", cost=None,
                   actions=(), complete=False)  # fmt: skip
    markdown = document_markdown(monthly_document(bare))
    for words in ("not known: no snapshot", "Not known: no permission.", "no run by Trimtab itself",
                  "nothing was changed", "2026-10-31, so far"):  # fmt: skip
        assert words in markdown, words


def test_markup_in_names_is_text_in_both_forms() -> None:
    hostile = replace(month(), site="<script>a|b</script>")
    document = monthly_document(hostile)
    markdown = document_markdown(document)
    assert "<script" not in markdown
    assert "a\\|b" in markdown


@pytest.mark.parametrize("days", [1, 2])
def test_the_space_of_few_days_is_told(days: int) -> None:
    space = month().space[:days]
    assert "57.1 % full on 01 Oct" in space_answer(space)
    assert "OST0007" in space_answer(space)

"""What holds for every page; reports of a month, purges, sweeps and policies."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from scripts.screenshots import WIDTHS, laid_out
from tests.show.conftest import draw_nothing
from tests.show.pages import (
    PAGES,
    horizon_answer_of,
    month,
    month_page,
    purge_horizon_page,
    purge_runs,
    swept_policies,
)
from tests.show.test_check import assert_self_contained
from tests.support.documents import misfits
from tests.support.narrow import present

from trimtab.answers.page_month import monthly_document, space_answer
from trimtab.base.encode import to_json
from trimtab.base.units import format_bytes, format_percent
from trimtab.judge.sweep_analysis import analyse_sweep
from trimtab.judge.sweep_result import MeasuredPoint, SweepDocument, SweepPoint
from trimtab.probe.page_sweep import heat_chart, sweep_document
from trimtab.purge.horizon.page import horizon_answer, horizon_chart, owners_chart, steps_table
from trimtab.purge.run.page import runs_answer, runs_tone
from trimtab.purge.run.purge_report import PurgeReport
from trimtab.show.chart import environment, stylesheet
from trimtab.show.document import document_markdown, render_document
from trimtab.twin.whatif.page import policies_table, trade_off_chart, whatif_answers
from trimtab.twin.whatif.whatif_sweep import Swept, best_of

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


def test_a_reachable_target_is_answered_with_its_age_and_bytes() -> None:
    answer = horizon_answer_of(0.70)
    sentence = horizon_answer(answer)
    assert format_bytes(answer.needed.freed.allocated_bytes) in sentence
    assert "30 users" in sentence
    marked = [row for row in present(steps_table(answer)).rows if row.marked]
    assert [row.cells[1].text for row in marked] == ["enough now", "the lists"]
    after = present(answer.needed.after).fullness
    assert marked[0].cells[-1].text == format_percent(after, 2)
    assert after <= 0.70


@pytest.mark.parametrize(
    ("target", "words"), [(0.9, "Nothing has to be deleted"), (0.1, "No horizon")]
)
def test_targets_that_need_nothing_or_are_out_of_reach(target: float, words: str) -> None:
    assert horizon_answer(horizon_answer_of(target)).startswith(words)


def test_the_curve_falls_with_younger_ages_and_holds_the_cut_offs() -> None:
    answer = horizon_answer_of(0.70)
    points = present(horizon_chart(answer)).specification["layer"][0]["data"]["values"]
    ages, full = zip(*((point["age"], point["full"]) for point in points), strict=True)
    assert list(ages) == sorted(ages)
    assert list(full) == sorted(full)
    needed = present(answer.needed.age_s(answer.as_of_s)) / 86400
    assert needed in ages


def test_the_bars_are_of_those_with_most() -> None:
    users = horizon_answer_of(0.70).users
    bars = present(owners_chart(users)).specification["layer"][1]["data"]["values"]
    assert len(bars) == 12
    assert all(bar["go"] <= bar["may"] for bar in bars)
    assert owners_chart(()) is None


def test_dry_runs_are_never_counted_as_deleted() -> None:
    runs = purge_runs()
    assert "3,080,000 files" in runs_answer(runs)
    assert runs_answer(replace(runs, days=runs.days[:1])).startswith("Nothing was deleted")
    assert runs_answer(PurgeReport((), ())) == "No purge runs are recorded."


def test_the_tone_is_that_of_what_needs_a_person() -> None:
    runs = purge_runs()
    assert runs_tone(runs) == "warning"
    good = replace(runs, days=runs.days[1:2])
    assert runs_tone(good) == "info"
    aside = replace(good.days[0].runs[0], unexplained=("/scratch/x",))
    assert runs_tone(replace(good, days=(replace(good.days[0], runs=(aside,)),))) == "critical"
    assert re.search(r"76\.60 % full before, 74\.40 % after", runs_answer(runs))


HOSTILE = "</td><script>alert(1)</script>"


def points() -> list[MeasuredPoint]:
    """Bandwidth doubles up to 8 nodes and stays; one point was not measured."""
    found = []
    for nodes, size in product((1, 2, 4, 8, 16, 32), ("64KiB", "1MiB", HOSTILE)):
        rate = 1e9 * min(nodes, 8) * (1.0 if size == "1MiB" else 0.5)
        missing = nodes == 32 and size == HOSTILE
        values = tuple(None if missing else rate * (1 + 0.01 * step) for step in (-1, 0, 1))
        found.append(MeasuredPoint({"nodes": nodes, "size": size}, {"write_bandwidth": values}))
    return found


def test_the_page_loads_nothing_and_believes_no_word() -> None:
    page, again = (
        render_document(sweep_document(f"a {HOSTILE}", "scratch", analyse_sweep(points())))
        for _ in range(2)
    )
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    assert page.count('class="drawing"') == 2
    assert "8.00 GB/s" in page
    assert page == again


def test_a_hole_in_the_map_is_a_dash() -> None:
    (one,) = analyse_sweep(points()).maps
    rows = heat_chart(one).specification["data"]["values"]
    holes = [{row["row"], row["column"]} for row in rows if row["shown"] == "-"]
    assert holes == [{"32", HOSTILE}]
    assert all(0 <= row["of_best"] <= 1 for row in rows)


def test_the_document_is_of_its_schema() -> None:
    document = SweepDocument(
        "store",
        "s",
        "try",
        points=(SweepPoint({"nodes": 1}, 0),),
        waiting=({"nps": 4},),
        failures=("nodes 2: broken",),
        doubts=(),
        analysis=analyse_sweep(points()),
    )
    value = json.loads(to_json(document))
    assert misfits(value, "sweep") == []
    assert value["best"][0]["best"]["size"] == "1MiB"
    (curve,) = value["scaling"]
    assert curve["shape"] == "knee"
    assert 6 < curve["knee"] < 10
    assert value["waiting"] == [{"nps": 4}]


def test_the_best_is_marked_in_table_plot_and_answer() -> None:
    _, swept = swept_policies()
    best = present(best_of(swept))
    title = swept.rows[best.row].combination.title
    assert title == "trim nightly, fullness 0.6"
    table = present(policies_table(swept, best))
    assert [row.cells[0].text for row in table.rows if row.marked] == [f"{best.row + 1}. {title}"]
    points = present(trade_off_chart(swept, best)).specification["layer"][-1]["data"]["values"]
    assert [point["policy"] for point in points if point["best"]] == [title]
    assert title in whatif_answers(swept)[0]


def test_those_whose_intervals_overlap_are_tied() -> None:
    _, swept = swept_policies()
    row = swept.rows[present(best_of(swept)).row]
    doubled = replace(swept, rows=(*swept.rows, row))
    best = present(best_of(doubled))
    assert best.tied == (len(swept.rows),)
    assert "statistically tied with 1 other" in whatif_answers(doubled)[0]


def test_few_seeds_are_not_called_a_test() -> None:
    _, swept = swept_policies()
    rows = tuple(
        replace(row, figures=tuple(replace(one, interval=None) for one in row.figures))
        for row in swept.rows
    )
    best = present(best_of(replace(swept, rows=rows, seeds=2)))
    assert not best.tested
    assert best.tied == ()
    assert "not tested: 2 seeds" in whatif_answers(replace(swept, rows=rows, seeds=2))[0]


def _varying_of(swept: Swept, name: str) -> Swept:
    rows = tuple(
        replace(row, combination=replace(row.combination, settings=((name, str(number)),)))
        for number, row in enumerate(swept.rows)
    )
    return replace(swept, rows=rows)


def test_a_setting_of_integrity_is_never_the_best() -> None:
    _, swept = swept_policies()
    assert best_of(_varying_of(swept, "queue.target_latency")) is not None
    assert best_of(_varying_of(swept, "clients.checksums")) is None
    assert best_of(replace(swept, rows=swept.rows[:1])) is None

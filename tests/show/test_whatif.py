"""The best policy is named only where the seeds can show it; settings of integrity never are."""

from __future__ import annotations

from dataclasses import replace

from tests.show.pages import swept_policies
from tests.support.known import known

from trimtab.twin.whatif.page_whatif import policies_table, trade_off_chart, whatif_answers
from trimtab.twin.whatif.whatif_sweep import Swept, best_of


def test_the_best_is_marked_in_table_plot_and_answer() -> None:
    _, swept = swept_policies()
    best = known(best_of(swept))
    title = swept.rows[best.row].combination.title
    assert title == "trim nightly, fullness 0.6"
    table = known(policies_table(swept, best))
    assert [row.cells[0].text for row in table.rows if row.marked] == [f"{best.row + 1}. {title}"]
    points = known(trade_off_chart(swept, best)).specification["layer"][-1]["data"]["values"]
    assert [point["policy"] for point in points if point["best"]] == [title]
    assert title in whatif_answers(swept)[0]


def test_those_whose_intervals_overlap_are_tied() -> None:
    _, swept = swept_policies()
    row = swept.rows[known(best_of(swept)).row]
    doubled = replace(swept, rows=(*swept.rows, row))
    best = known(best_of(doubled))
    assert best.tied == (len(swept.rows),)
    assert "statistically tied with 1 other" in whatif_answers(doubled)[0]


def test_few_seeds_are_not_called_a_test() -> None:
    _, swept = swept_policies()
    rows = tuple(
        replace(row, figures=tuple(replace(one, interval=None) for one in row.figures))
        for row in swept.rows
    )
    best = known(best_of(replace(swept, rows=rows, seeds=2)))
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

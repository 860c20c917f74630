"""The pages of a purge say what goes, whose it is, and what runs did."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tests.show.purge_pages import horizon_answer_of, purge_runs
from tests.support.known import known

from trimtab.base.units import format_bytes, format_percent
from trimtab.purge.horizon.page import (
    horizon_answer,
    horizon_chart,
    owners_chart,
    runs_answer,
    runs_tone,
    steps_table,
)
from trimtab.purge.run.purge_report import PurgeReport


def test_a_reachable_target_is_answered_with_its_age_and_bytes() -> None:
    answer = horizon_answer_of(0.70)
    sentence = horizon_answer(answer)
    assert format_bytes(answer.needed.freed.allocated_bytes) in sentence
    assert "30 users" in sentence
    marked = [row for row in known(steps_table(answer)).rows if row.marked]
    assert [row.cells[1].text for row in marked] == ["enough now", "the lists"]
    after = known(answer.needed.after).fullness
    assert marked[0].cells[-1].text == format_percent(after, 2)
    assert after <= 0.70


@pytest.mark.parametrize(
    ("target", "words"), [(0.9, "Nothing has to be deleted"), (0.1, "No horizon")]
)
def test_targets_that_need_nothing_or_are_out_of_reach(target: float, words: str) -> None:
    assert horizon_answer(horizon_answer_of(target)).startswith(words)


def test_the_curve_falls_with_younger_ages_and_holds_the_cut_offs() -> None:
    answer = horizon_answer_of(0.70)
    points = known(horizon_chart(answer)).specification["layer"][0]["data"]["values"]
    ages, full = zip(*((point["age"], point["full"]) for point in points), strict=True)
    assert list(ages) == sorted(ages)
    assert list(full) == sorted(full)
    needed = known(answer.needed.age_s(answer.as_of_s)) / 86400
    assert needed in ages


def test_the_bars_are_of_those_with_most() -> None:
    users = horizon_answer_of(0.70).users
    bars = known(owners_chart(users)).specification["layer"][1]["data"]["values"]
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

"""Results of commands come out of the store as they went in, the newest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.show.pages import TIB, USAGE, horizon_answer_of, swept_policies
from tests.support.codes import raises

from trimtab.base.error import Message, UsageError
from trimtab.purge.fullness import Usage
from trimtab.purge.horizon.age_curve import Freed
from trimtab.purge.horizon.group_horizon import GroupHorizon, GroupHorizons, OstGroup
from trimtab.purge.horizon.horizon import HorizonStatus
from trimtab.purge.horizon.horizon_answer import HorizonAnswer, HorizonResult
from trimtab.store.kept import KeptResult
from trimtab.store.store import Store
from trimtab.twin.kept_result import WhatIfResult, add_result, results_of, whatif_result
from trimtab.twin.whatif.page_whatif import whatif_document

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
SITE = "scratch"


def kept_horizon(answer: HorizonAnswer, root: str = "/scratch") -> HorizonResult:
    """Return a horizon as it is kept."""
    total = Freed(21_000_000, 26_500 * TIB)
    words = ("Files younger than 14 d stay.",)
    return HorizonResult(root, "i", answer, USAGE, words, total, ("6 h old",))


def kept_whatif() -> WhatIfResult:
    """Return a sweep as it is kept."""
    return whatif_result(*swept_policies())


def with_groups(answer: HorizonAnswer) -> HorizonAnswer:
    """Return the answer with what each OST needs, and each pool."""

    def horizons(*groups: OstGroup) -> GroupHorizons:
        rows = tuple(
            GroupHorizon(
                group, Usage(9 * TIB, TIB), HorizonStatus.REACHED, TIB, 400_000,
                None, Freed(5, TIB), Usage(8 * TIB, 2 * TIB),
            )
            for group in groups
        )  # fmt: skip
        needed, hour = answer.needed, (answer.as_of_s // 3600 - 14 * 24)
        return GroupHorizons(hour, needed.cut_off_hour, needed.target, needed.freed, rows)

    osts = horizons(OstGroup("OST", "OST0000", (0,), 0.75), OstGroup("OST", "OST001f", (31,), 0.75))
    return replace(answer, osts=osts, pools=horizons(OstGroup("pool", "flash", (0, 31), 0.8)))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "t.db") as opened:
        opened.ensure_site(SITE, driver="lustre", path="/scratch")
        opened.ensure_site("other")
        yield opened


@pytest.mark.parametrize("target", [0.2, 0.7, 0.9])
def test_a_horizon_comes_out_as_it_went_in(store, target):
    kept = kept_horizon(with_groups(horizon_answer_of(target)))
    add_result(store, SITE, kept, NOW)
    (held,) = results_of(store, SITE, HorizonResult).held
    assert (held.value, held.at) == (kept, NOW)


def test_a_what_if_comes_out_as_it_went_in_without_its_runs(store):
    scenario, swept = swept_policies()
    why = Message("varied-idle", "no figure depends on it")
    kept = whatif_result(scenario, replace(swept, without_effect={"trim": why}))
    add_result(store, SITE, kept, NOW)
    (held,) = results_of(store, SITE, WhatIfResult).held
    assert held.value == kept
    assert held.value.swept.without_effect["trim"].code == "varied-idle"
    pages = [whatif_document(scenario.name, each) for each in (held.value.swept, kept.swept)]
    again, page = (replace(page, sections=()) for page in pages)
    assert again == page
    again, page = ([section.tables for section in page.sections] for page in pages)
    assert again == page


def test_the_newest_of_a_site_and_kind_comes_first(store):
    for days in (1, 3, 2):
        add_result(store, SITE, kept_whatif(), NOW - timedelta(days=days))
    add_result(store, SITE, kept_horizon(horizon_answer_of(0.7)), NOW)
    add_result(store, "other", kept_whatif(), NOW)
    results = results_of(store, SITE, WhatIfResult)
    assert [(NOW - held.at).days for held in results.held] == [1, 2, 3]
    assert results.chosen("") is results.held[0]
    assert results.chosen(results.held[2].id) is results.held[2]
    with raises(UsageError, "page-unknown"):
        results.chosen("none")


def test_what_another_version_kept_is_counted_and_left_out(store):
    assert results_of(store, SITE, HorizonResult).problems == ()
    document: dict[str, object] = {"root": "/scratch", "index": "i"}
    store.add_result(KeptResult("1", SITE, "horizon", NOW, document))
    add_result(store, SITE, kept_horizon(horizon_answer_of(0.7)), NOW)
    results = results_of(store, SITE, HorizonResult)
    assert len(results.held) == 1
    (problem,) = results.problems
    assert problem.code == "results-unread"
    assert problem.startswith("1 result")


def test_a_kept_result_changes_the_sums_of_its_site(store):
    before = store.sums(SITE)
    add_result(store, SITE, kept_whatif(), NOW)
    assert store.sums(SITE) != before
    assert store.check(contents=True).problems == ()

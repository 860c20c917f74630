"""The watch in simulated time: every slot once, kept whole, whatever happens in between."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.watched import MONDAY, Ended, Moving, a_site, a_watch

from trimtab.base.run import RunStatus
from trimtab.store.slot import SlotState
from trimtab.store.store import Store

pytestmark = pytest.mark.system


def watched(store: Store, until_h: float, **changes: object) -> None:
    """Watch in simulated time for so many hours."""
    clock = Moving()
    watch = a_watch(a_site(), store, clock, until=MONDAY + timedelta(hours=until_h), **changes)
    with pytest.raises(Ended):
        watch.run()


def test_a_day_of_hours_is_twenty_four_runs_each_with_all_that_belongs_to_it(
    tmp_path: Path,
) -> None:
    with Store.open(tmp_path / "t.db") as store:
        watched(store, 24.1)
        slots = store.slots("scratch")
        assert [one.due_at for one in slots] == [
            MONDAY + timedelta(hours=hour) for hour in range(1, 25)
        ]
        assert Counter(one.state for one in slots) == {SlotState.DONE: 24}
        runs = {run.id: run for run in store.runs()}
        for slot in slots:
            assert slot.run is not None
            run = runs.pop(slot.run)
            assert run.status is RunStatus.OK
            assert run.at == slot.started_at == slot.due_at
            assert slot.before is not None
            assert slot.after is not None
            before, after = store.snapshot(slot.before), store.snapshot(slot.after)
            assert before is not None
            assert before.at == run.at
            assert after is not None
            assert after.at == run.until == slot.ended_at
            assert len(slot.verdicts) == 4  # of each metric within the run, and over time
            assert slot.detail is None
        assert runs == {}
        assert store.check(contents=True).problems == ()

"""What probing costs: over the week, from what runs say, nothing invented."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from trimtab.base.event import new_identifier
from trimtab.base.run import Run, RunStatus
from trimtab.probe.verdict.site_status import cost_of
from trimtab.store.kept import ImportedRun
from trimtab.store.store import Store

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
GIB = 2**30


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "t.db") as opened:
        yield opened


def keep(store: Store, at: datetime, *, import_key: str | None = None, **cost: object) -> None:
    parameters: dict[str, object] = {"spec": {}}
    if cost:
        parameters["cost"] = cost
    run = Run(new_identifier(at), "s", "p", "builtin", RunStatus.OK, at, parameters=parameters)
    if import_key is None:
        store.add_run(run)
    else:
        store.add_imports([ImportedRun(run, (), import_key)])


def test_a_week_is_summed_and_set_against_the_capacity(store: Store) -> None:
    for hours in range(0, 9 * 24, 24):
        keep(
            store,
            NOW - timedelta(hours=hours),
            bytes_written=10 * GIB,
            bytes_read=5 * GIB,
            node_hours=2.0,
            capacity_bytes=1000 * GIB,
        )
    cost = cost_of(store, "s", NOW)
    assert cost.runs == 8  # both ends of the week are within
    assert (cost.bytes_written, cost.bytes_read, cost.node_hours) == (80 * GIB, 40 * GIB, 16.0)
    assert cost.drive_writes_per_day == pytest.approx(80 / 7 / 1000)
    assert cost.to - cost.from_ == timedelta(days=7)


def test_a_single_run_is_a_days_worth_and_no_more(store: Store) -> None:
    keep(store, NOW, bytes_written=10 * GIB, capacity_bytes=100 * GIB)
    assert cost_of(store, "s", NOW).drive_writes_per_day == pytest.approx(0.1)


def test_what_is_not_told_is_not_made_up(store: Store) -> None:
    keep(store, NOW, bytes_written=10 * GIB)
    keep(store, NOW - timedelta(hours=1))
    cost = cost_of(store, "s", NOW)
    assert (cost.runs, cost.node_hours, cost.drive_writes_per_day) == (1, None, None)
    assert cost.reason


def test_what_others_ran_is_not_our_cost(store: Store) -> None:
    keep(store, NOW, import_key="abc", bytes_written=10 * GIB)
    assert cost_of(store, "s", NOW).runs == 0

"""Counts of bad checksums over snapshots: what grew, and what only fell out of a log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from trimtab.base.snapshot import HostSnapshot, Reading, Snapshot
from trimtab.probe.verdict.incident_question import StoreTelemetry
from trimtab.store.store import Store

pytestmark = pytest.mark.system

FIRST = datetime(2026, 9, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = 24


def kept(path: Path, counts: dict[str, list[int | None]]) -> Store:
    """Return a store with an hourly snapshot of machines that count."""
    store = Store.open(path / "t.db")
    for hour in range(max(map(len, counts.values()))):
        hosts = tuple(
            HostSnapshot(
                host,
                "server",
                readings=(
                    Reading("checksum_errors_total", of_host[hour], "dmesg")
                    if of_host[hour] is not None
                    else Reading("checksum_errors_total", None, reason="it does not answer"),
                ),
            )
            for host, of_host in counts.items()
        )
        at = FIRST + hour * HOUR
        store.add_snapshot("world", Snapshot(at, "lustre", complete=True, targets=(), hosts=hosts))
    return store


def grew(store: Store) -> list[tuple[str, float, int]]:
    found = StoreTelemetry(store, "world").bad_checksums(FIRST, FIRST + 99 * DAY * HOUR)
    return [(one.where, (one.at - FIRST) / HOUR, one.count) for one in found]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        # Messages fall out of a log one by one: no transfer went wrong.
        ([5] * DAY + [4] * DAY + [3] * DAY + [None] * DAY, []),
        # A boot, and one more in the hours after it.
        ([5] * DAY + [0] * 5 + [1] * DAY, [(DAY + 5, 1)]),
        # Three, in the middle of the second day.
        ([0] * (DAY + 10) + [3] * DAY, [(DAY + 10, 3)]),
        # It did not answer for two days, in which some came.
        ([0] * DAY + [None] * (2 * DAY) + [2] * DAY, [(3 * DAY, 2)]),
    ],
)
def test_only_what_grew_is_a_bad_transfer(
    tmp_path: Path, counts: list[int | None], expected: list[tuple[float, int]]
) -> None:
    quiet: list[int | None] = [7] * len(counts)
    with kept(tmp_path, {"oss01": counts, "oss02": quiet}) as store:
        assert grew(store) == [("oss01", at, count) for at, count in expected]

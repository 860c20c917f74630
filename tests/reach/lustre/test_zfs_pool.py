"""Pools of ZFS beneath targets: forms of several versions, cut and hostile texts, what is read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_lustre.driver import driver_of
from tests.fake_lustre.state import FakeLustre
from tests.reach.lustre.cuts import cuts
from tests.support.narrow import present

from trimtab.base.site import SiteLimits
from trimtab.base.snapshot import TargetSnapshot
from trimtab.explain.trouble import target_troubles
from trimtab.reach.lustre.lustre_telemetry import target_snapshot
from trimtab.reach.lustre.lustre_view import ServerView, View
from trimtab.reach.lustre.zfs_pool import PoolStatus, parse_properties, parse_status

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
POOL = "ost0001pool"
HEALTHY = """\
  pool: ost0001pool
 state: ONLINE
  scan: scrub repaired 0B in 05:10:00 with 0 errors on Sun Nov  8 05:34:01 2026
config:

\tNAME          STATE     READ WRITE CKSUM
\tost0001pool   ONLINE       0     0     0
\t  raidz2-0    ONLINE       0     0     0
\t    nvme0n1   ONLINE       0     0     0
\t    nvme1n1   ONLINE       0     0     0
\tlogs
\t  nvme9n1     ONLINE       0     0     0
\tspares
\t  nvme8n1     AVAIL

errors: No known data errors
"""
RESILVERING = """\
  pool: ost0001pool
 state: DEGRADED
status: One or more devices is currently being resilvered.
action: Wait for the resilver to complete.
  scan: resilver in progress since Mon Nov 30 10:45:12 2026
\t6.18T scanned at 644M/s, 4.26T issued at 444M/s, 6.42T total
config:

\tNAME                        STATE     READ WRITE CKSUM
\tost0001pool                 DEGRADED     0     0     0
\t  draid2:11d:15c:2s-0       DEGRADED     0     0    26
\t    replacing-0             DEGRADED     0     0     2
\t      11687508470009778260  UNAVAIL      0     0     0  was /dev/sdv1/old
\t      /dev/disk by path/x   ONLINE       3     0     0  (resilvering)
\t    nvme1n1                 DEGRADED     1     2 1.88K  too many errors

errors: 3 data errors, use '-v' for a list
"""
SUSPENDED = """\
  pool: ost0001pool
 state: SUSPENDED
config:

\tNAME         STATE     READ WRITE CKSUM
\tost0001pool  UNAVAIL      0     0     0  insufficient replicas
\t  nvme0n1    FAULTED      8   126     0  too many errors

errors: List of errors unavailable: pool I/O is currently suspended
"""


def properties(**more: str) -> str:
    """Return what ``zpool get -H -p all`` prints of two pools, as far as it is kept."""
    values = {"capacity": "45", "health": "ONLINE", "readonly": "off", "fragmentation": "12"}
    values |= {"autotrim": "on", **more}
    rows = [f"{POOL}\t{name}\t{value}\t-\n" for name, value in values.items()]
    return "".join(rows) + f"other\tcapacity\t99\t-\nother\thealth\tONLINE\t-\n{POOL}\tcap"


def test_devices_have_their_errors_and_pools_their_own() -> None:
    assert parse_status(HEALTHY + "\n" + SUSPENDED.replace(POOL, "other")) == {
        POOL: PoolStatus(False, 0, {"nvme0n1": 0, "nvme1n1": 0, "nvme9n1": 0}),
        "other": PoolStatus(False, None, {"nvme0n1": 134}),
    }
    assert parse_status(RESILVERING) == {
        POOL: PoolStatus(
            True, 3, {"11687508470009778260": 0, "/dev/disk by path/x": 3, "nvme1n1": 1883}
        )
    }
    assert parse_status("no pools available\n") == {}


@pytest.mark.parametrize("text", [HEALTHY, RESILVERING, SUSPENDED])
def test_a_cut_status_is_no_status(text: str) -> None:
    whole = parse_status(text)
    for cut in cuts(text):
        assert parse_status(cut) in ({}, whole)


@given(
    text=st.lists(
        st.sampled_from(
            [*HEALTHY.splitlines(True), *RESILVERING.splitlines(True), "\x00", "\t", " "]
        )
    ).map("".join)
)
def test_any_text_is_read(text: str) -> None:
    parse_status(text)
    parse_properties(text)


def test_properties_are_those_of_whole_lines() -> None:
    pools = parse_properties(properties())
    assert pools["other"] == {"capacity": "99", "health": "ONLINE"}
    assert pools[POOL]["fragmentation"] == "12"
    assert "cap" not in pools[POOL]


def _seen(get: str, status: str) -> TargetSnapshot:
    """Return OST0001 of a pair on ZFS whose server prints this."""
    fake = FakeLustre.pair()
    for target in fake.targets:
        target.osd = "zfs"
    driver = driver_of(fake)
    driver.snapshot(AT)
    view = present(driver._view)
    printed = {"pool-properties": get, "pool-status": status}
    seen = view.servers["oss1"]
    commands = tuple(
        replace(each, error=None, exit_code=0, stdout=printed[each.key])
        if printed.get(each.key)
        else each
        for each in seen.answer.commands
    )
    changed = ServerView("oss1", "scratch", replace(seen.answer, commands=commands), seen.request)
    servers = {**view.servers, "oss1": changed}
    return target_snapshot(View(view.file_system, view.client, servers), "OST0001", {})


def _troubles(seen: TargetSnapshot) -> list[str]:
    return sorted(trouble.id for trouble in target_troubles(seen, SiteLimits()))


def test_a_healthy_pool() -> None:
    seen = _seen(properties(), HEALTHY)
    assert seen.value("pool_fragmentation_fraction") == 0.12
    assert seen.value("pool_capacity_fraction") == 0.45
    assert seen.value("pool_autotrim") is True
    assert seen.value("degraded", POOL) is False
    assert seen.value("errors_total") == 0
    assert seen.labelled("drive_media_errors_total") == {"nvme0n1": 0, "nvme1n1": 0, "nvme9n1": 0}
    assert _troubles(seen) == []


def test_a_resilver_and_errors_are_troubles() -> None:
    seen = _seen(properties(health="DEGRADED", autotrim="off"), RESILVERING)
    assert seen.value("pool_autotrim") is False
    assert seen.source("degraded", POOL) == f"zpool status on oss1: {POOL}: resilver in progress"
    assert seen.value("errors_total") == 3
    troubles = ["degraded", "file-system-errors", "media-errors", "media-errors"]
    assert _troubles(seen) == troubles
    # A resilver is not seen without zpool status, a degraded pool is.
    assert _seen(properties(health="DEGRADED"), "").value("degraded", POOL) is True


@pytest.mark.parametrize("how", [{"health": "SUSPENDED"}, {"readonly": "on"}])
def test_a_pool_that_takes_no_writes_is_read_only(how: dict[str, str]) -> None:
    seen = _seen(properties(**how), SUSPENDED)
    assert seen.value("read_only") is True
    assert f"zpool get on oss1: {POOL}" in present(seen.source("read_only"))
    assert seen.value("errors_total") is None
    assert "read-only" in _troubles(seen)


@pytest.mark.parametrize(
    ("get", "code"),
    [
        ("", "command-not-started"),
        (properties().replace(POOL, "ost0002pool"), "pool-not-listed"),
        # 0.7 has no autotrim, a new pool no fragmentation.
        (properties(fragmentation="-", capacity="-", autotrim="-"), "pool-property-unknown"),
        (properties(fragmentation="x", capacity="101", autotrim="maybe"), "pool-property-unknown"),
    ],
)
def test_what_is_missing_has_its_reason(get: str, code: str) -> None:
    seen = _seen(get, HEALTHY)
    for name in ("pool_fragmentation_fraction", "pool_capacity_fraction", "pool_autotrim"):
        reading = present(seen.reading(name))
        assert reading.value is None
        assert getattr(reading.reason, "code", None) == code

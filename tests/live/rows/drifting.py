"""Settings that drifted or were lost, and what is taken back of them."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from tests.live.rows.tuning import ldiskfs, queue, roll_out, tunables
from tests.live.running import capability, require
from tests.live.subject import Subject

_LASTED_S = 960.0
"""What goes sooner after it was set is taken for a change without effect: nothing is set then."""


def wait_until_old(subject: Subject, site: str) -> None:
    """Wait until the last action on a setting is no recent one any more."""
    ends = [datetime.fromisoformat(one["until"]) for one in subject.ledger(site) if one["until"]]
    age_s = (datetime.now(UTC) - max(ends)).total_seconds()
    time.sleep(max(_LASTED_S - age_s, 0.0))


@capability(
    "tune: drift and remount", "/sys of the server after a hand's change and after a remount"
)
def drift(subject: Subject) -> str:
    """A value that somebody changed is set once more; what a remount lost is set again."""
    site = tunables(subject, {"wbt_lat_usec": 0, "mb_stats": 1})
    roll_out(subject, site)
    wait_until_old(subject, site)
    drifted, remounted = subject.cluster.osts[0], subject.cluster.osts[-1]
    device = subject.cluster.block_device(drifted)
    path = f"/sys/class/block/{device}/queue/wbt_lat_usec"
    subject.cluster.write_file(drifted.server, path, "75000")
    with subject.cluster.stopped(remounted.name):
        pass
    lost = ldiskfs(subject, remounted, "mb_stats")
    actions = roll_out(subject, site)
    require(queue(subject, drifted, "wbt_lat_usec") == "0", f"{drifted.name}: drift stays")
    now = ldiskfs(subject, remounted, "mb_stats")
    require(
        now == "1", f"{remounted.name}: mb_stats is {now} after a remount and tune ({lost} between)"
    )
    return f"{len(actions)} set again; mb_stats {lost} after the remount"


@capability("tune: revert", "/sys of each server")
def revert(subject: Subject) -> str:
    """Everything is as it was before, on every target."""
    site = tunables(subject, {"wbt_lat_usec": 0, "mb_stats": 1})
    roll_out(subject, site)
    document = subject.json("revert", site, "--all", "--apply", code=None)
    for target in subject.cluster.osts + subject.cluster.mdts:
        wbt = queue(subject, target, "wbt_lat_usec")
        require(wbt == "75000", f"{target.name}: wbt_lat_usec is {wbt} after revert --all")
        stats = ldiskfs(subject, target, "mb_stats")
        require(stats == "0", f"{target.name}: mb_stats is {stats} after revert --all")
    return f"{len(document['actions'])} values put back"

"""The simplest rule that a person would use, to hold the explainer against.

Of all settings, events and states, the one that changed nearest to the onset is the cause: a fixed
table says of which cause each tells. It reads the plain record and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from tests.worlds.world import Cause, World

AROUND: Final = timedelta(hours=72)
EVENTS: Final[dict[str, Cause]] = {
    "config-change": "configuration-change", "capacity-added": "configuration-change",
    "failover": "failover", "rebuild": "array-degraded", "target-failed": "target-silent",
    "target-closed": "few-targets-open", "launch-failure": "launch-failure",
    "purge-failed": "targets-over-limit",
}  # fmt: skip
SETTINGS: Final[tuple[tuple[str, Cause], ...]] = (
    ("osp/max_create_count", "few-targets-open"), ("obdfilter/no_create", "few-targets-open"),
    ("obdfilter/degraded", "array-degraded"), ("devices", "array-degraded"),
    ("drives/queue/wbt_lat_usec", "writeback-throttling"), ("ldiskfs/", "allocator-loops"),
    ("", "configuration-change"),
)  # fmt: skip
STATES: Final[dict[str, Cause]] = {
    "create_enabled": "few-targets-open", "degraded": "array-degraded",
    "drive_media_errors_total": "array-degraded", "read_only": "target-silent",
    "errors_total": "target-silent", "import_state": "target-silent", "server": "failover",
    "failover_active": "failover", "wbt_latency_s": "writeback-throttling",
    "checksum_errors_total": "bad-checksums", "over the limit": "targets-over-limit",
}  # fmt: skip
PROBLEMS: Final[tuple[tuple[str, Cause], ...]] = (
    ("Disk quota exceeded", "quota-reached"), ("No space left", "targets-over-limit"),
    ("name resolution", "launch-failure"), ("sbatch", "launch-failure"),
)  # fmt: skip
STATUSES: Final[dict[str, Cause]] = {"invalid_workload": "workload-mismatch"}
_LABEL: Final = re.compile(r"\{.*")


def nearest_change(world: World, onset: datetime) -> Cause | None:
    """Return the cause of the change nearest to an onset; ``None``: nothing changed around it."""
    changes = [*_events(world), *_runs(world, onset), *_snapshots(world, onset)]
    near = [(abs(at - onset), at, cause) for at, cause in changes if abs(at - onset) <= AROUND]
    return min(near, default=(None, None, None))[2]


def _events(world: World) -> Iterator[tuple[datetime, Cause]]:
    for line in world.events:
        if line["kind"] in EVENTS:
            yield line["at"], EVENTS[line["kind"]]


def _runs(world: World, onset: datetime) -> Iterator[tuple[datetime, Cause]]:
    """Yield what runs say, and the first run on nodes none of which the probe ever had."""
    seen: dict[str, set[str]] = {}
    for run in world.runs:
        before = seen.setdefault(run["probe"], set())
        if before and run["hosts"] and before.isdisjoint(run["hosts"]):
            yield run["at"], "client-node"
        before |= set(run["hosts"])
        if abs(run["at"] - onset) <= AROUND:
            if run["disbelieved"]:
                yield run["at"], "cached-read"
            if run["status"] in STATUSES:
                yield run["at"], STATUSES[run["status"]]
            for text, cause in PROBLEMS:
                if text in (run["problem"] or ""):
                    yield run["at"], cause


def _snapshots(world: World, onset: datetime) -> Iterator[tuple[datetime, Cause]]:
    before: Mapping[str, tuple[dict[str, str], dict[str, object]]] = {}
    for snapshot in world.snapshots:
        if abs(snapshot["at"] - onset) > AROUND:
            continue
        now = _parts(snapshot, world.site["limits"]["fullness"])
        for name in before.keys() & now.keys():
            for cause in _differences(before[name], now[name]):
                yield snapshot["at"], cause
        before = now


def _parts(snapshot: Any, limit: float) -> dict[str, tuple[dict[str, str], dict[str, object]]]:
    """Return settings and states of every target and host."""
    parts = {}
    for name, part in (*snapshot["targets"].items(), *snapshot["hosts"].items()):
        readings = {_LABEL.sub("", full): value for full, value in part["readings"].items()}
        states = {state: readings[state] for state in STATES if readings.get(state) is not None}
        used, free = readings.get("used_bytes"), readings.get("available_bytes")
        if used is not None and free is not None:
            states["over the limit"] = used / (used + free) > limit
        parts[name] = (part["settings"], states)
    return parts


def _differences(
    before: tuple[dict[str, str], dict[str, object]], now: tuple[dict[str, str], dict[str, object]]
) -> Iterator[Cause]:
    for name in before[0].keys() & now[0].keys():
        if before[0][name] != now[0][name]:
            yield next(cause for prefix, cause in SETTINGS if name.startswith(prefix))
    for name in before[1].keys() & now[1].keys():
        if before[1][name] != now[1][name]:
            yield STATES[name]

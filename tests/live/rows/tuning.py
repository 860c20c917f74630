"""Settings: set, lost and set again, drifted, permanent, and taken back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.live.cluster import Mounted
from tests.live.running import Wrong, capability, require
from tests.live.subject import Subject


def tunables(subject: Subject, settings: dict[str, Any], **more: Any) -> str:
    """Return a site file that wants these settings, without a wait between stages."""
    policy = {"settings": settings, "settle": "1s", **more}
    return subject.site("tunables", policy={"tunables": policy})


def queue(subject: Subject, target: Mounted, setting: str) -> str:
    """Return a setting of a target's queue, as the kernel has it."""
    device = subject.cluster.block_device(target)
    path = f"/sys/class/block/{device}/queue/{setting}"
    return subject.cluster.on(target.server, "cat", path).strip()


def ldiskfs(subject: Subject, target: Mounted, setting: str) -> str:
    """Return a setting of a target's ldiskfs, as the kernel has it."""
    device = subject.cluster.block_device(target)
    return subject.cluster.on(target.server, "cat", f"/sys/fs/ldiskfs/{device}/{setting}").strip()


def roll_out(subject: Subject, site: str) -> list[dict[str, Any]]:
    """Apply until nothing is left to do: one target, its server, the others."""
    actions: list[dict[str, Any]] = []
    for _ in range(6):
        plan = subject.json("tune", site)["plan"]
        left = [*plan["held"], *(f"{one['target']}: {one['reason']}" for one in plan["untouched"])]
        if not plan["instructions"]:
            require(not left, f"tune does nothing: {'; '.join(left)[:600]}")
            return actions
        actions += subject.applied("tune", site)
    raise Wrong("six rollouts, and the plan is not empty")


@contextmanager
def only_journalled(subject: Subject, site: str) -> Iterator[list[dict[str, Any]]]:
    """Require that after the block no setting differs but what the ledger has."""
    cluster = subject.cluster
    quiet = [{server: cluster.settings(server) for server in cluster.servers} for _ in range(2)]
    ledger = {action["id"] for action in subject.ledger(site)}
    actions: list[dict[str, Any]] = []
    yield actions
    new = [action for action in subject.ledger(site) if action["id"] not in ledger]
    actions += new
    after = {server: cluster.settings(server) for server in cluster.servers}
    words = {
        (action["instruction"]["setting"] or action["instruction"]["kind"])
        .rpartition("/")[2]
        .rpartition(".")[2]
        for action in new
    }
    if words & {"max_create_count", "no_create", "close", "open"}:
        words |= {"max_create_count", "no_create", "create_count"}  # the last follows the first
    for server, values in after.items():
        for name, value in values.items():
            first, second = (one[server].get(name) for one in quiet)
            last = name.rpartition("/")[2].rpartition(".")[2]
            if first is None or first != second or first == value or last in words:
                continue
            if not counts(name, first, value):
                require(False, f"{server}: {name} went from {first} to {value}, in no ledger")


def counts(name: str, before: str, after: str) -> bool:
    """Return whether a value is a counter or a measure that moves with any traffic."""
    numbers = before.replace(".", "", 1).isdigit() and after.replace(".", "", 1).isdigit()
    measures = (
        *("lru_size", "lock_unused_count", "destroys_in_flight", "prealloc", "space", "cur_"),
        *("pool", "slv", "grant", "history", "stats", "last_", "site", "_bytes", "req_"),
        *("kbytes", "files", "seq", "sync_", "unstable", "timeouts", "checksum_type"),
    )
    return (numbers and any(word in name for word in measures)) or "debug_marker" in name


@capability("tune", "/sys and lctl on each server, all settable parameters before and after")
def tune(subject: Subject) -> str:
    """Settings of every OST are rolled out and read back, and nothing else is changed."""
    site = tunables(subject, {"wbt_lat_usec": 0, "mb_stats": 1})
    with only_journalled(subject, site) as actions:
        roll_out(subject, site)
        for target in subject.cluster.osts:
            wbt = queue(subject, target, "wbt_lat_usec")
            require(wbt == "0", f"{target.name}: wbt_lat_usec is {wbt} after tune --apply")
            stats = ldiskfs(subject, target, "mb_stats")
            require(stats == "1", f"{target.name}: mb_stats is {stats} after tune --apply")
    return f"{len(actions)} settings"


@capability("tune: permanent", "lctl --device MGS llog_print params, and a remount of the MDT")
def permanent(subject: Subject) -> str:
    """``set_param -P`` is on the MGS, holds after a remount, and is taken back there."""
    cluster = subject.cluster
    mdt = cluster.mdts[0]
    parameter = f"lod.{cluster.name}-{mdt.name}-mdtlov.qos_threshold_rr"
    before = cluster.parameter(mdt.server, parameter)
    wanted = "33%"
    site = tunables(subject, {"qos_threshold_rr": wanted}, permanent=["qos_threshold_rr"])
    actions = roll_out(subject, site)
    log = cluster.on(mdt.server, "lctl", "--device", "MGS", "llog_print", "params")
    require("qos_threshold_rr" in log and "33" in log, f"the MGS has {log[-300:]!r}")
    now = cluster.parameter(mdt.server, parameter)
    require(now == wanted, f"{parameter} is {now} after tune --apply")
    second = cluster.mdts[-1]
    with cluster.stopped(second.name):
        pass
    again = cluster.parameter(
        second.server, f"lod.{cluster.name}-{second.name}-mdtlov.qos_threshold_rr"
    )
    require(again == wanted, f"{second.name}: {again} after a remount")
    for action in actions:  # what other rows set stays: a value that was reverted is set no more
        subject.json("revert", site, action["id"], "--apply", code=None)
    log = cluster.on(mdt.server, "lctl", "--device", "MGS", "llog_print", "params", code=None)
    current = [line for line in log.splitlines() if "qos_threshold_rr" in line]
    now = cluster.parameter(mdt.server, parameter)
    require(now == before, f"{parameter} is {now} after revert, was {before}")
    return f"{wanted} held after a remount of {second.name}; {len(current)} records of it left"

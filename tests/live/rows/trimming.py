"""Free space handed to the flash, and its proof."""

from __future__ import annotations

from pathlib import Path

from tests.live.cluster import Mounted
from tests.live.rows.tuning import only_journalled, tunables
from tests.live.running import capability, require
from tests.live.subject import Subject


def trims(subject: Subject, **policy: object) -> str:
    """Return a site file under whose policy every target is due."""
    table = {"every": "1h", "range": "1GiB", "pause": "5s", **policy}
    return subject.site("trims", policy={"trim": table})


def written(subject: Subject, file: Path, target: Mounted) -> Path:
    """Write 64 MiB onto one OST and return the file."""
    cluster = subject.cluster
    cluster.here("lfs", "setstripe", "-c", "1", "-i", str(target.index), str(file))
    words = ("dd", "if=/dev/urandom", f"of={file}", "bs=1M", "count=64", "conv=fsync")
    cluster.here(*words, timeout_s=900.0)
    return file


def freed(subject: Subject, target: Mounted) -> None:
    """Write 64 MiB onto one OST and free them: ldiskfs discards no space twice."""
    cluster = subject.cluster
    used = cluster.space()[target.name][0]
    written(subject, subject.place("freed") / "file", target).unlink()
    most = used + 4 * 2**20
    cluster.until(lambda: cluster.space()[target.name][0] < most, "its space is free", 180.0)


@capability("trim", "discards counted by the kernel of each server (/sys/class/block/DEVICE/stat)")
def trim(subject: Subject) -> str:
    """Deleted files' space is discarded on the device beneath them, and on no other."""
    cluster = subject.cluster
    target = cluster.osts[2]
    freed(subject, target)
    site = trims(subject)
    before = {one.name: cluster.discarded_bytes(one) for one in cluster.osts}
    with only_journalled(subject, site):
        actions = subject.applied("trim", site, "--targets", target.name)
    after = {one.name: cluster.discarded_bytes(one) for one in cluster.osts}
    moved = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    require(set(moved) == {target.name}, f"discards moved on {sorted(moved) or 'no target'}")
    said = [action["facts"] for action in actions]
    require(any(facts.get("effect") == "seen" for facts in said), f"the ledger says {said}")
    return f"{moved[target.name] / 2**20:.0f} MiB discarded on {target.name}; ledger: {said[-1]}"


@capability("trim: interrupted", "discards counted by the kernel, the ledger")
def trim_interrupted(subject: Subject) -> str:
    """A trim that is killed between its steps goes on where it was."""
    cluster = subject.cluster
    target = cluster.osts[3]
    site = trims(subject, range="256MiB")
    before = cluster.discarded_bytes(target)
    cut = subject.killed_after(25.0, "trim", site, "--apply", "--targets", target.name)
    between = cluster.discarded_bytes(target)
    document = subject.json("trim", site, "--apply", "--targets", target.name, code=None)
    outcomes = [
        action["outcome"]
        for action in subject.ledger(site)
        if action["instruction"]["target"] == target.name
    ]
    require("done" in outcomes or cut is not None, f"the ledger has {outcomes} of {target.name}")
    begun = [one for one in outcomes if one is None]
    require(not begun, f"{len(begun)} trims of {target.name} have no end in the ledger")
    after = cluster.discarded_bytes(target)
    return (
        f"{'not killed in time' if cut else 'killed'}; "
        f"{(between - before) / 2**20:.0f} MiB before, "
        f"{(after - between) / 2**20:.0f} after; {len(document['actions'])} actions"
    )


@capability("trim: after a reboot", "bytes written by this program, the server's boot id")
def trim_after_reboot(subject: Subject) -> str:
    """What was written makes a trim due though the server's counters began anew."""
    cluster = subject.cluster
    target = cluster.osts[2]
    place = subject.place("rebooted")
    written(subject, place / "before", target)
    subject.applied("trim", trims(subject, every="1s"), "--targets", target.name)
    cluster.crash(target.server)
    cluster.wait_for_client()
    written(subject, place / "after", target)
    site = trims(subject, every="365d", written=0.01)
    plan = subject.json("trim", site, "--targets", target.name)["plan"]
    due = {one["target"]: one["reason"] for one in plan["instructions"]}
    text = f"{due or 'nothing'} is due; held: {plan['held']}; {plan['untouched']}"
    require("written to it" in due.get(target.name, ""), text)
    return due[target.name]


@capability("trim and tune: beside a lost OST", "umount on its server, discards on another OST")
def beside_a_lost_ost(subject: Subject) -> str:
    """A lost OST holds what rests on it, and nothing else."""
    cluster = subject.cluster
    target, lost = cluster.osts[0], cluster.osts[-1]
    freed(subject, target)
    with cluster.stopped(lost.name):
        before = cluster.discarded_bytes(target)
        subject.applied("trim", trims(subject, every="1s"), "--targets", target.name)
        moved = cluster.discarded_bytes(target) - before
        plan = subject.json("tune", tunables(subject, {"mb_stats": 1}))["plan"]
    require(moved > 0, f"nothing was discarded on {target.name}")
    planned = {one["target"] for one in plan["instructions"]}
    require(lost.name not in planned, f"{lost.name} is to be tuned, which nobody serves")
    require(planned, f"tune is held: {plan['held']}; {plan['untouched']}")
    return f"{target.name} trimmed, {', '.join(sorted(planned))} to be tuned, {lost.name} left"

"""An index that follows the changelogs of all MDTs, against a listing of the tree."""

from __future__ import annotations

import errno
import os
import random
import re
import time
from collections.abc import Sequence
from pathlib import Path

from tests.live.listing import Work, works
from tests.live.rows.scanning import indexed, peopled, require_equal, scan, witnessed
from tests.live.running import capability, require
from tests.live.subject import Subject


def users(subject: Subject) -> dict[str, list[str]]:
    """Return who reads the changelog of each MDT, by ``lctl``."""
    cluster = subject.cluster
    return {
        mdt.name: re.findall(
            r"^(cl\S+)",
            cluster.parameter(mdt.server, f"mdd.{cluster.name}-{mdt.name}.changelog_users"),
            re.M,
        )
        for mdt in cluster.mdts
    }


def register(subject: Subject, site: str) -> None:
    """Register Trimtab's reader on every MDT: the first alone, then the others."""
    for _ in range(3):
        subject.trimtab("purge", "follow", site, "--register", "--yes", code=None)
        if all(users(subject).values()):
            return
    require(False, f"readers after --register: {users(subject)}")


def caught_up(subject: Subject, site: str, index: Path) -> str:
    """Follow to the end of the changelogs, and return what is said of the rounds."""
    return subject.trimtab("purge", "follow", site, "--index", str(index), "--once").stderr


def renamed_directories(subject: Subject, root: Path) -> dict[Path, str]:
    """Make an empty directory on every MDT, rename it, and return the FID by path.

    A rename that came before the end of the scan makes `follow` list the directory by its FID.
    Their own directory is on MDT0000, which knows the FIDs of the others by that.
    """
    made, above = {}, root / "renamed"
    require(works(["mkdir", "-i", "0", str(above)]), f"lfs mkdir -i 0 {above}")
    for mdt in range(len(subject.cluster.mdts)):
        new, renamed = above / f"new{mdt}", above / f"renamed{mdt}"
        require(works(["mkdir", "-i", str(mdt), str(new)]), f"lfs mkdir -i {mdt} {new}")
        new.rename(renamed)
        made[renamed] = subject.cluster.here("lfs", "path2fid", str(renamed)).strip()
    return made


def bad_addresses(subject: Subject, fids: Sequence[str]) -> int:
    """Return how many removed directories answer EFAULT to an open by FID.

    That is where MDT0000 remembers that another MDT had the directory.
    """
    count = 0
    for fid in fids:
        try:
            os.close(os.open(subject.cluster.path / ".lustre/fid" / fid, os.O_RDONLY))
        except OSError as error:
            count += error.errno == errno.EFAULT
    return count


@capability("follow: random work and kills", "lstat of every name by this program, changelog_users")
def follow(subject: Subject) -> str:
    """After any work, and however often it was killed, the index is what a listing shows."""
    site = subject.site("followed")
    root = peopled(subject, "followed", 60)
    require(not any(users(subject).values()), f"others read changelogs here: {users(subject)}")
    register(subject, site)
    below = str(root.relative_to(subject.cluster.path))
    dead = renamed_directories(subject, root)
    index = scan(subject, subject.cluster.path, "followed-index", "--sizes", "exact")
    for directory in dead:
        directory.rmdir()
    bad = bad_addresses(subject, list(dead.values()))
    # What is not known to be gone would be asked for again, and make the index stale after a while.
    said = caught_up(subject, site, index)
    require("to be retried" not in said, f"{bad} directories answer EFAULT: {said}")
    require_equal(indexed(subject, index, below), witnessed(root), sizes=False)
    work, chance = Work(root, 7, len(subject.cluster.mdts)), random.Random(7)
    rounds = kills = 0
    end_s = time.monotonic() + subject.minutes * 60
    while time.monotonic() < end_s:
        for _ in range(chance.randrange(10, 120)):
            work.act()
        rounds += 1
        words = ("purge", "follow", site, "--index", str(index), "--once")
        if chance.random() < 0.4:
            kills += subject.killed_after(chance.uniform(1.0, 40.0), *words) is None
            continue
        subject.trimtab(*words)
        seen = witnessed(root)
        require_equal(indexed(subject, index, below), seen, sizes=False)
    caught_up(subject, site, index)
    seen = witnessed(root)
    require_equal(indexed(subject, index, below), seen, sizes=False)
    subject.trimtab("purge", "follow", site, "--index", str(index), "--compact")
    require_equal(indexed(subject, index, below), seen, sizes=False)
    acts = sum(work.acts.values())
    removed = f"{len(dead)} directories removed unseen, {bad} of them EFAULT"
    done = f"{acts} acts in {rounds} rounds, {kills} kills"
    return f"{done}: {len(seen)} names equal, also compacted; {removed}"


@capability("follow: rescan after lost records", "lstat of every name by this program")
def rescan(subject: Subject) -> str:
    """Records that somebody else cleared are missed at once, and a rescan makes up for them."""
    site = subject.site("followed")
    cluster = subject.cluster
    register(subject, site)
    index = subject.state / "followed-index"
    require(index.exists(), "the row before this one made no index")
    root = subject.directory / "followed"
    below = str(root.relative_to(cluster.path))
    Work(root, 8, len(cluster.mdts)).act()
    mdt = cluster.mdts[0]
    for user in users(subject)[mdt.name]:
        device = f"{cluster.name}-{mdt.name}"
        cluster.on(mdt.server, "lctl", "--device", device, "changelog_deregister", user)
    work = Work(root, 9, len(cluster.mdts))
    for _ in range(80):
        work.act()
    register(subject, site)
    subject.trimtab("purge", "follow", site, "--index", str(index), "--once", code=None)
    subject.trimtab("purge", "follow", site, "--index", str(index), "--rescan")
    caught_up(subject, site, index)
    seen = witnessed(root)
    require_equal(indexed(subject, index, below), seen, sizes=False)
    return f"{sum(work.acts.values())} acts unrecorded on {mdt.name}; {len(seen)} names equal"


@capability("follow: deregister", "changelog_users of each MDS")
def deregister(subject: Subject) -> str:
    """No reader is left."""
    site = subject.site("followed")
    subject.trimtab("purge", "follow", site, "--deregister", "--yes", code=None)
    left = users(subject)
    require(not any(left.values()), f"readers after --deregister: {left}")
    return f"none on {len(left)} MDTs"

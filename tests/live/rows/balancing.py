"""Full OSTs closed to new files, opened again, and relieved."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.live.rows.tuning import only_journalled
from tests.live.running import capability, require
from tests.live.subject import Subject

FILES = 60


def balanced(subject: Subject, **policy: object) -> str:
    """Return a site file that closes one OST of four, without a dwell."""
    table = {"most_closed": 0.34, "dwell": "1s", **policy}
    return subject.site("balanced", policy={"balance": table})


@contextmanager
def opened_afterwards(subject: Subject, site: str) -> Iterator[None]:
    """Have nothing closed by Trimtab after the block, whatever happens in it."""
    try:
        yield
    finally:
        subject.json("balance", site, "--reopen-all", "--apply", code=None)


def placed(subject: Subject, place: Path, count: int) -> Counter[str]:
    """Create files of one stripe and return on which OST how many are."""
    counts: Counter[str] = Counter()
    for number in range(count):
        file = place / f"new{number}"
        file.write_bytes(b"x")
        counts.update(subject.cluster.stripes(file))
    return counts


@capability("balance", "lctl get_param on every MDS, lfs getstripe of new files")
def balance(subject: Subject) -> str:
    """A full OST gets no new file of any MDT, an explicit index is told of, and it opens again."""
    cluster = subject.cluster
    ost = cluster.osts[1]
    site = balanced(subject)
    closing = f"osp.{cluster.name}-{ost.name}-osc-MDT*.max_create_count"
    own = f"obdfilter.{cluster.name}-{ost.name}.no_create"

    def closed() -> bool:
        counts = " ".join(cluster.parameter(mdt.server, closing) for mdt in cluster.mdts)
        return set(counts.split()) == {"0"} or cluster.parameter(ost.server, own) == "1"

    with opened_afterwards(subject, site), cluster.filled(ost.name, 0.85):
        with only_journalled(subject, site):
            subject.applied("balance", site)
        require(closed(), f"{ost.name} is open after balance --apply")
        place = subject.place("balance")
        elsewhere = [mdt.index for mdt in cluster.mdts]
        counts: Counter[str] = Counter()
        for index in elsewhere:
            below = place / f"mdt{index}"
            cluster.here("lfs", "mkdir", "-i", str(index), str(below))
            counts += placed(subject, below, FILES // len(elsewhere))
        text = f"{counts[ost.name]} of {FILES} new files are on {ost.name}"
        require(not counts[ost.name], text)
        explicit = place / "explicit"
        cluster.here("lfs", "setstripe", "-c", "1", "-i", str(ost.index), str(explicit), code=None)
        landed = cluster.stripes(explicit) if explicit.exists() else ["nowhere"]
        subject.cluster.here("rm", "-f", str(cluster.path / ".live-fill" / ost.name))
        cluster.until(lambda: cluster.fullness(ost.name) < 0.5, f"{ost.name} is empty", 300.0)
        subject.applied("balance", site)
        require(not closed(), f"{ost.name} is closed after it was emptied and balanced")
    return (
        f"{sum(counts.values())} files on {len(counts)} open OSTs; "
        f"an explicit index of {ost.name} landed on {landed[0]}"
    )


@capability("balance: reopen all", "lctl get_param on every MDS")
def reopen(subject: Subject) -> str:
    """``--reopen-all`` opens what Trimtab closed, however full it is."""
    cluster = subject.cluster
    ost = cluster.osts[1]
    site = balanced(subject)
    before = {server: cluster.settings(server) for server in cluster.servers}
    with opened_afterwards(subject, site), cluster.filled(ost.name, 0.85):
        subject.applied("balance", site)
        actions = subject.applied("balance", site, "--reopen-all")
        for server, values in before.items():
            for name, value in values.items():
                if name.endswith((".max_create_count", ".no_create")):
                    now = cluster.parameter(server, name)
                    require(now == value, f"{server}: {name} is {now}, was {value}")
    return f"{len(actions)} opened"


@capability("balance: migrate", "checksum, owner and times of the file, lfs getstripe")
def migrate(subject: Subject) -> str:
    """A large old file is moved off a full OST, and is the same file with the same times."""
    cluster = subject.cluster
    ost = cluster.osts[1]
    place = subject.place("migrate")
    file = place / "large"
    with cluster.days_ago(30):
        # Only what was not changed for a week is moved; an MDT takes times from the client.
        cluster.until(lambda: cluster.placed_on(file, ost.name), f"{ost.name} takes files", 300.0)
        random = ("dd", "if=/dev/urandom", f"of={file}", "bs=1M", "count=16", "conv=fsync")
        cluster.here(*random, timeout_s=900.0)
        cluster.here("fallocate", "-l", "1100M", str(file), timeout_s=600.0)
        os.chown(file, 2001, 2001)
        os.utime(file)  # of fallocate the OST keeps a time of its own, a moment later
        cluster.here("sync", "-f", str(file), timeout_s=600.0)
    before, digest = file.stat(), head_digest(file)
    index = subject.state / "migrate-index"
    cluster.here("rm", "-rf", str(index))
    words = ("--with", "layout", "--sizes", "exact")
    subject.trimtab("purge", "scan", str(cluster.path), "--index", str(index), *words)
    site = balanced(subject)
    with opened_afterwards(subject, site), cluster.filled(ost.name, 0.90):
        subject.applied("balance", site)
        words = ("--migrate", "--index", str(index), "--apply")
        document = subject.json("balance", site, *words, code=None)
    after = file.stat()
    outcomes = [(one["outcome"], one["detail"]) for one in document["actions"]]
    landed = cluster.stripes(file)
    require(ost.name not in landed, f"it is on {landed}; {outcomes}: {document['plan']['held']}")
    require(head_digest(file) == digest and after.st_size == before.st_size, "its contents changed")
    for field in ("st_uid", "st_gid", "st_mode", "st_ino", "st_mtime_ns", "st_atime_ns"):
        text = f"{field} was {getattr(before, field)}, is {getattr(after, field)}"
        require(getattr(before, field) == getattr(after, field), text)
    return f"from {ost.name} to {landed[0]}, 1.1 GiB, times and owner as before"


def head_digest(file: Path) -> str:
    """Return the digest of a file's first 16 MiB, of which alone something was written."""
    with file.open("rb") as opened:
        return hashlib.sha256(opened.read(16 * 2**20)).hexdigest()

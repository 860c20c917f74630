"""The same policy on a small file system that is there: its dry run, its run and its report.

An ext4 on a loop device whose files were given their ages while it was not mounted: a change time
cannot be set in any other way. Commands before ``run`` take the time to be eight days ago, as long
as the notice period lasts and a day.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks.purge_case import case
from benchmarks.purge_case.places import Places, document, planned_of, users_known

DAY_S: Final = 86_400
AGO_S: Final = 8 * DAY_S
FULL: Final = 0.79
IMAGE_BYTES: Final = 2**30
USERS: Final = tuple(range(case.FIRST_UID + 1, case.FIRST_UID + 21))
SIZE_BYTES: Final = 32 * 1024
_PER_DIRECTORY: Final = 8


def small() -> dict[str, Any]:
    """Return what the commands print of a purge of files that are there."""
    places = Places(name="small")
    image = places.top / "small.img"
    with image.open("wb") as stream:
        stream.truncate(IMAGE_BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
    places.prepare(more='\n[arming]\ndelay = "24h"\n')
    with _mounted(image, places.root):
        inodes = _make_files(places.root)
    _age(image, inodes, places.top)
    with users_known(), _mounted(image, places.root):
        return {"image_bytes": IMAGE_BYTES, "files": len(inodes), **_purge(places)}


def _purge(places: Places) -> dict[str, Any]:
    found = {"scan": document(places.trimtab("scan", places.root, "--index", places.index,
                                             "--with", "project", "--json"))}  # fmt: skip
    _say_that_it_was_then(places.index)
    site = ("--site", places.site)
    plan = ("plan", "--index", places.index, "--policy", places.policy, "--out", places.plan)
    planned = document(places.trimtab(*plan, *site, "--json", ago_s=AGO_S - 600))
    places.trimtab("notify", places.plan, ago_s=AGO_S - 1200)
    places.trimtab("arm", places.plan, ago_s=2 * DAY_S)
    used = _use_some(places)
    dry = places.trimtab("run", places.plan)
    run = places.trimtab("run", places.plan, "--apply")
    report = places.trimtab("report")
    return {
        "names": found["scan"]["names"],
        "planned": planned_of(planned),
        "used": used,
        "dry": dry["printed"],
        "run": run["printed"],
        "report": report["printed"],
    }


def _make_files(root: Path) -> dict[int, float]:
    """Fill the file system as far as it is to be; return inode numbers and ages in days."""
    draw = np.random.default_rng(1)
    found: dict[int, float] = {}
    number = 0
    while _fullness(root) < FULL:
        owner = USERS[min(int(len(USERS) ** draw.random()) - 1, len(USERS) - 1)]
        directory = root / f"u{owner}" / f"run{number:04}"
        directory.mkdir(parents=True)
        days = _age_days(draw)
        for place in range(_PER_DIRECTORY):
            file = directory / f"checkpoint.{place:04}.dat"
            size = int(SIZE_BYTES * 4 ** draw.normal())
            with file.open("wb") as stream:
                os.posix_fallocate(stream.fileno(), 0, max(1, size))
            os.chown(file, owner, owner)
            found[file.stat().st_ino] = days
        number += 1
    return found


def _age_days(draw: np.random.Generator) -> float:
    """Return how long ago a directory was used, by the case's own mix."""
    mix = case.MIXES[0]
    kept = draw.choice(mix.kept_days, p=mix.standing)
    reached = 1 - np.exp(-mix.oldest_days / kept)
    written = -kept * np.log(1 - reached * draw.random())
    read_again = draw.random() < mix.reread_share
    return float(written * (draw.random() if read_again else 1.0))


def _age(image: Path, inodes: Mapping[int, float], work: Path) -> None:
    """Set all times of files on a file system that is not mounted."""
    # As of the scan: what is used between then and the run is used by somebody.
    now_s = time.time() - AGO_S - 3600
    commands = work / "ages"
    with commands.open("w") as stream:
        for inode, days in inodes.items():
            at = time.strftime("%Y%m%d%H%M%S", time.gmtime(now_s - days * DAY_S))
            for name in ("atime", "mtime", "ctime", "crtime"):
                stream.write(f"set_inode_field <{inode}> {name} {at}\n")
    argv = ["debugfs", "-w", "-f", str(commands), str(image)]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _say_that_it_was_then(index: Path) -> None:
    """Move a scan back: its notice period is over by now."""
    manifest = index / "manifest.json"
    written = json.loads(manifest.read_text())
    for name in ("started_ns", "ended_ns"):
        written[name] -= AGO_S * 10**9
    manifest.write_text(json.dumps(written))


def _use_some(places: Places) -> dict[str, int]:
    """Do to listed files what users do who were told; return how many of each."""
    import polars as pl

    rows = pl.read_parquet(places.plan / "candidates.parquet", columns=["parent", "name"])
    paths = [places.root / os.fsdecode(parent + b"/" + name) for parent, name in rows.iter_rows()]
    done = {"read": 0, "removed": 0, "renamed": 0}
    for place, path in enumerate(paths):
        if place % 25 == 3:
            path.read_bytes()
            done["read"] += 1
        elif place % 50 == 7:
            path.unlink()
            done["removed"] += 1
        elif place % 100 == 11:
            path.rename(path.with_suffix(".kept"))
            done["renamed"] += 1
    return done


@contextmanager
def _mounted(image: Path, root: Path) -> Iterator[None]:
    subprocess.run(["mount", "-o", "loop,relatime", str(image), str(root)], check=True)
    try:
        root.chmod(0o755)
        yield
    finally:
        subprocess.run(["umount", str(root)], check=True)


def _fullness(root: Path) -> float:
    state = os.statvfs(root)
    used = state.f_blocks - state.f_bfree
    return used / (used + state.f_bavail)

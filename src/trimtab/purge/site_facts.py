"""Facts of a site's file system: whether reads extend a file's life, OST usage, growth.

Reads count only if the site file says so and a canary confirms it (`read_recording`). Some reads
leave no trace, whatever the mount options:

- An overlay opens the files of its lower layers without changing their atime.
- A file that is bound over another path is used through that path without being read.
- Through a second mount with ``noatime`` nothing is recorded.
- Where blocks can be shared (XFS, Btrfs, NFS 4.2), a plain ``cp`` reads nothing: it clones.

Mounts are searched in every mount namespace of this host, where containers keep theirs; those of
other hosts cannot be seen. Where such reads are possible, reads do not count, unless the site file
accepts that.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.base.error import TrimtabError, UsageError, visible
from trimtab.base.filesystem import Mount, find_mount, parse_mountinfo
from trimtab.base.snapshot import NotAvailable, Snapshot
from trimtab.judge.growth import WINDOW_S
from trimtab.purge.fullness import Usage
from trimtab.purge.rules_in_force import ReadRecording
from trimtab.reach import bounded
from trimtab.site.lookup import open_driver, open_site, open_store

if TYPE_CHECKING:
    from trimtab.base.site import Site
    from trimtab.reach.driver_protocol import Driver


COPIES: Final = "copies that share blocks (reflink)"
_SEPARATOR: Final = re.compile(r"(?<!\\):+")
_COPY_TIME_S: Final = 1_000_000_000

Tables = Mapping[str, tuple[Mount, ...]]
"""Mount tables by the directory of a process in ``/proc`` whose root they describe."""
RunHere = Callable[[list[str]], str | None]
"""Runs a program on this host and returns its output; ``None``: it failed."""


def mount_tables(proc: str = "/proc") -> Tables:
    """Return the mount table of every mount namespace that can be seen, this process's first."""
    tables: dict[str, tuple[Mount, ...]] = {}
    seen: set[str] = set()
    numbers = sorted(int(name) for name in os.listdir(proc) if name.isdecimal())  # noqa: PTH208
    for process in ("self", *map(str, numbers)):
        with contextlib.suppress(OSError):
            namespace = os.readlink(f"{proc}/{process}/ns/mnt")  # noqa: PTH115
            if namespace not in seen:
                text = Path(proc, process, "mountinfo").read_text("utf-8", "surrogateescape")
                tables[f"{proc}/{process}"] = parse_mountinfo(text)
                seen.add(namespace)
    return tables


def untraced_mounts(root: str, tables: Tables, is_file: Callable[[str], bool]) -> tuple[str, ...]:
    """Return the mounts through which files beneath a root are used without a trace; pure.

    Parameters
    ----------
    tables
        The first is the one in which ``root`` is a path.
    is_file
        Whether a path, as another process has it (through procfs), is a file.
    """
    if not tables:
        return ()
    root_mount = find_mount(next(iter(tables.values())), root)
    if root_mount is None:
        return ()
    top = (root_mount.device_number, _within(root_mount, root))
    others = {
        # A canary is read through the root's own mount, which each namespace has a copy of.
        place: [
            m for m in table if (m.root, m.mount_point) != (root_mount.root, root_mount.mount_point)
        ]
        for place, table in tables.items()
    }
    words = (
        words
        for place, table in tables.items()
        for mount in others[place]
        if (words := _without_trace(mount, top, place, table, is_file)) is not None
    )
    return tuple(dict.fromkeys(words))


def bound_files(root: str, tables: Tables) -> tuple[bytes, ...]:
    """Return the files beneath a root that are bound over other paths, relative to it.

    They are in use however old they are, and no lease shows it: a mount holds no file open. Reads
    through a bound directory are recorded.
    """
    root_mount = find_mount(next(iter(tables.values())), root) if tables else None
    if root_mount is None:
        return ()
    top = _within(root_mount, root)
    paths = {
        os.fsencode(mount.root[len(top.rstrip("/")) + 1 :])
        for table in tables.values()
        for mount in table
        if mount.device_number == root_mount.device_number and _is_beneath(mount.root, top)
    }
    place = os.fsencode(root)
    return tuple(sorted(path for path in paths if not os.path.isdir(os.path.join(place, path))))  # noqa: PTH112, PTH118


def _without_trace(
    mount: Mount,
    top: tuple[str, str],
    place: str,
    table: tuple[Mount, ...],
    is_file: Callable[[str], bool],
) -> str | None:
    if mount.fs_type in ("overlay", "overlayfs"):
        lower = any(_has(top, layer, table) for layer in lower_layers(mount))
        return f"the overlay at {mount.mount_point}" if lower else None
    if mount.device_number != top[0] or not _overlaps(mount.root, top[1]):
        return None
    if "noatime" in mount.options:
        return f"the mount with noatime at {mount.mount_point}"
    if _is_beneath(mount.root, top[1]) and is_file(f"{place}/root{mount.mount_point}"):
        return f"the file that is bound over {mount.mount_point}"
    return None


def lower_layers(mount: Mount) -> tuple[str, ...]:
    """Return the lower directories of an overlay; the place of a relative one is unknown."""
    layers: list[str] = []
    for option in mount.super_options:
        word, _, value = option.partition("=")
        if word in ("lowerdir", "lowerdir+", "datadir+"):
            layers += [re.sub(r"\\(.)", r"\1", part) for part in _SEPARATOR.split(value) if part]
    return tuple(layers)


def _has(top: tuple[str, str], layer: str, table: tuple[Mount, ...]) -> bool:
    """Whether a layer has files of a root, or the root has its; a relative one may have them."""
    if not layer.startswith("/"):
        return True
    mount = find_mount(table, layer)
    if mount is None or mount.device_number != top[0]:
        return False
    return _overlaps(_within(mount, layer), top[1])


def _within(mount: Mount, path: str) -> str:
    """Return a path of a mount as the file system itself has it."""
    rest = path.removeprefix(mount.mount_point.rstrip("/")).strip("/")
    return "/" + "/".join(part for part in (mount.root.strip("/"), rest) if part)


def _overlaps(path: str, other: str) -> bool:
    return path == other or _is_beneath(path, other) or _is_beneath(other, path)


def _is_beneath(path: str, above: str) -> bool:
    return path != above and path.startswith(above.rstrip("/") + "/")


def copies_share_blocks(file: str, run: RunHere) -> bool | None:
    """Return whether a copy of a file leaves no trace on it; ``None``: it could not be tried.

    Parameters
    ----------
    file
        A file made by Trimtab, with data; a copy is made beside it.
    """
    copy = f"{file}.copy"
    aged = run(["touch", "-a", "-d", f"@{_COPY_TIME_S}", file])
    if aged is None or run(["cp", "--reflink=never", file, copy]) is None:
        return None
    if run(["touch", "-a", "-d", f"@{_COPY_TIME_S}", file]) is None:
        return None
    if run(["cp", "--reflink=always", file, copy]) is None:
        return False
    atime = run(["stat", "-c", "%X", file])
    return None if atime is None else atime.strip() == str(_COPY_TIME_S)


_CANARY_AGE_S: Final = 3 * 86400
"""With ``relatime`` a read moves an atime that is older than a day."""
_DEADLINE_S: Final = 30.0
_PREFIX: Final = f"{bounded.PROBE_PREFIX}canary-"
_HERE: Final = "this host"

RunOnClient = Callable[[str | None, list[str]], str | None]
"""Runs a program on a client (``None``: this host), returns its output; ``None``: it failed."""


def read_recording(site: Site, driver: Driver, *, now_s: float) -> ReadRecording:
    """Return whether reads move a file's atime, whichever class of clients they come from.

    Nothing is tried where the site file declares nothing. What could not be tried is named.

    A client that is mounted with ``noatime`` leaves no trace of what it reads (seen on a running
    Lustre 2.17), and one such class of clients is enough to make atime meaningless. So a
    declaration counts only if a file with an old atime became young when read through each class.
    """
    if not site.reads_recorded:
        return ReadRecording()
    name = f"{_PREFIX}{secrets.token_hex(8)}"
    try:
        directory = bounded.make_directory(site.path, name)
        try:
            run = _on(driver)
            tried = _tried(site.servers.clients, directory, run, now_s)
            return (
                tried if site.reads_without_atime else _with_untraced(tried, site, directory, run)
            )
        finally:
            bounded.remove_probe_directory(site.path, name)
    except TrimtabError:
        return ReadRecording(declared=True, unchecked=(_HERE, *site.servers.clients))


def _tried(
    clients: tuple[str, ...], directory: str, run: RunOnClient, now_s: float
) -> ReadRecording:
    unrecorded, unchecked = [], []
    for number, client in enumerate((None, *clients)):
        moved = _moved(client, f"{directory}/canary-{number}", run, int(now_s) - _CANARY_AGE_S)
        if moved is None:
            unchecked.append(client or _HERE)
        elif not moved:
            unrecorded.append(client or _HERE)
    return ReadRecording(True, tuple(unrecorded), tuple(unchecked))


def _with_untraced(
    tried: ReadRecording, site: Site, directory: str, run: RunOnClient
) -> ReadRecording:
    """Return the same, with the reads that leave no trace through a mount that records them."""

    def here(argv: list[str]) -> str | None:
        return run(None, argv)

    def is_file(path: str) -> bool:
        # What is not known counts as used.
        return here(["stat", "-L", "-c", "%F", path]) not in ("directory\n",)

    untraced = untraced_mounts(os.path.realpath(site.path), mount_tables(), is_file)
    shared = copies_share_blocks(f"{directory}/canary-0", here)
    return replace(
        tried,
        unrecorded=(*tried.unrecorded, *untraced, *((COPIES,) if shared else ())),
        unchecked=(*tried.unchecked, *((COPIES,) if shared is None else ())),
    )


def _moved(client: str | None, file: str, run: RunOnClient, old_s: int) -> bool | None:
    """Return whether a read through a client made a file young; ``None``: it could not be tried."""
    made = run(None, ["dd", "if=/dev/zero", f"of={file}", "bs=1", "count=1", "conv=excl"])
    aged = None if made is None else run(None, ["touch", "-d", f"@{old_s}", file])
    read = None if aged is None else run(client, ["dd", f"if={file}", "of=/dev/null"])
    atime = None if read is None else run(None, ["stat", "-c", "%X", file])
    if atime is None or not atime.strip().isdecimal():
        return None
    return int(atime) > old_s


def _on(driver: Driver) -> RunOnClient:
    def run(client: str | None, argv: list[str]) -> str | None:
        ended = driver.run(client, argv, _DEADLINE_S)
        if isinstance(ended, NotAvailable) or ended.problem is not None:
            return None
        return ended.stdout.decode("ascii", "replace")

    return run


_HEXADECIMAL_DIGITS: Final = 4
_DAY_S: Final = 86400
_SNAPSHOTS_A_DAY: Final = 4
"""Number of snapshots read per day: growth is estimated by days, and reading takes time (298 OSTs
in one snapshot)."""


@dataclass(frozen=True, slots=True)
class SiteSays:
    """Facts from a site; empty without one.

    Attributes
    ----------
    site, store_url
        Name of the site in the store, and the store; empty without a site.
    reads
        Whether a read extends a file's life here.
    osts
        Usage of each OST, by its index; ``None`` if not known.
    pools
        The OSTs of each pool, by their index; ``None`` if not known.
    why_no_pools
        Reason, if pools were asked for and are not known.
    """

    site: str = ""
    store_url: str | None = None
    reads: ReadRecording = field(default_factory=ReadRecording)
    osts: Mapping[int, Usage] | None = None
    pools: Mapping[str, tuple[int, ...]] | None = None
    why_no_pools: str | None = None


def ask_site(where: str, root: str, *, now: datetime) -> SiteSays:
    """Return a site's facts about a root beneath it; a canary is read through every client.

    Raises
    ------
    UsageError
        There is no such site, or it is another file system's.
    """
    site = open_site(where).site
    if root != site.path and not root.startswith(site.path.rstrip("/") + "/"):
        raise UsageError(
            f"the site {visible(site.name)} is of {visible(site.path)}, and {visible(root)} is "
            "not beneath it",
            code="site-elsewhere",
            hint="name the site whose file system is purged",
        )
    driver = open_driver(site)
    is_lustre = site.driver == "lustre"  # nothing else has OSTs that a policy may name
    pools = driver.pools() if is_lustre else None
    unknown = isinstance(pools, NotAvailable)
    return SiteSays(
        site=site.name,
        store_url=site.store.url,
        reads=read_recording(site, driver, now_s=now.timestamp()),
        osts=ost_usages(driver.snapshot(now)) if is_lustre else None,
        pools=None if unknown else pools,
        why_no_pools=pools.reason if unknown else None,
    )


def ost_usages(snapshot: Snapshot) -> dict[int, Usage] | None:
    """Return how full each OST of a snapshot is; ``None`` where there is none, or one is missing.

    A target for OSTs of which one is not known would be no promise.
    """
    usages = {}
    for seen in snapshot.targets:
        if seen.target.kind != "ost":
            continue
        used, available = seen.number("used_bytes"), seen.number("available_bytes")
        if used is None or available is None or used + available <= 0:
            return None
        index = int(seen.target.name[-_HEXADECIMAL_DIGITS:], 16)
        usages[index] = Usage(int(used), int(available))
    return usages or None


def use_over_time(
    site: str, store_url: str | None, *, until: datetime
) -> tuple[tuple[int, int], ...]:
    """Return a site's use as its complete snapshots have it: seconds since 1970 and bytes used.

    A snapshot in which an OST is missing would look like a purge.
    """
    import polars as pl

    since = until - timedelta(seconds=WINDOW_S)
    with open_store(store_url) as store:
        snapshots = store.snapshots(site, since=since, until=until)
        times = thinned(snapshot.at for snapshot in snapshots if snapshot.complete)
        readings, _ = store.telemetry_frames(site, times, names=("used_bytes",), settings_at=())
    data = readings.filter((pl.col("kind") != "mdt") & pl.col("number").is_not_null())
    summed = data.group_by("at").agg(pl.col("number").sum()).sort("at")
    return tuple((int(at.timestamp()), int(used)) for at, used in summed.iter_rows())


def thinned(times: Iterable[datetime]) -> list[datetime]:
    """Return the last time within each quarter of a day, in order."""
    latest = {int(at.timestamp() * _SNAPSHOTS_A_DAY // _DAY_S): at for at in sorted(times)}
    return list(latest.values())

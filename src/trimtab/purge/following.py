"""Follow changelogs in rounds: read records, look at files, commit changes, clear records.

::

    clear up to the marks that are committed
    read the changelogs ──▶ decide ──▶ look at files ──▶ changes ──▶ commit: rows and marks at once

A round may be killed between any two steps: the next one clears what is committed, reads what is
not, and looks at the same files.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from trimtab.base.error import (
    Interrupted,
    RefusedError,
    ToolError,
    UsageError,
    system_errors,
    visible,
)
from trimtab.base.event import utc_now
from trimtab.base.interruption import interruptible
from trimtab.base.trusted_file import opened
from trimtab.purge.core_call import require_answer
from trimtab.purge.follow_decision import SeenChangelog, clears, decide, look_again
from trimtab.purge.index.index_view import Again, merge, read_again
from trimtab.purge.index.manifest import Followed, FollowedMdt, IndexSource, Lack, Manifest
from trimtab.purge.index.manifest_file import load_manifest, save_manifest
from trimtab.purge.lustre_changes import ChangeSearch, LiveChangelogs, committed, stale_by
from trimtab.purge.rescanning import rescan as look_again_at_mdts
from trimtab.reach.lustre.changelog import ChangelogUsers, parse_records
from trimtab.reach.lustre.lustre_client import lustre_name
from trimtab.reach.lustre.write_table import CHANGELOG_USER
from trimtab.site.lookup import open_site

_IDLE_SLACK_S: Final = 1
"""Idle times are whole seconds, rounded down."""


@dataclass(frozen=True, slots=True)
class Round:
    """Result of a round of following.

    Attributes
    ----------
    manifest
        Current manifest of the index.
    records, looked, added, removed
        Changelog records read, files looked at, rows added and rows superseded.
    unknown
        Files that could not be looked at, or whose directory could not, and directories that could
        not be read; they are tried again.
    silent
        MDTs whose server did not answer: nothing was read of them.
    more
        Whether there is more to read at once.
    """

    manifest: Manifest
    records: int
    looked: int
    added: int
    removed: int
    unknown: int
    silent: tuple[str, ...]
    more: bool


def follow(
    where: str,
    directory: Path,
    *,
    every_s: float,
    once: bool,
    threads: int = 0,
    rescan: bool = False,
    report: Callable[[Round], None],
) -> Manifest:
    """Return the manifest of an index that was followed until a signal came, or once.

    Parameters
    ----------
    where
        The site, whose MDSs are asked about changelog users.
    rescan
        Instead, look again at all that the MDTs hold whose records were lost.
    report
        Is called after each round.

    Raises
    ------
    UsageError
        The site is no Lustre, or the index cannot be followed.
    RefusedError
        The changelogs do not reach back to the scan.
    ToolError, DataError, UnreadableError
        A changelog, a server, the file system or the index cannot be read, or not be written.
    """
    site = open_site(where).site
    if site.driver != "lustre" or not site.servers.mds:
        raise UsageError(
            f"the site {visible(site.name)} names no MDS of a Lustre",
            code="site-without-mds",
            hint="[servers] mds = [...] in the site file: they are asked whether the changelog "
            "user is still registered",
        )
    file_system = lustre_name(site)
    with alone(directory):
        manifest = load_manifest(directory)
        root = os.fsdecode(manifest.root)
        require_answer(root, "following")
        changelogs = LiveChangelogs(root, file_system, site.servers, manifest, threads=threads)
        if rescan:
            _require_followed(manifest)
            with interruptible():
                return look_again_at_mdts(directory, changelogs, utc_now)
        manifest = begin(
            directory, changelogs, file_system=file_system, now_s=utc_now().timestamp()
        )
        with interruptible():
            try:
                while True:
                    done = follow_once(directory, changelogs, utc_now)
                    manifest = done.manifest
                    report(done)
                    if not done.more:
                        if once:
                            break
                        time.sleep(every_s)
            except Interrupted:
                if once:
                    raise
    return manifest


def compact_index(directory: Path) -> Manifest:
    """Return the manifest of the same index with its changes merged.

    Raises
    ------
    UsageError
        The index is not followed, or another process is following it.
    UnreadableError, DataError
        It cannot be read or written.
    """
    with alone(directory):
        manifest = load_manifest(directory)
        _require_followed(manifest)
        return merge(directory, manifest, whole=True, now_s=int(utc_now().timestamp()))


def _require_followed(manifest: Manifest) -> None:
    if manifest.followed is None:
        raise UsageError("the index is not followed", code="index-not-followed")


def begin(
    directory: Path, changelogs: LiveChangelogs, *, file_system: str, now_s: float
) -> Manifest:
    """Return the manifest of an index that is followed from now on.

    Raises
    ------
    UsageError
        It is no scan of a whole Lustre, or is not of this one.
    RefusedError
        The changelogs do not reach back to the beginning of the scan.
    """
    manifest = load_manifest(directory)
    if manifest.followed is not None:
        return manifest
    _require_scan(manifest, file_system)
    assert manifest.started_ns is not None
    users = changelogs.users()
    since_s = now_s - manifest.started_ns / 10**9
    mdts = []
    here = changelogs.mdts()
    for mdt in dict.fromkeys((*here, *(users if here else ()))):
        if mdt not in here:
            raise RefusedError(
                f"this host has no changelog of {mdt}, which a server has",
                code="changelog-missing",
                hint="follow on a client that is connected to all MDTs: /dev/changelog-*",
            )
        mine = users[mdt].of(CHANGELOG_USER) if mdt in users else ()
        if len(mine) != 1:
            raise RefusedError(
                f"{mdt} has no changelog user named {CHANGELOG_USER}, or its server did not answer",
                code="changelog-user-missing",
                hint="trimtab purge follow SITE --register; then scan, then follow",
            )
        if mine[0].idle_s + _IDLE_SLACK_S < since_s:
            raise RefusedError(
                f"{mine[0].name} of {mdt} was registered, or cleared records, after the scan began",
                code="changelog-too-late",
                hint="scan once more while no process follows, and follow that index",
            )
        mdts.append(FollowedMdt(mdt, mine[0].name, mine[0].index, users[mdt].index))
    if not mdts:
        raise UsageError(
            f"this host has no changelog of {visible(file_system)}",
            code="changelog-missing",
            hint="follow on a client of the file system, as root: /dev/changelog-*",
        )
    begun = replace(
        manifest,
        followed=Followed(0, tuple(mdts)),
        lacking=manifest.lacking | {Lack.READS},
        notes=(*manifest.notes, _NO_READS),
    )
    save_manifest(begun, directory)
    return begun


_NO_READS: Final = (
    "changelogs record no reads: of a file that did not change since the scan the access time is "
    "that of the scan, and it may have been read since. It is looked at again before deletion"
)


def _require_scan(manifest: Manifest, file_system: str) -> None:
    known = manifest.filesystem
    if (
        manifest.source is not IndexSource.SCAN
        or known is None
        or known.kind != "lustre"
        or known.name != file_system
        or manifest.started_ns is None
    ):
        raise UsageError(
            f"the index is no scan of the Lustre {visible(file_system)}",
            code="index-unfollowable",
            hint="trimtab purge scan ROOT --index DIR makes one; an imported list does not say "
            "when it was begun",
        )
    if manifest.obstacles:
        raise UsageError(
            f"the index cannot be kept up to date: {manifest.obstacles[0]}",
            code="index-unfollowable",
            hint="scan again",
        )


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Keep others from adding to an index.

    Raises
    ------
    UsageError
        Another process is following it already.
    """
    with ExitStack() as stack:
        with system_errors(f"cannot open {visible(directory)}", code="index-missing"):
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
            descriptor = stack.enter_context(opened(directory, flags=flags))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"{visible(directory)} is followed by another process already",
                code="index-followed",
                hint="one is enough",
            ) from None
        yield


def follow_once(
    directory: Path, changelogs: LiveChangelogs, clock: Callable[[], datetime]
) -> Round:
    """Do one round and return its result; the caller holds the index `alone`.

    Raises
    ------
    ToolError, DataError, UnreadableError
        A changelog, the index or the file system cannot be read, or the index cannot be written.
        The index is unchanged, or has the whole round.
    """
    manifest = load_manifest(directory)
    followed = manifest.followed
    assert followed is not None
    users = changelogs.users()
    for order in clears(followed.mdts, users):
        changelogs.clear(order)
    seen, silent = _read(changelogs, followed, users)
    decision = decide(followed.mdts, seen)
    before = read_again(directory, followed)
    search = ChangeSearch(changelogs, directory, manifest)
    files = decision.look | before.tried.keys() | search.beneath(decision.walk | before.beneath)
    delta = search.changes(files, decision.migrated)
    unread = frozenset(search.unread)
    unknown = search.unknown | unread
    again = Again(look_again(decision.look, before.tried, unknown), unread)
    more = any(not reading.ended for reading in seen.values())
    now = clock()
    now_ns = int(now.timestamp() * 10**9)
    until_ns = manifest.ended_ns if silent or more else max(now_ns, manifest.ended_ns)
    after = committed(
        directory,
        replace(manifest, ended_ns=until_ns),
        delta,
        replace(followed, mdts=decision.mdts, stale=stale_by(followed, search, again)),
        again=again,
        now=now,
    )
    return Round(
        manifest=after,
        records=sum(len(reading.records) for reading in seen.values()),
        looked=len(search.looked),
        added=sum(frame.height for frame in delta.rows),
        removed=sum(rows.size for lists in delta.superseded.values() for rows in lists),
        unknown=len(unknown),
        silent=tuple(silent),
        more=more,
    )


def _read(
    changelogs: LiveChangelogs, followed: Followed, users: Mapping[str, ChangelogUsers]
) -> tuple[dict[str, SeenChangelog], list[str]]:
    known = {mdt.mdt: mdt for mdt in followed.mdts}
    seen: dict[str, SeenChangelog] = {}
    silent = []
    for mdt in dict.fromkeys((*known, *changelogs.mdts(), *users)):
        if mdt not in users:
            silent.append(mdt)
        elif mdt not in known:
            seen[mdt] = SeenChangelog(users[mdt])
        else:
            seen[mdt] = _seen(changelogs, known[mdt], users[mdt])
    return seen, silent


def _seen(changelogs: LiveChangelogs, mdt: FollowedMdt, users: ChangelogUsers) -> SeenChangelog:
    try:
        data, ended = changelogs.read(mdt.mdt, mdt.mark)
    except ToolError:
        if users.named(mdt.user) is not None:
            raise
        return SeenChangelog(users)  # that its user is gone has to get into the index
    return SeenChangelog(users, tuple(parse_records(data)), ended)

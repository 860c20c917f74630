"""Rounds of following: changelogs are read, files looked at, changes committed, records cleared.

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
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from trimtab.drivers.lustre.changelog import ChangelogUsers, parse_records
from trimtab.drivers.lustre.site import lustre_name
from trimtab.errors import Interrupted, RefusedError, UsageError
from trimtab.launch.interruption import interruptible
from trimtab.launch.process import utc_now
from trimtab.loop.purging.answering import require_answer
from trimtab.loop.sites import open_site
from trimtab.model.identifier import new_identifier
from trimtab.purge.follow.decide import TRIES_MAX, Clear, Seen, clears, decide, look_again
from trimtab.purge.follow.place import Name, Places, is_stripe, place
from trimtab.purge.index.delta import (
    Delta,
    beneath,
    commit,
    deltas,
    find,
    merge,
    read_again,
    remove_unnamed,
)
from trimtab.purge.index.manifest import Followed, FollowedMdt, Lack, Manifest, Source
from trimtab.purge.index.manifest_file import load_manifest, save_manifest
from trimtab.purge.index.schema import columns
from trimtab.record.system_errors import system_errors
from trimtab.units import enumerated, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    import polars as pl

USER: Final = "trimtab"
"""What a changelog user of Trimtab's is registered as."""

DELTAS_MAX: Final = 32
"""More small shards are merged into one: each costs every reader a file."""
_IN_THE_WAY_MAX: Final = 10
_LEVELS_MAX: Final = 10_000
_IDLE_SLACK_S: Final = 2


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look at files brought.

    Attributes
    ----------
    root
        The FID of the file system's root.
    rows
        A row for each name, in the columns of an index; ``parent`` is the directory's FID.
    gone
        What has no name any more.
    failed
        What could not be looked at, with the error number.
    overflowed
        What may have more names than Lustre keeps with a file.
    """

    root: bytes
    rows: pl.DataFrame
    gone: frozenset[bytes] = frozenset()
    failed: Mapping[bytes, int] = field(default_factory=dict)
    overflowed: frozenset[bytes] = frozenset()


class Changelogs(Protocol):
    """A Lustre as a follower uses it."""

    def mdts(self) -> Sequence[str]:
        """Return every MDT that this client knows."""
        ...

    def users(self) -> Mapping[str, ChangelogUsers]:
        """Return who reads the changelog of each MDT whose server answers."""
        ...

    def read(self, mdt: str, after: int) -> tuple[bytes, bool]:
        """Return records behind one, and whether they are all."""
        ...

    def clear(self, order: Clear) -> None:
        """Tell an MDT what is not needed any more."""
        ...

    def look(self, files: Sequence[bytes]) -> Looked:
        """Look at files by their FIDs."""
        ...

    def children(self, directories: Sequence[bytes]) -> tuple[set[bytes], Mapping[bytes, int]]:
        """Return what lies in directories, and those that could not be read; a file has nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Round:
    """What a round of following did.

    Attributes
    ----------
    manifest
        Of the index as it is now.
    records, looked, added, removed
        Changelog records read, files looked at, rows added and rows that count no more.
    unknown
        Files that could not be looked at, or whose directory could not; they are tried again.
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
    report: Callable[[Round], None],
) -> Manifest:
    """Return the manifest of an index that was followed until a signal came, or once.

    Parameters
    ----------
    where
        The site, whose MDSs are asked about changelog users.
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
    from trimtab.loop.purging.changelogs import LiveChangelogs

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
        The index is not followed, or somebody follows it now.
    UnreadableError, DataError
        It cannot be read or written.
    """
    with alone(directory):
        manifest = load_manifest(directory)
        if manifest.followed is None:
            raise UsageError(
                "the index is not followed: there is nothing to merge", code="index-not-followed"
            )
        remove_unnamed(directory, manifest)
        return merge(directory, manifest, whole=True, now_s=int(utc_now().timestamp()))


def begin(directory: Path, changelogs: Changelogs, *, file_system: str, now_s: float) -> Manifest:
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
    for mdt in changelogs.mdts():
        mine = [
            user
            for user in (users[mdt].users if mdt in users else ())
            if user.name.partition("-")[2] == USER
        ]
        if len(mine) != 1:
            raise RefusedError(
                f"{mdt} has no changelog user named {USER}, or its server did not answer",
                code="changelog-user-missing",
                hint=f"on its server: lctl --device {file_system}-{mdt} changelog_register -u "
                f"{USER}; then scan, then follow. Begin with one MDT, and watch its console",
            )
        if mine[0].idle_s + _IDLE_SLACK_S < since_s:
            raise RefusedError(
                f"{mine[0].name} of {mdt} was registered, or cleared records, after the scan began",
                code="changelog-too-late",
                hint="scan once more, with nobody following meanwhile, and follow that index",
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
        manifest.source is not Source.SCAN
        or known is None
        or known.kind != "lustre"
        or known.name != file_system
        or manifest.started_ns is None
    ):
        raise UsageError(
            f"the index is no scan of the Lustre {visible(file_system)}",
            code="index-unfollowable",
            hint="trimtab purge scan makes one; an imported list does not say when it was begun",
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
        Somebody follows it already.
    """
    with system_errors(f"cannot open {visible(str(directory))}", code="index-missing"):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"{visible(str(directory))} is followed by another process already",
                code="index-followed",
                hint="one is enough",
            ) from None
        yield
    finally:
        os.close(descriptor)


def follow_once(directory: Path, changelogs: Changelogs, clock: Callable[[], datetime]) -> Round:
    """Return what one round brought; whoever calls holds the index `alone`.

    Raises
    ------
    ToolError, DataError, UnreadableError
        A changelog, the index or the file system cannot be read, or the index not be written. The
        index is what it was, or has the whole round.
    """
    manifest = load_manifest(directory)
    followed = manifest.followed
    assert followed is not None
    remove_unnamed(directory, manifest)
    users = changelogs.users()
    for order in clears(followed.mdts, users):
        changelogs.clear(order)
    seen, silent = _read(changelogs, followed, users)
    decision = decide(followed.mdts, seen)
    tried = read_again(directory, followed)
    search = _Search(changelogs, directory, manifest)
    files = decision.look | tried.keys() | search.beneath(decision.walk)
    delta = search.changes(files, decision.migrated)
    again = look_again(decision.look, tried, search.unknown)
    now_ns = int(clock().timestamp() * 10**9)
    after = commit(
        directory,
        replace(
            manifest,
            index_id=new_identifier(clock()),
            ended_ns=max(now_ns, manifest.ended_ns),
        ),
        delta,
        replace(
            followed,
            mdts=decision.mdts,
            stale=tuple(dict.fromkeys((*followed.stale, *_stale(search, again)))),
        ),
        again={file: count for file, count in again.items() if count < TRIES_MAX},
        now_s=now_ns // 10**9,
    )
    if deltas(after) > DELTAS_MAX:
        after = merge(directory, after, whole=False, now_s=now_ns // 10**9)
    return Round(
        manifest=after,
        records=sum(len(one.records) for one in seen.values()),
        looked=len(search.looked),
        added=sum(frame.height for frame in delta.rows),
        removed=sum(rows.size for lists in delta.superseded.values() for rows in lists),
        unknown=len(search.unknown),
        silent=tuple(silent),
        more=any(not one.ended for one in seen.values()),
    )


def _read(
    changelogs: Changelogs, followed: Followed, users: Mapping[str, ChangelogUsers]
) -> tuple[dict[str, Seen], list[str]]:
    marks = {mdt.mdt: mdt.mark for mdt in followed.mdts}
    seen: dict[str, Seen] = {}
    silent = []
    for mdt in dict.fromkeys((*marks, *changelogs.mdts())):
        if mdt not in users:
            silent.append(mdt)
        elif mdt not in marks:
            seen[mdt] = Seen(users[mdt])
        else:
            data, ended = changelogs.read(mdt, marks[mdt])
            seen[mdt] = Seen(users[mdt], tuple(parse_records(data)), ended)
    return seen, silent


def _stale(search: _Search, again: Mapping[bytes, int]) -> Iterator[str]:
    if search.unread:
        yield f"{plural(len(search.unread), 'directory')} that moved while it ran cannot be read"
    if search.overflowed:
        files = plural(len(search.overflowed), "file", ",")
        yield f"Lustre does not keep all names of {files}"
    lost = [file for file, count in again.items() if count >= TRIES_MAX]
    if lost:
        reasons = sorted(
            {os.strerror(search.failed[file]) for file in lost if file in search.failed}
        )
        why = f": {enumerated(reasons, 3)}" if reasons else ""
        yield f"{plural(len(lost), 'file', ',')} could not be looked at{why}"


class _Search:
    """Files looked at, and the rows of an index that change by that.

    Attributes
    ----------
    looked
        Everything that was looked at.
    unknown
        What could not be, or is in a directory that could not be.
    failed, overflowed
        As `Looked` has them.
    unread
        Directories of which it is not known what lies in them.
    """

    def __init__(self, changelogs: Changelogs, directory: Path, manifest: Manifest) -> None:
        self._changelogs, self._directory, self._manifest = changelogs, directory, manifest
        self._names: dict[bytes, list[Name]] = {}
        self._frames: list[pl.DataFrame] = []
        self._root = b""
        self._gone: set[bytes] = set()
        self.looked: set[bytes] = set()
        self.failed: dict[bytes, int] = {}
        self.overflowed: set[bytes] = set()
        self.unknown: frozenset[bytes] = frozenset()
        self.unread: set[bytes] = set()

    def beneath(self, directories: frozenset[bytes]) -> frozenset[bytes]:
        """Return everything that lies beneath directories now."""
        found: set[bytes] = set()
        todo = set(directories)
        while todo:
            children, failed = self._changelogs.children(sorted(todo))
            self.unread |= failed.keys()
            todo = children - found
            found |= children
        return frozenset(found)

    def changes(self, files: frozenset[bytes], migrated: Mapping[bytes, bytes]) -> Delta:
        """Return what changes in the index, now that files may have."""
        delta = Delta()
        if not files:
            return delta
        now, before = self._found(files, migrated)
        known = self.looked - self.unknown
        _compare(delta, before.filter(_is_in("id", known)), now)
        moved = _moved(before, now, migrated)
        if any(old != new for old, new in moved.items()):
            for rows, renamed in beneath(self._directory, self._manifest, moved, known):
                delta.supersede(rows)
                delta.rows.append(renamed)
        return delta

    def _found(
        self, files: frozenset[bytes], migrated: Mapping[bytes, bytes]
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the rows that files have now, and those that the index has of them.

        What the index lists under a name that another file has now was renamed or removed too,
        whether or not its record was read: it is looked at as well. So is what it lists beneath a
        directory that is gone: it was removed, or moved with a directory that has another FID.
        """
        todo = set(files)
        for _ in range(_IN_THE_WAY_MAX):
            places = self._look_up(todo)
            now = self._placed(places)
            before = find(self._directory, self._manifest, self.looked, now)
            todo = set(before["id"].to_list()) - self.looked
            if doubtful := self._doubtful(before, now, migrated):
                nowhere = dict.fromkeys(doubtful, b"\0")
                for rows, _ in beneath(self._directory, self._manifest, nowhere, self.looked):
                    todo.update(rows["id"].to_list())
            if not todo:
                break
        self.unknown |= todo
        return now, before

    def _doubtful(
        self, before: pl.DataFrame, now: pl.DataFrame, migrated: Mapping[bytes, bytes]
    ) -> set[bytes]:
        """Return the paths in the index of which it cannot be told where what is beneath went."""
        placed = _paths(now)
        followed = {old for new, old in migrated.items() if new in placed}
        listed = _paths(before)
        count = Counter(listed.values())
        return {
            path
            for directory, path in listed.items()
            if count[path] > 1 or (directory in self._gone and directory not in followed)
        }

    def _look_up(self, todo: set[bytes]) -> Places:
        """Look at files, and at the directories above them."""
        for _ in range(_LEVELS_MAX):
            self._add(self._changelogs.look(sorted(todo)), todo)
            places = place(self._names, self._gone | self.failed.keys(), self._root)
            todo = set(places.missing) - self.looked
            if not todo:
                break
        self.unknown = frozenset(self.failed) | places.nowhere | todo
        return places

    def _add(self, answer: Looked, asked: set[bytes]) -> None:
        import polars as pl

        self._root = answer.root
        self.looked |= asked
        self._gone |= answer.gone
        self.failed.update(answer.failed)
        rows = answer.rows.filter(pl.col("id") != answer.root)
        self._frames.append(rows)
        for file, parent, name in rows.select("id", "parent", "name").iter_rows():
            self._names.setdefault(file, []).append((parent, name))
        many = rows.group_by("id").agg(pl.len(), pl.col("nlink").first())
        short = many.filter(pl.col("len") < pl.col("nlink"))["id"].to_list()
        self.overflowed |= answer.overflowed & set(short)

    def _placed(self, places: Places) -> pl.DataFrame:
        """Return rows under the paths of their directories."""
        import polars as pl

        stripes = {file for file, names in self._names.items() if is_stripe(file, names)}
        paths = pl.DataFrame(
            {"parent": list(places.directories), "path": list(places.directories.values())},
            schema={"parent": pl.Binary, "path": pl.Binary},
        )
        rows = pl.concat(self._frames).filter(~_is_in("id", self.unknown | stripes))
        placed = rows.join(paths, on="parent", how="inner", maintain_order="left")
        return placed.with_columns(parent=pl.col("path")).select(*columns())


def _is_in(column: str, values: Sequence[bytes] | set[bytes] | frozenset[bytes]) -> pl.Expr:
    import polars as pl

    return pl.col(column).is_in(pl.Series(list(values), dtype=pl.Binary).implode())


def _compare(delta: Delta, before: pl.DataFrame, now: pl.DataFrame) -> None:
    """Add to a delta what is different now."""
    import polars as pl

    wanted = dict.fromkeys(_values(now), True)
    stay = []
    for row in _values(before.select(*columns())):
        # A row that stands twice stays once.
        stay.append(wanted.get(row, False))
        if row in wanted:
            wanted[row] = False
    kept = pl.Series(stay, dtype=pl.Boolean)
    delta.supersede(before.filter(~kept))
    new = [wanted[row] for row in _values(now)]
    delta.rows.append(now.filter(pl.Series(new, dtype=pl.Boolean)))


def _values(frame: pl.DataFrame) -> list[tuple[object, ...]]:
    """Return rows as values that can be compared."""
    return [
        tuple(tuple(value) if isinstance(value, list) else value for value in row)
        for row in frame.iter_rows()
    ]


def _moved(
    before: pl.DataFrame, now: pl.DataFrame, migrated: Mapping[bytes, bytes]
) -> dict[bytes, bytes]:
    """Return where each directory was and is; the same, for those that only changed."""
    old, new = _paths(before), _paths(now)
    moved = {}
    for directory, path in new.items():
        known = directory
        while known not in old and known in migrated:
            known = migrated[known]
        if known in old:
            moved[old[known]] = path
    return moved


def _paths(rows: pl.DataFrame) -> dict[bytes, bytes]:
    import polars as pl

    directories = rows.filter(pl.col("type") == "d").select("id", "parent", "name")
    return {
        file: parent + b"/" + name if parent else name
        for file, parent, name in directories.iter_rows()
    }

"""Decide from changelog records which files to look at and which records to clear. Pure.

Every record up to a *mark* is in the index, which also stores the mark. Records are cleared only up
to the mark. Any evidence of lost records makes an MDT *stale*; this is stored too, until the next
scan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from trimtab.purge.index.manifest import FollowedMdt
from trimtab.reach.lustre.changelog import (
    NEEDED,
    STARTED,
    STOPPED,
    ChangelogUsers,
    Record,
    RecordType,
)

HEARTBEAT_S: Final = 6 * 3600
"""Interval at which even a quiet MDT gets a clear, in seconds.

An MDT drops idle users: by default after 30 days, much sooner with a large backlog.
"""

TRIES_MAX: Final = 20
"""Number of attempts to look at a file."""


@dataclass(frozen=True, slots=True)
class SeenChangelog:
    """Result of one reading of an MDT's changelog.

    Attributes
    ----------
    users
        The changelog users, read before the records.
    records
        Records after the mark, in any order, possibly with duplicates.
    ended
        Whether the log was read to its end.
    """

    users: ChangelogUsers
    records: Sequence[Record] = ()
    ended: bool = True


@dataclass(frozen=True, slots=True)
class Decision:
    """Actions that follow from the records read.

    Attributes
    ----------
    mdts
        State of each MDT after the decision is carried out.
    look
        FIDs of the files to look at, as an index stores them.
    migrated
        New to old identifier of objects that moved between MDTs.
    walk
        Objects moved during the scan; if one is a directory, everything below it must be looked at.
    """

    mdts: tuple[FollowedMdt, ...]
    look: frozenset[bytes] = frozenset()
    migrated: Mapping[bytes, bytes] = field(default_factory=dict)
    walk: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True)
class Clear:
    """Clear the records of a user up to an index on one MDT."""

    mdt: str
    user: int
    index: int


def decide(mdts: Sequence[FollowedMdt], seen: Mapping[str, SeenChangelog]) -> Decision:
    """Return what the changelogs of all MDTs require.

    Parameters
    ----------
    mdts
        State of each followed MDT.
    seen
        Readings by MDT name. An MDT that was not read keeps its state; one not yet followed
        requires a new scan.
    """
    followed = {mdt.mdt for mdt in mdts}
    new = [
        FollowedMdt(name, "", 0, 0, stale=("added after the scan",))
        for name in sorted(seen.keys() - followed)
    ]
    after = [_followed_on(mdt, seen[mdt.mdt]) if mdt.mdt in seen else mdt for mdt in mdts]
    records = [record for reading in seen.values() for record in reading.records]
    return Decision(
        mdts=(*after, *new),
        look=frozenset(fid for record in records for fid in _concerned(record)),
        # A file with several names keeps its identifier until its last name is moved.
        migrated={
            record.target: record.source
            for record in records
            if record.type == RecordType.MIGRATE
            and record.target
            and record.source
            and record.target != record.source
        },
        walk=frozenset(
            moved
            for mdt in mdts
            if mdt.mdt in seen
            for record in seen[mdt.mdt].records
            if record.index <= mdt.scanned and (moved := _moved(record)) is not None
        ),
    )


def clears(mdts: Sequence[FollowedMdt], users: Mapping[str, ChangelogUsers]) -> Iterator[Clear]:
    """Yield the clears allowed once the marks of an index are on stable storage.

    Never clear below an earlier clear: up to 2.17.57 an MDT then removed the user and every later
    one.
    """
    for mdt in mdts:
        user = users[mdt.mdt].named(mdt.user) if mdt.mdt in users else None
        if user is None or not user.index <= mdt.mark <= users[mdt.mdt].index:
            continue
        behind = mdt.due and user.index < mdt.mark
        if behind or (user.idle_s >= HEARTBEAT_S and mdt.mark > 0):
            yield Clear(mdt.mdt, user.number, mdt.mark)


def look_again(
    looked: frozenset[bytes], tried: Mapping[bytes, int], unknown: frozenset[bytes]
) -> dict[bytes, int]:
    """Return which files to look at again in the next round, each with its number of attempts.

    Parameters
    ----------
    looked
        Files named by records. A further attribute change between the look and the next clear may
        leave no record, so the look is repeated.
    tried
        Files looked at again in this round, with their attempts.
    unknown
        Files that could not be looked at, or whose directory could not, and directories of unknown
        content.
    """
    again = dict.fromkeys(looked, 0)
    again.update({fid: tried.get(fid, 0) + 1 for fid in unknown})
    return again


def _concerned(record: Record) -> Iterator[bytes]:
    """Yield the files whose rows may change, including directories, whose times change too."""
    for fid in (record.target, record.parent, record.source, record.source_parent):
        if fid is not None:
            yield fid


def _moved(record: Record) -> bytes | None:
    if record.type == RecordType.RENAME:
        return record.source
    return record.target if record.type == RecordType.MIGRATE else None


def _followed_on(mdt: FollowedMdt, seen: SeenChangelog) -> FollowedMdt:
    stale = list(mdt.stale)
    mark = mdt.mark
    user = seen.users.named(mdt.user)
    due = mdt.due
    if user is None:
        stale.append(f"its changelog user {mdt.user or 'for Trimtab'} is gone")
    elif user.index > mark:
        stale.append(f"records up to {user.index} were cleared for {mdt.user} by others")
        mark = user.index
    elif seen.users.index < mark:
        # A changelog removed and created again numbers records and users from the start.
        stale.append(f"its changelog was recreated: there is no record {mark}")
        mark = user.index
    elif user.index == mark:
        due = False
    if unwritten := sorted(NEEDED - seen.users.mask):
        stale.append(f"record types {', '.join(unwritten)} are not enabled")
    records = {record.index: record for record in seen.records if record.index > mark}
    if any(record.mark & (STARTED | STOPPED) for record in records.values()):
        stale.append("recording was off for a time")
    mark, missing = _advanced(mark, sorted(records), seen)
    if missing is not None and missing == mdt.missing:
        stale.append(f"record {missing} is missing")
        mark, missing = max([*records, seen.users.index if seen.ended else 0, mark]), None
    due = due or any(record.type != RecordType.MARK for record in records.values())
    return replace(mdt, mark=mark, due=due, missing=missing, stale=tuple(dict.fromkeys(stale)))


def _advanced(mark: int, indices: Sequence[int], seen: SeenChangelog) -> tuple[int, int | None]:
    """Return the last record of the unbroken sequence, and the first missing one.

    Before 2.14 records could be written out of order, so a missing record is awaited until the next
    reading.
    """
    for index in indices:
        if index != mark + 1:
            return mark, mark + 1
        mark = index
    return mark, mark + 1 if seen.ended and mark < seen.users.index else None

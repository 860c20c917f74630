"""What records of a changelog ask for, how far they reach, and what may be cleared. Pure.

Every record up to a *mark* is in the index, and the mark is kept with it. Clearing follows the mark
and never leads. What shows that records were lost makes an MDT *stale*: that is kept too, until
somebody scans again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from trimtab.drivers.lustre.changelog import (
    NEEDED,
    STARTED,
    STOPPED,
    ChangelogUsers,
    Record,
    RecordType,
)
from trimtab.purge.index.manifest import FollowedMdt

HEARTBEAT_S: Final = 6 * 3600
"""An MDT drops a user that has cleared nothing for long; a quiet one is told so often that its
reader lives. By default 30 days are long, and much less with a large backlog."""

TRIES_MAX: Final = 20
"""So often a file that cannot be looked at is tried again."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one reading of an MDT's changelog brought.

    Attributes
    ----------
    users
        As they were before the records were read.
    records
        From behind the mark on, in any order, some perhaps twice.
    ended
        Whether the log was read to its end.
    """

    users: ChangelogUsers
    records: Sequence[Record] = ()
    ended: bool = True


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done about records.

    Attributes
    ----------
    mdts
        How far each MDT is followed, once that was done.
    look
        The files to look at, as an index keeps a FID.
    migrated
        New to old identifier of what was moved between MDTs.
    walk
        What was moved while the scan ran: if it is a directory, everything beneath it is to be
        looked at.
    """

    mdts: tuple[FollowedMdt, ...]
    look: frozenset[bytes] = frozenset()
    migrated: Mapping[bytes, bytes] = field(default_factory=dict)
    walk: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True)
class Clear:
    """Tell an MDT that a user needs no record up to one any more."""

    mdt: str
    user: int
    index: int


def decide(mdts: Sequence[FollowedMdt], seen: Mapping[str, Seen]) -> Decision:
    """Return what the changelogs of all MDTs ask for.

    Parameters
    ----------
    mdts
        How far each is followed.
    seen
        By the MDT's name. One that was not read stays where it is; one that is not followed is a
        reason to scan again.
    """
    followed = {mdt.mdt for mdt in mdts}
    new = [
        FollowedMdt(name, "", 0, 0, stale=("it was added after the scan",))
        for name in sorted(seen.keys() - followed)
    ]
    after = [_followed_on(mdt, seen[mdt.mdt]) if mdt.mdt in seen else mdt for mdt in mdts]
    records = [record for reading in seen.values() for record in reading.records]
    return Decision(
        mdts=(*after, *new),
        look=frozenset(fid for record in records for fid in _concerned(record)),
        # A file with several names keeps its identifier until the last of them is moved.
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
    """Yield what may be cleared now that the marks of an index are on stable storage.

    Never below what was cleared before: until 2.17.57 an MDT then removed the user, and every
    later one.
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
    """Return which files to look at once more in the next round, and how often that was tried.

    Parameters
    ----------
    looked
        Files that records named. Between the look and the clearing that follows it, a further
        change of attributes of such a file may leave no record, so the look is repeated.
    tried
        What was looked at again in this round.
    unknown
        Files that could not be looked at, or whose directory could not, and directories of which
        it is not known what lies in them.
    """
    again = dict.fromkeys(looked, 0)
    again.update({fid: tried.get(fid, 0) + 1 for fid in unknown})
    return again


def _concerned(record: Record) -> Iterator[bytes]:
    """Yield the files whose rows may be others: a change of a directory moves its own times."""
    for fid in (record.target, record.parent, record.source, record.source_parent):
        if fid is not None:
            yield fid


def _moved(record: Record) -> bytes | None:
    if record.type == RecordType.RENAME:
        return record.source
    return record.target if record.type == RecordType.MIGRATE else None


def _followed_on(mdt: FollowedMdt, seen: Seen) -> FollowedMdt:
    stale = list(mdt.stale)
    mark = mdt.mark
    user = seen.users.named(mdt.user)
    due = mdt.due
    if user is None:
        stale.append(f"its changelog user {mdt.user or 'for Trimtab'} is gone")
    elif user.index > mark:
        stale.append(f"somebody cleared records up to {user.index} for {mdt.user}")
        mark = user.index
    elif seen.users.index < mark:
        # Removed and made anew, it numbers records and users from the beginning.
        stale.append(f"its changelog was begun anew: there is no record {mark}")
        mark = user.index
    elif user.index == mark:
        due = False
    if unwritten := sorted(NEEDED - seen.users.mask):
        stale.append(f"records of {', '.join(unwritten)} are not written")
    records = {record.index: record for record in seen.records if record.index > mark}
    if any(record.mark & (STARTED | STOPPED) for record in records.values()):
        stale.append("recording was switched off for a time")
    mark, missing = _advanced(mark, sorted(records), seen)
    if missing is not None and missing == mdt.missing:
        stale.append(f"record {missing} is not there")
        mark, missing = max([*records, seen.users.index if seen.ended else 0, mark]), None
    due = due or any(record.type != RecordType.MARK for record in records.values())
    return replace(mdt, mark=mark, due=due, missing=missing, stale=tuple(dict.fromkeys(stale)))


def _advanced(mark: int, indices: Sequence[int], seen: Seen) -> tuple[int, int | None]:
    """Return up to which record all are there, and the one that is not.

    Records may have been written in another order than they are numbered in (before 2.14), so
    one that is missing is waited for until the next reading.
    """
    for index in indices:
        if index != mark + 1:
            return mark, mark + 1
        mark = index
    return mark, mark + 1 if seen.ended and mark < seen.users.index else None

"""What records ask for, how far they reach, what is cleared: exact, without any Lustre."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

from tests.support.each import for_each

from trimtab.purge.follow.follow_decision import (
    HEARTBEAT_S,
    Clear,
    SeenChangelog,
    clears,
    decide,
    look_again,
)
from trimtab.purge.index.manifest import FollowedMdt
from trimtab.reach.lustre.changelog import (
    NEEDED,
    STARTED,
    ChangelogUser,
    ChangelogUsers,
    Record,
    RecordType,
)

MDT = FollowedMdt("MDT0000", "cl2-trimtab", 10, 5)


def fid(number: int) -> bytes:
    return struct.pack(">QII", 0x2_0000_0402, number, 0)


def users(cleared: int = 10, *, index: int = 10, idle_s: int = 0, **others: int) -> ChangelogUsers:
    listed = (
        ChangelogUser("cl2-trimtab", cleared, idle_s),
        *(ChangelogUser(name, at, 0) for name, at in others.items()),
    )
    return ChangelogUsers(index, listed, NEEDED)


def close(index: int, file: int = 1) -> Record:
    return Record(index, RecordType.CLOSE, 0, fid(file), None)


def after(records: Sequence[Record], mdt: FollowedMdt = MDT, **seen: object) -> FollowedMdt:
    number = max([10, *(record.index for record in records)])
    what = SeenChangelog(users(index=number), tuple(records), **seen)  # type: ignore[arg-type]
    return decide([mdt], {"MDT0000": what}).mdts[0]


def test_every_file_that_a_record_names_is_looked_at() -> None:
    rename = Record(11, RecordType.RENAME, 0, fid(1), fid(2), b"a", fid(3), fid(4), b"b")
    decision = decide([MDT], {"MDT0000": SeenChangelog(users(index=11), (rename,))})
    assert decision.look == {fid(number) for number in (1, 2, 3, 4)}
    assert (decision.mdts[0].mark, decision.mdts[0].due) == (11, True)
    assert decision.walk == frozenset(), "the scan had ended"


def test_what_was_moved_while_the_scan_ran_is_walked() -> None:
    mdt = replace(MDT, scanned=12)
    rename = Record(12, RecordType.RENAME, 0, None, fid(2), b"a", fid(3), fid(4), b"b")
    migration = Record(11, RecordType.MIGRATE, 0, fid(5), fid(2), b"c", fid(6), fid(2), b"c")
    decision = decide([mdt], {"MDT0000": SeenChangelog(users(index=12), (migration, rename))})
    assert decision.walk == {fid(3), fid(5)}
    assert decision.migrated == {fid(5): fid(6)}


def test_a_file_whose_identifier_stayed_was_not_migrated_from_itself() -> None:
    """One of its names was moved; whoever looked for what it was before would never end."""
    moved = Record(11, RecordType.MIGRATE, 0, fid(5), fid(2), b"c", fid(5), fid(2), b"c")
    decision = decide([MDT], {"MDT0000": SeenChangelog(users(index=11), (moved,))})
    assert decision.migrated == {}
    assert fid(5) in decision.look


def test_records_of_before_the_mark_change_nothing() -> None:
    assert after([close(9), close(10), close(11), close(11)]).mark == 11
    assert after([close(9), close(10)]) == MDT


def test_records_out_of_order_are_taken_and_a_missing_one_is_waited_for_once() -> None:
    assert after([close(12), close(11)]).mark == 12
    first = after([close(11), close(13)])
    assert (first.mark, first.missing, first.stale) == (11, 12, ())
    found = after([close(12), close(13)], first)
    assert (found.mark, found.missing, found.stale) == (13, None, ())
    lost = after([close(13)], first)
    assert (lost.mark, lost.missing, lost.stale) == (13, None, ("record 12 is missing",))
    assert after([close(14)], lost).stale == lost.stale, "it stays so until somebody scans"


def test_a_log_that_ends_before_its_index_lacks_records() -> None:
    first = decide([MDT], {"MDT0000": SeenChangelog(users(index=12))}).mdts[0]
    assert (first.mark, first.missing) == (10, 11)
    assert (
        decide([MDT], {"MDT0000": SeenChangelog(users(index=12), ended=False)}).mdts[0].missing
        is None
    )
    lost = decide([first], {"MDT0000": SeenChangelog(users(index=12))}).mdts[0]
    assert (lost.mark, lost.stale) == (12, ("record 11 is missing",))


def test_a_user_that_is_gone_may_have_lost_changes() -> None:
    gone = ChangelogUsers(10, (ChangelogUser("cl2", 10, 0),), NEEDED)
    stale = decide([MDT], {"MDT0000": SeenChangelog(gone)}).mdts[0].stale
    assert stale == ("its changelog user cl2-trimtab is gone",)


def test_what_others_cleared_is_lost() -> None:
    mdt = decide([MDT], {"MDT0000": SeenChangelog(users(15, index=20), ended=False)}).mdts[0]
    assert mdt.stale == ("records up to 15 were cleared for cl2-trimtab by others",)
    assert mdt.mark == 15, "clearing below that would remove the user"


def test_recording_that_was_off_is_told_by_its_mark() -> None:
    mark = Record(11, RecordType.MARK, 0, None, None, mark=STARTED)
    assert after([mark]).stale == ("recording was off for a time",)
    assert after([replace(mark, mark=0x40000)]).stale == ()


def test_types_that_are_not_written_are_told() -> None:
    bare = replace(users(), mask=NEEDED - {"SATTR", "CLOSE"})
    stale = decide([MDT], {"MDT0000": SeenChangelog(bare)}).mdts[0].stale
    assert stale == ("record types CLOSE, SATTR are not enabled",)


def test_an_mdt_that_came_later_and_one_that_is_silent() -> None:
    decision = decide([MDT], {"MDT0001": SeenChangelog(users())})
    assert decision.mdts[0] == MDT
    assert decision.mdts[1].mdt == "MDT0001"
    assert decision.mdts[1].stale == ("added after the scan",)
    assert decide(decision.mdts, {"MDT0001": SeenChangelog(users())}).mdts[1].stale


@for_each(
    "mdt, at, expected",
    [
        (MDT, users(4), []),
        (replace(MDT, due=True), users(4), [Clear("MDT0000", 2, 10)]),
        (replace(MDT, due=True), users(10), []),
        (replace(MDT, due=True), users(11), []),
        (MDT, users(10, idle_s=HEARTBEAT_S), [Clear("MDT0000", 2, 10)]),
        (replace(MDT, mark=0), users(0, idle_s=HEARTBEAT_S), []),
        (replace(MDT, due=True, user="cl3-trimtab"), users(4), []),
    ],
)
def test_clearing_follows_the_mark_and_never_goes_back(
    mdt: FollowedMdt, at: ChangelogUsers, expected: list[Clear]
) -> None:
    """0 would clear everything there is; a mark alone is not worth one: each writes another."""
    assert list(clears([mdt], {"MDT0000": at})) == expected
    assert list(clears([mdt], {})) == []


def test_marks_alone_make_nothing_due() -> None:
    assert not after([Record(11, RecordType.MARK, 0, None, None, mark=0x40000)]).due
    assert after([close(11)]).due


def test_what_was_looked_at_is_looked_at_once_more() -> None:
    """A change between look and clearing may leave no record."""
    again = look_again(frozenset({b"a", b"b"}), {b"c": 3, b"d": 0}, frozenset({b"b", b"c"}))
    assert again == {b"a": 0, b"b": 1, b"c": 4}

"""What records ask for, what is cleared, and where files are: exact, without any Lustre."""

from __future__ import annotations

import struct
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import for_each

from trimtab.base.action import Action, ActionKind, Instruction, Outcome
from trimtab.base.error import Message
from trimtab.purge.follow_decision import (
    HEARTBEAT_S,
    Clear,
    Decision,
    SeenChangelog,
    clears,
    decide,
    look_again,
)
from trimtab.purge.index.manifest import FollowedMdt
from trimtab.purge.lustre_changes import place
from trimtab.purge.registration import decide as decide_users
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


def seen(mdt: FollowedMdt = MDT, *records: Record, **more: Any) -> Decision:
    """Return what is decided once records were seen; ``users`` and ``ended`` may be said."""
    number = max([10, *(record.index for record in records)])
    what = SeenChangelog(more.pop("users", users(index=number)), records, **more)
    return decide([mdt], {"MDT0000": what})


def after(*records: Record, mdt: FollowedMdt = MDT, **more: Any) -> FollowedMdt:
    """Return what is known of the MDT then."""
    return seen(mdt, *records, **more).mdts[0]


def test_every_file_that_a_record_names_is_looked_at() -> None:
    rename = Record(11, RecordType.RENAME, 0, fid(1), fid(2), b"a", fid(3), fid(4), b"b")
    decision = seen(MDT, rename)
    assert decision.look == {fid(number) for number in (1, 2, 3, 4)}
    assert (decision.mdts[0].mark, decision.mdts[0].due) == (11, True)
    assert decision.walk == frozenset(), "the scan had ended"


def test_what_was_moved_while_the_scan_ran_is_walked() -> None:
    rename = Record(12, RecordType.RENAME, 0, None, fid(2), b"a", fid(3), fid(4), b"b")
    migration = Record(11, RecordType.MIGRATE, 0, fid(5), fid(2), b"c", fid(6), fid(2), b"c")
    decision = seen(replace(MDT, scanned=12), migration, rename)
    assert decision.walk == {fid(3), fid(5)}
    assert decision.migrated == {fid(5): fid(6)}


def test_a_file_whose_identifier_stayed_was_not_migrated_from_itself() -> None:
    """One of its names was moved; whoever looked for what it was before would never end."""
    decision = seen(
        MDT, Record(11, RecordType.MIGRATE, 0, fid(5), fid(2), b"c", fid(5), fid(2), b"c")
    )
    assert decision.migrated == {}
    assert fid(5) in decision.look


def test_records_of_before_the_mark_change_nothing() -> None:
    assert after(close(9), close(10), close(11), close(11)).mark == 11
    assert after(close(9), close(10)) == MDT


def test_records_out_of_order_are_taken_and_a_missing_one_is_waited_for_once() -> None:
    assert after(close(12), close(11)).mark == 12
    first = after(close(11), close(13))
    assert (first.mark, first.missing, first.stale) == (11, 12, ())
    found = after(close(12), close(13), mdt=first)
    assert (found.mark, found.missing, found.stale) == (13, None, ())
    lost = after(close(13), mdt=first)
    assert (lost.mark, lost.missing, lost.stale) == (13, None, ("record 12 is missing",))
    assert after(close(14), mdt=lost).stale == lost.stale, "it stays so until somebody scans"


def test_a_log_that_ends_before_its_index_lacks_records() -> None:
    longer = users(index=12)
    first = after(users=longer)
    assert (first.mark, first.missing) == (10, 11)
    assert after(users=longer, ended=False).missing is None
    lost = after(mdt=first, users=longer)
    assert (lost.mark, lost.stale) == (12, ("record 11 is missing",))


@for_each(
    "at, stale",
    [
        (
            ChangelogUsers(10, (ChangelogUser("cl2", 10, 0),), NEEDED),
            "its changelog user cl2-trimtab is gone",
        ),
        (
            replace(users(), mask=NEEDED - {"SATTR", "CLOSE"}),
            "record types CLOSE, SATTR are not enabled",
        ),
    ],
)
def test_a_log_that_may_lack_changes_is_stale(at: ChangelogUsers, stale: str) -> None:
    assert after(users=at).stale == (stale,)


def test_what_others_cleared_is_lost() -> None:
    mdt = after(users=users(15, index=20), ended=False)
    assert mdt.stale == ("records up to 15 were cleared for cl2-trimtab by others",)
    assert mdt.mark == 15, "clearing below that would remove the user"


def test_recording_that_was_off_is_told_by_its_mark() -> None:
    mark = Record(11, RecordType.MARK, 0, None, None, mark=STARTED)
    assert after(mark).stale == ("recording was off for a time",)
    other = after(replace(mark, mark=0x40000))
    assert (other.stale, other.due) == ((), False), "marks alone make nothing due"
    assert after(close(11)).due


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


def test_what_was_looked_at_is_looked_at_once_more() -> None:
    """A change between look and clearing may leave no record."""
    again = look_again(frozenset({b"a", b"b"}), {b"c": 3, b"d": 0}, frozenset({b"b", b"c"}))
    assert again == {b"a": 0, b"b": 1, b"c": 4}


ROOT = struct.pack(">QII", 0x2_0000_0007, 1, 0)


def test_paths_follow_from_directories() -> None:
    names = {
        fid(1): [(ROOT, b"a")],
        fid(2): [(fid(1), b"b\n")],
        fid(3): [(fid(2), b"file"), (ROOT, b"other name")],
    }
    places = place(names, (), ROOT)
    assert places.directories == {ROOT: b"", fid(1): b"a", fid(2): b"a/b\n"}
    assert (places.missing, places.nowhere) == (frozenset(), frozenset())


def test_a_directory_that_was_not_looked_at_is_missing_and_one_that_is_gone_leads_nowhere() -> None:
    names = {fid(3): [(fid(2), b"file")], fid(4): [(fid(5), b"file")]}
    places = place(names, {fid(5)}, ROOT)
    assert places.missing == {fid(2)}
    assert places.nowhere == {fid(4)}


def test_directories_that_were_moved_while_they_were_looked_at_lead_nowhere() -> None:
    """Each was seen in the other: that never was so at one time."""
    names = {fid(1): [(fid(2), b"a")], fid(2): [(fid(1), b"b")], fid(3): [(fid(2), b"file")]}
    assert place(names, (), ROOT).nowhere == {fid(1), fid(2), fid(3)}
    names = {fid(1): [(ROOT, b"a"), (ROOT, b"b")], fid(3): [(fid(1), b"file")]}
    assert place(names, (), ROOT).nowhere == {fid(3)}


def test_a_stripe_of_a_directory_is_the_directory() -> None:
    stripe = [(fid(1), b"[0x200000402:0x2:0x0]:1")]
    names = {fid(1): [(ROOT, b"wide")], fid(2): stripe, fid(3): [(fid(2), b"file")]}
    assert place(names, (), ROOT, {fid(2)}).directories[fid(2)] == b"wide"
    named = place(names, (), ROOT).directories[fid(2)]
    assert named == b"wide/[0x200000402:0x2:0x0]:1", "a name that somebody chose"


@given(st.dictionaries(st.integers(0, 6), st.integers(0, 7), max_size=7))
def test_every_file_is_placed_or_told_why_not(parents: dict[int, int]) -> None:
    names = {
        fid(number): [(ROOT if parent == 0 else fid(parent), b"%d" % number)]
        for number, parent in parents.items()
        if number
    }
    places = place(names, (), ROOT)
    for file, [(parent, _)] in names.items():
        above, seen = parent, {file}
        while above in names and above not in seen:
            seen.add(above)
            above = names[above][0][0]
        assert (parent in places.directories) == (above == ROOT)
        assert (file in places.nowhere) == (above in seen)


NOW = datetime(2026, 11, 1, tzinfo=UTC)


def registration(mdt: str, outcome: Outcome | None, found: str | None) -> Action:
    instruction = Instruction(ActionKind.REGISTER, mdt, Message("reason", "why"), "mds1")
    return Action(
        "1", "site", "changelogs", "plan", "root@host", NOW, instruction, NOW, outcome, found
    )


@pytest.mark.parametrize(
    ("action", "removed"),
    [
        (registration("MDT0000", Outcome.DONE, "cl4-trimtab"), True),
        (registration("MDT0000", Outcome.NOT_STORED, "cl4-trimtab"), True),
        (registration("MDT0000", Outcome.UNKNOWN, None), True),
        (registration("MDT0000", None, None), True),
        (registration("MDT0000", Outcome.REFUSED, None), False),
        (registration("MDT0000", Outcome.DONE, "cl2-trimtab"), False),
        (registration("MDT0001", Outcome.DONE, "cl4-trimtab"), False),
    ],
)
def test_a_user_is_removed_only_if_the_ledger_may_have_registered_it(
    action: Action, removed: bool
) -> None:
    users = (ChangelogUser("cl1", 3, 1), ChangelogUser("cl4-trimtab", 3, 1))
    servers = {"mds1": {"MDT0000": ChangelogUsers(9, users, frozenset())}}
    plan = decide_users("site", "scratch", servers, (), NOW, registered=False, ledger=[action])
    assert [each.before for each in plan.instructions] == ["cl4-trimtab"] * removed
    codes = [] if removed else ["changelog-user-foreign"]
    assert [each.reason.code for each in plan.untouched] == codes

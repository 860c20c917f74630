"""Every guard: silent where all is well, and objecting to exactly what it is there for."""

from dataclasses import replace
from typing import Any

from tests.purge.run.world import (
    DAY_S,
    EXT4,
    NOW_S,
    candidates,
    file_system,
    policy,
    publication,
    situation,
    time_of,
    with_plan,
    with_planned,
)
from tests.support.each import for_each
from tests.support.narrow import present

from trimtab.base.error import Message
from trimtab.purge.fullness import Usage
from trimtab.purge.index.manifest import FileSystemIdentity
from trimtab.purge.purge_policy import Arming, RunCaps
from trimtab.purge.run.rows import Spent
from trimtab.purge.run.run_guard import EACH_BATCH, GUARDS, IN_DRY_RUN, TO_RECOVER, objections
from trimtab.purge.run.situation import (
    SWITCH_UNREADABLE,
    SWITCH_WITHOUT_DIRECTORY,
    AllowList,
    ArmedBy,
    ArmingFacts,
    CanaryFacts,
    RootFacts,
    ServerClock,
)

GOOD = situation()
ALICE, BOB = ArmedBy(NOW_S - 3600, 1001, "alice"), ArmedBy(NOW_S - 60, 1002, "bob")
STRANGER = ArmedBy(NOW_S - 60, None)
SECOND = policy(arming=Arming("second-person"))
NOATIME = {"mount options": "noatime"}
OTHER = replace(EXT4, fsid=78)
USED_UP = "is used up by deletions of the last 20.0 h"
LATE = ServerClock("mds1", NOW_S + 100, NOW_S - 2, NOW_S)
OTHER_ROOT = AllowList(None, frozenset({b"/other"}))
CAPPED = policy(caps=RunCaps(files=10, bytes=1000, user_fraction=None, filesystem_fraction=None))


def armed(*who, trouble=None, **changes):
    return situation(arming=ArmingFacts(trouble, who), **changes)


def published(*times, **other_times):
    return with_planned(GOOD, publication=publication(*times, **other_times))


def made(at_s, scanned_s):
    return with_plan(GOOD, made_at=time_of(at_s), index={"ended_at": time_of(scanned_s)})


def listing(candidates, **changes):
    return with_planned(with_plan(GOOD, candidates=candidates), **changes)


def canary(at_s, before_s=NOW_S - 1.0, after_s=NOW_S):
    return situation(canary=CanaryFacts(None, at_s, before_s, after_s))


def rooted(**changes):
    return situation(root=replace(GOOD.root, **changes))


def guards(now):
    return [objection.guard for objection in objections(now)]


BAD = [
    ("published", with_planned(GOOD, publication=None), "never published"),
    ("published", published(not_before_s=NOW_S + 7200), "lasts another 2.0 h"),
    ("published", published(NOW_S - 13 * DAY_S), "lasts another 1.0 d"),
    ("made", made(NOW_S + 61, scanned_s=NOW_S), "61.0 s in the future"),
    ("valid", with_plan(GOOD, expires_at=time_of(NOW_S)), "expired 0.0 s ago"),
    ("signature", with_planned(GOOD, signature="the plan was changed"), "was changed"),
    ("policy", with_planned(GOOD, changes=("mtime no longer counts",)), "mtime no longer"),
    ("allow-list", situation(allow_list=OTHER_ROOT), "not in the allow-list"),
    ("allow-list", situation(allow_list=AllowList("it belongs to user 7")), "user 7"),
    ("allow-list", with_plan(GOOD, file_system={"root": "/other"}), "the policy for /scratch"),
    ("allow-list", with_plan(GOOD, file_system={"root": "/scratch/"}), "the policy for /scratch"),
    ("armed", armed(), "not armed"),
    ("armed", armed(ALICE), "may be carried out in 23.0 h"),
    ("armed", armed(ALICE, BOB), "may be carried out in 23.0 h"),
    ("armed", armed(replace(ALICE, at_s=NOW_S + 1)), "in the future"),
    ("armed", armed(ALICE, trouble="it is open to others"), "open to others"),
    ("armed", armed(ALICE, policy=SECOND), "no second person"),
    ("armed", armed(ALICE, ALICE, policy=SECOND), "no second person"),
    ("armed", armed(ALICE, STRANGER, policy=SECOND), "no second person"),
    ("kill-switch", situation(kill_switch="the switch is pulled"), "pulled"),
    ("mount", rooted(trouble="no such directory"), "no such"),
    ("mount", rooted(read_only=True), "read-only"),
    ("mount", rooted(file_system=OTHER), "another file system is mounted: ext4 /dev/md0"),
    ("mount", rooted(file_system=replace(EXT4, kind="tmpfs")), "tmpfs"),
    ("mount", rooted(file_system=None), "unknown"),
    ("atime", rooted(atime_settings=NOATIME), "mount options from relatime to noatime"),
    ("atime", rooted(atime_settings=None), "recording of reads unknown"),
    ("atime", with_plan(GOOD, index={"atime_settings": None}), "recording of reads unknown"),
    ("index", with_plan(GOOD, index={"obstacles": ("a subtree",)}), "a subtree"),
    (
        "index-age",
        made(NOW_S - 20 * DAY_S, scanned_s=NOW_S - 28 * DAY_S),
        "8.0 d old when the plan was made; at most 7.0 d",
    ),
    ("index-age", made(NOW_S - 1, scanned_s=NOW_S), "later than the plan"),
    ("clocks", canary(NOW_S + 61), "the file system by 61.0 s"),
    ("clocks", canary(NOW_S - 62), "the file system by 61.0 s"),
    ("clocks", situation(clocks=(LATE,)), "mds1 by 100.0 s"),
    ("usage", situation(usage=None), "usage of the file system unknown"),
    ("jump", listing(candidates(4501, 1)), "from 1,500 to 4,501 files"),
    ("jump", listing(candidates(1, 7 * 2**30)), "from 2.00 GiB to 7.00 GiB"),
    ("jump", listing(candidates(3001, 1), previous=candidates(0, 0)), "from 0 to"),
    ("caps", situation(policy=CAPPED, spent=Spent(10, 5)), f"10 files {USED_UP}"),
    ("caps", situation(policy=CAPPED, spent=Spent(1, 1000)), f"1000 B {USED_UP}"),
    ("root-user", situation(root_user=False), "does not run as root"),
    ("space", situation(keeps_deleted="a trash can is on"), "trash can"),
    ("exempt", with_planned(GOOD, exempt_troubles=("keep is listed as Keep",)), "listed as Keep"),
    ("leftovers", situation(leftovers=("a run of plan b was interrupted",)), "plan b was"),
    ("maintenance", situation(maintenance="scratch is in maintenance: x"), "in maintenance"),
    ("journal", situation(journal_trouble="it lies beneath the root"), "beneath"),
]


def test_where_all_is_well_no_guard_objects():
    assert objections(GOOD) == ()


@for_each("guard, now, reason", BAD, ids=[f"{g}-{r}" for g, _, r in BAD])
def test_each_guard_objects_to_what_it_is_there_for_and_no_other_does(guard, now, reason):
    (result,) = objections(now)
    assert result.guard == guard
    assert reason in result.reason
    assert result.hint


def test_no_canary_is_two_objections():
    assert guards(situation(canary=None)) == ["canary", "clocks"]
    squashed = situation(canary=CanaryFacts("root is squashed"))
    assert objections(squashed)[0].reason == "root is squashed"


def test_the_root_directory_is_never_purged_whatever_the_list_says():
    for root in ("/", "//"):
        allowed = AllowList(None, frozenset({b"/", b"//", b""}))
        now = situation(policy=policy(root=root), allow_list=allowed)
        (result,) = objections(with_plan(now, file_system={"root": root}))
        assert (result.guard, "never purged" in result.reason) == ("allow-list", True)


def test_all_that_is_wrong_is_told_at_once():
    now = with_planned(
        situation(root_user=False, kill_switch="pulled", usage=None),
        publication=None,
        signature="bad",
    )
    assert guards(now) == ["kill-switch", "root-user", "signature", "published", "usage"]


def test_every_guard_is_tried_here():
    assert {guard.name for guard in GUARDS} == {name for name, _, _ in BAD} | {"canary"}


def test_what_is_fine_stays_fine():
    fine = [
        armed(ALICE, BOB, policy=SECOND),
        armed(replace(ALICE, at_s=NOW_S - DAY_S)),
        armed(replace(ALICE, at_s=NOW_S - DAY_S), BOB, policy=policy(arming=Arming("delay"))),
        listing(candidates(10**9, 2**60), previous=None),
        listing(candidates(3000, 3 * 2**30), previous=candidates(0, 0)),
        canary(NOW_S + 60),
        canary(NOW_S - 61),
        rooted(file_system=replace(EXT4, device=9, name="other")),
        with_plan(GOOD, horizon={"target": 0.6}),
        situation(usage=Usage(1, 99)),
        situation(policy=CAPPED, spent=Spent(9, 999)),
    ]
    assert [objections(now) for now in fine] == [()] * len(fine)


def test_on_lustre_the_name_says_which_file_system_it_is():
    scratch = FileSystemIdentity("lustre", "scratch", 1, 2)
    now = with_plan(rooted(file_system=scratch), file_system=file_system(scratch))
    assert objections(now) == ()
    home = replace(GOOD.root, file_system=replace(scratch, name="home"))
    (result,) = objections(replace(now, root=home))
    assert "lustre home instead of lustre scratch" in result.reason


def test_a_file_system_without_an_identity_is_the_same_only_while_it_stays_mounted():
    fuse = FileSystemIdentity("fuse.store", "store", 0, mount="boot 7")

    def held(now_mounted: FileSystemIdentity, planned: FileSystemIdentity = fuse) -> list[str]:
        now = rooted(file_system=now_mounted)
        return guards(with_plan(now, file_system=file_system(planned)))

    assert held(fuse) == []
    changes: list[dict[str, Any]] = [
        {"mount": "boot 8"},
        {"mount": "other 7"},
        {"mount": None},
        {"name": "other"},
        {"name": None},
        {"fsid": None, "mount": "boot 8"},
    ]
    for change in changes:
        other = replace(fuse, **change)
        assert held(other) == held(fuse, other) == ["mount"], other
    assert held(replace(fuse, mount=None), replace(fuse, mount=None)) == ["mount"]


def test_a_uuid_says_more_than_a_number_and_neither_is_overruled():
    xfs = FileSystemIdentity("xfs", "/dev/sdb1", None, uuid="a", mount="boot 1")
    assert xfs.is_same(replace(xfs, name="/dev/sdc1", mount="boot 2"))
    assert not xfs.is_same(replace(xfs, uuid="b"))
    assert not xfs.is_same(replace(xfs, uuid=None, mount="boot 2"))
    # A subvolume of the same btrfs has its UUID and another f_fsid.
    btrfs = replace(xfs, kind="btrfs", fsid=5)
    assert btrfs.is_same(replace(btrfs, mount="boot 2"))
    assert not btrfs.is_same(replace(btrfs, fsid=6))
    assert xfs.may_be_same(replace(xfs, uuid=None, mount=None))


def test_hostile_names_are_shown_harmless():
    evil = replace(EXT4, name="a\x1b[2J", fsid=1)
    (result,) = objections(situation(root=RootFacts(None, evil, atime_settings={})))[:1]
    assert "\x1b" not in result.reason


def test_the_target_is_the_higher_of_plan_and_policy():
    assert situation(policy=policy(target=0.8)).target == 0.8
    assert situation(policy=policy(target=None, target_ost=0.75)).target == 0.7
    of_pools = policy(target=None, target_pool=(("flash", 0.75),))
    assert situation(policy=of_pools).target == 0.7


def test_caps_are_made_absolute():
    caps = RunCaps(files=7, bytes=2**40, user_fraction=0.25, filesystem_fraction=0.05)
    held = candidates(5, 5, {1: 400, 2: None})
    now = with_plan(situation(policy=policy(caps=caps)), candidates=held)
    allowance = now.allowance
    assert (allowance.files, allowance.bytes) == (7, 5 * 2**30)
    assert (allowance.of_user(1), allowance.user_bytes) == (100, {1: 400})
    assert replace(now, usage=None).allowance.bytes == 0


def test_which_guards_are_asked_when():
    def names(some):
        return {guard.name for guard in some}

    # Before every batch: what may change on the way.
    each_batch = {"kill-switch", "mount", "published", "made", "valid", "atime"}
    assert names(EACH_BATCH) == each_batch
    # In a dry run: all but what would change something.
    assert names(set(GUARDS) - set(IN_DRY_RUN)) == {"canary", "clocks"}
    # Files that were moved aside do not wait for a plan that has expired.
    to_recover = {"root-user", "signature", "allow-list", "mount", "journal"}
    assert names(TO_RECOVER) == to_recover


def test_a_switch_that_is_not_there_is_not_to_be_removed():
    hints = {}
    for code in ("switch-pulled", SWITCH_WITHOUT_DIRECTORY, SWITCH_UNREADABLE):
        (objection,) = objections(situation(kill_switch=Message(code, "a reason")), GUARDS[:1])
        hints[code] = present(objection.hint)
    assert hints.pop("switch-pulled").startswith("remove")
    assert not any("remove" in hint for hint in hints.values())

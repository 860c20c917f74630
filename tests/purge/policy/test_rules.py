"""What rules a policy comes to and why, and which policy may take the place of another.

An exempt path that keeps nothing is told before: not there, a link, listed in another form.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.purge.policy.policies import policies
from tests.support import loopback
from tests.support.codes import raises
from tests.support.each import for_each
from tests.support.manifests import manifest

from trimtab.base.error import RefusedError, UsageError
from trimtab.purge import rules_in_force as rules_module
from trimtab.purge.index.manifest import Lack, TimeTrust
from trimtab.purge.purge_policy import (
    DAY_S,
    WEEK_S,
    Arming,
    Exemption,
    Guards,
    Policy,
    RunCaps,
    is_at_or_under,
    loosened,
)
from trimtab.purge.root_facts import (
    FoundPath,
    Look,
    look_beneath,
    path_troubles,
    require_exempt_paths,
)
from trimtab.purge.rules_in_force import ReadRecording, RulesInForce, rules_in_force

NOW_S = int(datetime(2026, 11, 22, 12, 34, 56, tzinfo=UTC).timestamp())
INDEX = manifest("/scratch", NOW_S - 3600)
RECORDED = ReadRecording(declared=True)
USUAL = Policy("scratch", "/scratch", target=0.7)


def rules_of(policy=USUAL, index=INDEX, reads=RECORDED) -> RulesInForce:
    return rules_in_force(policy, index, reads, now_s=NOW_S)


def test_where_reads_are_recorded_all_three_times_count() -> None:
    rules = rules_of()
    assert (rules.counted, rules.reads_count) == (("atime", "mtime", "ctime"), True)
    assert rules.minimum_age_s == 8 * WEEK_S
    assert rules.old_enough_before_s == (INDEX.as_of_s - 8 * WEEK_S) // 3600 * 3600
    assert any("Reading a file extends its life" in word for word in rules.words)


@pytest.mark.parametrize(
    ("reads", "why"),
    [
        (ReadRecording(), "does not declare"),
        (ReadRecording(declared=True, unrecorded=("login",)), "through login are not recorded"),
        (
            ReadRecording(declared=True, unchecked=("a", "b")),
            "could not be checked whether a and b record reads",
        ),
    ],
)
def test_elsewhere_reads_do_not_count_and_the_age_doubles(reads: ReadRecording, why: str) -> None:
    rules = rules_of(reads=reads)
    assert (rules.counted, rules.reads_count) == (("mtime", "ctime"), False)
    assert rules.minimum_age_s == 16 * WEEK_S
    assert rules.old_enough_before_s == (INDEX.as_of_s - 16 * WEEK_S) // 3600 * 3600
    text = " ".join(rules.words)
    assert "Reading a file does not extend its life" in text
    assert why in text
    assert "doubled because reads do not count" in text


def test_a_policy_without_reads_doubles_the_age_too() -> None:
    policy = replace(USUAL, counted=("mtime", "ctime"))
    rules = rules_of(policy)
    assert rules.minimum_age_s == 16 * WEEK_S
    assert any("Reading a file does not extend its life" in word for word in rules.words)


def test_nothing_is_old_where_nothing_counts() -> None:
    policy = replace(USUAL, counted=("atime",))
    with raises(RefusedError, "reads-only"):
        rules_of(policy, reads=ReadRecording())


def test_ages_are_counted_from_the_index_and_to_the_hour() -> None:
    old = replace(INDEX, ended_ns=(NOW_S - 5 * 86400) * 10**9)
    rules = rules_of(index=old)
    assert (rules.as_of_s, rules.old_enough_before_s % 3600) == (old.as_of_s, 0)
    assert rules.old_enough_before_s <= old.as_of_s - 8 * WEEK_S


def test_a_clock_that_is_a_little_ahead_is_no_error() -> None:
    ahead = replace(INDEX, ended_ns=(NOW_S + 30) * 10**9)
    assert rules_of(index=ahead).as_of_s == NOW_S
    with raises(UsageError, "clocks-disagree"):
        rules_of(index=replace(INDEX, ended_ns=(NOW_S + 61) * 10**9))


def test_an_index_of_something_else_is_refused() -> None:
    with raises(UsageError, "root-mismatch"):
        rules_of(index=replace(INDEX, root=b"/other"))


@pytest.mark.parametrize(
    ("lack", "exemption"),
    [
        (Lack.ACCESS, None),
        (Lack.MODIFICATION, None),
        (Lack.CHANGE, None),
        (Lack.PROJECT, Exemption("project", 3)),
        (Lack.GROUP, Exemption("group", 3)),
    ],
)
def test_an_index_that_lacks_what_counts_is_refused(
    lack: Lack, exemption: Exemption | None
) -> None:
    policy = replace(USUAL, exemptions=() if exemption is None else (exemption,))
    index = replace(INDEX, lacking=frozenset({lack}))
    with pytest.raises(UsageError, match=f"lacks the {lack.value}"):
        rules_of(policy, index)
    if exemption is not None:
        over = replace(exemption, until=date(2026, 1, 1))
        rules_of(replace(USUAL, exemptions=(over,)), index)


def test_without_reads_an_index_without_access_times_serves() -> None:
    index = replace(INDEX, lacking=frozenset({Lack.ACCESS}))
    assert rules_of(index=index, reads=ReadRecording()).counted == ("mtime", "ctime")


def test_exemptions_are_those_in_force() -> None:
    policy = replace(
        USUAL,
        exemptions=(
            Exemption("path", b"b"),
            Exemption("path", b"a"),
            Exemption("path", b"a"),
            Exemption("user", 7, date(2026, 11, 22)),
            Exemption("user", 8, date(2026, 11, 21), name="carol"),
            Exemption("group", 9),
            Exemption("project", 10),
        ),
    )
    rules = rules_of(policy)
    assert (rules.exempt_paths, rules.exempt_users) == ((b"a", b"b"), (0, 7))
    assert (rules.exempt_groups, rules.exempt_projects) == ((9,), (10,))
    assert rules.expired == (policy.exemptions[4],)
    assert "1 exemption expired." in rules.words
    assert not any("carol" in sentence for sentence in rules.words)
    assert rules_of(replace(policy, keep_root_files=False)).exempt_users == (7,)


def test_a_policy_in_any_order_exempts_everybody_it_names() -> None:
    ids = (900, 7, 30, 7, 1, 500)
    kinds = ("user", "group", "project")
    exemptions = tuple(Exemption(kind, number) for number in ids for kind in kinds)
    rules = rules_of(replace(USUAL, exemptions=exemptions))
    assert rules.exempt_users == (0, 1, 7, 30, 500, 900)
    assert rules.exempt_groups == rules.exempt_projects == (1, 7, 30, 500, 900)


def test_what_the_index_cannot_tell_is_said() -> None:
    index = replace(INDEX, lacking=frozenset({Lack.LINKS}), times=TimeTrust.MDS_ONLY)
    text = " ".join(rules_of(index=index).words)
    assert "has no link counts" in text
    assert "metadata server" in text


@pytest.mark.calibration
@given(policies(), st.booleans(), st.integers(0, 10**6))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_rules_are_never_looser_than_the_policy(policy: Policy, declared: bool, age_s: int) -> None:
    assume(declared or policy.counted != ("atime",))
    index = replace(INDEX, ended_ns=(NOW_S - age_s) * 10**9)
    rules = rules_of(policy, index, ReadRecording(declared=declared))
    assert rules.old_enough_before_s <= NOW_S - policy.minimum_age_s
    assert rules.minimum_size_bytes == policy.minimum_size_bytes
    assert rules.linked == (policy.linked_files == "delete")
    assert set(rules.exemptions) | set(rules.expired) == set(policy.exemptions)
    for exemption in rules.exemptions:
        assert exemption.value in getattr(rules, f"exempt_{exemption.kind}s")
    assert list(rules.exempt_users) == sorted(set(rules.exempt_users))
    assert all(word.isprintable() for word in rules.words)


def test_the_rules_module_reads_no_clock() -> None:
    source = inspect.getsource(rules_module)
    assert "now()" not in source
    assert "import time" not in source


def test_an_exemption_holds_to_the_end_of_its_last_day() -> None:
    one = Exemption("user", 1, date(2026, 11, 22))
    end_s = int(datetime(2026, 11, 23, tzinfo=UTC).timestamp())
    assert one.is_in_force(end_s - 1)
    assert not one.is_in_force(end_s)
    assert Exemption("user", 1).is_in_force(2**35)


def test_an_exemption_is_shown_harmlessly() -> None:
    named = Exemption("path", b"a\x1b[2J", name="/scratch/a\x1b[2J")
    assert named.shown == r"path /scratch/a\x1b[2J"
    assert Exemption("path", b"caf\xe9").shown == r"path caf\xe9"
    assert Exemption("path", b"").shown == "path /"
    assert Exemption("group", 7).shown == "group 7"


def test_a_component_is_whole() -> None:
    for path, top in ((b"a/b", b"a"), (b"a", b"a"), (b"a", b"")):
        assert is_at_or_under(path, top)
    for path, top in ((b"ab", b"a"), (b"a", b"a/b")):
        assert not is_at_or_under(path, top)


@given(policies())
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
def test_a_policy_is_not_looser_than_itself(policy: Policy) -> None:
    assert loosened(policy, policy, at_s=NOW_S) == ()


@for_each(
    "change, why",
    [
        ({"root": "/other"}, "root is /other"),
        ({"target": 0.6}, "60.0 %"),
        ({"target": None, "target_ost": 0.75}, "target_ost"),
        ({"target": None, "target_pool": (("flash", 0.75),)}, "target_pool of flash falls to 75"),
        ({"counted": ("atime", "mtime")}, "ctime no longer counts"),
        ({"minimum_age_s": DAY_S}, "minimum age"),
        ({"minimum_size_bytes": 0}, "minimum size"),
        ({"exemptions": ()}, "no longer exempt"),
        ({"keep_root_files": False}, "root's files"),
        ({"open_files": "delete"}, "open files"),
        ({"linked_files": "delete"}, "linked files"),
        ({"notice_s": DAY_S}, "notice period"),
        ({"valid_s": 300 * DAY_S}, "valid"),
        ({"caps": RunCaps(files=10**9)}, "cap of files"),
        ({"caps": RunCaps(user_fraction=None)}, "cap of user_fraction"),
        ({"arming": Arming(delay_s=60)}, "arming"),
        ({"arming": Arming("second-person")}, "arming"),
        ({"guards": Guards(index_age_max_s=30 * DAY_S)}, "index_age"),
        ({"guards": Guards(settle_s=1)}, "wait"),
        ({"guards": Guards(kill_switch="/tmp/stop")}, "kill_switch"),
    ],
)
def test_what_is_looser_is_said(change: dict[str, object], why: str) -> None:
    before = replace(USUAL, minimum_size_bytes=4096, exemptions=(Exemption("user", 1),))
    (result,) = loosened(before, replace(before, **change), at_s=NOW_S)  # type: ignore[arg-type]
    assert why in result


@pytest.mark.parametrize(
    "change",
    [
        {"target": 0.8},
        {"minimum_age_s": 400 * DAY_S},
        {"minimum_size_bytes": 10**9},
        {"notice_s": 60 * DAY_S},
        {"valid_s": DAY_S},
        {"caps": RunCaps(files=1)},
        {"arming": Arming(delay_s=7 * DAY_S)},
        {"guards": Guards(jump_factor=1.5)},
        {"exemptions": (Exemption("path", b"a/b"), Exemption("user", 5))},
        {"exemptions": (Exemption("path", b"a"),)},
    ],
)
def test_what_keeps_more_may_take_its_place(change: dict[str, object]) -> None:
    before = replace(USUAL, exemptions=(Exemption("path", b"a/b"),))
    assert loosened(before, replace(before, **change), at_s=NOW_S) == ()  # type: ignore[arg-type]


def test_limits_of_pools_are_compared_one_by_one() -> None:
    before = replace(USUAL, target=None, target_pool=(("disk", 0.9), ("flash", 0.75)))

    def said(*limits: tuple[str, float]) -> tuple[str, ...]:
        return loosened(before, replace(before, target_pool=limits), at_s=NOW_S)

    assert said(("flash", 0.8)) == ()
    assert said(("disk", 0.9), ("flash", 0.7)) == (
        "target_pool of flash falls from 75.0 % to 70.0 %",
    )
    assert said(("disk", 0.9), ("flash", 0.75), ("x\x1b", 0.99)) == (
        r"target_pool of x\x1b falls to 99.0 %",
    )


def test_exemptions_are_compared_in_time() -> None:
    until, longer, ever, over = (
        replace(USUAL, exemptions=(Exemption("user", 1, until),))
        for until in (date(2027, 1, 1), date(2028, 1, 1), None, date(2020, 1, 1))
    )
    # What is over keeps nothing any more.
    for before, after in ((until, longer), (until, ever), (over, USUAL)):
        assert loosened(before, after, at_s=NOW_S) == ()
    for before, after in ((longer, until), (ever, longer)):
        assert len(loosened(before, after, at_s=NOW_S)) == 1


CAFE_HEX = b"/scratch/cafe".hex()


def policy_of(*paths: bytes, until: date | None = None) -> Policy:
    return Policy(
        "scratch", "/scratch", exemptions=tuple(Exemption("path", path, until) for path in paths)
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "kept" / "deep").mkdir(parents=True)
    (tmp_path / "kept" / "file").write_text("")
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkdir(os.fsencode(tmp_path) + b"/caf\xe9")  # noqa: PTH102 (bytes)
    return tmp_path


@pytest.mark.parametrize("path", [b"", b"kept", b"kept/deep", b"kept/file", b"caf\xe9"])
def test_what_is_there_is_no_trouble(root: Path, path: bytes) -> None:
    assert list(path_troubles(policy_of(path), look_beneath(root), now_s=NOW_S)) == []


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (b"gone", "exempt-path-missing"),
        (b"gone/deeper", "exempt-path-missing"),
        (b"kept/file/below", "exempt-path-missing"),
        (b"link", "exempt-path-link"),
        (b"link/deep", "exempt-path-link"),
        (b"dangling/x", "exempt-path-link"),
    ],
)
def test_what_keeps_nothing_is_told(root: Path, path: bytes, code: str) -> None:
    (trouble,) = path_troubles(policy_of(path), look_beneath(root), now_s=NOW_S)
    assert trouble.code == code
    with raises(RefusedError, code):
        require_exempt_paths(policy_of(path), look_beneath(root), now_s=NOW_S)


def test_what_is_over_and_other_exemptions_need_not_be_there(root: Path) -> None:
    over = policy_of(b"gone", until=date(2020, 1, 1))
    user = Policy("scratch", "/scratch", exemptions=(Exemption("user", 1),))
    for policy in (over, user):
        require_exempt_paths(policy, look_beneath(root), now_s=NOW_S)


def test_many_troubles_end(root: Path) -> None:
    many = policy_of(*(f"gone{number}".encode() for number in range(9)))
    with raises(RefusedError, "exempt-path-missing"):
        require_exempt_paths(many, look_beneath(root), now_s=NOW_S)


def looks(**listed: bytes) -> Look:
    """Return a look at a tree in which directories list some names otherwise."""

    def look(directory: bytes, names: Collection[bytes]) -> dict[bytes, FoundPath]:
        return {name: FoundPath("directory", listed.get(name.decode())) for name in names}

    return look


@pytest.mark.parametrize(
    ("path", "listed", "advice"),
    [
        (b"keep", {"keep": b"Keep"}, "write Keep"),
        (b"a/keep/b", {"keep": b"KEEP"}, "write KEEP"),
        (b"caf\xc3\xa9/x", {"café": b"cafe\xcc\x81"}, f'path_hex = "{CAFE_HEX}cc812f78"'),
        (b"a/.zfs", {".zfs": b""}, "does not list .zfs"),
    ],
)
def test_a_name_that_is_listed_otherwise_is_named_as_listed(
    path: bytes, listed: dict[str, bytes], advice: str
) -> None:
    (trouble,) = path_troubles(policy_of(path), looks(**listed), now_s=NOW_S)
    assert trouble.code == "exempt-path-unlisted"
    assert trouble.endswith(advice) or advice in trouble
    # Of a plan that is carried out, too: what is exempt may be gone by then, and not elsewhere.
    planned = policy_of(path)
    with raises(RefusedError, "exempt-path-unlisted"):
        require_exempt_paths(planned, looks(**listed), now_s=NOW_S, planned=planned)


@pytest.mark.system
def test_where_case_is_folded_a_path_is_written_as_it_is_listed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with loopback.folding(tmp_path, root):
        (root / "Keep" / "Deep").mkdir(parents=True)
        (root / "keep" / "file").write_text("")
        assert (root / "Keep" / "deep").is_dir()
        as_listed = policy_of(b"keep", b"keep/deep", b"keep/file")
        assert list(path_troubles(as_listed, look_beneath(root), now_s=NOW_S)) == []
        for path, advice in (
            (b"Keep", "Keep as keep: write keep"),
            (b"keep/Deep", "Deep as deep: write deep"),
            (b"keep/FILE", "FILE as file: write file"),
        ):
            (trouble,) = path_troubles(policy_of(path), look_beneath(root), now_s=NOW_S)
            assert trouble.endswith(advice)


def test_only_what_was_exempt_at_the_plan_may_be_gone_at_its_run(root: Path) -> None:
    look, planned = look_beneath(root), policy_of(b"gone")
    require_exempt_paths(planned, look, now_s=NOW_S, planned=planned)
    with raises(RefusedError, "exempt-path-missing"):
        require_exempt_paths(policy_of(b"gone", b"typo"), look, now_s=NOW_S, planned=planned)


def test_a_directory_is_listed_once_whatever_it_holds_of_exempt_paths(root: Path) -> None:
    asked: list[bytes] = []

    def look(directory: bytes, names: Collection[bytes]) -> Mapping[bytes, FoundPath]:
        asked.append(directory)
        return look_beneath(root)(directory, names)

    policy = policy_of(b"kept", b"kept/deep", b"kept/file", b"caf\xe9", b"gone", b"gone/deeper")
    assert len(list(path_troubles(policy, look, now_s=NOW_S))) == 2
    assert sorted(asked) == [b"", b"kept"]

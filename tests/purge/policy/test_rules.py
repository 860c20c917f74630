"""What rules a policy comes to, and that it says why."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.purge.policy.policies import policies
from tests.support.codes import raises
from tests.support.manifests import manifest

from trimtab.base.error import RefusedError, UsageError
from trimtab.purge.index.manifest import Lack, TimeTrust
from trimtab.purge.purge_policy import WEEK_S, Exemption, Policy
from trimtab.purge.rules_in_force import ReadRecording, rules_in_force

NOW_S = int(datetime(2026, 11, 22, 12, 34, 56, tzinfo=UTC).timestamp())
INDEX = manifest("/scratch", NOW_S - 3600)
RECORDED = ReadRecording(declared=True)
USUAL = Policy("scratch", "/scratch", target=0.7)


def test_where_reads_are_recorded_all_three_times_count() -> None:
    rules = rules_in_force(USUAL, INDEX, RECORDED, now_s=NOW_S)
    assert rules.counted == ("atime", "mtime", "ctime")
    assert rules.reads_count
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
    rules = rules_in_force(USUAL, INDEX, reads, now_s=NOW_S)
    assert rules.counted == ("mtime", "ctime")
    assert not rules.reads_count
    assert rules.minimum_age_s == 16 * WEEK_S
    assert rules.old_enough_before_s == (INDEX.as_of_s - 16 * WEEK_S) // 3600 * 3600
    text = " ".join(rules.words)
    assert "Reading a file does not extend its life" in text
    assert why in text
    assert "doubled because reads do not count" in text


def test_a_policy_without_reads_doubles_the_age_too() -> None:
    policy = replace(USUAL, counted=("mtime", "ctime"))
    rules = rules_in_force(policy, INDEX, RECORDED, now_s=NOW_S)
    assert rules.minimum_age_s == 16 * WEEK_S
    assert any("Reading a file does not extend its life" in word for word in rules.words)


def test_nothing_is_old_where_nothing_counts() -> None:
    policy = replace(USUAL, counted=("atime",))
    with raises(RefusedError, "reads-only"):
        rules_in_force(policy, INDEX, ReadRecording(), now_s=NOW_S)


def test_ages_are_counted_from_the_index_and_to_the_hour() -> None:
    old = replace(INDEX, ended_ns=(NOW_S - 5 * 86400) * 10**9)
    rules = rules_in_force(USUAL, old, RECORDED, now_s=NOW_S)
    assert rules.as_of_s == old.as_of_s
    assert rules.old_enough_before_s % 3600 == 0
    assert rules.old_enough_before_s <= old.as_of_s - 8 * WEEK_S


def test_a_clock_that_is_a_little_ahead_is_no_error() -> None:
    ahead = replace(INDEX, ended_ns=(NOW_S + 30) * 10**9)
    assert rules_in_force(USUAL, ahead, RECORDED, now_s=NOW_S).as_of_s == NOW_S
    with raises(UsageError, "clocks-disagree"):
        rules_in_force(USUAL, replace(INDEX, ended_ns=(NOW_S + 61) * 10**9), RECORDED, now_s=NOW_S)


def test_an_index_of_something_else_is_refused() -> None:
    with raises(UsageError, "root-mismatch"):
        rules_in_force(USUAL, replace(INDEX, root=b"/other"), RECORDED, now_s=NOW_S)


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
        rules_in_force(policy, index, RECORDED, now_s=NOW_S)
    if exemption is not None:
        over = replace(exemption, until=date(2026, 1, 1))
        rules_in_force(replace(USUAL, exemptions=(over,)), index, RECORDED, now_s=NOW_S)


def test_without_reads_an_index_without_access_times_serves() -> None:
    index = replace(INDEX, lacking=frozenset({Lack.ACCESS}))
    rules = rules_in_force(USUAL, index, ReadRecording(), now_s=NOW_S)
    assert rules.counted == ("mtime", "ctime")


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
    rules = rules_in_force(policy, INDEX, RECORDED, now_s=NOW_S)
    assert rules.exempt_paths == (b"a", b"b")
    assert rules.exempt_users == (0, 7)
    assert rules.exempt_groups == (9,)
    assert rules.exempt_projects == (10,)
    assert rules.expired == (policy.exemptions[4],)
    assert "1 exemption expired." in rules.words
    assert not any("carol" in sentence for sentence in rules.words)
    bare = rules_in_force(replace(policy, keep_root_files=False), INDEX, RECORDED, now_s=NOW_S)
    assert bare.exempt_users == (7,)


def test_a_policy_in_any_order_exempts_everybody_it_names() -> None:
    ids = (900, 7, 30, 7, 1, 500)
    kinds = ("user", "group", "project")
    exemptions = tuple(Exemption(kind, number) for number in ids for kind in kinds)
    rules = rules_in_force(replace(USUAL, exemptions=exemptions), INDEX, RECORDED, now_s=NOW_S)
    assert rules.exempt_users == (0, 1, 7, 30, 500, 900)
    assert rules.exempt_groups == rules.exempt_projects == (1, 7, 30, 500, 900)


def test_what_the_index_cannot_tell_is_said() -> None:
    index = replace(INDEX, lacking=frozenset({Lack.LINKS}), times=TimeTrust.MDS_ONLY)
    text = " ".join(rules_in_force(USUAL, index, RECORDED, now_s=NOW_S).words)
    assert "has no link counts" in text
    assert "metadata server" in text


@pytest.mark.calibration
@given(policies(), st.booleans(), st.integers(0, 10**6))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_rules_are_never_looser_than_the_policy(policy: Policy, declared: bool, age_s: int) -> None:
    assume(declared or policy.counted != ("atime",))
    index = replace(INDEX, ended_ns=(NOW_S - age_s) * 10**9)
    rules = rules_in_force(policy, index, ReadRecording(declared=declared), now_s=NOW_S)
    assert rules.old_enough_before_s <= NOW_S - policy.minimum_age_s
    assert rules.minimum_size_bytes == policy.minimum_size_bytes
    assert rules.linked == (policy.linked_files == "delete")
    assert set(rules.exemptions) | set(rules.expired) == set(policy.exemptions)
    for exemption in rules.exemptions:
        among = {
            "path": rules.exempt_paths,
            "user": rules.exempt_users,
            "group": rules.exempt_groups,
            "project": rules.exempt_projects,
        }[exemption.kind]
        assert exemption.value in among
    assert list(rules.exempt_users) == sorted(set(rules.exempt_users))
    assert all(word.isprintable() for word in rules.words)


def test_the_rules_module_reads_no_clock() -> None:
    source = (Path(__file__).parents[3] / "src/trimtab/purge/rules_in_force.py").read_text()
    assert "now()" not in source
    assert "import time" not in source

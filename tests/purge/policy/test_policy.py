"""Exemptions in time, and which policy may take the place of another."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from tests.purge.policy.policies import policies
from tests.support.each import for_each

from trimtab.purge.purge_policy import (
    DAY_S,
    Arming,
    Exemption,
    Guards,
    Policy,
    RunCaps,
    is_at_or_under,
    loosened,
)

NOW_S = int(datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp())
USUAL = Policy("scratch", "/scratch", target=0.7)


def test_an_exemption_holds_to_the_end_of_its_last_day() -> None:
    one = Exemption("user", 1, date(2026, 11, 22))
    end_s = int(datetime(2026, 11, 23, tzinfo=UTC).timestamp())
    assert one.is_in_force(end_s - 1)
    assert not one.is_in_force(end_s)
    assert Exemption("user", 1).is_in_force(2**35)


def test_an_exemption_is_shown_harmlessly() -> None:
    assert Exemption("path", b"a\x1b[2J", name="/scratch/a\x1b[2J").shown == (
        r"path /scratch/a\x1b[2J"
    )
    assert Exemption("path", b"caf\xe9").shown == r"path caf\xe9"
    assert Exemption("path", b"").shown == "path /"
    assert Exemption("group", 7).shown == "group 7"


def test_a_component_is_whole() -> None:
    assert is_at_or_under(b"a/b", b"a")
    assert is_at_or_under(b"a", b"a")
    assert is_at_or_under(b"a", b"")
    assert not is_at_or_under(b"ab", b"a")
    assert not is_at_or_under(b"a", b"a/b")


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
    until = replace(USUAL, exemptions=(Exemption("user", 1, date(2027, 1, 1)),))
    longer = replace(USUAL, exemptions=(Exemption("user", 1, date(2028, 1, 1)),))
    ever = replace(USUAL, exemptions=(Exemption("user", 1),))
    assert loosened(until, longer, at_s=NOW_S) == ()
    assert loosened(until, ever, at_s=NOW_S) == ()
    assert len(loosened(longer, until, at_s=NOW_S)) == 1
    assert len(loosened(ever, longer, at_s=NOW_S)) == 1
    # What is over keeps nothing any more.
    over = replace(USUAL, exemptions=(Exemption("user", 1, date(2020, 1, 1)),))
    assert loosened(over, USUAL, at_s=NOW_S) == ()

"""Everything together: a policy, a tally, use and growth."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.purge.horizon.slow import File, files, packed
from tests.support.codes import raises
from tests.support.manifests import manifest

from trimtab.base.error import UsageError
from trimtab.judge.growth import Growth
from trimtab.purge.fullness import Usage
from trimtab.purge.horizon.horizon import HorizonStatus
from trimtab.purge.horizon.horizon_answer import (
    HorizonAnswer,
    answer,
    curve_of,
    ost_curves,
    project_days,
    user_days,
)
from trimtab.purge.purge_policy import DAY_S, Policy
from trimtab.purge.rules_in_force import HOUR_S, ReadRecording, RulesInForce, rules_in_force

POLICY = Policy("scratch", "/scratch", target=0.7, minimum_age_s=DAY_S)
AS_OF_S = 4 * DAY_S


def rules_of(policy: Policy) -> RulesInForce:
    index = manifest("/scratch", AS_OF_S)
    return rules_in_force(policy, index, ReadRecording(declared=True), now_s=AS_OF_S)


class _SlowTally:
    """What the core counts, counted file by file."""

    def __init__(self, found: list[File], *, layout: bool = True) -> None:
        old = rules_of(POLICY).old_enough_before_s
        self.found = [one for one in found if one.last_use_s < old]
        self.young = [one for one in found if one.last_use_s >= old]
        self.layout = layout
        self.files = len(found)
        self.allocated_bytes = sum(one.allocated_bytes for one in found)
        self.future_files = 3
        self.latest_future_s: int | None = 2**62

    def kept(self) -> dict[str, tuple[int, int]]:
        return {"too_young": (len(self.young), sum(one.allocated_bytes for one in self.young))}

    def hours(self) -> tuple[bytes, bytes, bytes]:
        return self._by(self.found, HOUR_S)

    def users(self) -> list[int]:
        return sorted({one.uid for one in self.found})

    def projects(self) -> list[int]:
        return []

    def osts(self) -> list[int]:
        return sorted({one.ost for one in self.found}) if self.layout else []

    def days_of_user(self, uid: int) -> tuple[bytes, bytes, bytes]:
        return self._by([one for one in self.found if one.uid == uid], DAY_S)

    def days_of_project(self, project: int) -> tuple[bytes, bytes, bytes]:
        return self._by([], DAY_S)

    def hours_of_ost(self, index: int) -> tuple[bytes, bytes, bytes]:
        return self._by([one for one in self.found if one.ost == index], HOUR_S)

    def _by(self, found: list[File], unit_s: int) -> tuple[bytes, bytes, bytes]:
        units: dict[int, list[int]] = defaultdict(list)
        for one in found:
            units[one.last_use_s // unit_s].append(one.allocated_bytes)
        return packed([(unit, len(units[unit]), sum(units[unit])) for unit in sorted(units)])


SlowTally: Any = _SlowTally
"""Where the core's tally is asked for."""


def grown(high_bytes: int | None) -> Growth:
    return Growth(28 * DAY_S, 0, 0, high_bytes, 0.9, 90, None if high_bytes else "few days")


def answered(
    found: list[File], usage: Usage, policy: Policy = POLICY, *, layout: bool = True, **more: Any
) -> HorizonAnswer:
    return answer(policy, rules_of(policy), SlowTally(found, layout=layout), usage, **more)


def test_the_core_s_tally_as_curves() -> None:
    result = [File(3600, 10, uid=5, ost=1), File(7200, 20, uid=6, ost=1), File(3601, 30, uid=5)]
    tally = SlowTally(result)
    assert curve_of(tally).total.allocated_bytes == 60
    days = user_days(tally)
    assert days.owners.tolist() == [5, 6]
    assert [total.allocated_bytes for total in days.totals] == [40, 20]
    assert {ost: curve.total.files for ost, curve in ost_curves(tally).items()} == {0: 1, 1: 2}
    assert project_days(tally).totals == []


@pytest.mark.calibration
@given(files, st.integers(0, 10**6), st.integers(1, 10**6), st.none() | st.integers(0, 10**6))
def test_lists_hold_what_a_run_needs(
    found: list[File], rest: int, available: int, growth: int | None
) -> None:
    usage = Usage(sum(one.allocated_bytes for one in found) + rest, available)
    got = answered(found, usage, growth=None if growth is None else grown(growth))
    if got.needed.cut_off_hour is not None:
        assert got.published.cut_off_hour is not None
        assert got.published.cut_off_hour >= got.needed.cut_off_hour
    if got.published.cut_off_hour is None:
        assert got.users == ()
    else:
        at_most = sum(user.most.allocated_bytes for user in got.users)
        at_least = sum(user.least.allocated_bytes for user in got.users)
        assert at_least <= got.published.freed.allocated_bytes <= at_most
    assert all(word.isprintable() for word in got.words)
    assert all(step.age_s >= DAY_S for step in got.steps)


def test_lists_are_made_for_the_growth_to_come() -> None:
    result = [File(hour * HOUR_S, 10) for hour in range(30)]
    usage = Usage(710, 290)
    assert answered(result, usage).needed.required_bytes == 10
    assert answered(result, usage).published.required_bytes == 20
    assert answered(result, usage, growth=grown(40)).published.required_bytes == 100
    unknown = answered(result, usage, growth=grown(None))
    assert unknown.published.required_bytes == 20
    assert any("No forecast of growth" in word for word in unknown.words)
    # Under the target, and not for long.
    later = answered(result, Usage(690, 310), growth=grown(40))
    assert later.needed.status is HorizonStatus.MET_ALREADY
    assert later.published.required_bytes == 60


def test_a_factor_under_one_does_not_list_less_than_a_run_needs() -> None:
    result = [File(hour * HOUR_S, 10) for hour in range(30)]
    got = answered(result, Usage(800, 200), replace(POLICY, publish_factor=0.5))
    assert got.published.required_bytes == got.needed.required_bytes == 100


def test_times_in_the_future_are_told() -> None:
    got = answered([], Usage(1, 9))
    assert "3 files with times after the scan, the latest beyond the year 9999" in got.words[-1]


def test_a_target_of_osts() -> None:
    policy = replace(POLICY, target=None, target_ost=0.75)
    result = [File(HOUR_S * hour, 10, ost=0) for hour in range(10)]
    osts, usage = {0: Usage(170, 30), 1: Usage(100, 100)}, Usage(270, 130)
    got = answered(result, usage, policy, ost_usages=osts)
    assert got.osts is not None
    assert got.osts.cut_off_hour == got.needed.cut_off_hour == 2
    assert got.needed.target == 0.625
    with raises(UsageError, "ost-usage-unknown"):
        answered(result, usage, policy)
    with raises(UsageError, "layout-unknown"):
        answered(result, usage, policy, layout=False, ost_usages=osts)


def test_where_no_ost_needs_anything_lists_look_at_the_fullest() -> None:
    policy = replace(POLICY, target=None, target_ost=0.75)
    osts = {0: Usage(72, 28), 1: Usage(48, 52)}
    got = answered([], Usage(120, 80), policy, ost_usages=osts, growth=grown(10))
    assert got.needed.status is HorizonStatus.MET_ALREADY
    assert got.needed.target == 0.625  # 75 % of the fullest is 62.5 % of the whole, as skewed
    assert got.published.required_bytes == 10


POOLS = {"flash": (0, 1), "disk": (2,)}


def test_a_target_of_pools() -> None:
    policy = replace(POLICY, target=None, target_pool=(("flash", 0.75),))
    result = [File(HOUR_S * hour, 10, ost=hour % 2) for hour in range(10)]
    osts, usage = {0: Usage(90, 10), 1: Usage(80, 20), 2: Usage(99, 1)}, Usage(269, 31)
    got = answered(result, usage, policy, ost_usages=osts, pools=POOLS)
    assert got.osts is None
    assert got.pools is not None
    (flash,) = got.pools.groups  # 170 of 200 bytes: 20 have to go, whatever the others need
    assert (flash.excess_bytes, flash.usage) == (20, Usage(170, 30))
    assert got.pools.cut_off_hour == got.needed.cut_off_hour == 2
    assert got.needed.target == 0.83  # of the whole: 249 of 300
    assert any("pool" in word for word in got.words)
    with raises(UsageError, "ost-usage-unknown"):
        answered(result, usage, policy, pools=POOLS)
    with raises(UsageError, "pools-unknown") as caught:
        answered(result, usage, policy, ost_usages=osts)
    assert "--site" in (caught.value.hint or "")
    with raises(UsageError, "layout-unknown"):
        answered(result, usage, policy, layout=False, ost_usages=osts, pools=POOLS)


def test_where_no_pool_needs_anything_lists_look_at_the_first_to_reach_its_limit() -> None:
    policy = replace(POLICY, target=None, target_pool=(("disk", 0.9), ("flash", 0.75)))
    osts = {0: Usage(60, 40), 1: Usage(60, 40), 2: Usage(80, 20)}
    terms = {"ost_usages": osts, "pools": POOLS, "growth": grown(50)}
    got = answered([], Usage(200, 100), policy, **terms)
    assert got.needed.status is HorizonStatus.MET_ALREADY
    # The disks reach 90 % first: when all have grown by an eighth, and the whole is at 75 %.
    assert got.needed.target == 0.75
    assert got.published.required_bytes == 50


@given(st.integers(1, 1000), st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 1000))
def test_what_lies_outside_of_pools_that_are_under_their_limits_is_left_alone(
    used: int, available: int, other: int, rest: int
) -> None:
    """Even where a pool is just at its limit, and the whole is fuller than any pool may be."""
    osts = {0: Usage(used, available), 2: Usage(other, rest)}
    policy = replace(POLICY, target=None, target_pool=(("flash", osts[0].fullness),))
    whole = Usage(used + other, available + rest)
    result = [File(HOUR_S * hour, 1, ost=2) for hour in range(10)]
    got = answered(result, whole, policy, ost_usages=osts, pools={"flash": (0,)})
    assert got.pools is not None
    if got.pools.groups[0].status is HorizonStatus.MET_ALREADY:  # its limit is a rounded float
        assert got.needed.status is HorizonStatus.MET_ALREADY


def test_a_policy_without_a_target_is_an_error() -> None:
    with raises(UsageError, "target-missing"):
        answered([], Usage(1, 1), replace(POLICY, target=None))

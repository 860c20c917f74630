"""Single OSTs and pools: the common cut-off, and those that no horizon fixes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.purge.horizon.slow import (
    SPAN_HOURS,
    File,
    curve_of,
    earliest_cut_off,
    files,
    freed_by,
)
from tests.support.codes import raises

from trimtab.base.error import UsageError
from trimtab.base.name_set import ost_name
from trimtab.purge.fullness import HOUR_S, AgeCurve, Usage
from trimtab.purge.horizon.group_horizon import (
    GroupHorizons,
    OstGroup,
    find_group_horizons,
    ost_groups,
    pool_groups,
)
from trimtab.purge.horizon.horizon import HorizonStatus, find_horizon

OSTS = range(4)
LIMITS = st.sampled_from([0.3, 0.5, 0.75, 0.9])
RESTS = st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**6)), min_size=4, max_size=4)
POOLS = {"flash": (0, 1), "disk": (2, 3), "most": (0, 1, 2), "one": (3,)}
"""Some OSTs are in several, as they may be."""


def usages_of(found: list[File], rest: list[tuple[int, int]]) -> dict[int, Usage]:
    """Return how full each OST is: what its files take up, and something besides."""
    held = {ost: sum(one.allocated_bytes for one in found if one.ost == ost) for ost in OSTS}
    return {ost: Usage(held[ost] + rest[ost][0], rest[ost][1]) for ost in OSTS}


def sum_of(usages: Mapping[int, Usage]) -> Usage:
    """Return the use of all of them together."""
    used = sum(usage.used_bytes for usage in usages.values())
    return Usage(used, sum(usage.available_bytes for usage in usages.values()))


def found_horizons(
    found: Mapping[int, AgeCurve] | list[File], usages: dict[int, Usage], groups: Any, **more: Any
) -> GroupHorizons:
    """Return what is found for groups of OSTs, of files or of a curve for each OST."""
    if isinstance(found, list):
        more["whole"] = curve_of(found)
        found = {ost: curve_of([one for one in found if one.ost == ost]) for ost in OSTS}
    return find_group_horizons(found, usages, groups, usage=sum_of(usages), **more)


@given(files, RESTS, LIMITS, st.integers(0, SPAN_HOURS))
def test_the_common_cut_off_is_the_one_that_brute_force_finds(
    found: list[File], rest: list[tuple[int, int]], limit: float, youngest_hour: int
) -> None:
    parts = {ost: [one for one in found if one.ost == ost] for ost in OSTS}
    usages = usages_of(found, rest)
    curves = {ost: curve_of(part) for ost, part in parts.items() if part}
    got = found_horizons(
        curves, usages, ost_groups(limit, usages),
        whole=curve_of(found), youngest_hour=youngest_hour,
    )  # fmt: skip
    needed = []
    for ost in OSTS:
        excess = usages[ost].excess_bytes(limit)
        hour = earliest_cut_off(parts[ost], excess, youngest_hour)
        (one,) = (group for group in got.groups if group.index == ost)
        if not excess:
            assert one.status is HorizonStatus.MET_ALREADY
        elif hour is None:
            assert one.status is HorizonStatus.OUT_OF_REACH
            assert one in got.unfixable
        else:
            assert one.status is HorizonStatus.REACHED
            assert one.cut_off_hour == hour
            needed.append(hour)
    assert got.cut_off_hour == max(needed, default=None)
    if got.cut_off_hour is not None:
        for one in got.groups:
            freed = freed_by(parts[one.index], got.cut_off_hour * HOUR_S)
            assert freed == (one.freed.files, one.freed.allocated_bytes)
            if one.status is HorizonStatus.REACHED:
                assert one.after is not None
                total = one.usage.total_bytes
                assert Fraction(one.after.used_bytes, total) <= Fraction(str(limit))
        assert got.target is not None
        # The overall target that is told brings every OST there too.
        same = find_horizon(
            curve_of(found), sum_of(usages), got.target, youngest_hour=youngest_hour
        )
        assert (
            same.cut_off_hour is None
            or same.cut_off_hour >= got.cut_off_hour
            or (same.freed.allocated_bytes >= got.freed.allocated_bytes)
        )
    assert all(word.isprintable() for word in got.words(100 * HOUR_S))


def test_an_ost_of_young_files_is_helped_by_no_horizon() -> None:
    curves = {0: AgeCurve.of([10], [1], [30]), 0x12: AgeCurve.of([10], [1], [2])}
    usages = {0: Usage(80, 20), 0x12: Usage(90, 10)}
    whole = AgeCurve.of([10], [2], [32])
    got = found_horizons(
        curves, usages, ost_groups(0.75, usages), whole=whole, youngest_hour=24 * 10
    )
    assert got.cut_off_hour == 11
    assert [one.name for one in got.unfixable] == ["OST0012"]
    assert got.target == 0.69
    said = got.words(100 * 86400)
    assert said[-1] == (
        "No horizon down to 90.0 d fixes OST0012: it is at 90.0 %, at best 88.0 %. Move files off "
        "it, or close it to new ones."
    )
    assert "every OST that a horizon can help to 75.0 %" in said[0]


FLASH = OstGroup("pool", "flash", (0, 1), 0.75)


@pytest.mark.parametrize(
    ("usages", "groups", "which"),
    [
        ({0: Usage(10, 90)}, ost_groups(0.75, {0: Usage(10, 90)}), "Every OST"),
        ({0: Usage(80, 20), 1: Usage(70, 30)}, [FLASH], "Every pool"),
    ],
)
def test_nothing_is_needed_where_all_are_under_their_limits(
    usages: dict[int, Usage], groups: list[OstGroup], which: str
) -> None:
    got = found_horizons({}, usages, groups, whole=AgeCurve.together(()), youngest_hour=0)
    assert (got.cut_off_hour, got.target) == (None, None)
    assert got.words(0) == (f"{which} is at or under 75.0 %: nothing must be deleted.",)


def test_what_does_not_fit_together_is_said() -> None:
    curves = {0: AgeCurve.of([1], [1], [99]), 5: AgeCurve.of([1], [1], [1])}
    usages, whole = {0: Usage(10, 90)}, AgeCurve.of([1], [1], [100])
    got = found_horizons(curves, usages, ost_groups(0.75, usages), whole=whole, youngest_hour=5)
    assert any("OST0005, whose usage is unknown" in doubt for doubt in got.doubts)
    assert any("OST0000, which reports only" in doubt for doubt in got.doubts)


def test_names_are_lustre_s() -> None:
    assert (ost_name(0), ost_name(255), ost_name(0xFFFF)) == ("OST0000", "OST00ff", "OSTffff")


def is_under(name: str, limit: float, hour: int, found: list[File], rest: list[tuple[int, int]]):
    """Whether a pool is at or under its limit when what was last used before an hour is gone."""
    here = [one for one in found if one.ost in POOLS[name]]
    total = sum(one.allocated_bytes for one in here) + sum(sum(rest[ost]) for ost in POOLS[name])
    available = sum(rest[ost][1] for ost in POOLS[name]) + freed_by(here, hour * HOUR_S)[1]
    return Fraction(total - available, total) <= Fraction(str(limit))


@given(
    files,
    RESTS,
    st.dictionaries(st.sampled_from(sorted(POOLS)), LIMITS, min_size=1),
    st.integers(0, SPAN_HOURS),
)
def test_the_cut_off_of_pools_is_the_one_that_brute_force_finds(
    found: list[File],
    rest: list[tuple[int, int]],
    limits: dict[str, float],
    youngest_hour: int,
) -> None:
    usages = usages_of(found, rest)
    groups = pool_groups(limits.items(), POOLS, usages)
    got = found_horizons(found, usages, groups, youngest_hour=youngest_hour)
    assert [group.name for group in got.groups] == list(limits)
    # Before hour -4 there is nothing.
    tried = range(-4, youngest_hour + 1)
    fixing = {
        name: [hour for hour in tried if is_under(name, limit, hour, found, rest)]
        for name, limit in limits.items()
    }
    for group in got.groups:
        hours = fixing[group.name]
        if not hours:
            assert group.status is HorizonStatus.OUT_OF_REACH
            assert group in got.unfixable
        elif hours[0] == -4:
            assert group.status is HorizonStatus.MET_ALREADY
        else:
            assert group.status is HorizonStatus.REACHED
            assert group.cut_off_hour == hours[0]
    fixed = {group.name for group in got.groups if group.status is HorizonStatus.REACHED}
    if not fixed:
        assert got.cut_off_hour is None
        return
    cut_off = got.cut_off_hour
    assert cut_off is not None
    # It brings each of them under its limit, and an hour less leaves one above.
    assert all(is_under(name, limits[name], cut_off, found, rest) for name in fixed)
    assert not all(is_under(name, limits[name], cut_off - 1, found, rest) for name in fixed)
    # What goes is what is old wherever it lies, and not only there.
    assert got.freed.allocated_bytes == freed_by(found, cut_off * HOUR_S)[1]
    for group in got.groups:
        here = [file for file in found if file.ost in POOLS[group.name]]
        freed = freed_by(here, cut_off * HOUR_S)
        assert (group.freed.files, group.freed.allocated_bytes) == freed
    assert all(word.isprintable() for word in got.words(100 * HOUR_S))


@given(files, RESTS, LIMITS, st.integers(0, SPAN_HOURS))
def test_a_pool_of_one_ost_each_needs_what_the_osts_need(
    found: list[File], rest: list[tuple[int, int]], limit: float, youngest_hour: int
) -> None:
    usages = usages_of(found, rest)
    pools = {ost_name(ost): (ost,) for ost in OSTS}
    ours, theirs = (
        found_horizons(found, usages, groups, youngest_hour=youngest_hour)
        for groups in (
            pool_groups([(name, limit) for name in pools], pools, usages),
            ost_groups(limit, usages),
        )
    )
    same = attrgetter("cut_off_hour", "target", "freed")
    assert same(ours) == same(theirs)
    same = attrgetter("status", "excess_bytes", "cut_off_hour", "after", "best")
    assert list(map(same, ours.groups)) == list(map(same, theirs.groups))


def test_a_pool_that_no_horizon_fixes_is_named_with_what_is_the_matter() -> None:
    curves = {0: AgeCurve.of([10], [1], [30]), 1: AgeCurve.of([10], [1], [2])}
    usages = {0: Usage(80, 20), 1: Usage(90, 10), 2: Usage(95, 5)}
    groups = [replace(FLASH, osts=(1, 2)), OstGroup("pool", "disk", (0,), 0.7)]
    whole = AgeCurve.of([10], [2], [32])
    got = found_horizons(curves, usages, groups, whole=whole, youngest_hour=24 * 10)
    assert got.cut_off_hour == 11
    assert [one.name for one in got.unfixable] == ["flash"]
    assert got.groups[0].usage == Usage(185, 15)
    said = got.words(100 * 86400)
    assert "brings every pool that a horizon can help to its limit or under" in said[0]
    assert "(flash 75.0 %, disk 70.0 %)" in said[0]
    assert said[-1] == (
        "No horizon down to 90.0 d fixes pool flash: it is at 92.5 %, at best 91.5 %. Move files "
        "off it, or close it to new ones."
    )


def test_a_pool_that_is_not_known_is_refused_with_those_that_are() -> None:
    usages = {0: Usage(1, 1), 1: Usage(1, 1)}
    pools = {"flash": (0, 1), "disk": (1, 2), "empty": ()}
    with raises(UsageError, "pool-unknown") as caught:
        pool_groups([("flahs", 0.75)], pools, usages)
    assert caught.value.hint == "its pools are disk, empty, flash"
    with raises(UsageError, "pool-unknown") as caught:
        pool_groups([("x\x1b", 0.75)], {}, usages)
    assert "\x1b" not in caught.value.message
    assert "no pools at all" in (caught.value.hint or "")
    many = {f"p{number:02}": (0,) for number in range(30)}
    with pytest.raises(UsageError) as caught:
        pool_groups([("x", 0.75)], many, usages)
    assert "p11 and 18 more" in (caught.value.hint or "")
    with raises(UsageError, "ost-usage-unknown"):
        pool_groups([("disk", 0.75)], pools, usages)
    with raises(UsageError, "pool-empty"):
        pool_groups([("empty", 0.75)], pools, usages)

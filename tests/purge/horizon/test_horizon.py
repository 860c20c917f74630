"""The horizon is the one that trying every cut-off finds."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.purge.horizon.slow import (
    SPAN_HOURS,
    File,
    curve_of,
    days_of,
    earliest_cut_off,
    files,
    freed_by,
)
from tests.support.codes import raises

from trimtab.base.error import UsageError
from trimtab.purge.fullness import Usage
from trimtab.purge.horizon.age_curve import HOUR_S, AgeCurve, Freed
from trimtab.purge.horizon.horizon import (
    HorizonStatus,
    find_horizon,
    owners,
    publication_bytes,
    steps,
)

TARGETS = st.sampled_from([0.0, 0.5, 0.7, 0.75, 1.0]) | st.floats(0, 1)
AT_S = 100 * HOUR_S


@st.composite
def usages(draw: st.DrawFn, at_least: int = 0) -> Usage:
    used = at_least + draw(st.integers(0, 10**6))
    return Usage(used, draw(st.integers(0 if used else 1, 2 * 10**6)))


@given(files, st.data(), TARGETS, st.integers(-4, SPAN_HOURS + 4))
def test_the_horizon_is_the_one_that_brute_force_finds(
    found: list[File], data: st.DataObject, target: float, youngest_hour: int
) -> None:
    held = sum(one.allocated_bytes for one in found)
    usage = data.draw(usages(at_least=held))
    horizon = find_horizon(curve_of(found), usage, target, youngest_hour=youngest_hour)
    required = next(
        freed
        for freed in (horizon.required_bytes,)
        if Fraction(usage.used_bytes - freed, usage.total_bytes) <= Fraction(str(target))
    )
    if required:  # and not one byte less
        before = Fraction(usage.used_bytes - required + 1, usage.total_bytes)
        assert before > Fraction(str(target))
    expected = earliest_cut_off(found, required, youngest_hour)
    if not required:
        assert horizon.status is HorizonStatus.MET_ALREADY
        assert horizon.cut_off_hour is None
        assert horizon.freed == Freed()
    elif expected is None:
        assert horizon.status is HorizonStatus.OUT_OF_REACH
        assert horizon.cut_off_hour == youngest_hour
        assert freed_by(found, youngest_hour * HOUR_S) == (
            horizon.freed.files,
            horizon.freed.allocated_bytes,
        )
        assert horizon.shortfall_bytes == required - horizon.freed.allocated_bytes > 0
    else:
        assert horizon.status is HorizonStatus.REACHED
        assert horizon.cut_off_hour == expected
        assert freed_by(found, expected * HOUR_S) == (
            horizon.freed.files,
            horizon.freed.allocated_bytes,
        )
        assert horizon.after is not None
        assert Fraction(horizon.after.used_bytes, usage.total_bytes) <= Fraction(str(target))
        assert horizon.shortfall_bytes == 0
    assert all(word.isprintable() for word in horizon.words(AT_S))


def test_ties_go_together() -> None:
    """Files of one hour are on one side of a cut-off, and more goes than was asked for."""
    curve = AgeCurve.of([5, 5, 5], [1, 1, 1], [10, 10, 10])
    horizon = find_horizon(curve, Usage(100, 0), 0.99, youngest_hour=50)
    assert horizon.required_bytes == 1
    assert horizon.cut_off_hour == 6
    assert horizon.freed == Freed(3, 30)


def test_a_target_that_is_exactly_met_needs_nothing() -> None:
    horizon = find_horizon(AgeCurve.together(()), Usage(70, 30), 0.7, youngest_hour=0)
    assert horizon.status is HorizonStatus.MET_ALREADY
    assert "nothing must be deleted" in " ".join(horizon.words(AT_S))


def test_targets_count_as_they_are_written() -> None:
    # In floats 0.7 of 10^16 is off by more than one byte at some totals.
    total = 10**16 + 10
    used = total * 7 // 10 + 1
    usage = Usage(used, total - used)
    assert usage.excess_bytes(0.7) == 1
    assert Usage(used - 1, total - used + 1).excess_bytes(0.7) == 0


def test_an_empty_curve_reaches_nothing() -> None:
    horizon = find_horizon(AgeCurve.together(()), Usage(80, 20), 0.7, youngest_hour=0)
    assert horizon.status is HorizonStatus.OUT_OF_REACH
    assert horizon.shortfall_bytes == 10
    assert horizon.freed == Freed()


def test_out_of_reach_says_what_stays_and_why() -> None:
    curve = AgeCurve.of([10], [1], [5])
    kept = {"too_young": (7, 60), "exempt_user": (1, 15), "other_links": (0, 0)}
    horizon = find_horizon(curve, Usage(80, 20), 0.7, youngest_hour=20, kept_back=kept)
    assert [one.reason for one in horizon.kept] == ["too_young", "exempt_user", "other_links"]
    text = " ".join(horizon.words(AT_S))
    assert "No horizon reaches 70.0 %" in text
    assert "too young: 60 B in 7 files" in text
    assert horizon.doubts == ()


def test_everything_is_exempt() -> None:
    horizon = find_horizon(
        AgeCurve.together(()),
        Usage(80, 20),
        0.7,
        youngest_hour=20,
        kept_back={"exempt_path": (9, 80)},
    )
    assert horizon.status is HorizonStatus.OUT_OF_REACH
    assert horizon.eligible == Freed()


def test_an_index_that_holds_more_than_is_used_promises_nothing() -> None:
    horizon = find_horizon(AgeCurve.of([1], [1], [500]), Usage(80, 20), 0.7, youngest_hour=20)
    assert horizon.after is None
    assert "fullness afterwards is unknown" in horizon.doubts[0]
    assert "leaves" not in " ".join(horizon.words(AT_S))


@pytest.mark.parametrize(("held", "doubted"), [(50, True), (75, False), (85, False), (95, True)])
def test_an_index_that_does_not_fit_the_file_system_is_doubted(held: int, doubted: bool) -> None:
    horizon = find_horizon(
        AgeCurve.of([1], [1], [20]), Usage(80, 20), 0.7, youngest_hour=20,
        kept_back={"too_young": (1, held - 20)},
    )  # fmt: skip
    assert bool(horizon.doubts) == doubted


def test_fullness_just_above_a_target_is_not_shown_as_the_target() -> None:
    curve = AgeCurve.of([1], [1], [10**6 - 1])
    usage = Usage(8 * 10**6, 2 * 10**6)
    horizon = find_horizon(curve, usage, 0.7, youngest_hour=20)
    assert horizon.status is HorizonStatus.OUT_OF_REACH
    assert "leaves just over 70.0 %" in horizon.words(AT_S)[0]


@pytest.mark.parametrize(("used", "available"), [(0, 0), (-1, 5), (5, -1)])
def test_what_has_no_fullness_is_an_error(used: int, available: int) -> None:
    with pytest.raises(UsageError):
        Usage(used, available)


@pytest.mark.parametrize("target", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_target_that_is_none_is_an_error(target: float) -> None:
    with raises(UsageError, "value-out-of-range"):
        find_horizon(AgeCurve.together(()), Usage(1, 1), target, youngest_hour=0)


def test_lists_are_longer_than_the_need() -> None:
    usage = Usage(80, 20)
    assert publication_bytes(usage, 0.7) == 20
    assert publication_bytes(usage, 0.7, growth_bytes=5) == 30
    assert publication_bytes(usage, 0.7, growth_bytes=-50) == 20
    assert publication_bytes(usage, 0.7, growth_bytes=10**9) == 60  # full, and no fuller
    assert publication_bytes(usage, 0.9, growth_bytes=5) == 0
    assert publication_bytes(usage, 0.7, factor=1.05) == 11


@given(files, st.data(), TARGETS, st.integers(0, 10**6), st.floats(1, 10))
def test_what_is_published_holds_all_that_is_needed(
    found: list[File], data: st.DataObject, target: float, growth: int, factor: float
) -> None:
    usage = data.draw(usages(at_least=sum(one.allocated_bytes for one in found)))
    curve, youngest = curve_of(found), SPAN_HOURS + 1
    needed = find_horizon(curve, usage, target, youngest_hour=youngest)
    published = find_horizon(
        curve, usage, target, youngest_hour=youngest,
        required_bytes=publication_bytes(usage, target, growth_bytes=growth, factor=factor),
    )  # fmt: skip
    if needed.cut_off_hour is not None:
        assert published.cut_off_hour is not None
        assert published.cut_off_hour >= needed.cut_off_hour


@given(files, st.lists(st.integers(0, 5), min_size=1, max_size=5))
def test_the_table_of_horizons(found: list[File], ages_days: list[int]) -> None:
    usage = Usage(10**9, 10**9)
    table = steps(curve_of(found), usage, as_of_s=AT_S + 1800, ages_days=ages_days)
    assert [step.age_s for step in table] == sorted((s.age_s for s in table), reverse=True)
    for step, days in zip(table, sorted(set(ages_days), reverse=True), strict=True):
        assert days * 86400 <= step.age_s < days * 86400 + HOUR_S
        freed = freed_by(found, step.cut_off_hour * HOUR_S)
        assert freed == (step.freed.files, step.freed.allocated_bytes)
        assert step.after is not None
        assert step.after.used_bytes == 10**9 - freed[1]


def test_who_would_lose_what() -> None:
    curves = days_of({1: [(1, 1, 10), (3, 1, 10)], 2: [(1, 1, 500)], 3: [(9, 1, 10**6)], 4: []})
    result = owners(curves, cut_off_hour=3 * 24 + 5)
    assert [one.owner for one in result] == [2, 1]
    assert (result[1].least, result[1].most) == (Freed(1, 10), Freed(2, 20))
    assert result[0].least == result[0].most == Freed(1, 500)

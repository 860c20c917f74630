"""A curve says what lies before an hour; the horizon is the one that trying every cut-off finds."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
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
    packed,
)
from tests.support.codes import raises

from trimtab.base.error import DataError, UsageError
from trimtab.purge.fullness import HOUR_S, AgeCurve, Freed, OwnerDays, Usage
from trimtab.purge.horizon.horizon import (
    HorizonStatus,
    find_horizon,
    owners,
    publication_bytes,
    steps,
)


@given(files, st.integers(-5, SPAN_HOURS + 5))
def test_what_lies_before_an_hour(found: list[File], hour: int) -> None:
    freed = curve_of(found).freed_before(hour)
    assert (freed.files, freed.allocated_bytes) == freed_by(found, hour * HOUR_S)


@given(files, files, files)
def test_merging_is_as_if_all_had_been_one(
    one: list[File], two: list[File], three: list[File]
) -> None:
    whole = curve_of([*one, *two, *three])
    left = AgeCurve.together([AgeCurve.together([curve_of(one), curve_of(two)]), curve_of(three)])
    right = AgeCurve.together([curve_of(three), curve_of(two), curve_of(one)])
    for merged in (left, right):
        assert merged.hours.dtype == merged.allocated_bytes.dtype == np.int64
        assert np.array_equal(merged.hours, whole.hours)
        assert np.array_equal(merged.files, whole.files)
        assert np.array_equal(merged.allocated_bytes, whole.allocated_bytes)


@given(files, st.integers(-5, SPAN_HOURS + 5))
def test_a_part_of_a_curve(found: list[File], hour: int) -> None:
    part = curve_of(found).before(hour)
    kept = curve_of([one for one in found if one.last_use_s // HOUR_S < hour])
    assert np.array_equal(part.hours, kept.hours)
    assert part.total == kept.total


@given(files)
def test_the_core_s_buffers(found: list[File]) -> None:
    curve = curve_of(found)
    rows = zip(curve.hours, curve.files, curve.allocated_bytes, strict=True)
    again = AgeCurve.from_buffers(*packed(list(rows)))
    assert again.total == curve.total
    assert np.array_equal(again.hours, curve.hours)


@given(files, st.integers(-5, 10**6))
def test_the_earliest_hour_that_frees_enough(found: list[File], required: int) -> None:
    curve = curve_of(found)
    got = curve.earliest_freeing(required)
    if got is None:
        assert not found or curve.total.allocated_bytes < required
        return
    assert curve.freed_before(got).allocated_bytes >= required
    earlier = freed_by(found, (got - 1) * HOUR_S)[1]
    assert earlier < required or (required <= 0 and got == min(curve.hours))


def test_an_empty_curve() -> None:
    empty = AgeCurve.together(())
    assert empty.total == Freed()
    assert empty.freed_before(10**9) == Freed()
    assert empty.earliest_freeing(1) is None
    assert AgeCurve.together([empty, empty]).total == Freed()


GOOD = packed([(5, 1, 1), (6, 1, 1)])
TWO = packed([(1, 1, 1), (2, 1, 1)])


def test_days_leave_a_part_of_one_open() -> None:
    days = days_of({7: [(10, 1, 100), (11, 2, 1000)]})
    none, one, both = [Freed()], [Freed(1, 100)], [Freed(3, 1100)]
    assert days.freed_before(11 * 24) == (one, one)
    assert days.freed_before(11 * 24 + 1) == (one, both)
    assert days.freed_before(12 * 24) == (both, both)
    assert days.freed_before(-1) == (none, none)
    assert days.totals == both


@given(files, st.integers(-5, SPAN_HOURS + 5))
def test_days_hold_the_truth_of_each_owner_between_least_and_most(
    found: list[File], hour: int
) -> None:
    rows: dict[int, dict[int, tuple[int, int]]] = {uid: {} for uid in range(4)}
    for one in found:
        day = one.last_use_s // 86400
        files_, size = rows[one.uid].get(day, (0, 0))
        rows[one.uid][day] = files_ + 1, size + one.allocated_bytes
    days = days_of({uid: [(day, *of[day]) for day in sorted(of)] for uid, of in rows.items()})
    least, most = days.freed_before(hour)
    for uid in range(4):
        own = [one for one in found if one.uid == uid]
        count, size = freed_by(own, hour * HOUR_S)
        assert least[uid].files <= count <= most[uid].files
        assert least[uid].allocated_bytes <= size <= most[uid].allocated_bytes
        if hour % 24 == 0:
            assert least[uid] == most[uid]
        assert days.totals[uid] == Freed(len(own), sum(one.allocated_bytes for one in own))


@pytest.mark.parametrize(
    ("one", "why"),
    [
        ((TWO[0], TWO[1][:8], TWO[2]), "as many counts and bytes as days"),
        (packed([(2, 1, 1), (1, 1, 1)]), "ascending"),
        (packed([(1, 1, 1), (1, 1, 1)]), "ascending"),
        (packed([(1, 1, 2**63)]), "63 bits"),
        (packed([(1, 1, 2**62), (2, 1, 2**62)]), "more than possible"),
    ],
)
def test_days_that_cannot_be_are_refused(one: tuple[bytes, bytes, bytes], why: str) -> None:
    for each in ([(1, one)], [(1, GOOD), (2, one)], [(1, one), (2, GOOD), (3, GOOD)]):
        with pytest.raises(DataError, match=why):
            OwnerDays.from_buffers(each)


def test_owners_without_days_are_owners() -> None:
    empty = packed([])
    for each in ([], [(1, empty)], [(1, empty), (2, GOOD), (3, empty), (4, GOOD), (5, empty)]):
        days = OwnerDays.from_buffers(each)
        assert [total.files for total in days.totals] == [len(one[0]) // 8 for _, one in each]


@pytest.mark.parametrize(
    ("hours", "counts", "sizes", "why"),
    [
        ((1, 2), (1,), (1, 1), "as many counts and bytes as hours"),
        ((2, 1), (1, 1), (1, 1), "ascending"),
        ((1, 1), (1, 1), (1, 1), "ascending"),
        ((1, 2), (1, -1), (1, 1), "negative number of files"),
        ((1, 2), (1, 1), (1, -1), "negative number of bytes"),
        ((1, 2), (1, 1), (2**62, 2**62), "more bytes than possible"),
    ],
)
def test_what_is_no_curve_is_refused(hours, counts, sizes, why: str) -> None:
    with pytest.raises(DataError, match=why):
        AgeCurve(*(np.array(values, np.int64) for values in (hours, counts, sizes)))


def test_numbers_beyond_int64_are_refused_and_never_wrap() -> None:
    with raises(DataError, "curve-malformed"):
        AgeCurve.from_buffers(*packed([(1, 1, 2**63)]))


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
    usage = data.draw(usages(at_least=sum(one.allocated_bytes for one in found)))
    horizon = find_horizon(curve_of(found), usage, target, youngest_hour=youngest_hour)
    required, exact = horizon.required_bytes, Fraction(str(target))
    assert Fraction(usage.used_bytes - required, usage.total_bytes) <= exact
    if required:  # and not one byte less
        assert Fraction(usage.used_bytes - required + 1, usage.total_bytes) > exact
    expected = earliest_cut_off(found, required, youngest_hour)
    if not required:
        assert horizon.status is HorizonStatus.MET_ALREADY
        assert (horizon.cut_off_hour, horizon.freed) == (None, Freed())
    elif expected is None:
        assert horizon.status is HorizonStatus.OUT_OF_REACH
        assert horizon.cut_off_hour == youngest_hour
        assert Freed(*freed_by(found, youngest_hour * HOUR_S)) == horizon.freed
        assert horizon.shortfall_bytes == required - horizon.freed.allocated_bytes > 0
    else:
        assert horizon.status is HorizonStatus.REACHED
        assert horizon.cut_off_hour == expected
        assert Freed(*freed_by(found, expected * HOUR_S)) == horizon.freed
        assert horizon.after is not None
        assert Fraction(horizon.after.used_bytes, usage.total_bytes) <= exact
        assert horizon.shortfall_bytes == 0
    assert all(word.isprintable() for word in horizon.words(AT_S))


def test_ties_go_together() -> None:
    """Files of one hour are on one side of a cut-off, and more goes than was asked for."""
    curve = AgeCurve.of([5, 5, 5], [1, 1, 1], [10, 10, 10])
    horizon = find_horizon(curve, Usage(100, 0), 0.99, youngest_hour=50)
    assert (horizon.required_bytes, horizon.cut_off_hour) == (1, 6)
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


@pytest.mark.parametrize("kept_back", [{}, {"exempt_path": (9, 80)}])
def test_an_empty_curve_reaches_nothing(kept_back: dict[str, tuple[int, int]]) -> None:
    """Also where that is because everything is exempt."""
    empty = AgeCurve.together(())
    horizon = find_horizon(empty, Usage(80, 20), 0.7, youngest_hour=20, kept_back=kept_back)
    assert horizon.status is HorizonStatus.OUT_OF_REACH
    assert (horizon.shortfall_bytes, horizon.freed, horizon.eligible) == (10, Freed(), Freed())


def test_out_of_reach_says_what_stays_and_why() -> None:
    curve = AgeCurve.of([10], [1], [5])
    kept = {"too_young": (7, 60), "exempt_user": (1, 15), "other_links": (0, 0)}
    horizon = find_horizon(curve, Usage(80, 20), 0.7, youngest_hour=20, kept_back=kept)
    assert [one.reason for one in horizon.kept] == ["too_young", "exempt_user", "other_links"]
    text = " ".join(horizon.words(AT_S))
    assert "No horizon reaches 70.0 %" in text
    assert "too young: 60 B in 7 files" in text
    assert horizon.doubts == ()


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
    by_growth = {0: 20, 5: 30, -50: 20, 10**9: 60}  # the last: full, and no fuller
    for growth, listed in by_growth.items():
        assert publication_bytes(usage, 0.7, growth_bytes=growth) == listed
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

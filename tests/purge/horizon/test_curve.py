"""A curve says what lies before an hour, and refuses what cannot be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.purge.horizon.slow import SPAN_HOURS, File, curve_of, days_of, files, freed_by
from tests.support.codes import raises

from trimtab.base.error import DataError
from trimtab.purge.horizon.age_curve import HOUR_S, AgeCurve, Freed, OwnerDays


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
    again = AgeCurve.from_buffers(
        curve.hours.tobytes(),
        curve.files.astype(np.uint64).tobytes(),
        curve.allocated_bytes.astype(np.uint64).tobytes(),
    )
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


def test_days_leave_a_part_of_one_open() -> None:
    days = days_of({7: [(10, 1, 100), (11, 2, 1000)]})
    assert days.freed_before(11 * 24) == ([Freed(1, 100)], [Freed(1, 100)])
    assert days.freed_before(11 * 24 + 1) == ([Freed(1, 100)], [Freed(3, 1100)])
    assert days.freed_before(12 * 24) == ([Freed(3, 1100)], [Freed(3, 1100)])
    assert days.freed_before(-1) == ([Freed()], [Freed()])
    assert days.totals == [Freed(3, 1100)]


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


def packed(days: list[int], counts: list[int], sizes: list[int]) -> tuple[bytes, bytes, bytes]:
    kinds = (np.int64, np.uint64, np.uint64)
    values = zip((days, counts, sizes), kinds, strict=True)
    first, second, third = (np.array(one, kind).tobytes() for one, kind in values)
    return first, second, third


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (packed([1, 2], [1], [1, 1]), "as many counts and bytes as days"),
        (packed([2, 1], [1, 1], [1, 1]), "ascending"),
        (packed([1, 1], [1, 1], [1, 1]), "ascending"),
        (packed([1], [1], [2**63]), "63 bits"),
        (packed([1, 2], [1, 1], [2**62, 2**62]), "more than possible"),
    ],
)
def test_days_that_cannot_be_are_refused(one: tuple[bytes, bytes, bytes], why: str) -> None:
    good = packed([5, 6], [1, 1], [1, 1])
    for each in ([(1, one)], [(1, good), (2, one)], [(1, one), (2, good), (3, good)]):
        with pytest.raises(DataError, match=why):
            OwnerDays.from_buffers(each)


def test_owners_without_days_are_owners() -> None:
    empty, good = packed([], [], []), packed([5, 6], [1, 1], [1, 1])
    for each in ([], [(1, empty)], [(1, empty), (2, good), (3, empty), (4, good), (5, empty)]):
        days = OwnerDays.from_buffers(each)
        assert [total.files for total in days.totals] == [len(one[0]) // 8 for _, one in each]


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


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
        AgeCurve(integers(*hours), integers(*counts), integers(*sizes))


def test_numbers_beyond_int64_are_refused_and_never_wrap() -> None:
    hours = integers(1).tobytes()
    one, large = np.array([1], np.uint64).tobytes(), np.array([2**63], np.uint64).tobytes()
    with raises(DataError, "curve-malformed"):
        AgeCurve.from_buffers(hours, one, large)

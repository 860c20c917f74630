"""A curve says what lies before an hour, and refuses what cannot be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.purge.horizon.slow import SPAN_HOURS, File, curve_of, files, freed_by

from trimtab.errors import DataError
from trimtab.purge.horizon.curve import HOUR_S, AgeCurve, DayCurve, Freed


@given(files, st.integers(-5, SPAN_HOURS + 5))
def test_what_lies_before_an_hour(found: list[File], hour: int) -> None:
    freed = curve_of(found).freed_before(hour)
    assert (freed.files, freed.allocated_bytes) == freed_by(found, hour * HOUR_S)


@given(files, files, files)
def test_merging_is_as_if_all_had_been_one(
    one: list[File], two: list[File], three: list[File]
) -> None:
    whole = curve_of([*one, *two, *three])
    left = curve_of(one).merge(curve_of(two)).merge(curve_of(three))
    right = curve_of(three).merge(curve_of(two).merge(curve_of(one)))
    for merged in (left, right):
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


def test_an_empty_curve() -> None:
    empty = AgeCurve.empty()
    assert empty.total == Freed()
    assert empty.freed_before(10**9) == Freed()
    assert empty.earliest_freeing(1) is None
    assert empty.merge(empty).total == Freed()


def test_days_leave_a_part_of_one_open() -> None:
    days = DayCurve(AgeCurve.of([10, 11], [1, 2], [100, 1000]))
    assert days.freed_before(11 * 24) == (Freed(1, 100), Freed(1, 100))
    assert days.freed_before(11 * 24 + 1) == (Freed(1, 100), Freed(3, 1100))
    assert days.freed_before(12 * 24) == (Freed(3, 1100), Freed(3, 1100))
    assert days.freed_before(-1) == (Freed(), Freed())
    assert days.total == Freed(3, 1100)


@given(files, st.integers(-5, SPAN_HOURS + 5))
def test_days_hold_the_truth_between_least_and_most(found: list[File], hour: int) -> None:
    days = DayCurve(
        AgeCurve.of(
            [one.last_use_s // 86400 for one in found],
            [1] * len(found),
            [one.allocated_bytes for one in found],
        )
    )
    least, most = days.freed_before(hour)
    count, size = freed_by(found, hour * HOUR_S)
    assert least.files <= count <= most.files
    assert least.allocated_bytes <= size <= most.allocated_bytes


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("hours", "counts", "sizes", "why"),
    [
        ((1, 2), (1,), (1, 1), "as many hours"),
        ((2, 1), (1, 1), (1, 1), "ascending"),
        ((1, 1), (1, 1), (1, 1), "ascending"),
        ((1, 2), (1, -1), (1, 1), "less than no files"),
        ((1, 2), (1, 1), (1, -1), "less than no bytes"),
        ((1, 2), (1, 1), (2**62, 2**62), "more bytes than there can be"),
    ],
)
def test_what_is_no_curve_is_refused(hours, counts, sizes, why: str) -> None:
    with pytest.raises(DataError, match=why):
        AgeCurve(integers(*hours), integers(*counts), integers(*sizes))


def test_numbers_beyond_int64_are_refused_and_never_wrap() -> None:
    hours = integers(1).tobytes()
    one, large = np.array([1], np.uint64).tobytes(), np.array([2**63], np.uint64).tobytes()
    with pytest.raises(DataError, match="63 bits"):
        AgeCurve.from_buffers(hours, one, large)

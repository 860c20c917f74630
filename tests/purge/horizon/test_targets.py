"""Single OSTs: the common cut-off, and those that no horizon fixes."""

from __future__ import annotations

from fractions import Fraction

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

from trimtab.purge.horizon.curve import HOUR_S, AgeCurve
from trimtab.purge.horizon.horizon import HorizonStatus, find_horizon
from trimtab.purge.horizon.targets import find_ost_horizons, ost_name
from trimtab.purge.horizon.usage import Usage

OSTS = range(4)


@given(
    files,
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**6)), min_size=4, max_size=4),
    st.sampled_from([0.3, 0.5, 0.75, 0.9]),
    st.integers(0, SPAN_HOURS),
)
def test_the_common_cut_off_is_the_one_that_brute_force_finds(
    found: list[File], rest: list[tuple[int, int]], limit: float, youngest_hour: int
) -> None:
    parts = {ost: [one for one in found if one.ost == ost] for ost in OSTS}
    usages = {
        ost: Usage(sum(one.allocated_bytes for one in parts[ost]) + rest[ost][0], rest[ost][1])
        for ost in OSTS
    }
    whole = Usage(
        sum(one.used_bytes for one in usages.values()),
        sum(one.available_bytes for one in usages.values()),
    )
    curves = {ost: curve_of(part) for ost, part in parts.items() if part}
    got = find_ost_horizons(
        curves, usages, limit, whole=curve_of(found), usage=whole, youngest_hour=youngest_hour
    )
    needed = []
    for ost in OSTS:
        excess = usages[ost].excess_bytes(limit)
        hour = earliest_cut_off(parts[ost], excess, youngest_hour)
        (one,) = (one for one in got.osts if one.index == ost)
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
        for one in got.osts:
            freed = freed_by(parts[one.index], got.cut_off_hour * HOUR_S)
            assert freed == (one.freed.files, one.freed.allocated_bytes)
            if one.status is HorizonStatus.REACHED:
                assert one.after is not None
                total = one.usage.total_bytes
                assert Fraction(one.after.used_bytes, total) <= Fraction(str(limit))
        assert got.target is not None
        # The overall target that is told brings every OST there too.
        same = find_horizon(curve_of(found), whole, got.target, youngest_hour=youngest_hour)
        assert (
            same.cut_off_hour is None
            or same.cut_off_hour >= got.cut_off_hour
            or (same.freed.allocated_bytes >= got.freed.allocated_bytes)
        )
    assert all(word.isprintable() for word in got.words(100 * HOUR_S))


def test_an_ost_of_young_files_is_helped_by_no_horizon() -> None:
    curves = {0: AgeCurve.of([10], [1], [30]), 0x12: AgeCurve.of([10], [1], [2])}
    usages = {0: Usage(80, 20), 0x12: Usage(90, 10)}
    got = find_ost_horizons(
        curves, usages, 0.75,
        whole=AgeCurve.of([10], [2], [32]), usage=Usage(170, 30), youngest_hour=24 * 10,
    )  # fmt: skip
    assert got.cut_off_hour == 11
    assert [one.name for one in got.unfixable] == ["OST0012"]
    assert got.target == 0.69
    at_s = 100 * 86400
    assert got.words(at_s)[-1] == (
        "No horizon down to 90.0 d fixes OST0012: it is at 90.0 %, at best 88.0 %. "
        "Move files off it, or stop new ones."
    )
    assert "every OST that a horizon can bring there to 75.0 %" in got.words(at_s)[0]


def test_nothing_is_needed_where_every_ost_is_under_the_limit() -> None:
    got = find_ost_horizons(
        {}, {0: Usage(10, 90)}, 0.75, whole=AgeCurve.empty(), usage=Usage(10, 90), youngest_hour=0
    )
    assert got.cut_off_hour is None
    assert got.target is None
    assert got.words(0) == ("Every OST is at or under 75.0 %: nothing has to go.",)


def test_what_does_not_fit_together_is_said() -> None:
    curves = {0: AgeCurve.of([1], [1], [99]), 5: AgeCurve.of([1], [1], [1])}
    got = find_ost_horizons(
        curves, {0: Usage(10, 90)}, 0.75,
        whole=AgeCurve.of([1], [1], [100]), usage=Usage(10, 90), youngest_hour=5,
    )  # fmt: skip
    assert any("OST0005, of which no use is known" in doubt for doubt in got.doubts)
    assert any("OST0000, which uses" in doubt for doubt in got.doubts)


def test_names_are_lustre_s() -> None:
    assert (ost_name(0), ost_name(255), ost_name(0xFFFF)) == ("OST0000", "OST00ff", "OSTffff")

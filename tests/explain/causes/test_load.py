"""Load of other jobs: how much of it matters, when it comes and goes, and when it stays."""

from __future__ import annotations

import itertools
from datetime import datetime

import pytest
from tests.explain.causes.contexts import (
    BAD_FROM,
    HOUR,
    HOURS,
    OSTS,
    START,
    By,
    Row,
    counter,
    gauge,
    incident,
    quiet,
    reading,
    shows,
)

from trimtab.base.incident import Found, Shape
from trimtab.explain.causes.competing_load import COMPETING_LOAD as LOAD
from trimtab.explain.causes.competing_load import _weight_of_share
from trimtab.explain.context import Context, Period

BYTES = "client_bytes_written_total"


def test_the_weight_of_additional_load_has_no_jump() -> None:
    shares = [n / 1000 for n in range(1, 2000)]
    weights = [_weight_of_share(share) for share in shares]
    assert weights == sorted(weights)
    assert max(b - a for a, b in itertools.pairwise(weights)) < 0.1
    assert (weights[0], weights[149], weights[-1]) == pytest.approx((-1.5, 0.5, 1.0), abs=0.01)


def test_load_that_comes_and_goes_is_seen_in_its_busy_hours() -> None:
    """Every other six hours of the bad ones are busy: half of them are as ever."""

    def written(busy: bool) -> list[Row]:
        rows = []
        for target in OSTS:
            total = 1e9
            for n, at in enumerate(HOURS):
                bursts = busy and at >= BAD_FROM and n // 6 % 2
                total += (16e9 if bursts else (0.9 + 0.05 * (n // 6 % 3)) * 1e9) * 3600
                rows.append(reading(at, target, BYTES, total))
        return rows

    of = incident(Shape.UNSTEADY, effect=None)
    shows(LOAD, quiet(written(busy=True), of=of), "load-in-time", Found.FOR)
    shows(LOAD, quiet(written(busy=True), of=of), "load-of-reach", Found.FOR)
    shows(LOAD, quiet(written(busy=False), of=of), "load-in-time", Found.AGAINST)
    shows(LOAD, quiet(written(busy=False), of=of), "load-of-reach", Found.AGAINST)


def test_load_as_large_as_the_probe_is_felt_however_long_it_lasts() -> None:
    def shape(per_target: float) -> float:
        busy = counter(BYTES, 1e9, per_target)
        return shows(LOAD, quiet(busy, now=BAD_FROM + 24 * 20 * HOUR), "shape-of-load").weight

    assert shape(1e9) == shape(20e9) == -1.2
    assert shape(80e9) == -0.4


def test_the_longer_a_level_lasts_the_less_it_is_load() -> None:
    busy = counter(BYTES, 1e9, 20e9)
    weights = [
        shows(LOAD, quiet(busy, now=BAD_FROM + days * 24 * HOUR), "shape-of-load").weight
        for days in (4, 7, 9.8, 10, 20)
    ]
    assert weights == sorted(weights, reverse=True)
    assert weights[0] == pytest.approx(-0.4)
    assert weights[2] == pytest.approx(weights[3], abs=0.05)
    assert weights[3] == weights[4]


def test_load_that_goes_on_when_runs_are_well_again_slows_none() -> None:
    """A quiet week before makes any day look busy; the day after tells."""
    ended = BAD_FROM + 6 * HOUR

    def written(after: float) -> list[Row]:
        rows = []
        for target in OSTS:
            total = 1e9
            for at in HOURS:
                rate = 1e9 if at < BAD_FROM else 20e9 if at <= ended else after
                total += rate * 3600
                rows.append(reading(at, target, BYTES, total))
        return rows

    of, bad = incident(Shape.DIP, until=ended), (Period(BAD_FROM, ended),)
    shows(LOAD, quiet(written(20e9), of=of, bad=bad), "load-after", Found.AGAINST)
    shows(LOAD, quiet(written(15e9), of=of, bad=bad), "load-after", Found.NEUTRAL)
    shows(LOAD, quiet(written(1e9), of=of, bad=bad), "load-after", Found.NEUTRAL)
    shows(LOAD, quiet(written(20e9), of=incident(Shape.STEP)), "load-after", Found.NOT_AVAILABLE)
    shows(LOAD, quiet(of=of, bad=bad), "load-after", Found.NEUTRAL)
    spread = incident(Shape.UNSTEADY, until=ended)
    shows(LOAD, quiet(written(20e9), of=spread, bad=bad), "load-after", Found.NOT_AVAILABLE)


def filled(usual_per_s: float, burst_per_s: float, grown: float) -> Context:
    """Return targets that others wrote to for two hours before the first bad one, and filled."""
    begin = BAD_FROM - 2 * HOUR

    def hours_of_burst(at: datetime) -> float:
        return max(0.0, min(2.0, (at - begin) / HOUR))

    def space(part: float) -> By:
        def used(_: str, at: datetime) -> float:
            share = 0.6 + grown * hours_of_burst(at) / 2
            return 1e14 * (share if part else 1 - share)

        return used

    written = [
        reading(at, target, BYTES, 3600 * (usual_per_s * n + burst_per_s * hours_of_burst(at)))
        for target in OSTS
        for n, at in enumerate(HOURS)
    ]
    rows = (gauge("used_bytes", space(1)), gauge("available_bytes", space(0)), written)
    return quiet(*rows, of=incident(at=BAD_FROM), good=(Period(START, BAD_FROM - 3 * HOUR),))


def test_load_that_filled_the_targets_is_seen_where_they_filled() -> None:
    """No byte is written once they are full: in the bad hours there is nothing to see."""
    size = 1e14 * 0.39 / (2 * 3600)
    piece = shows(LOAD, filled(1e8, size, 0.39), "load-filled", Found.FOR, at=BAD_FROM - 2 * HOUR)
    assert piece.weight == pytest.approx(1.5)
    assert all(each.weight >= 0 for each in LOAD.evidence(filled(1e8, size, 0.39)))
    # They filled though nobody wrote more than ever: what had been removed before no longer is.
    shows(LOAD, filled(size, 0.0, 0.39), "load-filled", Found.NEUTRAL)
    # What others wrote is little of it.
    shows(LOAD, filled(1e8, size / 4, 0.39), "load-filled", Found.NEUTRAL)
    shows(LOAD, filled(1e8, size, 0.1), "load-filled", reason="not-filled")

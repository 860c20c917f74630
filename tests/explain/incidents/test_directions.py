"""Changes without a known direction are told, and a level that scatters more makes no dips."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.calibration import series
from tests.explain.incidents.frames import WRITE, found
from tests.explain.incidents.test_incidents import change, merged_of, quiet
from tests.support.counts import repetitions
from tests.support.small_site import HOUR, hour

from trimtab.base.error import Message
from trimtab.base.incident import IncidentState, Shape
from trimtab.base.series import DIRECTION, ChangePoint, ChangeStatus
from trimtab.base.verdict import Interval

DAYS, SINCE = 70, 38


def undirected(at: int, **more: Any) -> ChangePoint:
    reason = Message(DIRECTION, "changed, direction not known: 0.88 to 1.06 times the level before")
    point = change(at, 0.97, effect_interval=Interval(0.88, 1.06, 0.95), reason=reason)
    return replace(point, effect=None, **more)


def test_a_change_without_a_direction_is_told_as_one() -> None:
    (incident,) = merged_of({WRITE: quiet(1)}, {WRITE: [undirected(600)]})
    assert (incident.at, incident.shape, incident.effect) == (hour(600), Shape.STEP, None)
    assert incident.effect_interval == Interval(0.88, 1.06, 0.95)
    assert "changed, direction not known (0.88 to 1.06 times)" in incident.summary
    assert "% lower" not in incident.summary
    (lasting,) = merged_of({WRITE: quiet(1)}, {WRITE: [undirected(400)]})
    assert lasting.state is IncidentState.LASTING


def test_a_change_without_a_direction_adds_nothing_to_a_lower_level() -> None:
    """Sixteen days after it fell."""
    changes = {WRITE: [change(200, 0.7), undirected(584)]}
    (incident,) = merged_of({WRITE: quiet(1, (200, 840, 0.7))}, changes)
    assert (incident.at, incident.until) == (hour(200), None)


def test_it_ends_with_the_next_change_and_waits_for_confirmation() -> None:
    gone = {WRITE: [undirected(400), change(560, 0.97, back=True)]}
    (incident,) = merged_of({WRITE: quiet(1)}, gone)
    assert incident.until is not None
    assert abs(incident.until - hour(559)) <= 12 * HOUR
    suspect = undirected(600, status=ChangeStatus.SUSPECT, confirmed_at=None)
    assert merged_of({WRITE: quiet(1)}, {WRITE: [suspect]}) == ()


def test_one_that_cannot_have_lost_much_is_no_incident() -> None:
    small = replace(undirected(600), effect_interval=Interval(0.976, 1.08, 0.95))
    assert merged_of({WRITE: quiet(1)}, {WRITE: [small]}) == ()


def beside_a_slow_drive(seed: int, phi: float = 0.3) -> np.ndarray:
    """Return a series that loses 8 % and scatters far more below its level from day 38 on."""
    rng = np.random.default_rng([seed, 9])
    hours = 24 * DAYS
    noise = series.ar1(hours, phi, rng)
    tail = series.ar1(hours, phi, rng, innovations="t3")
    since = np.arange(hours) >= 24 * SINCE
    wide = np.where(tail < 0, 4.0, 0.7) * tail
    return series.lognormal(np.where(since, wide, noise), cov=0.04) * np.where(since, 0.92, 1.0)


@pytest.mark.parametrize("trials", repetitions(4, 60, pytest.mark.calibration))
def test_a_level_that_scatters_more_makes_few_dips(trials: int) -> None:
    """At most 0.5 a month, as tails so heavy make anywhere; one scatter for all runs made 1.4."""
    dips = []
    for seed in range(trials):
        incidents = found({WRITE: series.frame(beside_a_slow_drive(seed))}).incidents
        dips += [each.summary for each in incidents if each.shape is Shape.DIP]
    months = trials * (DAYS - SINCE) / 30
    assert len(dips) <= 0.5 * months + 3 * (0.5 * months) ** 0.5 * (trials < 20), dips


@pytest.mark.parametrize("seed", range(2))
def test_hours_that_lose_half_in_such_a_level_are_found(seed: int) -> None:
    values = beside_a_slow_drive(seed)
    begin = 24 * (SINCE + 20)
    values[begin : begin + 6] *= 0.5
    near = [
        each
        for each in found({WRITE: series.frame(values)}).incidents
        if abs(each.at - hour(begin)) <= 6 * HOUR
    ]
    assert [each.shape for each in near] == [Shape.DIP]

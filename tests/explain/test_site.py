"""A whole site result: what is loaded, one moment, and what was wrong all along."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache

import polars as pl
import pytest
from tests.explain.contexts import hours, plain_context, plain_incident
from tests.explain.worlds import WorldSource, incidents_of, known_of
from tests.incidents.generate import make_world
from tests.incidents.world import Incident as Fault
from tests.incidents.world import Site, Spec, World

from trimtab.base.incident import NAMED, Shape
from trimtab.explain.causes import TABLE
from trimtab.explain.context import BAD_TIMES, GOOD_TIMES, SURVEYS, Telemetry
from trimtab.explain.site_explanation import (
    Known,
    context_of,
    explain_incidents,
    explain_moment,
    standing_of,
)


@cache
def failed_over() -> tuple[World, Known]:
    """Two weeks of a small site whose servers bind its probe; one failed over on the eighth day."""
    fault = Fault("failover", 8.0, 30.0, 1.0)
    spec = Spec(5, days=14, osts=8, incidents=(fault,), site=Site(bound_by="servers"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of the generator's own arithmetic
        world = make_world(spec)
    return world, known_of(world)


@pytest.mark.calibration
def test_only_a_few_snapshots_are_loaded_for_an_incident() -> None:
    world, known = failed_over()
    incidents = incidents_of(world, known)
    source = WorldSource(world)
    explanations = explain_incidents(incidents, known, source)
    assert [explanation.incident.id for explanation in explanations] == [
        incident.id for incident in incidents
    ]
    assert source.loaded <= (len(incidents) + 2) * (BAD_TIMES + GOOD_TIMES + 3)
    first = next(
        explanation
        for explanation in explanations
        if explanation.causes and explanation.causes[0].cause == "failover"
    )
    assert not first.unexplained
    assert first.causes[0].confidence > 0.9
    assert {instrument.name for instrument in first.instruments} >= {
        "hourly",
        "survey of single targets",
    }


def test_the_snapshot_after_a_short_dip_is_loaded_with_it() -> None:
    """Counters of snapshots four hours apart: what grew in the dip is in the first one after it."""
    dip = plain_incident(at=hours(400), until=hours(401))
    known = Known("s", hours(0), hours(700), {}, pl.DataFrame(schema=SURVEYS))
    loaded: list[datetime] = []

    class Sparse:
        def times(self, since: datetime, until: datetime) -> Sequence[datetime]:
            every_4_h = (hours(h + 0.5) for h in range(0, 700, 4))
            return [at for at in every_4_h if since <= at <= until]

        def frames(self, times: Sequence[datetime]) -> Telemetry:
            loaded.extend(times)
            return plain_context().telemetry

    context_of(dip, known, Sparse())
    assert {hours(396.5), hours(400.5), hours(404.5)} <= {*loaded}


@pytest.mark.calibration
def test_the_same_record_is_explained_alike() -> None:
    world, known = failed_over()
    incidents = incidents_of(world, known)
    once, again = (explain_incidents(incidents, known, WorldSource(world)) for _ in range(2))
    assert once == again


@pytest.mark.calibration
def test_a_moment_tells_what_was_looked_for_whether_anything_was_wrong_or_not() -> None:
    world, known = failed_over()
    for day, wrong in ((4.5, False), (8.5, True)):
        at = known.record_from + timedelta(days=day)
        result = explain_moment(at, known, WorldSource(world))
        listed = [cause.cause for cause in (*result.causes, *result.cleared, *result.not_assessed)]
        assert sorted(listed) == sorted(cause.id for cause in TABLE)
        assert all(
            assessed.evidence
            for assessed in (*result.causes, *result.cleared, *result.not_assessed)
        )
        names = [cause.cause for cause in result.causes if wrong or cause.confidence >= NAMED]
        assert names[:1] == (["failover"] if wrong else [])
        assert result.incident.at <= at <= (result.incident.until or known.now)
        assert result.incident.shape is Shape.MOMENT


@pytest.mark.calibration
def test_a_moment_at_the_very_beginning_and_end() -> None:
    world, known = failed_over()
    for at in (known.record_from, known.now):
        result = explain_moment(at, known, WorldSource(world))
        assert result.incident.summary.startswith(f"{at:%Y-%m-%d %H:%M}")


@pytest.mark.calibration
@pytest.mark.parametrize("stopped", [True, False])
def test_a_site_that_never_trimmed_has_that_as_a_standing_condition(stopped: bool) -> None:
    site = Site(bound_by="clients", fullness=0.6, trim_every_h=None if stopped else 24.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        world = make_world(Spec(6, days=35, osts=8, site=site))
    standing = {
        condition.cause: condition for condition in standing_of(known_of(world), WorldSource(world))
    }
    assert ("trim-overdue" in standing) == stopped
    if stopped:
        assert standing["trim-overdue"].standing
        assert standing["trim-overdue"].measurement

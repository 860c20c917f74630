"""An incident with stages: each cause is looked for in the whole and in each stage by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import polars as pl
import pytest
from tests.explain.contexts import hours, plain_context, plain_incident

from trimtab.base.incident import Evidence, IncidentState, Route, Shape, Stage
from trimtab.explain.context import SURVEYS, Cause, Context, Telemetry
from trimtab.explain.contrast import Sign
from trimtab.explain.explanation import explain, gather
from trimtab.explain.sight import View
from trimtab.explain.site_explanation import Known, stages_of

BEGAN, LATER = hours(240), hours(300)


class NoSnapshots:
    """A source without any snapshot."""

    def times(self, since: datetime, until: datetime) -> Sequence[datetime]:
        return []

    def frames(self, times: Sequence[datetime]) -> Telemetry:
        return plain_context().telemetry


def staged(*begins: datetime, until: datetime | None = None) -> tuple[Context, ...]:
    known = Known("s", hours(0), hours(400), {}, pl.DataFrame(schema=SURVEYS))
    incident = plain_incident(
        at=BEGAN, until=until, shape=Shape.STEP, state=IncidentState.OPEN,
        onset=(hours(238), BEGAN), stages=tuple(Stage(at, "lower") for at in begins),
    )  # fmt: skip
    return stages_of(incident, known, NoSnapshots())


def test_the_hours_of_a_stage_end_with_the_next_and_are_held_against_those_before_it() -> None:
    first, second = staged(BEGAN, LATER)
    assert (first.bad[0].from_, first.bad[-1].to) == (BEGAN, LATER)
    assert first.incident.onset == (hours(238), BEGAN)
    assert second.bad[0].from_ == second.incident.at == LATER
    assert second.incident.onset is None
    assert first.is_good(hours(200))
    assert not first.is_good(hours(280))
    assert second.is_good(hours(280))
    assert staged() == ()


def cause(of_whole: float, in_stage: float) -> Cause:
    """Return a cause with so much evidence in the whole, and in the second stage."""

    def assess(context: Context) -> tuple[Evidence, ...]:
        weight = in_stage if context.incident.at == LATER else of_whole
        return (Sign("seen", Route.TIME, view=View.PROBE).weighed("seen", weight),)

    return Cause("a", "a", 0.05, assess, "measure a", signs=("seen",))


def stages() -> tuple[Context, ...]:
    whole = plain_context()
    return tuple(
        replace(whole, incident=replace(whole.incident, at=at)) for at in (hours(49), LATER)
    )


@pytest.mark.parametrize(
    ("of_whole", "in_stage", "weights"),
    [
        (0.2, 2.0, [2.0, -math.log10(3)]),
        (2.0, 0.2, [2.0]),
        # As many looks find as much by chance.
        (1.0, 1.0 + math.log10(2), [1.0]),
    ],
)
def test_a_cause_takes_its_best_stage_and_says_which(
    of_whole: float, in_stage: float, weights: list[float]
) -> None:
    ((_, pieces),) = gather(plain_context(), [cause(of_whole, in_stage)], stages=stages())
    assert [piece.weight for piece in pieces] == pytest.approx(weights)
    told = [str(piece.what) for piece in pieces if piece.what.code == "of-one-stage"]
    assert told == (["in the stage from 14 March 12:00 alone, one of 3 looks at the incident"]
                    if len(weights) > 1 else [])  # fmt: skip


def test_a_quantity_of_one_stage_is_not_that_of_the_whole() -> None:
    """Lines of two causes may be of different hours: then they state different quantities."""

    def assess(context: Context) -> tuple[Evidence, ...]:
        later = context.incident.at == LATER
        sign = Sign("seen", Route.TIME, view=View.PROBE)
        return (sign.weighed("seen", 2.0 * later, value=1.0 + later, quantity="cpu"),)

    seen = Cause("a", "a", 0.05, assess, "measure a", signs=("seen",))
    whole = replace(seen, assess=lambda context: assess(plain_context()))
    (_, of_stage), (_, of_whole) = gather(plain_context(), [seen, whole], stages=stages())
    assert (of_whole[0].quantity, of_whole[0].value) == ("cpu", 1.0)
    assert of_stage[0].value == 2.0
    assert of_stage[0].quantity == "cpu in the stage from 14 March 12:00 alone"


def test_a_cause_of_a_later_stage_is_named() -> None:
    table = [cause(0.0, 2.5)]
    assert not explain(plain_context(), table=table).causes
    (named,) = explain(plain_context(), table=table, stages=stages()).causes
    assert named.confidence > 0.5

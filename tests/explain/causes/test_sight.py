"""Evidence speaks against a cause only where it would look different if the cause held."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tests.explain.causes.contexts import (
    BAD_FROM,
    HOUR,
    OSTS,
    START,
    Row,
    context,
    event,
    incident,
    quiet,
    runs,
    setting,
    shows,
    sound,
    survey,
    with_log,
)
from tests.explain.causes.test_every_cause import CONTEXTS
from tests.support.each import for_each

from trimtab.base.event import EventKind
from trimtab.base.incident import NAMED, Against, Found, Route
from trimtab.explain.breadth import breadth
from trimtab.explain.causes import TABLE
from trimtab.explain.causes.configuration_change import CONFIGURATION_CHANGE, acts_on
from trimtab.explain.causes.network import NETWORK
from trimtab.explain.context import Cause, Context
from trimtab.explain.contrast import Sign
from trimtab.explain.explanation import explain
from trimtab.explain.sight import EVERYWHERE, SEES, Layer, View

MANY = tuple(f"OST{n:04x}" for n in range(32))
CHANGED = event(EventKind.CONFIG_CHANGE, BAD_FROM - HOUR / 2, "SafeRet turned on on all clients")
CHECKSUMS = (*setting("checksums", "0", "1", targets=["nid1"]),)


def by_chance(*, seed: int = 20, low: int = 0, loss: float = 0.25) -> list[Row]:
    """Return nightly surveys of 32 targets with t3 noise, in which ``low`` targets lost some."""
    rng = np.random.default_rng(seed)
    times = [START + n * 8 * HOUR for n in range(6)] + [BAD_FROM + 4 * HOUR]
    rows = survey(15e9, targets=MANY, at=times)
    for row in rows:
        row["value"] = 15e9 * float(np.exp(0.04 * rng.standard_t(3)))
        if row["at"] >= BAD_FROM and row["target"] in MANY[2 : 2 + low]:
            row["value"] = 15e9 * (1 - loss)
    return rows


@cache
def scenes() -> tuple[Context, ...]:
    """Return records in which some instruments show nothing, and others something else."""
    slow = survey(15e9, 4e9, slow_targets=OSTS[:2])
    return (
        quiet(), sound(), sound(surveys=slow), quiet(surveys=by_chance()),
        quiet(events=with_log(CHANGED)),
    )  # fmt: skip


def checked(cause: Cause, of: Context) -> None:
    layers = cause.acts_on(of)
    for piece in cause.evidence(of):
        if piece.found is Found.AGAINST:
            assert piece.against is not None, piece
            assert piece.against is not Against.ABSENT or layers <= set(piece.sees), piece


@for_each("cause", TABLE, ids=lambda cause: cause.id)
def test_nothing_speaks_against_a_cause_that_it_cannot_see(cause: Cause) -> None:
    for of in scenes():
        checked(cause, of)


@for_each("cause", TABLE, ids=lambda cause: cause.id)
@for_each("view", list(View))
def test_a_view_that_is_blind_for_a_cause_does_not_contradict_it(cause: Cause, view: View) -> None:
    """A quiet look of every instrument at every cause: neutral wherever it is blind."""
    of = scenes()[0]
    layers = cause.acts_on(of)
    piece = Sign("as-ever", Route.TIME, view=view).weighed("as ever", -0.8)
    other = Cause("a", "a", 0.1, lambda _: (piece,), "look", acts_on=lambda _: layers)
    (counted,) = other.evidence(of)
    assert (counted.found is Found.AGAINST) == (layers <= SEES[view])


@pytest.mark.calibration
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CONTEXTS)
def test_no_record_makes_a_blind_look_speak(made: Context) -> None:
    for cause in TABLE:
        checked(cause, made)


# Chance


def test_targets_that_are_low_by_chance_are_not_slow() -> None:
    """Before, four robust standard deviations called targets slow in a third of such surveys."""
    slow = [len(breadth(context(surveys=by_chance(seed=n))).slow) for n in range(100)]
    assert sum(number > 0 for number in slow) <= 3


@pytest.mark.parametrize(("low", "loss"), [(3, 0.5), (1, 0.8), (8, 0.3)])
def test_targets_that_are_low_beyond_chance_are_slow(low: int, loss: float) -> None:
    found = [
        set(breadth(context(surveys=by_chance(seed=n, low=low, loss=loss))).slow) for n in range(30)
    ]
    assert sum(set(MANY[2 : 2 + low]) <= slow for slow in found) >= 27


def test_slow_targets_explain_a_loss_that_is_not_much_larger_than_theirs() -> None:
    slow = survey(15e9, 10e9, slow_targets=OSTS[:2])
    for effect, explains in ((0.7, True), (0.5, True), (0.2, False), (None, True)):
        seen = breadth(quiet(surveys=slow, of=incident(effect=effect)))
        assert (seen.slow, seen.explains) == (OSTS[:2], explains)


# A change on the clients, seen from the servers


@pytest.mark.parametrize("seed", [20, 22, 42])
@pytest.mark.parametrize(
    ("settings", "log"), [(CHECKSUMS, ()), ((), (CHANGED,)), (CHECKSUMS, (CHANGED,))]
)
def test_a_change_on_clients_is_named_whatever_noise_a_survey_of_targets_has(
    settings: tuple[Row, ...], log: tuple[object, ...], seed: int
) -> None:
    """In these surveys noise makes 3 of 32 targets lower by four robust standard deviations."""
    of = quiet(
        surveys=by_chance(seed=seed), settings=settings, events=with_log(*log),  # type: ignore[arg-type]
        of=incident(effect=0.86), runs=runs(673e9, 579e9),
    )  # fmt: skip
    result = explain(of)
    assert result.likeliest is not None
    assert (result.likeliest.cause, result.likeliest.confidence >= NAMED) == (
        "configuration-change",
        True,
    )


def test_few_targets_a_tenth_slower_say_nothing_of_a_change() -> None:
    rows = survey(15e9, 13e9, slow_targets=MANY[:3], targets=MANY)
    of = quiet(surveys=rows, events=with_log(CHANGED), of=incident(effect=0.7))
    pieces = [piece for piece in CONFIGURATION_CHANGE.evidence(of) if piece.route is Route.TARGETS]
    assert [piece.found for piece in pieces if piece.found is Found.AGAINST] == []


def test_a_change_that_snapshots_show_was_merely_not_written_down() -> None:
    notes = [event(EventKind.NOTE, START - n * 24 * HOUR, "inspected") for n in range(5)]
    of = quiet(settings=CHECKSUMS, events=with_log(*notes))
    shows(CONFIGURATION_CHANGE, of, "change-not-logged", Found.NEUTRAL)


def test_where_a_change_acts_follows_from_what_was_changed() -> None:
    def layers(detail: str = "", **more: object) -> set[str]:
        log = with_log(event(EventKind.CONFIG_CHANGE, BAD_FROM - HOUR, detail, **more))  # type: ignore[arg-type]
        return set(acts_on(quiet(events=log)))

    assert layers("SafeRet in the BIOS of compute nodes") == {"client"}
    assert layers("new firmware in two OSS") == {"server"}
    assert layers("mtu of the fabric") == {"network"}
    assert layers("tuned", targets=OSTS[:2]) == {"target"}
    assert layers("maintenance") == EVERYWHERE
    assert acts_on(quiet()) == EVERYWHERE
    assert acts_on(quiet(settings=CHECKSUMS)) == {"client"}


def test_targets_that_lost_little_do_not_clear_the_network() -> None:
    down = survey(15e9, 14e9, slow_targets=OSTS)
    piece = shows(NETWORK, quiet(surveys=down, of=incident(effect=0.5)), "clients-against-servers")
    assert piece.found is not Found.AGAINST
    down = survey(15e9, 8e9, slow_targets=OSTS)
    of = quiet(surveys=down, of=incident(effect=0.5, until=BAD_FROM + timedelta(hours=11)))
    shows(NETWORK, of, "clients-against-servers", Found.AGAINST)


def test_the_page_states_what_each_instrument_sees() -> None:
    page = (Path(__file__).parents[3] / "docs" / "explaining.md").read_text()
    for view, layers in SEES.items():
        cells = " | ".join("sees" if layer in layers else "-" for layer in get_args(Layer))
        assert f"| {view.value} | {cells} |" in page

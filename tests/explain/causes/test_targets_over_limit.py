"""`targets-over-limit`: fullness beyond the site's limit, in time, between targets, at all."""

from __future__ import annotations

from tests.explain.causes.around import shows, weight_of
from tests.explain.causes.contexts import OSTS, missing, space, survey
from tests.explain.causes.storage import OST_WRITE, SLOW, sound

from trimtab.base.incident import Found, Route
from trimtab.base.site import SiteLimits
from trimtab.explain.causes.storage.targets_over_limit import CAUSE


def test_over_limit_share() -> None:
    # Targets that went over the limit with the incident.
    of = sound(space(0.7, 0.8, targets=OSTS[:6]))
    assert weight_of(CAUSE, of) > 1.5
    shows(CAUSE, of, "over-limit-now", Found.FOR, value=0.8)
    time = shows(CAUSE, of, "over-limit-share", Found.FOR, targets=OSTS[:6])
    assert (time.value, time.reference) == (0.5, 0.0)
    # Over the limit in all hours is a standing condition.
    of = sound(space(0.8, targets=OSTS[:6]))
    shows(CAUSE, of, "over-limit-share", throughout=True, weight=0)
    shows(CAUSE, of, "over-limit-now", Found.FOR, value=0.8)


def test_targets_over_the_limit_that_got_fuller_still() -> None:
    of = sound(space(0.8, 0.95, targets=OSTS[:6]))
    shows(CAUSE, of, "fullest-in-time", Found.FOR, value=0.95)


def test_over_limit_now() -> None:
    # None over the limit is against.
    assert shows(CAUSE, sound(), "over-limit-now", value=0.6).weight < -1
    # Just under the limit tells little.
    shows(CAUSE, sound(space(0.7499)), "over-limit-now", Found.NEUTRAL, value=0.7499)
    shows(CAUSE, sound(space(0.75)), "over-limit-now", Found.NEUTRAL, value=0.75)
    # The limit is the sites own.
    of = sound(space(0.7), limits=SiteLimits(fullness=0.6))
    shows(CAUSE, of, "over-limit-now", Found.FOR, value=0.7)


def test_slow_targets_that_are_the_full_ones() -> None:
    slow = survey(OST_WRITE, 6e9, slow_targets=SLOW)
    of = sound(space(0.7, 0.8, targets=SLOW), surveys=slow)
    shows(CAUSE, of, "fullness-between-targets", Found.FOR)
    other = sound(space(0.7, 0.8, targets=OSTS[6:9]), surveys=slow)
    shows(CAUSE, other, "fullness-between-targets", Found.AGAINST)


def test_one_full_target_of_many_weighs_less_than_half_of_them() -> None:
    single, half = (sound(space(0.7, 0.8, targets=OSTS[:n])) for n in (1, 6))
    assert 0 < weight_of(CAUSE, single) < weight_of(CAUSE, half)


def test_fullness_that_nobody_read() -> None:
    of = sound(missing("used_bytes", "lfs df hung"), missing("available_bytes", "lfs df hung"))
    pieces = [piece for piece in CAUSE.assess(of) if piece.route is not Route.RUNS]
    assert {piece.found for piece in pieces} == {Found.NOT_AVAILABLE}
    assert all("lfs df hung" in (piece.reason or "") for piece in pieces)


def test_nothing_speaks_for_it_while_no_target_is_over_the_limit() -> None:
    fuller = sound(space(0.4, 0.6), surveys=survey(OST_WRITE, 7e9, slow_targets=SLOW))
    assert not [piece for piece in CAUSE.assess(fuller) if piece.what.code in CAUSE.signs
                and piece.weight > 0]  # fmt: skip
    assert weight_of(CAUSE, fuller) < -1

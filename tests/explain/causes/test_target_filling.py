"""`target-filling`: growth of one target far beyond the others."""

from __future__ import annotations

from tests.explain.causes.around import shows, weight_of
from tests.explain.causes.contexts import BAD_FROM, HOUR, OSTS, gauge, space, survey
from tests.explain.causes.storage import OST_WRITE, SIZE, SLOW, sound

from trimtab.base.incident import Found
from trimtab.explain.causes.storage import targets_over_limit
from trimtab.explain.causes.storage.target_filling import CAUSE

ONE = OSTS[4]


def test_one_target_that_fills() -> None:
    of = sound(space(0.6, 0.9, targets=[ONE]))
    assert weight_of(CAUSE, of) > 2
    shows(CAUSE, of, "filled-alone", Found.FOR, value=0.3, targets=(ONE,))


def test_it_says_more_than_that_a_target_is_over_its_limit() -> None:
    slow = survey(OST_WRITE, 5e9, slow_targets=[ONE])
    of = sound(space(0.6, 0.9, targets=[ONE]), surveys=slow)
    assert weight_of(CAUSE, of) > weight_of(targets_over_limit.CAUSE, of)


def test_filled_alone() -> None:
    # All growing alike is against.
    shows(CAUSE, sound(space(0.6, 0.7)), "filled-alone", Found.AGAINST)
    # Half of all growing is not one that fills.
    of = sound(space(0.6, 0.8, targets=OSTS[:5]))
    shows(CAUSE, of, "filled-alone", Found.AGAINST)
    # Two points more than the others are nothing.
    for grown, outcome in ((0.019, Found.AGAINST), (0.03, Found.NEUTRAL), (0.06, Found.FOR)):
        of = sound(space(0.6, 0.6 + grown, targets=[ONE]))
        shows(CAUSE, of, "filled-alone", outcome)


def test_noise_of_the_others_is_taken_into_account() -> None:
    def used(target: str, at: object) -> float:
        grown = 0.006 * (OSTS.index(target) % 6) ** 2  # 0 to 15 points, all of them
        return SIZE * (0.5 + (grown if at >= BAD_FROM else 0))  # pyrefly: ignore[unsupported-operation]

    of = sound(gauge("used_bytes", used), gauge("available_bytes", 0.3 * SIZE))
    assert shows(CAUSE, of, "filled-alone").found is not Found.FOR


def test_a_target_that_is_slow_itself() -> None:
    full = space(0.6, 0.9, targets=[ONE])
    slow = survey(OST_WRITE, 5e9, slow_targets=[ONE])
    shows(CAUSE, sound(full, surveys=slow), "full-and-slow", Found.FOR)
    others = survey(OST_WRITE, 5e9, slow_targets=SLOW)
    shows(CAUSE, sound(full, surveys=others), "full-not-slow", weight=-0.7)


def test_growth_that_came_after_the_first_bad_runs() -> None:
    def used(_: str, at: object) -> float:
        late = at >= BAD_FROM + 8 * HOUR  # pyrefly: ignore[unsupported-operation]
        return SIZE * (0.9 if late else 0.6)

    of = sound(gauge("used_bytes", used, targets=[ONE]))
    onset = shows(CAUSE, of, "onset-late")
    assert (onset.found, onset.at) == (Found.AGAINST, BAD_FROM + 8 * HOUR)


def test_far_from_its_limit_it_matters_less() -> None:
    low, high = (
        shows(CAUSE, sound(space(0.1, end, targets=[ONE])), "fullness-reached")
        for end in (0.4, 0.9)
    )
    assert low.found is Found.AGAINST
    assert high.found is Found.FOR


def test_two_targets_are_too_few_to_tell() -> None:
    of = sound(but=("used_bytes", "available_bytes"))
    assert all(piece.found is Found.NOT_AVAILABLE for piece in CAUSE.assess(of))

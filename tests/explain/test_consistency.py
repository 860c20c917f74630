"""One screen does not contradict itself: two lines that state one quantity state one value."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from tests.explain.causes.contexts import MDTS, OSTS, allocator, gauge, quiet, since, sound, space
from tests.explain.causes.test_every_cause import CONTEXTS
from tests.explain.causes.test_failed_runs import full_site

from trimtab.base.incident import Evidence
from trimtab.explain.context import Context, CpuProfile
from trimtab.explain.explanation import gather


def contradictions(of: Context) -> Iterator[tuple[Evidence, Evidence]]:
    """Yield pairs of pieces that state different values of one quantity."""
    stated: dict[str, Evidence] = {}
    for _, pieces in gather(of):
        for piece in pieces:
            if not piece.quantity or piece.value is None:
                continue
            other = stated.setdefault(piece.quantity, piece)
            same = other.value == piece.value or str(other.value) == str(piece.value)
            if not same:
                yield other, piece


def test_no_two_lines_state_different_values_of_one_quantity() -> None:
    profile = CpuProfile(None, {"ldiskfs_mb_find_by_goal": 0.3})
    for of in (
        sound(),
        quiet(),
        full_site(),
        sound(space(0.6, 0.95), profiles=[profile]),
        sound(allocator(0.0, 0.024), space(0.7, 0.9, targets=OSTS[:3])),
        sound(gauge("server_cpu_fraction", 0.3, 0.9)),
        sound(gauge("create_enabled", since(0, True, False), targets=(*OSTS[:6], *MDTS))),
    ):
        assert list(contradictions(of)) == []


@pytest.mark.calibration
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CONTEXTS)
def test_no_record_makes_two_lines_contradict_each_other(made: Context) -> None:
    assert list(contradictions(made)) == []


def test_quantities_that_several_causes_state_are_compared() -> None:
    """The comparison above compares something."""
    profile = CpuProfile(None, {"ldiskfs_mb_find_by_goal": 0.3})
    scenes = (sound(space(0.6, 0.95), profiles=[profile]), sound(allocator(0.0, 0.024)))
    counts: dict[str, int] = {}
    for of in scenes:
        for _, pieces in gather(of):
            for quantity in {piece.quantity for piece in pieces if piece.quantity}:
                counts[quantity] = counts.get(quantity, 0) + 1
    shared = {"fullest-target-at-most", "server-cpu-in-median-stretch", "allocator-cpu-share",
              "useless-loops-in-median-stretch"}  # fmt: skip
    assert shared <= {quantity for quantity, n in counts.items() if n >= 2}

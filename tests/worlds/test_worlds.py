"""Records of sites: reproducible, and as messy as real ones."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.worlds.record import World, make_world

pytestmark = pytest.mark.calibration

SEEDS = range(20)


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    return [make_world(seed) for seed in SEEDS]


def test_the_same_seed_gives_the_same_record() -> None:
    first, second = make_world(3), make_world(3)
    assert first.runs == second.runs
    assert first.events == second.events
    assert first.truth == second.truth
    assert dict(first.snapshots[5]) == dict(second.snapshots[5])


def test_records_are_as_various_as_real_ones(worlds: list[World]) -> None:
    days = [world.facts.hours / 24 for world in worlds]
    assert min(days) < 35
    assert max(days) > 300
    assert {world.facts.snapshot_every_h for world in worlds} >= {0, 1, 4}
    assert any(world.facts.nodes < world.facts.pool for world in worlds)
    assert any(not world.truth for world in worlds)
    faults = [fault for world in worlds for fault in world.truth]
    unknown = sum(fault.cause is None for fault in faults)
    assert 0.2 <= unknown / len(faults) <= 0.55
    assert any(
        fault.end - fault.begin > world.facts.hours / 4 for world in worlds for fault in world.truth
    )


def test_runs_stay_unfinished_without_any_fault(worlds: list[World]) -> None:
    quiet = [world for world in worlds if not world.truth]
    assert any(run["status"] == "unfinished" for world in quiet for run in world.runs)


def test_counters_count_up_or_begin_again(worlds: list[World]) -> None:
    world = next(world for world in worlds if len(world.snapshots) > 50)
    values = [
        world.snapshots[number]["targets"]["OST0000"]["readings"]["client_bytes_written_total"]
        for number in range(50)
    ]
    known = [value for value in values if value is not None]
    assert sum(later < earlier for earlier, later in pairwise(known)) <= 3


def test_an_innocent_line_is_of_no_fault(worlds: list[World]) -> None:
    people = [line for world in worlds for line in world.events if line["source"] == "person"]
    assert sum("monitoring" in line["detail"] for line in people) > 3

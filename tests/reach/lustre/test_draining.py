"""A wait on a busy file system: what was there at its beginning, and nothing that came later."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.reach.lustre.deleted_space import Drain

PAIR = ("MDT0000", "OST0000")
OTHER = ("MDT0001", "OST0000")


def looks(drain: Drain, *counts: int) -> list[int]:
    return [drain.look({PAIR: count}) for count in counts]


class Queue:
    """Objects in the order in which they came, each with whether it was there at the first look."""

    def __init__(self, old: int) -> None:
        self.waiting = deque([True] * old)

    def step(self, come: int, go: int) -> None:
        """Let some come and some go, one by one: what happens between two looks is not seen."""
        for number in range(max(come, go)):
            if number < come:
                self.waiting.append(False)
            if number < go and self.waiting:
                self.waiting.popleft()

    @property
    def old(self) -> int:
        return sum(self.waiting)


STEPS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=40)


@given(st.lists(st.tuples(st.integers(0, 50), STEPS), min_size=1, max_size=4))
def test_never_fewer_than_are_left_in_a_queue_that_is_played_through(plan) -> None:
    queues = {(f"MDT{number:04}", "OST0000"): Queue(old) for number, (old, _) in enumerate(plan)}
    drain = Drain()
    rounds = max(len(steps) for _, steps in plan)
    for at in range(rounds + 1):
        counts = {pair: len(queue.waiting) for pair, queue in queues.items()}
        told = drain.look(counts)
        assert sum(queue.old for queue in queues.values()) <= told <= sum(counts.values())
        for queue, (_, steps) in zip(queues.values(), plan, strict=True):
            if at < len(steps):
                queue.step(*steps[at])


def test_without_new_ones_it_is_the_count_itself() -> None:
    assert looks(Drain(), 90, 90, 40, 3, 0, 0) == [90, 90, 40, 3, 0, 0]


def test_the_picture_of_the_module() -> None:
    assert looks(Drain(), 10, 12, 9, 11, 8, 13, 0) == [10, 10, 7, 7, 4, 4, 0]


def test_a_busy_file_system_ends_a_wait_though_it_is_never_at_0() -> None:
    told = looks(Drain(), *[20, 17, 20, 17] * 10)
    assert told[:6] == [20, 17, 17, 14, 14, 11]
    assert told[-1] == 0


@pytest.mark.parametrize(("rate_per_s", "looks_most"), [(0.01, 4), (1.0, 15), (100.0, 25)])
def test_users_of_a_whole_file_system_do_not_make_a_wait_long(rate_per_s, looks_most) -> None:
    """600 pairs of MDT and OST, at 22,000 to 216 million objects an hour, never all at 0.

    Each OST commits what has come every 5 s, so a count is what came since; looks are 5.3 s apart.
    """
    random = np.random.default_rng(20261122)
    since_commit_s = random.uniform(0.0, 5.0, 600)
    drain, looks, left = Drain(), 0, 1
    while left and looks < 100:
        counts = random.poisson(rate_per_s * since_commit_s)
        assert counts.any()
        left = drain.look({(f"MDT{n:04}", "OST0000"): int(one) for n, one in enumerate(counts)})
        since_commit_s = (since_commit_s + 5.3) % 5.0
        looks += 1
    assert looks <= looks_most


def test_a_queue_that_stands_still_is_waited_for() -> None:
    assert looks(Drain(), 5, 5, 9, 9, 9)[-1] == 5


def test_a_restart_takes_all_for_old() -> None:
    drain = Drain()
    assert looks(drain, 9, 0, 30) == [9, 0, 0]
    drain.restart()
    assert drain.old is None
    assert looks(drain, 30, 12) == [30, 12]


def test_pairs_do_not_stand_for_each_other() -> None:
    drain = Drain()
    assert drain.look({PAIR: 5, OTHER: 5}) == 10
    assert drain.look({PAIR: 0, OTHER: 9}) == 5
    assert drain.old == {PAIR: 0, OTHER: 5}


def test_a_pair_that_comes_later_is_looked_at_for_the_first_time() -> None:
    drain = Drain()
    drain.look({PAIR: 5})
    assert drain.look({PAIR: 0, OTHER: 4}) == 4


def test_what_is_not_counted_yet_is_at_least_one_and_then_a_first_look() -> None:
    drain = Drain()
    assert drain.look({PAIR: 0}, {PAIR}) == 1
    assert drain.look({PAIR: 6}, {PAIR}) == 6
    assert drain.look({PAIR: 2}, {PAIR}) == 2
    # Counted from now on: what is under way may be from before.
    assert looks(drain, 8, 3, 0) == [8, 3, 0]


def test_an_mds_that_came_back_in_the_middle_is_not_taken_for_done() -> None:
    drain = Drain()
    assert drain.look({PAIR: 500}) == 500
    assert drain.look({PAIR: 0}, {PAIR}) == 1
    assert looks(drain, 40, 0) == [40, 0]

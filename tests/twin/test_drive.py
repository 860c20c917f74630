"""The fast drive does step by step what the slow one does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.twin.slow_drive import SlowDrive

from trimtab._core import FlashDrive, FlashWorkload


def has_room(shape: tuple[int, int, float]) -> bool:
    superblocks, units, spare = shape
    logical = int(superblocks * units * (1 - spare) + 0.5)
    return logical >= 1 and superblocks * units - logical >= units


DRIVES = st.tuples(st.integers(3, 9), st.integers(1, 7), st.floats(0.1, 0.7)).filter(has_room)


@given(
    DRIVES,
    st.sampled_from(["greedy", "fifo", "cost-benefit"]),
    st.booleans(),
    st.integers(0, 2**64 - 1),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 4)), max_size=250),
)
def test_the_fast_drive_does_what_the_slow_one_does(shape, policy, separate, seed, asked) -> None:
    fast = FlashDrive(*shape, policy=policy, separate=separate, seed=seed)
    slow = SlowDrive(*shape, policy=policy, separate=separate, seed=seed)
    assert fast.logical == slow.logical
    for number, kind in asked:
        unit = number % fast.logical
        if kind == 0:
            assert fast.trim(unit) == slow.trim(unit)
        else:
            assert fast.write(unit) == slow.write(unit)
        assert fast.counts[:2] == (slow.written, slow.copied)
    assert [fast.place(unit) for unit in range(fast.logical)] == [
        slow.place(unit) for unit in range(slow.logical)
    ]


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((1, 8, 0.2), "superblocks is 1"),
        ((8, 8, 0.0), "spare is 0"),
        ((8, 8, 0.01), "spare is 0.01"),
        ((8, 8, float("nan")), "spare is NaN"),
    ],
)
def test_impossible_drives_are_refused_with_the_key(shape, said) -> None:
    with pytest.raises(ValueError, match=said):
        FlashDrive(*shape)


def test_impossible_workloads_are_refused_with_the_key() -> None:
    for live in (0.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match="live is"):
            FlashWorkload(100, live=live)
    for hot in ((0.0, 0.5), (0.5, 1.0), (0.001, 0.5)):
        with pytest.raises(ValueError, match="hot"):
            FlashWorkload(100, hot=hot)
    with pytest.raises(ValueError, match="greedy, fifo or cost-benefit"):
        FlashDrive(8, 8, 0.2, policy="best")

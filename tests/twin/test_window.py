"""Windows of a RAID group: the fast one does what the slow one does, and what queueing says."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as terms
from hypothesis import strategies as st
from tests.support.counts import repetitions
from tests.twin.slow_window import SlowWindow

from trimtab._core import raid_read_ceiling, raid_write_ceiling, run_window
from trimtab.base.error import UsageError
from trimtab.twin.scenario import DriveModel, Queue, Raid
from trimtab.twin.simulation import ost_rate
from trimtab.twin.simulation.ost_rate import WindowTerms

PM1733: dict[str, Any] = {
    "write_bytes_per_s": 3.2e9,
    "read_bytes_per_s": 3.5e9,
    "write_iops": 135e3,
    "read_iops": 800e3,
}


def window(**given_terms: Any) -> dict[str, Any]:
    return run_window(WindowTerms(**(PM1733 | {"seed": 1} | given_terms)))


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["gridraid", "gridraid", "draid", "raid10"]))
    data = draw(st.integers(1, 4))
    parity = 0 if kind == "raid10" else draw(st.integers(0, 2))
    width = 2 * data if kind == "raid10" else data + parity
    drives = width + draw(st.integers(0, 3))
    chunk = draw(st.sampled_from([8192, 131072]))
    row = data * chunk
    lost = draw(st.integers(0, 1 if kind == "raid10" else parity))
    slow = st.tuples(st.integers(0, drives - 1), st.floats(0.2, 1.0))
    return {
        "kind": kind,
        "data": data,
        "parity": parity,
        "drives": drives,
        "chunk_bytes": chunk,
        "transfer_bytes": draw(
            st.sampled_from([4096, row, 2 * row + 4096]) | st.integers(1, 2 * row)
        ),
        "write_bytes_per_s": draw(st.floats(0.5e9, 3e9)),
        "read_bytes_per_s": draw(st.floats(1e9, 6e9)),
        "write_iops": draw(st.floats(3e4, 1e5)),
        "read_iops": draw(st.floats(1e5, 1e6)),
        "amplification": draw(st.just(1.0) | st.floats(1.05, 3.0)),
        "throttle": draw(st.booleans()),
        "throttle_target_s": draw(st.sampled_from([0.002, 0.0003137])),
        "write_class": draw(st.sampled_from(["plain", "plain", "sync", "direct"])),
        "queue_depth": draw(st.sampled_from([3, 20, 1023])),
        "submitters": draw(st.integers(1, 6)),
        "serial_s": draw(st.sampled_from([0.0, 1.7e-5])),
        "write_latency_s": draw(st.floats(1e-5, 5e-5)),
        "read_latency_s": draw(st.floats(5e-5, 2e-4)),
        "depth": draw(st.integers(1, 24)),
        "operations_per_s": draw(st.none() | st.floats(500.0, 9000.0)),
        "read_share": draw(st.sampled_from([0.0, 0.1])),
        "reads_per_s": draw(st.sampled_from([0.0, 30.0, 900.0])),
        "superblock_bytes": draw(st.floats(3e6, 3e7)),
        "urgency": draw(st.sampled_from([0.0, 1.0]) | st.floats(0.0, 1.0)),
        "slice_s": draw(st.floats(3e-4, 8e-3)),
        "slice_hit": draw(st.sampled_from([1.0, 0.5])),
        "erase_s": draw(st.floats(1e-3, 4e-3)),
        "erase_hit": draw(st.floats(0.0, 1.0)),
        "idle_s": draw(st.sampled_from([0.1, 0.00031])),
        "slow_drive": draw(st.none() | slow),
        "failed_drives": lost,
        "rebuild_share": draw(st.sampled_from([0.0, 0.3])),
        "warm_s": draw(st.floats(0.0, 0.02)),
        "duration_s": draw(st.floats(0.02, 0.15)),
        "seed": draw(st.integers(0, 2**64 - 1)),
    }


@pytest.mark.calibration
@pytest.mark.parametrize("examples", repetitions(gate=15, soak=200))
def test_the_fast_window_does_what_the_slow_one_does(examples) -> None:
    terms(max_examples=examples)(given(windows())(check_against_the_slow_one))()


def check_against_the_slow_one(asked) -> None:
    fast = run_window(WindowTerms(**asked))
    del fast["ceiling_bytes_per_s"]
    assert fast == SlowWindow(**asked).run()


def test_they_agree_where_the_throttle_goes_all_its_way() -> None:
    """Long enough for many windows of the throttle, and reads slow enough to be throttled for."""
    asked: dict[str, Any] = {
        **PM1733,
        "drives": 4,
        "data": 2,
        "parity": 1,
        "transfer_bytes": 2 * 131072,
        "depth": 24,
        "amplification": 2.3,
        "superblock_bytes": 1e8,
        "slice_s": 0.0113,
        "reads_per_s": 37.0,
        "submitters": 2,
        "warm_s": 0.1,
        "duration_s": 0.9,
        "seed": 3,
    }
    fast = run_window(WindowTerms(**asked))
    del fast["ceiling_bytes_per_s"]
    assert fast == SlowWindow(**asked).run()
    assert fast["sampled"]["below"] > 0


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_one_drive_that_never_collects_is_the_queue_of_the_textbook(load) -> None:
    """M/D/1: a mean wait of load / (2 (1 - load)) services."""
    size = 131072
    service_s = size / 3.2e9
    found = window(
        drives=1,
        data=1,
        parity=0,
        transfer_bytes=size,
        throttle=False,
        depth=60000,
        operations_per_s=load / service_s,
        warm_s=0.2,
        duration_s=20.0,
    )
    expected = service_s * (1 + load / (2 * (1 - load))) + 25e-6
    # The wait is a tenth to a half of it; its standard error over 140,000 and more is under 1 %.
    assert found["writes"]["mean_s"] == pytest.approx(expected, rel=0.01)


def test_ten_drives_of_twelve_meet_collection_as_often_as_independent_drives_do() -> None:
    """With part p of a drive's time in copies, 1 - (1 - p)^10 of the stripes meet some."""
    amplification, stripes_per_s = 1.8, 2000.0
    found = [
        window(
            amplification=amplification,
            operations_per_s=stripes_per_s,
            depth=4096,
            throttle=False,
            idle_s=10.0,
            superblock_bytes=2.0**26,
            duration_s=30.0,
            seed=seed,
        )["met"]
        for seed in (1, 2, 3)
    ]
    per_drive = stripes_per_s * 10 / 12 * 131072
    copying = per_drive * (amplification - 1) / 3.2e9
    expected = 1 - (1 - copying) ** 10
    assert sum(found) / 3 == pytest.approx(expected, rel=0.05)


def test_write_alone_is_not_throttled() -> None:
    on, off = (window(amplification=1.7, throttle=state) for state in (True, False))
    assert on["write_bytes_per_s"] == pytest.approx(off["write_bytes_per_s"], rel=0.01)
    assert on["sampled"]["below"] == 0


@pytest.mark.calibration
def test_few_reads_throttle_many_do_not_and_direct_writes_never_are() -> None:
    """A window keeps its target by its shortest read: where there are many, one is always quick."""

    def rate(reads_per_s: float, **more: Any) -> float:
        told = [window(amplification=1.7, reads_per_s=reads_per_s, seed=s, **more) for s in (1, 2)]
        return sum(one["write_bytes_per_s"] for one in told)

    unthrottled = rate(120.0, throttle=False)
    assert rate(120.0) < 0.96 * unthrottled
    assert rate(6000.0) == pytest.approx(unthrottled, rel=0.01)
    assert rate(120.0, write_class="direct") == unthrottled


@pytest.mark.calibration
def test_throttling_starves_drives_that_do_not_collect_through_threads_that_sleep() -> None:
    def starved(**more: Any) -> float:
        seen = window(amplification=1.7, reads_per_s=120.0, **more)["sampled"]
        return seen["starved_quiet"] / seen["looks"]

    few, unthrottled = starved(), starved(throttle=False)
    assert few > 1.3 * unthrottled
    # With a thread for each operation nobody has to wait for a queue that is not its own.
    assert starved(submitters=256) < 1.15 * unthrottled


def test_operations_wait_for_the_slowest_of_their_drives() -> None:
    def median(**group: Any) -> float:
        ceiling = raid_write_ceiling(WindowTerms(**PM1733, **group))
        size = group["transfer_bytes"]
        terms = {"amplification": 1.7, "throttle": False, "depth": 4096, **group}
        found = window(operations_per_s=0.5 * ceiling / 1.7 / size, **terms)
        return found["writes"]["p50_s"]

    one = median(drives=1, data=1, parity=0, transfer_bytes=131072)
    assert median(transfer_bytes=1 << 20) > 10 * one


def test_small_writes_are_bound_by_reads_and_writes_of_parity() -> None:
    found = window(transfer_bytes=4096, submitters=64, warm_s=0.1, duration_s=0.3)
    operations_per_s = found["write_bytes_per_s"] / 4096
    assert operations_per_s == pytest.approx(12 * 135e3 / 3, rel=0.01)
    # What one thread does for each, one after another, bounds it before that.
    found = window(transfer_bytes=4096, serial_s=34e-6, warm_s=0.1, duration_s=0.3)
    assert found["write_bytes_per_s"] / 4096 == pytest.approx(1 / 34e-6, rel=0.01)


def test_ceilings_of_shared_drives() -> None:
    gib = 2**30
    one = raid_read_ceiling(
        read_bytes_per_s=14e9, drives=16, shared=1, slot_bytes_per_s=7 * gib, controllers=1
    )
    assert one == pytest.approx(16 * 7 * gib)
    four = raid_read_ceiling(
        read_bytes_per_s=14e9, drives=32, shared=4, slot_bytes_per_s=7 * gib, controllers=2
    )
    assert 4 * four == pytest.approx(32 * 14e9)
    assert math.isclose(raid_write_ceiling(WindowTerms(**PM1733)), 12 * 3.2e9 * 0.8)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kind": "raid0"}, "gridraid, draid or raid10"),
        ({"write_class": "odd"}, "plain, sync or direct"),
        ({"drives": 9}, "drives is 9"),
        ({"amplification": 0.5}, "amplification is 0.5"),
        ({"duration_s": float("nan")}, "duration_s is NaN"),
    ],
)
def test_impossible_windows_are_refused_with_the_key(wrong, said) -> None:
    with pytest.raises(ValueError, match=said):
        window(**wrong)


# Windows for the flow model: rounded, and the same whoever asks


DRIVE = DriveModel("pm1733", 15.36e12, 3.5e9, 3.2e9, 800e3, 135e3, 0.127, 1.0)
TERMS = ost_rate.ThrottlingTerms(DRIVE, Raid(), Queue(), amplification=1.7)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ost_rate, "_DURATION_S", 1.0)
    ost_rate._simulated.cache_clear()
    yield
    ost_rate._simulated.cache_clear()


def test_the_order_and_the_threads_that_ask_change_nothing() -> None:
    both = product((1.0, 1.5), (0.3, 1.0))
    asked = [replace(TERMS, amplification=wa, load=load) for wa, load in both]
    forwards = [ost_rate.slowdown(one) for one in asked]
    ost_rate._simulated.cache_clear()
    with ThreadPoolExecutor(2) as pool:
        backwards = list(pool.map(ost_rate.slowdown, reversed(asked)))
    assert forwards == backwards[::-1]
    assert len({one.write_bytes_per_s for one in forwards}) == 4


def test_terms_that_round_to_the_same_are_simulated_once() -> None:
    first = ost_rate.slowdown(TERMS)
    assert ost_rate.slowdown(replace(TERMS, amplification=1.71, load=1.4)) is first
    assert ost_rate._simulated.cache_info().misses == 1
    assert ost_rate.slowdown(replace(TERMS, amplification=1.78)) != first


def test_without_collection_nothing_is_lost() -> None:
    found = ost_rate.slowdown(replace(TERMS, amplification=1.0))
    assert found.factor == pytest.approx(1.0, abs=0.01)
    assert found.ceiling_bytes_per_s == pytest.approx(12 * 3.2e9 * 0.8)
    assert found.figures["met"] == 0.0


def test_a_load_that_can_be_had_is_delivered() -> None:
    found = ost_rate.slowdown(replace(TERMS, load=0.5))
    assert found.factor == pytest.approx(1.0, abs=0.05)
    asked = 0.5 * found.ceiling_bytes_per_s / 1.7
    assert found.write_bytes_per_s == pytest.approx(asked, rel=0.05)


def test_shared_drives_give_each_ost_its_part() -> None:
    found = ost_rate.slowdown(replace(TERMS, raid=Raid(drives=32, shared=4), amplification=1.0))
    assert found.ceiling_bytes_per_s == pytest.approx(32 / 4 * 3.2e9 * 0.8)
    assert found.factor == pytest.approx(1.0, abs=0.01)


def test_faults_are_seen() -> None:
    group = ost_rate._group(replace(TERMS, amplification=1.0))
    healthy, slow, rebuilding = (
        run_window(changed)["write_bytes_per_s"]
        for changed in (
            group,
            replace(group, slow_drive=(0, 0.5)),
            replace(group, failed_drives=1, rebuild_share=0.2),
        )
    )
    assert slow == pytest.approx(healthy / 2, rel=0.02)
    assert rebuilding == pytest.approx(0.8 * healthy, rel=0.02)


@pytest.mark.calibration
def test_throttling_costs_what_turning_it_off_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    """About a tenth where collection limits writes, with slices as long as an erase."""
    monkeypatch.setattr(ost_rate, "_DURATION_S", 5.0)
    off = replace(TERMS, queue=replace(TERMS.queue, writeback_throttling=False))
    for amplification, least, most in ((TERMS.amplification, 0.03, 0.2), (1.0, -0.01, 0.01)):
        without, with_it = (
            ost_rate.slowdown(replace(terms, amplification=amplification)).write_bytes_per_s
            for terms in (off, TERMS)
        )
        assert least < without / with_it - 1.0 < most


def test_impossible_groups_are_refused() -> None:
    with pytest.raises(UsageError, match="drives is 9"):
        ost_rate.slowdown(replace(TERMS, raid=Raid(drives=9)))


def test_mirrors_give_half_of_their_drives() -> None:
    mirrors = Raid("raid10", drives=10, data=1, parity=1, spares=0)
    found = ost_rate.slowdown(replace(TERMS, raid=mirrors, amplification=1.0))
    assert found.ceiling_bytes_per_s == pytest.approx(10 * 3.2e9 / 2)
    assert found.factor == pytest.approx(1.0, abs=0.02)

"""Windows for the flow model: the same whoever asks, and close to those that were not rounded."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from trimtab._core import run_window
from trimtab.base.error import UsageError
from trimtab.twin.scenario import DriveModel, Queue, Raid
from trimtab.twin.simulation import ost_rate

PM1733 = DriveModel("pm1733", 15.36e12, 3.5e9, 3.2e9, 800e3, 135e3, 0.127, 1.0)
TERMS = ost_rate.ThrottlingTerms(PM1733, Raid(), Queue(), amplification=1.7)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ost_rate, "_DURATION_S", 1.0)
    ost_rate._simulated.cache_clear()
    yield
    ost_rate._simulated.cache_clear()


def test_the_order_and_the_threads_that_ask_change_nothing() -> None:
    asked = [
        replace(TERMS, amplification=amplification, load=load)
        for amplification in (1.0, 1.5)
        for load in (0.3, 1.0)
    ]
    forwards = [ost_rate.slowdown(one) for one in asked]
    ost_rate._simulated.cache_clear()
    with ThreadPoolExecutor(2) as pool:
        backwards = list(pool.map(ost_rate.slowdown, reversed(asked)))
    assert forwards == backwards[::-1]
    assert len({one.write_bytes_per_s for one in forwards}) == 4


def test_terms_that_round_to_the_same_are_simulated_once() -> None:
    first = ost_rate.slowdown(TERMS)
    again = ost_rate.slowdown(replace(TERMS, amplification=1.71, load=1.4))
    assert again is first
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
    shared = Raid(drives=32, shared=4)
    found = ost_rate.slowdown(replace(TERMS, raid=shared, amplification=1.0))
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

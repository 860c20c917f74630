"""Write amplification: closed forms, simulated drives, and a drive that searches whole lists."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import digamma, lambertw
from tests.support.codes import raises
from tests.support.command import trimtab
from tests.support.counts import all_in_soak
from tests.support.narrow import present
from tests.twin.slow_drive import SlowDrive

from trimtab._core import FlashDrive, FlashWorkload
from trimtab.base.error import UsageError
from trimtab.twin.amplification import (
    DriveTerms,
    amplification,
    effective_spare,
    fifo,
    greedy,
    separated,
    simulate,
)
from trimtab.twin.scenario_key import PRESETS, preset

# The fast drive does step by step what the slow one does


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


# The closed forms are those that were printed, and hold together


PRINTED = {
    0.0654: (7.820, 7.001, 7.388, 7.598, 7.707, 7.763, 7.805),
    0.07: (7.318, 6.598, 6.939, 7.124, 7.219, 7.268, 7.305),
    0.10: (5.179, 4.815, 4.990, 5.083, 5.130, 5.154, 5.173),
    0.12: (4.348, 4.092, 4.216, 4.281, 4.314, 4.331, 4.344),
    0.20: (2.693, 2.598, 2.644, 2.668, 2.681, 2.687, 2.691),
    0.28: (1.992, 1.942, 1.967, 1.979, 1.985, 1.988, 1.991),
    0.50: (1.255, 1.239, 1.247, 1.251, 1.253, 1.254, 1.255),
}
PRINTED_UNITS = (64, 128, 256, 512, 1024, 4096)


@pytest.mark.parametrize("spare", PRINTED)
def test_the_table(spare: float) -> None:
    first, *rest = PRINTED[spare]
    assert fifo(spare) == pytest.approx(first, abs=6e-4)
    for units, printed in zip(PRINTED_UNITS, rest, strict=True):
        assert greedy(spare, units) == pytest.approx(printed, abs=6e-4)


def test_over_provisioning_of_thirty_per_cent_gives_what_xiang_and_kurkoski_print() -> None:
    assert fifo(1 - 1 / 1.3) == pytest.approx(2.36, abs=0.01)


@given(st.floats(0.005, 0.95), st.integers(2, 5000))
def test_they_solve_their_equations_as_scipy_does(spare: float, units: int) -> None:
    a = 1 / (1 - spare)
    assert fifo(spare) == pytest.approx(a / (a + lambertw(-a * math.exp(-a)).real), rel=1e-9)
    if (amplified := greedy(spare, units)) > 1:
        valid = units * (1 - 1 / amplified)
        span = digamma(units + 1) - digamma(valid + 1)
        assert (units - valid) / span == pytest.approx((1 - spare) * units, rel=1e-9)


@given(st.floats(0.02, 0.9), st.integers(2, 2000))
def test_greedy_is_never_worse_than_fifo_and_comes_to_it(spare: float, units: int) -> None:
    assert 1.0 <= greedy(spare, units) <= fifo(spare) * (1 + 1e-9)
    assert greedy(spare, 10**6) == pytest.approx(fifo(spare), rel=1e-3)


@given(st.floats(0.05, 0.5), st.floats(0.2, 1.0))
def test_what_is_trimmed_is_spare(spare: float, live: float) -> None:
    assert effective_spare(spare, 1.0) == pytest.approx(spare)
    assert effective_spare(spare, live) >= spare - 1e-12
    trimmed = amplification("greedy", spare, 256, live)
    assert trimmed == greedy(effective_spare(spare, live), 256)


def test_kept_apart_hot_and_cold_are_better_than_all_alike() -> None:
    apart = [separated(0.12, 256, part, 1 - part) for part in (0.4, 0.2, 0.05)]
    assert greedy(0.12, 256) > apart[0] > apart[1] > apart[2] > 1
    assert separated(0.12, 256, 0.5, 0.5) == pytest.approx(greedy(0.12, 256), rel=1e-3)


# Simulated drives amplify writes as the formulas say they do


UNITS = all_in_soak((64, 128, 256, 512, 1024, 4096), gate=[64])
SPARES = (0.0654, 0.07, 0.10, 0.12, 0.127, 0.15, 0.20, 0.25, 0.272, 0.28, 0.30, 0.50)


@pytest.mark.calibration
@pytest.mark.parametrize("spare", SPARES)
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("policy", ["greedy", "fifo"])
def test_within_one_per_cent_of_the_formula(policy, units, spare) -> None:
    found = simulate(DriveTerms(spare, units=units, policy=policy))
    assert found.settled
    assert found.relative_error == pytest.approx(0, abs=0.01)


@pytest.mark.calibration
@pytest.mark.parametrize("live", [0.95, 0.9, 0.75, 0.5])
def test_trim_counts_as_spare(live) -> None:
    found = simulate(DriveTerms(0.12, units=64, live=live))
    assert found.relative_error == pytest.approx(0, abs=0.01)


@pytest.mark.calibration
def test_mixed_hot_and_cold_are_worse_than_all_alike_and_apart_better() -> None:
    """Of 4.30 for all alike an independent program made 4.67 (20/80) and 6.16 (5/95), and 5.15 of
    that with copies kept apart; its open superblocks were part of its spare."""
    alike = simulate(DriveTerms(0.12)).simulated
    found = {
        (hot, separate): simulate(DriveTerms(0.12, hot=(hot, 1 - hot), separate=separate)).simulated
        for hot in (0.2, 0.05)
        for separate in (False, True)
    }
    assert found[0.2, False] / alike == pytest.approx(4.67 / 4.30, rel=0.01)
    assert found[0.05, False] / alike == pytest.approx(6.16 / 4.30, rel=0.01)
    assert found[0.05, True] / alike == pytest.approx(5.15 / 4.30, rel=0.02)
    assert found[0.2, True] < found[0.2, False]
    bound = present(simulate(DriveTerms(0.12, units=64, superblocks=256, hot=(0.2, 0.8))).bound)
    assert 1 < bound < greedy(0.12, 256) < found[0.2, True]


def test_cost_benefit_keeps_hot_and_cold_apart_better_than_greedy() -> None:
    terms = DriveTerms(0.12, units=64, superblocks=512, hot=(0.1, 0.9), separate=True)
    chosen = DriveTerms(0.12, 64, 512, "cost-benefit", hot=(0.1, 0.9), separate=True)
    assert simulate(chosen).simulated < simulate(terms).simulated
    assert simulate(DriveTerms(0.12, 64, 512, "cost-benefit")).formula is None


def test_a_result_is_that_of_its_seed() -> None:
    terms = DriveTerms(0.2, units=32, superblocks=128)
    assert simulate(terms) == simulate(terms)
    assert simulate(terms) != simulate(DriveTerms(0.2, units=32, superblocks=128, seed=2))


def test_no_such_drive() -> None:
    with pytest.raises(UsageError, match=r"spare is 0\.0001"):
        simulate(DriveTerms(0.0001))
    with raises(UsageError, "drive-unknown"):
        preset("tape")
    assert all(0 < one.spare < 1 and one.reason for one in PRESETS.values())


# The command


@pytest.mark.cli
def test_the_command_prints_both(tmp_path) -> None:
    ended = trimtab(
        "twin", "wa", "--spare", "12%", "--pages-per-block", 64, "--json", store=tmp_path / "t.db"
    )
    assert ended.code == 0, ended.stderr
    document = ended.document
    assert document["formula"] == pytest.approx(4.092, abs=1e-3)
    assert abs(document["relative_error"]) < 0.01
    assert math.isclose(
        document["simulated"] / document["formula"] - 1, document["relative_error"], abs_tol=1e-12
    )
    drive = ("--drive", "PM1735", "--superblocks", 256, "--live", "0.9")
    text = trimtab("twin", "wa", *drive, store=tmp_path / "t.db")
    assert text.code == 0, text.stderr
    assert "27.2 % usable spare" in text.stdout
    assert "formula" in text.stdout


@pytest.mark.cli
@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--spare", "0.1", "--drive", "pm1733"),
        ("--drive", "tape"),
        ("--spare", "0"),
        ("--spare", "2"),
        ("--spare", "0.1", "--hot", "0.2"),
        ("--spare", "0.1", "--hot", "0.2/1"),
        ("--spare", "0.1", "--live", "0"),
        ("--spare", "0.1", "--pages-per-block", "0"),
        ("--spare", "0.1", "--superblocks", "99999999"),
        ("--spare", "0.1", "--superblocks", "4294967295", "--pages-per-block", "1"),
        ("--spare", "0.1", "--superblocks", "9" * 30),
        ("--spare", "0.1", "--pages-per-block", "4294967295"),
        ("--spare", "0.1", "--seed", "9" * 30),
    ],
)
def test_wrong_use_is_told_with_what_to_do(arguments, tmp_path) -> None:
    ended = trimtab("twin", "wa", *arguments, store=tmp_path / "t.db")
    assert ended.code == 2
    assert ended.stderr.strip()
    assert "Traceback" not in ended.stderr

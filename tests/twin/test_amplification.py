"""Simulated drives amplify writes as the formulas say they do."""

import math

import pytest
from tests.support.codes import raises
from tests.support.command import trimtab

from trimtab.base.error import UsageError
from trimtab.twin.amplification import DriveTerms, greedy, simulate
from trimtab.twin.drive_preset import PRESETS, preset

UNITS = (
    64,
    *(pytest.param(units, marks=pytest.mark.soak) for units in (128, 256, 512, 1024, 4096)),
)
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
    bound = simulate(DriveTerms(0.12, units=64, superblocks=256, hot=(0.2, 0.8))).bound
    assert bound is not None
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
    text = trimtab(
        "twin",
        "wa",
        "--drive",
        "PM1735",
        "--superblocks",
        256,
        "--live",
        "0.9",
        store=tmp_path / "t.db",
    )
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

"""Write amplification of miniature OSTs: orders that physics demands, and determinism."""

from __future__ import annotations

import random

import pytest
from tests.twin.whatif.sizing.slow_churn import SlowDrive

from trimtab.twin.whatif.ost_amplification import Case, MiniatureSize, Probing, amplify, formulas

COARSE = MiniatureSize(groups=8, superblock_units=32, seeds=2)


@pytest.fixture(scope="module")
def told():
    cases = [
        Case(0.127, 0.75),
        Case(0.127, 0.75, trim_every=0.5),
        Case(0.127, 0.75, trim_every=1 / 16),
        Case(0.127, 0.75, discard=True),
        Case(0.127, 0.9, trim_every=1 / 16),
        Case(0.272, 0.75, trim_every=1 / 16),
    ]
    return amplify(cases, miniature=COARSE)


def test_more_trims_less_amplification(told):
    never, rare, often, discard, *_ = (one.simulated for one in told)
    assert never > rare > often > discard >= 1


def test_fuller_amplifies_more_and_spare_less(told):
    _, _, often, _, fuller, spare = (one.simulated for one in told)
    assert fuller > often > spare


def test_the_same_whatever_else_is_asked(told):
    """A case does not depend on the cases beside it but for its generator: only order counts."""
    again = amplify([one.case for one in told], miniature=COARSE)
    assert [one.simulated for one in again] == [one.simulated for one in told]


def test_seeds_differ_and_say_so(told):
    other = amplify([told[0].case], miniature=MiniatureSize(8, 32, 1, seed=99))
    assert other[0].error is None
    assert told[0].error is not None
    assert other[0].simulated != told[0].simulated


def test_a_probe_that_deletes_what_it_wrote_is_part_of_the_writes():
    alone, probed = (
        amplify([Case(0.127, 0.75, discard=True)], probing=probing, miniature=COARSE)[0].simulated
        for probing in (None, Probing(0.5, 1 / 128))
    )
    # It shares superblocks with users' data, which has to be copied out of what it leaves behind.
    assert probed > alone >= 1


def test_progress_reaches_the_end():
    seen = []
    cases = [Case(0.127, 0.5), Case(0.272, 0.5)]
    amplify(cases, miniature=COARSE, progress=lambda text, fraction: seen.append(fraction))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


@pytest.mark.calibration
@pytest.mark.parametrize(("spare", "fullness"), [(0.127, 0.75), (0.272, 0.9), (0.07, 0.5)])
def test_formulas_against_a_slow_drive_that_is_written_at_random(spare, fullness):
    untrimmed, trimmed = formulas(Case(spare, fullness), 32)
    random_ = random.Random(3)
    drive = SlowDrive(superblocks=128, units=32, spare=spare)
    live = round(fullness * drive.logical)
    assert drive.steady(random_, live, trimming=True) == pytest.approx(trimmed, rel=0.04)
    assert drive.steady(random_, drive.logical, trimming=False) == pytest.approx(
        untrimmed, rel=0.06
    )

"""Sizing: printed figures, hand-worked cases, refusals, and write amplification beneath it."""

import math
import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.each import for_each
from tests.twin.whatif.sizing.slow_churn import SlowDrive

from trimtab.base.error import UsageError
from trimtab.twin.scenario import Raid
from trimtab.twin.scenario_key import preset
from trimtab.twin.whatif.ost_amplification import Case, MiniatureSize, Probing, amplify, formulas
from trimtab.twin.whatif.sizing import Sizing, peer_of, size
from trimtab.twin.whatif.sizing_figure import PERIODS, fullest, longest_useful, metadata_section
from trimtab.twin.whatif.whatif_request import SizingRequest, check

COARSE = MiniatureSize(groups=8, superblock_units=32, seeds=2)
DAY = 86400.0
PM1733 = preset("pm1733").model
PERLMUTTER = SizingRequest(
    daily_writes_bytes=2.5e15, drive=PM1733, osts=274, kept_share=0.03, mean_file_bytes=20e6
)


@pytest.fixture(scope="module")
def perlmutter() -> Sizing:
    return size(PERLMUTTER, miniature=COARSE)


def value(found: Sizing, name: str) -> float:
    figure = found.figure(name)
    assert figure.value is not None, figure.reason
    return figure.value


def test_perlmutter_holds_what_is_printed(perlmutter):
    """33 PB of 274 OSTs are PiB: in powers of ten it is 37, and 133 TB an OST would be 36."""
    assert value(perlmutter, "drives") == 3288
    assert value(perlmutter, "usable_bytes") / 2**50 == pytest.approx(33, abs=0.5)
    assert value(perlmutter, "ost_bytes") == pytest.approx(133e12, rel=0.02)


def test_perlmutter_with_298_osts_holds_36():
    found = size(replace(PERLMUTTER, osts=298), miniature=MiniatureSize(4, 32, 1))
    assert value(found, "usable_bytes") / 2**50 == pytest.approx(36, abs=0.5)


def test_perlmutter_wears_as_derived(perlmutter):
    assert value(perlmutter, "host_drive_writes_per_day") == pytest.approx(0.062, abs=0.0005)
    assert value(perlmutter, "drive_daily_bytes") == pytest.approx(0.95e12, rel=0.005)
    flash = value(perlmutter, "flash_drive_writes_per_day")
    assert flash == pytest.approx(0.06188 * value(perlmutter, "write_amplification"), rel=1e-3)
    assert value(perlmutter, "life_years") == pytest.approx(5 / flash)


@pytest.mark.parametrize(("daily", "days"), [(2.2e15, 80), (2.9e15, 60)])
def test_five_ost_writes_take_60_to_80_days(daily, days):
    asked = replace(PERLMUTTER, daily_writes_bytes=daily)
    found = size(asked, miniature=MiniatureSize(4, 32, 1))
    assert value(found, "five_ost_writes_s") / DAY == pytest.approx(days, rel=0.07)


def test_a_fresh_ost_writes_what_was_measured(perlmutter):
    """31 GB/s on a backup slide, 12 x 3.0 x 0.8 = 28.8 on the main one."""
    assert 28e9 < value(perlmutter, "ost_write_fresh_bytes_per_s") < 31e9


def test_the_horizon_by_hand():
    asked = SizingRequest(
        daily_writes_bytes=1e15, drive=PM1733, capacity_bytes=100e15, kept_share=0.5, limit=0.8
    )
    found = size(asked, miniature=MiniatureSize(4, 32, 1))
    usable = value(found, "usable_bytes")
    assert found.osts == 740  # 100 PB / 135.168 TB = 739.8
    assert usable == pytest.approx(740 * 135.168e12)
    assert value(found, "purge_horizon_s") / DAY == pytest.approx(usable * 0.8 / 0.5e15)


def test_retention_alone_gives_the_capacity():
    # Of a family whose searches have no knee: nothing else is short.
    asked = SizingRequest(
        daily_writes_bytes=1e14, drive=PM1733, retention_s=100 * DAY, limit=0.75, family="el9"
    )
    found = size(asked, miniature=MiniatureSize(4, 32, 1))
    assert found.osts == 99  # 10 PB / 0.75 / 135.168 TB = 98.6
    assert value(found, "purge_horizon_s") >= 100 * DAY
    assert found.shortfalls == ()


def test_growth_alone_gives_the_capacity_of_all_years():
    asked = SizingRequest(
        daily_writes_bytes=1e14, drive=PM1733, growth_bytes_per_year=2e15, years=5
    )
    found = size(asked, miniature=MiniatureSize(4, 32, 1))
    assert found.osts == 99  # 2 PB x 5 / 0.75 / 135.168 TB
    assert value(found, "net_daily_bytes") == pytest.approx(2e15 / 365.25)


def test_wanted_bandwidth_may_ask_for_more_osts_than_capacity():
    asked = SizingRequest(
        daily_writes_bytes=1e14, drive=PM1733, capacity_bytes=1e15, write_bytes_per_s=1e12
    )
    found = size(asked, miniature=MiniatureSize(4, 32, 1))
    assert found.osts > 8
    assert value(found, "write_bytes_per_s") >= 1e12
    assert found.figure("osts").formula.startswith("--write-bandwidth")


def test_what_cannot_be_had_is_said():
    asked = replace(
        PERLMUTTER, osts=1, retention_s=400 * DAY, write_bytes_per_s=1e12, daily_writes_bytes=2e15,
        mean_file_bytes=20e3,
    )  # fmt: skip
    found = size(asked, miniature=MiniatureSize(4, 32, 1))
    text = "\n".join(found.shortfalls)
    for word in (
        "days, not the requested 400",
        "GB/s, not the requested",
        "rated for",
        "inodes for",
        "all day",
    ):
        assert word in text
    assert found.figure("fullness_for_bandwidth").value is None
    assert found.figure("fullness_for_bandwidth").reason


def test_an_emptier_file_system_is_sized_at_its_own_fullness():
    found = size(replace(PERLMUTTER, retention_s=180 * DAY), miniature=MiniatureSize(4, 32, 1))
    assert found.fullness == pytest.approx(0.03 * 2.5e15 * 180 / (274 * 135.168e12))


def test_the_worst_mechanism_says_how_full_is_safe():
    miniature = MiniatureSize(16, 64, 2)
    full = replace(PERLMUTTER, limit=0.85, write_bytes_per_s=3e12)
    classic, el9 = (
        size(replace(full, family=family), miniature=miniature) for family in ("classic", "el9")
    )
    assert value(classic, "safe_fullness") == pytest.approx(0.713, abs=0.01)
    assert value(classic, "safe_fullness") == pytest.approx(
        value(classic, "fullness_for_allocator") - value(classic, "safe_margin")
    )
    assert "useless loops" in classic.figure("safe_fullness").formula
    assert any("not safe" in sentence for sentence in classic.shortfalls)
    # Without the loops an OST writes an order more, and the wanted bandwidth decides.
    assert value(el9, "ost_write_bytes_per_s") > 10 * value(classic, "ost_write_bytes_per_s")
    assert value(el9, "safe_fullness") > 0.8
    assert not any("not safe" in sentence for sentence in el9.shortfalls) or (
        "bandwidth" in el9.figure("safe_fullness").formula
    )


def test_the_same_flash_with_more_spare():
    peer = peer_of(PM1733, 0.75)
    assert peer.capacity_bytes == pytest.approx(12.8e12, rel=0.001)
    assert peer.fullness == pytest.approx(0.90, abs=0.002)
    back = peer_of(preset("pm1735").model, peer.fullness)
    assert back.capacity_bytes == pytest.approx(15.36e12, rel=0.001)
    assert back.fullness == pytest.approx(0.75, abs=0.002)
    assert not peer_of(PM1733, 0.85).is_possible


def test_more_spare_helps_the_untrimmed_most(perlmutter):
    """Reading 4: trimmed, the same bytes on the same flash amplify alike."""
    both = perlmutter.comparison
    assert both.peer_never is not None
    assert both.peer_trimmed is not None
    never = both.own_never.simulated - both.peer_never.simulated
    trimmed = both.own_trimmed.simulated - both.peer_trimmed.simulated
    assert never > 2 * abs(trimmed)


def test_inodes_by_hand(perlmutter):
    files = 274 * 135.168e12 * 0.75 / 20e6
    assert value(perlmutter, "files") == pytest.approx(files)
    assert value(perlmutter, "mdt_bytes") == pytest.approx(files / 0.75 * 2560)
    assert value(perlmutter, "ost_objects") == pytest.approx(files / 274)


def test_without_files_there_are_no_inodes_but_a_reason():
    part, short = metadata_section(replace(PERLMUTTER, mean_file_bytes=None), 274, 135e12)
    assert part.figures[0].value is None
    assert part.figures[0].reason
    assert short == []


@for_each(
    "changed, option",
    [
        ({"daily_writes_bytes": 0.0}, "--daily-writes"),
        ({"daily_writes_bytes": float("nan")}, "--daily-writes"),
        ({"osts": None}, "size"),
        ({"capacity_bytes": 1e15}, "--osts and --capacity"),
        ({"osts": 0}, "--osts"),
        ({"limit": 0.99}, "--fullness"),
        ({"kept_share": 0.0}, "--kept"),
        ({"years": 31.0}, "--years"),
        ({"files": 1e9}, "--files and --mean-file"),
        ({"growth_bytes_per_year": 1e15}, "--growth and --kept"),
        ({"growth_bytes_per_year": 1e19, "kept_share": 1.0}, "--growth"),
        ({"raid": Raid(drives=10)}, "--drives-per-ost"),
        ({"raid": Raid(data=0)}, "--raid"),
        ({"drive": replace(PM1733, spare=0.0)}, "--spare"),
        ({"drive": replace(PM1733, spare=0.9)}, "--spare"),
        ({"drive": replace(PM1733, capacity_bytes=1.0)}, "--drive-capacity"),
        ({"drive": replace(PM1733, drive_writes_per_day=0.0)}, "--dwpd"),
        ({"drive": replace(PM1733, drive_writes_per_day=float("nan"))}, "--dwpd"),
        ({"drive": replace(PM1733, drive_writes_per_day=float("inf"))}, "--dwpd"),
        ({"drive": replace(PM1733, write_bytes_per_s=0.0)}, "--drive-write"),
        ({"drive": replace(PM1733, write_bytes_per_s=float("inf"))}, "--drive-write"),
        ({"daily_probe_writes_bytes": -1.0}, "--daily-probe-writes"),
        ({"stripe_count": 0}, "--stripe-count"),
    ],
)
def test_the_impossible_is_refused_by_name(changed, option):
    with pytest.raises(UsageError, match=option):
        check(replace(PERLMUTTER, **changed))


def test_what_would_take_more_osts_than_there_can_be_is_refused():
    with pytest.raises(UsageError, match="--capacity"):
        size(replace(PERLMUTTER, osts=None, capacity_bytes=1e20), miniature=COARSE)
    asked = replace(PERLMUTTER, osts=None, capacity_bytes=3e16, write_bytes_per_s=1e18)
    with pytest.raises(UsageError, match="--write-bandwidth"):
        size(asked, miniature=MiniatureSize(4, 32, 1))
    with pytest.raises(UsageError, match="--daily-writes"):
        size(replace(PERLMUTTER, osts=1, daily_writes_bytes=3e15), miniature=COARSE)


@given(st.lists(st.floats(0.1, 100), min_size=2, max_size=8), st.floats(0.01, 120))
def test_fullest_against_a_walk_in_small_steps(falls, wanted):
    """The clever answer is at the edge: a little less full is enough, a little more is not."""
    rates, rate = [], 200.0
    for fall in falls:
        rate = max(0.001, rate - fall)
        rates.append(rate)
    curve = [(0.1 * (place + 1), one) for place, one in enumerate(rates)]
    limit = fullest(curve, wanted)
    steps = [0.1 + (curve[-1][0] - 0.1) * step / 5000 for step in range(5001)]
    enough = [one for one in steps if _at(curve, one) >= wanted]
    if limit is None:
        assert not enough
    else:
        assert limit == pytest.approx(max(enough), abs=2 * (steps[1] - steps[0]))


def _at(curve: list[tuple[float, float]], fullness: float) -> float:
    for (before, high), (after, low) in pairwise(curve):
        if fullness <= after:
            return high + (low - high) * (fullness - before) / (after - before)
    return curve[-1][1]


@settings(max_examples=50)
@given(st.floats(1.1, 4), st.lists(st.floats(0, 0.5), min_size=5, max_size=5))
def test_the_longest_useful_period_keeps_half(never, losses):
    best = 1.05
    values, value_ = [], best
    for loss in losses:
        values.append(value_)
        value_ = min(never, value_ + loss * (never - best))
    points = list(zip(PERIODS, values, strict=True))
    longest = longest_useful(never, points)
    half = (never - best) / 2
    # Rounding decides at half itself: a period there is on neither side.
    keeping = [period for period, value in points if never - value >= half + 1e-9]
    losing = [period for period, value in points if never - value < half - 1e-9]
    if longest is None:
        assert not losing
    else:
        assert max(keeping) <= longest * (1 + 1e-6)
        assert min(losing, default=math.inf) >= longest * (1 - 1e-6)


# Miniature OSTs: orders that physics demands, and determinism


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

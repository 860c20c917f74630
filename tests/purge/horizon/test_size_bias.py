"""The bias of lazy sizes from a sample: a slow twin, sizes that are right, and its coverage."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import t
from tests.fake_lustre.stale_sizes import NOW_S, StaleNamespace, stale_namespace, write_index
from tests.purge.horizon.slow import days_of

from trimtab.purge.horizon.age_curve import AgeCurve
from trimtab.purge.horizon.size_bias import PRIOR_FILES, BiasEstimate, SizeBias, SizeSample
from trimtab.purge.index.manifest import Sizes, SizesMode
from trimtab.purge.index.size_sample import LEAST, draw, size_bias, take_sample
from trimtab.purge.purge_policy import Policy
from trimtab.purge.rules_in_force import ReadRecording, rules_in_force

HOUR_S = 3600


def slow_estimate(sample: SizeSample, domain: list[bool]) -> BiasEstimate:
    """The same from the definitions, one stratum after the other."""
    total = variance = squared = 0.0
    relative, freedom = 0.0, 0
    strata = []
    for number, (files, drawn) in enumerate(zip(sample.files, sample.drawn, strict=True)):
        rows = [i for i in range(len(sample.stratum)) if sample.stratum[i] == number]
        values = [sample.difference[i] if domain[i] else 0.0 for i in rows]
        mean = sum(values) / drawn if drawn else 0.0
        within = sum((value - mean) ** 2 for value in values)
        touched = any(domain[i] for i in rows)
        if touched:
            relative += within / sample.scales[number] ** 2
            freedom += max(drawn - 1, 0)
        strata.append((files, drawn, mean, within, touched, sample.scales[number]))
    for files, drawn, mean, within, touched, scale in strata:
        total += files * mean
        if drawn == 0 or drawn >= files:
            continue
        pooled = relative / max(freedom, 1) * scale**2 if touched else 0.0
        shrunk = (within + PRIOR_FILES * pooled) / (drawn - 1 + PRIOR_FILES)
        of_stratum = files**2 * (1 - drawn / files) * shrunk / drawn
        variance += of_stratum
        squared += of_stratum**2 / (drawn - 1 + PRIOR_FILES)
    if not variance:
        return BiasEstimate(total, total, total)
    degrees = max(1.0, min(variance**2 / squared, max(freedom, 1)))
    half = float(t.ppf(0.975, degrees)) * math.sqrt(variance)
    return BiasEstimate(total, total - half, total + half)


def random_sample(seed: int) -> SizeSample:
    rng = np.random.default_rng(seed)
    strata = int(rng.integers(1, 12))
    drawn = rng.integers(0, 9, strata)
    drawn[0] = max(drawn[0], 1)
    stratum = np.repeat(np.arange(strata), drawn)
    difference = rng.lognormal(8, 2, len(stratum)) * (rng.random(len(stratum)) < 0.6)
    return SizeSample(
        stratum=stratum,
        difference=difference,
        uids=rng.integers(0, 4, len(stratum)),
        hours=rng.integers(0, 1000, len(stratum)),
        eligible=rng.random(len(stratum)) < 0.7,
        files=drawn + rng.integers(0, 50, strata),
        drawn=drawn,
        scales=rng.lognormal(9, 1, strata),
    )


@pytest.mark.parametrize("seed", range(40))
def test_an_estimate_is_what_its_definition_says(seed: int) -> None:
    sample = random_sample(seed)
    for domain in (np.ones(len(sample.stratum), bool), sample.eligible, sample.uids == 2):
        fast, slow = sample.estimate(domain), slow_estimate(sample, domain.tolist())
        for name in ("bytes", "low", "high"):
            assert getattr(fast, name) == pytest.approx(getattr(slow, name), rel=1e-9, abs=1e-6)


def indexed(tmp_path: Path, world: StaleNamespace, seed: int, budget: int = 400):
    directory = tmp_path / f"index-{seed}"
    manifest = write_index(world.files.values(), directory, root=b"/scratch")
    sample = take_sample(directory, manifest, world.look, seed=seed, budget=budget)
    manifest = replace(manifest, sizes=Sizes(SizesMode.SAMPLED, sample, sample.rows))
    rules = rules_in_force(
        Policy("p", "/scratch", target=0.7, minimum_age_s=28 * 86_400),
        manifest, ReadRecording(), now_s=NOW_S,
    )  # fmt: skip
    bias = size_bias(directory, manifest, rules)
    assert bias is not None
    return directory, manifest, bias


def test_a_sample_is_drawn_from_every_stratum_and_only_once(tmp_path: Path) -> None:
    world = stale_namespace(3000, seed=1)
    manifest = write_index(world.files.values(), tmp_path / "index", root=b"/scratch")
    drawn = draw(tmp_path / "index", manifest, seed=7, budget=300)
    assert drawn["id"].n_unique() == drawn.height
    strata = drawn.group_by("stratum").agg(pl.len(), pl.col("stratum_files").first())
    assert strata["stratum_files"].sum() == 3000
    assert all(n >= min(LEAST, files) for _, n, files in strata.iter_rows())
    assert all(n <= files for _, n, files in strata.iter_rows())
    again = draw(tmp_path / "index", manifest, seed=7, budget=300)
    assert again.equals(drawn)
    assert not draw(tmp_path / "index", manifest, seed=8, budget=300).equals(drawn)


@pytest.mark.calibration
def test_every_file_of_a_stratum_is_as_likely_to_be_drawn(tmp_path: Path) -> None:
    world = stale_namespace(400, seed=3, users=1)
    manifest = write_index(world.files.values(), tmp_path / "index", root=b"/scratch")
    times: dict[bytes, int] = {}
    expected: dict[bytes, float] = {}
    for seed in range(200):
        drawn = draw(tmp_path / "index", manifest, seed=seed, budget=40)
        sizes = drawn.group_by("stratum").agg(pl.len().alias("n"))
        for identity, n, files in (
            drawn.join(sizes, on="stratum").select("id", "n", "stratum_files").iter_rows()
        ):
            times[identity] = times.get(identity, 0) + 1
            expected[identity] = n / files
    rates = [
        (times[one] - 200 * p) / math.sqrt(200 * p * (1 - p))
        for one, p in expected.items()
        if p < 1
    ]
    assert abs(np.mean(rates)) < 0.3
    assert np.abs(rates).max() < 5.5


def test_sizes_that_are_right_are_left_as_they_are(tmp_path: Path) -> None:
    """No false alarm, whatever is drawn: a difference of 0 is certain."""
    world = stale_namespace(2000, seed=5, without_blocks=0.0)
    for seed in range(5):
        _, _, bias = indexed(tmp_path, world, seed)
        assert bias.whole == BiasEstimate(0.0, 0.0, 0.0)
        curve = AgeCurve.of((100, 200), (3, 4), (4096, 8192))
        assert np.array_equal(bias.curve(curve).allocated_bytes, curve.allocated_bytes)
        assert bias.held({1000: 5}) == {1000: 5}


@pytest.mark.calibration
def test_errors_that_cancel_out_are_no_bias(tmp_path: Path) -> None:
    """Sizes that are wrong by chance, to both sides: an interval without 0 in about 5 of 100."""
    alarms = 0
    for seed in range(100):
        world = stale_namespace(1500, seed=seed, without_blocks=0.0)
        rng = np.random.default_rng(seed)
        for file in world.files.values():
            off = 4096 * int(rng.integers(-2, 3))
            file.mdt_allocated_bytes = max(0, file.allocated_bytes + off)
            file.allocated_bytes = max(file.allocated_bytes, 8192)
            file.mdt_allocated_bytes = max(0, file.allocated_bytes + off)
        _, _, bias = indexed(tmp_path, world, seed, budget=200)
        alarms += bias.whole.low > 0 or bias.whole.high < 0
    assert alarms <= 12  # 5 expected; more than 12 in 1 of 1,000


@pytest.mark.calibration
@pytest.mark.parametrize("share", [0.05, pytest.param(0.3, marks=pytest.mark.soak), 0.84])
def test_the_interval_holds_what_it_says(share: float, tmp_path: Path) -> None:
    held = of_user = 0
    for seed in range(100):
        world = stale_namespace(2000, seed=1000 + seed, without_blocks=share)
        _, _, bias = indexed(tmp_path, world, seed, budget=300)
        truth = world.exact_bytes - world.listed_bytes
        held += bias.whole.low <= truth <= bias.whole.high
        one = 1001
        of_one = sum(
            file.allocated_bytes - file.mdt_allocated_bytes
            for file in world.files.values() if file.uid == one
        )  # fmt: skip
        estimate = bias.sample.estimate(bias.sample.uids == one)
        of_user += estimate.low <= of_one <= estimate.high
    assert held >= 88
    assert of_user >= 86


def test_horizon_and_holdings_are_corrected(tmp_path: Path) -> None:
    world = stale_namespace(4000, seed=11)
    _, _, bias = indexed(tmp_path, world, 11, budget=1500)
    files = list(world.files.values())
    hours = [int((NOW_S - file.age_days * 86_400) // HOUR_S) for file in files]
    ones = [1] * len(files)
    old = [hour < (NOW_S - 56 * 86_400) // HOUR_S for hour in hours]
    exact = AgeCurve.of(hours, ones, [file.allocated_bytes for file in files])
    listed = AgeCurve.of(hours, ones, [file.mdt_allocated_bytes for file in files])
    corrected, low = bias.curve(listed), bias.curve(listed, low=True)
    for days in (70, 150, 300):
        cut = (NOW_S - days * 86_400) // HOUR_S
        truth = exact.freed_before(cut).allocated_bytes
        wrong = abs(listed.freed_before(cut).allocated_bytes - truth)
        right = abs(corrected.freed_before(cut).allocated_bytes - truth)
        assert right < 0.35 * wrong
        assert low.freed_before(cut).allocated_bytes <= corrected.freed_before(cut).allocated_bytes
    assert any(old)
    listed_of = {1001: sum(f.mdt_allocated_bytes for f in files if f.uid == 1001)}
    exact_of = sum(f.allocated_bytes for f in files if f.uid == 1001)
    assert abs(bias.held(listed_of)[1001] - exact_of) < 0.35 * abs(listed_of[1001] - exact_of)


def test_amounts_of_owners_are_corrected_by_their_own_bias() -> None:
    hour = 24 * 100
    sample = SizeSample(
        stratum=np.array([0, 0, 1, 1]), difference=np.array([10.0, 10.0, 0.0, 0.0]),
        uids=np.array([1, 1, 2, 2]), hours=np.full(4, hour), eligible=np.ones(4, bool),
        files=np.array([20, 20]), drawn=np.array([2, 2]), scales=np.array([4096.0, 4096.0]),
    )  # fmt: skip
    days = days_of({1: [(100, 20, 0)], 2: [(100, 20, 0)], 3: [(100, 4, 0)]})
    corrected = SizeBias(sample, as_of_hour=hour + 24 * 10).owner_days(days)
    assert [freed.allocated_bytes for freed in corrected.totals] == [200, 0, 20]

"""Lazy sizes: their bias from a sample, and candidates looked at exactly when a plan is frozen."""

from __future__ import annotations

import math
import os
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import t
from tests.fake_lustre.stale_sizes import NOW_S, StaleNamespace, stale_namespace, write_index
from tests.purge.horizon.slow import days_of

from trimtab._core import REMOVAL_OUTCOMES, Candidates, Removal, select
from trimtab.purge.core_call import Exact, look_on
from trimtab.purge.fullness import AgeCurve, Usage
from trimtab.purge.horizon.horizon_estimate import PRIOR_FILES, BiasEstimate, SizeBias, SizeSample
from trimtab.purge.horizon.horizon_question import HorizonQuestion, ask_horizon, choose
from trimtab.purge.index.manifest import Manifest, Sizes, SizesMode
from trimtab.purge.index.manifest_file import load_manifest, save_manifest
from trimtab.purge.index.scan import ScanOptions, scan_index
from trimtab.purge.index.size_sample import LEAST, draw, look_at_candidates, size_bias, take_sample
from trimtab.purge.plan import plan_making
from trimtab.purge.policy_file import LoadedPolicy
from trimtab.purge.purge_policy import Policy
from trimtab.purge.rules_in_force import ReadRecording, RulesInForce, rules_in_force
from trimtab.store.location import PurgePlace

HOUR_S = 3600
ROOT = Path("/scratch")
NOW = datetime.fromtimestamp(NOW_S, UTC)


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


def indexed(
    world: StaleNamespace, directory: Path, root: Path = ROOT, *, seed: int = 4, budget: int = 1500
) -> Manifest:
    """Write an index of lazy sizes with a sample of some files, or of none."""
    manifest = write_index(world.files.values(), directory, root=str(root).encode())
    if budget:
        sample = take_sample(directory, manifest, world.look, seed=seed, budget=budget)
        manifest = replace(manifest, sizes=Sizes(SizesMode.SAMPLED, sample, sample.rows))
    save_manifest(manifest, directory)
    return load_manifest(directory)


def policy_of(root: Path = ROOT, **changes: Any) -> Policy:
    return Policy("p", str(root), target=0.5, minimum_age_s=28 * 86_400, **changes)


def rules_of(manifest: Manifest, policy: Policy, now_s: int = NOW_S) -> RulesInForce:
    return rules_in_force(policy, manifest, ReadRecording(), now_s=now_s)


def bias_of(tmp_path: Path, world: StaleNamespace, seed: int, budget: int = 400) -> SizeBias:
    directory = tmp_path / f"index-{seed}"
    manifest = indexed(world, directory, seed=seed, budget=budget)
    bias = size_bias(directory, manifest, rules_of(manifest, policy_of()))
    assert bias is not None
    return bias


def test_a_sample_is_drawn_from_every_stratum_and_only_once(tmp_path: Path) -> None:
    world = stale_namespace(3000, seed=1)
    manifest = indexed(world, tmp_path / "index", budget=0)
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
    manifest = indexed(world, tmp_path / "index", budget=0)
    times: dict[bytes, int] = {}
    expected: dict[bytes, float] = {}
    for seed in range(200):
        drawn = draw(tmp_path / "index", manifest, seed=seed, budget=40)
        sizes = drawn.group_by("stratum").agg(pl.len().alias("n"))
        joined = drawn.join(sizes, on="stratum").select("id", "n", "stratum_files")
        for identity, n, files in joined.iter_rows():
            times[identity] = times.get(identity, 0) + 1
            expected[identity] = n / files
    random = {one: p for one, p in expected.items() if p < 1}
    rates = [(times[one] - 200 * p) / math.sqrt(200 * p * (1 - p)) for one, p in random.items()]
    assert abs(np.mean(rates)) < 0.3
    assert np.abs(rates).max() < 5.5


def test_sizes_that_are_right_are_left_as_they_are(tmp_path: Path) -> None:
    """No false alarm, whatever is drawn: a difference of 0 is certain."""
    world = stale_namespace(2000, seed=5, without_blocks=0.0)
    for seed in range(5):
        bias = bias_of(tmp_path, world, seed)
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
        bias = bias_of(tmp_path, world, seed, budget=200)
        alarms += bias.whole.low > 0 or bias.whole.high < 0
    assert alarms <= 12  # 5 expected; more than 12 in 1 of 1,000


@pytest.mark.calibration
@pytest.mark.parametrize("share", [0.05, pytest.param(0.3, marks=pytest.mark.soak), 0.84])
def test_the_interval_holds_what_it_says(share: float, tmp_path: Path) -> None:
    held = of_user = 0
    for seed in range(100):
        world = stale_namespace(2000, seed=1000 + seed, without_blocks=share)
        bias = bias_of(tmp_path, world, seed, budget=300)
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
    bias = bias_of(tmp_path, world, 11, budget=1500)
    files = list(world.files.values())
    hours = [int((NOW_S - file.age_days * 86_400) // HOUR_S) for file in files]
    ones = [1] * len(files)
    assert any(hour < (NOW_S - 56 * 86_400) // HOUR_S for hour in hours)
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


def usage_of(world: StaleNamespace) -> Usage:
    return Usage(world.exact_bytes, world.exact_bytes // 2)


def test_a_horizon_by_lazy_sizes_says_so_and_one_by_a_sample_is_right(tmp_path: Path) -> None:
    world = stale_namespace(4000, seed=2)
    usage = usage_of(world)
    question = HorizonQuestion(tmp_path / "lazy", policy_of(tmp_path), usage=usage)
    indexed(world, tmp_path / "lazy", tmp_path, budget=0)
    lazy = ask_horizon(question, now=NOW)
    assert lazy.bias is None
    assert any("--sizes sampled" in note for note in lazy.notes)

    indexed(world, tmp_path / "sampled", tmp_path)
    asked = ask_horizon(replace(question, directory=tmp_path / "sampled"), now=NOW)
    assert any("random sample" in note for note in asked.notes)
    needed = asked.answer.needed
    assert needed.cut_off_s is not None
    truth = sum(
        file.allocated_bytes
        for file in world.files.values()
        if NOW_S - file.age_days * 86_400 < needed.cut_off_s
    )
    assert truth == pytest.approx(needed.freed.allocated_bytes, rel=0.15)
    assert lazy.answer.needed.cut_off_s is not None
    assert needed.cut_off_s < lazy.answer.needed.cut_off_s  # by lazy sizes far more would go
    published = asked.answer.published
    assert published.cut_off_s is not None
    assert published.cut_off_s >= needed.cut_off_s


def candidates(tmp_path: Path, world: StaleNamespace) -> Path:
    indexed(world, tmp_path / "index", tmp_path, budget=0)
    question = HorizonQuestion(tmp_path / "index", policy_of(tmp_path), usage=usage_of(world))
    horizon = ask_horizon(question, now=NOW)
    choose(question, horizon, NOW_S - 60 * 86_400, tmp_path / "candidates.parquet")
    return tmp_path / "candidates.parquet"


def test_candidates_get_exact_sizes_and_projects_in_their_order(tmp_path: Path) -> None:
    world = stale_namespace(3000, seed=9)
    path = candidates(tmp_path, world)
    before = pl.read_parquet(path)
    world.lost_osts = {2}
    gone = before["id"][5]
    del world.files[gone]
    manifest = load_manifest(tmp_path / "index")
    rules = rules_of(manifest, policy_of(tmp_path))
    rules = replace(rules, exempt_projects=(3,), minimum_size_bytes=4)
    looked = look_at_candidates(path, world.look, rules)
    after = pl.read_parquet(path)
    assert after.schema == before.schema
    assert (after["last_use_s"] // 3600).is_sorted()
    listed = {row["id"]: row for row in before.iter_rows(named=True)}
    for row in after.iter_rows(named=True):
        file = world.files[row["id"]]
        assert (row["size_bytes"], row["allocated_bytes"], row["project"]) == (
            file.size_bytes, file.allocated_bytes, file.project,
        )  # fmt: skip
        assert file.ost != 2
        assert file.project != 3
        same = ("parent", "name", "uid", "atime_ns", "mtime_ns", "ctime_ns", "last_use_s")
        assert all(row[name] == listed[row["id"]][name] for name in same)
    assert (looked.gone, looked.files) == (1, after.height)
    assert looked.unknown > 0
    assert looked.kept > 0
    assert looked.exact_bytes == after["allocated_bytes"].sum()
    assert looked.exact_bytes > 2 * looked.listed_bytes
    assert before.height == looked.files + looked.gone + looked.unknown + looked.kept
    assert "size unknown" in " ".join(looked.sentences)


@pytest.mark.parametrize(("exempt", "files"), [((), 10), ((3,), 0)])
def test_a_file_of_unknown_project_is_no_candidate_while_one_is_exempt(
    tmp_path: Path, exempt: tuple[int, ...], files: int
) -> None:
    path = candidates(tmp_path, stale_namespace(200, seed=5))
    rows = pl.read_parquet(path).with_columns(pl.lit(None, pl.UInt32).alias("project")).head(10)
    rows.write_parquet(path)
    rules = rules_of(load_manifest(tmp_path / "index"), policy_of(tmp_path))
    nobody_says = [Exact(5000, 8192)] * 10
    looked = look_at_candidates(path, lambda _: nobody_says, replace(rules, exempt_projects=exempt))
    assert (looked.files, looked.kept) == (files, 10 - files)


def test_a_plan_lists_what_files_take_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = stale_namespace(3000, seed=10)
    root = tmp_path / "root"
    root.mkdir()
    indexed(world, tmp_path / "index", root)
    monkeypatch.setattr(plan_making, "require_answer", lambda *_: None)
    question = HorizonQuestion(tmp_path / "index", usage=usage_of(world))
    plan = plan_making.make_plan(
        question, LoadedPolicy(policy_of(root), ""), tmp_path / "plan",
        place=PurgePlace(tmp_path / "place"), now=NOW, look=world.look,
    ).plan  # fmt: skip
    assert plan.index.has_exact_sizes
    rows = pl.read_parquet(tmp_path / "plan" / "candidates.parquet")
    exact = sum(world.files[identity].allocated_bytes for identity in rows["id"])
    assert plan.candidates.allocated_bytes == exact
    for user in plan.candidates.users:
        held = sum(file.allocated_bytes for file in world.files.values() if file.uid == user.uid)
        assert user.held_bytes == pytest.approx(held, rel=0.4)
    assert any("looked at when the plan was made" in word for word in plan.horizon.words)


@pytest.mark.system
def test_a_stale_size_keeps_no_file_that_nobody_touched(tmp_path: Path) -> None:
    """On a real file system, with an index whose sizes are as stale as an MDS has them."""
    root = tmp_path / "root"
    root.mkdir()
    for number in range(200):
        file = root / f"f{number}"
        file.write_bytes(b"x" * (number * 100))
        os.chown(file, 1000, 1000)
        used_s = NOW_S - 300 * 86_400
        os.utime(file, (used_s, used_s))
    directory = tmp_path / "index"
    manifest = scan_index(str(root), directory, ScanOptions(), version="0")
    assert manifest.sizes is None  # sizes are exact here
    frame = pl.read_parquet([directory / shard.name for shard in manifest.shards])
    is_stale = pl.Series([row % 3 == 0 for row in range(frame.height)])
    lazy = frame.with_columns(
        pl.when(is_stale).then(0).otherwise("size_bytes").cast(pl.UInt64).alias("size_bytes"),
        pl.lit(0, pl.UInt64).alias("allocated_bytes"),
    )
    at_s = int(datetime.now(UTC).timestamp()) + 10**9
    rules = rules_of(manifest, policy_of(root, counted=("mtime",)), at_s)
    rules = replace(rules, old_enough_before_s=at_s, as_of_s=at_s)

    def outcomes(*, exact: bool, looked_at: bool) -> dict[str, int]:
        path = tmp_path / "candidates.parquet"
        lazy_shard = tmp_path / "lazy.parquet"
        lazy.write_parquet(lazy_shard)
        select([str(lazy_shard)], rules.core(), before_s=at_s, out=str(path))
        if looked_at:
            look_at_candidates(path, look_on(str(root), lustre=False, project=False), rules)
        terms = {"before_s": at_s, "quarantine": ".q", "exact_sizes": exact}
        removal = Removal(Candidates(path), str(root), rules.core(), **terms)
        return Counter(REMOVAL_OUTCOMES[code] for code in removal.check(0, removal.rows).outcomes)

    assert outcomes(exact=True, looked_at=True) == {"would_delete": 200}
    lazily = outcomes(exact=False, looked_at=False)
    assert set(lazily) == {"would_delete", "size_unknown"}
    assert lazily["size_unknown"] > 50
    path = tmp_path / "candidates.parquet"
    look_at_candidates(path, look_on(str(root), lustre=False, project=False), rules)
    sizes = pl.read_parquet(path).select("name", "size_bytes").rows()
    assert all(size == (root / name.decode()).stat().st_size for name, size in sizes)

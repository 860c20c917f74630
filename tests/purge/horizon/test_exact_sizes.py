"""Candidates looked at exactly when a plan is frozen, and what of a sample reaches a horizon."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from tests.fake_lustre.stale_sizes import NOW_S, StaleNamespace, stale_namespace, write_index

from trimtab._core import select
from trimtab.purge.core_call import Exact, look_on
from trimtab.purge.fullness import Usage
from trimtab.purge.horizon.horizon_question import HorizonQuestion, ask_horizon, choose
from trimtab.purge.index.manifest import Manifest, Sizes, SizesMode
from trimtab.purge.index.manifest_file import load_manifest, save_manifest
from trimtab.purge.index.scan import ScanOptions, scan_index
from trimtab.purge.index.size_sample import look_at_candidates, take_sample
from trimtab.purge.plan import plan_making
from trimtab.purge.policy_file import LoadedPolicy
from trimtab.purge.purge_policy import Policy
from trimtab.purge.rules_in_force import ReadRecording, rules_in_force
from trimtab.store.purge_place import PurgePlace

NOW = datetime.fromtimestamp(NOW_S, UTC)


def indexed(
    world: StaleNamespace, directory: Path, root: Path, *, sampled: bool = True
) -> Manifest:
    manifest = write_index(world.files.values(), directory, root=str(root).encode())
    if sampled:
        sample = take_sample(directory, manifest, world.look, seed=4, budget=1500)
        manifest = replace(manifest, sizes=Sizes(SizesMode.SAMPLED, sample, sample.rows))
    save_manifest(manifest, directory)
    return load_manifest(directory)


def policy_of(root: Path, **changes: object) -> Policy:
    return Policy("p", str(root), target=0.5, minimum_age_s=28 * 86_400, **changes)  # type: ignore[arg-type]


def usage_of(world: StaleNamespace) -> Usage:
    return Usage(world.exact_bytes, world.exact_bytes // 2)


def test_a_horizon_by_lazy_sizes_says_so_and_one_by_a_sample_is_right(tmp_path: Path) -> None:
    world = stale_namespace(4000, seed=2)
    usage = usage_of(world)
    question = HorizonQuestion(tmp_path / "lazy", policy_of(tmp_path), usage=usage)
    indexed(world, tmp_path / "lazy", tmp_path, sampled=False)
    lazy = ask_horizon(question, now=NOW)
    assert lazy.bias is None
    assert any("--sizes sampled" in note for note in lazy.notes)

    indexed(world, tmp_path / "sampled", tmp_path)
    asked = ask_horizon(replace(question, directory=tmp_path / "sampled"), now=NOW)
    assert any("drawn at random" in note for note in asked.notes)
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
    indexed(world, tmp_path / "index", tmp_path, sampled=False)
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
    rules = rules_in_force(policy_of(tmp_path), manifest, ReadRecording(), now_s=NOW_S)
    rules = replace(rules, exempt_projects=(3,), minimum_size_bytes=4)
    looked = look_at_candidates(path, world.look, rules)
    after = pl.read_parquet(path)
    assert after.columns == before.columns
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
    assert looked.gone == 1
    assert looked.unknown > 0
    assert looked.kept > 0
    assert looked.files == after.height
    assert looked.exact_bytes == after["allocated_bytes"].sum()
    assert looked.exact_bytes > 2 * looked.listed_bytes
    assert before.height == looked.files + looked.gone + looked.unknown + looked.kept
    words = " ".join(looked.sentences)
    assert "size unknown" in words


@pytest.mark.parametrize(("exempt", "files"), [((), 10), ((3,), 0)])
def test_a_file_of_unknown_project_is_no_candidate_while_one_is_exempt(
    tmp_path: Path, exempt: tuple[int, ...], files: int
) -> None:
    path = candidates(tmp_path, stale_namespace(200, seed=5))
    rows = pl.read_parquet(path).with_columns(pl.lit(None, pl.UInt32).alias("project")).head(10)
    rows.write_parquet(path)
    facts = load_manifest(tmp_path / "index")
    rules = rules_in_force(policy_of(tmp_path), facts, ReadRecording(), now_s=NOW_S)
    nobody_says = [Exact(5000, 8192)] * 10
    looked = look_at_candidates(path, lambda _: nobody_says, replace(rules, exempt_projects=exempt))
    assert (looked.files, looked.kept) == (files, 10 - files)


def test_a_plan_lists_what_files_take_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = stale_namespace(3000, seed=10)
    root = tmp_path / "root"
    root.mkdir()
    indexed(world, tmp_path / "index", root)
    monkeypatch.setattr(plan_making, "require_answer", lambda *_: None)
    policy = policy_of(root)
    made = plan_making.make_plan(
        HorizonQuestion(tmp_path / "index", usage=usage_of(world)),
        LoadedPolicy(policy, ""),
        tmp_path / "plan",
        place=PurgePlace(tmp_path / "place"),
        now=NOW,
        look=world.look,
    )
    plan = made.plan
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
    from trimtab._core import REMOVAL_OUTCOMES, Candidates, Removal

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
    rules = rules_in_force(
        policy_of(root, counted=("mtime",)), manifest, ReadRecording(), now_s=at_s
    )
    rules = replace(rules, old_enough_before_s=at_s, as_of_s=at_s)

    def outcomes(*, exact: bool, looked_at: bool) -> dict[str, int]:
        path = tmp_path / "candidates.parquet"
        lazy_shard = tmp_path / "lazy.parquet"
        lazy.write_parquet(lazy_shard)
        select([str(lazy_shard)], rules.core(), before_s=at_s, out=str(path))
        if looked_at:
            look_at_candidates(path, look_on(str(root), lustre=False, project=False), rules)
        removal = Removal(
            Candidates(path),
            str(root),
            rules.core(),
            before_s=at_s,
            quarantine=".q",
            exact_sizes=exact,
        )
        counted: dict[str, int] = {}
        for code in removal.check(0, removal.rows).outcomes:
            name = REMOVAL_OUTCOMES[code]
            counted[name] = counted.get(name, 0) + 1
        return counted

    assert outcomes(exact=True, looked_at=True) == {"would_delete": 200}
    lazily = outcomes(exact=False, looked_at=False)
    assert set(lazily) == {"would_delete", "size_unknown"}
    assert lazily["size_unknown"] > 50
    path = tmp_path / "candidates.parquet"
    look_at_candidates(path, look_on(str(root), lustre=False, project=False), rules)
    sizes = pl.read_parquet(path).select("name", "size_bytes").rows()
    assert all(size == (root / name.decode()).stat().st_size for name, size in sizes)

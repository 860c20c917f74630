"""Whoever only looks changes nothing: every time of a tree is what it was, on every file system.

Of Lustre itself the same is compared on a running one: a close tells its MDS what it had not known.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from tests.support.lazy_size_fuse import LazySizes, lazy_sizes_mount
from tests.support.loopback import mounted, why_no_loop_devices

from trimtab._core import REMOVAL_OUTCOMES, Candidates, Removal, glimpse
from trimtab.base.error import UsageError
from trimtab.probe.check import check
from trimtab.probe.check_plan import CheckOptions
from trimtab.purge.core_call import look_on
from trimtab.purge.fullness import Usage
from trimtab.purge.horizon.evasion import look_for_evasion
from trimtab.purge.horizon.horizon_question import HorizonQuestion, ask_horizon
from trimtab.purge.index.manifest_file import load_manifest
from trimtab.purge.index.scan import ScanOptions, scan_index
from trimtab.purge.index.size_sample import look_at_candidates
from trimtab.purge.plan.plan_making import make_plan
from trimtab.purge.policy_file import LoadedPolicy
from trimtab.purge.purge_policy import Policy
from trimtab.purge.rules_in_force import ReadRecording, rules_in_force
from trimtab.store.location import PurgePlace

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="plans are root's"),
]
DAY_S = 86_400
USAGE = Usage(10**6, 10)
Times = dict[Path, tuple[int, int, int]]


def times(paths: list[Path]) -> Times:
    """Return atime, mtime and ctime of each path, without reading a directory."""
    found = {path: path.lstat() for path in paths}
    return {path: (s.st_atime_ns, s.st_mtime_ns, s.st_ctime_ns) for path, s in found.items()}


def old_tree(root: Path) -> list[Path]:
    """Return what is in a new tree of old files, where every read would move an atime."""
    paths = [root / "user", root / "user" / "deep"]
    paths[-1].mkdir(parents=True)
    for directory in tuple(paths):
        for number in range(4):
            paths.append(directory / f"f{number}")
            paths[-1].write_bytes(b"x" * 5000)
            os.chown(paths[-1], 1000, 1000)
    paths.append(root / "user" / "link")
    paths[-1].symlink_to("f1")
    now_s = time.time()
    for path in (*paths, root):
        ages = (now_s - 400 * DAY_S, now_s - 300 * DAY_S)
        os.utime(path, ages, follow_symlinks=False)
    return [*paths, root]


@pytest.fixture(params=["here", "tmpfs", "ext4", "xfs", "btrfs"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Path]]:
    """Return the paths of a tree, its root last."""
    kind = request.param
    with ExitStack() as stack:
        if kind == "here":
            root = tmp_path / "root"
            root.mkdir()
        elif kind == "tmpfs":
            root = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        else:
            if (reason := why_no_loop_devices(kind)) is not None:
                pytest.skip(reason)
            root = stack.enter_context(mounted(tmp_path, fs=kind)).mount_point
        yield old_tree(root)


def policy_of(root: Path) -> Policy:
    return Policy("p", str(root), target=0.001, counted=("mtime",), minimum_age_s=28 * DAY_S)


def read_all(root: Path, place: Path, *, project: bool) -> None:
    """Scan, ask, plan, look and check, as the commands do."""
    index = place / "index"
    scan_index(str(root), index, ScanOptions(project=project), version="0")
    policy = policy_of(root)
    question, now = HorizonQuestion(index, policy, usage=USAGE), datetime.now(UTC)
    assert ask_horizon(question, now=now).answer.published.freed.files
    made = make_plan(
        question, LoadedPolicy(policy, ""), place / "plan", place=PurgePlace(place / "at"), now=now
    )
    facts = load_manifest(index)
    rules = rules_in_force(policy, facts, ReadRecording(), now_s=int(now.timestamp()))
    candidates = place / "looked.parquet"
    candidates.write_bytes((made.directory / "candidates.parquet").read_bytes())
    look = look_on(str(root), lustre=False, project=True)
    assert look_at_candidates(candidates, look, rules).files == made.plan.candidates.files
    look_for_evasion(index)
    store = f"sqlite:///{place / 't.db'}"
    quick = {"no_probe": True, "allocator_statistics": False}
    check(CheckOptions(path=str(root), store_url=store, **quick), page=lambda result: result.site)


def checked(root: Path, candidates: Path) -> set[str]:
    """Return what a dry run of the core says of each file."""
    now_s = int(time.time())
    facts = load_manifest(candidates.parents[1] / "index")
    rules = rules_in_force(policy_of(root), facts, ReadRecording(), now_s=now_s)
    removal = Removal(
        Candidates(candidates), str(root), rules.core(), before_s=now_s, quarantine=".q"
    )
    return {REMOVAL_OUTCOMES[code] for code in removal.check(0, removal.rows).outcomes}


def test_reading_moves_no_time(tree: list[Path], tmp_path: Path) -> None:
    root, before = tree[-1], times(tree)
    read_all(root, tmp_path, project=True)
    assert times(tree) == before
    assert checked(root, tmp_path / "plan" / "candidates.parquet") == {"would_delete"}
    assert times(tree) == before


@pytest.fixture
def lazy(tmp_path: Path) -> Iterator[LazySizes]:
    point = tmp_path / "lazy"
    point.mkdir()
    with lazy_sizes_mount(point, 12) as made:
        yield made


def test_a_close_moves_the_ctime_of_the_stand_in(lazy: LazySizes) -> None:
    before = times(lazy.paths)
    os.close(os.open(lazy.point / "f3", os.O_RDONLY | os.O_NOATIME))
    deadline = time.monotonic() + 10.0
    while times(lazy.paths) == before and time.monotonic() < deadline:
        time.sleep(0.01)  # the server hears of the close a moment later
    moved = {path.name for path, at in times(lazy.paths).items() if at != before[path]}
    assert moved == {"f3"}


def test_nothing_is_opened_where_a_close_moves_the_ctime(lazy: LazySizes, tmp_path: Path) -> None:
    before = times(lazy.paths)
    read_all(lazy.point, tmp_path, project=False)
    assert (times(lazy.paths), lazy.opened) == (before, set())


def test_a_project_is_not_asked_for_by_opening_files(lazy: LazySizes, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="without opening files"):
        scan_index(str(lazy.point), tmp_path / "i", ScanOptions(project=True), version="0")
    scan_index(str(lazy.point), tmp_path / "index", ScanOptions(), version="0")
    shard = next((tmp_path / "index").glob("*.parquet"))
    rows = pl.read_parquet(shard).filter(pl.col("type") == "f").select("id", "parent", "name")
    answers = glimpse(str(lazy.point), rows.rows(), lustre=False, project=True)
    assert len(answers[2]) == len(lazy.ctimes_ns)
    assert set(answers[2]) == {None}  # unknown, which every policy that exempts projects keeps
    assert lazy.opened == set()

"""A scan of a Lustre with several MDTs: none is asked too often, and all are asked alike.

The file system is `waiting_mount.rs`: it tells FIDs and MDTs as a Lustre does, and counts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support import waiting_fuse
from tests.support.codes import raises
from tests.support.dask_cluster import local_cluster
from tests.support.silent_fuse import why_not

from trimtab.base.error import UsageError
from trimtab.purge.core_call import ScanLimits
from trimtab.purge.index import scan, scan_workers
from trimtab.purge.index.manifest import Manifest, SizesMode
from trimtab.purge.index.scan import ScanOptions, scan_index
from trimtab.purge.root_facts import root_facts

pytestmark = pytest.mark.system

MDTS = 3
TREE = {"wait_s": 0.001, "directories": 100 * MDTS, "files": 16, "mdts": MDTS}


@pytest.fixture(scope="module")
def program() -> Path:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    return waiting_fuse.build()


@pytest.fixture(autouse=True)
def as_lustre(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "root_facts", waiting_fuse.facts_as_of_lustre)


def scanned(program: Path, tmp_path: Path, **terms: Any) -> tuple[waiting_fuse.Waiting, Manifest]:
    """Return what a file system of three MDTs was asked by a scan, and the manifest."""
    (tmp_path / "m").mkdir()
    options = ScanOptions(sizes=SizesMode.LAZY, **terms)
    with waiting_fuse.waiting_mount(program, tmp_path / "m", **TREE) as mount:
        manifest = scan_index(str(mount.point), tmp_path / "i", options, version="0")
    assert manifest.complete
    assert sum(shard.rows for shard in manifest.shards) == mount.entries
    return mount, manifest


def test_mdts_are_loaded_alike(program: Path, tmp_path: Path) -> None:
    """Without regard to MDTs one is ahead of another by a quarter of all calls."""
    mount, _ = scanned(program, tmp_path, threads=6)
    assert mount.longest_lead < mount.calls / MDTS / 4


def test_no_mdt_is_asked_more_often_than_was_said(program: Path, tmp_path: Path) -> None:
    limit = 800.0
    mount, _ = scanned(program, tmp_path, threads=24, limits=ScanLimits(calls_per_mdt_s=limit))
    assert max(mount.most_of_mdts) <= limit * 1.1
    # Each has a limit of its own: none waits for another's.
    assert mount.longest_lead < mount.calls / MDTS / 4


def test_workers_keep_the_limit_of_each_mdt_together(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "_FIRST_S", 0.1)
    monkeypatch.setattr(scan_workers, "_FEW_S", 0.2)
    monkeypatch.setattr(scan_workers, "_PART_S", 0.5)
    limit = 600.0
    with local_cluster(2) as cluster:
        mount, _ = scanned(
            program,
            tmp_path,
            threads=6,
            limits=ScanLimits(calls_per_mdt_s=limit),
            dask=cluster.scheduler_file,
        )
    assert max(mount.most_of_mdts) <= limit * 1.1
    assert mount.longest_lead < mount.calls / MDTS / 2


def test_what_is_no_lustre_has_no_mdts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "root_facts", root_facts)
    options = ScanOptions(limits=ScanLimits(calls_per_mdt_s=100.0))
    with raises(UsageError, "mdts-none"):
        scan_index(str(tmp_path), tmp_path / "i", options, version="0")
    assert not (tmp_path / "i").exists()

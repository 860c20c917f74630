"""Roots that a device number does not tell apart from others: nothing is left out in silence."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.purge.index.trees import paths_of, rows_at_rest
from tests.support import loopback

from trimtab.purge.index.manifest import Manifest
from trimtab.purge.index.scan import ScanOptions, scan_index
from trimtab.purge.root_facts import root_facts

pytestmark = [pytest.mark.system, loopback.needs_loop_devices("ext4")]


def scanned(root: Path, index: Path) -> tuple[Manifest, set[str]]:
    """Return the manifest of a scan, and the paths that it lists."""
    manifest = scan_index(str(root), index, ScanOptions(), version="0")
    return manifest, set(map(os.fsdecode, paths_of(rows_at_rest(index, manifest))))


def test_an_overlay_is_scanned_with_the_files_of_all_its_layers(tmp_path):
    with (
        loopback.mounted(tmp_path, size_bytes=32 * loopback.MIB) as lower,
        loopback.mounted(tmp_path, size_bytes=32 * loopback.MIB) as upper,
    ):
        merged = tmp_path / "merged"
        below = lower.mount_point / "l"
        above, work = upper.mount_point / "u", upper.mount_point / "w"
        for directory in (merged, below / "a", above / "a", above / "b", work):
            directory.mkdir(parents=True)
        for file in (below / "top", below / "a" / "old", above / "a" / "new", above / "b" / "f"):
            file.write_text("x")
        os.mkfifo(below / "a" / "pipe")
        options = f"lowerdir={below},upperdir={above},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "none", "-o", options, merged], check=True)
        try:
            manifest, paths = scanned(merged, tmp_path / "index")
            assert paths == {str(path.relative_to(merged)) for path in merged.rglob("*")}
            assert (len(paths), manifest.complete, manifest.notes) == (7, True, ())
        finally:
            subprocess.run(["umount", merged], check=True)


@pytest.mark.skipif(shutil.which("mkfs.btrfs") is None, reason="mkfs.btrfs is not installed")
def test_a_subvolume_is_part_of_the_file_system_and_told_as_not_read(tmp_path):
    with loopback.loop_device(256 * loopback.MIB, tmp_path) as device:
        subprocess.run(["mkfs.btrfs", "-q", device.path], check=True)
        root, other = tmp_path / "root", tmp_path / "other"
        root.mkdir()
        other.mkdir()
        subprocess.run(["mount", device.path, root], check=True)
        try:
            (root / "plain").mkdir()
            (root / "plain" / "file").write_text("x")
            for name in ("plain/volume", "second"):
                subprocess.run(["btrfs", "-q", "subvolume", "create", root / name], check=True)
                (root / name / "inner").write_text("x")
            manifest, paths = scanned(root, tmp_path / "index")
            assert paths == {"plain", "plain/file"}
            assert not manifest.complete
            assert {unread.path for unread in manifest.unread} == {b"plain/volume", b"second"}
            assert all("subvolume" in unread.reason for unread in manifest.unread)
            assert manifest.obstacles
            # A subvolume that is mounted by itself is a root of its own, and another file system.
            subprocess.run(["mount", "-o", "subvol=second", device.path, other], check=True)
            try:
                alone, paths = scanned(other, tmp_path / "of-other")
                assert (paths, alone.complete) == ({"inner"}, True)
                whole, part = (root_facts(str(place)).file_system for place in (root, other))
                assert whole is not None
                assert part is not None
                assert whole.uuid == part.uuid
                assert not whole.is_same(part)
            finally:
                subprocess.run(["umount", other], check=True)
        finally:
            subprocess.run(["umount", root], check=True)

"""A purge of a file system that has nothing left: neither an inode nor a block."""

import errno
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.purge.run.test_core import CUT_S, CoreWorld
from tests.support import loopback
from tests.support.codes import raises

from trimtab import _core
from trimtab.base.error import RefusedError
from trimtab.purge.plan.deletion_plan import QUARANTINE_PREFIX
from trimtab.purge.root_facts import canary
from trimtab.purge.run.surroundings import clear, give_back, set_aside

NAME = ".quarantine"


def names(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


def test_what_is_set_aside_is_private_and_goes_again(tmp_path):
    set_aside(str(tmp_path), NAME, threads=2, rows=1000)
    made = names(tmp_path)
    assert {f"{NAME}/ready-0/taken", f"{NAME}/ready-1/origins", f"{NAME}/reserve/blocks"} <= made
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o700
    set_aside(str(tmp_path), NAME, threads=2, rows=1000)
    assert names(tmp_path) == made
    assert give_back(str(tmp_path), NAME)
    assert not give_back(str(tmp_path), NAME)
    assert not (tmp_path / NAME / "reserve").exists()
    (tmp_path / NAME / "stranded" / "7-0").write_text("waits for a person")
    clear(str(tmp_path), NAME)
    assert names(tmp_path) == {NAME, f"{NAME}/stranded", f"{NAME}/stranded/7-0"}
    (tmp_path / NAME / "stranded" / "7-0").unlink()
    clear(str(tmp_path), NAME)
    assert names(tmp_path) == set()


def test_nothing_stays_behind_a_plan_that_a_run_has_ended(tmp_path):
    world = CoreWorld(tmp_path, 3)
    world.make()
    set_aside(str(world.tree), NAME, threads=2, rows=10)
    remover = world.core_job().remover()
    assert remover.delete(0, 3).outcomes == bytes([1] * 3)
    del remover
    clear(str(world.tree), NAME)
    assert not (world.tree / NAME).exists()


def test_nobody_elses_directory_is_used(tmp_path):
    (tmp_path / NAME).mkdir(mode=0o755)
    (tmp_path / NAME).chmod(0o755)
    with raises(RefusedError, "quarantine-untrusted"):
        set_aside(str(tmp_path), NAME, threads=1, rows=1)
    (tmp_path / NAME).rmdir()
    (tmp_path / NAME).symlink_to("/tmp")
    with pytest.raises(OSError, match="Not a directory"):
        set_aside(str(tmp_path), NAME, threads=1, rows=1)


def test_plans_and_the_core_know_a_quarantine_by_the_same_name():
    assert _core.QUARANTINE["prefix"] == QUARANTINE_PREFIX


def fill(directory: Path, *, inodes: bool) -> None:
    """Use up every block, root's reserve too, and every inode where that is asked for."""
    if inodes:
        _until_full(map(Path.touch, (directory / f"empty-{number}" for number in range(10**6))))
    for piece in (1 << 20, 4096):
        file = os.open(directory / "blocks", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_SYNC)
        try:
            _until_full(os.write(file, b"x" * piece) for _ in range(10**6))
        finally:
            os.close(file)


def _until_full(steps: Iterator[object]) -> None:
    try:
        deque(steps, maxlen=0)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return
    raise AssertionError("it is not full yet")


@pytest.mark.system
@pytest.mark.parametrize(("fs", "inodes"), [("ext4", True), ("ext4", False), ("xfs", False)])
def test_a_full_file_system_is_purged(tmp_path, fs, inodes):
    reason = loopback.why_no_loop_devices(fs)
    if reason is not None:
        pytest.skip(reason)
    size = 32 * loopback.MIB if fs == "ext4" else loopback.XFS_MINIMUM_BYTES
    options = ("-N", "1000", "-m", "0") if fs == "ext4" else ()
    with loopback.mounted(tmp_path, fs=fs, size_bytes=size, mkfs_options=options) as scratch:
        world = CoreWorld(tmp_path, 200)
        (tmp_path / "tree").mkdir()
        with loopback.bound(scratch.mount_point, world.tree):
            world.make()
            set_aside(str(world.tree), NAME, threads=2, rows=200)
            filler = world.tree / "filler"
            filler.mkdir()
            (filler / "blocks").touch()
            if fs == "xfs":
                loopback.fill_to(filler, 0.9)
            fill(filler, inodes=inodes)
            # Of its own reserve ext4 gives directories blocks when nothing else is left.
            if inodes or fs == "xfs":
                with pytest.raises(OSError, match="No space left"):
                    (world.tree / "one").mkdir()
                facts = canary(str(world.tree))
                assert facts.no_room, facts
            removal = world.removal(CUT_S)
            outcomes = [_core.REMOVAL_OUTCOMES[code] for code in removal.delete(0, 50).outcomes]
            assert outcomes == ["deleted"] * 50
            del removal
            # What it used is ready for the next run, which is the first to need the reserve.
            assert (world.tree / NAME / "ready-0" / "taken").exists()
            fill(filler, inodes=inodes)
            assert give_back(str(world.tree), NAME)
            assert canary(str(world.tree)).trouble is None
            removal = world.removal(CUT_S)
            assert set(removal.delete(50, 150).outcomes) == {1}
            del removal
            assert world.there() == set()


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_without_a_reserve_there_is_no_room_for_a_run(tmp_path):
    """What the reserve is for: the same without it."""
    with loopback.mounted(
        tmp_path, size_bytes=32 * loopback.MIB, mkfs_options=("-N", "1000", "-m", "0")
    ) as scratch:
        world = CoreWorld(tmp_path, 20)
        (tmp_path / "tree").mkdir()
        with loopback.bound(scratch.mount_point, world.tree):
            world.make()
            filler = world.tree / "filler"
            filler.mkdir()
            (filler / "blocks").touch()
            fill(filler, inodes=True)
            with pytest.raises(OSError, match="No space left"):
                world.removal(CUT_S).delete(0, 20)

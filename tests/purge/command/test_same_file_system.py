"""Which file system a purge is of, whatever its device is called, and what is told to get out."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from tests.purge.command.conftest import public_directory
from tests.purge.command.walk import Walk
from tests.support import loopback

from trimtab.purge.run.journal_line import ClaimLine
from trimtab.purge.run.rows import Rows
from trimtab.purge.run.run_journal import journals, opened, read

pytestmark = [pytest.mark.system, loopback.needs_loop_devices("ext4")]

FILES_CAP = 20
FILE_BYTES = 64 * 1024


@pytest.fixture
def mounted(tmp_path) -> Iterator[loopback.Mounted]:
    with loopback.mounted(tmp_path, size_bytes=64 * 2**20) as mounted:
        yield mounted


@pytest.fixture
def walk(mounted, tmp_path) -> Iterator[Walk]:
    for public in public_directory():
        walk = Walk(mounted.mount_point, tmp_path, public, "real")
        walk.write_policy()
        walk.policy.write_text(
            walk.policy.read_text().replace("[caps]\n", f"[caps]\nfiles = {FILES_CAP}\n")
        )
        walk.make_files(40, size_bytes=FILE_BYTES)
        plan_anew(walk, 1)
        yield walk


def plan_anew(walk: Walk, number: int) -> None:
    """Scan, plan and publish once more, beside the plans before."""
    walk.index, walk.plan = walk.private / f"index-{number}", walk.private / f"plan-{number}"
    walk.scan()
    walk.publish()


def say(*words: object) -> str:
    done = subprocess.run([*map(str, words)], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@contextmanager
def on_another_device(mounted: loopback.Mounted) -> Iterator[None]:
    """Mount the same file system from a loop device of another name."""
    place = mounted.mount_point
    say("umount", place)
    other = say("losetup", "--find", "--show", mounted.device.backing_file)
    assert other != str(mounted.device.path)
    try:
        say("mount", other, place)
        yield
        say("umount", place)
    finally:
        say("losetup", "--detach", other)
        say("mount", mounted.device.path, place)


def test_a_new_name_of_the_device_is_no_new_cap(walk, mounted):
    before = walk.there()
    first = walk.good("run", walk.plan, "--apply")
    assert (first["reason"], first["files"]) == ("files-cap", FILES_CAP)
    assert first["after"]["used_bytes"] < first["before"]["used_bytes"]
    with on_another_device(mounted):
        plan_anew(walk, 2)
        ended = walk.trimtab("run", walk.plan, "--apply")
        assert ended.code == 4, ended.stdout
        assert "caps: the cap of 20 files is used up" in ended.stderr
        assert len(before - walk.there()) == FILES_CAP


def test_another_directory_that_is_mounted_over_the_root_is_not_the_root(walk):
    before = walk.there()
    say("mount", "--bind", walk.root / "user 1", walk.root)
    try:
        ended = walk.trimtab("run", walk.plan, "--apply")
    finally:
        say("umount", walk.root)
    assert ended.code == 4
    assert "mount: another directory of the file system is mounted at the root" in ended.stderr
    assert "/user 1 with inode" in ended.stderr
    assert walk.there() == before


def test_a_lost_plan_blocks_no_other_once_its_hint_is_followed(walk):
    journal_of_lost_plan(walk)
    plan_anew(walk, 2)
    ended = walk.trimtab("run", walk.plan, "--apply")
    assert ended.code == 4
    assert "was interrupted" in ended.stderr
    (hint,) = [line for line in ended.stderr.splitlines() if "trimtab purge recover" in line]
    command = hint[hint.index("trimtab purge recover") :].strip()
    words = [str(walk.root) if word == "ROOT" else word for word in shlex.split(command)[2:]]
    assert "--restore" in words
    listed = walk.trimtab(*words[:-1])
    assert "--restore ends the batch" in " ".join(listed.stdout.split()), listed.stdout
    assert walk.trimtab(*words).code == 0
    # What it may have deleted counts.
    after = walk.good("run", walk.plan, "--apply")
    assert (after["reason"], after["files"]) == ("files-cap", FILES_CAP - 7)
    report = walk.good("report")
    assert report["plans"][0]["outcomes"] == {"not_known": 7}


def journal_of_lost_plan(walk: Walk) -> None:
    """Leave a batch of seven files without an end, and lose its plan."""
    assert walk.trimtab("run", walk.plan).code == 0
    (journal,) = journals(walk.place / "journals")
    line = read(journal).plan
    assert line is not None
    now = datetime.now(UTC)
    with opened(journal.parent, line, at=now, lease_s=0.0) as opened_journal:
        opened_journal.write(ClaimLine("killed", now, Rows(0, 7), (), 7, 7 * FILE_BYTES, {}))
    shutil.rmtree(walk.plan)

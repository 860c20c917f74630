"""What goes wrong on the way of a purge, with the commands that a site uses, on a real ext4.

A device has another name, another directory is mounted, plans and candidates are lost, hosts are
stopped or killed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.purge.command.walk import OWNERS, Walk
from tests.purge.notice.making import open_directory
from tests.purge.run.lines import fates_of, flip, journal_of, standing_of
from tests.support import loopback
from tests.support.command import trimtab
from tests.support.forked import Forked
from tests.support.narrow import present

from trimtab.purge.run.journal_line import ClaimLine, DoneLine
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
    """Give the places of a purge of this file system alone."""
    for public in open_directory():
        yield Walk(mounted.mount_point, tmp_path, public, "real")


@pytest.fixture
def planned(walk) -> Walk:
    """Return a walk whose plan may be carried out, with a cap of files."""
    walk.write_policy()
    capped = walk.policy.read_text().replace("[caps]\n", f"[caps]\nfiles = {FILES_CAP}\n")
    walk.policy.write_text(capped)
    walk.make_files(40, size_bytes=FILE_BYTES)
    plan_anew(walk, 1)
    return walk


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


def test_a_new_name_of_the_device_is_no_new_cap(planned, mounted):
    walk, before = planned, planned.there()
    first = walk.good("run", walk.plan, "--apply")
    assert (first["reason"], first["files"]) == ("files-cap", FILES_CAP)
    assert first["after"]["used_bytes"] < first["before"]["used_bytes"]
    with on_another_device(mounted):
        plan_anew(walk, 2)
        ended = walk.trimtab("run", walk.plan, "--apply")
        assert ended.code == 4, ended.stdout
        assert "caps: the cap of 20 files is used up" in ended.stderr
        assert len(before - walk.there()) == FILES_CAP


def test_another_directory_that_is_mounted_over_the_root_is_not_the_root(planned):
    walk, before = planned, planned.there()
    say("mount", "--bind", walk.root / "user 1", walk.root)
    try:
        ended = walk.trimtab("run", walk.plan, "--apply")
    finally:
        say("umount", walk.root)
    assert ended.code == 4
    assert "mount: another directory of the file system is mounted at the root" in ended.stderr
    assert "/user 1 with inode" in ended.stderr
    assert walk.there() == before


def test_a_lost_plan_blocks_no_other_once_its_hint_is_followed(planned):
    walk = planned
    lose_plan(walk)
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


def lose_plan(walk: Walk) -> None:
    """Leave a batch of seven files without an end, and lose its plan."""
    assert walk.trimtab("run", walk.plan).code == 0
    journal = journal_of(walk.place)
    line, now = present(read(journal).plan), datetime.now(UTC)
    with opened(journal.parent, line, at=now, lease_s=0.0) as opened_journal:
        opened_journal.write(ClaimLine("killed", now, Rows(0, 7), (), 7, 7 * FILE_BYTES, {}))
    shutil.rmtree(walk.plan)


LEASE_S = 2.0
BATCH_FILES = 40


@pytest.fixture
def shared(walk) -> Walk:
    """Return a walk whose plan several hosts may carry out, in small batches."""
    walk.write_policy("[throttle]", f"batch_files = {BATCH_FILES}")
    walk.make_files(400, size_bytes=4096)
    walk.scan()
    walk.publish()
    return walk


def shared_run(walk: Walk) -> Forked:
    return walk.start("run", walk.plan, "--apply", "--shared", "--lease", f"{LEASE_S:g}s")


def lines_of(walk: Walk):
    found = journals(walk.place / "journals")
    return read(found[0]).lines if found else ()


def test_one_of_two_hosts_is_stopped_and_one_killed(shared):
    walk, before = shared, shared.there()
    candidates = walk.plan / "candidates.parquet"
    flip(candidates, 1000)
    changed = walk.trimtab("run", walk.plan, "--apply", "--shared", "--lease", f"{LEASE_S:g}s")
    assert (changed.code, "row group 0 of 1" in changed.stderr) == (4, True), changed.stderr
    assert "hint: make a new plan" in changed.stderr
    assert (walk.trimtab("arm", walk.plan).code, walk.there()) == (4, before)
    flip(candidates, 1000)
    stopped, killed = shared_run(walk), shared_run(walk)
    while not any(isinstance(line, ClaimLine) for line in lines_of(walk)):
        assert not stopped.ended_within(0.005), walk.printed()
    os.kill(stopped.pid, signal.SIGSTOP)
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait() in (0, -signal.SIGKILL)
    is_open = standing_of(walk.place).claims != ()
    recovered = walk.trimtab("recover", walk.root, "--restore")
    assert recovered.code == (4 if is_open else 0), recovered.stderr
    last = shared_run(walk)
    assert last.wait() == 0, walk.printed()
    there = walk.there()
    os.kill(stopped.pid, signal.SIGCONT)
    # It had a batch, which was taken over, or none, and found nothing left to do.
    assert stopped.wait() in (0, 3), walk.printed()
    assert walk.there() == there
    standing = standing_of(walk.place)
    assert (standing.claims, standing.todo) == ((), ())
    fates = fates_of(standing)
    gone = sum(fate in ("deleted", "gone") for fate in fates.values())
    assert set(fates.values()) <= {"deleted", "gone", "put_back"}
    assert len(before - there) == gone
    assert gone == sum(line.files for line in lines_of(walk) if isinstance(line, DoneLine))
    assert walk.good("report")["days"][0]["files"] == gone
    refused = walk.trimtab("run", walk.plan, "--apply")
    assert (refused.code, "--shared" in refused.stderr) == (4, True), refused.stderr


@pytest.fixture
def site(walk: Walk, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a store; the one site file of this host has the root, and no run names it."""
    sites = walk.private / "sites"
    sites.mkdir()
    walk.write_site(sites / "walk.toml")
    monkeypatch.setenv("TRIMTAB_SITES", str(sites))
    monkeypatch.setenv("TRIMTAB_STORE", str(walk.private / "store.db"))
    return walk.private / "store.db"


def log_book(store: Path) -> list[tuple[str, str]]:
    """Return kind and detail of every entry."""
    ended = trimtab("event", "list", "walk", "--json", store=store)
    assert ended.code == 0, ended.stderr
    return [(event["kind"], event["detail"]) for event in ended.document["events"]]


def oldest_first(walk: Walk) -> list[bytes]:
    return sorted(walk.files, key=lambda path: -walk.files[path])


def purge(walk: Walk) -> dict[str, Any]:
    walk.write_policy()
    walk.scan()
    walk.publish()
    return walk.good("run", walk.plan)["outcomes"]


def test_a_run_that_is_refused_is_told_and_one_whose_candidates_vanish_does_the_rest(
    walk: Walk, site: Path
) -> None:
    """One user is gone with the directory, of the others the oldest files, the first rows."""
    walk.make_files(24)
    planned = purge(walk)["would_delete"]
    assert not site.exists()

    walk.stop.touch()
    assert walk.trimtab("run", walk.plan, "--apply").code == 4
    ((kind, detail),) = log_book(site)
    assert kind == "purge-failed"
    assert detail.startswith("it was refused (kill-switch: ")
    text = " ".join(trimtab("status", "walk", store=site).stdout.split())
    assert "failed: it was refused (kill-switch: " in text.partition("; next: ")[0]
    assert text.partition("; next: ")[2].startswith("trimtab event list walk --since 20")
    walk.stop.unlink()

    shutil.rmtree(os.fsencode(walk.root) + b"/user %d" % OWNERS[0])
    left = [path for path in oldest_first(walk) if Path(os.fsdecode(path)).exists()]
    for path in left[:12]:
        Path(os.fsdecode(path)).unlink()
    run = walk.good("run", walk.plan, "--apply")
    assert run["reason"] == "plan-exhausted"
    gone = run["outcomes"]["gone"]
    assert planned / 2 <= gone < planned
    assert run["outcomes"] == {"gone": gone, "deleted": planned - gone}
    assert run["outcome_bytes"]["gone"] > run["outcome_bytes"]["deleted"] == run["bytes"] > 0
    kind, detail = log_book(site)[-1]
    assert (kind, detail.partition(", ")[0]) == ("purge", f"{planned - gone} files")
    assert "failed" not in trimtab("status", "walk", store=site).stdout

    with (walk.plan / "plan.json").open("a") as plan:
        plan.write(" ")
    assert walk.trimtab("run", walk.plan, "--apply").code != 0
    kind, detail = log_book(site)[-1]
    assert kind == "purge-failed"
    assert detail.startswith("it ended with an error: ")

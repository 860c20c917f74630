"""Two hosts at one plan with the commands that a site uses, on an ext4 of its own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.purge.command.conftest import public_directory
from tests.purge.command.walk import AGED, Walk
from tests.support import loopback
from tests.support.forked import Forked, fork

from trimtab.purge.run.journal_line import ClaimLine, DoneLine
from trimtab.purge.run.plan_progress import replay
from trimtab.purge.run.run_journal import journals, read

pytestmark = [pytest.mark.system, loopback.needs_loop_devices("ext4")]

LEASE_S = 2.0
BATCH_FILES = 40


@pytest.fixture
def walk(tmp_path):
    with loopback.mounted(tmp_path, size_bytes=64 * 2**20) as mounted:
        for public in public_directory():
            walk = Walk(mounted.mount_point, tmp_path, public, "real")
            walk.write_policy("[throttle]", f"batch_files = {BATCH_FILES}")
            walk.make_files(400, size_bytes=4096)
            walk.scan()
            walk.publish()
            yield walk


def started(walk: Walk) -> Forked:
    with Path(walk.private / "said").open("ab") as said:
        return fork(
            0.0, "purge", "run", walk.plan, "--apply", "--shared", "--lease", f"{LEASE_S:g}s",
            stdout=said.fileno(), stderr=said.fileno(),
            environment={"TRIMTAB_PURGE": str(walk.place)}, program=AGED,
        )  # fmt: skip


def lines_of(walk: Walk):
    found = journals(walk.place / "journals")
    return read(found[0]).lines if found else ()


def standing_of(walk: Walk):
    (path,) = journals(walk.place / "journals")
    return replay(read(path))


def said(walk: Walk) -> str:
    return (walk.private / "said").read_text()


def flip(candidates: Path) -> None:
    """Change a byte of the first row group; the second time it is what it was."""
    with candidates.open("r+b") as file:
        file.seek(1000)
        byte = file.read(1)
        file.seek(1000)
        file.write(bytes([byte[0] ^ 1]))


def test_one_of_two_hosts_is_stopped_and_one_killed(walk):
    before = walk.there()
    flip(walk.plan / "candidates.parquet")
    changed = walk.trimtab("run", walk.plan, "--apply", "--shared", "--lease", f"{LEASE_S:g}s")
    assert (changed.code, "row group 0 of 1" in changed.stderr) == (4, True), changed.stderr
    assert "hint: make a new plan" in changed.stderr
    assert walk.trimtab("arm", walk.plan).code == 4
    assert walk.there() == before
    flip(walk.plan / "candidates.parquet")
    stopped, killed = started(walk), started(walk)
    while not any(isinstance(line, ClaimLine) for line in lines_of(walk)):
        assert not stopped.ended_within(0.005), said(walk)
    os.kill(stopped.pid, signal.SIGSTOP)
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait() in (0, -signal.SIGKILL)
    is_open = standing_of(walk).claims != ()
    recovered = walk.trimtab("recover", walk.root, "--restore")
    assert recovered.code == (4 if is_open else 0), recovered.stderr
    last = started(walk)
    assert last.wait() == 0, said(walk)
    there = walk.there()
    os.kill(stopped.pid, signal.SIGCONT)
    # It had a batch, which was taken over, or none, and found nothing left to do.
    assert stopped.wait() in (0, 3), said(walk)
    assert walk.there() == there
    standing = standing_of(walk)
    assert (standing.claims, standing.todo) == ((), ())
    fates = {row: fate for rows, fate in standing.fates for row in range(rows.first, rows.end)}
    assert len(fates) == sum(rows.count for rows, _ in standing.fates)
    gone = sum(fate in ("deleted", "gone") for fate in fates.values())
    assert set(fates.values()) <= {"deleted", "gone", "put_back"}
    assert len(before - there) == gone
    assert gone == sum(line.files for line in lines_of(walk) if isinstance(line, DoneLine))
    document = walk.good("report")
    assert document["days"][0]["files"] == gone
    refused = walk.trimtab("run", walk.plan, "--apply")
    assert (refused.code, "--shared" in refused.stderr) == (4, True), refused.stderr

"""What interrupted runs put aside: nobody's data, listed, put back, and an objection to others."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.purge.run.lines import fates_of
from tests.support.codes import raises
from tests.support.command import trimtab
from tests.support.narrow import present

from trimtab import _core
from trimtab.base.error import RefusedError, UsageError
from trimtab.purge.index.manifest import FileSystemIdentity
from trimtab.purge.root_facts import root_facts
from trimtab.purge.run.journal_line import ClaimLine, PlanLine
from trimtab.purge.run.next_step import root_line
from trimtab.purge.run.plan_progress import replay
from trimtab.purge.run.recovery import (
    AsideFile,
    files_aside,
    interrupted_plans,
    leftovers,
    recover,
    stranded,
)
from trimtab.purge.run.rows import Rows
from trimtab.purge.run.run_journal import opened, read
from trimtab.store.location import PurgePlace

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="quarantines are root's"),
]

AT = datetime(2024, 6, 1, tzinfo=UTC)
NAME = ".trimtab-purge-0123456789abcdef0123456789abcdef"


def note(directory: Path, parent: bytes, name: bytes, inode: int) -> bytes:
    """Return what the core notes of a file in the first slot, before a power cut."""
    fixed = (1).to_bytes(4, "little") + (7).to_bytes(8, "little") + inode.to_bytes(8, "little")
    fixed += directory.stat().st_ino.to_bytes(8, "little") + birth_ns(directory)
    lengths = len(parent).to_bytes(4, "little") + len(name).to_bytes(4, "little")
    return b"0" * 36 + fixed + lengths + parent + name + bytes(4)


def birth_ns(path: Path) -> bytes:
    """Return when a directory was born, as the core notes it; Python does not say."""
    seconds = subprocess.run(
        ["stat", "--format=%.9W", path], check=True, capture_output=True, text=True
    ).stdout
    whole, _, fraction = seconds.strip().partition(".")
    known = int(whole) * 10**9 + int(fraction or 0)
    return (known or -(2**63)).to_bytes(8, "little", signed=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a root in which a killed run has left the file ``a/b/file``."""
    root = tmp_path / "root"
    (root / "a/b").mkdir(parents=True)
    cell = root / NAME / "cell-1-2-0"
    cell.mkdir(parents=True)
    for directory in (root / NAME, cell):
        directory.chmod(0o700)
    (cell / "00").write_text("aside")
    inode = (cell / "00").stat().st_ino
    (cell / "origins").write_bytes(note(root / "a/b", b"a/b", b"file", inode))
    (cell / "taken").write_bytes(b"")
    return root


def test_what_was_put_aside_is_listed_and_put_back(root: Path) -> None:
    place = PurgePlace(root.parent / "place")
    (file,) = recover(root, place=place).files
    assert (file.origin, file.row, file.size_bytes, file.fate) == (b"a/b/file", 7, 5, "waits")
    (file,) = recover(root, place=place, restore=True).files
    assert (file.fate, (root / "a/b/file").read_text()) == ("restored", "aside")
    assert sorted(path.name for path in root.iterdir()) == ["a"]
    assert recover(root, place=place).files == ()


def test_nothing_is_replaced_and_a_file_without_a_directory_goes_where_a_person_says(root) -> None:
    place = PurgePlace(root.parent / "place")
    (root / "a/b/file").write_text("new")
    (file,) = recover(root, place=place, restore=True).files
    assert (file.fate, (root / "a/b/file").read_text()) == ("name_taken", "new")
    (root / "a/b/file").unlink()
    (root / "a/b").rmdir()
    assert recover(root, place=place, restore=True).files[0].fate == "directory_gone"
    (root / "found").mkdir()
    (file,) = recover(root, place=place, restore=True, into=root / "found").files
    assert (file.fate, (root / "found/file").read_text()) == ("restored", "aside")
    with raises(UsageError, "path-outside"):
        recover(root, place=place, restore=True, into=root.parent)


def test_a_note_from_before_a_power_cut_speaks_for_the_planned_file_alone(root: Path) -> None:
    cell = root / NAME / "cell-1-2-0"
    (cell / "00").rename(cell / "x")
    (cell / "00").write_text("another")
    (cell / "x").unlink()
    (file,) = recover(root, place=PurgePlace(root.parent / "place"), restore=True).files
    assert (file.fate, (cell / "00").exists()) == ("origin_unknown", True)


def test_no_scan_lists_what_was_put_aside_and_a_users_directory_of_that_name_is_no_refuge(
    root: Path,
) -> None:
    import polars as pl

    mine = root / "a" / ".trimtab-purge-mine"
    mine.mkdir()
    (mine / "hidden").write_text("x")
    scan = _core.NamespaceScan(root, root.parent / "index")
    scan.start()
    assert scan.wait(60.0)
    shards = [pl.read_parquet(root.parent / "index" / name) for name in scan.result().shards]
    names = set(pl.concat(shards)["name"].to_list())
    assert names == {b"a", b"b", NAME.encode(), b".trimtab-purge-mine", b"hidden"}
    assert _core.quarantines(root) == [NAME.encode()]


def test_another_plans_unended_batch_and_files_are_an_objection(root: Path, tmp_path: Path) -> None:
    journals = tmp_path / "journals"
    system = FileSystemIdentity("ext4", "/dev/loop0", uuid="u-1")
    line = replace(root_line("/s", system), plan="other", sha256="ab" * 32, rows=10)
    with opened(journals, line, at=AT, lease_s=0.0, owner=os.geteuid()) as journal:
        journal.write(ClaimLine("r", AT, Rows(0, 10), (), 10, 0, {}))

    def interrupted(beside: PlanLine) -> list[str]:
        return [plan.plan for plan, _ in interrupted_plans(journals, beside)]

    assert interrupted(root_line("/mnt", replace(system, name="/dev/loop40"))) == ["other"]
    assert interrupted(line) == []  # its own run recovers it
    # Made anew on the same device, and mounted at the same place.
    assert interrupted(root_line("/s", replace(system, uuid="u-2"))) == []
    files = files_aside(str(root))
    sentences = leftovers(files, ["other"], ".trimtab-purge-another")
    assert sentences == (
        "a run of plan other was interrupted",
        f"1 file of another plan is set aside in {NAME}",
    )
    assert leftovers(files, [], NAME) == ()
    (sentence,) = stranded(files, NAME)
    words = f"a/b/file could not be restored and remains in {NAME}/cell-1-2-0/00"
    assert sentence.startswith(words)


def test_a_batch_of_a_lost_host_is_ended_once_its_lease_is_over(root: Path) -> None:
    place = PurgePlace(root.parent / "place", owner=os.geteuid())
    system = present(root_facts(str(root)).file_system)
    line = replace(root_line(str(root), system), plan="lost", sha256="ab" * 32, rows=10)
    with opened(place.journals, line, at=AT, lease_s=300.0, owner=place.owner) as journal:
        journal.write(ClaimLine("r", AT, Rows(0, 4), (), 4, 4096, {}))
    assert recover(root, place=place).interrupted == ("lost",)

    def restored(minutes: int) -> tuple[str, ...]:
        now = AT + timedelta(minutes=minutes)
        return recover(root, place=place, restore=True, now=lambda: now).interrupted

    with raises(RefusedError, "plan-shared") as found:
        restored(10)
    assert "2024-06-01T00:11:15Z" in present(found.value.hint)
    assert not (root / "a/b/file").exists()
    assert restored(12) == ()
    assert (root / "a/b/file").read_text() == "aside"
    standing = replay(read(journal.path))
    assert (standing.claims, standing.todo) == ((), (Rows(4, 6),))
    assert fates_of(standing) == {row: "not_known" for row in range(4)}


def test_many_files_are_told_with_their_number() -> None:
    name = NAME.encode()
    files = [AsideFile(name, name + b"/x", b"f", 1, 0, 1, "waits")] * 30
    *_, last = stranded(files, NAME)
    assert last == "10 more files with them"


def test_the_command_lists_and_restores(root: Path, tmp_path: Path) -> None:
    place = ("--place", tmp_path / "place", "--json")
    for more, fate in (((), "waits"), (("--restore",), "restored")):
        ended = trimtab("purge", "recover", root, *more, *place, store=tmp_path / "t.db")
        assert ended.code == 0, ended.stderr
        (file,) = ended.document["files"]
        assert (file["origin"], file["fate"]) == ("a/b/file", fate)
    assert (root / "a/b/file").read_text() == "aside"

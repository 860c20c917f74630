"""Candidates verified by row group: no row is handed out of bytes that are not what was signed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from tests.purge.plan.making import KEY, Row, frame_of, make
from tests.purge.plan.test_load import sign
from tests.support.codes import raises

from trimtab import _core
from trimtab.base.error import DataError, RefusedError
from trimtab.purge.plan.candidate import hashes_of
from trimtab.purge.plan.plan_directory import LoadedPlan, load_plan, open_candidates

GROUP_ROWS = 20
ROWS = [Row(b"ada/%03d" % row, inode=row + 1) for row in range(60)]
RULES = {
    "counted": ["mtime"], "as_of_s": 2**40, "old_enough_before_s": 2**40, "minimum_size_bytes": 0,
    "exempt_paths": [], "exempt_users": [], "exempt_groups": [], "exempt_projects": [],
    "linked": False,
}  # fmt: skip


@pytest.fixture
def plan(tmp_path: Path) -> LoadedPlan:
    none = pl.lit(None, pl.Int64)
    frame = frame_of(ROWS).with_columns(
        id_kind=pl.lit("inode"),
        device=pl.lit(1, pl.UInt64),
        gid=pl.lit(1000, pl.UInt32),
        atime_ns=none,
        mtime_ns=none,
        ctime_ns=none,
        btime_ns=none,
        type=pl.lit("f"),
    )
    return make(tmp_path / "plan", frame, group_rows=GROUP_ROWS)


def bounds(plan: LoadedPlan) -> list[tuple[int, int]]:
    """Return where each part begins and ends."""
    ends, end = [], 0
    for part in plan.plan.candidates.parts:
        ends.append((end, end := end + part.size_bytes))
    return ends


def removal(candidates: _core.Candidates, root: Path) -> _core.Removal:
    return _core.Removal(
        candidates, root, _core.Rules(**RULES), before_s=2**40, quarantine=".quarantine"
    )


def had(ask: Callable[[int, int], object], group: int) -> bool:
    """Return whether rows of a group can be had; if not, the error says which and what to do."""
    try:
        ask(group * GROUP_ROWS, GROUP_ROWS)
    except RefusedError as error:
        first = group * GROUP_ROWS
        words = f"row group {group} of 3, rows {first} to {first + GROUP_ROWS - 1} is not what"
        told = error.code == "candidates-changed" and words in error.message
        assert told and "make a new plan" in (error.hint or "")  # noqa: PT017, PT018
        return False
    return True


def readable(candidates: _core.Candidates, root: Path) -> list[int]:
    """Return the groups of which rows can be had; who lists and who deletes agree on that."""
    listed = [group for group in range(3) if had(candidates.listed, group)]
    assert [group for group in range(3) if had(removal(candidates, root).check, group)] == listed
    return listed


def test_no_byte_of_the_file_is_in_no_part(plan: LoadedPlan) -> None:
    parts = plan.plan.candidates.parts
    assert [part.rows for part in parts] == [20, 20, 20, 0]
    assert sum(part.size_bytes for part in parts) == plan.candidates.stat().st_size
    descriptor = os.open(plan.candidates, os.O_RDONLY)
    hashes = hashes_of(plan.candidates, descriptor)
    os.close(descriptor)
    assert (hashes.sha256, hashes.parts) == (plan.plan.candidates.sha256, parts)
    candidates = open_candidates(plan)
    assert candidates.rows == 60
    assert readable(candidates, plan.directory) == [0, 1, 2]


def test_any_byte_that_changed_is_found_before_a_row_of_its_part_is_had(plan: LoadedPlan) -> None:
    """Each byte of the file in turn: magic, groups, footer."""
    descriptor = os.open(plan.candidates, os.O_RDWR)
    _, parts = _core.parts_of(plan.candidates, descriptor)
    refusals = 0
    for number, (start, end) in enumerate(bounds(plan)):
        for place in range(start, end):
            byte = os.pread(descriptor, 1, place)
            os.pwrite(descriptor, bytes([byte[0] ^ 0x10]), place)
            try:
                candidates = _core.Candidates(plan.candidates, descriptor=descriptor, parts=parts)
                candidates.listed(number * GROUP_ROWS, 1)
            except RefusedError:
                refusals += 1
            if place % 500 == 0 and number < 3:
                others = sorted({0, 1, 2} - {number})
                assert readable(open_candidates(plan), plan.directory) == others
            os.pwrite(descriptor, byte, place)
    assert refusals == plan.candidates.stat().st_size
    os.close(descriptor)
    assert readable(open_candidates(plan), plan.directory) == [0, 1, 2]


def test_groups_that_changed_places_are_found(plan: LoadedPlan) -> None:
    (_, end), (_, last), _, _ = bounds(plan)
    data = plan.candidates.read_bytes()
    plan.candidates.write_bytes(data[:4] + data[end:last] + data[4:end] + data[last:])
    assert readable(open_candidates(plan), plan.directory) == [2]


@pytest.mark.parametrize("change", [b"", b"\0", b"PAR1"])
def test_another_length_is_found_at_once(plan: LoadedPlan, change: bytes) -> None:
    data = plan.candidates.read_bytes()
    plan.candidates.write_bytes(data + change if change else data[:-1])
    with raises(RefusedError, "candidates-changed"):
        open_candidates(plan)


def test_a_file_that_is_put_in_its_place_is_not_read(plan: LoadedPlan, tmp_path: Path) -> None:
    candidates = open_candidates(plan)
    other = tmp_path / "other"
    other.write_bytes(bytes(plan.candidates.stat().st_size))
    other.chmod(0o600)
    other.rename(plan.candidates)
    assert readable(candidates, tmp_path) == [0, 1, 2]
    with raises(RefusedError, "candidates-changed"):
        open_candidates(plan)


def test_what_was_verified_is_what_is_decoded(plan: LoadedPlan, tmp_path: Path) -> None:
    """A group is overwritten in place after it was listed: its rows are those that were signed."""
    root = tmp_path / "root"
    (root / "ada").mkdir(parents=True)
    candidates = open_candidates(plan)
    candidates.listed(10, 20)
    size = plan.candidates.stat().st_size
    with plan.candidates.open("r+b", buffering=0) as file:
        file.write(bytes(size))
    remover = removal(candidates, root)
    gone = {_core.REMOVAL_OUTCOMES[code] for code in remover.check(0, 40).outcomes}
    assert gone == {"gone"}
    with raises(RefusedError, "candidates-changed"):
        remover.check(40, 1)
    os.truncate(plan.candidates, 100)
    with raises(RefusedError, "candidates-changed"):
        remover.check(41, 1)
    # The groups of a batch stay, whatever else is looked at meanwhile.
    assert remover.check(15, 20).outcomes


@pytest.mark.parametrize(
    "spoil",
    [
        lambda parts: parts.clear(),
        lambda parts: parts.pop(0),
        lambda parts: parts[0].update(rows=19),
        lambda parts: parts[0].update(sha256=None),
        lambda parts: parts[0].update(sha256="ab"),
        lambda parts: parts[0].update(sha256="x" * 64),
        lambda parts: parts[0].update(size_bytes=-1),
        lambda parts: parts.pop(),
    ],
)
def test_parts_that_do_not_add_up_are_none(plan: LoadedPlan, spoil) -> None:
    text = json.loads((plan.directory / "plan.json").read_bytes())
    spoil(text["candidates"]["parts"])
    sign(plan.directory, json.dumps(text).encode())
    with pytest.raises(DataError):
        load_plan(plan.directory, KEY)


def test_parts_of_another_file_are_refused(plan: LoadedPlan) -> None:
    """The lengths fit and so do the hashes, the groups do not: nothing of it is believed."""
    data = plan.candidates.read_bytes()
    descriptor = os.open(plan.candidates, os.O_RDONLY)
    try:
        _, parts = _core.parts_of(plan.candidates, descriptor)
        (rows, length, _), (others, more, _), *rest = parts
        joined = (rows + others, length + more, hashlib.sha256(data[: length + more]).digest())
        with pytest.raises(DataError, match="other groups"):
            _core.Candidates(plan.candidates, descriptor=descriptor, parts=[joined, *rest])
        with pytest.raises(ValueError, match="behind the rows"):
            _core.Candidates(plan.candidates, descriptor=descriptor, parts=[])
    finally:
        os.close(descriptor)


def test_a_file_without_rows_has_a_footer_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "none.parquet"
    frame_of([]).write_parquet(path)
    descriptor = os.open(path, os.O_RDONLY)
    _, parts = _core.parts_of(path, descriptor)
    os.close(descriptor)
    assert [part[0] for part in parts][-1] == 0
    assert sum(part[1] for part in parts) == path.stat().st_size

"""What a plan is when it is frozen, and that it is there whole, private, or not at all."""

import json
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.purge.plan.making import BEFORE_S, DAY_S, KEY, MADE_AT, Row, draft, frame_of, make
from tests.support.children import killed_while_at_work
from tests.support.codes import raises
from tests.support.counts import repetitions, seeded

from trimtab.base.error import DataError, RefusedError, UnreadableError, UsageError
from trimtab.purge.plan.candidate import PIECE_ROWS, hashes_of, pieces, summarise
from trimtab.purge.plan.plan_directory import freeze, load_plan, staging

ROWS = [
    Row(b"ada/old", 1000, BEFORE_S - 300 * DAY_S, 5_000, 8192),
    Row(b"ada/new\nline", 1000, BEFORE_S - 1, 10, 4096),
    Row(b"bob/\xff", 1001, BEFORE_S - 20 * DAY_S, 1 << 40, 4096),
    Row(b"top", 0, BEFORE_S - 400 * DAY_S, 0, 0),
]


def test_a_plan_comes_back_as_it_was_made(tmp_path: Path) -> None:
    with staging(tmp_path / "plan") as staged:
        frame_of(ROWS).write_parquet(staged.candidates)
        plan = freeze(draft(), staged, key=KEY, held_bytes={1000: 1 << 30, 1001: 1 << 41})
    loaded = load_plan(tmp_path / "plan", KEY)
    assert (loaded.plan, loaded.publication) == (plan, None)
    candidates = plan.candidates
    assert (candidates.files, candidates.allocated_bytes) == (4, 8192 + 4096 + 4096)
    users = [(user.uid, user.files, user.held_bytes) for user in candidates.users]
    assert users == [(0, 1, None), (1000, 2, 1 << 30), (1001, 1, 1 << 41)]
    ada = candidates.users[1]
    assert (ada.oldest_use_s, ada.newest_use_s) == (BEFORE_S - 300 * DAY_S, BEFORE_S - 1)
    assert plan.expires_at == MADE_AT + timedelta(days=28)
    assert json.loads((tmp_path / "plan" / "plan.json").read_bytes())["policy"]["text"]


def test_a_plan_is_private_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    make(tmp_path / "plan", ROWS)
    assert [path.name for path in tmp_path.iterdir()] == ["plan"]
    assert (tmp_path / "plan").stat().st_mode & 0o777 == 0o700
    for file in (tmp_path / "plan").iterdir():
        assert file.stat().st_mode & 0o777 == 0o600, file


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with staging(tmp_path / "plan") as staged:
            frame_of(ROWS).write_parquet(staged.candidates)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not list(tmp_path.iterdir())


def test_a_plan_is_never_replaced(tmp_path: Path) -> None:
    make(tmp_path / "plan", ROWS)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("plan", "link"):
        with raises(UsageError, "plan-present"):
            make(tmp_path / name, ROWS)
    # Nor one that came while it was made.
    with staging(tmp_path / "soon") as staged:
        frame_of(ROWS).write_parquet(staged.candidates)
        (tmp_path / "soon").mkdir()
        with raises(UsageError, "plan-present"):
            freeze(draft(), staged, key=KEY)
    assert not list((tmp_path / "soon").iterdir())


def test_a_plan_without_candidates_is_one(tmp_path: Path) -> None:
    candidates = make(tmp_path / "plan", []).plan.candidates
    assert (candidates.files, candidates.users) == (0, ())


def test_what_is_no_file_of_candidates_is_refused(tmp_path: Path) -> None:
    frame_of(ROWS).write_parquet(tmp_path / "elsewhere")
    with staging(tmp_path / "plan") as staged:
        with pytest.raises(UnreadableError):
            freeze(draft(), staged, key=KEY)
        staged.candidates.symlink_to(tmp_path / "elsewhere")
        with raises(RefusedError, "path-is-link"):
            freeze(draft(), staged, key=KEY)
        staged.candidates.unlink()
        staged.candidates.write_bytes(b"PAR1 rubbish")
        with pytest.raises(DataError):
            freeze(draft(), staged, key=KEY)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (pl.col("last_use_s").reverse(), "order"),
        (pl.lit(None, pl.Int64).alias("last_use_s"), "no last_use_s"),
        (pl.lit(None, pl.UInt32).alias("uid"), "no uid"),
        (pl.lit(None, pl.Binary).alias("id"), "no id"),
        (pl.lit(BEFORE_S).alias("last_use_s"), "since the cut-off"),
    ],
)
def test_candidates_that_are_not_what_they_should_be_are_refused(
    tmp_path: Path, change: pl.Expr, words: str
) -> None:
    with pytest.raises(DataError, match=words):
        make(tmp_path / "plan", frame_of(ROWS).with_columns(change))
    assert not list(tmp_path.iterdir())


def test_a_missing_column_is_named_and_a_time_that_no_file_can_have_refused(tmp_path: Path) -> None:
    with raises(DataError, "column-missing"):
        make(tmp_path / "plan", frame_of(ROWS).drop("id"))
    with raises(DataError, "candidates-malformed"):
        make(tmp_path / "plan", [Row(b"x", last_use_s=-(2**62))])


@pytest.mark.parametrize(
    "changed",
    [
        {"made_at": MADE_AT.replace(tzinfo=None)},
        {"made_at": MADE_AT - timedelta(days=1)},
        {"notice_s": -1},
        {"valid_s": 0},
        {"rules": replace(draft().rules, as_of_s=BEFORE_S - 1)},
    ],
)
def test_times_that_contradict_one_another_are_refused(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        make(tmp_path / "plan", ROWS, replace(draft(), **changed))


def test_what_cannot_be_a_plan_is_no_value_of_one() -> None:
    with raises(UsageError, "cut-off-malformed"):
        replace(draft().horizon, before_s=BEFORE_S + 1)
    with raises(UsageError, "value-out-of-range"):
        replace(draft().horizon, target=float("nan"))
    with raises(UsageError, "counted-unknown"):
        replace(draft().rules, counted=())
    for root in ("scratch", "/a\nb"):
        with pytest.raises(UsageError):
            replace(draft().file_system, root=root)
    with raises(UsageError, "file-system-unknown"):
        replace(draft().file_system, name=None)


row = st.builds(
    Row,
    path=st.binary(min_size=1, max_size=8).map(lambda name: name.replace(b"/", b"_")),
    uid=st.integers(0, 3),
    last_use_s=st.integers(-(2**33), BEFORE_S - 1),
    size_bytes=st.integers(0, 2**63),
    allocated_bytes=st.integers(0, 2**62),
)


@pytest.mark.calibration
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(row, max_size=12), st.integers(1, 5))
def test_totals_are_those_of_counting_one_by_one(
    tmp_path: Path, rows: list[Row], piece_rows: int
) -> None:
    file = tmp_path / "candidates.parquet"
    frame_of(rows).write_parquet(file)
    with file.open("rb") as opened:
        hashes = hashes_of(file, opened.fileno())
    result = summarise(file, hashes, before_s=BEFORE_S)
    assert (result.files, result.size_bytes) == (len(rows), sum(one.size_bytes for one in rows))
    assert result.allocated_bytes == sum(one.allocated_bytes for one in rows)
    for user in result.users:
        theirs = [one for one in rows if one.uid == user.uid]
        uses = [file.last_use_s for file in theirs]
        assert (user.oldest_use_s, user.newest_use_s) == (min(uses), max(uses))
        size_bytes = sum(file.size_bytes for file in theirs)
        assert (user.files, user.size_bytes) == (len(theirs), size_bytes)
    assert [user.uid for user in result.users] == sorted({one.uid for one in rows})
    split = list(pieces(file, frame_of([]).columns, rows=piece_rows))
    assert pl.concat([*split, frame_of([])]).equals(frame_of(rows))


def test_the_bytes_of_a_file_with_several_names_count_once(tmp_path: Path) -> None:
    names = [Row(b"%d" % n, 1, n, 100, 4096, inode=7, nlink=3) for n in range(3)]
    alone = [Row(b"x", 1, 5, 100, 4096, nlink=2), Row(b"y", 2, 6, 100, 4096)]
    candidates = make(tmp_path / "plan", [*names, *alone]).plan.candidates
    assert (candidates.files, candidates.size_bytes) == (5, 300)
    assert [user.allocated_bytes for user in candidates.users] == [2 * 4096, 4096]


def test_many_pieces_are_one_file(tmp_path: Path) -> None:
    rows = PIECE_ROWS + 10
    same = frame_of([Row(b"d/n", 7, inode=0, size_bytes=1, allocated_bytes=512)])
    frame = same[[0] * rows].with_columns(last_use_s=pl.int_range(0, rows))
    loaded = make(tmp_path / "plan", frame)
    assert loaded.plan.candidates.files == rows
    # Out of order just where two pieces meet.
    swapped = frame.with_columns(
        last_use_s=pl.when(pl.col("last_use_s") == PIECE_ROWS).then(0).otherwise("last_use_s")
    )
    with raises(DataError, "candidates-malformed"):
        make(tmp_path / "other", swapped)


@pytest.mark.system
@pytest.mark.parametrize("kills", repetitions(gate=5, soak=200))
def test_a_plan_killed_at_any_moment_is_whole_or_not_there(tmp_path: Path, kills: int) -> None:
    """``kill -9`` of a real process; the next attempt removes what it left."""
    random = seeded("freeze")
    code = "import sys; from tests.purge.plan import test_freeze as t; t.in_child(sys.argv[1])"
    for number in range(kills):
        out = tmp_path / f"plan-{number}"
        killed_while_at_work(code, out, moment_s=random.uniform(0, 0.1))
        if out.exists():
            assert load_plan(out, KEY).plan.candidates.files == 3000
        else:
            assert make(out, ROWS).plan.candidates.files == len(ROWS)
        names = {path.name for path in tmp_path.iterdir()}
        assert {name for name in names if name.startswith(f".plan-{number}.")} == set()


def in_child(out: str) -> None:
    """Make a plan, saying when it begins."""
    frame = frame_of([Row(b"d/%d" % n, n % 7, BEFORE_S - 1 - n) for n in range(3000)])
    frame.lazy().collect()
    print("begins", flush=True)
    make(Path(out), frame)


def test_an_attempt_at_work_is_left_alone(tmp_path: Path) -> None:
    with staging(tmp_path / "plan") as first:
        with staging(tmp_path / "plan") as second:
            assert first.directory.is_dir()
            assert second.directory.is_dir()
        assert first.directory.is_dir()
    (tmp_path / ".plan.0123456789ab").mkdir()
    (tmp_path / ".plan.0123456789ab" / "x").write_text("left")
    (tmp_path / ".plan.other").mkdir()
    with staging(tmp_path / "plan"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [".plan.other"]


def test_a_directory_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with raises(RefusedError, "file-untrusted"):
        make(tmp_path / "open" / "plan", ROWS)
    (tmp_path / "open" / "below").mkdir(mode=0o700)
    with raises(RefusedError, "directory-untrusted"):
        make(tmp_path / "open" / "below" / "plan", ROWS)
    (tmp_path / "open").chmod(0o1777)  # sticky: what is root's stays root's
    make(tmp_path / "open" / "below" / "plan", ROWS)
    os.chown(tmp_path / "open", 12345, -1)
    with raises(RefusedError, "directory-untrusted"):
        load_plan(tmp_path / "open" / "below" / "plan", KEY)

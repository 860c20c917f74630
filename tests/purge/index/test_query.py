"""Questions to an index: right as a loop over its rows has it, and nothing but questions."""

from __future__ import annotations

import os
import random
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.purge.index.trees import NS, hostile_tree, true_rows
from tests.support.codes import raises
from tests.support.each import for_each
from tests.support.manifests import manifest

from trimtab.base.error import DataError, UnreadableError, UsageError, visible
from trimtab.purge.index import index_query, index_view
from trimtab.purge.index import shard as schema
from trimtab.purge.index.dask_pieces import holdings
from trimtab.purge.index.index_query import (
    AGES_DAYS,
    SIZES_BYTES,
    By,
    ask,
    merged,
    only_reads,
    totals,
)
from trimtab.purge.index.index_view import named
from trimtab.purge.index.manifest import Lack, Manifest
from trimtab.purge.index.manifest_file import save_manifest
from trimtab.purge.index.shard import ShardWriter, fill, write_shard

DAY = 86400
END_S = 1_800_000_000


def _index(directory: Path, rows: list[dict[str, Any]], **changed: Any) -> Manifest:
    """Write an index of rows; what they lack has its stand-in."""
    kinds = schema.columns()
    names = [name for name in kinds if rows and name in rows[0] and name != "last_use_s"]
    frame = pl.DataFrame(rows or None, schema={name: kinds[name] for name in names or kinds})
    half = len(rows) // 2
    shards = fill(ShardWriter(directory), [frame[:half], frame[half:]] if rows else [])
    written = replace(manifest(ended_s=END_S), shards=shards, **changed)
    save_manifest(written, directory)
    return written


def _row(**changed: Any) -> dict[str, Any]:
    at = (END_S - 10 * DAY) * NS
    row = {
        "parent": b"d", "name": b"n", "id": (1).to_bytes(16, "big"), "id_kind": "inode",
        "device": 1, "uid": 1000, "gid": 100, "project": 7, "size_bytes": 5000,
        "allocated_bytes": 8192, "nlink": 1, "atime_ns": at, "mtime_ns": at - NS, "ctime_ns": at,
        "type": "f", "osts": [3],
    }  # fmt: skip
    return {**row, **changed}


def test_a_real_tree_is_answered_as_lstat_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = hostile_tree(tmp_path / "tree")
    index = tmp_path / "index"
    index.mkdir()
    rows = true_rows(root)
    random.Random(3).shuffle(rows)
    _index(index, rows, ended_ns=max(row["ctime_ns"] for row in rows))
    files = {row["id"]: row for row in rows if row["type"] == "f"}.values()
    (answer,) = ask(
        index, "select count(*) n, sum(allocated_bytes) held, sum(size_bytes) length from files"
    ).frame.rows()
    held, length = (sum(row[name] for row in files) for name in ("allocated_bytes", "size_bytes"))
    assert answer == (len(files), held, length)
    monkeypatch.setattr(index_query, "user_name", lambda uid: None)
    (by_user,) = holdings(index, By.USER).frame.to_dicts()
    assert by_user["user"] == str(os.getuid())
    assert (by_user["files"], by_user["allocated_bytes"]) == (len(files), held)
    names = ask(index, "select path from names order by path").frame["path"].to_list()
    paths = [visible(os.fsdecode(os.path.join(r["parent"], r["name"]))) for r in rows]  # noqa: PTH118
    assert names == sorted(paths)
    assert all(name.isprintable() for name in names)


def test_the_tables_have_what_people_ask_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_view, "user_name", lambda uid: "ami")
    monkeypatch.setattr(index_view, "group_name", lambda gid: None)
    _index(tmp_path, [_row(), _row(name=b"b", atime_ns=(END_S + DAY) * NS)])
    frame = ask(tmp_path, "select * from files where age_days >= 10 and path like 'd/%'").frame
    (row,) = frame.to_dicts()
    assert (row["path"], row["directory"], row["parent"], row["name"]) == ("d/n", "d", "d", "n")
    assert (row["user"], row["group"], row["age_days"], row["id"]) == ("ami", "100", 10.0, "1")
    assert row["last_use"].isoformat() == "2027-01-05T08:00:00+00:00"
    # A time in the future is an age of 0, not one below.
    assert ask(tmp_path, "select min(age_days) a from names").frame.item() == 0.0


def test_user_is_a_column_without_quotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_view, "user_name", lambda uid: "user")
    _index(tmp_path, [_row()])
    for statement in (
        "SELECT user, count(*) AS n FROM files GROUP BY user",
        'select files."user", 1 as n from files',
        "select files.User, 1 as n from files where user = 'user'",
    ):
        assert ask(tmp_path, statement).frame.rows() == [("user", 1)]


def test_a_file_with_several_names_is_one_file(tmp_path: Path) -> None:
    rows = [_row(nlink=3, name=name) for name in (b"c", b"a", b"b")]
    rows += [_row(nlink=2, device=2, name=b"x"), _row(type="d", nlink=2, name=b"sub")]
    _index(tmp_path, rows)
    files = ask(tmp_path, "select path from files order by path").frame
    assert files["path"].to_list() == ["d/a", "d/x"]
    assert ask(tmp_path, "select count(*) n from names").frame.item() == 5


def test_files_of_unknown_identity_are_not_taken_for_one(tmp_path: Path) -> None:
    rows = [{k: v for k, v in _row(nlink=2, name=n).items() if k != "id"} for n in (b"a", b"b")]
    _index(tmp_path, rows, lacking=frozenset({Lack.IDENTITY}))
    answer = ask(tmp_path, "select count(*) n from files")
    assert answer.frame.item() == 2
    assert "hard links unknown" in answer.notes[0]
    written = index_view.scanned(tmp_path, _index(tmp_path, rows)).collect()
    assert written["id"].n_unique() == 2  # for whoever counts by identity


def test_what_is_lacking_is_null_and_said(tmp_path: Path) -> None:
    lacking = frozenset({Lack.BLOCKS, Lack.LINKS, Lack.IDENTITY, Lack.GROUP, Lack.TYPE})
    _index(tmp_path, [_row(nlink=1), _row(name=b"b")], lacking=lacking, complete=False)
    answer = ask(tmp_path, 'select allocated_bytes, nlink, id, gid, "group" from files')
    assert answer.frame.null_count().row(0) == (2, 2, 2, 2, 2)
    assert len(answer.notes) == 4
    held = holdings(tmp_path, By.USER)
    assert held.frame["allocated_bytes"].to_list() == [10_000]  # lengths, and that is said
    assert held.notes == answer.notes


def test_an_answer_has_an_end_and_that_of_an_empty_index_is_empty(tmp_path: Path) -> None:
    _index(tmp_path, [_row(name=b"%d" % number) for number in range(20)])
    answer = ask(tmp_path, "select name from names", rows_maximum=7)
    assert (answer.frame.height, answer.cut_off) == (7, True)
    assert not ask(tmp_path, "select name from names", rows_maximum=20).cut_off
    _index(tmp_path, [])
    assert ask(tmp_path, "select * from files").frame.height == 0
    assert holdings(tmp_path, By.AGE).frame.height == 0


def test_a_fid_is_shown_as_people_write_it(tmp_path: Path) -> None:
    fid = bytes.fromhex("00000002000004020000015800000000")
    _index(tmp_path, [_row(id=fid, id_kind="fid")])
    for statement in ("select id from files", "select id, id_kind from files"):
        assert ask(tmp_path, statement).frame["id"].to_list() == ["[0x200000402:0x158:0x0]"]


@pytest.mark.parametrize(
    "statement",
    [
        "select 1",
        "  (select path from files)",
        "with a as (select * from files) select count(*) from a;",
        "select 'drop table x; delete' as text, \"create\" from files -- into",
        "select /* ; drop */ path from names",
        "from files select path",
        "explain select path from files",
    ],
)
def test_a_question_is_let_through(statement: str) -> None:
    only_reads(statement)


@for_each(
    "statement",
    [
        *("", "drop table files", "delete from files", "truncate files", "show tables"),
        *("create table x as select * from files", "with a as (select 1) delete from files"),
        *("select path into x from files", "select 1; select 2", "copy files to 'x'"),
        *("select * from read_csv('/etc/passwd')", "select * from READ_PARQUET ('x')"),
        *("select * from scan_ndjson('x')", "insert into files values (1)"),
        "update files set uid = 0",
    ],
)
def test_anything_else_is_refused(tmp_path: Path, statement: str) -> None:
    _index(tmp_path, [_row()])
    with pytest.raises(UsageError):
        ask(tmp_path, statement)


@for_each(
    "statement",
    [
        *("select path from elsewhere", "select colour from files", "select from from from"),
        *("select * from '/etc/passwd'", 'select * from "/etc/passwd"'),
        *("select * from files where", "select sum(path) from files group by"),
    ],
)
def test_what_cannot_be_answered_is_said(tmp_path: Path, statement: str) -> None:
    _index(tmp_path, [_row()])
    with raises(UsageError, "query-failed"):
        ask(tmp_path, statement)


def test_nothing_is_asked_of_what_is_no_index(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError):
        ask(tmp_path, "select 1")


@pytest.mark.parametrize("where", ["columns", "footer"])
def test_a_shard_that_was_damaged_is_said_to_be(tmp_path: Path, where: str) -> None:
    shard = tmp_path / _index(tmp_path, [_row(name=b"%d" % n) for n in range(2000)]).shards[0].name
    data = bytearray(shard.read_bytes())
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    place = slice(4, footer) if where == "columns" else slice(footer, len(data) - 8)
    data[place] = bytes(len(data[place]))
    shard.write_bytes(data)
    with raises(DataError, "index-unreadable"):
        holdings(tmp_path, By.USER)
    with pytest.raises((DataError, UsageError)):
        ask(tmp_path, "select sum(size_bytes) from names")


ages = st.one_of(st.none(), st.integers(-5 * DAY, 1000 * DAY), st.sampled_from(AGES_DAYS).map(
    lambda days: days * DAY))  # fmt: skip
sizes = st.one_of(st.integers(0, 2**42), st.sampled_from(SIZES_BYTES))
rows_of = st.lists(
    st.fixed_dictionaries(
        {
            "inode": st.integers(1, 4),
            "age_s": ages,
            "uid": st.integers(1, 3),
            "project": st.none() | st.integers(1, 2),
            "size_bytes": sizes,
            "allocated_bytes": st.integers(0, 100),
            "nlink": st.integers(1, 2),
            "type": st.sampled_from("fffd"),
            "osts": st.none() | st.lists(st.integers(0, 2), max_size=4),
            "pool": st.sampled_from([None, b"flash", b"fl\xff\n"]),
        }
    ),
    max_size=8,
)


def _slow(rows: list[dict[str, Any]], key: str) -> dict[Any, list[int]]:
    """Return files and bytes by a column: the obvious loop over files, each once."""
    seen, totals = set(), defaultdict(lambda: [0, 0])
    for row in sorted(rows, key=lambda row: row["name"]):
        if row["type"] != "f" or (row["nlink"] > 1 and row["id"] in seen):
            continue
        if row["nlink"] > 1:
            seen.add(row["id"])
        for value, held in _parts(row, key):
            totals[value][0] += 1
            totals[value][1] += held
    return dict(totals)


def _parts(row: dict[str, Any], key: str) -> list[tuple[Any, int]]:
    if key != "ost":
        return [(_class(row, key), row["allocated_bytes"])]
    osts = row["osts"] or []
    each, rest = divmod(row["allocated_bytes"], len(osts) or 1)
    shares: dict[int, int] = {}
    for stripe, ost in enumerate(osts):
        shares[ost] = shares.get(ost, 0) + each + (rest if stripe == 0 else 0)
    return list(shares.items())


def _class(row: dict[str, Any], key: str) -> Any:
    if key == "size":
        return sum(row["size_bytes"] >= begin for begin in SIZES_BYTES)
    if key == "age":
        age_s = row["age_s"]
        if age_s is None:
            return None
        return sum(max(age_s, 0) >= begin * DAY for begin in AGES_DAYS)
    if key == "pool":
        return {None: "(none)", b"flash": "flash", b"fl\xff\n": r"fl\xff\n"}[row["pool"]]
    return str(row["uid"]) if key == "user" else row["project"]


@pytest.mark.system
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows_of)
def test_every_total_is_that_of_the_loop(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[dict[str, Any]]
) -> None:
    rows = []
    for number, row in enumerate(drawn):
        at = None if row["age_s"] is None else (END_S - row["age_s"]) * NS
        # A file's names share everything but themselves: so does what is drawn for them.
        identity = (row["inode"] if row["nlink"] > 1 else 100 + number).to_bytes(16, "big")
        times = dict.fromkeys(("atime_ns", "mtime_ns", "ctime_ns"), at)
        drawn_row = {name: value for name, value in row.items() if name != "inode"}
        rows.append(_row(name=b"%d" % number, **drawn_row, id=identity, **times))
    directory = tmp_path_factory.mktemp("index")
    written = _index(directory, [{k: v for k, v in r.items() if k != "age_s"} for r in rows])
    files = index_view.files(index_view.names(directory, written))
    for by in (By.USER, By.PROJECT, By.AGE, By.SIZE, By.OST, By.POOL):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(index_query, "user_name", lambda uid: None)
            frame = merged(totals(files, by), by).collect()
        slow = _slow(rows, by.value)
        counted = [tuple(row) for row in frame.select("files", "allocated_bytes").rows()]
        if by in (By.AGE, By.SIZE):
            ordered = sorted(slow, key=lambda key: (key is None, key or 0))
            assert counted == [tuple(slow[key]) for key in ordered]
        else:
            expected = {key: tuple(value) for key, value in slow.items()}
            assert dict(zip(frame[by.value], counted, strict=True)) == expected
            held = [bytes_ for _, bytes_ in counted]
            assert held == sorted(held, reverse=True)


def test_classes_are_named(tmp_path: Path) -> None:
    rows = [
        _row(name=b"a", size_bytes=0, atime_ns=None),
        _row(name=b"b", size_bytes=4096),
        _row(name=b"c", size_bytes=2**41, atime_ns=0, mtime_ns=0, ctime_ns=0),
    ]
    _index(tmp_path, rows)
    by_size, by_age = (holdings(tmp_path, by).frame for by in (By.SIZE, By.AGE))
    assert by_size["size"].to_list() == ["empty", "4.00 KiB to 64.0 KiB", "1.00 TiB and more"]
    assert by_age["age"].to_list() == ["7 to 14 days", "730 days and more", "not known"]
    assert by_age["share"].to_list() == [1 / 3] * 3


@pytest.mark.parametrize(
    ("by", "lack"),
    [(By.OST, Lack.LAYOUT), (By.POOL, Lack.POOL), (By.PROJECT, Lack.PROJECT)],
)
def test_what_the_index_does_not_tell_is_not_answered(tmp_path: Path, by: By, lack: Lack) -> None:
    _index(tmp_path, [_row()], lacking=frozenset({lack}))
    with pytest.raises(UsageError, match=lack.value):
        holdings(tmp_path, by)


def test_a_pool_is_text_that_can_be_asked_for(tmp_path: Path) -> None:
    rows = [_row(name=b"a", pool=b"flash"), _row(name=b"b", pool=b"\x1b[2J"), _row(name=b"c")]
    _index(tmp_path, rows)
    assert ask(tmp_path, "select name from files where pool = 'flash'").frame.item() == "a"
    pools = ask(tmp_path, "select pool from files order by name").frame["pool"]
    assert pools.to_list() == ["flash", r"\x1b[2J", None]


def test_an_index_of_before_pools_were_kept_is_read_on_and_says_nothing_of_them(
    tmp_path: Path,
) -> None:
    newer = _index(tmp_path, [_row(name=b"a", pool=b"flash")])
    row, kinds = _row(name=b"b"), schema.columns()
    frame = schema.completed(pl.DataFrame([row], schema={name: kinds[name] for name in row}))
    older = write_shard(frame.drop("pool"), tmp_path / "older.parquet")
    for shards in ((older,), (*newer.shards, older)):
        save_manifest(replace(newer, shards=shards), tmp_path)
        result = ask(tmp_path, "select name, pool, osts from names order by name").frame
        assert result.rows()[-1] == ("b", None, [3])
        assert result.height == len(shards)
        (held,) = holdings(tmp_path, By.OST).frame.rows(named=True)
        assert (held["ost"], held["files"]) == (3, len(shards))
        with raises(UsageError, "pool-unknown-to-index") as caught:
            holdings(tmp_path, By.POOL)
        assert "scan or import again" in (caught.value.hint or "")


def test_the_most_come_first_and_no_more_than_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_query, "user_name", lambda uid: f"u{uid}\x1b")
    rows = [_row(name=b"%d" % uid, uid=uid, allocated_bytes=uid * 512) for uid in range(1, 30)]
    _index(tmp_path, rows)
    answer = holdings(tmp_path, By.USER, top=3)
    assert answer.frame["user"].to_list() == ["u29\\x1b", "u28\\x1b", "u27\\x1b"]
    assert answer.cut_off


@pytest.fixture
def restless() -> Iterator[None]:
    """Have threads take turns far more often than they do by themselves."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.calibration
@pytest.mark.usefixtures("restless")
def test_threads_that_ask_for_names_at_once_do_not_mix_them_up() -> None:
    names = named("uid", "user", lambda number: f"user{number}")

    def ask(part: int) -> bool:
        numbers = [None, *range(300 * part, 300 * part + 300)]
        frame = pl.LazyFrame({"uid": numbers}, schema={"uid": pl.UInt32}).select(names)
        asked = frame.collect()["user"].to_list()
        return asked == [None, *(f"user{number}" for number in numbers[1:])]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(200)))


def test_numbers_that_are_not_known_have_no_name() -> None:
    frame = pl.LazyFrame({"uid": [None, None]}, schema={"uid": pl.UInt32})
    assert frame.select(named("uid", "user", str)).collect()["user"].to_list() == [None, None]

"""The tally and the selection over shards that Polars wrote, against plain Python."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from trimtab.base.error import DataError
from trimtab.purge.index.shard import completed

core = pytest.importorskip("trimtab._core")
if not hasattr(core, "tally"):
    pytest.skip("the core was built before it had a tally", allow_module_level=True)

AS_OF_S = 1_790_000_000
DAY_S = 86_400
OLD_S = AS_OF_S - 56 * DAY_S
ALL = {"old_enough_before_s": AS_OF_S + 1, "exempt_paths": [], "exempt_users": []}
"""Rules by which everything goes."""


USUAL: dict[str, Any] = {
    "counted": ["atime", "mtime", "ctime"],
    "as_of_s": AS_OF_S,
    "old_enough_before_s": OLD_S,
    "minimum_size_bytes": 0,
    "exempt_paths": [b"home"],
    "exempt_users": [1003],
    "exempt_groups": [],
    "exempt_projects": [],
    "linked": False,
}


def rules(**changed: Any) -> Any:
    """Return the usual rules, with some of them changed."""
    return core.Rules(**(USUAL | changed))


def index(rows: int, seed: int) -> pl.DataFrame:
    """Return an index of regular files with one name each."""
    draw = np.random.default_rng(seed)
    times = AS_OF_S * 10**9 - draw.integers(0, 300 * DAY_S * 10**9, (3, rows))
    parents = np.array([b"home/u", b"homes", b"scratch/\xff\n"], dtype=object)
    frame = pl.DataFrame(
        {
            "parent": pl.Series(list(parents[draw.integers(0, 3, rows)]), dtype=pl.Binary),
            "name": pl.Series([b"f%d" % row for row in range(rows)], dtype=pl.Binary),
            "id": pl.Series([row.to_bytes(16, "big") for row in range(rows)], dtype=pl.Binary),
            "id_kind": ["inode"] * rows,
            "device": pl.Series([7] * rows, dtype=pl.UInt64),
            "uid": pl.Series(1000 + draw.integers(0, 5, rows), dtype=pl.UInt32),
            "gid": pl.Series([100] * rows, dtype=pl.UInt32),
            "project": pl.Series([None] * rows, dtype=pl.UInt32),
            "size_bytes": pl.Series(draw.integers(0, 10**6, rows), dtype=pl.UInt64),
            "allocated_bytes": pl.Series(draw.integers(0, 200, rows) * 4096, dtype=pl.UInt64),
            "nlink": pl.Series([1] * rows, dtype=pl.UInt32),
            "atime_ns": times[0],
            "mtime_ns": times[1],
            "ctime_ns": times[2],
            "btime_ns": pl.Series([None] * rows, dtype=pl.Int64),
            "type": ["f"] * rows,
            "stripe_count": pl.Series([(None, 2)[row % 2] for row in range(rows)], dtype=pl.UInt32),
            "osts": pl.Series([[1, 2] if row % 2 else None for row in range(rows)]),
            "pool": [(None, b"flash", None, b"fl\xff\n")[row % 4] for row in range(rows)],
        }
    ).cast({"osts": pl.List(pl.UInt32), "pool": pl.Binary})
    return completed(frame)


def eligible(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows that the usual rules let go, one by one."""
    result = []
    for row in frame.iter_rows(named=True):
        exempt = row["parent"] == b"home" or row["parent"].startswith(b"home/")
        if not exempt and row["uid"] != 1003 and row["last_use_s"] < OLD_S:
            result.append(row)
    return result


def files_kept(counted: Any) -> dict[str, int]:
    return {reason: files for reason, (files, _) in counted.kept().items()}


def curve(arrays: Sequence[bytes]) -> dict[int, tuple[int, int]]:
    """Return arrays of a tally as a mapping."""
    buckets, files, allocated = (
        np.frombuffer(part, kind) for part, kind in zip(arrays, ("i8", "u8", "u8"), strict=True)
    )
    amounts = zip(files.tolist(), allocated.tolist(), strict=True)
    return dict(zip(buckets.tolist(), amounts, strict=True))


@pytest.mark.calibration
@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "lz4", "zstd"])
def test_shards_of_polars_are_counted(tmp_path: Path, codec: Any) -> None:
    """Whatever codec they have, and however large their groups are."""
    frame = index(5000, seed=1)
    frame[:2000].write_parquet(tmp_path / "a.parquet", compression=codec, row_group_size=700)
    frame[2000:].write_parquet(tmp_path / "b.parquet", compression=codec)
    shards = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    counted = core.tally(shards, rules(), projects=True, osts=True)
    assert counted.files == 5000
    assert counted.allocated_bytes == frame["allocated_bytes"].sum()
    files, sizes = Counter(), Counter()
    for row in eligible(frame):
        for key in ("all", row["last_use_s"] // 3600), (row["uid"], row["last_use_s"] // DAY_S):
            files[key] += 1
            sizes[key] += row["allocated_bytes"]
    hours = {hour: (files[of, hour], sizes[of, hour]) for of, hour in files if of == "all"}
    assert curve(counted.hours()) == hours
    for uid in counted.users():
        days = {day: (files[of, day], sizes[of, day]) for of, day in files if of == uid}
        assert curve(counted.days_of_user(uid)) == days
        own = frame.filter(pl.col("uid") == uid)
        assert counted.total_of_user(uid) == (len(own), own["allocated_bytes"].sum())
    assert 1003 not in counted.users()
    assert counted.projects() == []
    placed = sum(
        sizes for ost in counted.osts() for _, sizes in curve(counted.hours_of_ost(ost)).values()
    )
    assert placed + counted.unplaced()[1] == sum(row["allocated_bytes"] for row in eligible(frame))
    assert sum(files for files, _ in counted.kept().values()) == 5000 - len(eligible(frame))


@pytest.mark.parametrize(
    ("key", "column", "ids"),
    [
        ("exempt_users", "uid", [1004, 1000, 1004, 1002]),
        ("exempt_groups", "gid", [5004, 5000, 5004, 5002]),
        ("exempt_projects", "project", [9, 0, 9, 4]),
    ],
)
def test_exemptions_hold_in_any_order(
    tmp_path: Path, key: str, column: str, ids: list[int]
) -> None:
    numbers = [min(ids) + row % 11 for row in range(500)]
    frame = index(500, seed=3).with_columns(pl.Series(column, numbers, dtype=pl.UInt32))
    frame.write_parquet(tmp_path / "a.parquet")
    counted = core.tally([tmp_path / "a.parquet"], rules(**(ALL | {key: ids})))
    exempt = sum(number in ids for number in numbers)
    assert files_kept(counted) == {key.removesuffix("s"): exempt}


def test_an_unknown_project_keeps_a_file_while_any_project_is_exempt(tmp_path: Path) -> None:
    """Of a row, and of every row of a shard without the column; the candidates agree."""
    projects = [None if row % 3 == 0 else row % 11 for row in range(500)]
    known = index(500, seed=3).with_columns(pl.Series("project", projects, dtype=pl.UInt32))
    known.write_parquet(tmp_path / "known.parquet")
    known.drop("project").write_parquet(tmp_path / "lacking.parquet")
    for name, unknown, exempt in (
        ("known", projects.count(None), projects.count(4)),
        ("lacking", 500, 0),
    ):
        in_force = rules(**(ALL | {"exempt_projects": [4]}))
        shard, out = tmp_path / f"{name}.parquet", tmp_path / "out.parquet"
        kept = files_kept(core.tally([shard], in_force))
        assert kept.pop("project_unknown") == unknown
        assert kept == ({"exempt_project": exempt} if exempt else {})
        files, _ = core.select([shard], in_force, before_s=AS_OF_S + 1, out=out)
        assert files == 500 - unknown - exempt
        assert core.tally([shard], rules(**ALL)).kept() == {}


def test_candidates_are_a_frame_in_order(tmp_path: Path) -> None:
    """The columns of the index, the oldest first, and the amounts of the curve."""
    frame = index(3000, seed=2)
    shard = tmp_path / "a.parquet"
    frame.write_parquet(shard)
    before_s = OLD_S - 30 * DAY_S
    out = tmp_path / "candidates.parquet"
    files, allocated_bytes = core.select([shard], rules(), before_s=before_s, out=out)
    result = pl.read_parquet(out)
    assert result.columns == frame.columns
    wanted = [row for row in eligible(frame) if row["last_use_s"] < before_s]
    order = sorted((row["last_use_s"] // 3600, row["parent"], row["name"]) for row in wanted)
    rows = result.select(pl.col("last_use_s") // 3600, "parent", "name").rows()
    assert rows == order
    assert set(result["name"]) == {row["name"] for row in wanted}
    assert (files, allocated_bytes) == (len(wanted), result["allocated_bytes"].sum())
    both = result.sort("name"), frame.join(result, on="name", how="semi").sort("name")
    assert both[0].equals(both[1].cast(both[0].schema))


@pytest.mark.system
def test_tallies_of_processes_merge_in_any_order(tmp_path: Path) -> None:
    """What one process counts of each shard is, merged, what one counts of all."""
    shards = []
    for number in range(3):
        shards.append(tmp_path / f"{number}.parquet")
        index(400, seed=number).write_parquet(shards[-1])
    program = (
        "import sys, pathlib, pickle; from trimtab import _core as core;"
        "rules = core.Rules(**pickle.loads(pathlib.Path(sys.argv[2]).read_bytes()));"
        "sys.stdout.buffer.write(core.tally([sys.argv[1]], rules).to_bytes())"
    )
    exempt = {"exempt_paths": [b"home/u"], "exempt_users": []}
    terms = USUAL | exempt | {"counted": ["mtime", "ctime"], "minimum_size_bytes": 4096}
    terms["linked"] = True
    kept = tmp_path / "rules"
    kept.write_bytes(pickle.dumps(terms))
    parts = []
    for shard in shards:
        counting = [sys.executable, "-c", program, shard, kept]
        parts.append(subprocess.run(counting, check=True, capture_output=True).stdout)
    whole = core.tally(shards, core.Rules(**terms)).to_bytes()
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        merged = core.Tally.from_bytes(parts[order[0]])
        for part in order[1:]:
            merged.merge(pickle.loads(pickle.dumps(core.Tally.from_bytes(parts[part]))))
        assert merged.to_bytes() == whole


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    """With the file and what is wrong, or the argument."""
    with pytest.raises(ValueError, match="birth"):
        rules(counted=["birth"])
    for path in (b"/home", b"home/", b"a/../b", b"a//b", b"."):
        with pytest.raises(ValueError, match="exempt path"):
            rules(exempt_paths=[path])
    with pytest.raises(FileNotFoundError, match=r"gone\.parquet"):
        core.tally([tmp_path / "gone.parquet"], rules())
    rubbish = tmp_path / "rubbish.parquet"
    rubbish.write_bytes(b"PAR1 and nothing of it PAR1")
    with pytest.raises(DataError, match=r"rubbish\.parquet"):
        core.tally([rubbish], rules())
    other = tmp_path / "other.parquet"
    index(10, seed=3).drop("uid").write_parquet(other)
    with pytest.raises(DataError, match="has no column uid"):
        core.tally([other], rules())
    with pytest.raises(ValueError, match="no tally"):
        core.Tally.from_bytes(b"something else")

"""What looks like evasion: reported, and above all not for ordinary work; indexes brought to it."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.support.codes import raises
from tests.support.counts import repetitions
from tests.support.manifests import manifest

from trimtab.base.error import DataError, UnreadableError, UsageError
from trimtab.purge.horizon import evasion
from trimtab.purge.horizon.evasion import COLUMNS, look_for_evasion, suspicions
from trimtab.purge.horizon.evasion_sign import (
    KINDS,
    EvasionLimits,
    IndexLook,
    Suspicion,
    statement,
    unseen,
)
from trimtab.purge.index.index_query import only_reads
from trimtab.purge.index.manifest import FileSystemIdentity, Lack, TimeTrust
from trimtab.purge.index.manifest_file import load_manifest, save_manifest
from trimtab.purge.index.shard import ShardWriter, fill
from trimtab.purge.index.shard import columns as shard_columns
from trimtab.purge.purge_policy import Exemption, Policy

NOW_S = 1_790_000_000
DAY_S = 86400
NS_PER_S = 10**9


@dataclass(frozen=True)
class File:
    """A file by its times, in seconds."""

    uid: int
    born: float
    written: float
    changed: float
    read: float
    number: int = 0
    kind: str = "f"
    size_bytes: int = 1000


def frame_of(files: Iterable[File], *, birth: bool = True) -> pl.LazyFrame:
    rows = list(files)

    def times(name: str) -> list[int]:
        return [int(getattr(file, name) * NS_PER_S) for file in rows]

    columns = {
        "id": [(file.number or at).to_bytes(16, "big") for at, file in enumerate(rows, 1)],
        "uid": [file.uid for file in rows],
        "size_bytes": [file.size_bytes for file in rows],
        "allocated_bytes": [4096] * len(rows),
        "type": [file.kind for file in rows],
        "atime_ns": times("read"),
        "mtime_ns": times("written"),
        "ctime_ns": times("changed"),
        "btime_ns": times("born") if birth else [None] * len(rows),
    }
    return pl.LazyFrame(columns, schema={name: shard_columns()[name] for name in columns})


def found(
    files: Iterable[File], *, birth: bool = True, limits: EvasionLimits | None = None
) -> tuple[Suspicion, ...]:
    return suspicions(IndexLook(frame_of(files, birth=birth), NOW_S), limits=limits)


def left_alone(uid: int, at: float, **more: Any) -> File:
    """Return a file that came into being at a time and was left alone."""
    return File(uid, at, at, at, at, **more)


def made_at(uid: int, at: float, number: int, rate: float) -> list[File]:
    """Return files that came into being one after the other and were left alone."""
    return [left_alone(uid, at + n / rate) for n in range(number)]


def touched_at(file: File, at: float, **more: Any) -> File:
    return replace(file, read=at, written=at, changed=at, **more)


# What is reported.


def test_touching_everything_is_seen() -> None:
    files = made_at(1000, NOW_S - 200 * DAY_S, 5000, 100.0)
    at = NOW_S - 3 * DAY_S
    touched = [touched_at(file, at + n / 900) for n, file in enumerate(files)]
    (one,) = found([*touched, *made_at(1001, NOW_S - 90 * DAY_S, 5000, 100.0)])
    assert (one.kind, one.uid) == ("touched", 1000)
    assert (one.files, one.allocated_bytes) == (5000, 5000 * 4096)
    assert (one.first_s, one.last_s) == (at, at + 5)
    assert "5,000 files (19.5 MiB)" in one.words


def test_a_touch_of_every_week_is_several_goes() -> None:
    files = made_at(1000, NOW_S - 200 * DAY_S, 6000, 100.0)
    touched = [touched_at(file, NOW_S - (1 + n // 2000) * DAY_S) for n, file in enumerate(files)]
    assert [one.files for one in found(touched)] == [2000, 2000, 2000]


def test_reading_everything_that_is_old_is_seen() -> None:
    old = made_at(1000, NOW_S - 300 * DAY_S, 4000, 50.0)
    read = [replace(file, read=NOW_S - DAY_S + n / 2000) for n, file in enumerate(old)]
    (one,) = found([*read, *made_at(1000, NOW_S - 5 * DAY_S, 3000, 10.0)])
    assert (one.kind, one.uid, one.files) == ("read together", 1000, 4000)
    assert "it may be a job" in one.words
    assert "100%" in one.words


def test_a_time_to_come_is_seen_however_few() -> None:
    ten_years_s = NOW_S + 10 * 365 * DAY_S
    file = replace(left_alone(1000, NOW_S - DAY_S), written=ten_years_s)
    (one,) = found([file])
    assert (one.kind, one.files, one.last_s) == ("future", 1, ten_years_s)
    assert found([replace(file, written=NOW_S + 100)]) == ()
    # Only the kinds that are asked for are looked for.
    look = IndexLook(frame_of([file]), NOW_S)
    assert suspicions(look, kinds=[kind for kind in KINDS if kind != "future"]) == ()


def looked(files: Iterable[File], weeks_ago: int, *, began: bool = True) -> IndexLook:
    """Return what an index of some weeks ago saw; it took an hour."""
    as_of_s = NOW_S - weeks_ago * 7 * DAY_S
    return IndexLook(frame_of(files), as_of_s, as_of_s - 3600 if began else None)


def test_a_change_in_every_interval_is_seen() -> None:
    base = made_at(1000, NOW_S - 300 * DAY_S, 1500, 10.0)
    base = [replace(file, number=place + 1) for place, file in enumerate(base)]
    looks = [
        looked((replace(file, changed=NOW_S - (weeks * 7 + 1) * DAY_S) for file in base), weeks)
        for weeks in (2, 1, 0)
    ]
    (one,) = suspicions(looks[-1], earlier=looks[:-1])
    assert (one.kind, one.uid, one.files) == ("renewed", 1000, 1500)
    assert (one.first_s, one.last_s) == (NOW_S - DAY_S, NOW_S - DAY_S)
    assert "each of 2 intervals" in one.words
    # Two indexes show no period, and who wrote something used the files.
    assert suspicions(looks[-1], earlier=looks[1:2]) == ()
    at = NOW_S - DAY_S
    written = looked((replace(file, changed=at, written=at) for file in base), 0)
    assert suspicions(written, earlier=looks[:-1]) == ()
    assert suspicions(looks[-1], earlier=[looks[0], looks[0]]) == ()


def slow_renewed(worlds: list[list[File]], minimum: int) -> dict[int, int]:
    """Return the files of each owner that changed in every interval, looked up one by one."""
    seen = [
        {(file.number, file.uid, file.written): file.changed for file in world} for world in worlds
    ]
    many: Counter[int] = Counter()
    for key in seen[-1]:
        times = [one.get(key) for one in seen]
        if all(a is not None and b is not None and a < b for a, b in pairwise(times)):
            many[key[1]] += 1
    return {uid: count for uid, count in many.items() if count >= minimum}


@pytest.mark.calibration
@pytest.mark.parametrize("part_rows", [7, 10**6])
@pytest.mark.parametrize("seeds", repetitions(gate=15, soak=500))
def test_what_is_renewed_is_what_a_look_at_each_file_says(
    part_rows: int, seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evasion, "PART_ROWS", part_rows)
    some = 0
    for seed in range(seeds):
        draw = random.Random(seed)
        worlds = _worlds(draw, draw.randint(3, 5))
        expected = slow_renewed(worlds, 3)
        some += bool(expected)
        for began in (True, False):
            *earlier, last = (
                looked(files, weeks_ago, began=began)
                for weeks_ago, files in zip(reversed(range(len(worlds))), worlds, strict=True)
            )
            limits = EvasionLimits(files=3)
            signs = suspicions(last, earlier=earlier, kinds=["renewed"], limits=limits)
            assert {sign.uid: sign.files for sign in signs} == expected, seed
    assert some > 5


def _worlds(draw: random.Random, many: int) -> list[list[File]]:
    """Return files as several indexes saw them: left alone, changed, written, deleted, new."""
    start, numbers = NOW_S - many * 7 * DAY_S, range(1, draw.randint(5, 60))
    files = [left_alone(draw.randint(1, 4), start, number=number) for number in numbers]
    worlds = []
    habits = {uid: draw.choice([0.0, 0.5, 0.95]) for uid in range(1, 5)}
    for place in range(many):
        at = NOW_S - (many - 1 - place) * 7 * DAY_S - draw.uniform(3700, 6 * DAY_S)
        files = [
            replace(file, changed=at) if draw.random() < habits[file.uid] else file
            for file in files
            if draw.random() < 0.97
        ]
        files = [
            replace(file, changed=at, written=at) if draw.random() < 0.05 else file
            for file in files
        ]
        files.append(left_alone(draw.randint(1, 4), at, number=1000 + place))
        worlds.append(list(files))
    return worlds


def test_few_files_are_nobodys_concern() -> None:
    old = made_at(1000, NOW_S - 300 * DAY_S, 999, 50.0)
    touched = [touched_at(file, NOW_S - DAY_S) for file in old]
    assert found(touched) == ()
    assert len(found(touched, limits=EvasionLimits(files=999))) == 1


# What is not.

USERS = 8


def ordinary(seed: int) -> list[File]:
    """Return what a year of ordinary work leaves: the false alarms to be had are all in it."""
    draw = random.Random(seed)
    files: list[File] = []
    for uid in range(1000, 1000 + USERS):
        for _ in range(draw.randint(2, 4)):
            at = NOW_S - draw.uniform(1, 360) * DAY_S
            number, rate = draw.randint(1000, 2000), draw.choice([2.0, 100.0, 20_000.0])
            work = draw.choice(["output", "unpacked", "copied", "data set", "rights", "appended"])
            files.extend(_of_work(work, uid, at, number, rate, draw))
    # A backup, or a checksum of everything: it reads whatever is there, of everybody.
    backup = NOW_S - 2 * DAY_S
    if seed % 2:
        files = [
            replace(file, read=backup + n / 3000) if file.read < backup else file
            for n, file in enumerate(sorted(files, key=lambda file: draw.random()))
        ]
    return files


def _of_work(
    work: str, uid: int, at: float, number: int, rate: float, draw: random.Random
) -> list[File]:
    files = made_at(uid, at, number, rate)
    later = min(NOW_S - 1.0, at + draw.uniform(0.1, 60) * DAY_S)
    match work:
        case "unpacked":  # tar: the times of the archive, but for the change
            return [replace(file, written=at - draw.uniform(1, 900) * DAY_S) for file in files]
        case "copied":  # rsync --archive --atimes
            kept = at - 400 * DAY_S
            return [replace(file, written=kept, read=kept) for file in files]
        case "data set":  # read again and again by jobs, in no order: the last pass stands
            pass_s = min(draw.uniform(600, 7200), NOW_S - later)
            return [replace(file, read=later + draw.uniform(0, pass_s)) for file in files]
        case "rights":  # chmod --recursive
            return [replace(file, changed=later + n / 20_000) for n, file in enumerate(files)]
        case "appended":  # a simulation goes on with its files
            moments = [min(later + draw.uniform(0, 3600), NOW_S - 0.5) for _ in files]
            return [
                replace(file, written=moment, changed=moment)
                for file, moment in zip(files, moments, strict=True)
            ]
        case _:
            return files


@pytest.mark.calibration
@pytest.mark.parametrize("years", repetitions(gate=6, soak=200))
def test_ordinary_work_is_hardly_ever_reported(years: int) -> None:
    """A year of eight users each time; a report now and then is one too many, so it is counted."""
    reported = [one for seed in range(years) for one in found(ordinary(seed))]
    assert [one for one in reported if one.kind != "read together"] == []
    # A data set that is all that its owner has, read by a job in one pass, looks like a loop: it
    # is the price of seeing loops, and the words say so.
    assert len(reported) <= years * USERS * 0.05


def test_a_backup_is_not_taken_for_its_victims() -> None:
    files = [
        file for uid in range(1000, 1010) for file in made_at(uid, NOW_S - 300 * DAY_S, 1500, 50.0)
    ]
    at = NOW_S - DAY_S
    assert found(replace(file, read=at + n / 3000) for n, file in enumerate(files)) == ()


def test_without_birth_times_nothing_is_said_of_touching() -> None:
    """Unpacking an archive then looks the same."""
    files = made_at(1000, NOW_S - 10 * DAY_S, 5000, 1000.0)
    assert found(files, birth=False) == ()


def test_directories_and_links_are_not_files() -> None:
    old = made_at(1000, NOW_S - 300 * DAY_S, 2000, 50.0)
    assert found([touched_at(file, NOW_S - DAY_S, kind="l") for file in old]) == ()


def test_an_empty_index_and_one_without_times() -> None:
    assert found([]) == ()
    frame = frame_of(made_at(1, 0.0, 5, 1.0)).with_columns(
        pl.lit(None, pl.Int64).alias(name) for name in COLUMNS if name.endswith("_ns")
    )
    assert suspicions(IndexLook(frame, NOW_S)) == ()


@pytest.mark.system
def test_real_trees_are_not_reported(tmp_path: Path) -> None:
    """The programs of this host as they were installed, with the times that find prints."""
    listing = tmp_path / "listing"
    form = "%i\\t%U\\t%s\\t%b\\t%y\\t%A@\\t%T@\\t%C@\\t%B@\\n"
    argv = ["find", "/usr/share", "-xdev", "-printf", form]
    with listing.open("wb") as stream:
        subprocess.run(argv, stdout=stream, stderr=subprocess.DEVNULL, check=False)
    names = ["id", "uid", "size_bytes", "allocated_bytes", "type", "a", "m", "c", "b"]
    table = pl.read_csv(
        listing, separator="\t", has_header=False, new_columns=names, infer_schema=False
    )
    frame = table.select(
        pl.col("id").cast(pl.Binary),
        pl.col("uid").cast(pl.UInt32),
        pl.col("size_bytes", "allocated_bytes").cast(pl.UInt64),
        "type",
        *(
            # Where a file system has no birth times, find prints no number.
            (pl.col(name).cast(pl.Float64, strict=False) * 1e9).cast(pl.Int64).alias(f"{word}_ns")
            for name, word in (("a", "atime"), ("m", "mtime"), ("c", "ctime"), ("b", "btime"))
        ),
    )
    latest = frame.select(pl.max_horizontal("atime_ns", "mtime_ns", "ctime_ns").max()).item()
    assert frame.height > 5000
    assert suspicions(IndexLook(frame.lazy(), latest // NS_PER_S)) == ()


# What cannot be seen, and what keeps nothing.

NOTHING: set[Lack] = set()


@pytest.mark.parametrize(
    ("lacking", "births", "kinds"),
    [
        ([NOTHING] * 3, True, set()),
        ([NOTHING], True, {"renewed"}),
        ([NOTHING] * 3, False, {"touched"}),
        ([NOTHING, NOTHING, {Lack.BIRTH}], True, {"touched"}),
        ([NOTHING, NOTHING, {Lack.ACCESS}], True, {"touched", "read together"}),
        ([NOTHING, NOTHING, {Lack.MODIFICATION}], True, {"touched", "renewed"}),
        ([NOTHING, NOTHING, {Lack.CHANGE}], True, {"touched", "renewed"}),
        ([NOTHING, NOTHING, {Lack.IDENTITY}], True, {"renewed"}),
        ([{Lack.IDENTITY}, NOTHING, NOTHING], True, {"renewed"}),  # nothing to hold it against
        ([NOTHING, NOTHING, {Lack.PROJECT}], True, set()),
    ],
)
def test_what_an_index_lacks_is_not_looked_for(
    lacking: list[set[Lack]], births: bool, kinds: set[str]
) -> None:
    over = unseen(list(map(frozenset, lacking)), births=births, limits=EvasionLimits())
    assert set(over) == kinds
    assert all(over.values())


def test_times_that_do_not_count_keep_nothing() -> None:
    by_writing = EvasionLimits(counted=("mtime",))
    over = unseen([frozenset()] * 3, births=True, limits=by_writing)
    assert set(over) == {"read together", "renewed"}
    read_in_future = replace(left_alone(1000, NOW_S - DAY_S), read=NOW_S + DAY_S)
    assert found([read_in_future], limits=by_writing) == ()
    assert len(found([read_in_future])) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_question_that_lists_files_is_one_that_can_be_asked(kind) -> None:
    asked = statement(Suspicion(kind, 1000, 5, 5, NOW_S, NOW_S + 9, "words"))
    only_reads(asked)
    assert "uid = 1000" in asked


BORN_S = NOW_S - 300 * DAY_S
SYSTEM = FileSystemIdentity("ext4", "/dev/sda1", 7, 8)
KEEPING = Policy("p", "/scratch", target=0.7)


def frame_at(count: int, changed_s: int, *, nlink: int = 1) -> pl.DataFrame:
    """Return files that were changed at a time, and otherwise left alone since their birth."""
    numbers = range(1, count + 1)
    values: dict[str, Any] = {
        "parent": b"d",
        "name": [b"%08d" % number for number in numbers],
        "id": [number.to_bytes(16, "big") for number in numbers],
        "device": 8, "uid": 1000, "gid": 1000, "size_bytes": 10, "allocated_bytes": 4096,
        "nlink": nlink, "type": "f", "ctime_ns": changed_s * 10**9 + 5,
        **dict.fromkeys(("atime_ns", "mtime_ns", "btime_ns"), BORN_S * 10**9),
    }  # fmt: skip
    columns = {
        name: value if isinstance(value, list) else [value] * count
        for name, value in values.items()
    }
    return pl.DataFrame(columns, schema={name: shard_columns()[name] for name in columns})


def kept_index(directory: Path, frames: Iterable[pl.DataFrame], days_ago: int, **more) -> Path:
    """Write an index of some days ago; return its directory."""
    directory.mkdir()
    ended_s = NOW_S - days_ago * DAY_S
    whole: dict[str, Any] = {
        "index_id": directory.name, "filesystem": SYSTEM, "started_ns": (ended_s - 60) * 10**9,
        "shards": fill(ShardWriter(directory), frames),
    }  # fmt: skip
    described = manifest("/scratch", ended_s, lacking=frozenset({Lack.PROJECT, Lack.LAYOUT}))
    save_manifest(replace(described, **(whole | more)), directory)
    return directory


@pytest.fixture
def weekly(tmp_path: Path) -> list[Path]:
    """Write three indexes, a week apart, of files that somebody changes every week."""
    return [
        kept_index(tmp_path / f"{days}", [frame_at(1200, NOW_S - (days + 1) * DAY_S)], days)
        for days in (14, 7, 0)
    ]


def kinds_of(signs) -> list[tuple[str, int, int]]:
    return [(one.kind, one.uid, one.files) for one in signs.found]


def test_what_is_renewed_every_week_is_seen_in_whatever_order_the_indexes_are_given(weekly):
    first, second, third = weekly
    signs = look_for_evasion(third, earlier=[second, first])
    assert kinds_of(signs) == [("renewed", 1000, 1200)]
    assert [one.index_id for one in signs.earlier] == ["14", "7"]
    assert (signs.passed_over, signs.notes) == ({}, ())
    alone = look_for_evasion(third)
    assert (alone.found, set(alone.passed_over)) == ((), {"renewed"})
    # Fewer than are asked for are nobody's concern.
    for files, many in ((1201, 0), (1200, 1)):
        assert len(look_for_evasion(third, earlier=weekly[:2], files=files).found) == many


def test_indexes_that_are_not_earlier_or_not_of_the_root_are_refused(weekly, tmp_path):
    first, second, third = weekly
    other = kept_index(tmp_path / "other", [frame_at(5, NOW_S)], 30, root=b"/elsewhere")
    for latest, earlier, error, code in (
        (second, [first, first], UsageError, "index-not-earlier"),
        (second, [third], UsageError, "index-not-earlier"),
        (third, [third], UsageError, "index-not-earlier"),
        (third, [other], UsageError, "indexes-differ"),
        (third, [tmp_path], UnreadableError, "index-missing"),
    ):
        with raises(error, code):
            look_for_evasion(latest, earlier=earlier)


def test_times_of_seconds_beside_times_of_nanoseconds_move_nothing_on(tmp_path):
    """The same time in seconds is sooner than in nanoseconds, and would look renewed."""
    same = frame_at(1200, NOW_S - 30 * DAY_S)
    coarse = same.with_columns(pl.col("ctime_ns", "mtime_ns").floordiv(10**9) * 10**9)
    in_seconds = {"times": TimeTrust.SECONDS, "time_resolution_ns": 10**9, "started_ns": None}
    between = same.with_columns(pl.col("ctime_ns") - 2)
    indexes = [
        kept_index(tmp_path / "one", [coarse], 14, **in_seconds),
        kept_index(tmp_path / "two", [between], 7, started_ns=None),
        kept_index(tmp_path / "three", [same], 0),
    ]
    assert look_for_evasion(indexes[2], earlier=indexes[:2]).found == ()


def test_a_policy_says_whose_files_and_which_times(weekly):
    def signs_of(**changes: Any) -> Any:
        policy = replace(KEEPING, **changes)
        return look_for_evasion(weekly[2], earlier=weekly[:2], policy=policy)

    exempt = signs_of(exemptions=(Exemption("user", 1000),))
    assert exempt.found == ()
    assert "exempts" in exempt.notes[0]
    over = signs_of(counted=("atime", "mtime"), minimum_age_s=5 * DAY_S)
    assert (over.found, over.limits.old_s) == ((), 5 * DAY_S)
    assert set(over.passed_over) == {"renewed"}
    assert kinds_of(signs_of()) == [("renewed", 1000, 1200)]


def test_a_file_with_many_names_is_one_file(tmp_path):
    to_come = frame_at(1, NOW_S + 5 * DAY_S, nlink=3)
    names = [to_come.with_columns(name=pl.lit(name)) for name in (b"a", b"b", b"c")]
    (one,) = look_for_evasion(kept_index(tmp_path / "index", names, 0)).found
    assert (one.kind, one.files, one.allocated_bytes) == ("future", 1, 4096)


def test_without_any_birth_times_touching_is_passed_over(tmp_path):
    unborn = frame_at(5, NOW_S).with_columns(btime_ns=pl.lit(None, pl.Int64))
    signs = look_for_evasion(kept_index(tmp_path / "index", [unborn], 0))
    assert "birth" in signs.passed_over["touched"]


def test_a_shard_that_is_damaged_is_an_error_and_no_traceback(weekly):
    shard = weekly[2] / load_manifest(weekly[2]).shards[0].name
    data = bytearray(shard.read_bytes())
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    shard.write_bytes(data)
    with raises(DataError, "index-unreadable"):
        look_for_evasion(weekly[2], earlier=weekly[:2])


# The peak of this program alone: ru_maxrss would begin with what the process that started it held.
PEAK = """
import re, sys
from pathlib import Path
from trimtab.purge.horizon.evasion import look_for_evasion
latest, *earlier = map(Path, sys.argv[1:])
signs = look_for_evasion(latest, earlier=earlier)
peak_kib = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]
print(sum(one.files for one in signs.found), peak_kib)
"""


@pytest.mark.system
def test_a_million_files_that_are_all_renewed_take_little_memory(tmp_path):
    """The worst there can be for it: everybody renews everything every week."""
    count, parts = 1_000_000, 10
    indexes = []
    base = frame_at(count // parts, 0)
    for days in (0, 7, 14):
        frames = (
            base.with_columns(
                parent=pl.lit(b"d%d" % part),
                id=(pl.lit(part.to_bytes(4, "big")) + pl.col("id").bin.slice(4, 12)),
                uid=pl.lit(1000 + part, pl.UInt32),
                ctime_ns=pl.lit((NOW_S - (days + 1) * DAY_S) * 10**9),
            )
            for part in range(parts)
        )
        indexes.append(kept_index(tmp_path / f"{days}", frames, days))
    ended = subprocess.run(
        [sys.executable, "-c", PEAK, *map(str, indexes)], capture_output=True, text=True, check=True
    )
    files, peak_kib = map(int, ended.stdout.split())
    assert files == count
    # A row of the three indexes is some 150 bytes as Polars holds it; the programs are 200 MiB.
    assert peak_kib < 900 * 1024

"""What is reported, and above all what is not: ordinary work on ordinary trees."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from tests.support.counts import repetitions

from trimtab.purge.horizon import evasion
from trimtab.purge.horizon.evasion import COLUMNS, suspicions
from trimtab.purge.horizon.evasion_sign import (
    KINDS,
    EvasionLimits,
    IndexLook,
    Suspicion,
    statement,
    unseen,
)
from trimtab.purge.index.manifest import Lack

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

    return pl.DataFrame(
        {
            "id": pl.Series(
                [(file.number or place + 1).to_bytes(16, "big") for place, file in enumerate(rows)],
                dtype=pl.Binary,
            ),
            "uid": pl.Series([file.uid for file in rows], dtype=pl.UInt32),
            "size_bytes": pl.Series([file.size_bytes for file in rows], dtype=pl.UInt64),
            "allocated_bytes": pl.Series([4096] * len(rows), dtype=pl.UInt64),
            "type": pl.Series([file.kind for file in rows], dtype=pl.String),
            "atime_ns": pl.Series(times("read"), dtype=pl.Int64),
            "mtime_ns": pl.Series(times("written"), dtype=pl.Int64),
            "ctime_ns": pl.Series(times("changed"), dtype=pl.Int64),
            "btime_ns": pl.Series(times("born") if birth else [None] * len(rows), dtype=pl.Int64),
        }
    ).lazy()


def found(
    files: Iterable[File], *, birth: bool = True, limits: EvasionLimits | None = None
) -> tuple[Suspicion, ...]:
    return suspicions(IndexLook(frame_of(files, birth=birth), NOW_S), limits=limits)


def made_at(uid: int, at: float, number: int, rate: float) -> list[File]:
    """Return files that came into being one after the other and were left alone."""
    return [
        File(uid, at + n / rate, at + n / rate, at + n / rate, at + n / rate) for n in range(number)
    ]


# What is reported.


def test_touching_everything_is_seen() -> None:
    files = made_at(1000, NOW_S - 200 * DAY_S, 5000, 100.0)
    at = NOW_S - 3 * DAY_S
    touched = [
        replace(file, read=at + n / 900, written=at + n / 900, changed=at + n / 900)
        for n, file in enumerate(files)
    ]
    (one,) = found([*touched, *made_at(1001, NOW_S - 90 * DAY_S, 5000, 100.0)])
    assert (one.kind, one.uid, one.files, one.allocated_bytes) == (
        "touched",
        1000,
        5000,
        5000 * 4096,
    )
    assert (one.first_s, one.last_s) == (at, at + 5)
    assert "5,000 files (19.5 MiB)" in one.words


def test_a_touch_of_every_week_is_several_goes() -> None:
    files = made_at(1000, NOW_S - 200 * DAY_S, 6000, 100.0)
    days = [NOW_S - (1 + n // 2000) * DAY_S for n in range(6000)]
    touched = [
        replace(file, read=at, written=at, changed=at) for at, file in zip(days, files, strict=True)
    ]
    assert [one.files for one in found(touched)] == [2000, 2000, 2000]


def test_reading_everything_that_is_old_is_seen() -> None:
    old = made_at(1000, NOW_S - 300 * DAY_S, 4000, 50.0)
    read = [replace(file, read=NOW_S - DAY_S + n / 2000) for n, file in enumerate(old)]
    (one,) = found([*read, *made_at(1000, NOW_S - 5 * DAY_S, 3000, 10.0)])
    assert (one.kind, one.uid, one.files) == ("read together", 1000, 4000)
    assert "it may be a job" in one.words
    assert "100%" in one.words


def test_a_time_to_come_is_seen_however_few() -> None:
    file = File(1000, NOW_S - DAY_S, NOW_S + 10 * 365 * DAY_S, NOW_S - DAY_S, NOW_S - DAY_S)
    (one,) = found([file])
    assert (one.kind, one.files, one.last_s) == ("future", 1, NOW_S + 10 * 365 * DAY_S)
    skewed = replace(file, written=NOW_S + 100)
    assert found([skewed]) == ()


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
            looks = [
                looked(files, len(worlds) - 1 - place, began=began)
                for place, files in enumerate(worlds)
            ]
            signs = suspicions(
                looks[-1], earlier=looks[:-1], kinds=["renewed"], limits=EvasionLimits(files=3)
            )
            assert {sign.uid: sign.files for sign in signs} == expected, seed
    assert some > 5


def _worlds(draw: random.Random, many: int) -> list[list[File]]:
    """Return files as several indexes saw them: left alone, changed, written, deleted, new."""
    start = NOW_S - many * 7 * DAY_S
    files = [
        File(draw.randint(1, 4), start, start, start, start, number=number)
        for number in range(1, draw.randint(5, 60))
    ]
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
        files.append(File(draw.randint(1, 4), at, at, at, at, number=1000 + place))
        worlds.append(list(files))
    return worlds


def test_few_files_are_nobodys_concern() -> None:
    old = made_at(1000, NOW_S - 300 * DAY_S, 999, 50.0)
    at = NOW_S - DAY_S
    touched = [replace(file, read=at, written=at, changed=at) for file in old]
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
    at = NOW_S - DAY_S
    touched = [replace(file, read=at, written=at, changed=at, kind="l") for file in old]
    assert found(touched) == ()


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
    with listing.open("wb") as stream:
        subprocess.run(
            ["find", "/usr/lib", "/usr/share", "-xdev", "-printf", form],
            stdout=stream,
            stderr=subprocess.DEVNULL,
            check=False,
        )
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

NOTHING: frozenset[Lack] = frozenset()


def test_everything_is_looked_for_where_everything_is_told() -> None:
    assert unseen([NOTHING] * 3, births=True, limits=EvasionLimits()) == {}
    assert set(unseen([NOTHING], births=True, limits=EvasionLimits())) == {"renewed"}


@pytest.mark.parametrize(
    ("lack", "kinds"),
    [
        (Lack.BIRTH, {"touched"}),
        (Lack.ACCESS, {"touched", "read together"}),
        (Lack.MODIFICATION, {"touched", "renewed"}),
        (Lack.CHANGE, {"touched", "renewed"}),
        (Lack.IDENTITY, {"renewed"}),
        (Lack.PROJECT, set()),
    ],
)
def test_what_an_index_lacks_is_not_looked_for(lack: Lack, kinds: set[str]) -> None:
    lacking = [NOTHING, NOTHING, frozenset({lack})]
    over = unseen(lacking, births=True, limits=EvasionLimits())
    assert set(over) == kinds
    assert all(over.values())


def test_an_earlier_index_that_lacks_identities_cannot_be_held_against() -> None:
    lacking = [frozenset({Lack.IDENTITY}), NOTHING, NOTHING]
    assert set(unseen(lacking, births=True, limits=EvasionLimits())) == {"renewed"}
    assert set(unseen([NOTHING] * 3, births=False, limits=EvasionLimits())) == {"touched"}


def test_times_that_do_not_count_keep_nothing() -> None:
    written = EvasionLimits(counted=("mtime",))
    assert set(unseen([NOTHING] * 3, births=True, limits=written)) == {"read together", "renewed"}
    read_in_future = File(1000, NOW_S - DAY_S, NOW_S - DAY_S, NOW_S - DAY_S, NOW_S + DAY_S)
    assert found([read_in_future], limits=written) == ()
    assert len(found([read_in_future])) == 1


def test_only_the_kinds_that_are_asked_for_are_looked_for() -> None:
    file = File(1000, NOW_S - DAY_S, NOW_S + DAY_S, NOW_S - DAY_S, NOW_S - DAY_S)
    look = IndexLook(frame_of([file]), NOW_S)
    assert [suspicion.kind for suspicion in suspicions(look)] == ["future"]
    assert suspicions(look, kinds=[kind for kind in KINDS if kind != "future"]) == ()


@pytest.mark.parametrize("kind", KINDS)
def test_the_question_that_lists_files_is_one_that_can_be_asked(kind) -> None:
    from trimtab.purge.index.index_query import only_reads

    asked = statement(Suspicion(kind, 1000, 5, 5, NOW_S, NOW_S + 9, "words"))
    only_reads(asked)
    assert "uid = 1000" in asked

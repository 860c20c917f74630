"""What is reported, and above all what is not: ordinary work on ordinary trees."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
from tests.support.counts import repetitions

from trimtab.purge.evasion import COLUMNS, EvasionLimits, Suspicion, suspicions

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
    return suspicions(frame_of(files, birth=birth), as_of_s=NOW_S, limits=limits)


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


def test_a_change_in_every_interval_is_seen() -> None:
    base = made_at(1000, NOW_S - 300 * DAY_S, 1500, 10.0)
    base = [replace(file, number=place + 1) for place, file in enumerate(base)]
    indexes = [
        frame_of(replace(file, changed=NOW_S - weeks * 7 * DAY_S) for file in base)
        for weeks in (3, 2, 1)
    ]
    (one,) = suspicions(indexes[-1], as_of_s=NOW_S, earlier=indexes[:-1])
    assert (one.kind, one.uid, one.files) == ("renewed", 1000, 1500)
    assert "each of 2 intervals" in one.words
    # Two indexes show no period, and who wrote something used the files.
    assert suspicions(indexes[-1], as_of_s=NOW_S, earlier=indexes[1:2]) == ()
    written = frame_of(
        replace(file, changed=NOW_S - 7 * DAY_S, written=NOW_S - 7 * DAY_S) for file in base
    )
    assert suspicions(written, as_of_s=NOW_S, earlier=indexes[:-1]) == ()
    once = [indexes[0], indexes[0], indexes[2]]
    assert suspicions(once[-1], as_of_s=NOW_S, earlier=once[:-1]) == ()


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


def test_ordinary_work_is_hardly_ever_reported() -> None:
    """A year of eight users each time; a report now and then is one too many, so it is counted."""
    years = repetitions(6, 200)
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
    assert suspicions(frame, as_of_s=NOW_S) == ()


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
    assert suspicions(frame.lazy(), as_of_s=latest // NS_PER_S) == ()

"""File lists of mmapplypolicy, written here as its documentation describes them."""

from __future__ import annotations

import random
from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from tests.purge.index.imports import imported, only, reasons
from tests.purge.index.trees import NS, hostile_tree, path_of, true_rows
from tests.support.codes import raises

from trimtab.errors import UsageError
from trimtab.purge.index.importers.gpfs import SHOW, offsets, parse_show
from trimtab.purge.index.manifest import Lack, Source, TimeTrust

ZONE = "Europe/Zurich"
TIMES = "2026-01-02 03:04:05.000000"
LINE = f"7 65538 0  -rw-r--r-- 2 3 4 5 8 {TIMES} {TIMES} {TIMES} {TIMES} -- /scratch/%s\n"
UNRESERVED = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~"


def percent(name: bytes, plain: bytes) -> bytes:
    """Return a name as ESCAPE has it: the slow, obvious way."""
    return b"".join(
        bytes([byte]) if byte in UNRESERVED + plain else b"%%%02X" % byte for byte in name
    )


def local(time_ns: int, zone: str = ZONE) -> str:
    at = datetime.fromtimestamp(time_ns // NS, ZoneInfo(zone))
    return f"{at:%Y-%m-%d %H:%M:%S}.{time_ns % NS // 1000:06}"


@pytest.mark.parametrize("zone", [ZONE, "UTC", "America/Denver"])
def test_a_real_tree_becomes_what_lstat_says(tmp_path: Path, zone: str) -> None:
    root = hostile_tree(tmp_path / "tree")
    twin = [row for row in true_rows(root) if 0 <= row["atime_ns"] < 2**62 > row["mtime_ns"] >= 0]
    modes = {"f": "-", "d": "d", "l": "l", "p": "p", "s": "s"}
    lines = []
    for row in twin:
        times = [local(row[name], zone) for name in ("atime_ns", "mtime_ns", "ctime_ns")]
        shown = (
            modes[row["type"]] + "rwxr-x---", row["nlink"], row["uid"], row["gid"],
            row["size_bytes"], row["allocated_bytes"] // 1024, *times, local(9 * NS, zone),
        )  # fmt: skip
        head = f"{int.from_bytes(row['id'], 'big')} 65538 0  {' '.join(map(str, shown))} -- "
        path = percent(root + b"/" + path_of(row), b"/ :")
        lines.append(head.encode() + path + b"\n")
    manifest, rows = imported(tmp_path, b"".join(lines), Source.GPFS, root=root, zone=zone)
    same = ("parent", "name", "id", "id_kind", "uid", "gid", "nlink", "size_bytes", "type")
    assert manifest.refused == 0
    assert only(rows, *same) == only(twin, *same)
    for name in ("atime_ns", "mtime_ns", "ctime_ns"):
        assert only(rows, name) == [(row[name] // 1000 * 1000,) for row in twin]
    assert [row["allocated_bytes"] for row in rows] == [
        row["allocated_bytes"] // 1024 * 1024 for row in twin
    ]
    assert {row["btime_ns"] for row in rows} == {9 * NS}
    assert manifest.lacking == {Lack.DEVICE, Lack.PROJECT, Lack.LAYOUT, Lack.POOL}
    assert (manifest.times, manifest.time_resolution_ns) == (TimeTrust.EXACT_NS, 1000)


def test_without_a_zone_a_list_with_local_times_is_refused_as_a_whole(tmp_path: Path) -> None:
    with raises(UsageError, "zone-missing"):
        imported(tmp_path, (LINE % "a").encode(), Source.GPFS)
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("zone", ["Europe/Nowhere", "", "CEST+1", "local"])
def test_a_zone_that_is_none_is_refused(tmp_path: Path, zone: str) -> None:
    with raises(UsageError, "zone-unknown"):
        imported(tmp_path, (LINE % "a").encode(), Source.GPFS, zone=zone)


def test_seconds_need_no_zone(tmp_path: Path) -> None:
    content = b"7 1 0 |3|5|1700000000|1700000001.25|-- /scratch/a\n"
    show = ("SHOW('|' || VARCHAR(USER_ID) || '|' || VARCHAR(FILE_SIZE) || '|' || "
            "VARCHAR(ACCESS_TIME) || '|' || VARCHAR(MODIFICATION_TIME) || '|')")  # fmt: skip
    manifest, rows = imported(tmp_path, content, Source.GPFS, format_text=show)
    assert only(rows, "uid", "size_bytes", "atime_ns", "mtime_ns", "ctime_ns") == [
        (3, 5, 1_700_000_000 * NS, 1_700_000_001_250_000_000, None)
    ]
    assert Lack.CHANGE in manifest.lacking
    assert Lack.TYPE in manifest.lacking


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-10-25 01:59:59.000000", "2026-10-24T23:59:59+00:00"),
        ("2026-10-25 02:30:00.000000", "2026-10-25T01:30:00+00:00"),  # twice: the later one
        ("2026-10-25 03:00:00.000000", "2026-10-25T02:00:00+00:00"),
        ("2026-03-29 01:59:59.000000", "2026-03-29T00:59:59+00:00"),
        ("2026-03-29 02:30:00.000000", None),  # never
        ("2026-03-29 03:00:00.000000", "2026-03-29T01:00:00+00:00"),
        ("2026-02-29 00:00:00.000000", None),
        ("2026-01-01 24:00:00.000000", None),
        ("2026-01-01 00:60:00.000000", None),
    ],
)
def test_hours_that_occur_twice_or_never(tmp_path: Path, text: str, utc: str | None) -> None:
    line = (LINE % "a").replace(TIMES, text, 1)
    manifest, rows = imported(tmp_path, line.encode(), Source.GPFS, zone=ZONE)
    if utc is None:
        assert (rows, manifest.refused) == ([], 1)
        assert "atime_ns" in reasons(manifest)[0]
    else:
        assert rows[0]["atime_ns"] == int(datetime.fromisoformat(utc).timestamp()) * NS
        assert (manifest.times, manifest.time_resolution_ns) == (TimeTrust.SECONDS, NS)


ZONES = (
    "Europe/Zurich", "Europe/London", "Europe/Dublin", "Europe/Moscow", "America/Denver",
    "America/New_York", "America/St_Johns", "America/Sao_Paulo", "America/Havana",
    "Australia/Lord_Howe", "Australia/Sydney", "Pacific/Apia", "Pacific/Chatham", "Asia/Kolkata",
    "Asia/Kathmandu", "Asia/Tehran", "Asia/Pyongyang", "Africa/Casablanca", "Antarctica/Troll",
    "UTC",
)  # fmt: skip


def _on_a_clock(local: datetime, zone: ZoneInfo) -> int | None:
    """Return how far from UTC a clock was when it showed a time for the last time."""
    utc = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    if utc.astimezone(zone).replace(tzinfo=None, fold=0) != local:
        return None
    return round((local - utc.replace(tzinfo=None)).total_seconds())


@pytest.mark.parametrize("zone", ZONES)
def test_offsets_are_those_of_the_zone(zone: str) -> None:
    draw = random.Random(zone)
    table = offsets(zone)
    starts = [start for start, _ in table]

    def found(local_s: int) -> int | None:
        return table[max(0, bisect_right(starts, local_s) - 1)][1]

    times = [draw.randrange(-(2**33), 2**33) for _ in range(2000)]
    times += [start + distance for start in starts for distance in (-3600, -1, 0, 1, 3600)]
    slow = (pl.Series(times) * 1000).cast(pl.Datetime("ms"))
    utc_s = slow.dt.replace_time_zone(zone, ambiguous="latest", non_existent="null").dt.epoch("s")
    assert [found(time) for time in times] == (pl.Series(times) - utc_s).to_list()

    began = datetime(1975, 1, 1)
    for _ in range(300):
        local = began + timedelta(seconds=draw.randrange(45 * 365 * 86_400))
        local_s = round((local - datetime(1970, 1, 1)).total_seconds())
        assert found(local_s) == _on_a_clock(local, ZoneInfo(zone)), local


@pytest.mark.parametrize(
    ("special", "plain"), [("%", b""), ("%/", b"/"), ("%|/,:; @#", b"|/,:; @#"), ("%/ :", b"/ :")]
)
def test_what_is_escaped_follows_the_clause(tmp_path: Path, special: str, plain: bytes) -> None:
    names = [b"a b", b"new\nline", b" -- x", b"\xff", b"100%25", b"%", b"\\n"]
    show = "1|3|5|2026-01-02 03:04:05|"
    lines = [
        b"7 1 0 " + percent(show.encode(), plain) + b" -- " + percent(b"/scratch/" + name, plain)
        for name in names
    ]
    clause = (
        "'1|' || varchar(user_id) || '|' || varchar(file_size) || '|' || "
        f"varchar(access_time) || '|' ESCAPE '{special}'"
    )
    _, rows = imported(
        tmp_path, b"\n".join(lines) + b"\n", Source.GPFS, format_text=clause, zone="UTC"
    )
    assert only(rows, "name") == sorted((name,) for name in names)
    assert {row["atime_ns"] for row in rows} == {1_767_323_045 * NS}


@pytest.mark.parametrize("birth", ["2026-02-30 00:00:00", "0"])
def test_a_birth_that_is_none_costs_nothing_else(tmp_path: Path, birth: str) -> None:
    line = (LINE % "a").replace(f"{TIMES} -- ", f"{birth} -- ")
    manifest, rows = imported(tmp_path, line.encode(), Source.GPFS, zone=ZONE)
    assert only(rows, "name", "btime_ns") == [(b"a", None)]
    assert manifest.refused == 0


def test_without_escape_a_path_with_a_backslash_is_refused(tmp_path: Path) -> None:
    clause = "VARCHAR(USER_ID) || ' ' || VARCHAR(FILE_SIZE)"
    names = [b"plain", b"a\\nb", b"\xff", b"a -- b", b"100%41"]
    content = b"".join(b"7 1 0 3 5 -- /scratch/" + name + b"\n" for name in names)
    manifest, rows = imported(tmp_path, content, Source.GPFS, format_text=clause)
    assert {row["name"] for row in rows} == {b"plain", b"\xff", b"a -- b", b"100%41"}
    assert manifest.refused == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("7 65538 5  " + LINE[11:] % "a", "snapshot"),
        (LINE % "%zz", "no path"),
        (LINE % "%4", "no path"),
        ((LINE % "a").replace("-- /scratch", "/scratch"), "no record"),
        ((LINE % "a").replace("-rw-r--r--", "-rw"), "no record"),
        ((LINE % "a").replace(" 2 3 4 ", " 2 -3 4 "), "no record"),
        ((LINE % "a").replace(" 2 3 4 ", " 2 4294967296 4 "), "uid"),
        ((LINE % "a").replace("/scratch/", "/etc/"), "beneath"),
        ((LINE % "a").replace("7 65538", "18446744073709551616 65538"), "id"),
        ("\n", "no record"),
        ("7 65538 0 -rw-r--r-- 2 3", "ends within"),
    ],
)
def test_a_record_that_cannot_be_is_refused(tmp_path: Path, line: str, said: str) -> None:
    content = (LINE % "b" + line).encode()
    manifest, rows = imported(tmp_path, content, Source.GPFS, zone=ZONE)
    assert only(rows, "name") == [(b"b",)]
    assert manifest.refused == 1
    assert said in reasons(manifest)[0]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "format-unreadable"),
        ("SHOW()", "format-unreadable"),
        ("VARCHAR(USER_ID)", "column-missing"),
        ("VARCHAR(FILE_SIZE) || ' ' || VARCHAR(NLINK)", "column-missing"),
        ("VARCHAR(USER_ID) || VARCHAR(FILE_SIZE)", "format-unreadable"),
        ("VARCHAR(USER_ID) || ' ' || VARCHAR(USER_ID) || ' ' || VARCHAR(FILE_SIZE)",
         "format-unreadable"),
        ("VARCHAR(USER_ID) || ' ' || NAME || ' ' || VARCHAR(FILE_SIZE)", "format-unreadable"),
        ("VARCHAR(USER_ID) || ' ' || XATTR('user.x') || ' ' || VARCHAR(FILE_SIZE)",
         "format-unreadable"),
        ("VARCHAR(USER_ID) || ' ' VARCHAR(FILE_SIZE)", "format-unreadable"),
    ],
)  # fmt: skip
def test_a_clause_that_cannot_be_read_is_refused(text: str, code: str) -> None:
    with raises(UsageError, code):
        parse_show(text)


def test_what_an_index_does_not_hold_is_passed_over(tmp_path: Path) -> None:
    clause = ("varchar(kb_allocated) || ' * ' || varchar(file_size) || ' * ' || varchar(user_id)"
              " || ' * ' || fileset_name || ' * ' || varchar(creation_time) || ' ' ||"
              " varchar(days(current_timestamp) - days(access_time))")  # fmt: skip
    content = b"7 1 0 8 * 5 * 3 * root * 2026-01-02 03:04:05.000000 12 -- /scratch/a\n"
    _, rows = imported(tmp_path, content, Source.GPFS, format_text=clause, zone="UTC")
    assert only(rows, "allocated_bytes", "size_bytes", "uid", "atime_ns") == [(8192, 5, 3, None)]


def test_the_own_clause_shows_all_there_is() -> None:
    assert [column for column in parse_show(SHOW).columns if column is None] == []

"""Dumps of ``lctl get_param`` and ``lfs df``: snapshots of the targets that they name."""

from __future__ import annotations

import gzip
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.formats.damage import RUBBISH, cuts, flips
from tests.formats.of_formats import recognised
from tests.formats.recorded import FIXTURES, REAL_DATA
from tests.support.codes import raises
from tests.support.narrow import present

from trimtab.base.error import DataError, code_of
from trimtab.base.snapshot import ROUNDED as ROUNDED_LABEL
from trimtab.base.snapshot import Setting, Snapshot, TargetSnapshot
from trimtab.formats.measurement import OutputFile
from trimtab.probe import target_dump
from trimtab.probe.import_reading import read_file
from trimtab.probe.import_result import FileStatus, ImportTerms
from trimtab.probe.importer import import_files
from trimtab.probe.target_dump import is_lctl_dump, lctl_problems, lctl_shown, lctl_snapshots
from trimtab.store.store import Store

AT = datetime(2017, 6, 20, 12, tzinfo=UTC)
KIB = 1024
HEAD = "                           read      |     write\n"

SIZES = f"""\
snapshot_time:            1795190777.346576768 secs.nsecs

{HEAD}disk I/O size          ios   % cum % |  ios         % cum %
4K:		         0   0   0   |    1   1   1
1M:		       100 100 100   |   99  99 100
"""

DUMP = f"""\
health_check=healthy
obdfilter.scratch-OST000a.stats=
snapshot_time             1795190777.696583028 secs.nsecs
read_bytes                1016 samples [bytes] 4096 4194304 20918272 63788636176384
write_bytes               13 samples [bytes] 57344 4194304 32260096 107625169551360
obdfilter.scratch-OST000a.degraded=0
mdt.scratch-MDT0000.md_stats=
snapshot_time             1795190778.035640949 secs.nsecs
open                      337 samples [usecs] 285 42795 994904 7416599516
statfs                    100 samples [usecs] 28 969 13236 6060520
osd-ldiskfs.scratch-OST000a.brw_stats=
{SIZES}osd-ldiskfs.MGS.filesfree=32573
osd-ldiskfs.scratch-OST000a.filesfree=400
osd-ldiskfs.scratch-OST000a.filestotal=1000
osd-ldiskfs.scratch-OST000a.kbytesavail=1500
osd-ldiskfs.scratch-OST000a.kbytesfree=2000
osd-ldiskfs.scratch-OST000a.kbytestotal=5000
"""

JOBS = """\
obdfilter.scratch-OST000a.job_stats=
job_stats:
- job_id:          "my\\x20job.7"
  snapshot_time:   1795190762.815500726 secs.nsecs
  read_bytes:      { samples:  5, unit: bytes, min: 1048576, max: 4194304, sum:  16777216 }
  write_bytes:     { samples:  4, unit: bytes, min: 4194304, max: 4194304, sum:  33554432 }
  setattr:         { samples:  9, unit:  reqs }
- job_id:          dd.0
  snapshot_time:   1795190762
  read_bytes:      { samples:  0, unit: bytes, min: 0, max: 0, sum: 0 }
  write_bytes:     { samples:  1, unit: bytes, min: 8, max: 8, sum: 8, sumsq: 64, hist: { 8: 1 } }
"""


def source(text: str | bytes) -> OutputFile:
    return OutputFile("oss1.txt", text.encode() if isinstance(text, str) else text)


def only(text: str) -> Snapshot:
    assert is_lctl_dump(source(text))
    assert recognised(source(text)) == []
    ((_, snapshot),) = lctl_snapshots(source(text), AT)
    return snapshot


def values(target: TargetSnapshot | None) -> dict[str, object]:
    return {reading.name: reading.value for reading in present(target).readings}


def test_readings_have_their_parameters() -> None:
    snapshot = only(DUMP)
    assert snapshot.at == datetime(2026, 11, 20, 16, 6, 18, 35641, tzinfo=UTC)
    assert not snapshot.complete
    ost = snapshot.of("OST000a")
    assert values(ost) == {
        "capacity_bytes": 5000 * KIB, "used_bytes": 3000 * KIB, "available_bytes": 1500 * KIB,
        "inodes_total": 1000, "inodes_free": 400, "degraded": False,
        "client_bytes_written_total": 32260096, "client_bytes_read_total": 20918272,
    }  # fmt: skip
    assert values(snapshot.of("MDT0000")) == {"metadata_operations_total": 337}
    assert present(ost).source("inodes_free") == "osd-ldiskfs.scratch-OST000a.filesfree"
    sizes = present(ost).settings["brw_stats/disk_io_size"]
    assert isinstance(sizes, Setting)
    assert sizes.value == "read 1048576:100; write 4096:1 1048576:99 B"


def test_what_it_says_is_shown() -> None:
    assert lctl_shown(source(DUMP)) == (
        "OST000a: 67 % full, 30.8 MiB written, 19.9 MiB read, writes to its drives from 1.00 MiB "
        "99 %, 4.00 KiB 1 %, reads to its drives from 1.00 MiB 100 %",
        "MDT0000: 337 metadata operations",
    )


@pytest.mark.cli
def test_jobs_are_shown_and_nothing_is_kept(tmp_path: Path, store: Store) -> None:
    (tmp_path / "jobs.txt").write_text(JOBS)
    (file,) = import_files([str(tmp_path / "jobs.txt")], ImportTerms(site="scratch"), store)
    assert (store.latest_snapshot("scratch"), file.status) == (None, FileStatus.OK)
    assert str(file.results[0].told["answer"]).split("\n") == [
        "job my job.7: 32.0 MiB written, 16.0 MiB read",
        "job dd.0: 8 B written, 0 B read",
        "jobs are shown, and not kept",
    ]


def test_without_names_sizes_are_shown() -> None:
    reading = lctl_shown(source(SIZES))
    assert reading[0] == "writes to its drives from 1.00 MiB 99 %, 4.00 KiB 1 %"
    assert "names no target" in reading[-1]
    assert is_lctl_dump(source(SIZES))
    assert lctl_snapshots(source(SIZES), AT) == ()


def test_two_times_in_a_file_are_refused() -> None:
    with raises(DataError, "parameters-repeated"):
        lctl_snapshots(source(DUMP + DUMP), AT)


def test_a_file_without_a_time_takes_that_of_a_person() -> None:
    assert only("osd-zfs.scratch-OST0000.kbytestotal=5000\n").at == AT


@pytest.mark.cli
def test_the_snapshot_is_kept_once(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "oss1.txt"
    path.write_text(DUMP.replace("\n", "\r\n"))
    for new in (True, False):
        (file,) = import_files([str(path)], ImportTerms(site="scratch"), store)
        assert [result.new for result in file.results] == [new]
        assert file.status is FileStatus.OK
    assert present(store.latest_snapshot("scratch")).of("OST000a") is not None


def test_damaged() -> None:
    whole = only(DUMP)
    for cut in cuts(DUMP.encode(), seed=1):
        kept = ()
        with suppress(DataError):
            kept = lctl_snapshots(source(cut), AT)
        for _, snapshot in kept:
            for target in snapshot.targets:
                known = {name: value for name, value in values(target).items() if value is not None}
                assert known.items() <= values(whole.of(target.target.name)).items()
            assert cut.endswith(b"\n") or lctl_problems(source(cut))
    for content in (*flips(DUMP.encode(), seed=2), *RUBBISH):
        if is_lctl_dump(source(content)):
            with suppress(DataError):
                lctl_snapshots(source(content), AT)


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("lctl-get-param/valid.txt", 3),
        ("lctl-get-param/2.14.0_ddn145_stats.txt", 3),
        ("lustre-2.17/stats_after_io/obdfilter_stats.out", 4),
        ("lustre-2.17/stats_after_io/brw_stats.out", 4),
        ("lustre-2.17/stats_after_io/mdt_stats.out", 2),
    ],
)
def test_real_dumps(name: str, targets: int) -> None:
    path = REAL_DATA / name
    if not path.is_file():
        pytest.skip(f"no recorded data under {REAL_DATA} (set TRIMTAB_REAL_DATA)")
    reading = read_file(str(path))
    assert (reading.kind, reading.problem) == ("lctl-get-param", None)
    ((_, snapshot),) = reading.snapshots
    assert len(snapshot.targets) == targets
    assert reading.shown


@pytest.mark.cli
def test_a_run_of_elbencho_in_three_files_is_kept_once(store: Store) -> None:
    folder = FIXTURES / "elbencho" / "3.1-10"
    files = [str(folder / f"nights.{end}") for end in ("csv", "json", "txt")]
    list(import_files(files, ImportTerms(site="scratch"), store))
    assert len(store.runs(site="scratch")) == 3


SPACE = """\
UUID                   1K-blocks        Used   Available Use%  Mounted on
scratch-MDT0000_UUID     2316144        1776     2089828   1%  /scratch[MDT:0]
scratch-OST0000_UUID     3833116        1528     3605492   1%  /scratch[OST:0]
scratch-OST000a_UUID     3833116        2528     3604492   1%  /scratch[OST:10] DN

filesystem_summary:      7666232        4056     7209984   1%  /scratch

"""

INODES = """\
UUID                      Inodes       IUsed       IFree IUse%  Mounted on
scratch-MDT0000_UUID     1000000         300      999700   1%  /scratch[MDT:0]
scratch-OST0000_UUID      600000         100      599900   1%  /scratch[OST:0]
scratch-OST000a_UUID      600000         100      599900   1%  /scratch[OST:10]

filesystem_summary:      1000000         300      999700   1%  /scratch

"""


def df_snapshots(content: str | bytes) -> tuple[tuple[str, Snapshot], ...]:
    return target_dump.lfs_df_snapshots(source(content), AT)


def df_or_none(content: bytes) -> tuple[tuple[str, Snapshot], ...]:
    """Return the snapshots of a damaged file, none where it is refused."""
    try:
        return df_snapshots(content)
    except DataError:
        return ()


def df_snapshot(text: str) -> Snapshot:
    ((_, snapshot),) = df_snapshots(text)
    return snapshot


def edison() -> OutputFile:
    path = REAL_DATA / "lfs-df" / "edison-lfs-df.txt.gz"
    if not path.exists():
        pytest.skip(f"no recorded data under {REAL_DATA} (set TRIMTAB_REAL_DATA)")
    return OutputFile(str(path), gzip.decompress(path.read_bytes()))


def numbers(found: tuple[tuple[str, Snapshot], ...]) -> dict[tuple[str, str, str], object]:
    return {
        (name, target.target.name, reading.name): reading.value
        for name, snapshot in found
        for target in snapshot.targets
        for reading in target.readings
        if reading.value is not None
    }


def test_bytes_inodes_and_flags_of_each_target() -> None:
    snapshot = df_snapshot(SPACE + INODES)
    assert (snapshot.at, snapshot.driver, snapshot.complete) == (AT, "lustre", True)
    found = [(one.target.name, one.target.kind) for one in snapshot.targets]
    assert found == [("MDT0000", "mdt"), ("OST0000", "ost"), ("OST000a", "ost")]
    slow = present(snapshot.of("OST000a"))
    assert (slow.number("capacity_bytes"), slow.number("used_bytes")) == (3833116 * KIB, 2528 * KIB)
    assert slow.number("available_bytes") == 3604492 * KIB
    assert (slow.number("inodes_total"), slow.number("inodes_free")) == (600_000, 599_900)
    assert (slow.value("degraded"), slow.value("create_enabled")) == (True, False)
    assert slow.reading("read_only") is None
    assert present(slow.reading("used_bytes")).source == "lfs df, line 4"


def test_without_inodes_they_are_missing_with_a_reason() -> None:
    reading = present(present(df_snapshot(SPACE).of("OST0000")).reading("inodes_free"))
    assert reading.reason == "lfs df -i has no line for it in the file"


def test_inodes_alone() -> None:
    snapshot = df_snapshot(INODES)
    target = present(snapshot.of("MDT0000"))
    assert snapshot.complete
    assert (target.number("inodes_free"), target.number("used_bytes")) == (999_700, None)
    assert target.reading("used_bytes") is not None


def test_a_target_that_did_not_answer_makes_it_incomplete() -> None:
    lost = "OST000b             : inactive device\n\nfilesystem_summary"
    text = SPACE.replace("\nfilesystem_summary", lost)
    snapshot = df_snapshot(text)
    assert not snapshot.complete
    reading = present(snapshot.of("OST000b")).reading("used_bytes")
    assert present(reading).reason == "lfs df: inactive device"
    assert target_dump.lfs_df_problems(source(text)) == ("OST000b: inactive device",)


def test_the_file_systems_of_edison() -> None:
    content = edison()
    assert target_dump.is_lfs_df_dump(content)
    assert recognised(content) == []
    found = dict(target_dump.lfs_df_snapshots(content, AT))
    assert list(found) == ["snx11035", "snx11036", "snx11168", "snx11025"]
    assert all(one.complete for one in found.values())
    counts = {
        name: sum(target.target.kind == "ost" for target in one.targets)
        for name, one in found.items()
    }
    assert counts == {"snx11035": 24, "snx11036": 36, "snx11168": 248, "snx11025": 24}
    target = present(found["snx11035"].of("OST0001"))
    assert target.number("capacity_bytes") == 90767651352 * KIB
    assert target.number("used_bytes") == 64867282280 * KIB
    assert target.number("available_bytes") == 24942697308 * KIB
    assert target.fullness() == pytest.approx(0.7223, abs=1e-4)


def test_those_of_a_recent_lustre() -> None:
    contents = {
        path.stem: path.read_bytes() for path in REAL_DATA.glob("lustre-2.17/*/*lfs_df*.out")
    }
    found: dict[str, tuple[tuple[str, Snapshot], ...]] = {}
    refused: set[str] = set()
    for name, content in contents.items():
        if target_dump.is_lfs_df_dump(source(content)):
            try:
                found[name] = df_snapshots(content)
            except DataError as error:
                refused.add(error.code)
    if not contents:
        pytest.skip(f"no recorded data under {REAL_DATA} (set TRIMTAB_REAL_DATA)")
    assert found
    assert refused <= {"lfs-df-unusable", "lfs-df-repeated"}
    for name, each in found.items():
        for snapshot, target in ((s, target) for _, s in each for target in s.targets):
            told = target.number("capacity_bytes") or target.number("inodes_total")
            told = told or target.number("capacity_bytes", ROUNDED_LABEL)
            assert told or not snapshot.complete, name


def test_it_is_kept_by_the_store(store: Store) -> None:
    kept = store.snapshot(store.add_snapshot("s", df_snapshot(SPACE + INODES)))
    target = present(present(kept).of("OST000a"))
    assert target.number("used_bytes") == 2528 * KIB
    assert target.value("degraded") is True


@pytest.mark.parametrize(
    ("position", "old", "new"), [(2, "3605492", "3605592"), (3, "2528", "9528")]
)
def test_a_line_that_was_lost_or_altered_is_refused(position: int, old: str, new: str) -> None:
    lines = SPACE.splitlines(keepends=True)
    for text in ("".join(lines[:position] + lines[position + 1 :]), SPACE.replace(old, new)):
        with raises(DataError, "lfs-df-unusable", "missing or was altered") as caught:
            df_snapshots(text)
        assert caught.value.line is not None


def test_two_times_in_one_file_are_refused() -> None:
    for text in (SPACE + SPACE, ROUNDED + ROUNDED):
        with raises(DataError, "lfs-df-repeated"):
            df_snapshots(text)


def test_numbers_for_people_are_not_used() -> None:
    text = SPACE.replace("1K-blocks", "    bytes").replace("3833116", "  3.7G")
    assert target_dump.is_lfs_df_dump(source(text))
    with raises(DataError, "lfs-df-unusable", "ignored"):
        df_snapshots(text)


def test_the_line_ends_of_windows_change_nothing() -> None:
    text = SPACE + INODES
    for other in (text.replace("\n", "\r\n"), b"\xef\xbb\xbf" + text.encode()):
        assert numbers(df_snapshots(other)) == numbers(df_snapshots(text))


def test_cut_anywhere_it_gives_no_other_number() -> None:
    text = (SPACE + INODES).encode()
    whole = numbers(df_snapshots(text))
    for content in cuts(text, seed=1):
        found = df_or_none(content)
        assert numbers(found).items() <= whole.items()
        assert len(content) >= len(SPACE) - 2 or not any(one.complete for _, one in found)


def test_damage_and_rubbish_never_raise_another_error() -> None:
    for content in (*RUBBISH, *flips((SPACE + INODES).encode(), seed=2)):
        of = numbers(df_or_none(content)).values()
        assert all(not isinstance(value, int) or value >= 0 for value in of)


ROUNDED = """\
UUID                       bytes        Used   Available Use% Mounted on
scratch-MDT0000_UUID       39.8G        3.8M       39.8G   1% /scratch[MDT:0]
scratch-OST0000_UUID       94.1G        5.4G       88.8G   6% /scratch[OST:0]
scratch-OST0001_UUID        1.4T       93.4G        1.3T   7% /scratch[OST:1] f

filesystem_summary:         1.5T       98.8G        1.4T   7% /scratch

"""


def test_what_is_rounded_is_kept_with_a_label_and_in_no_frame(store: Store) -> None:
    snapshot = df_snapshot(ROUNDED)
    assert snapshot.complete
    ost = present(snapshot.of("OST0001"))
    assert ost.number("used_bytes", ROUNDED_LABEL) == 93.4 * KIB**3
    assert (ost.number("capacity_bytes", ROUNDED_LABEL), ost.fullness()) == (1.4 * KIB**4, None)
    assert "rounded" in (present(ost.reading("used_bytes")).reason or "")
    assert code_of(target_dump.why_not_judged(snapshot)) == "figures-rounded"
    store.add_snapshot("s", snapshot)
    assert store.latest_snapshot("s") == snapshot
    readings, _ = store.telemetry_frames("s", store.snapshot_times("s"))
    assert readings.filter(readings["name"] == "used_bytes")["number"].null_count() == 3


def test_exact_figures_are_taken_before_rounded_ones() -> None:
    assert df_snapshot(SPACE + ROUNDED) == df_snapshot(SPACE)
    assert target_dump.why_not_judged(df_snapshot(ROUNDED + SPACE)) is None
    assert target_dump.why_not_judged(df_snapshot(SPACE)) is None
    assert present(df_snapshot(ROUNDED + INODES).of("OST0000")).number("inodes_free") == 599900
    other = ROUNDED.replace("scratch-", "home-").replace("/scratch", "/home")
    assert [name for name, _ in df_snapshots(SPACE + other)] == ["scratch", "home"]


@pytest.mark.parametrize("lost", [2, 3])
def test_a_rounded_line_that_was_lost_is_noticed(lost: int) -> None:
    lines = ROUNDED.splitlines(keepends=True)
    with raises(DataError, "lfs-df-unusable"):
        df_snapshot("".join(lines[:lost] + lines[lost + 1 :]))


def test_a_rounded_output_that_was_cut_is_not_complete() -> None:
    whole = {target.target.name: target for target in df_snapshot(ROUNDED).targets}
    for content in cuts(ROUNDED.encode(), 1):
        for _, snapshot in df_or_none(content):
            assert all(target == whole[target.target.name] for target in snapshot.targets)
            is_whole = b"\n" in content[ROUNDED.index("filesystem_summary") :]
            assert snapshot.complete == is_whole
            assert snapshot.complete or target_dump.lfs_df_problems(source(content))

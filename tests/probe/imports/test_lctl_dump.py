"""Dumps of ``lctl get_param``: snapshots of the targets that they name."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.formats.damage import RUBBISH, cuts, flips
from tests.formats.of_formats import recognised
from tests.formats.recorded import FIXTURES, REAL_DATA
from tests.support.codes import raises
from tests.support.narrow import present

from trimtab.base.error import DataError
from trimtab.base.snapshot import Setting, Snapshot, TargetSnapshot
from trimtab.formats.source import OutputFile
from trimtab.probe.imports.import_reading import read_file
from trimtab.probe.imports.import_result import FileStatus, ImportTerms
from trimtab.probe.imports.importer import import_files
from trimtab.probe.imports.lctl_dump import problems, recognises, shown, snapshots
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


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store" / "t.db")


def source(text: str) -> OutputFile:
    return OutputFile("oss1.txt", text.encode())


def only(text: str) -> Snapshot:
    assert recognises(source(text))
    assert recognised(source(text)) == []
    ((_, snapshot),) = snapshots(source(text), AT)
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
    assert shown(source(DUMP)) == (
        "OST000a: 67 % full, 30.8 MiB written, 19.9 MiB read, writes to its drives from 1.00 MiB "
        "99 %, 4.00 KiB 1 %, reads to its drives from 1.00 MiB 100 %",
        "MDT0000: 337 metadata operations",
    )


@pytest.mark.cli
def test_jobs_are_shown_and_nothing_is_kept(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(JOBS)
    with store:
        (file,) = import_files([str(path)], ImportTerms(site="scratch"), store)
        assert store.latest_snapshot("scratch") is None
    assert file.status is FileStatus.OK
    assert str(file.results[0].told["answer"]).split("\n") == [
        "job my job.7: 32.0 MiB written, 16.0 MiB read",
        "job dd.0: 8 B written, 0 B read",
        "jobs are shown, and not kept",
    ]


def test_without_names_sizes_are_shown() -> None:
    reading = shown(source(SIZES))
    assert reading[0] == "writes to its drives from 1.00 MiB 99 %, 4.00 KiB 1 %"
    assert "names no target" in reading[-1]
    assert recognises(source(SIZES))
    assert snapshots(source(SIZES), AT) == ()


def test_two_times_in_a_file_are_refused() -> None:
    with raises(DataError, "parameters-repeated"):
        snapshots(source(DUMP + DUMP), AT)


def test_a_file_without_a_time_takes_that_of_a_person() -> None:
    assert only("osd-zfs.scratch-OST0000.kbytestotal=5000\n").at == AT


@pytest.mark.cli
def test_the_snapshot_is_kept_once(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "oss1.txt"
    path.write_text(DUMP.replace("\n", "\r\n"))
    with store:
        for new in (True, False):
            (file,) = import_files([str(path)], ImportTerms(site="scratch"), store)
            assert [result.new for result in file.results] == [new]
            assert file.status is FileStatus.OK
        assert present(store.latest_snapshot("scratch")).of("OST000a") is not None


def test_damaged() -> None:
    whole = only(DUMP)
    for cut in cuts(DUMP.encode(), seed=1):
        part = OutputFile("x", cut)
        try:
            kept = snapshots(part, AT)
        except DataError:
            continue
        for _, snapshot in kept:
            for target in snapshot.targets:
                known = {name: value for name, value in values(target).items() if value is not None}
                assert known.items() <= values(whole.of(target.target.name)).items()
            assert cut.endswith(b"\n") or problems(part)
    for content in (*flips(DUMP.encode(), seed=2), *RUBBISH):
        changed = OutputFile("x", content)
        if recognises(changed):
            with suppress(DataError):
                snapshots(changed, AT)


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
def test_a_run_of_elbencho_in_three_files_is_kept_once(tmp_path: Path, store: Store) -> None:
    folder = FIXTURES / "elbencho" / "3.1-10"
    files = [str(folder / f"nights.{end}") for end in ("csv", "json", "txt")]
    with store:
        list(import_files(files, ImportTerms(site="scratch"), store))
        assert len(store.runs(site="scratch")) == 3

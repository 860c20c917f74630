"""TOKIO summary tables: rows become runs, what does not fit its probe is told, damage is seen."""

from __future__ import annotations

import gzip
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.measure.damage import cuts, sampled
from tests.measure.of_formats import values
from tests.measure.recorded import FIXTURES, REAL_DATA

from trimtab.errors import DataError
from trimtab.measure.measurement import Measurement
from trimtab.measure.source import Source
from trimtab.measure.tokio_abc import FORMAT
from trimtab.message import Message, code_of
from trimtab.model.event import EventKind
from trimtab.model.run import RunStatus
from trimtab.model.telemetry import Snapshot

NERSC = FIXTURES / "tokio_abc" / "unnamed-index" / "summaries.csv"
ALCF = FIXTURES / "tokio_abc" / "fraction" / "summaries.csv"
START = datetime(2020, 9, 13, 12, 26, 40, tzinfo=UTC)
GIB = 2**30
REAL = {
    "edison": "edison-summaries_2017-02-14-2018-02-15.csv.gz",
    "mira": "mira-summaries_2017-02-14_2018-02-15.csv.gz",
}


def read(text: str | bytes) -> tuple[Measurement, ...]:
    content = text.encode() if isinstance(text, str) else text
    return FORMAT.read(Source("summaries.csv", content))


def of(found: tuple[Measurement, ...], probe: str, *, site: str, day: int) -> Measurement:
    (one,) = (
        one
        for one in found
        if one.probe == probe
        and one.site == site
        and one.began is not None
        and (one.began - START).days == day
    )
    return one


def snapshot(one: Measurement) -> Snapshot:
    assert one.snapshot is not None
    return one.snapshot


def changed(text: str, line: int, column: str, value: str) -> str:
    """Return a table of the unnamed-index form with one field changed; lines from 1."""
    lines = text.splitlines()
    place = lines[0].split(",").index(column) + 1
    fields = lines[line - 1].split(",")
    fields[place] = value
    lines[line - 1] = ",".join(fields)
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def nersc() -> tuple[Measurement, ...]:
    return read(NERSC.read_bytes())


@pytest.fixture(scope="module")
def alcf() -> tuple[Measurement, ...]:
    return read(ALCF.read_bytes())


def test_each_row_is_a_run_of_its_probe_and_file_system(nersc: tuple[Measurement, ...]) -> None:
    counts = Counter((one.site, one.probe) for one in nersc)
    assert counts == {
        ("sample-scratch1", "ior-shared-write"): 10,
        ("sample-scratch1", "dbscan_read"): 10,
        ("sample-scratch2", "ior-shared-write"): 10,
        ("sample-scratch2", "dbscan_read"): 10,
    }
    one = of(nersc, "ior-shared-write", site="sample-scratch1", day=0)
    # From the file: 50,000-odd MiB/s; MiB and not MB.
    sample, moved = one.samples
    assert (moved.metric, moved.value) == ("bytes_written", 512 * GIB)
    printed = float(NERSC.read_text().splitlines()[1].split(",")[5])
    assert (sample.metric, sample.unit, sample.line) == ("write_bandwidth", "B/s", 2)
    assert sample.value == pytest.approx(printed * 2**20)
    assert one.requested == {
        "application": "ior",
        "accesses": ["write"],
        "tasks": 64,
        "files": 1,
        "opens": 130,
        "moved_bytes": 512 * GIB,
    }


def test_the_time_is_of_the_column_that_is_right(nersc: tuple[Measurement, ...]) -> None:
    one = of(nersc, "ior-shared-write", site="sample-scratch1", day=0)
    assert one.began == START, "_datetime_start is seven hours before it"
    assert one.ended is not None
    assert one.reported["walltime_s"] == (one.ended - START).total_seconds() + 1


def test_a_probe_that_broke_is_no_slow_file_system(nersc: tuple[Measurement, ...]) -> None:
    for day in range(10):
        for site in ("sample-scratch1", "sample-scratch2"):
            one = of(nersc, "dbscan_read", site=site, day=day)
            if (site, day) == ("sample-scratch2", 2):
                continue
            broken = day in (4, 5)
            expected = RunStatus.INVALID_WORKLOAD if broken else RunStatus.OK
            assert one.status is expected, (site, day)
            assert one.samples[0].believed is not broken
            # A few bytes of a library's own are not another probe; neither is a broken run.
            assert one.requested["moved_bytes"] == 768 * GIB
    mismatch = of(nersc, "dbscan_read", site="sample-scratch1", day=4)
    assert mismatch.codes == ("workload-mismatch",)
    assert "22.5 MiB" in mismatch.problems[0]
    assert "768 GiB" in mismatch.problems[0]


def test_a_workload_that_lasts_is_a_series_of_its_own() -> None:
    lines = NERSC.read_text().splitlines()
    place = {name: column + 1 for column, name in enumerate(lines[0].split(","))}
    rows = []
    for day in range(80):
        fields = lines[1].split(",")
        fields[place["darshan_start_time"]] = str(1_600_000_000 + day * 86_400)
        if day >= 35:
            fields[place["darshan_tot_bytes_written_posix"]] = str(float(256 * GIB))
        rows.append(",".join(fields))
    found = read("\n".join([lines[0], *rows]) + "\n")
    assert {one.status for one in found} == {RunStatus.OK}
    requested = Counter(one.requested["moved_bytes"] for one in found)
    assert requested == {512 * GIB: 35, 256 * GIB: 45}
    # The same for a few days is an accident.
    short = read("\n".join([lines[0], *rows[:43]]) + "\n")
    assert Counter(one.status for one in short)[RunStatus.INVALID_WORKLOAD] == 8


def test_less_in_far_more_time_did_not_finish(alcf: tuple[Measurement, ...]) -> None:
    slow = of(alcf, "hacc_io_write", site="sample-fs1", day=4)
    assert slow.status is RunStatus.UNFINISHED
    assert slow.codes == ("run-unfinished",)
    assert "600 s" in (slow.problem or "")
    assert not slow.samples[0].believed
    others = [one for one in alcf if one is not slow]
    assert {one.status for one in others} == {RunStatus.OK}


def test_a_row_without_a_file_system_is_of_that_of_its_job(nersc: tuple[Measurement, ...]) -> None:
    one = of(nersc, "dbscan_read", site="sample-scratch2", day=2)
    assert one.status is RunStatus.FAILED
    assert one.samples == ()
    assert one.codes == ("no-files-opened",)
    assert one.requested == of(nersc, "dbscan_read", site="sample-scratch2", day=1).requested


def test_a_complete_run_of_no_known_file_system_is_complete_and_unknown() -> None:
    """Others of its job say nothing: one may write to a burst buffer, the next to Lustre."""
    whole = read(NERSC.read_text())[9]
    unnamed = read(changed(NERSC.read_text(), 11, "_file_system", ""))[9]
    assert (unnamed.status, unnamed.site) == (RunStatus.OK, "sample-unknown")
    assert unnamed.samples == whole.samples
    assert [code_of(warning) for warning in unnamed.warnings] == ["file-system-unnamed"]


def with_mounts(text: str, mounts: dict[int, tuple[str, str]]) -> str:
    """Return a table with the mount point and its bytes for some of its lines, from 2."""
    columns = [
        f"darshan_biggest_{verb}_fs{of}" for verb in ("read", "write") for of in ("", "_bytes")
    ]
    header, *rows = text.splitlines()
    told = [
        f"{row},{','.join((*mounts.get(line, ('', '')), *mounts.get(line, ('', ''))))}"
        for line, row in enumerate(rows, start=2)
    ]
    return "\n".join([f"{header},{','.join(columns)}", *told]) + "\n"


def test_a_run_is_where_darshan_saw_its_bytes_move() -> None:
    text = NERSC.read_text()
    writes = [one for one in read(text) if one.probe == "ior-shared-write"]
    of_scratch1 = [one for one in writes if one.site == "sample-scratch1"]
    lines = [int(str(one.reported["line"])) for one in of_scratch1[:6]]
    written = str(512 * GIB)
    datawarp = "/var/opt/cray/dws/mounts/batch"
    expected = [
        (("/scratch1", written), "sample-scratch1"),
        (("/scratch1", written), "sample-scratch1"),
        ((f"{datawarp}/123_striped", written), "sample-datawarp-striped"),
        (("/scratch1", str(256 * GIB)), "sample-unknown"),
        (("/elsewhere", written), "sample-unknown"),
        ((f"{datawarp}/5000/ss", written), "sample-datawarp-ss"),
    ]
    for line in lines[1:]:
        text = changed(text, line, "_file_system", "")
    # Of one job with a run that names its file system: that proves nothing.
    text = changed(text, lines[5], "_jobid", str(of_scratch1[0].reported["job"]))
    mounts = {line: mount for line, (mount, _) in zip(lines, expected, strict=True)}
    found = read(with_mounts(text, mounts))
    moved = [one for one in found if one.reported["line"] in lines]
    assert [one.site for one in moved] == [site for _, site in expected]
    assert {one.status for one in moved} == {RunStatus.OK}


def test_another_build_of_the_application_has_a_workload_of_its_own() -> None:
    """Two kinds of nodes of one machine: neither is the other's broken probe."""
    text = NERSC.read_text()
    application = "/project/probes/bin.sample/ior"
    other = "/project/probes/bin.sample-knl/ior"
    writes = [one for one in read(text) if one.probe == "ior-shared-write"]
    lines = [int(str(one.reported["line"])) for one in writes if one.site == "sample-scratch1"]
    for line in lines[::2]:
        text = changed(changed(text, line, "darshan_app", other), line, "darshan_nprocs", "512")
    assert application in text
    found = [one for one in read(text) if one.reported["line"] in lines]
    assert {one.status for one in found} == {RunStatus.OK}
    assert Counter(one.requested["tasks"] for one in found) == {64: 5, 512: 5}


def test_a_job_that_worked_in_two_places_does_not_say_where_it_failed() -> None:
    failed = next(one for one in read(NERSC.read_text()) if one.codes == ("no-files-opened",))
    line = int(str(failed.reported["line"]))
    assert failed.site == "sample-scratch2"
    text = changed(NERSC.read_text(), 2, "_jobid", str(failed.reported["job"]))
    (other,) = [one for one in read(text) if one.codes == ("no-files-opened",)]
    assert (other.reported["line"], other.site, other.probe) == (line, None, None)


def test_fullness_is_of_the_targets_that_are_named(nersc: tuple[Measurement, ...]) -> None:
    seen = snapshot(of(nersc, "ior-shared-write", site="sample-scratch1", day=3))
    assert not seen.complete
    assert seen.at == START + timedelta(days=3)
    kinds = {one.target.name: one.target.kind for one in seen.targets}
    assert kinds == {
        "OST0006": "ost",
        "OST0003": "ost",
        "MDT0000": "mdt",
        "sample-scratch1": "file-system",
    }
    fullest, whole = seen.of("OST0006"), seen.of("sample-scratch1")
    assert fullest is not None
    assert fullest.value("capacity_bytes") == 10_000_000_000 * 1024
    assert fullest.value("used_bytes") == 6_300_000_000 * 1024
    # lfs df keeps a part for root, so what is available does not follow from the other two.
    assert fullest.reading("available_bytes") is not None
    assert fullest.value("available_bytes") is None
    assert whole is not None
    assert whole.value("capacity_bytes") == 8 * 10_000_000_000 * 1024
    assert whole.value("used_bytes") == 8 * 5_300_000_000 * 1024
    assert whole.value("failover_active") is True
    assert whole.value("concurrent_jobs") == 103


def test_servers_are_means_under_names_of_their_own(nersc: tuple[Measurement, ...]) -> None:
    one = of(nersc, "ior-shared-write", site="sample-scratch1", day=0)
    hosts = {host.name: host for host in snapshot(one).hosts}
    assert set(hosts) == {"oss", "mds"}
    reading = hosts["oss"].readings[0]
    assert reading.name == "server_cpu_fraction"
    assert isinstance(reading.value, float)
    assert 0.05 <= reading.value <= 0.09
    assert "mean" in (reading.source or "")


def test_what_was_not_recorded_is_missing_and_not_zero(nersc: tuple[Measurement, ...]) -> None:
    lost = of(nersc, "ior-shared-write", site="sample-scratch1", day=7)
    problem = lost.reported["telemetry_problem"]
    assert isinstance(problem, Message)
    assert problem.code == "counters-incomplete"
    for host in snapshot(lost).hosts:
        assert host.readings[0].value is None
        assert host.readings[0].reason == problem
    telemetry = lost.reported["telemetry"]
    assert isinstance(telemetry, dict)
    assert "server_bytes_written" not in telemetry
    assert telemetry["fullest_target_fraction"] == pytest.approx(0.67)
    old = snapshot(of(nersc, "ior-shared-write", site="sample-scratch1", day=8)).of("OST0006")
    assert old is not None
    assert old.value("used_bytes") is None
    assert code_of(old.readings[0].reason) == "reading-too-old"
    assert "90000 s" in (old.readings[0].reason or "")
    idle = snapshot(of(nersc, "ior-shared-write", site="sample-scratch1", day=9))
    whole = idle.of("sample-scratch1")
    assert whole is not None
    assert whole.reading("concurrent_jobs") is None, "0 jobs is a look-up that failed"


def test_amounts_stay_with_the_run(nersc: tuple[Measurement, ...]) -> None:
    one = of(nersc, "ior-shared-write", site="sample-scratch2", day=1)
    telemetry = one.reported["telemetry"]
    assert isinstance(telemetry, dict)
    assert telemetry["server_bytes_written"] == pytest.approx(1.01 * 512 * GIB + 7e9)
    assert telemetry["other_bytes_written"] == pytest.approx(0.01 * 512 * GIB + 7e9)
    assert telemetry["metadata_operations"] == 130 + 900 + 12
    counters = [
        reading.name
        for target in snapshot(one).targets
        for reading in target.readings
        if reading.name.endswith("_total")
    ]
    assert counters == [], "an amount over a run is no counter"


def test_a_failover_is_one_event_from_the_first_run_to_the_last(
    nersc: tuple[Measurement, ...],
) -> None:
    (event,) = (one for found in nersc for one in found.happenings)
    assert event.kind is EventKind.FAILOVER
    assert event.at == START + timedelta(days=3)
    assert event.until == START + timedelta(days=5, seconds=60)
    assert "2 OSTs on 1 OSS" in event.detail
    assert "6 runs" in event.detail
    (holder,) = (found for found in nersc if found.happenings)
    assert holder.site == "sample-scratch1"


def test_a_fraction_is_not_taken_for_per_cent(alcf: tuple[Measurement, ...]) -> None:
    telemetry = of(alcf, "hacc_io_write", site="sample-fs1", day=5).reported["telemetry"]
    assert isinstance(telemetry, dict)
    assert telemetry["fullest_target_fraction"] == pytest.approx(0.555)
    assert {one.snapshot for one in alcf} == {None}, "nothing that is exactly a telemetry name"
    assert "no sample" in str(of(alcf, "hacc_io_write", site="sample-fs1", day=0).reported)


def test_figures_that_do_not_fit_are_not_believed() -> None:
    text = NERSC.read_text()
    line = next(
        number
        for number, row in enumerate(text.splitlines(), start=1)
        if "dbscan_read" in row and number > 2
    )
    found = read(changed(text, line, "darshan_agg_perf_by_slowest_posix", "99999.0"))[line - 2]
    assert found.status is RunStatus.FAILED
    assert code_of(found.samples[0].reason) == "figures-disagree"


def test_a_damaged_row_costs_no_other(nersc: tuple[Measurement, ...]) -> None:
    lines = NERSC.read_text().splitlines()
    lines[5] = lines[5].rsplit(",", 3)[0]
    found = read("\n".join(lines) + "\n")
    assert len(found) == len(nersc)
    assert found[4].status is RunStatus.FAILED
    assert found[4].codes == ("line-damaged",)
    assert sum(one.status is RunStatus.OK for one in found) == (
        sum(one.status is RunStatus.OK for one in nersc) - 1
    )


@sampled
@pytest.mark.parametrize("path", [NERSC, ALCF], ids=lambda path: path.parent.name)
def test_a_cut_table_gives_no_number_that_the_whole_one_has_not(path: Path) -> None:
    whole = values(read(path.read_bytes()))
    for content in cuts(path.read_bytes(), 3):
        try:
            found = values(read(content))
        except DataError:
            continue
        for key, value in found.items():
            assert key in whole, key
            assert value == whole[key]


@pytest.mark.parametrize(
    "content",
    [b"", b"a,b\n1,2\n", NERSC.read_bytes().split(b"\n")[0] + b"\n"],
    ids=["empty", "other", "header"],
)
def test_what_is_no_table_is_refused(content: bytes) -> None:
    with pytest.raises(DataError):
        read(content)


def test_quotes_that_do_not_end_are_a_data_error() -> None:
    text = NERSC.read_text()
    with pytest.raises(DataError, match="line"):
        read(text + '1,"2,3\n')


def real(name: str) -> tuple[Measurement, ...]:
    path = REAL_DATA / "tokio-abc" / REAL[name]
    if not path.is_file():
        pytest.skip(f"no recorded data under {REAL_DATA} (set TRIMTAB_REAL_DATA)")
    return read(gzip.decompress(path.read_bytes()))


@pytest.mark.calibration
def test_a_year_of_edison() -> None:
    found = real("edison")
    counts = Counter(one.status for one in found)
    assert counts == {RunStatus.OK: 7450, RunStatus.INVALID_WORKLOAD: 44, RunStatus.FAILED: 6}
    assert len({one.identity for one in found}) == 7500
    assert {one.site for one in found} == {f"edison-scratch{number}" for number in (1, 2, 3)}
    broken = [
        one
        for one in found
        if one.status is RunStatus.INVALID_WORKLOAD and "22.5 MiB" in (one.problem or "")
    ]
    days = {one.began.date() for one in broken if one.began is not None}
    assert (min(days), max(days)) == (
        datetime(2017, 8, 23, tzinfo=UTC).date(),
        datetime(2017, 9, 6, tzinfo=UTC).date(),
    )
    assert {one.probe for one in broken} == {"dbscan_read"}
    assert len(broken) == 38
    events = [(one.site, event) for one in found for event in one.happenings]
    assert Counter(site for site, _ in events) == {"edison-scratch2": 2, "edison-scratch1": 1}
    # Edison's own lfs df prints 90767651352 1K-blocks for each OST.
    capacity = {
        target.value("capacity_bytes")
        for one in found
        if one.snapshot is not None
        for target in one.snapshot.targets
        if target.target.kind == "ost"
    }
    assert capacity - {None} == {90_767_651_352 * 1024}


def test_a_year_of_mira() -> None:
    found = real("mira")
    counts = Counter(one.status for one in found)
    assert counts == {
        RunStatus.OK: 2515,
        RunStatus.INVALID_WORKLOAD: 12,
        RunStatus.UNFINISHED: 6,
    }
    assert {one.site for one in found} == {"mira-fs1"}
    # The worst write of the year is one that did not do all: left out, the year looks better.
    worst = min(found, key=lambda one: one.samples[0].value or 0.0)
    assert worst.status is RunStatus.UNFINISHED

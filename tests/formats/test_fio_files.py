"""fio: files of every version that others made, as ``trimtab import`` reads them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats import of_formats
from tests.formats.of_formats import figure, source
from tests.formats.recorded import FIXTURES, REAL_DATA
from tests.support.codes import raises
from tests.support.each import for_each
from tests.support.narrow import present

from trimtab.base.error import DataError, code_of
from trimtab.base.run import RawOutput, RunStatus
from trimtab.formats.fio import FORMAT, parse, read
from trimtab.formats.fio_document import take_apart
from trimtab.formats.measurement import Measurement, OutputFile

KIB, MIB = 2**10, 2**20
FOLDER = FIXTURES / "fio"
PATHS = sorted(FOLDER.glob("*/*.out"))
WITHOUT_JSON = {"terse", "normal", "no-directory", "client-groups"}
READ = [path for path in PATHS if path.stem not in WITHOUT_JSON]
VERSIONS = ("2.1.11", "2.2.10", "2.8", "2.21", "3.1", "3.16", "3.36", "3.42")


def named(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


each = for_each("path", READ, ids=named)
each_version = for_each("version", VERSIONS)


def measured(version: str, name: str) -> tuple[Measurement, ...]:
    return read(source(FOLDER / version / f"{name}.out"))


def printed(path: Path) -> dict[str, Any]:
    """Return the JSON of a file that holds one object, as anybody would cut it out."""
    text = path.read_text()
    return json.loads(text[text.index("{\n") :])


@each_version
def test_rates_are_bytes_and_operations_over_time(version: str) -> None:
    """The units of each version, from what it counts: 4 KiB each, so bytes are known apart."""
    (measurement,) = measured(version, "random-read")
    assert (measurement.status, measurement.tool_version) == (RunStatus.OK, version)
    figures = printed(FOLDER / version / "random-read.out")["jobs"][0]["read"]
    (phase,) = measurement.phases
    seconds = figures["runtime"] / 1000
    assert phase.elapsed_s == seconds
    assert 0.99 < seconds < 1.2
    bandwidth, rate = (value_of(measurement, f"read_{name}") for name in ("bandwidth", "iops"))
    assert bandwidth == pytest.approx(rate * 4096, rel=1e-3)
    if "total_ios" in figures:
        assert phase.moved_bytes == pytest.approx(figures["total_ios"] * 4096, rel=1e-3)
        assert rate == pytest.approx(figures["total_ios"] / seconds, rel=1e-4)
    assert phase.moved_bytes == pytest.approx(bandwidth * seconds, rel=1e-4)


def value_of(measurement: Measurement, metric: str, statistic: str = "total") -> float:
    return figure(measurement, metric, statistic).value or 0.0


@each_version
def test_latency_is_in_seconds_whatever_fio_counts_in(version: str) -> None:
    """Little's law: 2 tasks x 8 requests under way are rate times latency."""
    (measurement,) = measured(version, "random-read")
    mean, p50, p99, most = (
        value_of(measurement, "read_latency", name) for name in ("mean", "p50", "p99", "max")
    )
    assert 8 <= mean * value_of(measurement, "read_iops") <= 16.5
    assert 1e-6 < p50 < mean * 3
    assert p50 < p99 <= most * 1.02


@each_version
def test_jobs_at_the_same_time_are_one_result(version: str) -> None:
    (measurement,) = measured(version, "two-jobs")
    assert measurement.name == "out"
    jobs = printed(FOLDER / version / "two-jobs.out")["jobs"]
    for access, index, bytes_ in (("write", 0, 8 * MIB), ("read", 1, 8 * MIB)):
        (phase,) = [phase for phase in measurement.phases if phase.access == access]
        assert phase.moved_bytes == bytes_
        seconds = jobs[index][access]["runtime"] / 1000
        assert phase.bandwidth_bytes_per_s == pytest.approx(bytes_ / seconds, rel=1e-3)


def test_what_was_asked_makes_results_comparable() -> None:
    (measurement,) = measured("3.42", "random-read")
    assert measurement.requested == {
        "rw": "randread",
        "transfer_size_bytes": 4096,
        "block_size_bytes": 16 * MIB,
        "direct": True,
        "ioengine": "libaio",
        "iodepth": 8,
        "duration_s": 1.0,
        "time_based": True,
    }
    assert (measurement.reported["tasks"], measurement.reported["file_names"]) == (2, ["/tmp/x/a"])
    assert measurement.layer == "client"


def test_what_old_versions_do_not_echo_is_not_made_up() -> None:
    (measurement,) = measured("2.1.11", "random-read")
    assert measurement.requested == {"job_names": ["random"]}
    assert (measurement.layer, measurement.began, measurement.ended) == (None, None, None)
    assert (measurement.phases[0].tasks, measurement.phases[0].direct) == (None, None)
    (drives,) = measured("2.21", "drives")  # its numjobs is in the global section
    assert "tasks" not in drives.reported


def test_jobs_one_after_another_are_results_of_their_own() -> None:
    for version in ("2.8", "3.42"):
        first, second = measured(version, "one-after-another")
        for one, name, access, size in (
            (first, "first", "write", MIB),
            (second, "second", "read", 64 * KIB),
        ):
            (phase,) = one.phases
            assert (one.name, one.requested["transfer_size_bytes"]) == (name, size)
            assert (phase.access, phase.moved_bytes) == (access, 8 * MIB)


def test_a_probe_takes_no_jobs_one_after_another_for_one() -> None:
    content = (FOLDER / "3.42" / "one-after-another.out").read_bytes()
    measurement = parse(RawOutput("write 0", ("fio",), content))
    assert measurement.status is RunStatus.FAILED
    assert not any(sample.believed for sample in measurement.samples)


@pytest.mark.parametrize("version", ["2.21", "3.33"])
def test_each_drive_has_its_figures(version: str) -> None:
    (measurement,) = measured(version, "drives")
    assert (measurement.layer, measurement.reported["drives"]) == ("drive", 2)
    jobs = printed(FOLDER / version / "drives.out")["jobs"]
    for job in jobs:
        target, figures = job["job options"]["filename"], job["read"]
        share = figure(measurement, "read_bandwidth", target=target)
        assert share.value == pytest.approx(
            figures["io_bytes"] / figures["runtime"] * 1000, rel=1e-5
        )
        figure(measurement, "read_iops", target=target)
        figure(measurement, "read_latency", target=target, statistic="p99")
    total = figure(measurement, "read_bandwidth").value
    longest_s = max(job["read"]["runtime"] for job in jobs) / 1000
    assert total == pytest.approx(sum(job["read"]["io_bytes"] for job in jobs) / longest_s)
    assert measurement.requested["ramp_s"] == 0.5


def test_raid_devices() -> None:
    (measurement,) = measured("3.42", "raids")
    assert (measurement.layer, measurement.reported["devices"]) == ("raid", 2)
    assert measurement.reported["tasks"] == 8
    assert "drives" not in measurement.reported
    figure(measurement, "read_bandwidth", target="/dev/md1")


def test_sections_that_fio_hides_are_noticed() -> None:
    """Of sections in one reporting group fio echoes the last one alone."""
    (measurement,) = measured("3.42", "drives-merged")
    assert "sections-merged" in map(code_of, measurement.warnings)
    assert not {"drives", "tasks"} & measurement.reported.keys()
    assert {sample.target for sample in measurement.samples} == {None}
    content = (FOLDER / "3.42" / "drives-merged.out").read_bytes()
    (measurement,) = read(OutputFile("x", re.sub(rb'"loop(\d)"', rb'"nvme\1n1"', content)))
    assert measurement.reported["drives"] == 2


def test_servers_of_a_client_are_told_apart() -> None:
    """``fio --client`` adds a sum of all, which must not count twice."""
    (measurement,) = measured("3.42", "client")
    assert measurement.phases[0].moved_bytes == 2 * MIB
    assert sorted(measurement.reported["hosts"]) == ["127.0.0.1", "127.0.0.2"]  # type: ignore[call-overload]
    assert measurement.reported["tasks"] == 2
    assert figure(measurement, "read_iops", target="127.0.0.1:/tmp/x/a").value


def test_quantiles_of_several_jobs_are_those_of_their_buckets() -> None:
    for version in ("2.21", "3.42"):
        (measurement,) = measured(version, "histogram")
        jobs = printed(FOLDER / version / "histogram.out")["jobs"]
        key, unit_s = ("clat", 1e-6) if version == "2.21" else ("clat_ns", 1e-9)
        every = sorted(
            int(bucket) * unit_s
            for job in jobs
            for bucket, count in job["write"][key]["bins"].items()
            for _ in range(count)
        )
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            expected = every[max(round(share * len(every) + 0.4999) - 1, 0)]
            found = figure(measurement, "write_latency", statistic=name).value
            assert found == pytest.approx(expected, rel=1e-9)
        (histogram,) = measurement.histograms
        assert sum(histogram.count) == len(every)


@pytest.mark.parametrize("path", [p for p in READ if '"bins"' in p.read_text()], ids=named)
def test_buckets_give_the_percentiles_that_fio_prints(path: Path) -> None:
    """What merging rests on: fio's percentile is the first bucket that reaches the share."""
    for job in printed(path)["jobs"]:
        for figures in (job["read"], job["write"]):
            latency = figures.get("clat_ns", figures.get("clat"))
            bins = sorted((int(key), count) for key, count in latency.get("bins", {}).items())
            for share, value in latency.get("percentile", {}).items():
                seen, wanted = 0, float(share) / 100 * sum(count for _, count in bins)
                for bucket, count in bins:
                    seen += count
                    if seen >= wanted and wanted:
                        assert bucket == value
                        break


@pytest.mark.parametrize(
    ("version", "name", "status", "words"),
    [
        ("2.2.10", "slow-4k", RunStatus.FAILED, "figures-disagree"),
        ("3.42", "killed", RunStatus.PARTIAL, "ended-early, tool-message"),
        ("3.42", "absent", RunStatus.FAILED, "No such file or directory (error 2)"),
        ("3.42", "verify-bad", RunStatus.FAILED, "data-corrupt"),
        ("3.42", "trim", RunStatus.FAILED, "only-trimmed"),
        ("3.42", "unified", RunStatus.FAILED, "reads-writes-unified"),
        ("3.33", "no-space", RunStatus.PARTIAL, "No space left on device"),
    ],
)
def test_a_broken_result_says_why(version: str, name: str, status: RunStatus, words: str) -> None:
    (measurement,) = measured(version, name)
    assert measurement.status is status
    assert words in f"{', '.join(measurement.codes)}: {measurement.problem}"
    if status is RunStatus.FAILED:
        assert of_formats.values((measurement,)) == {} or name == "slow-4k"


def test_terse_output_is_refused_with_what_to_do() -> None:
    terse = source(FOLDER / "3.42" / "terse.out")
    with raises(DataError, "output-format-unsupported", "terse output") as error:
        read(terse)
    assert error.value.line == 1
    assert "--output-format=json" in (error.value.hint or "")


def test_percentiles_of_another_latency_are_left_out() -> None:
    (measurement,) = measured("3.16", "latency-total")
    assert "no-percentiles" in [code_of(gap.reason) for gap in measurement.missing]
    assert {sample.statistic for sample in measurement.samples} == {"total", "mean", "max"}


def test_reads_and_writes_told_three_times_count_once() -> None:
    (measurement,) = measured("3.42", "unified-both")
    assert sorted(phase.access for phase in measurement.phases) == ["read", "write"]
    assert sum(phase.moved_bytes or 0 for phase in measurement.phases) == 4 * MIB


def test_times_are_of_the_measured_part() -> None:
    """fio's timestamp is of the end, when it prints."""
    (measurement,) = measured("3.42", "status")
    text = (FOLDER / "3.42" / "status.out").read_text()
    document = json.loads(text[text.rindex("\n{\n") :])
    assert measurement.ended == datetime.fromtimestamp(document["timestamp_ms"] / 1000, UTC)
    assert measurement.began == datetime.fromtimestamp(document["jobs"][0]["job_start"] / 1000, UTC)
    (older,) = measured("3.16", "random-read")
    took = present(older.ended) - present(older.began)
    assert took.total_seconds() == pytest.approx(1.001, abs=0.01)


def test_a_state_in_between_is_no_whole_result() -> None:
    """What ``--status-interval`` printed before the end looks like an end."""
    content = (FOLDER / "3.42" / "status.out").read_bytes()
    ends = [found.end() for found in re.finditer(rb"^\}\n", content, re.MULTILINE)]
    assert len(ends) == 4
    assert [one_.status for one_ in read(OutputFile("x", content))] == [RunStatus.OK]
    for end in ends[:-1]:
        (measurement,) = read(OutputFile("x", content[:end]))
        assert measurement.status is RunStatus.PARTIAL


def test_outputs_one_behind_the_other_are_results_of_their_own() -> None:
    first = (FOLDER / "3.16" / "random-read.out").read_bytes()
    later = re.sub(rb'("timestamp[_ms]*" : )17952(\d)', rb"\g<1>17953\2", first)
    assert later != first
    both = read(OutputFile("x", first + later))
    assert [one_.name for one_ in both] == ["random", "random 2"]
    assert both[0].began != both[1].began
    assert read(OutputFile("x", first + first))[0].name == "random"


def test_jobs_that_did_not_start_together_are_no_one_rate() -> None:
    document = printed(FOLDER / "3.42" / "raids.out")
    document["jobs"][1]["job_start"] += 60_000
    (measurement,) = read(OutputFile("x", json.dumps(document, indent=2).encode()))
    assert code_of(figure(measurement, "read_bandwidth").reason) == "jobs-not-simultaneous"
    assert figure(measurement, "read_bandwidth", target="/dev/md0").believed


@each
def test_every_number_stands_on_its_line(path: Path) -> None:
    lines = path.read_text().split("\n")
    for sample in [sample for one in read(source(path)) for sample in one.samples]:
        assert sample.output == 0
        words = lines[present(sample.line) - 1]
        if sample.statistic == "total":
            assert ('"iops"' if sample.metric.endswith("iops") else '"bw') in words
        elif '"bw' not in words:  # merged over jobs
            assert re.search(r'"(mean|max|[0-9]+\.[0-9]+)" : ', words)


def test_real_outputs() -> None:
    found = of_formats.sources(sorted((REAL_DATA / "lustre-2.17" / "fio").glob("*.out")))
    names: dict[str, set[str]] = {}
    for one_ in found:
        results = of_formats.read_or_none(FORMAT, one_)
        status = results[0].status.value if results else "refused"
        names.setdefault(status, set()).add(one_.file_name.removesuffix(".out"))
    assert names == {
        "ok": {
            *("json", "json_plus", "json_status", "normal_json", "rawblk"),
            *("normal", "normal_read", "normal_randrw"),
        },
        "partial": {"enospc", "kill"},
        "failed": {"bad_path", "trim"},
        "refused": {"terse", "version"},
    }
    (raw,) = [one_ for one_ in found if one_.file_name == "rawblk.out"]
    (measurement,) = read(raw)
    assert (measurement.layer, measurement.reported["drives"]) == ("drive", 1)
    assert figure(measurement, "write_iops").value == 17731.453709


def test_cut_drives_give_no_other_number() -> None:
    whole = source(FOLDER / "3.33" / "drives.out")
    expected = of_formats.values(read(whole))
    for end in range(0, len(whole.content) - 3, 997):
        found = of_formats.read_or_none(FORMAT, OutputFile("x", whole.content[:end]))
        assert of_formats.values(found or ()).items() <= expected.items()


NUMBERS = [
    found.span(1)
    for found in re.finditer(
        rb'"(?:io_bytes|bw_bytes|runtime|iops)" : ([1-9][0-9.]*)',
        (FOLDER / "3.42" / "random-read.out").read_bytes(),
    )
]


@given(st.sampled_from(NUMBERS), st.integers(0, 20), st.sampled_from(b"0123456789,.eE- "))
def test_a_changed_figure_is_doubted_or_close(span: tuple[int, int], place: int, byte: int) -> None:
    """Bytes, time, bandwidth, operations and their rate hold one another."""
    content = bytearray((FOLDER / "3.42" / "random-read.out").read_bytes())
    content[span[0] + place % (span[1] - span[0])] = byte
    whole = of_formats.values(measured("3.42", "random-read"))
    found = of_formats.read_or_none(FORMAT, OutputFile("x", bytes(content)))
    for key, value in of_formats.values(found or ()).items():
        assert value == pytest.approx(whole[key], rel=0.01)


@given(st.integers(0, 2**32), st.integers(1, 400))
def test_two_outputs_line_by_line_give_no_number_of_neither(seed: int, most: int) -> None:
    """Two ranks that write to one pipe: lines keep their order, but mix."""
    chance = Random(seed)
    contents = [(FOLDER / "3.42" / f"{name}.out").read_bytes() for name in ("trim", "mixed-rw")]
    rows = [content.splitlines(keepends=True) for content in contents]
    mixed: list[bytes] = []
    while any(rows):
        turn, count = chance.randrange(2), chance.randint(1, most)
        mixed += rows[turn][:count]
        rows[turn] = rows[turn][count:]
    known = {
        value
        for content in contents
        for value in of_formats.values(read(OutputFile("", content))).values()
    }
    found = of_formats.read_or_none(FORMAT, OutputFile("x", b"".join(mixed)))
    assert set(of_formats.values(found or ()).values()) <= known


@pytest.mark.parametrize("comma", [b'"iops" : ', b'"mean" : '])
def test_decimal_commas_are_refused(comma: bytes) -> None:
    content = (FOLDER / "3.42" / "random-read.out").read_bytes()
    changed = re.sub(comma + rb"(\d+)\.(\d+)", comma + rb"\1,\2", content)
    assert changed != content
    assert of_formats.values(of_formats.read_or_none(FORMAT, OutputFile("x", changed)) or ()) == {}


def test_numbers_that_are_none_do_not_cost_the_others() -> None:
    """C prints nan where JSON has no word for it."""
    content = (FOLDER / "3.42" / "random-read.out").read_bytes()
    whole = of_formats.values(measured("3.42", "random-read"))
    for word in (b"nan", b"-nan", b"inf"):
        changed = re.sub(rb'"bw_dev" : [0-9.]+', b'"bw_dev" : ' + word, content)
        assert of_formats.values(read(OutputFile("x", changed))) == whole


@pytest.mark.calibration
@pytest.mark.parametrize(
    "unit",
    [
        *(b"{\n", b"}\n", b'{"fio version"\n', b'{\n  "fio version" : "fio-3.42",\n'),
        *(b"fio: x\n", b'"', b"{"),
    ],
)
def test_rubbish_of_any_size_takes_little_time(unit: bytes) -> None:
    """Linear: a megabyte is read at once, whatever it is; 50 MB were tried by hand."""
    one_ = OutputFile("x", unit * (2 * MIB // len(unit)))
    FORMAT.recognises(one_)
    of_formats.read_or_none(FORMAT, one_)
    take_apart(one_.text)

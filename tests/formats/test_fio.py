"""fio: its command, every output that was recorded of a probe, and real runs on whole devices."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.formats import damage
from tests.formats.damage import sampled
from tests.formats.recorded import Recording, fixture, kept, real
from tests.support import loopback
from tests.support.codes import raises
from tests.support.each import for_each
from tests.support.narrow import present

from trimtab.base.error import UsageError, code_of
from trimtab.base.plain import size_of
from trimtab.base.run import ProbeSpec, RunStatus
from trimtab.formats import fio
from trimtab.formats.fio_figure import upper_edges
from trimtab.formats.measurement import Measurement, OutputFile
from trimtab.formats.phase import PhaseRequest

MIB = 2**20

SPEC = ProbeSpec("check", "fio", 4, MIB, 1024 * MIB, 5, 5.0)

REAL = real("lustre-2.17/fio")

PROBED = {
    *("write-direct", "read-direct", "no-space", "interrupted-int", "no-directory", "no-files"),
    *("json-status", "kill"),
}
"""What a probe of ours printed; other files are for test_fio_files."""

ALL = [*(recorded for recorded in kept("fio") if recorded.name in PROBED), *REAL]

SINGLE = [recorded for recorded in ALL if recorded.text.count('"fio version"') <= 1]

each = for_each("recorded", ALL, ids=lambda recorded: recorded.name)

each_single = for_each("recorded", SINGLE, ids=lambda recorded: recorded.name)


def test_command_of_a_write() -> None:
    program, *words = fio.command(PhaseRequest(SPEC, "write", "/usr/bin/fio", "/scratch/.trim-x"))
    assert program == "/usr/bin/fio"
    assert {
        *("--directory=/scratch/.trim-x", "--filename_format=data.$jobnum", "--rw=write"),
        *("--bs=1048576", "--size=1073741824", "--numjobs=4", "--runtime=5000ms", "--end_fsync=1"),
        *("--direct=1", "--fallocate=none", "--unlink=0"),
        *("--thread", "--time_based", "--group_reporting"),
    } <= set(words)
    assert not any(word.startswith("--readonly") for word in words)


def test_command_of_a_read_neither_makes_nor_extends_files() -> None:
    spec = replace(SPEC, direct=False, duration_s=0.5)
    words = set(fio.command(PhaseRequest(spec, "read", "fio", "/scratch", 3 * MIB)))
    wanted = {f"--size={3 * MIB}", "--direct=0", "--runtime=500ms", "--allow_file_create=0"}
    assert {*wanted, "--readonly"} <= words
    assert not any(word.startswith("--end_fsync") for word in words)


def test_names_that_fio_reads_otherwise() -> None:
    assert "--directory=/scratch/a\\:b" in fio.command(
        PhaseRequest(SPEC, "write", "fio", "/scratch/a:b")
    )
    with raises(UsageError, "directory-unusable"):
        fio.command(PhaseRequest(SPEC, "write", "fio", "/scratch/a\\:b"))
    with pytest.raises(UsageError):
        fio.command(PhaseRequest(replace(SPEC, file_per_process=False), "write", "fio", "/scratch"))


def test_whole_run() -> None:
    recorded = fixture("fio", "write-direct")
    measured = fio.parse(recorded.output, repetition=2, ordinal=5)
    printed = json.loads(recorded.text)["jobs"][0]["write"]
    assert (measured.status, measured.problem, measured.tool_version) == (
        RunStatus.OK,
        None,
        "3.33",
    )
    (phase,) = measured.phases
    assert (phase.access, phase.repetition, phase.tasks) == ("write", 2, 2)
    assert (phase.transfer_size_bytes, phase.block_size_bytes) == (MIB, 32 * MIB)
    assert (phase.direct, phase.caches_dropped) == (True, True)
    assert (phase.moved_bytes, phase.elapsed_s) == (printed["io_bytes"], printed["runtime"] / 1000)
    assert phase.bandwidth_bytes_per_s == measured.samples[0].value == printed["bw_bytes"]
    assert 0 < present(phase.cpu_system_s) < 4


def test_latency_is_in_seconds_and_in_order() -> None:
    samples = fio.parse(fixture("fio", "write-direct").output).samples[1:]
    latency = {sample.statistic: sample.value or 0.0 for sample in samples}
    assert set(latency) == {"p50", "p90", "p99", "p99.9", "mean", "max"}
    assert latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["p99.9"]
    assert 1e-6 < latency["p50"] <= latency["max"] < 10.0
    assert {sample.metric for sample in samples} == {"write_latency"}


def test_histogram_holds_every_operation() -> None:
    recorded = fixture("fio", "write-direct")
    (histogram,) = fio.parse(recorded.output).histograms
    printed = json.loads(recorded.text)["jobs"][0]["write"]["clat_ns"]
    assert sum(histogram.count) == sum(printed["bins"].values())
    assert list(histogram.upper_s) == sorted(set(histogram.upper_s))
    # fio says the same in its percentiles: half of the operations are at or below the median.
    median_s = printed["percentile"]["50.000000"] / 1e9
    buckets = list(zip(histogram.upper_s, histogram.count, strict=True))
    below, upto = (
        sum(count for edge, count in buckets if edge <= limit_s)
        for limit_s in (median_s, median_s * 1.15)
    )
    assert below <= sum(histogram.count) / 2 <= upto


@for_each("exponent", range(4, 40))
def test_bucket_ends_above_its_middle(exponent: int) -> None:
    for middle in (2**exponent, 2**exponent + 1, 2 ** (exponent + 1) - 1):
        ((edge, count),) = upper_edges({middle: 3}).items()
        assert count == 3
        assert middle < edge <= middle * 1.126 + 1


@each
def test_every_number_is_on_its_line(recorded: Recording) -> None:
    lines = recorded.text.split("\n")
    for sample in fio.parse(recorded.output).samples:
        if sample.statistic == "total":
            assert f'"bw_bytes" : {sample.value:.0f},' in lines[present(sample.line) - 1]


@each
def test_bytes_are_transfers(recorded: Recording) -> None:
    """Bytes are counted apart from operations: the one checks the other."""
    measured = fio.parse(recorded.output)
    damage.check_sane(measured)
    for phase in measured.phases:
        assert phase.moved_bytes
        assert phase.moved_bytes % present(phase.transfer_size_bytes) == 0


def test_last_of_several_documents_counts() -> None:
    recorded = fixture("fio", "json-status")
    last = json.loads(recorded.text.split("\n}\n")[-2] + "\n}")
    (phase,) = fio.parse(recorded.output).phases
    assert phase.moved_bytes == last["jobs"][0]["write"]["io_bytes"]


def test_jobs_without_group_reporting_are_summed() -> None:
    recorded = fixture("fio", "write-direct")
    document = json.loads(recorded.text)
    slow = json.loads(json.dumps(document["jobs"][0]))
    slow["write"]["runtime"] *= 2
    slow["write"]["bw_bytes"] //= 2
    document["jobs"].append(slow)
    text = json.dumps(document, indent=2).replace('": ', '" : ').encode()
    (phase,) = fio.parse(replace(recorded.output, stdout=text)).phases
    one = document["jobs"][0]["write"]
    assert (phase.moved_bytes, phase.elapsed_s) == (2 * one["io_bytes"], 2 * one["runtime"] / 1000)
    assert phase.bandwidth_bytes_per_s == pytest.approx(one["bw_bytes"], rel=1e-3)
    assert phase.tasks == 2


def test_warnings_before_the_json_do_not_hide_it() -> None:
    output = fixture("fio", "write-direct").output
    noise = b"fio: this is a warning\nnote: {braces} in passing\n{not json\n"
    measured = fio.parse(replace(output, stdout=noise + output.stdout))
    assert measured.status is RunStatus.OK
    assert "fio: this is a warning" in measured.warnings
    clean, behind = fio.parse(output).samples[0], measured.samples[0]
    assert (behind.value, behind.line) == (clean.value, present(clean.line) + 3)


def with_figures(**changes: object) -> Measurement:
    """Return what is read of a recording whose figures were changed."""
    recorded = fixture("fio", "write-direct")
    document = json.loads(recorded.text)
    document["jobs"][0]["write"] |= changes
    return fio.parse(replace(recorded.output, stdout=json.dumps(document).encode()))


@for_each("key", ["io_bytes", "bw_bytes", "runtime"])
@for_each("value", [0, -1, None, "many", float("nan"), float("inf"), True])
def test_figures_that_cannot_be_are_not_believed(key: str, value: object) -> None:
    measured = with_figures(**{key: value})
    damage.check_sane(measured)
    assert not any(sample.believed for sample in measured.samples if sample.statistic == "total")


def test_bandwidth_that_contradicts_bytes_and_time_is_not_believed() -> None:
    printed = json.loads(fixture("fio", "write-direct").text)["jobs"][0]["write"]["bw_bytes"]
    assert code_of(with_figures(bw_bytes=1.1 * printed).samples[0].reason) == "figures-disagree"


@sampled
@pytest.mark.calibration
@each_single
def test_cut_anywhere_never_gives_another_number(recorded: Recording) -> None:
    data = recorded.output.stdout
    for cut in damage.cuts(data, seed=len(data)):
        measured = damage.check_cut(fio.parse, recorded.output, cut)
        assert measured.status is not RunStatus.OK or b"\n}" in cut


def test_cut_in_the_last_of_several_documents_is_noticed() -> None:
    output = fixture("fio", "json-status").output
    for length in range(output.stdout.rindex(b"\n{\n") + 3, len(output.stdout) - 3, 500):
        measured = fio.parse(replace(output, stdout=output.stdout[:length]))
        assert (measured.status, measured.codes) == (RunStatus.PARTIAL, ("earlier-part-read",))


@each_single
def test_damage_never_raises_and_never_lies(recorded: Recording) -> None:
    for changed in damage.flips(recorded.output.stdout, seed=2, count=5):
        damage.check_changed(fio.parse, recorded.output, changed)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("64k", 65536), ("1m", MIB), ("6G", 6 * 2**30), ("1MiB", MIB), ("x", None)],
)
def test_sizes_as_fio_echoes_them(text: str, size: int | None) -> None:
    assert size_of(text) == size


COMMAND = (
    *("fio", "--output-format=json+", "--eta=never", "--readonly", "--name=global", "--rw=read"),
    *("--bs=1m", "--direct=1", "--ioengine=libaio", "--iodepth=2", "--numjobs=2"),
    *("--group_reporting=1", "--time_based=1", "--runtime=300ms", "--ramp_time=100ms"),
    "--allow_file_create=0",
)


@pytest.mark.system
@loopback.needs_loop_devices()
@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not on PATH")
def test_real_devices(tmp_path: Path) -> None:
    places = tmp_path / "first", tmp_path / "second"
    for place in places:
        place.mkdir()
    with (
        loopback.loop_device(16 * MIB, places[0]) as one,
        loopback.loop_device(16 * MIB, places[1]) as other,
    ):
        devices = (str(one.path), str(other.path))
        sections = (
            (f"--name={number}", "--new_group=1", f"--filename={device}")
            for number, device in enumerate(devices)
        )
        argv = (*COMMAND, *(word for section in sections for word in section))
        ran = subprocess.run(argv, capture_output=True, timeout=60, check=False)
    (measured,) = fio.read(OutputFile("drives.json", ran.stdout))
    assert (measured.status, ran.returncode) == (RunStatus.OK, 0), ran.stderr
    assert (measured.reported["tasks"], measured.requested["transfer_size_bytes"]) == (4, MIB)
    shares = {
        sample.target: sample.value or 0.0
        for sample in measured.samples
        if sample.metric == "read_bandwidth"
    }
    assert set(shares) == {None, *devices}
    assert shares[None] == pytest.approx(sum(shares[device] for device in devices), rel=0.1)

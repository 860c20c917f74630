"""fio: its command, and every output that was recorded."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.formats import damage
from tests.formats.damage import sampled
from tests.formats.recorded import Recording, fixture, kept, real, require
from tests.support.codes import raises
from tests.support.each import for_each

from trimtab.base.error import UsageError, code_of
from trimtab.base.plain import size_of
from trimtab.base.run import ProbeSpec, RunStatus
from trimtab.formats import fio
from trimtab.formats.fio_figure import upper_edges
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


def options(argv: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, _, value in (word.partition("=") for word in argv[1:])}


def test_command_of_a_write() -> None:
    argv = fio.command(PhaseRequest(SPEC, "write", "/usr/bin/fio", "/scratch/.trimtab-x"))
    given = options(argv)
    assert argv[0] == "/usr/bin/fio"
    assert given["--directory"] == "/scratch/.trimtab-x"
    assert given["--filename_format"] == "data.$jobnum"
    assert (given["--rw"], given["--bs"], given["--size"]) == ("write", "1048576", "1073741824")
    assert (given["--numjobs"], given["--runtime"], given["--end_fsync"]) == ("4", "5000ms", "1")
    assert (given["--direct"], given["--fallocate"], given["--unlink"]) == ("1", "none", "0")
    assert {"--thread", "--time_based", "--group_reporting"} <= given.keys()
    assert "--readonly" not in given


def test_command_of_a_read_neither_makes_nor_extends_files() -> None:
    spec = replace(SPEC, direct=False, duration_s=0.5)
    argv = fio.command(PhaseRequest(spec, "read", "fio", "/scratch", 3 * MIB))
    given = options(argv)
    assert (given["--size"], given["--direct"], given["--runtime"]) == (str(3 * MIB), "0", "500ms")
    assert given["--allow_file_create"] == "0"
    assert "--readonly" in given
    assert "--end_fsync" not in given


def test_names_that_fio_reads_otherwise() -> None:
    argv = fio.command(PhaseRequest(SPEC, "write", "fio", "/scratch/a:b"))
    assert options(argv)["--directory"] == "/scratch/a\\:b"
    with raises(UsageError, "directory-unusable"):
        fio.command(PhaseRequest(SPEC, "write", "fio", "/scratch/a\\:b"))
    with pytest.raises(UsageError):
        fio.command(PhaseRequest(replace(SPEC, file_per_process=False), "write", "fio", "/scratch"))


def test_whole_run() -> None:
    recorded = fixture("fio", "write-direct")
    measured = fio.parse(recorded.output, repetition=2, ordinal=5)
    assert (measured.status, measured.problem) == (RunStatus.OK, None)
    assert measured.tool_version == "3.33"
    (phase,) = measured.phases
    assert (phase.access, phase.repetition, phase.tasks) == ("write", 2, 2)
    assert (phase.transfer_size_bytes, phase.block_size_bytes) == (MIB, 32 * MIB)
    assert (phase.direct, phase.caches_dropped) == (True, True)
    printed = json.loads(recorded.text)["jobs"][0]["write"]
    assert (phase.moved_bytes, phase.elapsed_s) == (printed["io_bytes"], printed["runtime"] / 1000)
    assert phase.bandwidth_bytes_per_s == printed["bw_bytes"]
    assert measured.samples[0].value == printed["bw_bytes"]
    assert phase.cpu_system_s is not None
    assert 0 < phase.cpu_system_s < 4


def test_latency_is_in_seconds_and_in_order() -> None:
    measured = fio.parse(fixture("fio", "write-direct").output)
    latency = {sample.statistic: sample.value or 0.0 for sample in measured.samples[1:]}
    assert set(latency) == {"p50", "p90", "p99", "p99.9", "mean", "max"}
    assert latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["p99.9"]
    assert 1e-6 < latency["p50"] <= latency["max"] < 10.0
    assert {sample.metric for sample in measured.samples[1:]} == {"write_latency"}


def test_histogram_holds_every_operation() -> None:
    recorded = fixture("fio", "write-direct")
    (histogram,) = fio.parse(recorded.output).histograms
    printed = json.loads(recorded.text)["jobs"][0]["write"]
    assert sum(histogram.count) == sum(printed["clat_ns"]["bins"].values())
    assert list(histogram.upper_s) == sorted(set(histogram.upper_s))
    # fio says the same in its percentiles: half of the operations are at or below the median.
    median_s = printed["clat_ns"]["percentile"]["50.000000"] / 1e9
    below = sum(
        count
        for edge, count in zip(histogram.upper_s, histogram.count, strict=True)
        if edge <= median_s
    )
    upto = sum(
        count
        for edge, count in zip(histogram.upper_s, histogram.count, strict=True)
        if edge <= median_s * 1.15
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
            assert sample.line is not None
            assert f'"bw_bytes" : {sample.value:.0f},' in lines[sample.line - 1]


@each
def test_bytes_are_transfers(recorded: Recording) -> None:
    """Bytes are counted apart from operations: the one checks the other."""
    measured = fio.parse(recorded.output)
    damage.check_sane(measured)
    for phase in measured.phases:
        assert phase.moved_bytes
        assert phase.transfer_size_bytes
        assert phase.moved_bytes % phase.transfer_size_bytes == 0


def test_last_of_several_documents_counts() -> None:
    recorded = fixture("fio", "json-status")
    documents = recorded.text.split("\n}\n")
    last = json.loads(documents[-2] + "\n}")
    (phase,) = fio.parse(recorded.output).phases
    assert phase.moved_bytes == last["jobs"][0]["write"]["io_bytes"]


def test_collection_is_read_as_a_whole() -> None:
    statuses = {r.name: fio.parse(r.output).status.value for r in require(REAL)}
    assert {name for name, status in statuses.items() if status == "ok"} == {
        *("json", "json_plus", "json_status", "normal_json", "rawblk")
    }
    assert {name for name, status in statuses.items() if status == "partial"} == {"enospc", "kill"}


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
    assert measured.samples[0].value == fio.parse(output).samples[0].value
    clean_line, line = fio.parse(output).samples[0].line, measured.samples[0].line
    assert clean_line is not None
    assert line == clean_line + 3


@for_each("key", ["io_bytes", "bw_bytes", "runtime"])
@for_each("value", [0, -1, None, "many", float("nan"), float("inf"), True])
def test_figures_that_cannot_be_are_not_believed(key: str, value: object) -> None:
    recorded = fixture("fio", "write-direct")
    document = json.loads(recorded.text)
    document["jobs"][0]["write"][key] = value
    measured = fio.parse(replace(recorded.output, stdout=json.dumps(document).encode()))
    damage.check_sane(measured)
    assert not any(sample.believed for sample in measured.samples if sample.statistic == "total")


def test_bandwidth_that_contradicts_bytes_and_time_is_not_believed() -> None:
    recorded = fixture("fio", "write-direct")
    document = json.loads(recorded.text)
    document["jobs"][0]["write"]["bw_bytes"] *= 1.1
    measured = fio.parse(replace(recorded.output, stdout=json.dumps(document).encode()))
    assert code_of(measured.samples[0].reason) == "figures-disagree"


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
    start = output.stdout.rindex(b"\n{\n") + 3
    for length in range(start, len(output.stdout) - 3, 500):
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

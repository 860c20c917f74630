"""IOR of every version since 3.0, imported: right values, clear reasons, nothing from damage."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import pytest
from tests.formats.ior_captures import (
    DIFFERENT,
    EVERY_VERSION,
    FAILED,
    FOLDER,
    OK,
    PARTIAL,
    capture,
    captures,
)
from tests.formats.of_formats import read_or_none, recognised, sources
from tests.formats.recorded import REAL_DATA
from tests.support.codes import raises
from tests.support.each import for_each
from tests.support.narrow import present

from trimtab.base.error import DataError, code_of
from trimtab.base.run import RawOutput, RunStatus
from trimtab.formats import ior
from trimtab.formats.ior import moment
from trimtab.formats.measurement import Measurement, OutputFile

MIB = 2**20
CAPTURES = captures()
each = for_each("version, case, path", CAPTURES, ids=[f"{one[0]}-{one[1]}" for one in CAPTURES])


def only(source: OutputFile) -> Measurement:
    (measured,) = ior.read(source)
    return measured


def printed(measured: Measurement, metric: str) -> list[float]:
    return [one.value or -1.0 for one in measured.samples if one.metric == metric and one.believed]


@each
def test_a_capture_has_its_status_lines_and_figures(version: str, case: str, path: Path) -> None:
    source = OutputFile(path.name, path.read_bytes())
    text = source.text.split("\n")
    found = read_or_none(ior.FORMAT, source) or ()
    expected = DIFFERENT.get((version, case), EVERY_VERSION[case])
    assert tuple(one.status.value for one in found) == expected
    for one in found:
        assert (one.layer, bool(one.problem)) == ("client", one.status is not RunStatus.OK)
        for sample in one.samples:
            assert sample.output == 0
            value = present(sample.value) / (MIB if "bandwidth" in sample.metric else 1)
            words = re.findall(r"[0-9]+(?:\.[0-9]+)?", text[present(sample.line) - 1])
            assert f"{value:.10g}" in {f"{float(word):.10g}" for word in words}
    if len(found) == 1 and case != "summary-of-three":
        bandwidths = [one for one in found[0].samples if one.metric.endswith("_bandwidth")]
        probed = ior.parse(RawOutput("x", (), source.content)).samples
        assert [(s.value, s.reason) for s in bandwidths] == [(s.value, s.reason) for s in probed]


def test_values_of_3_0() -> None:
    measured = only(capture("3.0.1", "repeat"))
    text = (FOLDER / "3.0.1" / "repeat.out").read_text().split("\n")
    rows = [line.split() for line in text if re.match(r"(write|read) +[0-9]+ ", line)]
    assert len(rows) == 6
    for access in ("write", "read"):
        expected = [float(row[1]) * MIB for row in rows if row[0] == access]
        assert printed(measured, f"{access}_bandwidth") == pytest.approx(expected)
    assert (measured.tool_version, measured.host) == ("3.0.1", "vm")
    assert measured.began == moment(text[2].removeprefix("Began: "))
    assert measured.ended is not None
    assert printed(measured, "write_iops") == []  # it prints none
    assert measured.requested == {
        "api": "POSIX",
        "tasks": 2,
        "nodes": 1,
        "tasks_per_node": 2,
        "transfer_size_bytes": 262144,
        "block_size_bytes": 2 * MIB,
        "segments": 2,
        "repetitions": 3,
        "file_per_process": True,
        "collective": False,
        "ordering": "sequential",
        "task_offset": 0,
        "flush": False,
        "direct": False,
    }
    assert measured.reported["path"] == "/tmp/x/f"


def test_the_same_run_is_asked_the_same_in_every_version() -> None:
    for case in ("repeat", "text-shared", "random", "odd-sizes"):
        requested = [
            only(OutputFile(path.name, path.read_bytes())).requested
            for _, name, path in CAPTURES
            if name == case
        ]
        assert len(requested) >= 3
        assert all(one == requested[0] for one in requested), case


def test_json_is_asked_the_same_as_text() -> None:
    for version, of_json in (("3.2.1", "3.2.1"), ("4.0.0", "4.1.0+dev")):
        requested = only(capture(version, "wear-out")).requested
        assert requested == only(capture(of_json, "wear-out-json")).requested
        assert (requested["stonewall_s"], requested["wear_out"]) == (1, True)


def test_sizes_that_text_rounds_are_taken_from_where_they_are_exact() -> None:
    for version in ("3.0.1", "3.2.1", "4.0.0", "4.1.0+dev"):
        source = capture(version, "odd-sizes")
        assert re.search(r"blocksize +[:=] 5\.30 MiB", source.text)
        measured = only(source)
        assert measured.requested["block_size_bytes"] == 5_555_000
        assert measured.requested["transfer_size_bytes"] == 1000
        assert measured.requested["segments"] == 2
        assert measured.phases[0].moved_bytes == 3 * 2 * 5_555_000


def test_options_of_the_command_line() -> None:
    for version, case, requested in (
        ("3.2.1", "direct", {"direct": True}),
        ("4.0.0", "direct", {"direct": True}),
        ("4.0.0", "text-shared", {"flush": True, "task_offset": 1, "file_per_process": False}),
        ("4.0.0", "random", {"ordering": "random"}),
        ("3.0.1", "mpiio", {"collective": True, "api": "MPIIO"}),
        ("4.0.0", "mpiio", {"collective": True, "api": "MPIIO"}),
    ):
        assert requested.items() <= only(capture(version, case)).requested.items(), (version, case)


def test_of_a_script_only_what_is_printed_is_known() -> None:
    text = ior.read(capture("4.0.0", "script"))
    assert not {"flush", "direct"} & set(text[0].requested)  # text does not say, and no line does
    json = ior.read(capture("4.1.0+dev", "json-script"))
    assert [one.requested["flush"] for one in json] == [True, True]
    assert "direct" not in json[0].requested


def test_tests_of_a_script_are_results_of_their_own() -> None:
    first, second = ior.read(capture("3.2.1", "script"))
    assert (first.name, second.name) == (None, "test 1")
    for one, file_per_process, block_size_bytes in ((first, False, MIB), (second, True, 2 * MIB)):
        assert one.requested["file_per_process"] is file_per_process
        assert one.requested["block_size_bytes"] == block_size_bytes
        assert {phase.repetition for phase in one.phases} == {0, 1}
    assert first.ended is None  # nothing says when
    assert second.ended is not None


def test_runs_one_after_another_are_results_of_their_own() -> None:
    first, second = ior.read(capture("3.0.1", "twice"))
    assert (first.name, second.name) == (None, "run 2")
    assert (first.requested["tasks"], second.requested["tasks"]) == (1, 2)


def test_log_of_many_runs() -> None:
    parts = [capture("4.0.0", "repeat"), capture("3.0.1", "terminated"), capture("4.0.0", "full")]
    found = ior.read(OutputFile("log", b"".join(one.content for one in [*parts, parts[0]])))
    assert [one.name for one in found] == [None, "run 2", "run 3", "run 4"]
    assert [one.status.value for one in found] == [OK, PARTIAL, FAILED, OK]
    alone = [only(one) for one in parts]
    for one, two in zip(found, [*alone, alone[0]], strict=True):
        assert [s.value for s in one.samples] == [s.value for s in two.samples]
        assert one.problem == two.problem


def test_operations_per_second_are_those_of_the_repetition() -> None:
    source = capture("4.0.0", "random")
    words = next(line for line in source.text.split("\n") if line[:6] == "write ").split()
    assert printed(only(source), "write_iops") == [float(words[2])]
    # Transfers over the time of writing alone, not over all of it as in the summary.
    assert float(words[2]) == pytest.approx(4 * 256 / float(words[7]), rel=0.001)


def test_deadline_moved_what_the_warning_says() -> None:
    for version in ("3.0.1", "3.2.1", "4.0.0"):
        source = capture(version, "deadline")
        found = re.search(r"Using actual aggregate bytes moved = ([0-9]+)", source.text)
        (phase,) = only(source).phases
        assert phase.moved_bytes == int(present(found).group(1))
        assert only(source).requested["stonewall_s"] == 1


@pytest.mark.parametrize("version", ["3.0.1", "3.1.0", "3.2.1", "4.0.0"])
def test_full_file_system_over_mpi_io_is_no_bandwidth(version: str) -> None:
    """IOR ends well and prints the bandwidth of bytes that MPI-IO had dropped."""
    assert (FOLDER / version / "full-mpiio.rc").read_text().strip() == "0"
    assert "Finished" in capture(version, "full-mpiio").text
    measured = only(capture(version, "full-mpiio"))
    assert "bytes-not-in-files" in measured.codes
    assert "6291456" in (measured.problem or "")
    assert not any(sample.believed for sample in measured.samples)


@pytest.mark.parametrize(
    ("version", "case", "words"),
    [
        ("3.0.1", "full", "No space left on device"),
        ("3.0.1", "open-failed", "No such file or directory"),
        ("3.0.1", "bad-size", "block size must be a multiple of transfer size"),
        ("3.2.1", "full", "No space left on device"),
        ("3.3.0", "full-json", "No space left on device"),
        ("4.0.0", "full", "No space left on device"),
        ("4.0.0", "bad-size", "block size must be a multiple of transfer size"),
        ("4.1.0+dev", "corrupt", "data-corrupt"),
        ("3.2.1", "corrupt", "data-corrupt"),
        ("3.2.1", "csv", "output-format-unsupported"),
        ("3.3.0", "dry-run", "dry-run"),
        ("4.0.0", "dry-run", "output-unfinished"),
        ("4.0.0", "dummy", "dry-run"),
        ("3.0.1", "terminated", "output-unfinished, repetitions-missing"),
        ("4.0.0", "csv", "end-unknown"),
    ],
)
def test_failure_is_explained(version: str, case: str, words: str) -> None:
    measured = only(capture(version, case))
    assert words in f"{', '.join(measured.codes)}: {measured.problem}"


def test_csv_of_3_3_is_named() -> None:
    with raises(DataError, "output-format-unsupported"):
        ior.read(capture("3.3.0", "csv"))


def test_stale_reason_of_ior_3_is_left_out() -> None:
    assert "errno" in capture("3.0.1", "bad-size").text
    assert "errno" not in (only(capture("3.0.1", "bad-size")).problem or "")


def test_option_that_3_2_dropped_is_said() -> None:
    measured = only(capture("3.2.1", "bad-option"))
    assert code_of(measured.warnings[0]) == "option-ignored"
    assert "--nosuch" in measured.warnings[0]
    assert measured.requested["transfer_size_bytes"] == MIB
    assert not {"direct", "flush"} & set(measured.requested)  # the command line is not what ran


def test_csv_tells_tasks_and_sizes_alone() -> None:
    measured = only(capture("4.0.0", "csv"))
    assert measured.requested == {"tasks": 2}
    assert [phase.transfer_size_bytes for phase in measured.phases] == [MIB] * 4
    assert [phase.block_size_bytes for phase in measured.phases] == [128 * MIB] * 4
    assert [phase.moved_bytes for phase in measured.phases] == [None] * 4
    assert measured.began is None


def test_summary_of_one_repetition_is_that_repetition() -> None:
    for version in ("3.0.1", "4.0.0"):
        source = capture(version, "summary-only")
        measured = only(source)
        row = next(line.split() for line in source.text.split("\n") if line.startswith("write "))
        assert printed(measured, "write_bandwidth") == [pytest.approx(float(row[1]) * MIB)]
        assert (measured.phases[0].moved_bytes, measured.requested["tasks"]) == (16 * MIB, 2)


def test_summary_of_a_write_may_be_of_the_bytes_read() -> None:
    """Before 3.3 with a deadline: https://github.com/hpc/ior/pull/90."""
    for version, said, other in (
        ("3.0.1", " 16777216 POSIX", " 12345678 POSIX"),
        ("3.3.0", "     16.0 POSIX", "     11.8 POSIX"),
    ):
        source = capture(version, "summary-of-three")
        stopped = only(OutputFile("x", source.text.replace(said, other).encode()))
        assert printed(only(source), "write_bandwidth")
        assert bool(printed(stopped, "write_bandwidth")) == (version == "3.3.0")
        assert printed(stopped, "read_bandwidth")


def test_summary_of_several_repetitions_is_not_one() -> None:
    measured = only(capture("4.1.0+dev", "summary-of-three"))
    assert {sample.statistic for sample in measured.samples} == {"max", "min", "mean"}
    assert ({s.repetition for s in measured.samples}, measured.status) == (
        {None},
        RunStatus.PARTIAL,
    )


def test_summary_that_the_repetitions_do_not_bear_out_is_said() -> None:
    source = capture("4.0.0", "repeat")
    assert only(source).warnings == ()
    head, mark, tail = source.text.partition("Summary of all tests:")
    row = next(line for line in tail.split("\n") if line.startswith("write "))
    other = row.replace(row.split()[1], "99999.99", 1)
    measured = only(OutputFile("x", (head + mark + tail.replace(row, other)).encode()))
    assert "summary-disagrees" in map(code_of, measured.warnings)
    assert "max 100000" in " ".join(measured.warnings)
    assert measured.status is RunStatus.OK


def test_headless_output_of_a_summary_file() -> None:
    """``summaryFile=`` of 3.2 has no version; the header went elsewhere."""
    source = capture("3.2.1", "json-file")
    assert source.text.startswith(("Writing output", "IOR-3.2.1"))
    alone = OutputFile("result.json", source.text[source.text.index("{") :].encode())
    assert recognised(alone) == ["ior"]
    assert [s.value for s in only(alone).samples] == [s.value for s in only(source).samples]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fri Nov 20 16:20:09 2026", datetime(2026, 11, 20, 16, 20, 9)),
        ("Sat Nov  1 00:00:00 2025", datetime(2025, 11, 1)),
        ("Fr 20. Nov 16:20:09 2026", None),
        ("Sat Foo 21 00:00:00 2026", None),
        ("Sat Nov 31 00:00:00 2026", None),
        ("Sat Nov 21 25:00:00 2026", None),
        (None, None),
    ],
)
def test_moments(text: str | None, expected: datetime | None) -> None:
    assert moment(text) == expected


REAL_FOLDER = REAL_DATA / "lustre-2.17" / "ior"
REAL_STATUSES = {
    "ok": {
        *("direct", "json", "json_file", "random", "stonewall", "stonewall_json", "stonewall_min"),
        *("text_fpp", "text_read_only", "text_shared", "text_write_only", "verify", "vv"),
    },
    "ok ok": {"script_file"},
    "ok failed": {"read_short", "verify_corrupt"},
    "partial": {"csv", "csv_stdout"},
    "failed": {
        *("bad_option", "bad_size", "enospc", "enospc_fpp_json", "kill_int", "kill_mpirun"),
        *("kill_rank9", "read_missing", "stonewall_status", "unwritable", "unwritable_nobody"),
        "version",
    },
}


def real_sources() -> dict[str, OutputFile]:
    paths = [path for path in sorted(REAL_FOLDER.glob("*.out")) if path.name[:6] != "mdtest"]
    return {Path(source.name).stem: source for source in sources(paths)}


def test_real_files_import_with_their_status() -> None:
    found: dict[str, set[str]] = {}
    for name, source in real_sources().items():
        runs = ior.read(source)
        found.setdefault(" ".join(one.status.value for one in runs), set()).add(name)
        # A probe of ours reads the same of what one run printed.
        probed = ior.parse(RawOutput("x", (), source.content)).samples
        if len(runs) == 1:
            assert sorted(one.value or 0 for one in probed if one.believed) == sorted(
                printed(runs[0], "write_bandwidth") + printed(runs[0], "read_bandwidth")
            )
    assert found == REAL_STATUSES


def test_real_values() -> None:
    of_name = real_sources()
    text = only(of_name["text_fpp"])
    assert printed(text, "write_bandwidth") == [pytest.approx(157.11 * MIB)]
    assert printed(text, "read_iops") == [3460.91]
    assert (text.began, text.host) == (datetime(2026, 11, 20, 16, 20, 9), "lustre1")
    assert text.reported["path"] == "/scratch/ior/f"
    assert text.reported["file_system_used_of_size"] == 0.256
    assert (text.requested["nodes"], text.requested["tasks"]) == (1, 2)
    random_4k = only(of_name["random"])
    assert printed(random_4k, "write_iops") == [7392.0]
    assert random_4k.requested["transfer_size_bytes"] == 4096
    deadline = only(of_name["stonewall"])
    assert (deadline.phases[0].moved_bytes, deadline.requested["stonewall_s"]) == (586809344, 6)
    least = only(of_name["stonewall_min"])
    assert least.requested["minimum_duration_s"] == 5
    assert [phase.moved_bytes for phase in least.phases] == [305659904, 244449280]
    csv = printed(only(of_name["csv_stdout"]), "write_bandwidth")
    assert csv == pytest.approx([104.1591 * MIB, 87.3748 * MIB])


@pytest.mark.parametrize(
    ("version", "case"),
    [("3.0.1", "time-limit"), ("4.0.0", "time-limit"), ("4.0.0", "time-limit-json")],
)
def test_fewer_repetitions_within_a_time_limit_are_all(version: str, case: str) -> None:
    """``-T`` begins no further repetition after so many minutes; the summary is not a number."""
    source = capture(version, case)
    assert "-nan" in source.text
    measured = only(source)
    assert (measured.requested["maximum_duration_s"], measured.requested["repetitions"]) == (60, 9)
    assert len(printed(measured, "write_bandwidth")) == 5
    without = source.text.replace(" -T 1 ", " ", 1).replace('Duration": 1', 'Duration": 0', 1)
    assert only(OutputFile("x", without.encode())).status is not RunStatus.OK


IO500 = FOLDER.parent / "io500"
PARTS_OF_IO500 = sorted(IO500.glob("*/*/ior-*.txt"))


@for_each("path", PARTS_OF_IO500, ids=lambda path: str(path.relative_to(IO500)))
def test_what_io500_keeps_of_ior_ends_with_its_last_row(path: Path) -> None:
    content = path.read_bytes()
    assert b"Finished" not in content
    measured = only(OutputFile(path.name, content))
    assert measured.status is RunStatus.OK, measured.problem
    # Broken off before its row it holds no result, with or without what comes after it.
    start = max(content.rfind(b"\nwrite "), content.rfind(b"\nread "))
    for cut in (content[: start + 1], content[: content.index(b"\n", start + 1)]):
        (broken,) = ior.read(OutputFile(path.name, cut))
        assert broken.status is RunStatus.FAILED
        assert code_of(broken.problem or "") == "output-unfinished"
    # The same rows of a program of its own, which prints its end.
    alone = only(OutputFile(path.name, content.replace(b"./ior ", b"/usr/bin/ior ", 1)))
    assert alone.status is RunStatus.PARTIAL


READ = """\
IOR-3.4.0+dev: MPI Coordinated Test of Parallel I/O
Began               : Fri Oct 29 17:15:21 2021
Command line        : /bin/ior -C -Q 1 -g -G 27 -k -e -o /mnt/x/f -t 1m -b 16m -s 4 -F -r -R -a {api}
TestID              : 0
StartTime           : Fri Oct 29 17:15:21 2021

Options:
api                 : {api}
segments            : 4
nodes               : 1
tasks               : 2
repetitions         : 1
xfersize            : 1 MiB
blocksize           : 16 MiB

Results:

access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter
------    ---------  ----       ----------  ---------- ---------  --------   --------   --------   --------   ----
WARNING: Expected aggregate file size       = 134217728
WARNING: Stat() of aggregate file size      = {stat}
WARNING: Using actual aggregate bytes moved = 134217728
{access:<8}  100.00     100.00     0.000246    16384      1024.00    0.000010   1.28       0.000018   1.28       0
Max : 100
Finished            : Fri Oct 29 17:15:23 2021
"""  # noqa: E501


@pytest.mark.parametrize(
    ("access", "api", "stat", "believed"),
    [
        # Every file of its own was asked of one server, or of a store that does not tell.
        ("read", "POSIX", 0, True),
        ("read", "POSIX", 4_000_000, True),
        ("read", "DFS", -72_580_213_608_448, True),
        ("write", "DFS", -72_580_213_608_448, True),
        ("write", "POSIX", 4_000_000, False),
        # MPI-IO tells nobody of what it dropped; a few transfers are tasks that saw a file grow.
        ("read", "MPIIO", 134_217_728 - 27, True),
        ("read", "MPIIO", 4_000_000, False),
        ("write", "MPIIO", 0, False),
        ("write", "MPIIO", 4_000_000, False),
    ],
)
def test_bytes_in_files_may_refute_a_figure(
    access: str, api: str, stat: int, believed: bool
) -> None:
    measured = only(OutputFile("x", READ.format(access=access, api=api, stat=stat).encode()))
    assert [one.believed for one in measured.samples] == [believed] * 2
    assert measured.codes == (() if believed else ("bytes-not-in-files",))

"""IOR of every version since 3.0, imported: right values, clear reasons, nothing from damage."""

from __future__ import annotations

import random
import re
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.measure.ior_captures import (
    DIFFERENT,
    EVERY_VERSION,
    FAILED,
    FOLDER,
    OK,
    PARTIAL,
    capture,
    captures,
)
from tests.measure.of_formats import (
    check_changed,
    check_cut,
    check_line_ends,
    check_rubbish,
    read_or_none,
    recognised,
    sources,
    values,
)
from tests.measure.recorded import REAL_DATA

from trimtab.errors import DataError
from trimtab.measure import ior
from trimtab.measure.ior.lines import PARTS_MAX, runs_of
from trimtab.measure.ior.reading import moment
from trimtab.measure.measurement import Measurement
from trimtab.measure.source import Source
from trimtab.model.run import RawOutput, RunStatus

MIB = 2**20
CAPTURES = captures()
each = pytest.mark.parametrize(
    ("version", "case", "path"), CAPTURES, ids=[f"{one[0]}-{one[1]}" for one in CAPTURES]
)


def only(source: Source) -> Measurement:
    (measured,) = ior.read(source)
    return measured


def printed(measured: Measurement, metric: str) -> list[float]:
    return [one.value or -1.0 for one in measured.samples if one.metric == metric and one.believed]


@each
def test_status_is_what_the_output_proves(version: str, case: str, path: Path) -> None:
    expected = DIFFERENT.get((version, case), EVERY_VERSION[case])
    found = read_or_none(ior.FORMAT, Source(path.name, path.read_bytes())) or ()
    assert tuple(one.status.value for one in found) == expected
    for one in found:
        assert one.layer == "client"
        assert bool(one.problem) == (one.status is not RunStatus.OK)


@each
def test_each_number_stands_on_its_line(version: str, case: str, path: Path) -> None:
    source = Source(path.name, path.read_bytes())
    lines = source.text.split("\n")
    for one in read_or_none(ior.FORMAT, source) or ():
        for sample in one.samples:
            assert sample.line is not None
            assert sample.value is not None
            assert sample.output == 0
            value = sample.value / (MIB if "bandwidth" in sample.metric else 1)
            words = re.findall(r"[0-9]+(?:\.[0-9]+)?", lines[sample.line - 1])
            assert f"{value:.10g}" in {f"{float(word):.10g}" for word in words}


@each
def test_a_file_says_what_a_probe_would_have_read(version: str, case: str, path: Path) -> None:
    source = Source(path.name, path.read_bytes())
    found = read_or_none(ior.FORMAT, source)
    if found is None or len(found) != 1:
        return
    parsed = ior.parse(RawOutput("x", (), source.content))
    bandwidths = [one for one in found[0].samples if one.metric.endswith("_bandwidth")]
    if case != "summary-of-three":
        assert [(s.value, s.reason) for s in bandwidths] == [
            (s.value, s.reason) for s in parsed.samples
        ]


@each
def test_recognised_as_ior_alone(version: str, case: str, path: Path) -> None:
    assert recognised(Source(path.name, path.read_bytes())) == ["ior"]


@each
def test_cut_file_gives_no_other_number(version: str, case: str, path: Path) -> None:
    source = Source(path.name, path.read_bytes())
    if read_or_none(ior.FORMAT, source) is not None:
        check_cut(ior.FORMAT, source, seed=len(source.content))
        check_line_ends(ior.FORMAT, source)


@pytest.mark.parametrize(
    ("version", "case"),
    [
        *(("3.0.1", "script"), ("3.2.1", "json-verbose"), ("3.3.0", "summary-of-three")),
        *(("4.0.0", "csv"), ("4.0.0", "repeat"), ("4.1.0+dev", "json-script")),
    ],
)
def test_changed_file_is_read_or_refused(version: str, case: str) -> None:
    check_changed(ior.FORMAT, capture(version, case), seed=3)


def test_cut_file_is_not_ok_before_its_end() -> None:
    for version in ("3.0.1", "3.2.1", "4.0.0"):
        source = capture(version, "repeat")
        end = source.content.index(b"Finished")
        for size in range(0, end, 37):
            for one in read_or_none(ior.FORMAT, Source("x", source.content[:size])) or ():
                assert one.status is not RunStatus.OK


def test_values_of_3_0() -> None:
    measured = only(capture("3.0.1", "repeat"))
    lines = (FOLDER / "3.0.1" / "repeat.out").read_text().split("\n")
    rows = [line.split() for line in lines if re.match(r"(write|read) +[0-9]+ ", line)]
    assert len(rows) == 6
    for access in ("write", "read"):
        expected = [float(row[1]) * MIB for row in rows if row[0] == access]
        assert printed(measured, f"{access}_bandwidth") == pytest.approx(expected)
    assert measured.tool_version == "3.0.1"
    assert measured.host == "vm"
    assert measured.began == moment(lines[2].removeprefix("Began: "))
    assert measured.ended is not None
    assert printed(measured, "write_iops") == []  # it prints none
    assert measured.asked == {
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
    assert measured.told["path"] == "/tmp/x/f"


def test_the_same_run_is_asked_the_same_in_every_version() -> None:
    for case in ("repeat", "text-shared", "random", "odd-sizes"):
        asked = [
            only(Source(path.name, path.read_bytes())).asked
            for _, name, path in CAPTURES
            if name == case
        ]
        assert len(asked) >= 3
        assert all(one == asked[0] for one in asked), case


def test_json_is_asked_the_same_as_text() -> None:
    for text, json in (
        (capture("3.2.1", "wear-out"), capture("3.2.1", "wear-out-json")),
        (capture("4.0.0", "wear-out"), capture("4.1.0+dev", "wear-out-json")),
    ):
        assert only(text).asked == only(json).asked
        assert only(text).asked["stonewall_s"] == 1
        assert only(text).asked["wear_out"] is True


def test_sizes_that_text_rounds_are_taken_from_where_they_are_exact() -> None:
    for version in ("3.0.1", "3.2.1", "4.0.0", "4.1.0+dev"):
        source = capture(version, "odd-sizes")
        assert re.search(r"blocksize +[:=] 5\.30 MiB", source.text)
        measured = only(source)
        assert measured.asked["block_size_bytes"] == 5_555_000
        assert measured.asked["transfer_size_bytes"] == 1000
        assert measured.asked["segments"] == 2
        assert measured.phases[0].moved_bytes == 3 * 2 * 5_555_000


def test_options_of_the_command_line() -> None:
    direct = {version: only(capture(version, "direct")) for version in ("3.2.1", "4.0.0")}
    assert {one.asked["direct"] for one in direct.values()} == {True}
    shared = only(capture("4.0.0", "text-shared")).asked
    assert shared["flush"] is True
    assert shared["task_offset"] == 1
    assert shared["file_per_process"] is False
    assert only(capture("4.0.0", "random")).asked["ordering"] == "random"
    for version in ("3.0.1", "4.0.0"):
        collective = only(capture(version, "mpiio")).asked
        assert collective["collective"] is True
        assert collective["api"] == "MPIIO"


def test_of_a_script_only_what_is_printed_is_known() -> None:
    text = ior.read(capture("4.0.0", "script"))
    assert not {"flush", "direct"} & set(text[0].asked)  # text does not say, and no line does
    json = ior.read(capture("4.1.0+dev", "json-script"))
    assert [one.asked["flush"] for one in json] == [True, True]
    assert "direct" not in json[0].asked


def test_tests_of_a_script_are_results_of_their_own() -> None:
    first, second = ior.read(capture("3.2.1", "script"))
    assert (first.name, second.name) == (None, "test 1")
    assert (first.asked["file_per_process"], second.asked["file_per_process"]) == (False, True)
    assert (first.asked["block_size_bytes"], second.asked["block_size_bytes"]) == (MIB, 2 * MIB)
    assert first.ended is None  # nothing says when
    assert second.ended is not None
    for one in (first, second):
        assert {phase.repetition for phase in one.phases} == {0, 1}


def test_runs_one_after_another_are_results_of_their_own() -> None:
    first, second = ior.read(capture("3.0.1", "twice"))
    assert (first.name, second.name) == (None, "run 2")
    assert (first.asked["tasks"], second.asked["tasks"]) == (1, 2)


def test_log_of_many_runs() -> None:
    parts = [capture("4.0.0", "repeat"), capture("3.0.1", "terminated"), capture("4.0.0", "full")]
    log = Source("log", b"".join(one.content for one in [*parts, parts[0]]))
    found = ior.read(log)
    assert [one.name for one in found] == [None, "run 2", "run 3", "run 4"]
    assert [one.status.value for one in found] == [OK, PARTIAL, FAILED, OK]
    alone = [only(one) for one in parts]
    for one, two in zip(found, [*alone, alone[0]], strict=True):
        assert [s.value for s in one.samples] == [s.value for s in two.samples]
        assert one.problem == two.problem


def test_operations_per_second_are_those_of_the_repetition() -> None:
    measured = only(capture("4.0.0", "random"))
    row = next(line for line in capture("4.0.0", "random").text.split("\n") if line[:6] == "write ")
    words = row.split()
    assert printed(measured, "write_iops") == [float(words[2])]
    # Transfers over the time of writing alone, not over all of it as in the summary.
    assert float(words[2]) == pytest.approx(4 * 256 / float(words[7]), rel=0.001)


def test_deadline_moved_what_the_warning_says() -> None:
    for version in ("3.0.1", "3.2.1", "4.0.0"):
        source = capture(version, "deadline")
        found = re.search(r"Using actual aggregate bytes moved = ([0-9]+)", source.text)
        assert found is not None
        (phase,) = only(source).phases
        assert phase.moved_bytes == int(found.group(1))
        assert only(source).asked["stonewall_s"] == 1


@pytest.mark.parametrize("version", ["3.0.1", "3.1.0", "3.2.1", "4.0.0"])
def test_full_file_system_over_mpi_io_is_no_bandwidth(version: str) -> None:
    """IOR ends well and prints the bandwidth of bytes that MPI-IO had dropped."""
    assert (FOLDER / version / "full-mpiio.rc").read_text().strip() == "0"
    assert "Finished" in capture(version, "full-mpiio").text
    measured = only(capture(version, "full-mpiio"))
    assert "its files hold 6291456" in (measured.problem or "")
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
        ("4.1.0+dev", "corrupt", "data read is not what was written"),
        ("3.2.1", "corrupt", "data read is not what was written"),
        ("3.2.1", "csv", "no result as CSV"),
        ("3.3.0", "dry-run", "a dry run does no I/O"),
        ("4.0.0", "dry-run", "IOR did not finish: 11/21/2026"),
        ("4.0.0", "dummy", "the API DUMMY does no I/O"),
        ("3.0.1", "terminated", "IOR did not finish; 20 of 1000 writes were printed"),
        ("4.0.0", "csv", "does not say whether the run came to its end"),
    ],
)
def test_failure_is_explained(version: str, case: str, words: str) -> None:
    assert words in (only(capture(version, case)).problem or "")


def test_stale_reason_of_ior_3_is_left_out() -> None:
    assert "errno" in capture("3.0.1", "bad-size").text
    assert "errno" not in (only(capture("3.0.1", "bad-size")).problem or "")


def test_csv_of_3_3_is_named() -> None:
    with pytest.raises(DataError, match="no result as CSV"):
        ior.read(capture("3.3.0", "csv"))


def test_option_that_3_2_dropped_is_said() -> None:
    measured = only(capture("3.2.1", "bad-option"))
    assert "--nosuch" in measured.warnings[0]
    assert measured.asked["transfer_size_bytes"] == MIB
    assert not {"direct", "flush"} & set(measured.asked)  # the command line is not what ran


def test_csv_tells_tasks_and_sizes_alone() -> None:
    measured = only(capture("4.0.0", "csv"))
    assert measured.asked == {"tasks": 2}
    assert [phase.transfer_size_bytes for phase in measured.phases] == [MIB] * 4
    assert [phase.block_size_bytes for phase in measured.phases] == [128 * MIB] * 4
    assert [phase.moved_bytes for phase in measured.phases] == [None] * 4
    assert measured.began is None


def test_csv_row_whose_figures_do_not_fit_is_not_believed() -> None:
    source = capture("4.0.0", "csv")
    row = source.text.split("\n")[1].split(",")
    for column in (1, 2, 7, 9):
        words = [*row]
        words[column] = str(round(float(words[column]) * 1.3, 4))
        changed = source.text.replace(",".join(row), ",".join(words))
        measured = only(Source("x", changed.encode()))
        assert not measured.samples[0].believed


def test_summary_of_one_repetition_is_that_repetition() -> None:
    for version in ("3.0.1", "4.0.0"):
        source = capture(version, "summary-only")
        measured = only(source)
        row = next(line.split() for line in source.text.split("\n") if line.startswith("write "))
        assert printed(measured, "write_bandwidth") == [pytest.approx(float(row[1]) * MIB)]
        assert measured.phases[0].moved_bytes == 16 * MIB
        assert measured.asked["tasks"] == 2


def test_summary_of_several_repetitions_is_not_one() -> None:
    measured = only(capture("4.1.0+dev", "summary-of-three"))
    assert {sample.statistic for sample in measured.samples} == {"max", "min", "mean"}
    assert {sample.repetition for sample in measured.samples} == {None}
    assert measured.status is RunStatus.PARTIAL


def test_summary_that_the_repetitions_do_not_bear_out_is_said() -> None:
    source = capture("4.0.0", "repeat")
    assert only(source).warnings == ()
    head, mark, tail = source.text.partition("Summary of all tests:")
    row = next(line for line in tail.split("\n") if line.startswith("write "))
    other = row.replace(row.split()[1], "99999.99", 1)
    measured = only(Source("x", (head + mark + tail.replace(row, other)).encode()))
    assert "says max 99999.99" in " ".join(measured.warnings).replace("100000", "99999.99")
    assert measured.status is RunStatus.OK


def test_headless_output_of_a_summary_file() -> None:
    """``summaryFile=`` of 3.2 has no version; the header went elsewhere."""
    source = capture("3.2.1", "json-file")
    assert source.text.startswith(("Writing output", "IOR-3.2.1"))
    start = source.text.index("{")
    alone = Source("result.json", source.text[start:].encode())
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


def _texts() -> list[Source]:
    return [
        capture(version, case)
        for version, case in (("3.0.1", "repeat"), ("3.2.1", "repeat"), ("4.0.0", "random"))
    ]


def test_decimal_commas_are_not_read_as_other_numbers() -> None:
    for source in [*_texts(), capture("4.0.0", "json-repeat"), capture("4.0.0", "csv")]:
        whole = values(ior.read(source))
        changed = re.sub(r"([0-9])\.([0-9])", r"\1,\2", source.text)
        for key, value in values(
            read_or_none(ior.FORMAT, Source("x", changed.encode())) or ()
        ).items():
            assert value == whole[key]  # a figure without decimals may stand


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_lines_of_ranks_within_one_another(data: st.DataObject) -> None:
    """Another rank's text is put anywhere, in the middle of a line too."""
    source = data.draw(st.sampled_from([*_texts(), capture("4.0.0", "json-repeat")]))
    whole = values(ior.read(source))
    content = source.text
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, len(content)))
        noise = data.draw(
            st.sampled_from(
                [
                    "task 1 writing /tmp/x/f.00000001\n",
                    "Test 0: Iter=0, Task=1, Time=0.000366, write start\n",
                    "WARNING: task 1, partial write(), 4096 of 8192 bytes at offset 0\n",
                    "[1] a line of rank 1\n",
                    "\0\0\0",
                    "\xff",
                ]
            )
        )
        content = content[:place] + noise + content[place:]
    mixed = Source("x", content.encode("latin-1", "replace"))
    for key, value in values(read_or_none(ior.FORMAT, mixed) or ()).items():
        # A noise that ends within a number leaves two halves: neither may pass as the whole.
        assert value == whole.get(key), (key, value)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_changed_digit_shows_or_hides_in_rounding(data: st.DataObject) -> None:
    source = data.draw(
        st.sampled_from([*_texts(), capture("4.0.0", "csv"), capture("4.1.0+dev", "json-script")])
    )
    whole = values(ior.read(source))
    digits = [match.start() for match in re.finditer(r"[0-9]", source.text)]
    place = data.draw(st.sampled_from(digits))
    digit = data.draw(st.sampled_from("0123456789"))
    changed = source.text[:place] + digit + source.text[place + 1 :]
    for key, value in values(read_or_none(ior.FORMAT, Source("x", changed.encode())) or ()).items():
        if key in whole:
            assert value == pytest.approx(whole[key], rel=0.025)


def test_two_jobs_in_one_file_at_once() -> None:
    """Their lines mixed: a row that lands in the other's table is not believed there."""
    one, two = capture("4.0.0", "repeat"), capture("4.0.0", "random")
    right = set(values(ior.read(one)).values()) | set(values(ior.read(two)).values())
    for seed in range(40):
        chance = random.Random(seed)
        queues = [one.text.splitlines(keepends=True), two.text.splitlines(keepends=True)]
        mixed: list[str] = []
        while any(queues):
            queue = chance.choice([queue for queue in queues if queue])
            mixed += [queue.pop(0) for _ in range(min(len(queue), chance.randrange(1, 6)))]
        found = read_or_none(ior.FORMAT, Source("x", "".join(mixed).encode())) or ()
        assert set(values(found).values()) <= right


def test_row_that_was_printed_twice_is_not_believed() -> None:
    source = capture("4.0.0", "repeat")
    row = next(line for line in source.text.split("\n") if line.startswith("write "))
    measured = only(Source("x", source.text.replace(row, f"{row}\n{row}").encode()))
    assert measured.status is RunStatus.PARTIAL
    reasons = [one.reason for one in measured.samples if one.metric == "write_bandwidth"]
    assert reasons[:2] == ["repetition 0 was printed 2 times"] * 2
    assert reasons[2:] == [None, None]


def test_rubbish() -> None:
    check_rubbish(ior.FORMAT)


def test_what_is_not_iors_is_a_data_error() -> None:
    with pytest.raises(DataError) as caught:
        ior.read(Source("x", b"hello\nworld\n"))
    assert caught.value.line == 1


def test_more_parts_than_a_file_may_have_are_refused() -> None:
    head = b"IOR-4.0.0: MPI Coordinated Test of Parallel I/O\nTestID : 0\n"
    row = b"write 1 1 1 1 1 1 1 1 1 0\n"
    with pytest.raises(DataError, match=str(PARTS_MAX)):
        ior.read(Source("x", head + row * (PARTS_MAX + 1)))
    parsed = ior.parse(RawOutput("x", (), head + row * (PARTS_MAX + 1)))
    assert parsed.status is RunStatus.FAILED


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b" " * 200 + b"\n",
        b"ior: " * 40 + b"\n",
        b"A" * 300 + b"\n",
        b"[[[[\n",
        b'"\n',
        b"{\n",
    ],
)
def test_lines_of_nothing_end(line: bytes) -> None:
    head = b"IOR-4.0.0: MPI Coordinated Test of Parallel I/O\n"
    content = head + line * (400_000 // len(line)) + line.rstrip(b"\n") * 2000
    (measured,) = ior.read(Source("x", content))
    assert measured.status is RunStatus.FAILED


def test_environment_of_the_first_task_is_passed_over() -> None:
    loop = "STARTING ENVIRON LOOP\nFinished: x\nTestID : 7\nWARNING: x\nENDING ENVIRON LOOP\n"
    head = "IOR-4.0.0: MPI Coordinated Test of Parallel I/O\n"
    (run,) = runs_of(head + loop)
    assert (run.finished, run.tests, run.early.warnings) == (None, [], [])


REAL_FOLDER = REAL_DATA / "lustre-2.17" / "ior"
REAL_STATUSES = {
    "bad_option": "failed",
    "bad_size": "failed",
    "csv": "partial",
    "csv_stdout": "partial",
    "direct": "ok",
    "enospc": "failed",
    "enospc_fpp_json": "failed",
    "json": "ok",
    "json_file": "ok",
    "kill_int": "failed",
    "kill_mpirun": "failed",
    "kill_rank9": "failed",
    "random": "ok",
    "read_missing": "failed",
    "read_short": "ok failed",
    "script_file": "ok ok",
    "stonewall": "ok",
    "stonewall_json": "ok",
    "stonewall_min": "ok",
    "stonewall_status": "failed",
    "text_fpp": "ok",
    "text_read_only": "ok",
    "text_shared": "ok",
    "text_write_only": "ok",
    "unwritable": "failed",
    "unwritable_nobody": "failed",
    "verify": "ok",
    "verify_corrupt": "ok failed",
    "version": "failed",
    "vv": "ok",
}


def real_sources() -> list[Source]:
    return sources(
        path for path in sorted(REAL_FOLDER.glob("*.out")) if not path.name.startswith("mdtest")
    )


def test_real_files_import_with_their_status() -> None:
    found = {
        Path(source.name).stem: " ".join(one.status.value for one in ior.read(source))
        for source in real_sources()
    }
    assert found == REAL_STATUSES
    assert all(recognised(source) == ["ior"] for source in real_sources())


def test_real_files_of_mdtest_are_not_claimed() -> None:
    for source in sources(sorted(REAL_FOLDER.glob("mdtest*.out"))):
        assert not ior.FORMAT.recognises(source)


def test_real_files_survive_damage() -> None:
    for source in real_sources():
        check_cut(ior.FORMAT, source, seed=1)
        check_line_ends(ior.FORMAT, source)
        check_changed(ior.FORMAT, source, seed=2)


def test_real_values() -> None:
    by_name = {Path(source.name).stem: source for source in real_sources()}
    text = only(by_name["text_fpp"])
    assert printed(text, "write_bandwidth") == [pytest.approx(157.11 * MIB)]
    assert printed(text, "read_iops") == [3460.91]
    assert text.began == datetime(2026, 11, 20, 16, 20, 9)
    assert (text.host, text.told["path"]) == ("lustre1", "/scratch/ior/f")
    assert text.told["file_system_used_of_size"] == 0.256
    assert (text.asked["nodes"], text.asked["tasks"]) == (1, 2)
    random_4k = only(by_name["random"])
    assert printed(random_4k, "write_iops") == [7392.0]
    assert random_4k.asked["transfer_size_bytes"] == 4096
    deadline = only(by_name["stonewall"])
    assert deadline.phases[0].moved_bytes == 586809344
    assert deadline.asked["stonewall_s"] == 6
    least = only(by_name["stonewall_min"])
    assert least.asked["minimum_duration_s"] == 5
    assert [phase.moved_bytes for phase in least.phases] == [305659904, 244449280]
    csv = only(by_name["csv_stdout"])
    assert printed(csv, "write_bandwidth") == [
        pytest.approx(104.1591 * MIB),
        pytest.approx(87.3748 * MIB),
    ]


@pytest.mark.parametrize(
    ("version", "case"),
    [("3.0.1", "time-limit"), ("4.0.0", "time-limit"), ("4.0.0", "time-limit-json")],
)
def test_fewer_repetitions_within_a_limit_of_time_are_all_there_are(
    version: str, case: str
) -> None:
    """``-T`` begins no further repetition after so many minutes; the summary is not a number."""
    source = capture(version, case)
    assert "-nan" in source.text
    measured = only(source)
    assert measured.asked["maximum_duration_s"] == 60
    assert measured.asked["repetitions"] == 9
    assert len(printed(measured, "write_bandwidth")) == 5
    without = source.text.replace(" -T 1 ", " ", 1).replace('Duration": 1', 'Duration": 0', 1)
    assert only(Source("x", without.encode())).status is not RunStatus.OK

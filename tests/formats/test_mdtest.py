"""mdtest: the rates of every version, which of them can be believed, and damaged outputs."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.of_formats import read_or_none, samples, source, values
from tests.formats.recorded import FIXTURES, REAL_DATA
from tests.support.each import for_each
from tests.support.narrow import present

from trimtab.base.error import DataError, UsageError, code_of
from trimtab.base.run import RunStatus
from trimtab.formats.mdtest import FORMAT, command
from trimtab.formats.mdtest_output import options_of, parameters
from trimtab.formats.measurement import Measurement, OutputFile

KEPT = sorted((FIXTURES / "mdtest").glob("*/*.out"))
REAL = sorted((REAL_DATA / "lustre-2.17/ior").glob("mdtest_*.out"))
VERSIONS = ["1.9.3", "1.9.3-ior-3.2.0", "3.3.0", "4.0.0", "4.1.0+dev"]
each = for_each("path", KEPT + REAL, ids=lambda path: f"{path.parent.name}-{path.stem}")
each_version = for_each("folder", VERSIONS)


def read(folder: str, name: str) -> Measurement:
    (one,) = FORMAT.read(source(FIXTURES / "mdtest" / folder / f"{name}.out"))
    return one


FILES = (FIXTURES / "mdtest/4.1.0+dev/files.out").read_text()


def of_text(text: str) -> Measurement:
    (one,) = FORMAT.read(OutputFile("x", text.encode()))
    return one


def with_instead(old: str, new: str, text: str = FILES) -> Measurement:
    """Return what is read of an output in which words were replaced."""
    assert old in text
    return of_text(text.replace(old, new))


@each
def test_every_value_stands_in_its_line(path: Path) -> None:
    lines = path.read_text().split("\n")
    for one in FORMAT.read(source(path)):
        tasks = one.requested["tasks"]
        assert isinstance(tasks, int)
        for sample in one.samples:
            words = re.findall(r"[0-9]+\.[0-9]{3}", lines[present(sample.line) - 1])
            printed = [float(word) for word in words]
            assert sample.value in [*printed, *(word * tasks for word in printed)]


@pytest.mark.parametrize(
    "content",
    [b"", b"mdtest", b"mdtest- was launched", b"\0" * 99, b"SUMMARY rate: (of 1 iterations)\n"],
)
def test_what_was_not_launched_is_no_result(content: bytes) -> None:
    with pytest.raises(DataError):
        FORMAT.read(OutputFile("x", content))


def test_a_repetition_of_4() -> None:
    one = read("4.1.0+dev", "files")
    assert (one.status, one.layer, one.tool_version) == (RunStatus.OK, "client", "4.1.0+dev")
    assert one.began == datetime(2026, 11, 21, 0, 24, 5)
    assert one.ended == datetime(2026, 11, 21, 0, 24, 6)
    assert one.requested == {
        "tasks": 3,
        "nodes": 1,
        "items_per_task": 100,
        "files_only": True,
        "directories_only": False,
        "unique_directories": False,
        "depth": 0,
        "write_bytes": 0,
        "read_bytes": 0,
    }
    assert one.reported == {"path": "/tmp/m/md", "repetitions": 1}
    assert [(s.metric, s.value, s.repetition, s.line) for s in one.samples] == [
        ("file_creation_rate", 4409.564, 0, 14),
        ("file_stat_rate", 696342.667, 0, 15),
        ("file_read_rate", 714126.674, 0, 16),
        ("file_removal_rate", 354948.152, 0, 17),
        ("tree_creation_rate", 3300.003, 0, 18),
        ("tree_removal_rate", 2029.175, 0, 19),
    ]
    assert all(sample.believed for sample in one.samples)


def test_several_repetitions_without_their_rates() -> None:
    """Real: three repetitions are known by maximum, minimum and mean alone."""
    (one,) = FORMAT.read(source(collected("mdtest_text.out")))
    assert one.status is RunStatus.OK
    assert not [sample for sample in one.samples if sample.statistic == "total"]
    found = {s.statistic: s.value for s in one.samples if s.metric == "directory_rename_rate"}
    assert found == {"max": 616.133, "min": 289.784, "mean": 446.226, "stddev": 163.591}
    assert "repetitions" in [missing.what for missing in one.missing]


def collected(name: str) -> Path:
    """Return a file of the collection, or skip the test."""
    if not REAL:
        pytest.skip(f"no recorded data under {REAL_DATA}")
    return REAL_DATA / "lustre-2.17/ior" / name


def test_a_phase_that_was_not_asked_for_is_no_rate_of_0() -> None:
    one = read("4.1.0+dev", "stonewall")
    assert "file_read_rate" not in {sample.metric for sample in one.samples}
    assert one.requested["stonewall_s"] == 1
    assert one.requested["phases"] == ["create", "stat", "remove"]
    assert one.reported["items_done_per_task"] == [22667]
    assert rate(one, "file_creation_rate") == 61535.462


@pytest.mark.parametrize("folder", ["1.9.3", "1.9.3-ior-3.2.0"])
def test_the_fastest_task_is_not_believed(folder: str) -> None:
    one = read(folder, "files")
    (created,) = samples(one, "file_creation_rate")
    assert created.value is not None
    assert code_of(created.reason) == "fastest-task-view"
    assert one.status is RunStatus.PARTIAL  # the trees are task 0's and stand


def test_a_repetition_of_3_3_is_the_slowest_task() -> None:
    (created,) = samples(read("3.3.0", "files"), "file_creation_rate")
    assert (created.value, created.believed) == (172456.610, True)  # Min; Max says 422525.094


def test_3_3_takes_its_mean_over_tasks() -> None:
    one = read("3.3.0", "directories")
    of = {key: samples(one, "directory_creation_rate", key)[0] for key in ("min", "max", "mean")}
    assert {key: sample.believed for key, sample in of.items()} == {
        **{"min": True, "max": False, "mean": False}
    }
    assert samples(one, "tree_creation_rate", "mean")[0].believed  # of task 0 alone


@each_version
def test_repetitions_of_verbose(folder: str) -> None:
    """The rate of a repetition is of all items, though 4.x prints that of one task's."""
    text = (FIXTURES / "mdtest" / folder / "verbose.out").read_text()
    durations = [float(x) for x in re.findall(r"File creation +: +([0-9.]+) sec", text)]
    created = samples(read(folder, "verbose"), "file_creation_rate")
    assert [(sample.repetition, sample.believed) for sample in created] == [
        *((0, True), (1, True), (2, True))
    ]
    for sample, duration in zip(created, durations, strict=True):
        assert sample.value == pytest.approx(4000 / duration, rel=0.0006 / duration)


def test_task_0_is_not_believed_where_the_summary_says_otherwise() -> None:
    """Phases of a millisecond, three tasks on two cores: task 0 sees three times the rate."""
    one = read("4.1.0+dev", "verbose-shared")
    doubted = [s for s in one.samples if s.statistic == "total" and not s.believed]
    assert doubted
    assert {code_of(sample.reason) for sample in doubted} == {"clocks-disagree"}
    assert all(sample.believed for sample in samples(one, "file_stat_rate", "mean"))


@each_version
def test_one_task_is_believed_in_every_version(folder: str) -> None:
    one = read(folder, "one-task")
    assert all(sample.believed for sample in one.samples)
    metrics = {sample.metric for sample in one.samples}
    assert len(metrics) == (10 if folder.startswith("4") else 9)
    for metric in metrics:
        assert len(samples(one, metric)) == 3
        (mean,) = samples(one, metric, "mean")
        seen = [sample.value for sample in samples(one, metric)]
        assert sum(filter(None, seen)) / 3 == pytest.approx(mean.value, abs=0.002)


def test_several_numbers_of_tasks_are_several_results() -> None:
    found = FORMAT.read(source(FIXTURES / "mdtest/4.1.0+dev/range.out"))
    assert [
        (one.name, one.requested["tasks"], one.status, rate(one, "file_creation_rate"))
        for one in found
    ] == [
        (None, 1, RunStatus.OK, 4546.277),
        ("run 2", 2, RunStatus.OK, 4589.255),
        ("run 3", 3, RunStatus.OK, 3980.876),
    ]


def rate(one: Measurement, metric: str, statistic: str = "total") -> float | None:
    """Return the first of a metric."""
    return samples(one, metric, statistic)[0].value


@pytest.mark.parametrize(
    ("name", "rates"),
    [
        ("rank-statistics", {"max": 4797.923, "stddev": 354.915}),
        ("rate-and-time", {"max": 4486.686, "min": 4369.127}),
    ],
)
def test_columns_of_ranks_and_times_are_passed_over(name: str, rates: dict[str, float]) -> None:
    one = read("4.1.0+dev", name)
    assert {key: rate(one, "file_creation_rate", key) for key in rates} == rates


@pytest.mark.parametrize("name", ["no-directory", "not-created"])
def test_rates_of_operations_that_failed(name: str) -> None:
    """Since 3.4 mdtest warns, goes on, and prints how fast it failed."""
    one = read("4.1.0+dev", name)
    assert one.status is RunStatus.FAILED
    assert "operations-failed" in one.codes
    assert not [sample for sample in one.samples if sample.believed]


@pytest.mark.parametrize("folder", ["1.9.3", "4.1.0+dev"])
def test_terminated(folder: str) -> None:
    one = read(folder, "terminated")
    assert (one.status, one.codes) == (RunStatus.PARTIAL, ("output-unfinished",))
    assert {sample.metric for sample in one.samples} == {"tree_creation_rate"}


def test_times_are_not_taken_for_rates() -> None:
    one = read("4.1.0+dev", "time")
    assert (one.status, one.samples, one.codes[0]) == (RunStatus.FAILED, (), "times-not-rates")


@pytest.mark.parametrize("folder", ["3.3.0", "4.0.0", "4.1.0+dev"])
@pytest.mark.parametrize(
    "lost",
    [
        "SUMMARY time",
        "SUMMARY time|   Operation",
        "SUMMARY time|   Operation|   ---",
        "SUMMARY rate|   Operation",
        r"   (?:File|Tree) \D* [0-9]{2,}\.[0-9]{3}|SUMMARY time|   Operation",
    ],
)
def test_times_without_their_unit_are_not_taken_for_rates(folder: str, lost: str) -> None:
    """Every line that begins so is lost, and the first row of the rates."""
    path = FIXTURES / "mdtest" / folder / "rate-and-time.out"
    whole = values(FORMAT.read(source(path)))
    lines = path.read_text().splitlines(keepends=True)
    first = next(line for line in lines if line.startswith("   File creation"))
    kept = [line for line in lines if line is not first and not re.match(lost, line)]
    for without in (kept, [first, *kept]):
        one = of_text("".join(without))
        assert values((one,)).items() <= whole.items()
        assert one.status is not RunStatus.OK
        assert one.problem


@pytest.mark.parametrize("old", ["rate (in ops/sec):", "rate (in ops/sec)"])
@pytest.mark.parametrize("new", [":", "rate (in ms/op):", "(in ops/sec):"])
def test_a_table_that_does_not_say_its_unit_is_not_believed(old: str, new: str) -> None:
    one = with_instead(old, new)
    assert (values((one,)), one.status) == ({}, RunStatus.FAILED)


def test_a_second_row_that_differs_makes_both_disbelieved() -> None:
    row = next(line for line in FILES.splitlines(keepends=True) if "File stat" in line)
    assert samples(with_instead(row, row + row), "file_stat_rate")[0].believed
    other = row.replace("696342", "696343")
    for both in (row + other, other + row):
        one = with_instead(row, both)
        (sample,) = samples(one, "file_stat_rate")
        assert (code_of(sample.reason), one.status) == ("row-twice", RunStatus.PARTIAL)
        assert "15 and 16" in (sample.reason or "")
        assert samples(one, "file_read_rate")[0].believed


def test_trees_of_several_tasks_are_counted_as_one() -> None:
    (made,) = samples(read("4.1.0+dev", "tree"), "tree_creation_rate")
    assert code_of(made.reason) == "one-tree-counted"


def test_wrong_data_fails_the_run() -> None:
    error = "ERROR: verifying the data on read (3 errors)! Take the performance values with care!"
    one = with_instead("-- finished", f"\n{error}\n\n-- finished")
    assert one.status is RunStatus.FAILED
    assert "data-corrupt" in one.codes


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("441.694        218.540        330.117", "441.694        218.540        430.117"),
        ("441.694        218.540        330.117", "941.694        218.540        330.117"),
        ("330.117        157.794", "330.117         57.794"),
    ],
)
def test_columns_that_do_not_fit_together(old: str, new: str) -> None:
    one = with_instead(old, new, collected("mdtest_v.out").read_text())
    (mean,) = samples(one, "file_creation_rate", "mean")
    assert code_of(mean.reason) == "figures-disagree"


def test_a_rate_that_does_not_fit_its_duration() -> None:
    text = (FIXTURES / "mdtest/3.3.0/verbose.out").read_text()
    printed = re.findall(r"File creation +: +[0-9.]+ sec, +([0-9.]+) ops", text)[1]
    reason = samples(with_instead(printed, "9" + printed, text), "file_creation_rate")[1].reason
    assert code_of(reason) == "figures-disagree"
    assert "4000 items" in (reason or "")


@pytest.mark.parametrize("old", ["4409.564       4409.564", "4409.564          0.000"])
def test_decimal_commas_are_no_numbers(old: str) -> None:
    one = with_instead(old, old.replace(".", ","))
    assert (samples(one, "file_creation_rate"), one.status) == ([], RunStatus.PARTIAL)
    assert "phases-missing" in one.codes
    assert "File creation" in (one.problem or "")


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 200)), min_size=1, max_size=6))
def test_lines_of_another_task_in_between(places: list[tuple[int, int]]) -> None:
    """What another rank writes splits a line anywhere: a split row is no row, others stay."""
    content = (FIXTURES / "mdtest/4.1.0+dev/directories.out").read_bytes()
    whole = values(FORMAT.read(OutputFile("x", content)))
    lines = content.split(b"\n")
    for number, place in places:
        line = lines[number % len(lines)]
        lines[number % len(lines)] = line[:place] + b"V-2: Rank 1 2.000 1.0\n" + line[place:]
    found = read_or_none(FORMAT, OutputFile("x", b"\n".join(lines)))
    for key, value in values(found or ()).items():
        assert whole[key] == value


@pytest.mark.parametrize(
    "line",
    [b"V-1: " + b"File creation : " * 200, b"   File stat 1.000 " * 9, b"1 tasks, ", b"x" * 90],
)
def test_a_large_file_of_anything_is_read_and_gives_nothing(line: bytes) -> None:
    """Were it not linear in the size, this would take hours."""
    head = FILES.encode().partition(b"SUMMARY")[0]
    (one,) = FORMAT.read(OutputFile("x", head + (line + b"\n") * (4_000_000 // len(line))))
    assert (one.status, one.samples) == (RunStatus.FAILED, ())


def test_command() -> None:
    assert command(1000, 3, program="mdtest", directory="/scratch/x y") == (
        *("mdtest", "-v", "-n", "1000", "-i", "3", "-F", "-u", "-d", "/scratch/x y"),
    )
    with pytest.raises(UsageError):
        command(1000, 1, program="mdtest", directory="/scratch/a@b")


@pytest.mark.parametrize(
    ("line", "printed", "expected"),
    [
        ("mdtest '-n=5' '-Fu' '-W' '2'", "4.0.0", {"n": "5", "F": "", "u": "", "W": "2"}),
        ("m -FCn5 -R7 -B -u", "1.9.3", {**dict.fromkeys("FCBu", ""), "n": "5", "R": "7"}),
        ("m '-G' '-183' '-G=-1' '-B' '0'", "4.0.0", {"G": "-1", "B": "0"}),
        ("m '--random-seed' '3' '--posix.x'", "4.0.0", {"random-seed": "3", "posix.x": ""}),
        ("m '-d' '/a", "4.0.0", None),
    ],
)
def test_command_lines(line: str, printed: str, expected: dict[str, str] | None) -> None:
    assert options_of(line, printed) == expected


def test_parameters_of_a_command_line() -> None:
    options = options_of("m '-b' '3' '-z' '2' '-w' '4k' '-C' '--posix.odirect' '-F=0'", "4.0.0")
    found = present(parameters(present(options)))
    assert (found["branching_factor"], found["depth"], found["write_bytes"]) == (3, 2, 4096)
    assert (found["phases"], found["files_only"]) == (["create"], False)
    assert found["options"] == {"posix.odirect": ""}
    assert parameters({"z": "two"}) is None


def test_a_command_line_that_was_cut() -> None:
    one = with_instead("'/tmp/m/md'\n", "'/tmp/m\n")
    assert one.status is RunStatus.OK
    assert "parameters" in [missing.what for missing in one.missing]
    assert one.requested == {"tasks": 3, "nodes": 1, "items_per_task": 100}

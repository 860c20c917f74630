"""IOR: its command, what a probe reads, and every output damaged: it gives no wrong number."""

from __future__ import annotations

import math
import random
import re
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats import damage
from tests.formats.damage import sampled
from tests.formats.ior_captures import EVERY_VERSION, capture
from tests.formats.of_formats import read_or_none, values
from tests.formats.recorded import FIXTURES, Recording, fixture, kept, real, recording, require
from tests.support.codes import raises
from tests.support.each import for_each
from tests.support.narrow import present

from trimtab.base.error import DataError, UsageError, code_of
from trimtab.base.run import ProbeSpec, RawOutput, RunStatus
from trimtab.formats import ior, ior_line
from trimtab.formats.ior_line import runs_of
from trimtab.formats.measurement import Measurement, OutputFile
from trimtab.formats.phase import PhaseRequest

MIB = 2**20
SPEC = ProbeSpec("check", "ior", 4, MIB, 1024 * MIB, 5, 5.0)
REAL = real("lustre-2.17/ior", without="mdtest")
OWN = sorted((FIXTURES / "ior" / "4.1.0+dev").glob("*.out"))
PROBES = [recording(path) for path in OWN if path.stem not in EVERY_VERSION]
"""What a probe of ours may meet; ``test_ior_versions`` has what else is printed."""

each = for_each("recorded", [*kept("ior"), *REAL], ids=lambda one: one.name)
each_probe = for_each("recorded", [*PROBES, *REAL], ids=lambda one: one.name)


def test_command_of_a_write() -> None:
    argv = ior.command(PhaseRequest(SPEC, "write", "/usr/bin/ior", "/scratch/.trimtab-x/"))
    assert argv == (
        *("/usr/bin/ior", "-a", "POSIX", "-w", "-k", "-t", "1048576", "-s", "1"),
        *("-b", "1073741824", "-D", "5", "-O", "minTimeDuration=5", "-l", "random"),
        *("-F", "-e", "--posix.odirect", "-O", "summaryFormat=JSON"),
        *("-o", "/scratch/.trimtab-x/data"),
    )


def test_command_of_a_read_asks_for_what_is_there() -> None:
    spec = replace(SPEC, direct=False)
    argv = ior.command(PhaseRequest(spec, "read", "ior", "/scratch", 3 * MIB))
    assert argv[argv.index("-b") + 1] == str(3 * MIB)
    assert "-r" in argv
    assert "-C" in argv
    assert not {"-w", "-e", "--posix.odirect"} & set(argv)


@pytest.mark.parametrize(("duration_s", "seconds"), [(0.1, "1"), (5.0, "5"), (5.2, "6")])
def test_time_is_rounded_up_to_what_ior_can_count(duration_s: float, seconds: str) -> None:
    spec = replace(SPEC, duration_s=duration_s)
    argv = ior.command(PhaseRequest(spec, "write", "ior", "/scratch"))
    assert argv[argv.index("-D") + 1] == seconds
    assert f"minTimeDuration={seconds}" in argv


def test_shared_file_and_no_flush() -> None:
    spec = replace(SPEC, file_per_process=False, flush=False)
    assert not {"-F", "-e"} & set(ior.command(PhaseRequest(spec, "write", "ior", "/scratch")))


def test_directory_that_ior_would_split() -> None:
    with raises(UsageError, "directory-unusable"):
        ior.command(PhaseRequest(SPEC, "write", "ior", "/scratch/a@b"))


def test_text_of_a_whole_run() -> None:
    measured = ior.parse(fixture("ior", "text-fpp").output, repetition=3, ordinal=7)
    assert (measured.status, measured.problem) == (RunStatus.OK, None)
    assert (measured.tool_version, measured.moved_bytes("read")) == ("4.1.0+dev", 32 * MIB)
    write, read = measured.phases
    assert (write.access, write.repetition, write.moved_bytes) == ("write", 3, 32 * MIB)
    assert (write.bandwidth_bytes_per_s, write.elapsed_s) == (pytest.approx(157.11 * MIB), 0.203684)
    assert (write.tasks, write.transfer_size_bytes, write.block_size_bytes) == (2, MIB, 16 * MIB)
    assert write.direct is False
    assert (read.access, read.bandwidth_bytes_per_s) == ("read", pytest.approx(2450.61 * MIB))
    assert (read.moved_bytes, read.elapsed_s) == (32 * MIB, 0.013058)
    sample = measured.samples[0]
    assert (sample.metric, sample.repetition, sample.output) == ("write_bandwidth", 3, 7)
    assert sample.believed


def test_json_of_two_repetitions() -> None:
    measured = ior.parse(fixture("ior", "json").output)
    assert measured.status is RunStatus.OK
    found = [(phase.access, phase.repetition) for phase in measured.phases]
    assert found == [("write", 0), ("read", 0), ("write", 1), ("read", 1)]
    assert measured.phases[2].bandwidth_bytes_per_s == pytest.approx(144.4018 * MIB)
    assert {phase.moved_bytes for phase in measured.phases} == {16 * MIB}
    # What IOR does not print is said.
    assert {missing.what for missing in measured.missing} == {"timeline", "latency distribution"}
    assert measured.timelines == measured.histograms == ()


def test_fixed_time_run_moved_more_than_its_file_holds() -> None:
    measured = ior.parse(fixture("ior", "write-direct").output)
    (phase,) = measured.phases
    assert (measured.status, phase.block_size_bytes) == (RunStatus.OK, 32 * MIB)
    assert present(phase.moved_bytes) > 2 * 32 * MIB
    assert (phase.elapsed_s, phase.direct) == (pytest.approx(1.0, abs=0.1), True)


@each
def test_every_number_is_on_its_line(recorded: Recording) -> None:
    lines = recorded.text.split("\n")
    for sample in ior.parse(recorded.output).samples:
        words = re.findall(r"[0-9]+(?:\.[0-9]+)?", lines[present(sample.line) - 1])
        assert f"{present(sample.value) / MIB:.10g}" in {f"{float(word):.10g}" for word in words}


@each
def test_mean_is_the_one_that_ior_computed(recorded: Recording) -> None:
    """IOR's own summary is the slow, obvious twin of reading its results."""
    measured = ior.parse(recorded.output)
    text = recorded.text
    printed: dict[str, list[float]] = {"write": [], "read": []}
    for operation, mean in re.findall(r'"operation": "(\w+)".*?"bwMeanMIB": ([0-9.]+)', text, re.S):
        printed[operation].append(float(mean))
    for section in text.split("Summary of all tests:")[1:]:
        for row in re.findall(r"^(write|read)\s+(.*)$", section, re.M):
            printed[row[0]].append(float(row[1].split()[2]))
    for access, means in printed.items():
        rows = re.findall(rf"^{access} +([0-9.]+) .*$", text.partition("Summary of all")[0], re.M)
        rounded = any("." not in row for row in rows)  # text has no decimals from 3600 on
        values = [
            phase.bandwidth_bytes_per_s or 0.0
            for phase in measured.phases
            if phase.access == access
        ]
        if len(means) != 1 or not values or math.isnan(means[0]):
            continue  # several tests in one output, or no repetition in it
        assert statistics.mean(values) / MIB == pytest.approx(
            means[0], abs=0.6 if rounded else 0.006
        )


@each_probe
def test_status_follows_from_what_was_printed(recorded: Recording) -> None:
    measured = ior.parse(recorded.output)
    damage.check_sane(measured)
    ended = re.search(r'^"?Finished"?\s*:', recorded.text, re.M) is not None
    harmless = "ERROR" not in recorded.text and "Incorrect data" not in recorded.text
    one_test = recorded.text.count("StartTime") == 1
    fine = ended and harmless and one_test and recorded.output.exit_code == 0
    assert (measured.status is RunStatus.OK) == fine


def test_several_tests_are_not_mixed() -> None:
    (recorded,) = [r for r in require(REAL) if r.name == "script_file"]
    measured = ior.parse(recorded.output)
    assert len(measured.phases) == 8
    assert {phase.block_size_bytes for phase in measured.phases} == {4 * MIB, 8 * MIB}
    assert not any(sample.believed for sample in measured.samples)
    assert (measured.status, measured.codes) == (RunStatus.FAILED, ("several-tests",))
    assert "2 tests" in measured.problems[0]


def test_bandwidth_that_contradicts_bytes_and_time_is_not_believed() -> None:
    output = fixture("ior", "text-fpp").output
    measured = ior.parse(replace(output, stdout=output.stdout.replace(b"157.11", b"175.11", 1)))
    assert measured.samples[0].value == pytest.approx(175.11 * MIB)
    assert code_of(measured.samples[0].reason) == "figures-disagree"
    assert "175.11 MiB/s" in (measured.samples[0].reason or "")
    assert measured.samples[1].believed


@pytest.mark.parametrize("printed", [b"0.00  ", b"0.01  ", b"0.31  "])
def test_bandwidth_of_too_few_digits_is_not_believed(printed: bytes) -> None:
    output = fixture("ior", "text-fpp").output
    # 32 MiB in a day: IOR's text has two decimals whatever the size.
    slow = output.stdout.replace(b"157.11", printed, 1).replace(b"0.203684", b"102.40  ", 1)
    sample = ior.parse(replace(output, stdout=slow)).samples[0]
    assert not sample.believed
    assert code_of(sample.reason) == "too-few-digits" or printed != b"0.31  "


def test_lost_line_of_bytes_moved_is_noticed() -> None:
    output = fixture("ior", "write-direct").output
    lines = [line for line in output.stdout.split(b"\n") if b"Using actual" not in line]
    assert not ior.parse(replace(output, stdout=b"\n".join(lines))).samples[0].believed


def test_lost_repetition_is_noticed() -> None:
    output = fixture("ior", "stonewall-min").output
    lines = output.stdout.split(b"\n")
    gone = next(index for index, line in enumerate(lines) if line.startswith(b"write"))
    measured = ior.parse(replace(output, stdout=b"\n".join(lines[:gone] + lines[gone + 1 :])))
    assert measured.status is not RunStatus.OK
    assert "repetitions-missing" in measured.codes
    assert "1 of 2 writes" in (measured.problem or "")


def test_aborted_run_keeps_what_stands() -> None:
    output = fixture("ior", "json").output
    first = output.stdout.index(b'"access": "read"')
    measured = ior.parse(replace(output, stdout=output.stdout[:first], exit_code=1))
    assert measured.status is RunStatus.PARTIAL
    assert [phase.access for phase in measured.phases] == ["write"]
    assert measured.samples[0].believed


@sampled
@pytest.mark.calibration
@each_probe
def test_cut_anywhere_never_gives_another_number(recorded: Recording) -> None:
    end = recorded.output.stdout.rfind(b"Finished")
    for cut in damage.cuts(recorded.output.stdout, seed=len(recorded.output.stdout)):
        measured = damage.check_cut(ior.parse, recorded.output, cut)
        if end < 0 or len(cut) <= end:
            first_end = recorded.output.stdout.find(b"Finished")
            assert measured.status is not RunStatus.OK or len(cut) > first_end >= 0


@pytest.mark.calibration
@each_probe
def test_damage_never_raises_and_never_lies(recorded: Recording) -> None:
    for changed in damage.flips(recorded.output.stdout, seed=1, count=10):
        damage.check_changed(ior.parse, recorded.output, changed)


def test_truncated_and_killed_output_is_said() -> None:
    measured = ior.parse(replace(fixture("ior", "json").output, truncated=True, exit_code=None))
    assert (measured.status, measured.codes) == (RunStatus.PARTIAL, ("output-cut", "tool-exit"))
    assert "a signal" in measured.problems[1]


def only(source: OutputFile) -> Measurement:
    (measured,) = ior.read(source)
    return measured


def test_cut_file_is_not_ok_before_its_end() -> None:
    for version in ("3.0.1", "3.2.1", "4.0.0"):
        source = capture(version, "repeat")
        for size in range(0, source.content.index(b"Finished"), 37):
            for one in read_or_none(ior.FORMAT, OutputFile("x", source.content[:size])) or ():
                assert one.status is not RunStatus.OK


def test_csv_row_whose_figures_do_not_fit_is_not_believed() -> None:
    source = capture("4.0.0", "csv")
    row = source.text.split("\n")[1].split(",")
    for column in (1, 2, 7, 9):
        words = [*row]
        words[column] = str(round(float(words[column]) * 1.3, 4))
        changed = source.text.replace(",".join(row), ",".join(words))
        assert not only(OutputFile("x", changed.encode())).samples[0].believed


def _texts() -> list[OutputFile]:
    return [
        capture(version, case)
        for version, case in (("3.0.1", "repeat"), ("3.2.1", "repeat"), ("4.0.0", "random"))
    ]


def test_decimal_commas_are_not_read_as_other_numbers_and_said_to_be_what_is_wrong() -> None:
    for source in [*_texts(), capture("4.0.0", "json-repeat"), capture("4.0.0", "csv")]:
        (whole,) = ior.read(source)
        assert "decimal-commas" not in whole.codes
        changed = re.sub(r"([0-9])\.([0-9])", r"\1,\2", source.text)
        found = read_or_none(ior.FORMAT, OutputFile("x", changed.encode())) or ()
        # A figure without decimals may stand.
        assert values(found).items() <= values((whole,)).items()
        changed = re.sub(r"([0-9])\.([0-9]+)(?=[ ,\n])", r"\1,\2", source.text)
        (one,) = ior.read(OutputFile("x", changed.encode()))
        assert "decimal-commas" in one.codes
        assert "LC_ALL=C" in (one.problem or "")


NOISE = (
    "task 1 writing /tmp/x/f.00000001\n",
    "Test 0: Iter=0, Task=1, Time=0.000366, write start\n",
    "WARNING: task 1, partial write(), 4096 of 8192 bytes at offset 0\n",
    "[1] a line of rank 1\n",
    "\0\0\0",
    "\xff",
)
"""Text of another rank."""


@given(data=st.data())
def test_lines_of_ranks_within_one_another(data: st.DataObject) -> None:
    """Another rank's text is put anywhere, in the middle of a line too."""
    source = data.draw(st.sampled_from([*_texts(), capture("4.0.0", "json-repeat")]))
    whole, content = values(ior.read(source)), source.text
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, len(content)))
        content = content[:place] + data.draw(st.sampled_from(NOISE)) + content[place:]
    mixed = OutputFile("x", content.encode("latin-1", "replace"))
    for key, value in values(read_or_none(ior.FORMAT, mixed) or ()).items():
        # A noise that ends within a number leaves two halves: neither may pass as the whole.
        assert value == whole.get(key), (key, value)


@given(data=st.data())
def test_a_changed_digit_shows_or_hides_in_rounding(data: st.DataObject) -> None:
    more = [capture("4.0.0", "csv"), capture("4.1.0+dev", "json-script")]
    source = data.draw(st.sampled_from([*_texts(), *more]))
    whole = values(ior.read(source))
    digits = [match.start() for match in re.finditer(r"[0-9]", source.text)]
    place, digit = data.draw(st.sampled_from(digits)), data.draw(st.sampled_from("0123456789"))
    changed = OutputFile("x", f"{source.text[:place]}{digit}{source.text[place + 1 :]}".encode())
    for key, value in values(read_or_none(ior.FORMAT, changed) or ()).items():
        assert key not in whole or value == pytest.approx(whole[key], rel=0.025)


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
        found = read_or_none(ior.FORMAT, OutputFile("x", "".join(mixed).encode())) or ()
        assert set(values(found).values()) <= right


def test_row_that_was_printed_twice_is_not_believed() -> None:
    source = capture("4.0.0", "repeat")
    row = next(line for line in source.text.split("\n") if line.startswith("write "))
    measured = only(OutputFile("x", source.text.replace(row, f"{row}\n{row}").encode()))
    assert measured.status is RunStatus.PARTIAL
    reasons = [one.reason for one in measured.samples if one.metric == "write_bandwidth"]
    assert (reasons[:2], reasons[2:]) == (["repetition 0 was printed 2 times"] * 2, [None, None])


def test_what_is_not_iors_is_a_data_error() -> None:
    with pytest.raises(DataError) as caught:
        ior.read(OutputFile("x", b"hello\nworld\n"))
    assert caught.value.line == 1


def test_more_parts_than_a_file_may_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ior_line, "PARTS_MAX", 50)
    head = b"IOR-4.0.0: MPI Coordinated Test of Parallel I/O\nTestID : 0\n"
    row = b"write 1 1 1 1 1 1 1 1 1 0\n"
    assert ior.read(OutputFile("x", head + row * 45))
    for content in (head + row * 60, head * 60):
        with raises(DataError, "too-many-results") as caught:
            ior.read(OutputFile("x", content))
        assert caught.value.line is not None
        assert ior.parse(RawOutput("x", (), content)).status is RunStatus.FAILED


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
    (measured,) = ior.read(OutputFile("x", content))
    assert measured.status is RunStatus.FAILED


def test_environment_of_the_first_task_is_passed_over() -> None:
    loop = "STARTING ENVIRON LOOP\nFinished: x\nTestID : 7\nWARNING: x\nENDING ENVIRON LOOP\n"
    (run,) = runs_of("IOR-4.0.0: MPI Coordinated Test of Parallel I/O\n" + loop)
    assert (run.finished, run.tests, run.early.warnings) == (None, [], [])


def test_a_summary_beside_rows_without_a_beginning_is_not_taken_as_alone() -> None:
    """The line that begins the test and the headings are damaged; a property found it once."""
    (source,) = [one for one in _texts() if one.name == "repeat.out" and "IOR-3.0.1" in one.text]
    damaged = source.text.replace("Test 0 started", "[1] a line\nTest 0 sta").replace(
        "access    bw", "task 1 writing\ncess    bw"
    )
    assert damaged.count("task 1") == 1
    found = values(read_or_none(ior.FORMAT, OutputFile("x", damaged.encode())) or ())
    assert set(found) <= set(values(ior.read(source)))

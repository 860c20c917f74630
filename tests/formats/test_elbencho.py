"""elbencho: its CSV, JSON and table, of several versions, and the command of a probe."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.formats.of_formats import believed, figure, values
from tests.formats.recorded import FIXTURES, REAL_DATA, fixture
from tests.support.codes import raises
from tests.support.narrow import present

from trimtab.base.error import DataError, UsageError
from trimtab.base.run import ProbeSpec, RawOutput, RunStatus
from trimtab.base.snapshot import NotAvailable
from trimtab.formats.elbencho import FORMAT, PHASES, command, parse, version
from trimtab.formats.measurement import Measurement, OutputFile
from trimtab.formats.phase import PhaseRequest

MIB = 2**20
OUTPUTS = sorted((FIXTURES / "elbencho").glob("*/*.*"))
HEAD = (
    "ISO date,label,path type,paths,hosts,threads,operation,time ms [first],time ms [last],"
    "IOPS [last],MiB/s [first],MiB/s [last],MiB [last],version,command"
)


def recorded(name: str, of: str = "3.1-10") -> OutputFile:
    path = FIXTURES / "elbencho" / of / name
    return OutputFile(path.name, path.read_bytes())


def read(text: str) -> tuple[Measurement, ...]:
    source = OutputFile("elbencho.txt", text.encode())
    assert FORMAT.recognises(source)
    return FORMAT.read(source)


def csv(*rows: str, head: str = HEAD) -> str:
    return "".join(f"{row}\n" for row in (head, *rows))


def row(day: int, operation: str, mib_per_s: int, *, of: str = "3.0-30", ms: int = 10_000) -> str:
    moved = mib_per_s * ms // 1000
    return (
        f"2026-09-{day:02d}T02:00:00.500+0200,,dir,1,4,16,{operation},{ms - 500},{ms},"
        f"{mib_per_s},{mib_per_s + 90},{mib_per_s},{moved},{of},"
        '"elbencho" "--threads" "16" "--write" "--size" "4g" "/scratch/t" '
    )


def test_a_csv_of_nights_is_a_run_for_each_night() -> None:
    """Its command has quotes that are not doubled, which readers of CSV refuse."""
    measured = read(csv(*(row(n, *of) for n in (1, 2) for of in (("WRITE", 4900), ("READ", 8900)))))
    assert len(measured) == 2
    for number, one in enumerate(measured):
        assert one.began == datetime(2026, 9, 1 + number, 0, 0, 0, 500_000, tzinfo=UTC)
        assert (one.status, one.tool_version) == (RunStatus.OK, "3.0-30")
        for access, rate, line in (("write", 4900, 2), ("read", 8900, 3)):
            sample = figure(one, f"{access}_bandwidth")
            assert (sample.value, sample.line) == (rate * MIB, line + 2 * number)
        assert believed(one, "write_bandwidth", "first_done") == [4990 * MIB]
        assert (one.requested["tasks"], one.requested["nodes"]) == (64, 4)
        assert one.requested["file_size_bytes"] == 4 * 2**30


def test_the_case_of_thirty_days() -> None:
    path = REAL_DATA / "cases" / "elbencho-csv" / "elbencho.csv"
    if not path.is_file():
        pytest.skip("the collection of real outputs is not here")
    measured = FORMAT.read(OutputFile(path.name, path.read_bytes()))
    for metric, at in (("write_bandwidth", 4900), ("read_bandwidth", 8900)):
        rates = [rate / MIB for one in measured for rate in believed(one, metric)]
        assert len(rates) == len(measured) == 30
        assert all(at <= rate <= at + 2 for rate in rates)


def test_before_3_0_27_the_csv_has_the_end_of_a_phase() -> None:
    (old,) = read(csv(row(1, "WRITE", 500, of="3.0-25")))
    (new,) = read(csv(row(1, "WRITE", 500, of="3.0-27")))
    assert (present(new.began) - present(old.began)).total_seconds() == 10.0


@pytest.mark.parametrize("name", ["directory", "mixed", "nights"])
def test_csv_json_and_table_of_a_run_tell_the_same(name: str) -> None:
    """And are known as the same, so that a directory with all three holds each run once."""
    by_form = [FORMAT.read(recorded(f"{name}.{form}")) for form in ("csv", "json", "txt")]
    for one, other, third in zip(*by_form, strict=True):
        assert one.identity == other.identity == third.identity
        assert one.identity is not None
        for metric in ("write_bandwidth", "read_bandwidth"):
            rates = [believed(of, metric)[0] for of in (one, other, third)]
            assert rates[0] == rates[2] == rates[1] // MIB * MIB
        assert believed(one, "write_iops") == believed(other, "write_iops")
        assert other.requested == one.requested


def test_what_standard_output_has_is_read_without_time() -> None:
    (measured,) = FORMAT.read(recorded("directory.out"))
    assert (measured.began, measured.identity) == (None, None)
    assert believed(measured, "file_removal_rate") == [3549]
    assert believed(measured, "write_latency", "mean") == [pytest.approx(132e-6)]
    reasons = {sample.metric: sample.reason for sample in measured.samples if sample.reason}
    assert reasons == {
        "directory_creation_rate": "the phase took 1 ms",
        "file_stat_rate": "the phase took 2 ms",
    }


def test_the_table_of_1_to_2_has_other_names() -> None:
    (measured,) = FORMAT.read(recorded("mixed.txt", "2.2-5"))
    assert believed(measured, "read_bandwidth")
    assert measured.requested["mix"] == "RWMIX30"
    old = (
        "OPERATION RESULT TYPE        FIRST DONE  LAST DONE\n"
        "========= ================   ==========  =========\n"
        "WRITE     Elapsed ms       :      85656      99973\n"
        "          IOPS             :        660        655\n"
        "          Throughput MiB/s :      10572      10488\n"
        "          Total MiB        :     905632    1048576\n---\n"
    )
    oldest = old.replace("Throughput MiB/s", "MiB/s           ").replace("Elapsed ms", "time ms   ")
    for text in (old, oldest):
        assert believed(read(text)[0], "write_bandwidth") == [10488 * MIB]


def test_a_few_mib_a_second_are_taken_from_bytes_and_time() -> None:
    (one,) = read(csv(row(1, "WRITE", 13).replace(",130,", ",139,")))
    assert believed(one, "write_bandwidth") == [pytest.approx(13.9 * MIB)]
    (slow,) = FORMAT.read(recorded("slow.csv"))
    assert (believed(slow, "write_bandwidth"), believed(slow, "write_iops")) == ([], [510])
    assert slow.status is RunStatus.OK


def test_megabytes_of_base10_are_megabytes() -> None:
    (measured,) = FORMAT.read(recorded("base10.txt"))
    assert believed(measured, "write_bandwidth") == [161e6]


def test_a_rate_that_bytes_and_time_do_not_give_is_not_believed() -> None:
    (one,) = read(csv(row(1, "WRITE", 4900).replace(",4900,49000,", ",4900,19000,")))
    assert figure(one, "write_bandwidth").reason
    assert believed(one, "write_bandwidth") == []


def test_what_is_not_a_row_makes_the_file_partial_and_costs_nothing_else() -> None:
    good, bad = row(1, "WRITE", 4900), row(2, "WRITE", 4900).replace(",dir,", ",")
    (one,) = read(csv(good, bad))
    assert one.status is RunStatus.PARTIAL
    assert "line 3 has" in str(one.problem)
    (cut,) = read(csv(good) + row(2, "WRITE", 4900))
    assert cut.codes == ("line-cut",)


def test_progress_is_refused_as_such() -> None:
    source = recorded("progress.csv")
    assert FORMAT.recognises(source)
    with raises(DataError, "progress-only"):
        FORMAT.read(source)


def test_phases_of_object_stores_are_named() -> None:
    (one,) = read(csv(row(1, "WRITE", 4900), row(1, "HEADOBJ", 4900)))
    assert one.warnings == ("phases that are not read: HEADOBJ",)


SPEC = ProbeSpec("hourly", "elbencho", 2, MIB, 64 * MIB, 1, 0.6)


def request(spec: ProbeSpec = SPEC) -> PhaseRequest:
    return PhaseRequest(spec, "write", "elbencho", "/x/")


def test_the_command_is_the_recorded_one() -> None:
    assert command(request())[:-2] == fixture("elbencho", "probe-write").output.argv[:-2]
    assert command(request())[-2:] == ("/x/data.0", "/x/data.1")


def test_a_shared_file_holds_the_shares_of_all_threads() -> None:
    spec = ProbeSpec("hourly", "elbencho", 2, MIB, 64 * MIB, 1, 5.0, file_per_process=False)
    argv = command(request(spec))
    assert argv[argv.index("--size") + 1] == str(128 * MIB)
    assert argv[-2:] == ("/dev/null", "/x/data.0")


def test_a_write_through_memory_is_refused() -> None:
    buffered = ProbeSpec("hourly", "elbencho", 2, MIB, 64 * MIB, 1, 5.0, direct=False)
    with raises(UsageError, "flush-unsupported"):
        command(request(buffered))
    unflushed = ProbeSpec("h", "elbencho", 2, MIB, MIB, 1, 5.0, direct=False, flush=False)
    assert "--direct" not in command(request(unflushed))


def test_a_probe_takes_bytes_tasks_and_sizes_from_the_output() -> None:
    measured = parse(fixture("elbencho", "probe-write").output, repetition=3, ordinal=1)
    (phase,) = measured.phases
    assert (measured.status, phase.repetition, phase.tasks) == (RunStatus.OK, 3, 2)
    assert phase.direct is True
    assert (phase.transfer_size_bytes, phase.block_size_bytes) == (MIB, 64 * MIB)
    assert (phase.moved_bytes, phase.elapsed_s) == (4037017600, 2.004)
    assert figure(measured, "write_bandwidth").value == 2014095915
    assert [text for text in measured.warnings if "flush" in text]


def test_a_probe_without_files_fails_with_the_reason() -> None:
    measured = parse(fixture("elbencho", "absent").output)
    assert measured.status is RunStatus.FAILED
    assert "No such file" in str(measured.problem)
    assert parse(RawOutput("write 0", ("elbencho",), b"", b"", 0)).codes[0] == "nothing-printed"


def test_versions_before_the_json_has_parameters_are_too_old() -> None:
    def printing(text: str) -> str | NotAvailable:
        output = RawOutput("version", ("e",), f"elbencho\n * Version: {text}\n".encode())
        return version(lambda argv: output, "e")

    assert printing("3.1-10") == "3.1-10"
    for old in ("3.0-35", "2.2-5"):
        assert isinstance(printing(old), NotAvailable)
    assert PHASES.launchers == ("local",)


@pytest.mark.parametrize("path", OUTPUTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_no_recorded_number_is_wrong(path: Path) -> None:
    source = OutputFile(path.name, path.read_bytes())
    if path.name != "progress.csv" and FORMAT.recognises(source):
        assert all(value > 0 for value in values(FORMAT.read(source)).values())

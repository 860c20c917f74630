"""What the twin's benchmarks print: as the real ones do, and read back by their parsers."""

import json
import re
import shlex
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.codes import raises

from trimtab.base.error import UsageError
from trimtab.base.run import Access, ProbeSpec, RawOutput, RunStatus
from trimtab.base.units import MIB
from trimtab.formats import ioload
from trimtab.formats import ior as real
from trimtab.formats.measurement import OutputFile
from trimtab.formats.obdfilter_output import objects_left, read_detail, read_summary
from trimtab.formats.obdfilter_survey import SurveySpec, results
from trimtab.formats.phase import PhaseRequest
from trimtab.twin import load_command
from trimtab.twin.probe_output import SurveyCommand, SurveyResult, print_survey
from trimtab.twin.simulated_ior import (
    IorPhase,
    IorResult,
    PrintedSpace,
    parse_command,
    print_ior,
    sized,
)

FIXTURES = Path(__file__).parents[2] / "fixtures"
_FIGURE = re.compile(r"-?\d+(?:\.\d+)?")


def squeezed(text: str) -> list[str]:
    """Return the lines of a text with one # for each figure, and runs of blanks as one."""
    return [re.sub(r" +", " ", _FIGURE.sub("#", line)) for line in text.splitlines()]


# IOR


BEGAN = datetime(2026, 11, 21, 0, 42, 13)
SPACE = PrintedSpace(252.0 * 2**30, 0.079, 16.0 * MIB, 0.039)


def recorded_ior(name: str, version: str = "4.0.0") -> tuple[list[str], str]:
    """Return the command of a recorded output from ``ior`` on, and the output."""
    stem = FIXTURES / "ior" / version / name
    words = shlex.split(stem.with_suffix(".cmd").read_text())
    return words[words.index("ior") :], stem.with_suffix(".out").read_text()


def phases_of(text: str, command) -> tuple[IorPhase, ...]:
    """Return the phases of a recorded output by its rows, taken apart by hand."""
    phases = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] in (["write"], ["read"]) and len(words) == 11:
            latency, _, _, opened, moving, closed, total = map(float, words[3:10])
            phases.append(
                IorPhase(
                    words[0],  # type: ignore[arg-type]
                    command.aggregate_bytes,
                    total,
                    moving,
                    opened,
                    closed,
                    latency,
                )
            )
    return tuple(phases)


@pytest.mark.parametrize("name", ["direct", "text-shared", "odd-sizes", "repeat", "script"])
def test_the_text_has_the_lines_of_the_recorded_one(name):
    words, text = recorded_ior(name)
    if name == "script":
        with pytest.raises(UsageError):
            parse_command(words, tasks=2)
        return
    command = parse_command(words, tasks=3 if name == "odd-sizes" else 2)
    result = IorResult(BEGAN, BEGAN, phases_of(text, command), "vm", SPACE)
    ours = print_ior(command, result).decode()
    assert len(result.phases) > 0
    assert squeezed(ours) == squeezed(text)
    # Heads and columns to the letter: figures apart, which follow from rounded times here.
    for own, real_line in zip(ours.splitlines(), text.splitlines(), strict=True):
        if not real_line.startswith(("write", "read", "Began", "StartTime", "Finished")):
            assert own == real_line
        elif real_line.startswith(("write", "read")):
            assert [len(own), own.split()[-1]] == [len(real_line), real_line.split()[-1]]


@pytest.mark.parametrize("name", ["json-repeat"])
def test_the_json_has_the_lines_of_the_recorded_one(name):
    words, text = recorded_ior(name)
    command = parse_command(words, tasks=2)
    one = {"open_s": 0.0001, "close_s": 0.1, "latency_s": 0.01}
    phases = tuple(
        IorPhase(access, command.aggregate_bytes, 1.5, 1.25, **one)  # type: ignore[arg-type]
        for access in ("write", "read", "write", "read")
    )
    ours = print_ior(command, IorResult(BEGAN, BEGAN, phases, "vm", SPACE)).decode()
    assert squeezed(ours) == squeezed(text)


def test_a_deadline_warns_as_the_recorded_one():
    words, text = recorded_ior("deadline")
    command = parse_command(words, tasks=2)
    phase = IorPhase("write", 253689856, 1.03, 1.03, 0.000054, 0.004013, 0.000016)
    ours = print_ior(command, IorResult(BEGAN, BEGAN, (phase,), "vm", SPACE)).decode()
    assert squeezed(ours) == squeezed(text)
    assert [line for line in ours.splitlines() if "WARNING" in line] == [
        line for line in text.splitlines() if "WARNING" in line
    ]


TIMES = st.floats(min_value=1.0, max_value=3000.0)


@given(
    tasks=st.integers(1, 4096),
    transfers=st.integers(2**12, 2**16),
    times=st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=3),
    as_json=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_its_parser_gives_back_the_figures(tasks, transfers, times, as_json):
    words = ["ior", "-w", "-r", "-F", "-t", "1m", "-b", str(transfers * MIB), "-o", "/s/f"]
    words += ["-i", str(len(times))]
    words += ["-O", "summaryFormat=JSON"] if as_json else []
    command = parse_command(words, tasks=tasks, nodes=1)
    accesses: tuple[Access, ...] = ("write", "read")
    phases = tuple(
        IorPhase(access, command.aggregate_bytes, took, took * 0.99, 0.01 * took, 0.01 * took, 0.01)
        for pair in times
        for access, took in zip(accesses, pair, strict=True)
    )
    output = print_ior(command, IorResult(BEGAN, BEGAN + timedelta(hours=1), phases))
    (read,) = real.FORMAT.read(OutputFile("ior.out", output))
    for found in (read, real.parse(RawOutput("write 0", tuple(words), output))):
        got = [(one.access, one.moved_bytes, one.reason) for one in found.phases]
        assert got == [(one.access, one.moved_bytes, None) for one in phases]
        assert [one.repetition for one in found.phases] == [
            number for number in range(len(times)) for _ in "wr"
        ]
        for phase, one in zip(phases, found.phases, strict=True):
            assert one.bandwidth_bytes_per_s == pytest.approx(
                phase.bandwidth_bytes_per_s, rel=0, abs=0.5 * MIB + 1e-9
            )
            assert one.elapsed_s == pytest.approx(phase.elapsed_s, abs=0.0051)
        assert found.status is RunStatus.OK
    iops = [one for one in read.samples if one.metric.endswith("iops")]
    assert len(iops) == len(phases)
    assert all(one.believed for one in iops)


def test_every_command_of_a_probe_is_understood():
    spec = ProbeSpec("p", "ior", 8, MIB, 64 * MIB, 1, 10.0)
    for access in ("write", "read"):
        words = real.command(PhaseRequest(spec, access, "/usr/bin/ior", "/s/d"))
        command = parse_command(words, tasks=8, nodes=2)
        assert command.accesses == (access,)
        assert command.json
        assert command.direct
        assert (command.duration_s, command.minimum_duration_s, command.keep) == (10, 10, True)
        assert (command.transfer_size_bytes, command.block_size_bytes) == (MIB, 64 * MIB)
        moved = 5 * command.aggregate_bytes
        phase = IorPhase(access, moved, 10.01, 10.0, 0.001, 0.002, 0.001)
        output = print_ior(command, IorResult(BEGAN, BEGAN, (phase,)))
        found = real.parse(RawOutput("x", words, output))
        assert found.status is RunStatus.OK, found.problem
        (one,) = found.phases
        assert (one.moved_bytes, one.reason) == (moved, None)
        assert one.bandwidth_bytes_per_s == pytest.approx(phase.bandwidth_bytes_per_s, rel=1e-6)


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (["-z", "-o", "f"], "option-not-simulated", "-z"),
        (["--unheard-of", "-o", "f"], "option-not-simulated", "--unheard-of"),
        (["--summaryFormat", "JSON", "-o", "f"], "option-not-simulated", "--summaryFormat"),
        (["--minTimeDuration", "5", "-o", "f"], "option-not-simulated", "--minTimeDuration"),
        (["--minTimeDuration=5", "-o", "f"], "option-not-simulated", "--minTimeDuration"),
        (["-O", "useO_DIRECT=1", "-o", "f"], "option-not-simulated", "useO_DIRECT"),
        (["-O", "foo=1", "-o", "f"], "option-not-simulated", "foo=1"),
        (["-O", "summaryFormat=JSON,foo=1", "-o", "f"], "option-not-simulated", "foo=1"),
        (["-O", "posix.odirect", "-o", "f"], "option-not-simulated", "posix.odirect"),
        (["-O", "summaryFormat=CSV", "-o", "f"], "option-not-simulated", "CSV"),
        (["-O", "summaryFormat", "-o", "f"], "option-not-simulated", "summaryFormat"),
        (["-O", "verbose=2", "-o", "f"], "option-not-simulated", "verbose"),
        (["-O", "", "-o", "f"], "option-not-simulated", "-O"),
        (["-O", "minTimeDuration=long", "-o", "f"], "wrong-type", "minTimeDuration=long"),
        (["-a", "MPIIO", "-o", "f"], "option-not-simulated", "MPIIO"),
        (["-l", "zero", "-o", "f"], "option-not-simulated", "zero"),
        (["-t", "many", "-o", "f"], "wrong-type", "many"),
        (["-o"], "option-without-value", "-o"),
        (["-o", "f", "-O"], "option-without-value", "-O"),
        (["-w"], "option-missing", "-o"),
    ],
)
def test_what_it_does_not_play_is_named(words, code, named):
    with raises(UsageError, code, named):
        parse_command(["ior", *words], tasks=1)


def test_directives_of_several_options_hold_together():
    words = ["ior", "-O", "minTimeDuration=5", "-o", "f", "-O", "summaryFormat=JSON"]
    command = parse_command(words, tasks=1)
    assert (command.minimum_duration_s, command.json) == (5, True)
    one = parse_command(["ior", "-O", "summaryFormat=JSON,minTimeDuration=5", "-o", "f"], tasks=1)
    assert (one.minimum_duration_s, one.json) == (5, True)
    last = parse_command([*words, "-O", "summaryFormat=default"], tasks=1)
    assert (last.minimum_duration_s, last.json) == (5, False)


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("done", [0, 1])
def test_one_that_was_cut_holds_what_it_had(as_json, done):
    words = ["ior", "-w", "-r", "-F", "-t", "1m", "-b", "1g", "-o", "/s/f"]
    words += ["-O", "summaryFormat=JSON"] if as_json else []
    command = parse_command(words, tasks=4)
    phase = IorPhase("write", command.aggregate_bytes, 10.0, 9.0, 0.5, 0.5, 0.01)
    output = print_ior(command, IorResult(BEGAN, None, (phase,) * done))
    found = real.parse(RawOutput("x", tuple(words), output, exit_code=None))
    assert found.status is (RunStatus.PARTIAL if done else RunStatus.FAILED)
    assert "did not finish" in (found.problem or "")
    assert sum(one.believed for one in found.samples) == done


def test_sizes_are_rounded_as_ior_rounds_them():
    assert [sized(n) for n in (4096, 2**20, 3 * 2**29, 2**30, 2**42, 2**20 - 1)] == [
        "4096 bytes",
        "1 MiB",
        "1.50 GiB",
        "1 GiB",
        "4 TiB",
        "1048575 bytes",
    ]


# The built-in generator


SPEC = ProbeSpec("p", "x", 8, MIB, 64 * MIB, 1, 10.0)


@given(moved=st.integers(1, 10**6), elapsed_s=st.floats(0.5, 4000.0), write=st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_generators_parser_gives_back_the_figures(moved, elapsed_s, write):
    access = "write" if write else "read"
    words = ioload.command(PhaseRequest(SPEC, access, "/x/trimtab-ioload", "/s/d"))
    command = load_command.parse_command(words)
    assert (command.accesses, command.tasks, command.block_size_bytes) == ((access,), 8, 64 * MIB)
    assert (command.duration_s, command.direct) == (10.0, True)
    latency = {"mean_s": 0.002, "p99_s": 0.01}
    result = load_command.IoloadResult(BEGAN, moved * MIB, elapsed_s, latency=latency)
    output = load_command.print_load(command, result)
    measurement = ioload.parse(RawOutput("x", words, output))
    assert measurement.status is RunStatus.OK, measurement.problem
    (phase,) = measurement.phases
    assert (phase.moved_bytes, phase.elapsed_s, phase.tasks) == (moved * MIB, elapsed_s, 8)
    assert phase.bandwidth_bytes_per_s == moved * MIB / elapsed_s
    latencies = [one for one in measurement.samples if "latency" in one.metric]
    latencies = {one.statistic: one.value for one in latencies}
    assert latencies == {"mean": 0.002, "p99": 0.01}


def test_an_error_of_the_generator_is_read_back():
    words = ioload.command(PhaseRequest(SPEC, "write", "trimtab-ioload", "/s/d"))
    result = load_command.IoloadResult(BEGAN, MIB, 1.0)
    report = json.loads(load_command.print_load(load_command.parse_command(words), result))
    report |= {"status": "failed", "error": {"kind": "io", "message": "no space left on device"}}
    output = json.dumps(report).encode()
    measurement = ioload.parse(RawOutput("x", words, output, exit_code=1))
    assert measurement.status is not RunStatus.OK
    assert "no space left" in (measurement.problem or "")


def test_ranks_of_the_generator_are_its_tasks():
    spec = ProbeSpec("p", "builtin", 8, MIB, 64 * MIB, 1, 10.0, processes=True)
    words = ioload.command(PhaseRequest(spec, "read", "trimtab-ioload", "/s/d"))
    assert load_command.parse_command(words, tasks=8).tasks == 8


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("trimtab-ioload", "--dir", "x", "--write", "--read"), "--write or --read"),
        (("trimtab-ioload", "--verify"), "--verify"),
        (("trimtab-ioload", "--dir"), "--dir"),
        (("trimtab-ioload", "--dir", "x", "--write", "--tasks", "1k"), "1k"),
    ],
)
def test_an_option_that_the_twin_does_not_play_is_named(words, named):
    with pytest.raises(UsageError, match=named):
        load_command.parse_command(words)


# obdfilter-survey


SURVEYED = datetime(2026, 11, 20, 16, 36, 22)


def recorded(name: str, end: str) -> str:
    return (FIXTURES / "obdfilter_survey" / "2.17" / f"{name}.{end}").read_text()


def test_a_short_one_has_the_lines_of_the_recorded_one():
    spec = SurveySpec(32 * MIB, objects=2, threads=4, tests=("write", "read"))
    asked = SurveyCommand(spec, ("scratch-OST0000", "scratch-OST0003"))
    rates = {"write": np.array([476.9, 487.2]) * MIB, "read": np.array([820.6, 891.4]) * MIB}
    printed, summary, detail = print_survey(asked, SurveyResult(SURVEYED, rates, host="lustre1"))
    assert squeezed(summary.decode()) == squeezed(recorded("two-targets", "summary"))
    assert squeezed(printed.decode()) == squeezed(recorded("two-targets", "out"))
    blocks = squeezed(detail.decode())
    real = squeezed(recorded("two-targets", "detail"))
    # Ids of objects and devices go by what was there before.
    assert [line for line in blocks if "x#" not in line and "#x" not in line] == [
        line for line in real if "x#" not in line and "#x" not in line
    ]
    assert len(blocks) == len(real)


def test_a_long_one_has_a_line_for_each_whole_second():
    text = recorded("long", "detail")
    spec = SurveySpec(1600 * MIB, objects=1, threads=1, tests=("write", "rewrite", "read"))
    asked = SurveyCommand(spec, ("scratch-OST0001",))
    took = {"write": 4.081836, "rewrite": 1.599775, "read": 1.204589}
    rates = {name: np.array([1600 * MIB / took_s]) for name, took_s in took.items()}
    _, summary, detail = print_survey(asked, SurveyResult(SURVEYED, rates, host="lustre1"))
    first = text[: text.index("\n=======================> ost", 10) + 1]
    assert len(detail.decode().splitlines()) == len(first.splitlines())
    assert squeezed(summary.decode())[1] == squeezed(recorded("long", "summary"))[1]


@given(
    rates=st.lists(st.tuples(st.floats(1e7, 6e10), st.floats(1e7, 6e10)), min_size=1, max_size=12),
    gib=st.integers(1, 128),
)
@settings(max_examples=40, deadline=None)
def test_its_parser_gives_back_the_rates(rates, gib):
    spec = SurveySpec(gib * 2**30, tests=("write", "read"))
    names = tuple(f"oss{n:04d}:scratch-OST{n:04x}" for n in range(len(rates)))
    given_rates = {
        test: np.array([one[place] for one in rates]) for place, test in enumerate(spec.tests)
    }
    _, summary, detail = print_survey(
        SurveyCommand(spec, names), SurveyResult(SURVEYED, given_rates)
    )
    (found,) = results(read_summary(summary.decode()), read_detail(detail.decode()))
    assert found.status is RunStatus.OK, found.problem
    assert not found.warnings or "two seconds" in found.warnings[0]
    assert objects_left(detail.decode()) == ()
    assert all(one.believed for one in found.samples), [one.reason for one in found.samples]
    for test in spec.tests:
        rated = [one for one in found.samples if one.metric == f"{test}_bandwidth"]
        own = [one for one in rated if one.target is not None]
        assert [one.target for one in own] == [f"OST{n:04x}" for n in range(len(rates))]
        values = np.array([one.value for one in own])
        assert np.allclose(values, given_rates[test], rtol=0, atol=0.51e-6 * MIB)


def test_a_target_that_does_not_answer_is_missing_and_the_others_stand():
    spec = SurveySpec(2**34, tests=("write", "read"))
    names = tuple(f"scratch-OST{n:04x}" for n in range(3))
    rates = {test: np.array([15e9, np.nan, 16e9]) for test in spec.tests}
    _, summary, detail = print_survey(SurveyCommand(spec, names), SurveyResult(SURVEYED, rates))
    (found,) = results(read_summary(summary.decode()), read_detail(detail.decode()))
    assert found.status is RunStatus.PARTIAL
    by_target = {one.target: one for one in found.samples if one.metric == "write_bandwidth"}
    assert by_target["OST0000"].value == pytest.approx(15e9, rel=1e-6)
    assert by_target["OST0001"].value is None
    assert by_target["OST0001"].reason
    assert not by_target[None].believed

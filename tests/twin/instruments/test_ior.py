"""IOR: what the twin prints is what the real one prints, and its parser reads back what went in."""

from __future__ import annotations

import shlex
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.codes import raises
from tests.twin.instruments.masks import FIXTURES, squeezed

from trimtab.base.error import UsageError
from trimtab.base.run import Access, ProbeSpec, RawOutput, RunStatus
from trimtab.base.units import MIB
from trimtab.formats import ior as real
from trimtab.formats.phase import PhaseRequest
from trimtab.formats.source import OutputFile
from trimtab.twin.instrument.simulated_ior import (
    IorPhase,
    IorResult,
    PrintedSpace,
    parse_command,
    print_ior,
    sized,
)

BEGAN = datetime(2026, 11, 21, 0, 42, 13)
SPACE = PrintedSpace(252.0 * 2**30, 0.079, 16.0 * MIB, 0.039)


def recorded(name: str, version: str = "4.0.0") -> tuple[list[str], str]:
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
    words, text = recorded(name)
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
    words, text = recorded(name)
    command = parse_command(words, tasks=2)
    one = {"open_s": 0.0001, "close_s": 0.1, "latency_s": 0.01}
    phases = tuple(
        IorPhase(access, command.aggregate_bytes, 1.5, 1.25, **one)  # type: ignore[arg-type]
        for access in ("write", "read", "write", "read")
    )
    ours = print_ior(command, IorResult(BEGAN, BEGAN, phases, "vm", SPACE)).decode()
    assert squeezed(ours) == squeezed(text)


def test_a_deadline_warns_as_the_recorded_one():
    words, text = recorded("deadline")
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
    parsed = real.parse(RawOutput("write 0", tuple(words), output))
    for found in (read, parsed):
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

"""The built-in generator: printed, read back, unknown options named."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.base.error import UsageError
from trimtab.base.run import ProbeSpec, RawOutput, RunStatus
from trimtab.formats import ioload as real_ioload
from trimtab.formats.phase import PhaseRequest
from trimtab.twin.instrument import load_command

MIB = 2**20
BEGAN = datetime(2026, 11, 21, 0, 23, 18)
SPEC = ProbeSpec("p", "x", 8, MIB, 64 * MIB, 1, 10.0)


@given(moved=st.integers(1, 10**6), elapsed_s=st.floats(0.5, 4000.0), write=st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_generators_parser_gives_back_the_figures(moved, elapsed_s, write):
    access = "write" if write else "read"
    words = real_ioload.command(PhaseRequest(SPEC, access, "/x/trimtab-ioload", "/s/d"))
    command = load_command.parse_command(words)
    assert (command.accesses, command.tasks, command.block_size_bytes) == ((access,), 8, 64 * MIB)
    assert (command.duration_s, command.direct) == (10.0, True)
    latency = {"mean_s": 0.002, "p99_s": 0.01}
    result = load_command.IoloadResult(BEGAN, moved * MIB, elapsed_s, latency=latency)
    output = load_command.print_load(command, result)
    measurement = real_ioload.parse(RawOutput("x", words, output))
    assert measurement.status is RunStatus.OK, measurement.problem
    (phase,) = measurement.phases
    assert (phase.moved_bytes, phase.elapsed_s, phase.tasks) == (moved * MIB, elapsed_s, 8)
    assert phase.bandwidth_bytes_per_s == moved * MIB / elapsed_s
    latencies = {
        sample.statistic: sample.value
        for sample in measurement.samples
        if "latency" in sample.metric
    }
    assert latencies == {"mean": 0.002, "p99": 0.01}


def test_an_error_of_the_generator_is_read_back():
    words = real_ioload.command(PhaseRequest(SPEC, "write", "trimtab-ioload", "/s/d"))
    result = load_command.IoloadResult(BEGAN, MIB, 1.0)
    report = json.loads(load_command.print_load(load_command.parse_command(words), result))
    report |= {"status": "failed", "error": {"kind": "io", "message": "no space left on device"}}
    output = json.dumps(report).encode()
    measurement = real_ioload.parse(RawOutput("x", words, output, exit_code=1))
    assert measurement.status is not RunStatus.OK
    assert "no space left" in (measurement.problem or "")


def test_ranks_of_the_generator_are_its_tasks():
    spec = ProbeSpec("p", "builtin", 8, MIB, 64 * MIB, 1, 10.0, processes=True)
    words = real_ioload.command(PhaseRequest(spec, "read", "trimtab-ioload", "/s/d"))
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

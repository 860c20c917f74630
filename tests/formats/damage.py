"""Ways in which an output can be damaged, and what must hold for every reader of it."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

import pytest
from tests.support.counts import repetitions

from trimtab.base.run import RawOutput, RunStatus
from trimtab.formats.measurement import Measurement

Parse = Callable[[RawOutput], Measurement]

RUBBISH = (
    b"",
    b"\n",
    b"\0" * 1000,
    b"\xff\xfe\xfd",
    b"{",
    b"{}",
    b"[]",
    b"null\n",
    b'{"ioload": null}\n',
    b'{"ioload": "1", "phases": [{"access": "write", "bytes": 1e999}]}\n',
    b'{"ioload": "1", "phases": 3, "direct": [], "parameters": "x"}\n',
    b'{"fio version": "fio-3", "jobs": [{"error": "x", "write": {"total_ios": 1}}]}\n',
    b'{"fio version": "fio-3", "jobs": {"write": 1}}\n',
    b"{" * 100_000,
    b"write 1 2 3 4 5 6 7 8 9 0\n",
    b"IOR-4\nTestID : 0\nwrite 1 1 1 1 1 1 1 1 1 0\nFinished : now\n",
    b'"TestID": 0,\n{\n"access": "write",\n"bwMiB": 1\n}\n',
    b'{\n"access": "write",\n"bwMiB": nan,\n"totalTime": inf\n}\n',
    b"bash: line 1: ior: command not found\n",
    b"x" * 1_000_000,
)


SAMPLES = repetitions(gate=14, soak=10**9)
ENDS = 5
"""Lines at each end of an output that are cut in every sample: heads and last words."""
sampled = pytest.mark.usefixtures("damage_sample")
"""Mark of tests that damage a sample of lines, and every line in the tier ``soak``.

Lines of the same table are cut in the same way: a few of them show what any of them would.
"""
_sample = 10**9


@pytest.fixture(params=SAMPLES)
def damage_sample(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit the lines that `cuts` takes and the changes that `flips` makes."""
    monkeypatch.setattr("tests.formats.damage._sample", request.param)


def cuts(data: bytes, seed: int, count: int = 60) -> Iterator[bytes]:
    """Yield the output cut after every line, or a sample of them, and at random bytes."""
    chance = random.Random(seed)
    for position in _line_ends(data, chance):
        yield data[: position + 1]
        yield data[:position]
    for _ in range(min(count, _sample)):
        yield data[: chance.randrange(len(data))]


def _line_ends(data: bytes, chance: random.Random) -> list[int]:
    ends = [match.start() for match in re.finditer(b"\n", data[:-1])]
    if len(ends) <= _sample:
        return ends
    between = chance.sample(ends[ENDS:-ENDS], _sample - 2 * ENDS)
    return [*ends[:ENDS], *sorted(between), *ends[-ENDS:]]


def flips(data: bytes, seed: int, count: int = 60) -> Iterator[bytes]:
    """Yield the output with a few bytes changed, lines lost or doubled."""
    chance = random.Random(seed)
    lines = data.split(b"\n")
    for _ in range(min(count, _sample)):
        changed = bytearray(data)
        for _ in range(chance.randrange(1, 6)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        yield bytes(changed)
        yield b"\n".join([line for line in lines if chance.random() > 0.05])
        yield b"\n".join(line for line in lines for _ in range(1 + (chance.random() < 0.05)))


def check_sane(measurement: Measurement) -> None:
    """Assert what holds for whatever was read."""
    for sample in measurement.samples:
        assert sample.value is not None or sample.reason
        if sample.value is not None:
            assert math.isfinite(sample.value)
            assert sample.value >= 0
    if measurement.status is RunStatus.OK:
        assert measurement.phases
        assert measurement.problem is None
    else:
        assert measurement.problem
    if measurement.status is RunStatus.FAILED:
        return
    assert any(phase.bandwidth_bytes_per_s is not None for phase in measurement.phases)


@lru_cache(maxsize=4)
def _whole(parse: Parse, output: RawOutput) -> Measurement:
    return parse(output)


def check_cut(parse: Parse, output: RawOutput, cut: bytes) -> Measurement:
    """Assert that a cut output gives nothing that the whole one does not give."""
    whole = {
        (phase.access, phase.repetition): phase.bandwidth_bytes_per_s
        for phase in _whole(parse, output).phases
    }
    measurement = parse(replace(output, stdout=cut))
    check_sane(measurement)
    for phase in measurement.phases:
        if phase.reason is None:
            assert phase.bandwidth_bytes_per_s == whole[phase.access, phase.repetition]
    return measurement


def check_changed(parse: Parse, output: RawOutput, changed: bytes) -> None:
    """Assert that a damaged output is refused, or gives a number that the whole one gives.

    Bytes, time and bandwidth are printed beside one another: a change of one of them shows, up
    to what rounding in print hides.
    """
    whole = [phase.bandwidth_bytes_per_s or 0.0 for phase in _whole(parse, output).phases]
    measurement = parse(replace(output, stdout=changed))
    check_sane(measurement)
    for phase in measurement.phases:
        if phase.reason is None:
            found = phase.bandwidth_bytes_per_s or 0.0
            assert any(math.isclose(found, value, rel_tol=0.01) for value in whole)

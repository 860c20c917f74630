"""mdtest, fio, the built-in generator and LNet selftest: printed, read back, options named."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.twin.instruments.masks import FIXTURES, squeezed

from trimtab.errors import ToolError, UsageError
from trimtab.measure import fio as real_fio
from trimtab.measure import ioload as real_ioload
from trimtab.measure import lnet_selftest as real_lnet
from trimtab.measure import mdtest as real_mdtest
from trimtab.measure.lnet_selftest.commands import LnetTest, sequence
from trimtab.measure.mdtest.output import METRICS
from trimtab.measure.source import Source
from trimtab.model.run import ProbeSpec, RawOutput, RunStatus
from trimtab.twin.instruments import fio, ioload, ior, lnet_selftest, mdtest, obdfilter_survey
from trimtab.twin.instruments.answer import answer
from trimtab.twin.instruments.ior import Space

MIB = 2**20
BEGAN = datetime(2026, 11, 21, 0, 23, 18)
SPEC = ProbeSpec("p", "x", 8, MIB, 64 * MIB, 1, 10.0)


def test_mdtest_has_the_lines_of_the_recorded_one():
    text = (FIXTURES / "mdtest" / "4.0.0" / "files.out").read_text()
    asked = mdtest.asked_of(("mdtest", "-F", "-n", "100", "-d", "/tmp/m/md"), tasks=3)
    one = {name: 0.01 for name in asked.operations}
    space = Space(252.0 * 2**30, 0.083, 16.0 * MIB, 0.039)
    ours = mdtest.print_mdtest(asked, mdtest.MdtestResult(BEGAN, BEGAN, (one,), space)).decode()
    # Every rank may warn, anywhere: those lines are as many as the ranks have it.
    kept = [line for line in squeezed(text) if not line.startswith("WARNING")]
    assert [line for line in squeezed(ours) if not line.startswith("WARNING")] == kept
    table = [line for line in text.splitlines() if line.startswith("   File stat")]
    own = [line for line in ours.splitlines() if line.startswith("   File stat")]
    assert [len(line) for line in own] == [len(line) for line in table]


@given(
    tasks=st.integers(1, 512),
    items=st.integers(100, 10**6),
    times=st.lists(st.floats(1.0, 500.0), min_size=1, max_size=3),
    files_only=st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_mdtests_parser_gives_back_the_rates(tasks, items, times, files_only):
    spec = real_mdtest.MdtestSpec(tasks, items, files_only, iterations=len(times))
    words = real_mdtest.command(spec, program="/usr/bin/mdtest", directory="/s/d")
    asked = mdtest.asked_of(words, tasks=tasks, nodes=1)
    assert asked.spec == spec
    iterations = tuple({name: took for name in asked.operations} for took in times)
    output = mdtest.print_mdtest(asked, mdtest.MdtestResult(BEGAN, BEGAN, iterations))
    (found,) = real_mdtest.FORMAT.read(Source("mdtest.out", output))
    assert found.status is RunStatus.OK, found.problem
    assert found.asked["tasks"] == tasks
    assert found.asked["items_per_task"] == items
    for operation in asked.operations[: -len(mdtest.TREE_OPERATIONS)]:
        own = [
            one
            for one in found.samples
            if one.metric == METRICS[operation] and one.statistic == "total"
        ]
        assert len(own) == len(times)
        assert all(one.believed for one in own)
        for sample, took in zip(own, times, strict=True):
            # Of several, the figure of the first task's items is printed, and scaled up.
            rounding = 0.00051 * (tasks if len(times) > 1 else 1)
            assert sample.value == pytest.approx(asked.count(operation) / took, abs=rounding)


def test_an_mdtest_that_was_cut_did_not_finish():
    asked = mdtest.asked_of(("mdtest", "-v", "-F", "-n", "1000", "-d", "/s/d"), tasks=3)
    result = mdtest.MdtestResult(BEGAN, None, ({"Tree creation": 0.1, "File creation": 2.0},))
    (found,) = real_mdtest.FORMAT.read(Source("mdtest.out", mdtest.print_mdtest(asked, result)))
    assert found.status is not RunStatus.OK
    assert found.problem


@given(moved=st.integers(1, 10**6), elapsed_s=st.floats(0.5, 4000.0), write=st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_generators_parser_gives_back_the_figures(moved, elapsed_s, write):
    access = "write" if write else "read"
    words = real_ioload.command(SPEC, access, program="/x/trimtab-ioload", directory="/s/d")
    asked = ioload.asked_of(words)
    assert (asked.access, asked.tasks, asked.block_size_bytes) == (access, 8, 64 * MIB)
    assert (asked.deadline_s, asked.direct) == (10.0, True)
    latency = {"mean_s": 0.002, "p99_s": 0.01}
    result = ioload.LoadResult(BEGAN, moved * MIB, elapsed_s, latency=latency)
    output = ioload.print_load(asked, result)
    found = real_ioload.parse(RawOutput("x", words, output))
    assert found.status is RunStatus.OK, found.problem
    (phase,) = found.phases
    assert (phase.moved_bytes, phase.elapsed_s, phase.tasks) == (moved * MIB, elapsed_s, 8)
    assert phase.bandwidth_bytes_per_s == moved * MIB / elapsed_s
    told = {one.statistic: one.value for one in found.samples if "latency" in one.metric}
    assert told == {"mean": 0.002, "p99": 0.01}


def test_an_error_of_the_generator_is_told():
    words = real_ioload.command(SPEC, "write", program="trimtab-ioload", directory="/s/d")
    result = ioload.LoadResult(BEGAN, MIB, 1.0, error="no space left on device")
    output = ioload.print_load(ioload.asked_of(words), result)
    found = real_ioload.parse(RawOutput("x", words, output, exit_code=1))
    assert found.status is not RunStatus.OK
    assert "no space left" in (found.problem or "")


def test_ranks_of_the_generator_are_its_tasks():
    spec = ProbeSpec("p", "builtin", 8, MIB, 64 * MIB, 1, 10.0, processes=True)
    words = real_ioload.command(spec, "read", program="trimtab-ioload", directory="/s/d")
    assert ioload.asked_of(words, tasks=8).tasks == 8


@given(operations=st.integers(1, 10**6), elapsed_ms=st.integers(1000, 10**6), write=st.booleans())
@settings(max_examples=30, deadline=None)
def test_fios_parser_gives_back_the_figures(operations, elapsed_ms, write):
    access = "write" if write else "read"
    spec = ProbeSpec("p", "fio", 8, MIB, 64 * MIB, 1, 1.0)
    words = real_fio.command(spec, access, program="/usr/bin/fio", directory="/s/d")
    asked = fio.asked_of(words)
    assert (asked.access, asked.tasks, asked.runtime_s) == (access, 8, 1.0)
    result = fio.FioResult(
        datetime(2026, 11, 20, 18, tzinfo=UTC),
        operations * MIB,
        elapsed_ms / 1000,
        0.0004,
        {"50": 0.0003, "99.9": 0.004},
    )
    output = fio.print_fio(asked, result)
    found = real_fio.parse(RawOutput("x", words, output))
    assert found.status is RunStatus.OK, found.problem
    (phase,) = found.phases
    assert (phase.moved_bytes, phase.tasks, phase.reason) == (operations * MIB, 8, None)
    assert phase.elapsed_s == pytest.approx(elapsed_ms / 1000)
    expected = operations * MIB * 1000 / elapsed_ms
    assert phase.bandwidth_bytes_per_s == pytest.approx(expected, abs=1.0)
    told = {one.statistic: one.value for one in found.samples if "latency" in one.metric}
    assert told["p50"] == pytest.approx(0.0003)
    assert told["p99.9"] == pytest.approx(0.004)
    (read,) = real_fio.FORMAT.read(Source("fio.json", output))
    assert read.status is RunStatus.OK, read.problem


def test_fio_says_what_the_recorded_one_says_of_itself():
    import json

    text = (FIXTURES / "fio" / "3.33" / "write-direct.out").read_text()
    words = (FIXTURES / "fio" / "3.33" / "write-direct.cmd").read_text().split()
    asked = fio.asked_of(words)
    finished = datetime.fromtimestamp(1795198503.342, UTC)
    ours = fio.print_fio(asked, fio.FioResult(finished, 4617 * MIB, 1.028, 0.00042))
    real, own = json.loads(text), json.loads(ours)
    assert [*own] == [key for key in real if key in own]
    assert {**own["jobs"][0]["job options"]} == {**real["jobs"][0]["job options"]}
    for key in ("io_bytes", "io_kbytes", "bw_bytes", "bw", "runtime", "total_ios"):
        assert own["jobs"][0]["write"][key] == real["jobs"][0]["write"][key]
    assert own["jobs"][0]["write"]["iops"] == real["jobs"][0]["write"]["iops"]
    assert own["timestamp_ms"] == real["timestamp_ms"]
    assert own["time"] == real["time"]


@given(
    rates=st.lists(st.floats(1e9, 5e10), min_size=1, max_size=5),
    write=st.booleans(),
    clients=st.integers(1, 4),
)
@settings(max_examples=30, deadline=None)
def test_lnet_selftests_parser_gives_back_the_rates(rates, write, clients):
    access = "write" if write else "read"
    test = LnetTest(("10.0.0.1@o2ib",), ("10.0.0.2@o2ib",), access)
    asked = lnet_selftest.asked_of(sequence(test, key=7, count=len(rates)).measure)
    assert (asked.delay_s, asked.count, asked.groups) == (5, len(rates), ("clients", "servers"))
    result = lnet_selftest.LnetResult(tuple(rates), access, clients=clients)
    found = real_lnet.FORMAT.read(Source("lst.out", lnet_selftest.print_test(asked, result)))
    sides = {one.name: one for one in found}
    for group, factor in (("clients", 1), ("servers", clients)):
        own = [
            one.value
            for one in sides[group].samples
            if one.metric == f"{access}_bandwidth" and one.believed and one.statistic == "total"
        ]
        assert own == pytest.approx([rate * factor for rate in rates], abs=0.0051 * MIB)
        assert sides[group].status is RunStatus.OK, sides[group].problem


def test_lnet_selftest_has_the_lines_of_the_recorded_one():
    text = (FIXTURES / "lnet_selftest" / "2.17" / "brw-write.out").read_text()
    asked = lnet_selftest.StatAsked(5, 4, ("clients", "servers"))
    result = lnet_selftest.LnetResult((650e6,) * 4, "write", transfer_size_bytes=MIB)
    ours = squeezed(lnet_selftest.print_stat(asked, result).decode())
    inside = [line for line in squeezed(text) if line.startswith("[")]
    assert ours == inside[: len(ours)]
    assert len(inside) == len(ours)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("mdtest", "-z", "2", "-d", "x"), "-z"),
        (("mdtest", "-n", "5"), "-d"),
        (("mdtest", "-n", "many", "-d", "x"), "many"),
        (("fio", "--rw=randread", "--output-format=json"), "randread"),
        (("fio", "--rw=write"), "JSON"),
        (("fio", "--iodepth=4"), "--iodepth"),
        (("trimtab-ioload", "--dir", "x", "--write", "--read"), "--write or --read"),
        (("trimtab-ioload", "--verify"), "--verify"),
        (("trimtab-ioload", "--dir"), "--dir"),
        (("lst", "stat", "--mbs", "clients"), "--mbs"),
        (("lst", "end_session"), "end_session"),
    ],
)
def test_what_the_twin_does_not_play_is_named(words, named):
    with pytest.raises(UsageError, match=named):
        answer(words)


def test_the_answer_goes_by_the_program():
    assert isinstance(answer(("/opt/bin/ior", "-o", "f"), tasks=4), ior.IorAsked)
    assert isinstance(answer(("mdtest", "-d", "f")), mdtest.MdtestAsked)
    words = real_fio.command(SPEC, "read", program="/usr/bin/fio", directory="/s")
    assert isinstance(answer(words), fio.FioAsked)
    words = real_ioload.command(SPEC, "read", program="trimtab-ioload", directory="/s")
    assert isinstance(answer(words), ioload.LoadAsked)
    spec = obdfilter_survey.SurveySpec()
    words = obdfilter_survey_command(spec)
    assert isinstance(answer(words), obdfilter_survey.SurveyAsked)
    test = LnetTest(("10.0.0.1@o2ib",), ("10.0.0.2@o2ib",))
    assert isinstance(answer(sequence(test, key=7).measure), lnet_selftest.StatAsked)
    for words in ((), ("ls", "-l"), ("env",)):
        with pytest.raises((ToolError, UsageError)):
            answer(words)


def obdfilter_survey_command(spec):
    from trimtab.measure.obdfilter_survey.commands import command

    return command(spec, ("s-OST0000",), directory="/tmp/x", deadline_s=9)

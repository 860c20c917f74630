"""The built-in generator: its command, and its report."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tests.formats import damage
from tests.formats.damage import sampled
from tests.formats.recorded import Recording, fixture, kept
from tests.support.each import for_each

from trimtab.base.error import code_of
from trimtab.base.run import ProbeSpec, RunStatus
from trimtab.formats import ioload
from trimtab.formats.phase import PhaseRequest

MIB = 2**20
SPEC = ProbeSpec("check", "builtin", 4, MIB, 1024 * MIB, 5, 5.0)
each = for_each("recorded", kept("ioload"), ids=lambda recorded: recorded.name)


def report(name: str = "write-direct") -> dict[str, Any]:
    return json.loads(fixture("ioload", name).text)


def parsed(document: dict[str, Any], **changes: Any):
    output = fixture("ioload", "write-direct").output
    return ioload.parse(replace(output, stdout=json.dumps(document).encode() + b"\n", **changes))


def test_command_of_a_write() -> None:
    argv = ioload.command(PhaseRequest(SPEC, "write", "/x/trimtab-ioload", "/scratch/a b"))
    assert argv == (
        *("/x/trimtab-ioload", "--dir", "/scratch/a b", "--name", "data", "--write", "--alone"),
        *("--tasks", "4", "--transfer-size", "1048576", "--block-size", "1073741824"),
        *("--deadline", "5", "--minimum-duration", "5", "--keep", "--fsync", "--direct"),
    )


def test_command_of_a_read() -> None:
    spec = replace(SPEC, direct=False, duration_s=0.25, file_per_process=False)
    argv = ioload.command(PhaseRequest(spec, "read", "x", "/scratch", 3 * MIB))
    assert argv[argv.index("--block-size") + 1] == str(3 * MIB)
    assert argv[argv.index("--deadline") + 1] == "0.25"
    assert argv[-3:] == ("--shared-file", "--reorder", "1")
    assert not {"--write", "--direct", "--fsync"} & set(argv)
    alone = ioload.command(PhaseRequest(replace(spec, tasks=1), "read", "x", "/scratch"))
    assert "--reorder" not in alone


def test_whole_run() -> None:
    measured = ioload.parse(fixture("ioload", "write-direct").output, repetition=2, ordinal=5)
    printed = report()
    assert (measured.kind, measured.status, measured.problem) == ("builtin", RunStatus.OK, None)
    assert measured.tool_version == printed["ioload"]
    (phase,) = measured.phases
    reported = printed["phases"][0]
    assert (phase.access, phase.repetition, phase.tasks) == ("write", 2, 2)
    assert (phase.transfer_size_bytes, phase.block_size_bytes) == (MIB, 32 * MIB)
    assert phase.moved_bytes == reported["bytes"]
    assert phase.bandwidth_bytes_per_s == reported["bandwidth_bytes_per_s"]
    assert phase.elapsed_s == reported["elapsed_s"]
    assert (phase.direct, phase.caches_dropped) == (True, False)
    assert (phase.cpu_user_s, phase.cpu_system_s) == (
        reported["cpu_user_s"],
        reported["cpu_system_s"],
    )
    sample = measured.samples[0]
    assert (sample.metric, sample.repetition, sample.output, sample.line) == (
        "write_bandwidth",
        2,
        5,
        1,
    )


def test_latency_and_timeline_add_up() -> None:
    measured = ioload.parse(fixture("ioload", "write-direct").output)
    reported = report()["phases"][0]
    latency = {sample.statistic: sample.value for sample in measured.samples[1:]}
    assert latency["p99.9"] == reported["latency"]["p999_s"]
    assert latency["p50"] == reported["latency"]["p50_s"]
    (histogram,) = measured.histograms
    assert sum(histogram.count) == reported["latency"]["count"]
    (timeline,) = measured.timelines
    assert (sum(timeline.moved_bytes), timeline.interval_s) == (reported["bytes"], 0.1)
    assert len(timeline.moved_bytes) == max(len(row) for row in reported["timeline"]["tasks"])


def test_deadline_that_came_is_what_was_asked_for() -> None:
    document = report()
    document["status"] = document["phases"][0]["status"] = "partial"
    assert parsed(document).status is RunStatus.OK


def test_buffered_instead_of_direct_is_said() -> None:
    document = report()
    document["direct"] = {"asked": True, "used": False, "reason": "tmpfs ignores it"}
    measured = parsed(document)
    assert measured.phases[0].direct is False
    (warning,) = measured.warnings
    assert code_of(warning) == "direct-not-used"
    assert warning.endswith("tmpfs ignores it")


def test_data_that_came_back_wrong_is_a_failure() -> None:
    document = report("read-direct")
    document["phases"][0]["verify"] = {"checked_bytes": 1, "mismatches": 2, "first_mismatch": None}
    measured = parsed(document)
    assert (measured.status, measured.codes) == (RunStatus.FAILED, ("data-corrupt",))
    assert not measured.samples[0].believed


@for_each("key", ["bytes", "elapsed_s", "bandwidth_bytes_per_s"])
@for_each("value", [0, -1, None, "many", float("nan"), float("inf"), True])
def test_figures_that_cannot_be_are_not_believed(key: str, value: object) -> None:
    document = report()
    document["phases"][0][key] = value
    measured = parsed(document)
    damage.check_sane(measured)
    assert not measured.samples[0].believed


@for_each("key", ["latency", "timeline", "per_task", "verify", "access", "status"])
@for_each("value", [None, 3, "x", [], [[1]], {"tasks": [["x"]], "interval_s": 1}])
def test_other_shapes_never_raise(key: str, value: object) -> None:
    document = report()
    document["phases"][0][key] = value
    damage.check_sane(parsed(document))


@sampled
@each
def test_cut_anywhere_never_gives_another_number(recorded: Recording) -> None:
    data = recorded.output.stdout
    if not data:
        assert ioload.parse(recorded.output).status is RunStatus.FAILED
        return
    for cut in damage.cuts(data, seed=len(data)):
        measured = damage.check_cut(ioload.parse, recorded.output, cut)
        assert measured.status is not RunStatus.OK or data[len(cut) :].strip() == b""


@sampled
@each
def test_damage_never_raises_and_never_lies(recorded: Recording) -> None:
    if recorded.output.stdout:
        for changed in damage.flips(recorded.output.stdout, seed=3, count=40):
            damage.check_changed(ioload.parse, recorded.output, changed)

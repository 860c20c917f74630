"""IO500: its summary, the details beside it, the score, and damaged files."""

from __future__ import annotations

import math
import re
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.damage import sampled
from tests.formats.of_formats import (
    by_name,
    check_changed,
    check_damaged,
    read_or_none,
    source,
    values,
)
from tests.formats.recorded import FIXTURES
from tests.support.each import for_each
from tests.support.narrow import present

from trimtab.base.error import DataError, code_of
from trimtab.base.run import RunStatus
from trimtab.formats import mdtest
from trimtab.formats.io500 import FORMAT
from trimtab.formats.measurement import Measurement, OutputFile

FOLDER = FIXTURES / "io500"
GIB = 2**30
OWN = ("result_summary.txt", "result.txt", "io500.out")
FILES = sorted(
    path for name in OWN for path in FOLDER.glob(f"*/*/{name}") if path.stat().st_size > 0
)
STANDARD = sorted(FOLDER.glob("*/standard"))
each = for_each("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
each_run = for_each("folder", STANDARD, ids=lambda path: path.parent.name)


def made_valid(content: bytes) -> bytes:
    """Return a file as of a run that kept to the rules."""
    text = re.sub(r"(?m)^(?:; )?ERROR INVALID.*\n", "", content.decode())
    return re.sub(r" *\[INVALID\]|-invalid", "", text).encode()


def valid(path: Path) -> OutputFile:
    found = source(path)
    beside = {name: made_valid(content) for name, content in found.beside.items()}
    return OutputFile(found.name, made_valid(found.content), beside)


def summary(folder: str = "io500-isc26") -> Path:
    return FOLDER / folder / "standard/result_summary.txt"


VALID = made_valid(summary().read_bytes()).decode()
"""The summary of a run that kept to the rules."""


def of_text(text: str, **beside: bytes) -> dict[str | None, Measurement]:
    """Return what is read of a summary, with ``result`` beside it where that is given."""
    others = {f"{name}.txt": content for name, content in beside.items()}
    return by_name(FORMAT.read(OutputFile("result_summary.txt", text.encode(), others)))


@sampled
@pytest.mark.calibration
@each
def test_damaged(path: Path) -> None:
    check_damaged(FORMAT, valid(path))
    check_changed(FORMAT, valid(path), seed=3)


@pytest.mark.parametrize("content", [b"", b"IO500 version x\n", b"config-hash = 1\n", b"\0" * 99])
def test_no_phase_is_no_result(content: bytes) -> None:
    with pytest.raises(DataError):
        FORMAT.read(OutputFile("x", content))


@each
def test_an_invalid_run_is_never_believed(path: Path) -> None:
    for one in FORMAT.read(source(path)):
        assert one.status is RunStatus.FAILED
        assert "run-invalid" in one.codes
        assert one.layer == "client"


def test_a_run_that_kept_to_the_rules() -> None:
    found = by_name(FORMAT.read(valid(summary())))
    names = [
        "ior-easy",
        "mdtest-easy",
        "ior-hard",
        "mdtest-hard",
        "find",
        "ior-rnd4K-easy",
        "score",
    ]
    assert list(found) == names
    assert {one.status for one in found.values()} == {RunStatus.OK}
    samples = {
        (name, sample.metric): sample for name, one in found.items() for sample in one.samples
    }
    printed = summary().read_text().split("\n")
    easy = samples["ior-easy", "write_bandwidth"]
    assert "ior-easy-write" in printed[(easy.line or 0) - 1]
    assert easy.value == pytest.approx(float(printed[1].split()[2]) * GIB)
    assert samples["mdtest-hard", "file_read_rate"].unit == "1/s"
    assert samples["find", "file_find_rate"].output == 0
    assert all(sample.repetition == 0 for sample in samples.values())
    assert len(samples) == 4 + 3 + 4 + 1 + 1 + 1


def test_what_was_asked_comes_from_the_details() -> None:
    found = by_name(FORMAT.read(valid(summary())))
    easy = found["ior-easy"]
    assert easy.tool_version == "io500-isc26"
    assert easy.requested == {
        "mode": "standard",
        "tasks": 2,
        "file_per_process": True,
        "transfer_size_bytes": 2**20,
        "block_size_bytes": 64 * 2**20,
        "stonewall_s": 1,
        "api": "POSIX",
    }
    assert found["ior-hard"].requested["segments"] == 500
    assert found["mdtest-hard"].requested["write_bytes"] == 3901
    assert found["mdtest-easy"].requested["items_per_task"] == 3000
    began, ended = present(found["score"].began), present(found["score"].ended)
    assert datetime(2026, 11, 21) < began < (easy.ended or began) < ended
    assert not easy.missing


def test_a_summary_alone_lacks_the_parameters() -> None:
    easy = of_text(VALID)["ior-easy"]
    assert (easy.status, easy.requested) == (RunStatus.OK, {"mode": "standard"})
    assert [missing.what for missing in easy.missing] == ["parameters"]


@each_run
def test_summary_details_and_output_say_the_same(folder: Path) -> None:
    believed = [values(FORMAT.read(valid(folder / name))) for name in OWN]
    assert believed[0] == believed[2]
    assert {key: pytest.approx(value) for key, value in believed[1].items()} == believed[0]


@each_run
def test_rates_are_those_of_mdtest(folder: Path) -> None:
    """IO500 takes a repetition's rate as mdtest has it; in 2020 that of task 0 alone."""
    found = by_name(FORMAT.read(valid(folder / "result_summary.txt")))
    tolerance = 0.2 if folder.parent.name == "io500-sc20" else 1e-5
    for path in folder.glob("mdtest-*.txt"):
        kind, phase = path.stem.rsplit("-", 1)
        metric = {"write": "creation", "delete": "removal"}.get(phase, phase)
        (other,) = mdtest.FORMAT.read(OutputFile(path.name, path.read_bytes()))
        rates = [
            [one.value for one in measured.samples if one.metric == f"file_{metric}_rate"]
            for measured in (found[kind], other)
        ]
        assert rates[0] == [pytest.approx(rates[1][0], rel=tolerance)]


@pytest.mark.parametrize(
    ("phase", "wrong"), [("ior-hard-read", "ior-easy"), ("find", "mdtest-hard")]
)
def test_a_phase_that_the_score_was_not_made_of(phase: str, wrong: str) -> None:
    """Nobody can tell which of its phases is the wrong one."""
    found = of_text(re.sub(rf"({phase} +)([0-9.]+)", lambda m: m[1] + "7" + m[2], VALID))
    assert found[wrong].status is found["score"].status is RunStatus.FAILED
    assert "figures-disagree" in found[wrong].codes
    assert found["ior-rnd4K-easy"].status is RunStatus.OK  # is not part of the score


def test_a_total_that_is_not_the_root() -> None:
    score = of_text(re.sub(r"TOTAL ", "TOTAL 9", VALID))["score"]
    assert (score.status, score.codes) == (RunStatus.FAILED, ("figures-disagree",))


def test_details_that_contradict_the_summary() -> None:
    details = valid(summary()).beside["result.txt"]
    easy = of_text(VALID, result=re.sub(rb"(score +)= ", rb"\1= 3", details, count=1))["ior-easy"]
    assert easy.status is RunStatus.PARTIAL
    assert "result-mismatch" in easy.codes


def script_output(total: float) -> bytes:
    """The layout of the scripts before 2020: real lines of 2017, with names and spaces as there."""
    rates = [126.223, 1.444, 180.436, 6.713]
    kiops = [20.119, 19.068, 324.870, 166.332, 172.778, 10.736, 8.515]
    names = ["easy_write", "hard_write", "easy_read", "hard_read"]
    others = ["mdtest_easy_write", "mdtest_hard_write", "find", "mdtest_easy_stat"]
    others += ["mdtest_hard_stat", "mdtest_easy_delete", "mdtest_hard_delete"]
    lines = [
        f"[RESULT] BW   phase {n}            ior_{name} {rate:20.3f} GB/s : time 649.47 seconds"
        for n, (name, rate) in enumerate(zip(names, rates, strict=True), start=1)
    ]
    lines += [
        f"[RESULT] IOPS phase {n}      {name} {rate:20.3f} kiops : time  36.94 seconds"
        for n, (name, rate) in enumerate(zip(others, kiops, strict=True), start=1)
    ]
    lines.append(f"[SCORE] Bandwidth 21.6774 GB/s : IOPS 44.1585 kiops : TOTAL {total}")
    return ("\n".join(lines) + "\n").encode()


def test_the_scripts_before_2020() -> None:
    found = by_name(FORMAT.read(OutputFile("x", script_output(30.9393))))
    easy, hard = found["ior-easy"], found["mdtest-hard"]
    assert easy.samples[0].value == pytest.approx(126.223 * GIB)  # GB/s was GiB/s
    assert easy.samples[0].believed
    rates = ["file_creation_rate", "file_stat_rate", "file_removal_rate"]
    assert ([s.metric for s in hard.samples], hard.codes) == (rates, ("phases-missing",))
    assert "mdtest-hard-read" in hard.problems[0]  # of 2017: not yet a phase
    assert found["score"].status is RunStatus.OK


def test_a_score_that_was_a_product() -> None:
    score = FORMAT.read(OutputFile("x", script_output(957.2414)))[-1]
    assert (score.status, score.samples[0].value) == (RunStatus.FAILED, 957.2414)
    assert score.codes == ("score-is-product",)


@pytest.mark.parametrize("bad", ["0.000000", "nan", "inf", "-1.5", "1,335881", "1e3", "0.01"])
def test_no_such_rate_is_believed(bad: str) -> None:
    found = of_text(re.sub(r"(ior-easy-write +)[0-9.]+", rf"\g<1>{bad}", VALID))
    (write, _) = found["ior-easy"].samples
    assert not write.believed
    assert write.value is None or bad == "0.01"


def test_a_phase_that_was_switched_off() -> None:
    path = FOLDER / "io500-isc26/no-find/result_summary.txt"
    (sample,) = by_name(FORMAT.read(valid(path)))["find"].samples
    assert (sample.value, sample.believed, code_of(sample.reason)) == (None, False, "no-rate")


def test_an_extended_run_has_more_and_the_same_score() -> None:
    found = by_name(FORMAT.read(valid(FOLDER / "io500-isc26/extended/result_summary.txt")))
    assert {"ior-rnd4K", "ior-rnd1MB", "find-easy", "find-hard"} <= set(found)
    assert (found["score"].requested["mode"], found["score"].status) == ("extended", RunStatus.OK)
    assert not any("mdworkbench" in (name or "") for name in found)


def test_a_run_that_was_ended_has_the_phases_until_then() -> None:
    """Its summary is empty, so the importer takes result.txt for what it is."""
    folder = FOLDER / "io500-isc26/terminated"
    assert not FORMAT.recognises(source(folder / "result_summary.txt"))
    found = by_name(FORMAT.read(valid(folder / "result.txt")))
    easy = found["ior-easy"]
    assert (easy.status, easy.codes) == (RunStatus.PARTIAL, ("output-unfinished",))
    assert all(sample.believed for sample in easy.samples)
    assert "score" not in found


def test_several_runs_in_one_output() -> None:
    found = of_text(VALID + VALID)
    assert {"ior-easy", "ior-easy run 2", "score", "score run 2"} <= set(found)
    assert {each.status for each in found.values()} == {RunStatus.OK}


def test_a_complaint_about_a_valid_run_is_a_warning() -> None:
    """io500-sc23 said so of runs of 300 s, and called them valid."""
    complaint = b"\n; ERROR INVALID stonewall-time < 30s\n\n"
    details = valid(summary()).beside["result.txt"].replace(b"\n\n", complaint, 1)
    score = of_text(VALID, result=details)["score"]
    assert score.status is RunStatus.OK
    assert any("stonewall-time < 30s" in warning for warning in score.warnings)


def test_which_file_is_read_for_which() -> None:
    assert FORMAT.instead("result.txt") == ("result_summary.txt",)
    assert FORMAT.instead("result_summary.txt") == ()
    assert FORMAT.companions("result_summary.txt") == ("result.txt",)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 90)), min_size=1, max_size=4))
def test_lines_of_another_task_in_between(places: list[tuple[int, int]]) -> None:
    whole = values(FORMAT.read(OutputFile("x", VALID.encode())))
    lines = VALID.encode().split(b"\n")
    for number, place in places:
        line = lines[number % len(lines)]
        lines[number % len(lines)] = line[:place] + b"9.5 GiB/s : time\n" + line[place:]
    found = read_or_none(FORMAT, OutputFile("x", b"\n".join(lines)))
    for key, value in values(found or ()).items():
        assert math.isclose(whole[key], value)


@pytest.mark.parametrize(
    "line", [b"[RESULT] " + b" " * 1900, b"[SCORE ] Bandwidth " * 9, b"a = b", b"; ERROR INVALID x"]
)
def test_a_large_file_of_anything_is_read_and_gives_nothing(line: bytes) -> None:
    """Were it not linear in the size, this would take hours."""
    content = b"IO500 version x\n" + (line + b"\n") * (4_000_000 // len(line))
    assert values(read_or_none(FORMAT, OutputFile("x", content)) or ()) == {}

"""WRF: the times of its outputs, and what they are a share of."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats import of_formats
from tests.formats.damage import RUBBISH
from tests.formats.of_formats import believed, by_name
from tests.formats.recorded import fixture
from tests.support.narrow import present

from trimtab.base.error import DataError, code_of
from trimtab.base.run import RunStatus, Sample
from trimtab.formats.measurement import Measurement, OutputFile
from trimtab.formats.wrf import FORMAT


def source(name: str) -> OutputFile:
    return OutputFile("rsl.out.0000", fixture("wrf", name).output.stdout)


def streams(content: OutputFile) -> dict[str | None, Measurement]:
    return by_name(FORMAT.read(content))


def times(measured: Measurement, target: str | None, statistic: str = "total") -> list[float]:
    return believed(measured, None, statistic, target)


def lines(*labels: tuple[str, float | str], end: bool = True) -> OutputFile:
    text = "".join(
        f"Timing for {label}: {value if isinstance(value, str) else format(value, '10.5f')}"
        " elapsed seconds\n"
        for label, value in labels
    )
    return OutputFile("rsl.out.0000", (text + end * " wrf: SUCCESS COMPLETE WRF\n").encode())


STEP = ("main: time 2019-11-26_12:00:18 on domain   1", 3.0)
WRITE = ("Writing wrfout_d01_2019-11-26_12:00:00 for domain        1", 2.0)
# As users quote them in wrf-model/WRF #1918, with the field's own width.
QUOTED = (
    ("main: time 2022-03-27_21:41:24 on domain   1", "  12.74597"),
    ("main: time 2022-03-27_21:41:42 on domain   1", "  12.73683"),
)


def test_a_nested_run() -> None:
    found = streams(source("nested"))
    assert sorted(map(str, found)) == ["None", "boundary", "history", "input", "restart"]
    assert {one.status for one in found.values()} == {RunStatus.OK}
    history, restart = found["history"], found["restart"]
    assert (times(history, "d01"), times(history, "d02")) == ([2.27105, 2.31007], [1.1042, 1.09991])
    assert times(history, "d02", "sum") == [pytest.approx(2.20411)]
    assert times(history, None, "sum") == [pytest.approx(6.78523)]
    assert times(restart, "d01") == [11.4021]
    assert times(found["boundary"], "d01") == [0.05423]
    assert {sample.metric for sample in found["input"].samples} == {"read_time"}
    whole = found[None]
    assert (whole.host, whole.tool_version, whole.layer) == ("nid00012", "4.5", "application")
    assert whole.requested == {"tasks": 32, "domains": ["425x300", "220x214"]}


def test_the_time_of_a_run_counts_nothing_twice() -> None:
    """Steps of domain 1, what domain 1 read before them, what was written after them."""
    found = streams(source("nested"))
    whole = found[None]
    elapsed = 0.81234 + (7.94114 + 3.62938 + 3.63938 + 24.5) + (2.31007 + 1.09991)
    assert times(whole, None)[0] == pytest.approx(elapsed)
    written = 2.27105 + 1.1042 + 11.4021 + 9.00125 + 2.31007 + 1.09991
    assert times(whole, None, "sum") == [pytest.approx(written)]
    assert whole.reported["output_share"] == pytest.approx(written / elapsed)
    assert found["restart"].reported["share"] == pytest.approx((11.4021 + 9.00125) / elapsed)
    assert (whole.reported["steps"], whole.reported["last_time"]) == (4, "2019-11-26_12:01:12")


def test_every_number_is_on_its_line() -> None:
    content = source("nested")
    printed = content.text.split("\n")
    for sample in totals(FORMAT.read(content)):
        line = printed[present(sample.line) - 1]
        assert f"{present(sample.value):10.5f} elapsed" in line
        assert f"domain {int(present(sample.target)[1:]):8d}:" in line


def totals(runs: tuple[Measurement, ...]) -> list[Sample]:
    """Return the times of single lines."""
    every = [sample for one in runs for sample in one.samples]
    return [one for one in every if one.statistic == "total" and one.metric != "elapsed"]


def test_the_full_stop_of_old_versions() -> None:
    found = streams(source("single"))
    assert (found[None].status, times(found["history"], "d01")) == (RunStatus.OK, [0.4123, 0.40117])
    assert times(found["restart"], "d01") == [0.70011]


def test_adaptive_steps_other_streams_and_names_that_were_cut() -> None:
    found = streams(source("adaptive"))
    assert times(found["auxhist2"], "d01") == [0.52, 0.53]
    assert times(found["history"], "d01") == [3.1]
    assert times(found["output"], "d01") == [3.3]  # of its name the first 30 characters are left
    assert (times(found["filter"], "d01"), found[None].reported["steps"]) == ([0.11], 3)
    for one in found.values():
        assert (one.status, one.codes) == (RunStatus.PARTIAL, ("output-unfinished",))


def test_io_servers_are_said() -> None:
    for one in streams(source("quilted")).values():
        assert (one.status, code_of(one.warnings[0])) == (RunStatus.OK, "quilting")
        assert one.warnings[0].startswith("32 ")
        assert one.requested["io_servers"] == 32


def test_a_fatal_error_is_told_and_stars_are_no_number() -> None:
    found = streams(source("fatal"))
    whole = found[None]
    assert whole.status is RunStatus.PARTIAL
    assert "error opening wrfbdy_d01 for reading" in (whole.problem or "")
    elapsed = of_formats.figure(whole, "elapsed")
    assert (elapsed.value, code_of(elapsed.reason)) == (None, "time-overflowed")
    assert times(found["history"], "d01") == [2.2]
    assert "share" not in found["history"].reported


def test_steps_as_users_quote_them() -> None:
    (whole,) = FORMAT.read(lines(*QUOTED))
    assert times(whole, None) == [pytest.approx(12.74597 + 12.73683)]


def test_standard_output_and_error_in_one_file_count_once() -> None:
    once = source("nested")
    copies = [line for line in once.text.splitlines(keepends=True) for _ in range(2)]
    found = FORMAT.read(OutputFile("log", "".join(copies).encode()))
    assert of_formats.values(found) == of_formats.values(FORMAT.read(once))
    assert code_of(found[0].warnings[0]) == "lines-doubled"
    halves = FORMAT.read(OutputFile("log", once.content * 2))
    assert of_formats.values(halves) == of_formats.values(FORMAT.read(once))


@pytest.mark.parametrize(
    "line",
    [
        "Timing for Writing wrfout_d01_x for domain        1:    2,27105 elapsed seconds",
        "Timing for Writing wrfout_d01_x for domain        1:    2.2710 elapsed seconds",
        "Timing for Writing wrfout_d01_x for domain        1:    2.271 5 elapsed seconds",
        "Timing for Writing wrfout_d01_x for domain        1:   -2.27105 elapsed seconds",
        "Timing for Writing wrfout_d01_x for domain        1:    2.27105 elapsed second",
        "Timing for Writing wrfout_d01_x for domain        2:    2.27105 elapsed seconds",
        "Timing for Writing wrfoTiming for main: time x on domain   1:    2.27105 elapsed seconds",
        "d02 alloc Timing for Writing restart for domain        1:    2.27105 elapsed seconds",
        "Timing for Writing wrfout_d01_x for domain        1:",
    ],
)
def test_a_damaged_line_gives_no_number(line: str) -> None:
    """As two ranks in one file, or another locale, leave it: sums may lack it and are doubted."""
    good = lines(WRITE, STEP)
    found = streams(OutputFile("rsl.out.0000", line.encode() + b"\n" + good.content))
    assert found["history"].status is RunStatus.PARTIAL
    assert found["history"].codes == ("line-damaged",)
    assert "line 1" in (found["history"].problem or "")
    assert (times(found["history"], "d01"), times(found["history"], "d01", "sum")) == ([2.0], [])
    assert times(found[None], None) == []
    assert "output_share" not in found[None].reported


def test_other_timers_are_passed_over() -> None:
    found = streams(lines(("table computation qr_acr_qg_V4.dat", 30.0), WRITE, STEP))
    assert (set(found), times(found[None], None)) == ({None, "history"}, [3.0])
    assert found[None].status is RunStatus.OK


def test_writing_before_the_first_step_ended_has_no_time_of_the_run() -> None:
    found = streams(lines(WRITE, end=False))
    assert (found["history"].status, times(found["history"], "d01")) == (RunStatus.PARTIAL, [2.0])
    (elapsed,) = (sample for sample in found[None].samples if sample.metric == "elapsed")
    assert code_of(elapsed.reason) == "no-step"


def test_which_files_are_read() -> None:
    content = source("nested").content
    assert of_formats.recognised(OutputFile("rsl.out.0000", content)) == ["wrf"]
    assert of_formats.recognised(OutputFile("wrf.log", content)) == ["wrf"]
    assert of_formats.recognised(OutputFile("rsl.out.0017", content)) == []
    assert FORMAT.instead("rsl.error.0000") == ("rsl.out.0000",)
    assert FORMAT.instead("rsl.out.0000") == ()


def test_without_a_line_of_timing_it_is_no_result() -> None:
    for content in (b"taskid: 0 hostname: x\n Ntasks in X  1 , ntasks in Y  1\n", *RUBBISH):
        with pytest.raises(DataError):
            FORMAT.read(OutputFile("rsl.out.0000", content))


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_ranks_in_one_file_give_no_number_that_was_not_printed(seed: int, length: int) -> None:
    """Another rank's words at any place: a time is one that stands in the whole, or none."""
    content = source("nested")
    chance, text = random.Random(seed), content.text
    for _ in range(5):
        place = chance.randrange(len(text))
        words = "".join(chance.choice("d02 0123:.\nalloc") for _ in range(length))
        text = text[:place] + words + text[place:]
    found = of_formats.read_or_none(FORMAT, OutputFile("log", text.encode())) or ()
    printed = {sample.value for sample in totals(FORMAT.read(content))}
    assert {sample.value for sample in totals(found) if sample.believed} <= printed

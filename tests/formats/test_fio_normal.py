"""fio's normal output, held against the JSON of the same run; and what may stand around JSON."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import pytest
from tests.formats import of_formats
from tests.formats.damage import sampled
from tests.formats.of_formats import figure
from tests.formats.recorded import FIXTURES

from trimtab.base.error import code_of
from trimtab.base.run import RunStatus
from trimtab.formats.fio import FORMAT, read
from trimtab.formats.fio_normal import normal_documents
from trimtab.formats.measurement import Measurement
from trimtab.formats.source import OutputFile

FOLDER = FIXTURES / "fio"
BOTH = sorted(FOLDER.glob("3.33/normal-*.out"))
"""Outputs of ``--output-format=normal,json``."""
WHOLE = [path for path in BOTH if path.stem not in {"normal-no-space", "normal-status"}]
"""Those of one state: of several, one in between looks like the last when the rest is cut."""
JSON = re.compile(rb"^\{\n.*?^\}\n", re.MULTILINE | re.DOTALL)
ROUNDED = 0.01


def normal_of(path: Path) -> bytes:
    return JSON.sub(b"", path.read_bytes())


def json_of(path: Path) -> bytes:
    return b"".join(JSON.findall(path.read_bytes()))


def ids(path: Path) -> str:
    return path.stem


def pairs(path: Path) -> list[tuple[Measurement, Measurement]]:
    normal = read(OutputFile(path.name, normal_of(path)))
    return list(zip(normal, read(OutputFile(path.name, json_of(path))), strict=True))


@pytest.mark.parametrize("path", BOTH, ids=ids)
def test_every_figure_is_that_of_the_json_of_the_same_run(path: Path) -> None:
    for normal, exact in pairs(path):
        assert (normal.name, normal.status, normal.tool_version) == (
            exact.name,
            exact.status,
            exact.tool_version,
        )
        expected = {
            (one.metric, one.statistic, one.target): one for one in exact.samples if one.value
        }
        printed = {(one.metric, one.statistic, one.target): one for one in normal.samples}
        assert printed.keys() == expected.keys()
        for key, sample in printed.items():
            value = expected[key].value or 0.0
            assert sample.value is not None
            if sample.believed:
                assert sample.value == pytest.approx(value, rel=ROUNDED), key
            else:
                assert code_of(sample.reason or "") == "too-few-digits"
            assert expected[key].believed


@pytest.mark.parametrize("name", ["random-read", "group", "two-jobs", "one-after-another", "sync"])
def test_bandwidth_and_operations_are_exact_where_transfers_have_one_size(name: str) -> None:
    for normal, exact in pairs(FOLDER / "3.33" / f"normal-{name}.out"):
        for sample in exact.samples:
            if sample.statistic == "total":
                # JSON cuts bytes a second to whole ones.
                value = figure(normal, sample.metric).value
                assert value == pytest.approx(sample.value, rel=1e-6)
        assert [one.moved_bytes for one in normal.phases] == [
            one.moved_bytes for one in exact.phases
        ]


@pytest.mark.parametrize("path", BOTH, ids=ids)
def test_both_forms_in_one_output_are_one_result(path: Path) -> None:
    both = read(OutputFile(path.name, path.read_bytes()))
    alone = read(OutputFile(path.name, json_of(path)))
    assert of_formats.values(both) == of_formats.values(alone)
    assert len(both) == len(alone)


def test_numbers_stand_on_their_lines_and_the_time_is_that_of_the_end() -> None:
    content = normal_of(FOLDER / "3.33" / "normal-group.out")
    lines = content.decode().split("\n")
    (measured,) = read(OutputFile("x", content))
    rates = figure(measured, "read_bandwidth")
    assert "read: IOPS=" in lines[(rates.line or 0) - 1]
    assert "write: IOPS=" in lines[(figure(measured, "write_iops").line or 0) - 1]
    assert "99.0th" in lines[(figure(measured, "read_latency", "p99").line or 0) - 1]
    assert "clat (" in lines[(figure(measured, "read_latency", "max").line or 0) - 1]
    match = re.search(rb"pid=[0-9]+: (.*)", content)
    assert match is not None
    assert measured.ended == datetime.strptime(match[1].decode(), "%a %b %d %H:%M:%S %Y")
    assert measured.began is not None


def test_the_request_is_what_was_printed_and_nothing_else() -> None:
    (measured,) = read(OutputFile("x", normal_of(FOLDER / "3.33" / "normal-group.out")))
    assert measured.requested == {
        "rw": "randrw",
        "transfer_size_bytes": 16384,
        "iodepth": 1,
        "ioengine": "psync",
        "job_names": ["t"],
        "tasks": 3,
        "output": "normal",
    }
    assert {phase.direct for phase in measured.phases} == {None}
    assert "options-not-printed" in [code_of(gap.reason) for gap in measured.missing]
    (sizes,) = read(OutputFile("x", normal_of(FOLDER / "3.33" / "normal-sizes.out")))
    assert "transfer_size_bytes" not in sizes.requested


def test_groups_are_results_of_their_own() -> None:
    first, second = read(
        OutputFile("x", normal_of(FOLDER / "3.33" / "normal-one-after-another.out"))
    )
    assert (first.name, second.name) == ("first", "second")
    assert "groups-in-one-output" in [code_of(warning) for warning in first.warnings]


@sampled
@pytest.mark.parametrize("path", WHOLE, ids=ids)
def test_cut_anywhere_it_gives_no_other_number(path: Path) -> None:
    of_formats.check_cut(FORMAT, OutputFile(path.name, normal_of(path)))


@sampled
@pytest.mark.parametrize("path", BOTH, ids=ids)
def test_line_ends_and_damage(path: Path) -> None:
    source = OutputFile(path.name, normal_of(path))
    assert of_formats.recognised(source) == ["fio"]
    of_formats.check_line_ends(FORMAT, source)
    of_formats.check_changed(FORMAT, source)


def test_a_changed_digit_is_noticed_where_it_counts() -> None:
    content = normal_of(FOLDER / "3.33" / "normal-random-read.out")
    (whole,) = read(OutputFile("x", content))
    for pattern in (rb"BW=[0-9.]+", rb"/[0-9]+msec\)", rb"io=[0-9.]+", rb"run=[0-9]+-[0-9]+"):
        match = re.search(pattern, content)
        assert match is not None
        changed = re.sub(rb"[0-9]", b"7", match[0])
        (other,) = read(OutputFile("x", content.replace(match[0], changed, 1)))
        value = of_formats.believed(other, "read_bandwidth")
        assert value in ([], of_formats.believed(whole, "read_bandwidth")), pattern


OLD = """\
random-write: (g=0): rw=randwrite, bs=8K-8K/8K-8K/8K-8K, ioengine=libaio, iodepth=4
...
fio-2.1.11
Starting 5 processes

random-write: (groupid=0, jobs=5): err= 0: pid=2447: Wed Jul  8 13:27:48 2015
  write: io=255624KB, bw=19933KB/s, iops=2491 , runt= 12824msec
    slat (usec): min=3 , max=35 , avg=12.76, stdev= 3.38
    clat (usec): min=700 , max=9411.7K, avg=1443.28, stdev=33091.95
     lat (usec): min=706 , max=9411.7K, avg=1443.38, stdev=33091.95
    clat percentiles (usec):
     |  1.00th=[  708], 50.00th=[  772], 99.00th=[ 4576], 99.90th=[ 8160]
    bw (KB/s) : min=   31, max=43687, per=29.58%, avg=5896.30, stdev=2696.81
  cpu          : usr=0.05%, sys=0.89%, ctx=600, majf=0, minf=136
     issued    : total=r=0/w=31953/d=0, short=r=0/w=0/d=0

Run status group 0 (all jobs):
  WRITE: io=255624KB, aggrb=19933KB/s, minb=19933KB/s, maxb=19933KB/s, mint=12824msec, maxt=12824msec
"""  # noqa: E501


def test_before_2_21_sizes_are_kib() -> None:
    (measured,) = read(OutputFile("x", OLD.encode()))
    assert measured.status is RunStatus.OK, measured.problem
    assert measured.tool_version == "2.1.11"
    assert figure(measured, "write_bandwidth").value == pytest.approx(31953 * 8192 / 12.824)
    assert figure(measured, "write_iops").value == pytest.approx(31953 / 12.824)
    assert figure(measured, "write_latency", "p99").value == pytest.approx(4576e-6)
    assert figure(measured, "write_latency", "max").value == pytest.approx(9.4117)
    assert measured.requested["tasks"] == 5
    # Named as since 2.21, the counts of operations alone.
    newer = OLD.replace(
        "issued    : total=r=0/w=31953/d=0, short=r=0/w=0/d=0",
        "issued rwt: total=0,31953,0, short=0,0,0, dropped=0,0,0",
    )
    (other,) = read(OutputFile("x", newer.encode()))
    assert of_formats.values((other,)) == of_formats.values((measured,))


def test_a_carry_that_fio_3_7_lost_costs_no_figure() -> None:
    """56.99 MiB stand as ``56.0MiB``: operations, time and MB agree."""
    text = """\
t: (g=0): rw=randwrite, bs=(R) 2048B-2048B, (W) 2048B-2048B, (T) 2048B-2048B, ioengine=libaio, iodepth=1
fio-3.7
t: (groupid=0, jobs=1): err= 0: pid=9: Wed Jul  8 13:27:48 2020
  write: IOPS=972, BW=1945KiB/s (1992kB/s)(56.0MiB/30001msec)
     issued rwts: total=0,29180,0,0 short=0,0,0,0 dropped=0,0,0,0

Run status group 0 (all jobs):
  WRITE: bw=1945KiB/s (1992kB/s), 1945KiB/s-1945KiB/s (1992kB/s-1992kB/s), io=56.0MiB (59.8MB), run=30001-30001msec
"""  # noqa: E501
    (measured,) = read(OutputFile("x", text.encode()))
    assert measured.status is RunStatus.OK, measured.problem
    assert figure(measured, "write_bandwidth").value == pytest.approx(29180 * 2048 / 30.001)
    (wrong,) = read(OutputFile("x", text.replace("=1945KiB/s (", "=1345KiB/s (").encode()))
    assert wrong.status is RunStatus.FAILED


def test_a_job_without_the_line_of_its_group_was_cut() -> None:
    content = normal_of(FOLDER / "3.33" / "normal-two-jobs.out")
    cut = content[: content.index(b"Run status")]
    (measured,) = read(OutputFile("x", cut))
    assert measured.status is RunStatus.FAILED
    assert code_of(measured.problem or "") == "output-unfinished"
    assert of_formats.values((measured,)) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"t: (g=0): rw=read, bs=(R) 4096B-4096B, ioengine=psync, iodepth=1\nfio-3.33\nStarting 1\n",
        b"t: (groupid=0, jobs=1): err= 0: pid=1: Mon Nov 23 05:20:57 2026\n",
        b"fio-3.33\nStarting 1 process\n",
    ],
)
def test_what_holds_no_figures_says_so(content: bytes) -> None:
    assert of_formats.values(of_formats.read_or_none(FORMAT, OutputFile("x", content)) or ()) == {}
    assert normal_documents("x\n" * 1000) == []


@pytest.mark.parametrize("before", [b"2026-11-23T05:20:57 fio[12]: ", b"result = ", b"\t"])
@pytest.mark.parametrize("after", [b"", b" (end)"])
def test_json_behind_other_text_on_its_line_is_read(before: bytes, after: bytes) -> None:
    content = (FOLDER / "3.42" / "two-jobs.out").read_bytes()
    start = content.index(b"{")
    whole = of_formats.values(read(OutputFile("x", content)))
    one_line = b" ".join(content[start:].split()) + after + b"\n"
    for text in (before + content[start:], before + one_line, b"a\n" + before + one_line):
        source = OutputFile("x", text)
        assert of_formats.recognised(source) == ["fio"]
        assert of_formats.values(read(source)) == whole

"""What fio prints for people: held against the JSON of the same run, and ``fio --client``'s."""

from __future__ import annotations

import json
import re
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from tests.formats import of_formats
from tests.formats.damage import sampled
from tests.formats.of_formats import figure, values
from tests.formats.recorded import FIXTURES
from tests.support.narrow import present

from trimtab.base.error import code_of
from trimtab.base.run import RunStatus
from trimtab.formats.fio import FORMAT, read
from trimtab.formats.fio_normal import normal_documents
from trimtab.formats.measurement import Measurement, OutputFile

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


def measured(content: str | bytes) -> tuple[Measurement, ...]:
    return read(OutputFile("x", content.encode() if isinstance(content, str) else content))


def of_case(name: str) -> bytes:
    """Return the normal output of a recording."""
    return normal_of(FOLDER / "3.33" / f"normal-{name}.out")


def pairs(path: Path) -> list[tuple[Measurement, Measurement]]:
    return list(zip(measured(normal_of(path)), measured(json_of(path)), strict=True))


each_output = pytest.mark.parametrize("path", BOTH, ids=lambda path: path.stem)


@each_output
def test_every_figure_is_that_of_the_json_of_the_same_run(path: Path) -> None:
    for normal, exact in pairs(path):
        assert [normal.name, normal.status, normal.tool_version] == [
            *(exact.name, exact.status, exact.tool_version)
        ]
        expected, printed = (
            {(one.metric, one.statistic, one.target): one for one in samples}
            for samples in ([one for one in exact.samples if one.value], normal.samples)
        )
        assert printed.keys() == expected.keys()
        for key, sample in printed.items():
            assert sample.value is not None
            if sample.believed:
                assert sample.value == pytest.approx(expected[key].value, rel=ROUNDED), key
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


@each_output
def test_both_forms_in_one_output_are_one_result(path: Path) -> None:
    both, alone = measured(path.read_bytes()), measured(json_of(path))
    assert of_formats.values(both) == of_formats.values(alone)
    assert len(both) == len(alone)


def test_numbers_stand_on_their_lines_and_the_time_is_that_of_the_end() -> None:
    content = of_case("group")
    lines = content.decode().split("\n")
    (run,) = measured(content)
    for metric, statistic, words in (
        ("read_bandwidth", "total", "read: IOPS="),
        ("write_iops", "total", "write: IOPS="),
        ("read_latency", "p99", "99.0th"),
        ("read_latency", "max", "clat ("),
    ):
        assert words in lines[(figure(run, metric, statistic).line or 0) - 1]
    match = present(re.search(rb"pid=[0-9]+: (.*)", content))
    assert run.ended == datetime.strptime(match[1].decode(), "%a %b %d %H:%M:%S %Y")
    assert run.began is not None


def test_the_request_is_what_was_printed_and_nothing_else() -> None:
    (group,) = measured(of_case("group"))
    assert group.requested == {
        "rw": "randrw",
        "transfer_size_bytes": 16384,
        "iodepth": 1,
        "ioengine": "psync",
        "job_names": ["t"],
        "tasks": 3,
        "output": "normal",
    }
    assert {phase.direct for phase in group.phases} == {None}
    assert "options-not-printed" in [code_of(gap.reason) for gap in group.missing]
    (sizes,) = measured(of_case("sizes"))
    assert "transfer_size_bytes" not in sizes.requested


def test_groups_are_results_of_their_own() -> None:
    first, second = measured(of_case("one-after-another"))
    assert (first.name, second.name) == ("first", "second")
    assert "groups-in-one-output" in [code_of(warning) for warning in first.warnings]


@sampled
@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_cut_anywhere_it_gives_no_other_number(path: Path) -> None:
    of_formats.check_cut(FORMAT, OutputFile(path.name, normal_of(path)))


@sampled
@each_output
def test_line_ends_and_damage(path: Path) -> None:
    source = OutputFile(path.name, normal_of(path))
    assert of_formats.recognised(source) == ["fio"]
    of_formats.check_line_ends(FORMAT, source)
    of_formats.check_changed(FORMAT, source)


def test_a_changed_digit_is_noticed_where_it_counts() -> None:
    content = of_case("random-read")
    (whole,) = measured(content)
    for pattern in (rb"BW=[0-9.]+", rb"/[0-9]+msec\)", rb"io=[0-9.]+", rb"run=[0-9]+-[0-9]+"):
        printed = present(re.search(pattern, content))[0]
        (other,) = measured(content.replace(printed, re.sub(rb"[0-9]", b"7", printed), 1))
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
    (old,) = measured(OLD)
    assert old.status is RunStatus.OK, old.problem
    assert (old.tool_version, old.requested["tasks"]) == ("2.1.11", 5)
    assert figure(old, "write_bandwidth").value == pytest.approx(31953 * 8192 / 12.824)
    assert figure(old, "write_iops").value == pytest.approx(31953 / 12.824)
    assert figure(old, "write_latency", "p99").value == pytest.approx(4576e-6)
    assert figure(old, "write_latency", "max").value == pytest.approx(9.4117)
    # Named as since 2.21, the counts of operations alone.
    newer = OLD.replace(
        "issued    : total=r=0/w=31953/d=0, short=r=0/w=0/d=0",
        "issued rwt: total=0,31953,0, short=0,0,0, dropped=0,0,0",
    )
    assert of_formats.values(measured(newer)) == of_formats.values((old,))


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
    (lost,) = measured(text)
    assert lost.status is RunStatus.OK, lost.problem
    assert figure(lost, "write_bandwidth").value == pytest.approx(29180 * 2048 / 30.001)
    (wrong,) = measured(text.replace("=1945KiB/s (", "=1345KiB/s ("))
    assert wrong.status is RunStatus.FAILED


def test_a_job_without_the_line_of_its_group_was_cut() -> None:
    content = of_case("two-jobs")
    (cut,) = measured(content[: content.index(b"Run status")])
    assert (cut.status, code_of(cut.problem or "")) == (RunStatus.FAILED, "output-unfinished")
    assert of_formats.values((cut,)) == {}


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
    whole = of_formats.values(measured(content))
    one_line = b" ".join(content[start:].split()) + after + b"\n"
    for text in (before + content[start:], before + one_line, b"a\n" + before + one_line):
        assert of_formats.recognised(OutputFile("x", text)) == ["fio"]
        assert of_formats.values(measured(text)) == whole


TEXT = (FIXTURES / "fio" / "3.33" / "client-groups.out").read_text()

GROUP = re.compile(r"(READ|WRITE): bw=\S+ \(\S+\), .*, io=([\d.]+)MiB .*, run=\d+-(\d+)msec")

MIB = 2**20


def totals(text: str) -> list[tuple[str, float]]:
    """Return what fio itself says of each group of each server, in its order."""
    return [
        (f"{access.lower()}_bandwidth", float(size) * MIB / (int(time_ms) / 1000))
        for access, size, time_ms in GROUP.findall(text)
    ]


def of_one_group(text: str) -> str:
    """Return the output as of a job file without the group that reads."""
    parts = re.split(r"(?=^rd: \(groupid=1)|(?=^Run status|^Disk stats|^<vm> $)", text, flags=re.M)
    kept = [part for part in parts if not part.startswith(("rd: ", "Run status group 1"))]
    return "".join(kept).replace("total=64,64,0,0", "total=0,64,0,0")


def test_every_server_has_its_results() -> None:
    runs = measured(TEXT)
    assert [run.name for run in runs] == ["vm: w", "vm: rd", "vm: w 2", "vm: rd 2"]
    for run, (metric, bandwidth) in zip(runs, totals(TEXT), strict=True):
        assert (run.status, run.host, run.tool_version) == (RunStatus.OK, "vm", "3.33")
        assert (run.requested["tasks"], run.requested["transfer_size_bytes"]) == (2, MIB)
        assert figure(run, metric).value == pytest.approx(bandwidth)


@pytest.mark.parametrize("first", ["08:25:31", "08:25:37", "08:25:39", "09:00:00"])
def test_servers_that_end_seconds_apart_are_no_states_of_one(first: str) -> None:
    """A second apart the first was taken for what ``--status-interval`` prints of the other."""
    head, block = TEXT.split("<vm> \n", 1)
    changed = head + "<vm> \n" + block.replace("08:25:38", first, block.count("08:25:38") // 2)
    assert values(measured(changed)) == values(measured(TEXT))
    assert f"{measured(changed)[1].ended:%H:%M:%S}" == first


def test_one_group_of_all_servers_is_one_result() -> None:
    text = of_one_group(TEXT)
    (run,) = measured(text)
    assert (run.name, run.status, run.requested["tasks"]) == ("w", RunStatus.OK, 4)
    times_s = [int(time_ms) / 1000 for _, _, time_ms in GROUP.findall(text)]
    assert len(times_s) == 2
    assert figure(run, "write_bandwidth").value == pytest.approx(64 * MIB / max(times_s))


def test_without_the_last_server_nothing_is_believed() -> None:
    """A client sums all up at its end: until then results of a server may be still to come."""
    for text in (TEXT, of_one_group(TEXT)):
        cut = text[: text.index("<vm> \n", text.index("Run status"))]
        for run in measured(cut):
            assert run.status is not RunStatus.OK
            assert of_formats.believed(run, None) == []
        assert of_formats.values(measured(cut + text[text.index("All clients") :])) == {}


def test_hosts_are_told_apart_where_their_names_stand_before_their_results() -> None:
    """Not where two say that they end before either has printed anything."""
    places = [match.start() for match in re.finditer("^<vm> $", TEXT, re.M)]
    named = TEXT
    for place, name in zip(places[::-1], ("n2", "n1"), strict=True):
        named = f"{named[:place]}<{name}> {named[place + 5 :]}"
    assert [run.host for run in measured(named)] == ["n1", "n1", "n2", "n2"]
    together = named.replace("<n2> \n", "").replace("<n1> \n", "<n1> \n<n2> \n")
    assert [run.host for run in measured(together)] == [None] * 4
    assert len(values(measured(together))) == len(values(measured(TEXT)))


def test_two_clients_one_after_the_other() -> None:
    runs = measured(TEXT + TEXT)
    assert [run.status for run in runs] == [RunStatus.OK] * 8
    assert {a.host for a, _ in pairwise(runs)} == {"vm"}


def test_json_of_groups_does_not_depend_on_the_order_in_which_servers_end() -> None:
    document = json.loads((FOLDER / "3.42" / "client.out").read_text())
    sums = document["client_stats"].pop()
    jobs = [
        {**job, "jobname": name, "groupid": group}
        for group, name in enumerate(("w", "rd"))
        for job in document["client_stats"]
    ]
    by_host = sorted(jobs, key=lambda job: str((job["hostname"], job["port"])))
    first, second = (
        measured(json.dumps({**document, "client_stats": [*order, sums]}, indent=2))
        for order in (jobs, by_host)
    )
    names = {f"{job['hostname']}: {job['jobname']}" for job in jobs}
    assert {run.name for run in first} == {run.name for run in second} == names
    assert of_formats.values(first) == of_formats.values(second)


@sampled
def test_a_cut_output_tells_nothing_else() -> None:
    for text in (TEXT, of_one_group(TEXT)):
        of_formats.check_cut(FORMAT, OutputFile("client.out", text.encode()))

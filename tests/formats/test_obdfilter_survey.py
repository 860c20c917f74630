"""The surveys of lustre-iokit (obdfilter, OST, MDS, LNet), and ways in which one can be wrong."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats import of_formats
from tests.formats.damage import sampled
from tests.formats.of_formats import believed, figure, source, values
from tests.formats.recorded import FIXTURES, REAL_DATA
from tests.formats.survey_files import survey_files
from tests.support.codes import raises
from tests.support.each import for_each
from tests.support.narrow import present

from trimtab.base.error import DataError, code_of
from trimtab.base.run import RunStatus
from trimtab.formats import lst_survey, mds_survey, ost_survey
from trimtab.formats.measurement import Measurement, OutputFile, OutputFormat
from trimtab.formats.obdfilter_output import objects_left, read_detail, target_of
from trimtab.formats.obdfilter_survey import FORMAT, read

MIB = 2**20
HERE = FIXTURES / "obdfilter_survey" / "2.17"
EMPTY = ("bad-", "netdisk", "bad_")


def results_in(folder: Path) -> list[Path]:
    """Return the files of a folder that hold results."""
    paths = [path for end in ("summary", "detail", "out") for path in folder.glob(f"*.{end}")]
    kept = [path for path in paths if path.stat().st_size and not path.name.startswith(EMPTY)]
    return sorted(path for path in kept if not path.name.startswith(("lfs_", "after_", "default_")))


REAL = results_in(REAL_DATA / "lustre-2.17" / "obdfilter_survey")
ALL = [*results_in(HERE), *REAL]
each = for_each("path", ALL, ids=lambda path: path.name)
each_pair = for_each(
    "path", [path for path in ALL if path.suffix == ".summary"], ids=lambda path: path.name
)


def only(path: Path) -> Measurement:
    (found,) = read(source(path))
    return found


def figures(found: Measurement, *, target: str | None = None) -> dict[tuple[str, str], float]:
    return {
        (sample.metric, sample.statistic): round((sample.value or 0) / MIB, 6)
        for sample in found.samples
        if sample.target == target and sample.believed
    }


def test_a_summary_with_its_detail() -> None:
    one, two = read(source(HERE / "long.summary"))
    assert (one.status, two.status) == (RunStatus.OK, RunStatus.OK)
    assert (one.name, one.layer, one.host) == ("rsz 1024K obj 1 thr 1", "ost", "lustre1")
    assert figures(one) == {
        ("write_bandwidth", "total"): 374.82,
        ("write_bandwidth", "interval_min"): 276.80,
        ("write_bandwidth", "interval_max"): 387.66,
        ("rewrite_bandwidth", "total"): 877.0,
        ("read_bandwidth", "total"): 1135.62,
    }
    assert figures(two, target="OST0001") == {
        ("write_bandwidth", "total"): 302.278842,
        ("rewrite_bandwidth", "total"): 1576.113992,
        ("read_bandwidth", "total"): 1855.965479,
    }
    assert one.began == datetime(2026, 11, 20, 16, 15, 22, tzinfo=UTC)
    assert one.requested == {
        "case": "disk",
        "size_bytes": 1600 * MIB,
        "transfer_size_bytes": MIB,
        "objects_per_target": 1,
        "threads_per_target": 1,
        "tests": ["write", "rewrite", "read"],
        "targets": ["scratch-OST0001"],
    }
    assert one.reported == {"targets": 1, "file_system": "scratch", "short": ["rewrite", "read"]}


def test_two_targets_are_told_for_one_and_each_figure_leads_to_its_line() -> None:
    texts = [(HERE / f"two-targets.{end}").read_text().split("\n") for end in ("summary", "detail")]
    found = only(HERE / "two-targets.summary")
    for sample in found.samples:
        printed = texts[present(sample.output)][present(sample.line) - 1]
        figure = (sample.value or 0) / MIB
        assert f"{figure:.2f}" in printed or f"{figure:.6f}" in printed
    assert {sample.target for sample in found.samples} == {None, "OST0000", "OST0003"}
    assert (found.requested["objects_per_target"], found.requested["threads_per_target"]) == (2, 4)
    assert (found.requested["size_bytes"], found.reported["targets"]) == (32 * MIB, 2)


def asked_targets(osts: int, *, detail: bool = True) -> Any:
    made = survey_files(osts)
    beside = {"x.detail": made.detail} if detail else {}
    (one,) = read(OutputFile("x.summary", made.summary, beside))
    return one.requested["targets"]


def test_which_targets_were_surveyed_is_a_parameter() -> None:
    """Else the deviation of a series would be that of OSTs, not of times."""
    assert asked_targets(2) == ["scratch-OST0000", "scratch-OST0001"]
    assert len(asked_targets(8)) == 8
    many = asked_targets(9)
    assert many["count"] == 9
    assert many == asked_targets(9) != asked_targets(10)
    assert asked_targets(9, detail=False) == 9
    detail = survey_files(9).detail.replace(b"scratch-OST0008", b"home-OST0008")
    (other,) = read(OutputFile("x", detail))
    assert other.requested["targets"] != many


def test_what_it_prints_is_the_same_result_as_its_summary() -> None:
    for case in ("two-targets", "long"):
        printed, kept = (
            [one.identity for one in read(OutputFile("x", (HERE / f"{case}.{end}").read_bytes()))]
            for end in ("out", "summary")
        )
        assert printed == kept
        assert None not in printed
        assert len(set(printed)) == len(printed)


def test_a_line_that_is_not_whole_is_no_copy_of_another() -> None:
    made = survey_files(2)
    for end in range(len(made.summary) - 1):
        for one in of_formats.read_or_none(FORMAT, OutputFile("x", made.summary[:end])) or ():
            assert one.identity is None


def test_a_detail_alone_has_no_figure_of_all_targets() -> None:
    found = read(OutputFile("long.detail", (HERE / "long.detail").read_bytes()))
    totals = [sample for one in found for sample in one.samples if sample.target is None]
    assert len(totals) == 6
    assert {sample.value for sample in totals} == {None}
    assert {code_of(sample.reason) for sample in totals} == {"companion-missing"}
    assert figures(found[0], target="OST0001")["write_bandwidth", "total"] == 391.980472
    assert {sample.output for one in found for sample in one.samples if sample.target} == {0}


def test_the_two_files_are_one_result() -> None:
    assert FORMAT.companions("a.summary") == ("a.detail",)
    assert (FORMAT.instead("a.detail"), FORMAT.instead("a.summary")) == (("a.summary",), ())
    assert FORMAT.companions("a.out") == ()


def test_a_killed_survey_ends_with_done() -> None:
    first, second = read(source(HERE / "kill-mid.out"))
    assert first.status is second.status is RunStatus.PARTIAL
    assert "run-unfinished" in first.codes
    assert "rewrite" in (first.problem or "")
    assert figures(first)["write_bandwidth", "total"] == 231.65
    assert [s.value for s in first.samples if s.metric == "rewrite_bandwidth"] == [None]
    assert second.name == "rsz 1024K obj 1 thr 1 #2"


@pytest.mark.parametrize("name", ["bad-rsz", "bad-target"])
def test_a_refused_survey_measured_nothing(name: str) -> None:
    refused = source(HERE / f"{name}.out")
    assert FORMAT.recognises(refused)
    with pytest.raises(DataError, match="program exited with error"):
        read(refused)


def test_what_lctl_complained_of_is_not_believed() -> None:
    text = (HERE / "two-targets.detail").read_text()
    hit = "--threads: starting 4 threads on device 50 running test_brw 8 wx q 256 2t10 p256\n"
    assert text.count(hit) == 1
    bad = text.replace(hit, f"error: test_brw: #3 - No space left on device on write\n{hit}")
    line = (HERE / "two-targets.summary").read_text().replace("SHORT", "ERROR", 1)
    (found,) = read(OutputFile("x.summary", line.encode(), {"x.detail": bad.encode()}))
    assert found.status is RunStatus.PARTIAL
    assert "tool-error" in found.codes
    assert "write" in (found.problem or "")
    assert figures(found, target="OST0000")["write_bandwidth", "total"] == 476.907256
    for target in (None, "OST0003"):
        assert "write_bandwidth" not in {metric for metric, _ in figures(found, target=target)}
    (reason,) = (
        one.reason
        for one in found.samples
        if (one.target, one.metric) == ("OST0003", "write_bandwidth")
    )
    assert "No space left on device" in (reason or "")


def test_an_older_layout() -> None:
    line = (
        "Tue Mar 11 10:02:03 PST 2008 Obdfilter-survey for case=disk from oss1\n"
        "ost  2 sz 16777216K rsz 1024 obj    2 thr   32 write  600.12 [ 240.00, 310.50]"
        " read  701.00 [ 330.00, 360.25]\n"
    )
    (found,) = read(OutputFile("a.summary", line.encode()))
    assert figures(found)["write_bandwidth", "interval_max"] == 310.5
    assert found.requested["transfer_size_bytes"] == MIB
    # PST is the Philippines' and the Pacific's: no zone.
    assert found.began == datetime(2008, 3, 11, 10, 2, 3)


@pytest.mark.parametrize(
    ("case", "layer"), [("disk", "ost"), ("network", "network"), ("netdisk", "client")]
)
def test_the_case_tells_the_layer(case: str, layer: str) -> None:
    text = (HERE / "long.summary").read_text().replace("case=disk", f"case={case}")
    assert {found.layer for found in read(OutputFile("a.summary", text.encode()))} == {layer}


@each_pair
def test_figures_of_the_summary_follow_from_the_detail(path: Path) -> None:
    """Slowest and fastest second within rounding; the whole takes longer than any target alone."""
    blocks = read_detail(path.with_suffix(".detail").read_text())
    for one, block in zip(read(source(path)), blocks, strict=True):
        assert block.whole
        of_all = [sample for sample in one.samples if sample.target is None]
        assert all(sample.reason is None for sample in of_all)
        totals = {(sample.metric, sample.statistic): sample.value or 0 for sample in of_all}
        for test, metric in zip(block.tests, dict.fromkeys(m for m, _ in totals), strict=True):
            extremes = present(test.extremes)
            total_s = block.shape.size_kib * 1024 / totals[metric, "total"]
            assert total_s > max(rate.elapsed_s or 0 for rate in test.rates)
            if (metric, "interval_min") in totals:
                low, high = (totals[metric, f"interval_{end}"] for end in ("min", "max"))
                assert low == pytest.approx(extremes.slowest_bytes_per_s, abs=0.0051 * MIB)
                assert high == pytest.approx(extremes.fastest_bytes_per_s, abs=0.0051 * MIB)
            else:
                assert extremes.seconds == 0


@pytest.mark.parametrize(
    ("old", "new", "why"), [("374.82", "974.82", "4.082 s"), ("276.80", "176.80", ".detail")]
)
def test_a_figure_that_the_detail_contradicts_is_not_believed(old: str, new: str, why: str) -> None:
    path = HERE / "long.summary"
    changed = path.read_text().replace(old, new)
    assert changed != path.read_text()
    found = read(OutputFile(path.name, changed.encode(), source(path).beside))[0]
    reason = of_formats.figure(found, "write_bandwidth").reason
    assert code_of(reason) == "figures-disagree"
    assert why in (reason or "")


def test_a_detail_of_another_survey_is_not_used() -> None:
    other = (HERE / "two-targets.detail").read_bytes()
    found = read(OutputFile("a.summary", (HERE / "long.summary").read_bytes(), {"a.detail": other}))
    assert all(sample.target is None for one in found for sample in one.samples)
    assert code_of(found[0].warnings[0]) == "companion-of-another-run"


def test_targets_of_two_file_systems_keep_their_whole_names() -> None:
    summary, detail = (
        (HERE / f"two-targets.{end}").read_bytes().replace(b"scratch-OST0003", b"home-OST0000")
        for end in ("summary", "detail")
    )
    (found,) = read(OutputFile("a.summary", summary, {"a.detail": detail}))
    names = {None, "scratch-OST0000", "home-OST0000"}
    assert {sample.target for sample in found.samples} == names


def test_objects_that_a_killed_survey_left() -> None:
    text = (HERE / "two-targets.detail").read_text()
    assert objects_left(text) == ()
    cut = text[: text.index("=============> Destroy 2 on localhost:scratch-OST0003_ecc")]
    (left,) = objects_left(cut)
    assert (target_of(left.client), left.ids) == ("scratch-OST0003", (0xA, 0xB))
    assert len(objects_left(text[: text.index("=============> write global")])) == 2


def test_many_targets() -> None:
    files = survey_files(298, seed=3)
    (found,) = read(OutputFile("a.summary", files.summary, {"a.detail": files.detail}))
    assert (found.status, found.reported["targets"]) == (RunStatus.OK, 298)
    of_targets = [sample for sample in found.samples if sample.target is not None]
    assert all(sample.reason is None for sample in of_targets)
    assert {(s.metric, s.target): s.value for s in of_targets} == pytest.approx(
        {
            (f"{test}_bandwidth", name.removeprefix("scratch-")): rate
            for test, rates in files.rates.items()
            for name, rate in rates.items()
        },
        rel=1e-6,
    )


@pytest.mark.calibration
@each_pair
def test_a_cut_detail(path: Path) -> None:
    whole = source(path)
    ((name, detail),) = whole.beside.items()
    right = values(read(whole))
    for end in range(0, len(detail), max(1, len(detail) // 200)):
        found = values(read(OutputFile(whole.name, whole.content, {name: detail[:end]})))
        assert {key: right.get(key) for key in found} == found


@given(st.data())
def test_a_changed_digit_gives_no_believed_figure_of_another_size(data: st.DataObject) -> None:
    """One character of a rate, time or count in the detail: the rate of that target is refused."""
    text = (HERE / "two-targets.detail").read_text()
    right = values(read(OutputFile("a.detail", text.encode())))
    lines = [found for found in re.finditer(r"^Total: .*$", text, re.MULTILINE)]
    chosen = data.draw(st.sampled_from(lines))
    digits = [at for at in range(chosen.start(), chosen.end()) if text[at].isdigit()]
    at = data.draw(st.sampled_from(digits))
    digit = data.draw(st.sampled_from([one for one in "0123456789" if one != text[at]]))
    changed = OutputFile("a.detail", f"{text[:at]}{digit}{text[at + 1 :]}".encode())
    for key, value in values(of_formats.read_or_none(FORMAT, changed) or ()).items():
        assert value == pytest.approx(right[key], rel=1e-4)


@given(st.data())
def test_two_surveys_that_write_into_one_file(data: st.DataObject) -> None:
    """Between any two writes of one survey stand those of another: only figures that are there."""
    text, other = ((HERE / f"{name}.summary").read_text() for name in ("two-targets", "long"))
    right = {round(value) for value in _believed(text) + _believed(other)}
    first, second, third = (data.draw(st.sampled_from(_writes(t))) for t in (text, other, text))
    for value in _believed(text[:first] + other[second:] + text[third:]):
        assert round(value) in right


def _writes(text: str) -> list[int]:
    """Return where one write of the survey ends and the next begins."""
    return [found.end() for found in re.finditer(r"(?<=[A-Za-z0-9\]]) |\n", text)]


def _believed(text: str) -> list[float]:
    found = of_formats.read_or_none(FORMAT, OutputFile("a.summary", text.encode())) or ()
    samples = [sample for one in found for sample in one.samples if sample.believed]
    return [sample.value for sample in samples if sample.value is not None]


def recorded(survey: str, name: str) -> OutputFile:
    path = FIXTURES / f"{survey}_survey" / "2.17" / name
    return OutputFile(path.name, path.read_bytes())


def read_survey(form: OutputFormat, text: str) -> tuple[Measurement, ...]:
    source = OutputFile("survey.txt", text.encode())
    assert of_formats.recognised(source) == [form.kind]
    return form.read(source)


def rates(measured: Measurement, metric: str) -> dict[str | None, float]:
    """Return MiB/s by target."""
    return {
        sample.target: (sample.value or 0.0) / MIB
        for sample in measured.samples
        if sample.metric == metric and sample.believed
    }


OSTS = """\
./ost-survey: 11/26/26 OST speed survey on /mnt/lustre from 10.0.0.5@tcp
Number of Active OST devices : 4
Worst  Read OST indx: 12 speed: 210.100000
Best   Read OST indx: 1 speed: 951.200000
Read Average: 702.500000 +/- 290.000000 MB/s
Worst  Write OST indx: 12 speed: 190.100000
Best   Write OST indx: 0 speed: 881.200000
Write Average: 650.500000 +/- 270.000000 MB/s
Ost#  Read(MB/s)  Write(MB/s)  Read-time  Write-time
----------------------------------------------------
0     900.100       881.200        0.033      0.034
1     951.200       870.000        0.032      0.034
12     210.100       190.100        0.143      0.158
13     748.600       660.700        0.040      0.045
"""


def test_ost_survey_prints_mib_and_decimal_indices() -> None:
    (measured,) = read_survey(ost_survey.FORMAT, OSTS)
    assert measured.status is RunStatus.OK
    assert rates(measured, "read_bandwidth") == pytest.approx(
        {"OST0000": 900.1, "OST0001": 951.2, "OST000c": 210.1, "OST000d": 748.6}
    )
    assert rates(measured, "write_bandwidth")["OST000c"] == pytest.approx(190.1)
    assert figure(measured, "read_bandwidth", target="OST0001").line == 12
    assert measured.reported["slowest_target"] == "OST000c"
    assert measured.requested == {"file_size_bytes": 30 * MIB, "path": "/mnt/lustre"}
    assert (measured.began, measured.host) == (None, "10.0.0.5@tcp")
    assert [text for text in measured.warnings if "2026-11-26" in text]


@pytest.mark.parametrize(
    ("was", "now", "code"),
    [
        ("1     951.200", "1     151.200", "figures-disagree"),  # Best says otherwise
        ("13     748.600", "13     448.600", "figures-disagree"),  # its time says otherwise
        ("0.040      0.045\n", "0.040\n", "line-damaged"),
        ("0     900.100       881.200        0.033      0.034\n", "", "output-unfinished"),
    ],
)
def test_ost_survey_altered(was: str, now: str, code: str) -> None:
    (measured,) = read_survey(ost_survey.FORMAT, OSTS.replace(was, now))
    assert measured.status is RunStatus.PARTIAL
    assert code in measured.codes
    whole = rates(read_survey(ost_survey.FORMAT, OSTS)[0], "read_bandwidth").items()
    assert rates(measured, "read_bandwidth").items() <= whole


def test_ost_survey_with_an_inactive_ost() -> None:
    (measured,) = ost_survey.FORMAT.read(recorded("ost", "four.out"))
    assert measured.status is RunStatus.OK
    assert [*rates(measured, "write_bandwidth")] == ["OST0000", "OST0001", "OST0003"]
    assert "inactive, not measured: OST0002" in measured.warnings


def test_two_ost_surveys_in_a_file() -> None:
    """Of one OST no summary is printed."""
    one = "".join(line for line in OSTS.splitlines(True) if "Worst" not in line)
    assert len(read_survey(ost_survey.FORMAT, OSTS + one)) == 2


MDTS = (
    "Thu Nov 26 10:20:01 UTC 2026 ./mds-survey from mds1\n"
    "mdt 1 file  100000 dir    4 thr    4 create 5652.05 [ 999.01,46940.48] destroy 5797.79 "
    "[   0.00,52951.55] \n"
    "mdt 1 file  100000 dir    4 thr    8 create 7652.05 [ 999.01,46940.48] destroy 8797.79 "
    "[   0.00,52951.55] \ndone!\n"
)


def test_mds_survey_has_a_result_for_each_number_of_threads() -> None:
    measured = of_formats.by_name(read_survey(mds_survey.FORMAT, MDTS))
    assert [*measured] == ["dir 4 thr 4", "dir 4 thr 8"]
    for name, create, destroy, line in (
        ("dir 4 thr 4", 5652.05, 5797.79, 2),
        ("dir 4 thr 8", 7652.05, 8797.79, 3),
    ):
        one = measured[name]
        assert (one.status, figure(one, "file_creation_rate").value) == (RunStatus.OK, create)
        assert figure(one, "file_removal_rate").value == destroy
        assert figure(one, "file_removal_rate").line == line
        assert one.began == datetime(2026, 11, 26, 10, 20, 1, tzinfo=UTC)
        assert (one.requested["targets"], one.requested["directories"]) == (1, 4)
    assert believed(one, "file_creation_rate", "interval_max") == [46940.48]


def test_mds_survey_of_several_mdts_has_the_rate_of_one() -> None:
    (measured, _) = mds_survey.FORMAT.read(recorded("mds", "two.summary"))
    assert (measured.requested["targets"], measured.reported["targets"]) == (2, 1)
    assert measured.warnings == ("with 2 MDTs the script prints the rate of one, their mean",)
    assert believed(measured, "file_attribute_rate") == [4527.62]
    (old, _) = read_survey(mds_survey.FORMAT, MDTS.replace("mdt 1", "mdt 2"))
    assert old.warnings == ("with 2 MDTs the script prints the rate of the first",)
    assert of_formats.samples(old, None, "interval_max") == []


def test_mds_survey_with_an_error() -> None:
    measured = mds_survey.FORMAT.read(recorded("mds", "fail.out"))
    assert [one.codes for one in measured] == [("tool-error",)] * 2
    assert believed(measured[0], "file_attribute_rate") == []
    assert believed(measured[0], "file_removal_rate") == [4113.12]


@pytest.mark.parametrize("ending", ["", "done!\n", "des", "program exited with error\n"])
def test_mds_survey_killed(ending: str) -> None:
    whole = MDTS[: MDTS.rindex("8797.79")].removesuffix("destroy ")
    *_, last = read_survey(mds_survey.FORMAT, f"{whole}destroy {ending}")
    assert (last.status, believed(last, "file_creation_rate")) == (RunStatus.PARTIAL, [7652.05])
    assert believed(last, "file_removal_rate") == []


def test_summary_and_standard_output_are_one_survey() -> None:
    both = [mds_survey.FORMAT.read(recorded("mds", f"one.{end}")) for end in ("summary", "out")]
    assert [one.identity for one in both[0]] == [one.identity for one in both[1]]


NETWORK = """\
CSV results: /tmp/lst_survey.1666207637/results.1666207637.csv
LST output: /tmp/lst-survey/lst_survey.1666207637/lst.1666207637.out

Commence lst-survey - Wed 19 Oct 2022 01:27:17 PM MDT
Server Group: 172.18.2.5@tcp 172.18.2.6@tcp
Client Group: 172.18.2.7@tcp 172.18.2.8@tcp

          Mode       Read MB/s       Read RPC/s      Write MB/S      Write RPC/s
       read 4k              22           149981             608           299961
       read 1m               2            14405           14405            28808
      write 1m           11463            22924               1            22924
          ping              25           167928              25           167928

Finished lst-survey - Wed 19 Oct 2022 01:28:08 PM MDT
"""


def test_lst_survey_reads_what_servers_send() -> None:
    measured = of_formats.by_name(read_survey(lst_survey.FORMAT, NETWORK))
    assert {name: believed(one, "read_bandwidth") for name, one in measured.items()} == {
        "read 4k": [608 * MIB], "read 1m": [14405 * MIB], "write 1m": [], "ping": [],
    }  # fmt: skip
    assert believed(measured["write 1m"], "write_bandwidth") == [11463 * MIB]
    assert believed(measured["ping"], "rpc_rate") == [167928]
    small = measured["read 4k"]
    assert small.requested["transfer_size_bytes"] == 4096
    assert (small.requested["side"], small.reported) == ("server", {"servers": 1})
    assert figure(small, "read_bandwidth").line == 9
    assert small.began == datetime(2022, 10, 19, 19, 27, 17, tzinfo=UTC)


def test_lst_survey_of_clients_has_the_columns_as_they_are_called() -> None:
    text = NETWORK.replace("22           149981             608 ", "608           149981    22 ")
    text = "".join(line for line in text.splitlines(True) if " 1m " not in line)
    (small, _) = read_survey(lst_survey.FORMAT, text)
    assert (believed(small, "read_bandwidth"), small.requested["side"]) == ([608 * MIB], "client")


def test_both_ways_at_once_do_not_show_the_side() -> None:
    (both, ping) = lst_survey.FORMAT.read(recorded("lst", "both-ways.out"))
    assert (both.name, both.codes) == ("rw 1m", ("side-unknown",))
    assert believed(ping, "rpc_rate")


def test_table_and_csv_of_a_survey_are_one() -> None:
    (csv,) = (FIXTURES / "lst_survey/2.17").glob("results.1795855927.csv")
    by_file = [
        lst_survey.FORMAT.read(source)
        for source in (recorded("lst", "groups.out"), recorded("lst", csv.name))
    ]
    assert len(by_file[0]) == 10
    for one, other in zip(*by_file, strict=True):
        assert (one.name, one.identity, one.began) == (other.name, other.identity, other.began)
        assert believed(one, "read_bandwidth") == believed(other, "read_bandwidth")


@pytest.mark.parametrize(
    "printed",
    ["Wed Oct 19 01:27:17 PM MDT 2022", "Wed Oct 19 13:27:17 MDT 2022", "Wed 19 Oct 2022 13:27:17"],
)
def test_lst_survey_dates_of_other_systems(printed: str) -> None:
    text = NETWORK.replace("Wed 19 Oct 2022 01:27:17 PM MDT", printed)
    assert read_survey(lst_survey.FORMAT, text)[0].began == datetime(
        2022, 10, 19, 19, 27, 17, tzinfo=UTC
    )
    without = text.split("\n", 3)[3]
    assert read_survey(lst_survey.FORMAT, without)[0].began == datetime(2022, 10, 19, 13, 27, 17)


def test_lst_survey_that_broke_off() -> None:
    text = (
        NETWORK.split("       read 1m")[0]
        + "\nError: Failed to get all samples. Expect 14, found 2\n"
    )
    (measured,) = read_survey(lst_survey.FORMAT, text)
    assert measured.codes == ("tool-error", "output-unfinished")
    assert measured.status is RunStatus.PARTIAL
    with raises(DataError, "no-result"):
        lst_survey.FORMAT.read(OutputFile("x", NETWORK.split("       read 4k")[0].encode()))


@sampled
def test_lst_survey_cut() -> None:
    of_formats.check_cut(lst_survey.FORMAT, OutputFile("x", NETWORK.encode()))


def test_the_case_of_three_surveys() -> None:
    folder = REAL_DATA / "cases" / "iokit-surveys"
    if not folder.is_dir():
        pytest.skip("the collection of real outputs is not here")
    kinds = {
        "ost-survey.txt": "ost-survey",
        "mds.summary": "mds-survey",
        "survey.txt": "lst-survey",
    }
    for name, kind in kinds.items():
        assert of_formats.recognised(OutputFile(name, (folder / name).read_bytes())) == [kind]

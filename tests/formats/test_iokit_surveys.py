"""ost-survey, mds-survey and lst-survey of lustre-iokit."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.formats.damage import sampled
from tests.formats.of_formats import believed, by_name, check_cut, figure, recognised, samples
from tests.formats.recorded import FIXTURES, REAL_DATA
from tests.support.codes import raises

from trimtab.base.error import DataError
from trimtab.base.run import RunStatus
from trimtab.formats import lst_survey, mds_survey, ost_survey
from trimtab.formats.measurement import Measurement
from trimtab.formats.source import OutputFile, OutputFormat

MIB = 2**20


def recorded(survey: str, name: str) -> OutputFile:
    path = FIXTURES / f"{survey}_survey" / "2.17" / name
    return OutputFile(path.name, path.read_bytes())


def read(form: OutputFormat, text: str) -> tuple[Measurement, ...]:
    source = OutputFile("survey.txt", text.encode())
    assert recognised(source) == [form.kind]
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
    (measured,) = read(ost_survey.FORMAT, OSTS)
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
    (measured,) = read(ost_survey.FORMAT, OSTS.replace(was, now))
    assert measured.status is RunStatus.PARTIAL
    assert code in measured.codes
    whole = rates(read(ost_survey.FORMAT, OSTS)[0], "read_bandwidth").items()
    assert rates(measured, "read_bandwidth").items() <= whole


def test_ost_survey_with_an_inactive_ost() -> None:
    (measured,) = ost_survey.FORMAT.read(recorded("ost", "four.out"))
    assert measured.status is RunStatus.OK
    assert [*rates(measured, "write_bandwidth")] == ["OST0000", "OST0001", "OST0003"]
    assert "inactive, not measured: OST0002" in measured.warnings


def test_two_ost_surveys_in_a_file() -> None:
    """Of one OST no summary is printed."""
    one = "".join(line for line in OSTS.splitlines(True) if "Worst" not in line)
    assert len(read(ost_survey.FORMAT, OSTS + one)) == 2


MDTS = (
    "Thu Nov 26 10:20:01 UTC 2026 ./mds-survey from mds1\n"
    "mdt 1 file  100000 dir    4 thr    4 create 5652.05 [ 999.01,46940.48] destroy 5797.79 "
    "[   0.00,52951.55] \n"
    "mdt 1 file  100000 dir    4 thr    8 create 7652.05 [ 999.01,46940.48] destroy 8797.79 "
    "[   0.00,52951.55] \ndone!\n"
)


def test_mds_survey_has_a_result_for_each_number_of_threads() -> None:
    measured = by_name(read(mds_survey.FORMAT, MDTS))
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
    (old, _) = read(mds_survey.FORMAT, MDTS.replace("mdt 1", "mdt 2"))
    assert old.warnings == ("with 2 MDTs the script prints the rate of the first",)
    assert samples(old, None, "interval_max") == []


def test_mds_survey_with_an_error() -> None:
    measured = mds_survey.FORMAT.read(recorded("mds", "fail.out"))
    assert [one.codes for one in measured] == [("tool-error",)] * 2
    assert believed(measured[0], "file_attribute_rate") == []
    assert believed(measured[0], "file_removal_rate") == [4113.12]


@pytest.mark.parametrize("ending", ["", "done!\n", "des", "program exited with error\n"])
def test_mds_survey_killed(ending: str) -> None:
    whole = MDTS[: MDTS.rindex("8797.79")].removesuffix("destroy ")
    *_, last = read(mds_survey.FORMAT, f"{whole}destroy {ending}")
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
    measured = by_name(read(lst_survey.FORMAT, NETWORK))
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
    (small, _) = read(lst_survey.FORMAT, text)
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
    assert read(lst_survey.FORMAT, text)[0].began == datetime(2022, 10, 19, 19, 27, 17, tzinfo=UTC)
    without = text.split("\n", 3)[3]
    assert read(lst_survey.FORMAT, without)[0].began == datetime(2022, 10, 19, 13, 27, 17)


def test_lst_survey_that_broke_off() -> None:
    text = (
        NETWORK.split("       read 1m")[0]
        + "\nError: Failed to get all samples. Expect 14, found 2\n"
    )
    (measured,) = read(lst_survey.FORMAT, text)
    assert measured.codes == ("tool-error", "output-unfinished")
    assert measured.status is RunStatus.PARTIAL
    with raises(DataError, "no-result"):
        lst_survey.FORMAT.read(OutputFile("x", NETWORK.split("       read 4k")[0].encode()))


@sampled
def test_lst_survey_cut() -> None:
    check_cut(lst_survey.FORMAT, OutputFile("x", NETWORK.encode()))


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
        assert recognised(OutputFile(name, (folder / name).read_bytes())) == [kind]

"""perf: shares of CPU time by function, from recorded reports and scripts."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.damage import RUBBISH, cuts, flips, sampled
from tests.formats.of_formats import read_or_none
from tests.support.codes import raises

from trimtab.base.error import DataError, code_of
from trimtab.base.run import RunStatus
from trimtab.formats.measurement import Measurement, OutputFile
from trimtab.formats.perf import FORMAT, read

FIXTURES = Path(__file__).parents[1] / "fixtures"
READABLE = [
    path
    for path in sorted((FIXTURES / "perf").glob("*/*.out"))
    if path.stem not in ("report-no-symbol", "report-group")
]
FLAT = ("report", "report-header", "report-symbol", "report-separator", "report-hierarchy")


def source(name: str) -> OutputFile:
    path = FIXTURES / "perf" / "6.1.187" / f"{name}.out"
    return OutputFile(path.name, path.read_bytes())


def only(content: str | bytes, name: str = "oss1.perf") -> Measurement:
    (one,) = read(OutputFile(name, content.encode() if isinstance(content, str) else content))
    return one


def of_case(name: str) -> Measurement:
    return only(source(name).content, f"{name}.out")


def shares(one: Measurement) -> dict[str, float]:
    found = one.reported.get("shares", {})
    assert isinstance(found, dict)
    return found


def every(path: Path) -> list[dict[str, float]]:
    return [shares(one) for one in read(OutputFile(path.name, path.read_bytes()))]


@pytest.mark.parametrize("name", FLAT)
def test_five_forms_of_one_recording_say_the_same(name: str) -> None:
    """As a person reads: 35.42 % in ext4_mb_prefetch, 11.08 % in ext4_mb_scan_group."""
    (one,) = read(source(name))
    assert (one.status, one.problem, one.samples) == (RunStatus.OK, None, ())
    found = shares(one)
    assert (found["ext4_mb_prefetch"], found["ext4_mb_scan_group"]) == (0.3542, 0.1108)
    assert (found["__rcu_read_unlock"], len(found)) == (0.0964, 35)
    assert one.reported["allocator_share"] == pytest.approx(
        sum(share for name, share in found.items() if name.startswith("ext4_mb_"))
    )
    assert one.reported["allocator_share"] == pytest.approx(0.4770)
    assert "allocator_share_with_callees" not in one.reported


def test_the_header_tells_server_time_and_version() -> None:
    one = of_case("report-header")
    assert (one.host, one.reported["server"], one.tool_version) == ("oss1", "oss1", "6.1.187")
    assert (one.began, one.missing) == (datetime(2026, 11, 21, 3, 26, 28), ())


def test_a_file_may_be_named_after_the_server() -> None:
    content = source("report").content
    for name, server in (
        ("oss12.perf.txt", "oss12"), ("nid-001.perf-report.out", "nid-001"), ("oss3.perf", "oss3"),
        ("report.out", None), ("perf.txt", None), ("slow.txt", None), ("a b.perf", None),
    ):  # fmt: skip
        (one,) = read(OutputFile(f"/logs/{name}", content))
        assert one.host == server, name
        assert bool(one.missing) == (server is None)


def test_with_call_chains_the_function_itself_counts() -> None:
    """The first column holds what was called as well."""
    one = of_case("report-children")
    assert "entry_SYSCALL_64_after_hwframe" not in shares(one)
    assert one.reported["allocator_share_with_callees"] == pytest.approx(0.9667)
    for each in (one, of_case("report-no-children")):
        assert shares(each)["ext4_mb_prefetch"] == 0.4433


def test_a_part_of_a_machine() -> None:
    reported = of_case("report-all").reported
    assert reported["listed_share"] == pytest.approx(0.7489)
    assert reported["idle_share"] == pytest.approx(0.1003)


def test_two_events() -> None:
    for name in ("report-two-events", "script-two"):
        found = [(one.name, one.requested["event"]) for one in read(source(name))]
        assert found == [("cpu-clock", "cpu-clock"), ("task-clock", "task-clock")]
    rates = [shares(one)["ext4_mb_prefetch"] for one in read(source("report-two-events"))]
    assert rates == [0.4307, 0.4406]


@pytest.mark.parametrize(("name", "samples", "prefetch", "chains"), [
    ("script", 40, 11, False), ("script-fields", 41, 12, False), ("script-chain", 16, 12, True),
    ("script-fields-sym", 15, 10, True),
])  # fmt: skip
def test_samples_are_counted(name: str, samples: int, prefetch: int, chains: bool) -> None:
    (one,) = read(source(name))
    assert shares(one)["ext4_mb_prefetch"] == pytest.approx(prefetch / samples, abs=1e-6)
    assert sum(shares(one).values()) == pytest.approx(1.0, abs=1e-4)
    assert ("allocator_share_with_callees" in one.reported) == chains
    assert one.status is RunStatus.PARTIAL  # perf script prints no end, and this is a part
    assert one.codes == ("end-unknown",)
    assert f"{samples} samples" in one.problems[0]


def test_samples_weigh_by_their_period() -> None:
    one = only(
        "ll_ost_io01_002 12 [003] 100.000001:       3000 cycles:P: \n"
        "\tffffffffc0a1b2c3 ldiskfs_mb_good_group+0x3 ([ldiskfs])\n"
        "\tffffffffc0a1b2c4 ldiskfs_mb_regular_allocator+0x3 ([ldiskfs])\n\n"
        "ll ost 12/13 [003] 100.000002:       1000 cycles:P: \n"
        "\tffffffff81000000 memcpy ([kernel.kallsyms])\n"
        "\tffffffffc0a1b2c4 osd_write+0x3 ([osd_ldiskfs])\n\n"
    )
    assert shares(one) == {"ldiskfs_mb_good_group": 0.75, "memcpy": 0.25}
    assert one.reported["allocator_share"] == one.reported["allocator_share_with_callees"] == 0.75
    assert one.requested == {"event": "cycles:P"}


def test_threads_of_a_server_add_up() -> None:
    """Every thread of an OSS has a name of its own, and a line of its own for each function."""
    text = (
        "# Samples: 1M of event 'cycles:P'\n# Event count (approx.): 1\n#\n"
        "# Children      Self  Command          Shared Object  Symbol\n"
        "# ........  ........  ...............  .............  ......\n#\n"
        "    40.00%    10.00%  ll_ost_io01_001  [ldiskfs]      [k] ldiskfs_mb_new_blocks\n"
        "    30.00%    30.00%  ll_ost_io01_001  [ldiskfs]      [k] ldiskfs_mb_good_group\n"
        "    35.00%    20.00%  ll_ost_io01_002  [ldiskfs]      [k] ldiskfs_mb_good_group\n"
        "    40.00%    40.00%  ll_ost_io01_002  [kernel]       [k] copy_page\n"
    )
    (one,) = read(OutputFile("oss1.perf.txt", text.encode()))
    of = {"copy_page": 0.4, "ldiskfs_mb_good_group": 0.5, "ldiskfs_mb_new_blocks": 0.1}
    assert (shares(one), one.status) == (of, RunStatus.OK)
    assert one.reported["allocator_share_with_callees"] == pytest.approx(0.75)


def test_a_tab_or_a_symbol_with_blanks() -> None:
    one = only(
        "# Samples: 10 of event 'cycles'\n#\n# Overhead\tCommand\tSymbol\tIPC\n"
        "60.00%\tx\t[k] ldiskfs_mb_scan\t-\n40.00%\tx\t[.] std::map<int, long>::find (a b)\t-\n"
    )
    assert shares(one) == {"ldiskfs_mb_scan": 0.6, "std::map<int, long>::find (a b)": 0.4}


def test_shares_of_more_than_all_are_not_believed() -> None:
    one = only(source("report").content.replace(b" 35.42%", b" 95.42%"))
    assert (one.status, one.codes) == (RunStatus.FAILED, ("figures-disagree",))
    assert "159.9 %" in one.problems[0]
    assert "shares" not in one.reported


def test_decimal_commas_are_no_numbers() -> None:
    content = source("report").content.replace(b".", b",")
    assert read_or_none(FORMAT, OutputFile("x", content)) is None


def test_events_of_a_group_are_not_told_apart() -> None:
    text = (
        "# Samples: 10 of events 'anon group { cycles, instructions }'\n#\n"
        "#         Overhead  Command  Symbol\n    60.00%  50.00%  x  [k] ldiskfs_mb_scan\n"
    )
    for one in (OutputFile("x", text.encode()), source("report-group")):
        with pytest.raises(DataError, match="--no-group") as caught:
            read(one)
        assert caught.value.code == "events-grouped"


def test_lost_samples_are_told() -> None:
    one = only(source("report").content.replace(b"Lost Samples: 0", b"Lost Samples: 1234"))
    assert [code_of(warning) for warning in one.warnings] == ["samples-lost"]
    assert one.warnings[0].startswith("1234 ")


def test_a_script_with_its_end() -> None:
    content = source("script").content
    last = content.rstrip().rsplit(b"\n", 1)[1].split()[2].rstrip(b":")
    whole = content.replace(b"time of last sample : 36092.329974",
                            b"time of last sample : " + last)  # fmt: skip
    assert whole != content
    (one,) = read(OutputFile("x", whole))
    assert one.status is RunStatus.OK


def test_sorted_without_functions() -> None:
    with raises(DataError, "not-sorted-by-symbol"):
        read(source("report-no-symbol"))


@pytest.mark.calibration
@pytest.mark.parametrize("path", READABLE, ids=lambda path: path.stem)
def test_a_cut_output_gives_no_other_share(path: Path) -> None:
    """A function of a cut report has its share, or less where several threads share it."""
    whole = every(path)
    is_script = path.stem.startswith("script")
    for content in cuts(path.read_bytes(), seed=1, count=30):
        for one in read_or_none(FORMAT, OutputFile(path.name, content)) or ():
            if is_script:
                assert one.status is not RunStatus.OK
                assert sum(shares(one).values()) <= 1.0001
                continue
            for function, share in shares(one).items():
                assert any(share <= event.get(function, -1.0) + 1e-9 for event in whole)
                if one.status is RunStatus.OK:
                    assert any(share == event.get(function) for event in whole)


@sampled
@pytest.mark.calibration
@pytest.mark.parametrize("path", READABLE, ids=lambda path: path.stem)
def test_damaged_outputs(path: Path) -> None:
    one = OutputFile(path.name, path.read_bytes())

    whole = every(path)
    crlf = OutputFile(path.name, one.content.replace(b"\n", b"\r\n"))
    assert [shares(other) for other in read(crlf)] == whole
    for content in flips(one.content, seed=2, count=20):
        for other in read_or_none(FORMAT, OutputFile(path.name, content)) or ():
            assert all(0 <= share <= 1 for share in shares(other).values())
            assert sum(shares(other).values()) <= 1.02


def test_rubbish() -> None:
    for content in RUBBISH:
        assert read_or_none(FORMAT, OutputFile("rubbish", content)) is None


@given(st.text(alphabet=st.sampled_from("# %[k].:0123456789abc\n\t,"), max_size=400))
def test_any_text_gives_results_or_a_data_error(text: str) -> None:
    head = "# Samples: 5 of event 'cycles'\n# Overhead  Symbol\n"
    for content in (text, head + text, "x 1 1.000000: cycles: ff a\n" + text):
        one = OutputFile("x", content.encode())
        FORMAT.recognises(one)
        for found in read_or_none(FORMAT, one) or ():
            assert all(0 <= share <= 1.01 for share in shares(found).values())


@pytest.mark.parametrize("line", [
    b"x" * 200, b" " * 200, b"9" * 200, b"1.000000: " * 20, b"[k] " * 50, b" 12.34%" * 30,
    b"a 1 1.000000: " + b" " * 180, b"# Samples: 6K of event '" + b"x" * 170,
])  # fmt: skip
def test_large_rubbish_ends(line: bytes) -> None:
    """An expression that goes back and forth would take hours for one of these."""
    head = b"# Samples: 5 of event 'cycles'\n# Overhead  Symbol\n"
    for content in (head + line * 20_000, head + (line + b"\n") * 5_000, line * 20_000):
        one = OutputFile("x", content)
        FORMAT.recognises(one)
        assert read_or_none(FORMAT, one) is None

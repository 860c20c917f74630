"""Counters in the formats of many versions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reach.lustre.cuts import ADVERSARIES, cuts, whole_lines
from tests.support.each import for_each

from trimtab.reach.lustre.statistic import (
    Bucket,
    Counter,
    LnetStats,
    parse_brw_stats,
    parse_lnet_stats,
    parse_nis,
    parse_stats,
)

NEW = """\
snapshot_time                       1795190777.696583028 secs.nsecs
start_time                          1795190386.303542830 secs.nsecs
elapsed_time                        391.393040198 secs.nsecs
read_bytes                          1016 samples [bytes] 4096 4194304 20918272 63788636176384
write                               13 samples [usecs] 412 19710 71752 785417046
ioctl                               3074 samples [reqs]
cache_access                        297 samples [pages] 830 1024 303934
llog_origin_handle_next_block 119 samples [usecs] 13 11705 24977 206872551
"""
OLD = """\
snapshot_time             1534158712.738772 secs.usecs
read_bytes                27 samples [bytes] 4096 4096 110592
connect                   1 samples [reqs]
ping                      4696 samples [reqs]
"""
BRW = """\
snapshot_time:         1534158712.738772898 (secs.nsecs)

                           read      |     write
pages per bulk r/w     rpcs  % cum % |  rpcs        % cum %
512:		         0   0   0   |    0   0   0
1K:		         4 100 100   |    6 100 100

                           read      |     write
disk I/Os in flight    ios   % cum % |  ios         % cum %
1:		         0   0   0   |  2704  45  45
2:		         0   0   0   |  3180  55 100

                           read      |     write
I/O time (1/1000s)     ios   % cum % |  ios         % cum %
32:		         0   0   0   |    1  50  50
64:		         0   0   0   |    1  50 100

                           read      |     write
disk I/O size          ios   % cum % |  ios         % cum %
4K:		         7 100 100   |    1   3   3
1M:		         0   0 100   |   32  96 100

                           read      |     write
block maps msec        maps  % cum % |  maps        % cum %
"""
NIS = """\
nid                      status alive refs peer  rtr   max    tx   min
0@lo                         up     0    2    0    0     0     0     0
10.0.2.15@o2ib1              up    -1    1    8    0   256   256   255
10.0.2.15@o2ib1              up    -1    1    8    0   256   256   255
10.0.2.16@tcp              down    -1    1    8    0   256   256   255
"""


def test_counters_with_and_without_columns() -> None:
    stats = parse_stats(NEW)
    assert stats.snapshot_time_s == pytest.approx(1795190777.696583028)
    assert stats.counters == {
        "read_bytes": Counter(1016, 20918272),
        "write": Counter(13, 71752),
        "ioctl": Counter(3074),
        "cache_access": Counter(297, 303934),
        "llog_origin_handle_next_block": Counter(119, 24977),
    }
    assert stats.unread == ()


def test_the_oldest_form() -> None:
    stats = parse_stats(OLD)
    assert stats.snapshot_time_s == pytest.approx(1534158712.738772)
    assert stats.counters["read_bytes"] == Counter(27, 110592)
    assert stats.counters["ping"] == Counter(4696)


@pytest.mark.parametrize(
    "columns", ["4096", "4096 4194304", "4096 4194304 1e9", "4096 4194304 1 2 3", "1 2 " + "9" * 99]
)
def test_columns_that_are_not_known_are_missing(columns: str) -> None:
    stats = parse_stats(f"read_bytes 1016 samples [bytes] {columns}\n")
    assert stats.counters == {"read_bytes": Counter(1016)}


@pytest.mark.parametrize(
    "line",
    [
        "read_bytes 1016 samples [bytes",
        "read_bytes 1016",
        "read_bytes -1 samples [bytes]",
        "read_bytes \u0661 samples [bytes]",
        "read_bytes " + "9" * 5000 + " samples [bytes]",
        "disabled",
    ],
)
def test_a_line_that_is_not_whole_is_no_counter(line: str) -> None:
    stats = parse_stats(f"{line}\n")
    assert stats.counters == {}
    assert stats.unread == (line.split()[0],)


@pytest.mark.parametrize("text", [NEW, OLD])
def test_a_cut_file_has_no_other_counter(text: str) -> None:
    whole = parse_stats(text)
    for end in range(len(text)):
        found = parse_stats(whole_lines(text[:end]))
        assert found.counters.items() <= whole.counters.items()
        assert found.snapshot_time_s in (None, whole.snapshot_time_s)


def test_of_two_counters_of_a_name_the_first_is_kept() -> None:
    text = "a 1 samples [reqs]\na 2 samples [reqs]\n"
    assert parse_stats(text).counters == {"a": Counter(1)}


def test_histograms() -> None:
    found = parse_brw_stats(BRW)
    assert list(found) == [
        "pages per bulk r/w",
        "disk I/Os in flight",
        "I/O time (1/1000s)",
        "disk I/O size",
        "block maps msec",
    ]
    sizes = found["disk I/O size"]
    assert sizes.complete
    assert sizes.buckets == (Bucket(4096, 7, 1), Bucket(2**20, 0, 32))
    assert (sizes.reads, sizes.writes) == (7, 33)
    assert found["pages per bulk r/w"].buckets[1] == Bucket(1024, 4, 6)
    assert found["block maps msec"].buckets == ()
    assert parse_brw_stats("") == {}


def test_a_section_of_a_later_version_is_kept() -> None:
    text = "new words here     ios   % cum % |  ios         % cum %\n1: 1 100 100 | 0 0 0\n"
    found = parse_brw_stats(text)["new words here"]
    assert found.buckets == (Bucket(1, 1, 0),)


def test_a_lost_row_is_noticed() -> None:
    text = BRW.replace("2:		         0   0   0   |  3180  55 100\n", "")
    found = parse_brw_stats(text)
    assert not found["disk I/Os in flight"].complete
    assert found["disk I/O size"].complete


def test_rows_out_of_order_or_of_no_section_are_not_used() -> None:
    text = "1: 1 100 100 | 0 0 0\n" + BRW + "\n1: 1 100 100 | 0 0 0\n"
    assert parse_brw_stats(text) == parse_brw_stats(BRW)
    doubled = BRW.replace("32:\t", "64:\t")
    assert len(parse_brw_stats(doubled)["I/O time (1/1000s)"].buckets) == 1


def test_a_cut_histogram_has_no_other_row() -> None:
    whole = parse_brw_stats(BRW)
    for end in range(len(BRW)):
        for title, histogram in parse_brw_stats(whole_lines(BRW[:end])).items():
            buckets = whole[title].buckets
            assert histogram.buckets == buckets[: len(histogram.buckets)]
            rows = len(histogram.buckets)
            assert histogram.complete == (rows in (0, len(buckets)) or not _counted(buckets[:rows]))


def _counted(buckets: tuple[Bucket, ...]) -> bool:
    return any(bucket.reads or bucket.writes for bucket in buckets)


def test_lnet_counters() -> None:
    text = "0 4 2 986 987 0 3 1133592 1133593 0 0"
    assert parse_lnet_stats(text) == LnetStats(1133592, 1133593, errors=2, drops=3)
    for text in ("", "1 2 3", "0 4 2 986 987 0 3 1133592 1133593 0", "a " * 11, "statistics:\n"):
        assert parse_lnet_stats(text) is None


def test_own_nids() -> None:
    assert parse_nis(NIS) == ("0@lo", "10.0.2.15@o2ib1", "10.0.2.16@tcp")
    for cut in cuts(NIS):
        found = parse_nis(whole_lines(cut))
        assert found == parse_nis(NIS)[: len(found)]


PARSERS = (
    parse_stats,
    parse_brw_stats,
    parse_lnet_stats,
    parse_nis,
)
# fmt: off
WORDS = st.sampled_from((
    "ios ", "% ", "cum ", "| ", "1: ", "1K: ", "1 ", "samples ", "[x] ", "a@tcp ", "up ", "2/3 ",
    "\n", "\t", "status: ", "- job_id: ", "statistics:", "drop_length: ", "\x00", "\udcff",
    "\u2028",
))
# fmt: on


@pytest.mark.parametrize("parse", PARSERS)
@given(words=st.lists(WORDS))
def test_any_text_is_read(parse, words: list[str]) -> None:
    parse("".join(words))


@pytest.mark.calibration
@for_each("parse", PARSERS)
@for_each("text", ADVERSARIES)
def test_a_megabyte_of_malice_is_read_in_one_pass(parse, text: str) -> None:
    parse(text)
    part = text[: len(text) // 16]
    parse(f"a 1 samples [{part}\n1: {part}\n- job_id: {part}\nstatistics: {part}")

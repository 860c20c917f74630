"""Texts of a Lustre as they are printed: read whole, cut, hostile, and of old versions."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reach.lustre.cuts import ADVERSARIES, cuts, whole_lines
from tests.support.each import for_each
from tests.support.narrow import present

from trimtab.reach.lustre.kernel_log import parse_kernel_log
from trimtab.reach.lustre.lustre_target import (
    Import,
    LustreDevice,
    TargetName,
    parse_device_list,
    parse_import,
    parse_name,
    spelt,
    target_of,
)
from trimtab.reach.lustre.parameter import (
    Bucket,
    Counter,
    LnetStats,
    Parameters,
    parse_brw_stats,
    parse_lnet_stats,
    parse_nis,
    parse_parameters,
    parse_stats,
)

CLIENT = "ffff8881253af000"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("scratch-OST0001_UUID", ("scratch", "OST0001")),
        ("scratch-OST0001", ("scratch", "OST0001")),
        ("scratch-OST000A", ("scratch", "OST000a")),
        ("scratch-OST0001-osc-MDT0000", ("scratch", "OST0001", "MDT0000", "osc")),
        (f"scratch-OST0001-osc-{CLIENT}", ("scratch", "OST0001", CLIENT, "osc")),
        ("scratch-MDT0001-osp-MDT0000", ("scratch", "MDT0001", "MDT0000", "osp")),
        (f"scratch-MDT0000-mdc-{CLIENT}", ("scratch", "MDT0000", CLIENT, "mdc")),
        ("scratch-MDT0000-lwp-OST0001_UUID", ("scratch", "MDT0000", "OST0001", "lwp")),
        ("scratch-MDT0000-mdtlov", ("scratch", "MDT0000", None, "mdtlov")),
        ("scratch-MDT0000-mdtlov_UUID", ("scratch", "MDT0000", None, "mdtlov")),
        ("scratch-OST0001-osd", ("scratch", "OST0001", None, "osd")),
        ("my-fs-OST0001-osc-MDT0000", ("my-fs", "OST0001", "MDT0000", "osc")),
        ("OST0002-OST0001", ("OST0002", "OST0001")),
        ("a_b:OST0003", ("a_b", "OST0003")),
        *(
            (text, None)
            for text in (
                *("", "MGS", "MGC10.0.2.15@tcp", "OST0001", "scratch-MDD0000", "scratch-QMT0000"),
                *(f"scratch-clilov-{CLIENT}", "scratch-OST001", "scratch-OST00001", "a b-OST0001"),
                *("scratch-OST0001-osc-", "scratch-OST0001 ", "scratch-OST0001\n", "-" * 100_000),
                *("ninechars-OST0001", "scratch-OST000g"),
            )
        ),
    ],
)
def test_every_form_of_a_name(text: str, expected: tuple[str | None, ...] | None) -> None:
    assert parse_name(text) == (expected and TargetName(*expected))  # type: ignore[arg-type]


@given(kind=st.sampled_from(("ost", "mdt")), index=st.integers(0, 0xFFFF), text=st.text())
def test_an_index_becomes_a_name_and_back_and_any_text_is_a_name_or_none(
    kind, index: int, text: str
) -> None:
    target = target_of(kind, index)
    name = present(parse_name(f"fs-{target}_UUID"))
    assert (name.kind, name.index, name.target) == (kind, index, target)
    found = parse_name(text)
    assert found is None or text.startswith(found.file_system)


def test_the_number_is_hexadecimal_in_a_name_and_decimal_for_lfs() -> None:
    name = present(parse_name("scratch-OST0010_UUID"))
    assert (name.index, name.kind) == (16, "ost")
    assert target_of("ost", 10) == "OST000a"
    assert spelt("MDT00FF") == "MDT00ff"
    for index in (-1, 0x10000):
        with pytest.raises(ValueError, match="0 to 65535"):
            target_of("ost", index)


PARAMETERS = """\
version=2.17.57
jobid_name=%e.%u
nis=
nid                      status alive refs peer  rtr   max    tx   min
10.0.2.15@tcp                up    -1    1    8    0   256   256   255
stats=0 4 0 1740 1740 0 0 1696496 1696496 0 0
daemon_file=
osp.fs-OST0000-osc-MDT0000.active=1
osp.fs-OST0001-osc-MDT0000.active=0
lod.fs-MDT0000-mdtlov.qos_prio_free=90%
osc.fs-OST0000-osc-MDT0000.import=
import:
    name: fs-OST0000-osc-MDT0000
    state: FULL
flags=0xa04
flags2=0x8
mdt.fs-MDT0000.exports.10.73.20.12@tcp.uuid=
fs-MDT0001-mdtlov_UUID
obdfilter.fs-OST0000.job_stats=
obdfilter.fs-OST0000.exports.0@lo.stats=
snapshot_time             1716295737.288440278 secs.nsecs
obdfilter.fs-OST0000.stats=
snapshot_time             1716295737.287969347 secs.nsecs
mgc.MGC10.0.2.15@tcp.active=1
"""


@pytest.fixture(scope="module")
def parameters() -> Parameters:
    return parse_parameters(PARAMETERS)


def test_values_of_one_line_and_of_several(parameters: Parameters) -> None:
    assert parameters.complete
    for name, value in (
        ("version", "2.17.57"),
        ("jobid_name", "%e.%u"),
        ("daemon_file", ""),
        ("obdfilter.fs-OST0000.job_stats", ""),
        ("nosuch", None),
        ("mdt.fs-MDT0000.exports.10.73.20.12@tcp.uuid", "fs-MDT0001-mdtlov_UUID"),
    ):
        assert parameters.get(name) == value, name
    nis = present(parameters.get("nis"))
    assert (nis[:5], nis[-3:]) == ("nid  ", "255")
    # A line of a value may have an equals sign.
    value = present(parameters.get("osc.fs-OST0000-osc-MDT0000.import"))
    assert value.split("\n")[-2:] == ["flags=0xa04", "flags2=0x8"]
    assert "flags" not in parameters.names
    # Of two values the first is kept, and the backend may be any.
    assert parse_parameters("timeout=1\ntimeout=2\n").get("timeout") == "1"
    found = parse_parameters("osd-zfs.a.kbytesfree=5\nosd-ldiskfs.b.kbytesfree=6\n")
    assert list(found.matching("osd-*.*.kbytesfree").values()) == ["5", "6"]
    # Names are not taken from text.
    text = (
        "osc.a.import=\nuser=root\nflags=1\nosc.a b.active=1\n osc.c.active=1\nosc=1\n"
        "osd-.x.y=1\nzzz.a.active=1\n\u00e9.a=1\nosc.\u00e9.active=1\nactive=1\n"
    )
    assert parse_parameters(text).names == ("osc.a.import",)


def test_numbers_are_numbers_only() -> None:
    for value, number in (
        *(("0", 0), ("-108", -108), ("90%", None), ("2.17.57", None), ("", None)),
        *(("9" * 10_000, None), ("\u0661", None)),
    ):
        assert parse_parameters(f"timeout={value}\n").number("timeout") == number
    assert parse_parameters("timeout=1\n").number("nosuch") is None


def test_a_pattern_stays_within_one_part(parameters: Parameters) -> None:
    def names(pattern: str) -> list[str]:
        return list(parameters.matching(pattern))

    assert parameters.matching("osp.*.active") == {
        "osp.fs-OST0000-osc-MDT0000.active": "1",
        "osp.fs-OST0001-osc-MDT0000.active": "0",
    }
    assert names("obdfilter.*.stats") == ["obdfilter.fs-OST0000.stats"]
    assert names("obdfilter.*.exports.*.stats") == ["obdfilter.fs-OST0000.exports.0@lo.stats"]
    assert names("mdt.*.exports.*.uuid") == ["mdt.fs-MDT0000.exports.10.73.20.12@tcp.uuid"]
    assert names("mgc.*.active") == ["mgc.MGC10.0.2.15@tcp.active"]
    assert names("os?.*OST0000*.active") == ["osp.fs-OST0000-osc-MDT0000.active"]
    assert names("osc.*-osc-[!M]*.import") == []
    assert names("osc.*-osc-[M]*.import") == ["osc.fs-OST0000-osc-MDT0000.import"]
    assert names("*.*.active") == [name for name in parameters.names if name.endswith(".active")]
    assert names("version") == ["version"]
    assert names("osp.[.active") == []
    assert names("") == []
    # One of malice is not tried for ever.
    found = parse_parameters(f"osc.{'a' * 399}.b=1\nosc.{'1.' * 150}x=1\n")
    assert found.matching("osc.*a*a*a*a*.c") == found.matching("osc.*.*.*.*.x") == {}


def test_what_may_be_cut_is_left_out() -> None:
    values = "stats=1 2 3\nnis=\nnid status\n0@lo up\n"
    assert parse_parameters(values, complete=True).names == ("stats", "nis")
    # Stopped at the end of a line: the value of several lines may go on, that of one cannot.
    assert parse_parameters(values, complete=False).names == ("stats",)
    assert parse_parameters("nis=\n", complete=False).names == ()
    assert parse_parameters("stats=1 2\n", complete=False).names == ("stats",)
    # Stopped within a line: nobody needs to say that it was cut.
    assert parse_parameters("stats=1 2", complete=True).names == ()
    assert not parse_parameters("stats=1 2", complete=True).complete
    # A line that begins a parameter ends the one before it, even when it is cut itself.
    assert parse_parameters("nis=\n0@lo up\nstats=1", complete=True).names == ("nis",)


@pytest.mark.parametrize("text", [PARAMETERS, "a=b\n" + PARAMETERS, PARAMETERS[:-1]])
def test_a_cut_text_never_shows_another_value(text: str) -> None:
    whole = parse_parameters(PARAMETERS)
    for end in range(len(text)):
        part = parse_parameters(text[:end], complete=False)
        for name in part.names:
            assert part.get(name) == whole.get(name)


@given(st.text(alphabet=st.sampled_from("osc.ap=*\n\r\t 1%\x00\x1c\u2028\udcff"), max_size=200))
def test_any_text_gives_values_that_stand_in_it(text: str) -> None:
    found = parse_parameters(text)
    for name in found.names:
        assert name in text
        value = present(found.get(name))
        assert value in text
        assert found.matching(name.replace("*", "?")) or "[" in name


@pytest.mark.calibration
@given(
    names=st.lists(
        st.from_regex(r"(osp|osc)\.[a-b]{1,2}(-[a-b])?\.(active|state|act)", fullmatch=True)
    ),
    pattern=st.from_regex(r"(osp|os\*|\*)\.[ab*?]{1,3}\.(active|act\*|\*)", fullmatch=True),
)
def test_patterns_are_those_of_the_shell_where_no_dot_is_in_play(
    names: list[str], pattern: str
) -> None:
    found = parse_parameters("".join(f"{name}=1\n" for name in names))
    expected = [name for name in dict.fromkeys(names) if fnmatch.fnmatchcase(name, pattern)]
    assert list(found.matching(pattern)) == expected


LISTED = """\
  0 UP osd-ldiskfs fs-MDT0000-osd fs-MDT0000-osd_UUID 13
  2 UP mgc MGC10.0.2.15@tcp ee1f9370-1a86-4232-848c-81197a3e1acc 5
 10 IN osp fs-OST0001-osc-MDT0000 fs-MDT0000-mdtlov_UUID 5
145 UP osc fs-OST0000-osc-ffff888121acb000 53489c99-3201-4f59-817d-63877e31fede 5 0@lo
"""


DEVICES = (
    LustreDevice("osd-ldiskfs", "fs-MDT0000-osd"),
    LustreDevice("mgc", "MGC10.0.2.15@tcp"),
    LustreDevice("osp", "fs-OST0001-osc-MDT0000"),
    LustreDevice("osc", "fs-OST0000-osc-ffff888121acb000"),
)


def test_rows_with_and_without_a_nid_rubbish_and_a_cut_list() -> None:
    rubbish = "\x1b[2Jgarbage\n 1 UP osp a b\n 1 UP osp a b 5 6 7\n\n"
    assert parse_device_list(LISTED) == parse_device_list(LISTED + rubbish) == DEVICES
    assert parse_device_list("") == parse_device_list("\n") == ()
    for end in range(len(LISTED)):
        found = parse_device_list(LISTED[:end])
        assert found == DEVICES[: LISTED[:end].count("\n")]


NEW_IMPORT = """\
import:
    name: fs-OST0001-osc-MDT0000
    target: fs-OST0001_UUID
    state: DISCONN
    connect_flags: [ lov_index, version, adaptive_timeouts ]
    connect_data:
       flags: 0xa040401443000026
       instance: 3
       target_version: 2.17.57.0
       mdt_index: 0
       target_index: 1
    import_flags: [ IMPF_INVALID, IMPF_DEACTIVE ]
    connection:
       failover_nids: [ "10.0.0.11@o2ib1", "10.0.0.12@o2ib1" ]
       nids_stats:
          "10.0.0.11@o2ib1": { connects: 27, replied: 1, uptodate: uptodate, sec_ago: 6 }
       current_connection: "10.0.0.12@o2ib1"
       connection_attempts: 27
       generation: 3
"""
OLD_IMPORT = """\
import:
    name: fs-OST0001-osc-ffff88083bdc3000
    target: fs-OST0001_UUID
    state: FULL
    instance: 7
    connect_flags: [ write_grant, server_lock ]
    import_flags: [ replayable, pingable, connect_tried ]
    connection:
       failover_nids: [ 10.0.0.11@o2ib, 10.0.0.12@o2ib ]
       current_connection: 10.0.0.11@o2ib
       connection_attempts: 1
"""


def test_connections_of_2_17_and_of_an_old_version_which_has_no_quotes() -> None:
    new = Import(
        name="fs-OST0001-osc-MDT0000",
        target="fs-OST0001_UUID",
        state="DISCONN",
        failover_nids=("10.0.0.11@o2ib1", "10.0.0.12@o2ib1"),
    )
    assert parse_import(NEW_IMPORT) == new
    # Some lines are enough.
    kept = ("name", "target", "state", "failover_nids", "current_connection", "connection_attempts")
    lines = [line for line in NEW_IMPORT.split("\n") if line.strip().startswith(kept)]
    assert parse_import("\n".join(lines)) == new
    old = present(parse_import(OLD_IMPORT))
    assert (old.state, old.failover_nids) == ("FULL", ("10.0.0.11@o2ib", "10.0.0.12@o2ib"))
    assert parse_import("") is parse_import("import:\n    connection:\n") is None
    # An odd value is none.
    for line in ("state: NO; rm -rf", "state: full"):
        odd = parse_import(f"    target: fs-OST0000_UUID\n    {line}\n")
        assert present(odd).state is None
    for nids in ("10.0.0.1@tcp, 10.0", "10.0.0.1@tcp, rubbish ]"):
        odd = parse_import(f"    target: fs-OST0000_UUID\n    failover_nids: [ {nids}\n")
        assert present(odd).failover_nids == ()


@pytest.mark.parametrize("text", [NEW_IMPORT, OLD_IMPORT])
def test_a_cut_text_has_no_other_value(text: str) -> None:
    whole = present(parse_import(text))
    for end in range(len(text)):
        found = parse_import(whole_lines(text[:end]))
        for name in Import.__slots__ if found is not None else ():
            assert getattr(found, name) in (None, (), getattr(whole, name))


MESSAGES = """\
LDISKFS-fs (vdd): mounted filesystem a424c041 r/w with ordered data mode.
LustreError: 168-f: fs-OST0001: BAD WRITE CHECKSUM: from 12345-10.0.0.9@tcp inode [0x2:0x1:0x0]
LustreError: Skipped 4 previous similar messages
LustreError: 133-1: fs-OST0001-osc-ffff8881: BAD READ CHECKSUM: from 10.0.0.9@tcp
Lustre: Skipped 99 previous similar messages
LDISKFS-fs error (device vdd): ldiskfs_get_group_desc:280: comm head: block_group >= groups_count
Aborting journal on device vdd-8.
LDISKFS-fs (vdd): Remounting filesystem read-only
LDISKFS-fs error (device dm-3) in ldiskfs_free_blocks:1: IO failure
Aborting journal on device dm-3-8.
LDISKFS-fs error (device vdd): ldiskfs_find_entry:1: inode #2: comm mdt: reading directory
LustreError: fs-OST0003-osc-MDT0000: This client was evicted by fs-OST0003; in progress operations
LustreError: 0:0:(ldlm_lockd.c:257:expired_lock_main()) ### lock callback timer expired after \
100s: evicting client at 10.0.0.9@tcp  ns: filter
LustreError: 0:0:(ldlm_lockd.c:257:expired_lock_main()) Skipped 2 previous similar messages
Lustre: fs-MDT0000: haven't heard from client 28c3 (at 10.0.0.9@tcp) in 227 seconds. I think \
it's dead, and I am evicting it.
Lustre: fs-OST0001: Recovery over after 1:03, of 2 clients 0 recovered and 2 were evicted.
Lustre: fs-OST0001: Denying connection for new client, (0 recovered, 2 in progress, and 0 evicted)
"""


def _stamped(stamp: str) -> str:
    return "".join(
        f"{stamp.format(second=number)}{line}\n"
        for number, line in enumerate(MESSAGES.splitlines(), start=62)
    )


@pytest.mark.parametrize(
    "stamp",
    [
        "",
        "[   {second}.751121] ",
        "[Fri Nov 20 20:51:{second} 2026] ",
        "2026-11-20T20:51:{second},751121+00:00 ",
        "kern  :err   : [   {second}.751121] ",
        "<3>[   {second}.751121] ",
    ],
)
def test_every_way_of_writing_times(stamp: str) -> None:
    found = parse_kernel_log(_stamped(stamp))
    assert found.bad_checksums == 2 + 4
    assert found.read_only == ("vdd", "dm-3")
    assert not found.begins_at_boot


def test_what_a_log_says_later_counts_and_what_fell_out_of_the_ring_is_known() -> None:
    # A target that was mounted again is well again.
    found = parse_kernel_log(MESSAGES + "LDISKFS-fs (vdd): mounted filesystem a424c041 r/w\n")
    assert found.read_only == ("dm-3",)
    assert parse_kernel_log("LDISKFS-fs (vdd): Remounting filesystem read-only\n").read_only
    for first, begins in (
        ("[    0.000000] Linux version 6.12.117 (build@host)", True),
        ("[    0.000000] microcode: updated early", True),
        ("kern  :notice: [    0.000000] Linux version 6.12.117", True),
        ("Linux version 6.12.117 (build@host)", True),
        ("[   10.000000] usb 1-1: new device", False),
        ("LDISKFS-fs (vdd): Remounting filesystem read-only", False),
    ):
        assert parse_kernel_log(f"{first}\n{_stamped('[ {second}.0] ')}").begins_at_boot is begins
    assert not parse_kernel_log("").begins_at_boot
    # A first line that is given twice counts once; without times they may be two messages.
    line = "[   62.751121] LustreError: 168-f: fs-OST0001: BAD WRITE CHECKSUM: from 10.0.0.9@tcp\n"
    assert parse_kernel_log(line + line).bad_checksums == 1
    assert parse_kernel_log(2 * line.split("] ")[1]).bad_checksums == 2


def test_a_cut_log_tells_no_more_than_the_whole() -> None:
    text = _stamped("[   {second}.751121] ")
    whole = parse_kernel_log(text)
    for cut in cuts(text):
        assert parse_kernel_log(cut).bad_checksums <= whole.bad_checksums
        assert set(parse_kernel_log(whole_lines(cut)).read_only) <= set(whole.read_only)


STATS = """\
snapshot_time                       1795190777.696583028 secs.nsecs
start_time                          1795190386.303542830 secs.nsecs
elapsed_time                        391.393040198 secs.nsecs
read_bytes                          1016 samples [bytes] 4096 4194304 20918272 63788636176384
write                               13 samples [usecs] 412 19710 71752 785417046
ioctl                               3074 samples [reqs]
cache_access                        297 samples [pages] 830 1024 303934
llog_origin_handle_next_block 119 samples [usecs] 13 11705 24977 206872551
"""
OLD_STATS = """\
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
    old = parse_stats(OLD_STATS)
    assert old.snapshot_time_s == pytest.approx(1534158712.738772)
    assert old.counters["read_bytes"] == Counter(27, 110592)
    assert old.counters["ping"] == Counter(4696)
    # Of two counters of a name the first is kept.
    assert parse_stats("a 1 samples [reqs]\na 2 samples [reqs]\n").counters == {"a": Counter(1)}
    stats = parse_stats(STATS)
    assert stats.snapshot_time_s == pytest.approx(1795190777.696583028)
    assert stats.counters == {
        "read_bytes": Counter(1016, 20918272),
        "write": Counter(13, 71752),
        "ioctl": Counter(3074),
        "cache_access": Counter(297, 303934),
        "llog_origin_handle_next_block": Counter(119, 24977),
    }
    assert stats.unread == ()


def test_what_is_not_whole_is_no_counter_and_columns_that_are_not_known_are_missing() -> None:
    for columns in (
        "4096",
        "4096 4194304",
        "4096 4194304 1e9",
        "4096 4194304 1 2 3",
        "1 2 " + "9" * 99,
    ):
        stats = parse_stats(f"read_bytes 1016 samples [bytes] {columns}\n")
        assert stats.counters == {"read_bytes": Counter(1016)}
    for rest in (
        *("1016 samples [bytes", "1016", "-1 samples [bytes]", "\u0661 samples [bytes]"),
        "9" * 5000 + " samples [bytes]",
    ):
        stats = parse_stats(f"read_bytes {rest}\n")
        assert (stats.counters, stats.unread) == ({}, ("read_bytes",))
    assert parse_stats("disabled\n").unread == ("disabled",)


@pytest.mark.parametrize("text", [STATS, OLD_STATS])
def test_a_cut_file_has_no_other_counter(text: str) -> None:
    whole = parse_stats(text)
    for end in range(len(text)):
        found = parse_stats(whole_lines(text[:end]))
        assert found.counters.items() <= whole.counters.items()
        assert found.snapshot_time_s in (None, whole.snapshot_time_s)


def test_histograms_also_of_later_versions_and_with_rows_lost_or_out_of_order() -> None:
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
    text = "new words here     ios   % cum % |  ios         % cum %\n1: 1 100 100 | 0 0 0\n"
    assert parse_brw_stats(text)["new words here"].buckets == (Bucket(1, 1, 0),)
    lost = parse_brw_stats(BRW.replace("2:\t\t         0   0   0   |  3180  55 100\n", ""))
    assert not lost["disk I/Os in flight"].complete
    assert lost["disk I/O size"].complete
    strange = "1: 1 100 100 | 0 0 0\n"  # of no section
    assert parse_brw_stats(f"{strange}{BRW}\n{strange}") == parse_brw_stats(BRW)
    doubled = BRW.replace("32:\t", "64:\t")
    assert len(parse_brw_stats(doubled)["I/O time (1/1000s)"].buckets) == 1


def test_a_cut_histogram_has_no_other_row() -> None:
    whole = parse_brw_stats(BRW)
    for end in range(len(BRW)):
        for title, histogram in parse_brw_stats(whole_lines(BRW[:end])).items():
            buckets, rows = whole[title].buckets, len(histogram.buckets)
            assert histogram.buckets == buckets[:rows]
            counted = any(bucket.reads or bucket.writes for bucket in buckets[:rows])
            assert histogram.complete == (rows in (0, len(buckets)) or not counted)


def test_lnet_counters_and_own_nids() -> None:
    text = "0 4 2 986 987 0 3 1133592 1133593 0 0"
    assert parse_lnet_stats(text) == LnetStats(1133592, 1133593, errors=2, drops=3)
    for text in ("", "1 2 3", "0 4 2 986 987 0 3 1133592 1133593 0", "a " * 11, "statistics:\n"):
        assert parse_lnet_stats(text) is None
    nids = ("0@lo", "10.0.2.15@o2ib1", "10.0.2.16@tcp")
    assert parse_nis(NIS) == nids
    for cut in cuts(NIS):
        found = parse_nis(whole_lines(cut))
        assert found == nids[: len(found)]


ANY_TEXT: dict[Callable[..., object], Sequence[str]] = {
    parse_device_list: "01 UPosp@\n\x00\u2028",
    parse_import: 'name:target [],"@\n\x00a1',
    parse_kernel_log: (*MESSAGES.splitlines(keepends=True), "\n", "\x00", "[", "\udcff\u2028"),
    **dict.fromkeys(
        (parse_stats, parse_brw_stats, parse_lnet_stats, parse_nis),
        (
            *("ios ", "% ", "cum ", "| ", "1: ", "1K: ", "1 ", "samples ", "[x] ", "a@tcp ", "up "),
            *("2/3 ", "\n", "\t", "status: ", "- job_id: ", "statistics:", "drop_length: ", "\x00"),
            *("\udcff", "\u2028"),
        ),
    ),
}


@pytest.mark.parametrize("parse", ANY_TEXT)
@given(data=st.data())
def test_any_text_is_read(parse: Callable[[str], object], data: st.DataObject) -> None:
    parse(text := "".join(data.draw(st.lists(st.sampled_from(ANY_TEXT[parse])))))
    parse_import("name: a\nfailover_nids: " + text)


MALICE: dict[Callable[..., object], Sequence[str]] = {
    parse_parameters: ("{0}", "osc.a.import=\n{0}\n", "osc.{0}=1\n", "error: get_param: '{0}"),
    parse_device_list: (" 1 UP osp a b 5 {0}\n{0}",),
    parse_import: ("{0}", "name: {0}\nfailover_nids: [{1}]\nimport_flags: [ {1} ]"),
    parse_kernel_log: ("{0}", "Lustre: {0} Skipped 1\nLDISKFS-fs error (device {0})\n"),
    **dict.fromkeys(
        (parse_stats, parse_brw_stats, parse_lnet_stats, parse_nis),
        ("{0}", "a 1 samples [{1}\n1: {1}\n- job_id: {1}\nstatistics: {1}"),
    ),
}
"""Where a megabyte of malice, or a part of it, stands in what each parser reads."""


@pytest.mark.calibration
@for_each("parse", MALICE)
@for_each("text", ADVERSARIES)
def test_a_megabyte_of_malice_is_read_in_one_pass(
    parse: Callable[[str], object], text: str
) -> None:
    for frame in MALICE[parse]:
        found = parse(frame.format(text, text[: 2**16]))
        if isinstance(found, Parameters):
            found.matching("osc.*.active")
            found.matching("*.*.*")

"""What the kernel's log tells, with every way of writing times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reach.lustre.cuts import ADVERSARIES, cuts, whole_lines
from tests.support.each import for_each

from trimtab.reach.lustre.lustre_view import parse_kernel_log

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


def test_a_target_that_was_mounted_again_is_well_again() -> None:
    found = parse_kernel_log(MESSAGES + "LDISKFS-fs (vdd): mounted filesystem a424c041 r/w\n")
    assert found.read_only == ("dm-3",)
    assert parse_kernel_log("LDISKFS-fs (vdd): Remounting filesystem read-only\n").read_only


@pytest.mark.parametrize(
    ("first", "begins"),
    [
        ("[    0.000000] Linux version 6.12.117 (build@host)", True),
        ("[    0.000000] microcode: updated early", True),
        ("kern  :notice: [    0.000000] Linux version 6.12.117", True),
        ("Linux version 6.12.117 (build@host)", True),
        ("[   10.000000] usb 1-1: new device", False),
        ("LDISKFS-fs (vdd): Remounting filesystem read-only", False),
    ],
)
def test_whether_anything_fell_out_of_the_ring(first: str, begins: bool) -> None:
    assert parse_kernel_log(f"{first}\n{_stamped('[ {second}.0] ')}").begins_at_boot is begins
    assert not parse_kernel_log("").begins_at_boot


def test_a_first_line_that_is_given_twice_counts_once() -> None:
    line = "[   62.751121] LustreError: 168-f: fs-OST0001: BAD WRITE CHECKSUM: from 10.0.0.9@tcp\n"
    assert parse_kernel_log(line + line).bad_checksums == 1
    # Without times two equal lines may be two messages.
    assert parse_kernel_log(2 * line.split("] ")[1]).bad_checksums == 2


def test_a_cut_log_tells_no_more_than_the_whole() -> None:
    text = _stamped("[   {second}.751121] ")
    whole = parse_kernel_log(text)
    for cut in cuts(text):
        assert parse_kernel_log(cut).bad_checksums <= whole.bad_checksums
        assert set(parse_kernel_log(whole_lines(cut)).read_only) <= set(whole.read_only)


@given(st.lists(st.sampled_from([*MESSAGES.splitlines(), "\x00", "[", "\udcff\u2028"])))
def test_any_text_is_read(lines: list[str]) -> None:
    parse_kernel_log("\n".join(lines))


@for_each("text", ADVERSARIES)
def test_a_megabyte_of_malice_is_read_in_one_pass(text: str) -> None:
    parse_kernel_log(text)
    parse_kernel_log(f"Lustre: {text} Skipped 1\nLDISKFS-fs error (device {text})\n")

"""Accounts and limits of quotas, as recorded, torn and made up."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reach.hosts import recorded

from trimtab.base.holder import HolderKind, Holders, QuotaLimit
from trimtab.reach.lustre.lustre_view import ServerView
from trimtab.reach.lustre.parameter import parse_parameters
from trimtab.reach.lustre.quota_account import (
    LISTED_MOST,
    QuotaTally,
    parse_accounts,
    parse_limits,
)
from trimtab.reach.lustre.read_table import request
from trimtab.reach.lustre.server_answer import parse_answer
from trimtab.reach.process import ProcessResult

AT = datetime(2026, 11, 20, 20, tzinfo=UTC)
ASKED = request({"parameters": {"argv": ("lctl",)}, "devices": {"argv": ("lctl", "dl")}},
                deadline_s=20.0)  # fmt: skip
ACCOUNTS = recorded("quota/acct")
USER, GROUP, PROJECT = HolderKind
DEVICES = """\
  3 UP mdt scratch-MDT0000 scratch-MDT0000_UUID 12
  4 UP obdfilter scratch-OST0003 scratch-OST0003_UUID 12
"""


def server(printed: str, devices: str = DEVICES, name: str = "oss1") -> ServerView:
    ended = {"stderr": "", "exit_code": 0, "signal": None, "timed_out": False, "truncated": False,
             "elapsed_s": 0.1, "first_line": None, "error": None}  # fmt: skip
    commands = [
        {"key": "parameters", "argv": ["lctl"], "stdout": printed, **ended},
        {"key": "devices", "argv": ["lctl", "dl"], "stdout": devices, **ended},
    ]
    whole = {"format": 1, "host": name, "euid": 0, "started": 1.0, "elapsed_s": 0.1, "files": {},
             "links": {}, "directories": {}, "times": {}, "commands": commands, "skipped": [],
             "end": True}  # fmt: skip
    line = json.dumps(whole).encode() + b"\n"
    result = ProcessResult(("ssh",), line, b"", 0, None, AT, 1.0, 20.0)
    return ServerView(name, "scratch", parse_answer(name, result), ASKED)


def tallied(*servers: ServerView) -> Holders:
    tally = QuotaTally("scratch")
    for each in servers:
        tally.add(each)
    return tally.holders(AT)


def test_the_recorded_accounts_and_limits() -> None:
    found = tallied(server(ACCOUNTS + "version=2.17.57\n"))
    of = {holding.id: holding for holding in found.holdings if holding.kind is USER}
    assert {id_: (held.bytes, held.files) for id_, held in of.items()} == {
        0: ((2620 + 105024) * 1024, 365),
        65534: ((4 + 8192) * 1024, 2),
    }
    nobody = of[65534]
    end = datetime.fromtimestamp(1795795667, UTC)
    assert nobody.of_bytes == QuotaLimit(5120 * 1024, 10240 * 1024, end)
    assert nobody.of_files == QuotaLimit(100, 200)
    assert nobody.over_soft == ("bytes",)
    assert nobody.grace_until == end
    # The period of grace of all users is no limit of root's.
    assert of[0].of_bytes == QuotaLimit()
    ost = next(each for each in found.targets if each.target == "OST0003")
    assert ost.largest == ((0, 105024 * 1024), (65534, 8192 * 1024))
    assert ost.accounted_bytes == (105024 + 8192) * 1024
    # Groups and projects were not asked for in that recording.
    assert found.problems == ("no target accounts for groups", "no target accounts for projects")
    assert found.whole


def test_sums_are_those_of_lfs_quota() -> None:
    """Recorded together: `lfs quota -u root` says 312276 kbytes and 629 files over all targets."""
    kib = [2616, 1776, 164740, 19940, 22276, 100928]
    targets = ("MDT0000", "MDT0001", "OST0000", "OST0001", "OST0002", "OST0003")
    inodes = (364, 265, 352, 382, 357, 372)
    printed = "".join(
        f"osd-ldiskfs.scratch-{target}.quota_slave.acct_user=\nusr_accounting:\n- id:      0\n"
        f"  usage:   {{ inodes:          {files}, kbytes:       {size} }}\n"
        for target, files, size in zip(targets, inodes, kib, strict=True)
    )
    kinds = {"M": "mdt", "O": "obdfilter"}
    devices = "".join(
        f"  {number} UP {kinds[target[0]]} scratch-{target} scratch-{target}_UUID 12\n"
        for number, target in enumerate(targets)
    )
    (root,) = tallied(server(printed + "version=2.17.57\n", devices)).holdings
    assert (root.bytes, root.files) == (312276 * 1024, 629)
    assert "312276" in recorded("quota/u")


def account(*rows: tuple[int, int, int]) -> str:
    return "usr_accounting:\n" + "".join(
        f"- id:      {id_}\n  usage:   {{ inodes:  {inodes}, kbytes:  {kib} }}\n"
        for id_, inodes, kib in rows
    )


def test_an_account_cut_anywhere_gives_no_total() -> None:
    text = account((0, 365, 2620), (65534, 2, 4))
    assert parse_accounts(text) == {0: (365, 2620 * 1024), 65534: (2, 4096)}
    ends = {len(text) - 1, len(account((0, 365, 2620))), len(account((0, 365, 2620))) - 1}
    ends |= {len("usr_accounting:\n"), len("usr_accounting:")}
    for end in range(len(text)):
        seen = parse_accounts(text[:end])
        # At the end of a row a cut is visible to nobody: `lctl` prints the version last.
        assert seen is None or end in ends, (end, seen)


@pytest.mark.parametrize("text", [
    "", "usr_accounting", "none\n", account((1, 1, 1), (1, 2, 2)), account((1, 1, 1)) + "x\n",
    account((1, 1, 1)).replace("inodes:  1", "inodes: -1"),
    account((1, 1, 1)).replace("kbytes", "bytes"),
])  # fmt: skip
def test_what_is_no_account(text: str) -> None:
    assert parse_accounts(text) is None


@given(st.dictionaries(
    st.integers(0, 2**32 - 1), st.tuples(st.integers(0, 2**63), st.integers(0, 2**53)), max_size=30,
))  # fmt: skip
def test_every_account_comes_back(accounts: dict[int, tuple[int, int]]) -> None:
    text = account(*((id_, *held) for id_, held in accounts.items()))
    assert parse_accounts(text) == {
        id_: (inodes, kib * 1024) for id_, (inodes, kib) in accounts.items()
    }


@given(st.text(max_size=200))
def test_no_text_breaks_a_parser(text: str) -> None:
    parse_accounts(text)
    parse_limits(text, 1024)


def test_recorded_limits_by_their_headings() -> None:
    parameters = parse_parameters(ACCOUNTS)
    texts = parameters.matching("qmt.*.*.glb-usr")
    assert len(texts) >= 3
    for name, text in texts.items():
        assert parse_limits(text, 1) is not None, name
    text = texts["qmt.scratch-QMT0000.dt-0x0.glb-usr"]
    negative = text.replace("granted:        10240", "granted:        -4096")
    assert parse_limits(negative, 1024) == parse_limits(text, 1024)
    flagged = text.replace("1795795667", str(1 << 48 | 1))
    assert parse_limits(flagged, 1)[65534].grace_until is None  # type: ignore[index]


def test_what_is_silent_twice_or_off_is_named_and_never_nothing() -> None:
    whole = server(ACCOUNTS + "version=2.17.57\n")
    cut = tallied(server(ACCOUNTS, name="oss2"))
    assert (cut.holdings, cut.whole) == ((), False)
    assert cut.problems[0] == "lctl on oss2 was cut"
    off = tallied(server("health_check=healthy\nversion=2.17.57\n", name="oss3"))
    assert off.holdings == ()
    assert off.problems[0] == "no target accounts for users"
    again = tallied(whole, server(ACCOUNTS + "version=2.17.57\n", name="oss4"))
    assert again.holdings == tallied(whole).holdings
    assert again.problems[0] == ("accounts of users are missing or not whole: MDT0000,OST0003")
    assert not again.whole


def test_an_ost_that_no_server_serves_is_named() -> None:
    known = "".join(f"osp.scratch-OST000{n}-osc-MDT0000.active=1\n" for n in (3, 4, 5))
    found = tallied(server(ACCOUNTS + known + "version=2.17.57\n"))
    assert found.problems[0] == "accounts of users are missing or not whole: OST[0004-0005]"
    assert not found.whole


def test_only_the_largest_are_listed_and_all_over_a_soft_limit() -> None:
    count = LISTED_MOST + 100
    rows = [(id_, 1, count - id_ + 1) for id_ in range(1, count + 1)]
    limits = (
        "qmt.scratch-QMT0000.dt-0x0.glb-usr=\nglobal_pool0_dt_usr\n"
        f"- id:      {count}\n"
        "  limits:  { hard:  0, soft:  1, granted:  0, time:  1795795667 }\n"
        f"- id:      {count - 1}\n"
        "  limits:  { hard:  0, soft:  1, granted:  0, time:  0 }\n"
    )
    name = "osd-ldiskfs.scratch-OST0003.quota_slave.acct_user=\n"
    found = tallied(server(name + account(*rows) + limits + "version=2.17.57\n"))
    listed = [holding.id for holding in found.holdings]
    assert listed == [*range(1, LISTED_MOST + 1), count - 1]
    assert found.left_out == 99
    # The last is at its soft limit, not over it: no grace runs.
    assert sum(holding.grace_until is not None for holding in found.holdings) == 0

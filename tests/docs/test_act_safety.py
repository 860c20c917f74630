"""What may be written: the page says it, sudoers allows it and nothing beside it."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.docs import acting, sudoers
from tests.docs.test_deploy import PYTHON, Account, granted
from tests.support import loopback

from trimtab.base.action import Outcome
from trimtab.reach.lustre.server_write import parse_answer, program
from trimtab.reach.lustre.write_table import (
    LIST_PERMANENT,
    PERMANENT,
    ROWS,
    Row,
    changelog_parameter,
    deregister_words,
    get_words,
    name_of,
    permanent_words,
    recovery_name,
    register_words,
    set_words,
    tee_words,
    trim_words,
)
from trimtab.reach.process import execute

ROOT = Path(__file__).parents[2]
FILE = ROOT / "deploy" / "sudoers.d" / "trimtab-act"
PAGE = (ROOT / "docs" / "act-safety.md").read_text()
DEVICES = ("dm-3", "md127", "nvme0n1", "nvme127n12", "sdab", "vdd")
FIELDS = {"fs": "scratch", "ost": "OST012a", "mdt": "MDT0001", "client": "ffff8881253af000"}


def test_the_page_has_the_table_and_every_outcome() -> None:
    assert acting.table() in PAGE, "python -m tests.docs.acting table"
    for outcome in Outcome:
        assert f"\n| `{outcome}` |" in PAGE


def test_the_file_is_the_one_that_follows_from_the_table() -> None:
    assert FILE.read_text() == acting.sudoers(), "python -m tests.docs.acting sudoers"
    unfolded = re.sub(r"\\\n\s*", " ", FILE.read_text())
    granted_aliases = unfolded.split("NOPASSWD: ")[1].strip().split(", ")
    assert granted_aliases == list(acting.wanted())
    readme = (ROOT / "deploy" / "README.md").read_text()
    assert all(f"| `{alias}` |" in readme for alias in granted_aliases)


def test_no_pattern_matches_spaces_or_slashes() -> None:
    for commands in acting.wanted().values():
        for command in commands:
            assert "*" not in command
            assert "?" not in command
            assert all(
                re.fullmatch(r"[A-Za-z0-9_-]+", c) for c in re.findall(r"\[(.*?)\]", command)
            )


def _matching(commands: list[str], start: str) -> re.Pattern[str]:
    """Return what matches the values of the commands that begin so; their patterns are digits."""
    values = [each.removeprefix(start) for each in commands if each.startswith(start)]
    assert values, start
    assert all(re.fullmatch(r"(?:[A-Za-z0-9%-]|\[[0-9]-[0-9]\])+", value) for value in values), (
        values
    )
    return re.compile("|".join(values))


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.kind == "parameter"], ids=lambda r: r.key
)
def test_sudoers_allows_the_values_that_the_program_takes_and_no_others(row: Row) -> None:
    chance = random.Random(row.key)
    edges = [each + near for each in (row.grammar.limits or ()) for near in (-2, -1, 0, 1, 2)]
    numbers = [*range(5000), *edges, *(chance.randrange(10**7) for _ in range(1000))]
    tried = [str(number) for number in numbers]
    tried += [f"{number}%" for number in range(1100)] + [f"0{n}" for n in range(200)]
    tried += [*VALUES, *acting.BY_KEY["osc/checksum_type"].grammar.text.split(" or "), "", "%"]
    wanted = [value for value in tried if row.grammar.takes(value)]
    (name, *_) = acting.names(row)
    commands = [each for alias in acting.wanted().values() for each in alias]
    starts = ["set_param ", *(["set_param -P "] if row.key in PERMANENT else [])]
    for start in starts:
        allowed = _matching(commands, f"/usr/sbin/lctl {start}{name}\\=")
        assert [value for value in tried if allowed.fullmatch(value)] == wanted, row.key


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_patterns_of_numbers_match_a_range_and_nothing_else(a: int, b: int, number: int) -> None:
    low, high = sorted((a, b))
    patterns = re.compile("|".join(acting.number_patterns(low, high)))
    near = {low - 1, low, high, high + 1, number} - {-1}
    assert {n for n in near if patterns.fullmatch(str(n))} == {n for n in near if low <= n <= high}


VALUES = ("-1", "0", "1", "17", "17%", "40", "100%", "512", "5000", "20000", "none", "4 8", "adler",
          "crc32c", "t10ip4K", "mq-deadline", "1000000")  # fmt: skip


def _values(row: Row) -> Iterator[str]:
    limits = map(str, row.grammar.limits or ())
    yield from (value for value in (*VALUES, *limits) if row.grammar.takes(value))


def _commands() -> Iterator[list[str]]:
    for row in ROWS:
        needed = re.findall(r"\{([a-z]+)\}", row.name)
        for device in DEVICES if "device" in needed else DEVICES[:1]:
            fields = {**FIELDS, "device": device}
            name = name_of(row.key, {field: fields[field] for field in needed})[1]
            if row.kind == "file":
                yield tee_words(name)
            else:
                yield from (set_words(row, name, value) for value in _values(row))
    yield list(LIST_PERMANENT)
    for key in PERMANENT:
        row, name = name_of(key, {"fs": "scratch", "mdt": "MDT0001"})
        yield permanent_words(row, name, None)
        yield from (permanent_words(row, name, value) for value in _values(row))
    mdt = {"fs": "scratch", "mdt": "MDT0001"}
    for leaf in ("changelog_users", "changelog_current_mask"):
        yield get_words(changelog_parameter(mdt, leaf))
    yield register_words(mdt)
    yield deregister_words(mdt)
    for service in ("scratch-OST012a", "scratch-MDT0001"):
        yield get_words(recovery_name(service))
    for point in ("/mnt/lustre/ost0", "/mnt/lustre/scratch-OST012a"):
        yield trim_words(point, 0, 1 << 40)
        yield trim_words(point, 1 << 40, (1 << 62) - 1)


def test_every_command_is_among_those_of_the_file() -> None:
    """All of them here, and some with a real sudo below."""
    text = " ".join(each for alias in acting.wanted().values() for each in alias)
    assert not re.search(r"[*?(){}|+^$\n]|\\[^=]", text), "brackets alone are patterns"
    allowed = re.compile(
        "|".join(
            each.replace("FSNAME", "scratch")
            .replace("/MOUNTS/", "/mnt/lustre/")
            .replace("\\=", "=")
            .replace(".", r"\.")
            for alias in acting.wanted().values()
            for each in alias
        )
    )
    commands = [" ".join((acting.PATHS[argv[0]], *argv[1:])) for argv in _commands()]
    assert len(commands) > 150
    assert [each for each in commands if not allowed.fullmatch(each)] == []


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    if os.geteuid() != 0:
        pytest.skip("only root can make users and grant rights")
    for name in ("sudo", "visudo", "useradd", "userdel", "runuser"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    text = FILE.read_text().replace("FSNAME", "scratch").replace("/MOUNTS/", "/mnt/lustre/")
    with granted(text, acting.PATHS) as user:
        yield user


@pytest.mark.system
def test_visudo_accepts_both_files() -> None:
    for file in (FILE, FILE.with_name("trimtab")):
        checked = execute(("visudo", "-cf", str(file)), timeout_s=30)
        assert checked.exit_code == 0, checked.stderr
    assert not set(acting.wanted()) & set(sudoers.wanted())


@pytest.mark.system
def test_every_command_that_is_written_runs_as_root(account: Account) -> None:
    commands = list(_commands())
    assert len(commands) > 150
    for argv in commands[:: max(1, len(commands) // 60)]:
        printed = account.runs(*argv)
        assert printed == [f"{argv[0]} 0", *(f"[{word}]" for word in argv[1:])], argv


def _values_that_are_refused() -> Iterator[list[str]]:
    """Yield commands whose value the kernel or Lustre would refuse, or take for another."""
    for row in ROWS:
        needed = re.findall(r"\{([a-z]+)\}", row.name)
        if row.kind == "file":
            continue
        name = name_of(row.key, {field: FIELDS[field] for field in needed})[1]
        low, high = row.grammar.limits or (1, 1)
        values = [str(high + 1), f"0{high}", *([str(low - 1)] if low else [])]
        if row.back == "percent":
            values += ["101%", "999%"]
        for value in values:
            if not row.grammar.takes(value):
                yield ["lctl", "set_param", f"{name}={value}"]


@pytest.mark.system
def test_near_misses_are_refused(account: Account) -> None:
    count = "osp.scratch-OST0001-osc-MDT0000.max_create_count"
    trim = trim_words("/mnt/lustre/ost0", 0, 4096)
    deregister = deregister_words({"fs": "scratch", "mdt": "MDT0001"})
    mdt = deregister[:3]
    refused = [
        ["lctl", "set_param", "osp.scratch-OST0001-osc-MDT0000.active=0"],
        ["lctl", "set_param", "osp.scratch-OST*-osc-MDT*.max_create_count=0"],
        ["lctl", "set_param", f"{count}=abc"],
        ["lctl", "set_param", f"{count}=0", f"{count}=0"],
        ["lctl", "set_param", "-P", f"{count}=0"],
        ["lctl", "set_param", f"{count}=0 -P"],
        ["lctl", "set_param", "-P", "lod.scratch-MDT*-mdtlov.qos_prio_free=80"],
        ["lctl", "set_param", "-P", "-d", count],
        ["lctl", "--device", "MGS", "llog_cancel", "params"],
        ["lctl", "--device", "MGS", "llog_print", "params", "params"],
        ["lctl", "--device", "scratch-MDT0001", "llog_print", "params"],
        [*mdt, "changelog_register"],
        [*mdt, "changelog_register", "-n"],
        [*mdt, "changelog_register", "-u", "others"],
        [*mdt, "changelog_register", "-u", "trimtab2"],
        [*mdt, "changelog_register", "-u", "trimtab", "-m", "ALL"],
        [*mdt, "changelog_deregister"],
        [*mdt, "changelog_deregister", "1"],
        [*mdt, "changelog_deregister", "cl1"],
        [*mdt, "changelog_deregister", "cl12"],
        [*mdt, "changelog_deregister", "cl2-trimtab"],
        [*mdt, "changelog_deregister", "cl2-robinhood"],
        [*mdt, "changelog_deregister", "trimtab"],
        [*mdt, "changelog_deregister", "-u", "robinhood"],
        [*mdt, "changelog_deregister", "-u", "trimtab", "cl1"],
        [*mdt, "changelog_deregister", "cl1", "-u", "trimtab"],
        [*mdt, "changelog_deregister", "-u", "trimtab", "-u", "robinhood"],
        [*mdt, "changelog_deregister", "-u", ""],
        [*mdt[:2], "scratch2-MDT0001", *deregister[3:]],
        [*mdt[:2], "scratch-MDT000g", *deregister[3:]],
        [*mdt[:2], "scratch-OST0001", *deregister[3:]],
        [*mdt[:2], "0", *deregister[3:]],
        [*mdt, "deactivate"],
        ["LD_PRELOAD=/tmp/library.so", *deregister],
        ["-g", "disk", *deregister],
        ["-u", "nobody", *deregister],
        ["-e", "/etc/passwd"],
        ["lctl", "set_param", f"{count}=123456"],
        ["lctl", "set_param", f"{count}=0\nlctl set_param {count}=0"],
        ["lctl", "set_param", count.replace("scratch", "other") + "=0"],
        ["lctl", "set_param", "osc.scratch-OST0001-osc-ffff8881253af000.checksums=0"],
        ["lctl", "set_param", "llite.scratch-ffff8881253af000.checksums=0"],
        ["lctl", "conf_param", "scratch-OST0001.osc.active=0"],
        ["lctl", "get_param", "-n", "obdfilter.scratch-OST*.recovery_status"],
        ["tee", "/sys/class/block/sda/queue/discard_max_bytes"],
        ["tee", "-a", "/sys/class/block/sda/queue/scheduler"],
        ["tee", "/sys/class/block/sda/queue/scheduler", "/etc/passwd"],
        ["tee", "/sys/class/block/sda/../sdb/queue/scheduler"],
        ["tee", "/sys/class/block/loop1/queue/scheduler"],
        ["tee", "/sys/fs/ldiskfs/sda/trigger_fs_error"],
        ["tee", "/proc/fs/ldiskfs/sda/mb_groups"],
        ["tee", "/etc/passwd"],
        ["tee"],
        ["fstrim", "--all"],
        ["fstrim", "--verbose", "/mnt/lustre/ost0"],
        [*trim, "/"],
        [*trim[:-1], "/"],
        [*trim[:-1], "/mnt/lustre/ost0/../.."],
        [*trim[:-1], "/mnt/lustre/"],
        [*trim[:-1], "/mnt/lustre/ost0 --all"],
        [*trim[:2], "0", *trim[3:]],
        [*trim[:2], "0x4000000000000000", *trim[3:]],
        [*trim[:4], "0xffffffffffffffff", *trim[5:]],
        ["sh", "-c", "id"],
        *_values_that_are_refused(),
    ]
    assert len(refused) > 90
    assert [argv for argv in refused if account.runs(*argv) is not None] == []


@pytest.mark.system
def test_a_user_with_sudo_writes_through_tee_and_nothing_without() -> None:
    if reason := loopback.why_no_loop_devices("ext4"):
        pytest.skip(reason)
    if not Path(PYTHON).exists() or any(shutil.which(n) is None for n in ("sudo", "useradd")):
        pytest.skip("needs sudo and a Python that every user can reach")
    path = "/sys/class/block/loop[0-9][0-9][0-9]/queue/nr_requests"
    with (
        granted(f"trimtab ALL = (root) NOPASSWD: /usr/bin/tee {path}\n", {}) as user,
        # Below a directory that this user may pass through.
        loopback.mounted(user.programs, size_bytes=64 << 20) as mounted,
    ):
        number = mounted.mount_point.stat().st_dev
        place = {"number": f"{os.major(number)}:{os.minor(number)}"}
        library = user.programs / "lib"
        outcomes = []
        for sudo, name in ((["sudo", "-n"], "nr_requests"), (["sudo", "-n"], "read_ahead_kb"),
                           (None, "nr_requests")):  # fmt: skip
            instruction = {
                **{"do": "set", "row": f"queue/{name}", "place": place, "value": "48"},
                "fields": {"device": mounted.device.name},
            }
            request = {
                **{"format": 1, "file_system": "scratch", "token": 1, "who": "w", "sudo": sudo},
                **{"deadline_s": 30, "instructions": [instruction]},
            }
            (library / "trimtab-act").mkdir(parents=True, exist_ok=True)
            shutil.chown(library / "trimtab-act", user.name)
            argv, over = (PYTHON, "-I", "-S", "-"), {"/var/lib": library}
            done = user.does(argv, stdin=program(request), over=over)
            (result,) = parse_answer("here", 1, done)
            assert result.outcome is not Outcome.SKIPPED, result
            outcomes.append((result.outcome, str(result.detail.code)))
            if name == "nr_requests" and sudo:
                assert mounted.device.read_queue(name) == "48"
                mounted.device.set_queue(name, 64)
        refused = (Outcome.REFUSED, "permission-denied")
        assert outcomes == [(Outcome.DONE, "done"), refused, refused]
        assert mounted.device.read_queue("nr_requests") == "64"

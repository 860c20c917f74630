"""The table of what may be written is closed, and a writer makes sure of mounts and of the MGS."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_lustre.acting import FakeMachine
from tests.fake_lustre.state import FakeLustre

from trimtab.base.action import Outcome
from trimtab.base.event import utc_now
from trimtab.reach.lustre import server_answer, write_table
from trimtab.reach.lustre.server_write import parse_answer, program
from trimtab.reach.lustre.write_table import (
    BY_KEY,
    LIST_PERMANENT,
    ROWS,
    NotInTable,
    as_read,
    check_value,
    is_same,
    name_of,
    recovery_name,
    set_words,
    trim_words,
)
from trimtab.reach.lustre.writer_order import End, mount_here, permanent_now
from trimtab.reach.process import ProcessResult

FIELDS = {
    "fs": "scratch",
    "ost": "OST000a",
    "mdt": "MDT0001",
    "client": "ffff8881253af000",
    "device": "nvme12n1",
}
SAFE_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){2}|/(sys|proc)(/[A-Za-z0-9_-]+)+")
SAFE_VALUE = re.compile(r"-1|[A-Za-z0-9-]+%?|[0-9]+( [0-9]+)*")
HOSTILE = st.one_of(
    st.text(max_size=40),
    st.text(alphabet="0123456789abcdefOSTMDn-_.*?[]/; \n\x00$`=%", max_size=24),
    st.sampled_from(
        [
            *("*", "OST*", "OST0001\n", "OST0001 -n", "../../sda", "loop1/../../x"),
            *("ffff8881253af000.x", "MDT0000", "-P", "0\n1", ""),
            *("\uff10", "OST000\u0661"),  # digits, though not of ASCII
        ]
    ),
    st.integers(),
    st.none(),
    st.lists(st.text(max_size=3), max_size=2),
)


def _fields(key: str) -> dict[str, str]:
    needed = re.findall(r"\{([a-z]+)\}", BY_KEY[key].name)
    return {name: FIELDS[name] for name in needed}


def _a_value(key: str) -> str:
    candidates = ("0", "1", "100", "1000", "none", "adler", "4 8 16")
    return next(value for value in candidates if BY_KEY[key].grammar.takes(value))


def test_every_row_has_a_name_a_value_and_words_for_people() -> None:
    assert len(BY_KEY) == len(ROWS)
    for row in ROWS:
        found, name = name_of(row.key, _fields(row.key))
        assert found is row
        assert SAFE_NAME.fullmatch(name), name
        check_value(row, _a_value(row.key))
        assert row.kind in {"parameter", "file"}
        assert row.service in {"mdt", "ost", "target", "client"}
        assert row.back in {"plain", "percent", "choice", "list", "default", "moving"}
        assert row.undo
        assert row.why
    # What must never be written has no row.
    names = " ".join(row.name for row in ROWS)
    for word in (
        *("active", "discard_max_bytes", "mb_groups", "mb_alloc_stats", "discard_stats"),
        "trigger_fs_error",
    ):
        assert word not in names
    assert "-P" not in set_words(BY_KEY["obdfilter/no_create"], "a.b.no_create", "1")


@pytest.mark.parametrize(
    ("key", "takes", "refuses"),
    [
        (
            "osp/max_create_count",
            "0 32 20000",
            "1 31 20001 -1 032 32.0 3e2 +32 0x20 200000000000000000000",
        ),
        ("obdfilter/no_create", "0 1", "2 y 01"),
        ("lod/qos_threshold_rr", "0 17 17% 100%", "101 101% % -1 017"),
        ("osc/checksums", "1", "0"),
        ("llite/checksums", "1", "0"),
        ("ldiskfs/mb_c1_threshold", "0 25 100", "101 -1"),
        ("ldiskfs/mb_last_group", "0", "1 3"),
        ("queue/wbt_lat_usec", "-1 0 75000", "-2 -0 abc 99999999999"),
        ("queue/scheduler", "none mq-deadline", "[none] NONE nosuch"),
        ("queue/nr_requests", "4 1024", "0 3 65537"),
    ],
)
def test_values(key: str, takes: str, refuses: str) -> None:
    grammar = BY_KEY[key].grammar
    assert [value for value in takes.split() if not grammar.takes(value)] == []
    assert [value for value in refuses.split() if grammar.takes(value)] == []
    table = BY_KEY["ldiskfs/prealloc_table"].grammar
    assert table.takes("256 512 1024 2048 4096 8192 16384")
    # mballoc/41_prealloc_bad: what is no number, 0 or nothing empties it, with exit code 0.
    for value in ("", " ", "0", "abc", "512 256", "4 4", "0 4", "4  8", "4 8 ", "4,8"):
        assert not table.takes(value), value


@given(key=st.sampled_from(sorted(BY_KEY)), field=st.sampled_from(sorted(FIELDS)), value=HOSTILE)
def test_no_hostile_field_becomes_part_of_a_name(key: str, field: str, value: Any) -> None:
    fields: dict[str, Any] = {**_fields(key), field: value}
    try:
        _, name = name_of(key, fields)
    except NotInTable:
        return
    assert SAFE_NAME.fullmatch(name)
    assert name.isascii()
    assert ".." not in name


@given(key=st.sampled_from(sorted(BY_KEY)), value=HOSTILE)
def test_no_hostile_value_becomes_an_argument(key: str, value: Any) -> None:
    row = BY_KEY[key]
    try:
        words = set_words(row, name_of(key, _fields(key))[1], value)
    except NotInTable:
        return
    assert isinstance(value, str)
    assert SAFE_VALUE.fullmatch(value)
    assert words[:2] == ["lctl", "set_param"]
    assert len(words) == 3


@given(point=HOSTILE, start=HOSTILE, length=HOSTILE)
def test_no_hostile_range_or_mount_point_becomes_an_argument(
    point: Any, start: Any, length: Any
) -> None:
    for values in ((point, 0, 4096), ("/mnt/ost0", start, 4096), ("/mnt/ost0", 0, length)):
        try:
            words = trim_words(*values)
        except NotInTable:
            continue
        assert re.fullmatch(
            r"fstrim --offset 0x[0-9a-f]{16} --length 0x[0-9a-f]{16} --verbose "
            r"(/[A-Za-z0-9._-]+)+",
            " ".join(words),
        )
        assert not {".", ".."} & set(words[-1].split("/"))


@given(
    key=HOSTILE, service=st.text(max_size=30), row=st.sampled_from(ROWS), text=st.text(max_size=300)
)
def test_no_hostile_key_service_or_reading_is_taken(
    key: Any, service: str, row: Any, text: str
) -> None:
    if not (isinstance(key, str) and key in BY_KEY):
        with pytest.raises(NotInTable):
            name_of(key, {})
    with contextlib.suppress(NotInTable):
        assert SAFE_NAME.fullmatch(recovery_name(service))
    with contextlib.suppress(NotInTable):
        value = as_read(row, text)
        assert value.isascii()
        assert value.isprintable()


@pytest.mark.parametrize(
    ("key", "text", "value", "wanted", "same"),
    [
        ("lod/qos_prio_free", "90%\n", "90%", "90", True),
        ("lod/qos_prio_free", "90%\n", "90%", "91%", False),
        ("queue/scheduler", "[none] mq-deadline kyber\n", "none", "none", True),
        ("queue/scheduler", "none\n", "none", "none", True),
        ("queue/wbt_lat_usec", "2000\n", "2000", "-1", True),
        ("queue/wbt_lat_usec", "2000\n", "2000", "0", False),
        ("osc/checksum_type", "adler t10ip512 [t10ip4K] \n", "t10ip4K", "t10ip4K", True),
        ("ldiskfs/prealloc_table", "4 8 16 \n", "4 8 16", "4 8 16", True),
        ("ldiskfs/mb_last_group", "31\n", "31", "0", True),
        ("ldiskfs/mb_last_groups", "0# 3\n1# 9\n", "0# 3 1# 9", "0", True),
    ],
)
def test_what_is_read_back(key: str, text: str, value: str, wanted: str, same: bool) -> None:
    row = BY_KEY[key]
    assert as_read(row, text) == value
    assert is_same(row, value, wanted) is same


def test_only_the_writing_program_writes() -> None:
    reading, writing = server_answer.program({"format": 1}), program({"format": 1})
    for word in (b"set_param", b"O_WRONLY", b"fstrim", b"def act("):
        assert (word in reading, word in writing) == (False, True), word
    written = re.compile(r"O_WRONLY|O_RDWR|\.write_text\(|\"set_param\"|\"fstrim\"")
    files = Path(write_table.__file__).parent.glob("*.py")
    # The last clears records of a changelog, through a device of the client.
    assert {file.name for file in files if written.search(file.read_text())} == {
        *("write_table.py", "writer_machine.py", "lustre_child.py"),
    }


# What an answer proves

_HELLO = b'{"act": 1, "host": "mds1"}\n'
_BEGUN = b'{"n": 0, "begun": true, "logged": true}\n'
_ENDED = b'{"n": 0, "ended": true, "outcome": "done", "code": "done", "detail": "", "found": "0"}\n'
_OVER = b'{"over": true}\n'


def _ran(
    stdout: bytes, exit_code: int | None = 0, stderr: bytes = b"", **more: Any
) -> ProcessResult:
    return ProcessResult(("ssh",), stdout, stderr, exit_code, None, utc_now(), 1.0, 20.0, **more)


@pytest.mark.parametrize(
    ("result", "outcome", "code"),
    [
        (_ran(_HELLO + _BEGUN + _ENDED + _OVER), Outcome.DONE, "done"),
        (_ran(b"banner\n" + _HELLO + _BEGUN + _ENDED), Outcome.DONE, "done"),
        (_ran(_HELLO + _BEGUN + _ENDED[:-1]), Outcome.UNKNOWN, "answer-cut"),
        (_ran(_HELLO + _BEGUN, 255, b"closed by remote host\n"), Outcome.UNKNOWN, "answer-cut"),
        (_ran(_HELLO, 255), Outcome.UNKNOWN, "answer-cut"),
        (_ran(_HELLO + _OVER), Outcome.SKIPPED, "stopped-before"),
        (_ran(b"", 255, b"ssh: connect to host a: x\n"), Outcome.UNREACHABLE, "server-unreachable"),
        (_ran(b"", 255, b"a@b: Permission denied\n"), Outcome.UNREACHABLE, "server-unreachable"),
        (_ran(b"", 255, b"Connection reset by peer\n"), Outcome.UNKNOWN, "answer-cut"),
        (_ran(b"", 127, b"sh: python3: not found\n"), Outcome.UNREACHABLE, "server-unreachable"),
        (_ran(b"", None, timed_out=True), Outcome.UNKNOWN, "answer-cut"),
        (_ran(b"", None, not_started="no place"), Outcome.UNREACHABLE, "server-unreachable"),
        (_ran(b"garbage\xff\n" * 3), Outcome.UNKNOWN, "answer-cut"),
        (
            _ran(_HELLO + b'{"over": true, "refused": "state-not-writable", "detail": "x"}\n'),
            Outcome.REFUSED,
            "state-not-writable",
        ),
        (
            _ran(_HELLO + b'{"n": 0, "ended": true, "outcome": "splendid", "code": "x"}\n'),
            Outcome.UNKNOWN,
            "answer-invalid",
        ),
    ],
)
def test_what_an_answer_proves(result: ProcessResult, outcome: Outcome, code: str) -> None:
    (answer,) = parse_answer("mds1", 1, result)
    assert (answer.outcome, answer.detail.code) == (outcome, code)


@given(st.data())
def test_of_an_answer_that_was_cut_nothing_is_done_that_is_not_told(data: st.DataObject) -> None:
    whole = _HELLO + b"".join(
        json.dumps(line).encode() + b"\n"
        for n in range(4)
        for line in (
            {"n": n, "begun": True},
            {"n": n, "ended": True, "outcome": "done", "code": "done", "detail": "", "found": "0"},
        )
    )
    end = data.draw(st.integers(0, len(whole)))
    results = parse_answer("mds1", 4, _ran(whole[:end], 255))
    told = whole[:end].count(b'"ended": true')
    done = [result.done for result in results]
    assert done == sorted(done, reverse=True)
    assert sum(done) <= told
    assert all(result.outcome is Outcome.UNKNOWN for result in results if not result.done)


RECORDED = Path(__file__).parents[2] / "fixtures/lustre/2.17.0"
SETTING = name_of("lod/qos_prio_free", {"fs": "scratch", "mdt": "MDT0000"})


class Mgs:
    """A machine on which ``llog_print params`` ends as it did for one recorded user."""

    def __init__(self, name: str, number: int = 0) -> None:
        parts = (RECORDED / f"{name}.out").read_text().split("rc=")
        self.stdout = re.sub(r"\A(?:\d+\n)?(?:2026-.*\nversion=.*\n)?", "", parts[number])
        self.exit_code = int(parts[number + 1].split("\n")[0])
        said = (RECORDED / f"{name}.err").read_text().splitlines()
        self.stderr = f"{said[max(number - 1, 0)]}\n" if self.exit_code else ""

    def run(self, argv: list[str], timeout_s: float, *, rights: bool) -> dict[str, object]:
        assert (argv, rights) == (LIST_PERMANENT, True)
        ended = {"timed_out": False, "error": None}
        return {k: getattr(self, k) for k in ("stdout", "stderr", "exit_code")} | ended


@pytest.mark.parametrize(
    ("name", "number", "outcome", "code", "words"),
    [
        ("llog-print-params", 1, "refused", "permission-denied", "Permission denied"),
        ("llog-print-no-mgs", 0, "skipped", "mgs-not-here", "No device found for name MGS"),
        ("llog-print-no-mgs", 1, "skipped", "mgs-not-here", "No device found for name MGS"),
    ],
)
def test_a_log_that_cannot_be_read_is_not_taken_for_no_value(
    name: str, number: int, outcome: str, code: str, words: str
) -> None:
    with pytest.raises(End) as end:
        permanent_now(Mgs(name, number), SETTING)
    assert (end.value.answer["outcome"], end.value.answer["code"]) == (outcome, code)
    assert words in str(end.value)


def test_before_anybody_set_one_and_without_the_parameter_there_is_no_value() -> None:
    never = Mgs("llog-print-never-set")
    assert (never.exit_code, never.stdout) == (2, "")
    assert permanent_now(never, SETTING) == permanent_now(Mgs("llog-print-params"), SETTING) == ""
    # The stand-in answers so.
    fake = FakeLustre.pair()
    for host, mgs in (("mds1", never), ("mds2", Mgs("llog-print-no-mgs"))):
        told = fake.lctl(host, LIST_PERMANENT[1:])
        assert (told.stdout, told.stderr, told.exit_code) == (mgs.stdout, mgs.stderr, mgs.exit_code)


OST = "scratch-OST0001"
POINT = "/mnt/lustre/ost1"


class Recorded:
    """A machine that answers what a server of Lustre 2.17.0 answered, but for what is changed."""

    def __init__(self, **changed: str | None) -> None:
        self.out = (RECORDED / "server-mounts.out").read_text()
        self.changed = changed

    def text(self, path: str, timeout_s: float) -> str:
        assert path == "/proc/self/mountinfo"
        return "".join(f"{line}\n" for line in self.out.splitlines() if " - lustre " in line) + str(
            self.changed.get("more", "")
        )

    def leads_to(self, mount_point: str, source: str, timeout_s: float) -> list[str | None]:
        forms = {
            "mount": rf"^{mount_point} is in mnt_id: (\d+)$",
            "seen": rf"^{mount_point} lies on (\S+) ",
            "device": rf"^{source} is (\d+:\d+),",
        }
        found = {name: re.findall(form, self.out, re.MULTILINE)[0] for name, form in forms.items()}
        return list({**found, **{k: v for k, v in self.changed.items() if k in forms}}.values())


def test_a_target_is_found_where_a_running_server_has_it() -> None:
    for number, target in enumerate(("MDT0000", "OST0000", "OST0001")):
        mount = mount_here(Recorded(), {"service": f"scratch-{target}"})
        assert mount["source"] == f"/dev/vd{'abc'[number]}"
        # What it is about: the two numbers differ since 2.16.
        _, seen, device = Recorded().leads_to(mount["point"], mount["source"], 1.0)
        assert seen == device != mount["number"]


@pytest.mark.parametrize("device", ["253:32", None])
def test_before_2_16_the_number_is_that_of_the_table(device: str | None) -> None:
    older = Recorded(seen="0:41", device=device)  # no device: a dataset of ZFS
    assert mount_here(older, {"service": OST})["point"] == POINT


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"mount": "160"}, f"another mount hides {OST} at {POINT}"),
        ({"mount": None}, f"another mount hides {OST} at {POINT}"),
        ({"mount": "160", "seen": "0:41"}, "another mount hides"),
        ({"seen": "253:16"}, f"is on device 253:16, but {OST} on 0:41 or 253:32 (/dev/vdc)"),
        ({"device": "253:48"}, f"is on device 253:32, but {OST} on 0:41 or 253:48 (/dev/vdc)"),
        ({"device": None}, f"{OST} on 0:41: /dev/vdc is no block device"),
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(changed: dict[str, str], words: str) -> None:
    with pytest.raises(End) as end:
        mount_here(Recorded(**changed), {"service": OST})
    assert (end.value.answer["outcome"], end.value.answer["code"]) == ("skipped", "mount-changed")
    assert words in str(end.value)


@pytest.mark.parametrize("version", ["2.12.9", "2.15.4", "2.16.0", "2.17.57"])
def test_the_mounts_of_the_stand_in_are_each_versions(version: str) -> None:
    machine = FakeMachine(FakeLustre.pair(lustre_version=version), "oss1", None)
    mount = mount_here(machine, {"service": "scratch-OST0000"})
    _, seen, device = machine.leads_to(mount["point"], mount["source"], 1.0)
    assert seen == (device if version >= "2.16" else mount["number"])
    assert device != mount["number"]

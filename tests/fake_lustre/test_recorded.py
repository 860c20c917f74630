"""Every answer of the fake has the form, the error and the exit code of its recording."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fake_lustre import answers
from tests.fake_lustre.acting import FakeMachine
from tests.fake_lustre.answers import (
    ANSWERS,
    ASSUMED,
    ASSUMED_AS_A_WHOLE,
    MASTER,
    RECORDED,
    Answer,
    check,
    row_of_file,
)
from tests.fake_lustre.state import KIB, FakeLustre, Output
from tests.reach.hosts import real_data, recorded
from tests.support.each import for_each

_DF_LINE = re.compile(r"^\w+-((?:OST|MDT)[0-9a-f]{4})_UUID +(\d+) +(\d+) +(\d+) ", re.MULTILINE)


def replay(state: FakeLustre, line: str) -> Output:
    """Return what a line prints: commands with ``;``, ``timeout``, ``| grep``, ``echo rc=$?``."""
    whole = Output()
    code = 0
    for text in line.split(";"):
        command, _, wanted = text.strip().partition(" | grep ")
        together = command.endswith("2>&1")
        argv = shlex.split(command.removesuffix("2>&1"))
        if argv[:1] == ["timeout"]:
            argv = argv[2:]
        if not argv or argv[0] in ("sleep", "date", "dd", "stat", "mkdir", "rm"):
            continue
        if argv == ["echo", "rc=$?"]:
            whole.stdout += f"rc={code}\n"
            continue
        output = state.run(None, argv)
        code = whole.exit_code = output.exit_code
        kept = output.stdout.splitlines(keepends=True)
        whole.stdout += output.stderr if together else ""
        whole.stdout += "".join(one for one in kept if wanted.strip('"') in one)
        whole.stderr += "" if together else output.stderr
    return whole


def fill_as(state: FakeLustre, text: str, *, inodes: bool = False) -> None:
    """Let every target be as full as the last ``lfs df`` of a recording says."""
    for name, total, used, available in _DF_LINE.findall(text):
        target = state.target(name)
        if inodes:
            target.inodes_total, target.inodes_used = int(total), int(used)
        elif target.capacity_bytes == int(total) * KIB:
            target.used_bytes = int(used) * KIB
            target.reserved_bytes = (int(total) - int(used) - int(available)) * KIB


def masked(text: str) -> str:
    """Return a text with what differs between two boots put out of sight."""
    text = re.sub(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>", text)
    text = re.sub(r"ffff8[0-9a-f]{11}", "<client>", text)
    text = re.sub(r"(prealloc_(?:next|last)_id)=\d+", r"\1=<id>", text)
    text = re.sub(r"(prealloc_(?:next|last)_seq)=0x[0-9a-f]+", r"\1=<id>", text)
    text = re.sub(r"(snapshot_time|elapsed_time|start_time)(:?) +[\d.]+", r"\1\2 <time>", text)
    text = re.sub(r"\d+\.\d{9}", "<time>", text)
    return text


FIXTURES = Path(__file__).parents[1] / "fixtures/lustre"


def recording(row: Answer, part: str) -> Path:
    """Return a part of the recording of a row: cmd, out, err or rc."""
    assert row.recording is not None
    version, name = row.recording
    folder = real_data("lustre-2.17") if version == MASTER else FIXTURES / version
    return (folder / name).with_suffix(f".{part}")


def told(row: Answer, part: str) -> str:
    return recording(row, part).read_text(errors="surrogateescape")


def as_recorded(name: str) -> tuple[str, str, str, int]:
    """Return line, stdout, stderr and exit code of a recording of 2.17.57."""
    line, out, err, code = (recorded(name, part) for part in ("cmd", "out", "err", "rc"))
    return line.strip(), out, err, int(code)


def small(target: str = "MDT0000", **changed: object) -> FakeLustre:
    """Return the recorded machine with something of a target changed."""
    state = FakeLustre.small()
    for name, value in changed.items():
        setattr(state.target(target), name, value)
    return state


def pair(*, euid: int = 1000, sudoers: bool = True, **mdt: object) -> FakeLustre:
    """Return the pair where somebody else than root logs in, with something of MDT0000 changed."""
    state = FakeLustre.pair()
    for server in state.servers:
        server.euid, server.sudoers = euid, sudoers
    for name, value in mdt.items():
        setattr(state.target("MDT0000"), name, value)
    return state


def with_echo_client() -> FakeLustre:
    state = small("OST0001", echo_objects=[2], echo_bytes=4096)
    state.servers[0].echo_clients.append("scratch-OST0001_ecc")
    return state


WORLDS: dict[str, Callable[[], FakeLustre]] = {
    "small": FakeLustre.small,
    "pair": FakeLustre.pair,
    "lost OST": lambda: small("OST0001", up=False),
    "aborted": lambda: small(aborted=True),
    "file": lambda: FakeLustre.small(layouts={"/scratch/t-fake/a": [2]}),
    "permanent": lambda: FakeLustre.pair(permanent={"mdt.scratch-*.identity_upcall": "NONE"}),
    "reader": lambda: pair(euid=0, changelog_users=[("cl1", 0, 1)]),
    "user": pair,
    "echo client": with_echo_client,
    "sudo user": lambda: pair(sudoers=False),
}


def answer_of(row: Answer) -> Output:
    """Return what the fake answers to the example of a row."""
    state, argv = WORLDS[row.world](), shlex.split(row.example)
    if row.world.endswith("user"):
        sudo = ["sudo", "-n"] if argv[0] == "sudo" else None
        words = argv[2:] if sudo else argv
        ended = FakeMachine(state, row.on, sudo).run(words, 5.0, rights=True)
        return Output(ended["stdout"], ended["stderr"], ended["exit_code"])
    return state.run(row.on, argv) if row.on else replay(state, row.example)


def forms(text: str) -> Iterator[str]:
    """Yield the form of each line: numbers, names of machines and widths of columns are none."""
    for line in text.splitlines():
        if "Linux version" in line:  # that of the machine
            continue
        form = re.sub(r"\blus-", "scratch-", line)
        form = re.sub(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "N", form)
        form = re.sub(r"0x[0-9a-f]+|ff[0-9a-f]{14}|\d+(?:\.\d+)*", "N", form)
        form = re.sub(r"(\[?\b(none|mq-deadline|bfq|kyber)\b\]? ?)+$", "SCHEDULERS", form)
        form = re.sub(r"/dev/\w+|\bvd[a-z]\b", "DEV", form)
        form = re.sub(r",(?:user_xattr|errors=remount-ro)", "", form)
        form = re.sub(r"mgsnode=[^,]*|\bmgs\b", "MGS", form)
        form = re.sub(r"[KMGT]?i?B \(", "B (", form)
        yield re.sub(r"\s+", " ", form).strip()


COMMANDS = [row for row in RECORDED if row.words[0] not in ("file", "write")]


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: f"{row.form} {row.exit_code}")
def test_an_answer_has_its_recorded_form(row: Answer) -> None:
    output = answer_of(row)
    assert output.exit_code == row.exit_code
    out, err = told(row, "out"), told(row, "err")
    codes = {*re.findall(r"rc=(\d+)", out), told(row, "rc").strip()}
    assert str(row.exit_code) in codes or os.strerror(row.exit_code) in err
    for text, theirs in ((output.stdout, set(forms(out))), (output.stderr, set(forms(err)))):
        strange = [form for form in forms(text) if form and form not in theirs]
        assert not strange, row.recording


@pytest.mark.parametrize(
    "row", [row for row in RECORDED if row.words[0] == "file"], ids=lambda row: row.form
)
def test_a_file_has_its_recorded_form(row: Answer) -> None:
    state = WORLDS[row.world]()
    files = {
        path: text
        for path, text in state.files(state.servers[0].name).items()
        if row.example in path and row_of_file(path) == row
    }
    assert files
    theirs = list(forms(told(row, "out")))
    for path, text in files.items():
        # A client's mount is recorded_part elsewhere, and every machine's own root nowhere.
        lines = [line for line in text.splitlines() if "svname=" in line or "lustre" not in line]
        kept = [line for line in lines if " / ext4" not in line and " / / " not in line]
        strange = [
            form for form in forms("\n".join(kept)) if not any(one.endswith(form) for one in theirs)
        ]
        assert not strange, path


def test_a_write_is_refused_with_the_recorded_error_and_every_recording_is_whole() -> None:
    for row in RECORDED:
        for part in ("cmd", "out", "err", "rc"):
            assert recording(row, part).is_file(), row
        if row.words[0] == "write":
            error = told(row, "err")
            assert (os.strerror(row.exit_code) in error) if row.exit_code else error == ""
    assert answers.RELEASE in {row.recording[0] for row in RECORDED if row.recording}


def test_an_answer_or_an_option_in_no_table_is_an_error() -> None:
    for argv, exit_code, message in (
        (["lctl", "get_param", "version"], 5, "lctl get_param that ends with 5 is in no table"),
        (["lctl", "get_parameter"], 0, "is in no table"),
        (["lfs", "df", "--x"], 0, "lfs df --x is an option in no recorded command"),
    ):
        with pytest.raises(AssertionError, match=message):
            check(argv, exit_code)
    with pytest.raises(AssertionError, match="/boot/x is in no table"):
        row_of_file("/boot/x")
    check(["lfs", "df", "-lv", "/scratch"], 0)
    # Refused by a running Lustre: an answer like any other.
    check(["lfs", "getstripe", "--", "/scratch/a"], 4)


def test_each_answer_is_in_one_table_and_each_assumption_says_what_rests_on_it() -> None:
    keys = [(row.form, row.exit_code) for row in ANSWERS]
    assert len(keys) == len(set(keys))
    assumed = (*ASSUMED, *ASSUMED_AS_A_WHOLE)
    assert all(row.rests for row in assumed)
    # On which a write, a limit or a deletion rests, by name: a further one is decided here.
    changing = {row.form for row in assumed if row.changes}
    assert changing == {"Lustre before 2.17", "targets on ZFS"}


@pytest.mark.parametrize("name", ["small", "pair", "perlmutter"])
def test_every_file_is_in_a_table(name: str) -> None:
    state: FakeLustre = getattr(FakeLustre, name)()
    for server in (state.servers[0], state.servers[-1]):
        for path in state.files(server.name):
            row_of_file(path)


@for_each(
    "name",
    [
        *(f"versions/lfs_df{form}" for form in ("", "_v", "_i", "_path")),
        *(f"versions/lfs_{what}" for what in ("df_json", "osts", "mdts", "version")),
        *(f"versions/lctl_{what}" for what in ("dl", "version", "get_version")),
        *(f"params/{what}" for what in ("osp_create", "lov_qos", "osd_kbytes")),
        *(f"params/get_{what}" for what in ("missing", "n", "N")),
        *(f"params/set_{what}" for what in ("bad", "missing", "ro", "n")),
        *(f"block/fstrim_{what}" for what in ("client", "nodir")),
    ],
)
def test_a_fresh_file_system_byte_for_byte(name: str) -> None:
    line, *whole = as_recorded(name)
    output = replay(FakeLustre.small(), line)
    assert [output.stdout, output.stderr, output.exit_code] == whole


def _is_as_recorded(state: FakeLustre, name: str) -> None:
    """Check an answer but for what differs between two boots: times, and numbers of clients."""
    line, stdout, stderr, exit_code = as_recorded(name)
    output = replay(state, line)
    assert masked(output.stdout) == masked(stdout), name
    assert (output.stderr, output.exit_code) == (stderr, exit_code), name


def test_values_of_many_lines_but_for_their_times() -> None:
    for name in ("params/brw_stats", "stats_after_io/recovery"):
        _is_as_recorded(FakeLustre.small(), name)


def test_imports_have_every_line_in_its_place() -> None:
    line, stdout, _, _ = as_recorded("params/osc_import")
    state = FakeLustre.small()

    def shape(text: str) -> list[str]:
        # What lies behind these differs from one moment, and one connection, to the next.
        moving = r"(sec_ago|avg_waittime|peer_committed|last_checked|idle|connects|replied"
        moving += r"|connection_attempts|generation|network|services|initial_grant): [^,}\n]*"
        return re.sub(moving, r"\1: ~", text).splitlines()

    assert shape(replay(state, line).stdout) == shape(stdout)


@pytest.mark.parametrize("tree", ["osp", "lod", "obdfilter", "osd-ldiskfs", "osc"])
def test_every_plain_parameter_is_there_in_the_recorded_order(tree: str) -> None:
    line, stdout, _, _ = as_recorded(f"params/get_{tree}")
    form = re.compile(rf"^{tree}\.[\w-]+\.\w+=(?=[^\n])", re.MULTILINE)
    names = [name for name in form.findall(stdout) if ".site_stats" not in name]
    output = replay(FakeLustre.small(), line.replace(" -R", ""))
    assert set(names) <= set(form.findall(output.stdout))
    ours = [name for name in form.findall(output.stdout) if name in set(names)]
    assert ours == names


def test_creation_is_gated_as_it_was() -> None:
    state = FakeLustre.small()
    for name in (
        *("00_base_state", "02_set_max_create_count_0", "03_state", "09_restore", "11_state"),
        *("20_no_precreate_on", "23_state", "25_restore", "30_osp_active_0", "32_osp_active_1"),
        *("34_degraded", "36_degraded_off", "50_qos"),
    ):
        fill_as(state, recorded(f"create_gating/{name}"))
        _is_as_recorded(state, f"create_gating/{name}")
    # lctl made the pool and asked first; it and lfs print the same.
    state = FakeLustre.small(pools={"flash": ["OST0000", "OST0001"]})
    asked = ("scratch", "scratch.flash", "scratch")
    output = replay(state, "; ".join(f"lfs pool_list {one}" for one in asked))
    assert output.stdout in recorded("create_gating/40_pool")
    assert (output.stderr, output.exit_code) == ("", 0)


@pytest.mark.parametrize(
    ("gate", "none_on"),
    [
        ("osp.scratch-OST0001-osc-MDT*.max_create_count=0", 1),
        ("obdfilter.scratch-OST0002.no_precreate=1", 2),
        ("osp.scratch-OST0003-osc-MDT*.active=0", 3),
        ("obdfilter.scratch-OST0001.degraded=1", 1),
    ],
)
def test_a_gated_ost_gets_no_objects_even_when_asked(gate: str, none_on: int) -> None:
    state = FakeLustre.small()
    assert state.lctl(None, ["set_param", gate]).exit_code == 0
    counts = dict.fromkeys(range(4), 0)
    for number in range(64):
        path = f"/scratch/f{number}"
        assert state.lfs(["setstripe", "-c", "1", path]).exit_code == 0
        counts[int(state.lfs(["getstripe", "-i", path]).stdout)] += 1
    # As recorded: 21, 21 and 22 on the others.
    assert sorted(counts.values()) == [0, 21, 21, 22]
    assert counts[none_on] == 0
    assert state.lfs(["setstripe", "-c", "1", "-i", str(none_on), "/scratch/g"]).exit_code == 0
    index, blank = state.lfs(["getstripe", "-i", "/scratch/g"]).stdout.split("\n", 1)
    assert (int(index) != none_on, blank) == (True, "\n")


def test_a_lost_ost_is_shown_as_it_was() -> None:
    state = small("OST0001", up=False)
    state.boot, state.client_id = "restart", "ffff888121acb000"
    imports = state.lctl(None, ["get_param", "osc.scratch-OST0001*.import"]).stdout
    for line in ("state: DISCONN", "target: scratch-OST0001_UUID", 'failover_nids: [ "0@lo" ]'):
        assert imports.count(line) == 3
        assert line in recorded("ost_down/06_import")
    assert state.lctl(None, ["get_param", "health_check"]).stdout == "health_check=healthy\n"
    state.lctl(None, ["set_param", "osc.scratch-OST0001-*.active=0"])
    # The recorded -l line shows the free space that grants take, which moves: from the recording.
    for name in ("03_lfs_df_lazy", "04_lctl_dl"):
        line, stdout, stderr, _ = as_recorded(f"ost_down/{name}")
        fill_as(state, stdout)
        output = replay(state, line)
        assert masked(output.stdout) == masked(stdout), name
        assert masked(output.stderr) == masked(stderr), name
    after = recorded("ost_down/11_df_after")
    output = replay(state, "lfs osts; lctl get_param health_check osp.*OST0001*.prealloc_status")
    assert output.stdout in after.replace(after[after.index("Filesys") : after.index("hea")], "")


def test_plain_df_hangs_behind_a_lost_ost_and_lazy_df_complains_once() -> None:
    state = small("OST0001", up=False)
    stdout = recorded("ost_down/02_lfs_df_t5")
    fill_as(state, stdout)
    output = state.lfs(["df", "/scratch"])
    assert output.hang_s == float("inf")
    assert output.stdout == stdout.removesuffix("rc=124\n")
    state.plain_df_hangs = False  # as on another occasion: the last numbers, and exit code 0
    known = state.lfs(["df"])
    assert (known.stdout.count("OST0001"), known.exit_code, known.hang_s) == (1, 0, 0)
    first, second = state.lfs(["df", "-l"]), state.lfs(["df", "-l"])
    assert "scratch-OST0001_UUID: Transport endpoint is not connected\n" in first.stdout
    assert (first.exit_code, second.exit_code) == (107, 0)
    assert "OST0001" not in second.stdout


@pytest.mark.parametrize("name", ["02_after_15s", "04_after_15s", "08_reserved_mb", "10_restore"])
def test_a_full_ost_is_closed_by_the_mdts(name: str) -> None:
    # -28 stays until there is more room than reserved_mb_high.
    state = small("OST0003", full=name == "08_reserved_mb")
    space, _, inodes = recorded(f"enospc2/{name}").partition("Inodes")
    fill_as(state, space)
    fill_as(state, inodes, inodes=True)
    _is_as_recorded(state, f"enospc2/{name}")


def test_only_the_kernel_tells_of_a_target_gone_read_only() -> None:
    state = small(aborted=True)
    state.target("OST0000").aborted = True
    for name in (
        *("fstrim", "health", "lfs_df", "lfs_df_v", "prealloc_status"),
        "statfs_state",
    ):
        line, *whole = as_recorded(f"readonly_target/{name}")
        output = replay(state, line)
        assert [output.stdout, output.stderr, output.exit_code] == whole, name
    files = state.files("lustre1")
    mounts = recorded("readonly_target/mount").splitlines()[1:]
    assert [one for one in files["/proc/mounts"].splitlines() if "svname" in one] == mounts
    for line in recorded("readonly_target/errors_count").splitlines():
        path, _, count = line.partition(":")
        assert files[path] == f"{count}\n"
    options = files["/proc/fs/ldiskfs/vdd/options"]
    assert options.startswith(recorded("readonly_target/options"))
    log = state.run("lustre1", ["dmesg"]).stdout
    for text in ("Aborting journal on device vdd-8.", "Remounting filesystem read-only"):
        assert text in log
        assert text in recorded("readonly_target/dmesg_full")
    listed = (state.lctl(None, ["dl"]).stdout, recorded("readonly_target/lctl_dl"))
    ours, theirs = (
        {masked(" ".join(line.split()[1:-1])) for line in text.splitlines()} for text in listed
    )
    assert ours == theirs


def test_the_files_of_a_fresh_ldiskfs() -> None:
    files = FakeLustre.small().files("lustre1")
    for name in ("dump_sys_vdd", "dump_proc_vdd"):
        stdout = recorded(f"ldiskfs/{name}")
        parts = re.split(r"^==> (\S+) mode=\S+\n", stdout, flags=re.MULTILINE)[1:]
        theirs = dict(zip(parts[::2], parts[1::2], strict=True))
        ours = {path: text for path, text in files.items() if path in theirs}
        moving = ("_write_kbytes", "journal_task")
        same = [path for path in ours if not path.endswith(moving)]
        assert {path: ours[path] for path in same} == {path: theirs[path] for path in same}
        assert len(same) >= (6 if "proc" in name else 30)


def test_counters_that_count_have_every_line_in_its_place() -> None:
    files = FakeLustre.small(allocator_counts=True).files("lustre1")
    theirs = recorded("mballoc/02_before").split("optimize_scan")[0]

    def names(text: str) -> list[str]:
        return re.findall(r"^\t*[\w^]+:", text, flags=re.MULTILINE)

    assert names(files["/proc/fs/ldiskfs/vdd/mb_stats"]) == names(theirs)

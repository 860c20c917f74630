"""The collector as a server runs it: its text on the standard input of a bare Python."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fake_lustre import machine
from tests.reach.hosts import parts_of
from tests.support.narrow import present
from tests.support.silent_fuse import silent_mount

from trimtab.reach.lustre.collector import KeptLines, commands_of, without_sudo
from trimtab.reach.lustre.collector_tree import READ, PathRefused, ServerTree, allowed
from trimtab.reach.lustre.server_answer import CommandAnswer, ServerAnswer, parse_answer, program
from trimtab.reach.process import ProcessResult, execute

pytestmark = pytest.mark.system

PYTHON = (sys.executable, "-I", "-S", "-")
MACHINE = machine.__file__


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """Return the root of a small server."""
    root = tmp_path / "root"
    files = {
        "proc/uptime": "1.0 2.0\n",
        "sys/fs/ldiskfs/vdb/errors_count": "0\n",
        "sys/fs/ldiskfs/vdc/errors_count": "3\n",
        "proc/fs/ldiskfs/vdb/mb_groups": "deadly\n",
        "proc/fs/ldiskfs/vdb/options": "rw\n",
        "var/lib/systemd/timers/stamp-fstrim.timer": "",
        "etc/shadow": "root:secret\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def run(
    request: dict[str, Any], root: Path | str = "/", tools: Path | None = None
) -> ProcessResult:
    """Return how the collector ran, with tools of a directory in front of those of PATH."""
    environment = {"PATH": f"{tools}:{os.environ['PATH']}"} if tools else {}
    whole = {"format": 1, "deadline_s": 20, "sudo": None, **request}
    return execute(on(root), timeout_s=60, stdin=program(whole), environment=environment)


def on(root: Path | str) -> tuple[str, ...]:
    """Return how the collector is run on a machine of a directory's files, or on this one."""
    return PYTHON if root == "/" else (sys.executable, "-I", "-S", MACHINE, str(root), *PYTHON)


def collect(
    request: dict[str, Any], root: Path | str = "/", tools: Path | None = None
) -> ServerAnswer:
    result = run(request, root, tools)
    answer = parse_answer("node", result)
    assert answer.problem is None, (answer, result.stderr)
    assert (result.problem, result.stderr) == (None, b"")
    return answer


def ran(server: Path, *argv: str, timeout_s: float = 20, **more: Any) -> CommandAnswer:
    """Return what came of one command."""
    asked = {"key": "one", "argv": [*argv], "timeout_s": timeout_s, **more}
    (command,) = collect({"commands": [asked]}, server).commands
    assert (command.key, command.argv) == ("one", argv)
    return command


FINE = {"key": "fine", "argv": ["echo", "fine"], "timeout_s": 10}
"""A command that follows one that hangs."""


@pytest.mark.unit
def test_the_program_is_python_3_6_and_needs_nothing_but_its_library() -> None:
    imported, _ = parts_of(program({"format": 1}), called="main")
    assert imported == {
        *("contextlib", "errno", "fnmatch", "json", "mmap", "os"),
        *("re", "select", "signal", "stat", "sys", "time"),
    }


def test_the_answer_is_one_line_of_ascii(server: Path) -> None:
    result = run({"files": ["/proc/uptime"]}, server)
    assert result.stdout.count(b"\n") == 1
    value = json.loads(result.stdout.decode("ascii"))
    assert value["files"] == {"/proc/uptime": "1.0 2.0\n"}
    assert (value["format"], value["end"], value["skipped"]) == (1, True, [])
    assert value["host"] == os.uname().nodename


def test_patterns_links_directories_and_times(server: Path) -> None:
    (server / "dev").mkdir()
    (server / "dev/here").symlink_to("../proc/uptime")
    (server / "dev/nowhere").symlink_to("missing")
    stamp = "/var/lib/systemd/timers/stamp-fstrim.timer"
    os.utime(server / stamp[1:], (5.0, 1234.5))
    answer = collect(
        {
            "files": ["/sys/fs/ldiskfs/*/errors_count", "/sys/fs/ldiskfs/*/missing", stamp],
            "links": ["/dev/*", "/dev/missing"],
            "directories": ["/sys/fs/ldiskfs", "/run/systemd/system"],
        },
        server,
    )
    assert answer.files == {
        "/sys/fs/ldiskfs/vdb/errors_count": "0\n",
        "/sys/fs/ldiskfs/vdc/errors_count": "3\n",
        stamp: "",
    }
    unnamed = {f"/dev/{name}" for name in machine.UNNAMED}
    links = {path: place for path, place in answer.links.items() if path not in unnamed}
    assert links == {"/dev/here": "/proc/uptime", "/dev/nowhere": None}
    assert answer.directories == {"/sys/fs/ldiskfs": ("vdb", "vdc")}
    assert answer.times == {stamp: 1234.5}
    assert answer.skipped == {}


def test_interrupts_of_a_device_and_its_name_in_a_command(server: Path) -> None:
    card = server / "sys/class/net/ens1/device/msi_irqs"
    card.mkdir(parents=True)
    for number in (90, 91):
        (card / str(number)).write_text("msix\n")
        place = server / f"proc/irq/{number}"
        place.mkdir(parents=True)
        (place / "smp_affinity_list").write_text(f"{number - 88}\n")
    (server / "proc/irq/7").mkdir()
    (server / "proc/irq/7/smp_affinity_list").write_text("0\n")
    command = {"key": "card", "argv": ["echo", "{name}", "{}"], "each": "/sys/class/net/*"}
    answer = collect(
        {"interrupts": ["/sys/class/net/*/device/msi_irqs"], "commands": [command]}, server
    )
    assert answer.files == {
        "/proc/irq/90/smp_affinity_list": "2\n",
        "/proc/irq/91/smp_affinity_list": "3\n",
    }
    assert [each.argv for each in answer.commands] == [("echo", "ens1", "/sys/class/net/ens1")]


@pytest.mark.parametrize(
    "path",
    [
        "/proc/fs/ldiskfs/vdb/mb_groups",
        "/proc/fs/ldiskfs/*/mb_*",
        "/proc/fs/ldiskfs/vdb/also",  # a link to it
        "/proc/kmsg",
        "/etc/shadow",
        "/proc/../etc/shadow",
        "/etc/cron.d/link",  # a link to /etc/shadow
        "/proc/outside",  # another
        "/proc/up/shadow",  # a link to /etc
    ],
)
def test_what_does_harm_or_is_nobodys_business_is_not_opened(path: str, server: Path) -> None:
    (server / "proc/fs/ldiskfs/vdb/also").symlink_to("mb_groups")
    (server / "proc/kmsg").write_text("message\n")
    (server / "etc/cron.d").mkdir()
    (server / "etc/cron.d/link").symlink_to("../shadow")
    (server / "proc/outside").symlink_to("/etc/shadow")
    (server / "proc/up").symlink_to("/etc")
    answer = collect({"files": [path]}, server)
    assert answer.files == {}
    assert len(answer.skipped) == 1
    assert all("never opened" in why or "not on the list" in why for why in answer.skipped.values())


def test_what_cannot_be_read_says_why(server: Path) -> None:
    (server / "proc/large").write_bytes(b"x" * (5 << 20))
    os.mkfifo(server / "proc/pipe")
    (server / "proc/bytes").write_bytes(b"\xff\n")
    answer = collect({"files": ["/proc/large", "/proc/pipe", "/proc/fs", "/proc/bytes"]}, server)
    assert answer.skipped == {
        "/proc/large": "/proc/large is longer than 4194304 bytes",
        "/proc/pipe": "/proc/pipe is not a regular file",
        "/proc/fs": "/proc/fs: Is a directory",
    }
    assert answer.files == {"/proc/bytes": "\udcff\n"}


def test_the_limit_leaves_out_files_and_says_so(server: Path) -> None:
    for number in range(10):
        (server / f"proc/part{number}").write_text("x" * 1000)
    answer = collect({"files": ["/proc/part*"], "limit_bytes": 5000}, server)
    assert 3 <= len(answer.files) <= 4
    assert len(answer.files) + len(answer.skipped) == 10


def test_files_that_never_answer_cost_themselves_and_stop_at_the_deadline(server: Path) -> None:
    (server / "proc/mute").mkdir()
    files = [f"/proc/mute/{number}" for number in range(50)]
    with silent_mount(server / "proc/mute", mute=True):
        began_s = time.monotonic()
        asked = ["/proc/uptime", "/proc/mute/file", "/proc/fs/ldiskfs/vdb/options"]
        answer = collect({"files": asked, "commands": [FINE]}, server)
        late = collect({"files": ["/proc/uptime", *files], "deadline_s": 4}, server)
        assert time.monotonic() - began_s < 110
    assert answer.files == {"/proc/uptime": "1.0 2.0\n", "/proc/fs/ldiskfs/vdb/options": "rw\n"}
    assert list(answer.skipped) == ["/proc/mute/file"]
    assert "did not answer" in answer.skipped["/proc/mute/file"]
    assert answer.commands[0].stdout == "fine\n"
    assert late.files == {"/proc/uptime": "1.0 2.0\n"}
    assert "were not read in time" in late.skipped[""]


def test_commands(server: Path) -> None:
    argv = ("sh", "-c", 'echo "$1 $LC_ALL $TZ"; echo err >&2; exit 3', "sh", 'it\'s "quoted" $HOME')
    command = ran(server, *argv)
    assert command.stdout == 'it\'s "quoted" $HOME C UTC\n'
    assert (command.stderr, command.exit_code, command.signal) == ("err\n", 3, None)
    assert command.complete
    missing = ran(server, "no-such-tool")
    assert missing.error == "No such file or directory"
    assert (missing.exit_code, missing.signal, missing.complete) == (None, None, False)
    # Half a line of one that was stopped is dropped, of one that ended by itself it is not.
    stopped = ran(server, "sh", "-c", "printf 'whole=1\\nhalf=12'; sleep 300", timeout_s=1)
    assert stopped.stdout == "whole=1\n"
    assert ran(server, "sh", "-c", "printf 'whole=1\\nlast=12'").stdout == "whole=1\nlast=12"
    # Lines are kept, counted and limited.
    log = ran(server, "seq", "1000000", keep="^9+$", first_line=True)
    assert log.stdout.split() == ["9", "99", "999", "9999", "99999", "999999"]
    assert log.first_line == "1"
    endless = ran(server, "yes", limit_bytes=100)
    assert (endless.stdout, endless.truncated, endless.timed_out) == ("y\n" * 50, True, False)


def test_what_a_command_starts_ends_with_it(server: Path, tmp_path: Path) -> None:
    left = tmp_path / "left"
    script = f"sh -c 'echo $$ > {left}; exec sleep 300' & trap '' TERM; echo begun; sleep 300; :"
    hangs = {"key": "hang", "argv": ["sh", "-c", script], "timeout_s": 1}
    hang, after = collect({"commands": [hangs, FINE]}, server).commands
    assert (hang.timed_out, hang.stdout, hang.complete) == (True, "begun\n", False)
    assert after.stdout == "fine\n"
    state = Path(f"/proc/{int(left.read_text())}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] in "ZX"


def test_a_command_that_cannot_be_killed_is_left(server: Path, tmp_path: Path) -> None:
    mute = tmp_path / "mute"
    mute.mkdir()
    with silent_mount(mute, mute=True):
        hangs = {"key": "stuck", "argv": ["cat", f"{mute}/file"], "timeout_s": 1}
        stuck, fine = collect({"commands": [hangs, FINE]}, server).commands
    assert (stuck.timed_out, stuck.exit_code, stuck.signal) == (True, None, None)
    assert fine.stdout == "fine\n"


def test_the_deadline_holds_for_all_commands_together(server: Path) -> None:
    hang = {"key": "hang", "argv": ["sleep", "300"], "timeout_s": 100}
    began_s = time.monotonic()
    answer = collect({"deadline_s": 1.0, "commands": [hang] * 10}, server)
    assert time.monotonic() - began_s < 55
    assert all(command.timed_out for command in answer.commands)
    assert len(answer.commands) < 10
    assert answer.skipped["sleep 300"] == "sleep 300 was not started in time"


def test_a_tool_of_which_many_hang_already_is_not_started_again(
    server: Path, tmp_path: Path
) -> None:
    mute = tmp_path / "mute"
    mute.mkdir()
    request: dict[str, Any] = {
        "format": 1,
        "files": ["/proc/uptime"],
        "commands": [{"key": "cat", "argv": ["cat", "/dev/null"]}, {"key": "e", "argv": ["echo"]}],
    }
    text = program(request).replace(b"HUNG_S = 300.0", b"HUNG_S = 0.0")
    with silent_mount(mute, mute=True):
        stuck = [subprocess.Popen(["cat", f"{mute}/file"]) for _ in range(8)]
        for child in stuck:
            for _ in range(500):
                state = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0]
                if state in "DI":
                    break
                time.sleep(0.01)
            child.kill()
        # On this very machine: it is its processes that hang.
        answer = parse_answer("n", execute(PYTHON, timeout_s=60, stdin=text))
        young = parse_answer("n", execute(PYTHON, timeout_s=60, stdin=program(request)))
    for child in stuck:
        child.wait()
    assert [command.key for command in answer.commands] == ["e"]
    assert "cat already hang there" in answer.skipped["cat /dev/null"]
    assert "/proc/uptime" in answer.files
    # Who hangs for seconds only may just be slow.
    assert [command.key for command in young.commands] == ["cat", "e"]


@pytest.mark.unit
def test_a_line_longer_than_the_limit_is_no_line() -> None:
    lines = KeptLines({"first_line": True}, 10)
    for chunk in (b"a" * 8, b"a" * 8, b"a\na\n", b"a" * 30, b"a"):
        lines.feed(chunk)
    lines.finish(whole=True)
    assert (lines.first_line, lines.text, lines.truncated) == ("a", [], True)


def test_each_runs_once_for_every_match_and_sudo_stands_in_front(
    server: Path, tmp_path: Path
) -> None:
    (server / "dev").mkdir()
    for name in ("nvme0", "nvme0n1", "nvme0n1p1", "nvme10n1"):
        (server / "dev" / name).touch()
    command = {
        "key": "smart",
        "argv": ["nvme", "{}", "{}x"],
        "each": "/dev/nvme*n*",
        "match": r"nvme\d+n\d+",
        "sudo": True,
    }
    for tool, text in (("nvme", 'echo "$@"'), ("sudo", 'echo sudo "$@"')):
        (tmp_path / tool).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / tool).chmod(0o755)
    answer = collect({"commands": [command], "sudo": ["sudo", "-n"]}, server, tmp_path)
    before = "" if os.geteuid() == 0 else "sudo -n nvme "
    assert [one.stdout for one in answer.commands] == [
        f"{before}/dev/nvme0n1 {{}}x\n",
        f"{before}/dev/nvme10n1 {{}}x\n",
    ]


def test_a_reader_that_goes_away_is_no_error(server: Path) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(on(server), stdin=pipe, stdout=pipe, stderr=pipe) as child:
        present(child.stdout).close()
        _, errors = child.communicate(program({"format": 1, "files": ["/proc/uptime"]}))
    assert (errors, child.returncode) == (b"", 0)


def test_more_than_a_pipe_holds_is_written_whatever_the_pipe_is(server: Path) -> None:
    (server / "proc/large").write_text("x" * 3_000_000)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)  # as the other end of the connection may have left it
    pipe = subprocess.PIPE
    with subprocess.Popen(on(server), stdin=pipe, stdout=writing, stderr=pipe) as child:
        os.close(writing)
        present(child.stdin).write(program({"format": 1, "files": ["/proc/large"]}))
        present(child.stdin).close()
        time.sleep(0.5)
        with os.fdopen(reading, "rb") as file:
            value = json.loads(file.read())
    assert len(value["files"]["/proc/large"]) == 3_000_000


def test_a_request_that_makes_no_sense_is_answered(server: Path) -> None:
    answer = collect({"files": [7], "commands": [{"key": "x", "argv": ["echo"]}]}, server)
    assert answer.skipped
    answer = collect({"commands": [{"key": "x", "argv": ["echo"], "keep": "("}]}, server)
    assert "the collector failed" in answer.skipped[""]


@pytest.mark.unit
def test_which_paths_may_be_read() -> None:
    for path in ("/proc/x", "/sys", "/etc/fstab", "/etc/cron.d/x", "/etc/crontab"):
        allowed(path, READ)
    for path in ("/etc/passwd", "/process", "/sys/../etc/shadow", "/dev/sda", ""):
        with pytest.raises(PathRefused):
            allowed(path, READ)


AUDIT = """
import os, sys
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
ALLOWED = {"os.fork", "os.listdir", "os.exec", "os.kill", "os.killpg", "os.putenv", "os.fwalk"}
def hook(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        writes = flags & WRITING
        ok = not writes
    else:
        ok = event in ALLOWED
        ok = ok or not event.startswith(("os.", "shutil.", "subprocess.", "socket.", "tempfile."))
    if not ok:
        os.write(2, (event + repr(arguments) + chr(10)).encode())
        os._exit(99)
sys.addaudithook(hook)
"""


def test_it_asks_the_system_for_nothing_that_writes(server: Path) -> None:
    request: dict[str, Any] = {
        "format": 1,
        "deadline_s": 20,
        "sudo": None,
        "files": ["/proc/stat", "/proc/fs/ldiskfs/*/*", "/etc/cron.d/*", "/etc/fstab"],
        "directories": ["/sys/fs"],
        "links": ["/dev/*"],
        "block_devices": True,
        "commands": [{"key": "true", "argv": ["true"]}],
    }
    result = execute(PYTHON, timeout_s=60, stdin=AUDIT.encode() + program(request))
    assert (result.stderr, result.exit_code) == (b"", 0)
    assert parse_answer("node", result).skipped.get("") is None
    assert "/proc/stat" in parse_answer("node", result).files
    # The audit itself would notice.
    result = execute(PYTHON, timeout_s=60, stdin=AUDIT.encode() + b"open('/dev/null', 'w')")
    assert result.exit_code == 99


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_the_kernel_sees_no_writing_call(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    request = {"format": 1, "deadline_s": 20, "sudo": None, "block_devices": True}
    calls = "openat,open,creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,"
    calls += "truncate,ftruncate,link,linkat,symlink,symlinkat,chmod,fchmod,fchmodat,chown,fchown,"
    calls += "mknod,mknodat,utimensat,setxattr,fsetxattr,ioctl,mount,umount2"
    argv = ("strace", "-f", "-qq", "-o", str(trace), "-e", f"trace={calls}", *PYTHON)
    result = execute(argv, timeout_s=120, stdin=program(request))
    if b"Operation not permitted" in result.stderr:
        pytest.skip("strace may not trace here")
    assert parse_answer("node", result).whole
    lines = trace.read_text(errors="replace").splitlines()
    assert any("/sys/class/block" in line for line in lines)
    for line in lines:
        call = line.split(maxsplit=1)[1]
        # Of ioctl: whether it is a terminal, do not wait, close when another program starts.
        asks = re.match(r"ioctl\(\d+, (TCGETS|FIONBIO|FIOCLEX)\b", call)
        assert asks or call.startswith(("open", "+++", "---", "<...")), line
        assert not any(flag in call for flag in ("O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC")), line


@pytest.mark.unit
def test_sudo_is_for_those_who_are_not_root() -> None:
    asked = [{"argv": ["a"], "sudo": True}, {"argv": ["b"], "sudo": False}]
    for euid, before in ((0, []), (7, ["sudo"])):
        commands = commands_of({"sudo": ["sudo"], "commands": asked}, ServerTree(), euid)
        assert [command["argv"] for command in commands] == [[*before, "a"], ["b"]]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("exit_code", "stderr", "stdout", "again"),
    [
        (1, "sudo: a password is required\n", "", True),
        (1, "error: get_param: no such thing\n", "", False),
        (1, "sudo: late\n", "version=2.17.57\n", False),
        (0, "sudo: unable to resolve host\n", "", False),
    ],
)
def test_what_sudo_refuses_is_run_without_it(
    exit_code: int, stderr: str, stdout: str, again: bool
) -> None:
    def ended(argv: list[str], exit_code: int, stderr: str, stdout: str = "") -> SimpleNamespace:
        told = {"argv": argv, "exit_code": exit_code, "stderr": stderr, "stdout": stdout}
        return SimpleNamespace(command={"key": "parameters", "argv": argv}, answer=lambda: told)

    words = ["lctl", "get_param", "version"]
    job = ended(["sudo", "-n", *words], exit_code, stderr, stdout)
    answer: dict[str, Any] = {"skipped": []}
    commands = [job]
    found = without_sudo(job, commands, {"sudo": ["sudo", "-n"]}, answer)
    if not again:
        assert (found, commands) == (None, [job])
        return
    assert (present(found)["argv"], commands) == (words, [])
    ((_, why),) = answer["skipped"]
    assert "a password is required" in why
    # The second time there are no words of sudo's in front, and nothing is run a third time.
    second = ended(words, 1, "sudo: odd\n")
    assert without_sudo(second, [second], {"sudo": ["sudo", "-n"]}, answer) is None

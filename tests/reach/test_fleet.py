"""Many nodes through a stand-in for ssh: each fails in its own way and costs only itself."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import threading
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.codes import raises
from tests.support.narrow import present
from tests.support.processes import gone

from trimtab.base.error import Interrupted, ToolError, UsageError
from trimtab.base.interruption import interruptible
from trimtab.base.site import Ssh
from trimtab.reach import process
from trimtab.reach.fleet import checked_node, fan_out, ssh_command
from trimtab.reach.lustre.server_answer import parse_answer, program
from trimtab.reach.process import execute, session_members

pytestmark = pytest.mark.system

# As ssh does: what follows the host is joined and given to a shell.
FAKE = """#!/bin/sh
while [ $# -gt 2 ]; do shift; done
echo $$ >> "$0.pids"
case $1 in
  hang*)   trap '' TERM; sleep 300 & echo $! >> "$0.pids"; wait; sleep 300;;
  refuse*) echo "ssh: connect to host $1 port 22: Connection refused" >&2; exit 255;;
  unknown*) echo "ssh: Could not resolve hostname $1: Name or service not known" >&2; exit 255;;
  half*)   printf '{"format":1,"host":"%s","files":{"/proc' "$1"; kill -9 $$;;
  noise*)  printf 'no answer\\000\\377'; exit 0;;
  flood*)  exec yes;;
  closed*) exec >&- 2>&-; sleep 0.2; exit 3;;
  held*)   sleep 30 & echo $! >> "$0.pids"; echo done;;
  slow*)   sleep 0.5; eval "$2";;
  *)       eval "$2";;
esac
"""


@pytest.fixture
def ssh(tmp_path: Path) -> Ssh:
    program = tmp_path / "fake-ssh"
    program.write_text(FAKE)
    program.chmod(0o755)
    return Ssh(command=(str(program),))


def pids(ssh: Ssh) -> list[int]:
    return [int(word) for word in Path(ssh.command[0] + ".pids").read_text().split()]


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_every_node_gets_the_input_and_keeps_its_output_apart(ssh: Ssh) -> None:
    nodes = [f"oss{number:03}" for number in range(1, 158)]
    content = bytes(range(256)) * 400
    argv = ["sh", "-c", "cat; echo err >&2"]
    results = fan_out(nodes, argv, ssh=ssh, timeout_s=60, stdin=content)
    assert list(results) == nodes
    for result in results.values():
        assert (result.stdout, result.stderr, result.problem) == (content, b"err\n", None)
        assert result.argv[0] == ssh.command[0]
        assert result.elapsed_s > 0
    assert len(pids(ssh)) == 157


def test_each_failure_is_a_result_of_its_node_alone(ssh: Ssh) -> None:
    kinds = ("good", "refuse", "unknown", "half", "noise", "closed", "held", "hang")
    nodes = [*(f"{kind}1" for kind in kinds), "good2"]
    began_s = time.monotonic()
    results = fan_out(nodes, ["echo", "here"], ssh=ssh, timeout_s=4)
    assert time.monotonic() - began_s < 60
    assert list(results) == nodes
    for name in ("good1", "good2"):
        assert (results[name].stdout, results[name].problem) == (b"here\n", None)
    assert results["refuse1"].exit_code == 255
    assert b"Connection refused" in results["refuse1"].stderr
    assert b"Could not resolve" in results["unknown1"].stderr
    assert results["half1"].signal == signal.SIGKILL
    assert results["half1"].stdout.endswith(b'{"/proc')
    assert results["noise1"].stdout == b"no answer\0\xff"
    assert results["closed1"].exit_code == 3
    # A process that was left in the background holds the pipe and not the answer.
    assert (results["held1"].stdout, results["held1"].timed_out) == (b"done\n", False)
    assert results["hang1"].timed_out
    assert results["hang1"].exit_code is None
    assert results["hang1"].problem == "fake-ssh was still running after 4 s and was killed"
    assert all(gone(pid) for pid in pids(ssh))


def test_the_deadline_is_each_nodes_own_and_no_more_than_the_fanout_run_at_once(
    ssh: Ssh, tmp_path: Path
) -> None:
    nodes = ["hang1", *(f"slow{number}" for number in range(9))]
    results = fan_out(nodes, ["echo", "here"], ssh=replace(ssh, fanout=2), timeout_s=4)
    # Nine times half a second behind one another: more than the deadline of one.
    assert [name for name, result in results.items() if result.timed_out] == ["hang1"]
    assert [result.stdout for result in results.values()] == [b"", *[b"here\n"] * 9]
    marks = tmp_path / "marks"
    marks.mkdir()
    script = f"touch {marks}/$$; ls {marks} | wc -l; sleep 0.05; rm {marks}/$$"
    nodes = [f"n{number}" for number in range(12)]
    narrow = replace(ssh, fanout=3)
    results = fan_out(nodes, ["sh", "-c", script], ssh=narrow, timeout_s=60)
    assert 1 <= max(int(result.stdout) for result in results.values()) <= 3


def test_a_whole_site_that_hangs_costs_one_deadline(ssh: Ssh) -> None:
    wide = replace(ssh, fanout=157)
    began_s = time.monotonic()
    results = fan_out([f"hang{n}" for n in range(157)], ["x"], ssh=wide, timeout_s=6)
    assert time.monotonic() - began_s < 60
    assert all(result.timed_out and not result.abandoned for result in results.values())
    assert all(gone(pid) for pid in pids(ssh))


def test_a_node_that_floods_is_stopped_at_the_limit(ssh: Ssh) -> None:
    results = fan_out(
        ["flood1", "good1"], ["echo"], ssh=ssh, timeout_s=60, output_limit_bytes=100_000
    )
    assert results["flood1"].truncated
    assert len(results["flood1"].stdout) == 100_000
    assert not results["flood1"].timed_out
    assert results["good1"].stdout == b"\n"


@pytest.mark.parametrize(
    "words",
    [
        ["$HOME", "`id`", "$(id)", "a;b", "a&&b", "|", ">", "*"],
        ["it's", 'a "word"', "back\\slash", "", " ", "  two  ", "-x", "~", "#", "!"],
        ["line\nfeed", "tab\t", "\u00e4\u00f6", "{a,b}", "%h", "%n", "%%"],
    ],
)
def test_words_arrive_as_they_are(words: list[str], ssh: Ssh) -> None:
    code = "import sys; sys.stdout.buffer.write('\\0'.join(sys.argv[1:]).encode())"
    argv = [sys.executable, "-I", "-X", "utf8", "-c", code, *words]
    result = fan_out(["n"], argv, ssh=ssh, timeout_s=30)["n"]
    assert result.problem is None, result.stderr
    assert result.stdout.decode().split("\0") == words


@pytest.mark.unit
@pytest.mark.parametrize(
    "node",
    [
        *("", "-oProxyCommand=x", "a b", "a;b", "$(id)", "`id`", "a\nb", "a'b", "user@host"),
        *("a/b", "../a", "a%b", "a*", "a[1-3]", "h\u00f6st", "a\0", "a" * 256, ".a"),
    ],
)
def test_names_that_could_do_something_are_refused(node: str, ssh: Ssh) -> None:
    with raises(UsageError, "node-name-invalid"):
        fan_out(["good1", node], ["echo"], ssh=ssh, timeout_s=5)
    assert not Path(ssh.command[0] + ".pids").exists()
    for good in ("oss1", "10.0.2.15", "fe80::1", "oss-1.example.org", "n_1", "7"):
        assert checked_node(good) == good


@pytest.mark.unit
def test_what_ssh_is_told() -> None:
    ssh = Ssh(command=("ssh", "-F", "/etc/x"), user="monitor", options=("-oPort=2222",))
    command = ssh_command("oss1", ["python3", "-"], ssh=ssh, timeout_s=20)
    assert command[:3] == ("ssh", "-F", "/etc/x")
    assert command[-4:] == ("-l", "monitor", "oss1", "python3 -")
    assert {"-T", "-oBatchMode=yes", "-oForwardAgent=no", "-oForwardX11=no"} < set(command)
    # ssh takes the first value: the site may set its own time to connect, and nothing above.
    assert command.index("-oPort=2222") < command.index("-oConnectTimeout=10")
    assert command.index("-oBatchMode=yes") < command.index("-oPort=2222")
    with pytest.raises(ValueError, match="not a command"):
        ssh_command("oss1", ["-l", "root"], ssh=ssh, timeout_s=20)


def test_nothing_to_ask_and_nothing_to_ask_with(ssh: Ssh, tmp_path: Path) -> None:
    assert fan_out([], ["echo"], ssh=ssh, timeout_s=5) == {}
    assert len(fan_out(["a", "a"], ["echo"], ssh=ssh, timeout_s=5)) == 1
    with pytest.raises(ToolError, match="no-such-ssh was not found"):
        fan_out(["a"], ["echo"], ssh=Ssh(command=("no-such-ssh",)), timeout_s=5)
    # A process that cannot be started is its node's bad luck.
    broken = tmp_path / "ssh"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    results = fan_out(["a", "b"], ["echo"], ssh=Ssh(command=(str(broken),), fanout=1), timeout_s=5)
    for result in results.values():
        assert "could not be started: No such file" in present(result.problem)
        assert result.exit_code is None


def test_one_that_cannot_be_started_keeps_nobody_from_being_read(
    ssh: Ssh, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, refused = process.subprocess.Popen, []

    def sometimes(*arguments: Any, **options: Any) -> Any:
        if not refused:
            refused.append(arguments)
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return start(*arguments, **options)

    monkeypatch.setattr(process.subprocess, "Popen", sometimes)
    narrow = replace(ssh, fanout=1)
    argv = ["head", "-c", "1000000", "/dev/zero"]
    results = fan_out(["a", "b", "c"], argv, ssh=narrow, timeout_s=60)
    assert sorted(len(result.stdout) for result in results.values()) == [0, 1_000_000, 1_000_000]
    assert [result.not_started is None for result in results.values()].count(False) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruption_kills_every_connection(number: int, ssh: Ssh) -> None:
    nodes = [f"hang{number}" for number in range(20)]
    before = descriptors()

    def interrupt() -> None:
        path = Path(ssh.command[0] + ".pids")
        for _ in range(1000):
            if path.exists() and len(path.read_text().split()) >= 40:
                break
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    began_s = time.monotonic()
    with pytest.raises(Interrupted), interruptible():
        fan_out(nodes, ["echo"], ssh=ssh, timeout_s=250)
    thread.join()
    assert time.monotonic() - began_s < 60
    assert len(pids(ssh)) == 40
    assert all(gone(pid) for pid in pids(ssh))
    assert not any(session_members(pid) for pid in pids(ssh))
    assert descriptors() == before


def test_hundreds_of_calls_leave_nothing_behind(ssh: Ssh) -> None:
    true = present(shutil.which("true"))
    plain = Ssh(command=(true,))

    def calls(count: int) -> None:
        for _ in range(count):
            results = fan_out(["a", "b"], ["x"], ssh=plain, timeout_s=30, stdin=b"y" * 10_000)
            assert all(result.exit_code == 0 for result in results.values())

    calls(30)  # what is cached is cached
    gc.collect()
    threads, files = threading.active_count(), descriptors()
    tracemalloc.start()
    try:
        calls(20)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        calls(200)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # 400 processes with 10 KB of input each: a leak of any of it would be megabytes.
    assert after - before < 50_000
    assert (threading.active_count(), descriptors()) == (threads, files)
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    if children.exists():
        states = [Path(f"/proc/{pid}/stat").read_text() for pid in children.read_text().split()]
        assert not any(text.rpartition(")")[2].split()[0] == "Z" for text in states)


def test_it_works_beside_the_main_thread(ssh: Ssh) -> None:
    found: list[Any] = []

    def ask() -> None:
        found.append(fan_out(["a", "hang1"], ["echo", "x"], ssh=ssh, timeout_s=3))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results["a"].stdout for results in found] == [b"x\n"] * 3
    assert all(results["hang1"].timed_out for results in found)


def test_the_collector_over_ssh_on_this_very_host(ssh: Ssh) -> None:
    argv = [sys.executable, "-I", "-S", "-"]
    path = "/proc/sys/kernel/osrelease"
    request = program({"format": 1, "files": [path], "commands": []})
    results = dict(fan_out(["good1", "half1"], argv, ssh=ssh, timeout_s=60, stdin=request))
    results["here"] = execute(argv, stdin=request, timeout_s=60)
    answers = {name: parse_answer(name, result) for name, result in results.items()}
    here = {path: Path(path).read_text()}
    assert answers["good1"].files == answers["here"].files == here
    assert "the answer was cut after" in present(answers["half1"].problem)


def test_a_program_here_reads_its_input() -> None:
    content = bytes(range(256)) * 1000
    result = execute(["cat"], stdin=content, timeout_s=30)
    assert (result.stdout, result.problem) == (content, None)
    assert execute(["cat"], stdin=b"", timeout_s=30).stdout == b""
    # One that does not read it is no problem.
    assert execute(["true"], stdin=content * 10, timeout_s=30).problem is None

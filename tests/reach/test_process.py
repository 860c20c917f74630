"""Programs that behave badly, written on the fly: each must cost a bounded time and memory."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.codes import raises
from tests.support.narrow import present
from tests.support.processes import gone
from tests.support.silent_fuse import silent_mount

from trimtab.base.error import Interrupted, ToolError
from trimtab.base.interruption import interruptible
from trimtab.reach.process import ProcessResult, execute, reap, session_members

pytestmark = pytest.mark.system

PYTHON = [sys.executable, "-I", "-S", "-c"]


def run(code: str, **arguments: object) -> ProcessResult:
    options: dict[str, object] = {"timeout_s": 30.0, "grace_s": 0.5, **arguments}
    return execute([*PYTHON, code], **options)  # type: ignore[arg-type]


def test_everything_that_a_program_says_is_kept() -> None:
    at, told = datetime(2026, 11, 20, 12, tzinfo=UTC), list[float]()
    code = "import sys, time; time.sleep(0.5); print('out'); print('err', file=sys.stderr)"
    result = run(code, clock=lambda: at, on_progress=told.append)
    assert told
    assert told == sorted(told)
    assert (result.stdout, result.stderr, result.exit_code) == (b"out\n", b"err\n", 0)
    assert result.problem is None
    assert result.started_at == at
    assert result.elapsed_s > 0
    output = result.raw_output("write 0")
    assert (output.label, output.stdout, output.argv) == ("write 0", b"out\n", result.argv)
    assert (output.started_at, output.exit_code, output.truncated) == (at, 0, False)


def test_a_program_reads_what_it_is_given() -> None:
    code = "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    content = bytes(range(256)) * 10_000
    assert run(code, stdin=content).stdout.decode().strip() == hashlib.sha256(content).hexdigest()
    assert run("import sys; print(sys.stdin.read() == '')").stdout == b"True\n"
    # No shell comes between.
    result = execute(["echo", "$HOME; touch x", "*"], timeout_s=10)
    assert result.stdout == b"$HOME; touch x *\n"


def test_how_a_program_ended() -> None:
    result = execute(["true"], timeout_s=10)
    assert (result.stdout, result.stderr, result.problem) == (b"", b"", None)
    for code in (1, 3, 255):
        result = run(f"raise SystemExit({code})")
        assert result.exit_code == code
        assert present(result.problem).endswith(f"exit code {code}")
    result = run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert (result.exit_code, result.signal) == (None, signal.SIGKILL)
    assert present(result.problem).endswith("SIGKILL")


def test_program_that_hangs_ignoring_sigterm_is_killed() -> None:
    code = (
        "import signal, time, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('before', flush=True); time.sleep(600)"
    )
    result = run(code, timeout_s=1.0, grace_s=0.3)
    assert result.timed_out
    assert result.stdout == b"before\n"
    assert (result.exit_code, result.signal) == (None, signal.SIGKILL)
    assert "still running after 1 s and was killed" in present(result.problem)
    assert result.elapsed_s < 20


def test_program_may_clean_up_at_its_deadline() -> None:
    script = "trap 'echo cleaned up; exit 0' TERM; echo ready; sleep 600 & wait"
    result = execute(["sh", "-c", script], timeout_s=1.0, grace_s=10.0)
    assert result.stdout == b"ready\ncleaned up\n"
    assert result.timed_out
    assert result.exit_code == 0
    assert result.problem is not None


def test_a_gigabyte_of_output_costs_the_limit() -> None:
    code = (
        "import os\nblock = b'x' * 2**20\n"
        "try:\n    for _ in range(1024): os.write(1, block)\n"
        "except BrokenPipeError: pass\n"
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = run(code, output_limit_bytes=2**22)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert result.truncated
    assert len(result.stdout) == 2**22
    assert not result.timed_out
    assert "more than 4.00 MiB" in present(result.problem)
    assert grown_kib < 64 * 1024
    assert result.raw_output("x").truncated


def test_output_up_to_the_limit_is_whole_and_both_streams_count() -> None:
    result = run("print('x' * 99)", output_limit_bytes=100)
    assert (len(result.stdout), result.truncated) == (100, False)
    both = "import os; os.write(1, b'o' * 60); os.write(2, b'e' * 60)"
    result = run(both, output_limit_bytes=100)
    assert result.truncated
    assert len(result.stdout) + len(result.stderr) == 100


def forks(child: str, after: str = "") -> str:
    """Return a program whose child does something and sleeps, and that prints who that is."""
    return (
        "import os, signal, time\n"
        "pid = os.fork()\n"
        f"if pid == 0:\n    {child}\n    time.sleep(600)\n"
        f"time.sleep(0.2)\nprint(pid, flush=True)\n{after}\n"
    )


def test_grandchild_that_holds_the_pipe_neither_delays_nor_survives() -> None:
    result = run(forks("pass"))
    assert result.exit_code == 0
    assert result.elapsed_s < 20
    assert gone(int(result.stdout))


def test_grandchild_in_another_group_is_killed_too() -> None:
    """Open MPI gives each rank a group of its own; the session is the same."""
    child = "os.setpgid(0, 0); signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    result = run(forks(child, "time.sleep(600)"), timeout_s=1.0)
    assert result.timed_out
    assert gone(int(result.stdout))


def test_process_in_a_session_of_its_own_cannot_hold_us() -> None:
    result = run(forks("os.setsid()"))
    escaped = int(result.stdout)
    try:
        assert result.exit_code == 0
        assert result.elapsed_s < 20
    finally:
        os.kill(escaped, signal.SIGKILL)


def test_program_that_closes_its_output_and_goes_on() -> None:
    result = run("import os, time; os.close(1); os.close(2); time.sleep(0.3); os._exit(4)")
    assert result.exit_code == 4
    assert result.elapsed_s >= 0.3


def test_nothing_is_read_from_us_and_numbers_have_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    code = "import os, sys; print(repr(sys.stdin.read()), os.environ['LC_ALL'], os.environ['MINE'])"
    result = run(code, environment={"MINE": "yes", "LC_ALL": "fr_FR"})
    assert result.stdout == b"'' C yes\n"


def test_program_starts_away_from_our_own_directory_and_leaves_no_core(tmp_path: Path) -> None:
    assert execute(["pwd"], timeout_s=10).stdout == b"/\n"
    here = {"timeout_s": 10, "directory": str(tmp_path)}
    assert execute(["pwd"], **here).stdout.decode() == f"{tmp_path}\n"
    result = execute([*PYTHON, "import os, time; time.sleep(0.2); os.abort()"], **here)
    assert result.signal == signal.SIGABRT
    assert list(tmp_path.iterdir()) == []
    with raises(ToolError, "directory-missing"):
        execute(["true"], timeout_s=10, directory=str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["no-such-program-here"], "not found"),
        (["/no/such/program"], "not found"),
        (["/etc"], "is not executable"),
        (["/etc/passwd"], "is not executable"),
        (["echo", "a\0b"], "cannot start"),
    ],
)
def test_program_that_cannot_be_started(argv: list[str], words: str) -> None:
    with pytest.raises(ToolError, match=words) as caught:
        execute(argv, timeout_s=10)
    assert caught.value.hint is not None


def test_program_that_is_not_a_program(tmp_path: Path) -> None:
    program = tmp_path / "rubbish"
    program.write_bytes(b"\x00\x01rubbish")
    program.chmod(0o755)
    with raises(ToolError, "program-not-started"):
        execute([str(program)], timeout_s=10)


def test_error_in_the_callback_stops_the_program() -> None:
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    before = {*children.read_text().split()}  # services of other tests
    started: list[int] = []

    def fail(_elapsed_s: float) -> None:
        started.extend(map(int, {*children.read_text().split()} - before))
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        run("import time; time.sleep(600)", on_progress=fail)
    assert started
    assert all(gone(pid) for pid in started)


@pytest.mark.parametrize("again", [False, True], ids=["one signal", "and another"])
def test_interruption_kills_the_program_before_it_goes_on(again: bool, tmp_path: Path) -> None:
    """A second signal does not cut the killing short."""
    mark = tmp_path / "pid"
    code = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"open({str(mark)!r}, 'w').write(str(os.getpid()) + ' '); time.sleep(600)"
    )
    second = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM))

    def stop(_elapsed_s: float) -> None:
        if mark.exists() and mark.read_text().endswith(" "):
            if again:
                second.start()
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted, match="SIGINT"), interruptible():
        run(code, on_progress=stop, grace_s=0.6)
    if again:
        second.join()
    assert gone(int(mark.read_text()))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_unkillable_program_is_given_up(tmp_path: Path) -> None:
    with silent_mount(tmp_path, mute=True) as point:
        result = execute(["stat", str(point / "x")], timeout_s=0.5, grace_s=0.3)
        assert result.timed_out
        assert result.abandoned
        assert (result.exit_code, result.signal) == (None, None)
        assert "could not be killed" in present(result.problem)
    reap()


def test_end_that_the_kernel_did_not_keep_is_said() -> None:
    """Whoever started us may have ignored SIGCHLD: then no exit code is to be had."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        result = run("print('done')")
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert (result.stdout, result.exit_code, result.signal) == (b"done\n", None, None)
    assert "unknown how" in present(result.problem)


def test_sessions_are_read_from_names_with_brackets(tmp_path: Path) -> None:
    program = tmp_path / "a) S 1 2 3 ("
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([str(program), "60"], start_new_session=True) as child:
        try:
            assert session_members(child.pid) == [child.pid]
        finally:
            child.kill()


def test_a_program_that_stands_for_others_is_asked_before_it_is_told(tmp_path: Path) -> None:
    said = tmp_path / "said"
    code = f"""
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
while not pathlib.Path({str(said)!r}).exists():
    time.sleep(0.01)
"""
    result = run(code, timeout_s=0.5, grace_s=30, ask_to_end=said.touch)
    assert (result.timed_out, result.exit_code) == (True, 0)


def test_asking_is_no_more_than_that(tmp_path: Path) -> None:
    asked: list[bool] = []
    code = "import time; time.sleep(60)"
    result = run(code, timeout_s=0.2, grace_s=1.0, ask_to_end=lambda: asked.append(True))
    assert (asked, result.timed_out, result.signal) == ([True], True, signal.SIGTERM)

    def fails() -> None:
        raise ToolError("nobody answers")

    with pytest.raises(ToolError, match="nobody answers"):
        run(code, timeout_s=0.2, ask_to_end=fails)
    run("pass", ask_to_end=lambda: pytest.fail("it had ended by itself"))

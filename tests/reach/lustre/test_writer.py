"""The writing program for real: on a loop device of this machine, in a bare Python."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.reach.hosts import parts_of
from tests.support import loopback
from tests.support.narrow import present
from tests.support.polling import eventually

from trimtab.base.action import Outcome
from trimtab.base.site import Servers
from trimtab.reach.lustre.server_write import InstructionResult, ServerWriter, program
from trimtab.reach.lustre.writer_machine import STATE_DIRECTORY

pytestmark = pytest.mark.system

MIB = 1024**2
HERE = "this-host"


@dataclass(frozen=True)
class Loop:
    """An ext4 on a loop device, and the right to write there."""

    mounted: loopback.Mounted
    writer: ServerWriter
    state: Path

    @property
    def place(self) -> dict[str, str]:
        number = self.mounted.mount_point.stat().st_dev
        return {"number": f"{os.major(number)}:{os.minor(number)}"}

    def queue(
        self, name: str, value: str, before: str | None = None, **more: Any
    ) -> InstructionResult:
        """Set something of the device's queue."""
        (result,) = self.writer.act(HERE, [self.instruction(name, value, before, **more)])
        return result

    def instruction(
        self, name: str, value: str, before: str | None = None, **more: Any
    ) -> dict[str, Any]:
        fields = {"device": self.mounted.device.name}
        own = {"do": "set", "row": f"queue/{name}", "fields": fields, "place": self.place}
        return {**own, "before": before, "value": value, **more}

    def program(self, *instructions: dict[str, Any], **more: Any) -> bytes:
        """Return what the writer sends with instructions."""
        asked = {"format": 1, "file_system": "scratch", "token": 7, "who": "w", "sudo": None}
        return program({**asked, "deadline_s": 30, "instructions": [*instructions], **more})

    def python(self, text: bytes) -> subprocess.CompletedProcess[bytes]:
        """Run a text as the program."""
        argv = [self.writer.servers.python, "-I", "-S", "-"]
        return subprocess.run(argv, input=text, capture_output=True, check=False)

    @contextmanager
    def started(self, **more: Any) -> Iterator[subprocess.Popen[Any]]:
        """Yield the bare Python, which waits for its program."""
        argv = [self.writer.servers.python, "-I", "-S", "-"]
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, **more) as child:
            yield child

    def trim(self, **more: Any) -> InstructionResult:
        """Trim it."""
        (result,) = self.writer.act(HERE, [{"do": "trim", "place": self.place, **more}])
        return result


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    with _writable(tmp_path, size_bytes=256 * MIB) as loop:
        loop.mounted.device.set_queue("read_ahead_kb", 128)
        yield loop


@contextmanager
def _writable(tmp_path: Path, **options: Any) -> Iterator[Loop]:
    """Yield an ext4 and a writer on a host whose ``/var/lib`` is the test's own."""
    if reason := loopback.why_no_loop_devices("ext4"):
        pytest.skip(reason)
    state = tmp_path / "lib" / Path(STATE_DIRECTORY).name
    state.parent.mkdir()
    with loopback.mounted(tmp_path, **options) as mounted:
        servers = Servers(oss=(HERE,), reach="local", python=_python(tmp_path), timeout_s=60)
        yield Loop(mounted, ServerWriter(servers, "scratch", 7, "root@test"), state)


def _python(directory: Path, python: str = sys.executable) -> str:
    """Return a Python on this host that has a ``/var/lib`` of its own: ``lib`` in the directory."""
    program = directory / "python"
    program.write_text(
        f"""#!/bin/sh
exec unshare -m --propagation slave \\
    sh -c 'mount --bind {directory}/lib /var/lib && exec {python} "$@"' sh "$@"
"""
    )
    program.chmod(0o755)
    return str(program)


@pytest.mark.unit
def test_the_program_is_python_3_6_and_needs_nothing_but_its_library() -> None:
    imported, names = parts_of(program({"format": 1}), called="act")
    assert imported == {
        *("collections", "contextlib", "errno", "fcntl", "fnmatch", "json", "mmap", "os", "re"),
        *("resource", "select", "signal", "socket", "stat", "sys", "time"),
    }
    # Its parts are one text: a name that two of them define would be the second's in both.
    assert len(names) == len(set(names))


def test_a_setting_of_the_queue_is_written_and_read_back(loop: Loop) -> None:
    device = loop.mounted.device
    for name, value in (("wbt_lat_usec", "0"), ("nr_requests", "64"), ("read_ahead_kb", "512")):
        before = device.read_queue(name)
        result = loop.queue(name, value, before)
        assert (result.outcome, result.found, result.wrote) == (Outcome.DONE, value, True), result
        assert device.read_queue(name) == value
        assert loop.queue(name, before, value).done
        assert device.read_queue(name) == before
    result = loop.queue("wbt_lat_usec", "-1")
    assert result.done
    assert result.found == device.read_queue("wbt_lat_usec")


def test_a_scheduler_reads_back_in_brackets(loop: Loop) -> None:
    text = loop.mounted.device.read_queue("scheduler")
    choices = text.replace("[", "").replace("]", "").split()
    active = text[text.index("[") + 1 : text.index("]")] if "[" in text else text
    for choice in (*choices, active):
        result = loop.queue("scheduler", choice)
        assert (result.outcome, result.found) == (Outcome.DONE, choice)
    result = loop.queue("scheduler", "bfq" if "bfq" not in choices else "kyber")
    if not result.done:  # a kernel without it
        assert result.outcome is Outcome.REFUSED
        assert result.detail.code == "setting-value-refused"


def test_a_value_is_written_only_where_it_is_what_it_was(loop: Loop) -> None:
    device = loop.mounted.device
    before = device.read_queue("read_ahead_kb")
    result = loop.queue("read_ahead_kb", before, before)
    assert (result.outcome, result.detail.code, result.wrote) == (Outcome.DONE, "already", False)
    device.set_queue("read_ahead_kb", 1000)
    result = loop.queue("read_ahead_kb", "512", before)
    assert (result.outcome, result.found, result.wrote) == (Outcome.CHANGED, "1000", False)
    assert device.read_queue("read_ahead_kb") == "1000"


def test_a_value_that_the_kernel_refuses_or_limits_is_not_stored(loop: Loop) -> None:
    device = loop.mounted.device
    assert loop.queue("scheduler", "none").done
    before = device.read_queue("nr_requests")
    result = loop.queue("nr_requests", "65536", before)  # more than the device has
    assert (result.outcome, result.detail.code) == (Outcome.REFUSED, "setting-value-refused")
    assert "Invalid argument" in result.detail
    assert device.read_queue("nr_requests") == before
    before = device.read_queue("max_sectors_kb")
    result = loop.queue("max_sectors_kb", "65536", before)  # beyond the device's own limit
    if result.outcome is Outcome.REFUSED:  # kernels before 6.15
        assert device.read_queue("max_sectors_kb") == before
        return
    assert (result.outcome, result.detail.code) == (Outcome.NOT_STORED, "setting-not-kept")
    assert result.found == device.read_queue("max_sectors_kb") != "65536"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"row": "queue/discard_max_bytes", "value": "0"}, "setting-not-writable"),
        ({"row": "../../etc/passwd"}, "setting-not-writable"),
        ({"fields": {"device": "../loop1"}}, "name-invalid"),
        ({"fields": {"device": "loop*"}}, "name-invalid"),
        ({"fields": {}}, "name-invalid"),
        ({"value": "0\n"}, "setting-value-refused"),
        ({"value": "07"}, "setting-value-refused"),
        ({"value": "-2"}, "setting-value-refused"),
        ({"value": None}, "setting-value-refused"),
        ({"do": "shell"}, "action-unknown"),
        ({"place": {"number": "/"}}, "name-invalid"),
        ({"place": {"service": "other-OST0001"}}, "name-invalid"),
        ({"place": {"service": 7}}, "name-invalid"),
        ({"place": "scratch-OST0001;id"}, "name-invalid"),
    ],
)
def test_what_is_not_in_the_table_is_not_written(
    loop: Loop, change: dict[str, Any], code: str
) -> None:
    before = loop.mounted.device.read_queue("wbt_lat_usec")
    instruction = {**loop.instruction("wbt_lat_usec", "7"), **change}
    (result,) = loop.writer.act(HERE, [instruction])
    assert (result.outcome, result.detail.code, result.wrote) == (Outcome.REFUSED, code, False)
    assert loop.mounted.device.read_queue("wbt_lat_usec") == before


def test_a_target_that_is_not_here_is_skipped(loop: Loop, tmp_path: Path) -> None:
    with loopback.loop_device(16 * MIB, tmp_path) as other:  # of something else
        result = loop.queue("wbt_lat_usec", "7", fields={"device": other.name})
    assert (result.outcome, result.detail.code) == (Outcome.SKIPPED, "device-not-beneath")
    for place in ({"number": "7:9999"}, {"service": "scratch-OST0001"}):
        result = loop.queue("wbt_lat_usec", "7", place=place)
        assert (result.outcome, result.detail.code) == (Outcome.SKIPPED, "target-not-here")
    loopback.unmount(loop.mounted.mount_point)
    result = loop.queue("wbt_lat_usec", "7", place=loop.place)  # of the directory: not its mount
    assert result.detail.code == "device-not-beneath" or result.outcome is Outcome.SKIPPED


def test_a_mount_that_lies_over_a_target_is_not_written_through(loop: Loop) -> None:
    point = str(loop.mounted.mount_point)
    place = loop.place
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "over", point], check=True)
    try:
        for result in (loop.queue("wbt_lat_usec", "7", place=place), loop.trim(place=place)):
            assert (result.outcome, result.detail.code) == (Outcome.SKIPPED, "mount-changed")
            assert f"another mount hides {place['number']} at {point}" in result.detail
    finally:
        subprocess.run(["umount", point], check=True)
    assert loop.queue("wbt_lat_usec", "7", place=place).done


def test_a_lower_token_is_refused_for_ever(loop: Loop) -> None:
    assert loop.queue("read_ahead_kb", "300").done
    later = replace(loop.writer, token=8)
    (result,) = later.act(HERE, [loop.instruction("read_ahead_kb", "400")])
    assert result.done
    result = loop.queue("read_ahead_kb", "500")
    assert (result.outcome, result.detail.code) == (Outcome.REFUSED, "fenced")
    assert loop.mounted.device.read_queue("read_ahead_kb") == "400"
    assert (loop.state / "scratch.token").read_text() == "8\n"
    assert loop.trim().detail.code == "fenced"


def test_a_fence_that_cannot_be_read_or_kept_fences(loop: Loop) -> None:
    loop.state.mkdir()
    (loop.state / "scratch.token").write_text("rubbish")
    assert loop.queue("read_ahead_kb", "300").detail.code == "fence-unreadable"
    shutil.rmtree(loop.state)
    loop.state.write_text("a file")
    result = loop.queue("read_ahead_kb", "300")
    assert (result.outcome, result.detail.code) == (Outcome.REFUSED, "state-not-writable")


def test_after_a_failure_the_rest_is_left_undone(loop: Loop) -> None:
    instructions = [
        loop.instruction("read_ahead_kb", "300"),
        loop.instruction("wbt_lat_usec", "7", "999999"),
        loop.instruction("nr_requests", "32"),
    ]
    results = loop.writer.act(HERE, instructions)
    outcomes = [result.outcome for result in results]
    assert outcomes == [Outcome.DONE, Outcome.CHANGED, Outcome.SKIPPED]
    assert results[2].detail.code == "stopped-before"
    results = loop.writer.act(HERE, instructions[1:], go_on=True)
    assert [result.outcome for result in results] == [Outcome.CHANGED, Outcome.DONE]


def test_trim_tells_what_it_handed_over_and_the_file_beneath_shrinks(loop: Loop) -> None:
    data = loop.mounted.mount_point / "data"
    data.write_bytes(os.urandom(32 * MIB))
    os.sync()
    loop.trim()
    full = loop.mounted.device.backing_file.stat().st_blocks * 512
    data.unlink()
    os.sync()
    result = loop.trim()
    assert result.done, result
    assert result.next_start is None
    assert int(result.found or 0) >= 32 * MIB
    left = loop.mounted.device.backing_file.stat().st_blocks * 512
    assert full - left >= 30 * MIB
    assert int(loop.trim().found or 0) == 0


def test_trim_goes_range_by_range_and_can_be_resumed(loop: Loop) -> None:
    result = loop.trim(range_bytes=64 * MIB)
    assert result.done
    assert [part[:2] for part in result.ranges] == [(n * 64 * MIB, 64 * MIB) for n in range(4)]
    assert int(result.found or 0) == sum(part[2] for part in result.ranges) > 100 * MIB
    later = loop.trim(range_bytes=64 * MIB, start=128 * MIB, end=192 * MIB)
    assert [part[:2] for part in later.ranges] == [(128 * MIB, 64 * MIB)]
    assert loop.trim(start=1 << 50).detail.code == "range-invalid"
    assert loop.trim(range_bytes=0).detail.code == "range-invalid"
    assert loop.trim(start=-1).detail.code == "range-invalid"


def test_two_trims_at_a_time_are_one_too_many(loop: Loop) -> None:
    import fcntl

    assert loop.trim().done
    with (loop.state / "trim.lock").open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        result = loop.trim()
    assert (result.outcome, result.detail.code) == (Outcome.SKIPPED, "trim-under-way")
    assert loop.trim().done


def test_a_device_that_takes_no_discard_says_so(tmp_path: Path) -> None:
    with _writable(tmp_path, size_bytes=64 * MIB, discard=False) as loop:
        result = loop.trim()
    assert (result.outcome, result.detail.code) == (Outcome.REFUSED, "discard-unsupported")


def test_what_nobody_confirms_is_put_back(loop: Loop) -> None:
    device, armed = loop.mounted.device, replace(loop.writer, dead_man_s=1.5)
    before = device.read_queue("read_ahead_kb")
    instruction = loop.instruction("read_ahead_kb", "300", before, id="0123-abcd")
    (result,) = armed.act(HERE, [instruction])
    assert result.done
    assert device.read_queue("read_ahead_kb") == "300"
    eventually(lambda: device.read_queue("read_ahead_kb") == before)
    eventually(lambda: not list(loop.state.glob("*.pending.*")))
    (late,) = armed.act(HERE, [{"do": "confirm", "id": "0123-abcd"}])
    assert (late.outcome, late.detail.code) == (Outcome.SKIPPED, "nothing-pending")


def test_what_is_confirmed_stays_and_what_is_set_anew_is_not_put_back(loop: Loop) -> None:
    # Long enough for the three calls that follow it, on a machine that others use too.
    device, armed = loop.mounted.device, replace(loop.writer, dead_man_s=6.0)
    before = device.read_queue("nr_requests")
    instructions = [
        loop.instruction("read_ahead_kb", "300", id="0123-aaaa"),
        loop.instruction("wbt_lat_usec", "7", id="0123-bbbb"),
        loop.instruction("nr_requests", "32", id="0123-cccc"),
    ]
    assert all(result.done for result in armed.act(HERE, instructions))
    other = replace(loop.writer, token=8)
    (early,) = other.act(HERE, [{"do": "confirm", "id": "0123-aaaa"}])
    assert (early.outcome, early.detail.code) == (Outcome.REFUSED, "fenced")
    fenced = loop.queue("read_ahead_kb", "1")
    assert fenced.detail.code == "fenced"
    (result,) = other.act(HERE, [loop.instruction("wbt_lat_usec", "8", "7")])
    assert result.done
    eventually(lambda: device.read_queue("nr_requests") == before)
    eventually(lambda: not list(loop.state.glob("*.pending.*")))
    assert device.read_queue("wbt_lat_usec") == "8"  # written anew meanwhile: left as it is
    instruction = loop.instruction("nr_requests", "48", id="0123-dddd")
    armed = replace(loop.writer, token=8, dead_man_s=2.0)
    (result, confirmed) = armed.act(HERE, [instruction, {"do": "confirm", "id": "0123-dddd"}])
    assert result.done
    assert confirmed.done
    time.sleep(3)
    assert device.read_queue("nr_requests") == "48"


def test_the_dead_man_outlives_a_writer_that_is_killed(loop: Loop) -> None:
    device = loop.mounted.device
    before = device.read_queue("read_ahead_kb")
    # The second hangs in its precondition, so that the program can be killed in the midst of it.
    hangs: dict[str, Any] = {"do": "set", "row": "lod/qos_maxage", "value": "5", "id": "0123-bbbb"}
    hangs["fields"] = {"fs": "scratch", "mdt": "MDT0000"}
    hangs["place"] = {"service": "scratch-MDT0000"}
    written = loop.instruction("read_ahead_kb", "300", id="0123-aaaa")
    text = loop.program(written, hangs, dead_man_s=2)
    with loop.started() as child:
        stdin, stdout = present(child.stdin), present(child.stdout)
        stdin.write(text.replace(b'"target-not-here"', b"str(machine.sleep(60))"))
        stdin.close()
        lines = [json.loads(stdout.readline()) for _ in range(3)]
        assert [line.get("outcome") for line in lines] == [None, None, "done"]
        assert device.read_queue("read_ahead_kb") == "300"
        child.kill()
        child.wait()
        # Nobody else holds the pipe of the answer: the connection ends at once.
        assert stdout.read() == b""
    eventually(lambda: device.read_queue("read_ahead_kb") == before)


def test_every_write_leaves_a_line_before_and_after(loop: Loop) -> None:
    text = loop.program(loop.instruction("read_ahead_kb", "300", "128"), who="ops@login1")
    # A root of its own: this machine's log is not a test's.
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as place,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log,
    ):
        log.bind(f"{place}/log")
        ran = loop.python(text.replace(b'"/dev/log"', f'"{place}/log"'.encode()))
        log.settimeout(5)
        lines = [log.recv(4096).decode() for _ in range(2)]
    assert (ran.returncode, ran.stderr) == (0, b"")
    path = f"/sys/class/block/{loop.mounted.device.name}/queue/read_ahead_kb"
    assert all(line.startswith("<85>trimtab[") for line in lines)
    assert lines[0].endswith(f"scratch token 7 ops@login1: begun {path} 128 -> 300")
    assert lines[1].endswith(f"scratch token 7 ops@login1: done {path} 128 -> 300")
    assert b'"logged": true' in ran.stdout


def test_it_runs_in_the_oldest_python(loop: Loop) -> None:
    pythons = sorted(Path("~/.pyenv/versions").expanduser().glob("3.6.*/bin/python3"))
    python = shutil.which("python3.6", path="/usr/bin:/usr/local/bin") or (
        str(pythons[0]) if pythons else None
    )
    if python is None:
        pytest.skip("no Python 3.6 is installed")
    own = _python(loop.state.parents[1], python)
    servers = replace(loop.writer.servers, python=own)
    oldest = replace(loop, writer=replace(loop.writer, servers=servers, dead_man_s=1))
    assert oldest.queue("read_ahead_kb", "300", id="0123-aaaa").done
    assert oldest.trim(range_bytes=64 * MIB).done
    eventually(lambda: loop.mounted.device.read_queue("read_ahead_kb") == "128")


def test_half_a_program_or_one_that_nobody_listens_to_does_nothing(loop: Loop) -> None:
    text = loop.program(loop.instruction("read_ahead_kb", "300"))
    with loop.started() as child:
        stdin, stderr = present(child.stdin), present(child.stderr)
        present(child.stdout).close()
        stdin.write(text)
        stdin.close()
        assert stderr.read() == b""
        assert child.wait() == 0
    last = text.rstrip().rindex(b"\n") + 1
    for end in (100, len(text) // 2, last, last + 3, len(text) - 3, len(text) - 30):
        assert loop.python(text[:end]).stdout == b"", end
    assert loop.mounted.device.read_queue("read_ahead_kb") == "128"

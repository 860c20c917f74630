"""obdfilter-survey and the echo clients that it works through, as recorded.

The program of that name keeps its files as the script does, takes a while for each test, hides that
there is no room, and leaves its objects behind when it is ended: it says ``done!`` all the same.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from . import changelog_users
from .state import FakeLustre, FakeTarget, Output

Locked = Callable[[], AbstractContextManager[FakeLustre]]
"""Yields the state while no other program has it."""

_MIB = 2**20
_START_S = 0.2
_FACTORS = {"write": 1.0, "rewrite": 1.02, "read": 1.3}


# -- lctl on echo clients --


def on_device(state: FakeLustre, host: str | None, argv: Sequence[str]) -> Output:
    """Return what ``lctl --device NAME COMMAND ...`` answers for an echo client, MGS or MDT."""
    name, command, rest = argv[0], argv[1] if len(argv) > 1 else "", argv[2:]
    answer = changelog_users.on_mdt(state, host, name, command, rest)
    if answer is not None:
        return answer
    if (name, command, *rest) == ("MGS", "llog_print", "params"):
        return _permanent(state, host)
    server = state.server(host) if host else None
    if server is None or name not in server.echo_clients:
        return _no_device(name)
    target = _target(state, name.removesuffix("_ecc"))
    if command == "destroy" and target is not None and rest:
        return _destroy(target, int(rest[0], 0))
    if command == "cleanup":
        return Output()
    if command == "detach":
        server.echo_clients.remove(name)
        return Output()
    return not_a_command(command)


def not_a_command(command: str) -> Output:
    """Return what lctl says of a command that it has not."""
    words = f"lctl: '{command}' is not a valid command. See 'lctl --list-commands'.\n"
    return Output("", words, 1)


def _no_device(name: str) -> Output:
    """Return what lctl answers for a device that is not here, as in ``discard/16_lctl_errors``."""
    words = "Reader error: 'No devices found' at 0\n"
    return Output(words, f"No device found for name {name}: Invalid argument\n", 1)


def _permanent(state: FakeLustre, host: str | None) -> Output:
    """Return the log of what was set permanently, as in the recordings ``llog-print-*``."""
    if host != state.target("MDT0000").server:
        return _no_device("MGS")
    if not (state.permanent or state.permanent_used):
        words = "params: OBD_IOC_LLOG_PRINT failed: No such file or directory\n"
        return Output("", words, errno.ENOENT)
    rows = enumerate(state.permanent.items(), start=2)
    return Output(
        "".join(
            f"- {{ index: {n}, event: set_param, device: {state.file_system}, "
            f"parameter: {name}, value: {value} }}\n"
            for n, (name, value) in rows
        )
    )


def batch(state: FakeLustre, host: str | None, lines: Sequence[str]) -> Output:
    """Return what ``lctl`` answers to commands on its standard input."""
    attached: str | None = None
    for line in lines:
        words = line.split()
        if words[:2] == ["attach", "echo_client"] and len(words) == 4:
            attached = words[2]
        elif words[:1] == ["setup"] and attached is not None and host is not None:
            target = _target(state, words[1])
            if target is None or target.server != host or not target.up:
                return Output("", "error: setup: No such device\n", 19)
            if attached not in state.server(host).echo_clients:
                state.server(host).echo_clients.append(attached)
    return Output()


def _destroy(target: FakeTarget, number: int) -> Output:
    if number not in target.echo_objects:
        return Output(
            "destroy: 1 objects\n",
            f"error: destroy: objid {number:#x}: No such file or directory\n",
            2,
        )
    share = target.echo_bytes // len(target.echo_objects)
    target.echo_objects.remove(number)
    target.echo_bytes -= share
    target.used_bytes -= share
    return Output(f"destroy: 1 objects\ndestroy: #1 is object id {number:#x}\n")


def _target(state: FakeLustre, name: str) -> FakeTarget | None:
    prefix = f"{state.file_system}-"
    return next((one for one in state.osts if prefix + one.name == name), None)


def _surely(state: FakeLustre, name: str) -> FakeTarget:
    return state.target(name.rpartition("-")[2])


# -- the survey --


class _TerminatedError(Exception):
    """SIGTERM came."""


def survey(locked: Locked, host: str | None, environment: Mapping[str, str]) -> None:
    """Be obdfilter-survey on a server; ``locked`` yields the state while nobody else has it."""
    files = _Files(environment["rslt"])
    print("using LCTL='lctl' lustre_root='' LUSTRE=''", flush=True)
    names = environment["targets"].split()
    with locked() as state:
        found = [_target(state, name) for name in names]
        for name, target in zip(names, found, strict=True):
            if target is None or target.server != host or not target.up:
                print(f"OST {name} not setup", file=sys.stderr)
                print("program exited with error ", flush=True)
                os._exit(2)
        state.server(host or "").echo_clients += [f"{name}_ecc" for name in names]
        seconds = state.survey_s
    signal.signal(signal.SIGTERM, _terminated)
    with suppress(_TerminatedError):
        _measure(locked, files, names, environment, seconds)
    with locked() as state:
        server = state.server(host or "")
        server.echo_clients = [
            one for one in server.echo_clients if one.removesuffix("_ecc") not in names
        ]
    print("done!", flush=True)
    os._exit(0)


def _terminated(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _TerminatedError


class _Files:
    """The summary, which is printed as well, and the detail."""

    def __init__(self, place: str) -> None:
        self._summary, self._detail = Path(f"{place}.summary"), Path(f"{place}.detail")
        self._summary.write_text("")
        self._detail.write_text("")
        Path(f"{place}.vmstat_localhost").write_text("")

    def print(self, text: str) -> None:
        with self._summary.open("a") as file:
            file.write(text)
        sys.stdout.write(text)
        sys.stdout.flush()

    def note(self, *lines: str) -> None:
        with self._detail.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))


def _measure(
    locked: Locked,
    files: _Files,
    names: Sequence[str],
    environment: Mapping[str, str],
    seconds: float,
) -> None:
    size_mib, objects = int(environment["size"]), int(environment["nobjlo"])
    threads, count = int(environment["thrlo"]), len(names)
    files.print("Fri Nov 20 16:13:33 UTC 2026 Obdfilter-survey for case=disk from lustre1\n")
    head = (
        f"ost {count:2d} sz {size_mib * 1024 * count:8d}K rsz 1024K obj {objects * count:4d}"
        f" thr {threads * count:4d} "
    )
    files.note(f"=======================> {head}")
    files.print(head)
    ids: dict[str, list[int]] = {}
    for name in names:
        with locked() as state:
            target = _surely(state, name)
            ids[name] = list(range(target.next_object, target.next_object + objects))
            target.next_object += objects
            target.echo_objects += ids[name]
        files.note(
            f"=============> Create {objects} on localhost:{name}_ecc",
            f"create: {objects} objects",
            *(f"create: #{n + 1} is object id {one:#x}" for n, one in enumerate(ids[name])),
        )
    for test in environment.get("tests_str", "write rewrite read").split():
        files.print(f"{test} ")
        rates: dict[str, float] = {}
        for name in names:
            with locked() as state:
                target = _surely(state, name)
                room = target.available_bytes
                if test == "write":
                    taken = min(size_mib * _MIB, room)
                    target.used_bytes += taken
                    target.echo_bytes += taken
                # What finds no room is over at once: the rate rises, and nothing else shows it.
                full = test == "write" and room < size_mib * _MIB
                rates[name] = target.survey_mib_s * _FACTORS[test] * (2.0 if full else 1.0)
        time.sleep(seconds)
        files.print(_test(files, test, names, rates, (size_mib, threads, objects)))
    files.print("\n")
    for name in names:
        with locked() as state:
            target = _surely(state, name)
            for number in ids[name]:
                _destroy(target, number)
        files.note(
            f"=============> Destroy {objects} on localhost:{name}_ecc",
            f"destroy: {objects} objects",
            *(f"destroy: #{n + 1} is object id {one:#x}" for n, one in enumerate(ids[name])),
        )


def _test(
    files: _Files,
    test: str,
    names: Sequence[str],
    rates: Mapping[str, float],
    sizes: tuple[int, int, int],
) -> str:
    size_mib, threads, objects = sizes
    letter = "r" if test == "read" else "w"
    rows, longest_s = [], 0.0
    for name in names:
        elapsed_s = round(size_mib / rates[name], 6)
        longest_s = max(longest_s, elapsed_s)
        whole = max(0, int(elapsed_s) - 1)
        rate = size_mib / elapsed_s
        files.note(
            f"=============> {test} localhost:{name}_ecc",
            "Print status every 1 seconds",
            f"--threads: starting {threads} threads on device 49 running test_brw"
            f" {size_mib // threads} {letter}x q 256 {threads // objects}t9 p256",
            *(f"{threads}/{threads} Total: {rate:.6f}/second" for _ in range(whole)),
            f"Total: total {size_mib} threads {threads} sec {elapsed_s:.6f} {rate:.6f}/second",
        )
        rows.append((whole, rate if whole else 0.0))
    files.note(
        f"=============> {test} global",
        *(f"{whole} {rate:.6f} {rate:.6f}" for whole, rate in rows),
    )
    figure = size_mib * len(names) / (longest_s + _START_S)
    if not min(whole for whole, _ in rows):
        return f"{figure:7.2f} {'SHORT':>17s} "
    low, high = min(rate for _, rate in rows), max(rate for _, rate in rows)
    return f"{figure:7.2f} [{low:7.2f}, {high:7.2f}] "

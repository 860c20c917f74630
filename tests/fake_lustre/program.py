"""What the installed programs do: answer from the state file, with the faults that meet them."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from . import faults
from .commands import run
from .install import locked, write_tree
from .state import Output

HOST = "FAKE_LUSTRE_HOST"
_WITH_VALUE = "BbcDEeFIiJLlmOopQRSWw"  # options of ssh that take the next word


def main(name: str, directory: str) -> None:
    """Be the program of that name and end with its exit code."""
    place = Path(directory)
    host = os.environ.get(HOST) or None
    if name == "ssh":
        sys.exit(_ssh(place, sys.argv[1:]))
    if name == "sudo":
        words = sys.argv[1:]
        while words and words[0].startswith("-"):
            words.pop(0)
        os.execvp(words[0], words)
    if name == "obdfilter-survey":
        from .surveying import survey

        survey(lambda: locked(place), host, os.environ)
    words = sys.argv[1:]
    if name == "lctl" and not words:
        words = ["--stdin", *sys.stdin.read().splitlines()]
    with locked(place) as state:
        output = run(state, host, (name, *words))
    _end(output)


def _end(output: Output) -> None:
    _print(output.stdout, 1)
    _print(output.stderr, 2)
    if output.hang_s > 0:
        # As a process in the kernel's hands: it takes no notice of being asked to end.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(min(output.hang_s, 86400.0))
    os._exit(output.exit_code)


def _print(text: str, descriptor: int) -> None:
    content = memoryview(text.encode("utf-8", "surrogateescape"))
    while content:
        content = content[os.write(descriptor, content) :]


def _ssh(place: Path, words: list[str]) -> int:
    """Run the command on the server's machine, with the fake's programs."""
    import shlex
    import subprocess  # here, because the other programs start in half the time without

    from .machine import enter

    node, command = _parse(words)
    with locked(place) as state:
        server = state.machine(node)
        if server is None:
            _print(f"ssh: Could not resolve hostname {node}: Name or service not known\r\n", 2)
            return 255
        if server.dead:
            _print(f"ssh: connect to host {node} port 22: No route to host\r\n", 2)
            return 255
        host = server.name
        happening = faults.due(state, host, "ssh")
        root = place / "servers" / host
        write_tree(state, host, root)
        device_numbers = state.version >= (2, 16)
    environment = {**os.environ, HOST: host, "PATH": f"{place / 'bin'}:{os.environ['PATH']}"}
    # ssh hands the words to a shell over there, which takes them apart again.
    argv = shlex.split(" ".join(command))
    for fault in happening:
        if fault.kind == "hang":
            _end(Output(hang_s=fault.seconds))
    content = sys.stdin.buffer.read() if "-" in argv else b""
    with _followed(place, host, writes=content.rstrip().rpartition(b"\n")[2][:4] == b"act(") as log:
        result = subprocess.run(
            argv,
            input=content,
            stdout=subprocess.PIPE,
            env=environment,
            check=False,
            preexec_fn=lambda: enter(str(root), log=log, device_numbers=device_numbers),
        )
    output = Output(result.stdout.decode("utf-8", "surrogateescape"), "", result.returncode)
    with locked(place) as state:
        for fault in happening:
            faults.spoil(state, host, fault, output)
    if any(fault.kind == "die" for fault in happening):
        output.stderr = f"client_loop: send disconnect: Connection to {node} closed.\r\n"
    _end(output)
    return 0


@contextmanager
def _followed(place: Path, host: str, *, writes: bool) -> Iterator[str | None]:
    """Yield a socket for the log of a program that writes, and take what it did into the state."""
    if not writes:
        yield None
        return
    from .acting import take_over, writable  # here: it takes a while, no other program needs it

    before = writable(place / "servers" / host)
    with _listening(place / "servers", f"{host}.log.{os.getpid()}") as (path, lines):
        yield path
    with locked(place) as state:
        take_over(state, host, place / "servers" / host, before)
        state.server(host).log += lines


@contextmanager
def _listening(directory: Path, name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the path of a socket and what was logged through it until the block ended."""
    import socket
    from threading import Thread

    lines: list[str] = []
    over = False

    def listen() -> None:
        while not over:
            with suppress(TimeoutError):
                while True:
                    lines.append(log.recv(4096).decode().partition("]: ")[2])

    descriptor = os.open(directory, os.O_PATH)  # the path of a socket may be short only
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind(f"/proc/self/fd/{descriptor}/{name}")
        log.settimeout(0.02)
        listening = Thread(target=listen)
        listening.start()
        try:
            yield str(directory / name), lines
        finally:
            over = True
            listening.join()
            (directory / name).unlink()


def _parse(words: list[str]) -> tuple[str, list[str]]:
    rest = list(words)
    host = None
    while rest and host is None:
        word = rest.pop(0)
        if word == "--":
            host = rest.pop(0)
        elif word.startswith("-"):
            if len(word) == 2 and word[1] in _WITH_VALUE:
                rest.pop(0)
        else:
            host = word
    if host is None:
        _print("usage: ssh destination command\n", 2)
        os._exit(255)
    return host.rsplit("@", 1)[-1], rest

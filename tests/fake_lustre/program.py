"""What the installed programs do: answer from the state file, with the faults that meet them."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

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
    """Run the command on the server's tree, as its root argument, with the fake's programs."""
    import shlex
    import subprocess  # here, because the other programs start in half the time without

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
    environment = {**os.environ, HOST: host, "PATH": f"{place / 'bin'}:{os.environ['PATH']}"}
    # ssh hands the words to a shell over there, which takes them apart again.
    argv = shlex.split(" ".join(command))
    if "-" in argv and not argv[-1].startswith("/"):
        argv.append(str(root))
    for fault in happening:
        if fault.kind == "hang":
            _end(Output(hang_s=fault.seconds))
    content = sys.stdin.buffer.read() if "-" in argv else b""
    request = _writing(content)
    if request is not None:
        with locked(place) as state:
            from .acting import act  # here: it takes a while, and no other program needs it

            output = act(state, host, request)
            for fault in happening:
                faults.spoil(state, host, fault, output)
        _end(output)
    result = subprocess.run(
        argv, input=content, stdout=subprocess.PIPE, env=environment, check=False
    )
    output = Output(result.stdout.decode("utf-8", "surrogateescape"), "", result.returncode)
    with locked(place) as state:
        for fault in happening:
            faults.spoil(state, host, fault, output)
    if any(fault.kind == "die" for fault in happening):
        output.stderr = f"client_loop: send disconnect: Connection to {node} closed.\r\n"
    _end(output)
    return 0


def _writing(content: bytes) -> dict[str, Any] | None:
    """Return the request of the program that writes; ``None``: it is another program."""
    if not content.rstrip().rsplit(b"\n", 1)[-1].startswith(b"act("):
        return None
    from .answering import request_of

    request = request_of(content)
    return None if request is None else request[1]


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

"""The writing program run in this process, on the state instead of a machine.

What it decides and answers is its own code; this is what it reads, runs and writes. What a file
takes and refuses is as recorded: ``block/wbt_*``, ``mballoc/03``, ``41``, ``discard/14``.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from trimtab.reach.lustre.writer import carry_out, put_back_due
from trimtab.reach.lustre.writer_machine import STATE_DIRECTORY
from trimtab.reach.lustre.writer_order import mounts_of

from . import answers, faults
from .answering import ValueTree
from .commands import run
from .ldiskfs import groups
from .state import FakeLustre, FakeServer, FakeTarget, Output
from .tree import files, links


class Died(BaseException):
    """The server is gone in the midst of it."""


class FakeState:
    """As `writer_machine.State`, in the server's ``kept``."""

    directory = STATE_DIRECTORY

    def __init__(self, server: FakeServer) -> None:
        self.kept = server.kept

    def prepare(self) -> None:
        """Nothing is needed."""

    def load(self, name: str) -> str | None:
        """Return what is kept."""
        return self.kept.get(name)

    def store(self, name: str, text: str) -> None:
        """Keep a text."""
        self.kept[name] = text

    def remove(self, name: str) -> None:
        """Forget it."""
        self.kept.pop(name, None)

    def names(self, beginning: str) -> list[str]:
        """Return the names that begin so."""
        return sorted(name for name in self.kept if name.startswith(beginning))

    @contextmanager
    def locked(self, name: str, wait_s: float) -> Iterator[int]:
        """Nobody else is here."""
        yield 0


class FakeMachine:
    """As `writer_machine.Machine`."""

    def __init__(self, lustre: FakeLustre, host: str | None, sudo: Sequence[str] | None) -> None:
        self.lustre = lustre
        self.host = host
        self.server = lustre.server(host) if host else FakeServer(lustre.client_name)
        self.state = FakeState(self.server)
        self.as_root = self.server.euid == 0
        self.sudo = list(sudo or ()) if not self.as_root else []

    def identity(self) -> dict[str, Any]:
        """Return who this is."""
        return {"host": self.server.name, "euid": self.server.euid, "started": self.lustre.now_s}

    def monotonic(self) -> float:
        """Return simulated time."""
        return self.lustre.now_s

    def boot(self) -> str:
        """Return one and the same start."""
        return self.text("/proc/sys/kernel/random/boot_id", 0.0).strip()

    def hanging(self, program: str) -> int:
        """Nothing has been hanging for minutes."""
        return 0

    @property
    def tree(self) -> ValueTree:
        """The files as they are now."""
        return ValueTree(files(self.lustre, self.host), links(self.lustre, self.host))

    def text(self, path: str, timeout_s: float) -> str:
        """Return the text of a file."""
        return self.tree.text(path)

    def real(self, path: str) -> str:
        """Return where a path leads."""
        return self.tree.real(path)

    def names(self, path: str) -> list[str]:
        """Return the names in a directory."""
        return self.tree.names(path)

    def leads_to(self, mount_point: str, source: str, timeout_s: float) -> list[str | None]:
        """Return mount, number and device as recorded in ``server-mounts``."""
        *_, mount = (one for one in mounts_of(self) if one["point"] == mount_point)
        own = f"/sys/class/block/{source.removeprefix('/dev/')}"
        device = self.text(f"{own}/dev", timeout_s).strip() if source.startswith("/dev/") else None
        since_2_16 = self.lustre.version >= (2, 16)
        seen = device if since_2_16 and mount["type"] == "lustre" and device else mount["number"]
        return [mount["id"], seen, device]

    def run(
        self,
        argv: list[str],
        timeout_s: float,
        *,
        rights: bool = False,
        text: str | None = None,
        lock: object = None,
    ) -> dict[str, Any]:
        """Return how a command ended."""
        refusal = self._refusal(argv) if rights and not self.as_root else None
        output = refusal or run(self.lustre, self.host, argv)
        if refusal is not None:
            answers.check(["sudo"] if self.sudo else argv, refusal.exit_code)
        return self._ended(output, timeout_s)

    def _refusal(self, argv: Sequence[str]) -> Output | None:
        if self.sudo:
            words = "sudo: a password is required\n"
            return None if self.server.sudoers else Output("", words, 1)
        if argv[0] == "fstrim":  # discard/14_fstrim_nobody
            return Output("", f"fstrim: cannot open {argv[-1]}: Permission denied\n", 1)
        if argv[:3] == ["lctl", "set_param", "-P"]:
            return Output("", "error: executing set_param: Permission denied\n", 13)
        if argv[:2] == ["lctl", "set_param"]:
            name, _, value = argv[2].partition("=")
            name = name.replace(".", "/")
            words = f"error: set_param: opening '/sys/fs/lustre/{name}': Permission denied\n"
            words += f"error: set_param: setting '{name}'='{value}': Permission denied\n"
            return Output("", words, 13)
        if argv[3:5] == ["llog_print", "params"]:
            return Output("", "params: OBD_IOC_LLOG_PRINT failed: Permission denied\n", 13)
        if argv[:2] == ["lctl", "--device"]:
            return Output("", f"error: {argv[3]}: Permission denied\n", 13)
        return None

    def _ended(self, output: Output, timeout_s: float) -> dict[str, Any]:
        if self.server.dead:
            raise Died
        timed_out = output.hang_s >= timeout_s
        return {
            "stdout": "" if timed_out else output.stdout,
            "stderr": "" if timed_out else output.stderr,
            "exit_code": None if timed_out else output.exit_code,
            "timed_out": timed_out,
            "error": None,
        }

    def write(self, path: str, value: str, timeout_s: float) -> dict[str, Any]:
        """Write a file."""
        happening = faults.due(self.lustre, self.host, "write")
        output = self._refusal(["tee", path]) if not self.as_root else None
        if output is None and not (self.as_root or self.sudo):
            output = Output("", os.strerror(errno.EACCES), errno.EACCES)
        if output is None:
            output = Output()
            kinds = {fault.kind for fault in happening}
            if "refuse" in kinds:
                output.exit_code = next(f.code for f in happening if f.kind == "refuse")
            elif "swallow" not in kinds:
                output.exit_code = write_file(self.lustre, self.server, self.real(path), value)
                answers.check(["write"], output.exit_code)
            output.stderr = os.strerror(output.exit_code) if output.exit_code else ""
        for fault in happening:
            faults.spoil(self.lustre, self.host, fault, output)
        return self._ended(output, timeout_s)

    def log(self, text: str) -> bool:
        """Keep a line."""
        self.server.log.append(text)
        return True

    def detach(self, work: Callable[..., None], lasts_s: float) -> int:
        """Nobody is needed: `put_back` looks after it as time passes."""
        return 0

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.lustre.now_s += seconds


def act(lustre: FakeLustre, host: str | None, request: dict[str, Any]) -> Output:
    """Return what the writing program answers on a server."""
    lines: list[str] = []
    machine = FakeMachine(lustre, host, request.get("sudo"))
    try:
        carry_out(request, machine, lambda line: lines.append(json.dumps(line) + "\n"))
    except Died:
        gone = f"client_loop: send disconnect: Connection to {host} closed.\r\n"
        return Output("".join(lines), gone, 255)
    return Output("".join(lines))


def put_back(lustre: FakeLustre, host: str) -> None:
    """Let a server put back what is due and was not confirmed."""
    put_back_due(FakeMachine(lustre, host, ["sudo", "-n"]), lustre.file_system)


# -- an installed server --


def writable(root: Path) -> dict[str, str]:
    """Return path to text of what the writing program may write in an installed server's files."""
    places = [*root.glob("sys/devices/**/queue/*"), *root.glob("*/fs/ldiskfs/*/*")]
    return {f"/{place.relative_to(root)}": place.read_text() for place in places}


def take_over(lustre: FakeLustre, host: str, root: Path, before: dict[str, str]) -> None:
    """Take what the writing program did on an installed server into the state.

    What a file refuses cannot be told afterwards: the double in this process has that.
    """
    server = lustre.server(host)
    for path, text in writable(root).items():
        if text != before.get(path) and write_file(lustre, server, path, text.rstrip("\n")):
            raise AssertionError(f"a kernel would have refused {text!r} of {path}")
    kept = root / STATE_DIRECTORY.lstrip("/")
    server.kept = {
        place.name: place.read_text() for place in kept.iterdir() if place.suffix != ".lock"
    }


# -- what files take --


def write_file(lustre: FakeLustre, server: FakeServer, path: str, value: str) -> int:
    """Write a file as far as the kernel would; returns 0 or the number of the error."""
    before = files(lustre, server.name).get(path)
    directory, name = path.rsplit("/", 1)
    if before is None:
        return errno.ENOENT
    own = lustre.served_by(server.name)
    target = next((one for one in own if directory.endswith(f"/{one.device}")), None)
    if directory.endswith("/queue"):
        text = _of_queue(name, before, value, own)
    elif path.startswith("/proc/fs/ldiskfs/") and target is not None:
        text = _of_statistics(target, name, before, value)
    elif path.startswith("/sys/fs/ldiskfs/"):
        limit = 100 if name.endswith("_threshold") and name.startswith("mb_c") else 2**31
        fits = value.isdigit() and int(value) <= limit
        text = f"{value}\n" if fits else errno.EINVAL
    else:
        text = errno.EACCES
    if isinstance(text, int):
        return text
    if name != "mb_last_group":  # the target's own, which moves
        server.files[path] = text
    return 0


def _of_queue(name: str, before: str, value: str, own: Sequence[FakeTarget]) -> str | int:
    if name == "scheduler":
        known = before.replace("[", "").replace("]", "").split()
        if value not in known:
            return errno.EINVAL
        return " ".join(f"[{word}]" if word == value else word for word in known) + "\n"
    if not re.fullmatch("-?[0-9]+", value) or int(value) < -1:
        return errno.EINVAL
    if name == "wbt_lat_usec" and value == "-1":
        return "2000\n"
    if name == "nr_requests" and int(value) > 1023:
        return errno.EINVAL
    return f"{value}\n" if int(value) >= 0 else errno.EINVAL


def _of_statistics(target: FakeTarget, name: str, before: str, value: str) -> str | int:
    if name == "mb_last_group":
        if not value.isdigit():
            return errno.EINVAL
        if int(value) >= groups(target)[0]:
            return errno.ERANGE
        target.mb_last_group = int(value)
        return f"{value}\n"
    if name == "prealloc_table":
        numbers = [int(word) if word.isdigit() else 0 for word in value.split()]
        if 0 in numbers or not numbers:
            return "\n"  # it is emptied, with exit code 0
        rising = all(a < b for a, b in pairwise(numbers))
        return f"{value} \n" if rising else errno.EINVAL
    return errno.EIO

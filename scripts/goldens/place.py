"""Where goldens are made: places, host name, environment and clock that are the same on every host.

`enter` starts the program again with mounts and a host name of its own, so that paths need not be
normalised: everything is made beneath `PLACE`. Commands are forked (`tests.support.forked`), with a
clock that stands still (``clock.c``): no code can know of it.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from scripts.goldens.facts import normal

ROOT: Final = Path(__file__).resolve().parents[2]
PLACE: Final = Path("/mnt")
"""Every host has it; what is mounted there is hidden from this process alone."""
NOW: Final = datetime(2030, 1, 16, 12, tzinfo=UTC)
"""Later than any file here was made: no recorded time may lie ahead."""
PERSON: Final = 1
"""Whose login this is: an account of every host."""
_INSIDE: Final = "GOLDENS_BEGAN"


def enter() -> None:
    """Return inside the place; outside of it start this program again, within."""
    if _INSIDE in os.environ:
        _furnish()
        return
    if os.geteuid() != 0:
        sys.exit("error: goldens are made as root: a purge has owners, a Lustre has mounts")
    with tempfile.TemporaryDirectory() as directory:
        clock = Path(directory) / "clock.so"
        source = Path(__file__).with_name("clock.c")
        words = ["cc", "-O2", "-shared", "-fPIC", "-o", str(clock), str(source), "-ldl"]
        subprocess.run(words, check=True)
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "PYTHONHASHSEED": "0",
            "OPENBLAS_NUM_THREADS": "1",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "HOME": str(PLACE / "home"),
            "COLUMNS": "100",
            "LD_PRELOAD": str(clock),
            "GOLDENS_CLOCK": str(int(NOW.timestamp())),
            "SUDO_UID": str(PERSON),
            _INSIDE: str(int(time.time())),
        }
        words = ["unshare", "--mount", "--uts", sys.executable, "-m", "scripts.goldens"]
        ended = subprocess.run([*words, *sys.argv[1:]], env=environment, cwd=ROOT, check=False)
    sys.exit(ended.returncode)


def _furnish() -> None:
    # What happens at one moment here is sorted by its random bits: in the order made.
    made = itertools.count(1)
    secrets.randbits = lambda k: next(made)
    # Commands that have one processor start no processes to share their work with.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with contextlib.suppress(OSError):  # it is not kept everywhere: $SUDO_UID says the same
        Path("/proc/self/loginuid").write_text(str(PERSON))
    socket.sethostname("golden")
    mount(PLACE, size="1g")
    for name in ("home", "tmp", "fixtures"):
        (PLACE / name).mkdir()
    tempfile.tempdir = os.environ["TMPDIR"] = str(PLACE / "tmp")
    fixtures = ROOT / "tests" / "fixtures"
    subprocess.run(["mount", "--bind", str(fixtures), str(PLACE / "fixtures")], check=True)


def mount(place: Path, *, size: str) -> None:
    """Mount an empty file system of that size."""
    place.mkdir(exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "golden", str(place)]
    subprocess.run(words, check=True)


def fresh(name: str) -> Path:
    """Return a new directory of that name, and be in it."""
    directory = PLACE / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    os.chdir(directory)
    return directory


def trimtab(
    *words: object, at: datetime = NOW, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return how ``trimtab ... --json`` ended at that time: its exit code and its document."""
    from tests.support.forked import fork

    variables = {"GOLDENS_CLOCK": str(int(at.timestamp())), **(environment or {})}
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        process = fork(
            *words, "--json", stdout=stdout.fileno(), stderr=stderr.fileno(), environment=variables
        )
        code = process.wait()
        printed, problems = (_content(stream.fileno()) for stream in (stdout, stderr))
    return _answer(words, code, printed, problems)


def trimtab_here(*words: str) -> dict[str, Any]:
    """Return how ``trimtab ... --json`` ended in this process, on what stands in its drivers."""
    from trimtab.cli import main

    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2)]
    code = None
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        try:
            main([*words, "--json"])
        except SystemExit as end:
            code = end.code
    for stream in streams:
        stream.seek(0)
    return _answer(words, code, *(stream.read() for stream in streams))


def _answer(words: Sequence[object], code: Any, printed: str, problems: str) -> dict[str, Any]:
    command = " ".join(map(str, words))
    if "Traceback" in problems or not printed:
        sys.exit(f"trimtab {command}: exit code {code}\n{problems}")
    return {"command": command, "exit": code, "document": json.loads(printed)}


def answers(
    commands: Mapping[str, str], *, store: str, at: datetime = NOW, **environment: str
) -> Iterator[tuple[str, Any]]:
    """Yield what commands answer, one after the other, as goldens of their names.

    Parameters
    ----------
    store
        The one of all commands that do not name one.
    """
    variables = {"TRIMTAB_STORE": f"sqlite:///{Path.cwd() / store}", **environment}
    for name, words in commands.items():
        yield name, normal(trimtab(*shlex.split(words), at=at, environment=variables))


def _content(descriptor: int) -> str:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode()

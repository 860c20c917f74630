"""Tiers of tests, chosen with ``-m``; every test has exactly one.

============= ====================================================================================
tier          what its tests do
============= ====================================================================================
unit          run in this process with files of their own, and soon end; no socket, no device
cli           run the installed commands
system        need other processes, the kernel, Slurm, PostgreSQL, hangs, kills, large inputs
calibration   compute for long: how often verdicts are wrong over many simulated series, simulations
              against slow twins, outputs cut at every line
soak          the same with long counts: ``make soak``, which tries more of each property too
============= ====================================================================================

``make live`` is beside them: it needs a Lustre, and pytest knows nothing of it (``tests/live``).

A test belongs to the tier of the nearest mark (test, class, file), else to that of its directory.
A set of parameters marked ``soak`` is ``soak`` whatever the test around it is.
"""

from __future__ import annotations

import multiprocessing.util
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

TIERS: Final = ("unit", "cli", "system", "calibration", "soak")
DIRECTORIES: Final = {"tests/cli": "cli", "tests/calibration": "calibration"}
"""The tier of the tests of a directory, where it is not ``unit``."""

_MARKS_OF_FILE: Final = re.compile(r"^pytestmark = (?:\[\n.*?^\]|.*?$)", re.DOTALL | re.MULTILINE)
_OTHER_TIER: Final = re.compile(r"\bmark\.(cli|system|calibration|soak)\b")
_PROCESSES_AND_SOCKETS: Final = {
    "multiprocessing.spawn",
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "socket.bind",
    "socket.connect",
    "subprocess.Popen",
}
_DEVICES: Final = ("/dev/fuse", "/dev/loop-control")


@cache
def holds_units(file: Path) -> bool:
    """Return whether a test file may have tests of the tier ``unit``, by its text alone."""
    text = file.read_text()
    if "mark.unit" in text:
        return True
    if any(f"/{name}/" in file.as_posix() for name in DIRECTORIES):
        return False
    marks = _MARKS_OF_FILE.search(text)
    return marks is None or _OTHER_TIER.search(marks.group()) is None


def is_chosen(file: Path, config: pytest.Config) -> bool:
    """Return whether ``-m`` may choose tests of a file: for ``unit`` many need no look."""
    return config.option.markexpr != "unit" or holds_units(file)


def tier_of(item: pytest.Item) -> str:
    """Return the tier of a test.

    Raises
    ------
    pytest.UsageError
        A test, class or file has marks of two tiers.
    """
    for node in reversed(item.listchain()):
        marks = {mark.name for mark in node.own_markers} & set(TIERS)
        if "soak" in marks:
            return "soak"
        if len(marks) > 1:
            raise pytest.UsageError(f"{node.nodeid} has marks of two tiers: {sorted(marks)}")
        if marks:
            return marks.pop()
    directories = [name for name in DIRECTORIES if item.nodeid.startswith(f"{name}/")]
    return DIRECTORIES[max(directories, key=len)] if directories else "unit"


def give_tiers(items: list[pytest.Item]) -> None:
    """Give every test the mark of its tier, and no other tier's, so that ``-m`` can choose.

    Raises
    ------
    pytest.UsageError
        ``-m unit`` would pass over a test of that tier: `holds_units` does not see it.
    """
    tiers = [tier_of(item) for item in items]
    for item, tier in zip(items, tiers, strict=True):
        if tier == "unit" and item.path.name.startswith("test_") and not holds_units(item.path):
            raise pytest.UsageError(f"{item.nodeid} is of the tier unit, its file of another")
    for item in items:
        for node in item.listchain():
            node.own_markers[:] = [mark for mark in node.own_markers if mark.name not in TIERS]
    for item, tier in zip(items, tiers, strict=True):
        item.add_marker(tier)


def slow_files_first(items: list[pytest.Item]) -> None:
    """Put files whose tests wait or compute for long before those of the tier ``unit``.

    Processes that share the tests take whole files in this order: a long one that came last would
    run alone.
    """
    slow = {item.path for item in items if item.get_closest_marker("unit") is None}
    items.sort(key=lambda item: item.path not in slow)


class UnitGuard:
    """Fails a test of the tier ``unit`` that reaches outside its process.

    An audit hook cannot be removed: one stays for the whole run, and does nothing outside such a
    test. Teardown is not guarded: the last test of a run also ends the servers of the session.
    """

    def __init__(self) -> None:
        self._guarded = False
        self._reached: list[str] = []
        _audit_spawned_workers()
        sys.addaudithook(self._hook)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Any:
        """Guard the fixtures of a test."""
        self._reached.clear()
        with self._guard(item):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        """Guard a test; it also fails where its own error handling swallowed the failure."""
        with self._guard(item):
            result = yield
        if self._reached:
            pytest.fail(self._reached[0], pytrace=False)
        return result

    @contextmanager
    def _guard(self, item: pytest.Item) -> Iterator[None]:
        self._guarded = item.get_closest_marker("unit") is not None
        try:
            yield
        finally:
            self._guarded = False

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._guarded or not _reaches_outside(event, arguments):
            return
        reached = f"a test of the tier unit reached outside its process ({event} {arguments[:1]})"
        self._reached.append(f"{reached}: take that out, or mark the test cli or system")
        pytest.fail(self._reached[-1])


def _reaches_outside(event: str, arguments: tuple[Any, ...]) -> bool:
    if event == "open":
        return arguments[0] in _DEVICES
    return event in _PROCESSES_AND_SOCKETS


def _audit_spawned_workers() -> None:
    """Raise an audit event for the processes of `multiprocessing`, which raise none themselves."""
    spawn = multiprocessing.util.spawnv_passfds

    def audited(path: bytes, args: Any, passfds: Any) -> int:
        sys.audit("multiprocessing.spawn", path)
        return spawn(path, args, passfds)

    multiprocessing.util.spawnv_passfds = audited

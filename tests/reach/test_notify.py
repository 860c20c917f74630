"""What systemd is told, over a real datagram socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from trimtab.watch.service import Notifier, from_environment


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    """Yield the socket that systemd would listen on."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        yield listening


def _received(listener: socket.socket) -> list[str]:
    found = []
    while True:
        try:
            found.append(listener.recv(4096).decode())
        except BlockingIOError:
            return found


@pytest.mark.system
def test_systemd_is_told(listener: socket.socket) -> None:
    notify = Notifier(listener.getsockname())
    notify.ready()
    notify.status("probing:\nhourly \udcff")
    notify.alive()  # nobody asked for it
    notify.stopping()
    assert _received(listener) == ["READY=1", "STATUS=probing: hourly ?", "STOPPING=1"]


@pytest.mark.system
def test_an_abstract_name_is_understood() -> None:
    name = f"trimtab-test-{os.getpid()}"
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listening:
        listening.bind(f"\0{name}")
        Notifier(f"@{name}").ready()
        assert listening.recv(100) == b"READY=1"


@pytest.mark.system
def test_signs_of_life_are_sent_twice_as_often_as_asked_and_not_more(
    listener: socket.socket,
) -> None:
    now_s = 0.0
    notify = Notifier(listener.getsockname(), watchdog_s=60.0, monotonic_s=lambda: now_s)
    assert notify.alive_every_s == 30.0
    for second in range(121):
        now_s = float(second)
        notify.alive()
    assert _received(listener) == ["WATCHDOG=1"] * 9  # every 15 s: half of a half


def test_nobody_there_is_no_error(tmp_path: Path) -> None:
    Notifier(str(tmp_path / "gone"), watchdog_s=1.0).alive()
    Notifier(None, watchdog_s=1.0).alive()
    Notifier("/" + "x" * 300).ready()


@pytest.mark.system
def test_a_full_socket_does_not_hold_us_up(listener: socket.socket) -> None:
    notify = Notifier(listener.getsockname())
    for _ in range(2000):
        notify.ready()
    assert 0 < len(_received(listener)) < 2000


@pytest.mark.parametrize(
    ("given", "address", "watchdog_s"),
    [
        ({}, None, None),
        ({"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "30000000"}, "/run/n", 30.0),
        ({"NOTIFY_SOCKET": "@n"}, "@n", None),
        ({"NOTIFY_SOCKET": "relative"}, None, None),
        ({"NOTIFY_SOCKET": ""}, None, None),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None, None),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, None, 30.0),
        ({"WATCHDOG_USEC": "-5"}, None, None),
        ({"WATCHDOG_USEC": "0"}, None, None),
    ],
)
def test_the_environment_says_who_listens(
    given: dict[str, str], address: str | None, watchdog_s: float | None
) -> None:
    notify = from_environment(given)
    assert (notify.address, notify.watchdog_s) == (address, watchdog_s)

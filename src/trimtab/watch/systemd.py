"""Reports a service's state to systemd: ready, alive, current work, stopping (sd_notify(3))."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

_STATUS_MAX = 200


@dataclass(slots=True)
class Notifier:
    """Sends a service's state to systemd; does nothing if systemd does not expect it.

    A message that cannot be delivered is dropped: the watchdog will notice, and measuring must
    continue.

    Attributes
    ----------
    address
        Address of the datagram socket: a path, or a name that starts with ``@``; ``None``: do not
        send.
    watchdog_s
        How long systemd waits for a sign of life before it restarts the service; ``None``: no
        watchdog.
    monotonic_s
        Returns seconds that never go back.
    """

    address: str | None = None
    watchdog_s: float | None = None
    monotonic_s: Callable[[], float] = time.monotonic
    _last_s: float | None = field(default=None, init=False)

    def ready(self) -> None:
        """Report that startup is complete (``Type=notify`` waits for it)."""
        self._send("READY=1")

    def stopping(self) -> None:
        """Report that shutdown has started."""
        self._send("STOPPING=1")

    def status(self, text: str) -> None:
        """Report the current work in one line, for ``systemctl status``."""
        line = " ".join(text.split())[:_STATUS_MAX]
        self._send(f"STATUS={line}")

    def alive(self) -> None:
        """Give a sign of life; may be called at any frequency, only some are sent."""
        now_s = self.monotonic_s()
        every_s = self.alive_every_s
        if every_s is None or (self._last_s is not None and now_s - self._last_s < every_s / 2):
            return
        self._last_s = now_s
        self._send("WATCHDOG=1")

    @property
    def alive_every_s(self) -> float | None:
        """Minimum interval for `alive`: half of systemd's limit."""
        return None if self.watchdog_s is None else self.watchdog_s / 2

    def _send(self, message: str) -> None:
        if self.address is None:
            return
        where = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
        ):
            sender.setblocking(False)
            sender.sendto(message.encode("utf-8", "replace"), where)


def from_environment(environment: Mapping[str, str] | None = None) -> Notifier:
    """Return the notifier for systemd's variables; a silent one without them.

    If ``WATCHDOG_PID`` names another process, the variables were inherited and are not for us
    (sd_watchdog_enabled(3)).
    """
    variables = os.environ if environment is None else environment
    address = variables.get("NOTIFY_SOCKET") or None
    if address is not None and address[0] not in "@/":
        address = None
    microseconds = variables.get("WATCHDOG_USEC", "")
    ours = variables.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    number = int(microseconds) if microseconds.isascii() and microseconds.isdecimal() else 0
    return Notifier(address, number / 1e6 if ours and number > 0 else None)

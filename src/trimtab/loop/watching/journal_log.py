"""The watch's log as fields of systemd's journal, by its native protocol.

https://systemd.io/JOURNAL_NATIVE_PROTOCOL/: a datagram of ``NAME=value`` lines; a value with a line
feed has its length in front. `journalctl TRIMTAB_SITE=scratch TRIMTAB_ITEM=snapshot` finds them.
"""

from __future__ import annotations

import logging
import re
import socket
import struct
import sys
from typing import Final

from trimtab.visible import visible

SOCKET = "/run/systemd/journal/socket"
IDENTIFIER: Final = "trimtab"
_MOST: Final = 60_000
"""A datagram of 208 KiB still passes (net.core.wmem_default); a trace is cut long before."""
_PRIORITIES: Final = (
    (logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6),
)  # fmt: skip


class JournalHandler(logging.Handler):
    """Sends each record to the journal; where there is none, a line goes to stderr instead."""

    def __init__(self, *, site: str | None = None, address: str | None = None) -> None:
        super().__init__()
        self._site, self._address = site, address or SOCKET
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record."""
        values = {
            "MESSAGE": visible(record.getMessage()),
            "PRIORITY": str(next((of for at, of in _PRIORITIES if record.levelno >= at), 7)),
            "SYSLOG_IDENTIFIER": IDENTIFIER,
        }
        if self._site is not None:
            values["TRIMTAB_SITE"] = self._site
        for name, value in getattr(record, "fields", {}).items():
            values[f"TRIMTAB_{re.sub('[^A-Z0-9]', '_', name.upper())}"[:64]] = str(value)
        if record.exc_info:
            trace = logging.Formatter().formatException(record.exc_info)
            values["TRIMTAB_ERROR"] = trace
        datagram = b"".join(_field(name, value) for name, value in values.items())
        try:
            self._socket.sendto(datagram, self._address)
        except OSError:
            sys.stderr.write(f"{values['MESSAGE']} (the journal does not listen)\n")

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
        super().close()


def _field(name: str, value: str) -> bytes:
    data = value.encode("utf-8", "backslashreplace")[:_MOST]
    if b"\n" not in data:
        return name.encode() + b"=" + data + b"\n"
    return name.encode() + b"\n" + struct.pack("<Q", len(data)) + data + b"\n"

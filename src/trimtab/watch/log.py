"""The watch's log on stderr: one JSON object a line for machines, a line of text for people.

Or fields of systemd's journal (https://systemd.io/JOURNAL_NATIVE_PROTOCOL/): a datagram of
``NAME=value`` lines; a value with a line feed has its length in front.
`journalctl TRIMTAB_SITE=scratch TRIMTAB_ITEM=snapshot` finds them.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import struct
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TextIO

from trimtab.base.visible import visible

NAME = "trimtab.watch"


def configured(
    stream: TextIO | None = None,
    *,
    level: int | str = logging.INFO,
    clock: Callable[[], datetime] | None = None,
    form: str | None = None,
    site: str | None = None,
) -> logging.Logger:
    """Return the watch's logger, writing to stderr: text on a terminal, else JSON.

    Called again it replaces what it had set up.

    Parameters
    ----------
    clock
        Says when each line was; ``None``: the host's.
    form
        ``text``, ``json`` or ``journal``; ``None``: as the stream is.
    site
        For the field ``TRIMTAB_SITE`` of the journal.
    """
    where = sys.stderr if stream is None else stream
    if form == "journal":
        handler: logging.Handler = JournalHandler(site=site)
    else:
        handler = logging.StreamHandler(where)
        is_text = where.isatty() if form is None else form == "text"
        handler.setFormatter(TextLine() if is_text else JsonLine())
    if clock is not None:
        handler.addFilter(partial(_at, clock))
    log = logging.getLogger(NAME)
    log.handlers[:] = [handler]
    log.setLevel(level.upper() if isinstance(level, str) else level)
    log.propagate = False
    return log


def fields(**values: object) -> dict[str, dict[str, object]]:
    """Return what a message carries besides its text, for ``extra``."""
    return {"fields": values}


class JsonLine(logging.Formatter):
    """A record as one line of ASCII JSON: ``at``, ``level``, ``message`` and its fields.

    A field of one of these names becomes ``field_at``: when a line was is never another time.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; what JSON has no word for stands as text."""
        values: dict[str, Any] = {
            "at": _time(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        for name, value in getattr(record, "fields", {}).items():
            values[f"field_{name}" if name in values else name] = value
        if record.exc_info:
            values["error"] = self.formatException(record.exc_info)
        return json.dumps(values, default=str)


class TextLine(logging.Formatter):
    """A record as a person reads it: time, level where it matters, message, fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; terminal signs in names are shown, not obeyed."""
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        words = [f"{_time(record):%Y-%m-%d %H:%M:%S} {level}{record.getMessage()}"]
        words += [f"{name}={value}" for name, value in getattr(record, "fields", {}).items()]
        line = visible(" ".join(words))
        if not record.exc_info:
            return line
        traced = self.formatException(record.exc_info).splitlines()
        return "\n".join((line, *map(visible, traced)))


def _at(clock: Callable[[], datetime], record: logging.LogRecord) -> bool:
    """Let a record be of the time that a clock shows."""
    record.created = clock().timestamp()
    return True


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


# The fields of systemd's journal

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

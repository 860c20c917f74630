"""The watch as a service: its log on stderr, its state for systemd, and the files that install it.

The log is one JSON object a line for machines, a line of text for people, or fields of systemd's
journal (https://systemd.io/JOURNAL_NATIVE_PROTOCOL/): a datagram of ``NAME=value`` lines; a value
with a line feed has its length in front. `journalctl TRIMTAB_SITE=scratch TRIMTAB_ITEM=snapshot`
finds them. The state is ready, alive, current work, or stopping (sd_notify(3)). The files are:

- ``/etc/trimtab/sites/NAME.toml``: the site file;
- ``/etc/systemd/system/trimtab-watch@.service``: the unit of every site, unless a package has
  installed the same one;
- ``/etc/systemd/system/trimtab-watch@NAME.service.d/site.conf``: the program, the site's mount.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TextIO

from trimtab.base.error import RefusedError, UnreadableError, system_errors, visible
from trimtab.base.site import Site
from trimtab.base.trusted_file import written_beside

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
        Clock for the time of each line; ``None``: the host's.
    form
        ``text``, ``json`` or ``journal``; ``None``: by the stream.
    site
        Value of the field ``TRIMTAB_SITE`` of the journal.
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
    """Return the fields of a message besides its text, for ``extra``."""
    return {"fields": values}


class JsonLine(logging.Formatter):
    """A record as one line of ASCII JSON: ``at``, ``level``, ``message`` and its fields.

    A field of one of these names becomes ``field_at``: when a line was is never another time.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; values without a JSON type become text."""
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
    """A record as readable text: time, level where it matters, message, fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; control characters in names are shown, not obeyed."""
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        words = [f"{_time(record):%Y-%m-%d %H:%M:%S} {level}{record.getMessage()}"]
        words += [f"{name}={value}" for name, value in getattr(record, "fields", {}).items()]
        line = visible(" ".join(words))
        if not record.exc_info:
            return line
        traced = self.formatException(record.exc_info).splitlines()
        return "\n".join((line, *map(visible, traced)))


def _at(clock: Callable[[], datetime], record: logging.LogRecord) -> bool:
    """Set the time of a record to that of a clock."""
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
    """Sends each record to the journal; without a journal, a line goes to stderr instead."""

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


# The state for systemd

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
        Returns the seconds of a monotonic clock.
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


# The files of a watched site

UNIT: Final = "trimtab-watch@.service"
_SITES: Final = Path("etc/trimtab/sites")
_UNITS: Final = Path("etc/systemd/system")
_PACKAGED: Final = Path("usr/lib/systemd/system")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_LARGEST_BYTES: Final = 1 << 20


class FileState(StrEnum):
    """State of an installed file."""

    ABSENT = "absent"
    SAME = "same"
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class InstalledFile:
    """One file to put in place, mode 0644.

    Attributes
    ----------
    path
        Absolute.
    state
        State of the file in its place.
    """

    path: str
    text: str
    state: FileState


@dataclass(frozen=True, slots=True)
class InstallDocument:
    """``trimtab init PATH --install --yes --json``.

    Attributes
    ----------
    written
        Installed files, without those that were already there.
    next
        Commands that start the watch.
    """

    site: str
    written: tuple[str, ...]
    next: tuple[str, ...]


def unit_text() -> str:
    """Return the systemd unit."""
    return files("trimtab.watch").joinpath(UNIT).read_text(encoding="utf-8")


def files_of(
    site: Site, text: str, *, root: Path = Path("/"), program: str | None = None
) -> tuple[InstalledFile, ...]:
    """Return the files that make a site watched, with the present state of each.

    Parameters
    ----------
    text
        Text of the site file.
    root
        Root of the tree that they are put into.
    program
        Absolute path of the command; ``None``: the running one.

    Raises
    ------
    UnreadableError
        A place cannot be read.
    """
    wanted = {root / _SITES / f"{site.name}.toml": text}
    if _state(root / _PACKAGED / UNIT, unit_text()) is not FileState.SAME:
        wanted[root / _UNITS / UNIT] = unit_text()
    drop_in = root / _UNITS / f"trimtab-watch@{site.name}.service.d" / "site.conf"
    wanted[drop_in] = _drop_in(site, program or _this_program())
    return tuple(
        InstalledFile(str(path), content, _state(path, content)) for path, content in wanted.items()
    )


def install(planned: Sequence[InstalledFile], *, replace: bool = False) -> tuple[str, ...]:
    """Write the files that are not in place yet, and return their paths.

    Parameters
    ----------
    replace
        Whether to overwrite files that differ; otherwise nothing is written if one does.

    Raises
    ------
    RefusedError
        A file differs.
    UnreadableError
        A file cannot be written; those before it are in place.
    """
    different = [file.path for file in planned if file.state is FileState.DIFFERS]
    if different and not replace:
        raise RefusedError(
            f"there is another {visible(different[0])}",
            code="file-differs",
            hint="compare the two; --replace writes over it",
        )
    written = []
    for file in planned:
        if file.state is FileState.SAME:
            continue
        path = Path(file.path)
        with system_errors(f"cannot write {visible(file.path)}", code="file-unwritable"):
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            with written_beside(path, file.text.encode("utf-8"), 0o644) as partial:
                partial.replace(path)
        written.append(file.path)
    return tuple(written)


def commands(site: Site) -> tuple[str, ...]:
    """Return the commands that start the watch once the files are in place."""
    return (
        f"trimtab site {site.name} --validate",
        "systemctl daemon-reload",
        f"systemctl enable --now trimtab-watch@{site.name}",
        f"trimtab watch {site.name} --status",
    )


def _state(path: Path, text: str) -> FileState:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_BYTES)
    except FileNotFoundError:
        return FileState.ABSENT
    except OSError as error:
        raise UnreadableError(
            f"cannot read {visible(str(path))}: {error.strerror}", code="file-unreadable"
        ) from error
    return FileState.SAME if content == text.encode() else FileState.DIFFERS


def _this_program() -> str:
    """Return the running command, as an absolute path that stays valid."""
    beside = Path(sys.executable).with_name("trimtab")
    return str(beside) if beside.exists() else shutil.which("trimtab") or "/usr/bin/trimtab"


def _drop_in(site: Site, program: str) -> str:
    """Return the settings particular to one site on this host."""
    writable = [site.path]
    if site.policies.purge.directory is not None:
        writable.append(site.policies.purge.directory)
    lines = [
        f"# Of the site {site.name}, written by trimtab init PATH --install.",
        "[Service]",
        "ExecStart=",
        f"ExecStart={_quoted(program.replace('$', '$$'))} watch %i",
        "# Where probes write. The leading - lets the watch start while it is not mounted.",
        *(f"ReadWritePaths={_quoted('-' + path)}" for path in writable),
        "",
    ]
    return "\n".join(lines)


def _quoted(word: str) -> str:
    """Return a word quoted for systemd.syntax(7): quotes, specifiers, control characters."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    escaped = _CONTROL.sub(lambda sign: f"\\x{ord(sign[0]):02x}", escaped)
    return f'"{escaped}"' if escaped != word or " " in word else word

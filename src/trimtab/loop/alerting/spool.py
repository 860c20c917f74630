"""Alerts that wait for a receiver, a file each, so that they outlive the process and the store.

``DIRECTORY/RECEIVER/MICROSECONDS-ID.json``: written whole or not at all, in the order in which they
were decided. Where nothing can be written they wait in memory instead: a full disk is a reason to
alert, not to be silent.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, Final

from trimtab.model.alert import Alert, Phase
from trimtab.model.finding import Severity
from trimtab.model.site import Site
from trimtab.record.location import Location

MOST: Final = 500
"""Alerts that wait for one receiver; of more the oldest that are not critical are dropped."""


def spool_directory(site: Site, location: Location) -> Path:
    """Return where alerts of a site wait: as its file says, else beside the store."""
    base = location.raw.parent / "alerts" if site.alerts.spool is None else Path(site.alerts.spool)
    return base / site.name


class Spool:
    """Alerts that wait, by receiver. Safe to use from several threads."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._memory: dict[str, dict[str, Alert]] = {}
        self._lock = threading.Lock()
        self._waiting: dict[str, dict[str, Alert]] = {}

    def waiting(self, receiver: str) -> list[Alert]:
        """Return the alerts that wait for a receiver, the oldest first.

        A file that cannot be read is set aside as ``NAME.bad``.
        """
        with self._lock:
            return sorted(self._read(receiver).values(), key=lambda alert: (alert.at, alert.id))

    def put(self, receiver: str, alert: Alert) -> str | None:
        """Let an alert wait; again changes nothing.

        Returns
        -------
        str | None
            Why it waits in memory alone; ``None``: it is on stable storage.
        """
        with self._lock:
            self._read(receiver)[alert.id] = alert
            try:
                self._write(self._file(receiver, alert), alert)
            except OSError as error:
                return error.strerror or str(error)
        return None

    def remove(self, receiver: str, alert: Alert) -> None:
        """Let go of an alert that waited; one that does not wait is no error."""
        with self._lock:
            self._read(receiver).pop(alert.id, None)
            # Where it stays, the ledger says that it was delivered: it is not sent again.
            with contextlib.suppress(OSError):
                self._file(receiver, alert).unlink(missing_ok=True)

    def overflow(self, receiver: str) -> list[Alert]:
        """Return those of `MOST` and more that are to be dropped: the oldest, no critical ones."""
        waiting = self.waiting(receiver)
        more = max(0, len(waiting) - MOST)
        return [alert for alert in waiting if alert.severity is not Severity.CRITICAL][:more]

    def _read(self, receiver: str) -> dict[str, Alert]:
        """Return what waits; the files are read once, later changes are this process's own."""
        if receiver not in self._waiting:
            alerts: dict[str, Alert] = {}
            try:
                files = sorted((self._directory / receiver).glob("*.json"))
            except OSError:
                files = []
            for file in files:
                try:
                    alert = from_plain(json.loads(file.read_text()))
                except OSError:
                    continue
                except (ValueError, KeyError, TypeError):
                    file.rename(file.with_suffix(".bad"))
                    continue
                alerts[alert.id] = alert
            self._waiting[receiver] = alerts
        return self._waiting[receiver]

    def _file(self, receiver: str, alert: Alert) -> Path:
        microseconds = int(alert.at.timestamp() * 1e6)
        return self._directory / receiver / f"{microseconds:017d}-{alert.id}.json"

    @staticmethod
    def _write(file: Path, alert: Alert) -> None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = file.with_suffix(".new")
        try:
            with open(temporary, "w") as stream:  # noqa: PTH123 (flushed to the disk below)
                json.dump(to_plain(alert), stream)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(file)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


def to_plain(alert: Alert) -> dict[str, Any]:
    """Return an alert as JSON has it, without its deliveries."""
    names = [field.name for field in fields(alert) if field.name != "deliveries"]
    values = {name: getattr(alert, name) for name in names}
    return {
        name: value.isoformat()
        if isinstance(value, datetime)
        else value.value
        if isinstance(value, Enum)
        else list(value)
        if isinstance(value, tuple)
        else dict(value)
        if isinstance(value, Mapping)
        else value
        for name, value in values.items()
    }


def from_plain(plain: Mapping[str, Any]) -> Alert:
    """Return the alert that `to_plain` wrote.

    Raises
    ------
    KeyError, TypeError, ValueError
        It is none.
    """
    since = plain["since"]
    return Alert(
        id=str(plain["id"]),
        site=str(plain["site"]),
        subject=str(plain["subject"]),
        name=str(plain["name"]),
        phase=Phase(plain["phase"]),
        severity=Severity(plain["severity"]),
        at=datetime.fromisoformat(plain["at"]),
        since=None if since is None else datetime.fromisoformat(since),
        title=str(plain["title"]),
        lines=tuple(map(str, plain["lines"])),
        facts=dict(plain["facts"]),
    )

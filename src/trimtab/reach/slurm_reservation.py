"""Reservations of Slurm: those for a maintenance of all nodes are windows of the file system too.

``scontrol --oneliner show reservation``, a line each, ``Name=value`` separated by blanks; with
``SLURM_TIME_FORMAT=%s`` times are seconds since 1970. A time of another form is refused: it would
be local, in an unknown zone. A reservation of some nodes is about these nodes, and no window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from trimtab.base.error import ToolError, visible
from trimtab.base.event import EventKind, identifier_of
from trimtab.base.maintenance_window import LONGEST, MaintenanceWindow
from trimtab.base.units import is_digits
from trimtab.reach.slurm_client import Client, last_line

SLURM: Final = "slurm"
"""Source of windows from reservations."""
_FLAGS: Final = frozenset({"MAINT", "ALL_NODES"})
_FIELD: Final = re.compile(r"(?:^|(?<= ))(ReservationName|StartTime|EndTime|Flags)=(\S*)")
_NONE: Final = "No reservations in the system"
_SECONDS_MAX: Final = 253_402_300_799  # the year 9999


def planned_by_slurm(client: Client, site: str) -> tuple[MaintenanceWindow, ...]:
    """Return the maintenance windows that Slurm has reserved.

    Raises
    ------
    ToolError
        It does not answer, or with something else.
    """
    answer = client.ask("scontrol", "--oneliner", "show", "reservation", patience_s=0.0)
    if answer.problem is not None:
        complaint = last_line(answer.stderr.decode("utf-8", "replace"))
        raise ToolError(f"reservations are not known: {complaint}", code="reservations-unknown")
    return tuple(windows_in(answer.stdout.decode("utf-8", "replace"), site))


def windows_in(text: str, site: str) -> Iterator[MaintenanceWindow]:
    """Yield the windows of what ``scontrol`` prints.

    Raises
    ------
    ToolError
        It breaks off, or a line is no reservation.
    """
    if text and not text.endswith("\n"):
        raise _unreadable(text.splitlines()[-1])
    for line in text.splitlines():
        if not line.strip() or line.startswith(_NONE):
            continue
        fields = dict(_FIELD.findall(line))
        name, flags = fields.get("ReservationName"), fields.get("Flags")
        if not name or flags is None:
            raise _unreadable(line)
        if set(flags.split(",")) >= _FLAGS:
            begin, end = (_moment(fields.get(field), line) for field in ("StartTime", "EndTime"))
            if end > begin:
                id_ = identifier_of(
                    begin, site, EventKind.MAINTENANCE, SLURM, name, end.isoformat()
                )
                why = f"reservation {visible(name)}"
                yield MaintenanceWindow(id_, site, begin, min(end, begin + LONGEST), why, SLURM)


def _moment(text: str | None, line: str) -> datetime:
    if text is None or not is_digits(text) or int(text) > _SECONDS_MAX:
        raise _unreadable(line)
    return datetime.fromtimestamp(int(text), UTC)


def _unreadable(line: str) -> ToolError:
    return ToolError(
        f"this is no reservation as expected: {visible(line[:200])}", code="reservations-unknown"
    )

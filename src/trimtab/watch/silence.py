"""What holds an alert back: a maintenance window, or a person who wants to hear nothing of it.

Decisions are made as always; a silence acts at delivery, as quiet hours do. Held alerts wait in the
ledger. At the end those that are not over go out as one message, the others are dropped. A silence
is a row of the ledger: the last one of each alert and its targets holds.

Bad checksums and forged approvals are never held back: whoever can silence them can hide them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from trimtab.base.error import Message, RefusedError, UsageError
from trimtab.base.finding import Alert, Phase, Severity
from trimtab.base.maintenance_window import IN_MAINTENANCE, LONGEST, MaintenanceWindow, inside
from trimtab.base.plain import as_dict, as_list
from trimtab.base.toml_problem import did_you_mean
from trimtab.watch.alert_table import APPROVAL_FORGED, INTEGRITY, NAMES

if TYPE_CHECKING:
    from trimtab.store.store import Store

NEVER_SILENT: Final = frozenset({INTEGRITY, APPROVAL_FORGED})
SILENCED: Final = "silenced"
_SUBJECT: Final = "silence:"
_WHY_MAXIMUM: Final = 200


@dataclass(frozen=True, slots=True)
class Silence:
    """A silence.

    Attributes
    ----------
    alert
        Name of the alert.
    at, until
        When it was said, and when it ends by itself.
    targets
        Only where the alert is about no other; empty: all.
    """

    site: str
    alert: str
    at: datetime
    until: datetime
    who: str
    why: str
    targets: tuple[str, ...] = ()

    def holds(self, alert: Alert, moment: datetime) -> bool:
        """Return whether it holds back an alert at a moment."""
        return (
            self.alert == alert.name
            and self.at <= moment < self.until
            and (not self.targets or {*self.targets} >= {*_places(alert)} > set())
        )


@dataclass(frozen=True, slots=True)
class SilencesDocument:
    """``trimtab silence SITE --json``: the silences that hold now."""

    store: str
    site: str
    silences: tuple[Silence, ...]


def new_silence(
    site: str, alert: str, *, now: datetime, until: datetime, who: str, why: str,
    targets: tuple[str, ...] = (),
) -> Silence:  # fmt: skip
    """Return a silence that begins now.

    Raises
    ------
    RefusedError
        The alert is one of `NEVER_SILENT`.
    UsageError
        There is no such alert, no reason, or the end is past or far away.
    """
    if alert in NEVER_SILENT:
        raise RefusedError(
            f"{alert} is never silenced", code="alert-never-silent",
            hint="wrong data and forged approvals are told whatever else is planned",
        )  # fmt: skip
    if alert not in NAMES:
        raise UsageError(
            f"there is no alert {alert!r}", code="alert-unknown", hint=did_you_mean(alert, NAMES)
        )
    if not why.strip() or len(why) > _WHY_MAXIMUM:
        problem = f"a silence needs a reason, of at most {_WHY_MAXIMUM} characters"
        raise UsageError(problem, code="silence-without-reason")
    if not now < until <= now + LONGEST:
        problem = f"a silence ends within {LONGEST.days} days; {until.isoformat()} is not"
        raise UsageError(problem, code="silence-end")
    return Silence(site, alert, now, until, who, why.strip(), targets)


def ended(
    silences: Iterable[Silence], alert: str, targets: tuple[str, ...], *, now: datetime
) -> Silence:
    """Return the silence of an alert and its targets as one that ends now.

    Raises
    ------
    UsageError
        There is none.
    """
    for silence in silences:
        if (silence.alert, silence.targets) == (alert, targets) and silence.until > now:
            return replace(silence, until=now)
    raise UsageError(f"{alert} is not silenced", code="alert-not-silenced")


def row_of(silence: Silence) -> Alert:
    """Return the row of the ledger that holds a silence; it replaces an earlier one."""
    place = ",".join(silence.targets)
    subject = f"{_SUBJECT}{silence.alert}" + (f":{place}" if place else "")
    times = silence.at.isoformat(), silence.until.isoformat()
    words = "\0".join((silence.site, subject, *times))
    facts = {
        "until": silence.until.isoformat(), "who": silence.who, "why": silence.why,
        "targets": [*silence.targets],
    }  # fmt: skip
    return Alert(
        hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()[:32],
        silence.site, subject, silence.alert, Phase.SILENCED, Severity.INFO, silence.at,
        silence.at, f"silenced until {silence.until:%Y-%m-%d %H:%M} UTC: {silence.why}",
        facts=facts,
    )  # fmt: skip


def silences_of(ledger: Iterable[Alert]) -> tuple[Silence, ...]:
    """Return the silences that a ledger holds, the last of each subject, oldest first."""
    last = {row.subject: row for row in ledger if row.phase is Phase.SILENCED}
    return tuple(
        Silence(
            row.site, row.name, row.at, datetime.fromisoformat(str(row.facts["until"])),
            str(row.facts["who"]), str(row.facts["why"]),
            tuple(map(str, as_list(row.facts["targets"]))),
        )
        for row in sorted(last.values(), key=lambda row: row.at)
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Held:
    """All that holds alerts of a site back, now and before."""

    windows: Sequence[MaintenanceWindow] = ()
    silences: Sequence[Silence] = ()

    def in_maintenance(self, alert: Alert, moment: datetime) -> MaintenanceWindow | None:
        """Return the window that an alert falls into at a moment: of the site or of its targets."""
        if alert.name in NEVER_SILENT:
            return None
        return inside(self.windows, moment, *_places(alert))

    def why(self, alert: Alert, moment: datetime, *, windows: bool = True) -> Message | None:
        """Return why an alert waits at a moment; ``None``: it does not.

        Parameters
        ----------
        windows
            Whether the receiver leaves windows to us; Alertmanager knows its own silences.
        """
        if alert.name in NEVER_SILENT:
            return None
        window = self.in_maintenance(alert, moment) if windows else None
        if window is not None:
            return Message(IN_MAINTENANCE, f"in maintenance: {window.why}")
        for silence in self.silences:
            if silence.holds(alert, moment):
                return Message(SILENCED, f"silenced by {silence.who}: {silence.why}")
        return None

    def silent_at(self, moment: datetime) -> tuple[Silence, ...]:
        """Return the silences that hold at a moment."""
        return tuple(each for each in self.silences if each.at <= moment < each.until)

    def end(self, alert: Alert) -> datetime:
        """Return when an alert stopped being held back; its own time if it never was."""
        ends = [silence.until for silence in self.silences if silence.holds(alert, alert.at)]
        window = self.in_maintenance(alert, alert.at)
        return max([alert.at, *ends, *([window.end] if window else [])])


def held_since(store: Store, site: str, now: datetime) -> Held:
    """Return what may hold back an alert that still waits."""
    since = now - 2 * LONGEST
    rows = store.alerts(site, since=since, phase=Phase.SILENCED)
    return Held(store.windows(site, since=since), silences_of(rows))


def over_unheard(
    waiting: Sequence[Alert], held: Held, *, windows: bool = True
) -> dict[str, Message]:
    """Return by id the alerts whose problem came and went unheard, with what held them back.

    Parameters
    ----------
    waiting
        Oldest first.
    """
    by_subject: dict[str, list[Alert]] = {}
    for alert in waiting:
        by_subject.setdefault(alert.subject, []).append(alert)
    over: dict[str, Message] = {}
    for alerts in by_subject.values():
        began = alerts[0].phase in (Phase.OPENED, Phase.REOPENED)
        reason = held.why(alerts[0], alerts[0].at, windows=windows)
        if began and reason is not None and alerts[-1].phase is Phase.CLOSED:
            over |= {alert.id: reason for alert in alerts}
    return over


def _places(alert: Alert) -> Iterable[str]:
    return as_dict(alert.facts.get("places"))

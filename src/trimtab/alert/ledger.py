"""What people were last told about each subject, from the ledger of a site's alerts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from trimtab.alert.table import AGAIN
from trimtab.model.alert import Alert, Phase
from trimtab.model.finding import Severity

OPEN, CLOSED, NOTHING = "open", "closed", "nothing"


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject of alerts and what people know about it.

    Attributes
    ----------
    facts
        Facts of its last row; ``told`` is `OPEN`, `CLOSED` or `NOTHING`.
    sent_at
        When the last alert about it was decided; ``None`` if none was sent.
    rows
        Number of rows, including those removed since.
    """

    name: str
    facts: Mapping[str, Any]
    at: datetime | None = None
    sent_at: datetime | None = None
    rows: int = 0

    @property
    def belief(self) -> str:
        """What people believe: `OPEN`, `CLOSED` or `NOTHING`."""
        return str(self.facts["told"]) if self.rows else NOTHING


def subjects_of(sent: Iterable[Alert]) -> dict[str, Subject]:
    """Return every subject of the ledger by name; ``sent`` is its rows, oldest first."""
    subjects: dict[str, Subject] = {}
    for alert in sent:
        known = subjects.get(alert.subject, Subject(alert.subject, {}))
        sent_at = known.sent_at if alert.phase is Phase.NOTED else alert.at
        # Earlier rows may be gone after their retention time, so each row counts those before it.
        rows = cast("int", alert.facts["rows"])
        subjects[alert.subject] = Subject(alert.subject, alert.facts, alert.at, sent_at, rows)
    return subjects


@dataclass(frozen=True, slots=True)
class Draft:
    """Creates the alerts of one site at one time.

    Attributes
    ----------
    subjects
        Subjects by name.
    """

    site: str
    now: datetime
    subjects: Mapping[str, Subject]

    def subject(self, name: str) -> Subject:
        """Return a subject; a new one if it has no alerts yet."""
        return self.subjects.get(name) or Subject(name, {})

    def may_be_sent(self, subject: Subject, severity: Severity) -> bool:
        """Return whether enough time has passed since the last alert about a subject."""
        return subject.sent_at is None or self.now - subject.sent_at >= AGAIN[severity]

    def alert(
        self,
        subject: Subject,
        name: str,
        phase: Phase,
        severity: Severity,
        *,
        title: str = "",
        facts: Mapping[str, Any],
        since: datetime | None = None,
        lines: tuple[str, ...] = (),
    ) -> Alert:
        """Return an alert.

        Its id is derived from the ledger, so a repeated decision has the same id.

        `Phase.NOTED` leaves what people were told unchanged.
        """
        belief = {Phase.NOTED: subject.belief, Phase.CLOSED: CLOSED}.get(phase, OPEN)
        text = "\0".join((self.site, subject.name, phase.value, str(subject.rows)))
        return Alert(
            hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32],
            self.site,
            subject.name,
            name,
            phase,
            severity,
            self.now,
            since,
            title,
            lines,
            {**facts, "told": belief, "rows": subject.rows + 1},
        )

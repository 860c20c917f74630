"""What people were told of each subject, from the ledger of a site's alerts."""

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
    """One subject: what people know of it.

    Attributes
    ----------
    facts
        Of its last row: ``told`` is `OPEN`, `CLOSED` or `NOTHING`.
    sent_at
        When the last alert about it was decided; ``None``: none was sent yet.
    rows
        Number of rows, those that were removed since included.
    """

    name: str
    facts: Mapping[str, Any]
    at: datetime | None = None
    sent_at: datetime | None = None
    rows: int = 0

    @property
    def belief(self) -> str:
        """What people believe: that it is open, closed, or nothing."""
        return str(self.facts["told"]) if self.rows else NOTHING


def subjects_of(sent: Iterable[Alert]) -> dict[str, Subject]:
    """Return every subject of the ledger; ``sent``: its rows, the oldest first."""
    subjects: dict[str, Subject] = {}
    for alert in sent:
        known = subjects.get(alert.subject, Subject(alert.subject, {}))
        sent_at = known.sent_at if alert.phase is Phase.NOTED else alert.at
        # Rows before it may have outlived their retention: each counts those before it.
        rows = cast("int", alert.facts["rows"])
        subjects[alert.subject] = Subject(alert.subject, alert.facts, alert.at, sent_at, rows)
    return subjects


@dataclass(frozen=True, slots=True)
class Draft:
    """Makes the alerts of one site at one time.

    Attributes
    ----------
    subjects
        What people know, by name.
    """

    site: str
    now: datetime
    subjects: Mapping[str, Subject]

    def subject(self, name: str) -> Subject:
        """Return what people know of a subject, which may be nothing."""
        return self.subjects.get(name) or Subject(name, {})

    def may_be_sent(self, subject: Subject, severity: Severity) -> bool:
        """Return whether the last alert about a subject is long enough ago."""
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
        """Return an alert; its id follows from the ledger, so that a repeated decision is the same.

        Where the phase is `Phase.NOTED`, what people were told stays as it was.
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

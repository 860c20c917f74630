"""Alerts that have outlived their retention: the last about each subject stays for a year."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from trimtab.base.alert import Alert, Phase
from trimtab.base.finding import Severity
from trimtab.store.store import Store
from trimtab.watch.alert.alert_table import AlertDraft, subjects_of

NOON, DAY = datetime(2026, 11, 16, 12, tzinfo=UTC), timedelta(days=1)
PHASES = {
    "target-lost": (Phase.OPENED, Phase.CLOSED, Phase.OPENED, Phase.NOTED),
    "incident:a": (Phase.OPENED, Phase.CLOSED),
}


def alert_of(subject: str, phase: Phase, day: int, ledger: tuple[Alert, ...]) -> Alert:
    """Return the next alert about a subject."""
    draft = AlertDraft("scratch", NOON + day * DAY, subjects_of(ledger))
    return draft.alert(draft.subject(subject), subject, phase, Severity.WARNING, facts={})


def test_what_decisions_rest_on_stays_and_no_id_comes_twice(tmp_path: Path) -> None:
    with Store.open(tmp_path / "t.db") as store:

        def days() -> list[tuple[str, int]]:
            return [(row.subject, (row.at - NOON).days) for row in store.alerts("scratch")]

        def prune(before: int, now: int) -> int:
            return store.prune("scratch", NOON + before * DAY, now=NOON + now * DAY).alerts

        for subject, phases in PHASES.items():
            for day, phase in enumerate(phases):
                alert = alert_of(subject, phase, day, store.alerts("scratch"))
                assert store.add_alert(alert)
        identifiers = {row.id for row in store.alerts("scratch")}
        assert prune(before=20, now=25) == 0
        assert prune(before=60, now=60) == 3
        assert days() == [("target-lost", 2), ("target-lost", 3), ("incident:a", 1)]
        for day in range(60, 64):
            phase = Phase.CLOSED if day % 2 else Phase.OPENED
            alert = alert_of("target-lost", phase, day, store.alerts("scratch"))
            assert alert.id not in identifiers
            identifiers.add(alert.id)
            assert store.add_alert(alert)
        assert prune(before=450, now=450) == 6
        assert days() == [("target-lost", 63)]

"""Documents of the alerts of a site, and of the test of its receivers."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.model.alert import Alert
from trimtab.report.documents.encode import shape


@dataclass(frozen=True, slots=True)
class AlertsDocument:
    """``trimtab alerts SITE --json``: the ledger, the oldest first, and what waits."""

    store: str
    site: str
    alerts: tuple[Alert, ...]


@dataclass(frozen=True, slots=True)
class ReceiverRow:
    """One receiver that was tried.

    Attributes
    ----------
    delivered
        Whether it took the test message.
    """

    receiver: str
    delivered: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AlertsTestDocument:
    """``trimtab alerts test SITE --json``: each receiver, and whether it took a test message."""

    site: str
    receivers: tuple[ReceiverRow, ...]


shape(Alert, omit=["site", "facts"])

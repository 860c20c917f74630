"""Choose which waiting alerts to send to a receiver now, singly or as one digest."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from trimtab.model.alert import Alert
from trimtab.model.finding import Severity
from trimtab.model.policies import Window

HOUR: Final = timedelta(hours=1)
DIGEST_FROM: Final = 4
"""From this many waiting alerts on, send a digest, so that a returning receiver is not flooded."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """One message to one receiver.

    Attributes
    ----------
    key
        Idempotency key: the same alerts have the same key, so a receiver can drop duplicates.
    alerts
        Oldest first; several make a digest.
    """

    key: str
    alerts: tuple[Alert, ...]

    @property
    def severity(self) -> Severity:
        """The most severe of its alerts."""
        return min((alert.severity for alert in self.alerts), key=lambda severity: severity.rank)


def is_quiet(at: datetime, quiet: Window | None, timezone: str) -> bool:
    """Return whether a time is within a site's quiet hours."""
    return quiet is not None and quiet.holds_at(at, timezone)


def parcels(
    waiting: Sequence[Alert],
    sent_at: Sequence[datetime],
    now: datetime,
    *,
    per_hour: int,
    quiet: Window | None = None,
    timezone: str = "UTC",
) -> list[Parcel]:
    """Return the messages to send now, critical ones first; omitted alerts keep waiting.

    Each critical alert is sent at once and alone. Others wait for the end of quiet hours and for
    the rate limit; alerts that had to wait, or many at once, become one digest.

    Parameters
    ----------
    waiting
        Oldest first.
    sent_at
        Times of the last messages to this receiver.
    """
    urgent = [alert for alert in waiting if alert.severity is Severity.CRITICAL]
    others = [alert for alert in waiting if alert.severity is not Severity.CRITICAL]
    made = [_parcel([alert]) for alert in urgent]
    room = per_hour - len(made) - sum(now - at < HOUR for at in sent_at)
    if not others or room <= 0 or is_quiet(now, quiet, timezone):
        return made
    held = any(is_quiet(alert.at, quiet, timezone) for alert in others)
    if len(others) > 1 and (held or len(others) >= DIGEST_FROM or len(others) > room):
        return [*made, _parcel(others)]
    return [*made, *(_parcel([alert]) for alert in others)]


def _parcel(alerts: Sequence[Alert]) -> Parcel:
    if len(alerts) == 1:
        return Parcel(alerts[0].id, tuple(alerts))
    digest = hashlib.sha256("\0".join(alert.id for alert in alerts).encode())
    return Parcel(digest.hexdigest()[:32], tuple(alerts))

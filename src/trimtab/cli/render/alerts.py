"""What ``trimtab alerts`` shows: the alerts of a site, and the answers of its receivers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trimtab.cli.options import site_argument
from trimtab.model.alert import DeliveryState
from trimtab.report.headline import headline
from trimtab.report.kit import ALL, ROWS, row, table
from trimtab.report.sections import Document, Section
from trimtab.report.text import local_moment, local_times
from trimtab.units import plural

if TYPE_CHECKING:
    from trimtab.loop.alerting.receivers import ReceiverRow
    from trimtab.model.alert import Alert
    from trimtab.model.standing import SiteStanding


def trial_document(site: str, tried: Sequence[ReceiverRow]) -> Document:
    """Return how many receivers accepted the message, and each one's answer."""
    taken = sum(entry.delivered for entry in tried)
    if tried:
        answer = f"{taken} of {plural(len(tried), 'receiver')} accepted the test message."
    else:
        answer = "no receiver: alerts are not sent; add [alerts.mail] or [webhook.NAME]."
    rows = (
        row(entry.receiver, "delivered" if entry.delivered else f"not delivered: {entry.reason}")
        for entry in sorted(tried, key=lambda entry: entry.delivered)
    )
    receivers = table(("receiver", "answer"), rows, first=ALL)
    return Document(f"{site}: {answer}", (Section(tables=(receivers,)),))


def alerts_document(
    standing: SiteStanding, alerts: Sequence[Alert], *, has_receivers: bool = True
) -> Document:
    """Return the state of a site and its alerts, newest first, with the number that wait.

    Parameters
    ----------
    has_receivers
        Whether the site file names receivers.
    """
    newest = alerts[::-1]
    rows = (
        row(
            at,
            alert.severity.value,
            alert.phase.value,
            alert.title,
            ", ".join(f"{each.receiver} {each.state.value}" for each in alert.deliveries),
        )
        for alert, at in zip(newest, local_times([alert.at for alert in newest]), strict=True)
    )
    columns = ("at", "severity", "phase??", "alert", "delivery")
    test = f"trimtab alerts test {site_argument(standing.site)} sends a test message"
    return Document(
        headline(standing),
        (Section(tables=(table(columns, rows, first=ROWS),)),),
        details=(_sent(standing.site, alerts),),
        more=(test,) if has_receivers else (),
    )


def _sent(site: str, alerts: Sequence[Alert]) -> str:
    if not alerts:
        return f"{site}: no alert was sent."
    last = alerts[-1]
    states = Counter(each.state for alert in alerts for each in alert.deliveries)
    undelivered = ", ".join(
        f"{count:,} {state.value}"
        for state, count in states.items()
        if state is not DeliveryState.DELIVERED
    )
    return (
        f"{site}: {plural(len(alerts), 'alert', ',')}"
        + (f", deliveries {undelivered}" if undelivered else "")
        + f"; the last, {local_moment(last.at)}: {last.title.rstrip('.')}."
    )

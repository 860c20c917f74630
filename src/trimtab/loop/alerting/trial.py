"""``trimtab alerts test``: one message to each receiver of a site, and what each answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from trimtab.alert.parcels import Parcel
from trimtab.alert.table import TEST
from trimtab.errors import Undelivered, UsageError
from trimtab.loop.alerting.receivers import Receiver, receivers_of
from trimtab.message import Message
from trimtab.model.alert import Alert, Phase
from trimtab.model.finding import Severity
from trimtab.model.identifier import new_identifier
from trimtab.model.site import Site
from trimtab.report.documents.kept import ReceiverRow

_HINT: Final = 'add [alerts.mail] with to = ["ops@example.org"], or a [webhook.NAME]'


def try_receivers(
    site: Site, now: datetime, receivers: Iterable[Receiver] | None = None
) -> Iterator[ReceiverRow]:
    """Send a test message to each receiver, one after another.

    Raises
    ------
    UsageError
        The site file names no receiver.
    """
    receivers = receivers_of(site) if receivers is None else tuple(receivers)
    if not receivers:
        raise UsageError(
            f"no receiver of alerts is set up for {site.name}",
            code="receiver-missing",
            hint=_HINT,
        )
    identifier = new_identifier(now)
    alert = Alert(
        identifier,
        site.name,
        TEST,
        TEST,
        Phase.TEST,
        Severity.INFO,
        now,
        now,
        f"test of the alerts of {site.name}: this one has no cause; nothing is to be done",
        (f"What was told before: trimtab alerts {site.name}",),
    )
    for receiver in receivers:
        try:
            receiver.deliver(Parcel(identifier, (alert,)), now)
        except Undelivered as error:
            yield ReceiverRow(receiver.name, False, Message(error.code, error.message))
        else:
            yield ReceiverRow(receiver.name, True)

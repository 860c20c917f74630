"""The ledger of alerts: what was sent of a site, and who got it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Row, select

from trimtab.model.alert import Alert, Delivery, DeliveryState, Phase
from trimtab.model.finding import Severity
from trimtab.record import checksums, schema
from trimtab.record.connections import Connections
from trimtab.record.kept import value_of
from trimtab.record.queries import between, insert_unless_there, of_site, site_number
from trimtab.record.rows import row_of, understood

REMEMBERED: Final = timedelta(days=400)
"""So far back goes the part of the ledger that decisions rest on."""


class AlertRecords(Connections):
    """The part of the store that alerting reads and writes."""

    def add_alert(self, alert: Alert) -> bool:
        """Keep an alert and return whether it was new; one that is kept stays as it is."""
        row = row_of(
            alert,
            schema.alert,
            lines=list(alert.lines),
            facts=dict(alert.facts),
            deliveries=_plain(alert.deliveries),
        )
        with self._writing() as connection:
            row["site"] = site_number(connection, alert.site)
            insertion = insert_unless_there(connection, schema.alert, **row)
            return connection.execute(insertion).rowcount == 1

    def put_delivery(self, alert: str, delivery: Delivery) -> bool:
        """Keep how far an alert has come on its way to one receiver; false: no such alert is kept.

        Parameters
        ----------
        alert
            Its id.
        """
        this = schema.alert.c.id == alert
        with self._writing() as connection:
            query = select(schema.alert.c.deliveries).where(this).with_for_update()
            stored = connection.execute(query).scalar_one_or_none()
            if stored is not None:
                deliveries = {**stored, **_plain([delivery])}
                checksums.change(connection, schema.alert, {"deliveries": deliveries}, this)
            return stored is not None

    def alerts(
        self, site: str, *, since: datetime | None = None, until: datetime | None = None
    ) -> tuple[Alert, ...]:
        """Return the alerts of a site in the order in which they were decided."""
        table = schema.alert.c
        query = of_site(select(schema.alert), schema.alert, site).order_by(table.number)
        with self._reading() as connection:
            records = connection.execute(between(query, table.at, since, until)).all()
        return tuple(_to_alert(row, site) for row in records)


def _plain(deliveries: Iterable[Delivery]) -> dict[str, dict[str, object]]:
    return {
        each.receiver: {
            "state": each.state.value,
            "at": each.at.isoformat(),
            "detail": each.detail,
        }
        for each in deliveries
    }


def _to_alert(row: Row[Any], site: str) -> Alert:
    with understood(f"alert {row.id}"):
        phase, severity = Phase(row.phase), Severity(row.severity)
        deliveries = tuple(
            Delivery(
                receiver,
                DeliveryState(entry["state"]),
                datetime.fromisoformat(entry["at"]),
                entry["detail"],
            )
            for receiver, entry in row.deliveries.items()
        )
    return value_of(
        Alert,
        row,
        site=site,
        phase=phase,
        severity=severity,
        lines=tuple(row.lines),
        deliveries=deliveries,
    )

"""The ledgers of a site: actions on its file system and the right to act, and alerts sent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Row, Select, insert, select, update

from trimtab.base.action import Action, ActionKind, Instruction, Outcome
from trimtab.base.error import Message, RefusedError, UsageError, code_of
from trimtab.base.finding import Alert, Delivery, DeliveryState, Phase, Severity
from trimtab.store import checksum, schema
from trimtab.store.connection import (
    Connections,
    between,
    insert_unless_there,
    of_site,
    row_of,
    site_number,
    understood,
)
from trimtab.store.kept import value_of

_UNCODED = "reason-uncoded"


class ActingRecords(Connections):
    """The part of the store that acting reads and writes."""

    def take_right(
        self,
        site: str,
        holder: str,
        *,
        now: datetime,
        until: datetime,
        gone: Callable[[str], bool],
    ) -> int:
        """Take the right to act on a site, and return its token: higher than all earlier ones.

        Parameters
        ----------
        until
            End of the right, aware; after that any process may take it.
        gone
            Whether a process is known to have ended.

        Raises
        ------
        RefusedError
            Another process has it.
        """
        table = schema.acting.c
        with self._writing() as connection:
            number = site_number(connection, site)
            row = insert_unless_there(connection, schema.acting, site=number, token=0)
            connection.execute(row)
            # The update takes the row's lock first: two that come at once go one after the other.
            raised = update(schema.acting).where(table.site == number)
            connection.execute(raised.values(token=table.token + 1))
            held = connection.execute(select(schema.acting).where(table.site == number)).one()
            if held.holder and held.until > now and held.holder != holder and not gone(held.holder):
                raise RefusedError(
                    f"{held.holder} has the right to act on {site} until {held.until.isoformat()}",
                    code="site-acted-on-elsewhere",
                    hint="wait until it has ended; the right of a process that is gone lapses then",
                )
            connection.execute(
                update(schema.acting).where(table.site == number).values(holder=holder, until=until)
            )
        return int(held.token)

    def renew_right(self, site: str, token: int, until: datetime) -> bool:
        """Put off the end of the right and return whether the token still is the newest."""
        with self._writing() as connection:
            number = site_number(connection, site)
            table = schema.acting.c
            this = (table.site == number, table.token == token, table.holder.is_not(None))
            change = update(schema.acting).where(*this).values(until=until)
            return connection.execute(change).rowcount == 1

    def release_right(self, site: str, token: int) -> None:
        """Give the right back; that of another token stays."""
        with self._writing() as connection:
            table = schema.acting.c
            number = site_number(connection, site)
            this = (table.site == number, table.token == token)
            connection.execute(update(schema.acting).where(*this).values(holder=None, until=None))

    def put_action(self, action: Action) -> None:
        """Store an action, in place of one with the same id."""
        reason = action.instruction.reason
        values = {
            **row_of(
                action.instruction,
                schema.action,
                reason=str(reason),
                reverts=list(action.instruction.reverts),
            ),
            **row_of(action, schema.action),
            "reason_code": code_of(reason) or _UNCODED,
        }
        with self._writing() as connection:
            values["site"] = site_number(connection, action.site)
            this = schema.action.c.id == action.id
            if connection.execute(update(schema.action).where(this).values(values)).rowcount == 0:
                connection.execute(insert(schema.action).values(values))
            else:
                checksum.resum(connection, schema.action, this)

    def actions(
        self,
        site: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        kinds: Collection[ActionKind] | None = None,
        limit: int | None = None,
    ) -> tuple[Action, ...]:
        """Return the actions on a site that began within ``since`` and ``until``, oldest first.

        Parameters
        ----------
        kinds
            Only actions of these kinds; ``None``: all.
        limit
            Maximum number of actions, the newest; ``None``: all.
        """
        query = between(_of_site(site), schema.action.c.at, since, until)
        if kinds is not None:
            query = query.where(schema.action.c.kind.in_([kind.value for kind in kinds]))
        if limit is not None:
            at, number = schema.action.c.at, schema.action.c.number
            query = query.order_by(None).order_by(at.desc(), number.desc()).limit(limit)
        with self._reading() as connection:
            records = connection.execute(query).all()
        ordered = records if limit is None else records[::-1]
        return tuple(_to_action(row, site) for row in ordered)

    def action(self, site: str, prefix: str) -> Action:
        """Return the action whose id begins with a prefix.

        Raises
        ------
        UsageError
            There is no such action, or there are several.
        """
        table = schema.action.c
        wanted = table.id >= prefix, table.id < prefix + "\x7f"
        with self._reading() as connection:
            records = connection.execute(_of_site(site).where(*wanted).limit(2)).all()
        if len(records) != 1 or not prefix:
            problem = "several actions" if records else "no action"
            raise UsageError(
                f"{problem} of {site} with an id that begins with {prefix[:40]!r}",
                code="action-ambiguous" if records else "action-unknown",
                hint=f"list them: trimtab actions {site}",
            )
        return _to_action(records[0], site)


def _of_site(site: str) -> Select[Any]:
    query = of_site(select(schema.action), schema.action, site)
    return query.order_by(schema.action.c.at, schema.action.c.number)


def _to_action(row: Row[Any], site: str) -> Action:
    with understood(f"action {row.id}"):
        kind = ActionKind(row.kind)
        outcome = None if row.outcome is None else Outcome(row.outcome)
    instruction = value_of(
        Instruction,
        row,
        kind=kind,
        reason=Message(row.reason_code, row.reason),
        reverts=tuple(row.reverts),
    )
    return value_of(Action, row, site=site, instruction=instruction, outcome=outcome)


REMEMBERED: Final = timedelta(days=400)
"""Length of the part of the ledger that decisions are based on."""


class AlertRecords(Connections):
    """The part of the store that alerting reads and writes."""

    def add_alert(self, alert: Alert) -> bool:
        """Store an alert and return whether it was new; a stored one stays as it is."""
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
        """Store the state of delivery of an alert to one receiver; false: no such alert is stored.

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
                checksum.change(connection, schema.alert, {"deliveries": deliveries}, this)
            return stored is not None

    def alerts(
        self,
        site: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        phase: Phase | None = None,
    ) -> tuple[Alert, ...]:
        """Return the alerts of a site, or those of one phase, in the order of their decision."""
        table = schema.alert.c
        query = of_site(select(schema.alert), schema.alert, site).order_by(table.number)
        if phase is not None:
            query = query.where(table.phase == phase.value)
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

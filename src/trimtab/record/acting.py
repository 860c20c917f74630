"""The ledger: what was done to a site's file system, and which process has the right to do more."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, insert, select, update

from trimtab.errors import RefusedError, UsageError
from trimtab.message import Message, code_of
from trimtab.model.action import Action, ActionKind, Instruction, Outcome
from trimtab.record import checksums, schema
from trimtab.record.connections import Connections
from trimtab.record.kept import value_of
from trimtab.record.queries import between, insert_unless_there, of_site, site_number
from trimtab.record.rows import row_of, understood

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
        """Take the right to act on a site, and return its token: higher than every one before.

        Parameters
        ----------
        until
            Aware; after that anybody may take it.
        gone
            Whether a process is known to be no more.

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
                    f"{site} is acted on by {held.holder} until {held.until.isoformat()}",
                    code="site-acted-on-elsewhere",
                    hint="wait until it has ended; of a process that is gone the right lapses then",
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
        """Keep an action, in place of what was kept under its id."""
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
                checksums.resum(connection, schema.action, this)

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
            Only these; ``None``: all.
        limit
            At most so many, the newest of them; ``None``: all.
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
        """Return the action whose id begins so.

        Raises
        ------
        UsageError
            There is none, or there are several.
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

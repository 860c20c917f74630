"""How many runs, slots and actions a site has had, and whether anything of it has changed."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Table, Text, case, func, select, type_coerce

from trimtab.model.action import INTERRUPTED
from trimtab.record import schema
from trimtab.record.connections import Connections
from trimtab.record.queries import of_site


class CountRecords(Connections):
    """The part of the store that counts."""

    def run_counts(self, site: str) -> dict[tuple[str, str], int]:
        """Return probe and status to the number of runs."""
        run = schema.run.c
        return self._counts(site, schema.run, run.probe, run.status)

    def slot_counts(self, site: str) -> dict[tuple[str, str], int]:
        """Return item and state to the number of slots."""
        slot = schema.slot.c
        return self._counts(site, schema.slot, slot.item, slot.state)

    def action_counts(self, site: str) -> dict[tuple[str, str, str | None], int]:
        """Return policy, kind and outcome to the number of actions; ``None``: not known to end.

        What gave way or was killed has the outcome `INTERRUPTED`: it is no failure, and goes on.
        """
        action = schema.action.c
        was_interrupted = type_coerce(action.facts, Text).like(f'%"{INTERRUPTED}"%')
        outcome = case((was_interrupted, INTERRUPTED), else_=action.outcome)
        return self._counts(site, schema.action, action.policy, action.kind, outcome)

    def mark(self, site: str) -> tuple[object, ...]:
        """Return a value that differs from that of before where anything of a site has changed.

        Newest row and number of rows of each table, and what is changed in place: the end of an
        action, deliveries of an alert, when incidents were looked for, runs that got their time.
        """
        tables = (
            schema.run, schema.snapshot, schema.event, schema.slot, schema.incident, schema.action,
            schema.result, schema.alert,
        )  # fmt: skip
        place = schema.site.c
        parts = [place.judged_at, place.judged_until, place.timezone]
        for table in tables:
            columns = [func.max(table.c.number), func.count()]
            if table is schema.action:
                columns += [func.max(table.c.until), func.count(table.c.until)]
            elif table is schema.run:
                columns.append(func.count(table.c.at))
            elif table is schema.slot:
                columns += [func.max(table.c.ended_at), func.count(table.c.ended_at)]
            of_place = table.c.site == place.number
            parts += [
                select(column).select_from(table).where(of_place).scalar_subquery()
                for column in columns
            ]
        query = select(*parts).where(place.name == site)
        with self._reading() as connection:
            row = connection.execute(query).one_or_none()
        return () if row is None else tuple(row)

    def _counts(self, site: str, table: Table, *columns: ColumnElement) -> dict[tuple, int]:
        query = of_site(select(*columns, func.count()).select_from(table), table, site)
        query = query.group_by(*columns)
        with self._reading() as connection:
            return {tuple(row[:-1]): row[-1] for row in connection.execute(query)}

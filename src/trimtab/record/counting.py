"""How many runs, slots and actions a site has had: what only counts up."""

from __future__ import annotations

from sqlalchemy import Column, Table, func, select

from trimtab.record import schema
from trimtab.record.connections import Connections


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
        """Return policy, kind and outcome to the number of actions; ``None``: not known to end."""
        action = schema.action.c
        return self._counts(site, schema.action, action.policy, action.kind, action.outcome)

    def _counts(self, site: str, table: Table, *columns: Column) -> dict[tuple, int]:
        query = (
            select(*columns, func.count())
            .select_from(table)
            .join(schema.site, schema.site.c.number == table.c.site)
            .where(schema.site.c.name == site)
            .group_by(*columns)
        )
        with self._reading() as connection:
            return {tuple(row[:-1]): row[-1] for row in connection.execute(query)}

"""How many runs, slots and actions a site has had."""

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

    def _counts(self, site: str, table: Table, *columns: ColumnElement) -> dict[tuple, int]:
        query = of_site(select(*columns, func.count()).select_from(table), table, site)
        query = query.group_by(*columns)
        with self._reading() as connection:
            return {tuple(row[:-1]): row[-1] for row in connection.execute(query)}

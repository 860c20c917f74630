"""What was worked out of a site's rows, and sums of the rows that tell whether it still holds."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from trimtab.errors import UnreadableError
from trimtab.record import checksums, schema
from trimtab.record.checksums import UNCHECKED
from trimtab.record.connections import Connections
from trimtab.record.kept import Derived, Sum, Sums
from trimtab.record.queries import of_site, site_number


class DerivedRecords(Connections):
    """The part of the store that can be dropped: all of it is worked out again."""

    def sums(self, site: str) -> Sums:
        """Return sums of the checksums of a site's rows; no value is read, so none is checked."""
        others = (schema.snapshot, schema.event, schema.incident, schema.action, schema.result)
        place = schema.site.c
        with self._reading() as connection:
            connection.execution_options(**UNCHECKED)
            of_place = select(place.checksum).where(place.name == site)
            total = connection.execute(of_place).scalar()
            if total is None:
                return Sums()
            tables = {"site": (1, int(total))}
            for table in (*others, schema.alert):
                tables |= _summed(connection, table, site)
            return Sums(
                _summed(connection, schema.run, site, schema.run.c.comparability),
                _summed(connection, schema.slot, site, schema.slot.c.item),
                tables,
            )

    def derived(self, site: str, *nouns: str) -> dict[str, Derived]:
        """Return what is kept under some nouns; a damaged row is as good as none."""
        table = schema.derived
        query = of_site(select(table), table, site).where(table.c.noun.in_(nouns))
        with self._reading() as connection:
            records = connection.execute(query).mappings().all()
        return {
            row["noun"]: Derived(row["basis"], bytes(row["document"]))
            for row in records
            if _is_sound(row)
        }

    def keep_derived(self, site: str, values: Mapping[str, Derived]) -> None:
        """Keep values under their nouns, in place of those before.

        None is kept if another process kept one of them at the same moment.

        Raises
        ------
        UnreadableError
            Nobody may write there, or another process writes: that is not waited for.
        """
        table = schema.derived
        if not values:
            return
        with suppress(IntegrityError), self._writing(patient=False) as connection:
            number = site_number(connection, site)
            of_place = delete(table).where(table.c.site == number)
            connection.execute(of_place.where(table.c.noun.in_([*values])))
            connection.execute(
                insert(table),
                [
                    {"site": number, "noun": noun, "basis": of.basis, "document": of.document}
                    for noun, of in values.items()
                ],
            )

    def drop_derived(self, site: str | None = None) -> int:
        """Drop what was worked out, of one site or of all; return how many values that were."""
        table = schema.derived
        query = delete(table)
        if site is not None:
            numbers = select(schema.site.c.number).where(schema.site.c.name == site)
            query = query.where(table.c.site.in_(numbers))
        with self._writing() as connection:
            return connection.execute(query).rowcount


def _summed(
    connection: Connection, table: Table, site: str, *by: ColumnElement[str]
) -> dict[str, Sum]:
    query = of_site(select(*by, func.count(), func.sum(table.c.checksum)), table, site)
    records = connection.execute(query.group_by(*by))
    return {row[0] if by else table.name: (row[-2], int(row[-1] or 0)) for row in records}


def _is_sound(row: Mapping[Any, Any]) -> bool:
    try:
        checksums.require_row(schema.derived, row, "a value")
    except UnreadableError:
        return False
    return True

"""Results of commands that the dashboard shows, kept in the store of a site.

``trimtab purge horizon ... --keep SITE`` and ``trimtab whatif ... --keep SITE`` write them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from trimtab.base.error import Message, UsageError
from trimtab.base.event import new_identifier
from trimtab.base.units import plural
from trimtab.purge.horizon.horizon_answer import HorizonResult
from trimtab.site.lookup import open_site, open_store
from trimtab.store.kept import KeptResult
from trimtab.twin.scenario import Scenario
from trimtab.twin.whatif.variation import Varied
from trimtab.twin.whatif.whatif_sweep import Swept

if TYPE_CHECKING:
    from trimtab.store.store import Store


@dataclass(frozen=True, slots=True)
class WhatIfResult:
    """A sweep of the twin, without its single runs.

    Attributes
    ----------
    scenario
        Name of the scenario that was varied.
    """

    scenario: str
    seed: int
    swept: Swept


Value = TypeVar("Value", HorizonResult, WhatIfResult)
_KINDS: Final = {HorizonResult: "horizon", WhatIfResult: "what-if"}


@dataclass(frozen=True, slots=True)
class KeptValue(Generic[Value]):
    """A result as it is kept."""

    id: str
    at: datetime
    value: Value


@dataclass(frozen=True, slots=True)
class Results(Generic[Value]):
    """The results of a site, the newest first.

    Attributes
    ----------
    unread
        How many are left out, since another version kept them.
    """

    held: tuple[KeptValue[Value], ...] = ()
    unread: int = 0

    @property
    def problems(self) -> tuple[Message, ...]:
        """Why some are not shown."""
        if not self.unread:
            return ()
        text = f"{plural(self.unread, 'result')} of another version: work it out again"
        return (Message("results-unread", text),)

    def chosen(self, id_: str) -> KeptValue[Value] | None:
        """Return the result of an id, the newest where none is named.

        Raises
        ------
        UsageError
            There is none of that id.
        """
        for result in self.held:
            if id_ in ("", result.id):
                return result
        if id_:
            raise UsageError("there is no such result", code="page-unknown")
        return None


def whatif_result(scenario: Scenario, swept: Swept) -> WhatIfResult:
    """Return what is kept of a sweep."""
    rows = tuple(replace(row, combination=Varied(row.combination.settings)) for row in swept.rows)
    return WhatIfResult(scenario.name, scenario.seed, replace(swept, rows=rows, runs=()))


def keep_result(
    where: str, store_url: str | None, value: HorizonResult | WhatIfResult, at: datetime
) -> str:
    """Keep a result in the store of a site, and return the site's name.

    Parameters
    ----------
    where
        As `trimtab.site.lookup.open_site` has it.
    """
    site = open_site(where).site
    with open_store(store_url, site, create=True) as store:
        store.ensure_site(site.name, driver=site.driver, path=site.path)
        add_result(store, site.name, value, at)
    return site.name


def add_result(store: Store, site: str, value: HorizonResult | WhatIfResult, at: datetime) -> None:
    """Keep a result of a site."""
    from pydantic import TypeAdapter

    document = TypeAdapter(type(value)).dump_python(value, mode="json")
    row = KeptResult(new_identifier(at), site, _KINDS[type(value)], at, document)
    store.add_result(row)


def results_of(store: Store, site: str, kind: type[Value]) -> Results[Value]:
    """Return the results of a site."""
    from pydantic import TypeAdapter, ValidationError

    read = TypeAdapter(kind).validate_python
    held, unread = [], 0
    for row in store.results(site, _KINDS[kind]):
        try:
            held.append(KeptValue(row.id, row.at, read(row.document)))
        except ValidationError:
            unread += 1
    return Results(tuple(held), unread)

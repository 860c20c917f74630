"""The dashboard's data about its sites, all read from the store on request.

::

    request ──> Desk.remembered(site, noun, kind, make) ──same rows──> as the store keeps it
                                                     └──others──> make(), by one; the others wait

No value of a site's record outlives the rows that it rests on: an answer is right as soon as
something is written, and a server that has just started reads what the previous one computed.
Texts are held as they were read, while the sums of their rows are the same. Files of this host are
checked every `FILES_S`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from fastapi import Depends, Request

from trimtab.base.error import UsageError, visible
from trimtab.site.lookup import clock_of, site_as_kept, site_named, where_of
from trimtab.site.place import Place
from trimtab.store.kept import Keeping, RestsOn, keeping
from trimtab.store.location import PurgePlace, purge_place

if TYPE_CHECKING:
    from trimtab.base.event import Event
    from trimtab.base.run import Run
    from trimtab.base.series import SeriesJudgement
    from trimtab.explain.status import SiteState, Status
    from trimtab.probe.site_judgement import JudgedSite
    from trimtab.store.kept import KeptIncident, KeptSite, Results, ResultValue
    from trimtab.store.kept_period import Sums
    from trimtab.store.store import Store

Value = TypeVar("Value")
Runs = tuple[tuple[datetime, float | None, bool, str], ...]
"""Runs of one series by time: at, value (none if it did not finish), unfinished, run."""
LOOKS_S: Final = 1.0
"""Minimum interval between checks whether the store is still the one that was opened."""
TEXTS_MAX: Final = 32 * 2**20
"""Maximum bytes of all held texts, with their names."""
FILES_S: Final = 10.0
"""Minimum interval between reads of the files of purges."""


@dataclass(frozen=True, slots=True)
class ListedSeries:
    """A series as pages list it; ``label`` distinguishes it for readers."""

    id: str
    label: str
    probe: str
    metric: str
    apart: str
    runs: int


class Texts:
    """Texts as last read from the store, with the basis of each; only the newest.

    A long document is read and unpacked in 40 ms: too long for 50 users who ask each second.
    """

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[str, str], tuple[str, str]] = OrderedDict()
        self._lock, self._size = threading.Lock(), 0

    def get(self, key: tuple[str, str], basis: str) -> str | None:
        """Return a text; ``None`` if it is not held, or has another basis."""
        with self._lock:
            before, text = self._held.get(key, ("", None))
            if before != basis:
                return None
            self._held.move_to_end(key)
            return text

    def put(self, key: tuple[str, str], basis: str, text: str) -> None:
        """Hold a text in place of the previous one; those requested longest ago are dropped."""
        with self._lock:
            if key in self._held:
                self._size -= _size(key, self._held.pop(key)[1])
            self._held[key] = basis, text
            self._size += _size(key, text)
            while self._size > TEXTS_MAX:
                oldest, (_, of_oldest) = self._held.popitem(last=False)
                self._size -= _size(oldest, of_oldest)


def _size(key: tuple[str, str], text: str) -> int:
    """Return the bytes of a text with its name: any client can invent addresses."""
    return sum(map(sys.getsizeof, (*key, key, text))) + 200


class Desk:
    """The sites of one store.

    Parameters
    ----------
    only
        The one site that is served, with its file; ``None``: every site of the store.
    elapsed_s
        A monotonic clock.
    purges
        Key, journals and arming files of purges; default this host's.
    """

    def __init__(
        self,
        store: Store,
        only: tuple[str, Place] | None = None,
        *,
        elapsed_s: Callable[[], float] = time.monotonic,
        purges: PurgePlace | None = None,
    ) -> None:
        self.store, self._only, self._elapsed_s = store, only, elapsed_s
        self.purges = purges or purge_place()
        self._looked_at = float("-inf")
        self._seen: dict[str, Any] | None = None
        self._texts = Texts()
        self._places: dict[str, Place] = {}
        self._terms: dict[str, tuple[object, ...]] = {}
        self._making: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)
        self._states: dict[str, tuple[float, Sums | None]] = {}
        self._recent: dict[tuple[str, str], tuple[float, object, Any]] = {}

    def of_request(self) -> Desk:
        """Return a desk for one request: it reads the store's contents and sums only once."""
        view = copy(self)
        view._seen = {}
        return view

    def _once(self, noun: str, look: Callable[[], Any]) -> Any:
        if self._seen is None:
            return look()
        if noun not in self._seen:
            self._seen[noun] = look()
        return self._seen[noun]

    def sites(self) -> tuple[KeptSite, ...]:
        """Return the sites that are served."""
        return self._once("sites", self._sites)

    def _sites(self) -> tuple[KeptSite, ...]:
        now = self._elapsed_s()
        if now - self._looked_at >= LOOKS_S:
            self.store.look_again()
            self._looked_at = now
        return tuple(
            site
            for site in self.store.sites()
            if self._only is None or site.name == self._only[1].name
        )

    def place(self, name: str) -> Place:
        """Return a site that is served, with its file if it has one.

        Raises
        ------
        UsageError
            There is no such site: `code` is ``site-unknown``.
        """
        if name not in {site.name for site in self.sites()}:
            raise UsageError(f"no site {visible(name[:80])} is served here", code="site-unknown")
        if self._only is not None:
            return self._only[1]
        if name not in self._places:
            self._places[name] = Place(name, site_named(name))
        return self._places[name]

    def now(self, name: str) -> datetime:
        """Return the time by a site's own clock."""
        return clock_of(self.place(name).site)()

    # Values kept in the store

    def remembered(
        self,
        name: str,
        noun: str,
        kind: Any,
        make: Callable[[], Value],
        *tables: str,
        basis: object = None,
        besides: object = None,
    ) -> Value:
        """Return the stored value of a site, made again if its basis has changed.

        Parameters
        ----------
        noun, kind
            As for `Keeping.remembered`.
        tables
            Tables it depends on besides runs, slots, the site and its file; without any, all.
        basis
            Everything it depends on, in place of the record.
        besides
            Anything it depends on besides the record.
        """
        rests_on = self._rests_on(name, tables, besides) if basis is None else lambda _: basis
        look = self._look(name)
        basis_now = look.basis(rests_on)
        text: Any = self._texts.get((name, noun), basis_now)
        if text is not None:
            return text
        known: tuple[Value] | None = look.known(noun, kind, rests_on)
        if known is None:
            with self._making[name], keeping(self.store, name, of_short=True) as look:
                return look.remembered(noun, kind, rests_on, make)
        if isinstance(known[0], str):
            self._texts.put((name, noun), basis_now, known[0])
        return known[0]

    def held(self, name: str, noun: str, make: Callable[[], str]) -> str:
        """Return a text about a site's runs that is quickly made and not stored: there are many."""
        basis = self._look(name).basis(self._rests_on(name, ("site",)))
        text = self._texts.get((name, noun), basis)
        if text is None:
            text = make()
            self._texts.put((name, noun), basis, text)
        return text

    def _look(self, name: str) -> Keeping:
        self.place(name)
        sums = self._once(f"sums of {name}", lambda: self.store.sums(name))
        return Keeping(self.store, name, sums, of_short=True)

    def _rests_on(self, name: str, tables: tuple[str, ...], besides: object = None) -> RestsOn:
        place = self.place(name)
        if name not in self._terms:
            where = None if place.site is None else where_of(place.site)
            self._terms[name] = place, where, self.store.location
        terms = *self._terms[name], besides

        def rests_on(sums: Sums) -> object:
            names = ("site", *tables) if tables else sums.tables
            of_tables = [(name, sums.tables.get(name)) for name in sorted(names)]
            return sorted(sums.runs.items()), sorted(sums.slots.items()), of_tables, terms

        return rests_on

    def recent(
        self, noun: str, name: str, make: Callable[[], Value], basis: object = None
    ) -> Value:
        """Return a value that depends on files, made again when it is `FILES_S` old.

        Parameters
        ----------
        basis
            Anything else it depends on; if that changes, it is made again at once.
        """
        with self._making[name]:
            at, before, value = self._recent.get((noun, name), (float("-inf"), None, None))
            now = self._elapsed_s()
            if now - at >= FILES_S or before != basis:
                value = make()
                self._recent[noun, name] = now, basis, value
            return value

    def forget(self, noun: str, name: str) -> None:
        """Make a value that depends on files again at the next request."""
        self._recent.pop((noun, name), None)

    def state_of_store(self, name: str) -> object:
        """Return sums that differ if anything about a site has changed, at most `LOOKS_S` old."""
        with self._making[name]:
            at, sums = self._states.get(name, (float("-inf"), None))
            now = self._elapsed_s()
            if now - at >= LOOKS_S:
                sums = self.store.sums(name)
                self._states[name] = now, sums
            return sums

    # Values for pages and the API

    def status(self, name: str) -> Status:
        """Return the status of one site."""
        from trimtab.probe.site_status import status_of

        place = self.place(name)
        return status_of(
            self.store,
            name,
            goal=place.limits.cov,
            window_s=place.limits.window_s,
            timezone=place.timezone,
        )

    def judged(self, name: str) -> JudgedSite | None:
        """Return every series of a site judged, ``None`` if no run can be."""
        from trimtab.probe.site_judgement import judge_site
        from trimtab.probe.site_series import NOTHING_TO_JUDGE

        place = self.place(name)
        with self._making[name]:
            # Several parts of a page need it; a changed record is judged again.
            sums = self.store.sums(name)
            before, judged = (self._seen or {}).get(f"judged {name}", (None, None))
            if before == sums:
                return judged
            try:
                judged = judge_site(self.store, place)
            except UsageError as error:
                if error.code not in NOTHING_TO_JUDGE:
                    raise
            if self._seen is not None:
                self._seen[f"judged {name}"] = sums, judged
            return judged

    def state(self, name: str) -> SiteState | None:
        """Return every target as in the last stored snapshot."""
        from trimtab.probe.site_standing import standing_of

        return standing_of(self.store, self.place(name)).state

    def events(self, name: str) -> tuple[Event, ...]:
        """Return the log book of a site, the oldest first."""
        self.place(name)
        return self.store.events(site=name)

    def incidents(self, name: str) -> tuple[KeptIncident, ...]:
        """Return the incidents of the last search of a site, the newest first."""
        self.place(name)
        return self.store.incidents(name)

    def incident(self, name: str, identifier: str) -> KeptIncident:
        """Return one incident.

        Raises
        ------
        UsageError
            The site has no incident with that id.
        """
        for incident in self.incidents(name):
            if incident.id == identifier:
                return incident
        raise UsageError("no such incident", code="incident-unknown")

    def listed(self, name: str) -> tuple[ListedSeries, ...]:
        """Return the series of a site that have a page, those with most runs first."""
        from trimtab.base.text import levels_text, metric_text

        def make() -> tuple[ListedSeries, ...]:
            judged = self.judged(name)
            statuses = {entry.id: entry for entry in self.status(name).series}
            return tuple(
                ListedSeries(
                    key.id,
                    f"{key.probe} {metric_text(key.metric)} {levels_text(statuses[key.id].asked)}",
                    key.probe,
                    key.metric,
                    key.apart,
                    series.overall.n,
                )
                for series in (() if judged is None else judged.judgement.series)
                for key in [series.key]
                if key.id in statuses
            )

        return self.remembered(name, "series", tuple[ListedSeries, ...], make, "site")

    def series(self, name: str, identifier: str) -> SeriesJudgement:
        """Return one series judged, without the COV of each window.

        Raises
        ------
        UsageError
            The site has no series with that id.
        """
        from trimtab.base.series import SeriesJudgement

        def make() -> SeriesJudgement:
            return replace(self.whole_series(name, identifier), rolling=())

        return self.remembered(name, f"series {identifier}", SeriesJudgement, make, "site")

    def whole_series(self, name: str, identifier: str) -> SeriesJudgement:
        """Return one series judged; see `series`."""
        judged = self.judged(name)
        for series in () if judged is None else judged.judgement.series:
            if series.key.id == identifier:
                return series
        raise UsageError("no such series", code="series-unknown")

    def run(self, name: str, identifier: str) -> Run:
        """Return a run of a site, without its outputs.

        Raises
        ------
        UsageError
            The site has no run with that id.
        """
        self.place(name)
        run = self.store.run(identifier)
        if run.site != name:
            raise UsageError("no such run", code="run-unknown")
        return run

    def runs(self, name: str, identifier: str) -> Runs:
        """Return the runs of a series; see `series`."""

        def make() -> Runs:
            key = self.series(name, identifier).key
            history = self.store.history(name, key.comparability, metric=key.metric)
            return tuple(
                (run.at, None if run.unfinished else run.value, run.unfinished, run.run)
                for run in history
            )

        return self.remembered(name, f"runs of {identifier}", Runs, make, "site")

    # Results of commands, and values made of runs that are no series

    def results(
        self, name: str, kind: type[ResultValue], limit: int | None = None
    ) -> Results[ResultValue]:
        """Return the stored horizons, inventories or sweeps of the twin of a site."""
        from trimtab.store.kept import results_of

        self.place(name)
        return results_of(self.store, name, kind, limit=limit)

    def site(self, name: str) -> Any:
        """Return a site: from its file, else from the store."""
        of_file = self.place(name).site
        if of_file is not None:
            return of_file
        return site_as_kept(next(stored for stored in self.sites() if stored.name == name))


def _desk_of(request: Request) -> Desk:
    """Return the desk of the application, for one request."""
    return request.app.state.desk.of_request()


DeskOf = Annotated[Desk, Depends(_desk_of)]

"""What the dashboard knows of its sites: read from the store, judged once for each state of it.

::

    request ──> Desk.remembered(site, name, make) ──same mark──> value of before
                     │ Store.mark: newest rows, counts            one works it out,
                     └──another mark──> make() ──────────────────> others wait

Judging a year anew takes seconds. With ``beside`` that is done there when the store has changed,
and until it is done what is shown is the view of before, all of one state: a `_View`. With
``elsewhere`` another process works it out and keeps it in the store (`prepare`): a thread of this
one that judges holds up every request.

Nothing else is kept: after a kill values are read again from the store.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from trimtab.errors import UsageError
from trimtab.judge.ladder.build import Scale, build_ladder
from trimtab.judge.sweep import analyse_sweep, measured_points
from trimtab.loop.event_log import Place
from trimtab.loop.ladder import of_store
from trimtab.loop.overview import overview, purge_overview, target_overviews
from trimtab.loop.purging.place import PurgePlace, purge_place
from trimtab.loop.purging.plans import SitePlan, site_plans, site_runs
from trimtab.loop.results import Results, Value, WhatIfResult, results_of
from trimtab.loop.site_judgement import NOTHING_TO_JUDGE, Judged, judge_site
from trimtab.loop.sites import clock_of, site_as_kept, site_file
from trimtab.loop.standing import standing_of, with_series
from trimtab.loop.status import status_of
from trimtab.loop.stores import open_store
from trimtab.loop.sweep import StoredSweep, stored_sweep
from trimtab.loop.workers import worker_pool
from trimtab.model.overview import Overview, PurgeOverview, TargetOverview
from trimtab.model.series import SeriesJudgement
from trimtab.model.standing import SiteStanding
from trimtab.model.target import SiteState
from trimtab.report.judge_charts import panel_chart
from trimtab.report.purge import HorizonResult
from trimtab.report.render import drawn
from trimtab.visible import visible
from trimtab.web.remembering import LONG, Elsewhere, Remembering

if TYPE_CHECKING:
    import polars as pl

    from trimtab.message import Message
    from trimtab.model.event import Event
    from trimtab.model.ladder import Ladder
    from trimtab.model.status import SeriesStatus, Status, SweepStatus
    from trimtab.model.sweep import SweepAnalysis
    from trimtab.purge.report import PurgeReport
    from trimtab.record.kept import KeptIncident, Site
    from trimtab.record.store import Store
    from trimtab.report.sections import Drawings


NICE: Final = 5
"""Of the process that works out values: requests go first."""
PANELS: Final = 4


class Desk(Remembering):
    """The sites of one store.

    Parameters
    ----------
    only
        The one site that is served, with its file; ``None``: every site of the store.
    elapsed_s
        A clock that only goes forward.
    beside
        Does some work in another thread; ``None``: every value is worked out by who asks for it.
    elsewhere
        Has what `LONG` values of a site are made of kept in its store; ``None``: whoever asks for
        them works it out.
    purges
        Key, journals and arming files of purges; default this host's.
    """

    def __init__(
        self,
        store: Store,
        only: tuple[str, Place] | None = None,
        *,
        elapsed_s: Callable[[], float] = time.monotonic,
        beside: Callable[[Callable[[], object]], object] | None = None,
        elsewhere: Elsewhere | None = None,
        purges: PurgePlace | None = None,
    ) -> None:
        super().__init__(store, elapsed_s=elapsed_s, beside=beside, elsewhere=elsewhere)
        self._only = only
        self.purges = purges or purge_place()
        self._places: dict[str, Place] = {}

    def sites(self) -> tuple[Site, ...]:
        """Return the sites that are served."""
        self._look()
        return tuple(
            site
            for site in self.store.sites()
            if self._only is None or site.name == self._only[1].name
        )

    def place(self, name: str) -> Place:
        """Return a site that is served, with its file where there is one.

        Raises
        ------
        UsageError
            There is no such site: `code` is ``site-unknown``.
        """
        if name not in {site.name for site in self.sites()}:
            raise UsageError(f"no site {visible(name[:80])} is served here", code="site-unknown")
        if self._only is not None:
            return self._only[1]
        with self._lock:
            known = self._places.get(name)
        if known is None:
            known = Place(name, _site_of(name))
            with self._lock:
                self._places[name] = known
        return known

    def now(self, name: str) -> datetime:
        """Return the time by a site's own clock."""
        return clock_of(self.place(name).site)()

    # What pages and the API show

    def status(self, name: str) -> Status:
        """Return the status of one site."""
        place = self.place(name)
        limits = place.limits

        def make() -> Status:
            return status_of(self.store, name, goal=limits.cov, window_s=limits.window_s)

        return self.remembered(name, "status", make=make)

    def judged(self, name: str) -> Judged | None:
        """Return every series of a site judged, ``None`` where no run can be."""
        place = self.place(name)

        def make() -> Judged | None:
            try:
                return judge_site(self.store, place)
            except UsageError as error:
                if error.code in NOTHING_TO_JUDGE:
                    return None
                raise

        return self.remembered(name, "judged", make=make)

    def state(self, name: str) -> SiteState | None:
        """Return every target as the last stored snapshot has it."""
        return self.standing(name).state

    def standing(self, name: str) -> SiteStanding:
        """Return how a site stands, its series as they are judged."""
        place = self.place(name)

        def make() -> SiteStanding:
            judged = self.judged(name)
            if judged is None:
                return with_series(standing_of(self.store, place), self.status(name))
            return standing_of(self.store, place, judgement=judged.judgement)

        return self.remembered(name, "standing", make=make)

    def panels(self, name: str) -> Drawings:
        """Return small drawings of the first series of a site."""
        judged = self.judged(name)
        series = () if judged is None else judged.judgement.series[:PANELS]
        charts = (panel_chart(entry, f"panel{number}") for number, entry in enumerate(series))
        return self.remembered(name, "panels", make=lambda: drawn(charts))

    def targets(self, name: str) -> tuple[TargetOverview, ...]:
        """Return the targets of the last stored snapshot, those in trouble first."""
        self.place(name)

        def make() -> tuple[TargetOverview, ...]:
            state = self.state(name)
            if state is None:
                return ()
            return target_overviews(self.store, name, state, self.events(name))

        return self.remembered(name, "targets", make=make)

    def events(self, name: str) -> tuple[Event, ...]:
        """Return the log book of a site, the oldest first."""
        self.place(name)
        return self.remembered(
            name, "events", make=lambda: self.store.events(site=name), at_once=True
        )

    def overview(self, name: str) -> Overview:
        """Return a site at one glance; its clock and the watch are looked at now."""
        place, events, now = self.place(name), self.events(name), self.now(name)

        def purge() -> PurgeOverview:
            return purge_overview(place, events, now, self.purges)

        return overview(
            self.store,
            place,
            self.status(name),
            self.standing(name),
            targets=self.targets(name),
            events=events,
            now=now,
            purge=self.recent("purge", name, make=purge),
        )

    def incidents(self, name: str) -> tuple[KeptIncident, ...]:
        """Return the incidents of a site as they were last found, the newest first."""
        self.place(name)
        return self.remembered(
            name, "incidents", make=lambda: self.store.incidents(name), at_once=True
        )

    def incident(self, name: str, identifier: str) -> KeptIncident:
        """Return one incident.

        Raises
        ------
        UsageError
            There is none of that id.
        """
        for incident in self.incidents(name):
            if incident.id == identifier:
                return incident
        raise UsageError("no such incident", code="incident-unknown")

    def series(self, name: str, identifier: str) -> tuple[SeriesJudgement, pl.DataFrame]:
        """Return one series judged, and its runs.

        Raises
        ------
        UsageError
            There is none of that id.
        """
        judged = self.judged(name)
        for series in () if judged is None else judged.judgement.series:
            if series.key.id == identifier:
                assert judged is not None
                return series, judged.frames[series.key]
        raise UsageError("no such series", code="series-unknown")

    def series_ids(self, name: str) -> dict[str, SeriesStatus]:
        """Return id to status of the series of a site."""
        judged = self.judged(name)
        statuses = {entry.id: entry for entry in self.status(name).series}
        ids = [] if judged is None else [series.key.id for series in judged.judgement.series]
        return {each: statuses[each] for each in ids if each in statuses}

    # What commands worked out, and what is made of runs that are no series

    def horizons(self, name: str) -> Results[HorizonResult]:
        """Return the horizons that were kept of a site."""
        return self._results(name, "horizons", HorizonResult)

    def what_ifs(self, name: str) -> Results[WhatIfResult]:
        """Return the sweeps of the twin that were kept of a site."""
        return self._results(name, "what-ifs", WhatIfResult)

    def _results(self, name: str, noun: str, kind: type[Value]) -> Results[Value]:
        self.place(name)
        return self.remembered(
            name, noun, make=lambda: results_of(self.store, name, kind), at_once=True
        )

    def site(self, name: str) -> Any:
        """Return what is known of a site: its file, else what the store knows."""
        of_file = self.place(name).site
        if of_file is not None:
            return of_file
        return site_as_kept(next(stored for stored in self.store.sites() if stored.name == name))

    def ladder(self, name: str, scale: Scale | None = None) -> Ladder:
        """Return the ladder of the newest results of each layer."""

        def make() -> Ladder:
            return build_ladder(of_store(self.store, self.site(name)), scale=scale)

        return self.remembered(name, "ladder", scale or "", make=make)

    def sweeps(self, name: str) -> tuple[SweepStatus, ...]:
        """Return the sweeps that the store holds runs of."""
        return self.status(name).sweeps

    def sweep(
        self, name: str, sweep: str, workload: tuple[str, ...] = ()
    ) -> tuple[StoredSweep, SweepAnalysis]:
        """Return a sweep as far as it was measured, and what it shows.

        Raises
        ------
        UsageError
            There is none of that name, or a factor of the workload is none of it.
        """
        if sweep not in {entry.name for entry in self.sweeps(name)}:
            raise UsageError("no such sweep", code="sweep-unknown")

        def of_sweep() -> StoredSweep:
            make = lambda: stored_sweep(self.store, name, sweep)  # noqa: E731
            return self.remembered(name, "sweep", sweep, make=make)

        stored = of_sweep()
        if unknown := set(workload) - stored.varying:
            raise UsageError(
                f"{visible(min(unknown)[:80])} is no factor of this sweep", code="factor-unknown"
            )

        def make() -> SweepAnalysis:
            return analyse_sweep(measured_points(of_sweep().measured), workload=workload)

        return stored, self.remembered(name, "analysis", sweep, *workload, make=make)

    def plans(self, name: str) -> tuple[tuple[SitePlan, ...], tuple[Message, ...]]:
        """Return the purge plans of a site on this host, and why some are not shown."""
        place, events = self.place(name), self.events(name)

        def make() -> tuple[object, tuple[tuple[SitePlan, ...], tuple[Message, ...]]]:
            return events, site_plans(place, self.purges, events, self.now(name))

        held, plans = self.recent("plans", name, make=make)
        if held is not events:  # an approval may have come
            self.forget_plans(name)
            _, plans = self.recent("plans", name, make=make)
        return plans

    def forget_plans(self, name: str) -> None:
        """Look at the plans of a site again at the next question."""
        self.forget_recent("plans", name)

    def purge_runs(self, name: str) -> PurgeReport:
        """Return what runs of purges on this host deleted of a site."""
        place = self.place(name)
        return self.recent("purge-runs", name, make=lambda: site_runs(place, self.purges))


def _site_of(name: str) -> Any:
    loaded = site_file(name, only_sites=True)
    return None if loaded is None or loaded.site.name != name else loaded.site


def warmed(desk: Desk, most: int = 8) -> None:
    """Work out the first pages of some sites before anybody asks for them."""
    for site in desk.sites()[:most]:
        desk.overview(site.name)
        desk.judged(site.name)


def prepare(url: str, only: tuple[str, Place] | None, site: str) -> None:
    """Work out in another process what the pages of a site are made of; its store keeps it.

    Raises
    ------
    ToolError
        The process was killed.
    TrimtabError
        What working it out ended with.
    """
    with worker_pool(1, hint="restart the dashboard where there is more memory") as pool:
        pool.submit(_prepare, url, only, site).result()


def _prepare(url: str, only: tuple[str, Place] | None, site: str) -> None:
    os.nice(NICE)
    with open_store(url) as store:
        desk = Desk(store, only)
        for name in LONG:
            getattr(desk, name)(site)

"""Many incidents explained side by side: each is a question of its own, and a year has a score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from trimtab.explain.context import Context, CpuProfile, RunFact, Telemetry
from trimtab.explain.explain import explain
from trimtab.explain.incidents.integrity import BadChecksums
from trimtab.explain.site import BEGINNING, Known, context_of, standing_of
from trimtab.loop.explaining.run_facts import profile_of, run_fact
from trimtab.loop.explaining.store_telemetry import StoreTelemetry
from trimtab.loop.stores import borrowed
from trimtab.loop.workers import Together, one_by_one
from trimtab.model.incident import Assessment, Explanation, Incident

if TYPE_CHECKING:
    from trimtab.record.store import Store


Conditions = tuple[Assessment, ...]
"""What was wrong in all of a record."""


@dataclass(slots=True)
class _Asking:
    """Notes which snapshots a context asks for, and gives none of them yet."""

    source: StoreTelemetry
    asked: tuple[datetime, ...] = ()

    def times(self, since: datetime, until: datetime) -> Sequence[datetime]:
        """Return the times of the snapshots within a stretch."""
        return self.source.times(since, until)

    def frames(self, times: Sequence[datetime]) -> Telemetry:
        """Return snapshots of no time."""
        self.asked = tuple(times)
        return self.source.frames(())


@dataclass(frozen=True, slots=True)
class _OfIncident:
    """One incident with what is known of its hours, but for the snapshots: those are read last."""

    url: str
    site: str
    context: Context
    times: tuple[datetime, ...]

    def answer(self) -> Explanation:
        """Return why it came about."""
        telemetry = StoreTelemetry(borrowed(self.url), self.site).frames(self.times)
        return explain(replace(self.context, telemetry=telemetry))


@dataclass(frozen=True, slots=True)
class _Standing:
    """What was wrong in all of the record: its first days beside its last."""

    url: str
    known: Known

    def answer(self) -> Conditions:
        """Return those conditions."""
        source = StoreTelemetry(borrowed(self.url), self.known.site)
        return standing_of(self.known, source)


@dataclass(frozen=True, slots=True)
class Checksums:
    """Whether transfers had bad checksums, in all of a site's snapshots."""

    url: str
    site: str

    def answer(self) -> tuple[BadChecksums, ...]:
        """Return by how much the counters grew, and when."""
        store = borrowed(self.url)
        times = store.snapshot_times(self.site)
        source = StoreTelemetry(store, self.site)
        return source.bad_checksums(times[0], times[-1]) if times else ()


@dataclass(frozen=True, slots=True)
class Facts:
    """What the runs of a site tell, and the profiles of its servers."""

    url: str
    site: str
    until: datetime | None

    def answer(self) -> tuple[tuple[RunFact, ...], tuple[CpuProfile, ...]]:
        """Return both by time."""
        kept = borrowed(self.url).runs_between(self.site, until=self.until)
        profiles = [profile_of(run) for run, _ in kept]
        facts = (
            run_fact(run, series)
            for (run, series), profile in zip(kept, profiles, strict=True)
            if profile is None
        )
        return (
            tuple(one for one in facts if one is not None),
            tuple(one for one in profiles if one is not None),
        )


def explain_all(
    store: Store,
    incidents: Sequence[Incident],
    known: Known,
    *,
    others: Sequence[Incident],
    together: Together = one_by_one,
) -> Iterator[Explanation]:
    """Begin to explain incidents, and return what yields why they came about, in their order.

    Parameters
    ----------
    others
        All that are known of, whose hours are no good ones.
    together
        Answers for all of them, side by side where there is more than one processor.
    """
    source = StoreTelemetry(store, known.site)

    def questions() -> Iterator[_OfIncident]:
        for incident in incidents:
            asking = _Asking(source)
            context = context_of(incident, known, asking, others=others)
            yield _OfIncident(store.location.url, known.site, context, asking.asked)

    return together(questions())


def ask_for_standing(store: Store, known: Known, together: Together) -> Iterator[Conditions]:
    """Begin to look for what was wrong all along, and return what yields it."""
    return together([_Standing(store.location.url, _at_its_ends(known))])


def _at_its_ends(known: Known) -> Known:
    """Return what is known of the first and the last days alone."""
    import polars as pl

    first, last = known.record_from + BEGINNING, known.now - BEGINNING
    return replace(
        known,
        series={},
        surveys=known.surveys.filter((pl.col("at") <= first) | (pl.col("at") >= last)),
        runs=tuple(run for run in known.runs if run.at <= first or run.at >= last),
    )

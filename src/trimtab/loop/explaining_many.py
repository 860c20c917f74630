"""Many incidents explained side by side: each is a question of its own, and a year has a score."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trimtab.explain.explain import explain
from trimtab.explain.site import Known, context_of, standing_of
from trimtab.loop.store_telemetry import StoreTelemetry
from trimtab.loop.stores import open_store
from trimtab.loop.workers import processors, worker_pool
from trimtab.model.incident import Assessment, Explanation, Incident

if TYPE_CHECKING:
    from trimtab.record.store import Store

FEW: Final = 6
"""Up to so many are explained here: a worker takes a second to begin."""
_HINT: Final = "--since leaves out what is long past, and takes less memory"

Explained = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class _Work:
    """What every worker is given."""

    known: Known
    incidents: tuple[Incident, ...]
    others: tuple[Incident, ...]
    standing: tuple[Assessment, ...]
    source: StoreTelemetry

    def explained(self, place: int) -> Explanation:
        """Return the explanation of one incident."""
        incident = self.incidents[place]
        context = context_of(incident, self.known, self.source, others=self.others)
        return explain(context, standing=self.standing)


def explain_all(
    store: Store,
    incidents: Sequence[Incident],
    known: Known,
    source: StoreTelemetry,
    *,
    others: Sequence[Incident] | None = None,
    done: Explained = lambda count: None,
) -> tuple[tuple[Explanation, ...], tuple[Assessment, ...]]:
    """Return an explanation for each incident, in their order, and what was wrong all along.

    Parameters
    ----------
    others
        All that are known of, whose hours are no good ones; ``incidents`` where ``None``.
    done
        Called with how many are explained.

    Raises
    ------
    ToolError
        A worker was killed.
    """
    standing = standing_of(known, source)
    known_of = tuple(incidents if others is None else others)
    work = _Work(known, tuple(incidents), known_of, standing, source)
    places = range(len(incidents))
    workers = min(processors(), len(incidents) // (FEW // 2))
    found: list[Explanation] = []
    if len(incidents) <= FEW or workers < 2:
        for place in places:
            found.append(work.explained(place))
            done(len(found))
        return tuple(found), standing
    given = (store.location.url, known, work.incidents, known_of, standing)
    with _one_thread_each(), worker_pool(workers, hint=_HINT, begin=_begin, given=given) as pool:
        for one in pool.map(_explained, places):
            found.append(one)
            done(len(found))
    return tuple(found), standing


_work: list[_Work] = []  # of a worker process: one


def _begin(
    url: str,
    known: Known,
    incidents: tuple[Incident, ...],
    others: tuple[Incident, ...],
    standing: tuple[Assessment, ...],
) -> None:
    source = StoreTelemetry(open_store(url), known.site)
    _work[:] = [_Work(known, incidents, others, standing, source)]


def _explained(place: int) -> Explanation:
    return _work[0].explained(place)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let workers that begin now use one thread each: there is one for each processor."""
    before = os.environ.get(_THREADS)
    os.environ[_THREADS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_THREADS]
        else:
            os.environ[_THREADS] = before


_THREADS: Final = "POLARS_MAX_THREADS"

"""A site with a few series, surveys and entries, put into a store: what a property test draws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from trimtab.base.event import Event, identifier_of
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.store.store import Store

SITE = "small"
START = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday
HOUR = timedelta(hours=1)

Survey = tuple[datetime, Mapping[str, Mapping[str, float | None]]]
"""When it was made; metric to target to value, ``None`` where nothing came back."""


def hour(number: float) -> datetime:
    """Return the time so many hours after the start."""
    return START + number * HOUR


@dataclass
class SmallSite:
    """What a small site recorded.

    Attributes
    ----------
    series
        Metric to the values of the hourly runs, B/s; NaN: the run did not finish.
    surveys
        Of single targets.
    """

    series: Mapping[str, np.ndarray] = field(default_factory=dict)
    surveys: Sequence[Survey] = ()
    events: Sequence[Event] = ()

    def keep(self, path: Path) -> Path:
        """Put it into a new store and return its path."""
        with Store.open(path) as store:
            store.ensure_site(SITE, driver="lustre", identity=f"lustre:{SITE}", path=f"/{SITE}")
            store.add_runs([*self._runs(), *self._surveys()])
            for event in self.events:
                store.add_event(event)
        return path

    def _runs(self) -> Iterable[Run]:
        count = max((len(values) for values in self.series.values()), default=0)
        for number in range(count):
            values = {name: float(row[number]) for name, row in self.series.items()}
            lost = any(np.isnan(value) for value in values.values())
            yield Run(
                id=identifier_of(hour(number), "hourly"), site=SITE, probe="hourly", kind="ior",
                status=RunStatus.UNFINISHED if lost else RunStatus.OK,
                at=hour(number), until=hour(number) + timedelta(minutes=4),
                parameters={"spec": {"name": "hourly", "nodes": 4, "tasks": 32}},
                samples=()
                if lost
                else tuple(Sample(name, value, 0) for name, value in values.items()),
            )  # fmt: skip

    def _surveys(self) -> Iterable[Run]:
        for at, metrics in self.surveys:
            yield Run(
                id=identifier_of(at, "survey"), site=SITE, probe="survey",
                kind="obdfilter-survey", status=RunStatus.OK, at=at, until=at + HOUR / 2,
                parameters={"spec": {"name": "survey"}},
                samples=tuple(
                    Sample(metric, value, 0, target=target,
                           reason="nothing came back" if value is None else None)
                    for metric, targets in metrics.items()
                    for target, value in targets.items()
                ),
            )  # fmt: skip

"""Where things stand, from what is kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from trimtab.model.run import Run
from trimtab.model.verdict import Trend, Verdict


@dataclass(frozen=True, slots=True)
class SeriesStatus:
    """Where one series of comparable runs stands: one metric of one probe.

    Attributes
    ----------
    last_at, last_value
        Of the last run, in the metric's unit.
    """

    site: str
    probe: str
    kind: str
    runs: int
    last_at: datetime
    last_value: float
    verdict: Verdict
    trend: Trend


@dataclass(frozen=True, slots=True)
class Status:
    """Where things stand: every series, and the last runs whatever they were.

    ``window_s`` is the stretch, up to the last run of a series, that its verdict is about.
    """

    store: str
    window_s: float
    sites: tuple[str, ...]
    series: tuple[SeriesStatus, ...]
    last_runs: tuple[Run, ...]

"""Runs of an incident that measured nothing: those of the broken probe.

An incident of runs that failed, did not start or are not believed shows in no series
(`trimtab.explain.incidents.failures`); the other probes of those hours may be as well as ever.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from trimtab.explain.causes.runs import of_incident
from trimtab.explain.context import Context, RunFact
from trimtab.message import code_of
from trimtab.model.run import METRIC_UNITS, RunStatus

Runs = tuple[RunFact, ...]
TELL_NOTHING: Final = (RunStatus.NOT_STARTED, RunStatus.FAILED, RunStatus.INVALID_WORKLOAD)


def runs_of_probe(context: Context) -> tuple[Runs, Runs]:
    """Return the bad runs and the good ones of the incident's series.

    Where it shows in no series they are those of the probe with the largest share of bad runs
    that tell nothing; of all probes where every run tells something.
    """
    bad, good = (of_incident(context, bad=side) for side in (True, False))
    if context.incident.key is not None:
        return bad, good
    probes = sorted({run.probe for run in bad})
    shares = {probe: _silent_share([run for run in bad if run.probe == probe]) for probe in probes}
    worst = max(probes, key=lambda probe: shares[probe], default=None)
    if worst is None or shares[worst][0] == 0:
        return bad, good
    return tuple(run for run in bad if run.probe == worst), tuple(
        run for run in good if run.probe == worst
    )


def has_figure(run: RunFact, metric: str | None) -> bool:
    """Return whether a run has a believed figure: of a metric, or of any but amounts of bytes."""
    if metric is not None:
        return metric in run.values
    return any(METRIC_UNITS.get(name) != "B" for name in run.values)


def metric_of(context: Context) -> str | None:
    """Return the metric in which the incident shows; ``None`` where it shows in none."""
    return None if context.incident.key is None else context.incident.key.metric


def says(text: str | None, codes: Collection[str], words: re.Pattern[str]) -> bool:
    """Return whether a problem or a reason has one of these codes.

    Words decide for what was read from a store, which keeps no code, and for what another
    program printed.
    """
    return code_of(text) in codes or words.search(text or "") is not None


def _silent_share(runs: Sequence[RunFact]) -> tuple[float, int]:
    silent = sum(run.status in TELL_NOTHING or bool(run.disbelieved) for run in runs)
    return silent / len(runs), silent

"""Runs that did not measure the file system: not started, failed, another workload, cached.

They are incidents all the same: while they last nothing is monitored, and a site that does not
notice mistakes a broken probe for a slow file system (Edison in 2017 [S9, errata]).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from trimtab.explain.context import RunFact
from trimtab.explain.incidents.spell import Spell, apart, grouped
from trimtab.model.incident import Shape
from trimtab.model.run import RunStatus
from trimtab.model.series import ChangeStatus
from trimtab.units import plural

BROKEN: Final = {RunStatus.FAILED: "failed", RunStatus.NOT_STARTED: "did not start"}
_USELESS: Final = {
    **BROKEN,
    RunStatus.INVALID_WORKLOAD: "ran another workload than requested",
}
_DOUBTED: Final = "gave figures that are not credible"
_DOUBTED_LEAST: Final = 4
"""Runs in a group. A single doubtful run is left out of the verdict; no more is needed."""
_DEPTH: Final = 30.0
"""Deeper than any slow run: where nothing was measured, nothing else can be reported."""
_STANDS: Final = timedelta(days=2)


def failures(runs: Sequence[RunFact]) -> list[Spell]:
    """Return stretches of runs without a usable figure, by probe and reason."""
    sorts: dict[tuple[str, str], list[RunFact]] = {}
    last: dict[str, datetime] = {}
    spacing: dict[str, list[datetime]] = {}
    for run in sorted(runs, key=lambda run: run.at):
        last[run.probe] = run.at
        spacing.setdefault(run.probe, []).append(run.at)
        why = _why(run)
        if why is not None:
            sorts.setdefault((run.probe, why), []).append(run)
    return [
        _spell(probe, why, group, goes_on=group[-1].at == last[probe])
        for (probe, why), broken in sorts.items()
        for group in grouped(broken, lambda run: run.at, apart(spacing[probe]))
        if why != _DOUBTED or len(group) >= _DOUBTED_LEAST
    ]


def _why(run: RunFact) -> str | None:
    if run.status in _USELESS:
        return _USELESS[run.status]
    return _DOUBTED if run.disbelieved else None


def _spell(probe: str, why: str, group: Sequence[RunFact], *, goes_on: bool) -> Spell:
    first, last = group[0].at, group[-1].at
    return Spell(
        shape=Shape.STEP if goes_on and last - first >= _STANDS else Shape.DIP,
        key=None,
        name=probe,
        at=first,
        until=None if goes_on else last,
        last=last,
        detected_at=first,
        certainty=ChangeStatus.CONFIRMED,
        depth=_DEPTH,
        what=f"{plural(len(group), 'run')} {why}",
        runs=len(group),
        is_broken=why in BROKEN.values(),
    )

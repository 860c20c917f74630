"""Stored runs without a figure that may be judged: how many, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trimtab.model.grouping import grouped
from trimtab.model.run import Run, RunStatus
from trimtab.units import plural

_SHOWN = 3
_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")


@dataclass(frozen=True, slots=True)
class Doubt:
    """A reason why runs have no credible figure, and the number of such runs.

    Numbers in ``reason`` are those of one of the runs.
    """

    reason: str
    runs: int


def doubts(runs: Iterable[Run]) -> tuple[Doubt, ...]:
    """Return why runs have no credible figure, most frequent reason first.

    A run counts once, for the reason shared by most of its figures. An unfinished run has a figure:
    it counts as 0.
    """
    reasons = (reason for run in runs if (reason := _why(run)) is not None)
    # "it ran 304 ms" and "it ran 298 ms" are one reason.
    by_pattern = grouped(reasons, lambda reason: _NUMBER.sub("0", reason))
    ordered = sorted(by_pattern.values(), key=lambda alike: (-len(alike), alike[0]))
    return tuple(Doubt(alike[0], len(alike)) for alike in ordered)


def doubts_text(reasons: Sequence[Doubt]) -> str:
    """Return the reasons as one text: ``served from the page cache (10 runs), ...``.

    Examples
    --------
    >>> doubts_text([Doubt("too short", 2), Doubt("cached", 1)])
    'too short (2 runs), cached (1 run)'
    """
    shown = [f"{doubt.reason} ({plural(doubt.runs, 'run')})" for doubt in reasons]
    if len(shown) > _SHOWN:
        shown[_SHOWN:] = [f"and {len(shown) - _SHOWN} other reasons"]
    return ", ".join(shown)


def _why(run: Run) -> str | None:
    """Return why nothing of a run is credible; ``None`` if something is."""
    if run.status is RunStatus.UNFINISHED:
        return None
    if run.status not in (RunStatus.OK, RunStatus.PARTIAL):
        return f"{run.status.value}: {run.problem}" if run.problem else run.status.value
    totals = [sample for sample in run.samples if sample.is_total]
    # Bytes moved are the request, not an achievement.
    figures = [total for total in totals if total.unit != "B"]
    if any(figure.believed for figure in figures):
        return None
    reasons = Counter(figure.reason for figure in figures if figure.reason is not None)
    if not reasons:
        return run.problem or "it has no figure of the whole"
    return reasons.most_common(1)[0][0]

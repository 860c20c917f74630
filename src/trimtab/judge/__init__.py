"""Statistics: plain numbers in, verdicts out. No I/O, no clock, no process.

`series` says everything of one series, `targets` of surveys of single targets, `correlate` which
telemetry moves with performance, `before_after` what a change did, `validity` which runs are not
to be judged, `sensitivity` what an instrument could have noticed, `changes` when a level changed.

`credibility` decides whether a repetition is to be believed, `variability` judges repetitions
and history against the goal, `comparison` sets a run beside earlier ones, `trend` says where a
series is heading. `quantiles` and `spread` hold the formulas they share.

Functions whose name is not that of their module are here by name, looked up when they are used: the
commands that answer at once come through here too. The others are imported from where they are:
``from trimtab.judge.correlate import correlate``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trimtab.judge.changes import find_changes, suspect_now
    from trimtab.judge.correlate import rate_of
    from trimtab.judge.frame import frame_of
    from trimtab.judge.sensitivity import probe_limit, survey_limit
    from trimtab.judge.series import judge_series
    from trimtab.judge.targets.lower_tail import expected_minimum
    from trimtab.judge.targets.median_polish import robust_residuals
    from trimtab.judge.targets.tails import target_tails
    from trimtab.judge.validity import invalid_runs, workloads

_HOMES: Final = {
    "expected_minimum": "targets.lower_tail",
    "find_changes": "changes",
    "frame_of": "frame",
    "invalid_runs": "validity",
    "judge_series": "series",
    "probe_limit": "sensitivity",
    "rate_of": "correlate",
    "robust_residuals": "targets.median_polish",
    "survey_limit": "sensitivity",
    "suspect_now": "changes",
    "target_tails": "targets.tails",
    "workloads": "validity",
}

__all__ = [
    "expected_minimum",
    "find_changes",
    "frame_of",
    "invalid_runs",
    "judge_series",
    "probe_limit",
    "rate_of",
    "robust_residuals",
    "survey_limit",
    "suspect_now",
    "target_tails",
    "workloads",
]


def __getattr__(name: str) -> object:
    """Return a public function, loading the module that holds it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

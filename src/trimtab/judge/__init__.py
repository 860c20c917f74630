"""Statistics: plain numbers in, verdicts out. No I/O, no clock, no process.

It judges series, comparisons, sweeps, the efficiency of layers and surveys of single targets. It
does not load what it judges (`probe`), and it names no cause (`explain`).

The functions below are available here and loaded on first use, because fast commands import this
package too. Import everything else from its module:
``from trimtab.judge.correlation import correlate``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trimtab.judge.change import find_changes
    from trimtab.judge.correlation import rate_of
    from trimtab.judge.effect_size import probe_limit, survey_limit
    from trimtab.judge.lower_tail import expected_minimum
    from trimtab.judge.series_analysis import judge_series
    from trimtab.judge.series_frame import frame_of
    from trimtab.judge.straggler import target_tails

_HOMES: Final = {
    "expected_minimum": "lower_tail",
    "find_changes": "change",
    "frame_of": "series_frame",
    "judge_series": "series_analysis",
    "probe_limit": "effect_size",
    "rate_of": "correlation",
    "survey_limit": "effect_size",
    "target_tails": "straggler",
}

__all__ = [
    "expected_minimum",
    "find_changes",
    "frame_of",
    "judge_series",
    "probe_limit",
    "rate_of",
    "survey_limit",
    "target_tails",
]


def __getattr__(name: str) -> object:
    """Load the module that defines a public function and return the function."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

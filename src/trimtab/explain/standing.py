"""Conditions that were wrong in all of the record: no contrast in time can clear or convict them.

At NERSC trims were too rare, thresholds were the defaults and writeback throttling was on in
every hour of 2023 (seed 000, IV): whoever held bad hours against good ones alone would have
cleared all three. What decides about such a condition is an experiment on one target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trimtab.explain.causes import TABLE
from trimtab.explain.causes.cause import Cause
from trimtab.explain.context import Context
from trimtab.explain.ranking import Weighed, assessment, weigh
from trimtab.model.incident import Assessment, Found, Route

_LEAST: Final = 0.3
"""log10 of the evidence from which a condition is listed: it was found, and it misses what is
expected. Whether it costs anything is not known: that is what the experiment is for."""


def standing_conditions(
    first: Context, last: Context, *, table: Sequence[Cause] = TABLE
) -> tuple[Assessment, ...]:
    """Return the conditions that were there when the record began and are there now.

    Parameters
    ----------
    first, last
        The beginning of the record and its end, each as the bad stretch of a context without
        good hours: what is wrong shows against expectations and between targets alone.
    """
    found = []
    for cause in table:
        begun, now = (
            weigh(cause, cause.assess(context), has_beginning=False) for context in (first, last)
        )
        if _is_there(begun) and _is_there(now):
            found.append(now)
    ranked = sorted(found, key=lambda one: (-one.log_odds, one.cause.id))
    return tuple(assessment(one, standing=True) for one in ranked)


def _is_there(one: Weighed) -> bool:
    expected = [
        piece.weight
        for piece in one.evidence
        if piece.found is Found.FOR and piece.route is Route.EXPECTED
    ]
    return bool(expected) and max(expected) >= _LEAST and one.own >= _LEAST

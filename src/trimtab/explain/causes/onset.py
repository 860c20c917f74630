"""When an incident began, as far as its runs tell, and what they were before a time. Pure."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from statistics import median
from typing import Final

import numpy as np

from trimtab.explain.causes.evidence import levels, of_incident, onset_within, value_of
from trimtab.explain.context import Context
from trimtab.judge.array import scatter

_SAME_DAY: Final = timedelta(hours=12)
_APART: Final = 4.0
"""Standard errors between the usual level and the bad one, so that half way tells them apart: two
to either side."""
_LEAST: Final = 0.01
_LEVEL_LEAST: Final = 8
"""Fewest runs for a usual level and its noise."""


def onset_of(context: Context) -> tuple[datetime, datetime]:
    """Return the interval within which the incident began."""
    incident = context.incident
    within = onset_within(context)
    return incident.onset or (incident.at - within, incident.at + within)


def length_of(context: Context) -> timedelta:
    """Return the time in which chance may put a change at the onset.

    That of its interval; where there is none, the time before the first bad run.
    """
    begins, ends = onset_of(context)
    return ends - begins if context.incident.onset is not None else context.incident.at - begins


def down_before(context: Context, at: datetime) -> bool:
    """Return whether runs were already at the bad level before a time.

    What changed then did not start the incident. As many runs are asked for as noise of this size
    needs to tell the levels apart; too few say nothing, and nor does an effect that is unknown,
    except long after the onset.
    """
    before = [
        value
        for run in of_incident(context, bad=True)
        if run.at < at and (value := value_of(context, run)) is not None
    ]
    good = levels(context, of_incident(context, bad=False))
    effect = context.incident.effect
    if effect is None or not 0 <= effect < math.inf or effect == 1 or len(good) < _LEVEL_LEAST:
        return at - context.incident.at > _SAME_DAY
    needed = (_APART * scatter(np.log(good)) / math.log(max(effect, _LEAST))) ** 2
    if len(before) < max(1.0, needed):
        return at - context.incident.at > _SAME_DAY
    half = 1 + (effect - 1) / 2
    reached = median(before) / median(good)
    return reached < half if effect < 1 else reached > half

"""When an incident began, and whether runs were already bad before a time. Pure."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from statistics import median
from typing import Final

import numpy as np

from trimtab.explain.causes.evidence import levels, of_incident, onset_within, value_of
from trimtab.explain.context import Context
from trimtab.judge.array import scatter

SAME_DAY: Final = timedelta(hours=12)
_APART: Final = 4.0
"""Standard errors between the usual and the bad level: two on either side of the midpoint."""
_LEAST: Final = 0.01
"""Smallest effect of which a logarithm is taken."""
_LEVEL_LEAST: Final = 8
"""Fewest runs for a usual level and its noise."""


def onset_of(context: Context) -> tuple[datetime, datetime]:
    """Return the interval within which the incident began."""
    incident = context.incident
    within = onset_within(context)
    return incident.onset or (incident.at - within, incident.at + within)


def length_of(context: Context) -> timedelta:
    """Return the length of time within which a change coincides with the onset by chance.

    That of the onset's interval; without one, of the part before the first bad run.
    """
    begins, ends = onset_of(context)
    return ends - begins if context.incident.onset is not None else context.incident.at - begins


def down_before(context: Context, at: datetime) -> bool:
    """Return whether runs were already at the bad level before a time.

    What changed later than that did not start the incident. It takes as many runs as noise of this
    size needs to separate the levels. With fewer, or if the effect is unknown, only a time long
    after the first bad run counts.
    """
    before = [
        value
        for run in of_incident(context, bad=True)
        if run.at < at and (value := value_of(context, run)) is not None
    ]
    good = levels(context, of_incident(context, bad=False))
    effect = context.incident.effect
    if effect is None or not 0 <= effect < math.inf or effect == 1 or len(good) < _LEVEL_LEAST:
        return at - context.incident.at > SAME_DAY
    needed = (_APART * scatter(np.log(good)) / math.log(max(effect, _LEAST))) ** 2
    if len(before) < max(1.0, needed):
        return at - context.incident.at > SAME_DAY
    half = 1 + (effect - 1) / 2
    reached = median(before) / median(good)
    return reached < half if effect < 1 else reached > half

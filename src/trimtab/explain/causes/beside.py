"""Evidence that counts only beside other: the shape of an incident, the metric it is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trimtab.model.incident import Evidence, Found


def beside(evidence: Sequence[Evidence], circumstance: Evidence) -> tuple[Evidence, ...]:
    """Return the evidence with a circumstance, which weighs nothing where all else is missing.

    An incident always has a shape and mostly a metric. Where nothing else could be seen the cause
    was not assessed, and a circumstance must not make it look as if it had been.
    """
    if all(piece.found in (Found.NOT_AVAILABLE, Found.NEUTRAL) for piece in evidence):
        circumstance = replace(circumstance, found=Found.NEUTRAL, weight=0.0)
    return (*evidence, circumstance)

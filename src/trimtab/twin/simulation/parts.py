"""Parts of an epoch: gating and the layout beneath pass a long one in several."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from trimtab.twin.scenario.model import Gating
from trimtab.twin.simulation.measures import OstTerms
from trimtab.twin.simulation.traffic import Layers, Moved

Array = NDArray[np.float64]


@dataclass(slots=True)
class Flow:
    """What went through an epoch, bytes on one OST of each column.

    Attributes
    ----------
    moved
        When each probe began, and what it moved.
    terms
        How the OSTs are in this epoch, once somebody asked.
    layers
        What they and the clients carry in the part that is under way.
    """

    written: Array
    deleted: Array
    purged: Array
    moved: list[tuple[datetime, Moved]] = field(default_factory=list)
    terms: OstTerms | None = None
    layers: Layers | None = None


def spans(start: datetime, end: datetime, parts: int) -> Iterator[datetime]:
    """Yield both ends, and between them what divides the time into so many parts."""
    yield from (start + (end - start) * part / parts for part in range(parts))
    yield end


def looks(
    start: datetime, end: datetime, gating: Gating, closed: NDArray[np.bool_], fullest: Array
) -> Sequence[datetime]:
    """Return an epoch's ends, and between them the times at which gating may change something.

    Parameters
    ----------
    closed
        By gating, each column.
    fullest
        How full each may be at the end.
    """
    parts = math.ceil((end - start).total_seconds() / gating.every_s - 1e-9)
    if parts <= 1 or not (closed | (fullest > gating.limit)).any():
        return (start, end)
    return tuple(spans(start, end, parts))

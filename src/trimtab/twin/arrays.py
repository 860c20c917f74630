"""Array types of the twin by content; most have one value per column or drive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OstRates:
    """Writes and reads of each OST, bytes/s: its own capability, or users' demand."""

    write: Array
    read: Array

"""What is written and deleted, and in which order: the same for a kernel and for its model."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import log

LARGEST_BLOCKS = 65536
MEDIAN_BLOCKS = 64
SIGMA = 2.2


@dataclass(frozen=True, slots=True)
class Phase:
    """Files that come and go until a fullness is reached and every group was written again.

    Attributes
    ----------
    fullness
        Part of the blocks that holds data at its end.
    events
        A new file of so many blocks where positive; where not, the file of that number, negated,
        goes. Files are numbered from 0 in the order in which they come.
    """

    fullness: float
    measured: bool
    events: list[int]


def phases(
    blocks: int, steps: list[float], churn: float, seed: int, smallest: int = 1
) -> Iterator[Phase]:
    """Yield for each step what ages the file system at that fullness, and what is measured there.

    Parameters
    ----------
    blocks
        Of the whole file system.
    steps
        Fullness of each step, growing, 0..1.
    churn
        Capacities that are written to age it at a step, and once more to measure.
    smallest
        Blocks that a file has at least.
    """
    draws = random.Random(seed)
    sizes: list[int] = []
    living: list[int] = []
    used = 0
    for fullness in steps:
        for measured in (False, True):
            events: list[int] = []
            left = churn * blocks
            while left > 0:
                size = max(smallest, _size(draws))
                while living and used + size > fullness * blocks:
                    place = draws.randrange(len(living))
                    living[place], living[-1] = living[-1], living[place]
                    gone = living.pop()
                    used -= sizes[gone]
                    events.append(-gone)
                # The way up to a fullness does not count as churn at it.
                left -= size if used + size > 0.98 * fullness * blocks else 0
                living.append(len(sizes))
                sizes.append(size)
                used += size
                events.append(size)
            yield Phase(fullness, measured, events)


def _size(draws: random.Random) -> int:
    size = round(draws.lognormvariate(log(MEDIAN_BLOCKS), SIGMA))
    return min(LARGEST_BLOCKS, max(1, size))

"""Steps as large as the ratio of two units: MB read as KB, MiB as MB.

Nothing else shifts a level by exactly 1000. A step of 2.4 % may well be one of performance, so
small factors are reported only if the ratio is known far more precisely than that.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trimtab.model.verdict import Interval

LARGE: Final = {
    f"{base:,}{power}": float(base) ** exponent
    for exponent, power in ((1, ""), (2, " squared"), (3, " cubed"))
    for base in (1000, 1024)
}
SMALL: Final = {f"{ratio:g}": ratio for ratio in (1.024, 1.048576)}
"""1024 over 1000, and its square: KiB and KB, MiB and MB."""

_SLACK: Final = 0.03
"""Relative: an interval is sometimes too narrow, and runs with so large a factor have none."""
_NEAR: Final = 0.15
"""Maximum distance of a large factor, in logarithms, if the interval is wide or missing."""
_NEAR_SMALL: Final = 0.06
"""Maximum distance of a small factor, as a share of its logarithm."""
_NARROW: Final = 0.25
"""Maximum half-width of a small factor's interval, as a share of its logarithm."""


def unit_change(effect: float, interval: Interval | None) -> str | None:
    """Return the possible change of unit for a ratio of levels as text; ``None``: none.

    Examples
    --------
    >>> unit_change(0.00101, None)
    'the unit seems to have changed: 1/1,000 or 1/1,024 of before'
    >>> unit_change(0.83, None) is None
    True
    """
    if effect <= 0:
        return None
    ratio = max(effect, 1 / effect)
    low, high = _range(effect, interval)
    names = [
        name
        for name, factor in LARGE.items()
        if low * (1 - _SLACK) <= factor <= high * (1 + _SLACK)
        and abs(math.log(ratio / factor)) <= _NEAR
    ]
    if interval is not None:
        names += [
            name
            for name, factor in SMALL.items()
            if abs(math.log(ratio / factor)) <= _NEAR_SMALL * math.log(factor)
            and math.log(high / low) <= 2 * _NARROW * math.log(factor)
        ]
    if not names:
        return None
    part = [f"1/{name}" if effect < 1 else f"{name} times" for name in names]
    return f"the unit seems to have changed: {' or '.join(part)} of before".replace(
        "times of before", "times what it was"
    )


def _range(effect: float, interval: Interval | None) -> tuple[float, float]:
    """Return the range of the ratio, inverted if needed so that it is above 1."""
    if interval is None or interval.low <= 0:
        ratio = max(effect, 1 / effect)
        return ratio * math.exp(-_NEAR), ratio * math.exp(_NEAR)
    if effect < 1:
        return 1 / interval.high, 1 / interval.low
    return interval.low, interval.high

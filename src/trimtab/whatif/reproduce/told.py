"""A row of the table with what several seeds say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from trimtab.twin.calibration import Row, Target, row
from trimtab.twin.targets import TIMED
from trimtab.whatif.reproduce.stated import STATED

TARGETS: Final[Mapping[str, Target]] = {target.id: target for target in (*TIMED, *STATED)}
"""Every statement that needs time, or that is only shown."""


@dataclass(frozen=True, slots=True)
class Told:
    """A row, and how far the runs of several seeds lie apart.

    Attributes
    ----------
    row
        Its twin's value is the mean over seeds.
    low, high
        Least and greatest of them; ``None`` of fewer than two runs, and of what has no chance in
        it.
    """

    row: Row
    low: float | None = None
    high: float | None = None


def told(
    id: str, values: Sequence[float | None], note: str = "", *, fitted: str | None = None
) -> Told:
    """Return a statement beside what the twin's runs say.

    Parameters
    ----------
    id
        Of a target in `TARGETS`.
    values
        One a run; ``None``: the run did not come that far.
    note
        What the number rests on.
    fitted
        Which assumption of a scenario, or which constant, was chosen so that the row is met;
        ``None``: nothing was.
    """
    known = [float(one) for one in values if one is not None]
    parts = [note] if note else []
    if fitted is not None:
        parts.append(f"fitted by {fitted}")
    if values and not known:
        parts.append("no run came that far")
    found = row(
        TARGETS[id], fmean(known) if known else None, "; ".join(parts), fitted=fitted is not None
    )
    if len(known) < 2 or min(known) == max(known):
        return Told(found)
    return Told(found, min(known), max(known))

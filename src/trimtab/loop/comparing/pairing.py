"""Which series of one side belongs to which of the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from trimtab.loop.comparing.sides import Group
from trimtab.model.compare import Difference

Pair = tuple[Group, Group]

_BEGINNING = datetime.min.replace(tzinfo=UTC)


def pairs(before: Sequence[Group], after: Sequence[Group]) -> list[Pair]:
    """Return the series that belong together, each in one pair at most.

    Those with the same probe, benchmark and parameters come first: two times or two systems. Of
    the rest those of the same probe and benchmark, the fewest differing parameters first, then
    the newest: two settings. A benchmark that each side has just one series left of is paired
    under whatever name of the probe.
    """
    left, right = list(before), list(after)
    found: list[Pair] = []
    for fits in (_equal, _same_probe, _same_asked):
        for pair in sorted(
            ((a, b) for a in left for b in right if fits(a, b) and _shared(a, b)), key=_distance
        ):
            if pair[0] in left and pair[1] in right:
                found.append(pair)
                left.remove(pair[0])
                right.remove(pair[1])
    kinds = [Counter(group.kind for group in side) for side in (left, right)]
    for a in list(left):
        for b in list(right):
            if a.kind == b.kind and kinds[0][a.kind] == kinds[1][a.kind] == 1 and _shared(a, b):
                found.append((a, b))
    return found


def differences(before: Group, after: Group) -> tuple[Difference, ...]:
    """Return what was asked of one side and not of the other, by name."""
    names = sorted(before.asked.keys() | after.asked.keys())
    return tuple(
        Difference(name, before.asked.get(name), after.asked.get(name))
        for name in names
        if before.asked.get(name) != after.asked.get(name)
    )


def _equal(a: Group, b: Group) -> bool:
    return a.comparability == b.comparability


def _same_probe(a: Group, b: Group) -> bool:
    return (a.probe, a.kind) == (b.probe, b.kind)


def _same_asked(a: Group, b: Group) -> bool:
    return a.kind == b.kind and bool(a.asked) and a.asked == b.asked


def _shared(a: Group, b: Group) -> bool:
    return bool(a.stretches.keys() & b.stretches.keys())


def _distance(pair: Pair) -> tuple[int, float, float]:
    a, b = pair
    ages = [(one.newest or _BEGINNING).timestamp() for one in pair if one.newest is not None]
    return len(differences(a, b)), -min(ages, default=0.0), -max(ages, default=0.0)

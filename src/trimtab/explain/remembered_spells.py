"""Spells of a look, reused as long as the runs that the look uses are the same.

A `Remember` may return the spells that it returned earlier for the same digest, because a digest
covers all that its spells depend on. So after one more run only the last looks are computed again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

import polars as pl

from trimtab.explain.dip import dips
from trimtab.explain.slow_hour import periodic, pooled
from trimtab.explain.slow_target import slow_surveys, slow_targets
from trimtab.explain.spell import (
    CalendarLook,
    SeriesPart,
    Spell,
    apart,
    carried,
    content_digest,
)

Spells = Sequence[Spell]
Remember = Callable[[str, Callable[[], Spells]], Spells]
"""Takes a digest and a function that makes the spells; returns them, made now or earlier."""


def made_now(digest: str, make: Callable[[], Spells]) -> Spells:
    """Return the spells as made now; remember nothing."""
    return make()


def recurring_hours(
    parts: Sequence[SeriesPart], frame: pl.DataFrame, timezone: str, *, remember: Remember
) -> Spells:
    """Return what `periodic` returns, look by look; all at once if a spell spans several looks."""
    by_look: list[tuple[CalendarLook, Spells]] = [
        (
            part.look,
            remember(
                _digest("recurring", timezone, part.digest),
                lambda part=part: periodic([part], part.frame, timezone),
            ),
        )
        for part in parts
    ]
    spells = carried(by_look)
    if len(spells) < sum(len(of_look) for _, of_look in by_look):
        return periodic(parts, frame, timezone)
    return spells


def low_together(looks: Iterable[Sequence[SeriesPart]], *, remember: Remember) -> Spells:
    """Return what `pooled` returns, look by look."""
    return carried(
        (
            parts[0].look,
            remember(
                _digest("low together", *(part.digest for part in parts)),
                lambda parts=parts: pooled([parts]),
            ),
        )
        for parts in looks
    )


def single_targets(surveys: pl.DataFrame, *, remember: Remember) -> Spells:
    """Return the spells of single targets, and those of the median target."""
    return remember(
        _digest("surveys", content_digest(surveys)),
        lambda: [*slow_targets(surveys), *slow_surveys(surveys)],
    )


def low_runs(parts: Sequence[SeriesPart], *, remember: Remember) -> list[Spell]:
    """Return what `dips` returns: look by look, at once those whose dips may be one."""
    looks: list[tuple[list[SeriesPart], list[Spell]]] = []
    for part in parts:
        if not part.reported:
            continue
        spells = remember(_digest("dips", part.digest), lambda part=part: dips([part]))
        first = _joined_from(looks, part, spells)
        joined = [*looks[first:], ([part], [*spells])]
        looks[first:] = [([*chain(*(of[0] for of in joined))], [*chain(*(of[1] for of in joined))])]
    return [
        spell
        for joined, spells in looks
        for spell in (spells if len(joined) == 1 else dips(joined))
    ]


def _joined_from(
    looks: Sequence[tuple[Sequence[SeriesPart], Spells]], part: SeriesPart, spells: Spells
) -> int:
    """Return the place of the first look so far whose dips may be one with those of the next.

    Whether a dip goes on, and since when at most, only a neighbour tells where it is at an edge.
    """
    first = len(looks)
    if not looks:
        return first
    (*_, last), before = looks[-1]
    begin = spells[0].extent[0] if spells else None
    ends_at_edge = before and before[-1].extent[1] == last.reported[-1]
    if ends_at_edge or begin == part.reported[0]:
        first -= 1
    if begin is None:
        return first
    earlier = [(place, of_look[-1]) for place, (_, of_look) in enumerate(looks) if of_look]
    is_near = earlier and begin - earlier[-1][1].extent[1] <= apart(part.times)
    return min(first, earlier[-1][0]) if is_near else first


def _digest(*words: object) -> str:
    return hashlib.sha256(repr(words).encode()).hexdigest()

"""Single runs that were lost or slow while those around them were as usual: notes, no incidents.

A single run is slow because it met another job, as one is lost because it met a broken node. Where
a series has another one as slow within two days, they are a trouble that comes and goes: a node
that slows each run it gets, say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from trimtab.base.incident import LoneRun, Shape
from trimtab.base.series import SeriesKey
from trimtab.explain.context import RunFact
from trimtab.explain.failed_run import lone_runs
from trimtab.explain.same_trouble import are_together, comes_again, grouped_spells
from trimtab.explain.spell import Spell


def without_incident(
    spells: Sequence[Spell], frames: Mapping[SeriesKey, pl.DataFrame], runs: Iterable[RunFact] = ()
) -> tuple[list[Spell], tuple[LoneRun, ...]]:
    """Return the spells of single lost or slow runs, and these runs as notes, latest first."""
    alone: list[Spell] = []
    notes: list[LoneRun] = []
    slow: list[list[Spell]] = []
    for group in grouped_spells(spells, are_together):
        lost = lone_runs(group, frames, runs)
        if lost:
            alone += group
            notes += lost
        elif is_one_slow_run(group):
            slow.append(group)
    for group in slow:
        if not _comes_again(group, slow):
            alone += group
            notes.append(_note(group))
    return alone, tuple(sorted(notes, key=lambda run: (run.at, run.probe), reverse=True))


def is_one_slow_run(group: Sequence[Spell]) -> bool:
    """Return whether a group is one low run, however many of its figures show it."""
    return len({(spell.at, spell.key and spell.key.probe) for spell in group}) == 1 and all(
        spell.shape is Shape.DIP and spell.key is not None and spell.runs == 1 for spell in group
    )


def _comes_again(group: Sequence[Spell], slow: Iterable[Sequence[Spell]]) -> bool:
    """Return whether another single slow run of a series is near and alike."""
    return any(
        spell.key == each.key and comes_again(spell, each)
        for other in slow
        if other is not group
        for spell in group
        for each in other
    )


def _note(group: Sequence[Spell]) -> LoneRun:
    """Return a single slow run with the figure that shows most."""
    spell = max(group, key=lambda spell: (spell.depth, spell.name))
    key = spell.key
    assert key is not None, "a slow run has a figure"
    return LoneRun(key.probe, key.kind, spell.at, key.apart, f"{key.metric} {spell.what}")

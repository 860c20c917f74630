"""The hours of an incident that several spells show: core, margin, onset; and its summary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import polars as pl

from trimtab.base.incident import Shape
from trimtab.base.series import SeriesKey
from trimtab.explain.spell import SURVEYS, TOGETHER, Spell, spacing_s
from trimtab.judge.series_level import onset_text, size_of

Onset = tuple[datetime, datetime]
"""The interval within which something began."""

_DAY: Final = timedelta(days=1)
_SERIES_TOLD: Final = 3
"""Series that a summary shows; the others are counted."""
_BESIDE: Final = 1.5
"""Distance in runs within which a spell adjoins another one."""
_MARGIN: Final = 0.25
"""Spells apart from the core are its margin if they have at most this share of the bad runs."""
_CORE_RUNS: Final = 12
"""Most bad runs that one spell counts for there: a level that lasts for months does not make a
trouble of hours before it a margin."""
_DRIFT_PLACED: Final = timedelta(days=3.5)
"""How much earlier than a step a decline that is fitted to it may begin: half of the shortest
decline, five days, and of the two days to which it is placed."""
_END: Final = timedelta(hours=24)
"""The end of a fainter level is placed no better; an incident lasts longer if it is later."""


def of_surveys(spell: Spell) -> bool:
    """Return whether surveys of single targets show it."""
    return spell.key is None and SURVEYS in spell.name


def began_together(spell: Spell, other: Spell) -> bool:
    """Return whether two levels may have changed at the same moment.

    The intervals of their onsets meet. Two metrics of one probe come from the same runs: a distance
    that is shorter than the longer interval is no evidence of two changes.
    """
    (begin, end), (other_begin, other_end) = spell.began, other.began
    distance = max(other_begin - end, begin - other_end)
    slack = max(end - begin, other_end - other_begin) if same_runs(spell, other) else timedelta()
    return distance <= slack


def same_runs(spell: Spell, other: Spell) -> bool:
    """Return whether two spells are of metrics of the same runs."""
    keys = [
        None if each.key is None else (each.key.probe, each.key.kind, each.key.comparability)
        for each in (spell, other)
    ]
    return keys[0] is not None and keys[0] == keys[1]


def companions(group: Sequence[Spell], strong: Sequence[Spell]) -> list[Spell]:
    """Return the faint levels of a group that are other metrics of a probe that shows far more.

    One change of level in all figures of a probe is one trouble: the recovery of a fainter one is
    confirmed later, and placed less well.
    """
    steps = [spell for spell in strong if spell.is_level and spell.shape is Shape.STEP]
    return [
        spell
        for spell in group
        if spell.is_level
        and spell not in strong
        and any(same_runs(spell, step) and began_together(spell, step) for step in steps)
    ]


def core_spells(
    strong: Sequence[Spell], lead: Spell, frames: Mapping[SeriesKey, pl.DataFrame]
) -> list[Spell]:
    """Return the spells of the hours in which the effect is: levels or most runs, and what adjoins.

    The others are only a margin if they are few: a single low run in another series, hours earlier.
    """
    taken = [spell for spell in strong if spell.is_level or of_surveys(spell)]
    taken = taken or [max(strong, key=lambda spell: (spell.runs, spell is lead))]
    left = [spell for spell in strong if spell not in taken]
    slack = _BESIDE * _spacing(lead, frames)
    while near := [spell for spell in left if any(_adjoins(spell, each, slack) for each in taken)]:
        taken += near
        left = [spell for spell in left if spell not in near]
    runs = [sum(min(spell.runs, _CORE_RUNS) for spell in spells) for spells in (taken, left)]
    return taken if runs[1] <= _MARGIN * sum(runs) else list(strong)


def _spacing(lead: Spell, frames: Mapping[SeriesKey, pl.DataFrame]) -> timedelta:
    frame = None if lead.key is None else frames.get(lead.key)
    if frame is None:
        return TOGETHER
    return timedelta(seconds=spacing_s(frame))


def _adjoins(spell: Spell, other: Spell, slack: timedelta) -> bool:
    return spell.at <= other.last + slack and other.at <= spell.last + slack


def begin_of(core: Sequence[Spell], lead: Spell) -> tuple[datetime, Onset | None]:
    """Return the first bad run of an incident, and the interval within which it began.

    Of levels that may have changed at the same moment, the best placed says when; a level that
    certainly changed earlier is the beginning. A drift is placed only to days: where a step leads,
    one that begins a few days earlier is no other beginning.
    """
    if lead.shape is Shape.STEP:
        core = [
            spell
            for spell in core
            if spell.shape is not Shape.DRIFT or lead.at - spell.at > _DRIFT_PLACED
        ]
    shapes = (Shape.STEP, Shape.DIP, Shape.UNSTEADY)
    levels = [spell for spell in core if spell.onset and spell.shape in shapes]
    levels = [spell for spell in levels if spell.is_level or spell.shape is not Shape.DIP]
    others = [spell for spell in core if spell not in levels]
    at, onset = _of_levels(levels)
    first = min(others, key=lambda spell: spell.at, default=None)
    if first is None or (at is not None and (at <= first.at or first.shape is Shape.UNSTEADY)):
        assert at is not None, "a core has a spell"
        return at, onset
    if first.onset is None and onset is not None and onset[0] < first.at:
        # A spell without an interval, such as one of surveys, shortens that of the levels.
        return first.at, (onset[0], first.at)
    return first.at, first.onset


def _of_levels(levels: Sequence[Spell]) -> tuple[datetime | None, Onset | None]:
    at, onset = None, None
    for spell in sorted(levels, key=lambda spell: (spell.began[1] - spell.began[0], spell.at)):
        begin, end = spell.began
        if onset is None or at is None or end < onset[0]:
            at, onset = spell.at, spell.began
        elif max(begin, onset[0]) < min(end, onset[1]):
            onset = max(begin, onset[0]), min(end, onset[1])
            at = at if onset[0] < at <= onset[1] else onset[1]
    return at, onset


def end_of(core: Sequence[Spell], beside: Sequence[Spell]) -> tuple[datetime, bool]:
    """Return the last bad run of an incident so far, and whether it is over.

    Parameters
    ----------
    beside
        Its `companions`.
    """
    last = max(spell.last for spell in core)
    latest = max((spell.last for spell in beside), default=last)
    ended = all(spell.until is not None for spell in (*core, *beside))
    return (latest if latest > last + _END or not ended else last), ended


def margin_of(strong: Sequence[Spell], at: datetime, last: datetime) -> Onset | None:
    """Return the first and last run of all spells of an incident; ``None``: those of its core."""
    extents = [spell.extent for spell in strong]
    whole = min(at, *(begin for begin, _ in extents)), max(last, *(end for _, end in extents))
    return None if whole == (at, last) else whole


def when_text(at: datetime, until: datetime | None, onset: Onset | None) -> str:
    """Return the hours of an incident as text: "2026-03-02 04:00 to 2026-03-02 09:00 UTC"."""
    begun = f"{at:%Y-%m-%d %H:%M}"
    ended = "" if until is None else f"{until:%Y-%m-%d %H:%M}"
    if onset is not None and onset[1] - onset[0] > _DAY:
        text = f"began {onset_text(at, onset)}"
        return f"{text}, until {ended} UTC" if ended else text
    if until is None:
        return f"since {begun} UTC"
    return f"{begun} UTC" if ended == begun else f"{begun} to {ended} UTC"


def summary_of(group: Sequence[Spell], lead: Spell, when: str) -> str:
    """Return when it was and what each series shows: the lead first, then what lost most."""
    others = [member for member in group if member.name != lead.name]
    # By what they lost, not by how far that stands out: a noisy series may have lost most.
    others.sort(key=lambda spell: (-_lost(spell), -spell.depth, spell.name))
    parts = [*dict.fromkeys(f"{member.name} {member.what}" for member in (lead, *others))]
    shown, measured = parts[:_SERIES_TOLD], [spell for spell in others if spell.effect is not None]
    if measured:  # the largest loss with a figure is never among those that are counted
        text = f"{measured[0].name} {measured[0].what}"
        shown = shown if text in shown else [*shown[:-1], text]
    more = len(parts) - len(shown)
    return f"{when}: {'; '.join(shown)}" + (f"; {more} more" if more > 0 else "")


def _lost(spell: Spell) -> float:
    """Return the size of a loss; runs without a figure lost everything, a spread nothing."""
    if spell.effect is not None:
        return size_of(spell.effect)
    return 0.0 if spell.shape is Shape.UNSTEADY else math.inf

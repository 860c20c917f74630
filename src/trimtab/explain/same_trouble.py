"""Which spells belong to the same trouble: one incident per trouble, not one per series.

Two spells are of one trouble if they began together, ended together, or if the later one adds
nothing to the earlier::

    ├──────── a level of one series ────────┤
    ├──────── of another ───────────────────────┤      began together
            ├──── a further loss, or surveys ───┤      ended together
                 ├── a lesser one of the same series    adds nothing

Otherwise a later loss within the hours of an earlier one is another trouble.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from trimtab.base.incident import Shape
from trimtab.base.series import ChangeStatus
from trimtab.explain.incident_hours import began_together, of_surveys, same_runs
from trimtab.explain.lasting import DEEP, LASTING, LESS, is_of_losses
from trimtab.explain.level_change import UNFINISHED
from trimtab.explain.spell import SHORT, Spell

_FEW_DAYS: Final = timedelta(days=11)
"""How long after its begin a wide spread takes in what is low elsewhere: a week, plus the two-day
windows that miss their goal on either side of it."""
_NEAR: Final = timedelta(hours=4)
"""Short troubles this close are one: probes are hourly and do not start together."""
_ONSET: Final = timedelta(hours=24)
"""Levels that change within a day are one trouble, perhaps in stages; levels placed further apart
are one if the intervals of their onsets meet. Ends are placed no better."""
_SURVEYED: Final = timedelta(hours=30)
"""Surveys are daily: what they show may have begun the day before."""
_LOW: Final = (Shape.DIP, Shape.STEP)
_SPREADS: Final = 2.0
"""Standard deviations of unsteady runs up to which their level may seem to change."""
_TWICE: Final = math.log(2)
_ALIKE: Final = 2.0
"""Largest ratio of losses that are alike."""


def grouped_spells(
    spells: Sequence[Spell], is_same: Callable[[Spell, Spell], bool]
) -> list[list[Spell]]:
    """Group spells that belong together, directly or through others."""
    groups: list[list[Spell]] = []
    for spell in sorted(spells, key=lambda spell: (spell.at, spell.name, spell.shape)):
        joined = [group for group in groups if any(is_same(member, spell) for member in group)]
        groups = [group for group in groups if group not in joined]
        groups.append([*(spell for group in joined for spell in group), spell])
    return groups


def is_of_one_trouble(spell: Spell, other: Spell) -> bool:
    """Return whether two spells belong to one trouble, also to one that comes and goes.

    Dips are so rare by chance (`trimtab.explain.dip.A_MONTH`) that two hardly ever fall within two
    days: dips of one metric that are alike and that close belong to one trouble.
    """
    return are_together(spell, other) or comes_again(spell, other)


def are_together(spell: Spell, other: Spell) -> bool:
    """Return whether the hours of two spells are those of one trouble."""
    if Shape.INTEGRITY in (spell.shape, other.shape):
        return False
    if Shape.PERIODIC in (spell.shape, other.shape):
        return _recur_together(spell, other)
    return (
        _are_beside(spell, other)
        or _are_in_a_row(spell, other)
        or ended_together(spell, other)
        or adds_nothing(spell, other)
        or adds_nothing(other, spell)
    )


def _are_beside(spell: Spell, other: Spell) -> bool:
    """Return whether two spells began together, or are short and overlap."""
    if {spell.shape, other.shape} == {Shape.UNSTEADY, Shape.STEP} and spell.key == other.key:
        # The edge of a step is within the first windows that miss the goal.
        return abs(spell.at - other.at) <= SHORT
    for wide, low in ((spell, other), (other, spell)):
        if wide.shape is Shape.UNSTEADY and low.shape in _LOW:
            # A trouble that makes one series unsteady for days may dip or lower another.
            over = low.until is not None or low.shape is Shape.DIP
            within = wide.began[0] <= low.at and low.last <= min(wide.last, wide.at + _FEW_DAYS)
            last = low.until is None and wide.until is None and low.is_level
            begun = last and began_together(wide, low)
            return low.key != wide.key and ((over and within) or begun)
    if Shape.UNSTEADY in (spell.shape, other.shape) or Shape.DRIFT in (spell.shape, other.shape):
        return spell.shape is other.shape and _overlap(spell, other, _NEAR)
    surveyed = of_surveys(spell) != of_surveys(other)
    tolerance = _SURVEYED if surveyed else _ONSET
    if _is_short(spell) and _is_short(other):
        begun = surveyed and abs(spell.at - other.at) <= _SURVEYED
        return begun or _overlap(spell, other, _NEAR)
    if _is_short(spell) or _is_short(other):
        long, short = (other, spell) if _is_short(spell) else (spell, other)
        return _is_at_an_end(short, long, tolerance)
    return may_begin_together(spell, other, tolerance) or falls_again(spell, other)


def _is_at_an_end(short: Spell, long: Spell, tolerance: timedelta) -> bool:
    """Return whether a dip is at the beginning or the end of a level.

    A dip long after a level changed is another trouble; low hours of the same runs on the day
    before it fell belong to the level.
    """
    is_same = short.key is not None and short.key == long.key
    begin, end = long.began
    slack = _ONSET if same_runs(short, long) else _NEAR
    if begin - slack <= short.extent[1] <= begin:
        return True
    if not _overlap(short, long, _NEAR):
        return False
    begins = min(begin, long.at - tolerance) <= short.at <= max(end, long.at + tolerance)
    unsure = long.certainty is ChangeStatus.SUSPECT and is_same
    ends = long.until is not None and short.until is not None and short.last >= long.last - _NEAR
    return begins or ends or unsure


def may_begin_together(spell: Spell, other: Spell, tolerance: timedelta = _ONSET) -> bool:
    """Return whether two levels may have changed at the same moment, or within a day."""
    (begin, end), (other_begin, other_end) = spell.began, other.began
    apart = max(other_begin - end, begin - other_end)
    return apart <= tolerance or began_together(spell, other)


def falls_again(spell: Spell, other: Spell) -> bool:
    """Return whether a level of a series fell again before it was clear that it stays: stages."""
    is_same = spell.key is not None and spell.key == other.key
    both = spell.shape is other.shape is Shape.STEP
    return is_same and both and _overlap(spell, other, _NEAR) and abs(spell.at - other.at) <= SHORT


def _recur_together(spell: Spell, other: Spell) -> bool:
    """Return whether two spells recur at about the same hours of the same days."""
    if spell.recurs is None or other.recurs is None or not _overlap(spell, other, _NEAR):
        return False
    return spell.recurs.meets(other.recurs)


def _are_in_a_row(spell: Spell, other: Spell) -> bool:
    """Return whether no usable run is between two spells of a probe's runs without figures."""
    first, later = sorted((spell, other), key=lambda spell: spell.at)
    is_known = _has_figures(first) or _has_figures(later)
    return not is_known and _probe(first) == _probe(later) and later.began[0] <= first.last


def _has_figures(spell: Spell) -> bool:
    """Return whether some run of a spell measured something usable."""
    is_lost = spell.shape in _LOW and spell.key is None and spell.effect is None
    return is_of_losses(spell) or not (is_lost or spell.is_lost)


def _probe(spell: Spell) -> str:
    return spell.name if spell.key is None else spell.key.probe


def ended_together(spell: Spell, other: Spell) -> bool:
    """Return whether two spells that last were over at the same moment.

    Only by chance do independent troubles that overlap end on the same day.
    """
    if spell.until is None or other.until is None or not (_lasts(spell) and _lasts(other)):
        return False
    tolerance = _SURVEYED if of_surveys(spell) != of_surveys(other) else _ONSET
    is_new = abs(spell.at - other.at) <= LASTING
    return is_new and _overlap(spell, other, _NEAR) and abs(spell.last - other.last) <= tolerance


def _lasts(spell: Spell) -> bool:
    return spell.is_level or spell.shape in (Shape.DRIFT, Shape.UNSTEADY) or not _is_short(spell)


def adds_nothing(spell: Spell, other: Spell) -> bool:
    """Return whether ``spell`` shows nothing beyond ``other``, in whose hours it begins."""
    begin, end = other.began[0], min(other.last, other.at + LASTING)
    if not begin <= spell.at <= other.last or not _lasts(other):
        return False
    if spell.is_lost and _is_short(spell) and other.is_level:
        # A level at which runs are lost has them among its own. Where runs take twice as long or
        # more, some reach their time limit.
        has_lost = other.unfinished >= UNFINISHED * other.runs or loss_of(other) > _TWICE
        return same_runs(spell, other) and spell.at <= end and has_lost
    if other.is_level and (of_surveys(spell) or other.shape is Shape.DRIFT):
        unsure = spell.certainty is ChangeStatus.SUSPECT and spell.key == other.key
        is_new = spell.at <= end or unsure
        return other.key is not None and is_new and _shows_the_same(spell, other)
    if other.shape is Shape.UNSTEADY:
        is_deep = loss_of(spell) > _SPREADS * other.depth / 100
        return same_runs(spell, other) and _lasts(spell) and not is_deep
    is_same = spell.key is not None and spell.key == other.key
    is_less = loss_of(spell) <= LESS * loss_of(other) < math.inf
    # A change that may be for the better adds nothing however late.
    return is_same and spell.is_level and (spell.at <= end or not loss_of(spell)) and is_less


def _shows_the_same(spell: Spell, other: Spell) -> bool:
    """Return whether surveys or a level lost no more than the level or drift during which they are.

    A drift in one series may look like a step in a noisier one; what is over while the drift goes
    on is another trouble. Slow single targets make files that are striped over them as slow.
    """
    loss, of_other = loss_of(spell), loss_of(other)
    if not of_surveys(spell):
        goes_on = spell.until is None and other.until is None
        return spell.shape is Shape.STEP and goes_on and loss <= _ALIKE * of_other
    return loss <= _ALIKE * of_other and (not spell.targets or of_other <= _ALIKE * loss)


def loss_of(spell: Spell) -> float:
    """Return the loss of a spell as a logarithm.

    It is 0 if its direction is unknown, infinite if all of its runs were lost.
    """
    interval = spell.effect_interval
    if spell.effect is None or (interval and interval.low <= 1 <= interval.high):
        return math.inf if spell.unfinished == spell.runs > 0 else 0.0
    return abs(math.log(max(spell.effect, 1e-9)))


def comes_again(spell: Spell, other: Spell) -> bool:
    """Return whether dips of a metric, or a dip and a spread of a series, are near and alike."""
    if spell.key is None or other.key is None or not _overlap(spell, other, SHORT):
        return False
    if spell.key.metric != other.key.metric:
        return False
    for wide, low in ((spell, other), (other, spell)):
        if wide.shape is Shape.UNSTEADY:
            is_dip = low.shape is Shape.DIP and low.key == wide.key
            return is_dip and loss_of(low) < DEEP * wide.depth / 100
    if not (_is_short(spell) and _is_short(other)):
        return False
    if spell.unfinished and other.unfinished:
        return True
    low, high = sorted((loss_of(spell), loss_of(other)))
    return 0 < high <= _ALIKE * low


def _is_short(spell: Spell) -> bool:
    return spell.last - spell.at < SHORT and spell.shape is not Shape.STEP


def _overlap(spell: Spell, other: Spell, slack: timedelta) -> bool:
    (begin, end), (other_begin, other_end) = spell.extent, other.extent
    return begin <= other_end + slack and other_begin <= end + slack

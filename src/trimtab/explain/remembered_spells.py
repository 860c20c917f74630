"""Spells of a look, reused as long as the runs that the look uses are the same.

A `Remember` may return the spells that it returned earlier for the same digest, because a digest
covers all that its spells depend on. So after one more run only the last looks are computed again.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence

import polars as pl

from trimtab.explain.slow_hour import periodic, pooled
from trimtab.explain.slow_target import slow_surveys, slow_targets
from trimtab.explain.spell import CalendarLook, SeriesPart, Spell, carried

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
                _digest("recurring", timezone, *_words(part)),
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
                _digest("low together", *(word for part in parts for word in _words(part))),
                lambda parts=parts: pooled([parts]),
            ),
        )
        for parts in looks
    )


def single_targets(surveys: pl.DataFrame, *, remember: Remember) -> Spells:
    """Return the spells of single targets, and those of the median target."""
    return remember(
        _digest("surveys", _content(surveys)),
        lambda: [*slow_targets(surveys), *slow_surveys(surveys)],
    )


def _words(part: SeriesPart) -> Iterator[object]:
    """Yield all that a part holds."""
    yield from (part.key, part.look, part.first, part.within, part.levels, part.beside)
    yield _content(part.frame.select("at", "value", "unfinished"))


def _content(frame: pl.DataFrame) -> str:
    """Return the digest of a frame: names and types of its columns, and their values."""
    written = io.BytesIO()
    frame.rechunk().write_ipc(written)
    return hashlib.sha256(written.getbuffer()).hexdigest()


def _digest(*words: object) -> str:
    return hashlib.sha256(repr(words).encode()).hexdigest()

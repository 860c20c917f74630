"""What a person named: a site, a stretch of its time, a setting, or single runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from trimtab.errors import UsageError
from trimtab.units import is_date, parse_moment

_RUNS: Final = re.compile(r"[0-9a-f-]{4,36}(?:,[0-9a-f-]{4,36})*", re.IGNORECASE)
_SETTING: Final = re.compile(
    r"(?P<where>.*?):(?P<levels>[A-Za-z_][A-Za-z0-9_]*=[^,=]+(?:,[A-Za-z_][A-Za-z0-9_]*=[^,=]+)*)\Z"
)
_HINT: Final = (
    "SITE, SITE@2026-10-01..2026-11-01, SITE@2026-11-01, SITE:nodes=4, a run's id, or 12±1/30 GB/s"
)


@dataclass(frozen=True, slots=True)
class Operand:
    """One side as it was typed.

    Attributes
    ----------
    text
        All of it.
    where
        The SITE or PATH; ``None`` where ``--site`` names it, or for runs.
    since, until
        Texts of the stretch; ``None`` where that end is open.
    levels
        Parameters that runs were asked for, by name.
    runs
        Resumption of the ids of single runs.
    """

    text: str
    where: str | None = None
    since: str | None = None
    until: str | None = None
    levels: tuple[tuple[str, str], ...] = ()
    runs: tuple[str, ...] = ()

    def stretch(self, timezone: str) -> tuple[datetime | None, datetime | None]:
        """Return from when (within) and to when (not within) runs count, in UTC.

        Raises
        ------
        UsageError
            A text is no time, or the stretch is empty.
        """
        since, until = (
            None if text is None else parse_moment(text, timezone)
            for text in (self.since, self.until)
        )
        if since is not None and until is not None and since >= until:
            raise UsageError(
                f"{self.text!r} ends before it begins",
                code="times-reversed",
                hint="FROM..TO excludes TO; a day alone, as SITE@2026-11-01, is the whole day",
            )
        return since, until


def parse_operand(text: str) -> Operand:
    """Return what a text names; whether a bare word is a site is for the store to say.

    Raises
    ------
    UsageError
        It names nothing.

    Examples
    --------
    >>> parse_operand("scratch:nodes=4@2026-10-01..2026-11-01").levels
    (('nodes', '4'),)
    >>> parse_operand("@2026-10-01..").since
    '2026-10-01'
    >>> parse_operand("scratch@2026-11-01").until
    '2026-11-02'
    """
    rest, since, until = text.strip(), None, None
    before, at, stretch = rest.rpartition("@")
    if at and is_date(stretch):
        rest, since = before, stretch.strip()
        until = (date.fromisoformat(since) + timedelta(days=1)).isoformat()
    elif at and _is_moment(stretch):
        raise UsageError(
            f"{text!r} is a moment, and runs of a stretch are compared",
            code="operand-moment",
            hint=f"write {before}@FROM..TO, or {before}@2026-11-01 for a whole day",
        )
    elif at and ".." in stretch:
        rest = before
        since, _, until = (part.strip() or None for part in stretch.partition(".."))
        if since is None and until is None:
            raise UsageError(
                f"{text!r} has neither a start nor an end", code="times-missing", hint=_HINT
            )
    levels: tuple[tuple[str, str], ...] = ()
    if (setting := _SETTING.match(rest)) is not None:
        rest = setting["where"]
        pairs = (level_text.partition("=") for level_text in setting["levels"].split(","))
        levels = tuple((name, value.strip()) for name, _, value in pairs)
    if not rest and since is None and until is None and not levels:
        raise UsageError(f"{text!r} names nothing to compare", code="operand-unknown", hint=_HINT)
    return Operand(text, rest or None, since, until, levels)


def _is_moment(text: str) -> bool:
    try:
        parse_moment(text)
    except UsageError:
        return False
    return True


def as_runs(operand: Operand) -> Operand | None:
    """Return the operand read as ids of runs; ``None`` if it cannot be any."""
    whole = operand.since is None and operand.until is None and not operand.levels
    if not whole or operand.where is None or not _RUNS.fullmatch(operand.where):
        return None
    return Operand(operand.text, runs=tuple(operand.where.lower().split(",")))

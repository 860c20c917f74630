"""Facts and counts of a site period by period, and spells look by look, kept in the store.

See `trimtab.store.kept_period`: after one more run only the last period is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from trimtab.base.plain import packed, unpacked
from trimtab.explain.spell import Spell
from trimtab.probe.bad_checksums import ChecksumsQuestion, PeriodCounts, grown_over
from trimtab.probe.incident_question import FactsQuestion, PeriodFacts
from trimtab.store.kept import is_afresh
from trimtab.store.kept_period import KeptPeriods, Period, in_order

if TYPE_CHECKING:
    from trimtab.explain.failed_run import BadChecksums
    from trimtab.reach.worker_process import Together
    from trimtab.store.kept import Keeping, RestsOn
    from trimtab.store.kept_period import Sums
    from trimtab.store.store import Store

_SPELLS: Final = "spells of looks"
_SpellsOf = dict[str, tuple[Spell, ...]]
FactsAndCounts = tuple[Sequence[PeriodFacts], Sequence["BadChecksums"]]
"""Facts from runs, and by how much counts of bad checksums grew."""


def facts_and_counts(
    store: Store,
    site: str,
    look: Keeping | None,
    *,
    until: datetime | None,
    together: Together,
) -> Callable[[], FactsAndCounts]:
    """Ask for what is not kept; return the function that waits for it and returns all.

    Parameters
    ----------
    look
        Of the whole record; ``None``: nothing is kept, and runs up to ``until`` alone are read.
    """
    url = store.location.url
    if look is None:
        answers = together([FactsQuestion(url, site, until), ChecksumsQuestion(url, site)])
        return lambda: (next(answers), grown_over(store, site, next(answers)))
    facts, counts = _facts(look), _counts(look)
    questions: list[Any] = []
    if facts.missing:
        questions.append(FactsQuestion(url, site, None, facts.missing))
    if counts.missing:
        periods = tuple(period for period in counts.missing if period is not None)
        questions.append(ChecksumsQuestion(url, site, periods, _last(look.sums)))
    of_missing: Iterator[Any] = together(questions)

    def read() -> FactsAndCounts:
        of_runs = facts.filled(next(of_missing) if facts.missing else ())
        counted = counts.filled(next(of_missing) if counts.missing else ())
        return of_runs, grown_over(store, site, counted)

    return read


class RememberedSpells:
    """The spells of looks at a site, by the digest of what each rests on.

    Those of one search are stored as one value: spells that it did not ask for are dropped.

    Parameters
    ----------
    look
        Of the whole record; ``None``: nothing is kept.
    """

    def __init__(self, look: Keeping | None) -> None:
        self._look = look
        self._before: dict[str, tuple[Spell, ...]] = {}
        self._now: dict[str, tuple[Spell, ...]] = {}
        if look is not None and not is_afresh():
            self._before = look.before(_SPELLS, _SpellsOf) or {}

    def remember(self, digest: str, make: Callable[[], Sequence[Spell]]) -> Sequence[Spell]:
        """Return the kept spells, else those made now."""
        if self._look is None:
            return make()
        basis = self._look.basis(lambda sums: digest)
        if basis not in self._now:
            known = self._before.get(basis)
            self._now[basis] = _as_read_back(make()) if known is None else known
        return self._now[basis]

    def keep(self) -> None:
        """Keep the spells that this search asked for."""
        if self._look is not None and self._now.keys() != self._before.keys():
            rests_on = sorted(self._now)
            self._look.note(_SPELLS, _SpellsOf, lambda sums: rests_on, self._now)


def _as_read_back(spells: Sequence[Spell]) -> tuple[Spell, ...]:
    """Return spells as the store returns them: equal, and printed alike (`Keeping.note`)."""
    kind = tuple[Spell, ...]
    return unpacked(kind, packed(kind, tuple(spells)))


def _facts(look: Keeping) -> KeptPeriods[PeriodFacts]:
    def rests_on(period: Period) -> RestsOn:
        return lambda sums: sorted(
            (name, of) for (name, at), of in sums.runs_in.items() if at == period
        )

    periods = in_order(period for _, period in look.sums.runs_in)
    return KeptPeriods(look, "facts", PeriodFacts, rests_on, periods)


def _counts(look: Keeping) -> KeptPeriods[PeriodCounts]:
    def rests_on(period: Period) -> RestsOn:
        return lambda sums: (
            None if period is None else sums.snapshots_in.get(period),
            period == _last(sums),
        )

    periods = in_order(look.sums.snapshots_in)
    return KeptPeriods(look, "checksums", PeriodCounts, rests_on, periods)


def _last(sums: Sums) -> int | None:
    return max(sums.snapshots_in, default=None)

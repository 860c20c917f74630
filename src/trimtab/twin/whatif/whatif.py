"""Answer "what if?" for a scenario or a site: run its sweep in processes, and keep the figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trimtab.base.error import UsageError
from trimtab.base.site import who_works
from trimtab.reach.dask_worker import answering
from trimtab.reach.worker_process import processors
from trimtab.site.lookup import with_dask
from trimtab.twin.scenario import Scenario
from trimtab.twin.scenario_check import replace_keys
from trimtab.twin.whatif.variation import MOST, combinations, parse_axis, scenario_of
from trimtab.twin.whatif.whatif_figure import FigureCache, Model, twin
from trimtab.twin.whatif.whatif_sweep import Swept, sweep

_SEEDS_MOST = 1000


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What is asked.

    Attributes
    ----------
    where
        A preset, a scenario's file, or a site whose driver is the twin.
    vary
        ``NAME=VALUES`` each.
    until_s
        Simulated time; ``None``: all of the scenario.
    workers
        Processes; ``None``: one a processor. The figures do not depend on it.
    dask
        As `trimtab.site.lookup.with_dask` has it.
    results
        Where figures are kept; ``None``: nowhere.
    """

    where: str
    vary: tuple[str, ...] = ()
    seeds: int = 1
    until_s: float | None = None
    classes: int | None = None
    workers: int | None = None
    dask: str | None = None
    most: int = MOST
    results: Path | None = None


def what_if(
    question: WhatIf,
    progress: Callable[[str, float], None] = lambda text, fraction: None,
    *,
    model: Model = twin,
) -> tuple[Scenario, Swept]:
    """Return the scenario that was varied, and what became of it.

    Raises
    ------
    UsageError
        There is no such scenario, setting or value, too much is asked, or Dask is not installed.
    ToolError
        A worker was killed, or the scheduler cannot be reached.
    """
    if not 1 <= question.seeds <= _SEEDS_MOST:
        raise UsageError(
            f"--seeds: {question.seeds} must be 1 to {_SEEDS_MOST}", code="option-invalid"
        )
    scenario, site = scenario_of(question.where)
    dask = with_dask(site, question.dask, workers=question.workers)
    workers, dask = who_works(question.workers, dask)
    if question.classes is not None:
        scenario = replace_keys(scenario, {"resolution.classes": str(question.classes)})
    until_s = scenario.length_s if question.until_s is None else question.until_s
    if until_s > scenario.length_s:
        raise UsageError(
            f"--until: {until_s / 86400:.0f} days are more than the scenario has "
            f"({scenario.length_s / 86400:.0f})",
            code="until-too-late",
            hint="set scenario.length for a longer one",
        )
    cases = combinations(scenario, [parse_axis(axis) for axis in question.vary], most=question.most)
    hint = "fewer --workers need less memory; what was done is kept, so start it again"
    most = len(cases) * question.seeds
    with answering(workers, dask, most=most, hint=hint) as together:
        swept = sweep(
            cases,
            seeds=question.seeds,
            until_s=until_s,
            together=together,
            cache=FigureCache(question.results),
            progress=progress,
            at_once=1 if dask is not None else workers or processors(),
            model=model,
        )
    return scenario, swept

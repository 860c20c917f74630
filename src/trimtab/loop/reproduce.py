"""The documents' figures beside the twin's: simulations in processes, and the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.loop.dask_workers import answering
from trimtab.loop.workers import processors
from trimtab.model.dask import who_works
from trimtab.report.reproduce import render_reproduction
from trimtab.report.write import check_report_path, write_report
from trimtab.visible import visible
from trimtab.whatif.reproduce.reproduce import DOCUMENTS, Reproduction, Terms, reproduce, runs


def reproduced(
    terms: Terms,
    *,
    workers: int | None = None,
    dask: str | None = None,
    report: str | None = None,
    progress: Callable[[str, float], None] = lambda text, fraction: None,
) -> Reproduction:
    """Return the table, and write the page if one is asked for.

    Parameters
    ----------
    workers
        Processes; ``None``: one a processor. The figures do not depend on it.
    dask
        As `trimtab.loop.dask_workers.answering` has it.
    report
        Where the page goes; looked at before the first simulation.

    Raises
    ------
    UsageError
        There is no such document, nothing of it is left, the page cannot be there, or Dask is not
        installed.
    ToolError
        A worker was killed, or the scheduler cannot be reached.
    """
    for name in terms.documents:
        if name not in DOCUMENTS:
            raise UsageError(
                f"there is no document {visible(name[:40])!r}",
                code="document-unknown",
                hint=f"known: {', '.join(DOCUMENTS)}",
            )
    if report is not None:
        check_report_path(Path(report))
    hint = "fewer --workers or --classes need less memory"
    workers, dask = who_works(workers, dask)
    with answering(workers, dask, most=len(runs(terms)), hint=hint) as together:
        at_once = 1 if dask is not None else workers or processors()
        reproduction = reproduce(terms, together, progress, at_once=at_once)
    if all(seeded.row.twin is None for seeded in reproduction.rows):
        raise UsageError(
            f"everything in {', '.join(terms.documents)} needs time",
            code="layers-empty",
            hint="omit --layers",
        )
    if report is not None:
        write_report(Path(report), render_reproduction(reproduction))
    return reproduction

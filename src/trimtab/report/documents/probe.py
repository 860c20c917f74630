"""``trimtab probe --json``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.errors import TrimtabError
from trimtab.model.run import Run
from trimtab.model.verdict import Comparison, Verdict
from trimtab.report.documents.base import Document
from trimtab.report.documents.check import (
    ComparisonDocument,
    ErrorDocument,
    RunDocument,
    VerdictDocument,
    comparison_document,
    error_document,
    run_document,
    verdict_document,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class ProbeDocument(Document):
    """``trimtab probe --json``: the run, what it says, and why it is not whole.

    More runs follow where one command measured several things.
    """

    store: str
    runs: tuple[RunDocument, ...]
    verdicts: tuple[VerdictDocument, ...]
    comparisons: tuple[ComparisonDocument, ...]
    notes: tuple[str, ...]
    error: ErrorDocument | None


def probe_document(
    store: str,
    run: Run,
    verdicts: Sequence[Verdict],
    comparisons: Sequence[Comparison],
    *,
    others: Sequence[Run] = (),
    notes: Sequence[str] = (),
    error: TrimtabError | None = None,
) -> ProbeDocument:
    """Return a probe that was run now as its JSON document."""
    return ProbeDocument(
        store=store,
        runs=(run_document(run), *map(run_document, others)),
        verdicts=tuple(map(verdict_document, verdicts)),
        comparisons=tuple(map(comparison_document, comparisons)),
        notes=tuple(notes),
        error=None if error is None else error_document(error),
    )

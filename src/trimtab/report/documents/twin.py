"""``trimtab twin wa --json``."""

from __future__ import annotations

from trimtab.report.documents.base import Document
from trimtab.twin.amplification import Amplification


class AmplificationDocument(Document):
    """Units that a drive writes for each that it is given, in its steady state."""

    simulated: float
    error: float
    formula: float | None
    relative_error: float | None
    bound: float | None
    settled: bool
    warm_drive_writes: int
    measured_drive_writes: int
    drive: str | None
    spare: float
    pages_per_block: int
    superblocks: int
    policy: str
    live: float
    hot: tuple[float, float] | None
    separate: bool
    seed: int


def amplification_document(found: Amplification, drive: str | None) -> AmplificationDocument:
    """Return what was simulated as its JSON document."""
    terms = found.terms
    return AmplificationDocument(
        simulated=found.simulated,
        error=found.error,
        formula=found.formula,
        relative_error=found.relative_error,
        bound=found.bound,
        settled=found.settled,
        warm_drive_writes=found.warm,
        measured_drive_writes=found.measured,
        drive=drive,
        spare=terms.spare,
        pages_per_block=terms.units,
        superblocks=terms.superblocks,
        policy=terms.policy,
        live=terms.live,
        hot=terms.hot,
        separate=terms.separate,
        seed=terms.seed,
    )

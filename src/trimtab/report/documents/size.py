"""``trimtab size --json``."""

from __future__ import annotations

from trimtab.report.documents.base import Document, fields
from trimtab.whatif.sizing.amplifying import Amplified
from trimtab.whatif.sizing.sizing import Sizing


class FigureDocument(Document):
    """One number; null with a reason where there is none."""

    name: str
    title: str
    value: float | None
    unit: str
    formula: str
    source: str
    reason: str | None


class AmplifiedDocument(Document):
    """Bytes that the flash programs for each that the drive is given."""

    fullness: float
    spare: float
    trim_every_capacities: float | None
    discard: bool
    simulated: float
    error: float | None
    formula_trimmed: float
    formula_untrimmed: float


class ComparisonDocument(Document):
    """The same flash sold with other spare, holding the same bytes."""

    name: str
    spare: float
    capacity_bytes: float
    fullness: float
    never: AmplifiedDocument | None
    trimmed: AmplifiedDocument | None


class SizeDocument(Document):
    """What a file system takes; all of it is simulation or formula."""

    drive: str
    trim: str
    osts: int
    fullness: float
    figures: list[FigureDocument]
    schedules: dict[str, AmplifiedDocument]
    curve: list[AmplifiedDocument]
    comparison: ComparisonDocument
    shortfalls: list[str]
    assumptions: list[str]
    seed: int


def size_document(found: Sizing) -> SizeDocument:
    """Return a sizing as its JSON document."""
    peer = found.comparison.peer
    return SizeDocument(
        drive=found.request.drive.name,
        trim=found.request.trim,
        osts=found.osts,
        fullness=found.fullness,
        figures=[
            FigureDocument(**fields(one, FigureDocument))
            for section in found.sections
            for one in section.figures
        ],
        schedules={word: _amplified(one) for word, one in found.amplified.items()},
        curve=[_amplified(one) for one in found.curve],
        comparison=ComparisonDocument(
            name=peer.name,
            spare=peer.spare,
            capacity_bytes=peer.capacity_bytes,
            fullness=peer.fullness,
            never=_perhaps(found.comparison.peer_never),
            trimmed=_perhaps(found.comparison.peer_trimmed),
        ),
        shortfalls=list(found.shortfalls),
        assumptions=list(found.assumptions),
        seed=found.request.seed,
    )


def _perhaps(one: Amplified | None) -> AmplifiedDocument | None:
    return None if one is None else _amplified(one)


def _amplified(one: Amplified) -> AmplifiedDocument:
    return AmplifiedDocument(
        fullness=one.case.fullness,
        spare=one.case.spare,
        trim_every_capacities=one.case.trim_every,
        discard=one.case.discard,
        simulated=one.simulated,
        error=one.error,
        formula_trimmed=one.trimmed,
        formula_untrimmed=one.untrimmed,
    )

"""``trimtab hints --json``: how a job should lay out its files and tell its MPI-IO."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.explain.hints import Hint, JobRequest, paste_text, setstripe_argv
from trimtab.report.documents.base import Document, fields


class JobDocument(Document):
    """The job that was asked about."""

    osts: int
    nodes: int
    tasks_per_node: int
    mpi: str
    shared: bool
    file_size_bytes: int | None
    transfer_size_bytes: int | None
    overstriping: bool


class HintDocument(Document):
    """One setting, as the software spells it, with what it rests on."""

    kind: str
    name: str
    value: str
    reason: str
    basis: str
    source: str


class HintsDocument(Document):
    """``trimtab hints --json``; ``text`` is for a job script."""

    job: JobDocument
    hints: tuple[HintDocument, ...]
    setstripe: tuple[str, ...]
    text: str


def hints_document(request: JobRequest, hints: Sequence[Hint], directory: str) -> HintsDocument:
    """Return the hints for a job as their JSON document."""
    return HintsDocument(
        job=JobDocument.model_validate({**fields(request, JobDocument), "mpi": request.mpi.value}),
        hints=tuple(
            HintDocument.model_validate(
                {
                    **fields(hint, HintDocument),
                    "kind": hint.kind.value,
                    "basis": hint.basis.value,
                }
            )
            for hint in hints
        ),
        setstripe=setstripe_argv(hints, directory),
        text=paste_text(request, hints, directory),
    )

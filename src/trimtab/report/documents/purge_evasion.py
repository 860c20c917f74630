"""``trimtab purge evasion --json``."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from trimtab.purge.index.manifest import Manifest
from trimtab.purge.signs import KINDS, MAY_BE, Kind, Signs, Suspicion, statement
from trimtab.report.documents.base import Document
from trimtab.report.documents.purge import Naming, moment_of, name_of, shown


class LookedAtDocument(Document):
    """An index that was looked at."""

    index_id: str
    as_of: datetime | None


class SignDocument(Document):
    """What of one owner looks as if it were kept alive.

    ``may_be`` is what leaves the same signs without any such intent, ``query`` a question to the
    index that lists the files.
    """

    kind: Kind
    uid: int
    name: str | None
    files: int
    allocated_bytes: int
    first: datetime | None
    last: datetime | None
    words: str
    may_be: str
    query: str


class PassedOverDocument(Document):
    """A kind of sign that was not looked for."""

    kind: Kind
    reason: str


class PurgeEvasionDocument(Document):
    """Signs that files are kept alive without being used: none of it is proof."""

    directory: str
    root: str
    index: LookedAtDocument
    earlier: list[LookedAtDocument]
    minimum_files: int
    unused_s: int
    counted: list[str]
    looked_for: list[Kind]
    passed_over: list[PassedOverDocument]
    signs: list[SignDocument]
    notes: list[str]


def evasion_document(signs: Signs, directory: Path, user: Naming) -> PurgeEvasionDocument:
    """Return the signs that were found as their JSON document."""
    return PurgeEvasionDocument(
        directory=str(directory),
        root=shown(signs.manifest.root),
        index=_looked_at(signs.manifest),
        earlier=[_looked_at(one) for one in signs.earlier],
        minimum_files=signs.limits.files,
        unused_s=signs.limits.old_s,
        counted=list(signs.limits.counted),
        looked_for=[kind for kind in KINDS if kind not in signs.passed_over],
        passed_over=[
            PassedOverDocument(kind=kind, reason=signs.passed_over[kind])
            for kind in KINDS
            if kind in signs.passed_over
        ],
        signs=[_sign(one, user) for one in signs.found],
        notes=list(signs.notes),
    )


def _looked_at(manifest: Manifest) -> LookedAtDocument:
    return LookedAtDocument(index_id=manifest.index_id, as_of=moment_of(manifest.as_of_s))


def _sign(one: Suspicion, user: Naming) -> SignDocument:
    return SignDocument(
        kind=one.kind,
        uid=one.uid,
        name=name_of(one.uid, user),
        files=one.files,
        allocated_bytes=one.allocated_bytes,
        first=moment_of(one.first_s),
        last=moment_of(one.last_s),
        words=one.words,
        may_be=MAY_BE[one.kind],
        query=statement(one),
    )

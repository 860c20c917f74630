"""``trimtab purge replay --json``."""

from __future__ import annotations

from datetime import datetime

from trimtab.purge.horizon.replay import Replay, Share
from trimtab.purge.index.owners import user_name
from trimtab.report.documents.base import Document, fields
from trimtab.report.documents.purge import FreedDocument, moment_of, name_of


class ReplayUserDocument(Document):
    """What would have been deleted of one user, and what of that was used afterwards."""

    uid: int
    name: str | None
    deleted: FreedDocument
    missed: FreedDocument


class ReplayAgeDocument(Document):
    """The same of files of one age at the time: four weeks of ages from ``from_days``."""

    from_days: int
    deleted: FreedDocument
    missed: FreedDocument


class PurgeReplayDocument(Document):
    """What a cut-off of then would have deleted, and what became of it."""

    then: datetime | None
    later: datetime | None
    before: datetime | None
    reads_known: bool
    deleted: FreedDocument
    missed: FreedDocument
    outcomes: dict[str, FreedDocument]
    users: list[ReplayUserDocument]
    ages: list[ReplayAgeDocument]
    words: list[str]


def replay_document(found: Replay, before_s: int) -> PurgeReplayDocument:
    """Return a replay as its JSON document."""
    return PurgeReplayDocument(
        then=moment_of(found.then_s),
        later=moment_of(found.later_s),
        before=moment_of(before_s),
        reads_known=found.reads_known,
        deleted=_share(found.deleted),
        missed=_share(found.missed),
        outcomes={one.value: _share(share) for one, share in found.outcomes.items()},
        users=[
            ReplayUserDocument(
                uid=one.uid,
                name=name_of(one.uid, user_name),
                deleted=_share(one.deleted),
                missed=_share(one.missed),
            )
            for one in found.users
        ],
        ages=[
            ReplayAgeDocument(
                from_days=one.from_days, deleted=_share(one.deleted), missed=_share(one.missed)
            )
            for one in found.ages
        ],
        words=list(found.words),
    )


def _share(share: Share) -> FreedDocument:
    return FreedDocument(**fields(share, FreedDocument))

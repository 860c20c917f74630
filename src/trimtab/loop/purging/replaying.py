"""What a policy of then would have deleted, and how much of that was used by now."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trimtab.errors import RefusedError, UsageError
from trimtab.loop.purging.answering import Measure, usage_now
from trimtab.loop.purging.horizons import Question, ask_horizon, choose
from trimtab.purge.horizon.replay import Replay, replay
from trimtab.purge.index.manifest import Manifest
from trimtab.purge.index.manifest_file import load_manifest
from trimtab.purge.index.views import readable, scanned
from trimtab.report.documents.encode import shape
from trimtab.units import EpochS


@dataclass(frozen=True, slots=True)
class PurgeReplayDocument:
    """What a past cut-off would have deleted, and its later use."""

    replay: Replay
    before_s: EpochS


shape(PurgeReplayDocument, inline={"replay": ()})


def replay_policy(
    question: Question,
    later: Path,
    *,
    before: datetime | None = None,
    reads_known: bool = False,
    measure: Measure = usage_now,
) -> PurgeReplayDocument:
    """Return what a policy would have deleted of an earlier index, and what became of it.

    Parameters
    ----------
    question
        Of the earlier index.
    later
        Directory of the later one.
    before
        The cut-off; ``None``: the horizon of the target.
    reads_known
        Whether every class of client recorded reads in between.

    Raises
    ------
    UsageError
        The two are not of one file system, or the later one is not later.
    RefusedError
        Nothing would have been deleted.
    """
    import polars as pl

    afterwards = load_manifest(later)
    earlier = load_manifest(question.directory)
    require_same(earlier, afterwards)
    # As of then: an exemption that has ended since kept its files at the time.
    then = datetime.fromtimestamp(earlier.as_of_s, UTC)
    horizon = ask_horizon(question, now=then, measure=measure)
    before_s = horizon.answer.needed.cut_off_s
    if before is not None:
        before_s = int(before.timestamp()) // 3600 * 3600
    if before_s is None:
        raise RefusedError(
            f"nothing would have been deleted: {horizon.answer.needed.words(earlier.as_of_s)[0]}",
            code="nothing-needed",
            hint="give the use of then with --used and --available, or a cut-off with --before",
        )
    with tempfile.TemporaryDirectory(prefix="trimtab-replay-") as aside:
        candidates = Path(aside, "candidates.parquet")
        choose(question, horizon, before_s, candidates)
        with readable():
            came = replay(
                pl.scan_parquet(candidates, glob=False),
                scanned(later, afterwards),
                then_s=earlier.as_of_s,
                later_s=afterwards.as_of_s,
                reads_known=reads_known,
            )
    return PurgeReplayDocument(came, before_s)


def require_same(earlier: Manifest, later: Manifest) -> None:
    """Raise unless two indexes are of the same root and file system.

    Raises
    ------
    UsageError
        They are not, as far as they say.
    """
    first, other = earlier.filesystem, later.filesystem
    if earlier.root != later.root or (first and other and not first.may_be_same(other)):
        raise UsageError(
            "the two indexes are not of the same file system and root",
            code="indexes-differ",
            hint="what became of a file is told by its identity there",
        )

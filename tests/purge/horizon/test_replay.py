"""What a past policy would have deleted, and what of it was used: against a loop over files."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises

from trimtab.base.error import UsageError
from trimtab.purge.fullness import Freed
from trimtab.purge.horizon.horizon_answer import Afterwards, Replay, replay

DAY_S = 86400
THEN_S = 1000 * DAY_S
LATER_S = THEN_S + 90 * DAY_S


@dataclass(frozen=True)
class Row:
    """One name in an index."""

    id: int
    device: int = 1
    uid: int = 1000
    allocated_bytes: int = 4096
    atime_ns: int | None = 100
    mtime_ns: int | None = 100
    ctime_ns: int | None = 100
    btime_ns: int | None = 50
    last_use_s: int = THEN_S - 100 * DAY_S


def frame(rows: list[Row]) -> pl.LazyFrame:
    schema = {
        "id": pl.Binary, "device": pl.UInt64, "uid": pl.UInt32, "allocated_bytes": pl.UInt64,
        "atime_ns": pl.Int64, "mtime_ns": pl.Int64, "ctime_ns": pl.Int64, "btime_ns": pl.Int64,
        "last_use_s": pl.Int64,
    }  # fmt: skip
    values = [(row.id.to_bytes(16, "big"), *astuple(row)[1:]) for row in rows]
    return pl.LazyFrame(values, schema=schema, orient="row")


def replayed(then: list[Row], later: list[Row], *, reads_known: bool = True) -> Replay:
    terms = {"then_s": THEN_S, "later_s": LATER_S, "reads_known": reads_known}
    return replay(frame(then), frame(later), **terms)


def judged(before: Row, after: Row | None, *, reads_known: bool) -> Afterwards:
    """Return what became of one file, step by step."""
    if after is None:
        return Afterwards.GONE
    if None not in (before.btime_ns, after.btime_ns) and before.btime_ns != after.btime_ns:
        return Afterwards.GONE
    for name, outcome in (("mtime_ns", Afterwards.WRITTEN), ("atime_ns", Afterwards.READ)):
        if outcome is Afterwards.READ and not reads_known:
            continue
        one, two = getattr(before, name), getattr(after, name)
        if one is not None and two is not None and two > one:
            return outcome
    if None not in (before.ctime_ns, after.ctime_ns) and before.ctime_ns != after.ctime_ns:
        return Afterwards.CHANGED
    return Afterwards.UNTOUCHED


times = st.none() | st.integers(98, 103)
rows = st.lists(
    st.builds(
        Row,
        id=st.integers(1, 12),
        uid=st.integers(0, 2),
        allocated_bytes=st.integers(0, 10**6),
        atime_ns=times,
        mtime_ns=times,
        ctime_ns=times,
        btime_ns=st.none() | st.integers(50, 51),
        last_use_s=st.integers(THEN_S - 300 * DAY_S, THEN_S - DAY_S),
    ),
    max_size=12,
    unique_by=lambda row: row.id,
)


@pytest.mark.calibration
@given(rows, rows, st.booleans())
def test_every_file_is_what_a_loop_says(then: list[Row], later: list[Row], known: bool) -> None:
    got = replayed(then, later, reads_known=known)
    by_id = {row.id: row for row in later}
    expected: dict[Afterwards, Freed] = {}
    missed: dict[int, Freed] = {}
    for row in then:
        outcome = judged(row, by_id.get(row.id), reads_known=known)
        share = Freed(1, row.allocated_bytes)
        expected[outcome] = expected.get(outcome, Freed()) + share
        if outcome in (Afterwards.WRITTEN, Afterwards.READ):
            missed[row.uid] = missed.get(row.uid, Freed()) + share
    assert got.outcomes == expected
    assert {user.uid: user.missed for user in got.users} == missed
    assert sum((age.deleted for age in got.ages), Freed()) == got.deleted
    assert sum((age.missed for age in got.ages), Freed()) == got.missed
    assert all(word.isprintable() for word in got.words)


@pytest.mark.parametrize(
    ("then", "later", "outcomes"),
    [
        pytest.param(
            [Row(1), Row(1)], [Row(1, mtime_ns=200), Row(1, mtime_ns=200)], [Afterwards.WRITTEN],
            id="names of one file count once",
        ),
        pytest.param(
            [Row(1)], [Row(1, btime_ns=60, mtime_ns=10**9)], [Afterwards.GONE],
            id="a number that was given out again is another file",
        ),
        pytest.param(
            [Row(1)], [Row(1, device=77)], [Afterwards.UNTOUCHED],
            id="a mount's new device number is the same file system",
        ),
        pytest.param(
            [Row(1), Row(1, device=2)], [Row(1, device=2, mtime_ns=200)],
            [Afterwards.GONE, Afterwards.WRITTEN], id="of several devices numbers are compared",
        ),
    ],
)  # fmt: skip
def test_what_is_the_same_file(
    then: list[Row], later: list[Row], outcomes: list[Afterwards]
) -> None:
    assert replayed(then, later).outcomes == dict.fromkeys(outcomes, Freed(1, 4096))


def test_reads_that_are_not_recorded_are_not_known() -> None:
    read = Row(1, atime_ns=500)
    assert replayed([Row(1)], [read]).missed == Freed(1, 4096)
    got = replayed([Row(1)], [read], reads_known=False)
    assert got.missed == Freed()
    assert "not every client records reads" in got.words[-1]


def test_ages_are_of_then() -> None:
    young, old = THEN_S - 30 * DAY_S, THEN_S - 200 * DAY_S
    then = [Row(1, last_use_s=young), Row(2, last_use_s=old), Row(3, last_use_s=old)]
    later = [replace(then[0], mtime_ns=200), then[1], replace(then[2], atime_ns=200)]
    got = replayed(then, later)
    assert [(age.from_days, age.deleted.files, age.missed.files) for age in got.ages] == [
        (28, 1, 1), (196, 2, 1),
    ]  # fmt: skip


def test_the_words() -> None:
    got = replayed([Row(1), Row(2)], [Row(1, atime_ns=200), Row(2)])
    assert got.words == (
        "2 files with 8.00 KiB would have been deleted; 1 file with 4.00 KiB (50.00 % of the "
        "bytes) were read or written in the 90.0 d after it.",
    )
    assert replayed([], [Row(1)]).words == ("Nothing would have been deleted.",)


def test_time_runs_forward() -> None:
    for later_s in (THEN_S, LATER_S):
        with raises(UsageError, "index-not-later"):
            replay(frame([]), frame([]), then_s=LATER_S, later_s=later_s, reads_known=True)

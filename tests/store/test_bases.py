"""Of snapshots with the same rows one is kept whole, and of the others what differs from it."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select, update
from tests.store import values
from tests.store.conftest import OpenStore
from tests.store.damage import damaged_rows
from tests.store.values import NOON, a_snapshot, texts
from tests.support.codes import raises

from trimtab.base.error import UnreadableError
from trimtab.base.snapshot import Reading, Snapshot, Target, TargetSnapshot
from trimtab.store import checksum, schema, snapshot_batch
from trimtab.store.snapshot_batch import Base, Values, frame_of
from trimtab.store.store import Store

HOUR = timedelta(hours=1)
OTHERS = {
    bool: st.booleans(),
    int: st.integers(-(2**63), 2**63 - 1),
    float: values.finite | st.sampled_from([0.0, -0.0]),
    str: texts,
}


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Snapshot, Snapshot]:
    """Two snapshots with the same rows; integers of more than 64 bits stay as they are."""
    snapshot = draw(values.snapshots)

    def changed(reading: Reading) -> Reading:
        value = reading.value
        large = type(value) is int and not -(2**63) <= value < 2**63
        if value is None or large or draw(st.booleans()):
            return reading
        return replace(reading, value=draw(OTHERS[type(value)]))

    targets = tuple(
        replace(target, readings=tuple(map(changed, target.readings)))
        for target in snapshot.targets
    )
    return snapshot, replace(snapshot, targets=targets)


@pytest.mark.system
@settings(deadline=None)
@given(pair=pairs())
def test_what_changed_and_its_base_are_the_very_snapshot(pair: tuple[Snapshot, Snapshot]) -> None:
    first, second = pair
    base = Base.of(frame_of(first))
    assert base.fits(frame_of(second))
    decoded = snapshot_batch.decode(
        base.changes(Values.of(frame_of(second))),
        base,
        at=second.at,
        driver=second.driver,
        complete=second.complete,
    )
    assert repr(decoded) == repr(second)


def site(hour: int, *, targets: int = 40, answers: bool = True) -> Snapshot:
    """A site whose counters grow; where it does not answer its readings have a reason."""
    why = None if answers else "did not answer"
    snapshots = tuple(
        TargetSnapshot(
            Target(f"OST{number:04x}", "ost", "oss1"),
            (
                Reading("capacity_bytes", 10**14, "lfs df"),
                Reading("used_bytes", hour * 10**9 + number if answers else None, "lfs df", why),
                *(Reading("bytes_written_total", 10**12, "proc", None, f"d{n}") for n in range(30)),
            ),
        )
        for number in range(targets)
    )
    return Snapshot(NOON + hour * HOUR, "lustre", answers, snapshots)


def bases(store: Store) -> int:
    with store._reading() as connection:
        return connection.execute(
            select(func.count()).select_from(schema.snapshot_base)
        ).scalar_one()


def batch_sizes(store: Store) -> list[int]:
    table = schema.snapshot.c
    with store._reading() as connection:
        return [
            len(row) for row in connection.execute(select(table.batch).order_by(table.at)).scalars()
        ]


@pytest.mark.system
def test_one_base_serves_all_that_are_alike(open_store: OpenStore) -> None:
    store = open_store()
    alike = [site(hour, answers=hour % 3 != 2) for hour in range(12)]
    for snapshot in alike[:6]:
        store.add_snapshot("scratch", snapshot)
    again = open_store()  # another process
    for snapshot in alike[6:]:
        again.add_snapshot("scratch", snapshot)
    assert bases(store) == 2
    assert store.snapshots("scratch") == tuple(reversed(alike))
    whole = len(Base.of(frame_of(alike[3])).batch)
    assert max(batch_sizes(store)) < whole / 2
    readings, _ = store.telemetry_frames("scratch", [one.at for one in alike], names=["used_bytes"])
    assert readings.filter(pl.col("number").is_not_null()).height == 8 * 40


@pytest.mark.system
def test_other_sites_have_bases_of_their_own(open_store: OpenStore) -> None:
    store = open_store()
    for name in ("one", "two"):
        store.add_snapshot(name, site(1), identifier=name)
    assert bases(store) == 2
    assert store.snapshot("one") == store.snapshot("two") == site(1)


@pytest.mark.system
def test_bases_that_nothing_needs_go_with_their_snapshots(open_store: OpenStore) -> None:
    store = open_store()
    for hour in range(4):
        store.add_snapshot("scratch", site(hour, targets=2 + hour // 2))
    assert bases(store) == 2
    removed = store.prune("scratch", NOON + 2 * HOUR, now=NOON + 4 * HOUR)
    assert (removed.snapshots, bases(store)) == (2, 1)
    store.prune("scratch", NOON + 9 * HOUR, now=NOON + 9 * HOUR)
    assert store.snapshots("scratch") == ()
    assert bases(store) == 1, "the newest stays for the next snapshot"
    store.add_snapshot("scratch", site(5, targets=3))
    assert store.latest_snapshot("scratch") == site(5, targets=3)
    assert bases(store) == 1


@pytest.mark.system
def test_a_damaged_base_is_told(open_store: OpenStore) -> None:
    store = open_store()
    store.add_snapshot("scratch", a_snapshot())
    with store._writing() as connection:
        connection.execute(update(schema.snapshot_base).values(batch=b"rubbish"))
    fresh = open_store()
    with raises(UnreadableError, "snapshot-unreadable"):
        fresh.latest_snapshot("scratch")


def test_changes_of_another_base_are_refused() -> None:
    large, small = Base.of(frame_of(site(0))), Base.of(frame_of(a_snapshot()))
    changes = large.changes(Values.of(frame_of(site(1))))
    with raises(UnreadableError, "snapshot-unreadable"):
        snapshot_batch.decode(changes, small, at=NOON, driver="lustre", complete=True)


def test_changes_of_an_unreleased_version_are_refused() -> None:
    base, values = Base.of(frame_of(site(0))), Values.of(frame_of(site(1)))
    snapshot_batch.frame_of_batch(base.changes(values), base, NOON)
    arrow, whole = io.BytesIO(), zlib.decompress(base.batch)
    pl.DataFrame({"row": [0], "integer": [1]}).write_ipc(arrow)
    for changes in (b"planes02" + bytes(16), arrow.getvalue(), whole):
        with raises(UnreadableError, "snapshot-unreadable"):
            snapshot_batch.frame_of_batch(zlib.compress(changes), base, NOON)


@pytest.mark.system
def test_a_snapshot_without_a_base_is_refused(open_store: OpenStore) -> None:
    store = open_store()
    identifier = store.add_snapshot("scratch", site(0))
    with store._writing() as connection:
        connection.execute(update(schema.snapshot).values(base=None))
        checksum.resum(connection, schema.snapshot)
    fresh = open_store()
    for question in (
        lambda: fresh.snapshot(identifier),
        lambda: fresh.telemetry_frames("scratch", [site(0).at]),
    ):
        with raises(UnreadableError, "snapshot-unreadable", identifier):
            question()
    assert damaged_rows(fresh) == [f"snapshot {identifier}"]


def test_a_base_with_other_values_serves_the_same_rows() -> None:
    first, second = Base.of(frame_of(site(0))), frame_of(site(1))
    base = first.with_values(Values.of(second))
    assert base.fits(second)
    assert Base.read(base.batch, base.digest).frame.equals(base.frame)
    changes = base.changes(Values.of(frame_of(site(2))))
    read = snapshot_batch.decode(changes, base, at=site(2).at, driver="lustre", complete=True)
    assert read == site(2)


@pytest.mark.parametrize("damage", [lambda data: data[:20], lambda data: data + b"x"])
def test_damaged_changes_are_told(damage: Callable[[bytes], bytes]) -> None:
    base = Base.of(frame_of(site(0)))
    changes = base.changes(Values.of(frame_of(site(1))))
    damaged = zlib.compress(damage(zlib.decompress(changes)))
    with raises(UnreadableError, "snapshot-unreadable"):
        snapshot_batch.frame_of_batch(damaged, base, NOON)

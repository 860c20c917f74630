"""Snapshots as columnar batches, exact and compact: one kept whole, of others what differs."""

from __future__ import annotations

import hashlib
import io
import random
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
from tests.store.test_damage import damaged_rows
from tests.store.values import NOON, a_snapshot, texts
from tests.support.codes import raises

from trimtab.base.error import Message, UnreadableError, code_of
from trimtab.base.snapshot import (
    TELEMETRY_UNITS,
    HostSnapshot,
    NotAvailable,
    Reading,
    Setting,
    Snapshot,
    Target,
    TargetSnapshot,
    not_available,
)
from trimtab.store import checksum, schema, snapshot_batch
from trimtab.store.snapshot_batch import Base, Values, frame_of
from trimtab.store.store import Store

# Snapshots as columnar batches: exact, compact, readable by others, clear when damaged.


def _encoded(snapshot: Snapshot) -> bytes:
    return Base.of(frame_of(snapshot)).batch


def _decoded(data: bytes, *, driver: str = "local", complete: bool = True) -> Snapshot:
    base = Base.read(data, hashlib.sha256(data).hexdigest())
    same = base.changes(base.values)
    return snapshot_batch.decode(same, base, at=NOON, driver=driver, complete=complete)


@pytest.mark.system
@settings(deadline=None)
@given(snapshot=values.snapshots)
def test_every_value_keeps_its_type(snapshot: Snapshot) -> None:
    decoded = _decoded(_encoded(snapshot), driver=snapshot.driver, complete=snapshot.complete)
    assert repr(replace(decoded, at=snapshot.at)) == repr(snapshot)


def test_a_target_without_readings_and_no_target_at_all() -> None:
    bare = TargetSnapshot(Target("OST0000", "ost", "oss1"), ())
    for targets in ((bare,), (bare, bare), ()):
        snapshot = Snapshot(NOON, "local", True, targets)
        assert _decoded(_encoded(snapshot)) == snapshot


def test_reasons_keep_their_codes() -> None:
    absent = not_available("file-missing", "no such file")
    reading = Reading("capacity_bytes", None, None, absent.reason)
    ost = TargetSnapshot(Target("OST0000", "ost", "oss1"), (reading,), {"mb_stats": absent})
    host = HostSnapshot("oss1", "server", False, Message("no-answer", "did not answer"))
    decoded = _decoded(_encoded(Snapshot(NOON, "lustre", False, (ost,), (host,))))
    kept = decoded.targets[0]
    setting = kept.settings["mb_stats"]
    assert isinstance(setting, NotAvailable)
    reasons = [kept.readings[0].reason, setting.reason, decoded.hosts[0].problem]
    assert [code_of(reason) for reason in reasons] == ["file-missing", "file-missing", "no-answer"]
    assert reasons == ["no such file", "no such file", "did not answer"]


def _table() -> pl.DataFrame:
    """Return the rows of a batch, as another program reads them."""
    return pl.read_ipc(io.BytesIO(zlib.decompress(_encoded(a_snapshot()))))


def test_another_program_can_read_it() -> None:
    assert _table().select("target", "name", "integer", "reason").rows() == [
        ("/scratch", "used_bytes", 10, None),
        ("/scratch", "drive_percentage_used", None, "nvme is not installed"),
    ]


@pytest.mark.system
def test_a_site_of_a_thousand_targets_is_small() -> None:
    chance = random.Random(1)
    readings = [
        tuple(
            Reading(name, chance.randrange(10**12), f"lctl get_param obdfilter.*.{name}")
            for name in TELEMETRY_UNITS
        )
        for _ in range(1000)
    ]
    snapshot = Snapshot(
        NOON,
        "lustre",
        True,
        tuple(
            TargetSnapshot(Target(f"OST{n:04x}", "ost", f"oss{n // 10}"), one)
            for n, one in enumerate(readings)
        ),
    )
    data = _encoded(snapshot)
    assert _decoded(data).targets == snapshot.targets
    # 33,000 random numbers below 10^12 alone are 5 bytes each.
    assert len(data) < 8 * 1000 * len(TELEMETRY_UNITS)


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_batch_that_was_cut_off_is_said(part: float) -> None:
    data = _encoded(a_snapshot())
    with raises(UnreadableError, "snapshot-unreadable"):
        _decoded(data[: int(len(data) * part)])


def test_rubbish_is_said() -> None:
    with raises(UnreadableError, "snapshot-unreadable"):
        _decoded(random.Random(1).randbytes(3000))


def test_a_single_wrong_bit_is_said_or_harmless() -> None:
    data = _encoded(a_snapshot())
    said = 0
    chance = random.Random(20261120)
    for _ in range(300):
        damaged = bytearray(data)
        damaged[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        try:
            decoded = _decoded(bytes(damaged))
        except UnreadableError:
            said += 1
        else:
            assert decoded == a_snapshot()  # a few bits of the stream mean nothing
    assert said > 290


@pytest.mark.parametrize(
    ("changed", "shows"),
    [
        (lambda rows: rows.with_columns(name=pl.lit("drive_temperature")), "drive_temperature"),
        (lambda rows: rows.with_columns(type=pl.lit("complex")), "complex"),
        (lambda rows: rows.drop("part"), "part"),
    ],
    ids=["a name of a newer program", "its type", "an unreleased version"],
)
def test_rows_of_another_version_are_refused(
    changed: Callable[[pl.DataFrame], pl.DataFrame], shows: str
) -> None:
    stream = io.BytesIO()
    changed(_table()).write_ipc(stream)
    with raises(UnreadableError, "snapshot-unreadable", shows):
        _decoded(zlib.compress(stream.getvalue()))


def _large_target(number: int, chance: random.Random) -> TargetSnapshot:
    name = f"OST{number:04x}"
    labels = [(one, None) for one in TELEMETRY_UNITS]
    labels += [("allocator_useless_loops_total", f"cr{level}") for level in range(11)]
    settings: dict[str, Setting | NotAvailable] = {}
    for drive in range(10):
        for one in ("scheduler", "wbt_lat_usec", "max_sectors_kb"):
            key = f"block/nvme{drive}n1/queue/{one}"
            settings[key] = Setting(key, str(chance.randrange(1000)), f"/sys/{key}")
    readings = tuple(
        Reading(one, chance.randrange(10**12), f"obdfilter.scratch-{name}.{one}", label=label)
        for one, label in labels
    )
    return TargetSnapshot(Target(name, "ost", f"oss{number // 2}"), readings, settings)


def test_a_whole_perlmutter_is_small() -> None:
    chance = random.Random(2)
    hosts = tuple(
        HostSnapshot(
            f"oss{number}",
            "server",
            answered=number != 9,
            problem="no answer in 20 s" if number == 9 else None,
            readings=(Reading("server_cpu_fraction", chance.random(), "/proc/stat"),),
            settings={
                "kernel_release": Setting("kernel_release", "5.14.0", "/proc/sys"),
                "lustre_version": NotAvailable("lctl is not there"),
            },
        )
        for number in range(157)
    )
    targets = tuple(_large_target(number, chance) for number in range(314))
    snapshot = Snapshot(NOON, "lustre", False, targets, hosts)
    data = _encoded(snapshot)
    assert _decoded(data, driver="lustre", complete=False) == snapshot
    # 17,900 random numbers below 10^12 and 9,400 below 1,000: a year of hours is 2.3 GB, no more.
    assert len(data) < 265_000


# Of snapshots with the same rows one is kept whole, and of the others what differs from it.

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
    damaged = zlib.compress(damage(zlib.decompress(base.changes(Values.of(frame_of(site(1)))))))
    with raises(UnreadableError, "snapshot-unreadable"):
        snapshot_batch.frame_of_batch(damaged, base, NOON)

"""Snapshots as columnar batches: exact, compact, readable by others, clear when damaged."""

from __future__ import annotations

import hashlib
import io
import random
import zlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from tests.store import values
from tests.store.values import NOON, a_snapshot
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
from trimtab.store import snapshot_batch
from trimtab.store.snapshot_batch import Base, frame_of


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


def test_another_program_can_read_it() -> None:
    import polars as pl

    frame = pl.read_ipc(io.BytesIO(zlib.decompress(_encoded(a_snapshot()))))
    assert frame.select("target", "name", "integer", "reason").rows() == [
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


def test_a_name_of_a_newer_program_is_said() -> None:
    import polars as pl

    frame = pl.read_ipc(io.BytesIO(zlib.decompress(_encoded(a_snapshot()))))
    stream = io.BytesIO()
    frame.with_columns(name=pl.lit("drive_temperature")).write_ipc(stream)
    with raises(UnreadableError, "snapshot-unreadable", "drive_temperature"):
        _decoded(zlib.compress(stream.getvalue()))
    stream = io.BytesIO()
    frame.with_columns(type=pl.lit("complex")).write_ipc(stream)
    with raises(UnreadableError, "snapshot-unreadable", "complex"):
        _decoded(zlib.compress(stream.getvalue()))


def test_a_base_of_an_unreleased_version_is_refused() -> None:
    import polars as pl

    frame = pl.read_ipc(io.BytesIO(zlib.decompress(_encoded(a_snapshot()))))
    stream = io.BytesIO()
    frame.drop("part").write_ipc(stream)
    with raises(UnreadableError, "snapshot-unreadable", "part"):
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
    # 14,000 random numbers below 10^12 and 9,400 below 1,000: a year of hours is 2 GB, no more.
    assert len(data) < 250_000

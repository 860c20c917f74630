"""File systems to begin with: the recorded machine, a pair of pairs, a large one."""

from __future__ import annotations

from typing import Any

from .state import KIB, FakeDrive, FakeLustre, FakeServer, FakeTarget

TIB = 2**40


def small(**changes: Any) -> FakeLustre:
    """Return the machine of the recordings, as it was after its first start."""
    host = "lustre1"
    server = FakeServer(host, ["10.0.2.15@tcp"])
    targets = [
        FakeTarget(
            name,
            host,
            capacity_bytes=total * KIB,
            used_bytes=used * KIB,
            reserved_bytes=(total - used - available) * KIB,
            inodes_total=inodes,
            inodes_used=inodes_used,
            device=device,
            wbt_us=75000,
            untrimmed_bytes=(total - used) * KIB,
        )
        for name, total, used, available, inodes, inodes_used, device in (
            ("MDT0000", 2316144, 1776, 2089828, 1677728, 283, "vdb"),
            ("MDT0001", 1738616, 1596, 1564932, 1258296, 261, "vdc"),
            ("OST0000", 3833116, 1528, 3605492, 262144, 369, "vdd"),
            ("OST0001", 3833116, 1528, 3605492, 262144, 369, "vde"),
            ("OST0002", 3833116, 1528, 3605492, 262144, 369, "vdf"),
            ("OST0003", 3833116, 1528, 3605492, 262144, 369, "vdg"),
        )
    ]
    values: dict[str, Any] = {
        "servers": [server],
        "targets": targets,
        "client": host,
        "client_name": host,
        "client_nid": "10.0.2.15@tcp",
        "boot": "fresh",
        "allocator_counts": False,
    }
    return FakeLustre(**{**values, **changes})


def pair(**changes: Any) -> FakeLustre:
    """Return 2 MDSs and 4 OSSs in pairs; 2 MDTs, 8 OSTs, each on an md array of 4 drives."""
    servers = [FakeServer(f"mds{n}", [f"10.1.0.{n}@tcp"], cpus=16) for n in (1, 2)]
    servers += [FakeServer(f"oss{n}", [f"10.1.1.{n}@tcp"], cpus=32) for n in (1, 2, 3, 4)]
    targets = [
        _on_drives(f"MDT{n:04x}", f"mds{n + 1}", f"mds{2 - n}", place=n, drives=2, size=2 * TIB)
        for n in (0, 1)
    ]
    for n in range(8):
        oss = n // 2 + 1
        partner = oss + 1 if oss % 2 else oss - 1
        targets.append(
            _on_drives(f"OST{n:04x}", f"oss{oss}", f"oss{partner}", place=n % 4, drives=4, size=0)
        )
    values: dict[str, Any] = {"servers": servers, "targets": targets, "client_nid": "10.1.9.1@tcp"}
    return FakeLustre(**{**values, **changes})


def perlmutter(**changes: Any) -> FakeLustre:
    """Return a file system of the size of Perlmutter's scratch: 35 PB, 3,768 drives."""
    servers = [FakeServer(f"mds{n:03d}", [f"10.2.0.{n}@o2ib"], cpus=64) for n in range(1, 9)]
    servers += [
        FakeServer(f"oss{n:03d}", [f"10.3.{n // 250}.{n % 250}@o2ib"], cpus=64)
        for n in range(1, 150)
    ]
    targets = [
        _on_drives(
            f"MDT{n:04x}",
            f"mds{n // 2 + 1:03d}",
            f"mds{(n // 2 ^ 1) + 1:03d}",
            place=n % 4,
            drives=12,
            size=45 * TIB,
        )
        for n in range(16)
    ]
    for n in range(298):
        oss = n // 2
        partner = min(oss ^ 1, 147) if oss < 148 else 147
        targets.append(
            _on_drives(
                f"OST{n:04x}",
                f"oss{oss + 1:03d}",
                f"oss{partner + 1:03d}",
                place=n % 4 + (4 if oss == 148 else 0),  # the last one shares a partner
                drives=12,
                size=0,
            )
        )
    values: dict[str, Any] = {
        "servers": servers,
        "targets": targets,
        "lustre_version": "2.15.4",
        "kernel": "4.18.0-513.9.1.el8_lustre.x86_64",
        "allocator": "loops",
        "client_nid": "10.4.0.1@o2ib",
        "client_name": "login01",
    }
    return FakeLustre(**{**values, **changes})


def _on_drives(
    name: str, server: str, partner: str, *, place: int, drives: int, size: int
) -> FakeTarget:
    """One target, a little less than half full, on an array of two parity drives."""
    members = [
        FakeDrive(f"nvme{place * drives + n}n1", flash_written_bytes=0) for n in range(drives)
    ]
    capacity = size or sum(drive.size_bytes for drive in members) * 8 // 10
    capacity -= capacity % 4096
    used = capacity * 45 // 100 // 4096 * 4096
    for drive in members:
        drive.written_bytes = used * 3 // drives
        drive.flash_written_bytes = drive.written_bytes * 13 // 10
    inodes = capacity // (4096 if name.startswith("MDT") else 2**20)
    return FakeTarget(
        name,
        server,
        partner=partner,
        capacity_bytes=capacity,
        used_bytes=used,
        reserved_bytes=capacity // 100 // 4096 * 4096,
        inodes_total=inodes,
        inodes_used=inodes // 5,
        device=f"md{place + 1}",
        drives=members,
        discard_granularity=4096,
        written_bytes=used * 3,
        write_calls=used * 3 >> 20,
        read_bytes=used * 5,
        read_calls=used * 5 >> 20,
        operations=10**9,
        allocator_requests=used * 3 >> 20,
        criteria=[[used * 3 >> 20, used * 3 >> 20, used * 3 >> 20, 0], *([0] * 4 for _ in "1234")],
        discarded_kib=used >> 10,
        discard_ops=used >> 20,
        mount_options="",
    )

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
    values: dict[str, Any] = {"servers": [server], "targets": targets}
    values |= {"client": host, "client_name": host, "client_nid": "10.0.2.15@tcp"}
    values |= {"boot": "fresh", "allocator_counts": False, **changes}
    return FakeLustre(**values)


def pair(**changes: Any) -> FakeLustre:
    """Return 2 MDSs and 4 OSSs in pairs; 2 MDTs, 8 OSTs, each on an md array of 4 drives."""
    servers = [FakeServer(f"mds{n}", [f"10.1.0.{n}@tcp"], cpus=16) for n in (1, 2)]
    servers += [FakeServer(f"oss{n}", [f"10.1.1.{n}@tcp"], cpus=32) for n in (1, 2, 3, 4)]
    targets = [
        _on_drives("MDT", n, f"mds{n + 1}", f"mds{2 - n}", n, drives=2, size=2 * TIB)
        for n in (0, 1)
    ]
    targets += [
        _on_drives("OST", n, f"oss{n // 2 + 1}", f"oss{(n // 2 ^ 1) + 1}", n % 4, drives=4)
        for n in range(8)
    ]
    values: dict[str, Any] = {"servers": servers, "targets": targets, "client_nid": "10.1.9.1@tcp"}
    return FakeLustre(**{**values, **changes})


def perlmutter(**changes: Any) -> FakeLustre:
    """Return a file system of the size of Perlmutter's scratch: 35 PB, 3,768 drives."""
    servers = [FakeServer(f"mds{n:03d}", [f"10.2.0.{n}@o2ib"], cpus=64) for n in range(1, 9)]
    for n in range(1, 150):
        nid = f"10.3.{n // 250}.{n % 250}@o2ib"
        servers.append(FakeServer(f"oss{n:03d}", [nid], cpus=64))
    targets = []
    for n in range(16):
        names = f"mds{n // 2 + 1:03d}", f"mds{(n // 2 ^ 1) + 1:03d}"
        targets.append(_on_drives("MDT", n, *names, n % 4, drives=12, size=45 * TIB))
    for n in range(298):
        own = n // 2 + 1
        # The last one shares a partner.
        partner = min((n // 2 ^ 1) + 1, 148) if own < 149 else 148
        names = f"oss{own:03d}", f"oss{partner:03d}"
        place = n % 4 + (4 if own == 149 else 0)
        targets.append(_on_drives("OST", n, *names, place, drives=12))
    values: dict[str, Any] = {"servers": servers, "targets": targets, "allocator": "loops"}
    values |= {"lustre_version": "2.15.4", "kernel": "4.18.0-513.9.1.el8_lustre.x86_64"}
    values |= {"client_nid": "10.4.0.1@o2ib", "client_name": "login01"}
    return FakeLustre(**{**values, **changes})


def _on_drives(
    kind: str, index: int, server: str, partner: str, place: int, *, drives: int, size: int = 0
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
    inodes = capacity // (4096 if kind == "MDT" else 2**20)
    calls = used * 3 >> 20
    return FakeTarget(
        f"{kind}{index:04x}",
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
        write_calls=calls,
        read_bytes=used * 5,
        read_calls=used * 5 >> 20,
        operations=10**9,
        allocator_requests=calls,
        criteria=[[calls, calls, calls, 0], *([0] * 4 for _ in "1234")],
        discarded_kib=used >> 10,
        discard_ops=used >> 20,
    )

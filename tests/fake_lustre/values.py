"""Values of several lines: statistics, imports, addresses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .state import FakeLustre, FakeTarget

_MARKED = "marked"
STARTED_AT_S = 1795190386.303542830
UP_SINCE_S = 1795190370.0

CONNECT_FLAGS = {
    "osp": "lov_index, connect_from_mds, version, adaptive_timeouts, lru_resize, fid_is_enabled, "
    "skip_orphan, full20, lvb_type, lfsck, bulk_mbits, second_flags, replay_create",
    "client": "write_grant, server_lock, version, max_byte_per_rpc, early_lock_cancel, "
    "adaptive_timeouts, lru_resize, alt_checksum_algorithm, fid_is_enabled, version_recovery, "
    "grant_shrink, full20, layout_lock, 64bithash, object_max_bytes, jobstats, einprogress, "
    "grant_param, hpreq_check1, lvb_type, short_io, lfsck, bulk_mbits, second_flags, lockaheadv2, "
    "increasing_xid, client_encryption, lseek, reply_mbits, unaligned_dio",
}


@contextmanager
def marked(state: FakeLustre) -> Iterator[None]:
    """Let times be written as marks inside the block: that text can be kept."""
    state.caches[_MARKED] = True
    try:
        yield
    finally:
        state.caches[_MARKED] = False


def marks(state: FakeLustre) -> dict[str, str]:
    """Return what each mark stands for now."""
    return {
        "@NOW@": f"{state.now_s:.9f}",
        "@ELAPSED@": f"{state.now_s - STARTED_AT_S:.9f}",
        "@UP@": f"{state.now_s - UP_SINCE_S:.2f}",
    }


def time_text(state: FakeLustre, mark: str) -> str:
    """Return a time, or the mark that stands for it."""
    return mark if state.caches.get(_MARKED) else marks(state)[mark]


def header(state: FakeLustre, width: int = 36) -> str:
    """Return the times that statistics begin with, as the version writes them."""
    now = time_text(state, "@NOW@")
    if state.version < (2, 15):
        return f"\n{'snapshot_time':<26s}{now} secs.nsecs"
    rows = (
        ("snapshot_time", now),
        ("start_time", f"{STARTED_AT_S:.9f}"),
        ("elapsed_time", time_text(state, "@ELAPSED@")),
    )
    return "".join(f"\n{name:<{width}s}{value} secs.nsecs" for name, value in rows)


def _counter(name: str, samples: int, total: int, unit: str, least: int, most: int) -> str:
    if samples <= 0:
        return ""
    mean = total // samples
    return (
        f"\n{name:<36s}{samples} samples [{unit}] {min(least, mean)} {max(most, mean)} {total} "
        f"{mean * mean * samples}"
    )


def obdfilter_stats(state: FakeLustre, target: FakeTarget) -> str:
    """Return ``obdfilter.*.stats``."""
    one = target
    return (
        header(state)
        + _counter("read_bytes", one.read_calls, one.read_bytes, "bytes", 4096, 4194304)
        + _counter("write_bytes", one.write_calls, one.written_bytes, "bytes", 4096, 4194304)
        + _counter("read", one.read_calls, one.read_calls * 400, "usecs", 90, 27532)
        + _counter("write", one.write_calls, one.write_calls * 900, "usecs", 120, 19710)
        + _counter("statfs", 172, 4676, "usecs", 1, 242)
    )


def md_stats(state: FakeLustre, target: FakeTarget) -> str:
    """Return ``mdt.*.md_stats``."""
    part = target.operations // 4
    lines = [
        _counter(name, part, part * 300, "usecs", 20, 42795)
        for name in ("open", "close", "getattr", "unlink")
    ]
    return header(state) + "".join(lines) + _counter("statfs", 24, 3444, "usecs", 28, 891)


def llite_stats(state: FakeLustre) -> str:
    """Return ``llite.*.stats``."""
    written, read = state.client_written_bytes, state.client_read_bytes
    return (
        header(state)
        + _counter("read_bytes", -(-read >> 20), read, "bytes", 4096, 1048576)
        + _counter("write_bytes", -(-written >> 20), written, "bytes", 4096, 1048576)
        + "\nioctl                               853 samples [reqs]"
        + _counter("statfs", 4, 12561, "usecs", 10, 10508)
        + _counter("opencount", 15, 15, "reqs", 1, 1)
    )


_SECTIONS = (
    ("pages per bulk r/w", "rpcs"),
    ("discontiguous pages", "rpcs"),
    ("discontiguous blocks", "rpcs"),
    ("disk fragmented I/Os", "ios"),
    ("disk I/Os in flight", "ios"),
    ("I/O time (1/1000s)", "ios"),
    ("disk I/O size", "ios"),
)


def brw_stats(state: FakeLustre, target: FakeTarget) -> str:
    """Return ``brw_stats``: every call is of 1 MiB and in one piece."""
    now = time_text(state, "@NOW@")
    if state.version >= (2, 15):
        parts = [
            f"\nsnapshot_time:            {now} secs.nsecs"
            f"\nstart_time:               {STARTED_AT_S:.9f} secs.nsecs"
            f"\nelapsed_time:             {time_text(state, '@ELAPSED@')} secs.nsecs"
        ]
    else:
        parts = [f"\nsnapshot_time:         {now} (secs.nsecs)"]
    sections = list(_SECTIONS)
    if state.version >= (2, 14):
        sections.append(("block maps msec", "maps"))
    reads, writes = target.read_calls, target.write_calls
    if target.kind == "MDT":
        reads = writes = 0
    labels = {
        "pages per bulk r/w": "256",
        "disk I/O size": "1M",
        "discontiguous pages": "0",
        "discontiguous blocks": "0",
    }
    for title, unit in sections:
        parts.append(f"\n\n{'read      |     write':>48s}")
        parts.append(f"\n{title:<22s} {unit:<5s} % cum % |  {unit:<11s} % cum %")
        if reads or writes:
            label = labels.get(title, "1")
            share = [100 if count else 0 for count in (reads, writes)]
            parts.append(
                f"\n{label}:\t\t{reads:10d} {share[0]:3d} {share[0]:3d}   "
                f"| {writes:4d} {share[1]:3d} {share[1]:3d}"
            )
    return "".join(parts)


_CLIENT_DATA = (
    "initial_grant: 8437760",
    "max_brw_size: 4194304",
    "grant_block_size: 4096",
    "grant_inode_size: 32",
    "grant_max_extent_size: 67108864",
    "grant_extent_tax: 24576",
    "cksum_types: 0x32",
    "max_object_bytes: 17592186040320",
)


def import_text(
    state: FakeLustre, name: str, target: FakeTarget, by: str, nids: list[str], now: str
) -> str:
    """Return an import: whether and how ``by`` reaches a target."""
    client = by == state.client_id
    active = target.client_active if client else target.osp_active.get(by, True)
    reached = state.reaches(target)
    link = "FULL" if reached else "DISCONN"
    flags = ["IMPF_REPLAYABLE", "IMPF_PINGABLE", "IMPF_CONNECT_TRIED"]
    if not active:
        flags = ["IMPF_INVALID", "IMPF_DEACTIVE", *flags]
    attempts = 1 if reached else 27
    quoted = [f'"{nid}"' for nid in nids]
    current = f'"{now}"'
    if state.version < (2, 16):
        quoted, current = nids, now
    stats = "".join(
        f'\n          "{nid}": {{ connects: {attempts}, replied: 1, uptodate: uptodate, '
        f"sec_ago: {89 if reached else 4} }}"
        for nid in nids
    )
    nids_stats = f"\n       nids_stats:{stats}" if state.version >= (2, 16) else ""
    connected = CONNECT_FLAGS["client" if client else "osp"]
    if client:
        data = "".join(f"\n       {row}" for row in _CLIENT_DATA)
    else:
        data = f"\n       mdt_index: {int(by[3:], 16)}\n       target_index: {target.index}"
    version = ".".join((*state.lustre_version.split("."), "0", "0")[:4])
    return (
        f"\nimport:\n    name: {state.file_system}-{_device(name, state)}"
        f"\n    target: {state.file_system}-{target.name}_UUID\n    state: {link}"
        f"\n    connect_flags: [ {connected} ]\n    connect_data:"
        f"\n       flags: {'0xa0427af2e3440038' if client else '0xa040401443000026'}"
        f"\n       instance: 1\n       target_version: {version}{data}"
        f"\n    import_flags: [ {', '.join(flags)} ]"
        f"\n    connection:\n       failover_nids: [ {', '.join(quoted)} ]{nids_stats}"
        f"\n       current_connection: {current}\n       connection_attempts: {attempts}"
        f"\n       generation: 2\n       in-progress_invalidations: 0\n       idle: 1 sec"
        f"\n    rpcs:\n       inflight: 0\n       unregistering: 0\n       timeouts: 0"
        f"\n       avg_waittime: 5522 usecs\n    service_estimates:\n       services: 5 sec"
        f"\n       network: 5 sec\n    transactions:\n       last_replay: 0"
        f"\n       peer_committed: 4294967586\n       last_checked: 4294967586"
    )


def _device(name: str, state: FakeLustre) -> str:
    return name.removeprefix(f"{state.file_system}-")


def stats_text(state: FakeLustre, host: str | None) -> str:
    """Return LNet's own ``stats``: eleven numbers."""
    name = state.client if host is None else host
    server = next((one for one in state.servers if one.name == name), None)
    sent = state.client_written_bytes if server is None else server.sent_bytes
    received = state.client_read_bytes if server is None else server.received_bytes
    calls = (sent >> 20, received >> 20)
    return f"0 4 0 {calls[0]} {calls[1]} 0 0 {sent} {received} 0 0"


def nis(state: FakeLustre, host: str | None) -> str:
    """Return the addresses of a host."""
    name = state.client if host is None else host
    server = next((one for one in state.servers if one.name == name), None)
    nids = [state.client_nid] if server is None else server.nids
    rows = [
        "nid                      status alive refs peer  rtr   max    tx   min",
        "0@lo                         up     0    2    0    0     0     0     0",
    ]
    rows += [f"{nid:<24s}     up    -1    1    8    0   256   256   255" for nid in nids]
    return "".join(f"\n{row}" for row in rows)

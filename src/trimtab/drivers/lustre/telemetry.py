"""The contract's telemetry of one Lustre target: every name, with its source or its reason.

Starts with the server's readings of the backing file system and drives; Lustre's and the client's
readings of the target then replace those of the same name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from trimtab.drivers.local.counters import Processors
from trimtab.drivers.local.telemetry import SPACE, MountedState
from trimtab.drivers.lustre.asking import JOBS
from trimtab.drivers.lustre.backing import read_backing
from trimtab.drivers.lustre.settings import target_settings
from trimtab.drivers.lustre.state import lost, state_readings, why_not_served
from trimtab.drivers.lustre.statistics import Stats, parse_lnet_stats, parse_stats
from trimtab.drivers.lustre.view import ServerView, View
from trimtab.model.telemetry import (
    TELEMETRY_UNITS,
    NotAvailable,
    Reading,
    Target,
    TargetSnapshot,
)

Cpu = dict[str, float | NotAvailable]
"""Server to the busy share of its CPUs since the last snapshot."""

_SPACE: Final = ("capacity_bytes", "used_bytes", "available_bytes")
_INODES: Final = ("inodes_total", "inodes_free")
_NOT_COUNTED: Final = NotAvailable("the server's CPUs were not read")
_NOT_METADATA: Final = frozenset({
    "statfs",
    "samedir_rename", "crossdir_rename", "parallel_rename_file", "parallel_rename_dir",
    "read", "write", "read_bytes", "write_bytes", "punch",
})  # fmt: skip
"""Counters of ``md_stats`` that are not job operations: ``statfs`` comes from ``df`` on clients;
each rename is already counted as ``rename``; the rest moves data on the MDT
(lustre/mdt/mdt_lproc.c, ``mdt_stats``)."""


class ServerProcessors:
    """Measures how busy the CPUs of each server are, from one snapshot to the next."""

    def __init__(self) -> None:
        self._of_server: defaultdict[str, Processors] = defaultdict(Processors)

    def busy(self, view: View) -> Cpu:
        """Return the busy share of every server since the last view, or why it is unknown."""
        return {
            name: self._of_server[name].busy_fraction(server.host)
            if server.answered
            else NotAvailable(server.why_no("parameters"))
            for name, server in view.servers.items()
        }


def target_snapshot(view: View, target: str, cpu: Cpu) -> TargetSnapshot:
    """Return all readings of one target."""
    servers = view.serving(target)
    server = servers[0] if len(servers) == 1 else None
    backing = None if server is None else read_backing(server, target)
    if backing is None or server is None:
        beneath: Iterable[Reading] = _nothing(why_not_served(view, target))
    else:
        busy = cpu.get(server.name, _NOT_COUNTED)
        beneath = backing.readings(busy, backing.description.own_drives)
    of_lustre = [
        *_space(view, target, backing),
        *state_readings(view, target, server, backing),
        *_traffic(view, target, server),
        *_machine(view, target, server),
        _jobs(view),
    ]
    replaced = {reading.name for reading in of_lustre}
    # A degraded md array is reported in addition to Lustre's own flag.
    of_backing = [
        reading
        for reading in beneath
        if reading.name not in replaced
        or (reading.name == "degraded" and reading.label is not None)
    ]
    kind = "mdt" if target.startswith("MDT") else "ost"
    return TargetSnapshot(
        Target(target, kind, None if server is None else server.name),
        tuple([*of_lustre, *of_backing]),
        target_settings(view, target, server, backing),
    )


def _jobs(view: View) -> Reading:
    """Return the running jobs of the whole cluster, the same for every target."""
    return Reading.of("concurrent_jobs", view.client.jobs, " ".join(JOBS))


def _nothing(reason: str, names: Iterable[str] = TELEMETRY_UNITS) -> Iterator[Reading]:
    for name in names:
        yield Reading(name, reason=reason)


def _space(view: View, target: str, backing: MountedState | None) -> Iterator[Reading]:
    """Yield space and inodes from ``lfs df``, or from the server if it has no line there."""
    gone = lost(view, target)
    for names, lines, source in (
        (_SPACE, view.client.space, view.client.space_source),
        (_INODES, view.client.inodes, f"{view.client.space_source} -i"),
    ):
        line = lines.get(target)
        if gone is not None:
            yield from _nothing(f"{gone}: lfs df has at most the last known numbers", names)
        elif line is not None and line.problem is None:
            used = (line.used,) if names is _SPACE else ()
            for name, value in zip(names, (line.total, *used, line.available), strict=True):
                yield Reading(name, value, source=source)
        else:
            yield from _space_of_server(view, target, backing, names)


def _space_of_server(
    view: View, target: str, backing: MountedState | None, names: tuple[str, ...]
) -> Iterator[Reading]:
    line = view.client.space.get(target)
    why_not_df = view.client.why_no_space or "lfs df has no line for it"
    if line is not None and line.problem is not None:
        why_not_df = f"lfs df: {line.problem}"
    space = None if backing is None else backing.space
    if space is None or isinstance(space, NotAvailable):
        beside = why_not_served(view, target) if space is None else space.reason
        yield from _nothing(f"{why_not_df}; {beside}", names)
        return
    # Grants to clients are not deducted here, unlike in lfs df.
    source = f"the server's own count ({why_not_df})"
    for name in names:
        yield Reading(name, getattr(space, SPACE[name]), source=source)


def _traffic(view: View, target: str, server: ServerView | None) -> Iterator[Reading]:
    """Yield bytes and operations of clients since the target was mounted."""
    moved = ("client_bytes_written_total", "client_bytes_read_total")
    operations = "metadata_operations_total"
    is_mdt = target.startswith("MDT")
    names = (operations, *moved) if is_mdt else moved
    if not is_mdt:
        yield Reading(operations, reason="OSTs serve no metadata operations")
    if server is None:
        yield from _nothing(why_not_served(view, target), names)
        return
    parameter = (
        f"mdt.{view.file_system}-{target}.md_stats"
        if is_mdt
        else f"obdfilter.{view.file_system}-{target}.stats"
    )
    text = server.parameters.get(parameter)
    stats = None if text is None else parse_stats(text)
    if stats is None:
        yield from _nothing(server.why_no("parameters", parameter), names)
        return
    if is_mdt:
        yield Reading(operations, counted_operations(stats), source=parameter)
    for name, counter in zip(moved, ("write_bytes", "read_bytes"), strict=True):
        if is_mdt and counter not in stats.counters:
            # Data-on-MDT is counted only if there is some; older versions never count it.
            reason = f"{parameter} has no {counter}: this MDT has no data, or does not count it"
            yield Reading(name, reason=reason)
        else:
            yield counted_bytes(name, stats, counter, parameter)


def counted_operations(stats: Stats) -> int:
    """Return the number of clients' metadata operations in ``md_stats``."""
    return sum(
        counter.samples for name, counter in stats.counters.items() if name not in _NOT_METADATA
    )


def counted_bytes(name: str, stats: Stats, counter: str, source: str) -> Reading:
    """Return bytes moved; a missing counter is 0, as nothing was counted yet."""
    counted = stats.counters.get(counter)
    if counted is None:
        if stats.snapshot_time_s is None or counter in stats.unread:
            return Reading(name, reason=f"{source} has no {counter}")
        return Reading(name, 0, source=f"{source}: no {counter} yet")
    if counted.sum is None:
        return Reading(name, reason=f"{source}: {counter} has no sum")
    return Reading(name, counted.sum, source=f"{source}: {counter}")


def _machine(view: View, target: str, server: ServerView | None) -> Iterator[Reading]:
    """Yield the server's readings that appear with each of its targets."""
    if server is None:
        names = ("network_bytes_total", "network_errors_total", "checksum_errors_total")
        yield from _nothing(why_not_served(view, target), names)
        return
    yield from network(server)
    reason = f"they are counted for {server.name}, not for its targets"
    yield Reading("checksum_errors_total", reason=reason)


def network(server: ServerView) -> Iterator[Reading]:
    """Yield a server's LNet traffic, errors and dropped messages since it started."""
    names = ("network_bytes_total", "network_errors_total")
    stats = parse_lnet_stats(server.parameters.get("stats") or "")
    if stats is None:
        yield from _nothing(server.why_no("parameters", "stats of LNet"), names)
        return
    moved, failed = stats.send_bytes + stats.receive_bytes, stats.errors + stats.drops
    for name, total in zip(names, (moved, failed), strict=True):
        yield Reading(name, total, source=f"LNet stats of {server.name}")


def checksum_errors(server: ServerView) -> Reading:
    """Return the number of bulk transfers with a bad checksum on a server.

    Only the kernel log has them, and it is a ring: if it no longer reaches back to boot, seeing
    none does not mean 0. The log omits repeated messages of any target, so the count is the
    server's.
    """
    name = "checksum_errors_total"
    log = server.kernel_log
    if isinstance(log, NotAvailable):
        return Reading(name, reason=log.reason)
    count = log.bad_checksums
    source = f"BAD CHECKSUM messages in the kernel log of {server.name}"
    if log.begins_at_boot:
        return Reading(name, count, source=source)
    if count:
        return Reading(name, count, source=f"{source}, which no longer reaches back to boot")
    reason = f"the kernel log of {server.name} no longer reaches back to boot, and has none"
    return Reading(name, reason=reason)

"""Telemetry of Lustre's targets and hosts: every name, with its source or why it is missing.

A target's telemetry starts with the server's readings of the backing file system and drives;
Lustre's and the client's readings of the target then replace those of the same name. A host's
readings belong to no target: whether it answered, versions, network, integrity.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from trimtab.base.filesystem import Mount, find_mount, lustre_name
from trimtab.base.server_message import ServerMessage
from trimtab.base.snapshot import (
    TELEMETRY_UNITS,
    HostSnapshot,
    NotAvailable,
    Reading,
    Setting,
    Target,
    TargetSnapshot,
)
from trimtab.reach.host import Host, Processors
from trimtab.reach.local_telemetry import SPACE, MountedState, uptime_s
from trimtab.reach.lustre.kernel_log import COUNTED, by_minute
from trimtab.reach.lustre.lustre_setting import folded, target_settings
from trimtab.reach.lustre.lustre_view import ServerView, View
from trimtab.reach.lustre.parameter import Parameters, Stats, parse_lnet_stats, parse_stats
from trimtab.reach.lustre.read_table import BOOT_ID, CLIENT_SETTINGS, COMMANDS
from trimtab.reach.lustre.server_query import JOBS
from trimtab.reach.lustre.target_state import lost, read_backing, state_readings, why_not_served
from trimtab.reach.lustre.zfs_pool import pool_readings
from trimtab.reach.path_description import mount_table

Cpu = dict[str, float | NotAvailable]
"""Server to the busy share of its CPUs since the last snapshot."""

_SPACE: Final = ("capacity_bytes", "used_bytes", "available_bytes")
_INODES: Final = ("inodes_total", "inodes_free")
_POOL: Final = ("pool_fragmentation_fraction", "pool_capacity_fraction", "pool_autotrim")
_UPTIME_MAXIMUM_S: Final = 1e9
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
        *_messages(view, target, server),
        *_pool(server, backing),
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


def _pool(server: ServerView | None, backing: MountedState | None) -> Iterator[Reading]:
    """Yield the state of the pool beneath a target, which only ZFS has."""
    if server is None or backing is None:
        yield from _nothing("no server serves it", _POOL)
    elif backing.description.fs_type == "zfs":
        yield from pool_readings(server, backing.description.source)
    else:
        yield from _nothing(f"{backing.description.fs_type} has no pool", _POOL)


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


def _messages(view: View, target: str, server: ServerView | None) -> Iterator[Reading]:
    """Yield what kernel logs say of a target; those that they only counted name no target.

    Its own server says whom it evicted; every machine says which of its requests timed out.
    """
    if server is None:
        yield from _nothing(why_not_served(view, target), COUNTED)
        return
    source = f"messages in {len(view.kernel_logs)} kernel logs"
    for name in COUNTED:
        count = view.logged.get((name, f"{view.file_system}-{target}"), 0)
        yield _of_log(name, count, server, source)


def server_messages(server: ServerView, at: datetime) -> tuple[ServerMessage, ...]:
    """Return what a machine's kernel log says, with times; nothing if its boot is unknown.

    Parameters
    ----------
    at
        When it was queried.
    """
    log, up_s = server.kernel_log, uptime_s(server.host)
    boot = server.host.read_text(BOOT_ID)
    if isinstance(log, NotAvailable) or isinstance(boot, NotAvailable):
        return ()
    if isinstance(up_s, NotAvailable) or not 0 <= up_s < _UPTIME_MAXIMUM_S:
        return ()
    of = server.name, server.file_system
    return by_minute(log.messages, *of, boot=boot.strip(), uptime_s=up_s, at=at)


def checksum_errors(server: ServerView) -> Reading:
    """Return the number of bulk transfers with a bad checksum on a server.

    The log omits repeated messages of any target, so the count is the server's.
    """
    log = server.kernel_log
    count = 0 if isinstance(log, NotAvailable) else log.bad_checksums
    source = f"BAD CHECKSUM messages in the kernel log of {server.name}"
    return _of_log("checksum_errors_total", count, server, source)


def _of_log(name: str, count: int, server: ServerView, source: str) -> Reading:
    """Return a count of messages.

    Only the kernel log has them, and it is a ring: if it no longer reaches back to boot, seeing
    none does not mean 0.
    """
    log = server.kernel_log
    if isinstance(log, NotAvailable):
        return Reading(name, reason=log.reason)
    if log.begins_at_boot:
        return Reading(name, count, source=source)
    if count:
        return Reading(name, count, source=f"{source}, which no longer reaches back to boot")
    reason = f"the kernel log of {server.name} no longer reaches back to boot, and has none"
    return Reading(name, reason=reason)


_VULNERABILITIES: Final = "/sys/devices/system/cpu/vulnerabilities"
_OF_DRIVES: Final = {COMMANDS[key]["argv"][0] for key in ("smart", "flash-writes")}
_NO_ATIME: Final = frozenset({"noatime", "ro"})


def server_snapshot(server: ServerView, cpu: Cpu) -> HostSnapshot:
    """Return one server: if silent the reason, else the readings that belong to no target."""
    if not server.answered:
        return HostSnapshot(server.name, "server", False, server.answer.problem)
    busy = cpu.get(server.name)
    readings = [*network(server), checksum_errors(server)]
    if busy is not None:
        readings.append(Reading.of("server_cpu_fraction", busy, "/proc/stat"))
    return HostSnapshot(
        server.name,
        "server",
        answered=True,
        problem=_partly(server),
        readings=tuple(readings),
        settings=_server_settings(server),
    )


def _partly(server: ServerView) -> str | None:
    """Return what a server left out, ``None`` if its answer is complete."""
    # Unreadable files are reported with the readings that lack them; limits and deadlines are
    # reported here. Logs of drives are not: a target's state is known without them.
    left = [
        reason
        for name, reason in server.answer.skipped.items()
        if not name or (reason.endswith("run without it") and not _OF_DRIVES & set(name.split()))
    ]
    # Without these two a server's targets are unknown; other gaps are reported with their readings.
    left += filter(None, map(server.lacks, ("parameters", "imports")))
    return "; ".join(dict.fromkeys(left)) or None


def of_kernel(host: Host) -> dict[str, Setting | NotAvailable]:
    """Return the kernel's release, hostname and mitigations of CPU vulnerabilities.

    Switching a mitigation changes the cost of every system call and copy.
    """
    places = {
        "kernel_release": "/proc/sys/kernel/osrelease",
        "hostname": "/proc/sys/kernel/hostname",
    }
    names = host.list_directory(_VULNERABILITIES)
    for name in () if isinstance(names, NotAvailable) else names:
        places[f"cpu_vulnerability/{name}"] = f"{_VULNERABILITIES}/{name}"
    settings: dict[str, Setting | NotAvailable] = {}
    for name, path in places.items():
        text = host.read_text(path)
        settings[name] = (
            text if isinstance(text, NotAvailable) else Setting(name, text.strip()[:200], path)
        )
    if isinstance(names, NotAvailable):
        settings["cpu_vulnerability"] = names
    return settings


def _server_settings(server: ServerView) -> dict[str, Setting | NotAvailable]:
    settings = of_kernel(server.host)
    for name, parameter in (("lustre_version", "version"), ("health_check", "health_check")):
        value = server.parameters.get(parameter)
        if value is None:
            settings[name] = NotAvailable(server.why_no("parameters", parameter))
        else:
            settings[name] = Setting(name, " ".join(value.split()), f"lctl get_param {parameter}")
    if server.nids:
        settings["nids"] = Setting("nids", " ".join(server.nids), "lctl get_param nis")
    return settings


def _of_client(
    parameters: Parameters, file_system: str, why: str
) -> dict[str, Setting | NotAvailable]:
    """Return the settings of a client, folded over its connections, or why they are missing."""
    settings: dict[str, Setting | NotAvailable] = {}
    for setting, pattern in CLIENT_SETTINGS.items():
        values = {
            name: value.strip()
            for name, value in parameters.matching(pattern).items()
            if f".{file_system}-" in name
        }
        if values:
            settings[setting] = Setting(setting, folded(values), f"lctl get_param {pattern}")
        else:
            settings[setting] = NotAvailable(why or f"not available on this client ({pattern})")
    return settings


def client_snapshot(view: View, name: str, path: str) -> HostSnapshot:
    """Return this host as a client: its problems, version, settings and atime recording.

    Parameters
    ----------
    path
        The site's path, whose mount is looked up in the mount table only.
    """
    host = Host()
    mount = find_mount(mount_table(host), path)
    parameters = view.client.parameters
    settings: dict[str, Setting | NotAvailable] = {}
    version = parameters.get("version")
    if version is not None:
        settings["lustre_version"] = Setting("lustre_version", version, "lctl get_param version")
    # Blame the client for what it lacks, not for what was lost in transfer.
    lost = () if parameters.text and parameters.complete else view.client.problems
    why = "; ".join(problem for problem in lost if "lctl" in problem)
    settings |= _of_client(parameters, view.file_system, why)
    settings |= of_kernel(host)
    if mount is None or lustre_name(mount.fs_type, mount.source) != view.file_system:
        reason = f"{view.file_system} is not mounted at the site's path here"
        settings["atime_recorded"] = NotAvailable(reason)
    else:
        settings |= _of_mount(mount)
    problems = "; ".join(view.client.problems) or None
    answered = bool(view.client.space or view.client.links or settings.get("lustre_version"))
    return HostSnapshot(name, "client", answered, problem=problems, settings=settings)


def other_client(client: ServerView) -> HostSnapshot:
    """Return another client: its versions, and whether its reads update atime."""
    if not client.answered:
        return HostSnapshot(client.name, "client", False, client.answer.problem)
    settings = _server_settings(client)
    why = client.lacks("client-settings") or ""
    settings |= _of_client(client.client_parameters, client.file_system, why)
    mount = client.client_mount
    if isinstance(mount, NotAvailable):
        settings["atime_recorded"] = mount
    else:
        settings |= _of_mount(mount)
    printed = (key for key in ("parameters", "imports") if client.answer.command(key) is not None)
    problem = "; ".join(dict.fromkeys(filter(None, map(client.lacks, printed)))) or None
    return HostSnapshot(client.name, "client", problem=problem, settings=settings)


def _of_mount(mount: Mount) -> dict[str, Setting | NotAvailable]:
    source = "/proc/self/mountinfo"
    recorded = str(records_atime(mount)).lower()
    return {
        "mount_options": Setting("mount_options", ",".join(mount.all_options), source),
        "atime_recorded": Setting("atime_recorded", recorded, source),
    }


def records_atime(mount: Mount) -> bool:
    """Return whether a read through this mount updates a file's atime.

    Observed on 2.17: a client mounted with ``noatime`` never updates it.
    """
    return _NO_ATIME.isdisjoint(mount.all_options)

"""What is wrong with each target of a snapshot, from its readings and settings alone. Pure.

A finding describes a misconfiguration and its repair; a trouble shows at a glance which of three
hundred targets to look at, and works on last month's snapshot as well as on a current one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC
from typing import TYPE_CHECKING

from trimtab.model.finding import Severity
from trimtab.model.site import SiteLimits
from trimtab.model.target import HostState, SiteState, TargetState, Trouble
from trimtab.model.telemetry import (
    CONNECTED,
    UNTOLD,
    HostSnapshot,
    NotAvailable,
    Reading,
    Setting,
    Snapshot,
    TargetSnapshot,
)
from trimtab.units import enumerated, format_bytes, format_duration, format_percent, plural

if TYPE_CHECKING:
    from trimtab.model.status import SlowTargetStatus


Troubles = Iterator[Trouble]
UNREACHABLE = frozenset({"lost", "disconnected"})
"""Troubles of a target that some machine cannot connect to: access may block forever."""
INODE_LIMIT = 0.95


def site_state(
    site: str,
    snapshot: Snapshot,
    limits: SiteLimits,
    *,
    stored: bool = False,
    slow: Sequence[SlowTargetStatus] = (),
) -> SiteState:
    """Return every target with its troubles, the most troubled first, and troubled machines.

    Parameters
    ----------
    slow
        Targets slow in surveys and not recovered by then.
    """
    in_surveys = {target.target: slow_trouble(target) for target in slow}
    targets = sorted(
        (
            TargetState(target, target_troubles(target, limits, in_surveys.get(target.target.name)))
            for target in snapshot.targets
        ),
        key=lambda state: (*state.rank, state.name),
    )
    hosts = (HostState(host.name, host.role, host_troubles(host)) for host in snapshot.hosts)
    troubled = sorted(
        (host for host in hosts if host.troubles), key=lambda host: host.troubles[0].severity.rank
    )
    return SiteState(site, snapshot, tuple(targets), (*_mixed(snapshot), *troubled), stored)


def slow_trouble(slow: SlowTargetStatus) -> Trouble:
    """Return the trouble of a slow target: its current speed and the survey behind it."""
    text = (
        f"slow since {slow.since:%Y-%m-%d}: {format_percent(slow.share, 0)} of its usual "
        f"{slow.metric.replace('_', ' ')} in the last survey"
    )
    return Trouble("slow", Severity.WARNING, text, "surveys")


def target_troubles(
    seen: TargetSnapshot, limits: SiteLimits, slow: Trouble | None = None
) -> tuple[Trouble, ...]:
    """Return what is wrong with one target, worst first; ``slow`` comes from surveys."""
    troubles = [
        trouble
        for look in (_reach, _writes, _creation, _integrity, _space(limits), _flash)
        for trouble in look(seen)
    ]
    if slow is not None:
        troubles.append(slow)
    return tuple(sorted(troubles, key=lambda trouble: trouble.severity.rank))


def host_troubles(host: HostSnapshot) -> tuple[Trouble, ...]:
    """Return what is wrong with one machine, worst first."""
    troubles = []
    if not host.answered:
        text = f"did not answer: {host.problem}"
        troubles.append(Trouble("no-answer", Severity.CRITICAL, text))
    elif host.problem is not None:
        troubles.append(Trouble("partial-answer", Severity.WARNING, host.problem))
    for reading in host.readings:
        if reading.name == "checksum_errors_total" and reading.value:
            text = f"{reading.value} transfers with a bad checksum"
            troubles.append(Trouble("bad-checksums", Severity.CRITICAL, text, reading.source))
    atime = host.settings.get("atime_recorded")
    if isinstance(atime, Setting) and atime.value == "false":
        text = "reads through it do not update atime: ages by atime are too old"
        troubles.append(Trouble("no-atime", Severity.INFO, text, atime.source))
    return tuple(sorted(troubles, key=lambda trouble: trouble.severity.rank))


def _mixed(snapshot: Snapshot) -> Iterator[HostState]:
    """Yield the servers' versions if they differ: half an upgrade."""
    for name, subject in (("lustre_version", "Lustre"), ("kernel_release", "kernel")):
        versions: dict[str, list[str]] = {}
        for host in snapshot.hosts:
            setting = host.settings.get(name)
            if host.role == "server" and isinstance(setting, Setting):
                versions.setdefault(setting.value, []).append(host.name)
        if len(versions) > 1:
            text = ", ".join(
                f"{version} on {len(names)}"
                for version, names in sorted(versions.items(), key=lambda item: -len(item[1]))
            )
            trouble = Trouble("mixed-versions", Severity.INFO, f"{subject} differs: {text}")
            yield HostState("all servers", "server", (trouble,))


def _reach(seen: TargetSnapshot) -> Troubles:
    """Yield what keeps machines from reaching the target at all."""
    state, server = seen.reading("import_state"), seen.reading("server")
    connected = state is not None and state.value in CONNECTED
    unserved = server is not None and server.value is None
    each = [
        reading
        for reading in seen.readings
        if reading.name == "import_state" and reading.label and reading.value is not None
    ]
    apart = [reading for reading in each if reading.value not in CONNECTED]
    claimed = [reading for reading in seen.readings if reading.name == "server" and reading.label]
    if len(claimed) > 1:
        names = enumerated(str(reading.value) for reading in claimed)
        yield Trouble("two-servers", Severity.CRITICAL, f"{names} all claim to serve it")
    elif state is not None and state.value is not None and not connected:
        # Lost to one client is not lost: the readings name those that still reach it.
        reached = any(reading.value in CONNECTED for reading in _telling(seen))
        if unserved and not reached and state.value not in UNTOLD:
            text = f"lost: {state.value}, and {server.reason if server else 'no server has it'}"
            yield Trouble("lost", Severity.CRITICAL, text, state.source)
        else:
            names = enumerated(f"{reading.label} ({reading.value})" for reading in apart)
            text = f"not connected: {names}"
            yield Trouble("disconnected", Severity.CRITICAL, text, state.source)
    elif (
        unserved
        and not connected
        and server is not None
        and server.reason is not None
        # If a client knows its space, it was seen, even if no import is readable.
        and seen.number("capacity_bytes") is None
    ):
        yield Trouble("not-seen", Severity.WARNING, f"not seen: {server.reason}")
    if seen.value("failover_active") is True:
        source = seen.source("failover_active")
        text = f"failed over: served by {seen.value('server')}"
        yield Trouble("failed-over", Severity.WARNING, text, source)


def _telling(seen: TargetSnapshot) -> list[Reading]:
    """Return the imports that show whether the target is reachable: an idle one does not."""
    return [
        reading
        for reading in seen.readings
        if reading.name == "import_state" and reading.label and reading.value not in UNTOLD
    ]


def is_loss_confirmed(seen: TargetSnapshot, snapshot: Snapshot) -> bool:
    """Return whether two sources agree that a target is lost: two machines, or one and the servers.

    Sources are the imports of the client and of the MDTs, and the servers' mounts: absence from all
    servers is only known if all of them answered in full.
    """
    if not any(trouble.id == "lost" for trouble in _reach(seen)):
        return False
    sources = {"client" if reading.label == "client" else "MDTs" for reading in _telling(seen)}
    servers = [host for host in snapshot.hosts if host.role == "server"]
    if servers and all(host.answered and host.problem is None for host in servers):
        sources.add("servers")
    return len(sources) > 1


def _writes(seen: TargetSnapshot) -> Troubles:
    """Yield what prevents data from being written."""
    read_only, errors = seen.reading("read_only"), seen.number("errors_total")
    if read_only is not None and read_only.value is True:
        yield Trouble("read-only", Severity.CRITICAL, "read-only", read_only.source)
    elif errors and read_only is not None and read_only.value is None:
        yield Trouble("may-be-read-only", Severity.CRITICAL, "may be read-only", read_only.reason)
    if errors:
        source = seen.source("errors_total")
        text = plural(errors, "file system error", ".0f")
        yield Trouble("file-system-errors", Severity.CRITICAL, text, source)
    for reading in seen.readings:
        if reading.name == "degraded" and reading.value is True:
            subject = "degraded" if reading.label is None else f"{reading.label} is degraded"
            yield Trouble("degraded", Severity.WARNING, subject, reading.source)


def _creation(seen: TargetSnapshot) -> Troubles:
    """Yield whether the target is closed to new objects, and by what."""
    overall = seen.reading("create_enabled")
    closed = [
        reading
        for reading in seen.readings
        if reading.name == "create_enabled" and reading.label and reading.value is False
    ]
    if overall is not None and overall.value is False:
        if _follows_from_loss(seen, overall.source):
            return
        text = f"closed to new objects: {overall.source}"
        yield Trouble("closed", Severity.WARNING, text, overall.source)
    elif closed:
        names = enumerated(str(reading.label) for reading in closed)
        only = " only" if overall is not None and overall.value is True else ""
        text = f"closed to new objects of {names}{only}: {closed[0].source}"
        yield Trouble("partly-closed", Severity.WARNING, text, closed[0].source)


def _follows_from_loss(seen: TargetSnapshot, source: str | None) -> bool:
    """Return whether a target is closed only because it is lost: one trouble, not two."""
    lost = any(trouble.id == "lost" for trouble in _reach(seen))
    return lost and any(word in (source or "") for word in (".prealloc_status=", ".import state "))


def _integrity(seen: TargetSnapshot) -> Troubles:
    for name, subject in (
        ("checksum_errors_total", "transfers with a bad checksum"),
        ("drive_media_errors_total", "media errors"),
    ):
        for reading in seen.readings:
            if reading.name == name and reading.value:
                of = "" if reading.label is None else f" on {reading.label}"
                severity = Severity.CRITICAL if name.startswith("checksum") else Severity.WARNING
                id_ = "bad-checksums" if name.startswith("checksum") else "media-errors"
                yield Trouble(id_, severity, f"{reading.value} {subject}{of}", reading.source)


def _space(limits: SiteLimits) -> Callable[[TargetSnapshot], Troubles]:
    def look(seen: TargetSnapshot) -> Troubles:
        fullness = seen.fullness()
        if fullness is not None and fullness > limits.fullness:
            text = f"{format_percent(fullness)} full, limit {format_percent(limits.fullness)}"
            source = seen.source("used_bytes")
            yield Trouble("over-limit", Severity.WARNING, text, source)
        total, free = seen.number("inodes_total"), seen.number("inodes_free")
        if total and free is not None and 1 - free / total >= INODE_LIMIT:
            text = f"{format_percent(1 - free / total)} of its inodes used"
            yield Trouble("inodes", Severity.WARNING, text)

    return look


def _flash(seen: TargetSnapshot) -> Troubles:
    """Yield what makes flash slow or unsteady: throttling, and unsupported discards."""
    rotational = _setting(seen, "queue/rotational")
    is_flash = bool(rotational) and set(rotational) == {"0"}
    throttled = {
        reading.label: reading.value
        for reading in seen.readings
        if reading.name == "wbt_latency_s" and reading.value
    }
    if is_flash and throttled:
        longest = max(float(value) for value in throttled.values() if value is not None)
        names = [str(label) for label in throttled]
        where = names[0] if len(names) == 1 else f"{len(names)} devices"
        text = f"writeback throttling on {where} ({format_duration(longest)})"
        yield Trouble("throttled", Severity.WARNING, text)
    if is_flash and seen.value("discard_granularity_bytes") == 0:
        yield Trouble("no-discard", Severity.WARNING, "its device does not support discard")


def _setting(seen: TargetSnapshot, ending: str) -> list[str]:
    """Return the values of every setting with that ending."""
    return [
        setting.value
        for name, setting in seen.settings.items()
        if name.endswith(ending) and not isinstance(setting, NotAvailable)
    ]


def trim_state(seen: TargetSnapshot) -> str:
    """Return a short description of how a target is trimmed, as far as the snapshot shows."""
    options = {
        option.partition("=")[0]
        for value in _setting(seen, "mount/options")
        for option in value.split(",")
    }
    text = [word for word in ("fstrim", "discard") if word in options]
    discarded = seen.number("bytes_discarded_total")
    if discarded is not None:
        # The counter is the device's: mkfs and each trim of the same free space count again.
        text.append(f"{format_bytes(int(discarded))} discarded since boot")
    last = seen.moment("last_trim_at")
    if last is not None:
        text.append(f"timer ran {last.astimezone(UTC):%Y-%m-%d %H:%M} UTC")
    return ", ".join(text) or "not known"

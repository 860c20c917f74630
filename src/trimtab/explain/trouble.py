"""What is wrong with a site now: its targets and its machines. Pure.

Troubles of targets follow from the readings and settings of a snapshot alone. A finding describes a
misconfiguration and its repair; a trouble shows at a glance which of three hundred targets to look
at, and works on last month's snapshot as well as on a current one. `state_findings` gives troubles
as findings, each with its repair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Final

from trimtab.base.finding import Finding, Fix, Seen, Severity
from trimtab.base.inventory import Inventory
from trimtab.base.name_set import fold_names
from trimtab.base.site import SiteLimits
from trimtab.base.snapshot import (
    CONNECTED,
    UNTOLD,
    HostSnapshot,
    NotAvailable,
    Reading,
    Setting,
    Snapshot,
    TargetSnapshot,
)
from trimtab.base.toml_problem import NAME
from trimtab.base.units import enumerated, format_bytes, format_duration, format_percent, plural
from trimtab.explain.inventory_difference import link_troubles, mixed_troubles
from trimtab.explain.space_forecast import INODE_LIMIT, full_soon
from trimtab.explain.status import (
    FullWhen,
    HostState,
    SiteState,
    SlowTargetStatus,
    TargetState,
    Trouble,
)

TroubleIterator = Iterator[Trouble]
UNREACHABLE = frozenset({"lost", "disconnected"})
"""Troubles of a target that some machine cannot connect to: access may block forever."""


def site_state(
    site: str,
    snapshot: Snapshot,
    limits: SiteLimits,
    *,
    stored: bool = False,
    slow: Sequence[SlowTargetStatus] = (),
    inventory: Inventory | None = None,
    full_when: Mapping[str, tuple[FullWhen, ...]] | None = None,
) -> SiteState:
    """Return every target with its troubles, the most troubled first, and troubled machines.

    Parameters
    ----------
    slow
        Targets slow in surveys and not recovered by then.
    inventory
        The last one by then.
    full_when
        Target to its forecasts; ``None``: they were not asked for.
    """
    in_surveys = {target.target: slow_trouble(target) for target in slow}

    def state(seen: TargetSnapshot) -> TargetState:
        name = seen.target.name
        forecasts = (full_when or {}).get(name, ())
        more = [in_surveys[name]] if name in in_surveys else []
        more += full_soon(forecasts, snapshot.at)
        return TargetState(seen, target_troubles(seen, limits, more), forecasts)

    targets = sorted(map(state, snapshot.targets), key=lambda state: (*state.rank, state.name))
    links = link_troubles(inventory)
    hosts = (
        HostState(host.name, host.role, host_troubles(host, links.get(host.name, ())))
        for host in snapshot.hosts
    )
    troubled = sorted(
        (host for host in hosts if host.troubles), key=lambda host: host.troubles[0].severity.rank
    )
    return SiteState(
        site, snapshot, tuple(targets), (*mixed_troubles(inventory, snapshot), *troubled), stored
    )


def slow_trouble(slow: SlowTargetStatus) -> Trouble:
    """Return the trouble of a slow target: its current speed and the survey behind it."""
    text = (
        f"slow since {slow.since:%Y-%m-%d}: {format_percent(slow.share, 0)} of its usual "
        f"{slow.metric.replace('_', ' ')} in the last survey"
    )
    return Trouble("slow", Severity.WARNING, text, "surveys")


def target_troubles(
    seen: TargetSnapshot, limits: SiteLimits, more: Iterable[Trouble] = ()
) -> tuple[Trouble, ...]:
    """Return what is wrong with one target, worst first; ``more`` comes from its history."""
    troubles = [
        trouble
        for look in (_reach, _writes, _creation, _integrity, _space(limits), _flash)
        for trouble in look(seen)
    ]
    troubles += more
    return tuple(sorted(troubles, key=lambda trouble: trouble.severity.rank))


def host_troubles(host: HostSnapshot, links: Sequence[Trouble] = ()) -> tuple[Trouble, ...]:
    """Return what is wrong with one machine, worst first; ``links`` come from the inventory."""
    troubles = [*links]
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


def _reach(seen: TargetSnapshot) -> TroubleIterator:
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


def _writes(seen: TargetSnapshot) -> TroubleIterator:
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


def _creation(seen: TargetSnapshot) -> TroubleIterator:
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


def _integrity(seen: TargetSnapshot) -> TroubleIterator:
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


def _space(limits: SiteLimits) -> Callable[[TargetSnapshot], TroubleIterator]:
    def look(seen: TargetSnapshot) -> TroubleIterator:
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


def _flash(seen: TargetSnapshot) -> TroubleIterator:
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


_EVIDENCE_MAXIMUM: Final = 50
_NAMES_LONGEST: Final = 40
"""Maximum characters of a set of targets in a title; a longer set is counted."""


@dataclass(frozen=True, slots=True)
class _Advice:
    """Why a trouble matters, and how to fix it.

    Attributes
    ----------
    command
        Trimtab command, to which the site's name is appended: needs only a site file.
    """

    why: str
    do: str
    command: tuple[str, ...] = ()


_ADVICE: Final = {
    "lost": _Advice(
        "Files with data there cannot be read or written: access blocks or fails. Its space is "
        "missing from all sums, so the file system looks emptier and healthier than it is.",
        "Find out on its server why it is not mounted (lctl dl, kernel log), and mount it; until "
        "then close it to new objects on every MDS (osp.*.max_create_count=0).",
    ),
    "disconnected": _Advice(
        "Clients without a connection cannot reach the files on it; others may.",
        "Check the import on the named machine (lctl get_param *.*.import), and its network.",
    ),
    "not-seen": _Advice("Its state is unknown.", "Find out why its server does not answer."),
    "two-servers": _Advice(
        "Two servers that write to the same device destroy the file system on it.",
        "Unmount it on one of them at once, then check the file system (e2fsck).",
    ),
    "failed-over": _Advice(
        "One server carries the load of two, and has no failover partner left.",
        "Move it back to its home when that is healthy.",
    ),
    "read-only": _Advice(
        "Writes to files on it fail, while Lustre still reports it as healthy.",
        "If a Lustre flag is the source (readonly=1), reset it. Otherwise check the kernel log "
        "of its server; unmount the target, run e2fsck, and mount it again.",
    ),
    "may-be-read-only": _Advice(
        "After an error the underlying file system accepts no writes, and no Lustre flag shows it.",
        "Check the kernel log of its server for an aborted journal.",
    ),
    "file-system-errors": _Advice(
        "The underlying file system found itself damaged.",
        "Unmount it in maintenance, run e2fsck; on ZFS restore what zpool status -v names.",
    ),
    "degraded": _Advice(
        "Reads and writes are slower while the array rebuilds, and one more failure may lose data. "
        "The MDS gives it fewer new objects.",
        "Replace the failed drive; clear obdfilter.*.degraded when the array is intact again.",
    ),
    "closed": _Advice(
        "New files get no objects there: the others take over its share of space and bandwidth.",
        "Unless it was closed on purpose, set the named parameter back on every MDS.",
    ),
    "partly-closed": _Advice(
        "Files created by other MDTs still get objects there: the load is uneven.",
        "Set the named parameter to the same value on every MDS.",
    ),
    "bad-checksums": _Advice(
        "Data was corrupted between client and server.",
        "Check the kernel log for the addresses, and test that network path and memory.",
    ),
    "media-errors": _Advice("The drive lost data or is about to.", "Replace the named drive."),
    "over-limit": _Advice(
        "The allocator and flash slow down as free space shrinks; in the end writes fail there, "
        "although other targets have room.",
        "Purge or move files from it (lfs find --ost, lfs migrate); close it to new files.",
        ("trimtab", "balance"),
    ),
    "full-soon": _Advice(
        "Over its limit a target is slow; without free space or inodes, writes fail there.",
        "Purge, or move files from it (lfs find --ost, lfs migrate), before that day.",
    ),
    "inodes": _Advice(
        "Without free inodes no file can be created there.", "Remove files, or add a target."
    ),
    "throttled": _Advice(
        "Writeback throttling slows flash for no gain.",
        'Turn it off: in the site file, [policy.tunables] settings = {wbt_lat_usec = "0"}; then '
        "show what that changes.",
        ("trimtab", "tune"),
    ),
    "slow": _Advice(
        "A file striped over it is read and written at its rate.",
        "Check its server, drives and array: rebuild, media errors, link; then measure it alone.",
        ("trimtab", "targets"),
    ),
    "no-discard": _Advice(
        "The drives never learn which blocks are free: they slow down as they fill.",
        "Find the layer beneath that drops discards.",
    ),
    "no-answer": _Advice(
        "For its targets only the clients' view is known.",
        "Check that it is up and reachable: trimtab site SITE --validate.",
    ),
    "partial-answer": _Advice(
        "The missing part may hide a trouble.",
        "See the message: a permission or a program is missing.",
    ),
    "no-atime": _Advice(
        "Files read through it look unused: a purge would delete them.",
        "Mount it without noatime, or do not let atime count.",
    ),
    "mixed-versions": _Advice(
        "Half an upgrade: servers behave differently.", "Finish the upgrade."
    ),
    "mixed-firmware": _Advice(
        "Drives of one model behave differently, and so do the targets on them.",
        "Bring them to one firmware in a maintenance window.",
    ),
    "slow-link": _Advice(
        "It limits what goes through it: a striped file is as slow as its slowest part.",
        "Reseat drive, card or cable; look for errors of the link (dmesg, lspci -vv).",
    ),
}
_CLOSED_BY: Final = (
    (
        ("ENOSPC", "(out of space)"),
        _Advice(
            "It is full: writes to files on it fail, although other targets have room, and new "
            "files get no objects there.",
            "Purge or move files from it (lfs find --ost, lfs migrate): it opens by itself when "
            "there is room.",
        ),
    ),
    (
        (".readonly=1", "(read-only)"),
        _Advice(
            "No objects are created on a read-only target.",
            "Make it writable again: it then accepts new objects by itself.",
        ),
    ),
)
"""Conditions that close a target by themselves: words of the source, and the remedy."""
_OTHER: Final = _Advice("It keeps the target from full health.", "See the named source.")


def state_findings(
    state: SiteState | None, slow: Sequence[SlowTargetStatus] = (), *, site: str = ""
) -> tuple[Finding, ...]:
    """Return one finding per kind of trouble, with every target or machine that has it.

    Parameters
    ----------
    state
        From `trimtab.explain.trouble.site_state`; ``None``: no snapshot is known.
    slow
        Targets that surveys show to be slow, including those missing from the state.
    site
        Name of the site if there is no state.
    """
    places = [] if state is None else [*state.targets, *state.hosts]
    known = {place.name for place in places}
    named = [(place.name, trouble) for place in places for trouble in place.troubles]
    named += [(each.target, slow_trouble(each)) for each in slow if each.target not in known]
    kinds: dict[tuple[str, Severity, _Advice], list[tuple[str, Trouble]]] = {}
    for name, trouble in named:
        kind = trouble.id, trouble.severity, _advice(trouble)
        kinds.setdefault(kind, []).append((name, trouble))
    site = site if state is None else state.site
    findings = [_finding(site, *kind, rows) for kind, rows in kinds.items()]
    return tuple(
        sorted(findings, key=lambda finding: (finding.severity.rank, -len(finding.evidence)))
    )


def _advice(trouble: Trouble) -> _Advice:
    """Return the advice for a trouble; for a closed target it depends on what closes it."""
    if trouble.id == "closed":
        for words, advice in _CLOSED_BY:
            if any(word in (trouble.source or "") for word in words):
                return advice
    return _ADVICE.get(trouble.id, _OTHER)


def _finding(
    site: str, id_: str, severity: Severity, advice: _Advice, rows: list[tuple[str, Trouble]]
) -> Finding:
    (name, trouble), *others = rows
    names = fold_names(name for name, _ in rows)
    shown = names if len(names) <= _NAMES_LONGEST else plural(len(rows), "target", ",")
    # Texts of one kind may differ in a figure or a device.
    alike = "" if all(other.text == trouble.text for _, other in others) else " and the like"
    # A path without a site file has no policies.
    command = (*advice.command, site) if advice.command and NAME.fullmatch(site) else ()
    if id_ == "slow" and command and not others:
        command = (*command, name)
    return Finding(
        id=id_,
        severity=severity,
        title=f"{shown}: {trouble.text}{alike}",
        target=None if others else name,
        seen=Seen(shown, None, id_, trouble.source),
        source=trouble.source,
        why=advice.why,
        fix=Fix(advice.do, command),
        confidence=1.0 if severity is Severity.CRITICAL else 0.9,
        evidence=tuple(
            Seen(other.text, None, other_name, other.source)
            for other_name, other in (rows if others else ())[:_EVIDENCE_MAXIMUM]
        ),
    )

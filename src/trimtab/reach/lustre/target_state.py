"""The actual state of a Lustre target: its backing file system, and whether it serves and writes.

The backing file system is ldiskfs or ZFS. It is described by the code for local file systems, with
a `CollectedHost` in place of the server's ``/proc`` and ``/sys``.

Lustre reports lost and read-only targets as healthy (``health_check``, ``lctl dl``, ``lfs check``;
observed on 2.17). The reliable signs, which are read here:

- **lost**: the import ``state`` on MDTs and client; a line missing in ``lfs df``;
- **closed to new objects**: any of five mechanisms; ``lfs df`` shows only two;
- **read-only**: ``errors_count`` of ldiskfs and the kernel log; every flag still says ``rw``.

Sources: lustre/osp/osp_precreate.c, lustre/ofd/ofd_dev.c, lustre/lod/lod_qos.c; lfs-df(1).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from trimtab.base.error import Message
from trimtab.base.filesystem import BlockDevice, Mount, PathDescription
from trimtab.base.snapshot import CONNECTED, INACTIVE, UNTOLD, NotAvailable, Reading, not_available
from trimtab.reach.block_allocator import Ext4
from trimtab.reach.driver_protocol import WriteTimes
from trimtab.reach.host import read_write_times
from trimtab.reach.local_telemetry import MountedState
from trimtab.reach.lustre.lustre_view import Link, ServerView, View
from trimtab.reach.lustre.server_answer import CollectedHost
from trimtab.reach.lustre.zfs_pool import why_not_writing
from trimtab.reach.path_description import devices_beneath
from trimtab.reach.touch import StatvfsSpace

_KIB: Final = 1024
_NO_DEVICE: Final = "0:0"


def write_times_of(backing: MountedState, target: str) -> WriteTimes | NotAvailable:
    """Return the write times of all drives together; ``target`` is for the reason."""
    writes, busy_s = 0, 0.0
    for drive in backing.description.own_drives:
        times = read_write_times(backing.host, drive.name)
        if isinstance(times, NotAvailable):
            return times
        writes, busy_s = writes + times.writes, busy_s + times.busy_s
    if not writes:
        return not_available("no-writes", f"no drive beneath {target} has counted a write")
    return WriteTimes(writes, busy_s)


def several_drives(description: PathDescription) -> tuple[BlockDevice, ...]:
    """Return the drives, if there are several; a single one is listed like other devices."""
    drives = description.own_drives
    return drives if len(drives) > 1 else ()


def read_backing(server: ServerView, target: str) -> MountedState:
    """Return the backing file system of a target of this server."""
    prefix = f"{server.file_system}-{target}"
    kind, node = _kind_and_node(server, target, prefix)
    host = server.host
    mount = _mount(server, target, node)
    devices, notes = (
        (),
        ["ZFS manages its drives itself: errors of its devices are those of zpool status"],
    )
    ext4 = None
    if kind != "zfs":
        devices, unseen = devices_beneath(host, (), mount, link_rates=False)
        notes = list(unseen)
        ext4 = Ext4(devices[0].name, "ldiskfs") if devices else None
    options = _options(host, ext4, mount)
    description = PathDescription(
        path=mount.mount_point,
        real_path=mount.mount_point,
        mount_point=mount.mount_point,
        kind="local" if devices else "opaque",
        fs_type=kind,
        source=mount.source,
        options=options,
        read_only="ro" in options,
        devices=devices,
        notes=tuple(notes),
    )
    space = _space(server, kind, prefix)
    return MountedState(host, description, space, ext4, server.trim_timer, host.execute)


def _kind_and_node(server: ServerView, target: str, prefix: str) -> tuple[str, str | None]:
    """Return ``ldiskfs`` or ``zfs``, and the device or dataset of the target."""
    for kind in ("ldiskfs", "zfs"):
        node = server.parameters.get(f"osd-{kind}.{prefix}.mntdev")
        if node is not None:
            return kind, node
    mount = server.target_mounts.get(target)
    if mount is None:
        return "ldiskfs", None
    is_zfs = "osd=osd-zfs" in mount.all_options
    return ("zfs" if is_zfs else "ldiskfs"), mount.source


def _mount(server: ServerView, target: str, node: str | None) -> Mount:
    """Return the mount of a target with its device as source, constructed if not found."""
    mount = server.target_mounts.get(target)
    if mount is None:
        mount = Mount(
            mount_id=0,
            parent_id=0,
            device_number=_NO_DEVICE,
            root="/",
            mount_point=f"{target} on {server.name}",
            options=(),
            fs_type="ldiskfs",
            source=node or "",
            super_options=(),
        )
    return replace(mount, fs_type="ldiskfs", source=node or mount.source)


def _options(host: CollectedHost, ext4: Ext4 | None, mount: Mount) -> tuple[str, ...]:
    """Return ldiskfs's own mount options; the mount table has Lustre's."""
    if ext4 is not None:
        text = host.read_text(f"{ext4.statistics}/options")
        if not isinstance(text, NotAvailable):
            return tuple(text.split())
    return mount.all_options


def _space(server: ServerView, kind: str, prefix: str) -> StatvfsSpace | NotAvailable:
    numbers = {
        name: server.parameters.number(f"osd-{kind}.{prefix}.{name}")
        for name in ("kbytestotal", "kbytesfree", "kbytesavail", "filestotal", "filesfree")
    }
    block = server.parameters.number(f"osd-{kind}.{prefix}.blocksize") or 4096
    known = {name: number for name, number in numbers.items() if number is not None}
    if len(known) < len(numbers):
        missing = next(name for name in numbers if name not in known)
        return NotAvailable(server.why_no("parameters", f"osd-{kind}.*.{missing}"))
    return StatvfsSpace(
        block_size_bytes=block,
        fragment_size_bytes=_KIB,
        blocks=known["kbytestotal"],
        blocks_free=known["kbytesfree"],
        blocks_available=known["kbytesavail"],
        inodes=known["filestotal"],
        inodes_free=known["filesfree"],
        flags=0,
    )


def state_readings(
    view: View, target: str, server: ServerView | None, backing: MountedState | None
) -> Iterator[Reading]:
    """Yield ``server``, ``failover_active``, ``import_state``, ``create_enabled`` and the rest."""
    yield from _server(view, target)
    yield _failover(view, target)
    yield from _import_state(view, target)
    yield from _creation(view, target, server)
    yield _degraded(view, target, server)
    yield _read_only(view, target, server, backing)


def serving(view: View, target: str) -> ServerView | NotAvailable:
    """Return the server that serves a target, or why it is unknown."""
    servers = view.serving(target)
    return servers[0] if len(servers) == 1 else NotAvailable(why_not_served(view, target))


def backing_of(view: View, target: str) -> MountedState | NotAvailable:
    """Return the backing file system of a target on its server, or why there is none."""
    server = serving(view, target)
    return server if isinstance(server, NotAvailable) else read_backing(server, target)


def why_not_served(view: View, target: str) -> Message:
    """Return why the server is unknown: silent servers, none with the target, or several."""
    if servers := view.serving(target):
        names = " and ".join(server.name for server in servers)
        return Message("served-twice", f"{names} all claim to serve {target}")
    silent = [server for server in view.servers.values() if not server.answered]
    home = view.home.get(target)
    if home is not None and any(server.name == home for server in silent):
        return view.servers[home].why_no("devices")
    if silent:
        names = ", ".join(server.name for server in silent[:4]) + (", ..." if silent[4:] else "")
        return Message(
            "server-silent", f"no server that answered serves {target}; no answer from {names}"
        )
    if not view.servers:
        return Message("no-servers", "the site file names no servers")
    return Message("target-not-served", f"none of the {len(view.servers)} servers serves {target}")


def lost(view: View, target: str) -> str | None:
    """Return why a target counts as lost, ``None`` if any machine still reaches it.

    It is lost if no machine is connected to it and no server claims to serve it; the numbers of
    ``lfs df`` are then the last known ones. A client with an idle or deactivated connection is no
    evidence.
    """
    links = [link for link in view.links_to(target) if link.state not in UNTOLD]
    if not links or view.serving(target) or any(link.state in CONNECTED for link in links):
        return None
    states = ", ".join(sorted({str(link.state) for link in links}))
    return f"{target} is not connected ({states})"


def _server(view: View, target: str) -> Iterator[Reading]:
    """Yield the server of a target; if several claim it, each with its name as label."""
    name, servers = "server", view.serving(target)
    if len(servers) == 1:
        source = f"{servers[0].served[target]} on {servers[0].name}"
        yield Reading(name, servers[0].name, source=source)
        return
    yield Reading(name, reason=why_not_served(view, target))
    for server in servers:
        source = f"{server.served[target]} on {server.name}"
        yield Reading(name, server.name, source=source, label=server.name)


def _failover(view: View, target: str) -> Reading:
    """Return whether a target is served away from home, according to the site file.

    The order of ``failover_nids`` in an import does not show it: the NID in use may be moved to the
    front (import_set_conn in lustre/ldlm/ldlm_lib.c), and a server can have several.
    """
    name = "failover_active"
    server = serving(view, target)
    if isinstance(server, NotAvailable):
        return Reading(name, reason=server.reason)
    home = view.home.get(target)
    if home is None:
        reason = "[servers.home] of the site file has no home for it"
        return Reading(name, reason=reason)
    source = f"home is {home}: [servers.home] of the site file"
    return Reading(name, server.name != home, source=source)


def _import_state(view: View, target: str) -> Iterator[Reading]:
    """Yield the worst state of a target's connections; if one is broken, also each by owner.

    Intact ones are included: which machines lost the target shows what is broken.
    """
    links = view.links_to(target)
    known = [link for link in links if link.state is not None]
    apart = [link for link in known if link.state not in CONNECTED]
    # A connection deactivated here says nothing about the target.
    worst = next((link for link in apart if link.state != INACTIVE), next(iter(apart), None))
    shown = worst or next(iter(known), None)
    if shown is None:
        yield Reading("import_state", reason=f"no connection to {target} is visible")
    else:
        yield Reading("import_state", shown.state, source=shown.source)
    for link in _one_of_each(links):
        if link.state is None:
            reason = f"{link.source} has no state"
            yield Reading("import_state", reason=reason, label=link.by)
        elif apart:
            yield Reading("import_state", link.state, source=link.source, label=link.by)


def _one_of_each(links: tuple[Link, ...]) -> tuple[Link, ...]:
    """Return one link for each machine; the worst if it has several mounts."""
    worst: dict[str, Link] = {}
    for link in links:
        before = worst.get(link.by)
        if before is None or (before.state in CONNECTED and link.state not in CONNECTED):
            worst[link.by] = link
    return tuple(worst.values())


# Creation


def _creation(view: View, target: str, server: ServerView | None) -> Iterator[Reading]:
    """Yield whether new objects can be created, and each MDT that cannot or is unknown.

    A target is closed entirely if its server closes it, or if every MDT does, which is unknown if
    one did not answer.
    """
    name = "create_enabled"
    if target.startswith("MDT"):
        yield _mdt_creation(view, target, server)
        return
    by_mdt = [_creation_by(view, target, mdt) for mdt in view.targets if mdt.startswith("MDT")]
    closed = _closed_by_server(view, target, server)
    known = [reading for reading in by_mdt if reading.value is not None]
    if closed is not None:
        yield Reading(name, False, source=closed)
    elif not known:
        missing = by_mdt[0].reason if by_mdt else "no MDT is known"
        yield Reading(name, reason=missing)
    elif any(reading.value for reading in known):
        source = next(reading.source for reading in known if reading.value)
        yield Reading(name, True, source=source)
    elif len(known) < len(by_mdt):
        silent = next(reading for reading in by_mdt if reading.value is None)
        reason = f"{known[0].source}; of {silent.label}: {silent.reason}"
        yield Reading(name, reason=reason)
    else:
        yield Reading(name, False, source=known[0].source)
    # A row for each MDT would make 5,000 on a large system, all alike: yield only exceptions.
    yield from (reading for reading in by_mdt if reading.value is not True)


def _creation_by(view: View, target: str, mdt: str) -> Reading:
    """Return whether one MDT creates objects on an OST; ``source`` is the deciding value."""
    name = "create_enabled"
    mds = view.mds_of.get(mdt)
    if mds is None:
        return Reading(name, reason=why_not_served(view, mdt), label=mdt)
    device = f"osp.{view.file_system}-{target}-osc-{mdt}"
    numbers = {
        leaf: mds.parameters.number(f"{device}.{leaf}")
        for leaf in ("active", "max_create_count", "prealloc_status")
    }
    seen = next((link for link in view.links_to(target) if link.by == mdt), None)
    reason = None
    if numbers["active"] == 0:
        reason = f"{device}.active=0"
    elif numbers["max_create_count"] == 0:
        reason = f"{device}.max_create_count=0"
    elif numbers["prealloc_status"]:
        reason = f"{device}.prealloc_status={error_text(numbers['prealloc_status'])}"
    elif seen is not None and seen.state is not None and seen.state not in CONNECTED:
        reason = f"{device}.import state {seen.state}"
    if reason is not None:
        return Reading(name, False, source=reason, label=mdt)
    missing = [leaf for leaf, value in numbers.items() if value is None]
    if missing:
        why = mds.why_no("parameters", f"osp.*.{missing[0]}")
        return Reading(name, reason=why, label=mdt)
    return Reading(name, True, source=f"{device}.prealloc_status=0", label=mdt)


def _closed_by_server(view: View, target: str, server: ServerView | None) -> str | None:
    """Return the parameter or flag by which a server closes its target, ``None`` if open."""
    if server is not None:
        kind = "mdt" if target.startswith("MDT") else "obdfilter"
        for name in ("no_create", "no_precreate", "readonly"):
            parameter = f"{kind}.{view.file_system}-{target}.{name}"
            if server.parameters.number(parameter) == 1:
                return f"{parameter}=1 on {server.name}"
    line = view.client.space.get(target)
    for flag, meaning in (
        ("N", "no create"),
        ("R", "read-only"),
        ("S", "out of space"),
        ("I", "out of inodes"),
    ):
        if line is not None and flag in line.flags:
            return f"{view.client.space_source}: flag {flag} ({meaning})"
    return None


def _mdt_creation(view: View, target: str, server: ServerView | None) -> Reading:
    name = "create_enabled"
    closed = _closed_by_server(view, target, server)
    if closed is not None:
        return Reading(name, False, source=closed)
    if server is None:
        return Reading(name, reason=why_not_served(view, target))
    parameter = f"mdt.{view.file_system}-{target}.no_create"
    if server.parameters.number(parameter) == 0:
        return Reading(name, True, source=f"{parameter}=0 on {server.name}")
    return Reading(name, reason=server.why_no("parameters", "mdt.*.no_create"))


# Degraded, read-only


def _degraded(view: View, target: str, server: ServerView | None) -> Reading:
    name = "degraded"
    parameter = f"obdfilter.{view.file_system}-{target}.degraded"
    value = None if server is None else server.parameters.number(parameter)
    if value is not None and server is not None:
        return Reading(name, value != 0, source=f"{parameter}={value} on {server.name}")
    line = view.client.space.get(target)
    if line is not None and "D" in line.flags:
        return Reading(name, True, source=f"{view.client.space_source}: flag D")
    if target.startswith("MDT"):
        return Reading(name, reason="Lustre has no such flag for an MDT")
    if line is not None and line.problem is None:
        return Reading(name, False, source=f"{view.client.space_source}: no flag D")
    return Reading(name, reason=why_not_served(view, target))


def _read_only(
    view: View, target: str, server: ServerView | None, backing: MountedState | None
) -> Reading:
    """Return whether a target is read-only, as far as that can be known.

    After an error ldiskfs aborts its journal and stops writing, but no flag of Lustre or of the
    mount changes. ``errors_count`` is then above 0, but it also counts errors from long ago: only
    the kernel log distinguishes them.
    """
    name = "read_only"
    line = view.client.space.get(target)
    if line is not None and "R" in line.flags:
        return Reading(name, True, source=f"{view.client.space_source}: flag R")
    if server is None or backing is None:
        return Reading(name, reason=why_not_served(view, target))
    kind = "mdt" if target.startswith("MDT") else "obdfilter"
    parameter = f"{kind}.{view.file_system}-{target}.readonly"
    flag = server.parameters.number(parameter)
    if flag == 1:
        return Reading(name, True, source=f"{parameter}=1 on {server.name}")
    if backing.description.read_only:
        return Reading(name, True, source=f"mount options on {server.name}")
    if backing.ext4 is None:
        if backing.description.fs_type == "ldiskfs":
            # Its flag stays 0 when the journal is aborted, so without errors_count the state is
            # unknown.
            reason = f"no device of {target} was found on {server.name}: errors_count is unknown"
            return Reading(name, reason=reason)
        if (why := why_not_writing(server, backing.description.source)) is not None:
            return Reading(name, True, source=why)
        if flag is None:
            return Reading(name, reason=server.why_no("parameters", f"{kind}.*.readonly"))
        return Reading(name, False, source=f"{parameter}=0 on {server.name}")
    return _read_only_by_errors(server, backing)


def _read_only_by_errors(server: ServerView, backing: MountedState) -> Reading:
    name = "read_only"
    assert backing.ext4 is not None
    path = f"{backing.ext4.settings}/errors_count"
    errors = server.host.read_number(path)
    if isinstance(errors, NotAvailable):
        return Reading(name, reason=errors.reason)
    if errors == 0:
        return Reading(name, False, source=f"{path} is 0 on {server.name}")
    log = server.kernel_log
    if isinstance(log, NotAvailable):
        reason = f"{path} is {errors}: it may have turned read-only ({log.reason})"
        return Reading(name, reason=reason)
    if backing.ext4.device in log.read_only:
        return Reading(name, True, source=f"kernel log of {server.name}: journal aborted")
    if log.begins_at_boot:
        return Reading(name, False, source=f"kernel log of {server.name} since boot: no abort")
    reason = f"{path} is {errors}: it may have turned read-only; the kernel log begins after boot"
    return Reading(name, reason=reason)


def error_text(code: int) -> str:
    """Format a negative errno with its name.

    Examples
    --------
    >>> error_text(-28)
    '-28 (ENOSPC, No space left on device)'
    """
    name = errno.errorcode.get(-code)
    return str(code) if name is None else f"{code} ({name}, {os.strerror(-code)})"

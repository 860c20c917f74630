"""Named settings of a target: Lustre parameters, ldiskfs tunables, block queues.

Drives are many and alike. Their common values are under ``drives/``, which names the drives that
differ: ``none (11), mq-deadline (nvme3n1)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trimtab.base.filesystem import BlockDevice
from trimtab.base.snapshot import NotAvailable, Setting, not_available
from trimtab.reach.local_driver import read_queue, read_settings
from trimtab.reach.local_telemetry import MountedState
from trimtab.reach.lustre.lustre_view import ServerView, View
from trimtab.reach.lustre.parameter import Histogram, Parameters, parse_brw_stats
from trimtab.reach.lustre.read_table import LDISKFS_SETTINGS, LDISKFS_STATISTICS
from trimtab.reach.lustre.target_state import several_drives, why_not_served

Settings = dict[str, Setting | NotAvailable]

_OF_OST: Final = ("degraded", "readonly", "no_create", "no_precreate", "checksum_type")
_OF_MDT: Final = ("readonly", "no_create")
_OF_LOD: Final = ("qos_threshold_rr", "qos_prio_free", "qos_maxage")
_OF_OSP: Final = ("active", "max_create_count", "reserved_mb_low", "reserved_mb_high")
_HISTOGRAMS: Final = {
    "disk I/O size": ("disk_io_size", "B"),
    "disk fragmented I/Os": ("disk_fragmented_ios", "I/Os"),
    "I/O time (1/1000s)": ("io_time", "ms"),
    "block maps msec": ("block_maps", "ms"),
}
"""Sections of ``brw_stats`` that reveal a struggling allocator or drive: our name and unit."""
_NAMED_DRIVES: Final = 4
"""Name at most this many differing drives; of more, give the number."""


def target_settings(
    view: View, target: str, server: ServerView | None, backing: MountedState | None
) -> Settings:
    """Return every named setting of a target; an unreadable one has its reason."""
    settings: Settings = {**dict(_of_mds(view, target)), **dict(_partners(view, target))}
    if server is None or backing is None:
        settings["server"] = NotAvailable(why_not_served(view, target))
        return settings
    settings |= dict(_of_server(view, target, server))
    device = f"{view.file_system}-{target}"
    settings |= dict(histograms(server.parameters, device, f"on {server.name}"))
    settings |= _beneath(backing)
    return settings


def _of_mds(view: View, target: str) -> Iterator[tuple[str, Setting | NotAvailable]]:
    """Yield the MDTs' settings for an OST, folded: 16 MDTs mostly agree."""
    if target.startswith("MDT"):
        return
    for parameter in _OF_OSP:
        values: dict[str, str] = {}
        for mdt, mds in view.mds_of.items():
            device = f"osp.{view.file_system}-{target}-osc-{mdt}"
            value = mds.parameters.get(f"{device}.{parameter}")
            if value is not None:
                values[mdt] = value.strip()
        if values:
            name = f"osp/{parameter}"
            pattern = f"osp.{view.file_system}-{target}-osc-MDT*.{parameter}"
            yield name, Setting(name, folded(values), pattern)


def _partners(view: View, target: str) -> Iterator[tuple[str, Setting | NotAvailable]]:
    """Yield the servers that may serve a target, from the NIDs of its connections."""
    link = next((link for link in view.links_to(target) if link.nids), None)
    name = "failover/servers"
    if link is None:
        yield name, not_available("no-connection", f"no connection to {target} is visible")
        return
    # For a silent server its NID is used as its name.
    servers = dict.fromkeys(view.server_of_nid.get(nid, nid) for nid in link.nids)
    yield name, Setting(name, " ".join(servers), link.source)


def _of_server(
    view: View, target: str, server: ServerView
) -> Iterator[tuple[str, Setting | NotAvailable]]:
    is_mdt = target.startswith("MDT")
    tree, names = ("mdt", _OF_MDT) if is_mdt else ("obdfilter", _OF_OST)
    device = f"{view.file_system}-{target}"
    wanted = [(f"{tree}/{name}", f"{tree}.{device}.{name}") for name in names]
    if is_mdt:
        wanted += [(f"lod/{name}", f"lod.{device}-mdtlov.{name}") for name in _OF_LOD]
        wanted.append(("mdd/atime_diff", f"mdd.{device}.atime_diff"))
    for name, parameter in wanted:
        value = server.parameters.get(parameter)
        if value is None:
            yield name, NotAvailable(server.why_no("parameters", parameter))
        else:
            yield name, Setting(name, value.strip(), f"{parameter} on {server.name}")


def histograms(parameters: Parameters, device: str, where: str) -> Iterator[tuple[str, Setting]]:
    """Yield the ``brw_stats`` histograms since the target was mounted: ``write 1048576:312 B``."""
    for parameter in (
        f"osd-ldiskfs.{device}.brw_stats",
        f"osd-zfs.{device}.brw_stats",
        f"obdfilter.{device}.brw_stats",
    ):
        text = parameters.get(parameter)
        if text is None:
            continue
        for title, histogram in parse_brw_stats(text).items():
            if title in _HISTOGRAMS and histogram.complete and histogram.buckets:
                name, unit = f"brw_stats/{_HISTOGRAMS[title][0]}", _HISTOGRAMS[title][1]
                yield name, Setting(name, _counted(histogram, unit), f"{parameter} {where}")
        return


def _counted(histogram: Histogram, unit: str) -> str:
    reads = [f"{bucket.start}:{bucket.reads}" for bucket in histogram.buckets if bucket.reads]
    writes = [f"{bucket.start}:{bucket.writes}" for bucket in histogram.buckets if bucket.writes]
    parts = [f"{word} {' '.join(of)}" for word, of in (("read", reads), ("write", writes)) if of]
    return f"{'; '.join(parts)} {unit}".strip()


def _beneath(backing: MountedState) -> Settings:
    host, description = backing.host, backing.description
    drives = several_drives(description)
    names = {drive.name for drive in drives}
    settings: Settings = read_settings(host, description, backing.ext4, without=names)
    of_drives: dict[str, dict[str, str]] = {}
    for drive in drives:
        for knob, value in read_queue(host, drive.name).items():
            of_drives.setdefault(knob, {})[drive.name] = value
    for knob, values in of_drives.items():
        name = f"drives/queue/{knob}"
        settings[name] = Setting(name, folded(values), f"/sys/class/block/*/queue/{knob}")
    settings["devices"] = Setting("devices", _tree(backing), "/sys/class/block")
    if backing.ext4 is not None:
        settings |= _of_ldiskfs(backing)
    return settings


def _of_ldiskfs(backing: MountedState) -> Settings:
    settings: Settings = {}
    ext4 = backing.ext4
    assert ext4 is not None
    places = [(name, f"{ext4.settings}/{name}") for name in LDISKFS_SETTINGS]
    places += [(name, f"{ext4.statistics}/{name}") for name in LDISKFS_STATISTICS]
    for name, path in places:
        text = backing.host.read_text(path)
        if not isinstance(text, NotAvailable):
            full = f"ldiskfs/{ext4.device}/{name}"
            settings[full] = Setting(full, " ".join(text.split()), path)
    return settings


def _tree(backing: MountedState) -> str:
    """Return the devices beneath, top down: ``md12 (raid6), 10 x PM1733``."""
    description = backing.description
    drives = description.own_drives
    names = {drive.name for drive in drives}
    above = [_shown(device) for device in description.own_devices if device.name not in names]
    models: dict[str, list[str]] = {}
    for drive in drives:
        models.setdefault(drive.model or drive.kind, []).append(drive.name)
    below = [
        f"{len(of)} x {model}" if len(of) > 1 else f"{of[0]} ({model})"
        for model, of in models.items()
    ]
    return ", ".join([*above, *below])


def _shown(device: BlockDevice) -> str:
    return device.name if device.label is None else f"{device.name} ({device.label})"


def folded(values: dict[str, str]) -> str:
    """Return the common value, or each value with its owners, the most frequent first.

    Examples
    --------
    >>> folded({"a": "1", "b": "1"}), folded({"a": "1", "b": "1", "c": "0"})
    ('1', '1 (2), 0 (c)')
    """
    holders: dict[str, list[str]] = {}
    for holder, value in values.items():
        holders.setdefault(value, []).append(holder)
    if len(holders) == 1:
        return next(iter(holders))
    ordered = sorted(holders.items(), key=lambda item: -len(item[1]))
    most = ordered[0]
    return ", ".join(
        f"{value} ({', '.join(of)})"
        if len(of) <= _NAMED_DRIVES and (value, of) != most
        else f"{value} ({len(of)})"
        for value, of in ordered
    )

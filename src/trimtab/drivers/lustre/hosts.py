"""The hosts in a snapshot: which answered, versions, network, integrity."""

from __future__ import annotations

from typing import Final

from trimtab.drivers.host import Host
from trimtab.drivers.local.describe import mount_table
from trimtab.drivers.lustre.parameters import Parameters
from trimtab.drivers.lustre.reads import CLIENT_SETTINGS, COMMANDS
from trimtab.drivers.lustre.settings import folded
from trimtab.drivers.lustre.telemetry import Cpu, checksum_errors, network
from trimtab.drivers.lustre.view import ServerView, View
from trimtab.model.mounts import Mount, find_mount, lustre_name
from trimtab.model.telemetry import HostSnapshot, NotAvailable, Reading, Setting

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

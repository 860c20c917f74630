"""Drafts a site file from a mounted file system: discovers what exists and what can be read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from trimtab.base.error import RefusedError, ToolError, UsageError, visible
from trimtab.base.filesystem import DRIVERS, DriverEntry, PathDescription, driver_of_mount
from trimtab.base.name_set import fold_nodes, unfold_nodes
from trimtab.base.site import Servers, Site, SiteProbe, Ssh
from trimtab.base.snapshot import NotAvailable
from trimtab.base.toml_problem import NAME
from trimtab.probe.check_plan import CheckRequest, plan_probe
from trimtab.probe.write_read import choose
from trimtab.reach import bounded
from trimtab.reach.fleet import FanOut, fan_out
from trimtab.reach.host import run_tool
from trimtab.reach.local_driver import LocalDriver
from trimtab.reach.lustre.lustre_client import name_at
from trimtab.reach.lustre.lustre_view import ServerView, View
from trimtab.reach.lustre.server_query import ask_client, ask_servers
from trimtab.reach.process import Execute
from trimtab.reach.process import execute as run_process
from trimtab.site.path_access import THIS_HOST

PROBE_S: Final = 30.0
"""Duration of each write and each read of the proposed probe: short, and credible."""
_PROCESSORS: Final = 2
"""Tasks are proposed as for a small node: enough to measure, not to load."""
_LOOKUP_S: Final = 5.0
_AGAIN: Final = 3.0
"""Factor by which a server's deadline is extended when it is asked again, once."""
_ADDRESS: Final = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F:]+)@[a-z0-9]+")
_NAME_LENGTH: Final = 64
_NOT_A_NAME: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """Options that the user gave beside the path; ``None`` is to be discovered.

    Attributes
    ----------
    driver
        ``local`` or ``lustre``.
    servers, sudo, user, ssh
        For Lustre only. ``servers`` is a node set; without ``ssh`` the program of that name
        reaches them.
    """

    path: str
    name: str | None = None
    driver: str | None = None
    servers: str | None = None
    sudo: bool = False
    user: str | None = None
    ssh: tuple[str, ...] | None = None


@dataclass
class Discovery:
    """A site, what was found on the way, and what was not."""

    site: Site
    facts: list[str] = field(default_factory=list)
    not_found: list[str] = field(default_factory=list)
    comments: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InitDocument:
    """``trimtab init --json``: the new site file, and the findings behind it."""

    site: str
    file: str | None
    text: str
    found: tuple[str, ...]
    not_found: tuple[str, ...]


def discover(
    wanted: DraftRequest, *, execute: Execute = run_process, reach: FanOut = fan_out
) -> Discovery:
    """Return a site for a mounted file system; asks, and changes nothing.

    Raises
    ------
    UsageError
        The path is missing or has another kind of file system than named, the name is not valid
        for a site, or an option for Lustre is given for another file system.
    NoAnswer
        It does not answer.
    ToolError
        A server did not answer twice: its targets would be missing in the file.
    """
    _refuse_name(wanted.name)
    description = LocalDriver(wanted.path, execute=execute).description
    state = bounded.describe(wanted.path)
    if state.kind != "directory":
        raise UsageError(
            f"{visible(wanted.path)} is not a directory",
            code="not-a-directory",
            hint="name a mount point",
        )
    entry = DRIVERS[wanted.driver] if wanted.driver else driver_of_mount(description.kind)
    if entry.name == "lustre":  # its own discovery; for other file systems the mount table suffices
        discovery = _lustre(wanted, description, execute, reach)
    else:
        _refuse_what_is_of_lustre(wanted, description)
        discovery = _mounted(wanted, description, entry)
    if description.real_path != description.mount_point:
        discovery.not_found.append(
            f"{visible(wanted.path)} is no mount point: it is part of "
            f"{visible(description.mount_point)} ({visible(description.source)})"
        )
    _propose_probe(discovery, state, execute)
    return discovery


def _refuse_name(name: str | None) -> None:
    # Its site file would be refused too, but with a line number in a file that does not exist yet.
    if name is not None and not NAME.fullmatch(name):
        raise UsageError(
            f"--name: {visible(name[:80])!r} is not a name",
            code="name-invalid",
            hint="use at most 64 lower-case letters, digits and, between them, dashes",
        )


def _refuse_what_is_of_lustre(wanted: DraftRequest, description: PathDescription) -> None:
    if not wanted.sudo and wanted.servers is wanted.ssh is wanted.user is None:
        return
    of_lustre = "--servers, --ssh, --sudo and --user are for Lustre"
    if description.kind == "lustre":
        raise UsageError(
            f"{of_lustre}, and --driver is local",
            code="driver-mismatch",
            hint="use --driver lustre",
        )
    raise UsageError(
        f"{visible(wanted.path)} is not a Lustre mount; {of_lustre}",
        code="not-lustre",
        hint="name the mount point of a client, or omit these options",
    )


def _mounted(wanted: DraftRequest, description: PathDescription, entry: DriverEntry) -> Discovery:
    name = wanted.name or _name_of(description.mount_point)
    discovery = Discovery(Site(name=name, driver=entry.name, path=description.real_path))
    discovery.facts.append(
        f"{description.fs_type} on {description.source}, mounted on {description.mount_point}"
    )
    if description.devices:
        shown = " -> ".join(device.name for device in description.devices[:6])
        discovery.facts.append(f"devices beneath: {shown}")
    discovery.not_found += description.notes
    return discovery


def _lustre(
    wanted: DraftRequest, description: PathDescription, execute: Execute, reach: FanOut
) -> Discovery:
    file_system = name_at(wanted.path, description, execute)
    if file_system is None:
        raise UsageError(
            f"{visible(wanted.path)} is not a Lustre file system that lfs df lists",
            code="not-lustre",
            hint="name the mount point of a client, or use --driver local",
        )
    site = Site(
        name=wanted.name or _name_of(file_system),
        driver="lustre",
        path=description.real_path,
        file_system=file_system,
    )
    discovery = Discovery(site)
    client = ask_client(file_system, wanted.path, execute)
    discovery.not_found += client.problems
    version = client.parameters.get("version")
    discovery.facts.append(f"Lustre {version or '(version not known)'}, file system {file_system}")
    nids = dict.fromkeys(nid for link in client.links for nid in link.nids)
    names = _server_names(wanted, tuple(nids), execute, discovery)
    view = View(file_system, client, {})
    if names:
        servers = _ask(wanted, names, file_system, reach, discovery)
        view = View(file_system, client, servers)
        _sort_servers(discovery, view, names)
    osts = sum(target.startswith("OST") for target in view.targets)
    discovery.facts.append(f"{osts} OSTs and {len(view.targets) - osts} MDTs")
    _tell_what_is_readable(discovery, view)
    return discovery


def _server_names(
    wanted: DraftRequest, nids: Sequence[str], execute: Execute, discovery: Discovery
) -> tuple[str, ...]:
    """Return the servers: as named, else the hosts of the NIDs that the client connects to."""
    if wanted.servers is not None:
        return unfold_nodes(wanted.servers)
    if nids and all(nid.endswith("@lo") for nid in nids):
        discovery.facts.append("the servers are this host")
        return ("localhost",)
    names = []
    for nid in nids:
        name = _host_of(nid, execute)
        if name is not None:
            names.append(name)
        elif not nid.endswith("@lo"):
            discovery.not_found.append(f"no host name for the server {nid}: name it with --servers")
    if not names:
        discovery.not_found.append(
            "no servers are known: name them with --servers, or only the client's view is kept"
        )
    return tuple(dict.fromkeys(names))


def _host_of(nid: str, execute: Execute) -> str | None:
    """Return the name that the resolver has for the address of a NID; else the address."""
    address = _ADDRESS.fullmatch(nid)
    if address is None:
        return None
    result = run_tool(execute, ("getent", "hosts", address.group(1)), timeout_s=_LOOKUP_S)
    if isinstance(result, NotAvailable):
        return address.group(1)
    words = result.stdout.decode("utf-8", "replace").split()
    return words[1] if len(words) > 1 else address.group(1)


def _ask(
    wanted: DraftRequest,
    names: tuple[str, ...],
    file_system: str,
    reach: FanOut,
    discovery: Discovery,
) -> dict[str, ServerView]:
    here = names == ("localhost",)
    ssh = Ssh(command=wanted.ssh or Ssh().command, user=wanted.user)
    servers = Servers(oss=names, reach="local" if here else "ssh", ssh=ssh, sudo=wanted.sudo)
    views = ask_servers(servers, file_system, fan_out=reach)
    silent = tuple(name for name, view in views.items() if not view.answered)
    if silent and not here:
        patient = replace(servers, oss=silent, timeout_s=_AGAIN * servers.timeout_s)
        views |= ask_servers(patient, file_system, fan_out=reach)
        servers = replace(servers, timeout_s=patient.timeout_s)
    discovery.site = replace(discovery.site, servers=servers)
    _refuse_silence(views)
    return views


def _refuse_silence(views: Mapping[str, ServerView]) -> None:
    """Raise if a server did not answer: a file without its targets would look complete."""
    why = {name: view.why_no("devices") for name, view in views.items() if not view.answered}
    if not why:
        return
    raise ToolError(
        "; ".join(why.values()),
        code="server-silent",
        hint=f"no site file was written: it would lack what {_folded(tuple(why))} serves. Mend "
        "that and repeat (host, key, user, Python: docs/install.md, section 3), or name the "
        "servers that answer with --servers and add the others to the file later",
    )


def _sort_servers(discovery: Discovery, view: View, names: Sequence[str]) -> None:
    """Distinguish OSS from MDS by their targets, and record the home server of each target."""
    served = {name: view.servers[name].served for name in names}
    mds = tuple(name for name in names if any(target.startswith("MDT") for target in served[name]))
    # A server without any target now (a failover partner) is counted as OSS.
    oss = tuple(
        name
        for name in names
        if name not in mds or any(target.startswith("OST") for target in served[name])
    )
    serving = {target: view.serving(target) for target in view.targets}
    home = {
        target: discovery[0].name for target, discovery in serving.items() if len(discovery) == 1
    }
    servers = replace(discovery.site.servers, oss=oss, mds=mds, home=home)
    discovery.site = replace(discovery.site, servers=servers)
    discovery.facts.append(f"MDS {_folded(mds)}; OSS {_folded(oss)}")
    if home:
        discovery.comments["servers.home"] = [
            "where each target was when this file was written:",
            "correct it if something had failed over then",
        ]


def _folded(names: tuple[str, ...]) -> str:
    return fold_nodes(names) if names else "none"


def _tell_what_is_readable(discovery: Discovery, view: View) -> None:
    versions: dict[str, list[str]] = {}
    for name, server in view.servers.items():
        version = (server.parameters.get("version") or "not readable").strip()
        versions.setdefault(version, []).append(name)
        for key in ("parameters", "kernel-log", "smart"):
            command = server.answer.command(key)
            if command is not None and command.exit_code != 0 and not command.stdout:
                discovery.not_found.append(server.why_no(key))
    for version, names in versions.items():
        discovery.facts.append(f"Lustre {version} on {_folded(tuple(names))}")
    unserved = [target for target in view.targets if not view.serving(target)]
    if view.servers and unserved:
        discovery.not_found.append(f"none of these servers serves {', '.join(unserved[:12])}")


def _propose_probe(discovery: Discovery, state: bounded.PathState, execute: Execute) -> None:
    """Add an hourly probe whose size fits, and a snapshot between."""
    site = replace(discovery.site, snapshot_schedule="every 15m")
    available = None if state.space is None else state.space.available_bytes
    if available is None:
        discovery.not_found.append(
            f"the free space of {site.path} is not known: no probe is proposed"
        )
        discovery.site = site
        return
    try:
        instrument = choose("auto", replace(THIS_HOST, execute=execute))
        spec = plan_probe(CheckRequest(), available_bytes=available, processors=_PROCESSORS)
    except (RefusedError, ToolError, UsageError) as error:
        discovery.not_found.append(f"no probe is proposed: {error.message}")
        discovery.site = site
        return
    probe = SiteProbe(
        name="hourly",
        schedule="every 1h",
        benchmark=instrument.benchmark.name,
        launcher=instrument.launcher.kind,
        tasks_per_node=spec.tasks,
        block_size_bytes=spec.block_size_bytes,
        duration_s=PROBE_S,
        jitter_s=300.0,
    )
    discovery.site = replace(site, probes=(probe,))
    discovery.comments["probe.hourly"] = [
        "writes and reads for 30 s each; nothing runs before the watch does"
    ]


def _name_of(text: str) -> str:
    """Return a site's name from a mount point or a file system's name."""
    return _NOT_A_NAME.sub("-", text.lower())[:_NAME_LENGTH].strip("-") or "root"

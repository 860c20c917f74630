"""One view of a Lustre: the parsed answers of its client and servers, kernel logs included.

`lustre_telemetry`, `lustre_setting` and `target_state` turn it into named readings and settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from trimtab.base.error import Message
from trimtab.base.filesystem import Mount, lustre_name, parse_mountinfo
from trimtab.base.snapshot import CONNECTED, INACTIVE, NotAvailable
from trimtab.reach.lustre.kernel_log import KernelLog, counts, parse_kernel_log
from trimtab.reach.lustre.lustre_target import (
    LfsDfLine,
    LustreDevice,
    parse_device_list,
    parse_import,
    parse_name,
)
from trimtab.reach.lustre.parameter import Parameters, parse_nis, parse_parameters
from trimtab.reach.lustre.read_table import LAST
from trimtab.reach.lustre.server_answer import CollectedHost, ServerAnswer
from trimtab.reach.trim import Timer, read_timer

NOTHING: Final = parse_parameters("")
_NO_SCHEDULER: Final = NotAvailable("no scheduler was queried")


@dataclass(frozen=True, slots=True)
class Link:
    """One machine's connection to one target, as that machine sees it.

    Attributes
    ----------
    by
        ``MDT0000``, or ``client``.
    state
        Import state (``FULL``, ``DISCONN`` ...), or `INACTIVE`.
    """

    target: str
    by: str
    state: str | None
    nids: tuple[str, ...]
    source: str


@dataclass
class ServerView:
    """One server's answer, parsed on first use.

    Attributes
    ----------
    file_system
        Lustre's name; targets of other file systems on the server are skipped.
    request
        The request it answers.
    """

    name: str
    file_system: str
    answer: ServerAnswer
    request: Mapping[str, Any]

    @property
    def answered(self) -> bool:
        """Whether there is a complete answer."""
        return self.answer.problem is None

    @cached_property
    def host(self) -> CollectedHost:
        """Its ``/proc`` and ``/sys``."""
        return CollectedHost(answer=self.answer, request=self.request)

    @cached_property
    def _printed(self) -> dict[str, Parameters]:
        """Parsed output of ``lctl get_param``, by the key of its command."""
        printed = dict.fromkeys(("parameters", "imports", "client-settings"), NOTHING)
        for key in printed:
            if (command := self.answer.command(key)) is not None:
                printed[key] = parse_asked(command.stdout, complete=command.complete)
        return printed

    @property
    def parameters(self) -> Parameters:
        """Output of ``lctl get_param``."""
        return self._printed["parameters"]

    @property
    def imports(self) -> Parameters:
        """Parameters of its MDTs' connections."""
        return self._printed["imports"]

    @property
    def client_parameters(self) -> Parameters:
        """Parameters of the server as a client."""
        return self._printed["client-settings"]

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """The connections of its MDTs to targets."""
        return tuple(links(self.imports, self.file_system, on=self.name))

    @cached_property
    def _devices(self) -> tuple[LustreDevice, ...]:
        listed = self.answer.command("devices")
        return () if listed is None else parse_device_list(listed.stdout)

    @property
    def has_mgs(self) -> bool:
        """Whether it runs the MGS, which stores permanent parameters."""
        return any(device.type == "mgs" for device in self._devices)

    @cached_property
    def served(self) -> dict[str, str]:
        """Every target that it serves now, with the evidence."""
        sources: dict[str, str] = {}
        for device in self._devices:
            if device.type in {"obdfilter", "mdt"}:
                self._add(sources, device.name, "lctl dl")
        for kind in ("obdfilter.*.recovery_status", "mdt.*.recovery_status"):
            for name in self.parameters.matching(kind):
                self._add(sources, name.split(".")[1], "lctl get_param")
        for mount in self.target_mounts.values():
            service = service_of(mount)
            if service is not None:
                self._add(sources, service, "/proc/self/mountinfo")
        return sources

    @cached_property
    def measured(self) -> frozenset[str]:
        """Every target whose space it reports."""
        sources: dict[str, str] = {}
        for name in self.parameters.matching("osd-*.*.kbytestotal"):
            self._add(sources, name.split(".")[1], "lctl get_param")
        return frozenset(sources)

    def _add(self, sources: dict[str, str], name: str, source: str) -> None:
        parsed = parse_name(name)
        if parsed is not None and parsed.file_system == self.file_system and parsed.by is None:
            sources.setdefault(parsed.target, source)

    @cached_property
    def _mounts(self) -> tuple[Mount, ...] | NotAvailable:
        text = self.host.read_text("/proc/self/mountinfo")
        return text if isinstance(text, NotAvailable) else parse_mountinfo(text)

    @cached_property
    def target_mounts(self) -> dict[str, Mount]:
        """Target to its mount on this server."""
        mounts_of_targets = {}
        for mount in () if isinstance(self._mounts, NotAvailable) else self._mounts:
            parsed = parse_name(service_of(mount) or "")
            if parsed is not None and parsed.file_system == self.file_system:
                mounts_of_targets[parsed.target] = mount
        return mounts_of_targets

    @property
    def client_mount(self) -> Mount | NotAvailable:
        """Its client mount of the file system, or why there is none."""
        if isinstance(self._mounts, NotAvailable):
            return self._mounts
        for mount in self._mounts:
            if lustre_name(mount.fs_type, mount.source) == self.file_system:
                return mount
        return NotAvailable(f"{self.file_system} is not mounted on {self.name}")

    @cached_property
    def nids(self) -> tuple[str, ...]:
        """Its own NIDs, without loopback."""
        nids = parse_nis(self.parameters.get("nis") or "")
        return tuple(nid for nid in nids if not nid.endswith("@lo"))

    @cached_property
    def trim_timer(self) -> Timer:
        """Its ``fstrim.timer``."""
        return read_timer(self.host, self.host.execute)

    @cached_property
    def kernel_log(self) -> KernelLog | NotAvailable:
        """Its parsed kernel log."""
        log = self.answer.command("kernel-log")
        # A partial log proves nothing: what it lacks may be in the rest.
        if log is None or log.exit_code != 0 or not log.complete:
            return NotAvailable(self.why_no("kernel-log"))
        first = log.first_line
        return parse_kernel_log(log.stdout if first is None else f"{first}\n{log.stdout}")

    def why_no(self, key: str, noun: str | None = None) -> Message:
        """Return why a command has no output, or why a value is missing in it."""
        if self.answer.problem is not None:
            return Message("server-silent", f"{self.name} did not answer: {self.answer.problem}")
        command = self.answer.command(key)
        if command is None:
            return self._why_not_run(key)
        sudo = len(self.request["sudo"] or ()) if command.argv[:1] == ("sudo",) else 0
        words = f"{' '.join(command.argv[sudo : sudo + 2])} on {self.name}"
        if command.error is not None:
            return Message("command-not-started", f"{words}: {command.error}")
        if command.timed_out:
            return Message("command-timed-out", f"{words} timed out")
        if not command.stdout and command.exit_code != 0:
            complaints = command.stderr.strip().splitlines()
            if not complaints:
                return Message(
                    "command-failed", f"{words} failed with exit code {command.exit_code}"
                )
            return Message("command-failed", f"{words}: {complaints[0][:160]}")
        if not command.complete:
            return Message("output-cut", f"{words}: its output was cut")
        parameters = self._printed.get(key)
        # Blame the kernel for what it lacks, not for what was lost in transfer.
        if parameters is not None and not parameters.text:
            return Message("output-empty", f"{words} gave nothing")
        if parameters is not None and not parameters.complete:
            return Message("output-cut", f"{words} was cut")
        return Message(
            "not-on-this-version",
            f"not available on this kernel and version ({noun or key} on {self.name})",
        )

    def _why_not_run(self, key: str) -> Message:
        """Return why a command has no answer: skipped, or nothing to run it on."""
        requested = next(
            (command for command in self.request["commands"] if command["key"] == key), None
        )
        if requested is None:
            return Message("not-queried", f"{self.name} was not queried for it")
        words = " ".join(word for word in requested["argv"] if word != "{}")
        for name, why in self.answer.skipped.items():
            if words in name:
                return Message("command-skipped", f"{self.name}: {why}")
        if requested.get("each"):
            return Message("no-device", f"{self.name} has no device to query")
        return Message("command-not-started", f"{self.name} had no time left for it")

    def lacks(self, key: str) -> Message | None:
        """Return why output of ``lctl get_param`` is incomplete, ``None`` if it is complete.

        Parameters
        ----------
        key
            ``parameters`` or ``imports``.
        """
        parameters = self._printed.get(key)
        whole = parameters is not None and parameters.text and parameters.complete
        return None if whole else self.why_no(key)


@dataclass(frozen=True, slots=True)
class ClientView:
    """The file system as this host, a client, sees it.

    Attributes
    ----------
    space, inodes
        The lines of ``lfs df`` by target.
    problems
        What is missing and why; empty if nothing is.
    jobs
        Jobs that Slurm runs now, or why that is unknown, which is no problem of the file system.
    """

    parameters: Parameters = NOTHING
    links: tuple[Link, ...] = ()
    space: Mapping[str, LfsDfLine] = field(default_factory=dict)
    inodes: Mapping[str, LfsDfLine] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    space_source: str = "lfs df"
    why_no_space: str | None = None
    jobs: int | NotAvailable = _NO_SCHEDULER


@dataclass
class View:
    """The state of a whole file system at one time.

    Attributes
    ----------
    home
        Target to the server that normally serves it, from the site file.
    clients
        Answers of other clients, by name.
    """

    file_system: str
    client: ClientView
    servers: Mapping[str, ServerView]
    home: Mapping[str, str] = field(default_factory=dict)
    clients: Mapping[str, ServerView] = field(default_factory=dict)

    def serving(self, target: str) -> tuple[ServerView, ...]:
        """Return the servers that claim to serve a target: normally one."""
        return self._serving.get(target, ())

    def links_to(self, target: str) -> tuple[Link, ...]:
        """Return every connection to a target."""
        return self._links.get(target, ())

    @cached_property
    def kernel_logs(self) -> tuple[KernelLog, ...]:
        """The kernel logs that were read, of servers and other clients."""
        machines = (*self.servers.values(), *self.clients.values())
        logs = (machine.kernel_log for machine in machines)
        return tuple(log for log in logs if not isinstance(log, NotAvailable))

    @cached_property
    def logged(self) -> Mapping[tuple[str, str | None], int]:
        """What they count; see `trimtab.reach.lustre.kernel_log.counts`."""
        return counts(self.kernel_logs)

    @cached_property
    def server_of_nid(self) -> dict[str, str]:
        """NID to the server that has it."""
        return {nid: name for name, server in self.servers.items() for nid in server.nids}

    @cached_property
    def mds_of(self) -> dict[str, ServerView]:
        """MDT to its server; an MDT claimed by two servers is omitted."""
        return {
            target: servers[0]
            for target, servers in self._serving.items()
            if _is_mdt(target) and len(servers) == 1
        }

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Every target known to any machine: MDTs, then OSTs, by index."""
        names = {*self.client.space, *self.client.inodes, *self.home, *self._serving, *self._links}
        return tuple(sorted(names, key=lambda name: (not _is_mdt(name), int(name[3:], 16))))

    def _as_used(self, link: Link) -> Link:
        """Return the client's link as updated by ``lfs df``, which ran after the import was read.

        With ``osc.*.active=0`` this client cannot use a target that all others use, although its
        import may be intact. And the import of a lost target stays FULL or IDLE until it is used.
        """
        line = self.client.space.get(link.target)
        if line is None or line.problem is None:
            return link
        source = f"{self.client.space_source}: {line.problem}"
        if "inactive" in line.problem:
            return replace(link, state=INACTIVE, source=source)
        return replace(link, state="DISCONN", source=source) if link.state in CONNECTED else link

    @cached_property
    def _serving(self) -> dict[str, tuple[ServerView, ...]]:
        serving: dict[str, list[ServerView]] = {}
        for server in self.servers.values():
            for target in server.served if server.answered else ():
                serving.setdefault(target, []).append(server)
        return {target: tuple(servers) for target, servers in serving.items()}

    @cached_property
    def _links(self) -> dict[str, tuple[Link, ...]]:
        links_of: dict[str, list[Link]] = {}
        for link in self.client.links:
            links_of.setdefault(link.target, []).append(self._as_used(link))
        for server in self.servers.values():
            for link in server.links if server.answered else ():
                links_of.setdefault(link.target, []).append(link)
        return {target: tuple(of) for target, of in links_of.items()}


def parse_asked(stdout: str, *, complete: bool) -> Parameters:
    """Parse ``lctl get_param``; incomplete if the parameter requested last is missing.

    Parameters
    ----------
    complete
        False if some output is already known to be missing.
    """
    parameters = parse_parameters(stdout, complete=complete)
    if parameters.complete and stdout and parameters.get(LAST) is None:
        return parse_parameters(stdout, complete=False)
    return parameters


def links(parameters: Parameters, file_system: str, *, on: str) -> Iterator[Link]:
    """Yield the connections in ``import`` parameters, once for each target and machine.

    On a machine that is both client and MDS, ``osc.*`` also lists the MDT's connections, which are
    taken from ``osp.*``.
    """
    for pattern in ("osp.*.import", "osc.*.import", "mdc.*.import"):
        for name, text in parameters.matching(pattern).items():
            device = parse_name(name.split(".", 1)[1].removesuffix(".import"))
            if device is None or device.file_system != file_system or device.by is None:
                continue
            of_mdt = device.by.startswith("MDT")
            if of_mdt != pattern.startswith("osp"):
                continue
            seen = parse_import(text)
            yield Link(
                target=device.target,
                by=device.by if of_mdt else "client",
                state=None if seen is None else seen.state,
                nids=() if seen is None else seen.failover_nids,
                source=f"{name} on {on}",
            )


def service_of(mount: Mount) -> str | None:
    """Return the target of a server's mount (``svname=``), ``None`` for other mounts."""
    if mount.fs_type != "lustre":
        return None
    return next(
        (all_option[7:] for all_option in mount.all_options if all_option.startswith("svname=")),
        None,
    )


def _is_mdt(target: str) -> bool:
    return target.startswith("MDT")

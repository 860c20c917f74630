"""Checks a site file's tables against each other, and fills in the command of a probe. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from trimtab.base.error import Message, visible
from trimtab.base.filesystem import DRIVERS
from trimtab.base.schedule import parse_schedule
from trimtab.base.site import Servers, Site, SiteProbe
from trimtab.base.site_hardware import Hardware
from trimtab.base.toml_problem import Problem, name_problems
from trimtab.base.units import enumerated, format_bytes, format_duration, format_percent
from trimtab.formats.format_table import names, pinnable

PLACES: Final = ("directory", "tasks", "nodes")
"""Placeholders: the probe's directory, and its numbers of tasks and nodes."""

_PLACE: Final = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")
"""Other braces are left unchanged: many programs accept JSON."""


def places(command: Sequence[str]) -> tuple[str, ...]:
    """Return the names of all placeholders, each once, including unknown ones.

    Examples
    --------
    >>> places(["run", "--dir={directory}/data", "{tasks}", "{{left}}", '{"a": 1}'])
    ('directory', 'tasks')
    """
    names = (match.group(2) for word in command for match in _PLACE.finditer(word))
    return tuple(dict.fromkeys(name for name in names if name is not None))


def filled(command: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Fill in all placeholders; doubled braces become single ones.

    Raises
    ------
    KeyError
        There is no value for a name.

    Examples
    --------
    >>> filled(["run", "--dir={directory}/data", "{{left}}", '{"a": 1}'], {"directory": "/x"})
    ('run', '--dir=/x/data', '{left}', '{"a": 1}')
    """

    def value(match: re.Match[str]) -> str:
        left, name = match.groups()
        return f"{{{left}}}" if name is None else values[name]

    return tuple(_PLACE.sub(value, word) for word in command)


_HOST_LAUNCHERS = ("local", "mpi")
_BATCH_LAUNCHERS = ("slurm",)
_OF_PHASES = ("transfer_size", "block_size", "duration", "direct", "options")
"""Keys of a probe that writes and reads in phases; a custom command sets all that itself."""
SNAPSHOT_LIMIT_S: Final = 480.0
"""A watch gives no sign of life during a snapshot; after ten minutes without one systemd restarts
it (``WatchdogSec`` in deploy/)."""
_CONNECTING_S: Final = 5.0
_SECTOR_BYTES = 4096


def problems(site: Site) -> Iterator[Problem]:
    """Yield contradictions and unsupported settings."""
    yield from _names(site)
    yield from _path(site)
    yield from _servers(site)
    if site.limits.reopen >= site.limits.fullness:
        yield Problem(
            ("limits", "reopen"),
            f"{format_percent(site.limits.reopen)} is not below fullness, "
            f"{format_percent(site.limits.fullness)}: a target would close and open repeatedly",
            "leave a few percent between them",
            code="limits-reversed",
        )
    yield from hardware_problems(site.hardware)
    yield from notify_problems(site)
    for probe in site.probes:
        yield from _probe(site, probe)
    for launcher in site.launchers:
        if launcher.name in _HOST_LAUNCHERS and launcher.kind != launcher.name:
            yield Problem(
                ("launcher", launcher.name, "kind"),
                f"{launcher.name!r} is the launcher of that kind, not of kind {launcher.kind!r}",
                "give it another name",
                code="launcher-kind",
            )
    yield from _policies(site)


def hardware_problems(hardware: Hardware) -> Iterator[Problem]:
    """Yield contradictions in a hardware table."""
    drives, osts, each = hardware.drives, hardware.osts, hardware.drives_per_ost
    if drives and osts and each and drives != osts * each:
        yield Problem(
            ("hardware", "drives_per_ost"),
            f"{osts} OSTs of {each} drives are {osts * each} drives, but drives is {drives}",
            "remove drives_per_ost if OSTs share drives",
            code="counts-contradict",
        )


def warnings(site: Site) -> Iterator[Message]:
    """Yield settings that are valid but probably not intended."""
    driver = DRIVERS[site.driver]
    if driver.has_servers:
        yield from _server_warnings(site)
    if not driver.simulated and site.scenario is not None:
        yield Message(
            "key-unused",
            f"[site] scenario is not used: it is for the twin, but driver is {site.driver!r}",
        )
    if not driver.named and site.file_system is not None:
        yield Message(
            "key-unused",
            f"[site] file_system is not used: it is for Lustre, but driver is {site.driver!r}",
        )
    if site.snapshot_schedule is not None:
        yield from _jitter(
            "[snapshot]", parse_schedule(site.snapshot_schedule).period_s, site.snapshot_jitter_s
        )
    for probe in site.probes:
        yield from _probe_warnings(probe)
        if probe.target_pinning and site.policies.balance.armed:
            yield Message(
                "pinning-closed",
                f"[probe.{probe.name}] target_pinning and [policy.balance] armed: while balance "
                f"has an OST closed the probe skips it, with fewer tasks; such runs are a separate "
                f"series",
            )
    used = {probe.launcher for probe in site.probes}
    for launcher in site.launchers:
        if launcher.name not in used:
            yield Message("launcher-unused", f"[launcher.{launcher.name}] is not used by any probe")


def _policies(site: Site) -> Iterator[Problem]:
    policies = site.policies
    if policies.tunables.armed and not policies.tunables.settings:
        yield Problem(
            ("policy", "tunables", "armed"),
            "it is armed, but there is no setting to hold",
            'write settings = {wbt_lat_usec = "0"}',
            code="settings-missing",
        )
    probe = policies.tunables.probe
    if probe is not None and probe not in {known.name for known in site.probes}:
        yield Problem(
            ("policy", "tunables", "probe"),
            f"there is no probe {visible(probe[:40])!r}",
            "use a [probe.NAME] of this file",
            code="probe-unknown",
        )
    plans = policies.purge
    for name in ("policy", "directory"):
        path = getattr(plans, name)
        if plans.schedule is not None and (path is None or not path.startswith("/")):
            yield Problem(
                ("policy", "purge", name),
                "a scheduled purge plan needs it, as an absolute path",
                f'write {name} = "/etc/trimtab/purge.toml"'
                if name == "policy"
                else 'write directory = "/var/lib/trimtab/plans"',
                code="path-missing",
            )
    if plans.schedule is not None and DRIVERS[site.driver].simulated:
        yield Problem(
            ("policy", "purge", "schedule"),
            "a simulated file system has no files to purge",
            "leave it out",
            code="purge-simulated",
        )
    unknown = sorted(set(policies.tunables.permanent) - set(policies.tunables.settings))
    if unknown:
        yield Problem(
            ("policy", "tunables", "permanent"),
            f"{unknown[0]} is permanent, but has no value",
            "also add it to settings",
            code="setting-unknown",
        )


def _names(site: Site) -> Iterator[Problem]:
    named: list[tuple[tuple[str, ...], str]] = [(("site", "name"), site.name)]
    named += [(("probe", probe.name), probe.name) for probe in site.probes]
    named += [(("launcher", launcher.name), launcher.name) for launcher in site.launchers]
    named += [(("maintenance", planned.name), planned.name) for planned in site.maintenance]
    for location, name in named:
        yield from name_problems(name, location)


def _path(site: Site) -> Iterator[Problem]:
    if "\0" in site.path or not site.path.startswith("/"):
        yield Problem(
            ("site", "path"),
            f"{visible(site.path[:200])!r} is not an absolute path",
            'use the mount point on this host: path = "/scratch"',
            code="path-relative",
        )
    elif ".." in PurePosixPath(site.path).parts:
        yield Problem(
            ("site", "path"), f'{visible(site.path[:200])!r} holds ".."', code="path-with-dots"
        )


def _servers(site: Site) -> Iterator[Problem]:
    servers = site.servers
    if servers.reach == "local" and len(servers.names) > 1:
        yield Problem(
            ("servers", "reach"),
            f'"local" is one server, this host; {_some(servers.names)} are {len(servers.names)}',
            'use one, the same under oss and mds, or reach = "ssh"',
            code="servers-too-many",
        )
    if (most_s := _longest_snapshot_s(servers)) > SNAPSHOT_LIMIT_S:
        yield Problem(
            ("servers", "timeout"),
            f"if every server hung, a snapshot would take {format_duration(most_s)}",
            f"lower timeout or raise ssh.fanout: {format_duration(SNAPSHOT_LIMIT_S)} at most",
            code="snapshot-too-long",
        )
    for target, node in servers.home.items():
        if node not in servers.names:
            yield Problem(
                ("servers", "home", node),
                f"{visible(node[:80])!r}, home of {target}, is not a server of this site",
                f"servers: {_some(servers.names)}",
                code="server-unknown",
            )
            return


def _longest_snapshot_s(servers: Servers) -> float:
    """Return a snapshot's time if all servers hang: fan-out rounds, and the client's tools.

    The client runs three tools, each with the same deadline as a server.
    """
    nodes = len({*servers.names, *servers.clients})
    rounds = math.ceil(nodes / servers.ssh.fanout) if servers.reach == "ssh" else min(nodes, 1)
    return (rounds + 3) * (servers.timeout_s + _CONNECTING_S)


def _probe(site: Site, probe: SiteProbe) -> Iterator[Problem]:
    table = ("probe", probe.name)
    yield from _launcher(site, probe)
    yield from _placement(site, probe)
    yield from _benchmark(probe)
    if probe.is_one_command:
        yield from _one_command(site, probe)
    elif probe.direct and probe.transfer_size_bytes % _SECTOR_BYTES:
        yield Problem(
            (*table, "transfer_size"),
            f"{probe.transfer_size_bytes} bytes are not suitable for O_DIRECT",
            "use a multiple of 4096 bytes, or direct = false",
            code="size-unaligned",
        )
    if not probe.is_one_command and probe.block_size_bytes % probe.transfer_size_bytes:
        yield Problem(
            (*table, "block_size"),
            f"{format_bytes(probe.block_size_bytes)} are not a multiple of the transfer size, "
            f"{format_bytes(probe.transfer_size_bytes)}",
            code="size-unaligned",
        )
    directory = PurePosixPath(probe.directory or "")
    if directory.is_absolute() or ".." in directory.parts:
        yield Problem(
            (*table, "directory"),
            f"{visible(str(directory)[:200])!r} is not below the site's path",
            'give it relative to the path, without ".."',
            code="path-outside-site",
        )


def _benchmark(probe: SiteProbe) -> Iterator[Problem]:
    """Yield benchmarks that cannot run, and keys of other kinds of probes."""
    table = ("probe", probe.name)
    if probe.benchmark in names("servers"):
        yield Problem(
            (*table, "benchmark"),
            f"{probe.benchmark} runs on servers, can do harm there, and has its own safeguards",
            "use trimtab survey SITE, or import manual results",
            code="benchmark-on-servers",
        )
    elif probe.benchmark in names("site command") and probe.command is None:
        yield Problem(
            (*table, "benchmark"),
            f"{probe.benchmark} needs a command, as its start depends on the site",
            'add command = ["program", ..., "{directory}"]',
            code="command-missing",
        )
    if probe.output is not None and probe.command is None:
        yield Problem(
            (*table, "output"),
            "it requires a command",
            "add command",
            code="command-missing",
        )
    usual = SiteProbe(probe.name)
    if probe.items != usual.items and (probe.benchmark != "mdtest" or probe.command is not None):
        yield Problem(
            (*table, "items"),
            "only mdtest without a command uses it",
            "leave it out",
            code="key-unused",
        )


def _one_command(site: Site, probe: SiteProbe) -> Iterator[Problem]:
    """Yield contradictions in a probe with a single command."""
    table, usual = ("probe", probe.name), SiteProbe(probe.name)
    names = {"duration": "duration_s", "transfer_size": "transfer_size_bytes"}
    names["block_size"] = "block_size_bytes"
    whose = "mdtest does not use it" if probe.command is None else "the command sets that itself"
    keys = (*_OF_PHASES, *(() if probe.command is None else ("repetitions",)))
    for key in keys:
        name = names.get(key, key)
        if getattr(probe, name) != getattr(usual, name):
            yield Problem(
                (*table, key),
                f"{whose}: the key has no effect",
                "leave it out",
                code="key-unused",
            )
    if probe.command is None:
        return
    program = probe.command[0]
    if program.startswith(("-", "{")) or not program or ("/" in program and program[0] != "/"):
        yield Problem(
            (*table, "command"),
            f"{visible(program[:80])!r} is not a program",
            "the first word must be a name on PATH or a full path",
            code="program-invalid",
        )
    for name in places(probe.command):
        if name not in PLACES:
            yield Problem(
                (*table, "command"),
                f"{{{name}}} is not a placeholder",
                f"use {', '.join(f'{{{word}}}' for word in PLACES)}; no shell and no variables;"
                f" {{{{{name}}}}} for the word in braces",
                code="placeholder-unknown",
            )
    kind = {launcher.name: launcher.kind for launcher in site.launchers}.get(
        probe.launcher, probe.launcher
    )
    if probe.tasks_per_node is None and (kind == "mpi" or "tasks" in places(probe.command)):
        yield Problem(
            (*table, "tasks_per_node"),
            "the number of tasks of a command must be fixed, or its runs are not comparable",
            "write tasks_per_node",
            code="tasks-missing",
        )
    yield from _output(probe)


def _output(probe: SiteProbe) -> Iterator[Problem]:
    if probe.output is None:
        return
    parts = probe.output.split("/")
    if any(part in {"", ".", ".."} for part in parts):
        yield Problem(
            ("probe", probe.name, "output"),
            f"{visible(probe.output[:200])!r} is not below the probe's directory",
            'give it relative to {directory}, without "..": "results/**/summary.json"',
            code="path-outside-site",
        )
    elif any("**" in part and part != "**" for part in parts):
        yield Problem(
            ("probe", probe.name, "output"),
            f"in {visible(probe.output[:200])!r} ** is part of a name",
            'it matches directories and must be a path component: "results/**/summary.json"',
            code="pattern-invalid",
        )


def _placement(site: Site, probe: SiteProbe) -> Iterator[Problem]:
    """Yield impossible placements, which would measure something else."""
    table = ("probe", probe.name)
    for key, requested in (
        ("target_pinning", probe.target_pinning),
        ("stripe_count", probe.stripe_count is not None),
    ):
        if requested and not DRIVERS[site.driver].places_files:
            yield Problem(
                (*table, key),
                "only files on Lustre can be placed",
                "leave it out",
                code="lustre-only",
            )
    if probe.target_pinning and (probe.benchmark not in pinnable() or probe.is_one_command):
        whose = "a command" if probe.command is not None else probe.benchmark
        yield Problem(
            (*table, "target_pinning"),
            f"the files of {whose} cannot be placed individually",
            f"benchmark = {' or '.join(pinnable())}",
            code="pinning-unsupported",
        )
    if probe.target_pinning and probe.stripe_count is not None:
        yield Problem(
            (*table, "stripe_count"),
            "a pinned file has one stripe",
            "leave it out",
            code="stripes-pinned",
        )
    if probe.stripe_count == 0:
        yield Problem(
            (*table, "stripe_count"),
            "0 is not a valid number of stripes",
            "-1 is all OSTs",
            code="out-of-range",
        )
    if probe.options and probe.benchmark == "auto" and probe.command is None:
        yield Problem(
            (*table, "options"),
            f"options need a benchmark: {_some(map(visible, probe.options))}",
            "set benchmark",
            code="benchmark-missing",
        )


def _launcher(site: Site, probe: SiteProbe) -> Iterator[Problem]:
    location = ("probe", probe.name, "launcher")
    kinds = {name: name for name in _HOST_LAUNCHERS}
    kinds |= {launcher.name: launcher.kind for launcher in site.launchers}
    kind = kinds.get(probe.launcher)
    if kind is None:
        yield Problem(
            location,
            f"there is no launcher {visible(probe.launcher[:80])!r}",
            f"use {_some(sorted(kinds))}, or add a [launcher.NAME] with that name",
            code="launcher-unknown",
        )
    elif kind not in (*_HOST_LAUNCHERS, *_BATCH_LAUNCHERS):
        yield Problem(
            location,
            f"{probe.launcher!r} is of kind {kind!r}, which this version cannot start yet",
            'use one of kind slurm, or launcher = "mpi" on this host',
            code="launcher-unsupported",
        )
    elif probe.nodes > 1 and kind in _HOST_LAUNCHERS:
        yield Problem(
            ("probe", probe.name, "nodes"),
            f"{probe.nodes} nodes need a launcher of kind slurm; {probe.launcher!r} starts tasks "
            "on this host",
            "set nodes = 1, or add a [launcher.NAME] of kind slurm",
            code="nodes-too-many",
        )
    elif probe.tasks_per_node is None and kind in _BATCH_LAUNCHERS:
        yield Problem(
            ("probe", probe.name, "tasks_per_node"),
            "the number of tasks per compute node is unknown on this host",
            "write tasks_per_node",
            code="tasks-missing",
        )


def _server_warnings(site: Site) -> Iterator[Message]:
    if not site.servers.names:
        yield Message(
            "servers-missing",
            "[servers] is empty: server data (allocator, discard, writeback throttling, errors and "
            "drives of each target) will be missing",
        )
        return
    if not site.servers.mds:
        yield Message(
            "mds-missing",
            "[servers] has no mds: whether targets are open for creation will be missing",
        )
    if not site.servers.oss:
        yield Message(
            "oss-missing",
            "[servers] has no oss: data of the OSTs' servers will be missing",
        )


def _probe_warnings(probe: SiteProbe) -> Iterator[Message]:
    table = f"[probe.{probe.name}]"
    phases = not probe.is_one_command
    if phases and probe.timeout_s is not None and probe.timeout_s <= probe.duration_s:
        yield Message(
            "timeout-short",
            f"{table} timeout, {format_duration(probe.timeout_s)}, is not longer than duration, "
            f"{format_duration(probe.duration_s)}: every run would be unfinished",
        )
    if probe.schedule is None:
        return
    period_s = parse_schedule(probe.schedule).period_s
    yield from _jitter(table, period_s, probe.jitter_s)
    if not phases:
        if probe.timeout_s is not None and probe.timeout_s >= period_s:
            yield Message(
                "slots-missed",
                f"{table} timeout: the command can take {format_duration(probe.timeout_s)}, and "
                f"the probe is due every {format_duration(period_s)}: slots will be missed",
            )
        return
    # Each repetition writes once and reads once.
    for key, phase_s in (("duration", probe.duration_s), ("timeout", probe.timeout_s)):
        run_s = 2 * probe.repetitions * (phase_s or 0.0)
        if run_s >= period_s:
            yield Message(
                "slots-missed",
                f"{table} {key}: {probe.repetitions} x (write and read) of "
                f"{format_duration(phase_s or 0.0)} can take {format_duration(run_s)}, and the "
                f"probe is due every {format_duration(period_s)}: slots will be missed",
            )


def _jitter(table: str, period_s: float, jitter_s: float) -> Iterator[Message]:
    if jitter_s > period_s / 2:
        yield Message(
            "jitter-long",
            f"{table} jitter, {format_duration(jitter_s)}, is more than half of the "
            f"{format_duration(period_s)} between two slots",
        )


def _some(names: Iterable[str]) -> str:
    return enumerated(names, 8) or "none"


MAIL: Final = "mail"
"""The receiver name of mail, reserved for it."""


def notify_problems(site: Site) -> Iterator[Problem]:
    """Yield contradictions in the receivers of alerts."""
    for webhook in site.webhooks:
        location = ("webhook", webhook.name)
        yield from name_problems(webhook.name, location)
        if webhook.name == MAIL:
            text = "is the receiver of [alerts.mail]"
            yield Problem(location, text, "give the webhook another name", code="name-taken")
    mail, location = site.alerts.mail, ("alerts", "mail")
    yield from mail.problems(location)
    paths = {
        ("metrics", "textfile"): site.metrics.textfile,
        ("metrics", "web_config_file"): site.metrics.web_config_file,
        (*location, "ca_file"): mail.ca_file,
    }
    paths |= {("webhook", webhook.name, "ca_file"): webhook.ca_file for webhook in site.webhooks}
    for at, path in paths.items():
        if path is not None and not path.startswith("/"):
            yield Problem(
                at,
                "is not an absolute path",
                "a service starts in another directory: use a path with a leading /",
                code="path-relative",
            )
    textfile = site.metrics.textfile
    if textfile is not None and textfile.endswith("/"):
        yield Problem(
            ("metrics", "textfile"),
            "is a directory",
            f'use a file in it: "{textfile}trimtab.prom"',
            code="path-is-directory",
        )
    if site.metrics.web_config_file is not None and site.metrics.listen is None:
        yield Problem(("metrics", "web_config_file"), "has no effect without listen", "set listen")

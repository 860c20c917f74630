"""Compares a site file with the live system: whether what it names exists and answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from trimtab.base.error import TrimtabError, visible
from trimtab.base.filesystem import DRIVERS, LOCAL, PathDescription, driver_of_mount
from trimtab.base.site import Checked, Site, SiteProbe
from trimtab.base.snapshot import Snapshot
from trimtab.base.units import format_bytes
from trimtab.probe.site_command import command_of, refuse_too_many
from trimtab.probe.site_probe import directory_of, instrument_of, launcher_of, spec_of
from trimtab.reach.touch import StatvfsSpace
from trimtab.site.lookup import OpenDriver, open_driver, reach_of
from trimtab.site.path_access import Reach, why_wrong_mount
from trimtab.store.location import locate


@dataclass(frozen=True, slots=True)
class SiteDocument:
    """``trimtab site --json``: a site file, its warnings, and how the live system differs."""

    site: str
    file: str | None
    driver: str
    path: str
    warnings: tuple[str, ...]
    checked: tuple[Checked, ...]


def validate(
    site: Site,
    *,
    identity: str | None = None,
    open_with: OpenDriver = open_driver,
    reach: Reach | None = None,
) -> tuple[Checked, ...]:
    """Return every statement of a site file that can be checked.

    Read-only: writes nothing, neither to the file system nor to the store.

    Parameters
    ----------
    identity
        Identity of the file system stored under the site's name; ``None`` if none is.
    reach
        Access to its path; ``None``: as its driver says.
    """
    reach = reach or reach_of(site)
    checks = [*_path(site, identity, reach)]
    if all(check.ok for check in checks):
        checks += _probes(site, reach)
    checks += _answers(site, open_with)
    checks += _store(site, reach)
    checks += _textfile(site)
    return tuple(checks)


def _path(site: Site, identity: str | None, reach: Reach) -> Iterator[Checked]:
    label = f"path {site.path}"
    try:
        description = reach.open_path(site.path, reach.execute, reach.clock).description
        state = reach.describe(site.path)
    except TrimtabError as error:
        yield Checked(label, False, error.message)
        return
    yield Checked(label, state.kind == "directory", f"{description.fs_type} {description.source}")
    yield from _kind(site, description, identity)


def _kind(site: Site, description: PathDescription, identity: str | None) -> Iterator[Checked]:
    label = f"file system {site.file_system or '(as mounted)'}"
    why = why_wrong_mount(site, description, identity)
    entry, mounted = DRIVERS[site.driver], driver_of_mount(description.kind)
    if why is not None:
        yield Checked(label, False, why)
    elif entry.named:
        yield Checked(label, True, f"is at {site.path}")
    elif not entry.simulated and mounted not in (LOCAL, entry):
        text = f'{site.path} is {mounted.title}: use driver = "{mounted.name}"'
        yield Checked(f"driver {entry.name}", False, text)
    elif identity is not None:
        yield Checked(label, True, f"is kept as {identity}")


def _probes(site: Site, reach: Reach) -> Iterator[Checked]:
    space_of = cache(reach.writable_space)
    for probe in site.probes:
        label = f"probe {probe.name}"
        try:
            yield _probe(label, probe, site, reach, space_of)
        except TrimtabError as error:
            yield Checked(label, False, error.message)


def _probe(
    label: str,
    probe: SiteProbe,
    site: Site,
    reach: Reach,
    space_of: Callable[[str], StatvfsSpace],
) -> Checked:
    """Return a probe's benchmark and what it would write; raise why it could not start."""
    directory = directory_of(site, probe)
    space = space_of(directory)
    if not probe.is_one_command:
        benchmark = instrument_of(probe, site, reach).benchmark.name
        available = space.available_bytes
        spec = spec_of(probe, available, reach.processors)
        size = format_bytes(spec.tasks * spec.block_size_bytes)
        return Checked(label, True, f"{benchmark}, {size} of {format_bytes(available)}")
    command, launcher = command_of(probe, launcher_of(probe, site).kind, directory, reach)
    refuse_too_many(command, space)
    program = command.command[0]
    if launcher.kind == "slurm":
        return Checked(label, None, f"{visible(program)} is looked for on the nodes of its job")
    program_path = reach.which(program)
    if program_path is None:
        return Checked(label, False, f"{visible(program)} is not a program on this host")
    return Checked(label, True, f"{command.benchmark}, {visible(program_path)}")


def _answers(site: Site, open_with: OpenDriver) -> Iterator[Checked]:
    try:
        driver = open_with(site)
        snapshot = driver.snapshot(driver.clock())
    except TrimtabError as error:
        yield Checked(f"driver {site.driver}", False, error.message)
        return
    for host in snapshot.hosts:
        detail = host.problem or "answers"
        yield Checked(f"{host.role} {host.name}", host.answered and host.problem is None, detail)
    seen = len(snapshot.targets)
    yield Checked("targets", seen > 0, f"{seen} seen")
    yield from _homes(site, snapshot)


def _homes(site: Site, snapshot: Snapshot) -> Iterator[Checked]:
    """Yield targets that another server serves than the file says, or none that answers."""
    for target, home in site.servers.home.items():
        seen = snapshot.of(target)
        server = None if seen is None else seen.target.server
        if server is None:
            yield Checked(f"home of {target}", None, f"{home}; no server that answers has it now")
        elif server != home:
            yield Checked(f"home of {target}", False, f"{home}; served by {server} now")
    unnamed = [
        reading.target.name
        for reading in snapshot.targets
        if reading.target.name not in site.servers.home
    ]
    if site.servers.home and unnamed:
        yield Checked("home", False, f"names none for {', '.join(unnamed[:8])}")


def _store(site: Site, reach: Reach) -> Iterator[Checked]:
    label = f"store {site.store.url or '(default)'}"
    try:
        location = locate(site.store.url, raw=site.store.raw)
    except TrimtabError as error:
        yield Checked(label, False, error.message)
        return
    yield Checked(label, True, f"{location}; raw outputs in {visible(os.fspath(location.raw))}")
    for name in DRIVERS[site.driver].programs:
        program = reach.which(name)
        yield Checked(name, program is not None, program or "not on PATH of this host")


def _textfile(site: Site) -> Iterator[Checked]:
    """Yield whether the file of metrics can be written: the watch replaces it after each slot."""
    textfile = site.metrics.textfile
    if textfile is None:
        return
    label = f"metrics {textfile}"
    path = Path(textfile)
    above = visible(os.fspath(path.parent))
    try:
        is_directory, has_place = path.is_dir(), path.parent.is_dir()
    except OSError as error:
        yield Checked(label, False, error.strerror or str(error))
        return
    if is_directory:
        yield Checked(label, False, f"is a directory: name a file in it, {path.name}/trimtab.prom")
    elif not has_place:
        yield Checked(label, False, f"{above} is not a directory")
    elif not os.access(path.parent, os.W_OK | os.X_OK):
        yield Checked(label, False, f"no permission to write in {above}")
    else:
        yield Checked(label, True, f"can be written in {above}")

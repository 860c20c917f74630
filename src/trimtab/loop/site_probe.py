"""A probe of the site file, run: from what the file says to one run on the mounted file system."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from trimtab.drivers.local.driver import LocalDriver
from trimtab.errors import RefusedError, ToolError
from trimtab.launch import bounded
from trimtab.launch.launchers import LAUNCHERS, Execute
from trimtab.launch.process import execute as run_process
from trimtab.loop.place import why_wrong_place
from trimtab.loop.probe import (
    DIRECTORY_PREFIX,
    Directories,
    ProbeOutcome,
    Surroundings,
    run_probe,
)
from trimtab.loop.tools import Instrument, choose
from trimtab.loop.watching.probing import RunContext
from trimtab.measure.table import BENCHMARKS
from trimtab.model.run import ProbeSpec
from trimtab.model.site import Site, SiteProbe
from trimtab.units import format_bytes

FREE_SHARE_SCHEDULED: Final = 0.2
"""Nobody looks on while a scheduled probe writes: it takes at most a fifth of what is free.

A person who asks `trimtab check` for a certain space may have nine tenths (`plan.py`). What a
probe takes has to be the same each time, so it is refused when that is too much, never shrunk."""


def spec_of(probe: SiteProbe, available_bytes: int, processors: int) -> ProbeSpec:
    """Return what a run of a probe is asked to do; its benchmark may still be ``auto``.

    Parameters
    ----------
    available_bytes
        Free to people who are not root.
    processors
        Of this host: two tasks each where the site file names no number, at most 16.

    Raises
    ------
    RefusedError
        It would take too much of the free space, or asks for what there is not yet.

    Examples
    --------
    >>> spec = spec_of(SiteProbe("hourly", block_size_bytes=1024**2), 10**9, processors=2)
    >>> spec.tasks, spec.block_size_bytes
    (4, 1048576)
    """
    _refuse_what_is_not_yet(probe)
    tasks = probe.tasks_per_node or min(16, 2 * processors)
    wanted, most = tasks * probe.block_size_bytes, int(available_bytes * FREE_SHARE_SCHEDULED)
    if wanted > most:
        raise RefusedError(
            f"probe {probe.name} would write {tasks} files of "
            f"{format_bytes(probe.block_size_bytes)}; {format_bytes(available_bytes)} are free, "
            f"and a scheduled probe takes at most {FREE_SHARE_SCHEDULED:.0%} of that",
            hint="free some space, or lower block_size or tasks_per_node: runs before and after "
            "that cannot be compared",
        )
    return ProbeSpec(
        name=probe.name,
        benchmark=probe.benchmark,
        tasks=tasks,
        transfer_size_bytes=probe.transfer_size_bytes,
        block_size_bytes=probe.block_size_bytes,
        repetitions=probe.repetitions,
        duration_s=probe.duration_s,
        direct=probe.direct,
    )


def _refuse_what_is_not_yet(probe: SiteProbe) -> None:
    asked = {
        f"nodes = {probe.nodes}": probe.nodes != 1,
        "target_pinning": probe.target_pinning,
        f"options ({', '.join(probe.options)})": bool(probe.options),
    }
    if wanted := [name for name, is_asked in asked.items() if is_asked]:
        raise RefusedError(
            f"probe {probe.name} asks for {' and '.join(wanted)}, which there is not yet",
            hint="take it out of the site file: to leave it undone would measure something else",
        )


def instrument_of(probe: SiteProbe, site: Site, execute: Execute) -> Instrument:
    """Return what measures: the benchmark that the probe names, else the first that can be used.

    With ``auto`` only benchmarks that its launcher can start are looked at, in the order of
    `trimtab.measure.table.BENCHMARKS`.

    Raises
    ------
    ToolError
        None can be used here.
    RefusedError
        Its launcher is of a kind that there is not yet, or does not start that benchmark.
    """
    kinds = {one.name: one.kind for one in site.launchers}
    kind = kinds.get(probe.launcher, probe.launcher)
    if kind not in LAUNCHERS:
        raise RefusedError(
            f"probe {probe.name} is to be started by {kind}, which there is not yet",
            hint=f"there are {' and '.join(LAUNCHERS)}",
        )
    if probe.benchmark != "auto":
        found = choose(probe.benchmark, execute)
        if kind not in {"local", found.launcher.kind}:
            raise RefusedError(
                f"probe {probe.name}: {kind} does not start {probe.benchmark}",
                hint=f"{probe.benchmark} is started by {found.launcher.kind}",
            )
        return found
    reasons = []
    for name, benchmark in BENCHMARKS.items():
        if benchmark.launcher != kind:
            continue
        try:
            return choose(name, execute)
        except ToolError as error:
            reasons.append(error.message)
    raise ToolError(f"probe {probe.name}: {'; '.join(reasons)}")


@dataclass(frozen=True, slots=True)
class SiteProbeRunner:
    """Runs the probes of a site on this host, below the site's path.

    Attributes
    ----------
    clock
        Returns the time now, aware UTC.
    identity
        Of the file system that is kept under the site's name; probes run on no other.
    """

    site: Site
    clock: Callable[[], datetime]
    identity: str | None = None
    execute: Execute = run_process
    directories: Directories = field(default_factory=Directories)

    def __call__(self, probe: SiteProbe, context: RunContext) -> ProbeOutcome:
        """Return what came of a probe; what an earlier run of that id left behind is removed.

        Raises
        ------
        TrimtabError
            It could not be started: the file system does not answer, is read-only or too full,
            another one is mounted there, or there is nothing to measure with.
        """
        path = directory_of(self.site, probe)
        driver = LocalDriver(path, execute=self.execute, clock=self.clock)
        why = why_wrong_place(self.site, driver.description, self.identity, execute=self.execute)
        if why is not None:
            raise RefusedError(why)
        spec = spec_of(probe, _writable_bytes(path), os.cpu_count() or 1)
        instrument = instrument_of(probe, self.site, self.execute)
        around = Surroundings(
            site=self.site.name,
            path=driver.description,
            execute=self.execute,
            counters=driver.drive_bytes,
            clock=self.clock,
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            timeout_s=probe.timeout_s,
            directories=self.directories,
        )
        return run_probe(
            replace(spec, benchmark=instrument.benchmark.name),
            instrument,
            around,
            progress=context.progress,
            keep=lambda run: None,  # the watch keeps it, with its slot
            identifier=context.run_id,
        )

    def clean_up(self, probe: SiteProbe, run_id: str) -> None:
        """Remove the directory of a run that was broken off, if it is there.

        Raises
        ------
        TrimtabError
            The file system does not answer, or does not let it go.
        """
        removal = self.directories.remove(directory_of(self.site, probe), DIRECTORY_PREFIX + run_id)
        if removal.existed and not removal.removed:
            kept = "; ".join(f"{name}: {reason}" for name, reason in removal.kept)
            raise ToolError(f"{DIRECTORY_PREFIX}{run_id} could not be removed whole ({kept})")


def directory_of(site: Site, probe: SiteProbe) -> str:
    """Return the directory below which a probe makes its own."""
    base = site.path.rstrip("/")
    return f"{base}/{probe.directory}" if probe.directory else site.path


def _writable_bytes(path: str) -> int:
    """Return what is free to people who are not root where a probe is to write."""
    state = bounded.describe(path)
    if state.space is None or state.kind != "directory":
        raise ToolError(f"{path} is no directory whose free space is known")
    if state.space.read_only:
        raise ToolError(f"{path} is on a file system that is mounted read-only")
    if not state.writable:
        raise ToolError(f"no permission to write in {path}")
    return state.space.available_bytes

"""Runs a probe of the site file: from its settings to one run on the mounted file system."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from trimtab.base.action import CREATION, closed_targets
from trimtab.base.error import RefusedError, ToolError
from trimtab.base.run import ProbeSpec
from trimtab.base.site import Site, SiteLauncher, SiteProbe
from trimtab.base.snapshot import NotAvailable, Reading
from trimtab.base.units import format_bytes
from trimtab.explain.trouble import UNREACHABLE, target_troubles
from trimtab.formats.format_table import phases_of
from trimtab.formats.measurement import tail
from trimtab.probe.probe import (
    DIRECTORY_PREFIX,
    PATIENCE_S,
    ProbeOutcome,
    ProbeSurroundings,
    RunContext,
    no_preparation,
    remove_directory,
    run_probe,
)
from trimtab.probe.site_command import (
    FREE_SHARE_SCHEDULED,
    CommandSpec,
    CommandStep,
    command_of,
    refuse_too_many,
    tasks_of,
)
from trimtab.probe.write_read import Pinned, ProbeTool, Striped, WriteRead, choose, pin_usable
from trimtab.reach import bounded
from trimtab.reach.allocation import Allocation, NodeDemand
from trimtab.reach.launcher import Launcher, Slurm
from trimtab.site.lookup import kept_identity, know_site, open_driver
from trimtab.site.path_access import (
    THIS_HOST,
    Directories,
    PathDriver,
    Reach,
    refuse_wrong_mount,
    why_wrong_mount,
)

if TYPE_CHECKING:
    from trimtab.base.action import Action
    from trimtab.store.store import Store


_SHARED: Final = tuple(
    field.name for field in fields(ProbeSpec) if field.name in SiteProbe.__dataclass_fields__
)
"""Fields of a probe in the site file that its runs use unchanged."""
_DROP_TIMEOUT_S: Final = 60.0


def spec_of(probe: SiteProbe, available_bytes: int, processors: int) -> ProbeSpec:
    """Return the specification of a run of a probe; its benchmark may still be ``auto``.

    Parameters
    ----------
    available_bytes
        Bytes free to users other than root.
    processors
        Processors of this host: two tasks each if the site file names no number, at most 16.

    Raises
    ------
    RefusedError
        It would take too much of the free space.

    Examples
    --------
    >>> spec = spec_of(SiteProbe("hourly", block_size_bytes=1024**2), 10**9, processors=2)
    >>> spec.tasks, spec.block_size_bytes
    (4, 1048576)
    """
    tasks = tasks_of(probe, processors)
    wanted, most = tasks * probe.block_size_bytes, int(available_bytes * FREE_SHARE_SCHEDULED)
    if wanted > most:
        raise RefusedError(
            f"probe {probe.name} would write {tasks} files of "
            f"{format_bytes(probe.block_size_bytes)}; {format_bytes(available_bytes)} are free, "
            f"and a scheduled probe takes at most {FREE_SHARE_SCHEDULED:.0%} of that",
            code="space-too-small",
            hint="free some space, or lower block_size or tasks_per_node: runs before and after "
            "that cannot be compared",
        )
    return ProbeSpec(tasks=tasks, **{name: getattr(probe, name) for name in _SHARED})


def runner_of(site: Site, store: Store, reach: Reach) -> SiteProbeRunner:
    """Return the runner of a site's probes, and name the site in the store.

    Raises
    ------
    ToolError
        Another file system is mounted on its path than before.
    """
    refuse_wrong_mount(site, kept_identity(store, site), reach)
    identity = know_site(store, site)

    def closings() -> Mapping[str, Action]:
        return closed_targets(store.actions(site.name, kinds=CREATION))

    return SiteProbeRunner(site, reach.clock, identity, reach, closings)


def launcher_of(probe: SiteProbe, site: Site) -> SiteLauncher:
    """Return the launcher of a probe's tasks: a ``[launcher.NAME]``, or a built-in one."""
    named = (launcher for launcher in site.launchers if launcher.name == probe.launcher)
    return next(named, SiteLauncher(probe.launcher, probe.launcher))


def instrument_of(probe: SiteProbe, site: Site, reach: Reach) -> ProbeTool:
    """Return the benchmark that the probe names, else the first usable one.

    ``local`` lets the benchmark choose its launcher on this host: IOR takes mpirun. Any other
    launcher is used as named.

    Raises
    ------
    ToolError
        No benchmark can be used here.
    RefusedError
        Its launcher does not start that benchmark.
    """
    kind = launcher_of(probe, site).kind
    if probe.benchmark != "auto":
        launchers = phases_of(probe.benchmark).launchers
        if kind != "local" and kind not in launchers:
            raise RefusedError(
                f"probe {probe.name}: {kind} cannot start {probe.benchmark}",
                code="launcher-mismatch",
                hint=f"{probe.benchmark} is started by {' or '.join(launchers)}",
            )
        usual = kind == "local" and kind not in launchers
        return choose(probe.benchmark, reach, kind=None if usual else kind)
    return choose("auto", reach, kind=kind)


def job_of(probe: SiteProbe, run_id: str) -> str:
    """Return the name of the batch job of a run, the same for every attempt."""
    return f"trimtab-{probe.name}-{run_id[-12:]}"


def demand_of(
    probe: SiteProbe, spec: ProbeSpec | CommandSpec, site: Site, run_id: str
) -> NodeDemand:
    """Return the nodes and the time that a run of a probe needs.

    The time limit of a batch job is the maximum of all its writes and reads, or of its command,
    plus a minute: a probe that hangs must not hold nodes until the queue's own limit.
    """
    if isinstance(spec, CommandSpec):
        longest_s = spec.timeout_s
    else:
        phase_s = probe.timeout_s or spec.duration_s + PATIENCE_S
        longest_s = phase_s * spec.repetitions * len(spec.accesses)
    return NodeDemand(
        job_of(probe, run_id),
        nodes=spec.nodes,
        tasks_per_node=spec.tasks // spec.nodes,
        time_limit_s=longest_s + 60.0,
        pending_limit_s=probe.pending_s,
        options=launcher_of(probe, site).options,
    )


@dataclass(frozen=True, slots=True)
class SiteProbeRunner:
    """Runs the probes of a site from here, below the site's path.

    Attributes
    ----------
    clock
        Returns the time now, aware UTC.
    identity
        Identity of the file system stored under the site's name; probes run on no other.
    closings
        Returns the targets that Trimtab has closed to new files, each with its closing.
    """

    site: Site
    clock: Callable[[], datetime]
    identity: str | None = None
    reach: Reach = THIS_HOST
    closings: Callable[[], Mapping[str, Action]] = dict

    def __call__(self, probe: SiteProbe, context: RunContext) -> ProbeOutcome:
        """Return the outcome of a probe; leftovers of an earlier run with that id are removed.

        Raises
        ------
        TrimtabError
            It could not be started: the file system does not answer, is read-only or too full,
            another one is mounted there, or no benchmark can be used.
        """
        path = directory_of(self.site, probe)
        driver = self.reach.open_path(path, self.reach.execute, self.clock)
        execute = self.reach.execute
        why = why_wrong_mount(self.site, driver.description, self.identity, execute=execute)
        if why is not None:
            raise RefusedError(why, code=why.code)
        space = self.reach.writable_space(path)
        if probe.is_one_command:
            return self._one_command(probe, context, driver, space)
        spec = spec_of(probe, space.available_bytes, self.reach.processors)
        instrument = instrument_of(probe, self.site, self.reach)
        directories, left_out = self._striped(probe), ()
        if probe.target_pinning:
            placed, left_out = pin_usable(spec.tasks, spec.nodes, *self._osts())
            spec = replace(spec, tasks=len(placed))
            directories = self._pinned(placed, context)
        name, launcher = instrument.benchmark.name, instrument.launcher
        step = WriteRead(replace(spec, benchmark=name, processes=launcher.processes), instrument)
        return self._run(step, probe, context, driver, directories, space, left_out)

    def _one_command(
        self, probe: SiteProbe, context: RunContext, driver: PathDriver, space: bounded.StatvfsSpace
    ) -> ProbeOutcome:
        """Return the outcome of a probe that is one command."""
        kind, path = launcher_of(probe, self.site).kind, driver.description.real_path
        spec, launcher = command_of(probe, kind, path, self.reach)
        refuse_too_many(spec, space)
        step, directories = CommandStep(spec, launcher), self._striped(probe)
        return self._run(step, probe, context, driver, directories, space)

    def _run(  # noqa: PLR0917 (all of it is what one run needs)
        self,
        step: WriteRead | CommandStep,
        probe: SiteProbe,
        context: RunContext,
        driver: PathDriver,
        directories: Directories,
        space: bounded.StatvfsSpace,
        warnings: tuple[str, ...] = (),
    ) -> ProbeOutcome:
        """Run a step; cancel a job that an earlier attempt left in the queue first."""
        launcher, demand = step.launcher, demand_of(probe, step.spec, self.site, context.run_id)
        self._give_back(launcher, demand.name)
        around = ProbeSurroundings(
            site=self.site.name,
            path=driver.description,
            allocation=launcher.allocate(
                demand,
                run=self.reach.execute,
                on_wait=lambda why, waited_s: context.progress(f"in the queue: {why}", 0.0),
            ),
            counters=driver.drive_bytes,
            clock=self.clock,
            # The memory of compute nodes is unknown here: without it the rule for caches is strict.
            memory_bytes=None if isinstance(launcher, Slurm) else self.reach.memory_bytes,
            capacity_bytes=space.capacity_bytes,
            timeout_s=probe.timeout_s,
            directories=directories,
            prepare=drop_caches if probe.drop_caches else no_preparation,
            warnings=warnings,
        )
        return run_probe(step, around, progress=context.progress, identifier=context.run_id)

    def _striped(self, probe: SiteProbe) -> Directories:
        """Return the function that makes the probe's directory: plain, or striped."""
        if probe.stripe_count is None:
            return self.reach.directories
        directories = self.reach.directories
        striped = Striped(directories.make, probe.stripe_count, self.reach.execute)
        return replace(directories, make=striped)

    def _pinned(self, targets: tuple[str, ...], context: RunContext) -> Directories:
        """Return the function that makes the probe's directory, with each task's file placed."""
        directories = self.reach.directories
        # If a target is lost, lfs runs until its timeout: the watch needs a sign of life meanwhile.
        execute = partial(
            self.reach.execute, on_progress=lambda _: context.progress("placing files", 0.0)
        )
        return replace(directories, make=Pinned(directories.make, targets, execute))

    def _osts(self) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return every OST, and why no file can be placed on some of them.

        OSTs that others closed are not reported here: they show when a file is placed.
        """
        snapshot = open_driver(self.site, clock=self.clock).snapshot(self.clock())
        osts = {seen.target.name: seen for seen in snapshot.targets if seen.target.kind == "ost"}
        unusable = {
            name: trouble.text
            for name, seen in osts.items()
            for trouble in target_troubles(seen, self.site.limits)
            if trouble.id in UNREACHABLE
        }
        for name, closing in self.closings().items():
            if name in osts and any(_is_closing(reading) for reading in osts[name].readings):
                unusable.setdefault(
                    name, f"Trimtab closed it to new files at {closing.at:%Y-%m-%d %H:%M} UTC"
                )
        return tuple(sorted(osts)), unusable

    def _give_back(self, launcher: Launcher, name: str) -> None:
        """Cancel the job that an earlier attempt at the same run left in the queue."""
        if isinstance(launcher, Slurm):
            launcher.give_back(name, run=self.reach.execute)

    def clean_up(self, probe: SiteProbe, run_id: str) -> None:
        """Remove the leftovers of an aborted run: its job and its directory.

        Raises
        ------
        TrimtabError
            The file system does not answer or refuses the removal, or Slurm does not answer.
        """
        if launcher_of(probe, self.site).kind == "slurm":
            launcher = self.reach.find_launcher("slurm")
            if isinstance(launcher, NotAvailable):
                raise ToolError(
                    f"its job may still be in the queue: {launcher.reason}",
                    code="launcher-unusable",
                )
            self._give_back(launcher, job_of(probe, run_id))
        parent, name = directory_of(self.site, probe), DIRECTORY_PREFIX + run_id
        remove_directory(self.reach.directories, parent, name, tree=probe.is_one_command)


def _is_closing(reading: Reading) -> bool:
    return reading.name == "create_enabled" and reading.value is False


def drop_caches(allocation: Allocation) -> str | None:
    """Drop the page caches of every node of an allocation; return why that failed on a node.

    ``sysctl vm.drop_caches=3`` (kernel documentation, sysctl/vm); it needs root or a sudo rule.
    Clean pages are dropped, dirty ones stay: the writer should have flushed them.
    """
    sudo = () if os.geteuid() == 0 else ("sudo", "-n")
    argv = (*sudo, "sysctl", "-q", "-w", "vm.drop_caches=3")
    result = allocation.execute(argv, tasks=len(allocation.nodes), timeout_s=_DROP_TIMEOUT_S)
    if result.problem is None:
        return None
    printed = tail(result.stderr.decode("utf-8", "replace"), 120)
    return f"caches were not dropped: {result.problem}" + (f" ({printed})" if printed else "")


def directory_of(site: Site, probe: SiteProbe) -> str:
    """Return the directory in which a probe makes its own."""
    base = site.path.rstrip("/")
    return f"{base}/{probe.directory}" if probe.directory else site.path

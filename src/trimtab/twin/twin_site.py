"""A site whose file system is simulated: its driver, and how probes reach it in simulated time.

The site's path is a directory of this host that holds the diary of the twin's life; probes see it
as the mount. A process opens each life once: its driver and its reach share it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from trimtab.base.error import UsageError
from trimtab.base.site import Site
from trimtab.base.snapshot import NotAvailable
from trimtab.formats.format_table import Tool
from trimtab.formats.phase import Ask
from trimtab.reach.driver_protocol import Clock
from trimtab.site.path_access import Directories, Reach
from trimtab.twin import load_command, simulated_ior
from trimtab.twin.life import Diary, Life, life_directory
from trimtab.twin.program import IOLOAD, IOR
from trimtab.twin.twin_driver import TwinDriver, TwinPath

_PROCESSORS: Final = 64
_MEMORY_BYTES: Final = 256 * 2**30
"""Processors and memory of a client node, assumed."""

_opened: dict[tuple[str, str], TwinDriver] = {}


def open_twin(site: Site) -> TwinDriver:
    """Return the driver of a site's twin, the same one for the same site.

    Raises
    ------
    UsageError
        The site names no scenario, or one that cannot be read.
    RefusedError
        The scenario has changed since this life began.
    UnreadableError
        The diary cannot be read.
    """
    if site.scenario is None:
        raise UsageError(
            f"{site.name} has driver twin and no scenario",
            code="scenario-missing",
            hint='name one in its site file: [site] scenario = "perlmutter"',
        )
    key = (site.path, site.scenario)
    if key not in _opened:
        directory = life_directory(site.path)
        _opened[key] = TwinDriver(
            Life.open(directory, _scenario_file(site, site.scenario)), site.path
        )
    return _opened[key]


def open_site(site: Site, clock: Clock) -> TwinDriver:
    """Return the driver of a site's twin, which has a clock of its own."""
    return open_twin(site)


def open_for_acting(site: Site, clock: Clock, *, token: int, who: str) -> TwinDriver:
    """Return the driver of a site's twin, which no other process can change."""
    return open_twin(site)


def reach_site(site: Site) -> Reach:
    """Return how probes reach the twin of a site."""
    return twin_reach(open_twin(site))


def site_clock(site: Site) -> Clock:
    """Return the clock of a site's twin, without replaying its life where the time is stored."""
    stored = Diary(life_directory(site.path)).time()
    return open_twin(site).clock if stored is None else lambda: stored


def twin_reach(driver: TwinDriver) -> Reach:
    """Return how probes reach a twin: as a client node of its own."""
    guest, programs = driver.guest, driver.programs
    return Reach(
        clock=driver.clock,
        sleep=driver.sleep,
        elapsed_s=lambda: driver.clock().timestamp(),
        execute=programs.execute,
        open_path=lambda path, execute, clock: TwinPath(driver, path),
        describe=guest.describe,
        list_names=guest.list_names,
        find_tool=_find_tool,
        which=programs.which,
        find_launcher=driver.launcher,
        directories=Directories(
            make=guest.make_directory,
            sizes=guest.file_sizes,
            remove=guest.remove,
            remove_tree=guest.remove,
            find=guest.find_files,
            read=partial(guest.read_files),
        ),
        processors=_PROCESSORS,
        memory_bytes=_MEMORY_BYTES,
    )


def _find_tool(name: str, run: Ask) -> Tool | NotAvailable:
    known = {
        "ior": Tool("ior", IOR, simulated_ior.VERSION),
        "builtin": Tool("builtin", IOLOAD, load_command.VERSION),
    }
    if name in known:
        return known[name]
    return NotAvailable(f"{name} is not installed on the nodes of the twin")


def _scenario_file(site: Site, scenario: str) -> str:
    """Return a scenario's file relative to the site file that names it; presets as they are."""
    if site.source is None or not scenario.endswith(".toml") or Path(scenario).is_absolute():
        return scenario
    return str(Path(site.source).parent / scenario)

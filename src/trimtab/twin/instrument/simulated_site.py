"""Name the targets, servers and devices of a simulated file system, and write its site file.

Commands treat the site like a real one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Final

import numpy as np

from trimtab.base.name_set import mdt_name, ost_name
from trimtab.base.site import Servers, Site, SiteLauncher, SiteLimits, SiteProbe, SiteStore
from trimtab.base.site_hardware import Figure, Hardware, Parity, parse_figure
from trimtab.site import site_file
from trimtab.twin.instrument.probe_output import LAUNCHER, command_of
from trimtab.twin.scenario import ProbeLoad, Scenario
from trimtab.twin.simulation.ost_array import Integers

MDTS_PER_SERVER: Final = 2
CLIENT: Final = "nid001000"
"""The compute node in snapshots."""


@lru_cache(maxsize=64)
def _numbered(word: str, count: int) -> tuple[str, ...]:
    return tuple(f"{word}{number:04d}" for number in range(count))


@dataclass(frozen=True, slots=True)
class SiteLayout:
    """Numbers of targets and servers.

    `trimtab.twin.simulation.fault.carriers` gives the servers that serve OSTs now.

    Attributes
    ----------
    osts
        Current number; grows when capacity is added.
    per_server
        OSTs per OSS without failover.
    """

    osts: int
    mdts: int
    per_server: int = 1

    @property
    def osses(self) -> tuple[str, ...]:
        """Names of the OSSs."""
        return _numbered("oss", -(-self.osts // self.per_server))

    @property
    def mdses(self) -> tuple[str, ...]:
        """Names of the MDSs."""
        return _numbered("mds", -(-self.mdts // MDTS_PER_SERVER))

    @property
    def home(self) -> Integers:
        """Number of each OST's home server."""
        return np.arange(self.osts) // self.per_server


def site_layout_of(scenario: Scenario, osts: int | None = None) -> SiteLayout:
    """Return the layout of a scenario, with ``osts`` if some were added."""
    count = scenario.osts.count if osts is None else osts
    return SiteLayout(count, scenario.mdts.count, scenario.osts.per_server)


def identity_of(scenario: Scenario) -> str:
    """Return the identity of a scenario's file system."""
    return f"twin:{scenario.name}:{scenario.seed}"


def devices_of(scenario: Scenario) -> str:
    """Describe the devices beneath an OST, top down."""
    osts = scenario.osts
    return f"md0 ({osts.raid.kind}), {osts.raid.drives} x {osts.drive.name}"


def site_of(
    scenario: Scenario, named: str, directory: str | os.PathLike[str], store_url: str
) -> Site:
    """Return the site of a scenario.

    Parameters
    ----------
    named
        Preset or file by which the driver finds the scenario.
    directory
        The site's path on this host.
    """
    gating = scenario.gating
    probes = tuple(_probe(probe) for probe in scenario.probes if probe.kind == "ior")
    return Site(
        name=scenario.name,
        driver="twin",
        path=os.fspath(directory),
        timezone=scenario.timezone,
        scenario=named,
        servers=_servers(scenario),
        limits=SiteLimits(fullness=gating.limit, reopen=gating.reopen),
        probes=probes,
        launchers=(SiteLauncher(LAUNCHER, LAUNCHER),) if probes else (),
        store=SiteStore(url=store_url),
        hardware=_hardware(scenario),
    )


def site_text(
    scenario: Scenario, named: str, directory: str | os.PathLike[str], store_url: str
) -> str:
    """Return the text of the site file of a scenario; see `site_of`.

    Raises
    ------
    UsageError
        A value that is invalid in a site file, such as the name.
    """
    site = site_of(scenario, named, directory, store_url)
    notes = (f"simulated: {scenario.title}", "it is not a real file system")
    return site_file.site_text(site, remarks=notes)


def _servers(scenario: Scenario) -> Servers:
    layout = site_layout_of(scenario)
    osses, mdses = layout.osses, layout.mdses
    home = {ost_name(ost): osses[server] for ost, server in enumerate(layout.home.tolist())}
    home |= {mdt_name(mdt): mdses[mdt // MDTS_PER_SERVER] for mdt in range(layout.mdts)}
    return Servers(oss=osses, mds=mdses, home=home)


def _probe(probe: ProbeLoad) -> SiteProbe:
    """Return an ``ior`` probe as a single command."""
    return SiteProbe(
        name=probe.name,
        benchmark="ior",
        schedule=probe.schedule,
        launcher=LAUNCHER,
        nodes=probe.nodes,
        tasks_per_node=probe.tasks_per_node,
        timeout_s=probe.timeout_s,
        command=command_of(probe),
    )


def _hardware(scenario: Scenario) -> Hardware:
    osts, drive, raid = scenario.osts, scenario.osts.drive, scenario.osts.raid
    return Hardware(
        drive_write=_rate(drive.write_bytes_per_s),
        drive_read=_rate(drive.read_bytes_per_s),
        drives=-(-osts.count // raid.shared) * raid.drives,
        drives_per_ost=None if raid.shared > 1 else raid.drives,
        osts=osts.count,
        oss=-(-osts.count // osts.per_server),
        parity=Parity(1, 1) if raid.kind == "raid10" else Parity(raid.data, raid.parity),
        network=_rate(scenario.server.network_bytes_per_s),
        client_network=_rate(scenario.clients.network_bytes_per_s),
    )


def _rate(bytes_per_s: float) -> Figure:
    """Return a rate in the form of a site file."""
    giga = (Decimal(repr(bytes_per_s)) / 10**9).normalize()
    return parse_figure(f"{giga:f} GB/s", "B/s")

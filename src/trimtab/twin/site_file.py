"""Builds the site file of a simulated site, so that commands treat it like a real one."""

from __future__ import annotations

import os
from decimal import Decimal

from trimtab.config.targets import mdt_name, ost_name
from trimtab.model.hardware import Figure, Hardware, Parity, parse_figure
from trimtab.model.site import Servers, Site, SiteLauncher, SiteLimits, SiteProbe, SiteStore
from trimtab.site import write
from trimtab.twin.instruments.layout import MDTS_PER_SERVER, layout_of
from trimtab.twin.instruments.probes import LAUNCHER, command_of
from trimtab.twin.scenario.model import ProbeLoad, Scenario


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
    return write.site_text(site, remarks=notes)


def _servers(scenario: Scenario) -> Servers:
    layout = layout_of(scenario)
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

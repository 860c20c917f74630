"""``trimtab demo``: the dashboard on a file system of the twin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from trimtab.web.command import address, bind_option, refuse_without_libraries, serve

if TYPE_CHECKING:
    from trimtab.loop.event_log import Place
    from trimtab.record.store import Store

SCENARIO: Final = "perlmutter"
CLASSES: Final = 4
"""Classes of OSTs that are simulated one by one; each stands for many like it."""
SNAPSHOT_S: Final = 86400.0
DIRECTORY: Final = "trimtab-demo"


@click.command("demo")
@bind_option
@click.option(
    "--directory",
    metavar="DIR",
    default=DIRECTORY,
    show_default=True,
    help="Where the simulated site is kept; one that is there already is served.",
)
def command(bind: str, directory: str) -> None:
    """Show the dashboard on nine simulated months of a Perlmutter-like site.

    The site is coarse: its 274 OSTs are simulated as four classes, and a snapshot is stored once a
    day. `trimtab twin run perlmutter` simulates it in full. Incidents are searched for while the
    dashboard runs.
    """
    refuse_without_libraries()
    host, port = address(bind)
    from trimtab.loop.event_log import Place
    from trimtab.loop.sites import open_site
    from trimtab.loop.stores import open_store

    place = Path(directory)
    site_file = place.absolute() / f"{SCENARIO}.toml"
    if not site_file.exists():
        _simulate(place)
    site = open_site(str(site_file)).site
    with open_store(site.store.url) as store:
        of_file = Place(site.name, site)
        serve(
            store,
            (str(site_file), of_file),
            host,
            port,
            beside=lambda: _search_incidents(store, of_file),
        )


def _simulate(directory: Path) -> None:
    from dataclasses import replace

    from trimtab.loop.twin_run import Wanted, run_twin
    from trimtab.twin.scenario.load import load_scenario

    scenario = load_scenario(SCENARIO)
    coarse = replace(scenario.resolution, classes=CLASSES)
    wanted = Wanted(
        replace(scenario, resolution=coarse), directory, None, snapshot_every_s=SNAPSHOT_S
    )
    with click.progressbar(length=100, label="simulating nine months") as bar:

        def progress(_: str, fraction: float) -> None:
            bar.update(max(0, int(100 * fraction) - bar.pos))

        run_twin(wanted, progress=progress)


def _search_incidents(store: Store, place: Place) -> None:
    from trimtab.loop.explaining.incidents import incidents_of, keep_incidents
    from trimtab.loop.sites import clock_of

    if store.judged(place.name) is None:
        keep_incidents(store, incidents_of(store, place, now=clock_of(place.site)()))

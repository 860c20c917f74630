"""A ladder of what is kept of a site, or of published figures in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from trimtab.judge.ladder.climb import MARGIN, Scale, climb
from trimtab.judge.ladder.comparing import Built
from trimtab.judge.ladder.estimates import of_figure, of_values
from trimtab.loop.sites import SITE_FILE, open_site, with_store
from trimtab.loop.stores import open_store
from trimtab.model.hardware import Hardware
from trimtab.model.ladder import Basis, Coverage, Ladder, LadderInput, Rung
from trimtab.model.site import Site
from trimtab.model.telemetry import Snapshot
from trimtab.site.ladder_file import LadderFile, StatedRung, is_ladder, load_ladder

if TYPE_CHECKING:
    from trimtab.record.store import Store


def ladder_of(
    where: str,
    *,
    store_url: str | None = None,
    margin: float = MARGIN,
    scale: Scale | None = None,
    runs: Sequence[str] = (),
) -> Ladder:
    """Return the ladder of a SITE, a PATH or a file of published figures.

    Parameters
    ----------
    runs
        Beginnings of ids of runs that are to stand for their layers.

    Raises
    ------
    UsageError
        There is no such site, file or run, or it is wrong.
    UnreadableError
        The store cannot be read.
    """
    if where.endswith(SITE_FILE) and is_ladder(where):
        return climb(of_file(load_ladder(where)), margin=margin, scale=scale)
    site = open_site(where).site
    with open_store(with_store(site, store_url)) as store:
        return climb(of_store(store, site, runs), margin=margin, scale=scale)


def of_file(file: LadderFile) -> LadderInput:
    """Return what a ladder is made of from a file of published figures."""
    rungs = [
        _rung(stated, metric, file) for stated in file.rungs for metric in sorted(stated.figures)
    ]
    return LadderInput(
        name=file.name,
        hardware=file.hardware,
        rungs=tuple(rungs),
        source=file.source,
        networked=file.networked,
        figures=file.figures,
        claims=file.claims,
        notes=file.notes,
    )


def of_store(store: Store, site: Site, runs: Sequence[str] = ()) -> LadderInput:
    """Return what a ladder is made of from what is kept of a site: the newest of each layer."""
    from trimtab.loop.ladder_rungs import Chooser

    snapshot = store.latest_snapshot(site.name)
    hardware, notes = hardware_of(site, snapshot)
    chooser = Chooser(store, site, hardware, runs)
    return LadderInput(
        name=site.name,
        hardware=hardware,
        rungs=tuple(chooser.rungs()),
        source=f"newest results of each layer in {store.location}",
        networked=site.driver != "local",
        notes=(*notes, *chooser.notes),
    )


def hardware_of(site: Site, snapshot: Snapshot | None) -> tuple[Hardware, tuple[str, ...]]:
    """Return what a site is built of, with what its servers, OSTs and data sheets add.

    The second value is what could not be found out and was asked for.
    """
    stated = site.hardware
    notes: list[str] = []
    osts = None
    if snapshot is not None:
        osts = sum(one.target.kind != "mdt" for one in snapshot.targets) or None
    return (
        replace(
            stated,
            osts=stated.osts or osts,
            oss=stated.oss or len(site.servers.oss) or (1 if site.driver == "local" else None),
        ),
        tuple(notes),
    )


def _rung(stated: StatedRung, metric: str, file: LadderFile) -> Rung:
    figures = stated.figures[metric]
    if len(figures) == 1:
        rate = of_figure(figures[0])
    else:
        rate = of_values([figure.middle for figure in figures], Basis.REPETITIONS)
    coverage = stated.coverage
    if coverage == Coverage():
        built = Built.of(file.hardware)
        coverage = Coverage(built.drives, built.osts, built.servers)
    return Rung(
        layer=stated.layer,
        metric=metric,
        rate=rate,
        coverage=coverage,
        nodes=stated.nodes,
        tool=stated.tool,
        source=stated.source,
        printed=", ".join(figure.text or "" for figure in figures),
        epoch=stated.epoch,
        fullness=stated.fullness,
        conditions=stated.conditions,
        notes=stated.notes,
    )

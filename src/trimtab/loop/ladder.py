"""A ladder of what is kept of a site, or of published figures in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trimtab.judge.ladder.climb import MARGIN, Scale, climb
from trimtab.judge.ladder.comparing import Built
from trimtab.judge.ladder.estimates import of_figure, of_values
from trimtab.loop.sites import SITE_FILE, open_site, with_store
from trimtab.loop.stores import open_store
from trimtab.model.drives import data_sheet
from trimtab.model.hardware import Figure, Hardware
from trimtab.model.ladder import Basis, Coverage, Ladder, LadderInput, Rung
from trimtab.model.site import Site
from trimtab.model.telemetry import NotAvailable, Snapshot
from trimtab.site.ladder_file import LadderFile, StatedRung, is_ladder, load_ladder
from trimtab.units import format_value

if TYPE_CHECKING:
    from trimtab.record.store import Store

_OF_DATA_SHEET: Final = {
    "drive_write": ("write_bytes_per_s", "B/s"),
    "drive_read": ("read_bytes_per_s", "B/s"),
    "drive_write_iops": ("write_iops", "1/s"),
    "drive_read_iops": ("read_iops", "1/s"),
}
"""Key of the hardware to attribute of the data sheet, and its unit."""


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
    hardware, notes = with_data_sheet(file.hardware)
    rungs = [
        _rung(stated, metric, file) for stated in file.rungs for metric in sorted(stated.figures)
    ]
    return LadderInput(
        name=file.name,
        hardware=hardware,
        rungs=tuple(rungs),
        source=file.source,
        networked=file.networked,
        figures=file.figures,
        claims=file.claims,
        notes=(*file.notes, *notes),
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

    The second value is what a reader should know of it.
    """
    stated, notes = with_data_sheet(site.hardware)
    osts = None
    if snapshot is not None:
        osts = sum(one.target.kind != "mdt" for one in snapshot.targets) or None
    oss = len(site.servers.oss) or (1 if site.driver == "local" else None)
    return replace(stated, osts=stated.osts or osts, oss=stated.oss or oss), notes


def with_data_sheet(hardware: Hardware) -> tuple[Hardware, tuple[str, ...]]:
    """Return hardware with the rates of its drives' data sheet, unless it states any itself.

    Stated rates replace the data sheet as a whole: a table of two sources would be of none. The
    second value says where the rates are from, or why there are none.
    """
    if hardware.drive is None or any(getattr(hardware, name) for name in _OF_DATA_SHEET):
        return hardware, ()
    sheet = data_sheet(hardware.drive)
    if isinstance(sheet, NotAvailable):
        return hardware, (f"[hardware] drive: {sheet.reason}",)
    found = {}
    for name, (attribute, unit) in _OF_DATA_SHEET.items():
        value = getattr(sheet, attribute)
        if value is not None:
            found[name] = Figure(value, unit, text=format_value(value, unit))
    note = f"data sheet of {sheet.model}: {'; '.join(sheet.sources)}"
    return replace(hardware, **found), (note, *([sheet.note] if sheet.note else []))


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

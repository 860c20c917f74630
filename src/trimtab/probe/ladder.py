"""Builds a ladder from the runs of a site, or from published figures in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NoReturn

from trimtab.base.data_sheet import with_data_sheet
from trimtab.base.error import UnreadableError, UsageError, visible
from trimtab.base.filesystem import DRIVERS
from trimtab.base.site import Site
from trimtab.base.site_hardware import Hardware
from trimtab.judge.efficiency_ladder import Coverage, IntervalBasis, Ladder, LadderInput, Rung
from trimtab.judge.ladder_analysis import MARGIN, Scale, build_ladder
from trimtab.judge.layer_efficiency import built_of, of_figure, of_values
from trimtab.probe.question_file import LadderFile, StatedRung, is_ladder, load_ladder
from trimtab.reach import bounded
from trimtab.site.lookup import SITE_FILE, open_store, site_as_kept, site_file, site_of_path
from trimtab.site.site_file import find_site
from trimtab.store.kept import value_of

if TYPE_CHECKING:
    from trimtab.store.store import Store

_NO_HARDWARE: Final = (
    "no site file describes the hardware: with [hardware] in one (trimtab init PATH writes it) "
    "rates are also compared with data sheets and line rates, and scaled to the whole system"
)


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
    where
        Anything that `trimtab.site.lookup.open_site` takes, or the name of a site that only the
        store knows, from ``trimtab import --site NAME``.
    runs
        Beginnings of the ids of runs that represent their layers.

    Raises
    ------
    UsageError
        There is no such site, file or run, or it is wrong.
    UnreadableError
        The store cannot be read.
    """
    if where.endswith(SITE_FILE) and is_ladder(where):
        return build_ladder(of_file(load_ladder(where)), margin=margin, scale=scale)
    site = _site(where, store_url)
    with open_store(store_url, site) as store:
        return build_ladder(of_store(store, site, runs), margin=margin, scale=scale)


def _site(where: str, store_url: str | None) -> Site:
    """Return the site meant: of a site file, of a directory, or one that is only in the store."""
    loaded = site_file(where)
    if loaded is not None:
        return loaded.site
    state = bounded.describe(where)
    here = site_of_path(where) if state.kind == "directory" else None
    try:
        with open_store(store_url) as store:
            known, nowhere = store.sites(), f"nothing about it is stored in {store.location}"
    except UnreadableError as error:
        if here is not None:
            raise
        known, nowhere = (), error.message
    if here is not None:
        for stored_site in known:
            if here.name in (stored_site.name, stored_site.identity):
                return replace(here, name=stored_site.name)
    for stored_site in known:
        if stored_site.name == where:
            return site_as_kept(stored_site)
    return here or _refused(where, state, nowhere)


def _refused(where: str, state: bounded.PathState, nowhere: str) -> NoReturn:
    """Raise an error for a word from which no ladder can be built.

    Raises
    ------
    UsageError
        It is neither a site nor a directory.
    TrimtabError
        The system reported an error for a path.
    """
    if state.kind is not None:
        raise UsageError(
            f"{visible(where)} is a {state.kind.replace('-', ' ')}: not a site, a directory or a "
            f"{SITE_FILE} file",
            code="site-unknown",
            hint="name a site, a mount, or a FILE.toml with [ladder]; or first trimtab import FILE",
        )
    if "/" in where and state.failure is not None:
        raise bounded.error_of(state.failure, where)
    try:
        find_site(where)
    except UsageError as error:
        raise UsageError(
            f"{error.message}; {nowhere}", code="site-unknown", hint=error.hint
        ) from error
    raise UsageError(
        f"{visible(where)} is neither a site nor a directory; {nowhere}", code="site-unknown"
    )


def of_file(file: LadderFile) -> LadderInput:
    """Return the inputs of a ladder from a file of published figures."""
    hardware, notes = with_data_sheet(file.hardware)
    rungs = [
        _rung(stated, metric, file) for stated in file.rungs for metric in sorted(stated.figures)
    ]
    return value_of(
        LadderInput, file, hardware=hardware, rungs=tuple(rungs), notes=(*file.notes, *notes)
    )


def of_store(store: Store, site: Site, runs: Sequence[str] = ()) -> LadderInput:
    """Return the inputs of a ladder from the store: the newest results of each layer of a site."""
    from trimtab.probe.ladder_rung import Chooser

    hardware, notes = _hardware(store, site)
    if site.source is None and site.hardware == Hardware():
        notes = (*notes, _NO_HARDWARE)
    chooser = Chooser(store, site, hardware, runs)
    return LadderInput(
        name=site.name,
        hardware=hardware,
        rungs=tuple(chooser.rungs()),
        source=f"newest results of each layer in {store.location}",
        networked=DRIVERS[site.driver].networked,
        notes=(*notes, *chooser.notes),
    )


def _hardware(store: Store, site: Site) -> tuple[Hardware, tuple[str, ...]]:
    """Return the hardware of a site, completed by its servers, OSTs and data sheets.

    The second value holds notes for the reader.
    """
    snapshot = store.latest_snapshot(site.name)
    stated, notes = with_data_sheet(site.hardware)
    osts = None
    if snapshot is not None:
        osts = sum(target.target.kind != "mdt" for target in snapshot.targets) or None
    oss = len(site.servers.oss) or (None if DRIVERS[site.driver].networked else 1)
    return replace(stated, osts=stated.osts or osts, oss=stated.oss or oss), notes


def _rung(stated: StatedRung, metric: str, file: LadderFile) -> Rung:
    figures = stated.figures[metric]
    if len(figures) == 1:
        rate = of_figure(figures[0])
    else:
        rate = of_values([figure.middle for figure in figures], IntervalBasis.REPETITIONS)
    coverage = stated.coverage
    if coverage == Coverage():
        coverage = built_of(file.hardware)
    printed = ", ".join(figure.text or "" for figure in figures)
    return value_of(
        Rung, stated, metric=metric, rate=rate, coverage=coverage, printed=printed, at=None, runs=()
    )

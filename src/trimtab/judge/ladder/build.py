"""Build a ladder from rungs and hardware: add nominal rungs, scale to one unit, compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from trimtab.judge.ladder.claims import check_claim
from trimtab.judge.ladder.efficiency import SINGULAR, Comparer
from trimtab.judge.ladder.estimates import of_figure, scaled
from trimtab.judge.ladder.limits import Walk
from trimtab.message import Message
from trimtab.model.hardware import Figure, Hardware
from trimtab.model.ladder import (
    LADDER_METRICS,
    LEVELS,
    UNITS,
    Absent,
    Coverage,
    Efficiency,
    Estimate,
    Ladder,
    LadderInput,
    Level,
    Rung,
    Step,
    Track,
    Unit,
)
from trimtab.model.run import METRIC_UNITS
from trimtab.units import plural

MARGIN: Final = 0.10
"""Loss of a layer that does not make it the bottleneck; the sources call 95 to 99 % 'near' and
75 to 88 % notable."""

Scale = Literal["whole", "server", "ost", "drive"]
SCALES: Final[tuple[Scale, ...]] = ("whole", "server", "ost", "drive")
_SCALE_UNIT: Final[Mapping[Scale, Unit]] = {"server": "servers", "ost": "osts", "drive": "drives"}
_PER: Final[Mapping[Level, str]] = {
    "data_sheet": "drive",
    "line_rate": "server",
    "client_network": "client node",
}
_OF_DATA_SHEET: Final = frozenset({"drive", "raid", "ost", "client", "application"})
_HINTS: Final[Mapping[Level, str]] = {
    "data_sheet": "name the drive's model or its rates, and drives: [hardware] of the site file",
    "drive": "run fio on the drives, then trimtab import FILE: docs/benchmarks/fio.md",
    "ost": "trimtab survey SITE --server, or import that of obdfilter-survey: docs/survey.md",
    "network": "trimtab import FILE of lst stat: docs/benchmarks/lnet-selftest.md",
    "client": "trimtab probe NAME --site SITE, trimtab check PATH, or trimtab import FILE of IOR",
}
_OF_ONE_HOST: Final[tuple[Level, ...]] = ("data_sheet", "drive", "client")


def build_ladder(
    measured: LadderInput, *, margin: float = MARGIN, scale: Scale | None = None
) -> Ladder:
    """Return the ladder of the measurements.

    Parameters
    ----------
    margin
        The fraction that a layer may lose without being the bottleneck.
    scale
        Unit for displayed rates; ``None``: the whole file system if its size is known, else the
        largest unit that all rungs can be scaled to.

    Raises
    ------
    ValueError
        Two rungs have the same layer and metric, or the margin is not between 0 and 1.
    """
    if not 0 < margin < 1:
        raise ValueError(f"a margin of {margin} is not between 0 and 1")
    comparer = Comparer(measured.hardware)
    shown = Shower(comparer, scale or _scale_for(measured.rungs, comparer))
    tracks = []
    for metric in LADDER_METRICS:
        rungs = [rung for rung in measured.rungs if rung.metric == metric]
        if rungs:
            tracks.append(_track(metric, rungs, shown, margin=margin, networked=measured.networked))
    return Ladder(
        name=measured.name,
        source=measured.source,
        hardware=measured.hardware,
        scale=shown.text(),
        margin=margin,
        tracks=tuple(tracks),
        absent=tuple(_absent(measured, tracks)),
        claims=tuple(check_claim(claim, measured.figures) for claim in measured.claims),
        notes=measured.notes,
    )


def nominal_rungs(metric: str, hardware: Hardware, client: Rung | None) -> list[Rung]:
    """Return the nominal rates of the hardware: data sheet of the drives, and line rates.

    Parameters
    ----------
    client
        The client's rung, whose nodes define the client network.
    """
    rungs = [rung for rung in (_data_sheet(metric, hardware),) if rung is not None]
    if not metric.endswith("_bandwidth"):
        return rungs
    if hardware.network is not None:
        rate = of_figure(hardware.network, exact=True)
        rungs.append(_nominal("line_rate", metric, rate, hardware.network, Coverage(servers=1)))
    if hardware.client_network is not None and client is not None and client.nodes is not None:
        rate = scaled(of_figure(hardware.client_network, exact=True), client.nodes)
        of_clients = client.coverage
        rung = _nominal("client_network", metric, rate, hardware.client_network, of_clients)
        rungs.append(replace(rung, nodes=client.nodes))
    return rungs


class Shower:
    """Converts rates to the scale of the ladder."""

    def __init__(self, comparer: Comparer, scale: Scale) -> None:
        self.comparer = comparer
        self._scale: Scale = scale

    def text(self) -> str:
        """Return the unit that the displayed rates refer to."""
        if self._scale != "whole":
            return f"one {SINGULAR[_SCALE_UNIT[self._scale]]}"
        counts = ((self.comparer.built.count(unit), SINGULAR[unit]) for unit in UNITS)
        parts = [plural(n, noun, ",.6g") for n, noun in counts if n is not None]
        return f"the whole: {', '.join(parts)}" if parts else "as measured"

    def shown(self, rung: Rung) -> tuple[Estimate | None, Message | None]:
        """Return a rate converted to the scale, or why it cannot be."""
        if self._scale != "whole":
            count = self.comparer.counts(rung, _SCALE_UNIT[self._scale])
            if not count:
                unit = _SCALE_UNIT[self._scale]
                return None, Message("counts-unknown", f"number of {unit} unknown")
            return scaled(rung.rate, 1 / count), None
        for unit in UNITS:
            total, count = self.comparer.built.count(unit), self.comparer.counts(rung, unit)
            if total and count:
                return scaled(rung.rate, total / count), None
        return None, Message("share-unknown", "share of the whole unknown")


def _track(
    metric: str, rungs: Sequence[Rung], shown: Shower, *, margin: float, networked: bool
) -> Track:
    comparer = shown.comparer
    client = next((rung for rung in rungs if rung.layer == "client"), None)
    by_level: dict[Level, Rung] = {}
    for rung in (*rungs, *nominal_rungs(metric, comparer.hardware, client)):
        if rung.layer in by_level:
            raise ValueError(f"two rungs of {rung.layer} for {metric}")
        by_level[rung.layer] = rung
    by_level = {level: by_level[level] for level in LEVELS if level in by_level}
    walk = Walk(by_level, comparer, margin, networked)
    steps = []
    for level, rung in by_level.items():
        rate, reason = shown.shown(rung)
        beneath = tuple(walk.efficiency(level, carrier.layer) for carrier in walk.carriers(level))
        steps.append(Step(rung, rate, reason, beneath, _of_data_sheet(walk, level)))
    limit = walk.limit()
    return Track(metric, METRIC_UNITS[metric], tuple(steps), limit, walk.loss())


def _of_data_sheet(walk: Walk, level: Level) -> Efficiency | None:
    if level not in _OF_DATA_SHEET or "data_sheet" not in walk.rungs:
        return None
    return walk.efficiency(level, "data_sheet")


def _data_sheet(metric: str, hardware: Hardware) -> Rung | None:
    figure = {
        "write_bandwidth": hardware.drive_write,
        "read_bandwidth": hardware.drive_read,
        "write_iops": hardware.drive_write_iops,
        "read_iops": hardware.drive_read_iops,
    }[metric]
    if figure is None:
        return None
    rung = _nominal("data_sheet", metric, of_figure(figure), figure, Coverage(drives=1))
    rung = replace(rung, tool=hardware.drive)
    link = hardware.drive_link
    if link is None or not metric.endswith("_bandwidth") or link.value >= figure.value:
        return rung
    note = f"its link carries {link.text}, its data sheet says {figure.text}"
    printed = f"{link.text} a drive"
    return replace(rung, rate=of_figure(link), printed=printed, notes=(note,))


def _nominal(
    level: Level,
    metric: str,
    rate: Estimate,
    figure: Figure,
    coverage: Coverage,
) -> Rung:
    return Rung(level, metric, rate, coverage, printed=f"{figure.text} a {_PER[level]}")


def _scale_for(rungs: Sequence[Rung], comparer: Comparer) -> Scale:
    fitting = {
        scale: sum(Shower(comparer, scale).shown(rung)[0] is not None for rung in rungs)
        for scale in SCALES
    }
    most = max(fitting.values(), default=0)
    return next(scale for scale in SCALES if fitting[scale] == most)


def _absent(measured: LadderInput, tracks: Sequence[Track]) -> list[Absent]:
    """Return the layers without a known bandwidth, with how to measure them."""
    bandwidths = [track for track in tracks if track.metric.endswith("_bandwidth")]
    levels: list[Level] = [level for level in _HINTS if measured.networked or level in _OF_ONE_HOST]
    absent = []
    for level in levels:
        without = [
            track.metric
            for track in bandwidths
            if all(step.rung.layer != level for step in track.steps)
        ]
        if without or not bandwidths:
            metrics = tuple(without or LADDER_METRICS[:2])
            absent.append(Absent(level, metrics, _HINTS[level]))
    return absent

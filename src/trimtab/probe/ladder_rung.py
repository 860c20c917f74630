"""Chooses the rungs of a site's ladder: for each layer, the fastest of its recent series.

A layer may have several series: an hourly probe with four tasks, a weekly one with all nodes. A
ladder shows what a layer can deliver, so the fastest series within a month of the newest is used,
and the others are named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING, Final

from trimtab.base.event import EventKind
from trimtab.base.filesystem import DRIVERS
from trimtab.base.plain import as_dict, as_whole
from trimtab.base.run import ASKED, LAYERS, Layer, Run, RunStatus, comparability_key, grouped
from trimtab.base.site import Site
from trimtab.base.site_hardware import Hardware
from trimtab.base.units import plural
from trimtab.formats.format_table import BENCHMARKS
from trimtab.judge.efficiency_ladder import (
    LADDER_METRICS,
    LEVEL_NAMES,
    Coverage,
    Estimate,
    IntervalBasis,
    Rung,
)
from trimtab.judge.layer_efficiency import APART_MAXIMUM, built_of, of_values

if TYPE_CHECKING:
    from trimtab.base.verdict import HistoryPoint
    from trimtab.store.kept import Series
    from trimtab.store.store import Store

WINDOW: Final = timedelta(days=7)
"""Time up to the newest run of a series, for its rate and its scatter from day to day."""
RUNS_MINIMUM: Final = 3
"""With fewer runs, the repetitions of the newest one are used instead."""
RUNS_MAXIMUM: Final = 336
LARGE_TRANSFER_BYTES: Final = 256 * 1024
SMALL_TRANSFER_BYTES: Final = 16 * 1024
SNAPSHOT_NEAR: Final = timedelta(days=1)
_EPOCHS: Final = (EventKind.CONFIG_CHANGE, EventKind.CAPACITY_ADDED)
_USABLE: Final = (RunStatus.OK, RunStatus.PARTIAL)
UNTIMED_MAXIMUM: Final = 100
SMALL_MESSAGE_BYTES: Final = 64 * 1024
_TOGETHER: Final = "OSTs measured"
_BY_ITSELF: Final = "each measured separately"


@dataclass
class Chooser:
    """Chooses the rungs of a site; ``notes`` lists what else there was.

    ``chosen`` are beginnings of the ids of runs that the user wants; they come before all others
    of their layer, and their series up to them.
    """

    store: Store
    site: Site
    hardware: Hardware
    chosen: Sequence[str] = ()
    notes: list[str] = field(default_factory=list)
    _recorded: dict[tuple[str, datetime | None], dict[str, list[Run]]] = field(default_factory=dict)

    def rungs(self) -> Iterator[Rung]:
        """Yield a rung for each layer and metric with stored results."""
        candidates: dict[tuple[Layer, str], list[tuple[str, Rung]]] = {}
        requested = {comparability_key(run): run for run in map(self.store.run, self.chosen)}
        for series in self.store.series(self.site.name):
            for run, points in self._newest(series, requested.get(series.comparability)):
                layer = layer_of(run)
                if layer is None:
                    continue
                for metric in LADDER_METRICS:
                    metric_points = [point for point in points if point.metric == metric]
                    rung = self._candidate(layer, series, run, metric, metric_points)
                    if rung is not None and _suits(run, metric):
                        of_layer = candidates.setdefault((layer, metric), [])
                        of_layer.append((series.comparability, rung))
        for (layer, metric), of_layer in candidates.items():
            if len(of_layer) > 1:
                self.notes.append(
                    f"{LEVEL_NAMES[layer]}, {metric.replace('_', ' ')}: {len(of_layer)} series are "
                    "stored; the fastest of the last month is used, --run selects another"
                )
            comparable = [rung for key, rung in of_layer if key in requested]
            best = _best(comparable or [rung for _, rung in of_layer])
            yield replace(best, epoch=self._epoch(best.at), fullness=self._fullness(best.at))

    def _newest(
        self, series: Series, requested: Run | None
    ) -> Iterator[tuple[Run, Sequence[HistoryPoint]]]:
        """Yield the newest run of a series that measured something, and the week up to it.

        Runs without a time are all yielded: the newest of them is unknown.
        """
        if requested is not None:
            yield requested, self._week(series, requested.at)
            return
        points = self._week(series, series.last_at)
        ended = [point for point in points if not point.unfinished]
        if ended:
            yield self.store.run(ended[-1].run), points
            return
        # Runs without a time, and those that have only numbers of single targets.
        since = None if series.last_at is None else series.last_at - WINDOW
        others = self._others(series.probe, since).get(series.comparability, [])
        for run in others[: UNTIMED_MAXIMUM if since is None else 1]:
            yield run, ()

    def _week(self, series: Series, until: datetime | None) -> Sequence[HistoryPoint]:
        if until is None:
            return ()
        return self.store.history(
            series.site, series.comparability, since=until - WINDOW, until=until
        )

    def _others(self, probe: str, since: datetime | None) -> dict[str, list[Run]]:
        """Return series to usable runs, newest first; cached, since reading them takes long."""
        if (probe, since) not in self._recorded:
            runs = self.store.runs(site=self.site.name, probe=probe, since=since)
            usable = (run for run in runs if run.status in _USABLE)
            self._recorded[probe, since] = grouped(usable, comparability_key)
        return self._recorded[probe, since]

    def _candidate(
        self, layer: Layer, series: Series, run: Run, metric: str, points: Sequence[HistoryPoint]
    ) -> Rung | None:
        """Return one series as a rung of a layer."""
        coverage, notes = self._coverage(run)
        requested, recorded = (as_dict(run.parameters.get(name)) for name in (ASKED, "told"))
        used, left_out = _usable(points)
        notes += left_out
        placing = "together"
        if len(used) >= RUNS_MINIMUM:
            rate = of_values([point.value for point in used], IntervalBasis.RUNS)
            runs = tuple(point.run for point in used)
        elif rates := [rate for rate in run.believed(metric) if rate]:
            rate, runs = of_values(rates, IntervalBasis.REPETITIONS), (run.id,)
        elif newest := _of_targets(run, metric):
            rate, runs = self._summed(series, run, metric, newest)
            of_drives, count = layer == "drive", len(newest)
            coverage = Coverage(drives=count) if of_drives else Coverage(osts=count)
            placing = "together" if requested.get("together") is True else "one by one"
            method = "all measured at the same time" if placing == "together" else _BY_ITSELF
            notes += (f"sum of {count} {'drives' if of_drives else 'OSTs'}, {method}",)
        else:
            return None
        several = f"{len(runs)} runs to" if len(runs) > 1 else "run"
        return Rung(
            layer=layer,
            metric=metric,
            rate=rate,
            coverage=coverage,
            nodes=_count(recorded.get("nodes")) or _count(requested.get("nodes")),
            tool=f"{run.kind} {run.tool_version or ''}".strip(),
            source=f"{series.probe}, {several} {_short(run)}",
            at=run.at,
            conditions={_TOGETHER: placing} if layer in ("ost", "client") else {},
            runs=runs,
            notes=notes,
        )

    def _summed(
        self, series: Series, run: Run, metric: str, newest: Mapping[str, float]
    ) -> tuple[Estimate, tuple[str, ...]]:
        """Return the sum over targets with figures of their own, in each survey of the week."""
        since = None if series.last_at is None else series.last_at - WINDOW
        others = self._others(series.probe, since).get(series.comparability, [])
        surveys = {
            other.id: sum(by_target.values())
            for other in reversed(others)  # by time
            if (by_target := _of_targets(other, metric)).keys() == newest.keys()
        }
        if len(surveys) >= RUNS_MINIMUM:
            return of_values([*surveys.values()], IntervalBasis.RUNS), tuple(surveys)
        return Estimate(sum(newest.values()), basis=IntervalBasis.REPETITIONS), (run.id,)

    def _coverage(self, run: Run) -> tuple[Coverage, tuple[str, ...]]:
        """Return what a run covers: as its own output states, else from the site's hardware."""
        recorded = as_dict(run.parameters.get("told"))
        built = built_of(self.hardware)
        stated = Coverage(
            _count(recorded.get("drives")),
            _count(recorded.get("targets")),
            _count(recorded.get("servers")),
        )
        if stated != Coverage():
            return stated, ()
        layer = layer_of(run)
        if layer == "network" and built.servers == 1:
            return Coverage(servers=1), ()  # whichever side reported it, there is no other server
        if layer == "drive" and built.drives == 1:
            return Coverage(drives=1), ()
        if layer == "application":
            # Its share of the whole file system, on however many OSTs its files are.
            return self._whole(built), ()
        if layer != "client":
            return stated, ()
        return self._of_one_host(built) if self._local else self._of_files(run, built)

    @property
    def _local(self) -> bool:
        return not DRIVERS[self.site.driver].networked

    def _whole(self, built: Coverage) -> Coverage:
        if self._local:
            return Coverage(built.drives, built.osts or 1, 1)
        return built

    def _of_one_host(self, built: Coverage) -> tuple[Coverage, tuple[str, ...]]:
        """Return what a client's run covers where the mount is a file system of this host."""
        if built.osts is None or built.osts == 1:
            return self._whole(built), ()
        note = f"on how many of {built.osts:,.6g} OSTs the files were is unknown"
        return Coverage(servers=1), (note,)

    def _of_files(self, run: Run, built: Coverage) -> tuple[Coverage, tuple[str, ...]]:
        """Return what a client's run covers, from the placement of its files.

        Pinned files are on every OST. Lustre spreads the objects of new files over all OSTs in
        turn, so at least as many objects as OSTs reach all of them; where fewer are is unknown.
        """
        requested = as_dict(run.parameters.get(ASKED))
        tasks = _count(requested.get("tasks"))
        if built.osts is None:
            return Coverage(), ()
        stripes = requested.get("stripe_count")
        if requested.get("target_pinning") is True or stripes == -1:
            return built, ()
        if tasks is None:
            return Coverage(), ()
        files = 1 if requested.get("file_per_process") is False else tasks
        objects = files * (_count(stripes) or 1)
        placed = f"{plural(objects, 'object', ',')} over {built.osts:,.6g} OSTs"
        if objects >= built.osts:
            return built, (f"assumed on all OSTs: {placed}",)
        return Coverage(), (f"{placed}: on how many they were is unknown",)

    def _epoch(self, at: datetime | None) -> str | None:
        """Return the last change of the system before a time."""
        if at is None:
            return None
        events = [
            event for event in self.store.events(site=self.site.name) if event.kind in _EPOCHS
        ]
        earlier = [event for event in events if event.at <= at]
        if not events:
            return None
        if not earlier:
            return f"before {events[0].kind.value} {events[0].at:%Y-%m-%d}"
        return f"since {earlier[-1].kind.value} {earlier[-1].at:%Y-%m-%d}"

    def _fullness(self, at: datetime | None) -> float | None:
        """Return the fullness of all OSTs in the last snapshot before, no older than a day."""
        snapshot = None if at is None else self.store.latest_snapshot(self.site.name, at)
        if at is None or snapshot is None or at - snapshot.at > SNAPSHOT_NEAR:
            return None
        targets = [target for target in snapshot.targets if target.target.kind != "mdt"]
        used = [target.number("used_bytes") for target in targets]
        available = [target.number("available_bytes") for target in targets]
        if not targets or None in used or None in available:
            return None
        total = sum(filter(None, used)) + sum(filter(None, available))
        return sum(filter(None, used)) / total if total > 0 else None


def _of_targets(run: Run, metric: str) -> dict[str, float]:
    """Return target to its rate, without 0, which marks a repetition that did not finish."""
    finished = tuple(sample for sample in run.samples if sample.value)
    return replace(run, samples=finished).believed_of_targets(metric)


def layer_of(run: Run) -> Layer | None:
    """Return the layer that a run measured; ``None`` if it is unknown."""
    stated = run.parameters.get("layer")
    for layer in LAYERS:
        if stated == layer:
            return layer
    # Runs that do not state their layer: those of Trimtab itself on the mount, and imports.
    benchmark = None if "layer" in run.parameters else BENCHMARKS.get(run.kind)
    return None if benchmark is None else benchmark.layer


def _best(candidates: Sequence[Rung]) -> Rung:
    """Return the fastest of the series that are not older than the newest by a month."""
    times = [candidate.at for candidate in candidates if candidate.at is not None]
    if times:
        recent = max(times) - APART_MAXIMUM
        candidates = [each for each in candidates if each.at is not None and each.at >= recent]
    # Nothing can be said about a rate whose coverage is unknown.
    return max(candidates, key=lambda each: (each.coverage != Coverage(), _speed(each)))


def _speed(rung: Rung) -> float:
    """Return the rate of one OST, drive or server if the number of them is known."""
    of = rung.coverage
    return rung.rate.value / next((n for n in (of.osts, of.drives, of.servers) if n), 1)


def _usable(points: Sequence[HistoryPoint]) -> tuple[list[HistoryPoint], tuple[str, ...]]:
    used = [point for point in points if not point.unfinished and point.value > 0]
    lost = len(points) - len(used)
    are = "run that did not finish is" if lost == 1 else "runs that did not finish are"
    notes = (f"{lost} {are} left out",) if lost else ()
    return used[-RUNS_MAXIMUM:], notes


def _suits(run: Run, metric: str) -> bool:
    """Return whether the transfer size of a run, large or small, suits a metric."""
    size = _count(as_dict(run.parameters.get(ASKED)).get("transfer_size_bytes"))
    if size is None:
        # `lst stat` prints no size of its test. A 1 MiB transfer is a few RPCs of some 300 KB on
        # average, one of 4 KiB is 1.5 KB.
        message = _per_message(run, metric)
        return message is None or message >= SMALL_MESSAGE_BYTES
    if metric.endswith("_bandwidth"):
        return size >= LARGE_TRANSFER_BYTES
    return size <= SMALL_TRANSFER_BYTES


def _short(run: Run) -> str:
    """Return the beginning of a run's id that identifies it: its time, if it has one."""
    return run.id[: 13 if run.at is not None else 23]


def _per_message(run: Run, metric: str) -> float | None:
    """Return the bytes per RPC, if a run reports the rate of RPCs."""
    rates, messages = run.believed(metric), run.believed("rpc_rate")
    if not rates or not messages or median(messages) <= 0:
        return None
    return median(rates) / median(messages)


def _count(value: object) -> int | None:
    """Return a count that a tool or a user gave; ``None`` if it is not a positive number."""
    count = as_whole(value)
    return count if count is not None and count > 0 else None

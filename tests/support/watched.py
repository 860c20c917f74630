"""A watch in simulated time: a clock that only sleeping and probing move, a probe that is none."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

from tests.support.memory_driver import MemoryDriver

from trimtab.base.run import Run, RunStatus, Sample
from trimtab.base.site import Site, SiteProbe
from trimtab.probe.probe import ProbeOutcome, RunContext
from trimtab.site.lookup import open_acting_driver
from trimtab.store.store import Store
from trimtab.watch.upkeep import Observer
from trimtab.watch.watch import Watch

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
HOURLY = SiteProbe("hourly", benchmark="fio", schedule="every 1h")


def a_site(*probes: SiteProbe, snapshots: str | None = None, **changes: object) -> Site:
    """Return a site with one hourly probe, or with those probes."""
    fields: dict[str, object] = {
        "name": "scratch",
        "driver": "local",
        "path": "/scratch",
        "probes": probes or (HOURLY,),
        "snapshot_schedule": snapshots,
    }
    return Site(**(fields | changes))  # type: ignore[arg-type]


class Moving:
    """Time that passes only when somebody waits."""

    def __init__(self, at: datetime = MONDAY) -> None:
        self.at = at
        self.sleeps = 0
        self._set_by = timedelta()

    def __call__(self) -> datetime:
        """Return the time now."""
        return self.at

    def set_forward(self, by: timedelta) -> None:
        """Set the clock; no time passes."""
        self.at += by
        self._set_by += by

    def elapsed_s(self) -> float:
        """Return the time that has passed, however the clock was set meanwhile."""
        return (self.at - self._set_by - MONDAY).total_seconds()

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        assert seconds > 0
        self.sleeps += 1
        self.at += timedelta(seconds=seconds)


class SimulatedProbe:
    """Takes its time and gives two plausible numbers.

    Attributes
    ----------
    takes_s
        How long a run takes.
    meanwhile
        Called while a run is under way.
    """

    def __init__(self, clock: Moving, takes_s: float = 90.0) -> None:
        self.clock, self.takes_s = clock, takes_s
        self.meanwhile: Callable[[], None] = lambda: None
        self.started: list[str] = []
        self.cleaned: list[str] = []

    def __call__(self, probe: SiteProbe, context: RunContext) -> ProbeOutcome:
        """Return a run whose figures follow from its time."""
        self.started.append(context.run_id)
        self.clock.at += timedelta(seconds=self.takes_s / 2)
        self.meanwhile()
        context.progress("write 1 of 1", 0.5)
        self.clock.at += timedelta(seconds=self.takes_s / 2)
        hour = int(context.at.timestamp() // 3600)
        run = Run(
            id=context.run_id,
            site="scratch",
            probe=probe.name,
            kind="fio",
            status=RunStatus.OK,
            at=context.at,
            until=self.clock.at,
            parameters={"spec": {"tasks": 4, "name": probe.name}},
            samples=(
                Sample("write_bandwidth", 2e9 + hour * 7919 % 1000 * 1e5, 0),
                Sample("read_bandwidth", 3e9 + hour * 104729 % 1000 * 1e5, 0),
            ),
        )
        return ProbeOutcome(run)

    def clean_up(self, probe: SiteProbe, run_id: str) -> None:
        """Remember that it was asked for."""
        self.cleaned.append(run_id)


class Ended(SystemExit):
    """The simulation is over, or the process was killed: no handler of errors stops it."""


class Lines(logging.Handler):
    """Keeps what was logged, the latest thousand."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self.records.append(record)
        del self.records[:-1000]

    def text(self) -> str:
        """Return everything that was logged."""
        return "\n".join(
            f"{one.getMessage()} {json.dumps(getattr(one, 'fields', {}), default=str)}"
            for one in self.records
        )


def a_log() -> tuple[logging.Logger, Lines]:
    """Return a logger of its own, and what it was told."""
    log, lines = logging.Logger("watch"), Lines()
    log.addHandler(lines)
    return log, lines


def a_watch(
    site: Site,
    store: Store,
    clock: Moving,
    *,
    until: datetime | None = None,
    **changes: object,
) -> Watch:
    """Return a watch in simulated time that ends with `Ended` when ``until`` has come."""

    def sleep(seconds: float) -> None:
        if until is not None and clock.at >= until:
            raise Ended
        clock.sleep(seconds)

    fields: dict[str, object] = {
        "driver": MemoryDriver(clock=clock),
        "probe": SimulatedProbe(clock),
        "clock": clock,
        "elapsed_s": clock.elapsed_s,
        "open_acting": open_acting_driver,
        "sleep": sleep,
        "log": a_log()[0],
        "holder": "here:1:1",
        "gone": lambda holder: True,
    }
    observers = changes.pop("observers", ())
    watch = Watch(site, store, **(fields | changes))  # type: ignore[arg-type]
    watch.observe(cast("Sequence[Observer]", observers))
    return watch

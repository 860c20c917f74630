"""The simulated file system: what it is made of, its state, and the conditions of one hour."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zlib import crc32

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from tests.incidents import physics
from tests.incidents.physics import Array
from tests.incidents.world import LogEntry, Site, Spec

Flags = NDArray[np.bool_]
Indices = NDArray[np.int64]

MDTS = 4
WRITER_FILES_PER_NODE = 64
"""Tasks a node, one file each (seeds 33)."""
PROBE_BYTES_PER_OST = 250e12 / 298
"""250 TB over 298 OSTs: at 260 MB/s an OST's share takes 54 minutes."""
PROBE_LIMIT_S = 50 * 60.0
"""Wall time that an hourly job may take: what is not done by then is unfinished."""
USER_BYTES_PER_S = 0.07 * physics.CAPACITY_BYTES / 86400
"""0.07 capacities a day and target (flash notes c and f)."""


def stream(seed: int, *names: object) -> Generator:
    """Return a generator of its own for one purpose, so that no draw depends on another."""
    return np.random.default_rng([seed, crc32(repr(names).encode())])


@dataclass(frozen=True, slots=True)
class System:
    """What does not change in a world.

    Attributes
    ----------
    osts
        All that there will ever be; those added later exist from their hour on.
    home
        Target to the number of its server.
    clients
        Names of the nodes that probes may run on; ``nodes`` of them at a time.
    """

    spec: Spec
    site: Site
    hours: int
    osts: int
    servers: int
    home: Indices
    clients: list[str]
    nodes: int
    base_osts: int

    @property
    def probe_streams(self) -> float:
        """Files that the hourly probe has open on each target."""
        return self.nodes * WRITER_FILES_PER_NODE / self.base_osts

    def name(self, ost: int) -> str:
        """Return the name of an OST."""
        return f"OST{ost:04X}"

    def names(self, which: Flags | Indices) -> list[str]:
        """Return the names of OSTs given as flags or numbers."""
        numbers = np.flatnonzero(which) if which.dtype == np.bool_ else which
        return [self.name(int(number)) for number in numbers]

    def server(self, number: int) -> str:
        """Return the name of an OSS."""
        return f"oss{number:03d}"

    def at(self, hour: float) -> datetime:
        """Return the time of an hour of the record, to the second."""
        return self.spec.start + timedelta(seconds=round(hour * 3600))


def make_system(spec: Spec, site: Site, added: int) -> System:
    """Return the file system of a spec, with room for targets that are added later."""
    osts = spec.osts + added
    # 2.5 GB/s a target of client bandwidth as at NERSC, or enough to saturate every target.
    per_ost = 2.5e9 if site.bound_by == "clients" else 28e9
    nodes = max(2, round(spec.osts * per_ost / physics.CLIENT_BYTES_PER_S))
    pool = nodes * 4 if site.bound_by == "clients" else nodes * 2
    return System(
        spec=spec,
        site=site,
        hours=spec.days * 24,
        osts=osts,
        servers=(osts + 1) // 2,
        home=np.arange(osts) // 2,
        clients=[f"nid{number:06d}" for number in range(1001, 1001 + pool)],
        nodes=nodes,
        base_osts=spec.osts,
    )


@dataclass(slots=True)
class State:
    """What one hour leaves to the next."""

    fullness: Array
    dose: Array
    closed_by_gate: Flags
    last_trim_hour: Array

    def copy(self) -> State:
        """Return a copy that later hours do not change."""
        return State(
            self.fullness.copy(),
            self.dose.copy(),
            self.closed_by_gate.copy(),
            self.last_trim_hour.copy(),
        )


@dataclass(slots=True)
class Conditions:
    """One hour as it is; mechanisms change what they are about.

    Attributes
    ----------
    user_write, user_read
        Bytes/s of users a target; ``streams`` are their open files there.
    random_share
        Of the drives' blocks, those whose data users overwrite in small pieces.
    fill
        Bytes that come to stay beyond the usual, a target and hour; negative: deleted.
    rate_limit
        Bytes/s that a target can do at all.
    parted
        Targets that nobody is connected to; of those ``still_given`` objects that were made
        before are given out, and what uses them hangs (observed on a running Lustre).
    serving
        Target to the server that has it now; ``up`` are the servers that run.
    rebooted
        Servers that were started anew in this hour: their counters begin again.
    recovery_s
        For which a probe of this hour stands still.
    client_factor
        Node to the share of its speed that is left; ``client_cost_s_per_byte`` comes on top.
    bad_checksums
        Transfers a byte that arrive damaged, a server.
    """

    hour: int
    exists: Flags
    user_write: Array
    user_read: Array
    streams: Array
    random_share: float
    fill: Array
    rate_limit: Array
    parted: Flags
    still_given: Flags
    read_only: Flags
    errors: Array
    missing_drives: Array
    rebuild: Array
    serving: Indices
    up: Flags
    rebooted: Flags
    recovery_s: float
    throttling: Flags
    thresholds: tuple[int, int, int]
    closed: Flags
    trim: bool
    untrimmed: Flags
    client_factor: Array
    client_cost_s_per_byte: float
    server_network: Array
    metadata_ops_per_s: Array
    metadata_streams: Array
    jobs: int
    checksums: bool
    bad_checksums: Array
    launch: str | None = None
    launch_problem: str | None = None
    workload_share: float = 1.0
    cached: bool = False
    texts: dict[str, str] = field(default_factory=dict)

    def use(self, which: Flags, write: float, read: float, streams: float) -> None:
        """Let users write and read on some targets, on top of what they do."""
        self.user_write = self.user_write + np.where(which, write, 0.0)
        self.user_read = self.user_read + np.where(which, read, 0.0)
        self.streams = self.streams + np.where(which, streams, 0.0)


@dataclass(slots=True)
class Weather:
    """All that is random and that no incident changes: drawn before anything happens.

    The same seed has the same weather with and without an incident, which is how the effect of
    one is known.
    """

    write: Array
    read: Array
    metadata: Array
    jobs: Indices
    probe: Array
    nodes: list[Indices]
    node: Array
    second: Array
    survey: Array
    network_test: Array
    cpu: Array
    minute: Array
    imbalance: Array
    reboots: dict[int, int]


def _wander(rng: Generator, shape: tuple[int, ...], lag_one: float, sigma: float) -> Array:
    """Return AR(1) noise along the first axis."""
    shocks = rng.standard_normal(shape) * sigma * np.sqrt(1 - lag_one**2)
    shocks[0] /= np.sqrt(1 - lag_one**2)
    for hour in range(1, shape[0]):
        shocks[hour] += lag_one * shocks[hour - 1]
    return shocks


def make_weather(system: System) -> Weather:
    """Return the noise of a world: users with a day and a week, probes, surveys, processors."""
    seed, hours, noise = system.spec.seed, system.hours, system.spec.noise
    clock = np.arange(hours)
    day = 1 + 0.35 * np.sin(2 * np.pi * (clock % 24 - 9) / 24)
    week = np.where(clock // 24 % 7 >= 5, 0.7, 1.1)
    rng = stream(seed, "users")
    total = np.exp(_wander(rng, (hours,), 0.8, 0.4)) * day * week
    each = np.exp(_wander(rng, (hours, system.osts), 0.6, 0.5)) / np.exp(0.125)
    reads = np.exp(_wander(rng, (hours, system.osts), 0.6, 0.5)) / np.exp(0.125)
    operations = np.exp(_wander(rng, (hours, MDTS), 0.6, 0.4)) * (day * week)[:, None]
    rng = stream(seed, "probes")
    # 4.7 % within a window as measured (seeds 37), of which a part lasts for hours.
    probe = _wander(rng, (hours,), 0.6, 0.026 * noise)
    probe += rng.standard_normal(hours) * 0.03 * noise
    dips = np.where(rng.random(hours) < 0.008, -rng.uniform(0.04, 0.14, hours), 0.0)
    nodes = [np.sort(rng.choice(len(system.clients), system.nodes, replace=False)) for _ in clock]
    return Weather(
        write=USER_BYTES_PER_S * total[:, None] * each,
        read=2 * USER_BYTES_PER_S * total[:, None] * reads,
        metadata=3000.0 * operations,
        jobs=rng.poisson(40 * np.clip(total, 0.2, 4)),
        probe=probe + dips * noise,
        nodes=nodes,
        node=rng.standard_normal((hours, len(system.clients))) * 0.008 * noise,
        second=rng.standard_normal((hours, 4)) * 0.035 * noise,
        survey=rng.standard_normal((system.spec.days, system.osts, 2)) * 0.03 * noise,
        network_test=rng.standard_normal((hours, 2)) * 0.015 * noise,
        cpu=np.abs(rng.standard_normal((hours, system.servers + 2))) * 0.012 + 0.035,
        minute=rng.uniform(0.04, 0.10, hours),
        imbalance=rng.standard_normal((hours, system.osts)) * 0.01,
        reboots=_reboots(system),
    )


def _reboots(system: System) -> dict[int, int]:
    """Return hours in which a server was started anew between two probes, and which one."""
    rng = stream(system.spec.seed, "reboots")
    if not system.spec.confounders:
        return {}
    count = rng.poisson(system.spec.days / 20)
    hours = rng.integers(24, max(25, system.hours), count)
    return {int(hour): int(rng.integers(system.base_osts // 2)) for hour in hours}


def first_state(system: System) -> State:
    """Return the file system at the start of the record, trimmed the night before."""
    rng = stream(system.spec.seed, "fullness")
    spread = rng.standard_normal(system.osts) * system.site.fullness_spread
    never = system.site.trim_every_h is None
    new = np.arange(system.osts) >= system.base_osts
    return State(
        fullness=np.where(new, 0.001, np.clip(system.site.fullness + spread, 0.02, 0.985)),
        dose=np.where(new, 0.0, 2.1 if never else 0.05),
        closed_by_gate=np.zeros(system.osts, dtype=bool),
        last_trim_hour=np.full(system.osts, np.nan if never else -20.0),
    )


def calm(system: System, weather: Weather, hour: int) -> Conditions:
    """Return an hour in which nothing is wrong."""
    osts, servers, site = system.osts, system.servers, system.site
    no = np.zeros(osts)
    every = site.trim_every_h
    rebooted = np.zeros(servers, dtype=bool)
    if hour in weather.reboots:
        rebooted[weather.reboots[hour]] = True
    return Conditions(
        hour=hour,
        exists=np.arange(osts) < system.base_osts,
        user_write=weather.write[hour].copy(),
        user_read=weather.read[hour].copy(),
        streams=np.full(osts, 2.0),
        random_share=site.random_share,
        fill=no.copy(),
        rate_limit=np.full(osts, np.inf),
        parted=np.zeros(osts, dtype=bool),
        still_given=np.zeros(osts, dtype=bool),
        read_only=np.zeros(osts, dtype=bool),
        errors=no.copy(),
        missing_drives=no.copy(),
        rebuild=no.copy(),
        serving=system.home.copy(),
        up=np.ones(servers, dtype=bool),
        rebooted=rebooted,
        recovery_s=0.0,
        throttling=np.full(osts, site.writeback_throttling),
        thresholds=site.thresholds,
        closed=np.zeros(osts, dtype=bool),
        trim=every is not None and (hour - 2) % every == 0,
        untrimmed=np.zeros(osts, dtype=bool),
        client_factor=np.ones(len(system.clients)),
        client_cost_s_per_byte=physics.CHECKSUM_S_PER_BYTE if site.checksums else 0.0,
        server_network=np.ones(servers),
        metadata_ops_per_s=weather.metadata[hour].copy(),
        metadata_streams=np.full(MDTS, 8.0),
        jobs=int(weather.jobs[hour]),
        checksums=site.checksums,
        bad_checksums=np.zeros(servers),
    )


@dataclass(slots=True)
class Book:
    """The log book while it is written; ``of_incident`` lines are left out where Spec says so."""

    system: System
    entries: list[LogEntry] = field(default_factory=list)

    def write(
        self,
        kind: str,
        hour: float,
        detail: str,
        *,
        until: float | None = None,
        targets: list[str] | None = None,
        source: str = "person",
        of_incident: bool = False,
    ) -> None:
        """Add a line, unless it belongs to an incident that nobody wrote down."""
        if (of_incident and not self.system.spec.log_book) or not 0 <= hour < self.system.hours:
            return
        self.entries.append(
            LogEntry(
                kind=kind,
                at=self.system.at(hour),
                until=None if until is None else self.system.at(until),
                targets=targets or [],
                detail=detail,
                source=source,
            )
        )

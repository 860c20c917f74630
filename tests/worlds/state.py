"""What the site is like in every hour: the state that faults change and instruments measure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from tests.worlds.site import Site, server, stream, target

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
FULLEST = 0.995


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log book as it happened; ``lag_h``: how much later it was written down.

    ``of`` is the name of the fault that it tells of; ``sure`` lines survive every way to keep the
    book.
    """

    kind: str
    hour: float
    detail: str
    of: str | None = None
    until: float | None = None
    targets: tuple[int, ...] = ()
    source: str = "person"
    lag_h: float = 0.0
    sure: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Runs that end otherwise than they would: each with a probability, in these hours."""

    begin: float
    end: float
    share: float
    status: str
    problem: str | None
    probes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SlowNode:
    """A compute node that slows every run that gets it."""

    begin: float
    end: float
    node: int
    factor: float


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes that the probes run on from an hour on, and what they do to clients' speed."""

    hour: float
    first_node: int
    size: int
    write: float = 1.0
    read: float = 1.0


@dataclass(slots=True)
class State:
    """Arrays of one value an hour (H), and a target (T), server (S) or MDT (M).

    Attributes
    ----------
    client_write, client_read, client_metadata
        H: factors on what a client does.
    fabric
        H: factor on the clients' network.
    server_network, server_speed
        H x S: factors on the network of a server and on all that it processes.
    target_write, target_read
        H x T: factors on a target's arrays and drives.
    users_write, users_read
        H x T: bytes/s of other jobs.
    operations
        H x M: metadata operations/s of other jobs.
    full
        H x T: fraction of the capacity.
    collecting
        H x T: factor on write amplification.
    spread
        H: additional scatter of the logarithm of a run.
    settings
        Hour, whose (``clients``, ``servers``, ``targets``, ``mdts`` or one name), name, value.
    """

    site: Site
    client_write: Array
    client_read: Array
    client_metadata: Array
    fabric: Array
    server_network: Array
    server_speed: Array
    target_write: Array
    target_read: Array
    users_write: Array
    users_read: Array
    operations: Array
    jobs: Array
    full: Array
    open: Flags
    serving: NDArray[np.int64]
    up: Flags
    rebooted: Flags
    missing_drives: Array
    media_errors: Array
    connected: Flags
    read_only: Flags
    trimmed: Flags
    collecting: Array
    throttled: Flags
    loops: Array
    network_errors: Array
    checksum_errors: Array
    spread: Array
    no_runs: Flags
    no_snapshots: Flags
    mismatch: Array
    cached: Array
    settings: list[tuple[float, str, str, str]] = field(default_factory=list)
    log: list[Line] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    slow_nodes: list[SlowNode] = field(default_factory=list)
    pools: list[Pool] = field(default_factory=list)

    def hours(self, begin: float, end: float | None) -> slice:
        """Return the hours of a stretch, at least one; ``None``: to the end of the record."""
        first = int(np.clip(begin, 0, self.site.hours - 1))
        last = self.site.hours if end is None else int(np.ceil(np.clip(end, 0, self.site.hours)))
        return slice(first, max(last, first + 1))

    def move(self, pool: Pool, until: float | None) -> None:
        """Let probes run on a pool until an hour, whatever else would have moved them then."""
        last = self.site.hours if until is None else until
        back = self.pool_at(pool.hour)
        self.pools = [other for other in self.pools if not pool.hour <= other.hour <= last]
        self.pools.append(pool)
        if until is not None:
            self.pools.append(replace(back, hour=until))

    def pool_at(self, hour: float) -> Pool:
        """Return the nodes that probes run on at an hour."""
        return max((pool for pool in self.pools if pool.hour <= hour), key=lambda pool: pool.hour)


def base_state(site: Site) -> State:
    """Return the state of a site to which nothing happens but its rhythm, trims and purges."""
    hours, targets, servers = site.hours, site.osts, site.servers
    each_hour, each_target = partial(np.ones, hours), partial(np.ones, (hours, targets))
    load, per_target = _load(site)
    rng = stream("state", site.seed, site.name)
    full = _fullness(site, rng)
    jobs = np.round(load / site.load * rng.uniform(40, 400) * np.exp(rng.normal(0, 0.1, hours)))
    state = State(
        site=site, client_write=each_hour(), client_read=each_hour(), client_metadata=each_hour(),
        fabric=each_hour(), server_network=np.ones((hours, servers)),
        server_speed=np.ones((hours, servers)),
        target_write=each_target(), target_read=each_target(),
        users_write=load[:, None] * per_target * site.target_write,
        users_read=load[:, None] * per_target * site.target_read * rng.uniform(0.8, 2.0),
        operations=load[:, None] / site.load * rng.uniform(2e3, 9e3, site.mdts), jobs=jobs,
        full=full, open=each_target(dtype=bool),
        serving=np.tile(site.home, (hours, 1)), up=np.ones((hours, servers), bool),
        rebooted=np.zeros((hours, servers), bool), missing_drives=np.zeros((hours, targets)),
        media_errors=np.zeros((hours, targets)), connected=each_target(dtype=bool),
        read_only=np.zeros((hours, targets), bool), trimmed=_trims(site, rng),
        collecting=each_target(), throttled=np.zeros((hours, targets), bool),
        loops=np.full((hours, targets), 1e-7),
        network_errors=rng.poisson(0.02, (hours, servers)).astype(float),
        checksum_errors=np.zeros((hours, servers)), spread=np.zeros(hours),
        no_runs=np.zeros(hours, bool), no_snapshots=np.zeros(hours, bool),
        mismatch=each_hour(), cached=np.zeros(hours),
        pools=[Pool(0.0, 20, max(64, 3 * site.main.nodes))],
    )  # fmt: skip
    _live(state)
    return state


def settle(state: State) -> None:
    """Make what faults left agree: bounds of fullness, and bytes behind every growth of it."""
    np.clip(state.full, 0.01, FULLEST, out=state.full)
    growth = np.diff(state.full, axis=0, prepend=state.full[:1])
    needed = np.maximum(growth, 0) * state.site.capacity_bytes / 3600
    np.maximum(state.users_write, 1.05 * needed, out=state.users_write)
    state.serving[~state.connected] = -1
    state.settings.sort(key=lambda change: change[0])
    state.log.sort(key=lambda line: line.hour)


def _load(site: Site) -> tuple[Array, Array]:
    rng = stream("load", site.seed, site.name)
    hour = np.arange(site.hours) + site.start.hour
    day = hour // 24 + site.start.weekday()
    load = site.load * (1 + site.rhythm * np.cos(2 * np.pi * (hour - 15) / 24))
    load *= np.where(day % 7 >= 5, site.weekend, 1.0)
    for begin, end in site.holidays:
        load[int(begin) : int(end)] *= 0.15
    load *= np.exp(_wander(rng, site.hours, 6) * 0.2)
    return load, np.exp(rng.normal(0, 0.15, site.osts))


def _wander(rng: np.random.Generator, hours: int, lasting_h: float) -> Array:
    """Return noise of variance 1 that forgets itself in so many hours."""
    steps = rng.normal(size=hours + int(8 * lasting_h))
    weights = np.exp(-np.arange(int(8 * lasting_h)) / lasting_h)
    series = np.convolve(steps, weights / np.sqrt((weights**2).sum()), "valid")[:hours]
    return series.astype(np.float64)


def _fullness(site: Site, rng: np.random.Generator) -> Array:
    hour = np.arange(site.hours)
    mean = site.fullness + site.fill_per_day * hour / 24 + 0.006 * _wander(rng, site.hours, 150)
    if site.purge_every_h:
        phase = ((hour + rng.integers(site.purge_every_h)) % site.purge_every_h).astype(float)
        mean += (phase / site.purge_every_h - 0.5) * (0.02 if site.purge_every_h > 24 else 0.004)
    return mean[:, None] + rng.normal(0, 0.008, site.osts)


def _trims(site: Site, rng: np.random.Generator) -> Flags:
    first = int(rng.integers(24))
    trimmed = np.zeros((site.hours, site.osts), bool)
    trimmed[first % site.trim_every_h :: site.trim_every_h] = True
    return trimmed


def _live(state: State) -> None:
    """Let the site live: maintenance, gaps, reboots, and lines of machines in the log book."""
    site, rng = state.site, stream("life", state.site.seed, state.site.name)
    for begin, end in site.maintenance:
        away = state.hours(begin, end)
        state.no_runs[away] = True
        state.no_snapshots[away] = rng.random() < 0.5
        state.rebooted[away.stop - 1] = rng.random(site.servers) < 0.7
        state.users_write[away] *= 0.05
        state.users_read[away] *= 0.05
        state.jobs[away] = 0
        if rng.random() < 0.8:
            detail = str(rng.choice(["maintenance", "planned maintenance", "downtime, firmware"]))
            state.log.append(Line("note", begin, detail, until=end))
    for begin, end in site.gaps:
        state.no_runs[state.hours(begin, end)] = True
    for begin, end in site.snapshot_gaps:
        state.no_snapshots[state.hours(begin, end)] = True
    if site.journal:
        state.log += [
            Line("trim", float(hour), "fstrim", source="journal")
            for hour in np.flatnonzero(state.trimmed.any(axis=1)).tolist()
        ]
    if site.purge_every_h > 24 and rng.random() < 0.7:
        drops = np.flatnonzero(np.diff(state.full.mean(axis=1)) < -0.012).tolist()
        state.log += [
            Line("purge", float(hour), "weekly purge of scratch", until=hour + 3.0, source="purge")
            for hour in drops
        ]
    if site.busy:
        innocents(state, rng)


def innocents(state: State, rng: np.random.Generator) -> None:
    """Let things happen that slow nothing: jobs, changes, reboots, moved probes, remarks."""
    weeks = state.site.hours / 168
    for _ in range(rng.poisson(0.8 * weeks)):
        happen(state, rng, float(rng.uniform(0, state.site.hours - 8)))


def happen(state: State, rng: np.random.Generator, hour: float) -> None:
    """Let one innocent thing happen at an hour."""
    site = state.site
    match int(rng.integers(6)):
        case 0:  # a job that the site notices and its probes do not
            job = state.hours(hour, hour + float(rng.uniform(3, 30)))
            amount = 0.05 if site.share < 1 else 0.02
            state.users_write[job] += amount * site.target_write * rng.uniform(0.4, 1)
            state.users_read[job] += amount * site.target_write * rng.uniform(0.2, 1)
            state.jobs[job] += 1
        case 1:
            whose, name, values = HARMLESS[rng.integers(len(HARMLESS))]
            state.settings.append((hour, whose, name, str(rng.choice(values))))
            if rng.random() < 0.4:
                state.log.append(Line("config-change", hour, f"{name} set on {whose}"))
        case 2:
            number = int(rng.integers(site.servers))
            state.rebooted[int(hour), number] = True
            if rng.random() < 0.5:
                state.log.append(Line("note", hour, f"{server(number)} rebooted, kernel messages"))
        case 3:
            first = int(20 + 64 * rng.integers(1, 6))
            state.pools.append(Pool(hour, first, max(64, 3 * site.main.nodes)))
        case 4:
            ost = int(rng.integers(site.osts))
            state.media_errors[int(hour) :, ost] += 1
            if rng.random() < 0.3:
                state.log.append(Line("note", hour, f"media error on a drive of {target(ost)}"))
        case _:
            state.log.append(Line("note", hour, str(rng.choice(REMARKS))))


HARMLESS = (
    ("mdts", "lod/qos_prio_free", ("90%", "91%", "88%")),
    ("mdts", "lod/qos_threshold_rr", ("17%", "16%", "20%")),
    ("servers", "panic_on_lbug", ("0", "1")),
    ("clients", "debug_mb", ("64", "128", "512")),
    ("clients", "statahead_max", ("32", "64", "128")),
    ("targets", "obdfilter/soft_sync_limit", ("8", "16", "32")),
    ("targets", "obdfilter/job_cleanup_interval", ("600", "1200", "3600")),
)
REMARKS = (
    "new user accounts for the summer school", "monitoring moved to another host",
    "cabling of the new racks begins", "quota of project raised", "backup of the MDTs verified",
    "login node replaced", "certificates renewed", "user asks why his job waits",
    "cooling water 2 degrees warmer for an hour", "Slurm updated", "power meter replaced",
)  # fmt: skip

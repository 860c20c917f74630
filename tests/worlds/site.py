"""A site that is drawn from a seed, and its hours before anything goes wrong.

The rules are of effects, not of mechanisms: what an instrument shows is drawn as people have
reported it. `tests.incidents` simulates mechanisms; neither knows of the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from zlib import crc32

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
START = datetime(2025, 1, 6, tzinfo=UTC)
"""A Monday."""
SELDOM_THERE = (
    "concurrent_jobs", "free_extent_mean_bytes", "drive_percentage_used", "inodes_free",
    "last_trim_at", "bytes_discarded_total", "drive_write_amplification", "server_cpu_fraction",
    "network_bytes_total", "allocator_useless_loops_total", "client_bytes_read_total",
    "metadata_operations_total", "checksum_errors_total", "bytes_written_total",
)  # fmt: skip
"""Each is missing at a quarter of the sites."""


def stream(seed: int, *names: object) -> Generator:
    """Return a generator for one purpose, so that no draw depends on another."""
    return np.random.default_rng([seed, crc32(repr(names).encode())])


@dataclass(frozen=True)
class Site:
    """What is fixed at a site.

    Attributes
    ----------
    probe_every_h
        Between two runs of the main probe; ``second_every_h`` of the other one, 0: none.
    headroom
        What the targets carry together over what the probe's nodes ask for.
    sigma, phi
        Scatter of log bandwidth from run to run, and its correlation from hour to hour.
    unfinished
        Share of runs that do not finish though nothing is wrong.
    snapshot_every_h
        0: the site has runs and a log book only, as an imported record has.
    log
        ``kept``: people write down most of what they do; ``some``: one event in all, as an import
        leaves it; ``none``.
    journal
        Whether trims and closings write themselves down.
    missing
        Telemetry names that this site does not collect; ``settings`` is one.
    """

    seed: int
    hours: int
    osts: int
    mdts: int
    pool: int
    nodes: int
    flash: bool
    probe_every_h: int
    second: str
    second_every_h: int
    network_every_h: int
    survey_every_h: int
    headroom: float
    sigma: float
    phi: float
    unfinished: float
    snapshot_every_h: int
    snapshots_from_h: int
    trim_every_h: int
    log: str
    journal: bool
    missing: frozenset[str]
    old_allocator: bool
    checksums: bool
    fullness: float
    start: datetime = START

    @property
    def servers(self) -> int:
        """Number of OSS; two targets each."""
        return (self.osts + 1) // 2

    def at(self, hour: float) -> datetime:
        """Return the time of an hour of the record."""
        return self.start + timedelta(seconds=round(hour * 3600))

    def ost(self, number: int) -> str:
        """Return the name of a target."""
        return f"OST{number:04x}"

    def server(self, number: int) -> str:
        """Return the name of a server."""
        return f"oss{number + 1:02d}"


def draw_site(seed: int) -> Site:
    """Return the site of a seed."""
    rng = stream(seed, "site")
    days = float(
        rng.uniform(
            *((20, 45), (45, 120), (120, 365), (365, 1095))[
                rng.choice(4, p=(0.35, 0.4, 0.17, 0.08))
            ]
        )
    )
    every = int(rng.choice((1, 2, 3, 4, 6, 12), p=(0.4, 0.15, 0.15, 0.1, 0.15, 0.05)))
    if days > 200:
        every = max(every, 3)
    flash = bool(rng.random() < 0.85)
    imported = bool(rng.random() < 0.12)
    snapshots = 0 if imported else int(rng.choice((1, 4, 6, 12, 24), p=(0.2, 0.5, 0.1, 0.1, 0.1)))
    hours = int(days * 24)
    late = not imported and (days > 200 or rng.random() < 0.15)
    missing = {name for name in SELDOM_THERE if rng.random() < 0.25}
    if rng.random() < 0.15:
        missing.add("settings")
    if stream(seed, "LNet").random() < 0.4:
        missing.add("network_errors_total")
    pool = int(rng.choice((4, 16, 16, 40)))
    return Site(
        seed=seed,
        hours=hours,
        osts=int(rng.choice((8, 12, 16, 24, 40), p=(0.2, 0.2, 0.3, 0.2, 0.1))),
        mdts=int(rng.choice((1, 2, 4))),
        pool=pool,
        nodes={4: 2, 16: 10, 40: 16}[pool] if rng.random() < 0.7 else pool,
        flash=flash,
        probe_every_h=every,
        second=str(rng.choice(("mdtest", "fio", ""), p=(0.5, 0.2, 0.3))),
        second_every_h=max(6, 2 * every),
        network_every_h=0 if rng.random() < 0.6 else 12,
        survey_every_h=0 if imported else int(rng.choice((24, 168, 0), p=(0.45, 0.2, 0.35))),
        headroom=float(rng.uniform(1.0, 1.4) if rng.random() < 0.45 else rng.uniform(1.4, 6.0)),
        sigma=float(rng.uniform(0.02, 0.09)),
        phi=float(rng.uniform(0.0, 0.6)),
        unfinished=float(rng.choice((0.0, 0.001, 0.003, 0.008))),
        snapshot_every_h=snapshots,
        snapshots_from_h=int(hours * rng.uniform(0.2, 0.6)) if late else 0,
        trim_every_h=int(rng.choice((24, 168, 0), p=(0.5, 0.25, 0.25))) if flash else 0,
        log="some" if imported else str(rng.choice(("kept", "some", "none"), p=(0.6, 0.1, 0.3))),
        journal=bool(rng.random() < 0.4),
        missing=frozenset(missing),
        old_allocator=bool(rng.random() < 0.5),
        checksums=bool(rng.random() < 0.5),
        fullness=float(rng.uniform(0.76, 0.84) if rng.random() < 0.12 else rng.uniform(0.4, 0.70)),
    )


@dataclass
class Hours:
    """The state of every hour: an item an hour, target, server, MDT or node."""

    site: Site
    write: Array
    read: Array
    client_write: Array
    client_read: Array
    probe: Array
    node: Array
    network: Array
    fullness: Array
    user_write: Array
    user_read: Array
    closed: Flags
    parted: Flags
    read_only: Flags
    degraded: Flags
    throttled_s: Array
    thresholds: NDArray[np.int64]
    network_errors: Array
    loops: Array
    amplification: Array
    tail: Array
    cpu: Array
    operations: Array
    metadata: Array
    serving: NDArray[np.int64]
    up: Flags
    reboot: Flags
    bad_checksums: Array
    launch: NDArray[np.int64]
    bytes_share: Array
    nodes_used: NDArray[np.int64]
    cached: Flags
    hangs: Flags
    trim: Flags
    jobs: Array
    dark: Flags
    settings: list[tuple[str, int, int, str, str]] = field(default_factory=list)
    log: list[dict[str, Any]] = field(default_factory=list)

    def write_down(self, kind: str, hour: float, detail: str, **more: Any) -> None:
        """Write a line into the log book where the site has one that holds it."""
        source = more.pop("source", "person")
        if source == "person" and self.site.log == "none":
            return
        if source != "person" and not self.site.journal:
            return
        if not 0 <= hour < self.site.hours:
            return
        self.log.append({
            "kind": kind, "at": self.site.at(hour), "until": more.get("until"),
            "targets": more.get("targets", []), "detail": detail, "source": source,
        })  # fmt: skip

    def clean(self) -> dict[str, Array]:
        """Return what the instruments would show without noise, over what is usual."""
        site = self.site
        lost = self.closed | self.parted
        open_now = np.maximum((~lost).sum(axis=1), 1)
        result = {}
        for name, target, client in (
            ("write_bandwidth", self.write, self.client_write),
            ("read_bandwidth", self.read, self.client_read),
        ):
            seen = np.where(lost, np.inf, target) if name == "write_bandwidth" else target
            carried = site.headroom * np.min(seen, axis=1) * self.network.min(axis=1)
            if name == "write_bandwidth":
                carried = carried * open_now / site.osts
            ask = self.probe * client * np.minimum(1.0, self.network.mean(axis=1) * 1.2)
            # A fourth-power mean: near the corner both are felt.
            both = (ask**-4.0 + np.maximum(carried, 1e-6) ** -4.0) ** -0.25
            result[name] = both / (1 + site.headroom**-4.0) ** -0.25
        result["metadata"] = self.metadata.min(axis=1)
        return result


def wander(rng: Generator, shape: tuple[int, ...], phi: float, sigma: float) -> Array:
    """Return AR(1) noise along the first axis."""
    shocks = rng.standard_normal(shape) * sigma
    scale = np.sqrt(1 - phi**2)
    for hour in range(1, shape[0]):
        shocks[hour] = phi * shocks[hour - 1] + scale * shocks[hour]
    return shocks


def calm_hours(site: Site) -> Hours:
    """Return the hours of a site at which nothing is wrong: with its days, purges and visitors."""
    h, o, s, m = site.hours, site.osts, site.servers, site.mdts
    rng = stream(site.seed, "calm")
    clock = np.arange(h)
    rhythm = (1 + 0.4 * np.sin(2 * np.pi * (clock % 24 - 9) / 24)) * np.where(
        clock // 24 % 7 >= 5, 0.6, 1.1
    )
    busy = np.exp(wander(rng, (h,), 0.85, 0.5)) * rhythm
    for _ in range(rng.poisson(h / 24 / 10)):
        # Somebody's large job: nothing that a probe notices much.
        begin = int(rng.integers(h))
        busy[begin : begin + int(rng.integers(2, 20))] *= rng.uniform(2, 4)
    spread = rng.standard_normal(o) * 0.02
    grown = np.cumsum(np.where(clock % 168 == 150, -0.021, 0.000125)) * rng.uniform(0.3, 2)
    fullness = np.clip(site.fullness + spread[None] + grown[:, None], 0.02, 0.9)
    each = np.exp(wander(rng, (h, o), 0.6, 0.4))
    trim = np.zeros((h, o), dtype=bool)
    if site.trim_every_h:
        trim[clock % site.trim_every_h == 2] = True
    reboot = rng.random((h, s)) < 1 / (24 * 60)
    dark = np.zeros(h, dtype=bool)
    for _ in range(rng.poisson(h / 24 / 60)):
        begin = int(rng.integers(h))
        dark[begin : begin + int(rng.integers(12, 96))] = True
    one = np.ones
    return Hours(
        site=site, write=one((h, o)), read=one((h, o)), client_write=one(h), client_read=one(h),
        probe=one(h), node=one((h, site.pool)), network=one((h, s)), fullness=fullness,
        user_write=1.1e8 * busy[:, None] * each, user_read=2e8 * busy[:, None] * each[:, ::-1],
        network_errors=0.1 + 40.0 * reboot.max(axis=1, keepdims=True) * one((h, s)),
        closed=np.zeros((h, o), bool), parted=np.zeros((h, o), bool),
        read_only=np.zeros((h, o), bool), degraded=np.zeros((h, o), bool),
        throttled_s=np.full(h, 0.0 if rng.random() < 0.8 else 0.002),
        thresholds=np.zeros(h, np.int64), loops=np.full((h, o), 1e-4),
        amplification=rng.uniform(1.1, 1.7) + 0.05 * np.abs(wander(rng, (h, o), 0.8, 1.0)),
        tail=one(h), cpu=np.clip(0.1 + 0.05 * np.abs(wander(rng, (h, s), 0.7, 1.0)), 0, 1),
        operations=4000 * np.exp(wander(rng, (h, m), 0.7, 0.6)) * rhythm[:, None],
        metadata=one((h, m)), serving=np.tile(np.arange(o) // 2, (h, 1)),
        up=np.ones((h, s), bool), reboot=reboot, bad_checksums=np.zeros((h, s)),
        launch=np.zeros(h, np.int64), bytes_share=one(h),
        nodes_used=np.full(h, site.nodes, np.int64), cached=np.zeros(h, bool),
        hangs=np.zeros(h, bool), trim=trim,
        jobs=np.round(30 * np.clip(busy, 0.2, 4) + rng.poisson(4, h)), dark=dark,
    )  # fmt: skip

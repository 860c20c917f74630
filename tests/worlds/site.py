"""How a site is built and run: drawn once a world, before anything goes wrong in it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

import numpy as np
from tests.worlds.world import SiteFacts

MIB = 2**20
TB = 1e12
Interval = tuple[float, float]
"""Begin and end, hours since the start of the record."""
LogBook = Literal["kept", "one-line", "none", "unrelated", "late", "wrong-hour"]


def stream(*purpose: object) -> np.random.Generator:
    """Return the random numbers of one purpose: those of another never change them."""
    digest = hashlib.blake2b(repr(purpose).encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


@dataclass(frozen=True, slots=True)
class Probe:
    """One scheduled benchmark.

    Attributes
    ----------
    kind
        ``ior`` writes and reads on all open targets, ``fio`` on four from one node; ``mdtest``
        creates, stats and removes files; ``lnet_selftest`` measures the network alone.
    burst
        Runs of one occasion, five minutes apart.
    per_node
        Factor on the speed of a node: series of one site that differ by one setting.
    """

    name: str
    kind: str
    every_h: float
    first_h: float
    burst: int
    nodes: int
    tasks: int
    per_node: float = 1.0


@dataclass(frozen=True, slots=True)
class Site:
    """A file system and the way it is run.

    Attributes
    ----------
    share
        What the main probe's clients can move over what all targets can: the probe is bound by
        its clients well under 1, by the servers over 1.
    sigma, phi, dof
        Scatter of the logarithm of a run, correlation of neighbouring runs, and degrees of freedom
        of Student's t that it is drawn from.
    dip_rate, fail_rate, unfinished_rate
        Shares of runs that are slow, fail or do not end though nothing is wrong.
    second_type
        Speed of the second node type that half of the runs get; 1: there is none.
    roams
        Whether each run gets other nodes of the pool.
    load, rhythm, weekend
        Users' bytes as a share of the targets' speed; amplitude over the day; factor on weekends.
    margin
        Write amplification from which the drives and no longer the servers are the limit.
    missing
        Names that this site does not collect; also ``settings`` and ``hosts`` (of runs).
    busy
        Whether innocent things happen: big jobs, harmless changes, moved probes, reboots.
    """

    seed: int
    name: str
    start: datetime
    hours: int
    osts: int
    per_server: int
    mdts: int
    capacity_bytes: float
    target_write: float
    target_read: float
    share: float
    probes: tuple[Probe, ...]
    survey_every_h: int
    survey_sigma: float
    snapshot_every_h: int
    missing: frozenset[str]
    log_book: LogBook
    journal: bool
    sigma: float
    phi: float
    dof: float
    dip_rate: float
    fail_rate: float
    unfinished_rate: float
    second_type: float
    roams: bool
    load: float
    rhythm: float
    weekend: float
    fullness: float
    fill_per_day: float
    purge_every_h: int
    limit: float
    trim_every_h: int
    margin: float
    allocator: Literal["old", "new"]
    holidays: tuple[Interval, ...]
    maintenance: tuple[Interval, ...]
    gaps: tuple[Interval, ...]
    snapshot_gaps: tuple[Interval, ...]
    duplicates: float
    busy: bool

    @property
    def servers(self) -> int:
        """Number of OSSs."""
        return -(-self.osts // self.per_server)

    @property
    def main(self) -> Probe:
        """The probe that writes and reads on all targets."""
        return self.probes[0]

    @property
    def home(self) -> np.ndarray:
        """Server of each target when all is well."""
        return np.arange(self.osts) // self.per_server

    def at(self, hour: float) -> datetime:
        """Return the time of an hour, to the second."""
        return self.start + timedelta(seconds=round(hour * 3600))

    def quiet(self, hour: float, margin_h: float = 0.0) -> bool:
        """Return whether no runs are made around an hour: a maintenance or a gap."""
        return any(
            begin - margin_h <= hour < end + margin_h for begin, end in self.maintenance + self.gaps
        )

    def facts(self) -> SiteFacts:
        """Return what the people who run the site know."""
        return SiteFacts(
            name=self.name,
            limits={"fullness": self.limit, "cov": 0.08},
            home={target(ost): server(ost // self.per_server) for ost in range(self.osts)},
            clients=[client(0), client(1)],
            hardware={
                "drive_write_bytes_per_s": self.target_write / 9.6,
                "drive_read_bytes_per_s": self.target_read / 9.6,
                "drives_per_ost": 12.0, "osts": float(self.osts), "servers": float(self.servers),
                "parity_data": 8.0, "parity_parity": 2.0,
                "network_bytes_per_s": 1.5 * self.per_server * self.target_read,
                "client_network_bytes_per_s": 25e9,
            },
        )  # fmt: skip


def target(ost: int) -> str:
    """Return the name of a target."""
    return f"OST{ost:04X}"


def server(number: int) -> str:
    """Return the name of an object storage server."""
    return f"oss{number:03d}"


def client(number: int) -> str:
    """Return the name of a compute node."""
    return f"nid{number + 1000:06d}"


def draw_site(family: str, seed: int, *, days_least: int = 20, busy: bool = True) -> Site:
    """Return the site of a world, of at least so many days."""
    rng = stream("site", family, seed)
    days = int(np.exp(rng.uniform(np.log(max(24, days_least)), np.log(rng.choice([60, 120, 400])
               if days_least < 60 else 400))))  # fmt: skip
    probes = _probes(rng)
    hours = 24 * max(days, days_least, int(2 * probes[0].every_h))
    osts = int(rng.integers(8, 33))
    speed = rng.uniform(3e9, 12e9)
    clients_bind = rng.random() < 0.5
    trim_every_h = int(rng.choice([6, 12, 24, 24, 168]))
    fullness = float(rng.uniform(0.45, 0.70))
    books: list[LogBook] = ["kept", "kept", "one-line", "none", "unrelated", "late", "wrong-hour"]
    gaps = _stretches(rng, hours, int(rng.choice([0, 0, 1, 2])), (36, 24 * 12)) if busy else ()
    no_snapshots = _stretches(rng, hours, int(rng.choice([0, 0, 1, 3])), (8, 24 * 9))
    missing = {name for name in _OFTEN_MISSING if rng.random() < 0.12}
    return Site(
        seed=seed, name=f"{family}{seed}", hours=hours, osts=osts,
        start=datetime(2025, 1, 6, tzinfo=UTC) + timedelta(hours=int(rng.integers(0, 8000))),
        per_server=int(rng.choice([2, 2, 4])), mdts=int(rng.integers(1, 5)),
        capacity_bytes=float(round(rng.uniform(40, 140))) * TB,
        target_write=speed, target_read=speed * rng.uniform(1.0, 1.6),
        share=float(rng.uniform(0.2, 0.6) if clients_bind else rng.uniform(1.2, 2.0)),
        probes=probes, survey_every_h=int(rng.choice([24, 24, 168, 0])),
        survey_sigma=float(rng.uniform(0.03, 0.1)),
        snapshot_every_h=int(rng.choice([1, 1, 1, 1, 1, 2, 2, 4, 4, 4, 6, 6, 12, 24, 0])),
        missing=frozenset(missing), log_book=books[rng.integers(len(books))],
        journal=bool(rng.random() < 0.7),
        sigma=float(np.exp(rng.uniform(np.log(0.015), np.log(0.06)))),
        phi=float(rng.uniform(0, 0.8)), dof=float(rng.choice([3.5, 5, 8, 30])),
        dip_rate=float(rng.choice([0, 0.003, 0.01, 0.02])),
        fail_rate=float(rng.uniform(0, 0.01)), unfinished_rate=float(rng.choice([0, 0.002, 0.006])),
        second_type=float(rng.uniform(0.7, 0.9)) if busy and rng.random() < 0.12 else 1.0,
        roams=bool(rng.random() < 0.5), load=float(rng.uniform(0.01, 0.05)),
        rhythm=float(rng.uniform(0.1, 0.6)),
        weekend=float(rng.uniform(0.5, 1.0)), fullness=fullness,
        fill_per_day=float(rng.choice([0, 0, (0.73 - fullness) / (hours / 24) * rng.random()])),
        purge_every_h=int(rng.choice([0, 168, 168, 24])), limit=0.75,
        trim_every_h=trim_every_h, margin=float(rng.uniform(1.05, 1.35)),
        allocator="old" if rng.random() < 0.6 else "new",
        holidays=_stretches(rng, hours, int(rng.choice([0, 1, 2])), (96, 300)),
        maintenance=_maintenance(rng, hours), gaps=gaps, snapshot_gaps=no_snapshots,
        duplicates=float(rng.choice([0.0] * 10 + [0.02, 1.0])) if busy else 0.0, busy=busy,
    )  # fmt: skip


_OFTEN_MISSING = (
    "server_cpu_fraction", "concurrent_jobs", "drive_write_amplification", "last_trim_at",
    "allocator_useless_loops_total", "network_errors_total", "network_bytes_total",
    "failover_active", "free_extent_mean_bytes", "metadata_operations_total",
    "bytes_discarded_total", "settings", "hosts",
)  # fmt: skip


def _probes(rng: np.random.Generator) -> tuple[Probe, ...]:
    every = float(rng.choice([1, 1, 1, 1, 2, 3, 4, 6, 12, 24]))
    burst = 3 if every == 24 and rng.random() < 0.6 else 1
    nodes = int(rng.choice([4, 8, 16, 32]))
    first = float(rng.uniform(0, min(every, 6)))
    probes = [Probe("ior", "ior", every, first, burst, nodes, nodes * 32)]
    if rng.random() < 0.25:
        probes.append(Probe("ior-4m", "ior", max(every, 6), first + 0.4, 1, nodes, nodes * 8, 0.93))
    if rng.random() < 0.55:
        beat = float(rng.choice([3, 6, 12, 24]))
        probes.append(Probe("metadata", "mdtest", beat, 1 + float(rng.uniform(0, 2)), 1, 2, 64))
    if rng.random() < 0.35:
        probes.append(Probe("one-node", "fio", max(3.0, every), 0.7 + first, 1, 1, 16))
    if rng.random() < 0.35:
        beat = float(rng.choice([6, 12, 24]))
        probes.append(Probe("network", "lnet_selftest", beat, 2.2, 1, 16, 64))
    return tuple(probes)


def _stretches(
    rng: np.random.Generator, hours: int, count: int, length: tuple[int, int]
) -> tuple[Interval, ...]:
    """Return stretches that do not lie at the record's ends and take a sixth of it at most."""
    stretches = []
    for _ in range(count):
        size = min(float(rng.uniform(*length)), hours / 6)
        begin = float(rng.uniform(0.1, 0.85)) * (hours - size)
        stretches.append((begin, begin + size))
    return tuple(sorted(stretches))


def _maintenance(rng: np.random.Generator, hours: int) -> tuple[Interval, ...]:
    period = float(rng.choice([28, 42, 56])) * 24
    first = float(rng.uniform(5, 28)) * 24
    return tuple(
        (begin, begin + float(rng.uniform(5, 14)))
        for begin in np.arange(first, hours - 72, period).tolist()
    )

"""Which worlds explaining is scored on: every cause alone, pairs, quiet, standing, withheld.

Nothing is simulated here: each `Spec` is small, and `make_world` makes its world.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from numpy.random import Generator
from tests.incidents.generate import MECHANISMS
from tests.incidents.sites import site_for
from tests.incidents.system import stream
from tests.incidents.world import CAUSES, Cause, Incident, Spec

Sort = Literal["single", "pair", "quiet", "standing", "mitigation", "withheld"]

LENGTH_H: Final[dict[Cause, tuple[float, float]]] = {
    "targets-over-limit": (96, 240),
    "target-filling": (30, 72),
    "few-targets-open": (18, 72),
    "target-silent": (6, 36),
    "failover": (12, 60),
    "array-degraded": (18, 60),
    "trim-overdue": (120, 300),
    "garbage-collection": (72, 200),
    "writeback-throttling": (120, 300),
    "allocator-loops": (72, 240),
    "configuration-change": (240, 480),
    "competing-load": (4, 30),
    "metadata-load": (6, 40),
    "network": (6, 60),
    "client-node": (30, 120),
    "launch-failure": (4, 20),
    "workload-mismatch": (24, 200),
    "cached-read": (48, 240),
    "bad-checksums": (6, 72),
}
"""How long an incident goes on, at least and at most."""
LASTS: Final[frozenset[Cause]] = frozenset({
    "configuration-change", "writeback-throttling", "trim-overdue", "workload-mismatch",
    "allocator-loops",
})  # fmt: skip
"""What nobody takes back in one of two worlds."""
STANDING: Final[tuple[tuple[Cause, str], ...]] = (
    ("trim-overdue", "stopped"),
    ("writeback-throttling", "default"),
    ("allocator-loops", "thresholds"),
    ("targets-over-limit", "most"),
)

_TRAFFIC: Final = frozenset({
    "client_bytes_written_total", "client_bytes_read_total", "bytes_written_total",
    "bytes_read_total", "network_bytes_total", "server_cpu_fraction", "concurrent_jobs",
})  # fmt: skip
_SPACE: Final = frozenset({"capacity_bytes", "used_bytes", "available_bytes", "inodes_free"})
_DRIVES: Final = frozenset({
    "drive_write_amplification", "drive_percentage_used", "tails", "last_trim_at",
    "bytes_discarded_total",
})  # fmt: skip
WITHHELD: Final[dict[Cause, frozenset[str]]] = {
    "configuration-change": frozenset({"settings", "events"}),
    "competing-load": _TRAFFIC | {"surveys", "allocator_requests_total"},
    "network": frozenset({"lnet_selftest", "surveys", "events", "second"}) | _TRAFFIC,
    "client-node": frozenset({"hosts", "lnet_selftest", "surveys", "second"}) | _TRAFFIC,
    "metadata-load": _TRAFFIC | {"metadata_operations_total"},
    "garbage-collection": _DRIVES | {"events"},
    "trim-overdue": _DRIVES | {"events", "settings"},
    "targets-over-limit": _SPACE | _DRIVES | _TRAFFIC | {"free_extent_mean_bytes", "events"},
    "allocator-loops": frozenset({
        "allocator_useless_loops_total", "allocator_requests_total", "allocator_family",
        "allocator_groups_considered_total", "settings", "events", "profiles",
        "server_cpu_fraction", "free_extent_mean_bytes",
    }) | _SPACE,
    "launch-failure": frozenset({"problems", "events"}),
}  # fmt: skip
"""What has to be withheld so that nothing tells of a cause."""
_SELDOM_THERE: Final = (
    "concurrent_jobs", "free_extent_mean_bytes", "drive_percentage_used", "inodes_free",
)  # fmt: skip
"""What many sites do not have, and no cause rests on alone."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One world to be scored on, and what it is there for."""

    sort: Sort
    spec: Spec


def scenarios(seed: int, *, rounds: int = 2, pairs: int = 16, quiet: int = 6) -> list[Scenario]:
    """Return the scenarios of a seed; another seed gives others.

    Parameters
    ----------
    rounds
        How often each form of each cause is tried alone; strength and place differ.
    """
    found = [
        Scenario("single", _single(seed, cause, variant, number))
        for number in range(rounds)
        for cause in CAUSES
        for variant in MECHANISMS[cause].VARIANTS
    ]
    found += [Scenario("pair", _pair(seed, number)) for number in range(pairs)]
    found += [Scenario("quiet", _quiet(seed, number)) for number in range(quiet)]
    found += [Scenario("standing", _standing(seed, *which)) for which in STANDING]
    found += [Scenario("mitigation", _mitigation(seed, number)) for number in range(rounds)]
    found += [Scenario("withheld", _withheld(seed, cause)) for cause in WITHHELD]
    return found


def _spec(
    rng: Generator, name: str, incidents: tuple[Incident, ...], missing: frozenset[str]
) -> Spec:
    seldom = frozenset(str(one) for one in rng.choice(_SELDOM_THERE, rng.integers(0, 3), False))
    return Spec(
        seed=int(rng.integers(2**31)),
        incidents=incidents,
        noise=float(rng.uniform(0.7, 1.3)),
        missing=missing | seldom,
        # Three of ten incidents nobody wrote down; telemetry has to do.
        log_book=bool(rng.random() < 0.7),
        name=name,
    )


def _incident(
    rng: Generator, cause: Cause, variant: str, *, between: tuple[float, float] = (15.0, 24.0)
) -> Incident:
    length: float | None = float(rng.uniform(*LENGTH_H[cause]))
    if cause in LASTS and rng.random() < 0.5:
        length = None
    return Incident(
        cause=cause,
        start_day=float(rng.uniform(*between)),
        length_h=length,
        strength=float(rng.uniform(0.1, 1.0)),
        variant=variant,
    )


def _single(seed: int, cause: Cause, variant: str, number: int) -> Spec:
    name = f"single/{cause}/{variant}/{number}"
    rng = stream(seed, name)
    return _spec(rng, name, (_incident(rng, cause, variant),), frozenset())


def _pair(seed: int, number: int) -> Spec:
    """Return two causes, one after the other or at the same time."""
    rng = stream(seed, "pair", number)
    first, second = (CAUSES[index] for index in rng.choice(len(CAUSES), 2, replace=False))
    incidents = tuple(
        _incident(rng, cause, str(rng.choice(MECHANISMS[cause].VARIANTS)), between=between)
        for cause, between in ((first, (10.0, 16.0)), (second, (14.0, 26.0)))
    )
    return _spec(rng, f"pair/{first}+{second}/{number}", incidents, frozenset())


def _quiet(seed: int, number: int) -> Spec:
    rng = stream(seed, "quiet", number)
    spec = _spec(rng, f"quiet/{number}", (), frozenset())
    if number % 3 == 0:
        # Just under the limit, the weekly purge comes in time.
        site = replace(site_for(spec), fullness=0.725, fullness_spread=0.003)
        return replace(spec, site=site)
    return spec


def _standing(seed: int, cause: Cause, variant: str) -> Spec:
    name = f"standing/{cause}"
    rng = stream(seed, name)
    strength = float(rng.uniform(0.3, 1.0))
    incident = Incident(cause, -1.0, None, strength, variant)
    return _spec(rng, name, (incident,), frozenset())


def _mitigation(seed: int, number: int) -> Spec:
    name = f"mitigation/{number}"
    rng = stream(seed, name)
    return _spec(rng, name, (_incident(rng, "few-targets-open", "policy"),), frozenset())


def _withheld(seed: int, cause: Cause) -> Spec:
    name = f"withheld/{cause}"
    rng = stream(seed, name)
    variants = [one for one in MECHANISMS[cause].VARIANTS if one != "capacity-added"]
    incident = _incident(rng, cause, str(rng.choice(variants)))
    return _spec(rng, name, (incident,), WITHHELD[cause])

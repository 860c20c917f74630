"""Which file system an incident is put into: one in which some instrument can see it."""

from __future__ import annotations

from typing import Final

from numpy.random import Generator
from tests.incidents.system import stream
from tests.incidents.world import Cause, Site, Spec

SERVERS_BOUND: Final[frozenset[Cause]] = frozenset({
    "targets-over-limit", "array-degraded", "trim-overdue", "garbage-collection",
    "writeback-throttling",
})  # fmt: skip
"""What halves a target at most: a probe that its clients bind is blind to it."""


def site_for(spec: Spec) -> Site:
    """Return a site for the incidents of a spec, drawn from its seed."""
    rng = stream(spec.seed, "site")
    wanted: dict[str, object] = {
        "bound_by": "clients" if rng.random() < 0.6 else "servers",
        "allocator": "old" if rng.random() < 0.6 else "new",
        "fullness": float(rng.uniform(0.58, 0.68)),
        "trim_every_h": float(rng.choice([6.0, 12.0, 24.0])),
        "second": "fio" if rng.random() < 0.5 else "mdtest",
        "lnet_selftest": bool(rng.random() < 0.7),
        "profiles": bool(rng.random() < 0.4),
        "drive_telemetry": "interval" if rng.random() < 0.8 else "lifetime",
        "checksums": bool(rng.random() < 0.3),
    }
    for incident in spec.incidents:
        wanted |= _wants(incident.cause, incident.variant, incident.strength, rng)
        if incident.start_day < 0:
            wanted |= _standing(incident.cause, incident.variant)
    later = {one.cause for one in spec.incidents if one.start_day >= 0}
    if "trim-overdue" in later or "garbage-collection" in later:
        # Neither is anything new where nobody ever trimmed.
        wanted["trim_every_h"] = wanted["trim_every_h"] or 24.0
    if any(
        one.cause == "configuration-change" and one.variant != "capacity-added"
        for one in spec.incidents
    ):
        # What costs clients time is seen by a probe that they bind, and by no other.
        wanted["bound_by"] = "clients"
    return Site(**wanted)  # pyrefly: ignore[bad-argument-type]


def _wants(cause: Cause, variant: str | None, strength: float, rng: Generator) -> dict[str, object]:
    found: dict[str, object] = {}
    if cause in SERVERS_BOUND and rng.random() < 0.75:
        found["bound_by"] = "servers"
    if cause == "allocator-loops":
        return found | _for_loops(variant, strength, rng)
    if cause == "configuration-change":
        return found | _for_change(variant, rng)
    if cause == "writeback-throttling":
        return found | _for_throttling(strength, rng)
    policy = variant == "policy"
    by_cause: dict[Cause, dict[str, object]] = {
        "targets-over-limit": {"fullness": float(rng.uniform(0.64, 0.70)), "trim_every_h": 24.0},
        "target-filling": {"weighted_placement": bool(rng.random() < 0.4)},
        "few-targets-open": {
            "gate": policy,
            "open_at_least": 3 if strength < 0.5 else 2,
            "fullness": 0.685,
            "fullness_spread": 0.006,
        },
        "trim-overdue": {"fullness": 0.715 + 0.03 * strength, "trim_every_h": 6.0},
        "garbage-collection": {
            "fullness": float(rng.uniform(0.66, 0.71)),
            "trim_every_h": 24.0,
            "second": "fio",
        },
        "metadata-load": {"second": "mdtest"},
        "bad-checksums": {"checksums": True},
    }
    return found | by_cause.get(cause, {})


def _for_loops(variant: str | None, strength: float, rng: Generator) -> dict[str, object]:
    """Return an aged file system of the old allocator, full or about to be."""
    found: dict[str, object] = {
        "allocator": "old",
        "trim_every_h": 6.0,
        "age": 1.0 + 1.5 * strength,
        "scan_s_per_group": float(rng.uniform(16e-9, 50e-9)),
    }
    if variant == "thresholds":
        fullness = float(rng.uniform(0.79, 0.82))
        return found | {"fullness": fullness, "fullness_spread": 0.02}
    return found | {"fullness": 0.70, "thresholds": (25, 15, 5)}


def _for_throttling(strength: float, rng: Generator) -> dict[str, object]:
    """Return drives that collect garbage while they are written to: else throttling does nothing.

    Never trimmed, or trimmed nightly and near the limit.
    """
    if rng.random() < 0.6:
        share = 0.03 + 0.08 * strength
        return {"fullness": 0.70, "trim_every_h": None, "random_share": share}
    share = 0.06 + 0.08 * strength
    return {
        "fullness": float(rng.uniform(0.725, 0.735)),
        "trim_every_h": 24.0,
        "random_share": share,
    }


def _for_change(variant: str | None, rng: Generator) -> dict[str, object]:
    if variant == "checksums":
        return {"checksums": False}
    if variant == "capacity-added":
        return {"bound_by": "servers", "fullness": float(rng.uniform(0.66, 0.72))}
    return {}


def _standing(cause: Cause, variant: str | None) -> dict[str, object]:
    if cause == "trim-overdue":
        return {"trim_every_h": None} if variant == "stopped" else {}
    if cause == "writeback-throttling":
        return {"writeback_throttling": True}
    if cause == "allocator-loops":
        return {"thresholds": (25, 15, 5), "fullness": 0.81, "fullness_spread": 0.02}
    if cause == "targets-over-limit":
        return {"fullness": 0.84, "fullness_spread": 0.02}
    return {}

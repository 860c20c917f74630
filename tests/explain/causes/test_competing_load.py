"""Load of other jobs: what all clients moved less what the probe moved itself."""

from __future__ import annotations

import polars as pl
import pytest
from tests.explain.causes.around import LOST, WELL, quiet, quiet_readings, shows, weight_of
from tests.explain.causes.contexts import (
    BAD_FROM,
    HOUR,
    HOURS,
    OSTS,
    counter,
    gauge,
    incident,
    missing,
    run,
    runs,
)

from trimtab.base.incident import Found, Shape
from trimtab.explain.causes.competing_load import ACCOUNTING, CAUSE
from trimtab.explain.context import JOBS, Context

BYTES = ("client_bytes_written_total", "client_bytes_read_total")


def loaded(per_target: float, **other: object) -> Context:
    readings = quiet_readings(but=["client_bytes_written_total"])
    readings += counter("client_bytes_written_total", 1e9, per_target)
    return quiet(**({"readings": readings, "of": incident(Shape.DIP)} | other))


def test_load_of_reach() -> None:
    # Much more than usual and enough to matter.
    of = loaded(20e9)
    assert shows(CAUSE, of, "load-in-time").weight > 0.9
    shows(CAUSE, of, "load-of-reach", Found.FOR, value=pytest.approx(12 * 19e9 / WELL, rel=0.05))
    assert weight_of(CAUSE, of) > 1.4
    # More than usual but little beside the probe.
    # Three times nearly nothing takes nothing from a probe of 600 GB/s.
    readings = quiet_readings(but=BYTES)
    readings += counter(BYTES[0], 1e7, 3e7) + counter(BYTES[1], 1e7)
    of = quiet(readings=readings)
    shows(CAUSE, of, "load-of-reach", weight=-1.5)
    assert weight_of(CAUSE, of) < 0
    # As usual is against.
    of = quiet()
    assert shows(CAUSE, of, "load-in-time").weight < -1
    shows(CAUSE, of, "load-of-reach", Found.AGAINST)
    # The probes own bytes are no load of others.
    # A probe that moved more itself is not its own competitor.
    own_rate, hour_s, idle = 300e9, 3600.0, 1e9 * len(OSTS)
    facts = []
    for at in HOURS:
        moved = own_rate * hour_s if at >= BAD_FROM else 0.0
        value = WELL if at < BAD_FROM else LOST
        facts.append(run(at - HOUR, {"write_bandwidth": value}, minutes=60, bytes_written=moved))
    readings = quiet_readings(but=BYTES) + counter(BYTES[1], 1e6)
    readings += counter(BYTES[0], idle / len(OSTS), (idle + own_rate) / len(OSTS))
    scene = quiet(readings=readings, runs=facts)
    shows(CAUSE, scene, "load-in-time", Found.AGAINST, value=pytest.approx(idle, rel=0.05))
    # Devices stand in where clients are not counted.
    readings = quiet_readings(but=BYTES)
    readings += missing(BYTES[0], "lctl may not be run") + counter("bytes_written_total", 1e9, 2e10)
    piece = shows(CAUSE, quiet(readings=readings), "load-in-time", Found.FOR)
    assert piece.source is not None
    assert "bytes_written_total" in piece.source
    # No counters say why.
    readings = quiet_readings(but=BYTES) + missing(BYTES[0], "lctl may not be run")
    piece = shows(CAUSE, quiet(readings=readings), "load-in-time", Found.NOT_AVAILABLE)
    assert piece.reason is not None
    assert "lctl may not be run" in piece.reason


def test_a_sum_that_lacks_targets_is_no_sum() -> None:
    """Half the targets missing for some hours is not half the load."""
    rows = counter(BYTES[0], 1e9)
    gone = {*OSTS[:6]}
    rows = [row for row in rows if row["target"] not in gone or row["at"] >= BAD_FROM - HOUR]
    readings = quiet_readings(but=BYTES) + rows + counter(BYTES[1], 1.0)
    piece = shows(CAUSE, quiet(readings=readings), "load-in-time")
    assert piece.found is not Found.FOR


def test_more_jobs_count_a_little() -> None:
    readings = quiet_readings(but=["concurrent_jobs"]) + gauge("concurrent_jobs", 200.0, 400.0)
    piece = shows(CAUSE, quiet(readings=readings), "concurrent-jobs")
    assert 0 < piece.weight <= 0.5
    none = quiet(readings=quiet_readings(but=["concurrent_jobs"]))
    shows(CAUSE, none, "concurrent-jobs", Found.NOT_AVAILABLE)


def test_accounting_has_every_hour_of_the_jobs() -> None:
    def accounted(bad_jobs: float, bad_nodes: float) -> Context:
        rows = [
            (at, *((bad_jobs, bad_nodes) if at >= BAD_FROM else (100.0, 900.0))) for at in HOURS
        ]
        return quiet(jobs=pl.DataFrame(rows, schema=JOBS, orient="row"))

    more = shows(CAUSE, accounted(180.0, 900.0), "concurrent-jobs", Found.FOR)
    assert more.source == ACCOUNTING
    assert "running jobs: 180 jobs in the bad hours, 100 jobs in good hours" in more.what
    assert more.weight <= 0.5
    larger = shows(CAUSE, accounted(90.0, 1500.0), "concurrent-jobs", Found.FOR)
    assert "nodes that jobs ran on: 1,500 nodes" in larger.what
    shows(CAUSE, accounted(100.0, 900.0), "concurrent-jobs", Found.AGAINST)


def test_a_step_of_many_days_is_no_job() -> None:
    of = quiet(now=BAD_FROM + 24 * 10 * HOUR)
    shows(CAUSE, of, "shape-of-load", Found.AGAINST)
    shows(CAUSE, quiet(of=incident(Shape.DIP)), "shape-of-load", Found.FOR)


def test_another_metric_has_no_reach() -> None:
    of = quiet(of=incident(metric="file_creation_rate"), runs=runs(1e5, 5e4))
    shows(CAUSE, of, "load-of-reach", Found.NOT_AVAILABLE)

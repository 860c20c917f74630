"""Reads from memory, in the bad hours or in those that they are held against."""

from __future__ import annotations

import pytest
from tests.explain.causes.around import WELL, quiet, shows, weight_of
from tests.explain.causes.contexts import BAD_FROM, HOURS, incident, run

from trimtab.base.incident import Found
from trimtab.base.site_hardware import Figure, Hardware
from trimtab.explain.causes.cached_read import CAUSE
from trimtab.explain.context import Context

REASON = "cached: of 3.00 GiB only 1.00 GiB (33 %) were read from nvme0n1"
BUILT_OF = Hardware(
    network=Figure(50e9, "B/s", 1e9), oss=4, drive_read=Figure(3.5e9, "B/s", 1e8), drives=48,
    client_network=Figure(25e9, "B/s", 1e9),
)  # fmt: skip


def reads(
    *, bad: bool, good: bool, value: float = WELL, hardware: Hardware | None = None
) -> Context:
    facts = [
        run(at, {}, disbelieved=(REASON,)) if (bad if at >= BAD_FROM else good)
        else run(at, {"read_bandwidth": value if at < BAD_FROM else 0.5 * value}, nodes=4)
        for at in HOURS
    ]  # fmt: skip
    of = incident(metric="read_bandwidth", effect=0.5)
    return quiet(runs=facts, of=of, hardware=hardware or Hardware())


def test_reads_from_memory() -> None:
    # Bad hours that were read from memory.
    scene = reads(bad=True, good=False)
    assert shows(CAUSE, scene, "reads-from-memory", value=1.0, reference=0.0).weight > 1.5
    assert shows(CAUSE, scene, "reads-believed", value=1.0).weight > 1
    assert weight_of(CAUSE, scene) > 2
    # Good hours that were memorys.
    # What looks like a loss is the truth.
    piece = shows(
        CAUSE, reads(bad=False, good=True), "reads-from-memory", Found.FOR, value=0.0, reference=1.0
    )
    assert piece.at == HOURS[0]
    # Always from memory is no news.
    shows(CAUSE, reads(bad=True, good=True), "reads-from-memory", Found.NEUTRAL, throughout=True)
    # Never from memory is against.
    shows(CAUSE, reads(bad=False, good=False), "reads-from-memory", Found.AGAINST)


def test_an_incident_of_writes() -> None:
    shows(CAUSE, quiet(), "metric-of-incident", weight=-2.0)


@pytest.mark.parametrize(("value", "outcome"), [
    (300e9, Found.FOR),      # more than 4 clients of 25 GB/s, 4 servers of 50, 48 drives of 3.5
    (106e9, Found.FOR),
    (90e9, Found.AGAINST),
])  # fmt: skip
def test_reads_against_what_carries_them(value: float, outcome: Found) -> None:
    scene = reads(bad=False, good=False, value=value, hardware=BUILT_OF)
    piece = shows(CAUSE, scene, "read-rate-possible", outcome)
    assert "4 clients" in piece.what


def test_read_rate_possible() -> None:
    # Drives may be the narrowest.
    built = Hardware(drive_read=Figure(3.5e9, "B/s", 1e8), drives=10)
    scene = reads(bad=False, good=False, value=50e9, hardware=built)
    piece = shows(CAUSE, scene, "read-rate-possible", Found.FOR)
    assert "the drives together" in piece.what
    # What is not known of the hardware.
    shows(CAUSE, reads(bad=False, good=False), "read-rate-possible", Found.NOT_AVAILABLE)
    shows(CAUSE, quiet(runs=()), "reads-from-memory", Found.NOT_AVAILABLE)

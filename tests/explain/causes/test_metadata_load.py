"""Load on the metadata servers: operations, processors, and rates that fell more than bandwidth."""

from __future__ import annotations

import pytest
from tests.explain.causes.around import LOST, WELL, quiet, quiet_readings, shows, weight_of
from tests.explain.causes.contexts import MDTS, SERVERS, counter, gauge, incident, missing, runs

from trimtab.base.incident import Found
from trimtab.explain.causes.metadata_load import CAUSE
from trimtab.explain.context import Context, RunFact

OPERATIONS, CPU = "metadata_operations_total", "server_cpu_fraction"
MDS = [server for server in SERVERS if server.startswith("mds")]
OSS = [server for server in SERVERS if server.startswith("oss")]


def creations(good: float, bad: float) -> tuple[RunFact, ...]:
    return runs(good, bad, metric="file_creation_rate", probe="mdtest-hourly", kind="mdtest")


def loaded() -> Context:
    readings = quiet_readings(but=[OPERATIONS, CPU])
    readings += counter(OPERATIONS, 1e4, 8e4, targets=MDTS)
    readings += gauge(CPU, 0.3, targets=OSS) + gauge(CPU, 0.3, 0.8, targets=MDS)
    return quiet(readings=readings, runs=(*runs(WELL, 0.9 * WELL), *creations(1e5, 2e4)))


def test_metadata_operations() -> None:
    # More operations busy servers and slow creation.
    of = loaded()
    shows(CAUSE, of, "metadata-operations", Found.FOR)
    shows(CAUSE, of, "mds-cpu", Found.FOR)
    shows(CAUSE, of, "metadata-rates", Found.FOR, value=0.201)
    assert weight_of(CAUSE, of) > 2
    # One mdt that is loaded alone.
    # Users' directories are spread over MDTs by name: the sum may hide one.
    rows = counter(OPERATIONS, 1e5, targets=["MDT0001"])
    rows += counter(OPERATIONS, 1e3, 1.4e5, targets=["MDT0000"])
    of = quiet(readings=quiet_readings(but=[OPERATIONS]) + rows)
    shows(CAUSE, of, "metadata-operations", Found.FOR)
    # Quiet servers are against.
    of = quiet(runs=(*runs(WELL, LOST), *creations(1e5, 1e5)))
    shows(CAUSE, of, "metadata-operations", Found.AGAINST)
    shows(CAUSE, of, "mds-cpu", Found.AGAINST)
    shows(CAUSE, of, "metadata-rates", Found.AGAINST, value=1.005)
    # Busy object servers are no metadata load.
    readings = quiet_readings(but=[CPU])
    readings += gauge(CPU, 0.3, 0.9, targets=OSS) + gauge(CPU, 0.3, targets=MDS)
    shows(CAUSE, quiet(readings=readings), "mds-cpu", Found.AGAINST)
    # Cpu that is told with the mdt.
    readings = quiet_readings(but=[CPU]) + gauge(CPU, 0.2, 0.9, targets=MDTS)
    shows(CAUSE, quiet(readings=readings), "mds-cpu", Found.FOR)
    # Bandwidth that fell as much.
    of = quiet(runs=(*runs(WELL, 0.5 * WELL), *creations(1e5, 5e4)))
    shows(CAUSE, of, "metadata-rates", Found.AGAINST, value=0.5025)


@pytest.mark.parametrize("name", [OPERATIONS, CPU])
def test_what_is_missing_says_why(name: str) -> None:
    readings = quiet_readings(but=[name])
    readings += missing(name, "mds0 did not answer", targets=[*MDTS, *MDS])
    pieces = [p for p in CAUSE.assess(quiet(readings=readings)) if p.source == name]
    assert [piece.found for piece in pieces] == [Found.NOT_AVAILABLE]
    assert pieces[0].reason is not None
    assert "mds0 did not answer" in pieces[0].reason


def test_without_a_metadata_probe() -> None:
    shows(CAUSE, quiet(), "metadata-rates", Found.NOT_AVAILABLE)


def test_an_incident_of_metadata_alone() -> None:
    of = quiet(of=incident(metric="file_creation_rate"))
    shows(CAUSE, of, "metric-of-incident", Found.FOR)
    both = quiet(of=incident(metric="file_creation_rate", moved_with=["hourly write_bandwidth"]))
    shows(CAUSE, both, "metric-of-incident", Found.NEUTRAL)
    shows(CAUSE, quiet(), "metric-of-incident", Found.AGAINST)

"""A broken probe is not a slow file system."""

from __future__ import annotations

from typing import Any

from tests.explain.causes.around import WELL, quiet, shows, weight_of
from tests.explain.causes.contexts import BAD_FROM, HOURS, incident, run, runs

from trimtab.base.incident import Found
from trimtab.base.run import RunStatus
from trimtab.explain.causes.workload_mismatch import CAUSE
from trimtab.explain.context import Context

GIB = 2**30


def both(good: dict[str, Any], bad: dict[str, Any]) -> Context:
    facts = [
        run(at, {"read_bandwidth": WELL}, **good) if at < BAD_FROM
        else run(at, bad.get("values", {"read_bandwidth": 1e6}),
                 **{key: value for key, value in bad.items() if key != "values"})
        for at in HOURS
    ]  # fmt: skip
    return quiet(runs=facts, of=incident(effect=0.01, metric="read_bandwidth"))


def test_bytes_moved() -> None:
    # Edisons probe.
    # 0.02 GiB in place of 1,536.
    scene = both({"bytes_read": 1536 * GIB}, {"bytes_read": 0.02 * GIB})
    shows(CAUSE, scene, "bytes-moved", weight=1.5)
    assert shows(CAUSE, scene, "workload-invalid", value=1.0, reference=0.0).weight > 1.5
    assert weight_of(CAUSE, scene) > 2.5
    # Runs that were found to do something else.
    problem = "another workload than asked: 512 tasks instead of 1024"
    scene = both({}, {"status": RunStatus.INVALID_WORKLOAD, "problem": problem, "values": {}})
    piece = shows(CAUSE, scene, "workload-invalid", value=1.0, reference=0.0)
    assert problem in piece.what
    assert shows(CAUSE, scene, "runs-not-judged").weight > 1
    assert weight_of(CAUSE, scene) > 2.5
    # Figures that are not believed.
    reason = "it moved 3.0 GiB; 1.5 TiB were asked for"
    scene = both({}, {"values": {}, "disbelieved": (reason,)})
    assert reason in shows(CAUSE, scene, "workload-invalid", value=1.0, reference=0.0).what
    cached = both({}, {"values": {}, "disbelieved": ("cached: read from memory",)})
    shows(CAUSE, cached, "workload-invalid", Found.AGAINST, value=0.0, reference=0.0)
    # As many bytes as ever.
    scene = both({"bytes_read": 1536 * GIB}, {"bytes_read": 1536 * GIB})
    shows(CAUSE, scene, "bytes-moved", Found.AGAINST)
    assert weight_of(CAUSE, scene) < -1
    # A probe of fixed time moves what it can.
    # Half the speed is half the bytes then, and no other workload.
    facts = [
        run(at, {"write_bandwidth": rate}, bytes_written=rate * 60)
        for n, at in enumerate(HOURS)
        for rate in [(WELL if at < BAD_FROM else WELL / 2) * (1 + 0.05 * (n % 7 - 3))]
    ]
    scene = quiet(runs=facts)
    shows(CAUSE, scene, "bytes-moved", Found.NEUTRAL)
    shows(CAUSE, scene, "workload-invalid", Found.AGAINST, value=0.0, reference=0.0)
    # A mismatch in good hours as well is no news.
    facts = [run(at, {}, status=RunStatus.INVALID_WORKLOAD) for at in HOURS]
    scene = quiet(runs=facts)
    shows(
        CAUSE, scene, "workload-invalid", Found.NEUTRAL, value=1.0, reference=1.0, throughout=True
    )


def test_nodes_of_run() -> None:
    # Other numbers of nodes and tasks.
    scene = both({"nodes": 32, "tasks": 2048}, {"nodes": 16, "tasks": 2048})
    shows(CAUSE, scene, "nodes-of-run", Found.FOR, value=1.0)
    shows(CAUSE, scene, "tasks-of-run", Found.AGAINST, value=0.0)
    # Runs that tell nothing.
    scene = quiet(runs=runs(WELL, None))
    shows(CAUSE, scene, "workload-invalid", Found.NOT_AVAILABLE)
    shows(CAUSE, scene, "bytes-moved", Found.NOT_AVAILABLE)
    shows(CAUSE, scene, "nodes-of-run", Found.NOT_AVAILABLE)
    shows(CAUSE, quiet(runs=()), "runs-not-judged", Found.NOT_AVAILABLE)

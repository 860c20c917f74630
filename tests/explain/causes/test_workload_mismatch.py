"""A broken probe is not a slow file system."""

from __future__ import annotations

from typing import Any

from tests.explain.causes.around import WELL, quiet, shows, weight_of
from tests.explain.causes.contexts import BAD_FROM, HOURS, incident, run, runs

from trimtab.explain.causes.workload_mismatch import CAUSE
from trimtab.explain.context import Context
from trimtab.model.incident import Found
from trimtab.model.run import RunStatus

GIB = 2**30


def both(good: dict[str, Any], bad: dict[str, Any]) -> Context:
    facts = [
        run(at, {"read_bandwidth": WELL}, **good) if at < BAD_FROM
        else run(at, bad.get("values", {"read_bandwidth": 1e6}),
                 **{key: value for key, value in bad.items() if key != "values"})
        for at in HOURS
    ]  # fmt: skip
    return quiet(runs=facts, of=incident(effect=0.01, metric="read_bandwidth"))


def test_edisons_probe() -> None:
    """0.02 GiB in place of 1,536."""
    scene = both({"bytes_read": 1536 * GIB}, {"bytes_read": 0.02 * GIB})
    shows(CAUSE, scene, "bytes-moved", weight=1.5)
    assert shows(CAUSE, scene, "workload-invalid", value=1.0, reference=0.0).weight > 1.5
    assert weight_of(CAUSE, scene) > 2.5


def test_runs_that_were_found_to_do_something_else() -> None:
    problem = "another workload than asked: 512 tasks instead of 1024"
    scene = both({}, {"status": RunStatus.INVALID_WORKLOAD, "problem": problem, "values": {}})
    piece = shows(CAUSE, scene, "workload-invalid", value=1.0, reference=0.0)
    assert problem in piece.what
    assert shows(CAUSE, scene, "runs-not-judged").weight > 1
    assert weight_of(CAUSE, scene) > 2.5


def test_figures_that_are_not_believed() -> None:
    reason = "it moved 3.0 GiB; 1.5 TiB were asked for"
    scene = both({}, {"values": {}, "disbelieved": (reason,)})
    assert reason in shows(CAUSE, scene, "workload-invalid", value=1.0, reference=0.0).what
    cached = both({}, {"values": {}, "disbelieved": ("cached: read from memory",)})
    shows(CAUSE, cached, "workload-invalid", Found.AGAINST, value=0.0, reference=0.0)


def test_as_many_bytes_as_ever() -> None:
    scene = both({"bytes_read": 1536 * GIB}, {"bytes_read": 1536 * GIB})
    shows(CAUSE, scene, "bytes-moved", Found.AGAINST)
    assert weight_of(CAUSE, scene) < -1


def test_a_probe_of_fixed_time_moves_what_it_can() -> None:
    """Half the speed is half the bytes then, and no other workload."""
    facts = [
        run(at, {"write_bandwidth": rate}, bytes_written=rate * 60)
        for n, at in enumerate(HOURS)
        for rate in [(WELL if at < BAD_FROM else WELL / 2) * (1 + 0.05 * (n % 7 - 3))]
    ]
    scene = quiet(runs=facts)
    shows(CAUSE, scene, "bytes-moved", Found.NEUTRAL)
    shows(CAUSE, scene, "workload-invalid", Found.AGAINST, value=0.0, reference=0.0)


def test_a_mismatch_in_good_hours_as_well_is_no_news() -> None:
    facts = [run(at, {}, status=RunStatus.INVALID_WORKLOAD) for at in HOURS]
    shows(
        CAUSE,
        quiet(runs=facts),
        "workload-invalid",
        Found.NEUTRAL,
        value=1.0,
        reference=1.0,
        throughout=True,
    )


def test_other_numbers_of_nodes_and_tasks() -> None:
    scene = both({"nodes": 32, "tasks": 2048}, {"nodes": 16, "tasks": 2048})
    shows(CAUSE, scene, "nodes-of-run", Found.FOR, value=1.0)
    shows(CAUSE, scene, "tasks-of-run", Found.AGAINST, value=0.0)


def test_runs_that_tell_nothing() -> None:
    scene = quiet(runs=runs(WELL, None))
    shows(CAUSE, scene, "workload-invalid", Found.NOT_AVAILABLE)
    shows(CAUSE, scene, "bytes-moved", Found.NOT_AVAILABLE)
    shows(CAUSE, scene, "nodes-of-run", Found.NOT_AVAILABLE)
    shows(CAUSE, quiet(runs=()), "runs-not-judged", Found.NOT_AVAILABLE)

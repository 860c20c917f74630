"""Incidents that show in no series: one probe tells nothing, others beside it are well."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.explain.causes.around import WELL, quiet, shows, weight_of
from tests.explain.causes.contexts import BAD_FROM, HOURS, incident, run, runs

from trimtab.base.incident import Found, Shape
from trimtab.base.run import RunStatus
from trimtab.explain.causes import cached_read, client_node, launch_failure, workload_mismatch
from trimtab.explain.causes.run_evidence import has_figure, runs_of_probe
from trimtab.explain.context import Context, RunFact


def without_series(*broken: RunFact) -> Context:
    """Return an incident of a probe that broke; three others run as ever, hour by hour."""
    others = [fact for name in "abc" for fact in runs(WELL, WELL, probe=f"well-{name}")]
    before = [run(at, {"read_bandwidth": WELL}, probe="broken") for at in HOURS if at < BAD_FROM]
    of = replace(incident(Shape.DIP, effect=None), key=None)
    return quiet(runs=(*others, *before, *broken), of=of)


def every_hour(**facts: Any) -> list[RunFact]:
    return [run(at, {}, probe="broken", **facts) for at in HOURS if at >= BAD_FROM]


def test_the_probe_that_is_broken_is_the_one() -> None:
    bad, good = runs_of_probe(without_series(*every_hour(status=RunStatus.FAILED, problem="x")))
    assert {fact.probe for fact in (*bad, *good)} == {"broken"}
    assert len(bad) == 12


def test_all_runs_where_every_one_tells_something() -> None:
    bad, _ = runs_of_probe(without_series())
    assert {fact.probe for fact in bad} == {"well-a", "well-b", "well-c"}


def test_another_workload() -> None:
    facts = every_hour(status=RunStatus.INVALID_WORKLOAD, problem="another workload than asked")
    scene = without_series(*facts)
    assert weight_of(workload_mismatch.CAUSE, scene) > 2.5
    assert weight_of(launch_failure.CAUSE, scene) < 0


def test_figures_that_are_not_believed() -> None:
    facts = every_hour(disbelieved=("it moved 3.0 GiB; 1.5 TiB were asked for",))
    assert weight_of(workload_mismatch.CAUSE, without_series(*facts)) > 1.5


def test_reads_from_memory() -> None:
    facts = every_hour(disbelieved=("cached: the page cache can hold the data set",))
    scene = without_series(*facts)
    assert weight_of(cached_read.CAUSE, scene) > 2.5
    assert weight_of(workload_mismatch.CAUSE, scene) < 0


def test_a_launcher_that_fails_one_probe() -> None:
    facts = every_hour(status=RunStatus.FAILED, problem="srun: error: Job prolog failed")
    scene = without_series(*facts)
    assert weight_of(launch_failure.CAUSE, scene) > 2
    assert weight_of(workload_mismatch.CAUSE, scene) <= 0


def test_no_node_is_suspected() -> None:
    piece = client_node.CAUSE.assess(without_series())[0]
    assert piece.found is Found.NOT_AVAILABLE


@pytest.mark.parametrize("problem", [
    "/scratch did not answer in 5 s", "/scratch is on a file system that is mounted read-only",
    "no permission to write in /scratch", "write(17): No space left on device",
])  # fmt: skip
def test_a_file_system_that_lets_no_probe_begin(problem: str) -> None:
    facts = every_hour(status=RunStatus.NOT_STARTED, problem=problem)
    shows(launch_failure.CAUSE, without_series(*facts), "other-words", Found.AGAINST)


def test_not_begun_for_a_reason_that_is_not_known() -> None:
    facts = every_hour(status=RunStatus.NOT_STARTED, problem="something odd")
    piece = shows(launch_failure.CAUSE, without_series(*facts), "run-never-began")
    assert 0 < piece.weight < 1


def test_amounts_of_bytes_are_no_figures() -> None:
    fact = run(BAD_FROM, {"bytes_read": 1e9})
    assert not has_figure(fact, None)
    assert has_figure(replace(fact, values={"read_bandwidth": 1.0}), None)
    assert not has_figure(replace(fact, values={"read_bandwidth": 1.0}), "write_bandwidth")

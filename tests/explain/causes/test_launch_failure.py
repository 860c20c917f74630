"""Runs that were not started: nothing was measured, so nothing is said of the file system."""

from __future__ import annotations

import pytest
from tests.explain.causes.around import LOST, WELL, quiet, shows, weight_of, with_log
from tests.explain.causes.contexts import BAD_FROM, HOUR, HOURS, event, incident, run, runs

from trimtab.base.event import EventKind
from trimtab.base.incident import Found, Shape
from trimtab.base.run import RunStatus
from trimtab.explain.causes.launch_failure import CAUSE, LAUNCHER, NAMES
from trimtab.explain.context import Context

RESOLVE = "ssh: Could not resolve hostname nid0003: Temporary failure in name resolution"


def silent(
    problem: str | None, status: RunStatus = RunStatus.NOT_STARTED, *, every: int = 1
) -> Context:
    facts = [
        run(at, status=status, problem=problem)
        if at >= BAD_FROM and n % every == 0
        else run(at, {"write_bandwidth": WELL})
        for n, at in enumerate(HOURS)
    ]
    return quiet(runs=facts, of=incident(Shape.DIP, effect=None))


@pytest.mark.parametrize("status", [RunStatus.NOT_STARTED, RunStatus.FAILED, RunStatus.UNFINISHED])
def test_names_that_were_not_resolved(status: RunStatus) -> None:
    scene = silent(RESOLVE, status)
    piece = shows(CAUSE, scene, "names-unresolved")
    assert piece.weight > 1.5
    assert piece.source == f"run write-hourly-{BAD_FROM:%m%dT%H%M}"
    assert weight_of(CAUSE, scene) > 2.5


def test_the_bad_day_of_the_seed() -> None:
    scene = silent(RESOLVE)
    assert shows(CAUSE, scene, "runs-not-started", value=1.0, reference=0.0).weight > 1
    assert shows(CAUSE, scene, "runs-measured").weight > 0
    assert weight_of(CAUSE, scene) > 2.5


@pytest.mark.parametrize("problem", [
    RESOLVE, "getaddrinfo: Name or service not known", "srun: error: Unable to resolve \"nid1\"",
    "DNS timed out", "mpirun: unknown host nid4",
])  # fmt: skip
def test_words_of_name_resolution(problem: str) -> None:
    assert NAMES.search(problem)


@pytest.mark.parametrize("problem", [
    "srun: error: Job prolog failed", "mpirun was not found", "no slot of probe:x was begun: away",
    "Slurm did not start a command in job 12", "cannot start fio: Permission denied",
    "it waited 3600 s in the queue",
])  # fmt: skip
def test_words_of_launchers(problem: str) -> None:
    assert LAUNCHER.search(problem)
    assert not NAMES.search(problem)
    assert shows(CAUSE, silent(problem), "launcher-failed").weight > 1


@pytest.mark.parametrize("problem", [
    "ended by its deadline", "write 3: Input/output error", "No space left on device",
    "the address range is resolved", "",
])  # fmt: skip
def test_other_words_are_neither(problem: str) -> None:
    assert not NAMES.search(problem)
    assert not LAUNCHER.search(problem)


def test_runs_measured() -> None:
    # Runs that were started and hung are the file systems.
    scene = quiet(runs=runs(WELL, None), of=incident(effect=0.0))
    assert shows(CAUSE, scene, "runs-measured").weight < -1
    assert weight_of(CAUSE, scene) < -2
    # Runs that measured and were slow clear.
    assert shows(CAUSE, quiet(), "runs-measured", value=1.0, reference=0.0).weight < -1
    assert weight_of(CAUSE, quiet()) < -2
    # Some runs not launched the others as fast as ever.
    scene = silent(RESOLVE, every=2)
    shows(CAUSE, scene, "runs-measured", Found.FOR, value=0.0)
    assert weight_of(CAUSE, scene) > 1


def test_two_runs_not_launched_explain_no_ten_slow_ones() -> None:
    facts = [
        run(at, status=RunStatus.NOT_STARTED, problem=RESOLVE) if at >= END_OF else
        run(at, {"write_bandwidth": WELL if at < BAD_FROM else LOST})
        for at in HOURS
    ]  # fmt: skip
    assert weight_of(CAUSE, quiet(runs=facts)) < 0


END_OF = HOURS[-2]


def test_runs_that_fail_as_often_in_good_hours() -> None:
    facts = [
        run(at, status=RunStatus.FAILED, problem="srun: error")
        if n % 2
        else run(at, {"write_bandwidth": WELL})
        for n, at in enumerate(HOURS)
    ]
    shows(CAUSE, quiet(runs=facts), "runs-not-started", Found.NEUTRAL)


def test_failed_without_a_word() -> None:
    shows(CAUSE, silent(None), "launch-words", reason="no-problem-text")


def test_the_log_book() -> None:
    at = BAD_FROM + HOUR
    log = with_log(event(EventKind.LAUNCH_FAILURE, at, "no slot was begun", until=at + 3 * HOUR))
    assert shows(CAUSE, quiet(events=log), "launch-failure-logged").weight > 1
    noted = with_log(event(EventKind.NOTE, at, "DNS of the cluster is down"))
    shows(CAUSE, quiet(events=noted), "launch-failure-logged", Found.FOR)
    before = with_log(event(EventKind.LAUNCH_FAILURE, at - 40 * HOUR, "away"))
    shows(CAUSE, quiet(events=before), "launch-failure-not-logged", weight=0)


def test_no_runs_at_all() -> None:
    pieces = CAUSE.assess(quiet(runs=()))
    assert all(piece.found in (Found.NOT_AVAILABLE, Found.NEUTRAL) for piece in pieces)

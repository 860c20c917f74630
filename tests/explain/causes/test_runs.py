"""Causes that lie in the runs: not started, another workload, reads from memory, damaged data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.explain.causes.contexts import (
    BAD_FROM,
    HOUR,
    HOURS,
    LOST,
    SERVERS,
    WELL,
    counter,
    event,
    gauge,
    incident,
    missing,
    quiet,
    reading,
    run,
    runs,
    setting,
    shows,
    stands,
    weight_of,
    with_log,
)

from trimtab.base.event import EventKind
from trimtab.base.failure import LAUNCHER_ERRORS, NAME_ERRORS
from trimtab.base.incident import Found, Shape
from trimtab.base.run import RunStatus
from trimtab.base.site_hardware import Figure, Hardware
from trimtab.explain.causes import client_node
from trimtab.explain.causes.competing_load import COMPETING_LOAD, METADATA_LOAD
from trimtab.explain.causes.evidence import has_figure, runs_of_probe
from trimtab.explain.causes.network import BAD_CHECKSUMS as SUMS
from trimtab.explain.causes.void_run import CACHED_READ as CACHED
from trimtab.explain.causes.void_run import LAUNCH_FAILURE as LAUNCH
from trimtab.explain.causes.void_run import WORKLOAD_MISMATCH as WORK
from trimtab.explain.context import Cause, Context, RunFact
from trimtab.explain.explanation import conclude, gather
from trimtab.explain.weighing import weigh

# Runs that were not started: nothing was measured, so nothing is said of the file system.

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
    piece = shows(LAUNCH, scene, "names-unresolved")
    assert piece.weight > 1.5
    assert piece.source == f"run write-hourly-{BAD_FROM:%m%dT%H%M}"
    assert weight_of(LAUNCH, scene) > 2.5


def test_the_bad_day_of_the_seed() -> None:
    scene = silent(RESOLVE)
    assert shows(LAUNCH, scene, "runs-not-started", value=1.0, reference=0.0).weight > 1
    assert shows(LAUNCH, scene, "runs-measured").weight > 0
    assert weight_of(LAUNCH, scene) > 2.5


@pytest.mark.parametrize("problem", [
    RESOLVE, "getaddrinfo: Name or service not known", "srun: error: Unable to resolve \"nid1\"",
    "DNS timed out", "mpirun: unknown host nid4",
])  # fmt: skip
def test_words_of_name_resolution(problem: str) -> None:
    assert NAME_ERRORS.search(problem)


@pytest.mark.parametrize("problem", [
    "srun: error: Job prolog failed", "mpirun was not found", "no slot of probe:x was begun: away",
    "Slurm did not start a command in job 12", "cannot start fio: Permission denied",
    "it waited 3600 s in the queue",
])  # fmt: skip
def test_words_of_launchers(problem: str) -> None:
    assert LAUNCHER_ERRORS.search(problem)
    assert not NAME_ERRORS.search(problem)
    assert shows(LAUNCH, silent(problem), "launcher-failed").weight > 1


def test_one_run_that_was_refused_says_enough() -> None:
    """Other jobs are busy as well, and a start was refused before: the words still tell."""

    def refused(run_: RunFact) -> RunFact:
        return replace(run_, status=RunStatus.NOT_STARTED, problem=SLURM_AWAY, values={})

    every_six = [run(at, {"write_bandwidth": WELL}) for at in HOURS[::6] if at <= BAD_FROM]
    facts = [refused(every_six[2]), *every_six[:2], *every_six[3:-1], refused(every_six[-1])]
    busy = [
        *counter("client_bytes_written_total", 1e9, 2e10),
        *gauge("concurrent_jobs", 20.0, 90.0),
    ]
    scene = quiet(busy, runs=facts, of=replace(incident(Shape.DIP, effect=None), key=None))
    assert shows(LAUNCH, scene, "launcher-failed").weight > 1
    causes = conclude(scene.incident, gather(scene)).causes
    assert [cause.cause for cause in causes][:1] == ["launch-failure"]


def test_a_task_that_exited_had_been_launched() -> None:
    ended = silent("srun: error: nid001077: task 12: Exited with exit code 1", RunStatus.FAILED)
    shows(LAUNCH, ended, "other-words", Found.AGAINST)
    assert not any(cause.cause == "launch-failure"
                   for cause in conclude(ended.incident, gather(ended)).causes)  # fmt: skip


@pytest.mark.parametrize("cause", [COMPETING_LOAD, METADATA_LOAD])
def test_runs_that_never_began_are_no_load(cause: Cause) -> None:
    shows(cause, silent(SLURM_AWAY), "runs-never-began", Found.AGAINST, weight=-2.0)
    shows(cause, quiet(), "runs-reached-it", weight=0)
    shows(cause, silent("No space left on device", RunStatus.FAILED), "runs-reached-it", weight=0)
    shows(cause, silent(SLURM_AWAY, every=3), "runs-reached-it", weight=0)


SLURM_AWAY = "sbatch: error: Batch job submission failed: Unable to contact slurm controller"


@pytest.mark.parametrize("problem", [
    "ended by its deadline", "write 3: Input/output error", "No space left on device",
    "the address range is resolved", "",
])  # fmt: skip
def test_other_words_are_neither(problem: str) -> None:
    assert not NAME_ERRORS.search(problem)
    assert not LAUNCHER_ERRORS.search(problem)


def test_runs_measured() -> None:
    # Runs that were started and hung are the file systems.
    scene = quiet(runs=runs(WELL, None), of=incident(effect=0.0))
    assert shows(LAUNCH, scene, "runs-measured").weight < -1
    assert weight_of(LAUNCH, scene) < -2
    # Runs that measured and were slow clear.
    assert shows(LAUNCH, quiet(), "runs-measured", value=1.0, reference=0.0).weight < -1
    assert weight_of(LAUNCH, quiet()) < -2
    # Some runs not launched the others as fast as ever.
    scene = silent(RESOLVE, every=2)
    shows(LAUNCH, scene, "runs-measured", Found.FOR, value=0.0)
    assert weight_of(LAUNCH, scene) > 1


def test_two_runs_not_launched_explain_no_ten_slow_ones() -> None:
    facts = [
        run(at, status=RunStatus.NOT_STARTED, problem=RESOLVE) if at >= END_OF else
        run(at, {"write_bandwidth": WELL if at < BAD_FROM else LOST})
        for at in HOURS
    ]  # fmt: skip
    assert weight_of(LAUNCH, quiet(runs=facts)) < 0


END_OF = HOURS[-2]


def test_runs_that_fail_as_often_in_good_hours() -> None:
    facts = [
        run(at, status=RunStatus.FAILED, problem="srun: error")
        if n % 2
        else run(at, {"write_bandwidth": WELL})
        for n, at in enumerate(HOURS)
    ]
    shows(LAUNCH, quiet(runs=facts), "runs-not-started", Found.NEUTRAL)


def test_failed_without_a_word() -> None:
    shows(LAUNCH, silent(None), "launch-words", reason="no-problem-text")


def test_the_log_book() -> None:
    at = BAD_FROM + HOUR
    log = with_log(event(EventKind.LAUNCH_FAILURE, at, "no slot was begun", until=at + 3 * HOUR))
    assert shows(LAUNCH, quiet(events=log), "launch-failure-logged").weight > 1
    noted = with_log(event(EventKind.NOTE, at, "DNS of the cluster is down"))
    shows(LAUNCH, quiet(events=noted), "launch-failure-logged", Found.FOR)
    before = with_log(event(EventKind.LAUNCH_FAILURE, at - 40 * HOUR, "away"))
    shows(LAUNCH, quiet(events=before), "launch-failure-not-logged", weight=0)


def test_no_runs_at_all() -> None:
    pieces = LAUNCH.assess(quiet(runs=()))
    assert all(piece.found in (Found.NOT_AVAILABLE, Found.NEUTRAL) for piece in pieces)


# A broken probe is not a slow file system.

GIB = 2**30


def good_then_bad(good: dict[str, Any], bad: dict[str, Any]) -> Context:
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
    usual = {"bytes_read": 1536 * GIB}
    scene = good_then_bad(usual, {"bytes_read": 0.02 * GIB})
    shows(WORK, scene, "bytes-moved", weight=1.5)
    assert shows(WORK, scene, "workload-invalid", value=1.0, reference=0.0).weight > 1.5
    assert weight_of(WORK, scene) > 2.5
    # Runs that were found to do something else.
    problem = "another workload than asked: 512 tasks instead of 1024"
    scene = good_then_bad(
        {}, {"status": RunStatus.INVALID_WORKLOAD, "problem": problem, "values": {}}
    )
    shows(WORK, scene, "workload-invalid", value=1.0, reference=0.0, says=problem)
    assert shows(WORK, scene, "runs-not-judged").weight > 1
    assert weight_of(WORK, scene) > 2.5
    # Figures that are not believed.
    reason = "it moved 3.0 GiB; 1.5 TiB were asked for"
    scene = good_then_bad({}, {"values": {}, "disbelieved": (reason,)})
    assert reason in shows(WORK, scene, "workload-invalid", value=1.0, reference=0.0).what
    cached = good_then_bad({}, {"values": {}, "disbelieved": ("cached: read from memory",)})
    shows(WORK, cached, "workload-invalid", Found.AGAINST, value=0.0, reference=0.0)
    # As many bytes as ever.
    scene = good_then_bad(usual, usual)
    shows(WORK, scene, "bytes-moved", Found.AGAINST)
    assert weight_of(WORK, scene) < -1
    # A probe of fixed time moves what it can.
    # Half the speed is half the bytes then, and no other workload.
    facts = [
        run(at, {"write_bandwidth": rate}, bytes_written=rate * 60)
        for n, at in enumerate(HOURS)
        for rate in [(WELL if at < BAD_FROM else WELL / 2) * (1 + 0.05 * (n % 7 - 3))]
    ]
    scene = quiet(runs=facts)
    shows(WORK, scene, "bytes-moved", Found.NEUTRAL)
    shows(WORK, scene, "workload-invalid", Found.AGAINST, value=0.0, reference=0.0)
    # A mismatch in good hours as well is no news.
    facts = [run(at, {}, status=RunStatus.INVALID_WORKLOAD) for at in HOURS]
    scene = quiet(runs=facts)
    stands(WORK, scene, "workload-invalid", value=1.0, reference=1.0)


def test_nodes_of_run() -> None:
    # Other numbers of nodes and tasks.
    scene = good_then_bad({"nodes": 32, "tasks": 2048}, {"nodes": 16, "tasks": 2048})
    shows(WORK, scene, "nodes-of-run", Found.FOR, value=1.0)
    shows(WORK, scene, "tasks-of-run", Found.AGAINST, value=0.0)
    # Runs that tell nothing.
    scene = quiet(runs=runs(WELL, None))
    shows(WORK, scene, "workload-invalid", Found.NOT_AVAILABLE)
    shows(WORK, scene, "bytes-moved", Found.NOT_AVAILABLE)
    shows(WORK, scene, "nodes-of-run", Found.NOT_AVAILABLE)
    shows(WORK, quiet(runs=()), "runs-not-judged", Found.NOT_AVAILABLE)


# Reads from memory, in the bad hours or in those that they are held against.

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
    assert shows(CACHED, scene, "reads-from-memory", value=1.0, reference=0.0).weight > 1.5
    assert shows(CACHED, scene, "reads-believed", value=1.0).weight > 1
    assert weight_of(CACHED, scene) > 2
    # Good hours that were memorys.
    # What looks like a loss is the truth.
    piece = shows(
        CACHED,
        reads(bad=False, good=True),
        "reads-from-memory",
        Found.FOR,
        value=0.0,
        reference=1.0,
    )
    assert piece.at == HOURS[0]
    # Always from memory is no news.
    shows(CACHED, reads(bad=True, good=True), "reads-from-memory", Found.NEUTRAL, throughout=True)
    # Never from memory is against.
    shows(CACHED, reads(bad=False, good=False), "reads-from-memory", Found.AGAINST)


def test_an_incident_of_writes() -> None:
    shows(CACHED, quiet(), "metric-of-incident", weight=-2.0)


@pytest.mark.parametrize(("value", "outcome"), [
    (300e9, Found.FOR),      # more than 4 clients of 25 GB/s, 4 servers of 50, 48 drives of 3.5
    (106e9, Found.FOR),
    (90e9, Found.AGAINST),
])  # fmt: skip
def test_reads_against_what_carries_them(value: float, outcome: Found) -> None:
    scene = reads(bad=False, good=False, value=value, hardware=BUILT_OF)
    shows(CACHED, scene, "read-rate-possible", outcome, says="4 clients")


def test_reads_that_are_always_too_fast_began_with_nothing() -> None:
    # At half of 300 GB/s the bad hours are above 4 clients of 25 GB/s, too.
    always = reads(bad=False, good=False, value=300e9, hardware=BUILT_OF)
    shows(CACHED, always, "read-rate-possible", throughout=True)
    assert weigh(CACHED, CACHED.evidence(always)).evidence_weight < 0
    once = reads(bad=False, good=False, value=106e9, hardware=BUILT_OF)
    shows(CACHED, once, "read-rate-possible", throughout=False)


def test_read_rate_possible() -> None:
    # Drives may be the narrowest.
    built = Hardware(drive_read=Figure(3.5e9, "B/s", 1e8), drives=10)
    scene = reads(bad=False, good=False, value=50e9, hardware=built)
    shows(CACHED, scene, "read-rate-possible", Found.FOR, says="the drives together")
    # What is not known of the hardware.
    shows(CACHED, reads(bad=False, good=False), "read-rate-possible", Found.NOT_AVAILABLE)
    shows(CACHED, quiet(runs=()), "reads-from-memory", Found.NOT_AVAILABLE)


# Transfers that arrived damaged: an integrity incident, whatever the speed.

NAME = "checksum_errors_total"


def counted(good: float, bad: float) -> Context:
    others = gauge(NAME, 0.0, targets=[server for server in SERVERS if server != "oss2"])
    counted_there = gauge(NAME, good, bad, targets=["oss2"])
    return quiet(others, counted_there, of=incident(Shape.INTEGRITY, effect=None))


def test_one_is_enough_whatever_the_speed() -> None:
    scene = counted(0.0, 1.0)
    piece = shows(SUMS, scene, "checksums-counted", value=1.0, weight=2.0, targets=("oss2",))
    assert piece.at == BAD_FROM
    assert weight_of(SUMS, scene) > 3


def test_none_where_all_are_counted_clears() -> None:
    shows(SUMS, quiet(), "checksums-none", value=0.0, weight=-2.0)


def test_checksums_counted_earlier() -> None:
    # Old ones are no news.
    scene = counted(5.0, 5.0)
    shows(SUMS, scene, "checksums-counted-earlier", weight=0)
    shows(SUMS, scene, "checksums-in-time", value=0, reference=0, weight=0)
    # In good hours as well.
    scene = quiet([reading(at, "oss2", NAME, float(n)) for n, at in enumerate(HOURS)])
    stands(SUMS, scene, "checksums-in-time", value=12.0, reference=47.0)
    # A log that began anew.
    # A count that went down tells of no transfer: a boot, or messages that fell out of the log.
    scene = quiet([reading(at, "oss2", NAME, 9.0 if at < BAD_FROM else 2.0) for at in HOURS])
    shows(SUMS, scene, "checksums-counted-earlier", value=0.0, weight=0.0)


def test_a_log_that_does_not_reach_back() -> None:
    scene = quiet(missing(NAME, "the kernel log of oss0 no longer reaches back", targets=SERVERS))
    pieces = [piece for piece in SUMS.assess(scene) if piece.source == NAME]
    assert [piece.found for piece in pieces] == [Found.NOT_AVAILABLE, Found.NOT_AVAILABLE]
    assert "no longer reaches back" in str(pieces[0].reason)


def test_a_message_in_the_log_book() -> None:
    text = "LustreError: BAD WRITE CHECKSUM: scratch-OST0002 from 10.0.0.7@tcp"
    log = with_log(event(EventKind.NOTE, BAD_FROM + HOUR, text))
    shows(SUMS, quiet(events=log), "checksums-logged", Found.FOR)
    turned_on = with_log(event(EventKind.CONFIG_CHANGE, BAD_FROM + HOUR, "checksums on"))
    shows(SUMS, quiet(events=turned_on), "checksums-not-logged", weight=0)


def test_a_run_that_read_other_data_than_it_wrote() -> None:
    facts = [*runs(WELL, WELL)]
    facts[-1] = run(HOURS[-1], status=RunStatus.FAILED,
                    problem="data read is not what was written: 3 mismatches")  # fmt: skip
    shows(SUMS, quiet(runs=facts), "data-verified", value=1.0, reference=0.0, weight=2.0)
    shows(SUMS, quiet(), "data-verified", weight=0)
    shows(SUMS, quiet(runs=()), "data-verified", Found.NOT_AVAILABLE)


def test_says_whether_transfers_are_checked_at_all() -> None:
    off = quiet(settings=setting("checksums", "0", targets=["nid1"]))
    shows(SUMS, off, "checksums-off", Found.NEUTRAL)
    on = quiet(settings=setting("checksums", "1", targets=["nid1"]))
    shows(SUMS, on, "checksums-on", Found.NEUTRAL)
    shows(SUMS, quiet(), "checksums-enabled", Found.NOT_AVAILABLE)


# Incidents that show in no series: one probe tells nothing, others beside it are well.


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
    assert weight_of(WORK, scene) > 2.5
    assert weight_of(LAUNCH, scene) < 0


def test_figures_that_are_not_believed() -> None:
    facts = every_hour(disbelieved=("it moved 3.0 GiB; 1.5 TiB were asked for",))
    assert weight_of(WORK, without_series(*facts)) > 1.5


def test_reads_of_a_broken_probe_from_memory() -> None:
    facts = every_hour(disbelieved=("cached: the page cache can hold the data set",))
    scene = without_series(*facts)
    assert weight_of(CACHED, scene) > 2.5
    assert weight_of(WORK, scene) < 0


def test_a_launcher_that_fails_one_probe() -> None:
    facts = every_hour(status=RunStatus.FAILED, problem="srun: error: Job prolog failed")
    scene = without_series(*facts)
    assert weight_of(LAUNCH, scene) > 2
    assert weight_of(WORK, scene) <= 0


def test_no_node_is_suspected() -> None:
    assert client_node.CLIENT_NODE.assess(without_series())[0].found is Found.NOT_AVAILABLE


@pytest.mark.parametrize("problem", [
    "/scratch did not answer in 5 s", "/scratch is on a file system that is mounted read-only",
    "no permission to write in /scratch", "write(17): No space left on device",
])  # fmt: skip
def test_a_file_system_that_lets_no_probe_begin(problem: str) -> None:
    facts = every_hour(status=RunStatus.NOT_STARTED, problem=problem)
    shows(LAUNCH, without_series(*facts), "other-words", Found.AGAINST)


def test_not_begun_for_a_reason_that_is_not_known() -> None:
    facts = every_hour(status=RunStatus.NOT_STARTED, problem="something odd")
    assert 0 < shows(LAUNCH, without_series(*facts), "run-never-began").weight < 1


def test_amounts_of_bytes_are_no_figures() -> None:
    fact = run(BAD_FROM, {"bytes_read": 1e9})
    assert not has_figure(fact, None)
    assert has_figure(replace(fact, values={"read_bandwidth": 1.0}), None)
    assert not has_figure(replace(fact, values={"read_bandwidth": 1.0}), "write_bandwidth")

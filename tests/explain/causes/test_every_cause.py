"""Every cause: all its evidence on any context, a reason for what is lacking, no rash verdict."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from importlib import import_module

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.explain.causes.contexts import (
    BAD_FROM,
    HOUR,
    HOURS,
    MDTS,
    OSTS,
    READINGS,
    SERVERS,
    SETTINGS,
    START,
    SURVEYS,
    context,
    event,
    frame,
    gauge,
    incident,
    kind_of,
    missing,
    quiet,
    reading,
    run,
    runs,
    shows,
    since,
    sound,
    weight_of,
)
from tests.support.each import for_each

from trimtab.base.event import EventKind
from trimtab.base.incident import Found, Route, Shape
from trimtab.base.run import RunStatus
from trimtab.base.site_hardware import Figure, Hardware
from trimtab.explain.causes import TABLE, garbage_collection, target_service, target_space
from trimtab.explain.context import Cause, Context, CpuProfile, Telemetry

OF_STORAGE = (
    "allocator-loops", "array-degraded", "failover", "few-targets-open", "garbage-collection",
    "target-filling", "target-silent", "targets-over-limit", "trim-overdue",
    "writeback-throttling",
)  # fmt: skip
STORAGE = tuple(cause for cause in TABLE if cause.id in OF_STORAGE)
SURROUNDINGS = tuple(cause for cause in TABLE if cause.id not in OF_STORAGE)
every = for_each("cause", TABLE, ids=lambda cause: cause.id)
of_storage = for_each("cause", STORAGE, ids=lambda cause: cause.id)
of_surroundings = for_each("cause", SURROUNDINGS, ids=lambda cause: cause.id)


@every
def test_a_cause_is_named_by_its_id_and_says_what_would_decide(cause: Cause) -> None:
    module = import_module(cause.assess.__module__)
    assert getattr(module, cause.id.upper().replace("-", "_")) is cause
    assert 0 < cause.prior < 1
    assert cause.measurement.endswith(".")
    assert cause.title[0].islower()
    assert set(cause.brings_about) <= {other.id for other in TABLE} - {cause.id}
    # Checksums and mitigations stay on: a cause shows their cost and no more.
    text = cause.measurement.lower()
    for words in ("switch off", "turn off", "disable", "without checksums", "mitigations=off"):
        assert words not in text


# A sound site, a bare one, and nothing known


@of_storage
def test_a_sound_site_speaks_against_the_cause(cause: Cause) -> None:
    assert weight_of(cause, sound(writes=0.7, reads=0.7)) < -0.5


@of_storage
def test_a_sound_site_leaves_nothing_standing(cause: Cause) -> None:
    assert not any(piece.throughout for piece in cause.assess(sound()))


@of_storage
def test_nothing_known_is_nothing_told_and_says_why(cause: Cause) -> None:
    pieces = cause.assess(context())
    lacking = [piece for piece in pieces if piece.found is Found.NOT_AVAILABLE]
    assert len(lacking) >= 2
    assert all(piece.reason for piece in lacking)
    assert not any(piece.found is Found.FOR for piece in pieces)
    assert weight_of(cause, context()) == 0


@of_storage
def test_the_reason_of_telemetry_is_handed_on(cause: Cause) -> None:
    names = (
        "used_bytes", "create_enabled", "import_state", "failover_active", "degraded",
        "bytes_written_total", "drive_write_amplification", "wbt_latency_s",
        "allocator_useless_loops_total",
    )  # fmt: skip
    rows = [row for name in names for row in missing(name, "ssh: permission denied")]
    reasons = [piece.reason or "" for piece in cause.assess(context(rows))]
    assert any("permission denied" in reason for reason in reasons)


@of_storage
def test_without_good_hours_time_tells_nothing(cause: Cause) -> None:
    alone = sound(good=())
    timed = [piece for piece in cause.assess(alone) if piece.route is Route.TIME]
    assert not any(piece.found is Found.FOR for piece in timed)


@of_surroundings
def test_looks_for_the_same_things_whatever_there_is(cause: Cause) -> None:
    empty = context()
    bare = context()
    bare = Context(
        incident=bare.incident, bad=(), good=(), record_from=bare.record_from, now=bare.now,
        telemetry=Telemetry(pl.DataFrame(), pl.DataFrame()), surveys=pl.DataFrame(),
    )  # fmt: skip
    numbers = {len(cause.assess(scene)) for scene in (empty, bare, quiet())}
    assert len(numbers) == 1
    assert any(piece.found is Found.NOT_AVAILABLE for piece in cause.assess(empty))


@for_each(
    "cause",
    [cause for cause in SURROUNDINGS if cause.id != "cached-read"],
    ids=lambda cause: cause.id,
)
@for_each("shape", [Shape.STEP, Shape.DIP, Shape.UNSTEADY])
def test_is_not_assessed_where_nothing_is_known(cause: Cause, shape: Shape) -> None:
    """Nothing seen is neither convicted nor cleared. Reads alone can be cached: that is known."""
    outcomes = {piece.found for piece in cause.assess(context(of=incident(shape)))}
    assert outcomes <= {Found.NOT_AVAILABLE, Found.NEUTRAL}


@of_surroundings
def test_is_not_convicted_of_a_quiet_step(cause: Cause) -> None:
    total = sum(piece.weight for piece in cause.assess(quiet()))
    assert math.log10(cause.prior) + total < -0.5


@of_surroundings
def test_is_not_convicted_where_nothing_is_known(cause: Cause) -> None:
    total = sum(piece.weight for piece in cause.assess(context()))
    assert math.log10(cause.prior) + total < -0.5


# Rubbish, and anything that may come


@pytest.mark.calibration
@every
def test_frames_of_rubbish_are_borne(cause: Cause) -> None:
    complete = sound()
    odd = pl.DataFrame({"something": [1, 2], "at": ["yesterday", None]})
    cut = complete.telemetry.readings.drop("label", "server", "reason")
    nulls = complete.telemetry.readings.with_columns(
        number=pl.lit(None, pl.Float64), text=pl.lit(None, pl.String)
    )
    infinite = complete.telemetry.readings.with_columns(number=pl.lit(float("inf")))
    negative = complete.telemetry.readings.with_columns(number=-pl.col("number"))
    untimed = complete.telemetry.readings.with_columns(at=pl.lit(None, pl.Datetime("us", "UTC")))
    for readings in (cut, nulls, infinite, negative, untimed):
        _checked(cause, _with(complete, Telemetry(readings, complete.telemetry.settings)))
    empty = Telemetry(frame([], READINGS), odd.drop("at"))
    _checked(cause, _with(complete, empty, surveys=odd.drop("at")))


def _with(of: Context, telemetry: Telemetry, surveys: pl.DataFrame | None = None) -> Context:
    return replace(of, telemetry=telemetry, surveys=of.surveys if surveys is None else surveys)


def _checked(cause: Cause, of: Context) -> None:
    pieces = cause.assess(of)
    assert pieces
    for piece in pieces:
        assert math.isfinite(piece.weight)
        assert abs(piece.weight) <= 2.0
        assert piece.what


@every
def test_frames_without_their_columns(cause: Cause) -> None:
    made = context()
    cut = Telemetry(frame([], READINGS).drop("label", "text"), frame([], SETTINGS).drop("kind"))
    surveys = frame([], SURVEYS).drop("value")
    later = made.now + timedelta(days=1)
    _checked(cause, replace(made, now=later, telemetry=cut, surveys=surveys))


NAMES = (
    "used_bytes", "available_bytes", "capacity_bytes", "create_enabled", "read_only",
    "errors_total", "import_state", "server", "failover_active", "degraded",
    "drive_media_errors_total", "drive_write_amplification", "wbt_latency_s",
    "bytes_written_total", "client_bytes_written_total", "bytes_discarded_total", "last_trim_at",
    "allocator_requests_total", "allocator_useless_loops_total",
    "allocator_groups_considered_total", "allocator_family", "server_cpu_fraction",
    "metadata_operations_total", "concurrent_jobs", "checksum_errors_total",
    "network_bytes_total",
)  # fmt: skip
WORDS = st.sampled_from([
    "", "checksums", "Could not resolve hostname", "srun: error: prolog", "cached: memory",
    "another workload than asked", "BAD WRITE CHECKSUM", "switch was exchanged",
    "\x00\U0001f4a3 %s",
])  # fmt: skip
NUMBERS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([0.0, 1.0, -1.0, 1e300, 5e-324])
)
TIMES = st.one_of(st.integers(-200, 900), st.integers(-2000, 4000)).map(
    lambda n: START + n * HOUR / 10
)
MACHINES = (*OSTS[:4], *MDTS, *SERVERS[:3], "nid1", "")
ROWS = st.fixed_dictionaries({
    "at": TIMES,
    "target": st.sampled_from(MACHINES),
    "server": st.sampled_from([None, "oss0", "oss1"]),
    "name": st.sampled_from(NAMES),
    "label": st.sampled_from([None, "cr1", "MDT0000"]),
    "number": st.one_of(st.none(), NUMBERS),
    "text": st.sampled_from([None, "FULL", "DISCONN", "oss1", "2024-02-13T02:00:00+00:00", "?"]),
    "reason": st.sampled_from([None, "nobody looked"]),
}).map(lambda row: {**row, "kind": kind_of(str(row["target"]))})  # fmt: skip
SETTING = st.fixed_dictionaries({
    "at": TIMES,
    "target": st.sampled_from([*OSTS[:3], "oss0", "nid1"]),
    "name": st.sampled_from(["ldiskfs/md0/mb_c1_threshold", "ldiskfs/md0/mb_c2_threshold",
                             "drives/queue/wbt_lat_usec", "drives/queue/rotational",
                             "mount/options", "checksums", "kernel_release", "mb_last_group"]),
    "value": st.sampled_from(["0", "25", "x", "", "2000 (11), 0 (nvme3n1)", "1", "rw,discard",
                              "5.14", "99999999999999999999"]),
}).map(lambda row: {**row, "kind": kind_of(str(row["target"]))})  # fmt: skip
SURVEYED = st.fixed_dictionaries({
    "at": TIMES,
    "run": st.sampled_from(["a", "b"]),
    "target": st.sampled_from(OSTS[:4]),
    "metric": st.just("write_bandwidth"),
    "value": st.one_of(st.none(), NUMBERS),
})  # fmt: skip
EVENTS = st.builds(
    lambda kind, at, words, span, targets: event(
        kind, at, words, targets=targets, until=None if span is None else at + span * HOUR
    ),
    st.sampled_from(list(EventKind)), TIMES, WORDS, st.sampled_from([None, 0, 3, -3]),
    st.lists(st.sampled_from(OSTS[:3]), max_size=2),
)  # fmt: skip
COUNTS = st.one_of(st.none(), st.integers(0, 4))
RUNS = st.builds(
    run, TIMES,
    st.dictionaries(
        st.sampled_from(["write_bandwidth", "read_bandwidth", "file_creation_rate", "rpc_rate"]),
        NUMBERS,
    ),
    status=st.sampled_from(list(RunStatus)),
    kind=st.sampled_from(["ior", "lnet-selftest", "mdtest", "obdfilter-survey"]),
    minutes=st.sampled_from([0, 20, -5, 1e4]),
    tails=st.dictionaries(st.sampled_from(["write_latency:p99", "write_latency:p50"]), NUMBERS),
    problem=st.one_of(st.none(), WORDS),
    disbelieved=st.lists(WORDS, max_size=2).map(tuple),
    hosts=st.lists(st.sampled_from(["nid1", "nid2", "nid3"]), max_size=3).map(tuple),
    bytes_written=st.one_of(st.none(), NUMBERS), bytes_read=st.one_of(st.none(), NUMBERS),
    nodes=COUNTS, tasks=COUNTS,
)  # fmt: skip
INCIDENTS = st.builds(
    incident, st.sampled_from(list(Shape)),
    effect=st.one_of(st.none(), NUMBERS),
    until=st.sampled_from([None, BAD_FROM + 6 * HOUR, BAD_FROM - HOUR]),
    metric=st.sampled_from(["write_bandwidth", "read_bandwidth", "file_creation_rate"]),
    targets=st.sampled_from([(), OSTS[:1], ("OSTffff",)]),
    moved_with=st.lists(WORDS, max_size=2),
)  # fmt: skip
FIGURES = st.sampled_from([None, Figure(50e9, "B/s", 1e9), Figure(0.0, "B/s")])
CONTEXTS = st.builds(
    context, st.lists(ROWS, max_size=30), st.lists(SETTING, max_size=10),
    st.lists(SURVEYED, max_size=12),
    runs=st.lists(RUNS, max_size=8), events=st.lists(EVENTS, max_size=5), of=INCIDENTS,
    good=st.sampled_from([(), context().good]), bad=st.sampled_from([(), context().bad]),
    profiles=NUMBERS.map(
        lambda share: [CpuProfile(BAD_FROM, {"ldiskfs_mb_find_by_goal": share})]
    ),
    hardware=st.builds(
        lambda figure, oss: Hardware(network=figure, client_network=figure, drive_read=figure,
                                     oss=oss, drives=2),
        FIGURES, st.sampled_from([None, 0, 3]),
    ),
    home=st.sampled_from([None, {}, {"OST0000": "oss0", "MDT0000": "mds0"}]),
)  # fmt: skip


@pytest.mark.calibration
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CONTEXTS)
def test_no_context_makes_a_cause_raise(made: Context) -> None:
    for cause in TABLE:
        _checked(cause, made)


# Beginnings and ends


def test_a_condition_that_began_after_the_first_bad_runs_speaks_against_itself() -> None:
    late = gauge("degraded", since(6), targets=OSTS[:1])
    shows(
        target_service.ARRAY_DEGRADED,
        sound(late),
        "onset-late",
        Found.AGAINST,
        at=BAD_FROM + 6 * HOUR,
    )
    soon = gauge("degraded", since(3), targets=OSTS[:1])
    shows(target_service.ARRAY_DEGRADED, sound(soon), "onset", Found.FOR)


def test_a_condition_that_was_over_early_speaks_against_itself() -> None:
    over = gauge("degraded", False, lambda _, at: at <= BAD_FROM + 2 * HOUR, targets=OSTS[:1])
    shows(target_service.ARRAY_DEGRADED, sound(over), "ended-early", Found.AGAINST)


def test_a_drift_has_no_beginning_to_fit() -> None:
    of = sound(gauge("degraded", since(6), targets=OSTS[:1]), of=incident(Shape.DRIFT))
    shows(target_service.ARRAY_DEGRADED, of, "onset-gradual", Found.NEUTRAL)


def test_snapshots_of_once_a_day_are_given_their_time() -> None:
    daily = HOURS[::11]
    pieces = target_service.ARRAY_DEGRADED.assess(context(gauge("degraded", since(7), hours=daily)))
    assert not any(piece.what.code == "onset-late" for piece in pieces)


# Writes and reads, tails


@pytest.mark.parametrize(
    ("writes", "reads", "outcome"),
    [
        (0.7, 1.0, Found.FOR),
        (0.7, 0.7, Found.AGAINST),
        (1.0, 0.7, Found.AGAINST),
        (0.99, 0.99, Found.NEUTRAL),
        (0.7, 0.8, Found.NEUTRAL),
    ],
)
def test_writes_alone_fall_for_what_only_writes_feel(
    writes: float, reads: float, outcome: Found
) -> None:
    piece = shows(
        target_space.TARGETS_OVER_LIMIT, sound(writes=writes, reads=reads), "writes-and-reads"
    )
    if (writes, reads) == (0.7, 0.8):
        assert piece.found is not Found.FOR
    else:
        assert piece.found is outcome


def test_reads_that_fell_more_weigh_more_against() -> None:
    cause = target_space.TARGETS_OVER_LIMIT
    both, reads = (
        shows(cause, sound(writes=w, reads=r), "writes-and-reads").weight
        for w, r in ((0.7, 0.7), (0.9, 0.6))
    )
    assert reads < both < 0


def test_a_probe_that_only_writes_tells_nothing_of_reads() -> None:
    scene = sound(runs=runs(600e9, 400e9))
    shows(
        target_space.TARGETS_OVER_LIMIT, scene, "writes-and-reads", Found.NOT_AVAILABLE, why="reads"
    )


@pytest.mark.parametrize(
    ("tail", "outcome"), [(9.0, Found.FOR), (1.3, Found.NEUTRAL), (1.0, Found.AGAINST)]
)
def test_the_tail_of_the_write_latency(tail: float, outcome: Found) -> None:
    shows(garbage_collection.GARBAGE_COLLECTION, sound(tail=tail), "latency-tail", outcome)


def test_the_middle_of_a_day_before_is_not_the_log_of_today() -> None:
    old = event(EventKind.REBUILD, BAD_FROM - timedelta(days=3), "nvme4n1")
    shows(target_service.ARRAY_DEGRADED, sound(events=[old]), "event-not-logged", Found.NEUTRAL)


def test_flags_that_are_neither_0_nor_1_are_one_of_them() -> None:
    rows = [reading(START, OSTS[0], "degraded", -1.0), reading(BAD_FROM, OSTS[0], "degraded", 7.0)]
    piece = next(piece for piece in target_service.ARRAY_DEGRADED.assess(context(rows)))
    assert (piece.found, piece.value, piece.reference) == (Found.FOR, 1.0, 0.0)


@pytest.mark.calibration
@every
def test_evidence_does_not_change_with_the_end_of_the_record(cause: Cause) -> None:
    """What ended is explained by what was there until then, whenever it is asked."""
    ended = incident(Shape.STEP, until=BAD_FROM + 6 * HOUR)
    for of in (sound(of=ended), quiet(of=ended)):
        later = replace(of, now=of.now + timedelta(days=200))
        assert cause.assess(later) == cause.assess(of)

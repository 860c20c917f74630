"""Every cause of storage: all its evidence on any context, a reason for what is lacking."""

from __future__ import annotations

import math
from datetime import timedelta

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.explain.causes.around import own, told
from tests.explain.causes.contexts import (
    BAD_FROM,
    HOUR,
    MDTS,
    OSTS,
    READINGS,
    SETTINGS,
    START,
    SURVEYS,
    context,
    event,
    frame,
    incident,
    kind_of,
    run,
    runs,
)
from tests.explain.causes.storage import sound
from tests.support.each import for_each

from trimtab.explain.causes import (
    allocator_loops,
    array_degraded,
    failover,
    few_targets_open,
    garbage_collection,
    target_filling,
    target_silent,
    targets_over_limit,
    trim_overdue,
    writeback_throttling,
)
from trimtab.explain.causes.cause import Cause
from trimtab.explain.context import Context, CpuProfile, Telemetry
from trimtab.model.event import EventKind
from trimtab.model.incident import Found, Route, Shape
from trimtab.model.run import RunStatus

MODULES = (
    allocator_loops,
    array_degraded,
    failover,
    few_targets_open,
    garbage_collection,
    target_filling,
    target_silent,
    targets_over_limit,
    trim_overdue,
    writeback_throttling,
)
CAUSES = tuple(module.CAUSE for module in MODULES)
every = for_each("cause", CAUSES, ids=lambda cause: cause.id)


def test_each_file_holds_the_cause_of_its_name() -> None:
    for module in MODULES:
        assert module.__name__.rpartition(".")[2].replace("_", "-") == module.CAUSE.id


def test_chains_lead_to_causes_that_are_there() -> None:
    known = {cause.id for cause in CAUSES}
    for cause in CAUSES:
        assert set(cause.brings_about) <= known - {cause.id}


@every
def test_priors_are_odds_and_measurements_are_sentences(cause: Cause) -> None:
    assert 0 < cause.prior < 1
    assert cause.measurement.endswith(".")
    assert cause.title[0].islower()


@every
def test_a_sound_site_speaks_against_the_cause(cause: Cause) -> None:
    assert own(cause, sound(writes=0.7, reads=0.7)) < -0.5


@every
def test_a_sound_site_leaves_nothing_standing(cause: Cause) -> None:
    assert not any(piece.throughout for piece in cause.assess(sound()))


@every
def test_nothing_known_is_nothing_told_and_says_why(cause: Cause) -> None:
    pieces = cause.assess(context())
    missing = [piece for piece in pieces if piece.found is Found.NOT_AVAILABLE]
    assert len(missing) >= 2
    assert all(piece.reason for piece in missing)
    assert not any(piece.found is Found.FOR for piece in pieces)
    assert own(cause, context()) == 0


@every
def test_the_reason_of_telemetry_is_handed_on(cause: Cause) -> None:
    from tests.explain.causes.contexts import missing

    names = (
        "used_bytes", "create_enabled", "import_state", "failover_active", "degraded",
        "bytes_written_total", "drive_write_amplification", "wbt_latency_s",
        "allocator_useless_loops_total",
    )  # fmt: skip
    rows = [row for name in names for row in missing(name, "ssh: permission denied")]
    reasons = [piece.reason or "" for piece in cause.assess(context(rows))]
    assert any("permission denied" in reason for reason in reasons)


@every
def test_without_good_hours_time_tells_nothing(cause: Cause) -> None:
    alone = sound(good=())
    timed = [piece for piece in cause.assess(alone) if piece.route is Route.TIME]
    assert not any(piece.found is Found.FOR for piece in timed)


@pytest.mark.calibration
@every
def test_frames_of_rubbish_are_borne(cause: Cause) -> None:
    whole = sound()
    odd = pl.DataFrame({"something": [1, 2], "at": ["yesterday", None]})
    cut = whole.telemetry.readings.drop("label", "server", "reason")
    nulls = whole.telemetry.readings.with_columns(
        number=pl.lit(None, pl.Float64), text=pl.lit(None, pl.String)
    )
    infinite = whole.telemetry.readings.with_columns(number=pl.lit(float("inf")))
    negative = whole.telemetry.readings.with_columns(number=-pl.col("number"))
    untimed = whole.telemetry.readings.with_columns(at=pl.lit(None, pl.Datetime("us", "UTC")))
    for readings in (cut, nulls, infinite, negative, untimed):
        _checked(cause, _with(whole, Telemetry(readings, whole.telemetry.settings)))
    empty = Telemetry(frame([], READINGS), odd.drop("at"))
    _checked(cause, _with(whole, empty, surveys=odd.drop("at")))


def _with(of: Context, telemetry: Telemetry, surveys: pl.DataFrame | None = None) -> Context:
    from dataclasses import replace

    return replace(of, telemetry=telemetry, surveys=of.surveys if surveys is None else surveys)


def _checked(cause: Cause, of: Context) -> None:
    pieces = cause.assess(of)
    assert pieces
    for piece in pieces:
        assert math.isfinite(piece.weight)
        assert abs(piece.weight) <= 2.0
        assert piece.what


NAMES = (
    "used_bytes", "available_bytes", "capacity_bytes", "create_enabled", "read_only",
    "errors_total", "import_state", "server", "failover_active", "degraded",
    "drive_media_errors_total", "drive_write_amplification", "wbt_latency_s",
    "bytes_written_total", "client_bytes_written_total", "bytes_discarded_total", "last_trim_at",
    "allocator_requests_total", "allocator_useless_loops_total",
    "allocator_groups_considered_total", "allocator_family", "server_cpu_fraction",
)  # fmt: skip
NUMBERS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([0.0, 1.0, -1.0, 1e300])
)
TIMES = st.integers(-200, 900).map(lambda n: START + n * HOUR / 10)
ROWS = st.fixed_dictionaries({
    "at": TIMES,
    "target": st.sampled_from([*OSTS[:4], *MDTS, "oss0", ""]),
    "server": st.sampled_from([None, "oss0", "oss1"]),
    "name": st.sampled_from(NAMES),
    "label": st.sampled_from([None, "cr1", "MDT0000"]),
    "number": st.one_of(st.none(), NUMBERS),
    "text": st.sampled_from([None, "FULL", "DISCONN", "oss1", "2024-02-13T02:00:00+00:00", "?"]),
    "reason": st.sampled_from([None, "nobody looked"]),
})  # fmt: skip
SETTING = st.fixed_dictionaries({
    "at": TIMES,
    "target": st.sampled_from(OSTS[:3]),
    "kind": st.just("ost"),
    "name": st.sampled_from(["ldiskfs/md0/mb_c1_threshold", "ldiskfs/md0/mb_c2_threshold",
                             "drives/queue/wbt_lat_usec", "drives/queue/rotational",
                             "mount/options"]),
    "value": st.sampled_from(["25", "x", "", "2000 (11), 0 (nvme3n1)", "1", "rw,discard",
                              "99999999999999999999"]),
})  # fmt: skip
SURVEYED = st.fixed_dictionaries({
    "at": TIMES,
    "run": st.sampled_from(["a", "b"]),
    "target": st.sampled_from(OSTS[:4]),
    "metric": st.just("write_bandwidth"),
    "value": st.one_of(st.none(), NUMBERS),
})  # fmt: skip
EVENTS = st.builds(
    lambda kind, at, span, targets: event(
        kind, at, "x", targets=targets, until=None if span is None else at + span * HOUR
    ),
    st.sampled_from(list(EventKind)), TIMES, st.sampled_from([None, 0, 3, -3]),
    st.sampled_from([(), OSTS[:1]]),
)  # fmt: skip
RUNS = st.builds(
    lambda at, value, status, tail: run(
        at, {"write_bandwidth": value, "read_bandwidth": value}, status=status,
        tails={"write_latency:p99": tail, "write_latency:p50": 1.0},
    ),
    TIMES, NUMBERS, st.sampled_from(list(RunStatus)), NUMBERS,
)  # fmt: skip
INCIDENTS = st.builds(
    lambda shape, effect, until, targets: incident(
        shape, effect=effect, until=until, targets=targets
    ),
    st.sampled_from(list(Shape)), st.one_of(st.none(), NUMBERS),
    st.sampled_from([None, BAD_FROM + 6 * HOUR, BAD_FROM - HOUR]),
    st.sampled_from([(), OSTS[:1], ("OSTffff",)]),
)  # fmt: skip


@pytest.mark.calibration
@every
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.lists(ROWS, max_size=30), values=st.lists(SETTING, max_size=8),
    surveyed=st.lists(SURVEYED, max_size=12), log=st.lists(EVENTS, max_size=5),
    facts=st.lists(RUNS, max_size=8), of=INCIDENTS, share=NUMBERS,
)  # fmt: skip
def test_no_context_makes_it_raise(cause, rows, values, surveyed, log, facts, of, share) -> None:
    readings = [{**row, "kind": kind_of(row["target"])} for row in rows]
    profile = CpuProfile(BAD_FROM, "oss0", {"ldiskfs_mb_find_by_goal": share}, "perf")
    made = context(readings, values, runs=facts, events=log, of=of, profiles=[profile])
    made = _with(made, made.telemetry, frame(surveyed, SURVEYS))
    _checked(cause, made)


def test_made_up_settings_fit_the_columns_of_telemetry() -> None:
    assert set(SETTINGS) == {"at", "target", "kind", "name", "value"}


# Beginnings and ends


def test_a_condition_that_began_after_the_first_bad_runs_speaks_against_itself() -> None:
    from tests.explain.causes.contexts import gauge

    late = gauge("degraded", False, lambda _, at: at >= BAD_FROM + 6 * HOUR, targets=OSTS[:1])
    piece = told(array_degraded.CAUSE, sound(late), "onset-late", Found.AGAINST)
    assert piece.at == BAD_FROM + 6 * HOUR
    soon = gauge("degraded", False, lambda _, at: at >= BAD_FROM + 3 * HOUR, targets=OSTS[:1])
    told(array_degraded.CAUSE, sound(soon), "onset", Found.FOR)


def test_a_condition_that_was_over_early_speaks_against_itself() -> None:
    from tests.explain.causes.contexts import gauge

    over = gauge("degraded", False, lambda _, at: at <= BAD_FROM + 2 * HOUR, targets=OSTS[:1])
    told(array_degraded.CAUSE, sound(over), "ended-early", Found.AGAINST)


def test_a_drift_has_no_beginning_to_fit() -> None:
    from tests.explain.causes.contexts import gauge

    late = gauge("degraded", False, lambda _, at: at >= BAD_FROM + 6 * HOUR, targets=OSTS[:1])
    of = sound(late, of=incident(Shape.DRIFT))
    told(array_degraded.CAUSE, of, "onset-gradual", Found.NEUTRAL)


def test_snapshots_of_once_a_day_are_given_their_time() -> None:
    from tests.explain.causes.contexts import HOURS, gauge

    daily = HOURS[::11]
    late = gauge("degraded", False, lambda _, at: at >= BAD_FROM + 7 * HOUR, hours=daily)
    pieces = array_degraded.CAUSE.assess(context(late))
    assert not any(piece.what.code == "onset-late" for piece in pieces)


# Writes and reads, tails


@pytest.mark.parametrize(
    ("writes", "reads", "found"),
    [
        (0.7, 1.0, Found.FOR),
        (0.7, 0.7, Found.AGAINST),
        (1.0, 0.7, Found.AGAINST),
        (0.99, 0.99, Found.NEUTRAL),
        (0.7, 0.8, Found.NEUTRAL),
    ],
)
def test_writes_alone_fall_for_what_only_writes_feel(
    writes: float, reads: float, found: Found
) -> None:
    piece = told(targets_over_limit.CAUSE, sound(writes=writes, reads=reads), "writes-and-reads")
    if (writes, reads) == (0.7, 0.8):
        assert piece.found is not Found.FOR
    else:
        assert piece.found is found


def test_reads_that_fell_more_weigh_more_against() -> None:
    cause = targets_over_limit.CAUSE
    both, reads = (
        told(cause, sound(writes=w, reads=r), "writes-and-reads").weight
        for w, r in ((0.7, 0.7), (0.9, 0.6))
    )
    assert reads < both < 0


def test_a_probe_that_only_writes_tells_nothing_of_reads() -> None:
    piece = told(
        targets_over_limit.CAUSE,
        sound(runs=runs(600e9, 400e9)),
        "writes-and-reads",
        Found.NOT_AVAILABLE,
    )
    assert "reads" in (piece.reason or "")


@pytest.mark.parametrize(
    ("tail", "found"), [(9.0, Found.FOR), (1.3, Found.NEUTRAL), (1.0, Found.AGAINST)]
)
def test_the_tail_of_the_write_latency(tail: float, found: Found) -> None:
    told(garbage_collection.CAUSE, sound(tail=tail), "latency-tail", found)


def test_the_middle_of_a_day_before_is_not_the_log_of_today() -> None:
    old = event(EventKind.REBUILD, BAD_FROM - timedelta(days=3), "nvme4n1")
    told(array_degraded.CAUSE, sound(events=[old]), "event-not-logged", Found.NEUTRAL)


def test_flags_that_are_neither_0_nor_1_are_one_of_them() -> None:
    from tests.explain.causes.contexts import reading

    rows = [
        reading(START, OSTS[0], "degraded", -1.0),
        reading(BAD_FROM, OSTS[0], "degraded", 7.0),
    ]
    piece = next(one for one in array_degraded.CAUSE.assess(context(rows)))
    assert (piece.found, piece.value, piece.reference) == (Found.FOR, 1.0, 0.0)

"""Every cause around storage gives all its evidence on any context, and raises on none."""

from __future__ import annotations

import math
from datetime import timedelta

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.explain.causes.around import quiet
from tests.explain.causes.contexts import (
    BAD_FROM,
    HOUR,
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
    incident,
    kind_of,
    run,
)
from tests.support.each import for_each

from trimtab.explain.causes import (
    bad_checksums,
    cached_read,
    client_node,
    competing_load,
    configuration_change,
    launch_failure,
    metadata_load,
    network,
    workload_mismatch,
)
from trimtab.explain.causes.cause import Cause
from trimtab.explain.context import Context, Telemetry
from trimtab.model.event import EventKind
from trimtab.model.hardware import Figure, Hardware
from trimtab.model.incident import Found, Shape
from trimtab.model.run import RunStatus

CAUSES = tuple(
    one.CAUSE
    for one in (
        bad_checksums,
        cached_read,
        client_node,
        competing_load,
        configuration_change,
        launch_failure,
        metadata_load,
        network,
        workload_mismatch,
    )
)
NAMES = (
    "client_bytes_written_total", "bytes_written_total", "metadata_operations_total",
    "concurrent_jobs", "server_cpu_fraction", "checksum_errors_total", "import_state",
    "network_bytes_total",
)  # fmt: skip
WORDS = st.sampled_from([
    "", "checksums", "Could not resolve hostname", "srun: error: prolog", "cached: memory",
    "another workload than asked", "BAD WRITE CHECKSUM", "switch was exchanged",
    "\x00\U0001f4a3 %s",
])  # fmt: skip
NUMBERS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([0.0, -1.0, 1e300, 5e-324])
)
TIMES = st.integers(-2000, 4000).map(lambda n: START + n * HOUR / 10)


@st.composite
def readings(draw: st.DrawFn) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for _ in range(draw(st.integers(0, 30))):
        target = draw(st.sampled_from([*OSTS[:3], *MDTS, *SERVERS[:3], "nid1", ""]))
        rows.append({
            "at": draw(TIMES), "target": target, "kind": kind_of(target),
            "server": draw(st.sampled_from([None, "oss0", "oss1"])),
            "name": draw(st.sampled_from(NAMES)),
            "label": draw(st.sampled_from([None, "a", "b"])),
            "number": draw(st.one_of(st.none(), NUMBERS)),
            "text": draw(st.sampled_from([None, "FULL", "DISCONN", "x"])),
            "reason": draw(st.sampled_from([None, "nobody looked"])),
        })  # fmt: skip
    return rows


@st.composite
def contexts(draw: st.DrawFn) -> Context:
    facts = [
        run(
            draw(TIMES),
            draw(st.dictionaries(st.sampled_from(["write_bandwidth", "read_bandwidth",
                                                  "file_creation_rate", "rpc_rate"]), NUMBERS)),
            status=draw(st.sampled_from(list(RunStatus))),
            kind=draw(st.sampled_from(["ior", "lnet-selftest", "mdtest", "obdfilter-survey"])),
            minutes=draw(st.sampled_from([0, 20, -5, 1e4])),
            problem=draw(st.one_of(st.none(), WORDS)),
            disbelieved=tuple(draw(st.lists(WORDS, max_size=2))),
            hosts=tuple(draw(st.lists(st.sampled_from(["nid1", "nid2", "nid3"]), max_size=3))),
            bytes_written=draw(st.one_of(st.none(), NUMBERS)),
            bytes_read=draw(st.one_of(st.none(), NUMBERS)),
            nodes=draw(st.one_of(st.none(), st.integers(0, 4))),
            tasks=draw(st.one_of(st.none(), st.integers(0, 4))),
        )
        for _ in range(draw(st.integers(0, 8)))
    ]  # fmt: skip
    log = [
        event(draw(st.sampled_from(list(EventKind))), at, draw(WORDS),
              targets=draw(st.lists(st.sampled_from(OSTS[:3]), max_size=2)),
              until=draw(st.sampled_from([None, at + HOUR, at - HOUR])))
        for at in draw(st.lists(TIMES, max_size=4))
    ]  # fmt: skip
    changes = [
        {"at": draw(TIMES), "target": draw(st.sampled_from(["OST0000", "oss0", "nid1"])),
         "kind": draw(st.sampled_from(["ost", "server", "client"])),
         "name": draw(st.sampled_from(["checksums", "kernel_release", "mb_last_group"])),
         "value": draw(st.sampled_from(["0", "1", "5.14", ""]))}
        for _ in range(draw(st.integers(0, 10)))
    ]  # fmt: skip
    surveyed = [
        {"at": draw(TIMES), "run": draw(st.sampled_from(["a", "b"])), "server": None,
         "target": draw(st.sampled_from(OSTS[:3])), "metric": "write_bandwidth",
         "value": draw(NUMBERS)}
        for _ in range(draw(st.integers(0, 10)))
    ]  # fmt: skip
    figure = draw(st.sampled_from([None, Figure(50e9, "B/s", 1e9), Figure(0.0, "B/s")]))
    of = incident(
        draw(st.sampled_from(list(Shape))),
        effect=draw(st.one_of(st.none(), NUMBERS)),
        until=draw(st.sampled_from([None, BAD_FROM + HOUR, BAD_FROM - HOUR])),
        metric=draw(st.sampled_from(["write_bandwidth", "read_bandwidth", "file_creation_rate"])),
        moved_with=draw(st.lists(WORDS, max_size=2)),
    )
    return context(
        draw(readings()), changes, surveyed, runs=facts, events=log, of=of,
        hardware=Hardware(network=figure, client_network=figure, drive_read=figure,
                          oss=draw(st.sampled_from([None, 0, 3])), drives=2),
        home=draw(st.sampled_from([{}, {"OST0000": "oss0", "MDT0000": "mds0"}])),
        good=draw(st.sampled_from([(), context().good])),
        bad=draw(st.sampled_from([(), context().bad])),
    )  # fmt: skip


@pytest.mark.calibration
@given(contexts())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_context_gives_sound_evidence(one: Context) -> None:
    for cause in CAUSES:
        evidence = cause.assess(one)
        assert evidence
        for piece in evidence:
            assert math.isfinite(piece.weight)
            assert abs(piece.weight) <= 2.0
            assert piece.what


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.id)
def test_looks_for_the_same_things_whatever_there_is(cause: Cause) -> None:
    empty = context()
    bare = context()
    bare = Context(
        incident=bare.incident, bad=(), good=(), record_from=bare.record_from, now=bare.now,
        telemetry=Telemetry(pl.DataFrame(), pl.DataFrame()), surveys=pl.DataFrame(),
    )  # fmt: skip
    numbers = {len(cause.assess(one)) for one in (empty, bare, quiet())}
    assert len(numbers) == 1
    assert any(piece.found is Found.NOT_AVAILABLE for piece in cause.assess(empty))


@for_each("cause", [one for one in CAUSES if one.id != "cached-read"], ids=lambda cause: cause.id)
@for_each("shape", [Shape.STEP, Shape.DIP, Shape.UNSTEADY])
def test_is_not_assessed_where_nothing_is_known(cause: Cause, shape: Shape) -> None:
    """Nothing seen is neither convicted nor cleared. Reads alone can be cached: that is known."""
    founds = {piece.found for piece in cause.assess(context(of=incident(shape)))}
    assert founds <= {Found.NOT_AVAILABLE, Found.NEUTRAL}


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.id)
def test_is_not_convicted_of_a_quiet_step(cause: Cause) -> None:
    total = sum(piece.weight for piece in cause.assess(quiet()))
    assert math.log10(cause.prior) + total < -0.5


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.id)
def test_is_not_convicted_where_nothing_is_known(cause: Cause) -> None:
    total = sum(piece.weight for piece in cause.assess(context()))
    assert math.log10(cause.prior) + total < -0.5


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.id)
def test_advises_nobody_to_take_a_protection_off(cause: Cause) -> None:
    """Checksums and mitigations stay on: a cause shows their cost and no more."""
    text = cause.measurement.lower()
    for words in ("switch off", "turn off", "disable", "without checksums", "mitigations=off"):
        assert words not in text


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.id)
def test_id_is_its_file(cause: Cause) -> None:
    module = cause.assess.__module__.rpartition(".")[2]
    assert cause.id == module.replace("_", "-")
    assert 0 < cause.prior < 1


def test_frames_without_their_columns() -> None:
    odd = context()
    odd = Context(
        incident=odd.incident, bad=odd.bad, good=odd.good, record_from=odd.record_from,
        now=odd.now + timedelta(days=1),
        telemetry=Telemetry(frame([], READINGS).drop("label", "text"),
                            frame([], SETTINGS).drop("kind")),
        surveys=frame([], SURVEYS).drop("value"),
    )  # fmt: skip
    for cause in CAUSES:
        assert cause.assess(odd)

"""What holds of any ladder, whatever was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.judge.ladder.rungs import HARDWARE

from trimtab.base.run import LAYERS
from trimtab.base.site_hardware import Hardware, Parity, parse_figure
from trimtab.judge.efficiency_ladder import (
    LADDER_METRICS,
    Coverage,
    Estimate,
    IntervalBasis,
    Ladder,
    LadderInput,
    LimitKind,
    Rung,
)
from trimtab.judge.ladder_analysis import SCALES, build_ladder
from trimtab.judge.layer_efficiency import of_values, scaled

pytestmark = pytest.mark.calibration

counts = st.none() | st.integers(1, 64)
rates = st.one_of(
    st.floats(1e6, 1e12).map(Estimate),
    st.floats(1e6, 1e12).map(lambda value: Estimate(value, value * 0.95, value * 1.05)),
    st.lists(st.floats(1e6, 1e12), min_size=1, max_size=5).map(
        lambda values: of_values(values, IntervalBasis.REPETITIONS)
    ),
)
hardware = st.builds(
    Hardware,
    drive_write=st.none() | st.just(parse_figure("3.2 GB/s")),
    drive_read=st.none() | st.just(parse_figure("3.5 GB/s")),
    drive_link=st.none() | st.just(parse_figure("7 GiB/s")),
    drives=counts,
    osts=counts,
    oss=counts,
    parity=st.none() | st.just(Parity(8, 2)),
    network=st.none() | st.just(parse_figure("50 GB/s")),
    client_network=st.none() | st.just(parse_figure("25 GB/s")),
)
rungs = st.lists(
    st.builds(
        Rung,
        st.sampled_from(LAYERS),
        st.sampled_from(LADDER_METRICS),
        rates,
        coverage=st.builds(Coverage, counts, counts, counts),
        nodes=counts,
        epoch=st.none() | st.sampled_from(["1", "2"]),
        fullness=st.none() | st.floats(0, 1),
    ),
    max_size=10,
    unique_by=lambda rung: (rung.layer, rung.metric),
).map(tuple)


@given(hardware, rungs, st.booleans(), st.none() | st.sampled_from(SCALES))
def test_a_verdict_rests_on_sure_figures_alone(
    built: Hardware, measured: tuple[Rung, ...], networked: bool, scale
) -> None:
    ladder = build_ladder(LadderInput("x", built, measured, networked=networked), scale=scale)
    for track in ladder.tracks:
        assert track.limit.reason
        assert track.loss.reason
        assert (track.limit.kind is LimitKind.CANNOT_TELL) == (track.limit.layer is None)
        layers = {step.rung.layer for step in track.steps}
        assert track.limit.layer is None or track.limit.layer in layers
        for step in track.steps:
            assert (step.shown is None) == (step.shown_reason is not None)
            for one in step.beneath:
                assert (one.value is None) == (one.reason is not None)
                assert one.of in layers
                if one.value is not None and one.low is not None and one.high is not None:
                    assert one.low <= one.value * (1 + 1e-9)
                    assert one.value <= one.high * (1 + 1e-9)
        if track.limit.kind is LimitKind.LAYER:
            (step,) = (step for step in track.steps if step.rung.layer == track.limit.layer)
            assert any(
                one.high is not None and one.high < 1 - ladder.margin and not one.doubts
                for one in step.beneath
            )


def verdicts(ladder: Ladder) -> list[tuple[object, ...]]:
    return [
        (track.metric, track.limit.kind, track.limit.layer, track.loss.layer)
        for track in ladder.tracks
    ]


@given(rungs, st.sampled_from([2.0**-10, 2.0**10]))
def test_verdicts_do_not_depend_on_the_unit(measured: tuple[Rung, ...], factor: float) -> None:
    built = Hardware(drives=24, osts=2, oss=1, parity=Parity(8, 2))
    larger = tuple(replace(rung, rate=scaled(rung.rate, factor)) for rung in measured)
    assert verdicts(build_ladder(LadderInput("x", built, measured))) == verdicts(
        build_ladder(LadderInput("x", built, larger))
    )


@given(rungs, st.sampled_from(SCALES))
def test_verdicts_do_not_depend_on_the_scale_shown(measured: tuple[Rung, ...], scale) -> None:
    given_input = LadderInput("x", HARDWARE, measured)
    assert verdicts(build_ladder(given_input)) == verdicts(build_ladder(given_input, scale=scale))

"""The ladder: parity, scale, what limits, when nothing can be told, and what holds of any."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.judge.ladder.rungs import HARDWARE, ONE, efficiencies, rung, track
from tests.support.narrow import present

from trimtab.base.error import code_of
from trimtab.base.run import LAYERS, Layer
from trimtab.base.site_hardware import Hardware, Parity, parse_figure
from trimtab.judge.efficiency_ladder import (
    LADDER_METRICS,
    Coverage,
    Estimate,
    IntervalBasis,
    Ladder,
    LadderInput,
    LadderLimit,
    LimitKind,
    Rung,
)
from trimtab.judge.ladder_analysis import SCALES, build_ladder
from trimtab.judge.layer_efficiency import of_values, scaled

WRITE = "write_bandwidth"
AT = datetime(2026, 3, 1, tzinfo=UTC)


def test_a_written_byte_is_more_bytes_to_the_drives() -> None:
    found = efficiencies(track(rung("drive", "38 GB/s", WRITE), rung("ost", "31 GB/s", WRITE)))
    assert found["ost", "drive"].value == pytest.approx(31 * 1.25 / 38)
    assert found["ost", "drive"].parity_counted
    assert found["ost", "data_sheet"].value == pytest.approx(31 * 1.25 / 38.4)
    assert not found["drive", "data_sheet"].parity_counted


def test_reads_and_rungs_above_the_parity_are_taken_as_they_are() -> None:
    reads = efficiencies(track(rung("drive", "42 GB/s"), rung("ost", "43 GB/s")))
    assert reads["ost", "drive"].value == pytest.approx(43 / 42)
    assert not reads["ost", "drive"].parity_counted
    writes = efficiencies(track(rung("ost", "31 GB/s", WRITE), rung("client", "27 GB/s", WRITE)))
    assert writes["client", "ost"].value == pytest.approx(27 / 31)
    raid = efficiencies(track(rung("raid", "31 GB/s", WRITE), rung("ost", "30 GB/s", WRITE)))
    assert raid["ost", "raid"].value == pytest.approx(30 / 31)
    assert raid["raid", "data_sheet"].value == pytest.approx(31 * 1.25 / 38.4)


def test_without_a_parity_writes_are_not_compared_with_drives() -> None:
    hardware = replace(HARDWARE, parity=None)
    found = track(rung("ost", "31 GB/s", WRITE), hardware=hardware)
    efficiency = efficiencies(found)["ost", "data_sheet"]
    assert (efficiency.value, code_of(efficiency.reason)) == (None, "parity-unknown")
    assert found.limit.kind is LimitKind.CANNOT_TELL
    mirrored = track(rung("ost", "19 GB/s", WRITE), hardware=replace(HARDWARE, parity=Parity(1, 1)))
    assert efficiencies(mirrored)["ost", "data_sheet"].value == pytest.approx(38 / 38.4)


def test_small_writes_have_no_fixed_parity_factor() -> None:
    found = track(
        rung("drive", "1600 kIOPS", "write_iops"), rung("client", "29 kIOPS", "write_iops")
    )
    efficiency = efficiencies(found)["client", "drive"]
    assert efficiency.value == pytest.approx(29 / 1600)
    assert not efficiency.parity_counted
    assert (found.limit.kind, found.loss.layer) == (LimitKind.CANNOT_TELL, None)


def test_megabytes_and_mebibytes_are_told_apart() -> None:
    found = efficiencies(track(rung("drive", "42 GB/s"), rung("ost", f"{42e9 / 2**20:.3f} MiB/s")))
    assert found["ost", "drive"].value == pytest.approx(1, abs=1e-6)


# What limits


def ladder(*rates: str) -> list[Rung]:
    """Return rungs of drive, OST, network and client, where there is a rate."""
    layers: tuple[Layer, ...] = ("drive", "ost", "network", "client")
    return [rung(layer, rate) for layer, rate in zip(layers, rates, strict=True) if rate]


def limit(*rates: str, margin: float = 0.1) -> LadderLimit:
    return track(*ladder(*rates), margin=margin).limit


@pytest.mark.parametrize(
    ("rates", "kind", "layer", "said"),
    [
        ("42.0 43.0 20.0 19.5", LimitKind.NETWORK, "network", "97.5 %"),
        ("42.0 43.0 20.0 19.5", LimitKind.NETWORK, "network", "40.0 % (39.9 .. 40.1) of line rate"),
        ("42.0 41.0 48.0 40.0", LimitKind.DRIVES, "drive", ""),
        ("42.0 30.0 48.0 29.0", LimitKind.LAYER, "ost", ""),
        ("42.0 41.0 48.0 30.0", LimitKind.LAYER, "client", ""),
    ],
)
def test_the_layer_that_limits_is_named(rates: str, kind: LimitKind, layer: str, said: str) -> None:
    found = limit(*(f"{rate} GB/s" for rate in rates.split()))
    assert (found.kind, found.layer) == (kind, layer)
    assert said in found.reason


def test_a_network_that_will_limit_clients_is_foretold() -> None:
    found = limit("42.0 GB/s", "43.0 GB/s", "20.0 GB/s", "")
    assert (found.kind, found.layer) == (LimitKind.DRIVES, "drive")
    assert "network at 46.5 %" in found.reason
    assert "it will limit the clients" in found.reason
    assert "clients" not in limit("42.0 GB/s", "43.0 GB/s", "48.0 GB/s", "").reason


def test_lost_in_the_raid() -> None:
    found = track(
        *ladder("42.0 GB/s", "29.5 GB/s", "48.0 GB/s", "29.0 GB/s"), rung("raid", "30.0 GB/s")
    )
    assert (found.limit.kind, found.limit.layer) == (LimitKind.LAYER, "raid")
    assert found.loss.layer == "raid"


def test_limited_by_the_clients_own_network() -> None:
    hardware = replace(HARDWARE, client_network=parse_figure("25 GB/s"))
    beneath = rung("ost", "42.0 GB/s"), rung("network", "48.0 GB/s")
    rungs = [*beneath, rung("client", "24.5 GB/s", nodes=1)]
    found = track(*rungs, hardware=hardware)
    assert found.limit.kind is LimitKind.CLIENT_NETWORK
    assert efficiencies(found)["client", "client_network"].value == pytest.approx(0.98)
    two = track(*rungs[:2], rung("client", "24.5 GB/s", nodes=2), hardware=hardware)
    assert (two.limit.kind, two.limit.layer) == (LimitKind.LAYER, "client")


def test_at_the_line_rate_no_network_rung_is_needed() -> None:
    hardware = replace(HARDWARE, network=parse_figure("30 GB/s"))
    found = track(rung("ost", "42.0 GB/s"), rung("client", "29.5 GB/s"), hardware=hardware)
    assert found.limit.kind is LimitKind.NETWORK


def test_what_lies_beside_the_way_down_is_no_bottleneck() -> None:
    """Behind a slow network the OSTs may lose as much as they like."""
    found = track(*ladder("42.0 GB/s", "30.0 GB/s", "20.0 GB/s", "15.0 GB/s"))
    assert (found.limit.kind, found.limit.layer) == (LimitKind.LAYER, "client")
    assert (present(found.loss.efficiency).of, found.loss.layer) == ("line_rate", "network")


def test_drives_that_do_not_give_what_their_data_sheet_says_are_the_bottleneck() -> None:
    for rate, share in (("0.294 GB/s", "0.7 %"), ("21.0 GB/s", "50.0 %"), ("37.5 GB/s", "89.3 %")):
        found = track(rung("drive", rate))
        assert (found.limit.kind, found.limit.layer) == (LimitKind.LAYER, "drive")
        assert f"drive at {share}" in found.limit.reason
        assert found.loss.layer == "drive"
    above = limit("21.0 GB/s", "20.8 GB/s", "48.0 GB/s", "20.5 GB/s")
    assert (above.kind, above.layer) == (LimitKind.LAYER, "drive")
    here = track(rung("drive", "21.0 GB/s"), rung("client", "20.5 GB/s"), networked=False)
    assert (here.limit.kind, here.limit.layer) == (LimitKind.LAYER, "drive")


def test_repeated_measurements_tell_what_the_drives_lose() -> None:
    for rates, kind in (
        ([21.0, 21.1, 20.9, 21.2], LimitKind.LAYER),
        ([41.0, 41.1, 40.9, 41.2], LimitKind.DRIVES),
        ([37.0, 38.5, 38.0, 37.4], LimitKind.CANNOT_TELL),  # 90 % of 42 are 37.8
    ):
        found = track(rung("drive", rates)).limit
        assert found.kind is kind, found.reason
        assert "data sheet" in found.reason


@pytest.mark.parametrize("rate", [0.294, 21.0, 41.9])
def test_one_measurement_of_the_drives_tells_nothing_of_the_data_sheet(rate: float) -> None:
    for found in (
        track(rung("drive", [rate])),
        track(rung("drive", [rate]), rung("client", [rate]), networked=False),
    ):
        assert found.limit.kind is LimitKind.CANNOT_TELL
        assert found.limit.reason.code == "one-measurement"


def test_drives_of_an_unknown_number_are_held_against_nothing() -> None:
    found = track(rung("drive", "21.0 GB/s", coverage=Coverage()))
    assert (found.limit.kind, found.limit.reason.code) == (LimitKind.CANNOT_TELL, "counts-unknown")


def test_drives_without_a_data_sheet_limit_by_themselves() -> None:
    found = track(rung("drive", [21.0]), hardware=replace(HARDWARE, drive_read=None))
    assert (found.limit.kind, found.limit.layer) == (LimitKind.DRIVES, "drive")
    assert found.limit.reason == "only the drives were measured"


# Cannot tell


@pytest.mark.parametrize(
    ("rates", "code"),
    [
        (("42 GB/s", "43 GB/s", "", "41 GB/s"), "network-not-measured"),
        (("", "", "48 GB/s", "27 GB/s"), "ost-not-measured"),
        (("42 GB/s", "31 GB/s", "42 GB/s", "28 GB/s"), "margin-in-interval"),
        (("42 GB/s", "43 GB/s", "43 GB/s", "42 GB/s"), "carriers-tied"),
        (("42 GB/s", "", "48 GB/s", "20 GB/s"), "ost-not-measured"),
    ],
)
def test_cannot_tell(rates: tuple[str, ...], code: str) -> None:
    found = limit(*rates)
    assert (found.kind, found.reason.code) == (LimitKind.CANNOT_TELL, code)


def test_one_repetition_has_no_interval() -> None:
    found = track(rung("drive", [42.0]), rung("ost", [30.0]))
    assert (found.limit.kind, found.limit.reason.code) == (LimitKind.CANNOT_TELL, "one-measurement")
    assert efficiencies(found)["ost", "drive"].value == pytest.approx(30 / 42)


@pytest.mark.parametrize(
    ("above", "beneath", "words"),
    [
        ({"epoch": "1"}, {"epoch": "2"}, "epochs: 1, 2"),
        ({"fullness": 0.30}, {"fullness": 0.70}, "30 % and 70 % full"),
        ({"at": AT}, {"at": AT + timedelta(days=31)}, "31 days apart"),
        ({"conditions": {"NPS": "1"}}, {"conditions": {"NPS": "2"}}, "NPS 1 and 2"),
        ({"coverage": Coverage(osts=4)}, {"coverage": Coverage(osts=1)}, "on 4 and on 1 OSTs"),
    ],
)
def test_other_conditions(above: dict[str, Any], beneath: dict[str, Any], words: str) -> None:
    hardware = replace(HARDWARE, drives=None, osts=None)
    rungs = [rung("ost", "42.0 GB/s", **beneath), rung("network", "48.0 GB/s")]
    found = track(*rungs, rung("client", "41.0 GB/s", **above), hardware=hardware)
    assert words in " ".join(efficiencies(found)["client", "ost"].doubts)
    assert found.limit.kind is LimitKind.CANNOT_TELL
    assert words in found.limit.reason


def test_conditions_that_only_one_tells_are_no_doubt() -> None:
    found = track(
        rung("drive", "42.0 GB/s", at=AT),
        rung("ost", "41.0 GB/s", epoch="1", fullness=0.9, conditions={"NPS": "1"}),
    )
    assert (efficiencies(found)["ost", "drive"].doubts, found.limit.kind) == ((), LimitKind.DRIVES)


def test_more_than_can_be_carried_decides_nothing() -> None:
    """MiB entered as MB, a wrong count, a cache: the ratio tells that something is wrong."""
    found = track(rung("drive", "20 GB/s"), rung("ost", "43 GB/s"))
    assert found.limit.reason.code == "more-than-carried"
    assert found.limit.kind is LimitKind.CANNOT_TELL


# Scale


def test_one_server_and_the_whole() -> None:
    hardware = replace(HARDWARE, drives=24, osts=2, oss=2)
    found = track(
        rung("ost", "80.0 GB/s", coverage=Coverage(osts=2)),
        rung("network", "48.0 GB/s", coverage=Coverage(servers=1)),
        rung("client", "78.0 GB/s", coverage=Coverage(osts=2)),
        hardware=hardware,
    )
    shown = {step.rung.layer: step.shown.value / 1e9 for step in found.steps if step.shown}
    assert shown == pytest.approx(
        {"data_sheet": 84, "ost": 80, "line_rate": 100, "network": 96, "client": 78}
    )
    assert efficiencies(found)["client", "network"].value == pytest.approx(78 / 96)
    assert efficiencies(found)["client", "network"].doubts == ()  # servers do not share a network
    assert efficiencies(found)["client", "network"].per == "server"


@pytest.mark.parametrize(("scale", "expected"), [("drive", 3.5), ("ost", 21), ("server", 42)])
def test_each_scale(scale, expected: float) -> None:
    hardware = replace(HARDWARE, drives=24, osts=4, oss=2)
    given = LadderInput("x", hardware, (rung("ost", "84.0 GB/s", coverage=Coverage(osts=4)),))
    (found,) = build_ladder(given, scale=scale).tracks
    (step,) = (one for one in found.steps if one.rung.layer == "ost")
    assert present(step.shown).value == pytest.approx(expected * 1e9)


def test_drives_follow_from_drives_per_ost() -> None:
    hardware = replace(HARDWARE, drives=None, drives_per_ost=12, osts=2)
    found = track(rung("ost", "84.0 GB/s", coverage=Coverage(osts=2)), hardware=hardware)
    assert efficiencies(found)["ost", "data_sheet"].value == pytest.approx(1)


def test_a_rung_that_tells_no_counts_is_not_compared() -> None:
    found = track(rung("ost", "42.0 GB/s"), rung("client", "41.0 GB/s", coverage=Coverage()))
    efficiency = efficiencies(found)["client", "ost"]
    assert (efficiency.value, code_of(efficiency.reason)) == (None, "counts-unknown")
    assert found.limit.kind is LimitKind.CANNOT_TELL


def test_a_link_that_carries_less_than_the_data_sheet() -> None:
    hardware = replace(HARDWARE, drive_link=parse_figure("2.50 GB/s"))
    found = track(rung("ost", "29.0 GB/s"), hardware=hardware)
    assert efficiencies(found)["ost", "data_sheet"].value == pytest.approx(29 / 30)
    assert found.limit.kind is LimitKind.DRIVES
    assert "its link carries 2.50 GB/s" in found.limit.reason


def test_a_file_system_of_one_host_has_no_network_and_no_osts() -> None:
    found = track(rung("drive", "42.0 GB/s"), rung("client", "30.0 GB/s"), networked=False)
    assert (found.limit.kind, found.limit.layer) == (LimitKind.LAYER, "client")
    given = LadderInput("x", HARDWARE, (rung("client", "30.0 GB/s"),), networked=False)
    assert {one.layer for one in build_ladder(given).absent} == {"drive"}


def test_what_is_missing_is_said_with_what_would_measure_it() -> None:
    given = LadderInput("x", replace(HARDWARE, drive_read=None), (rung("ost", "1 GB/s"),))
    hints = {one.layer: one.hint for one in build_ladder(given).absent}
    assert set(hints) == {"data_sheet", "drive", "network", "client"}
    assert "lst stat" in hints["network"]
    nothing = build_ladder(LadderInput("x", HARDWARE, ()))
    assert nothing.tracks == ()
    assert {one.layer for one in nothing.absent} == set(hints) | {"ost"}


def test_the_order_of_rungs_changes_nothing() -> None:
    rungs = ladder("42.0 GB/s", "41.0 GB/s", "48.0 GB/s", "40.0 GB/s")
    assert len({track(*order).limit.reason for order in permutations(rungs)}) == 1


def test_two_rungs_of_one_layer_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="two rungs of ost"):
        track(rung("ost", "1 GB/s"), rung("ost", "2 GB/s"))
    with pytest.raises(ValueError, match="not between 0 and 1"):
        track(rung("ost", "1 GB/s"), margin=1.0)


def test_the_margin_decides() -> None:
    rates = ("42.0 GB/s", "41.0 GB/s", "48.0 GB/s", "37.9 GB/s")
    assert limit(*rates, margin=0.10).kind is LimitKind.DRIVES
    assert limit(*rates, margin=0.05).layer == "client"


def test_application_against_client() -> None:
    found = track(rung("client", "40.0 GB/s", coverage=ONE), rung("application", "10 to 12 GB/s"))
    assert efficiencies(found)["application", "client"].value == pytest.approx(11 / 40)
    assert efficiencies(found)["application", "client"].low == pytest.approx(9.5 / 40.05)


# What holds of any ladder, whatever was measured


counts = st.none() | st.integers(1, 64)
rates = st.one_of(
    st.floats(1e6, 1e12).map(Estimate),
    st.floats(1e6, 1e12).map(lambda value: Estimate(value, value * 0.95, value * 1.05)),
    st.lists(st.floats(1e6, 1e12), min_size=1, max_size=5).map(
        lambda values: of_values(values, IntervalBasis.REPETITIONS)
    ),
)
hardwares = st.builds(
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
all_rungs = st.lists(
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


@pytest.mark.calibration
@given(hardwares, all_rungs, st.booleans(), st.none() | st.sampled_from(SCALES))
def test_a_verdict_rests_on_sure_figures_alone(
    built: Hardware, measured: tuple[Rung, ...], networked: bool, scale
) -> None:
    ladder = build_ladder(LadderInput("x", built, measured, networked=networked), scale=scale)
    for found in ladder.tracks:
        assert found.limit.reason
        assert found.loss.reason
        assert (found.limit.kind is LimitKind.CANNOT_TELL) == (found.limit.layer is None)
        layers = {step.rung.layer for step in found.steps}
        assert found.limit.layer is None or found.limit.layer in layers
        for step in found.steps:
            assert (step.shown is None) == (step.shown_reason is not None)
            for one in step.beneath:
                assert (one.value is None) == (one.reason is not None)
                assert one.of in layers
                if one.value is not None and one.low is not None and one.high is not None:
                    assert one.low <= one.value * (1 + 1e-9)
                    assert one.value <= one.high * (1 + 1e-9)
        if found.limit.kind is LimitKind.LAYER:
            (step,) = (step for step in found.steps if step.rung.layer == found.limit.layer)
            assert any(
                one.high is not None and one.high < 1 - ladder.margin and not one.doubts
                for one in step.beneath
            )


def verdicts(ladder: Ladder) -> list[tuple[object, ...]]:
    return [(one.metric, one.limit.kind, one.limit.layer, one.loss.layer) for one in ladder.tracks]


@pytest.mark.calibration
@given(all_rungs, st.sampled_from([2.0**-10, 2.0**10]))
def test_verdicts_do_not_depend_on_the_unit(measured: tuple[Rung, ...], factor: float) -> None:
    built = Hardware(drives=24, osts=2, oss=1, parity=Parity(8, 2))
    larger = tuple(replace(rung, rate=scaled(rung.rate, factor)) for rung in measured)
    assert verdicts(build_ladder(LadderInput("x", built, measured))) == verdicts(
        build_ladder(LadderInput("x", built, larger))
    )


@pytest.mark.calibration
@given(all_rungs, st.sampled_from(SCALES))
def test_verdicts_do_not_depend_on_the_scale_shown(measured: tuple[Rung, ...], scale) -> None:
    given_input = LadderInput("x", HARDWARE, measured)
    assert verdicts(build_ladder(given_input)) == verdicts(build_ladder(given_input, scale=scale))

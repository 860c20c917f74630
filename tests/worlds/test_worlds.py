"""Records of sites: reproducible, reachable, without contradictions, their truth computed."""

from __future__ import annotations

import ast
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.worlds.draft import Draft
from tests.worlds.families import VARIANTS
from tests.worlds.generate import Plan, make_plan, make_world, record, truth, variant_of
from tests.worlds.instruments import FULL, NO_SPACE
from tests.worlds.simple_rule import nearest_change
from tests.worlds.site import draw_site, target
from tests.worlds.state import State
from tests.worlds.truth import Recorded
from tests.worlds.world import CAUSES, World

pytestmark = pytest.mark.calibration

FAMILIES = list(VARIANTS)
ALL = [(family, number) for family in FAMILIES for number in range(len(VARIANTS[family]))]


@pytest.fixture(scope="module")
def records() -> dict[tuple[str, int], tuple[Plan, Recorded]]:
    """Return every variant simulated once, its plan beside it."""
    plans = {key: make_plan(*key) for key in ALL}
    short = {key: plan for key, plan in plans.items() if plan.site.hours <= 150 * 24}
    return {key: (plan, record(plan)) for key, plan in short.items()}


def test_the_same_family_and_seed_give_the_same_record() -> None:
    first, second = make_world("chains", 3), make_world("chains", 3)
    assert first.runs == second.runs
    assert first.surveys == second.surveys
    assert first.events == second.events
    assert first.truth == second.truth
    assert dict(first.snapshots[5]) == dict(second.snapshots[5])
    assert make_world("chains", 9).runs != first.runs


def test_every_variant_is_reached_by_its_seed() -> None:
    for family, variants in VARIANTS.items():
        reached = [variant_of(family, seed).name for seed in range(len(variants))]
        assert reached == [variant.name for variant in variants]
        assert reached == [make_plan(family, seed).variant.name for seed in range(len(variants))]


def test_every_cause_is_planned_somewhere() -> None:
    planned = {fault.mechanism for key in ALL for fault in make_plan(*key).draft.faults}
    assert planned == {*CAUSES, None}


def test_the_readme_has_a_line_for_every_variant() -> None:
    text = (Path(__file__).parent / "README.md").read_text()
    for family, variants in VARIANTS.items():
        for variant in variants:
            assert f"| {family} | {variant.name} |" in text


def test_it_imports_numpy_and_the_standard_library_only() -> None:
    for path in Path(__file__).parent.glob("*.py"):
        if path.name.startswith("test_"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.ImportFrom) and "trimtab" in (node.module or ""))
            names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
            assert not any("trimtab" in name for name in names)


def test_without_its_faults_a_site_has_the_same_noise(
    records: dict[tuple[str, int], tuple[Plan, Recorded]],
) -> None:
    for plan, having in records.values():
        if not plan.draft.faults or plan.site.hours > 70 * 24:
            continue
        names = frozenset(fault.name for fault in plan.draft.faults)
        lacking = record(plan, names)
        # Until a fault begins nothing of the record differs, to the last digit.
        begin = int(min(fault.begin for fault in plan.draft.faults)) - 1
        for name, table in having.tables.items():
            earlier = table.time < begin
            for metric, values in table.values.items():
                usual = lacking.tables[name].values[metric]
                np.testing.assert_array_equal(values[earlier], usual[earlier])
            # Afterwards runs keep their times, and the nodes that chance gave them.
            np.testing.assert_array_equal(table.time, lacking.tables[name].time)


def test_nothing_contradicts_itself(
    records: dict[tuple[str, int], tuple[Plan, Recorded]],
) -> None:
    for plan, having in records.values():
        state, site = having.state, plan.site
        assert 0 <= state.full.min() <= state.full.max() <= 1
        growth = np.diff(state.full, axis=0) * site.capacity_bytes
        assert (growth <= state.users_write[1:] * 3600 * 1.0001 + 1).all(), plan.variant.name
        for table in having.tables.values():
            for run, problem in enumerate(table.problem):
                full = state.full[table.hour[run]][state.open[table.hour[run]]]
                assert (problem != NO_SPACE) or full.max() >= FULL
            assert all((values >= 0).all() for values in table.values.values())
        _check_counters(having)
        _check_bytes(plan, having)


def _check_counters(having: Recorded) -> None:
    state, source = having.state, having.telemetry
    moved = np.diff(state.serving, axis=0) != 0
    anew = moved | np.take_along_axis(state.rebooted, np.maximum(state.serving, 0), axis=1)[1:]
    for name, values in source.targets.items():
        if name.endswith("_total") and name != "inodes_total":
            assert ((np.diff(values, axis=0) >= -1e-3 * np.abs(values[1:])) | anew).all(), name


def _check_bytes(plan: Plan, having: Recorded) -> None:
    """What targets count is what the network of their servers carried."""
    site, state, source = plan.site, having.state, having.telemetry
    if state.rebooted.any() or (state.serving != site.home).any():
        return
    moved = sum(
        np.diff(source.targets[f"client_bytes_{way}_total"], axis=0).sum(axis=1)
        for way in ("written", "read")
    )
    carried = np.diff(source.servers["network_bytes_total"][:, : site.servers], axis=0).sum(axis=1)
    np.testing.assert_allclose(moved, carried, rtol=1e-3)


def test_snapshots_say_what_the_state_is() -> None:
    world = make_world("target", 2)
    fault = world.truth[0]
    assert fault.variant == "lost"
    name = fault.targets[0]
    inside = [
        shot for shot in world.snapshots if fault.begin < shot["at"] < (fault.end or world.end)
    ]
    assert inside
    lost = inside[0]["targets"][name]
    assert lost["readings"]["import_state"] == "DISCONN"
    assert lost["readings"]["used_bytes"] is None
    assert lost["reasons"]["used_bytes"]
    for part in inside[0]["targets"].values():
        assert all(part["reasons"].get(full) for full, value in part["readings"].items()
                   if value is None)  # fmt: skip


def hand_made(loss: float, *, setting: bool, line: bool) -> Plan:
    """Return a steady site of 40 days whose clients lose so much at the hour 480."""
    site = draw_site("unknowable", 1, days_least=40, busy=False)
    site = replace(
        site, hours=40 * 24, share=0.4, sigma=0.02, phi=0.0, dof=30.0, snapshot_every_h=6,
        missing=frozenset(), log_book="kept", maintenance=(), snapshot_gaps=(), gaps=(),
        holidays=(), probes=(replace(site.main, every_h=1.0, burst=1),), survey_every_h=24,
        dip_rate=0.0, load=0.01,
    )  # fmt: skip
    draft = Draft(site, "hand-made", "one")

    def apply(state: State) -> None:
        state.client_write[480:] *= 1 - loss
        if setting:
            state.settings.append((480.0, "clients", "checksums", "1"))
        if line:
            draft.write(state, "config-change", 481.0, "checksums on", of=planned.name)

    planned = draft.add("configuration-change", 480.0, None, apply)
    return Plan(site, VARIANTS["unknowable"][0], draft)


@pytest.mark.parametrize(
    ("loss", "setting", "line", "told", "noticed"),
    [
        (0.10, True, True, ("log", "settings"), ("ior:write_bandwidth",)),
        (0.10, True, False, ("settings",), ("ior:write_bandwidth",)),
        (0.10, False, True, ("log",), ("ior:write_bandwidth",)),
        (0.10, False, False, (), ("ior:write_bandwidth",)),
        (0.01, True, False, ("settings",), ()),
    ],
)
def test_what_is_told_and_noticed_is_computed(
    loss: float, setting: bool, line: bool, told: tuple[str, ...], noticed: tuple[str, ...]
) -> None:
    plan = hand_made(loss, setting=setting, line=line)
    (fault,) = truth(plan, record(plan))
    assert fault.told_by == told
    assert fault.knowable is bool(told)
    assert fault.cause == ("configuration-change" if told else None)
    assert fault.mechanism == "configuration-change"
    assert fault.noticed_by == noticed
    assert fault.effect["ior:write_bandwidth"] == pytest.approx(1 - loss, abs=1e-6)
    assert fault.effect["ior:read_bandwidth"] == pytest.approx(1, abs=1e-6)


def test_a_client_limited_probe_sees_a_slow_target_below_its_own_share_only() -> None:
    for factor, sees in ((0.6, False), (0.2, True)):
        plan = hand_made(0.0, setting=False, line=False)
        plan.draft.faults.clear()

        def apply(state: State, factor: float = factor) -> None:
            state.target_write[480:, 3] *= factor

        plan.draft.add("array-degraded", 480.0, None, apply, targets=(3,))
        (fault,) = truth(plan, record(plan))
        assert (fault.effect["ior:write_bandwidth"] < 0.9) is sees
        assert any(f"survey:write_bandwidth:{target(3)}" == name for name in fault.noticed_by)


def test_quiet_worlds_have_no_truth_and_busy_ones_have_innocents() -> None:
    plain, busy = make_world("quiet", 0), make_world("quiet", 1)
    assert plain.truth == busy.truth == []
    changes = [_settings(world) for world in (plain, busy)]
    assert changes[0] == 0


def _settings(world: World) -> int:
    parts = [snapshot["hosts"]["nid001000"]["settings"] for snapshot in world.snapshots]
    return sum(before != after for before, after in pairwise(parts))


def test_the_simple_rule_names_what_changed_nearest() -> None:
    world = make_world("configuration", 2)
    (fault,) = world.truth
    assert nearest_change(world, fault.begin) == "configuration-change"
    assert nearest_change(make_world("quiet", 0), world.begin) is None

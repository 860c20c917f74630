"""Telemetry of a simulated file system: whole, monotone, and the same however it is encoded."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.narrow import present
from tests.twin.instruments.states import START, changed, state_of

from trimtab.base.name_set import ost_name
from trimtab.base.snapshot import CONNECTED, TELEMETRY_UNITS
from trimtab.store import snapshot_batch
from trimtab.twin.simulated_reading import CRITERIA, SettingState, expanded
from trimtab.twin.simulated_site import SiteLayout, snapshot_of
from trimtab.twin.site_writer import Panel

LAYOUT = SiteLayout(8, 4, 2)
DEVICES = "md0 (gridraid), 12 x PM1733"


def snapshot(state, layout=LAYOUT, seed=0):
    return snapshot_of(state, layout, devices=DEVICES, seed=seed)


@pytest.mark.parametrize("family", list(CRITERIA))
def test_every_name_of_the_contract_has_a_value_or_a_reason(family):
    seen = snapshot(state_of(settings=SettingState(family=family)))
    osts = [one for one in seen.targets if one.target.kind == "ost"]
    mdts = [one for one in seen.targets if one.target.kind == "mdt"]
    assert [one.target.name for one in osts] == [f"OST000{n}" for n in range(8)]
    assert [one.target.name for one in mdts] == [f"MDT000{n}" for n in range(4)]
    for one in osts:
        assert {reading.name for reading in one.readings} == set(TELEMETRY_UNITS)
        keys = [(reading.name, reading.label) for reading in one.readings]
        assert len(keys) == len(set(keys))
        assert set(one.labelled("allocator_useless_loops_total")) == set(CRITERIA[family])
        thresholds = [name for name in one.settings if "mb_c" in name]
        assert bool(thresholds) == (family == "classic")
    assert seen.complete
    assert seen.driver == "twin"


def test_what_goes_in_comes_out_under_its_name():
    state = state_of()
    seen = present(snapshot(state).of("OST0003"))
    assert seen.number("used_bytes") == 80e12 + 3e9
    assert seen.number("available_bytes") == 40e12 - 3e9
    assert seen.fullness() == pytest.approx((80e12 + 3e9) / 120e12)
    assert seen.number("inodes_free") == 1e8 - 3
    for name in ("bytes_written_total", "client_bytes_read_total", "allocator_requests_total"):
        assert seen.number(name) == getattr(state.osts, name)[3]
    assert seen.number("drive_write_amplification", "nvme0n1") == 1.53
    for side in ("host", "media"):
        name = f"drive_{side}_written_bytes_total"
        assert seen.number(name, "nvme0n1") == getattr(state.osts, name)[3]
    assert seen.number("network_errors_total") == 0
    assert seen.value("last_trim_at") == (START - timedelta(days=1)).isoformat()
    assert seen.value("import_state") in CONNECTED
    assert (seen.target.server, seen.value("server")) == ("oss0001", "oss0001")
    loops = state.osts.allocator_useless_loops_total
    assert seen.labelled("allocator_useless_loops_total")["cr1"] == loops[3, 1]
    assert seen.settings["drives/queue/wbt_lat_usec"].value == "2000"  # type: ignore[union-attr]
    assert seen.settings["ldiskfs/md0/mb_c2_threshold"].value == "15"  # type: ignore[union-attr]


def test_an_ost_that_failed_over_is_served_by_the_partner_of_its_home():
    flags = np.array([False] * 6 + [True, True])
    seen = snapshot(changed(state_of(), failover_active=flags))
    servers = [one.value("server") for one in seen.targets[:8]]
    assert servers == ["oss0000"] * 2 + ["oss0001"] * 2 + ["oss0002"] * 4
    assert [one.value("failover_active") for one in seen.targets[:8]] == flags.tolist()


def test_one_that_does_not_answer_tells_only_that():
    answers = np.array([True] * 7 + [False])
    seen = snapshot(changed(state_of(), answers=answers))
    silent = present(seen.of("OST0007"))
    assert not seen.complete
    assert silent.value("import_state") == "DISCONN"
    assert silent.value("create_enabled") is False
    assert silent.number("used_bytes") is None
    assert seen.of("OST0006").number("used_bytes") is not None  # type: ignore[union-attr]


def test_settings_follow_the_state():
    closed = np.array([False] + [True] * 7)
    state = changed(state_of(), create_enabled=closed)
    state = replace(state, settings=SettingState(wbt_latency_s=0.0, checksums=True, c2=0.25))
    seen = snapshot(state)
    first, second = seen.targets[0].settings, seen.targets[1].settings
    assert [one["osp/max_create_count"].value for one in (first, second)] == ["0", "20000"]  # type: ignore[union-attr]
    assert first["drives/queue/wbt_lat_usec"].value == "0"  # type: ignore[union-attr]
    assert first["ldiskfs/md0/mb_c2_threshold"].value == "25"  # type: ignore[union-attr]
    client = next(one for one in seen.hosts if one.role == "client")
    assert client.settings["checksums"].value == "1"  # type: ignore[union-attr]


def test_servers_show_what_their_osts_moved():
    state = state_of()
    seen = snapshot(state)
    moved = state.osts.client_bytes_written_total + state.osts.client_bytes_read_total
    hosts = {one.name: one for one in seen.hosts}
    for number in range(4):
        readings = {one.name: one.value for one in hosts[f"oss000{number}"].readings}
        assert readings["network_bytes_total"] == moved[2 * number : 2 * number + 2].sum()
        assert readings["network_errors_total"] == 0
        assert readings["server_cpu_fraction"] == state.osts.server_cpu_fraction[2 * number + 1]
    assert hosts["mds0001"].readings[0].value == pytest.approx(0.13)


def test_targets_of_one_column_differ_a_little_and_count_up_alone():
    layout, columns = SiteLayout(40, 4, 2), 4
    before, after = (
        snapshot(state_of(40, columns, hours=hours), layout, seed=3) for hours in (0.0, 1.0)
    )
    used = [one.number("used_bytes") or 0.0 for one in before.targets[:40:columns]]
    assert len(set(used)) == 10
    assert np.std(used) / np.mean(used) < 0.01
    for one, other in zip(before.targets, after.targets, strict=True):
        for reading in one.readings:
            if reading.name.endswith("_total") and reading.name != "inodes_total":
                was, now = reading.value, other.value(reading.name, reading.label)
                assert (was is None) == (now is None)
                assert was is None or now >= was  # type: ignore[operator]


def test_more_targets_change_nothing_of_those_before():
    few = expanded(state_of(20, 4), 3).osts.used_bytes
    assert np.array_equal(few, expanded(state_of(24, 4), 3).osts.used_bytes[:20])
    assert not np.array_equal(few, expanded(state_of(20, 4), 4).osts.used_bytes)


def test_a_column_of_its_own_stays_exactly_as_it_is():
    state = state_of(6)
    assert np.array_equal(expanded(state, 9).osts.used_bytes, state.osts.used_bytes)


def test_arrays_that_do_not_fit_are_refused():
    state = state_of(4)
    with pytest.raises(ValueError, match="used_bytes"):
        changed(state, used_bytes=np.zeros(3))
    with pytest.raises(ValueError, match="column"):
        replace(state, column=np.array([0, 4]))
    with pytest.raises(ValueError, match="zone"):
        replace(state, at=datetime(2023, 7, 1))


@st.composite
def _walks(draw):
    """Draw states of one file system, one after another, of which anything may change."""
    columns, states = draw(st.sampled_from([3, 8])), []
    family = draw(st.sampled_from(list(CRITERIA)))
    for hour in range(draw(st.integers(2, 5))):
        own = SettingState(family=family, checksums=draw(st.booleans()))
        state = state_of(8, columns, settings=own, hours=hour, at=START + timedelta(hours=hour))
        trims = draw(st.lists(st.booleans(), min_size=columns, max_size=columns))
        arrays: dict[str, object] = {
            name: np.array(draw(st.lists(st.booleans(), min_size=columns, max_size=columns)))
            for name in ("create_enabled", "degraded", "failover_active")
        }
        arrays["last_trim_s"] = np.where(trims, 1.6e9 + 3600.0 * hour, np.nan)
        if draw(st.integers(0, 4)) == 0:
            arrays["answers"] = np.arange(columns) != 1
        states.append(changed(state, **arrays))
    return states


@pytest.mark.calibration
@given(_walks())
@settings(max_examples=25, deadline=None)
def test_a_batch_made_from_the_one_before_holds_the_very_snapshot(states):
    panel = Panel(LAYOUT, devices=DEVICES, seed=3)
    for state in states:
        complete, base, changes = panel.batch(state)
        at = state.at.astimezone(UTC)
        found = snapshot_batch.decode(changes, base, at=at, driver="twin", complete=complete)
        assert found == snapshot(state, seed=3)


def test_a_base_is_made_anew_when_many_snapshots_rest_on_it(monkeypatch):
    monkeypatch.setattr("trimtab.twin.site_writer._OF_A_BASE", 2)
    panel, bases = Panel(LAYOUT, devices=DEVICES, seed=3), []
    for hour in range(5):
        state = state_of(8, 3, hours=hour, at=START + timedelta(hours=hour))
        _, base, changes = panel.batch(state)
        found = snapshot_batch.decode(
            changes, base, at=state.at.astimezone(UTC), driver="twin", complete=True
        )
        assert found == snapshot(state, seed=3)
        bases.append(base.digest)
    assert [bases.index(digest) for digest in bases] == [0, 0, 2, 2, 4]


def test_names_are_lustres():
    assert [ost_name(number) for number in (0, 10, 297)] == ["OST0000", "OST000a", "OST0129"]
    assert SiteLayout(7, 3, 2).osses == ("oss0000", "oss0001", "oss0002", "oss0003")

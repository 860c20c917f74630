"""The presets say what their sources print, and how far their miniatures are off."""

import json
import re
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from benchmarks.reproduction import predict
from tests.support.narrow import instance

from trimtab.base.data_sheet import DataSheet, data_sheet
from trimtab.twin import scenario_fact
from trimtab.twin.amplification import greedy
from trimtab.twin.scenario import (
    Resolution,
    capacity_bytes,
    drives_capacity_bytes,
    ost_capacity_bytes,
    server_count,
)
from trimtab.twin.scenario_fact import assumed, at_the_end, timeline
from trimtab.twin.scenario_file import load_scenario, preset_names, preset_text
from trimtab.twin.scenario_key import PRESETS, known_keys
from trimtab.twin.simulation.hardware import small_operations_per_s
from trimtab.twin.whatif.ost_amplification import Probing, fine

PACIFIC = ZoneInfo("America/Los_Angeles")
PERLMUTTER = load_scenario("perlmutter")


def test_the_five_are_there() -> None:
    assert preset_names() == ("e1000-f", "e2000-f", "eth-euler", "perlmutter", "template")
    assert [load_scenario(name).name for name in preset_names()] == list(preset_names())


@pytest.mark.parametrize("name", [name for name in preset_names() if name != "template"])
def test_each_value_of_a_preset_has_a_source_or_is_assumed(name) -> None:
    """Behind it stands a comment, or an assumption is named for it or its table."""
    scenario, table, bare = load_scenario(name), "", []
    for line in preset_text(name).partition("[[change]]")[0].splitlines():
        if found := re.match(r"\[([a-z.]+)\]", line):
            table = found.group(1)
        elif (found := re.match(r"([a-z_0-9]+) = ", line)) and table != "scenario":
            key = f"{table}.{found.group(1)}"
            bare += [key] if "#" not in line and assumed(scenario, key) is None else []
    assert bare == []


def test_perlmutter_is_as_printed() -> None:
    osts, raid = PERLMUTTER.osts, PERLMUTTER.osts.raid
    assert (osts.count, osts.per_server, osts.drive.name) == (274, 1, "pm1733")
    assert (raid.drives, raid.data, raid.parity, raid.spares) == (12, 8, 2, 1)
    assert osts.drive.capacity_bytes == 15.36e12
    assert (osts.drive.read_bytes_per_s, osts.drive.write_bytes_per_s) == (3.5e9, 3.2e9)
    assert drives_capacity_bytes(osts) == pytest.approx(135.2e12, rel=1e-3)
    assert ost_capacity_bytes(osts) * 5 == 665e12
    assert PERLMUTTER.mdts.count == 16
    # All servers together: 12 drives each of 290 are the 3,480 that are printed.
    assert (server_count(osts) + PERLMUTTER.mdts.count) * raid.drives == 3480
    assert (PERLMUTTER.users.count, PERLMUTTER.users.quota_bytes) == (10_000, 20e12)
    assert PERLMUTTER.users.quota_inodes == 20e6
    assert 2.2e15 <= PERLMUTTER.users.daily_writes_bytes <= 2.9e15
    assert PERLMUTTER.clients.nodes == pytest.approx(4147 / 0.9, abs=1)
    assert PERLMUTTER.server.network_bytes_per_s == 2 * 200e9 / 8
    assert (PERLMUTTER.purge.min_age_s, PERLMUTTER.gating.limit) == (8 * 7 * 86400, 0.75)
    assert PERLMUTTER.start.astimezone(PACIFIC) == datetime(2023, 7, 1, tzinfo=PACIFIC)
    assert PERLMUTTER.end == datetime(2024, 4, 1, 7, tzinfo=UTC)


def test_perlmutter_s_capacity_is_33_then_36_binary_petabytes() -> None:
    assert capacity_bytes(PERLMUTTER) / 2**50 == pytest.approx(33, rel=0.02)
    assert capacity_bytes(at_the_end(PERLMUTTER)) / 2**50 == pytest.approx(36, rel=0.025)


def test_perlmutter_s_unexplained_days_are_not_scripted() -> None:
    days = {f"{fault.at.astimezone(PACIFIC):%Y-%m-%d}" for fault in PERLMUTTER.faults}
    unexplained = {"2024-01-01", "2024-01-23", "2024-01-25", "2024-02-28", "2024-03-23"}
    assert days & unexplained == set()
    assert {"2024-01-29", "2024-02-16", "2024-03-01", "2024-03-05"} <= days
    kinds = [fault.kind for fault in PERLMUTTER.faults]
    assert (kinds.count("silent-ost"), kinds.count("name-service")) == (1, 1)
    times = [moment.at for moment in timeline(PERLMUTTER)]
    assert times == sorted(times)


def test_eth_is_as_printed() -> None:
    scenario = load_scenario("eth-euler")
    assert capacity_bytes(scenario) == 240 * 2**40
    assert (scenario.osts.raid.drives, scenario.osts.drive.capacity_bytes) == (24, 16e12)
    assert (scenario.osts.count, scenario.mdts.count, server_count(scenario.osts)) == (8, 4, 4)
    assert (scenario.purge.max_age_s, scenario.users.quota_bytes) == (15 * 86400, 2.5e12)
    assert scenario.trim.every_s is None
    end = at_the_end(scenario)
    assert end.allocator.c3 == 0.4
    assert end.purge.enabled
    assert end.trim.every_s == 86400
    stays = next(life.share for life in scenario.users.lifetimes if life.mean_s is None)
    assert stays * scenario.users.daily_writes_bytes * 30 == pytest.approx(161e12, rel=0.01)
    # Its drives give the reference of 36 GB/s at the RAID's efficiency of source S3.
    writes = 24 * scenario.osts.drive.write_bytes_per_s * 8 / 10 * 0.926
    assert writes == pytest.approx(36e9, rel=0.02)


def test_scalable_units_are_as_printed() -> None:
    old, new = load_scenario("e1000-f"), load_scenario("e2000-f")
    assert old.osts.count * old.osts.raid.drives == 24
    assert new.osts.raid.drives == 32
    assert (new.osts.count, new.osts.raid.shared, new.osts.per_server) == (4, 4, 2)
    assert server_count(old.osts) == server_count(new.osts) == 2
    faster = new.osts.drive.read_bytes_per_s / old.osts.drive.read_bytes_per_s
    assert faster == pytest.approx(1.9, abs=0.05)
    assert new.osts.link_bytes_per_s == 7 * 2**30
    assert old.probes[0].bytes_written == 20 * 8 * 256 * 2**30
    assert new.probes[0].bytes_written == 32 * 8 * 256 * 2**30
    assert new.server.network_bytes_per_s == 2 * old.server.network_bytes_per_s == 100e9


def test_drives_are_as_printed() -> None:
    old, new = PRESETS["pm1733a"].model, PRESETS["pm1743"].model
    assert (old.read_bytes_per_s, old.write_bytes_per_s) == (7.5e9, 4.1e9)
    assert (old.read_iops, old.write_iops) == (1.55e6, 135e3)
    assert (new.read_bytes_per_s, new.write_bytes_per_s) == (14e9, 6e9)
    assert (new.read_iops, new.write_iops) == (2.5e6, 300e3)
    seen = PRESETS["pm1733"].model
    assert seen is predict.PM1733, "rows of print are predicted for the same drive"
    assert seen.write_iops * 12 == pytest.approx(1.6e6, rel=0.02)
    through_its_link = small_operations_per_s(seen.read_iops, seen.read_bytes_per_s)
    assert through_its_link * 12 == pytest.approx(9.6e6, rel=0.07)
    for name in ("pm1733a", "pm1735", "pm1743"):
        model, sheet = PRESETS[name].model, instance(DataSheet, data_sheet(name))
        for figure in ("read_bytes_per_s", "write_bytes_per_s", "read_iops"):
            assert getattr(model, figure) == getattr(sheet, figure)
    for preset in PRESETS.values():
        assert preset.sources
        more = preset.model.drive_writes_per_day == 3
        assert preset.model.capacity_bytes == (12.8e12 if more else 15.36e12)
        flash = preset.model.capacity_bytes / (1 - preset.spare)
        assert flash == pytest.approx(16 * 2**40, rel=0.001)


def test_random_writes_of_a_drive_with_more_spare_follow_its_write_amplification() -> None:
    one, three = PRESETS["pm1743"], PRESETS["pm1743-3dwpd"]
    gain = greedy(one.spare, 1024) / greedy(three.spare, 1024)
    assert three.model.write_iops == pytest.approx(one.model.write_iops * gain, rel=0.01)


def test_the_template_shows_every_key() -> None:
    """Whoever copies it has each setting before the eyes, in its table; some behind a #."""
    text, table, named = preset_text("template"), "", set()
    for line in text.splitlines():
        if found := re.match(r"(?:# )?\[([a-z.]+)\]", line):
            table = found.group(1)
        elif found := re.match(r"(?:# )?([a-z_0-9]+) = ", line):
            named.add(f"{table}.{found.group(1)}")
    missing = {name for name in known_keys() if name not in named}
    figures = {"read", "write", "read_iops", "write_iops", "drive_writes_per_day"}
    assert missing == {f"osts.drive.{figure}" for figure in figures}


# Miniatures: what is said of their size is what was measured


RESULT = Path(__file__).parents[3] / "benchmarks" / "results" / "miniature_size.json"
PAGE = Path(__file__).parents[3] / "docs" / "twin.md"


APART = {
    "never trimmed, reset every 15 min": "reset_untrimmed",
    "nightly, probed": "probed",
    "never trimmed, probed": "probed_untrimmed",
}


def measured() -> dict[tuple[int, int], tuple[float, ...]]:
    off: dict[tuple[int, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in json.loads(RESULT.read_text())["rows"]:
        size = (row["groups"], row["superblock_units"])
        off[size][APART.get(row["regime"], "plain")].append(row["off"])
    return {
        size: (
            round(min(parts["plain"]), 3),
            round(max(parts["plain"]), 3),
            *(round(max(parts[name], key=abs), 3) for name in APART.values()),
        )
        for size, parts in off.items()
    }


def test_the_table_is_the_committed_measurement():
    assert {size: tuple(off) for size, off in scenario_fact.OFF.items()} == {
        size: (least, most, probed) for size, (least, most, _, probed, _) in measured().items()
    }


@pytest.mark.parametrize("resolution", [Resolution(), fine(), fine(Probing(0.5, 0.01))])
def test_defaults_are_3_per_cent_off_at_the_most(resolution):
    off = scenario_fact.OFF[resolution.groups, resolution.superblock_units]
    assert max(-off.least, off.most) <= 0.03


@pytest.mark.parametrize("resolution", [Resolution(), fine(Probing(0.5, 0.01))])
def test_defaults_are_3_per_cent_off_beside_a_probe(resolution):
    assert abs(scenario_fact.OFF[resolution.groups, resolution.superblock_units].probed) <= 0.03


def test_a_scenario_says_how_far_its_miniature_is_off():
    assert "off" in scenario_fact.sentence(load_scenario("template").resolution)
    assert "not measured" in scenario_fact.sentence(Resolution(groups=17))


def test_the_page_has_the_table():
    page = PAGE.read_text()
    for (groups, units), off in measured().items():
        cells = " | ".join(f"{part:+.1%}".replace("%", " %") for part in off)
        assert f"| {groups:,} x {units:,} | {cells} |" in page

"""Data sheets of drives: found by name, true to their sources, limited by the link."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.each import for_each

from trimtab.base.data_sheet import PARTS, ROWS, DataSheet, data_sheet
from trimtab.base.snapshot import NotAvailable
from trimtab.reach.local.block_device import pcie_bytes_per_s

MB, TB = 1e6, 10**12


def sheet(model: str, capacity_bytes: int | None = None) -> DataSheet:
    found = data_sheet(model, capacity_bytes)
    assert isinstance(found, DataSheet), found
    return found


@pytest.mark.parametrize(
    ("model", "read", "write", "read_iops", "write_iops"),
    [
        ("PM1733a", 7500, 4100, 1_550_000, 135_000),
        ("PM1743", 14000, 6000, 2_500_000, 300_000),
    ],
)
def test_the_drives_of_the_sources(
    model: str, read: int, write: int, read_iops: int, write_iops: int
) -> None:
    """Source S5, table 1."""
    found = sheet(model)
    assert (found.read_bytes_per_s, found.write_bytes_per_s) == (read * MB, write * MB)
    assert (found.read_iops, found.write_iops) == (read_iops, write_iops)
    assert "source S5" in found.sources[0]


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("PM1733a", "PM1733a"),
        ("pm1733A", "PM1733a"),
        ("Samsung 1733a", "PM1733a"),
        ("SAMSUNG MZWLR3T8HBLS-00007", "PM1733"),
        ("SAMSUNG MZWLR15THBLA-00AD3", "PM1733a"),
        ("MZWLO3T8HCLS", "PM1743"),
        ("Samsung SSD PM1743 15.36 TB", "PM1743"),
        ("Micron_9550 MAX 12.8TB", "9550 MAX"),
        ("micron 7450-pro", "7450 PRO"),
        ("Solidigm D7-PS1030", "D7-PS1030"),
        ("PS1030", "D7-PS1030"),
        ("KIOXIA KCM6XRUL15T3", "CM6-R"),
        ("WD Ultrastar DC SN861 7.68TB", "SN861"),
    ],
)
def test_names_as_people_and_tools_write_them(name: str, model: str) -> None:
    assert sheet(name).model == model


@pytest.mark.parametrize("name", ["", "PM", "PM17", "1733b", "SN840", "x" * 10_000, "MZWLR9T9HXYZ"])
def test_what_is_not_known_is_no_guess(name: str) -> None:
    found = data_sheet(name)
    assert isinstance(found, NotAvailable)
    assert len(found.reason) < 250


def test_a_name_that_is_of_several_names_them() -> None:
    found = data_sheet("Micron 9550")
    assert isinstance(found, NotAvailable)
    assert "9550 MAX and 9550 PRO" in found.reason


def test_capacity_decides_where_figures_depend_on_it() -> None:
    assert sheet("9550 MAX 3.2TB").write_iops == 540_000
    assert sheet("9550 MAX", 12_801_000_000_000).write_iops == 820_000
    assert sheet("SAMSUNG MZQL23T8HCLS-00A07").write_iops == 180_000
    unsaid = sheet("9550 MAX")
    assert (unsaid.read_bytes_per_s, unsaid.write_iops) == (14000 * MB, None)
    assert "depends on the capacity" in (unsaid.note or "")
    other = data_sheet("9550 MAX 1.6TB")
    assert isinstance(other, NotAvailable)
    assert "3.2, 6.4, 12.8, 25.6 TB" in other.reason


def test_the_series_stands_in_for_a_capacity_and_says_so() -> None:
    found = sheet("PM9A3 960GB")
    assert found.read_bytes_per_s == 6900 * MB
    assert "0.96 TB are unknown" in (found.note or "")


@for_each("row", ROWS, ids=lambda row: f"{row.model}{row.capacities_tb}")
def test_rows_are_sourced_and_possible(row) -> None:  # type: ignore[no-untyped-def]
    assert row.sources
    assert all(len(source) > 10 for source in row.sources)
    link = pcie_bytes_per_s(f"{2**row.generation}.0 GT/s PCIe", 4)
    assert link is not None
    for rate in (row.read_mb_per_s, row.write_mb_per_s):
        assert rate is None or 500 < rate <= link / MB
    for rate in (row.read_kiops, row.write_kiops):
        assert rate is None or 10 < rate <= link / 4096 / 1e3
    assert row.writes_per_day is None or 0.1 < row.writes_per_day <= 60


def test_every_part_number_is_of_a_known_model() -> None:
    assert {model for model, _ in PARTS.values()} <= {row.model for row in ROWS}
    assert all(0.1 < capacity < 100 for _, capacity in PARTS.values())
    for part, (model, capacity_tb) in PARTS.items():
        found = data_sheet(f"ANY {part}-00007")
        if isinstance(found, NotAvailable):
            assert f"{capacity_tb:g} TB" in found.reason
        else:
            assert found.model == model


def test_the_page_lists_every_model() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "bring-up.md").read_text()
    listed = "".join(line for line in page.splitlines() if line.startswith("| "))
    assert [row.model for row in ROWS if row.model not in listed] == []

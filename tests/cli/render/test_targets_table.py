"""The table of targets on terminals of every width: nothing is cut, and troubles can be read."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest
from rich.cells import cell_len
from rich.console import Console

from trimtab.cli.render.targets import print_target_rows
from trimtab.model.finding import Severity
from trimtab.model.target import SiteState, TargetState, Trouble
from trimtab.model.telemetry import Reading, Setting, Snapshot, Target, TargetSnapshot

AT = datetime(2026, 11, 20, 3, tzinfo=UTC)
LONG = (
    Trouble(
        "closed",
        Severity.WARNING,
        "closed to new objects of MDT0000, MDT0001 only: "
        "osp.scratch-OST0003-osc-MDT0000.max_create_count=0 on mds1",
    ),
    Trouble("over-limit", Severity.WARNING, "83.1 % full, limit 75.0 %"),
    Trouble("media-errors", Severity.WARNING, "12 media errors on /dev/nvme0n1"),
)


WIDTHS = (60, 69, 70, 80, 100, 120, 200)


def target(name: str, server: str, troubles: tuple[Trouble, ...] = ()) -> TargetState:
    numbers = {
        "capacity_bytes": 64 * 2**40,
        "used_bytes": 40 * 2**40,
        "available_bytes": 24 * 2**40,
        "inodes_total": 1000,
        "inodes_free": 400,
        "bytes_discarded_total": 123 * 2**40,
    }
    readings = [Reading(key, value, "test") for key, value in numbers.items()]
    readings += [
        Reading("create_enabled", False, "test", label="MDT0000"),
        Reading("create_enabled", True, "test"),
    ]
    options = "mount/options"
    settings = {options: Setting(options, "fstrim,discard", "test")}
    return TargetState(
        TargetSnapshot(Target(name, "ost", server), tuple(readings), settings), troubles
    )


def printed(*targets: TargetState, width: int) -> list[str]:
    snapshot = Snapshot(AT, "lustre", True, tuple(one.seen for one in targets))
    out = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    print_target_rows(SiteState("scratch", snapshot, targets), out)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue().splitlines()[1:]


def together(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("server", ["oss01", "oss01.storage.site.example.org"])
def test_no_line_is_cut_and_every_word_of_a_trouble_is_there(width: int, server: str) -> None:
    lines = printed(target("OST0003", server, LONG), target("MDT0000", "mds1"), width=width)
    text = "\n".join(lines)
    assert all(cell_len(line) <= width for line in lines)
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    header, body = lines[0], lines[1:]
    if "TROUBLE" in header:
        start = header.index("TROUBLE")
        assert width - start >= 30
        shown = together("".join(line[start:] for line in body))
        assert shown == together("; ".join(trouble.text for trouble in LONG))
    else:
        shown = together("".join(line for line in body if line.startswith("  ")))
        assert all(together(trouble.text) in shown for trouble in LONG)
    for name in ("OST0003", "MDT0000", "mds1", "62.5 %", "not 1 MDT"):
        assert name in text


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (60, "TARGET SERVER SIZE FULL INODES NEW FILES"),
        (69, "TARGET SERVER SIZE FULL INODES NEW FILES"),
        (70, "TARGET SERVER SIZE FULL INODES NEW FILES"),
        (80, "TARGET SERVER SIZE FULL INODES NEW FILES TRIM"),
        (100, "TARGET SERVER SIZE FULL NEW FILES TROUBLE"),
        (120, "TARGET SERVER SIZE FULL INODES NEW FILES TROUBLE"),
        (200, "TARGET SERVER SIZE FULL INODES NEW FILES TRIM TROUBLE"),
    ],
)
def test_columns_give_way_in_order(width: int, columns: str) -> None:
    lines = printed(target("OST0003", "oss01", LONG), width=width)
    assert lines[0].split() == columns.split()
    # Who copies half of a parameter's name sets nothing.
    parameters = [word for trouble in LONG for word in trouble.text.split() if "=" in word]
    assert parameters
    assert all(any(word in line for line in lines) for word in parameters)


def test_without_troubles_there_is_room_for_more() -> None:
    (header, line) = printed(target("OST0003", "oss01"), width=120)
    assert header.split()[-2:] == ["TRIM", "TROUBLE"]
    assert "fstrim, discard, 123 TiB discarded" in line


def test_each_trouble_has_a_line_of_its_own_below_its_target() -> None:
    lines = printed(target("OST0003", "oss01", LONG[1:]), target("OST0004", "oss01"), width=60)
    assert [line.split()[0] for line in lines] == ["TARGET", "OST0003", "83.1", "12", "OST0004"]
    assert lines[2] == "  83.1 % full, limit 75.0 %"


@pytest.mark.parametrize("width", WIDTHS)
def test_a_long_mount_point_is_folded_and_not_cut(width: int) -> None:
    name = "/mnt/" + "a-long-directory/" * 8 + "end"
    lines = printed(target(name, "oss01", LONG), width=width)
    assert all(cell_len(line) <= width for line in lines)
    column = lines[0].index("SERVER")
    rows = [line for line in lines[1:] if not line.startswith("  ")]
    assert together("".join(line[:column] for line in rows)) == name


def test_a_site_without_targets_has_a_header() -> None:
    assert printed(width=60)[0].startswith("TARGET")
    assert printed(width=120)[0].endswith("TROUBLE")

"""The table of targets on terminals of every width: nothing is cut, and troubles can be read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from rich.cells import cell_len

from trimtab.answers.page import targets_document
from trimtab.base.finding import Severity
from trimtab.base.snapshot import Reading, Setting, Snapshot, Target, TargetSnapshot
from trimtab.explain.status import SiteStanding, SiteState, TargetState, Trouble
from trimtab.show.screen_document import print_document

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


Print = Callable[..., list[str]]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Print:
    """Return what prints targets on a terminal of a width, and returns its lines."""

    def lines(*targets: TargetState, width: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        snapshot = Snapshot(AT, "lustre", True, tuple(one.seen for one in targets))
        standing = SiteStanding("scratch", SiteState("scratch", snapshot, targets))
        print_document(targets_document(standing))
        return capsys.readouterr().out.splitlines()

    return lines


def together(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("server", ["oss01", "oss01.storage.site.example.org"])
def test_no_line_is_cut_and_every_word_of_a_trouble_is_there(
    printed: Print, width: int, server: str
) -> None:
    lines = printed(target("OST0003", server, LONG), target("MDT0000", "mds1"), width=width)
    text = "\n".join(lines)
    assert all(cell_len(line) <= width for line in lines)
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert together("OST0003: " + "; ".join(trouble.text for trouble in LONG)) in together(text)
    for name in ("OST0003", "MDT0000", "mds1", "62.5 %", "60.0 %"):
        assert name in text
    # Who copies half of a parameter's name sets nothing.
    parameters = [word for trouble in LONG for word in trouble.text.split() if "=" in word]
    assert parameters
    assert all(any(word in line for line in lines) for word in parameters)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_long_mount_point_is_folded_and_not_cut(printed: Print, width: int) -> None:
    name = "/mnt/" + "a-long-directory/" * 8 + "end"
    lines = printed(target(name, "oss01", LONG), width=width)
    assert all(cell_len(line) <= width for line in lines)
    assert "\N{HORIZONTAL ELLIPSIS}" not in "\n".join(lines)
    assert together(f"{name}: {LONG[0].text}") in together("".join(lines))

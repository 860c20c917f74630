"""Rates and estimates of long steps of a purge."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import pytest

from trimtab.purge import screen_progress
from trimtab.purge.run.exchange import RunProgress
from trimtab.purge.screen_progress import import_progress, run_progress, scan_progress, watched
from trimtab.show import screen_document as bars
from trimtab.show.screen_document import progress_bar


@dataclass
class _Seen:
    entries: int
    elapsed_s: float
    pending: int = 3
    unread: int = 0


Seen: Any = _Seen
"""What is read of the progress of a scan."""


class Shown:
    def __init__(self) -> None:
        self.lines: list[tuple[str, float | None]] = []

    def __call__(self, text: str, part: float | None) -> None:
        self.lines.append((text, part))


def test_a_scan_says_its_rate_and_how_long_it_takes():
    shown = Shown()
    show = scan_progress(shown, 10_000, whole=True)
    show(Seen(0, 0.0))
    show(Seen(2000, 2.0))
    text, part = shown.lines[-1]
    assert "2,000 names" in text
    assert "1,000/s" in text
    assert "about 8.0 s left" in text
    assert part == pytest.approx(0.2)


def test_the_rate_of_a_scan_that_goes_on_leaves_out_what_was_done_before():
    shown = Shown()
    show = scan_progress(shown, 10_000, whole=True)
    show(Seen(5000, 60.0))
    show(Seen(6000, 61.0))
    assert "1,000/s" in shown.lines[-1][0]


def test_of_a_part_of_a_file_system_the_estimate_is_a_bound():
    shown = Shown()
    show = scan_progress(shown, 10_000, whole=False)
    show(Seen(0, 0.0))
    show(Seen(2000, 2.0, unread=1))
    text, part = shown.lines[-1]
    assert "at most 8.0 s left" in text
    assert "1 not read" in text
    assert part is None


def test_without_a_total_there_is_no_estimate():
    shown = Shown()
    show = scan_progress(shown, 0, whole=True)
    show(Seen(0, 0.0))
    show(Seen(2000, 2.0))
    assert "left" not in shown.lines[-1][0]


def test_a_scan_that_stands_still_says_for_how_long():
    shown = Shown()
    show = scan_progress(shown, 10_000, whole=True)
    for entries, elapsed_s in ((0, 0.0), (2000, 2.0), (2000, 11.9)):
        show(Seen(entries, elapsed_s))
        assert "nothing for" not in shown.lines[-1][0]
    show(Seen(2000, 65.0))
    text, part = shown.lines[-1]
    assert "2,000 names, nothing for 63 s" in text
    assert "left" not in text
    assert part is None
    show(Seen(2001, 66.0))
    assert "nothing for" not in shown.lines[-1][0]
    assert "left" in shown.lines[-1][0]


def progress(left: int, freed: int, needed: int | None) -> RunProgress:
    return RunProgress(
        rows=100, rows_left=left, files=100 - left, freed_bytes=freed, needed_bytes=needed,
        doing="checking", latency_s_p99=0.0125,
    )  # fmt: skip


def test_a_run_says_how_far_it_is_to_the_target_or_the_end_of_its_plan():
    shown = Shown()
    show = run_progress(shown)
    show(progress(100, 0, 2**20))
    show(progress(90, 2**19, 2**19))
    assert shown.lines[-1][1] == 0.5
    assert "99 % within 12.5 ms" in shown.lines[-1][0]
    assert "512 KiB to the target" in shown.lines[-1][0]
    show(progress(10, 2**19, None))
    assert shown.lines[-1][1] == 0.9


def test_progress_that_stands_still_goes_on_to_be_shown(monkeypatch):
    monkeypatch.setattr(screen_progress, "STILL_S", 0.02)
    told = threading.Event()
    lines = []

    def show(text, part):
        lines.append((text, part))
        if "nothing for" in text:
            told.set()

    with watched(show, every_s=0.01) as shown:
        assert not lines  # nothing was shown yet, so nothing stands still
        shown("deleting, 5 files", 0.5)
        assert told.wait(30.0)
    assert lines[0] == ("deleting, 5 files", 0.5)
    assert lines[1][0].startswith("deleting, 5 files, nothing for ")
    assert lines[1][1] == 0.5
    assert not [one for one in threading.enumerate() if one.name == "progress"]


def test_a_log_gets_a_line_at_once_and_then_now_and_then(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(bars.time, "monotonic", lambda: now[0])
    with progress_bar(counts=True) as show:
        for now[0] in (0.0, 1.0, 9.0, 10.0, 15.0):
            show(f"at {now[0]:.0f}", 0.5)
        import_progress(show)
    assert capsys.readouterr().err == "[ 50%] at 0\n[ 50%] at 10\n"
    monkeypatch.setattr(bars, "wants_json", lambda: True)
    with progress_bar(counts=True) as show:
        show("nothing", None)
    assert capsys.readouterr().err == ""

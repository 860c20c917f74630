"""What waits says how long it still takes, and what an interruption leaves."""

from __future__ import annotations

import pytest

from trimtab.base.error import Interrupted
from trimtab.show import screen_document
from trimtab.show.screen_document import progress_bar


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch):
    """A clock that a test sets."""
    seconds = [100.0]
    monkeypatch.setattr(screen_document.time, "monotonic", lambda: seconds[0])
    return seconds


def test_a_long_step_says_now_and_then_how_far_it_is_and_what_is_left(capsys, clock):
    with progress_bar() as show:
        for done in range(41):
            show("simulating", done / 100)
            clock[0] += 1.0
    assert capsys.readouterr().err.splitlines() == [
        "[  0%] simulating",
        "[ 10%] simulating, about 90.0 s left",
        "[ 20%] simulating, about 80.0 s left",
        "[ 30%] simulating, about 70.0 s left",
        "[ 40%] simulating, about 60.0 s left",
    ]


def test_what_was_done_before_has_no_share_in_the_pace(capsys, clock):
    with progress_bar() as show:
        show("3 of 4 runs", 0.75)
        clock[0] += 10.0
        show("3 of 4 runs", 0.80)
    assert capsys.readouterr().err.splitlines()[-1].endswith("about 40.0 s left")


def test_nothing_is_estimated_in_the_first_seconds_or_at_the_end(capsys, clock):
    with progress_bar() as show:
        show("looking", 0.0)
        clock[0] += 1.0
        show("judging", 0.5)
        clock[0] += 30.0
        show("judged", 1.0)
    assert "left" not in capsys.readouterr().err


def test_an_interruption_says_what_is_kept_and_how_to_go_on():
    with pytest.raises(Interrupted) as caught, progress_bar(remains="the same command goes on"):
        raise Interrupted("stopped by SIGINT")
    assert caught.value.hint == "the same command goes on"
    with pytest.raises(Interrupted) as caught, progress_bar():
        raise Interrupted("stopped by SIGINT", "go on with the scan")
    assert caught.value.hint == "go on with the scan"

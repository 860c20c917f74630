"""What a run says of itself is what the file system says: files, bytes, fullness, at every end."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.purge.run.world import FILE_BYTES, NOW_S, Surroundings, World

from trimtab.base.error import ToolError
from trimtab.base.units import format_percent
from trimtab.purge.run.exchange import StopReason
from trimtab.purge.run.purge_report import Day, report
from trimtab.purge.run.rows import Allowance
from trimtab.purge.run.run_journal import read
from trimtab.purge.run.run_result import RunResult
from trimtab.purge.run.runner import run
from trimtab.purge.run.screen import _run_facts
from trimtab.purge.run.situation import ArmingFacts

ENDS = {
    "target": StopReason.TARGET,
    "exhausted": StopReason.EXHAUSTED,
    "files": StopReason.FILES_CAP,
    "bytes": StopReason.BYTES_CAP,
    "time": StopReason.OUT_OF_TIME,
    "objection": StopReason.OBJECTION,
    "refused": StopReason.REFUSED,
    "interrupted": None,
    "failed": None,
    "broken": None,
}
LOADED: Any = SimpleNamespace(
    plan=SimpleNamespace(
        candidates=SimpleNamespace(files=0), file_system=SimpleNamespace(kind="ext4")
    )
)


def terms_for(world: World, end: str, at: int) -> Any:
    """Return terms by which a run comes to an end of this kind, if the others do not come first."""
    caps = {
        "files": Allowance(files=at),
        "bytes": Allowance(bytes=at * FILE_BYTES),
    }
    # A second passes with each look.
    changes = {"allowance": caps.get(end, Allowance()), "settle_s_min": 0.0}
    if end == "time":
        changes["ends_at_s"] = NOW_S + at
    return lambda now: world.terms(now, apply=True, **changes)


def ended(world: World, end: str, at: int) -> RunResult | None:
    """Return what a run came to that ends so; ``None`` where it raised."""
    looks = 0

    def look(surroundings: Surroundings) -> None:
        nonlocal looks
        looks, surroundings.at_s = looks + 1, surroundings.at_s + 1
        if looks > 1 + at // 8:
            if end == "objection":
                surroundings.now = replace(surroundings.now, kill_switch="it is pulled")
            elif end in ("interrupted", "failed"):
                raise KeyboardInterrupt if end == "interrupted" else ToolError("it fails")

    def broken(_call: str, row: int) -> None:
        if end == "broken" and row == at:
            raise ToolError("the remover fails")

    world.surroundings.look, world.remover.before = look, broken
    now = world.surroundings.now
    if end == "refused":
        world.surroundings.now = replace(now, arming=ArmingFacts("nobody armed it"))
    try:
        with contextlib.suppress(KeyboardInterrupt, ToolError):
            return run(world.job(terms=terms_for(world, end, at)), apply=True)
        return None
    finally:
        world.surroundings.now = now
        world.surroundings.look = lambda _self: None
        world.remover.before = lambda _call, _row: None


def day_of(world: World) -> Day:
    (journal,) = (world.directory / "journals").glob("*.journal.lines")
    (day,) = report([read(journal)], timezone=UTC).days
    return day


@settings(max_examples=25, deadline=None)
@given(
    end=st.sampled_from([*ENDS]),
    files=st.integers(1, 60),
    at=st.integers(0, 60),
    touched=st.integers(0, 5),
)
@example("files", 40, 7, 2)
@example("bytes", 40, 7, 0)
@example("time", 60, 4, 1)
@example("objection", 60, 9, 1)
@example("interrupted", 60, 9, 0)
@example("failed", 60, 9, 0)
@example("broken", 40, 11, 0)
@example("exhausted", 20, 0, 3)
def test_the_figures_of_a_run_are_those_of_the_file_system(end, files, at, touched):
    with tempfile.TemporaryDirectory() as directory:
        target = 0.01 if end != "target" else 0.5
        world = World(Path(directory), files, target=target).make()
        for path in world.paths[:touched]:
            path.write_bytes(b"y" * (FILE_BYTES - 1))
        world.surroundings.others_bytes = FILE_BYTES  # so that it is never under its target
        world.surroundings.capacity_bytes += FILE_BYTES
        first, there = world.surroundings.usage(), world.there()
        result = ended(world, end, at)
        gone = there - world.there()
        last = world.surroundings.usage()
        if result is not None:
            assert (result.files, result.bytes) == (len(gone), len(gone) * FILE_BYTES)
            assert result.freed_bytes == len(gone) * FILE_BYTES
            if end not in ("target", "exhausted"):
                assert result.reason in (ENDS[end], StopReason.EXHAUSTED)
            assert result.after == (last if gone else None)
            assert_printed(result, first, last)
        day = day_of(world)
        if end != "broken":
            assert (day.files, day.bytes) == (len(gone), len(gone) * FILE_BYTES)
        if day.files:
            assert day.before is not None
            assert day.before.usage == first
            assert day.after is not None
            if end != "broken":
                assert day.after.usage == last
        # The next run accounts for what one that broke off had begun.
        run(world.job(id="next"), apply=True)
        gone = there - world.there()
        day = day_of(world)
        assert (day.files, day.bytes) == (len(gone), len(gone) * FILE_BYTES)
        if gone:
            assert day.after is not None
            assert day.after.usage == world.surroundings.usage()


def fullness(usage: Any) -> str:
    return format_percent(usage.fullness, 2)


def assert_printed(result: RunResult, first: Any, last: Any) -> None:
    """Check the line that is printed of how full it was."""
    text = dict(_run_facts(result, LOADED)).get("full")
    if result.before is None:
        assert text is None
    elif result.files:
        assert text is not None
        words = f"{fullness(first)}, then {fullness(last)}, measured "
        assert text.startswith(words)
        assert text.endswith("after the last deletion")
    else:
        assert text == fullness(first)


def test_why_it_was_not_measured_is_said(tmp_path):
    world = World(tmp_path, 30, target=0.01).make()
    measure, asked = world.surroundings.measure, []

    def measured_once() -> Any:
        if asked:
            raise OSError(5, "Input/output error")
        asked.append(1)
        return measure()

    world.surroundings.measure = measured_once  # type: ignore[method-assign]
    result = run(world.job(terms=terms_for(world, "files", 5)), apply=True)
    assert (result.reason, result.files, result.after) == (StopReason.FILES_CAP, 5, None)
    assert dict(_run_facts(result, LOADED))["full"] == (
        f"{fullness(result.before)}; not measured since: [Errno 5] Input/output error"
    )


@pytest.mark.parametrize("destroyed", [0, 12])
def test_what_is_still_being_destroyed_is_said(tmp_path, destroyed):
    world = World(tmp_path, 30, target=0.01).make()
    world.surroundings.in_flight = [0, destroyed]
    result = run(world.job(terms=terms_for(world, "files", 5)), apply=True)
    text = dict(_run_facts(result, LOADED))["full"]
    assert text.endswith("; 12 objects still being destroyed") is bool(destroyed)

"""Plans carried out on a driver in memory: what is written, journalled, found and left alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.act.lustre_site import run_command
from tests.fake_lustre.state import FakeLustre
from tests.support.codes import raises
from tests.support.memory_driver import MemoryDriver, MemoryTarget

from trimtab.act.action_journal import (
    ActionBegin,
    ActionEnd,
    ApplyLine,
    RangeLine,
    journalled,
    opened,
)
from trimtab.act.apply import ActingSurroundings, apply, ranges
from trimtab.act.safeguard import DeadMan, Pacing, dead_man
from trimtab.act.session import recover
from trimtab.base.action import Action, ActionKind, Instruction, Outcome, Plan
from trimtab.base.error import DataError, Message, RefusedError, ToolError, TrimtabError
from trimtab.base.site_policy import TrimPolicy
from trimtab.base.snapshot import NotAvailable, Setting, Snapshot
from trimtab.reach.driver_protocol import WriteTimes
from trimtab.store.store import Store

NOW = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)
SETTING = "block/memory0/queue/wbt_lat_usec"
SITE = "s"
TIB = 1 << 40


class Clock:
    """A clock that goes on by a second each time."""

    def __init__(self) -> None:
        self.seconds = count()

    def __call__(self) -> datetime:
        return NOW + timedelta(seconds=next(self.seconds))


def instruction(target: str = "OST0000", **changes: Any) -> Instruction:
    values: dict[str, Any] = {"setting": SETTING, "before": "2000", "value": "0"}
    kind = changes.pop("kind", ActionKind.SET)
    if kind is not ActionKind.SET:
        values = {}
    return Instruction(kind, target, Message("differs", "2000 is not 0"), **(values | changes))


TRIM = instruction(kind=ActionKind.TRIM)


def plan(*instructions: Instruction, **changes: Any) -> Plan:
    return Plan(SITE, "tunables", NOW, NOW, instructions, **changes)


def driver(*names: str) -> MemoryDriver:
    return MemoryDriver(*(MemoryTarget(name) for name in names or ("OST0000",)))


@contextmanager
def surroundings(
    directory: Path,
    of: MemoryDriver,
    *,
    deadman: DeadMan | None = None,
    range_bytes: int = TIB,
    sleep: Callable[[float], None] = lambda seconds: None,
) -> Iterator[ActingSurroundings]:
    with Store.open(directory / "t.db") as store, opened(directory / "actions", SITE) as journal:
        clock = Clock()
        recover(journal, store, of, SITE, NOW)
        token = store.take_right(
            SITE, "me", now=NOW, until=NOW + timedelta(hours=1), gone=lambda _: True
        )
        yield ActingSurroundings(
            driver=of,
            store=store,
            journal=journal,
            clock=clock,
            token=token,
            who="root@login1",
            range_bytes=range_bytes,
            deadman=deadman or DeadMan(),
            resume=journal.past.interrupted_trims,
            pacing=Pacing(of, TrimPolicy(), sleep),
        )


def done_in(
    directory: Path, of: MemoryDriver, *instructions: Instruction, **options: Any
) -> tuple[Action, ...]:
    """Return what came of a plan of these instructions, by default of one."""
    with surroundings(directory, of, **options) as around:
        return apply(plan(*(instructions or (instruction(),))), around)


def overtake(around: ActingSurroundings) -> None:
    """Let another process take the right to act."""
    end = NOW + timedelta(hours=1)
    around.store.take_right(SITE, "other", now=NOW, until=end, gone=lambda _: True)


def lines_of(directory: Path) -> list[str]:
    with opened(directory / "actions", SITE) as journal:
        return [line.do for line in journal.lines]


def test_what_is_done_is_journalled_before_and_after_and_kept_in_the_ledger(tmp_path: Path) -> None:
    memory = driver()
    seen: list[list[str]] = []
    written = memory.set

    def set_(target: str, name: str, value: str) -> Setting | NotAvailable:
        seen.append((tmp_path / "actions" / f"{SITE}.journal.jsonl").read_text().splitlines())
        return written(target, name, value)

    memory.set = set_  # type: ignore[method-assign]
    with surroundings(tmp_path, memory) as around:
        (action,) = apply(plan(instruction()), around)
        assert around.store.actions(SITE) == (action,)
    assert memory.state["OST0000"].settings[SETTING] == "0"
    assert (action.outcome, action.found) == (Outcome.DONE, "0")
    ((_, begun),) = seen
    assert '"do":"begin"' in begun
    assert lines_of(tmp_path) == ["apply", "begin", "end"]


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({"before": "75000"}, Outcome.CHANGED),
        ({"setting": "block/memory0/queue/none"}, Outcome.SKIPPED),
        ({"setting": "block/memory0/queue/rotational", "before": "0"}, Outcome.REFUSED),
        ({"target": "OST0009"}, Outcome.REFUSED),
    ],
)
def test_what_no_longer_holds_is_not_written(
    tmp_path: Path, changes: dict[str, Any], outcome: Outcome
) -> None:
    memory = driver()
    before = dict(memory.state["OST0000"].settings)
    (action,) = done_in(tmp_path, memory, instruction(**changes))
    assert action.outcome is outcome
    assert action.detail
    assert memory.state["OST0000"].settings == before


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ToolError("reads 5", code="setting-not-kept"), Outcome.NOT_STORED),
        (ToolError("it hangs", code="write-hangs"), Outcome.UNKNOWN),
        (ToolError("it is silent", code="server-unreachable"), Outcome.UNREACHABLE),
        (ToolError("it failed", code="tool-failed"), Outcome.FAILED),
        (RefusedError("not that", code="setting-read-only"), Outcome.REFUSED),
    ],
)
def test_a_failure_is_told_for_what_it_is(
    tmp_path: Path, error: TrimtabError, outcome: Outcome
) -> None:
    memory = driver()

    def fails(target: str, name: str, value: str) -> Setting:
        raise error

    memory.set = fails  # type: ignore[method-assign]
    (action,) = done_in(tmp_path, memory)
    assert action.outcome is outcome
    # What the setting was left at: the way back knows it by that.
    assert action.found == ("2000" if outcome is Outcome.NOT_STORED else None)


def test_a_stage_waits_for_all_of_the_one_before(tmp_path: Path) -> None:
    memory = driver("OST0000", "OST0001", "OST0002")
    memory.state["OST0001"].settings[SETTING] = "1"
    stages = [instruction(f"OST000{number}", stage=number > 1) for number in range(3)]
    actions = done_in(tmp_path, memory, *stages)
    assert [action.outcome for action in actions] == [Outcome.DONE, Outcome.CHANGED]
    assert memory.state["OST0002"].settings[SETTING] == "2000"


def test_a_change_that_a_later_one_took_back_is_not_done(tmp_path: Path) -> None:
    memory = driver()
    scheduler, written = "block/memory0/queue/scheduler", memory.set

    def resetting(target: str, name: str, value: str) -> Setting | NotAvailable:
        if name == scheduler:
            written(target, SETTING, "75000")
        return written(target, name, value)

    memory.set = resetting  # type: ignore[method-assign]
    second = instruction(setting=scheduler, before="none", value="mq-deadline")
    with surroundings(tmp_path, memory) as around:
        actions = apply(plan(instruction(), second, instruction(stage=1)), around)
        assert around.store.actions(SITE) == actions
    assert [action.outcome for action in actions] == [Outcome.NOT_STORED, Outcome.DONE]
    assert actions[0].found == "75000"


def test_a_plan_that_is_held_changes_nothing(tmp_path: Path) -> None:
    memory = driver()
    with surroundings(tmp_path, memory) as around, raises(RefusedError, "plan-held"):
        apply(plan(instruction(), held=(Message("snapshot-stale", "too old"),)), around)
    assert memory.state["OST0000"].settings[SETTING] == "2000"
    assert lines_of(tmp_path) == []


def test_who_has_lost_the_right_does_nothing_more(tmp_path: Path) -> None:
    memory = driver()
    with surroundings(tmp_path, memory) as around:
        overtake(around)
        with raises(RefusedError, "right-lost"):
            apply(plan(instruction()), around)
    assert memory.state["OST0000"].settings[SETTING] == "2000"


def test_a_trim_keeps_the_right_and_ends_where_it_is_lost(tmp_path: Path) -> None:
    memory = driver()
    trim = memory.trim
    with surroundings(tmp_path, memory, range_bytes=TIB // 4) as around:

        def overtaken(target: str, start: int = 0, length: int | None = None):
            if start == TIB // 4:
                overtake(around)
            return trim(target, start, length)

        memory.trim = overtaken  # type: ignore[method-assign]
        with raises(RefusedError, "right-lost"):
            apply(plan(TRIM), around)
    assert lines_of(tmp_path) == ["apply", "begin", "range", "range"]
    with surroundings(tmp_path, memory) as around:
        assert around.store.actions(SITE)[0].facts == {"interrupted": "killed"}
        assert around.resume == {"OST0000": TIB // 2}


def test_two_processes_do_not_act_at_once(tmp_path: Path) -> None:
    with (
        surroundings(tmp_path, driver()),
        raises(RefusedError, "run-running"),
        opened(tmp_path / "actions", SITE),
    ):
        pass


def test_close_open_reset_and_trim(tmp_path: Path) -> None:
    memory = driver()
    state = memory.state["OST0000"]
    state.allocator_goal = 7
    with surroundings(tmp_path, memory, range_bytes=TIB // 4) as around:
        (closed,) = apply(plan(instruction(kind=ActionKind.CLOSE)), around)
        assert not state.create_enabled
        reset, opened_again, trimmed = apply(
            plan(
                instruction(kind=ActionKind.RESET_ALLOCATOR),
                instruction(kind=ActionKind.OPEN),
                TRIM,
            ),
            around,
        )
    ends = [closed, reset, opened_again, trimmed]
    assert [action.outcome for action in ends] == [Outcome.DONE] * 4
    assert (state.create_enabled, state.allocator_goal) == (True, 0)
    assert trimmed.found == str(TIB)
    assert lines_of(tmp_path).count("range") == 4


@pytest.mark.parametrize(
    ("late_s", "hurry", "effect"),
    [(0.0, False, "seen"), (7.0, False, "seen"), (1e9, False, "none"), (7.0, True, "unconfirmed")],
)
def test_a_counter_of_discards_that_lags_is_waited_for(
    tmp_path: Path, late_s: float, *, hurry: bool, effect: str
) -> None:
    """XFS counts what a trim discards after the trim has ended."""
    memory, slept = driver(), []
    state = memory.state["OST0000"]
    state.discarded_bytes = 1
    look = memory.snapshot

    def lagging(at: datetime) -> Snapshot:
        counted = state.discarded_bytes
        state.discarded_bytes = counted if sum(slept) >= late_s else 1
        snapshot = look(at)
        state.discarded_bytes = counted
        return snapshot

    memory.snapshot = lagging  # type: ignore[method-assign]
    with surroundings(tmp_path, memory, sleep=slept.append) as around:
        hurried = replace(around, gives_way=lambda seconds: hurry and seconds > 0)
        (action,) = apply(plan(TRIM), hurried)
    assert (action.outcome, action.facts["effect"]) == (Outcome.DONE, effect)
    assert sum(slept) <= 25


@pytest.mark.parametrize("ranges_before", [0, 1, 3])
def test_a_trim_that_was_interrupted_goes_on(tmp_path: Path, ranges_before: int) -> None:
    memory = driver()
    trim, calls = memory.trim, []

    def dying(target: str, start: int = 0, length: int | None = None):
        if len(calls) == ranges_before:
            raise ToolError("the server went away", code="server-unreachable")
        calls.append(start)
        return trim(target, start, length)

    memory.trim = dying  # type: ignore[method-assign]
    (action,) = done_in(tmp_path, memory, TRIM, range_bytes=TIB // 4)
    assert action.outcome is Outcome.UNREACHABLE
    memory.trim = lambda *arguments: (calls.append(arguments[1]), trim(*arguments))[1]  # type: ignore[method-assign]
    with surroundings(tmp_path, memory, range_bytes=TIB // 4) as around:
        (action,) = apply(plan(TRIM), around)
        assert action.outcome is Outcome.DONE
    assert calls == [0, TIB // 4, TIB // 2, 3 * TIB // 4]
    with surroundings(tmp_path, memory) as around:
        assert around.resume == {}


def test_ranges_cover_a_target_once_and_up_to_its_end() -> None:
    assert list(ranges(10, 4)) == [(0, 4), (4, 4), (8, None)]
    assert list(ranges(8, 4)) == [(0, 4), (4, None)]
    assert list(ranges(10, 4, 8)) == [(8, None)]
    assert list(ranges(10, 4, 12)) == [(12, None)]


def test_a_trim_pauses_while_writes_are_slow(tmp_path: Path) -> None:
    memory = driver()
    state, slept = memory.state["OST0000"], []
    state.write_times = WriteTimes(1000, 1.0)
    trim = memory.trim

    def slowing(target: str, start: int = 0, length: int | None = None):
        # A millisecond a write before; the second step makes writes take two.
        each_s = 0.002 if start else 0.001
        times = state.write_times
        state.write_times = WriteTimes(times.writes + 100, times.busy_s + 100 * each_s)
        return trim(target, start, length)

    memory.trim = slowing  # type: ignore[method-assign]
    done_in(tmp_path, memory, TRIM, range_bytes=TIB // 2, sleep=slept.append)
    assert slept == [5.0, 300.0]


# Kills


@pytest.mark.parametrize(
    ("dies_at", "outcome"),
    [("before the write", Outcome.SKIPPED), ("after the write", Outcome.DONE)],
)
def test_what_a_killed_process_left_open_is_settled(
    tmp_path: Path, dies_at: str, outcome: Outcome
) -> None:
    memory = driver()
    written = memory.set

    def dying(target: str, name: str, value: str):
        if dies_at == "after the write":
            written(target, name, value)
        raise KeyboardInterrupt

    memory.set = dying  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt), surroundings(tmp_path, memory) as around:
        apply(plan(instruction()), around)
    assert lines_of(tmp_path) == ["apply", "begin"]
    with surroundings(tmp_path, memory) as around:
        (action,) = around.store.actions(SITE)
    assert action.outcome is outcome
    assert lines_of(tmp_path) == ["apply", "begin", "end"]


def test_the_ledger_is_filled_from_the_journal(tmp_path: Path) -> None:
    (action,) = done_in(tmp_path, driver())
    (tmp_path / "t.db").unlink()
    with surroundings(tmp_path, driver()) as around:
        assert around.store.actions(SITE) == (action,)


def test_a_journal_that_was_changed_changes_nothing_more(tmp_path: Path) -> None:
    done_in(tmp_path, driver())
    path = tmp_path / "actions" / f"{SITE}.journal.jsonl"
    path.write_text(path.read_text().replace('"before":"2000"', '"before":"2001"'))
    with raises(DataError, "journal-changed"), surroundings(tmp_path, driver()):
        pass


def test_an_end_without_a_beginning_is_an_error() -> None:
    with raises(DataError, "journal-contradictory"):
        journalled((ActionEnd(NOW, "a", "done"),), SITE)


def test_interrupted_trims_are_those_that_did_not_end() -> None:
    def begin(action: str) -> ActionBegin:
        reasons = ("due", "trim-due")
        return ActionBegin(
            NOW, action, "trim", "p", "me", "trim", "OST0000", *reasons, None, None, None, None, 0
        )

    halves = (RangeLine(NOW, "a", 0, 5, 1), RangeLine(NOW, "a", 5, 5, 1))
    rest = RangeLine(NOW, "a", 10, None, 1)
    ended = (*halves, ActionEnd(NOW, "a", "done"))
    for lines, resume in ((halves, {"OST0000": 10}), (ended, {}), ((*halves, rest), {})):
        assert journalled((begin("a"), *lines), SITE).interrupted_trims == resume


@pytest.mark.system
@pytest.mark.parametrize("dies", [True, False])
def test_a_value_is_put_back_when_its_writer_dies(tmp_path: Path, dies: bool) -> None:
    """The values lie in files, so that a child and its child see them."""
    (tmp_path / "value").write_text("2000")

    class FileDriver(MemoryDriver):
        def settings(self, target: str) -> dict[str, Setting | NotAvailable]:
            return {SETTING: Setting(SETTING, (tmp_path / "value").read_text(), "file")}

        def set(self, target: str, name: str, value: str) -> Setting | NotAvailable:
            (tmp_path / "value").write_text(value)
            if dies and value == "0":
                os.kill(os.getpid(), signal.SIGKILL)
            return self.settings(target)[name]

    files = FileDriver(MemoryTarget("OST0000"))
    child = os.fork()
    if child == 0:
        with dead_man(files) as guard, surroundings(tmp_path, files, deadman=guard) as around:
            apply(plan(instruction()), around)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) is dies
    deadline = 200
    while dies and (tmp_path / "value").read_text() != "2000" and deadline:
        signal.sigtimedwait([], 0.05)
        deadline -= 1
    assert (tmp_path / "value").read_text() == ("2000" if dies else "0")
    with surroundings(tmp_path, files) as around:
        (action,) = around.store.actions(SITE)
    assert action.outcome is (Outcome.SKIPPED if dies else Outcome.DONE)


def test_what_a_server_is_going_to_put_back_is_not_called_done(tmp_path: Path) -> None:
    """Where servers put back what nobody confirms, a driver that cannot confirm is no success."""

    class Mute(MemoryDriver):
        def confirm(self) -> NotAvailable | None:
            return NotAvailable("this driver has lost its server")

    memory = Mute(MemoryTarget("OST0000"))
    (done,) = done_in(tmp_path, memory)
    memory.dead_man_s = 60.0
    (open_end,) = done_in(tmp_path, memory, instruction(before="0", value="1"))
    assert (done.outcome, open_end.outcome) == (Outcome.DONE, Outcome.UNKNOWN)
    assert "lost its server" in str(open_end.detail)


def test_a_permanent_setting_needs_a_driver_that_can(tmp_path: Path) -> None:
    memory = driver()
    (action,) = done_in(tmp_path, memory, instruction(permanent=True))
    assert memory.state["OST0000"].permanent == {SETTING: "0"}
    assert action.outcome is Outcome.DONE

    memory.capabilities = memory.capabilities - {"permanent"}
    before = dict(memory.state["OST0000"].settings)
    (action,) = done_in(tmp_path, memory, instruction(before="0", value="1", permanent=True))
    assert action.outcome is Outcome.SKIPPED
    assert memory.state["OST0000"].settings == before


@pytest.mark.parametrize(
    ("dead_man_s", "outcome"),
    [(NotAvailable("nothing is put back"), Outcome.DONE), (60.0, Outcome.UNKNOWN)],
)
def test_a_killed_change_is_open_while_its_server_may_put_it_back(
    tmp_path: Path, dead_man_s: float | NotAvailable, outcome: Outcome
) -> None:
    memory = driver()
    memory.dead_man_s = dead_man_s
    memory.state["OST0000"].settings[SETTING] = "0"
    begun = ActionBegin(
        NOW - timedelta(seconds=1), "a", "tunables", "p", "me", "set", "OST0000",
        "2000 is not 0", "differs", None, SETTING, "2000", "0", 0,
    )  # fmt: skip
    with opened(tmp_path / "actions", SITE) as journal:
        journal.write(ApplyLine(begun.at, SITE, "tunables", "p", "me", 1, "0"))
        journal.write(begun)
    with Store.open(tmp_path / "t.db") as store, opened(tmp_path / "actions", SITE) as journal:
        (action,) = recover(journal, store, memory, SITE, NOW)
    assert action.outcome is outcome


# The commands that act, through real processes: ssh, the collector and the writing program.

PRIO = "lod.scratch-MDT0000-mdtlov.qos_prio_free"
SSH_SITE = """\
[site]
name = "fake"
driver = "lustre"
path = "/scratch"
file_system = "scratch"

[servers]
oss = "lustre1"

[servers.ssh]
command = "{ssh}"

[policy.tunables]
settings = {{qos_prio_free = "80%"}}
"""


@pytest.mark.calibration
def test_a_setting_is_written_over_ssh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed = FakeLustre.small(mount="/scratch").install(tmp_path / "lustre")
    monkeypatch.setenv("PATH", installed.path)
    site = tmp_path / "fake.toml"
    site.write_text(SSH_SITE.format(ssh=installed.ssh[0]))
    store = str(tmp_path / "t.db")
    done = run_command(capsys, "tune", str(site), "--apply", "--store", store)
    assert [action["outcome"] for action in done["actions"]] == ["done"]
    with installed.changing() as state:
        (server,) = state.servers
        assert state.lctl(server.name, ["get_param", "-n", PRIO]).stdout == "80%\n"
        steps = [line.split(": ")[1].split()[0] for line in server.log]
        assert steps == ["begun", "done", "confirmed"]
        assert list(server.kept) == [f"{state.file_system}.token"]

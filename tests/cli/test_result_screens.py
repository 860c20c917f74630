"""Screens of results that need no store: each at three widths, none wider than its terminal."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest
from rich.cells import cell_len
from syrupy.assertion import SnapshotAssertion
from tests.cli.test_screens import WIDTHS, printed
from tests.show.conftest import full_result
from tests.show.pages import EXAMPLES, sweep_analysis, swept_policies
from tests.show.purge_pages import USAGE, horizon_answer_of, purge_runs

from trimtab.act.page import ledger_document, plan_document
from trimtab.base.action import Action, ActionKind, Instruction, Outcome, Plan, Untouched
from trimtab.base.error import Message
from trimtab.base.run import Sample
from trimtab.base.site import Site
from trimtab.explain.status import SiteStanding
from trimtab.judge.comparison_result import PlanEffect
from trimtab.judge.ladder_analysis import build_ladder
from trimtab.probe.check.page import check_document
from trimtab.probe.imports.import_reading import UNRECOGNISED
from trimtab.probe.imports.import_result import FileStatus, Imported, ImportedFile
from trimtab.probe.imports.page import Tally, imported_document
from trimtab.probe.ladder import of_file
from trimtab.probe.ladder_file import load_ladder
from trimtab.probe.page_ladder import ladder_document
from trimtab.probe.page_sweep import extent_sections, sweep_document
from trimtab.probe.sweep import SweepState
from trimtab.purge.horizon.age_curve import Freed
from trimtab.purge.horizon.horizon_answer import HorizonResult
from trimtab.purge.horizon.page import horizon_document, runs_document
from trimtab.purge.index.index_query import QueryAnswer
from trimtab.purge.index.screen import answer_document
from trimtab.show.command_options import Extent
from trimtab.show.document import Document, Section, row, table
from trimtab.show.screen_document import SCREEN_LINES, print_document
from trimtab.store.slot import ItemState, Lease, Slot, SlotState, WatchState
from trimtab.twin.drive_preset import preset
from trimtab.twin.page import scenario_document, scenarios_document
from trimtab.twin.scenario_file import load_scenario, preset_names
from trimtab.twin.whatif.ost_amplification import MiniatureSize
from trimtab.twin.whatif.page_whatif import whatif_document
from trimtab.twin.whatif.screen_size import size_document
from trimtab.twin.whatif.sizing import size
from trimtab.twin.whatif.sizing_request import SizingRequest
from trimtab.watch.page import state_document

DAY = datetime(2026, 11, 20, tzinfo=UTC)


def _horizon() -> Document:
    return horizon_document(
        HorizonResult(
            "/scratch",
            "i",
            horizon_answer_of(0.7),
            USAGE,
            rules=("Files younger than 14 d stay.",),
            total=Freed(21_000_000, 10**16),
            notes=("The index is 6 h old.",),
        )
    )


def _whatif() -> Document:
    scenario, swept = swept_policies()
    return whatif_document(scenario.name, swept, scenario.assumption_lines)


def _ladder() -> Document:
    return ladder_document(build_ladder(of_file(load_ladder(EXAMPLES / "perlmutter.toml"))))


def _sweep() -> None:
    sweep = SimpleNamespace(name="sizes", rounds=3, points=range(24), fixed={})
    state = SweepState(cast(Any, sweep), (), ())
    document = sweep_document("sizes", "scratch", sweep_analysis(), extent_sections(state))
    print_document(document, ["store: STORE"])


def _size() -> None:
    asked = SizingRequest(
        daily_writes_bytes=2.5e15, drive=preset("pm1733").model, osts=274, limit=0.9,
        write_bytes_per_s=9e12,
    )  # fmt: skip
    print_document(size_document(size(asked, miniature=MiniatureSize(4, 32, 1))))


def _import() -> None:
    rate = Sample("write_bandwidth", 2.5e9)
    result = Imported("write", FileStatus.OK, None, (rate,), run="r", new=True, site="scratch")
    results = (*(result,) * 5, replace(result, site="home"))
    damaged = "archive/2023/ior.17.out:14: the line of the write has no figure"
    files = (
        ImportedFile("archive/2024/a.out", "ior", FileStatus.OK, None, results, named=True),
        ImportedFile("archive/2023/ior.17.out", "ior", FileStatus.UNREADABLE, damaged),
        *(ImportedFile(f"{n}", None, FileStatus.UNREADABLE, UNRECOGNISED) for n in range(9)),
    )
    tally = Tally()
    assert len(list(tally.of(files))) == len(files)
    print_document(imported_document(tally, "scratch.db"))


def _query() -> None:
    held = [3 * 2**50, 2**40, 0]
    columns = {"user": ["anna", "bert", "carl"], "files": [2_100_000, 17, 1]}
    columns |= {"allocated_bytes": held, "share": [n / sum(held) for n in held]}
    answer = QueryAnswer(pl.DataFrame(columns), cut_off=False, notes=("The index is 6 h old.",))
    print_document(answer_document(answer))


WBT = "drives/queue/wbt_lat_usec"
LOOPS = "ldiskfs/md0/mb_c1_threshold"
SITE = Site("scratch", "lustre", "/scratch")


def _instructions(kind: ActionKind, why: Message, *settings: str | None) -> tuple[Instruction, ...]:
    return tuple(
        Instruction(kind, f"OST{n:04x}", why, f"oss{n // 2}", setting, "2000", "0")
        for n in range(6)
        for setting in settings or (None,)
    )


_PLANS = {
    "tune": Plan(
        "scratch", "tunables", DAY, DAY,
        _instructions(ActionKind.SET, Message("not-as-desired", "2000, and 0 is desired"), WBT),
        tuple(
            Untouched(f"OST{n:04x}", Message("waits", "OST0004 is first, observed for 1.0 h"), each)
            for n in range(6, 40)
            for each in (WBT, LOOPS)
        ),
    ),
    "trim": Plan(
        "scratch", "trim", DAY, DAY,
        _instructions(ActionKind.TRIM, Message("written", "12.5 TiB were written to it")),
        held=(Message("snapshot-incomplete", "the snapshot is incomplete: oss3 is silent"),),
    ),
    "balance": Plan(
        "scratch", "balance", DAY, DAY,
        _instructions(ActionKind.CLOSE, Message("over-limit", "76.1 % full, limit 75.0 %")),
        (Untouched("OST0007", Message("dwell", "it was opened less than 1.0 h ago")),),
    ),
    "revert": Plan(
        "scratch", "revert", DAY, DAY,
        _instructions(ActionKind.SET, Message("reverted", f"{WBT} was 2000 before"), WBT, LOOPS),
    ),
}  # fmt: skip


STANDING = SiteStanding("scratch", searched=True)


def _planned(policy: str) -> None:
    plan = _PLANS[policy]
    apply = f"trimtab {policy} scratch --apply --plan {plan.id}"
    print_document(plan_document(plan, where="scratch", command=apply))


def _actions(plan: Plan) -> list[Action]:
    begun = [DAY + timedelta(minutes=n) for n in range(len(plan.instructions))]
    return [
        Action(
            f"019c1ba6-2800-7{n + 16 * len(plan.policy):03x}-8000-000000000000", "scratch",
            plan.policy, plan.id, "root@adm1", at, instruction, at,
            Outcome.REFUSED if n == 2 else Outcome.DONE,
            detail="Invalid argument" if n == 2 else None,
        )
        for n, (at, instruction) in enumerate(zip(begun, plan.instructions, strict=True))
    ]  # fmt: skip


def _applied() -> None:
    plan = _PLANS["tune"]
    print_document(plan_document(plan, _actions(plan), where="scratch"))


def _ledger() -> None:
    actions = _actions(_PLANS["balance"]) + _actions(_PLANS["revert"])
    why = Message("too-recent", "no run is there yet")
    effects = [PlanEffect(plan.id, DAY, reason=why) for plan in _PLANS.values()]
    print_document(ledger_document("scratch", actions, effects, where="scratch"))


def _watch() -> None:
    due = datetime(2026, 11, 20, 8, tzinfo=UTC)
    hour = timedelta(hours=1)
    failed = Slot("scratch", "probe:hourly", due, SlotState.FAILED, detail="oss3 did not answer")
    items = (
        ItemState("snapshot", due + hour / 4, None, replace(failed, state=SlotState.DONE)),
        ItemState("probe:hourly", due + hour, None, failed),
        ItemState("policy:trim", due + 9 * hour, failed, None),
    )
    lease = Lease("scratch", "client7, process 4711", due - 30 * hour, due + hour)
    state = WatchState("scratch", "scratch.db", due, lease, items)
    print_document(state_document(state, None, STANDING))


SCREENS: dict[str, Callable[[], None]] = {
    "actions": _ledger,
    "actions of none": lambda: print_document(ledger_document("scratch", (), ())),
    "balance": partial(_planned, "balance"),
    "revert": partial(_planned, "revert"),
    "trim": partial(_planned, "trim"),
    "tune": partial(_planned, "tune"),
    "tune applied": _applied,
    "check": lambda: print_document(check_document(full_result())),
    "import": _import,
    "ladder": lambda: print_document(_ladder()),
    "purge horizon": lambda: print_document(_horizon()),
    "purge query": _query,
    "purge report": lambda: print_document(runs_document(purge_runs(), "/var/lib/trimtab")),
    "size": _size,
    "sweep": _sweep,
    "twin list": lambda: print_document(scenarios_document([*map(load_scenario, preset_names())])),
    "twin show": lambda: print_document(scenario_document(load_scenario("perlmutter"))),
    "watch": _watch,
    "whatif": lambda: print_document(_whatif()),
}


@pytest.mark.cli
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_fits_its_terminal(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    snapshot: SnapshotAssertion,
    name: str,
    width: int,
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        lines = printed(SCREENS[name], capsys, monkeypatch, width=width)
    time.tzset()
    assert len(lines) <= SCREEN_LINES
    assert [line for line in lines if cell_len(line) > width] == []
    assert "\n".join(lines) == snapshot


@pytest.mark.cli
@pytest.mark.parametrize("width", [40, 56, 80, 120, 200])
@pytest.mark.parametrize("made", [_horizon, _ladder, _whatif])
def test_with_all_a_document_has_every_cell_at_every_width(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    made: Callable[[], Document],
    width: int,
) -> None:
    document = made()
    show, everything = partial(print_document, document), Extent(everything=True)
    lines = printed(show, capsys, monkeypatch, width=width, extent=everything)
    assert [line for line in lines if cell_len(line) > width] == []
    shown = Counter("".join("".join(lines).split()))
    tables = [table for section in document.sections for table in section.tables if table]
    wanted = Counter("".join(
        "".join(cell.text.split()) for table in tables for row in table.rows for cell in row.cells
    ))  # fmt: skip
    assert wanted - shown == Counter()


@pytest.mark.cli
def test_a_section_has_its_title_where_anything_beside_charts_is_to_be_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folds = (("more", table(("what",), [row("a row")])),)
    sections = (
        Section("Repair", commands=("systemctl start fstrim.timer",)),
        Section("Drawn", charts=(lambda: None,)),
        Section("Opened", folds=folds),
    )
    document = Document("An answer.", sections, kind="check", heading="scratch", subtitle="now")
    show = partial(print_document, document)
    lines = "\n".join(printed(show, capsys, monkeypatch, width=80))
    assert "Repair\n    systemctl start fstrim.timer" in lines
    assert "Drawn" not in lines
    assert "Opened" not in lines
    everything = printed(show, capsys, monkeypatch, width=80, extent=Extent(everything=True))
    assert "Opened" in everything
    assert [section.is_empty for section in sections] == [False, True, False]

"""Screens that need no store, at three widths: none is wider than its terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest
from syrupy.assertion import SnapshotAssertion
from tests.cli.test_screens import WIDTHS
from tests.show.conftest import full_result
from tests.show.pages import (
    EXAMPLES,
    USAGE,
    horizon_answer_of,
    purge_runs,
    sweep_analysis,
    swept_policies,
)
from tests.show.test_document import a_sizing
from tests.support.screens import Lines, Screen, in_utc, too_wide
from tests.watch.alert.parcels_of import NOON, alert

from trimtab.act.page import ledger_document, plan_document
from trimtab.base.action import Action, ActionKind, Instruction, Outcome, Plan, Untouched
from trimtab.base.error import Message
from trimtab.base.finding import Delivery, DeliveryState
from trimtab.base.run import Sample
from trimtab.base.site import Checked, Servers, Site
from trimtab.explain.status import SiteStanding
from trimtab.judge.comparison_result import PlanEffect
from trimtab.judge.ladder_analysis import build_ladder
from trimtab.probe.import_reading import UNRECOGNISED
from trimtab.probe.import_result import FileStatus, Imported, ImportedFile
from trimtab.probe.ladder import of_file
from trimtab.probe.page_check import check_document
from trimtab.probe.page_comparison import ladder_document
from trimtab.probe.page_site import (
    Tally,
    found_sections,
    imported_document,
    installed_document,
    site_document,
    written_document,
)
from trimtab.probe.page_sweep import extent_sections, sweep_document
from trimtab.probe.question_file import load_ladder
from trimtab.probe.site_draft import Discovery
from trimtab.probe.sweep import SweepState
from trimtab.purge.fullness import Freed
from trimtab.purge.horizon.horizon import HorizonStatus
from trimtab.purge.horizon.horizon_answer import HorizonResult
from trimtab.purge.horizon.page import horizon_document
from trimtab.purge.index.index_query import QueryAnswer
from trimtab.purge.index.screen import answer_document
from trimtab.purge.plan.screen import armed_document, notified_document
from trimtab.purge.plan.screen import plan_document as purge_plan_document
from trimtab.purge.run.page import runs_document
from trimtab.purge.run.recovery import AsideFile
from trimtab.purge.run.screen import recovered_document
from trimtab.show.command_options import Extent
from trimtab.show.document import Document, Section, row, table
from trimtab.show.screen_document import SCREEN_LINES, print_document
from trimtab.store.command import copied_document
from trimtab.store.maintenance import Copied
from trimtab.store.page import StoreCopyDocument
from trimtab.store.slot import ItemState, Lease, Slot, SlotState, WatchState
from trimtab.twin.page import scenario_document, scenarios_document, size_document
from trimtab.twin.scenario_file import load_scenario, preset_names
from trimtab.twin.whatif.page import whatif_document
from trimtab.watch.page import alerts_document, state_document, trial_document
from trimtab.watch.receiver import ReceiverRow

pytestmark = pytest.mark.cli
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


def _import() -> Document:
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
    return imported_document(tally, "scratch.db")


def _query() -> Document:
    held = [3 * 2**50, 2**40, 0]
    columns = {"user": ["anna", "bert", "carl"], "files": [2_100_000, 17, 1]}
    columns |= {"allocated_bytes": held, "share": [n / sum(held) for n in held]}
    answer = QueryAnswer(pl.DataFrame(columns), cut_off=False, notes=("The index is 6 h old.",))
    return answer_document(answer)


WBT = "drives/queue/wbt_lat_usec"
LOOPS = "ldiskfs/md0/mb_c1_threshold"


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


TUNE = _PLANS["tune"]
STANDING = SiteStanding("scratch", searched=True)


def _planned(policy: str) -> Document:
    plan = _PLANS[policy]
    apply = f"trimtab {policy} scratch --apply --plan {plan.id}"
    return plan_document(plan, where="scratch", command=apply)


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


def _ledger() -> Document:
    actions = _actions(_PLANS["balance"]) + _actions(_PLANS["revert"])
    why = Message("too-recent", "no run is there yet")
    effects = [PlanEffect(plan.id, DAY, reason=why) for plan in _PLANS.values()]
    return ledger_document("scratch", actions, effects, where="scratch")


def _watch() -> Document:
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
    return state_document(state, None, STANDING)


RESULTS: dict[str, Screen] = {
    "actions": _ledger,
    "actions of none": ledger_document("scratch", (), ()),
    "balance": partial(_planned, "balance"),
    "revert": partial(_planned, "revert"),
    "trim": partial(_planned, "trim"),
    "tune": partial(_planned, "tune"),
    "tune applied": lambda: plan_document(TUNE, _actions(TUNE), where="scratch"),
    "check": lambda: check_document(full_result()),
    "import": _import,
    "ladder": _ladder,
    "purge horizon": _horizon,
    "purge query": _query,
    "purge report": lambda: runs_document(purge_runs(), "/var/lib/trimtab"),
    "size": lambda: size_document(a_sizing()),
    "sweep": _sweep,
    "twin list": lambda: scenarios_document([*map(load_scenario, preset_names())]),
    "twin show": lambda: scenario_document(load_scenario("perlmutter")),
    "watch": _watch,
    "whatif": _whatif,
}


@pytest.mark.parametrize("width", [40, 56, 80, 120, 200])
@pytest.mark.parametrize("made", [_horizon, _ladder, _whatif])
def test_with_all_a_document_has_every_cell_at_every_width(
    on_screen: Lines, made: Callable[[], Document], width: int
) -> None:
    document = made()
    lines = on_screen(document, width=width, extent=Extent(everything=True))
    assert too_wide(lines, width) == []
    shown = Counter("".join("".join(lines).split()))
    tables = [table for section in document.sections for table in section.tables if table]
    wanted = Counter("".join(
        "".join(cell.text.split()) for table in tables for row in table.rows for cell in row.cells
    ))  # fmt: skip
    assert wanted - shown == Counter()


def test_a_section_has_its_title_where_anything_beside_charts_is_to_be_read(
    on_screen: Lines,
) -> None:
    folds = (("more", table(("what",), [row("a row")])),)
    sections = (
        Section("Repair", commands=("systemctl start fstrim.timer",)),
        Section("Drawn", charts=(lambda: None,)),
        Section("Opened", folds=folds),
    )
    document = Document("An answer.", sections, kind="check", heading="scratch", subtitle="now")
    lines = "\n".join(on_screen(document))
    assert "Repair\n    systemctl start fstrim.timer" in lines
    assert "Drawn" not in lines
    assert "Opened" not in lines
    assert "Opened" in on_screen(document, extent=Extent(everything=True))
    assert [section.is_empty for section in sections] == [False, True, False]


DAY_S = 86400
PLAN = Path("/var/lib/trimtab/purge/scratch.plan")
USERS = tuple(
    SimpleNamespace(
        uid=4_000_000_000 + number, files=1000 * number, allocated_bytes=number * 2**40,
        held_bytes=None if number == 3 else 9 * number * 2**40,
        oldest_use_s=DAY.timestamp() - 900 * DAY_S, newest_use_s=DAY.timestamp() - 90 * DAY_S,
    )
    for number in range(1, 31)
)  # fmt: skip
PURGE = cast(
    Any,
    SimpleNamespace(
        id="01a1a0e2-ff6e-76a4-b07c-02e49591dc3c",
        file_system=SimpleNamespace(root="/scratch"),
        candidates=SimpleNamespace(files=465_000, users=USERS, allocated_bytes=465 * 2**40),
        horizon=SimpleNamespace(target=0.7, words=("The file system is 80.0 % full.",)),
        rules=SimpleNamespace(words=("Open files are kept.",)),
        notice_s=14 * DAY_S,
        before=DAY - timedelta(days=90),
        expires_at=DAY + timedelta(days=28),
    ),
)
PUBLICATION = SimpleNamespace(
    lists=tuple(SimpleNamespace(new_files=100) for _ in USERS), directory="/var/lists/2026-11-20",
    published_at=DAY, not_before=DAY + timedelta(days=14),
)  # fmt: skip
LOADED = SimpleNamespace(plan=PURGE, directory=PLAN, publication=PUBLICATION)
KEY = "/etc/trimtab/purge.key"
NOTES = ("No site is named: whether reads are recorded is not known (--site NAME).",)


def _plan(status: HorizonStatus, **changes: object) -> Document:
    horizon = SimpleNamespace(answer=SimpleNamespace(published=SimpleNamespace(status=status)))
    made = SimpleNamespace(directory=PLAN, plan=PURGE, horizon=horizon, new_key=True, notes=NOTES)
    vars(made).update(changes)
    return purge_plan_document(cast(Any, made), cast(Any, SimpleNamespace(key=KEY)))


def _notified(*, fresh: bool) -> Document:
    failures = tuple(
        SimpleNamespace(account=f"user{n}", uid=n, reason="mailbox unavailable") for n in range(20)
    )
    mails = SimpleNamespace(sent=10, sent_before=0, failures=failures, unclear=())
    published = SimpleNamespace(loaded=LOADED, publication=PUBLICATION, fresh=fresh, notes=())
    told = cast(Any, mails if fresh else None)
    return notified_document(cast(Any, published), told, NOTES)


def _armed(effective_at: datetime | None, loaded: object = LOADED) -> Document:
    by = SimpleNamespace(name="olga", person=1001)
    armed = SimpleNamespace(loaded=loaded, by=by, effective_at=effective_at)
    return armed_document(cast(Any, armed))


def _recovered(count: int) -> Document:
    fates = ("waits", "waits", "name_taken")
    files = tuple(
        AsideFile(
            b".trimtab-purge-1", b".trimtab-purge-1/%d" % n, b"projects/m1234/run %d/restart" % n,
            n, 4_000_000_001, 2**30, fates[n % 3],
        )
        for n in range(count)
    )  # fmt: skip
    interrupted = (PURGE.id,) if count else ()
    recovered = SimpleNamespace(root="/scratch", files=files, interrupted=interrupted)
    return recovered_document(cast(Any, recovered))


def _alerts() -> Document:
    states = (DeliveryState.DELIVERED, DeliveryState.WAITING)
    alerts = [
        alert(
            number, at=NOON + timedelta(hours=number),
            deliveries=(
                Delivery("mail", states[number % 2], NOON), Delivery("chat", states[0], NOON),
            ),
        )
        for number in range(30)
    ]  # fmt: skip
    return alerts_document(STANDING, alerts)


def _written() -> Document:
    discovery = Discovery(SITE, list(FOUND), ["no flash: oss3"])
    return written_document("scratch.toml", "scratch", found_sections(discovery))


SITE = Site(
    "scratch", "lustre", "/scratch", source="/etc/trimtab/sites/scratch.toml",
    servers=Servers(mds=("mds1", "mds2"), oss=("oss1", "oss2", "oss3")),
)  # fmt: skip
CHECKED = (
    Checked("path /scratch", True, "lustre 10.0.0.1@o2ib:/scratch"),
    Checked("server oss3", False, "no answer within 20.0 s"),
    Checked("probe hourly", None, "ior is looked for on the nodes of its job"),
)
FOUND = ("Lustre 2.15.5, file system scratch", "4 OSTs and 2 MDTs")
INSTALLED = ("/etc/trimtab/sites/scratch.toml", "/etc/systemd/system/trimtab-watch@.service")
COPIED = StoreCopyDocument(
    "scratch.db", "postgresql://trimtab@db/trimtab",
    Copied({"run": 70_000, "sample": 1_792_000, "snapshot": 6751}, 75_600, ("ab" * 32,), {}),
)  # fmt: skip
REFUSED = Message("receiver-unreachable", "it cannot be reached: Connection refused")
TRIED = (ReceiverRow("mail", True), ReceiverRow("chat", False, REFUSED))

STEPS: dict[str, Screen] = {
    "alerts": _alerts,
    "alerts of none": alerts_document(STANDING, ()),
    "alerts test": trial_document("scratch", TRIED),
    "init": _written,
    "init installed": installed_document("scratch", INSTALLED, ("systemctl daemon-reload",)),
    "purge arm": partial(_armed, DAY + timedelta(days=1)),
    "purge arm of two": partial(_armed, None),
    "purge notify": partial(_notified, fresh=True),
    "purge notify again": partial(_notified, fresh=False),
    "purge plan": partial(_plan, HorizonStatus.REACHED),
    "purge plan out of reach": partial(_plan, HorizonStatus.OUT_OF_REACH),
    "purge recover": partial(_recovered, 40),
    "purge recover of none": partial(_recovered, 0),
    "site": site_document(SITE, ("[limits] cov is 0.3: most sites hold 0.1",), ()),
    "site validated": site_document(SITE, (), CHECKED),
    "store copy": copied_document(COPIED),
}
SCREENS = RESULTS | STEPS


@pytest.fixture(autouse=True)
def _in_utc() -> Iterator[None]:
    with in_utc():
        yield


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_fits_its_terminal(
    on_screen: Lines, snapshot: SnapshotAssertion, name: str, width: int
) -> None:
    lines = on_screen(SCREENS[name], width=width)
    assert len(lines) <= SCREEN_LINES
    assert too_wide(lines, width) == []
    assert "\n".join(lines) == snapshot


@pytest.mark.parametrize("name", STEPS)
def test_brief_is_the_answer_alone(on_screen: Lines, name: str) -> None:
    usual, brief = (
        on_screen(STEPS[name], width=400, extent=Extent(brief=b)) for b in (False, True)
    )
    assert brief == usual[:1]
    assert brief[0].endswith(".")


def test_a_plan_says_its_target_as_it_was_set_and_that_nobody_is_given_notice(
    on_screen: Lines,
) -> None:
    horizon = SimpleNamespace(target=0.005, words=())
    plan = SimpleNamespace(**{**vars(PURGE), "horizon": horizon, "notice_s": 0})
    said = " ".join(on_screen(_plan(HorizonStatus.OUT_OF_REACH, plan=plan), width=400))
    assert "as soon as it is published and armed: the plan has no notice period" in said
    assert "that does not reach 0.5 %." in said
    loaded = SimpleNamespace(plan=plan, directory=PLAN, publication=PUBLICATION)
    armed = " ".join(on_screen(_armed(DAY, loaded), width=400))
    assert "no notice period: users cannot object" in armed

"""Which files are moved off which targets, and which stay, with the reason."""

from dataclasses import replace
from typing import Any

from tests.act.world import NOW, action, ago, codes, held_by, ost, seen, site, snapshot
from tests.support.each import for_each

from trimtab.act.decide.migration import FEWEST_BYTES, MovableFile, MovableFiles, decide
from trimtab.base.action import ActionKind, Outcome
from trimtab.base.site_policy import Policies
from trimtab.base.snapshot import TargetSnapshot

DAY_S = 86400.0
GIB = 2**30


def full(number: int, fullness: float = 0.9, **changes: Any) -> TargetSnapshot:
    """Return a closed target of 1,000 GiB."""
    readings: dict[str, Any] = {"create_enabled": False} | changes
    used = {("used_bytes", None): round(fullness * 1000 * GIB)}
    free = {("available_bytes", None): round((1 - fullness) * 1000 * GIB)}
    return ost(number, fullness, labelled=used | free, **readings)


def file(number: int, gib: float, *targets: int, age_s: float = 30 * DAY_S) -> MovableFile:
    names = tuple(f"OST{target:04}" for target in targets or (0,))
    identity = f"[0x200000402:{number:#x}:0x0]"
    return MovableFile(identity, f"/small/{number}", "1 2 3", round(gib * GIB), ago(age_s), names)


def index(*files: MovableFile, age_s: float = DAY_S) -> MovableFiles:
    return MovableFiles(ago(age_s), files)


def moved(plan) -> list[str]:
    return [row.value for row in plan.instructions]


def test_the_largest_go_first_and_no_more_than_the_mark_needs():
    # 900 GiB of 1,000 are used, and 700 are the mark.
    files = [file(1, 50), file(2, 120), file(3, 90), file(4, 60)]
    plan = decide(seen([full(0)]), index(*files), NOW)
    assert moved(plan) == ["/small/2", "/small/3"]
    row = plan.instructions[0]
    assert (row.kind, row.setting, row.before) == (ActionKind.MIGRATE, files[1].identity, "1 2 3")


@for_each(
    "target, files, code",
    [
        (full(0, create_enabled=True), [file(1, 300)], "target-open"),
        (full(0, degraded=True), [file(1, 300)], "target-degraded"),
        (full(0, import_state="DISCONN"), [file(1, 300)], "target-disconnected"),
        (full(0), [file(1, FEWEST_BYTES / GIB / 2)], "no-candidates"),
        (full(0), [file(1, 300, age_s=3600.0)], "no-candidates"),
        (full(0), [file(1, 300, 1)], "no-candidates"),
    ],
)
def test_what_stays_and_why(target, files, code):
    plan = decide(seen([target]), index(*files), NOW)
    assert (moved(plan), codes(plan)) == ([], {("OST0000", None): code})


def test_a_target_under_the_limit_is_left_alone():
    plan = decide(seen([full(0, 0.74)]), index(file(1, 300)), NOW)
    assert (plan.instructions, plan.untouched) == ((), ())


@for_each(
    "outcome, since_index, again",
    [
        (Outcome.DONE, True, False),
        (Outcome.SKIPPED, True, False),
        (Outcome.UNKNOWN, True, False),
        (Outcome.REFUSED, True, True),
        (Outcome.DONE, False, True),
    ],
)
def test_a_file_is_tried_once_for_an_index_unless_it_was_open(outcome, since_index, again):
    row = action(
        ActionKind.MIGRATE, "OST0000", 0.5 * DAY_S if since_index else 2 * DAY_S,
        policy="migrate", setting=file(1, 0).identity, outcome=outcome,
    )  # fmt: skip
    observed = replace(seen([full(0)]), actions=(row,))
    assert moved(decide(observed, index(file(1, 300)), NOW)) == (["/small/1"] if again else [])


def test_an_old_index_or_stale_telemetry_moves_nothing():
    assert held_by(decide(seen([full(0)]), index(file(1, 300), age_s=8 * DAY_S), NOW)) == [
        "index-stale"
    ]
    stale = replace(seen([full(0)]), snapshot=snapshot([full(0)], age_s=3600.0))
    assert held_by(decide(stale, index(file(1, 300)), NOW)) == ["snapshot-stale"]


def test_no_more_than_an_hour_allows():
    where = replace(site(), policies=Policies(most_per_hour=1))
    plan = decide(seen([full(0)], where), index(file(1, 90), file(2, 80)), NOW)
    assert moved(plan) == ["/small/1"]
    assert codes(plan) == {("OST0000", None): "too-many-actions"}

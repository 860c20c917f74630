"""A site of a few targets at one time, and its ledger, as controllers see them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from trimtab.act.decide.site_observed import SiteObserved
from trimtab.base.action import Action, ActionKind, Instruction, Outcome, Plan
from trimtab.base.error import Message
from trimtab.base.site import Servers, Site, SiteLimits
from trimtab.base.site_policy import Policies
from trimtab.base.snapshot import (
    NotAvailable,
    Reading,
    Setting,
    Snapshot,
    Target,
    TargetSnapshot,
    not_available,
)

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
TIB = 2**40
WBT = "drives/queue/wbt_lat_usec"
CREATE = "osp/max_create_count"
UNREADABLE = not_available("permission-denied", "permission denied")


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def ost(
    number: int,
    full: float | None = 0.5,
    *,
    server: str | None = None,
    settings: Mapping[str, str | NotAvailable] | None = None,
    kind: str = "ost",
    labelled: Mapping[Any, Any] | None = None,
    **readings: Any,
) -> TargetSnapshot:
    """Return a target: two of them on a server, open and healthy unless readings say otherwise."""
    name = f"{kind.upper()}{number:04}"
    values: dict[tuple[str, str | None], Any] = {
        ("capacity_bytes", None): 100 * TIB,
        ("used_bytes", None): None if full is None else round(full * 1e6),
        ("available_bytes", None): None if full is None else round((1 - full) * 1e6),
        ("server", None): server or f"oss{number // 2}",
        ("create_enabled", None): True,
        ("degraded", None): False,
        ("read_only", None): False,
        ("import_state", None): "FULL",
        **{(key, None): value for key, value in readings.items()},
    }
    values |= labelled or {}
    rows = tuple(
        Reading(key, value, f"{name} of a test", "not known" if value is None else None, label)
        for (key, label), value in values.items()
    )
    texts = {} if settings is None else settings
    return TargetSnapshot(
        Target(name, kind, str(values["server", None])),
        rows,
        {
            key: text if isinstance(text, NotAvailable) else Setting(key, text, "a test")
            for key, text in texts.items()
        },
    )


def site(limits: SiteLimits | None = None, home: Mapping[str, str] | None = None, **policies: Any):
    return Site(
        name="small",
        driver="lustre",
        path="/small",
        limits=limits or SiteLimits(),
        servers=Servers(home=home or {}),
        policies=Policies(**policies),
    )


def snapshot(targets: Iterable[TargetSnapshot], age_s: float = 30.0, **changes: Any) -> Snapshot:
    return replace(Snapshot(ago(age_s), "lustre", True, tuple(targets)), **changes)


def seen(
    targets: Iterable[TargetSnapshot], where: Site | None = None, **changes: Any
) -> SiteObserved:
    return replace(SiteObserved(where or site(), snapshot(targets)), **changes)


_NUMBERS = iter(range(10**9))


def action(
    kind: ActionKind,
    target: str,
    age_s: float,
    *,
    outcome: Outcome | None = Outcome.DONE,
    policy: str = "tunables",
    setting: str | None = None,
    before: str | None = None,
    value: str | None = None,
    stage: int = 0,
    reverts: tuple[str, ...] = (),
    found: str | None = None,
    identifier: str | None = None,
    **facts: str,
) -> Action:
    """Return a row of the ledger that ended so many seconds ago."""
    return Action(
        id=identifier or f"a{next(_NUMBERS):06}",
        site="small",
        policy=policy,
        plan="0" * 16,
        who="root@adm",
        at=ago(age_s + 1),
        instruction=Instruction(
            kind, target, Message("test", "a test"), None, setting, before, value, stage,
            reverts=reverts,
        ),
        until=None if outcome is None else ago(age_s),
        outcome=outcome,
        found=found,
        facts=facts,
    )  # fmt: skip


def codes(plan: Plan) -> dict[tuple[str, str | None], str]:
    """Return the code of each reason to leave something as it is."""
    return {(row.target, row.setting): row.reason.code for row in plan.untouched}


def held_by(plan: Plan) -> list[str]:
    return [reason.code for reason in plan.held]


def writes(plan: Plan) -> list[tuple[str, str, str | None]]:
    return [(row.kind.value, row.target, row.value) for row in plan.instructions]


def carried_out(observed: SiteObserved, plan: Plan, at: datetime) -> SiteObserved:
    """Return the site after every instruction of a plan was done, and read at that time."""
    assert observed.snapshot is not None
    targets = {row.target.name: row for row in observed.snapshot.targets}
    rows = list(observed.actions)
    for instruction in plan.instructions:
        targets[instruction.target] = _changed(targets[instruction.target], instruction)
        rows.append(
            Action(
                f"b{next(_NUMBERS):06}", "small", plan.policy, plan.id, "root@adm", at, instruction,
                at, Outcome.DONE, instruction.value,
            )
        )  # fmt: skip
    read = replace(observed.snapshot, at=at, targets=tuple(targets.values()))
    return replace(observed, snapshot=read, actions=tuple(rows))


def _changed(row: TargetSnapshot, instruction: Instruction) -> TargetSnapshot:
    settings = dict(row.settings)
    if instruction.setting is not None and instruction.value is not None:
        setting = Setting(instruction.setting, instruction.value, "a test")
        settings[instruction.setting] = setting
    readings = row.readings
    if instruction.kind in {ActionKind.CLOSE, ActionKind.OPEN}:
        is_open = instruction.kind is ActionKind.OPEN
        readings = tuple(
            replace(reading, value=is_open, reason=None)
            if reading.name == "create_enabled"
            else reading
            for reading in readings
        )
    return replace(row, readings=readings, settings=settings)

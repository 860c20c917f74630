"""The watch of a site: its process, completed slots, and upcoming ones. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from trimtab.model.run import RunStatus
from trimtab.model.verdict import VerdictStatus
from trimtab.record.slots import SlotState, process_text
from trimtab.report.acting import plan_answer, plan_section
from trimtab.report.headline import headline
from trimtab.report.kit import ALL, Cell, Tone, row, table
from trimtab.report.sections import Document, Section
from trimtab.report.text import local_moment
from trimtab.units import enumerated, plural, value_or_dash

if TYPE_CHECKING:
    from trimtab.model.action import Plan
    from trimtab.model.run import Run
    from trimtab.model.standing import SiteStanding
    from trimtab.record.slots import Slot, WatchState

_TONES: Final[dict[SlotState, Tone]] = {
    SlotState.DONE: "healthy",
    SlotState.MISSED: "warning",
    SlotState.FAILED: "critical",
}


def state_document(
    state: WatchState, plans: Sequence[Plan] | None, standing: SiteStanding
) -> Document:
    """Return the state of a site, its watch process, what ran last and what comes next.

    Parameters
    ----------
    plans
        What the armed policies would change now; ``None``: not requested.
    """
    rows = (
        row(
            "running" if item.running else local_moment(item.next_at),
            item.item,
            *_last(item.last),
        )
        for item in state.items
    )
    columns = ("next", "item", "last??", "outcome", "detail")
    armed = ("No policy is armed.",) if plans == () else ()
    return Document(
        headline(standing),
        (
            Section(lines=armed, tables=(table(columns, rows, first=ALL),)),
            *(section for plan in plans or () for section in _planned(plan)),
        ),
        details=(_watched(state),),
    )


def _planned(plan: Plan) -> tuple[Section, Section]:
    answer = f"{plan.policy}: {plan_answer(plan).partition(': ')[2]}"
    return Section(lines=(answer,)), plan_section(plan)


def _watched(state: WatchState) -> str:
    failed = [item for item in state.items if item.last and item.last.state is SlotState.FAILED]
    if failed:
        outcome = f"{plural(len(failed), 'item')} of {len(state.items)} failed last: "
        outcome += enumerated(item.item for item in failed)
    elif state.items:
        outcome = f"none of {plural(len(state.items), 'item')} failed last"
    else:
        outcome = "no item is scheduled"
    if state.lease is None:
        return f"{state.site}: not watched; {outcome}. Start it: trimtab watch {state.site}"
    holder, since = process_text(state.lease.holder), local_moment(state.lease.taken_at)
    return f"{state.site}: watched by {holder} since {since}; {outcome}."


def _last(last: Slot | None) -> tuple[str, str | Cell, str]:
    """Return when an item was last due, its outcome, and why."""
    if last is None:
        return "-", "-", ""
    verdicts = (f"{verdict.metric} {verdict.status.value}" for verdict in last.verdicts)
    why = last.detail or ", ".join(dict.fromkeys(verdicts))
    return local_moment(last.due_at), Cell(last.state.value, tone=_TONES[last.state]), why


def went_wrong(slot: Slot, runs: Mapping[str, Run]) -> bool:
    """Return whether a slot, or its run, did not end as it should."""
    run = None if slot.run is None else runs.get(slot.run)
    return slot.state is not SlotState.DONE if run is None else run.status is not RunStatus.OK


def slots_document(
    store: str, slots: Sequence[Slot], runs: Mapping[str, Run], standing: SiteStanding
) -> Document:
    """Return the state of a site after some slots, and each slot with its run and verdicts."""
    failed = [slot for slot in slots if went_wrong(slot, runs)]
    missed = [
        f"{slot.item} {verdict.metric}"
        for slot in slots
        for verdict in slot.verdicts
        if verdict.status is VerdictStatus.MISSED
    ]
    answer = f"{plural(len(slots), 'slot')} done" if slots else "no slot was due"
    if slots and not failed:
        answer += ", none failed"
    elif failed:
        answer = f"{len(failed)} of {plural(len(slots), 'slot')} failed: "
        answer += enumerated(dict.fromkeys(slot.item for slot in failed))
    if missed:
        answer += f"; goal missed: {enumerated(dict.fromkeys(missed), 3)}"
    return Document(
        headline(standing),
        tuple(
            Section(
                lines=(f"{slot.item}, due {local_moment(slot.due_at)}: {slot.state.value}",),
                notes=tuple(_slot_notes(slot, runs)),
            )
            for slot in slots
        ),
        details=(f"{standing.site}: {answer}.",),
        more=(f"stored in {store}",),
    )


def _slot_notes(slot: Slot, runs: Mapping[str, Run]) -> Iterator[str]:
    if slot.detail:
        yield slot.detail
    if slot.run is not None and (run := runs.get(slot.run)) is not None:
        problem = "" if run.problem is None else f": {run.problem}"
        yield f"run {run.id}: {run.status.value}{problem}"
    for verdict in slot.verdicts:
        mean = value_or_dash(verdict.mean, verdict.unit)
        status = verdict.status.value.replace("_", " ")
        yield f"{verdict.metric} ({verdict.scope.value}) {mean}: {status} ({verdict.reason})"

"""The pages of the watch: its state, its slots, its alerts, and a test of its receivers. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from trimtab.act.page import plan_answer, plan_section
from trimtab.base.error import visible
from trimtab.base.finding import DeliveryState, Tone
from trimtab.base.run import RunStatus
from trimtab.base.text import local_moment, local_times
from trimtab.base.units import enumerated, plural, value_or_dash
from trimtab.base.verdict import VerdictStatus
from trimtab.explain.headline import headline
from trimtab.show.command_options import site_argument
from trimtab.show.document import ALL, ROWS, Cell, Document, Section, row, table
from trimtab.store.slot import SlotState, process_text

if TYPE_CHECKING:
    from trimtab.base.action import Plan
    from trimtab.base.finding import Alert
    from trimtab.base.run import Run
    from trimtab.explain.status import SiteStanding
    from trimtab.store.slot import Slot, WatchState
    from trimtab.watch.receiver import ReceiverRow
    from trimtab.watch.silence import Silence


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


def trial_document(site: str, tried: Sequence[ReceiverRow]) -> Document:
    """Return how many receivers accepted the message, and each one's answer."""
    taken = sum(entry.delivered for entry in tried)
    if tried:
        answer = f"{taken} of {plural(len(tried), 'receiver')} accepted the test message."
    else:
        answer = "no receiver: alerts are not sent; add [alerts.mail] or [webhook.NAME]."
    rows = (
        row(entry.receiver, "delivered" if entry.delivered else f"not delivered: {entry.reason}")
        for entry in sorted(tried, key=lambda entry: entry.delivered)
    )
    receivers = table(("receiver", "answer"), rows, first=ALL)
    return Document(f"{site}: {answer}", (Section(tables=(receivers,)),))


def alerts_document(
    standing: SiteStanding, alerts: Sequence[Alert], *, has_receivers: bool = True
) -> Document:
    """Return the state of a site and its alerts, newest first, with the number that wait.

    Parameters
    ----------
    has_receivers
        Whether the site file names receivers.
    """
    newest = alerts[::-1]
    rows = (
        row(
            at,
            alert.severity.value,
            alert.phase.value,
            alert.title,
            ", ".join(f"{each.receiver} {each.state.value}" for each in alert.deliveries),
        )
        for alert, at in zip(newest, local_times([alert.at for alert in newest]), strict=True)
    )
    columns = ("at", "severity", "phase??", "alert", "delivery")
    test = f"trimtab alerts test {site_argument(standing.site)} sends a test message"
    return Document(
        headline(standing),
        (Section(tables=(table(columns, rows, first=ROWS),)),),
        details=(_sent(standing.site, alerts),),
        more=(test,) if has_receivers else (),
    )


def silences_document(site: str, silences: Sequence[Silence]) -> Document:
    """Return the silences that hold now."""
    ends = local_times([silence.until for silence in silences])
    rows = (
        row(silence.alert, end, ", ".join(silence.targets) or "all", silence.why, silence.who)
        for silence, end in zip(silences, ends, strict=True)
    )
    columns = ("alert", "until", "targets", "why", "by")
    first = (
        f"{visible(site)}: {plural(len(silences), 'silence')}"
        if silences
        else (f"{visible(site)}: no alert is silenced.")
    )
    return Document(first, (Section(tables=(table(columns, rows, first=ALL),)),))


def _sent(site: str, alerts: Sequence[Alert]) -> str:
    if not alerts:
        return f"{site}: no alert was sent."
    last = alerts[-1]
    states = Counter(each.state for alert in alerts for each in alert.deliveries)
    undelivered = ", ".join(
        f"{count:,} {state.value}"
        for state, count in states.items()
        if state is not DeliveryState.DELIVERED
    )
    return (
        f"{site}: {plural(len(alerts), 'alert', ',')}"
        + (f", deliveries {undelivered}" if undelivered else "")
        + f"; the last, {local_moment(last.at)}: {last.title.rstrip('.')}."
    )

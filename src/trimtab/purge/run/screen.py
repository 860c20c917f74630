"""A run of a purge, and files that interrupted runs put aside, as their commands show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from trimtab.base.error import visible
from trimtab.base.text import sentences
from trimtab.base.units import format_bytes, format_duration, format_percent, plural
from trimtab.purge.owner import owner_text
from trimtab.purge.plan.deletion_plan import escape
from trimtab.purge.run.next_step import frees_late
from trimtab.purge.run.page import counts_text
from trimtab.purge.run.rows import DELETED, WOULD_DELETE
from trimtab.show.document import ALL, ROWS, Document, Section, facts, row, table

if TYPE_CHECKING:
    from trimtab.purge.plan.plan_directory import LoadedPlan
    from trimtab.purge.run.recovery import PurgeRecoverDocument
    from trimtab.purge.run.run_account import RunResult

_SHOWN: Final = 20
_FATES: Final = {
    "waits": "can be put back",
    "restored": "is back",
    "name_taken": "its name is taken: move the other file, or this one by hand",
    "directory_gone": "its directory is gone: name another with --into",
    "origin_unknown": "its original place is unknown: check the owner",
    "in_use": "a run is using the quarantine",
    "failed": "could not be put back",
}
_QUIET_FATES: Final = ("waits", "restored")


def run_document(result: RunResult, loaded: LoadedPlan, notes: Sequence[str] = ()) -> Document:
    """Return the result of a run."""
    kind, held = "run", "objections"
    if not result.apply:
        kind, held = "dry run", "objections to a run"
    objections = (
        row(objection.guard, objection.reason, objection.hint or "")
        for objection in result.objections
    )
    trim = "the drives do not know yet which space is free: trim them (fstrim) in a quiet hour"
    return Document(
        _run_answer(result),
        (
            Section(tables=(facts(_run_facts(result, loaded)),)),
            Section(lines=sentences([f"it ended: {result.text}"])),
            Section(
                held,
                tables=(table(("guard", "says", "what to do"), objections, first=ALL),),
                tone="warning",
            ),
            Section(lines=sentences([trim] if result.trim_due else [])),
            Section(lines=sentences((*notes, *_unexplained(result))), tone="warning"),
            Section(tables=(facts([("journal", str(result.journal))]),)),
        ),
        details=(f"{kind} of plan {loaded.plan.id}, {loaded.plan.file_system.root}",),
    )


def _run_answer(result: RunResult) -> str:
    word = "deleted" if result.apply else "would delete"
    if not result.files:
        return f"{word} nothing"
    users = plural(result.users, "user", ",")
    return f"{word} {plural(result.files, 'file', ',')}, {format_bytes(result.bytes)}, of {users}"


def _unexplained(result: RunResult) -> Iterator[str]:
    for path in result.unexplained[:_SHOWN]:
        shown = path.decode("utf-8", "surrogateescape")
        yield (
            f"{shown}, moved aside by an interrupted run, matches no row of the plan and is left "
            "there: check the owner, and move it back"
        )
    if len(result.unexplained) > _SHOWN:
        yield f"{len(result.unexplained) - _SHOWN:,} more are beside it"


def _run_facts(result: RunResult, loaded: LoadedPlan) -> Iterator[tuple[str, str]]:
    if result.apply:
        yield "freed", format_bytes(result.freed_bytes)
    outcomes = result.outcomes.items()
    if counts := counts_text({o: n for o, n in outcomes if o not in (DELETED, WOULD_DELETE)}):
        yield "kept", counts
    rows = loaded.plan.candidates.files
    yield "plan", f"{result.rows_left:,} of {plural(rows, 'row', ',')} left"
    if pace := result.pace.text():
        yield "speed", pace
    if result.recovered_rows:
        yield "recovered", f"{plural(result.recovered_rows, 'row', ',')} of an interrupted batch"
    if result.before is not None:
        yield "full", f"{format_percent(result.before.fullness, 2)}{_after(result, loaded)}"


def _after(result: RunResult, loaded: LoadedPlan) -> str:
    """Return the fullness after the last deletion, and what that figure leaves out."""
    if result.after is None or result.after_s is None:
        return f"; not measured since: {result.unmeasured}" if result.unmeasured else ""
    since = f"{format_duration(max(0.0, result.after_s))} after the last deletion"
    text = f", then {format_percent(result.after.fullness, 2)}, measured {since}"
    if result.in_flight:
        return f"{text}; {plural(result.in_flight, 'object', ',')} still being destroyed"
    late = result.in_flight is None and frees_late(loaded.plan.file_system.kind)
    return f"{text}; space may become free later" if late else text


def recovered_document(recovered: PurgeRecoverDocument) -> Document:
    """Return the files put aside, and how to put them back."""
    # Files that cannot be put back at once need a person, and come first.
    rows = (
        row(
            "-" if file.origin is None else escape(file.origin),
            owner_text(file.uid),
            format_bytes(file.size_bytes),
            _FATES.get(file.fate, file.fate),
            escape(file.place),
        )
        for file in sorted(recovered.files, key=lambda file: file.fate in _QUIET_FATES)
    )
    columns = ("was at", "owner", "size>", "now", "put aside at??")
    return Document(
        _recovery_answer(recovered),
        (Section(tables=(table(columns, rows, first=ROWS),)),),
        more=tuple(_next(recovered)),
    )


def _recovery_answer(recovered: PurgeRecoverDocument) -> str:
    root = visible(recovered.root)
    if not recovered.files:
        return f"Nothing is put aside beneath {root}."
    fates = Counter(_FATES.get(file.fate, file.fate).partition(":")[0] for file in recovered.files)
    each = ", ".join(f"{count:,} {fate}" for fate, count in fates.most_common())
    count = plural(len(recovered.files), "file", ",")
    return f"{count} put aside beneath {root}: {each}."


def _next(recovered: PurgeRecoverDocument) -> Iterator[str]:
    for plan in recovered.interrupted:
        yield (
            f"A run of plan {visible(plan)} was interrupted: trimtab purge run PLAN --apply "
            "accounts for its batch. If the plan is lost, --restore ends the batch, and counts all "
            "of it against the caps."
        )
    if any(file.fate == "waits" for file in recovered.files):
        yield "--restore puts back the others."

"""The page of a purge's runs: what was deleted on which day, what was kept and why, and plans."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Final

from trimtab.base.error import visible
from trimtab.base.finding import Tone
from trimtab.base.units import (
    format_bytes,
    format_percent,
    plural,
)
from trimtab.purge.fullness import fullness_text
from trimtab.purge.owner import owner_text
from trimtab.purge.run.purge_report import Day, PlanStanding, PurgeReport
from trimtab.show.chart import ACCENT, Chart, data, layered, size_scale
from trimtab.show.document import Cell, Document, Section, Table, row, table

_OWNERS_MOST: Final = 50


def runs_document(
    purge_report: PurgeReport, place: str, only: Collection[int] | None = None
) -> Document:
    """Return the page of the runs of a purge; ``only``: uids whose files are shown."""
    has_dry = any(day.dry for day in purge_report.days)
    return Document(
        kind="purge report",
        heading=place,
        subtitle=runs_period(purge_report),
        tone=runs_tone(purge_report),
        answer=runs_answer(purge_report),
        details=("Dry runs delete nothing and are listed separately.",) * has_dry,
        sections=runs_sections(purge_report, only),
    )


def runs_period(purge_report: PurgeReport) -> str:
    """Return the first and the last day of a report."""
    days = purge_report.days
    return f"{days[0].day} to {days[-1].day}" if days else "no day with a run"


def runs_tone(purge_report: PurgeReport) -> Tone:
    """Return the colour of the answer: whether something needs a person."""
    runs = [run for day in purge_report.days for run in day.runs]
    if any(run.unexplained for run in runs):
        return "critical"
    if any(run.objections or run.end is None for run in runs):
        return "warning"
    return "info" if runs else "unclear"


def runs_answer(purge_report: PurgeReport) -> str:
    """Return what was deleted in total, and the fullness before and after."""
    real = [day for day in purge_report.days if not day.dry]
    if not purge_report.days:
        return "No purge runs are recorded."
    if not real:
        count = plural(sum(day.files for day in purge_report.days), "file", ",")
        return f"Nothing was deleted: dry runs only, which would have deleted {count}."
    files, freed = sum(day.files for day in real), sum(day.freed_bytes for day in real)
    before, last = real[0].before, real[-1]
    after = last.after if last.files or last.before is before else last.after or last.before
    full = "" if before is None else f"; {format_percent(before.usage.fullness, 2)} full before"
    if full and after is not None:
        full += f", {format_percent(after.usage.fullness, 2)} after"
    return f"Deleted {plural(files, 'file', ',')}, which freed {format_bytes(freed)}{full}."


def runs_sections(
    purge_report: PurgeReport, only: Collection[int] | None = None
) -> tuple[Section, ...]:
    """Return days, users, runs and plans; ``only``: uids whose files are shown."""
    if not purge_report.days and not purge_report.plans:
        return ()
    return (
        Section(
            "Days",
            charts=(partial(freed_chart, purge_report.days),),
            tables=(_days_table(purge_report),),
        ),
        Section("Users", tables=(_users_table(purge_report.days, only),)),
        Section(
            "Runs",
            tables=(_runs_table(purge_report.days),),
            notes=tuple(
                f"moved aside by an interrupted run, check the owner: {visible(path)}"
                for day in purge_report.days
                for run in day.runs
                for path in (run.unexplained if only is None else ())
            ),
        ),
        Section("Plans", tables=(_plans_table(purge_report.plans),)),
    )


def freed_chart(days: Sequence[Day]) -> Chart | None:
    """Return the bytes freed per day; ``None`` for fewer than two days."""
    import altair as alt

    real = [day for day in days if not day.dry]
    if len(real) < 2:
        return None
    scale = size_scale(max(day.freed_bytes for day in real))
    rows = [{"day": f"{day.day:%d %b}", "freed": day.freed_bytes / scale.divisor} for day in real]
    y = alt.Y("freed:Q", title=f"freed, {scale.unit}", axis=alt.Axis(tickCount=5))
    x = alt.X("day:O", title="day", axis=alt.Axis(labelAngle=0, labelOverlap=True))
    bars = data(rows).mark_bar(color=ACCENT).encode(x=x, y=y)
    return Chart("freed", "Freed by day", "Bytes freed by runs that deleted.", layered([bars]))


def _days_table(purge_report: PurgeReport) -> Table | None:
    return table(
        ("day", "", "files>", "listed as>", "freed>", "full before>", "after>", "retained"),
        (
            row(
                day.day.isoformat(),
                Cell("dry run", tone="unclear") if day.dry else Cell("deleted", tone="info"),
                f"{day.files:,}",
                format_bytes(day.bytes),
                "-" if day.dry else format_bytes(day.freed_bytes),
                *(
                    fullness_text(None if measured is None else measured.usage)
                    for measured in (day.before, day.after)
                ),
                counts_text(day.kept) or "-",
            )
            for day in purge_report.days
        ),
    )


def counts_text(counted: Mapping[str, int]) -> str:
    """Return counts by name, largest first."""
    pairs = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in pairs)


def _users_table(days: Sequence[Day], only: Collection[int] | None) -> Table | None:
    totals: dict[int, tuple[int, int]] = {}
    for day in days:
        for user in day.users if not day.dry else ():
            if only is not None and user.uid not in only:
                continue
            files, size = totals.get(user.uid, (0, 0))
            totals[user.uid] = files + user.files, size + user.bytes
    ranked = sorted(totals.items(), key=lambda entry: (-entry[1][1], entry[0]))
    left = len(ranked) - _OWNERS_MOST
    return table(
        ("user", "files deleted>", "listed as>"),
        (
            row(owner_text(uid), f"{files:,}", format_bytes(size))
            for uid, (files, size) in ranked[:_OWNERS_MOST]
        ),
        f"{left:,} more users: --json has all." if left > 0 else "",
    )


def _runs_table(days: Sequence[Day]) -> Table | None:
    return table(
        ("run", "day", "", "by", "ended"),
        (
            row(
                run.run[:18],
                day.day.isoformat(),
                "dry run" if day.dry else "deleting",
                visible(run.who) or "-",
                Cell("end not recorded", tone="warning") if run.end is None else Cell(run.end),
                note="; ".join(filter(None, (run.text, run.pace.text(), *run.objections))),
            )
            for day in days
            for run in day.runs
        ),
    )


def _plans_table(plans: Sequence[PlanStanding]) -> Table | None:
    return table(
        ("plan", "root", "rows>", "waiting>", "interrupted>", "outcomes"),
        (
            row(
                plan.plan,
                visible(plan.root),
                f"{plan.rows:,}",
                f"{plan.waiting_rows:,}",
                f"{plan.interrupted_rows:,}",
                counts_text(plan.outcomes) or "-",
            )
            for plan in plans
        ),
    )


"""Rows on the screen."""

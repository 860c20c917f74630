"""Pages of a horizon: what each age frees and whose files, replays of past days, evasion."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.base import text
from trimtab.base.error import shell_text, visible
from trimtab.base.finding import Tone
from trimtab.base.text import sentences, utc_moment
from trimtab.base.units import (
    format_bytes,
    format_duration,
    format_exact_percent,
    format_percent,
    plural,
)
from trimtab.purge.fullness import HOUR_S, Freed, fullness_text
from trimtab.purge.horizon.evasion_sign import KINDS, MAY_BE, statement
from trimtab.purge.horizon.group_horizon import GroupHorizons
from trimtab.purge.horizon.horizon import DAY_S, Horizon, HorizonStatus, OwnedBy
from trimtab.purge.horizon.horizon_answer import HorizonAnswer, HorizonResult
from trimtab.purge.owner import owner_text
from trimtab.purge.rules_in_force import moment
from trimtab.show.chart import ACCENT, ALARM, INK, SECOND, Chart, Key, data, layered, size_scale
from trimtab.show.document import ALL, ROWS, Cell, Document, Row, Section, Table, row, table

if TYPE_CHECKING:
    from trimtab.purge.horizon.evasion_sign import Signs
    from trimtab.purge.horizon.horizon_question import PurgeReplayDocument


_OWNERS_MOST: Final = 50
_BARS_MOST: Final = 12
_GROUPS_MOST: Final = 50
_TICKS_DAYS: Final = (7, 14, 30, 60, 120, 240, 365, 730, 1825)
_STATUS: Final[Mapping[HorizonStatus, tuple[str, Tone]]] = {
    HorizonStatus.MET_ALREADY: ("at its limit or under", "healthy"),
    HorizonStatus.REACHED: ("a horizon fixes it", "info"),
    HorizonStatus.OUT_OF_REACH: ("no horizon fixes it", "critical"),
}


def horizon_document(result: HorizonResult, only: Collection[int] | None = None) -> Document:
    """Return the page of a horizon.

    Parameters
    ----------
    only
        Uids whose files are shown; ``None``: all.
    """
    answer, usage = result.answer, result.usage
    needed = answer.needed
    use = f"{format_bytes(usage.used_bytes)} of {format_bytes(usage.total_bytes)}"
    return Document(
        kind="purge horizon",
        heading=result.root,
        subtitle=f"{format_percent(usage.fullness, 2)} full ({use}), as of "
        f"{text.moment_text(datetime.fromtimestamp(answer.as_of_s, UTC))}",
        tone=_STATUS[needed.status][1],
        answer=horizon_answer(answer),
        details=tuple(word for word in answer.words if word not in result.rules)[1:],
        sections=tuple(_horizon_sections(result, only)),
    )


def horizon_answer(answer: HorizonAnswer) -> str:
    """Return the cut-off that reaches the target, what it frees, and for how many users."""
    needed, target = answer.needed, format_exact_percent(answer.needed.target)
    age_s = needed.age_s(answer.as_of_s)
    if needed.status is HorizonStatus.MET_ALREADY or age_s is None:
        full = format_percent(needed.usage.fullness)
        return f"Nothing has to be deleted: {full} full, target {target}."
    freed = (
        f"{format_bytes(needed.freed.allocated_bytes)} in {plural(needed.freed.files, 'file', ',')}"
    )
    age = format_duration(age_s)
    if needed.status is HorizonStatus.OUT_OF_REACH:
        more = format_bytes(needed.shortfall_bytes)
        return f"No horizon reaches {target}: everything eligible frees {freed}, {more} too little."
    users = f", of {plural(len(answer.users), 'user', ',')} at most" if answer.users else ""
    return f"Deleting what is unused for {age} reaches {target}: {freed}{users}."


def _horizon_sections(result: HorizonResult, only: Collection[int] | None) -> list[Section]:
    answer = result.answer
    sections = [
        Section(
            "What each age would free",
            charts=(partial(horizon_chart, answer),),
            tables=(steps_table(answer),),
            notes=result.notes,
        ),
        _owners_section(answer, only),
        Section("What may be deleted, and what stays", tables=(_kept_table(answer, result.total),)),
    ]
    for groups in (answer.osts, answer.pools):
        if groups is not None:
            noun = groups.groups[0].group.noun
            sections.append(Section(f"Each {noun}", tables=(_groups_table(groups),)))
    if result.rules:
        sections.append(Section("The rules in force", notes=result.rules))
    return sections


def _owners_section(answer: HorizonAnswer, only: Collection[int] | None) -> Section:
    if only is None:
        return Section(
            "Who is affected",
            charts=(partial(owners_chart, answer.users),),
            tables=(_owners_table("user", answer.users), _owners_table("project", answer.projects)),
            lines=() if answer.users or answer.projects else ("No file would be deleted.",),
        )
    shares = [entry for entry in answer.users if entry.owner in only]
    nothing = "None of your files would be deleted." if only else "Unknown user on this host."
    return Section(
        "Your files",
        tables=(_owners_table("user", shares),),
        lines=() if shares else (nothing,),
    )


def _cut_offs(answer: HorizonAnswer) -> list[tuple[Horizon, str]]:
    named = ((answer.needed, "enough now"), (answer.published, "the lists"))
    return [(horizon, name) for horizon, name in named if horizon.cut_off_hour is not None]


def horizon_chart(answer: HorizonAnswer) -> Chart | None:
    """Return the fullness after each age; ``None`` if unknown."""
    import altair as alt

    points = [(step.age_s / DAY_S, step.after) for step in answer.steps if step.age_s > 0]
    marks = [
        {"age": (horizon.age_s(answer.as_of_s) or 0) / DAY_S, "full": 100 * horizon.after.fullness,
         "name": name}
        for horizon, name in _cut_offs(answer)
        if horizon.after is not None
    ]  # fmt: skip
    rows = [
        {"age": age, "full": 100 * after.fullness} for age, after in points if after is not None
    ]
    rows = sorted([*rows, *({"age": mark["age"], "full": mark["full"]} for mark in marks)],
                  key=lambda point: float(str(point["age"])))  # fmt: skip
    rows = [point for point in rows if float(str(point["age"])) > 0]
    if len(rows) < 2:
        return None
    ages = [float(str(point["age"])) for point in rows]
    scale = alt.Scale(type="log", domain=[min(ages), max(ages)], nice=False)
    ticks = [day for day in _TICKS_DAYS if min(ages) <= day <= max(ages)]
    x = alt.X("age:Q", title="unused for, days (log scale)", scale=scale,
              axis=alt.Axis(values=ticks, labelOverlap=True))  # fmt: skip
    y = alt.Y("full:Q", title="full afterwards, %", scale=alt.Scale(zero=False, padding=12),
              axis=alt.Axis(tickCount=5))  # fmt: skip
    now = 100 * answer.needed.usage.fullness
    layers = [
        data(rows).mark_line(color=ACCENT, strokeWidth=2).encode(x=x, y=y),
        data([{"full": 100 * answer.needed.target}])
        .mark_rule(color=ALARM, strokeDash=[5, 3], strokeWidth=1.4)
        .encode(y="full:Q"),
        data([{"full": now}]).mark_rule(color=INK, strokeWidth=1).encode(y="full:Q"),
        data(marks).mark_point(size=80, color=SECOND).encode(x=x, y=y),
    ]
    return Chart(
        name="horizon",
        title="Fullness afterwards",
        caption="Deleting everything eligible that is unused for longer than an age. Marked: "
        + "; ".join(
            f"{name}, {format_duration(horizon.age_s(answer.as_of_s) or 0)}"
            for horizon, name in _cut_offs(answer)
        )
        + ". The vertical axis does not begin at 0.",
        specification=layered(layers),
        legend=(
            Key("line", "accent", "full afterwards"),
            Key("dashed", "alarm", f"target {format_exact_percent(answer.needed.target)}"),
            Key("line", "ink", f"now {now:.1f} %"),
            *([Key("dot", "second", "cut-off")] if marks else []),
        ),
    )


def steps_table(answer: HorizonAnswer) -> Table | None:
    """Return the effect of each age, with the current cut-off and that of the lists marked."""
    rows = {step.cut_off_hour: (step.age_s, step.freed, step.after, "") for step in answer.steps}
    for horizon, name in _cut_offs(answer):
        hour, age_s = horizon.cut_off_hour, horizon.age_s(answer.as_of_s)
        assert hour is not None
        assert age_s is not None
        word = name if horizon.status is HorizonStatus.REACHED else "everything eligible"
        marked = rows[hour][3] if hour in rows else ""
        word = ", ".join(dict.fromkeys(filter(None, (marked, word))))
        rows[hour] = (age_s, horizon.freed, horizon.after, word)
    return table(
        ("unused for", "", "last used before", "files>", "frees>", "leaves>"),
        (
            row(
                format_duration(age_s),
                Cell(word, tone="info" if word else None),
                text.moment_text(datetime.fromtimestamp(hour * HOUR_S, UTC)),
                f"{freed.files:,}",
                format_bytes(freed.allocated_bytes),
                fullness_text(after),
                marked=bool(word),
            )
            for hour, (age_s, freed, after, word) in sorted(rows.items())
        ),
        "Enough now: reaches the target today. The lists: the most that a run may delete, as use "
        "grows until then.",
    )


def owners_chart(users: Sequence[OwnedBy]) -> Chart | None:
    """Return the users with most bytes on the lists, as bars within their eligible bytes."""
    import altair as alt

    shown = sorted(users, key=lambda user: -user.most.allocated_bytes)[:_BARS_MOST]
    if not shown:
        return None
    scale = size_scale(max(user.eligible.allocated_bytes for user in shown))
    rows = [
        {
            "user": owner_text(user.owner),
            "go": user.most.allocated_bytes / scale.divisor,
            "may": user.eligible.allocated_bytes / scale.divisor,
        }
        for user in shown
    ]
    y = alt.Y("user:N", sort=[str(entry["user"]) for entry in rows], title=None,
              axis=alt.Axis(tickSize=0, domain=False, minExtent=90, labelLimit=84))  # fmt: skip
    x = alt.X("may:Q", title=f"holds, {scale.unit}", axis=alt.Axis(tickCount=5, grid=True))
    layers = [
        data(rows).mark_bar(height=14, color=ACCENT, opacity=0.3).encode(x=x, y=y),
        data(rows).mark_bar(height=14, color=ACCENT).encode(x="go:Q", y=y),
    ]
    more = len(users) - len(shown)
    return Chart(
        name="owners",
        title="Users with most on the lists",
        caption=f"{more:,} more users are affected." if more else "All affected users.",
        specification=layered(layers, width=300, height=26 * len(rows)),
        legend=(
            Key("bar", "accent", "on the lists"),
            Key("light-bar", "accent", "eligible, younger"),
        ),
    )


def _owners_table(noun: str, owners: Sequence[OwnedBy]) -> Table | None:
    left = len(owners) - _OWNERS_MOST
    return table(
        (noun, "files>", "would go>", "of what may>"),
        (
            row(
                owner_text(entry.owner) if noun == "user" else str(entry.owner),
                f"{entry.most.files:,}",
                _between(entry.least, entry.most),
                format_bytes(entry.eligible.allocated_bytes),
            )
            for entry in owners[:_OWNERS_MOST]
        ),
        f"{left:,} more: --json has all." if left > 0 else "",
    )


def _between(least: Freed, most: Freed) -> str:
    low, high = format_bytes(least.allocated_bytes), format_bytes(most.allocated_bytes)
    return high if low == high else f"{low} to {high}"


def _kept_table(answer: HorizonAnswer, total: Freed) -> Table | None:
    def of(name: str, files: int, size: int) -> Row:
        return row(name, f"{files:,}", format_bytes(size))

    eligible = answer.needed.eligible
    return table(
        ("files", "number>", "hold>"),
        [
            of("may be deleted", eligible.files, eligible.allocated_bytes),
            *(
                of(f"stay: {part.reason.replace('_', ' ')}", part.files, part.allocated_bytes)
                for part in answer.needed.kept
            ),
            of("all regular files", total.files, total.allocated_bytes),
        ],
    )


def _groups_table(groups: GroupHorizons) -> Table | None:
    fullest = sorted(groups.groups, key=lambda entry: -entry.usage.fullness)
    left = len(fullest) - _GROUPS_MOST
    return table(
        (groups.groups[0].group.noun, "full>", "limit>", "over by>", "frees>", "leaves>", ""),
        (
            row(
                visible(entry.name),
                format_percent(entry.usage.fullness, 2),
                format_percent(entry.group.limit),
                format_bytes(entry.excess_bytes),
                format_bytes(entry.freed.allocated_bytes),
                fullness_text(entry.after),
                Cell(_STATUS[entry.status][0], tone=_STATUS[entry.status][1]),
            )
            for entry in fullest[:_GROUPS_MOST]
        ),
        f"{left:,} less full ones are left out." if left > 0 else "",
    )


_USERS: Final = 5


def evasion_document(signs: Signs, directory: Path) -> Document:
    """Return the signs, their possible meanings, and what was not checked."""
    root = signs.manifest.root.decode("utf-8", "surrogateescape")
    count = plural(len(signs.found), "sign").capitalize() if signs.found else "No sign"
    argv = ["trimtab", "purge", "query", "--index", str(directory)]
    rows = (
        row(
            sign.kind,
            owner_text(sign.uid),
            f"{sign.files:,}",
            format_bytes(sign.allocated_bytes),
            moment(sign.first_s),
            moment(sign.last_s),
        )
        for sign in signs.found
    )
    over = (f"not looked for: {kind}: {why}" for kind, why in signs.passed_over.items())
    more = (
        f"the files of the first: {shell_text([*argv, statement(sign)])}"
        for sign in signs.found[:1]
    )
    as_of = moment(signs.manifest.as_of_s)
    return Document(
        f"{count} of files kept artificially young: {root}, as of {as_of}.",
        (
            Section(
                lines=sentences((*_meanings(signs), *over)),
                tables=(table(("", "owner", "files>", "hold>", "from", "to"), rows, first=ROWS),),
            ),
            Section(lines=sentences(signs.notes), tone="warning"),
        ),
        more=tuple(more),
    )


def _meanings(signs: Signs) -> Iterator[str]:
    kinds = {sign.kind for sign in signs.found}
    for kind in KINDS:
        if kind in kinds:
            example = next(sign for sign in signs.found if sign.kind == kind)
            yield f"{kind}, of {owner_text(example.uid)}: {example.words}. It may be {MAY_BE[kind]}"
    if kinds:
        yield "None of this is proof, and no plan or run uses it: ask the owner."


def replay_document(replayed: PurgeReplayDocument) -> Document:
    """Return what would have been deleted, and its later use."""
    replay = replayed.replay
    deleted, missed = replay.deleted, replay.missed
    then, later, before = (
        utc_moment(datetime.fromtimestamp(at_s, UTC))
        for at_s in (replay.then_s, replay.later_s, replayed.before_s)
    )
    words = (
        f"tried on {then}, compared with {later}",
        f"deleting files last used before {before}",
        *replay.words,
    )
    outcomes = [row(outcome.value, *_numbers(share)) for outcome, share in replay.outcomes.items()]
    ages = [
        _missed(f"{age.from_days} to {age.from_days + 28}", age.deleted, age.missed)
        for age in replay.ages
    ]
    users = (_missed(owner_text(user.uid), user.deleted, user.missed) for user in replay.users)
    held = ("files>", "deleted>", "used since>", "part>")
    return Document(
        f"{plural(deleted.files, 'file', ',')} ({format_bytes(deleted.allocated_bytes)}) would "
        f"have been deleted; {missed.files:,} ({format_bytes(missed.allocated_bytes)}) of them "
        "were used later.",
        (
            Section(lines=sentences(words)),
            Section(
                "later use",
                tables=(table(("outcome", "files>", "held>"), outcomes, first=ALL),),
            ),
            Section("by age at the time", tables=(table(("days>", *held), ages, first=ALL),)),
            Section(
                "users who would have missed something",
                tables=(table(("user", *held), users, first=_USERS),),
            ),
        ),
    )


def _missed(name: str, deleted: Freed, missed: Freed) -> Row:
    whole = deleted.allocated_bytes
    part = format_percent(missed.allocated_bytes / whole) if whole else "-"
    return row(name, *_numbers(deleted), format_bytes(missed.allocated_bytes), part)


def _numbers(share: Freed) -> tuple[str, str]:
    return f"{share.files:,}", format_bytes(share.allocated_bytes)

"""Answers in one sentence: what a screen or a page begins with. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from trimtab.config.targets import fold_names
from trimtab.model.action import ActionKind, Instruction, Outcome
from trimtab.model.incident import NOTABLE, IncidentState
from trimtab.model.series import ChangeStatus
from trimtab.model.verdict import VerdictStatus
from trimtab.report.text import key_label
from trimtab.units import enumerated, format_percent, format_value, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.model.action import Action, Plan
    from trimtab.model.incident import Explanation, SpeedAt
    from trimtab.model.series import ChangePoint, SeriesJudgement, SeriesKey, SiteJudgement
    from trimtab.model.status import IncidentStatus, Status
    from trimtab.model.target import SiteState, TargetState, Trouble
    from trimtab.model.verdict import Verdict

HOLDS: Final = 0.5
"""Part of a change, in logarithms, that the present level has to show for the change to last."""
_RATIO_LEAST: Final = 1e-9
_NAMED: Final = 3


def series_label(series_judgement: SeriesJudgement) -> str:
    """Return a series in words, as ``hourly write bandwidth``, with what sets it apart."""
    return key_label(series_judgement.key)


def lasting_change(series_judgement: SeriesJudgement) -> ChangePoint | None:
    """Return the largest confirmed change that the present level still shows, if any.

    A change for the better that only brings back an earlier level is a recovery, and none.
    """
    level = series_judgement.regimes[-1].median if series_judgement.regimes else None
    lasting = (
        change
        for change in series_judgement.changes
        if change.status is ChangeStatus.CONFIRMED
        and change.effect is not None
        and change.of_unit is None
        and _lasts(change, level)
        and not _is_recovery(change, series_judgement)
    )
    return max(lasting, key=lambda change: size_of(change.effect), default=None)


def _lasts(change: ChangePoint, level: float | None) -> bool:
    if level is None or not change.before or change.effect is None:
        return False
    moved = _log(change.effect)
    return moved != 0 and _log(level / change.before) / moved >= HOLDS


def _is_recovery(change: ChangePoint, series_judgement: SeriesJudgement) -> bool:
    if is_worse(change.effect, series_judgement.key) or not change.after:
        return False
    earlier = (regime.median for regime in series_judgement.regimes if regime.to < change.at)
    near = (1 - HOLDS) * size_of(change.effect)
    return any(level and size_of(change.after / level) < near for level in earlier)


def is_worse(ratio: float | None, key: SeriesKey) -> bool:
    """Return whether a series that moved by a ratio is worse than before."""
    return ratio is not None and (ratio < 1 if key.more_is_better else ratio > 1)


def series_rank(series_judgement: SeriesJudgement) -> tuple[bool, float, int, str]:
    """Return where a series is listed: worse first, then by size of change, then by goal."""
    change = lasting_change(series_judgement)
    goals = (VerdictStatus.MISSED, VerdictStatus.CANNOT_TELL, VerdictStatus.MET)
    return (
        change is None or not is_worse(change.effect, series_judgement.key),
        0.0 if change is None else -size_of(change.effect),
        goals.index(series_judgement.verdict.status),
        series_label(series_judgement),
    )


def size_of(ratio: float | None) -> float:
    """Return how far a ratio is from 1, either way: the absolute logarithm; 0 where not known."""
    return 0.0 if ratio is None else abs(_log(ratio))


def _log(ratio: float) -> float:
    return math.log(max(ratio, _RATIO_LEAST))


def effect_text(ratio: float | None) -> str:
    """Return by how much a ratio differs from 1, in few figures.

    Examples
    --------
    >>> effect_text(0.1423), effect_text(1.032), effect_text(12.0), effect_text(None)
    ('-86 %', '+3.2 %', 'x 12', '')
    """
    if ratio is None:
        return ""
    if ratio >= 10:
        return f"x {ratio:.3g}"
    percent = 100 * (ratio - 1)
    return f"{percent:+.0f} %" if abs(percent) >= 9.95 else f"{percent:+.1f} %"


def judge_answer(judgement: SiteJudgement) -> str:
    """Return what became of a site's performance: the worst lasting change first."""
    slow = {straggler.target for tails in judgement.tails for straggler in tails.stragglers}
    return _sentences(
        _changes_answer(judgement.series),
        _goal_answer([series.verdict for series in judgement.series]),
        f"Slow targets: {_names(sorted(slow))}" if slow else "",
    )


def _changes_answer(series: Sequence[SeriesJudgement]) -> str:
    if not series:
        return "No series has runs to judge"
    standings = {id(entry): _standing(entry) for entry in series}
    changed = [(entry, change) for entry in series if (change := lasting_change(entry))]
    if not changed:
        return f"No lasting change of level; {_counted(standings.values(), '')}"
    entry, change = max(
        changed, key=lambda pair: (is_worse(pair[1].effect, pair[0].key), size_of(pair[1].effect))
    )
    others = [standing for key, standing in standings.items() if key != id(entry)]
    answer = f"{series_label(entry)} {effect_text(change.effect)} since {change.at:%Y-%m-%d}"
    return f"{answer}; {_counted(others, 'other ')}" if others else answer


def _standing(series_judgement: SeriesJudgement) -> str:
    if (change := lasting_change(series_judgement)) is not None:
        return "worse" if is_worse(change.effect, series_judgement.key) else "better"
    last = series_judgement.changes[-1] if series_judgement.changes else None
    return "may have changed" if last and last.status is ChangeStatus.SUSPECT else "steady"


def _counted(standings: Iterable[str], other: str) -> str:
    """Return ``3 other series steady``, or ``4 other series: 1 worse, 3 steady``."""
    counts = Counter(standings)
    if len(counts) == 1:
        ((word, count),) = counts.items()
        return f"{count:,} {other}series {word}"
    words = ("worse", "may have changed", "better", "steady")
    each = ", ".join(f"{counts[word]:,} {word}" for word in words if counts[word])
    return f"{counts.total():,} {other}series: {each}"


_GOAL_WORDS: Final = {
    VerdictStatus.MISSED: "missed by",
    VerdictStatus.MET: "met by",
    VerdictStatus.CANNOT_TELL: "cannot tell for",
}


def _goal_answer(verdicts: Sequence[Verdict]) -> str:
    """Return for how many series the goal is met."""
    if not verdicts:
        return ""
    goals = {verdict.goal for verdict in verdicts}
    (only, *more) = goals
    goal = "" if more or only is None else f" of {format_percent(only, 0)}"
    counts = Counter(verdict.status for verdict in verdicts)
    if len(verdicts) == 1:
        cov = verdicts[0].cov
        now = "" if cov is None else f" (COV {format_percent(cov)})"
        return f"COV goal{goal}: {_GOAL_WORDS[verdicts[0].status].rpartition(' ')[0]}{now}"
    each = ", ".join(
        f"{word} {counts[status]:,}" for status, word in _GOAL_WORDS.items() if counts[status]
    )
    return f"COV goal{goal}: {each}"


def status_answer(status: Status) -> str:
    """Return how sites are: what is open, then how many series meet their goal."""
    open_ = _open(status)
    slow = [entry.target for entry in status.slow_targets]
    suspects = sum(series.suspect is not None for series in status.series)
    of_sites = {series.site for series in status.series}
    searched = {entry.site for entry in status.judged}
    if not status.series:
        return "No run can be judged yet."
    return _sentences(
        _open_answer(open_, unsearched=len(of_sites - searched), sites=len(of_sites)),
        _goal_answer([series.verdict for series in status.series]),
        f"{plural(suspects, 'suspected change')}" if suspects else "",
        f"Slow targets: {_names(slow)}" if slow else "",
    )


def largest_open(status: Status) -> IncidentStatus | None:
    """Return the incident that the answer of a status names."""
    return max(_open(status), key=lambda entry: size_of(entry.effect), default=None)


def _open(status: Status) -> list[IncidentStatus]:
    return [entry for entry in status.incidents if entry.state == IncidentState.OPEN]


def _open_answer(open_: Sequence[IncidentStatus], *, unsearched: int, sites: int) -> str:
    if not open_ and unsearched == sites:
        return "Incidents not searched for yet"
    if not open_:
        rest = f"; {unsearched} of {sites} sites not searched yet" if unsearched else ""
        return f"No open incident{rest}"
    largest = max(open_, key=lambda entry: size_of(entry.effect))
    place = f" of {visible(largest.site)}" if sites > 1 else ""
    return _incident_sentence(
        len(open_), "open", f"{place} {short_summary(largest.summary)}", largest.cause
    )


def incidents_answer(explanations: Sequence[Explanation]) -> str:
    """Return the largest incident that goes on, with its cause, and how many others there are."""
    if not explanations:
        return "No incident found."
    counts = Counter(explanation.incident.state for explanation in explanations)
    first = min(explanations, key=rank)
    state = first.incident.state
    if state is IncidentState.ENDED:
        return f"No open incident; {plural(counts[state], 'incident', ',')} ended."
    cause = first.causes[0].title if first.causes and not first.unexplained else None
    others = [
        f"{counts[other]:,} {other.value}"
        for other in IncidentState
        if counts[other] and other is not state
    ]
    return _sentences(
        _incident_sentence(
            counts[state], state.value, f" {short_summary(first.incident.summary)}", cause
        ),
        f"In the record: {', '.join(others)}" if others else "",
    )


def _incident_sentence(count: int, state: str, largest: str, cause: str | None) -> str:
    why = f"cause: {visible(cause)}" if cause else "cause unknown"
    if count == 1:
        return f"{state.capitalize()} incident{largest}; {why}"
    return f"{count:,} {state} incidents; the largest{largest}; {why}"


def short_summary(summary: str) -> str:
    """Return an incident's summary with its first series alone, and how many others there are.

    Examples
    --------
    >>> short_summary("since 2026-03-08 02:05 UTC: a write 17 % lower; b read 18 % lower; 3 more")
    'since 2026-03-08 02:05 UTC: a write 17 % lower, with 4 others'
    """
    first, *others = visible(summary).split("; ")
    count = len(others)
    if others and (more := others[-1].removesuffix(" more")).isdecimal():
        count += int(more) - 1
    return f"{first}, with {count} other{'s' * (count != 1)}" if others else first


def explain_answer(
    about: Explanation, explanations: Sequence[Explanation], speeds: Sequence[SpeedAt]
) -> str:
    """Return how fast the runs of a moment were, and what the likeliest cause is.

    Parameters
    ----------
    about
        The moment.
    explanations
        Of the incidents that it lies in.
    speeds
        By series, the one that differs most first.
    """
    if explanations:
        incident = min(explanations, key=rank)
        reason = f"{incident.incident.state.value.capitalize()} incident, {cause_text(incident)}"
    else:
        reason = "In no incident"
    first = f"{visible(about.incident.summary)}: {_speeds_answer(speeds)}"
    return _sentences(first, reason)


def _speeds_answer(speeds: Sequence[SpeedAt]) -> str:
    known = [speed for speed in speeds if speed.ratio is not None]
    if not known:
        return "no run with a usual level to compare it with"
    notable = [speed for speed in known if abs((speed.ratio or 0.0) - 1) >= NOTABLE]
    if not notable:
        return f"{len(known)} series as fast as usual"
    speed = notable[0]
    answer = (
        f"{key_label(speed.key)} {effect_text(speed.ratio)} "
        f"from usual ({format_value(speed.value or 0.0, speed.key.unit)}, usually "
        f"{format_value(speed.usual, speed.key.unit)})"
    )
    if len(notable) > 1:
        answer += f"; {len(notable) - 1} more of {len(known)} series differ"
    usual = len(known) - len(notable)
    return f"{answer}; {usual} as usual" if usual else answer


def rank(explanation: Explanation) -> tuple[int, float, float]:
    """Return where an incident is listed: open ones first, then by the size of their effect."""
    incident = explanation.incident
    return (
        list(IncidentState).index(incident.state),
        -size_of(incident.effect),
        -incident.at.timestamp(),
    )


def cause_text(explanation: Explanation) -> str:
    """Return the likeliest cause with its probability, or that none is named."""
    if explanation.unexplained or not explanation.causes:
        return "cause unknown"
    cause = explanation.causes[0]
    return f"{visible(cause.title)} ({format_percent(cause.confidence, 0)})"


def targets_answer(state: SiteState) -> str:
    """Return how many targets are in trouble, and the gravest trouble with its targets."""
    troubled = [target for target in state.targets if target.troubles]
    count = plural(len(state.targets), "target", ",")
    if troubled:
        answer = f"{len(troubled):,} of {count} in trouble: {_gravest(troubled)}"
    else:
        answer = f"no trouble on {count}"
    machines = sum(bool(host.troubles) for host in state.hosts)
    silent = "" if state.snapshot.complete else "The snapshot is not complete"
    return _sentences(
        f"{visible(state.site)}: {answer}",
        f"{plural(machines, 'machine')} with troubles of their own" if machines else "",
        silent,
    )


def target_answer(state: SiteState, target_state: TargetState) -> str:
    """Return what is wrong with one target of a site, if anything."""
    target = target_state.seen.target
    where = visible(target.server or "an unknown server")
    words = "; ".join(visible(trouble.text) for trouble in target_state.troubles) or "no trouble"
    return _sentences(f"{visible(target_state.name)} of {visible(state.site)}, on {where}: {words}")


def _gravest(troubled: Sequence[TargetState]) -> str:
    """Return the worst trouble, of several the one of most targets, and how many others there are.

    Troubles of one kind count as one: their texts may differ in a figure or a device.
    """
    kinds: dict[str, list[tuple[str, Trouble]]] = {}
    for target in troubled:
        for trouble in target.troubles:
            kinds.setdefault(trouble.id, []).append((target.name, trouble))
    first, *others = sorted(
        kinds.values(),
        key=lambda cases: (min(trouble.severity.rank for _, trouble in cases), -len(cases)),
    )
    alike = "" if len({trouble.text for _, trouble in first}) == 1 else " and the like"
    where = _target_names([name for name, _ in first])
    rest = f"; {plural(len(others), 'other kind')} of trouble" if others else ""
    return f"{where}: {visible(first[0][1].text)}{alike}{rest}"


_PLANNED: Final = {
    ActionKind.SET: "would set {changed} of {targets}",
    ActionKind.TRIM: "would trim {targets}",
    ActionKind.CLOSE: "would close {targets} to new files",
    ActionKind.OPEN: "would open {targets} to new files",
    ActionKind.RESET_ALLOCATOR: "would reset the allocator of {targets}",
    ActionKind.MIGRATE: "would move {changed} off {targets}",
    ActionKind.REGISTER: "would register a changelog user on {targets}",
    ActionKind.DEREGISTER: "would remove the changelog user of {targets}",
}
_DONE: Final = {
    ActionKind.SET: "set {changed} of {targets}",
    ActionKind.TRIM: "trimmed {targets}",
    ActionKind.CLOSE: "closed {targets} to new files",
    ActionKind.OPEN: "opened {targets} to new files",
    ActionKind.RESET_ALLOCATOR: "reset the allocator of {targets}",
    ActionKind.MIGRATE: "moved {changed} off {targets}",
    ActionKind.REGISTER: "registered a changelog user on {targets}",
    ActionKind.DEREGISTER: "removed the changelog user of {targets}",
}
_FOLDED_MOST: Final = 40
"""Characters of a set of targets in an answer; a longer one is counted."""


def plan_answer(plan: Plan, actions: Sequence[Action] = ()) -> str:
    """Return what a plan would change or, once it was applied, what it changed and did not.

    Parameters
    ----------
    actions
        That were carried out; empty where the plan was only shown.
    """
    site = visible(plan.site)
    left = f"{plural(len(plan.untouched), 'difference', ',')} left alone" if plan.untouched else ""
    if actions:
        return f"{site}: {_applied(plan, actions)}{f'; {left}' if left else ''}."
    if plan.held:
        wish = f"; it {_kinds(plan.instructions, _PLANNED)}" if plan.instructions else ""
        return f"{site}: nothing may be changed now: {visible(str(plan.held[0]))}{wish}."
    if not plan.instructions:
        return f"{site}: nothing to change{f', {left}' if left else ''}."
    return f"{site}: {_kinds(plan.instructions, _PLANNED)}{f'; {left}' if left else ''}."


def _applied(plan: Plan, actions: Sequence[Action]) -> str:
    done = [action.instruction for action in actions if action.outcome is Outcome.DONE]
    failed = [action for action in actions if action.outcome is not Outcome.DONE]
    parts = [_kinds(done, _DONE)] if done else []
    if failed:
        first = failed[0]
        word = _outcome(first)
        why = f" ({visible(first.detail)})" if first.detail else ""
        parts.append(
            f"{len(failed):,} of {plural(len(actions), 'change', ',')} not done, the first: "
            f"{visible(first.instruction.target)} {word}{why}"
        )
    if (rest := len(plan.instructions) - len(actions)) > 0:
        parts.append(f"{rest:,} not begun")
    return "; ".join(parts)


def _kinds(instructions: Sequence[Instruction], words: dict[ActionKind, str]) -> str:
    """Return what instructions do, those of one kind together."""
    kinds: dict[ActionKind, list[Instruction]] = {}
    for instruction in instructions:
        kinds.setdefault(instruction.kind, []).append(instruction)
    return "; ".join(
        words[kind].format(
            changed=_changed(entries),
            targets=_target_names([entry.target for entry in entries]),
        )
        for kind, entries in kinds.items()
    )


def _changed(entries: Sequence[Instruction]) -> str:
    """Return the settings of instructions, a few by their short names, or how many files."""
    settings = dict.fromkeys(
        (entry.setting or "").rpartition("/")[2] for entry in entries if entry.setting
    )
    if not settings:
        return plural(len(entries), "file", ",")
    return visible(enumerated(settings, _NAMED))


def _target_names(names: Sequence[str]) -> str:
    """Return a few targets by name, more of them folded, and very many as a number."""
    folded = visible(fold_names(names))
    count = len(dict.fromkeys(names))
    return folded if len(folded) <= _FOLDED_MOST else plural(count, "target", ",")


def actions_answer(site: str, actions: Sequence[Action]) -> str:
    """Return how many changes were made to a site, how many did not succeed, and the last.

    Parameters
    ----------
    actions
        The oldest first.
    """
    if not actions:
        return f"{visible(site)}: nothing has been changed."
    outcomes = Counter(map(_outcome, actions))
    each = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common())
    last = actions[-1]
    if last.outcome is Outcome.DONE:
        words = _kinds([last.instruction], _DONE)
    else:
        kind = last.instruction.kind.value.replace("-", " ")
        words = f"{kind} of {visible(last.instruction.target)} {_outcome(last)}"
    count = plural(len(actions), "change", ",")
    at = f"{last.at.astimezone():%Y-%m-%d %H:%M}"
    return f"{visible(site)}: {count}, {each}; the last on {at}: {words}."


def _outcome(action: Action) -> str:
    return "begun" if action.outcome is None else action.outcome.value.replace("-", " ")


def _names(names: Sequence[str]) -> str:
    return enumerated(map(visible, dict.fromkeys(names)), _NAMED)


def _sentences(*texts: str) -> str:
    """Return texts as sentences, empty ones left out."""
    return " ".join(text if text.endswith(".") else f"{text}." for text in texts if text)

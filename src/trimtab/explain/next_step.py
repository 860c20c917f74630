"""The next step after an explanation: the measurement that decides, or what to look at. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from trimtab.base.error import Message, shell_text, site_word
from trimtab.base.incident import Incident, Shape
from trimtab.base.units import enumerated
from trimtab.explain.weighing import Weighed

_NAMES_SHOWN: Final = 3


def deciding(
    incident: Incident,
    shown: Sequence[Weighed],
    rest: Sequence[Weighed],
    *,
    has_site_file: bool,
    has_servers: bool,
) -> Message:
    """Return the measurement that separates the two likeliest causes, or the next thing to check.

    If no cause is likely, that is the slow target itself, else how to assess the causes that could
    not be assessed. Suggests nothing that the site cannot do.
    """
    if len(shown) >= 2 and shown[0].because_of != shown[1].cause.id:
        first, second = shown[0].cause, shown[1].cause
        text = f"{first.title}, or {second.title}? {_measurement(shown[0], incident)}"
        return Message("decide-between-two", text)
    if shown:
        text = f"{shown[0].cause.title}? {_measurement(shown[0], incident)}"
        return Message("decide-on-first", text)
    if incident.targets:
        return _look_at(incident, has_site_file=has_site_file, has_servers=has_servers)
    blind = [candidate for candidate in rest if not candidate.could_be_assessed]
    if not blind:
        advice = "" if incident.shape is Shape.MOMENT else f"; {_log_it(incident)}"
        return Message("no-evidence", f"no supporting evidence found{advice}")
    return _assessable(blind, incident, has_site_file=has_site_file)


@dataclass(frozen=True, slots=True)
class _Step:
    """What makes causes assessable, and the reasons of missing evidence that call for it."""

    code: str
    reasons: frozenset[str]
    advice: Callable[[Incident, bool], str]


def _assessable(blind: Sequence[Weighed], incident: Incident, *, has_site_file: bool) -> Message:
    """Return the step that lets most of the causes be assessed that could not be.

    It follows from what is missing, never from the likeliest of them: what was not looked at is no
    candidate, and its experiment decides nothing.
    """
    served = {
        step.code: [
            (candidate, why)
            for candidate in blind
            if (why := _first_reason(candidate, step.reasons)) is not None
        ]
        for step in _STEPS
    }
    step = max(_STEPS, key=lambda step: len(served[step.code]))  # the first of equal ones
    lacking = served[step.code]
    if lacking:
        causes, why = [candidate for candidate, _ in lacking], lacking[0][1]
    else:
        step, causes, why = _LOG, list(blind), _first_reason(blind[0], None)
    names = enumerated((candidate.cause.title for candidate in causes), _NAMES_SHOWN)
    reason = "" if why is None else f" ({why})"
    advice = step.advice(incident, has_site_file)
    return Message(step.code, f"not assessed: {names}{reason}; {advice}")


def _first_reason(candidate: Weighed, codes: frozenset[str] | None) -> Message | None:
    """Return the first reason of missing evidence of a cause with one of these codes, or any."""
    reasons = (piece.reason for piece in candidate.evidence if piece.reason is not None)
    return next((why for why in reasons if codes is None or why.code in codes), None)


def _take_snapshots(incident: Incident, has_site_file: bool) -> str:
    site = site_word(incident.site)
    if not has_site_file:
        watch = "write a site file (trimtab init PATH --out FILE), then take snapshots from now on"
        return _and_log(f"{watch} (trimtab watch FILE)", incident)
    if incident.until is None:
        return (
            f"take snapshots while it lasts: trimtab watch {site} (trimtab snapshot {site} takes "
            "one at once)"
        )
    return _and_log(f"take snapshots from now on: trimtab watch {site}", incident)


def _complete_snapshots(incident: Incident, has_site_file: bool) -> str:
    """Return how to get what the snapshots of these hours lack, such as an imported ``lfs df``."""
    if not has_site_file:
        return _take_snapshots(incident, has_site_file)
    site = site_word(incident.site)
    return _and_log(
        f"take complete snapshots, of servers and clients: trimtab watch {site} (trimtab snapshot "
        f"{site} shows which machines answer)",
        incident,
    )


def _survey_targets(incident: Incident, has_site_file: bool) -> str:
    if not has_site_file:
        text = "measure single targets (obdfilter-survey); trimtab import FILE stores the output"
        return _and_log(text, incident)
    when = "while it lasts" if incident.until is None else "regularly, when all is well too"
    return _and_log(
        f"survey single targets {when}: trimtab survey {site_word(incident.site)}", incident
    )


def _and_log(advice: str, incident: Incident) -> str:
    """Return advice for the next incident with that for one that is over, which it cannot help."""
    if incident.until is None or incident.shape is Shape.MOMENT:
        return advice
    return f"{advice}; for this one, {_log_it(incident)}"


_LOG: Final = _Step(
    "log-changes",
    frozenset({"log-empty", "log-not-kept"}),
    lambda incident, _: _log_it(incident),
)
_STEPS: Final = (
    _Step(
        "take-snapshots",
        frozenset({
            "no-snapshots", "no-bad-snapshots", "no-settings", "no-bad-value", "no-good-value",
            "no-rate", "name-not-compared", "too-few-counts", "trims-unknown",
        }),
        _take_snapshots,
    ),
    _Step(
        "complete-snapshots",
        frozenset({
            "name-missing", "name-not-available", "client-settings-unknown", "sizes-unknown",
        }),
        _complete_snapshots,
    ),
    _Step(
        "survey-targets",
        frozenset({"no-survey", "no-bad-survey", "no-good-survey"}),
        _survey_targets,
    ),
    _LOG,
)  # fmt: skip
"""Of steps that serve as many causes, the first is advised."""

_SITE: Final = re.compile(r"\bSITE\b")
"""Marks a measurement that names a command."""


def _measurement(candidate: Weighed, incident: Incident) -> str:
    return _SITE.sub(lambda _: site_word(incident.site), candidate.deciding)


def _log_it(incident: Incident) -> str:
    """Return how to add what snapshots cannot show: knowledge of people and other systems."""
    event = shell_text(["trimtab", "event", "add", incident.site, "--kind", "config-change"])
    return (
        f"log what changed then ({event} --at {incident.at:%Y-%m-%dT%H:%MZ} WORDS), or import what "
        "was recorded then (trimtab import FILE)"
    )


def _look_at(incident: Incident, *, has_site_file: bool, has_servers: bool) -> Message:
    """Return checks of the targets that are slow by themselves, if no cause is likely."""
    names = enumerated(incident.targets, _NAMES_SHOWN)
    if not has_site_file:
        text = (
            f"look at {names}: server, drives (smartctl), rebuild (mdstat), and a raw test "
            "(obdfilter-survey); trimtab import FILE stores the output"
        )
        return Message("look-at-target", text)
    site, targets = site_word(incident.site), incident.targets[:_NAMES_SHOWN]
    survey = "".join(f" --target {shell_text([target])}" for target in targets)
    raw = " --server" if has_servers else ""
    text = (
        f"look at {names}: server, drives, SMART, rebuild (trimtab targets {site} "
        f"{shell_text(targets)}), and a raw test (trimtab survey {site}{raw}{survey})"
    )
    return Message("look-at-target", text)

"""The next step after an explanation: the measurement that decides, or what to look at. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
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

    If no cause is likely, that is the slow target itself, else how to assess the likeliest cause
    that could not be assessed. Suggests nothing that the site cannot do.
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
    names = enumerated((candidate.cause.title for candidate in blind), _NAMES_SHOWN)
    reason = next((piece.reason for piece in blind[0].evidence if piece.reason is not None), None)
    if reason is None or reason.code not in _NO_SNAPSHOTS:
        advice = _measurement(blind[0], incident)
    elif has_site_file and incident.until is None:
        advice = f"take one while it lasts: trimtab snapshot {site_word(incident.site)}"
    else:
        advice = _log_it(incident)
    why = "" if reason is None else f" ({reason})"
    return Message("not-assessed", f"not assessed: {names}{why}; {advice}")


_NO_SNAPSHOTS: Final = frozenset({"no-snapshots", "no-bad-snapshots"})
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

"""Troubles of targets and servers as findings, each with its repair. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trimtab.config.problems import NAME
from trimtab.config.targets import fold_names
from trimtab.explain.troubles import slow_trouble
from trimtab.model.finding import Finding, Fix, Seen, Severity
from trimtab.model.status import SlowTargetStatus
from trimtab.model.target import SiteState, Trouble
from trimtab.units import plural

_EVIDENCE_MAXIMUM: Final = 50
_NAMES_LONGEST: Final = 40
"""Characters of a set of targets in a title; a longer one is counted."""


@dataclass(frozen=True, slots=True)
class _Advice:
    """Why a trouble matters, and what to do about it.

    Attributes
    ----------
    command
        Of Trimtab, which the site's name ends: it works with a site file alone.
    """

    why: str
    do: str
    command: tuple[str, ...] = ()


_ADVICE: Final = {
    "lost": _Advice(
        "Files with data there cannot be read or written: access blocks or fails. Its space counts "
        "in no sum, so the file system looks emptier and healthier than it is.",
        "See on its server why it is not mounted (lctl dl, the kernel log), and mount it; until "
        "then close it to new objects on every MDS (osp.*.max_create_count=0).",
    ),
    "disconnected": _Advice(
        "Who is not connected cannot reach the files on it; others may.",
        "See the import on the machine that is named (lctl get_param *.*.import), and its network.",
    ),
    "not-seen": _Advice("Nothing is known of its state.", "See why its server does not answer."),
    "two-servers": _Advice(
        "Two servers that write to the same device destroy the file system on it.",
        "Unmount it on one of them at once, then check the file system (e2fsck).",
    ),
    "failed-over": _Advice(
        "Two servers' load is on one, and there is no partner left for it.",
        "Move it back to its home when that is healthy.",
    ),
    "read-only": _Advice(
        "Writes to files on it fail, while Lustre goes on calling it healthy.",
        "If a flag of Lustre is the source (readonly=1), set it back. Otherwise see the kernel log "
        "of its server; unmount it, run e2fsck, mount it again.",
    ),
    "may-be-read-only": _Advice(
        "After an error the file system beneath takes no writes, and no flag of Lustre shows it.",
        "See the kernel log of its server for an aborted journal.",
    ),
    "file-system-errors": _Advice(
        "The file system beneath found itself damaged.",
        "Unmount it in a maintenance window and run e2fsck.",
    ),
    "degraded": _Advice(
        "Reads and writes are slower while the array rebuilds, and one failure more may lose data. "
        "The MDS gives it fewer new objects.",
        "Replace the failed drive; clear obdfilter.*.degraded where the array is whole again.",
    ),
    "closed": _Advice(
        "No new file gets objects there: the others take its share of space and bandwidth.",
        "If nobody closed it on purpose, set the named parameter back, on every MDS.",
    ),
    "partly-closed": _Advice(
        "Files that other MDTs create still get objects there: the load is uneven.",
        "Set the named parameter alike on every MDS.",
    ),
    "bad-checksums": _Advice(
        "Data was altered on the way between client and server.",
        "See the kernel log for the addresses, and test that network path and memory.",
    ),
    "media-errors": _Advice(
        "The drive lost data or is about to.", "Replace the drive that is named."
    ),
    "over-limit": _Advice(
        "The allocator and flash slow down as free space shrinks; at the end writes fail there, "
        "with room elsewhere.",
        "Purge or move files from it (lfs find --ost, lfs migrate); close it to new files.",
        ("trimtab", "balance"),
    ),
    "inodes": _Advice(
        "Without free inodes nothing can be created there.", "Remove files, or add a target."
    ),
    "throttled": _Advice(
        "Writeback throttling holds flash back for no gain.",
        'Turn it off: in the site file, [policy.tunables] settings = {wbt_lat_usec = "0"}; then '
        "show what that changes.",
        ("trimtab", "tune"),
    ),
    "slow": _Advice(
        "A file striped over it is read and written at its rate.",
        "Look at its server, drives and array: rebuild, media errors, link; then measure it alone.",
        ("trimtab", "targets"),
    ),
    "no-discard": _Advice(
        "The drives never learn what is free: they slow down as they fill.",
        "Check the layers beneath for one that drops discards.",
    ),
    "no-answer": _Advice(
        "Of what it serves only the clients' view is known.",
        "See whether it is up and reachable: trimtab site SITE --validate.",
    ),
    "partial-answer": _Advice(
        "What did not come may hide a trouble.", "See the message: a right or a program is missing."
    ),
    "no-atime": _Advice(
        "Files that are read through it look unused: a purge would take them.",
        "Mount it without noatime, or do not let atime count.",
    ),
    "mixed-versions": _Advice(
        "Half an upgrade: servers differ in behaviour.", "Finish the upgrade."
    ),
}
_CLOSED_BY: Final = (
    (
        ("ENOSPC", "(out of space)"),
        _Advice(
            "It is full: writes to files on it fail, with room elsewhere, and no new file gets "
            "objects there.",
            "Purge or move files from it (lfs find --ost, lfs migrate): it opens by itself once "
            "there is room.",
        ),
    ),
    (
        (".readonly=1", "(read-only)"),
        _Advice(
            "Nothing is created on a target that is read-only.",
            "Make it writable again: it then takes new objects by itself.",
        ),
    ),
)
"""What closes a target that nobody closed: words of the source, and what to do then."""
_OTHER: Final = _Advice("It keeps the target from being whole.", "See the named source.")


def state_findings(
    state: SiteState | None, slow: Sequence[SlowTargetStatus] = (), *, site: str = ""
) -> tuple[Finding, ...]:
    """Return one finding for each kind of trouble, with every target or machine that has it.

    Parameters
    ----------
    state
        As `trimtab.explain.troubles.site_state` returns it; ``None``: no snapshot is known.
    slow
        Targets that surveys show to be slow: those that the state lacks are named all the same.
    site
        Name of the site where there is no state.
    """
    places = [] if state is None else [*state.targets, *state.hosts]
    known = {place.name for place in places}
    named = [(place.name, trouble) for place in places for trouble in place.troubles]
    named += [(each.target, slow_trouble(each)) for each in slow if each.target not in known]
    kinds: dict[tuple[str, Severity, _Advice], list[tuple[str, Trouble]]] = {}
    for name, trouble in named:
        kind = trouble.id, trouble.severity, _advice(trouble)
        kinds.setdefault(kind, []).append((name, trouble))
    site = site if state is None else state.site
    findings = [_finding(site, *kind, rows) for kind, rows in kinds.items()]
    return tuple(
        sorted(findings, key=lambda finding: (finding.severity.rank, -len(finding.evidence)))
    )


def _advice(trouble: Trouble) -> _Advice:
    """Return what to do about a trouble: of a closed target that depends on what closes it."""
    if trouble.id == "closed":
        for words, advice in _CLOSED_BY:
            if any(word in (trouble.source or "") for word in words):
                return advice
    return _ADVICE.get(trouble.id, _OTHER)


def _finding(
    site: str, id_: str, severity: Severity, advice: _Advice, rows: list[tuple[str, Trouble]]
) -> Finding:
    (name, trouble), *others = rows
    names = fold_names(name for name, _ in rows)
    shown = names if len(names) <= _NAMES_LONGEST else plural(len(rows), "target", ",")
    # Texts of one kind may differ in a figure or a device.
    alike = "" if all(other.text == trouble.text for _, other in others) else " and the like"
    # A path without a site file has no policies.
    command = (*advice.command, site) if advice.command and NAME.fullmatch(site) else ()
    if id_ == "slow" and command and not others:
        command = (*command, name)
    return Finding(
        id=id_,
        severity=severity,
        title=f"{shown}: {trouble.text}{alike}",
        target=None if others else name,
        seen=Seen(shown, None, id_, trouble.source),
        source=trouble.source,
        why=advice.why,
        fix=Fix(advice.do, command),
        confidence=1.0 if severity is Severity.CRITICAL else 0.9,
        evidence=tuple(
            Seen(other.text, None, other_name, other.source)
            for other_name, other in (rows if others else ())[:_EVIDENCE_MAXIMUM]
        ),
    )

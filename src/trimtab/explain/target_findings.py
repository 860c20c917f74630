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
"""Maximum characters of a set of targets in a title; a longer set is counted."""


@dataclass(frozen=True, slots=True)
class _Advice:
    """Why a trouble matters, and how to fix it.

    Attributes
    ----------
    command
        Trimtab command, to which the site's name is appended: needs only a site file.
    """

    why: str
    do: str
    command: tuple[str, ...] = ()


_ADVICE: Final = {
    "lost": _Advice(
        "Files with data there cannot be read or written: access blocks or fails. Its space is "
        "missing from all sums, so the file system looks emptier and healthier than it is.",
        "Find out on its server why it is not mounted (lctl dl, kernel log), and mount it; until "
        "then close it to new objects on every MDS (osp.*.max_create_count=0).",
    ),
    "disconnected": _Advice(
        "Clients without a connection cannot reach the files on it; others may.",
        "Check the import on the named machine (lctl get_param *.*.import), and its network.",
    ),
    "not-seen": _Advice("Its state is unknown.", "Find out why its server does not answer."),
    "two-servers": _Advice(
        "Two servers that write to the same device destroy the file system on it.",
        "Unmount it on one of them at once, then check the file system (e2fsck).",
    ),
    "failed-over": _Advice(
        "One server carries the load of two, and has no failover partner left.",
        "Move it back to its home when that is healthy.",
    ),
    "read-only": _Advice(
        "Writes to files on it fail, while Lustre still reports it as healthy.",
        "If a Lustre flag is the source (readonly=1), reset it. Otherwise check the kernel log "
        "of its server; unmount the target, run e2fsck, and mount it again.",
    ),
    "may-be-read-only": _Advice(
        "After an error the underlying file system accepts no writes, and no Lustre flag shows it.",
        "Check the kernel log of its server for an aborted journal.",
    ),
    "file-system-errors": _Advice(
        "The underlying file system found itself damaged.",
        "Unmount it in a maintenance window and run e2fsck.",
    ),
    "degraded": _Advice(
        "Reads and writes are slower while the array rebuilds, and one more failure may lose data. "
        "The MDS gives it fewer new objects.",
        "Replace the failed drive; clear obdfilter.*.degraded when the array is intact again.",
    ),
    "closed": _Advice(
        "New files get no objects there: the others take over its share of space and bandwidth.",
        "Unless it was closed on purpose, set the named parameter back on every MDS.",
    ),
    "partly-closed": _Advice(
        "Files created by other MDTs still get objects there: the load is uneven.",
        "Set the named parameter to the same value on every MDS.",
    ),
    "bad-checksums": _Advice(
        "Data was corrupted between client and server.",
        "Check the kernel log for the addresses, and test that network path and memory.",
    ),
    "media-errors": _Advice("The drive lost data or is about to.", "Replace the named drive."),
    "over-limit": _Advice(
        "The allocator and flash slow down as free space shrinks; in the end writes fail there, "
        "although other targets have room.",
        "Purge or move files from it (lfs find --ost, lfs migrate); close it to new files.",
        ("trimtab", "balance"),
    ),
    "inodes": _Advice(
        "Without free inodes no file can be created there.", "Remove files, or add a target."
    ),
    "throttled": _Advice(
        "Writeback throttling slows flash for no gain.",
        'Turn it off: in the site file, [policy.tunables] settings = {wbt_lat_usec = "0"}; then '
        "show what that changes.",
        ("trimtab", "tune"),
    ),
    "slow": _Advice(
        "A file striped over it is read and written at its rate.",
        "Check its server, drives and array: rebuild, media errors, link; then measure it alone.",
        ("trimtab", "targets"),
    ),
    "no-discard": _Advice(
        "The drives never learn which blocks are free: they slow down as they fill.",
        "Find the layer beneath that drops discards.",
    ),
    "no-answer": _Advice(
        "For its targets only the clients' view is known.",
        "Check that it is up and reachable: trimtab site SITE --validate.",
    ),
    "partial-answer": _Advice(
        "The missing part may hide a trouble.",
        "See the message: a permission or a program is missing.",
    ),
    "no-atime": _Advice(
        "Files read through it look unused: a purge would delete them.",
        "Mount it without noatime, or do not let atime count.",
    ),
    "mixed-versions": _Advice(
        "Half an upgrade: servers behave differently.", "Finish the upgrade."
    ),
}
_CLOSED_BY: Final = (
    (
        ("ENOSPC", "(out of space)"),
        _Advice(
            "It is full: writes to files on it fail, although other targets have room, and new "
            "files get no objects there.",
            "Purge or move files from it (lfs find --ost, lfs migrate): it opens by itself when "
            "there is room.",
        ),
    ),
    (
        (".readonly=1", "(read-only)"),
        _Advice(
            "No objects are created on a read-only target.",
            "Make it writable again: it then accepts new objects by itself.",
        ),
    ),
)
"""Conditions that close a target by themselves: words of the source, and the remedy."""
_OTHER: Final = _Advice("It keeps the target from full health.", "See the named source.")


def state_findings(
    state: SiteState | None, slow: Sequence[SlowTargetStatus] = (), *, site: str = ""
) -> tuple[Finding, ...]:
    """Return one finding per kind of trouble, with every target or machine that has it.

    Parameters
    ----------
    state
        From `trimtab.explain.troubles.site_state`; ``None``: no snapshot is known.
    slow
        Targets that surveys show to be slow, including those missing from the state.
    site
        Name of the site if there is no state.
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
    """Return the advice for a trouble; for a closed target it depends on what closes it."""
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

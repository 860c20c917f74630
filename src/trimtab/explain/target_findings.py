"""Troubles of targets and servers as findings: what `targets` lists, `check` names too. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trimtab.model.finding import Finding, Fix, Seen, Severity
from trimtab.model.target import SiteState, Trouble
from trimtab.units import enumerated, plural

_EVIDENCE_MAXIMUM: Final = 50


@dataclass(frozen=True, slots=True)
class _Advice:
    """Why a trouble matters, and what to do about it."""

    why: str
    do: str


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
        "See the kernel log of its server; unmount it, run e2fsck, mount it again.",
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
        "Purge or move files from it (lfs find --ost, lfs migrate).",
    ),
    "inodes": _Advice(
        "Without free inodes nothing can be created there.", "Remove files, or add a target."
    ),
    "throttled": _Advice(
        "Writeback throttling holds flash back for no gain.",
        "Turn it off: wbt_lat_usec = 0 in the device's queue.",
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
_OTHER: Final = _Advice("It keeps the target from being whole.", "See the named source.")


def state_findings(state: SiteState) -> tuple[Finding, ...]:
    """Return one finding for each kind of trouble, with every target or machine that has it.

    Parameters
    ----------
    state
        As `trimtab.explain.troubles.site_state` returns it.
    """
    kinds: dict[tuple[str, Severity], list[tuple[str, Trouble]]] = {}
    for name, troubles in (
        *((target.name, target.troubles) for target in state.targets),
        *((host.name, host.troubles) for host in state.hosts),
    ):
        for trouble in troubles:
            kinds.setdefault((trouble.id, trouble.severity), []).append((name, trouble))
    findings = [_finding(id_, severity, rows) for (id_, severity), rows in kinds.items()]
    return tuple(sorted(findings, key=lambda finding: finding.severity.rank))


def _finding(id_: str, severity: Severity, rows: list[tuple[str, Trouble]]) -> Finding:
    advice = _ADVICE.get(id_, _OTHER)
    (name, trouble), *others = rows
    names = [name for name, _ in rows]
    shown = enumerated(names)
    same = all(other.text == trouble.text for _, other in others)
    text = trouble.text if same else f"{plural(len(rows), 'target')}, the first: {trouble.text}"
    return Finding(
        id=id_,
        severity=severity,
        title=f"{shown}: {text}",
        target=None if others else name,
        seen=Seen(shown, None, id_, trouble.source),
        source=trouble.source,
        why=advice.why,
        fix=Fix(advice.do),
        confidence=1.0 if severity is Severity.CRITICAL else 0.9,
        evidence=tuple(
            Seen(other.text, None, other_name, other.source)
            for other_name, other in (rows if others else ())[:_EVIDENCE_MAXIMUM]
        ),
    )
